"""What is private inside scikit-learn's fitted models.

It is apart from `duelrank._sklearn`, because it imports trees, boosting and support vectors.
"""

from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.svm._base import BaseLibSVM
from sklearn.tree._tree import NODE_DTYPE, Tree

__all__ = [
    "NODE_DTYPE",
    "PREDICTOR_RECORD_DTYPE",
    "BaseGradientBoosting",
    "BaseLibSVM",
    "Tree",
    "TreePredictor",
]
