"""Competitors: the field's other ways to learn label ranking, behind the interface of `DuelRanker`.

All of them learn from labels, top-m lists and rankings (`duelrank.feedback` says how these are
read), rank all labels of a point, and are scikit-learn estimators. They are here to be compared
with, each a page of code over scikit-learn and SciPy.

- `NeighborsRanker`: the *ranking median* of the nearest rows, the ranking closest to theirs
  (Cheng, Hühn & Hüllermeier 2009; Clémençon, Korba & Sibony 2018).
- `RankingTree`, `RankingForest`: cells of a tree in place of neighbourhoods (Cheng, Hühn &
  Hüllermeier 2009; Yu, Wan & Lee 2011).
- `StructuredRanker`: rankings embedded as vectors, kernel ridge regression, and the ranking whose
  vector is closest to the prediction (Korba, Garcia & d'Alché-Buc 2018).
- `SubsetRanker`: one multiclass problem per two or three labels, whose classes are their orders
  (Hüllermeier et al. 2008; Brinker & Hüllermeier 2019).
- `LabelwiseRanker`: one regression of its place per label (Cheng, Henzgen & Hüllermeier 2013).
- `MulticlassRanker`: the scores of a classifier that knows only the first labels.

References
----------
- K. Brinker, E. Hüllermeier. A reduction of label ranking to multiclass classification.
  ECML PKDD, 2019.
- W. Cheng, S. Henzgen, E. Hüllermeier. Labelwise versus pairwise decomposition in label ranking.
  Lernen, Wissen & Adaptivität, 2013.
- W. Cheng, J. Hühn, E. Hüllermeier. Decision tree and instance-based learning for label ranking.
  ICML, 2009.
- S. Clémençon, A. Korba, E. Sibony. Ranking median regression: learning to order through local
  consensus. ALT, 2018.
- E. Hüllermeier, J. Fürnkranz, W. Cheng, K. Brinker. Label ranking by learning pairwise
  preferences. Artificial Intelligence 172, 2008.
- A. Korba, A. Garcia, F. d'Alché-Buc. A structured prediction approach for label ranking.
  NeurIPS, 2018.
- P. L. H. Yu, W. M. Wan, P. H. Lee. Decision tree modeling for ranking data. In: Preference
  Learning, Springer, 2011.

>>> from sklearn.datasets import load_iris
>>> X, y = load_iris(return_X_y=True)
>>> NeighborsRanker(random_state=0).fit(X, y).predict_order(X[[70, 120]])
array([[1, 2, 0],
       [2, 1, 0]])
"""

from duelrank.competitors._labelwise import LabelwiseRanker
from duelrank.competitors._multiclass import MulticlassRanker
from duelrank.competitors._neighbors import NeighborsRanker
from duelrank.competitors._structured import StructuredRanker
from duelrank.competitors._subsets import SubsetRanker
from duelrank.competitors._trees import RankingForest, RankingTree

__all__ = [
    "LabelwiseRanker",
    "MulticlassRanker",
    "NeighborsRanker",
    "RankingForest",
    "RankingTree",
    "StructuredRanker",
    "SubsetRanker",
]
