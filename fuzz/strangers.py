"""Strange objects in model files: functions, masked arrays, one array in several places.

`duelrank.storage` packs what a model holds into columns. A column of the kind "objects" is a plain
list, in which anything can stand; so here such a column takes the place of another one.
"""

from __future__ import annotations

import copy
import io
import json
import math
import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.storage._arrays import _check_array
from fuzz import arrays, documents

Node = dict[str, Any]

FUNCTIONS = (
    *(("numpy", name) for name in ("exp", "rint", "negative", "sqrt", "log", "square", "isnan")),
    *(("numpy", name) for name in ("reciprocal", "signbit", "invert", "conjugate", "add", "power")),
    *(("numpy", name) for name in ("divmod", "modf", "copyto", "put", "save", "fromfile", "ones")),
    ("numpy._core.umath", "exp"),
    ("numpy.linalg", "norm"),
    ("numpy.lib.stride_tricks", "as_strided"),
    ("sklearn.utils.validation", "check_array"),
    ("duelrank.losses", "kendall_tau"),
    ("os", "getcwd"),
)
TYPES = (
    ("builtins", "str"),
    ("builtins", "float"),
    ("builtins", "len"),
    ("numpy", "float32"),
    ("numpy", "void"),
    ("numpy", "ndarray"),
)
# Arguments that functions of numpy and the check of arrays take besides the points.
ARGUMENTS = ("out", "where", "casting", "dtype", "copy", "ensure_2d", "ensure_all_finite", "axis")
# Attributes of estimators that hold functions, or might.
CALLED = (
    *("func", "inverse_func", "kw_args", "analyzer", "tokenizer", "preprocessor", "memory"),
    *("scoring", "scorer_", "score_func", "kernel", "remainder"),
)
FIRST_ID = 2 * 10**6  # of objects that were not there before


def put_in(
    schema: Node, members: dict[str, bytes], random: random.Random, story: list[str]
) -> None:
    """Put a stranger into the description of objects.

    Parameters
    ----------
    schema : dict
        As skops writes it; altered in place.
    members : dict of str to bytes
        The other members of the file; arrays may be added.
    random : Random
        Source of all choices.
    story : list of str
        Gets a line that says what was done.
    """
    columns = columns_in(schema)
    if not columns:
        return
    maker = _Maker(schema, members, random)
    way = random.randrange(6)
    with_arrays = [name for name in columns if maker.array_of(name[1]) is not None]
    if way < 2 and with_arrays:
        name, column = random.choice(with_arrays)
        held = maker.array_of(column)
        assert held is not None
        if way == 0:
            maker.replace(column, [maker.masked(held)])
            story.append(f"schema: {name} is a masked array")
            return
        alike = [pair for pair in with_arrays if _shape(maker, pair) == held.shape]
        others = random.sample(alike, min(len(alike), random.choice([2, 2, 3])))
        shared = maker.array(held)
        for _, other in [(name, column), *others]:
            maker.replace(other, [shared])
        story.append(f"schema: {name} and {', '.join(n for n, _ in others)} are one array")
        return
    called = [pair for pair in columns if pair[0] in CALLED]
    name, column = random.choice(called if called and random.random() < 0.6 else columns)
    stranger, told = maker.stranger()
    if way == 5:
        stranger = maker.sequence("list", [stranger, stranger])
        told = f"a list of {told}, twice"
    maker.replace(column, [stranger])
    story.append(f"schema: {name} is {told}")


def columns_in(schema: Node) -> list[tuple[str, Node]]:
    """Return the columns of packed objects in a schema, each with the name that it stands under."""
    found = []
    for part, key in documents.places_in(schema):
        content = part[key].get("content") if isinstance(part[key], dict) else None
        if isinstance(content, dict) and all(
            isinstance(content.get(name), dict) for name in ("kind", "length")
        ):
            found.append((str(key), part[key]))
    return found


def _shape(maker: _Maker, column: tuple[str, Node]) -> tuple[int, ...] | None:
    held = maker.array_of(column[1])
    return None if held is None else held.shape


class _Maker:
    """Makes parts of a schema, and the arrays that they name."""

    def __init__(self, schema: Node, members: dict[str, bytes], random: random.Random) -> None:
        self.members, self.random = members, random
        nodes = documents.objects_in(schema)
        self._arrays = [node for node in nodes if node.get("__loader__") == "NdArrayNode"]
        numbers = [node.get("__id__") for node in nodes]
        self._last = max([FIRST_ID, *(n for n in numbers if type(n) is int)])

    def replace(self, column: Node, values: list[Node]) -> None:
        """Turn a column into one that holds these objects, as often as it is long."""
        length = json.loads(column["content"]["length"]["content"])
        times = length if type(length) is int and 0 <= length <= 100 else 1
        content = {
            "kind": self.plain("objects"),
            "length": self.plain(length),
            "values": self.sequence("list", values * times),
        }
        new = self.mapping(content)
        column.clear()
        column.update(new)

    def array_of(self, column: Node) -> NDArray[Any] | None:
        """Return the array of a column that holds one, in its shape."""
        content = column["content"]
        try:
            shapes = self._read(content["shapes"])
            values = self._read(content["values"])
            shape = tuple(shapes[0].tolist())
            if len(shapes) == 1 and math.prod(shape) == values.size:
                return values.reshape(shape)
        except Exception:  # it was altered before
            return None
        return None

    def _read(self, node: Node) -> NDArray[Any]:
        content = self.members[node["file"]]
        _check_array(io.BytesIO(content), len(content))  # it may claim a shape that fills memory
        read: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
        return read

    def stranger(self) -> tuple[Node, str]:
        """Make something that can be called or looks like an array; also say what it is."""
        way = self.random.randrange(6)
        if way == 0:
            module, name = self.random.choice(TYPES)
            return self.node(name, module, "TypeNode"), f"the type {module}.{name}"
        function, told = self.function()
        if way < 3:
            return function, told
        if way == 3:
            return self.transformer(function), f"a FunctionTransformer of {told}"
        partial, told = self.partial(function, told)
        if way == 4:
            return partial, told
        return self.transformer(partial), f"a FunctionTransformer of {told}"

    def function(self) -> tuple[Node, str]:
        module, name = self.random.choice(FUNCTIONS)
        return self.node(name, module, "FunctionNode"), f"{module}.{name}"

    def partial(self, function: Node, told: str) -> tuple[Node, str]:
        """Give arguments to a function: arrays to read or to write, numbers, or none."""
        n_args = self.random.choice([0, 0, 1, 2])
        names = self.random.sample(ARGUMENTS, self.random.choice([0, 1, 1, 2]))
        content = {
            "func": function,
            "args": self.sequence("tuple", [self.argument() for _ in range(n_args)]),
            "kwds": self.mapping({name: self.argument() for name in names}),
            "namespace": self.plain(None),
        }
        told = f"a partial of {told} with {n_args} arguments and {', '.join(names) or 'no names'}"
        made = {**self.node("partial", "functools", "PartialNode"), "content": content}
        if self.random.random() < 0.1:
            return self.partial(made, told)
        return made, told

    def argument(self) -> Node:
        way = self.random.randrange(4)
        if way < 2 and self._arrays:  # one that is somewhere else as well
            return copy.deepcopy(self.random.choice(self._arrays))
        if way == 2:
            return self.array(np.arange(6.0).reshape(2, 3))
        return self.plain(self.random.choice([None, True, False, 1, 0.5, "same_kind", "unsafe"]))

    def transformer(self, function: Node) -> Node:
        """Make a FunctionTransformer."""
        kind = "sklearn.preprocessing._function_transformer"
        named = {
            "validate": self.random.choice([False, True]),
            "accept_sparse": False,
            "check_inverse": self.random.choice([False, True]),
            "feature_names_out": None,
            "inverse_func": None,
            "inv_kw_args": None,
        }
        content = {name: self.plain(value) for name, value in named.items()}
        content["func"] = function
        content["kw_args"] = self.plain(None)
        if self.random.random() < 0.4:
            content["kw_args"] = self.mapping({self.random.choice(ARGUMENTS): self.argument()})
        made = self.node("FunctionTransformer", kind, "ObjectNode")
        return {**made, "content": self.mapping(content)}

    def masked(self, held: NDArray[Any]) -> Node:
        mask = np.array([self.random.random() < 0.3 for _ in range(held.size)], dtype=bool)
        content = {"data": self.array(held), "mask": self.array(mask.reshape(held.shape))}
        module = self.random.choice(["numpy.ma", "numpy.ma.core"])
        return {**self.node("MaskedArray", module, "MaskedArrayNode"), "content": content}

    def array(self, values: NDArray[Any]) -> Node:
        """Make an array, with a member of its own."""
        name = f"{len(self.members)}{self._last}.npy"
        self.members[name] = arrays.saved(values)
        held = {"type": "numpy", "file": name}
        return {**self.node("ndarray", "numpy", "NdArrayNode"), **held}

    def mapping(self, content: dict[str, Node]) -> Node:
        kinds = [self.node("str", "builtins", "TypeNode") for _ in content]
        made = self.node("dict", "builtins", "DictNode")
        return {**made, "content": content, "key_types": self.sequence("list", kinds)}

    def sequence(self, kind: str, items: list[Node]) -> Node:
        made = self.node(kind, "builtins", "ListNode" if kind == "list" else "TupleNode")
        return {**made, "content": copy.deepcopy(items)}

    def plain(self, value: Any) -> Node:
        made = self.node("str", "builtins", "JsonNode")
        return {**made, "content": json.dumps(value), "is_json": True}

    def node(self, name: str, module: str, loader: str) -> Node:
        self._last += 1
        return {
            "__class__": name,
            "__module__": module,
            "__loader__": loader,
            "__id__": self._last,
        }
