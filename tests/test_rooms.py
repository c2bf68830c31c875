"""The rooms of the library: which room may import which, and what stays private.

The table is read against the source, imports inside functions included. It is exact: an import that
is not allowed fails the test, and so does an allowance that nobody uses.
"""

import ast
from pathlib import Path

import pytest

import duelrank

SOURCE = Path(duelrank.__file__).parent

# Private modules that rooms may use, and why they are no rooms. They import no room themselves.
FOUNDATIONS = {
    "_batches": "how rows in memory are cut into batches",
    "_choices": "names that the command offers without importing what they name",
    "_classifiers": "labels and scores of any fitted classifier",
    "_files": "files that are written whole or not at all",
    "_intervals": "confidence intervals of shares",
    "_kernel_ridge": "kernel ridge regression, for duels and for a competitor",
    "_label_names": "the labels behind codes, for messages",
    "_pairs": "the order and the sign of the duels",
    "_parameters": "checks of parameters",
    "_progress": "progress of long fits",
    "_rank_columns": "which column of ranks belongs to which label",
    "_sklearn": "what is private in scikit-learn or differs between its versions",
    "_threads": "threads of BLAS",
}
# The same for modules that import rooms: they have a place in the order.
SHARED = {
    "_training": "what any ranker learns from, DuelRanker and competitors alike",
    "_label_ranker": "the parent of DuelRanker and of the competitors",
}

# Rooms in the order of the path, and the rooms before them that they import.
ROOMS = {
    "rankings": [],
    "feedback": ["rankings"],
    "losses": ["rankings", "feedback"],
    "tables": ["rankings"],
    "blocks": ["rankings", "tables"],
    "predictions": ["rankings", "blocks"],
    "duels": ["rankings", "feedback", "losses", "blocks"],
    "tournaments": ["rankings"],
    "scoring": ["rankings", "feedback", "losses", "predictions"],
    "_training": ["rankings", "feedback", "blocks"],
    "_label_ranker": ["rankings", "blocks", "predictions", "scoring"],
    "rankers": [
        "rankings",
        "blocks",
        "predictions",
        "duels",
        "tournaments",
        "_training",
        "_label_ranker",
    ],
    "shortlists": ["rankings", "predictions", "rankers"],
    "preprocessing": ["rankings", "tables"],
    "explanations": ["rankings", "rankers", "preprocessing"],
    "drift": ["rankings", "predictions", "shortlists", "preprocessing"],
    "consensus": ["rankings", "feedback", "tournaments"],
    "competitors": [
        "feedback",
        "blocks",
        "tournaments",
        "_training",
        "_label_ranker",
        "consensus",
    ],
    "posteriors": ["rankings", "tournaments"],
    "bounds": [],
    "datasets": ["rankings", "posteriors"],
    "plotting": ["rankings", "predictions", "tournaments", "shortlists", "explanations"],
    "report": [
        "rankings",
        "tournaments",
        "rankers",
        "shortlists",
        "preprocessing",
        "explanations",
        "drift",
        "posteriors",
    ],
    "evaluation": ["rankings", "predictions", "rankers", "shortlists"],
    "storage": ["losses", "duels", "scoring", "rankers", "shortlists", "preprocessing", "drift"],
    "export": [
        "rankings",
        "duels",
        "tournaments",
        "rankers",
        "shortlists",
        "preprocessing",
        "storage",
    ],
    "cli": [
        "rankings",
        "tables",
        "duels",
        "tournaments",
        "rankers",
        "shortlists",
        "plotting",
        "report",
        "evaluation",
        "explanations",
        "preprocessing",
        "drift",
        "storage",
        "export",
    ],
}

# Imports against the order, and why.
BACKWARDS = {("losses", "scoring"): "scorers were in losses once, and old imports go on working"}


def imports(file):
    """Yield the modules of duelrank that a file imports, as tuples of names below duelrank."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            module = node.module.split(".")
            # A name may be a module itself; one of the package stands for its room.
            modules = [[*module, alias.name] for alias in node.names]
            if module == ["duelrank"]:
                rooms = [duelrank._ROOM_OF.get(alias.name, alias.name) for alias in node.names]
                modules = [[*module, room] for room in rooms]
        else:
            continue
        yield from (tuple(parts[1:]) for parts in modules if parts[0] == "duelrank" and parts[1:])


def edges():
    """Yield (file, room, imported module) for all imports between rooms."""
    for file in sorted(SOURCE.rglob("*.py")):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        if parts[0] in ("__init__", "__main__"):
            continue  # the package itself names everything
        for target in imports(file):
            if target[0] not in ("__version__", parts[0]):
                yield "/".join(parts), parts[0], target


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def test_every_module_is_in_the_table():
    names = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    listed = {*FOUNDATIONS, *ROOMS, "__init__", "__main__", "__pycache__"}
    assert {name for name in names if name != "py.typed"} <= listed
    assert listed - {"__pycache__"} <= names


def test_rooms_import_what_the_table_says():
    found = {room: set() for room in ROOMS}
    for _, room, target in edges():
        if not ({room, target[0]} & set(FOUNDATIONS) or (room, target[0]) in BACKWARDS):
            found[room].add(target[0])
    assert found == {room: set(before) for room, before in ROOMS.items()}


def test_the_path_is_walked_forwards():
    order = list(ROOMS)
    for room, before in ROOMS.items():
        assert all(order.index(other) < order.index(room) for other in before), room


def test_foundations_import_no_room():
    for file, room, target in edges():
        if room in FOUNDATIONS:
            assert target[0] in FOUNDATIONS, file


def test_private_modules_stay_private():
    """What a room has for others stands in its ``__init__``."""
    for file, _, target in edges():
        private = [name for name in target if is_private(name)]
        assert set(private) <= {*FOUNDATIONS, *SHARED}, f"{file} imports {'.'.join(target)}"


def test_nobody_imports_by_a_string():
    """Such imports would not be seen here; only the package itself finds its rooms by name."""
    for file in sorted(SOURCE.rglob("*.py")):
        if file == SOURCE / "__init__.py":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                assert name not in ("import_module", "__import__"), file


@pytest.mark.parametrize(("room", "other"), list(BACKWARDS))
def test_imports_against_the_order_are_lazy(room, other):
    """They happen inside a function, when an old name is asked for."""
    tree = ast.parse((SOURCE / f"{room}.py").read_text(encoding="utf-8"))
    lazy = [
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and node.module == "duelrank"
    ]
    everywhere = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module == f"duelrank.{other}" or node.module == "duelrank")
    ]
    assert len(lazy) == len(everywhere) == 1
    assert [alias.name for alias in lazy[0].names] == [other]
