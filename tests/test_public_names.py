import importlib
import subprocess
import sys

import pytest

import duelrank

MODULES = [
    "blocks",
    "bounds",
    "competitors",
    "consensus",
    "datasets",
    "drift",
    "duels",
    "evaluation",
    "explanations",
    "export",
    "feedback",
    "losses",
    "plotting",
    "posteriors",
    "predictions",
    "preprocessing",
    "rankers",
    "rankings",
    "report",
    "scoring",
    "shortlists",
    "storage",
    "tables",
    "tournaments",
]


@pytest.mark.parametrize("name", MODULES)
def test_rooms_list_their_names_sorted(name):
    module = importlib.import_module(f"duelrank.{name}")
    constants_first = sorted(module.__all__, key=lambda public: (not public.isupper(), public))
    assert module.__all__ == constants_first
    assert all(hasattr(module, public) for public in module.__all__)


def test_public_names_are_exact():
    assert duelrank.__all__ == [
        "AnchoredDuels",
        "AnchoredDuelsCV",
        "AutoDuels",
        "DuelRanker",
        "EstimatorDuels",
        "ForestDuels",
        "KernelDuels",
        "LogisticDuels",
        "LogisticDuelsCV",
        "StackedDuels",
        "StumpDuels",
        "bounds",
        "competitors",
        "consensus",
        "datasets",
        "feedback",
        "load",
        "losses",
        "pairs",
        "plotting",
        "posteriors",
        "predict_order",
        "predict_ranks",
        "predict_top",
        "rankings",
        "report",
        "save",
        "tournaments",
    ]


def test_public_names_are_there_and_others_are_not():
    assert set(duelrank.__all__) <= set(dir(duelrank))
    assert all(getattr(duelrank, name) is not None for name in duelrank.__all__)
    with pytest.raises(AttributeError, match="module 'duelrank' has no attribute 'Duelranker'"):
        duelrank.Duelranker  # noqa: B018


def test_every_room_is_an_attribute():
    """Of a package that was just imported: one interpreter forgets it before every room."""
    code = (
        "import sys\n"
        f"for name in {MODULES!r}:\n"
        "    for module in [m for m in sys.modules if m.split('.')[0] == 'duelrank']:\n"
        "        del sys.modules[module]\n"
        "    import duelrank\n"
        "    assert f'duelrank.{name}' not in sys.modules, name\n"
        "    print(name in dir(duelrank), getattr(duelrank, name).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"True duelrank.{name}" for name in MODULES]


def test_import_is_lazy():
    code = "import sys, duelrank; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_import_needs_core_dependencies_only():
    extras = "matplotlib rich pandas polars click pyarrow skops dask distributed"
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name in {extras.split()}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "import duelrank, duelrank.losses\n"
        "print(duelrank.DuelRanker(random_state=0).fit([[0.], [1.]], ['a', 'b']).predict([[2.]]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['b']"
