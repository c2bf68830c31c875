"""Draw the closest rivals of some intents of BANKING77; DUELRANK_DATA names the data folder."""

import csv
import os
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.feature_extraction.text import TfidfVectorizer

from duelrank import AnchoredDuels, DuelRanker

SHOWN = (
    "card_arrival",
    "exchange_rate",
    "pending_transfer",
    "top_up_failed",
    "verify_my_identity",
    "lost_or_stolen_card",
)
N_RIVALS = 5


def main() -> None:
    path = Path(os.environ["DUELRANK_DATA"]) / "text" / "banking77_train.csv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    labels = np.array([row["category"] for row in rows])
    X = TfidfVectorizer(sublinear_tf=True).fit_transform([row["text"] for row in rows])
    ranker = DuelRanker(AnchoredDuels(C=10, rivals=0), random_state=0).fit(X, labels)
    scores, codes = ranker.duels_.scores(X), np.searchsorted(ranker.classes_, labels)
    wrong = expit(scores - scores[np.arange(len(codes)), codes][:, np.newaxis])
    by_label = np.stack([wrong[codes == k].sum(axis=0) for k in range(len(ranker.classes_))])
    unsure = by_label + by_label.T
    rows_of_duel = np.add.outer(np.bincount(codes), np.bincount(codes))
    np.fill_diagonal(unsure, 0)
    share = 100 * unsure / rows_of_duel
    figure, axes = plt.subplots(2, 3, figsize=(12, 4.6), layout="constrained", sharex=True)
    for label, axis in zip(SHOWN, axes.flat, strict=True):
        code = np.searchsorted(ranker.classes_, label)
        rivals = np.argsort(-unsure[code])[:N_RIVALS][::-1]
        names = [ranker.classes_[k].replace("_", " ") for k in rivals]
        axis.barh(names, share[code, rivals], color="#4878a8")
        axis.set_title(label.replace("_", " "), loc="left", fontweight="bold", fontsize=11)
        axis.tick_params(axis="y", length=0, labelsize=9)
        for side in ("top", "right", "left"):
            axis.spines[side].set_visible(False)
    figure.supxlabel(
        "probability that the scores give to the wrong one of both labels, % (mean of their rows)",
        fontsize=10,
    )
    figure.savefig(Path(__file__).with_name("rivals.png"), dpi=110)


if __name__ == "__main__":
    main()
