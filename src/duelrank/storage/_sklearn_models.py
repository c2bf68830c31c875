"""What is private inside scikit-learn's fitted models.

It is apart from `duelrank._sklearn`, because it imports trees, boosting and support vectors.
"""

from __future__ import annotations

from typing import Any

from sklearn import calibration
from sklearn._loss._loss import CyHalfBinomialLoss
from sklearn._loss.link import Interval, LogitLink
from sklearn._loss.loss import HalfBinomialLoss
from sklearn.calibration import _CalibratedClassifier as CalibratedClassifier
from sklearn.calibration import _SigmoidCalibration as SigmoidCalibration
from sklearn.compose import _column_transformer
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper as BinMapper
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.metrics._scorer import _PassthroughScorer as PassthroughScorer
from sklearn.metrics._scorer import _Scorer as Scorer
from sklearn.svm._base import BaseLibSVM
from sklearn.tree._tree import NODE_DTYPE, Tree
from sklearn.utils._metadata_requests import MetadataRequest, MethodMetadataRequest

# Not in all versions.
TemperatureScaling: Any = getattr(calibration, "_TemperatureScaling", type(None))
RemainderColumns: Any = getattr(_column_transformer, "_RemainderColsList", type(None))

__all__ = [
    "NODE_DTYPE",
    "PREDICTOR_RECORD_DTYPE",
    "BaseGradientBoosting",
    "BaseLibSVM",
    "BinMapper",
    "CalibratedClassifier",
    "CyHalfBinomialLoss",
    "HalfBinomialLoss",
    "Interval",
    "LogitLink",
    "MetadataRequest",
    "MethodMetadataRequest",
    "PassthroughScorer",
    "RemainderColumns",
    "Scorer",
    "SigmoidCalibration",
    "TemperatureScaling",
    "Tree",
    "TreePredictor",
]
