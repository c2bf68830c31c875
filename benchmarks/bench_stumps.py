"""All stumps of all duels: against DecisionTreeClassifier(max_depth=1) per pair."""

import numpy as np
from sklearn.multiclass import OneVsOneClassifier
from sklearn.tree import DecisionTreeClassifier

from duelrank import StumpDuels
from side_by_side import best_of, report


def main() -> None:
    rng = np.random.default_rng(0)
    for n_rows, n_classes, n_features in [(100_000, 8, 1), (20_000, 30, 10)]:
        X = rng.random((n_rows, n_features))
        codes = ((X[:, 0] + rng.normal(scale=0.3, size=n_rows)) * n_classes).astype(int) % n_classes
        ours, duels = best_of(lambda: StumpDuels().fit(X, codes, n_classes))
        theirs, peer = best_of(
            lambda: OneVsOneClassifier(DecisionTreeClassifier(max_depth=1)).fit(X, codes)
        )
        peer_errors = [
            np.mean(tree.predict(X[rows]) != (codes[rows] == b))
            for tree, (a, b) in zip(
                peer.estimators_, zip(*np.triu_indices(n_classes, 1), strict=True), strict=True
            )
            for rows in [np.flatnonzero((codes == a) | (codes == b))]
        ]
        # Trees minimise the Gini impurity and not the 0-1 loss, so they are at most as good.
        assert (duels.training_error_ <= np.array(peer_errors) + 1e-12).all()
        report(
            f"stumps, {n_rows} rows, {n_classes} labels, {n_features} features",
            ours,
            theirs,
            "DecisionTreeClassifier(max_depth=1) per pair",
            key=f"stumps/{n_classes}-labels",
        )


if __name__ == "__main__":
    main()
