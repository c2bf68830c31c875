"""Kendall distances of many rows: against scipy.stats.kendalltau row by row."""

import numpy as np
from scipy.stats import kendalltau

from duelrank.losses import kendall_tau
from side_by_side import best_of, report


def main() -> None:
    rng = np.random.default_rng(0)
    for n_rows, n_classes, n_peer in [(100_000, 10, 5_000), (10_000, 100, 2_000)]:
        true, pred = (np.argsort(rng.random((n_rows, n_classes)), axis=1) + 1 for _ in range(2))
        ours, tau = best_of(lambda: kendall_tau(true, pred))
        theirs, peer_tau = best_of(
            lambda: [kendalltau(true[i], pred[i]).statistic for i in range(n_peer)]
        )
        assert np.allclose(tau[:n_peer], peer_tau)
        report(
            f"Kendall tau, {n_rows} rows of {n_classes} labels",
            ours,
            theirs * n_rows / n_peer,
            f"scipy.stats.kendalltau (timed on {n_peer} rows)",
            key=f"kendall/{n_classes}-labels",
        )


if __name__ == "__main__":
    main()
