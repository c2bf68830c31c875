"""The logistic engines: all K(K−1)/2 logistic regressions in one batched solve.

A *problem* is one logistic regression: a duel, or a duel on a fold. docs/architecture.md draws the
way of a fit. These are the files, roughly in the order in which a fit goes through them:

- `_engine` (`LogisticDuels`) and `_cv` (`LogisticDuelsCV`): what users see. Their parent `_linear`
  predicts, with `_margins` and `_counting` (how many duels a label wins). Of more than 256 labels
  `_tally` counts the wins of dense points, and `_first_places` finds the best without most duels;
- `_rows` and `_columns`: training rows and parameters, checked; `_strength`: C by their scale;
  `_extremes`: numbers that are too large, too small, or need care;
- `_fit`: the fit in memory, and the driver that solves all duels in every fit; `_blocks` and
  `_tiles` are the fits from blocks of rows, `_folds` and `_fold_search` fit models on folds for
  `_cv`;
- `row_space`: duels with fewer rows than features, which have a solver of their own;
- `_assembly`: the objective of the duels, with C and class weights, and their problems, made of
  `_groups` (rows that take part in the same problems), `_table` (the rows, scaled) and `_plan`
  (which duels are solved together);
- `_newton`: the solver, which adds the penalty and stops a problem by its Newton decrement, with
  `_line_search`, `_conjugate_gradients` and `_preconditioner`;
- `_certificate`: checks duels that need care on the rows as they are, and solves them again;
- `_problems`: what the solver asks of rows, answered by rows in memory; `_passes` answers by passes
  over blocks of rows;
- `_batch` and `_loss`: groups of rows in arrays, and the loss with its derivatives;
- `_result` and `_checkpoint`: what is known of all duels, and the file from which a fit goes on;
- `_kept`: what a fitted engine keeps, coefficients of features or of rows;
- `_update`: rows that come later, and labels that come and go.
"""

from duelrank.duels.logistic._cv import LogisticDuelsCV
from duelrank.duels.logistic._engine import LogisticDuels

__all__ = ["LogisticDuels", "LogisticDuelsCV"]
