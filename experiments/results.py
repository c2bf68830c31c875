"""Raw numbers on disk: a CSV file with the rows, and a JSON file with their settings and origin."""

from __future__ import annotations

import csv
import json
import platform
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import joblib
import matplotlib
import numpy as np
import scipy
import sklearn

import duelrank
from duelrank._files import replacing

matplotlib.use("Agg")
# Text stays text in an SVG file, and equal figures are equal files.
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "duelrank"})

FOLDER = Path(__file__).parent / "results"

Row = dict[str, Any]


def versions() -> dict[str, str]:
    """Return the versions that numbers depend on."""
    modules = {"duelrank": duelrank, "numpy": np, "scipy": scipy, "scikit-learn": sklearn}
    return {"python": platform.python_version()} | {
        name: str(module.__version__) for name, module in modules.items()
    }


def machine() -> dict[str, Any]:
    """Return what the speed depends on."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": joblib.cpu_count(),
    }


def write(name: str, rows: Sequence[Row], **settings: Any) -> None:
    """Write the rows of an experiment, and the settings, versions and machine they come from."""
    FOLDER.mkdir(exist_ok=True)
    with replacing(FOLDER / f"{name}.csv") as path, path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _rounded(value) for key, value in row.items()} for row in rows)
    origin = {
        "settings": settings,
        "date": date.today().isoformat(),
        "versions": versions(),
        "machine": machine(),
    }
    with replacing(FOLDER / f"{name}.json") as path:
        path.write_text(json.dumps(origin, indent=2) + "\n")


def read(name: str) -> dict[str, np.ndarray]:
    """Read the columns of an experiment's rows, as numbers where they are numbers."""
    path = FOLDER / f"{name}.csv"
    if not path.exists():
        raise FileNotFoundError(
            f"there are no results of {name} yet; run: python -m experiments {name}"
        )
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {key: _column([row[key] for row in rows]) for key in rows[0]}


def settings(name: str) -> dict[str, Any]:
    """Read the settings that an experiment's rows come from."""
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())["settings"]
    return content


def save_figure(figure: Any, name: str) -> None:
    """Write a figure as SVG, for pages, and as PNG."""
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
    figure.savefig(FOLDER / f"{name}.png", dpi=120)
    print(f"figure: {(FOLDER / name).relative_to(FOLDER.parent.parent)}.svg and .png")


def _rounded(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else value


def _column(values: list[str]) -> np.ndarray:
    for kind in (int, float):
        try:
            return np.array([kind(value) for value in values])
        except ValueError:
            continue
    return np.array(values)
