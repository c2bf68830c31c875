"""Table 1: top-k accuracies on MNIST and both editions of Fashion-MNIST.

As in the paper, the features are the principal components of the pixels that hold 95 % of the
variance. One multinomial logistic regression is compared with one logistic regression per duel,
ranked by Copeland's rule; cross-validation chooses C. Beyond the paper, there are other ways to
turn the same duels into rankings, and one-vs-rest.

The baselines are fitted once, at the C's that ``multinomial_cv`` and ``one_vs_rest_cv`` chose. The
column ``cpu_minutes_with_cv`` is the processor time with the choice of C. The column ``seconds`` is
the time of the fit here: the whole cross-validation for the duels, one model for the baselines.
"""

from __future__ import annotations

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator
from sklearn.linear_model import LogisticRegression

from duelrank import DuelRanker, LogisticDuelsCV, predict_ranks
from duelrank.losses import top_k_loss
from duelrank.rankings import ranks_from_scores
from experiments import journal, multinomial_cv, one_vs_rest_cv, results
from experiments.images import DATA_SETS, components
from experiments.results import Row

NAME = "table_1"
SEED = 0
TOP = (1, 2, 3, 4, 5)
# Every way to rank by the same duels; the first is the paper's, which breaks ties arbitrarily.
RANKINGS = {
    "duels, ties at random": {"aggregation": "copeland", "ties": "random"},
    "duels, ties by probability": {"aggregation": "copeland", "ties": "probability"},
    "duels, ties by feedback arc set": {"aggregation": "copeland", "ties": "feedback_arc_set"},
    "duels, feedback arc set": {"aggregation": "feedback_arc_set", "ties": "probability"},
    "duels, coupling": {"aggregation": "coupling", "ties": "probability"},
}
# top-1, top-5 and fit time in minutes, as the paper's Table 1 has them.
PAPER = {
    ("mnist", "multinomial"): (0.924, 0.995, 50),
    ("mnist", "duels, ties at random"): (0.943, 0.997, 40),
    ("fashion-mnist-csv", "multinomial"): (0.857, 0.997, 35),
    ("fashion-mnist-csv", "duels, ties at random"): (0.863, 0.997, 60),
}


def compute() -> None:
    """Fit everything; one model a task, so that the run can be stopped."""
    duels = [{"data": data, "model": "duels"} for data in DATA_SETS]
    baselines = [
        {"data": data, "model": model}
        for model in ("multinomial", "one-vs-rest")
        for data in DATA_SETS
    ]
    settings = {
        "seed": SEED,
        "Cs": 10,
        "folds": 5,
        "C_multinomial": {data: multinomial_cv.chosen_C(data) for data in DATA_SETS},
        "Cs_one_vs_rest": {data: one_vs_rest_cv.chosen_Cs(data).tolist() for data in DATA_SETS},
    }
    # The duels one after the other: they use all cores, and their time is a result.
    rows = journal.run(NAME, fit_and_rank, duels, settings, n_jobs=1)
    rows += journal.run(NAME, fit_and_rank, baselines, settings)
    rows.sort(key=lambda row: DATA_SETS.index(row["data"]))
    for row in rows:
        paper = PAPER.get((row["data"], row["ranking"]), ("", "", ""))
        row |= dict(zip(("paper_top_1", "paper_top_5", "paper_minutes"), paper, strict=True))
    results.write(NAME, rows, **settings)


def draw() -> None:
    """Draw the errors of every ranking over k, one panel a data set, and print the table."""
    table = results.read(NAME)
    _print(table)
    figure, panels = plt.subplots(1, len(DATA_SETS), figsize=(11, 4), layout="constrained")
    styles = {"multinomial": ("black", "s"), "one-vs-rest": ("#7f7f7f", "D")}
    colours = iter(("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9"))
    styles |= {ranking: (next(colours), "o") for ranking in RANKINGS}
    for axes, data in zip(panels, DATA_SETS, strict=True):
        for row in np.flatnonzero(table["data"] == data):
            ranking = table["ranking"][row]
            errors = [100 * (1 - table[f"top_{k}"][row]) for k in TOP]
            colour, marker = styles[ranking]
            axes.semilogy(TOP, errors, marker=marker, color=colour, label=ranking, alpha=0.9)
        axes.set(title=data, xlabel="k", xticks=TOP)
        axes.grid(alpha=0.3, which="both")
        axes.yaxis.set_minor_locator(LogLocator(subs=(2, 3, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.tick_params(axis="y", which="both", labelsize=8)
    panels[0].set_ylabel("true label not among the first k (%)")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    results.save_figure(figure, NAME)
    plt.close(figure)


def fit_and_rank(data: str, model: str) -> list[Row]:
    """Fit one model and return the accuracies of its rankings."""
    fit = {"duels": _duels, "multinomial": _multinomial, "one-vs-rest": _one_vs_rest}[model]
    return fit(data, *components(data))


def _duels(data: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray):
    ranker = DuelRanker(LogisticDuelsCV(Cs=10, cv=5), random_state=SEED)
    start, start_cpu = time.perf_counter(), time.process_time()
    ranker.fit(X, y)
    seconds = time.perf_counter() - start
    cpu_minutes = (time.process_time() - start_cpu) / 60
    cycles = float(np.mean(~ranker.tournament(X_test).is_transitive))
    return [
        _row(name, predict_ranks(ranker.set_params(**options), X_test), y_test)
        | {"seconds": seconds, "cpu_minutes_with_cv": cpu_minutes, "cycles": cycles}
        for name, options in RANKINGS.items()
    ]


def _multinomial(data: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray):
    C = multinomial_cv.chosen_C(data)
    model = LogisticRegression(C=C, max_iter=multinomial_cv.MAX_ITER)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it needs more iterations than the paper gives it
        model.fit(X, y)
    seconds = time.perf_counter() - start
    cpu_minutes = multinomial_cv.cpu_minutes(data)
    return [
        _row("multinomial", predict_ranks(model, X_test), y_test)
        | {"seconds": seconds, "cpu_minutes_with_cv": cpu_minutes, "cycles": ""}
    ]


def _one_vs_rest(data: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray):
    start = time.perf_counter()
    models = [
        LogisticRegression(C=C, solver="newton-cholesky").fit(X, y == label)
        for label, C in enumerate(one_vs_rest_cv.chosen_Cs(data))
    ]
    seconds = time.perf_counter() - start
    scores = np.stack([model.decision_function(X_test) for model in models], axis=1)
    cpu_minutes = one_vs_rest_cv.cpu_minutes(data)
    return [
        _row("one-vs-rest", ranks_from_scores(scores), y_test)
        | {"seconds": seconds, "cpu_minutes_with_cv": cpu_minutes, "cycles": ""}
    ]


def _row(ranking: str, ranks: np.ndarray, y_test: np.ndarray) -> Row:
    """Return the accuracies of a ranking; labels are their own codes."""
    accuracies = {f"top_{k}": 1 - float(top_k_loss(y_test, ranks, k).mean()) for k in TOP}
    return {"ranking": ranking} | accuracies


def _print(table: dict[str, np.ndarray]) -> None:
    print(
        f"{'data':<18}{'ranking':<34}{'top-1':>7}{'top-5':>7}   {'paper':<14}"
        f"{'minutes of a core':>19}"
    )
    for row in range(len(table["data"])):
        paper = PAPER.get((table["data"][row], table["ranking"][row]))
        shown = f"{paper[0]:.3f} / {paper[1]:.3f}" if paper else ""
        print(
            f"{table['data'][row]:<18}{table['ranking'][row]:<34}{table['top_1'][row]:7.4f}"
            f"{table['top_5'][row]:7.4f}   {shown:<14}"
            f"{table['cpu_minutes_with_cv'][row]:19.1f}"
        )
