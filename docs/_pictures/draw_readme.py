"""Draw the README's picture: the tournament of one digit, and top-k accuracy of several rankers."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from duelrank import DuelRanker
from duelrank.plotting import TopKAccuracyDisplay, TournamentDisplay


def main() -> None:
    X, y = load_digits(return_X_y=True)
    models = {
        "duels": DuelRanker(random_state=0),
        "multinomial": LogisticRegression(max_iter=5000),
        "forest": RandomForestClassifier(random_state=0),
        "naive Bayes": GaussianNB(),
    }
    for model in models.values():
        model.fit(X[::2], y[::2])
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    # A 5 that is taken for a 9, and whose duels contradict each other.
    TournamentDisplay.from_estimator(models["duels"], X, row=5, ax=left)
    TopKAccuracyDisplay.from_estimator(models, X[1::2], y[1::2], max_k=5, ax=right)
    figure.savefig(Path(__file__).with_name("readme.png"), dpi=110)


if __name__ == "__main__":
    main()
