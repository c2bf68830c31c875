"""Exported models that run, and what rounding may do to them."""

import numpy as np
import onnx
import onnxruntime
from scipy.special import expit

from duelrank import DuelRanker, LogisticDuels, pairs
from duelrank._pairs import square
from duelrank.export import to_onnx
from duelrank.rankings import ranks_from_scores
from duelrank.tournaments import copeland_from_wins, soft_from_wins

BATCH = 500  # rows at a time: a graph holds K² numbers for each


def session_of(exported):
    """Check a model and open it."""
    onnx.checker.check_model(exported, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        exported.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def answers(model, X, outputs=("ranks",), dtype="float32", **options):
    """Export a model and ask it about rows; return its outputs by name."""
    session = session_of(to_onnx(model, outputs=outputs, dtype=dtype, **options))
    X = np.asarray(X, dtype=dtype) if np.asarray(X).dtype.kind != "O" else X
    parts = [session.run(None, {"X": X[i : i + BATCH]}) for i in range(0, len(X), BATCH)]
    return {name: np.concatenate(of) for name, of in zip(outputs, zip(*parts, strict=True))}


def random_ranker(rng, n_classes, n_features=6, **params):
    """A ranker whose duels have random coefficients, so that wins tie often."""
    n_duels = len(pairs(n_classes)[0])
    engine = LogisticDuels()
    engine.coef_ = rng.normal(size=(n_duels, n_features))
    engine.intercept_ = rng.normal(size=n_duels)
    engine.n_classes_ = n_classes
    ranker = DuelRanker(engine, random_state=0, **params)
    ranker.duels_, ranker.classes_ = engine, np.arange(n_classes)
    ranker.label_order_ = rng.permutation(n_classes)
    if ranker.ties == "index":
        ranker.label_order_ = np.arange(n_classes)
    ranker.n_features_in_ = engine.n_features_in_ = n_features
    return ranker


class Rounding:
    """What single precision may change in the rankings of linear duels.

    A product of d numbers, each rounded, is wrong by no more than (d + 4) ε Σ |x_j w_j|, ε the
    precision of float32. A duel is *close* if its margin is no larger than that. Expected wins are
    wrong by a quarter of the sum of these bounds at most, as the slope of the probability is.
    """

    def __init__(self, ranker, points):
        engine, n_classes = ranker.duels_, len(ranker.classes_)
        points = np.asarray(points, dtype=np.float64)
        coef, intercept = engine.duel_coefficients(np.arange(len(pairs(n_classes)[0])))
        factor = (points.shape[1] + 4) * np.finfo(np.float32).eps
        self.margins = points @ coef.T + intercept
        bound = factor * (np.abs(points) @ np.abs(coef).T + np.abs(intercept))
        place = np.argsort(ranker.label_order_)
        beats = square(self.margins, n_classes)
        favoured = place[:, np.newaxis] < place
        self.wins = ((beats > 0) | ((beats == 0) & favoured)).sum(axis=2)
        self.expected = expit(beats).sum(axis=2) - 0.5
        bound_of = np.abs(square(bound, n_classes))
        close = np.abs(beats) <= bound_of
        self.n_close = close.sum(axis=2) - 1  # without the diagonal
        self.slack = bound_of.sum(axis=2) / 4 + 1e-9
        self.ranker = ranker

    def ranks(self):
        """The rankings in double precision."""
        copeland = copeland_from_wins(
            self.wins, self.expected, self.ranker.ties, self.ranker.label_order_
        )
        soft = self.ranker.aggregation == "expected_wins"
        return ranks_from_scores(soft_from_wins(copeland, self.expected) if soft else copeland)

    def may_differ(self):
        """Rows with a close duel, or with two labels between which rounding could decide."""
        close = self.n_close.any(axis=1)
        ahead = np.abs(self.expected[:, :, np.newaxis] - self.expected[:, np.newaxis])
        near = ahead <= self.slack[:, :, np.newaxis] + self.slack[:, np.newaxis]
        if self.ranker.aggregation == "copeland":
            near &= self.wins[:, :, np.newaxis] == self.wins[:, np.newaxis]
        near[:, np.arange(near.shape[1]), np.arange(near.shape[1])] = False
        return close | near.any(axis=(1, 2))
