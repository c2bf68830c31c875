"""Draw the pictures of docs/architecture.md: the rooms, and the way of a fit and a prediction."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

INK, PAPER, PATH, EDGE = "#1c2733", "#eef2f6", "#d6e6f5", "#9fb3c8"

# From top to bottom: a room imports rooms above it, or to its left in the same row.
ROWS = [
    ("rankings\nand losses", ["rankings", "feedback", "losses"]),
    ("tables and any\nclassifier", ["tables", "blocks", "predictions", "preprocessing"]),
    ("the path", ["duels", "tournaments", "scoring", "rankers", "shortlists"]),
    ("more rankings\nand theory", ["consensus", "competitors", "posteriors", "bounds", "datasets"]),
    ("what people\nlook at", ["explanations", "drift", "plotting", "report", "evaluation"]),
    ("files and\nthe command", ["storage", "export", "cli"]),
]
WHAT = {
    "rankings": "scores ↔ ranks ↔ order",
    "feedback": "what rows say about duels",
    "losses": "functions of rankings",
    "tables": "CSV, Parquet in and out",
    "blocks": "rows piece by piece",
    "predictions": "rankings off any classifier",
    "preprocessing": "columns, text → X",
    "duels": "X, feedback → margins",
    "tournaments": "margins → scores",
    "scoring": "losses as scorers",
    "rankers": "DuelRanker",
    "shortlists": "ranking → list",
    "consensus": "one ranking for many",
    "competitors": "other methods",
    "posteriors": "known η, diagnosis",
    "bounds": "the paper's bounds",
    "datasets": "data to try",
    "explanations": "which words spoke",
    "drift": "new rows like old?",
    "plotting": "pictures",
    "report": "an HTML page",
    "evaluation": "side by side",
    "storage": "model files",
    "export": "ONNX models",
    "cli": "the command",
}
FOUNDATIONS = (
    "_pairs  _batches  _threads  _classifiers  _rank_columns  _sklearn  _parameters  _progress  …"
)

FIT = [
    ("DuelRanker.fit", "rankers"),
    ("TrainingSet\nlabels settled", "_training"),
    ("LogisticDuels.fit", "duels/logistic/_engine"),
    ("fit in memory,\ntile by tile", "_fit"),
    ("problems: groups,\nscaled rows, plan", "_assembly"),
    ("Newton's method", "_newton"),
    ("loss, gradient,\nHessian × vector", "_problems → _loss"),
    ("FittedDuels\n→ coef_", "_result"),
]
PREDICTION = [
    ("predict_order", "_label_ranker"),
    ("one block\nor all rows", "blocks/_lazy"),
    ("ask the engine,\nin batches", "rankers"),
    ("margins, or wins\ncounted", "duels/logistic/_linear"),
    ("scores, ties\nresolved", "_aggregation_and_ties"),
    ("order of labels", "rankings"),
]


def box(ax: Axes, at: tuple[float, float], size: tuple[float, float], color: str) -> None:
    ax.add_patch(
        FancyBboxPatch(
            at, *size, boxstyle="round,pad=0,rounding_size=0.08", facecolor=color, edgecolor=EDGE
        )
    )


def draw_rooms(file: Path) -> None:
    figure, ax = plt.subplots(figsize=(10.5, 7.0), layout="constrained")
    width, height, left = 13.0, 0.78, 1.9
    for row, (title, rooms) in enumerate(ROWS):
        y = -1.05 * row
        ax.text(0, y + height / 2, title, va="center", fontsize=10, color="#5a6b7b")
        each = width / len(rooms)
        for place, room in enumerate(rooms):
            x = left + place * each
            box(ax, (x, y), (each - 0.15, height), PATH if title == "the path" else PAPER)
            middle = x + (each - 0.15) / 2
            ax.text(middle, y + 0.52, room, ha="center", va="center", fontsize=11, weight="bold")
            ax.text(middle, y + 0.22, WHAT[room], ha="center", va="center", fontsize=8.5)
    box(ax, (left, 1.0), (width - 0.15, 0.5), "#ffffff")
    ax.text(0, 1.25, "foundations", va="center", fontsize=10, color="#5a6b7b")
    ax.text(left + width / 2, 1.25, FOUNDATIONS, ha="center", va="center", fontsize=9, color=INK)
    ax.set(xlim=(-0.1, left + width), ylim=(0.85 - 1.05 * len(ROWS), 1.6))
    ax.axis("off")
    figure.savefig(file, dpi=130)
    plt.close(figure)


def draw_ways(file: Path) -> None:
    figure, axes = plt.subplots(2, 1, figsize=(12.5, 3.9), layout="constrained")
    for ax, (title, steps) in zip(
        axes, (("A fit", FIT), ("A prediction", PREDICTION)), strict=True
    ):
        each = 16 / len(FIT)
        for number, (step, place) in enumerate(steps):
            x = number * each
            box(ax, (x, 0), (each - 0.3, 0.9), PATH)
            middle = x + (each - 0.3) / 2
            ax.text(middle, 0.45, step, ha="center", va="center", fontsize=9.5)
            ax.text(
                middle, -0.16, place, ha="center", va="center", fontsize=8, color="#5a6b7b",
                family="monospace",
            )  # fmt: skip
            if number:
                arrow = {"arrowstyle": "-|>", "color": INK}
                ax.annotate("", (x, 0.45), (x - 0.3, 0.45), arrowprops=arrow)
        ax.set_title(title, loc="left", fontsize=11, weight="bold")
        ax.set(xlim=(-0.1, 16), ylim=(-0.35, 1.0))
        ax.axis("off")
    figure.savefig(file, dpi=130)
    plt.close(figure)


def main() -> None:
    folder = Path(__file__).parent
    draw_rooms(folder / "rooms.png")
    draw_ways(folder / "ways.png")


if __name__ == "__main__":
    main()
