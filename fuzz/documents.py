"""Strange JSON: a document with other values, keys and parts."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

TEXTS = (
    "",
    "\x1b[2J\x1b[31mred",
    "\x07\r\n",
    "\u202eevil",
    "\ud800",
    "a" * 10_000,
    "__class__",
    "../../etc/passwd",
    "nan",
    "1e999",
    "ö\u0000ü",
    "[bold]",
    "%s%n{0}",
)
NUMBERS: tuple[Any, ...] = (
    0,
    -1,
    1,
    2,
    3,
    255,
    2**31,
    2**63 - 1,
    2**63,
    -(2**63),
    10**30,
    10**400,
    0.5,
    -0.0,
    1e-320,
    1e308,
    float("nan"),
    float("inf"),
    -float("inf"),
)
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], [None], {"": None})
NAMES = (
    ("os", "system"),
    ("builtins", "eval"),
    ("builtins", "list"),
    ("builtins", "str"),
    ("builtins", "dict"),
    ("numpy", "ndarray"),
    ("numpy", "float64"),
    ("numpy", "dtype"),
    ("scipy.sparse._csr", "csr_matrix"),
    ("sklearn.pipeline", "Pipeline"),
    ("sklearn.preprocessing._data", "StandardScaler"),
    ("sklearn.tree._tree", "Tree"),
    ("sklearn.svm._classes", "SVC"),
    ("sklearn.neighbors._classification", "KNeighborsClassifier"),
    ("duelrank.rankers", "DuelRanker"),
    ("duelrank.duels", "StumpDuels"),
    ("duelrank.duels", "LogisticDuels"),
    ("duelrank.shortlists", "Shortlister"),
    ("functools", "partial"),
    ("pathlib", "PosixPath"),
    ("numpy.random._generator", "Generator"),
)
LOADERS = (
    "JsonNode",
    "ListNode",
    "TupleNode",
    "DictNode",
    "SetNode",
    "ObjectNode",
    "NdArrayNode",
    "SparseMatrixNode",
    "TypeNode",
    "FunctionNode",
    "PartialNode",
    "MethodNode",
    "RandomStateNode",
    "RandomGeneratorNode",
    "BytesNode",
    "CachedNode",
    "DefaultDictNode",
    "SliceNode",
    "OperatorFuncNode",
    "TreeNode",
    "SGDNode",
    "MaskedArrayNode",
    "nothing",
)
DEEPEST = 2000

Place = tuple[Any, Any]  # a dictionary or list, and a key or index of it


def places_in(document: Any) -> list[Place]:
    """Return all places of a document that hold a value, in the order of the document."""
    found: list[Place] = []
    waiting = [document]
    while waiting:
        part = waiting.pop()
        keys: Any = part if isinstance(part, dict) else range(len(part))
        for key in keys:
            found.append((part, key))
            if isinstance(part[key], (dict, list)):
                waiting.append(part[key])
    return found


def objects_in(document: Any) -> list[dict[str, Any]]:
    """Return the parts of a schema of skops that describe an object."""
    parts = [document] if "__loader__" in document else []
    values = (part[key] for part, key in places_in(document))
    return parts + [v for v in values if isinstance(v, dict) and "__loader__" in v]


def alter_schema(
    schema: dict[str, Any], others: list[Any], random: random.Random, story: list[str]
) -> None:
    """Alter the description of objects in place.

    Parameters
    ----------
    schema : dict
        As skops writes it.
    others : list of dict
        Schemas of other models, of which parts may be taken.
    random : Random
        Source of all choices.
    story : list of str
        Gets a line that says what was done.
    """
    nodes = objects_in(schema)
    node = random.choice(nodes)
    way = random.randrange(13)
    if way < 4:
        _alter_value(random.choice([n for n in nodes if "content" in n] or [schema]), random, story)
    elif way == 4:
        node["__loader__"] = random.choice(LOADERS)
        story.append(f"schema: {node.get('__class__')} is loaded by {node['__loader__']}")
    elif way == 5:
        node["__module__"], node["__class__"] = random.choice(NAMES)
        story.append(f"schema: something is a {node['__module__']}.{node['__class__']}")
    elif way == 6:
        theirs = copy.deepcopy(random.choice(objects_in(random.choice(others))))
        story.append(f"schema: {_name(node)} is replaced by {_name(theirs)} of another model")
        node.clear()
        node.update(theirs)
    elif way == 7:
        ours = copy.deepcopy(random.choice(nodes))
        story.append(f"schema: {_name(node)} is replaced by {_name(ours)} of the same model")
        node.clear()
        node.update(ours)
    elif way == 8:
        _nest(node, random, story)
    elif way == 9:
        other = random.choice(nodes)
        node["__id__"] = other.get("__id__")
        story.append(f"schema: {_name(node)} has the number of {_name(other)}")
    elif way == 10:
        attributes = [n for n in nodes if isinstance(n.get("content"), dict)]
        content = random.choice(attributes)["content"] if attributes else {}
        if content:
            name = random.choice(sorted(content))
            if random.random() < 0.5:
                del content[name]
                story.append(f"schema: {name} is missing")
            else:
                content[random.choice(["coef_", "fit", "margins", "__dict__", name + "x"])] = (
                    content.pop(name)
                )
                story.append(f"schema: {name} has another name")
    elif way == 11:
        lists = [n["content"] for n in nodes if isinstance(n.get("content"), list)]
        items = random.choice([part for part in lists if part] or [[None]])
        place = random.randrange(len(items))
        if random.random() < 0.5:
            items.insert(place, copy.deepcopy(items[place]))
            story.append(f"schema: item {place} of a list is there twice")
        else:
            del items[place]
            story.append(f"schema: item {place} of a list is missing")
    else:
        alter(schema, random, story)


def alter(document: Any, random: random.Random, story: list[str]) -> None:
    """Alter any document in place."""
    places = places_in(document)
    if not places:
        return
    part, key = random.choice(places)
    way = random.randrange(4)
    if way == 0 and isinstance(part, dict):
        del part[key]
        story.append(f"JSON: {key!r} is missing")
    elif way == 1 and isinstance(part, dict):
        part[random.choice([*TEXTS, "labels", "kind"])] = part.pop(key)
        story.append(f"JSON: {key!r} has another name")
    elif way == 2:
        there, where = random.choice(places)
        part[key] = copy.deepcopy(there[where])
        story.append(f"JSON: at {key!r} stands what {where!r} has")
    else:
        part[key] = random.choice([*TEXTS, *NUMBERS, *OTHERS])
        story.append(f"JSON: at {key!r} stands {str(part[key])[:40]!r}")


def written(document: Any) -> bytes:
    """Return a document as skops and we write it."""
    return json.dumps(document, separators=(",", ":")).encode()


def _name(node: dict[str, Any]) -> str:
    return f"{node.get('__class__')} ({node.get('__loader__')})"


def _alter_value(node: dict[str, Any], random: random.Random, story: list[str]) -> None:
    """Alter a plain value, which skops writes as JSON inside JSON."""
    try:
        value = json.loads(node["content"])
    except (KeyError, TypeError, ValueError):
        alter(node, random, story)
        return
    if isinstance(value, (int, float)) and random.random() < 0.5:
        new: Any = value + random.choice([1, -1, 2, 10, -10])
    elif isinstance(value, str) and random.random() < 0.5:
        new = random.choice(TEXTS)
    else:
        new = random.choice([*TEXTS, *NUMBERS, *OTHERS])
    node["content"] = json.dumps(new)
    if random.random() < 0.03:
        node["content"] = random.choice(["{", "", "1" * 5000, "[" * 3000, "1e", "NaN"])
    story.append(f"schema: the value {str(value)[:30]!r} is {node['content'][:30]!r} now")


def _nest(node: dict[str, Any], random: random.Random, story: list[str]) -> None:
    """Put a node into lists of lists: deep ones, or wide ones that share what is in them."""
    width = random.choice([1, 2, 10])
    depth = random.choice([3, 30, 300, DEEPEST]) if width == 1 else random.choice([3, 6, 40])
    inner: dict[str, Any] = copy.deepcopy(node)
    for level in range(depth):
        # Objects with the same number are one object; the others are written out, so few of them.
        shared = {"__class__": "list", "__module__": "builtins", "__loader__": "CachedNode"}
        again = [{**shared, "__id__": inner.get("__id__")} for _ in range(width - 1)]
        inner = {
            "__class__": random.choice(["list", "list", "tuple"]),
            "__module__": "builtins",
            "__loader__": "ListNode",
            "content": [inner, *again],
            "__id__": 10**6 + level,
        }
        if inner["__class__"] == "tuple":
            inner["__loader__"] = "TupleNode"
    story.append(f"schema: {_name(node)} is inside {depth} lists of {width}")
    node.clear()
    node.update(inner)
