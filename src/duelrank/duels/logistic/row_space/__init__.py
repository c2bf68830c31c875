"""Duels solved in the space of their rows, for data with more features than a duel has rows.

Text and embeddings are such data: a duel sees a few hundred rows of thousands of features, and its
solution lies in the span of these rows. Products between rows are computed once; Newton's method
then works on one coefficient for every row. The objective, the minimum and the certificate are
those of `duelrank.duels.logistic._newton`.

- `_appearances`: which rows speak for which labels, and the layout of their coefficients;
- `_products`: products between rows, dense or sparse;
- `_duels`: which duels go by rows, which are solved together, and their problems;
- `_gram`: Gram matrices of many duels, and products with them;
- `_newton`: the solver;
- `_fit`: the fit of all duels that go by rows; `_folds` fits models on folds for `LogisticDuelsCV`.
"""

from duelrank.duels.logistic.row_space._appearances import Appearances as Appearances
from duelrank.duels.logistic.row_space._duels import DuelsInRows as DuelsInRows
from duelrank.duels.logistic.row_space._fit import plan_by_rows as plan_by_rows
from duelrank.duels.logistic.row_space._fit import solve_by_rows as solve_by_rows
from duelrank.duels.logistic.row_space._folds import RowFoldSearch as RowFoldSearch
