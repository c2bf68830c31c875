import pkgutil
import re
from pathlib import Path

import pytest

import duelrank

REFERENCE = Path(__file__).parents[1] / "docs" / "api.md"

pytestmark = pytest.mark.skipif(
    not REFERENCE.exists(), reason="there are no docs in a source archive"
)


def rooms() -> set[str]:
    names = {module.name for module in pkgutil.iter_modules(duelrank.__path__)}
    return {name for name in names if not name.startswith("_")}


def test_every_room_is_in_the_reference():
    listed = re.findall(r"^   (\w+)$", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(listed) == sorted(rooms() - {"cli"} | {"pairs"})


def test_names_of_the_package_itself_are_in_the_reference():
    imports = re.findall(
        r"^from duelrank import (.*)$", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    listed = {name for line in imports for name in line.split(", ")}
    assert listed == set(duelrank.__all__) - rooms()
