"""Many similar objects as few arrays, and back.

K labels have K(K−1)/2 duels. One by one, their classifiers would fill a file with thousands of tiny
arrays and as many descriptions of the same attributes. Packed, the same attribute of all
classifiers is one array: `pack` takes a list of objects and returns a *column*, a dictionary with a
``kind`` and plain arrays; `unpack` takes a column and returns the list. Attributes that are
estimators, lists or dictionaries themselves are packed in the same way; other objects stay a list.
A whole model is a column of one. A vocabulary, a dictionary of text to integers, becomes a column
of its texts and a column of its integers.

A column of a million equal values takes no more space than a column of one, so a file of a few
bytes could ask for more objects than memory holds. `unpack` therefore knows how long every column
must be before it builds anything, and counts the objects that it builds against a limit.

Decision trees are compiled objects that do not check node numbers. Packed, their arrays can be
checked before a tree is built from them. Trees of nearest neighbours are built again from their
points. A frozen estimator that is there in use as well is written once.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import BallTree, KDTree
from sklearn.utils import Bunch

from duelrank.storage._checks import check_packed, check_tree_predictor, check_trees
from duelrank.storage._limits import MOST_OBJECTS, Allowance
from duelrank.storage._names import dictionaries_in
from duelrank.storage._sklearn_models import Tree, TreePredictor
from duelrank.storage._texts import decode_texts, encode_texts

PREDICTOR_ARRAYS = ("nodes", "binned_left_cat_bitsets", "raw_left_cat_bitsets")
TREE_ARGUMENTS = ("n_features", "n_classes", "n_outputs")
NEIGHBOUR_TREES = {"ball_tree": BallTree, "kd_tree": KDTree}
# Lists of different items, such as the steps of a pipeline, are packed place by place up to here.
SHORT_LIST = 16
# Stands for the parameter `estimator` where that is the fitted `estimator_`, frozen.
FROZEN = "estimator_, frozen"
# So few texts take less space as JSON than as arrays.
FEW_TEXTS = 16

Column = dict[str, Any]


def pack(objects: list[Any]) -> Column:
    """Turn a list of objects into a column."""
    for kind, packs in _KINDS.items():
        column = packs(objects) if objects else None
        if column is not None:
            return {"kind": kind, "length": len(objects), **column}
    return {"kind": "objects", "length": len(objects), "values": objects}


def unpack(column: Column, length: int = 1, most: int = MOST_OBJECTS) -> list[Any]:
    """Turn a column into the list of objects that it was made from.

    The list must have this length. At most `most` objects are built, parts of objects included.
    """
    sentence = "its packed arrays ask for more objects than it could hold"
    return _unpack(column, length, Allowance(most, sentence))


def n_items(column: Column) -> int:
    """Count the objects that `unpack` builds from what `pack` returned."""
    return sum(
        part["length"] + 1
        for part in dictionaries_in(column)
        if isinstance(part.get("kind"), str) and type(part.get("length")) is int
    )


def _unpack(column: Any, length: int, allowance: Allowance) -> list[Any]:
    check_packed(isinstance(column, dict) and column.get("kind") in _UNPACKERS)
    check_packed(type(column.get("length")) is int and column["length"] == length >= 0)
    allowance.spend(length + 1)  # empty columns count too, there could be many
    objects = _UNPACKERS[column["kind"]](column, length, allowance)
    check_packed(len(objects) == length)
    return objects


def _is_vector(values: Any, length: int, dtype: Any = None) -> bool:
    """Tell whether this is a vector of that length, of numbers or text."""
    return (
        type(values) is np.ndarray
        and values.shape == (length,)
        and values.dtype != object
        and (dtype is None or values.dtype == dtype)
    )


def _pack_optional(objects: list[Any]) -> Column | None:
    present = np.array([o is not None for o in objects])
    if present.all() or not present.any():
        return None
    return {"present": present, "items": pack([o for o in objects if o is not None])}


def _unpack_optional(column: Column, length: int, allowance: Allowance) -> list[Any]:
    present = column["present"]
    check_packed(_is_vector(present, length, np.bool_))
    parts = iter(_unpack(column["items"], int(present.sum()), allowance))
    return [next(parts) if here else None for here in present.tolist()]


def _pack_same(objects: list[Any]) -> Column | None:
    first = objects[0]
    if not (first is None or type(first) in (bool, int, float, str)):
        return None
    if all(type(o) is type(first) and o == first for o in objects):
        return {"value": first}
    return None


def _unpack_same(column: Column, length: int, allowance: Allowance) -> list[Any]:
    value = column["value"]
    check_packed(value is None or type(value) in (bool, int, float, str))
    return [value] * length


def _pack_numbers(objects: list[Any]) -> Column | None:
    """Numbers of one type, of Python's or numpy's, which is kept."""
    kind = type(objects[0])
    if not all(type(o) is kind for o in objects):
        return None
    if kind in (bool, float) or (kind is int and all(abs(o) < 2**63 for o in objects)):
        return {
            "python": True,
            "values": np.array(objects, dtype=np.int64 if kind is int else kind),
        }
    if issubclass(kind, (np.number, np.bool_)):
        return {"python": False, "values": np.array(objects, dtype=kind)}
    return None


def _unpack_numbers(column: Column, length: int, allowance: Allowance) -> list[Any]:
    values = column["values"]
    check_packed(_is_vector(values, length))
    return values.tolist() if column["python"] else list(values)


def _pack_texts(objects: list[Any]) -> Column | None:
    if len(objects) <= FEW_TEXTS or not _are_texts(objects):
        return None
    return encode_texts(objects)


def _unpack_texts(column: Column, length: int, allowance: Allowance) -> list[Any]:
    return list(decode_texts(column, length))


def _are_texts(objects: Iterable[Any]) -> bool:
    return all(type(o) is str for o in objects)


def _pack_arrays(objects: list[Any]) -> Column | None:
    """Arrays of one type and one number of axes, laid end to end."""
    first = objects[0]
    if not all(type(o) is np.ndarray for o in objects) or first.ndim == 0:
        return None
    if any(o.dtype != first.dtype or o.ndim != first.ndim for o in objects):
        return None
    fortran = all(o.flags.f_contiguous and not o.flags.c_contiguous for o in objects)
    order = "F" if fortran else "C"
    shapes = np.array([o.shape for o in objects], dtype=np.int64)
    if first.dtype == object:
        items = list(chain.from_iterable(o.ravel(order).tolist() for o in objects))
        return {"shapes": shapes, "order": order, "items": pack(items)}
    return {
        "shapes": shapes,
        "order": order,
        "values": _end_to_end([o.ravel(order) for o in objects]),
    }


def _end_to_end(vectors: list[NDArray[Any]]) -> NDArray[Any]:
    # Trees need the padding of their records, which np.concatenate alone would drop.
    joined = np.empty(sum(map(len, vectors)), dtype=vectors[0].dtype)
    np.concatenate(vectors, out=joined)
    return joined


def _unpack_arrays(column: Column, length: int, allowance: Allowance) -> list[Any]:
    shapes, order = column["shapes"], column["order"]
    check_packed(type(shapes) is np.ndarray and shapes.dtype == np.int64 and shapes.ndim == 2)
    check_packed(len(shapes) == length and shapes.shape[1] >= 1)
    check_packed(order in ("C", "F") and bool((shapes >= 0).all()))
    sizes = np.prod(shapes, axis=1)
    if "items" in column:
        items = _unpack(column["items"], int(sizes.sum()), allowance)
        values = np.empty(len(items), dtype=object)
        values[:] = items
    else:
        values = column["values"]
        check_packed(_is_vector(values, int(sizes.sum())))
    ends = np.cumsum(sizes)
    return [
        values[end - size : end].reshape(shape, order=order).copy(order="K")
        for shape, size, end in zip(shapes.tolist(), sizes.tolist(), ends.tolist(), strict=True)
    ]


def _pack_short_lists(objects: list[Any]) -> Column | None:
    """Short lists of different items: all first items, all second items, and so on."""
    kind, length = type(objects[0]), _length(objects[0])
    if kind not in (list, tuple) or not 0 < length <= SHORT_LIST:
        return None
    if not all(type(o) is kind and len(o) == length for o in objects):
        return None
    kinds = {type(item) for o in objects for item in o}
    if len(kinds) == 1 and kinds.isdisjoint((list, tuple)):
        return None
    places = {str(place): pack([o[place] for o in objects]) for place in range(length)}
    return {"tuples": kind is tuple, "items": places}


def _unpack_short_lists(column: Column, length: int, allowance: Allowance) -> list[Any]:
    kind = tuple if column["tuples"] else list
    parts = _unpack_dicts({**column, "bunches": False}, length, allowance)
    return [kind(part.values()) for part in parts]


def _pack_lists(objects: list[Any]) -> Column | None:
    """Lists of items of one type, laid end to end."""
    kind = type(objects[0])
    if kind not in (list, tuple) or not all(type(o) is kind for o in objects):
        return None
    items = list(chain.from_iterable(objects))
    if len({type(item) for item in items if item is not None}) > 1:
        return None
    lengths = np.array([len(o) for o in objects], dtype=np.int64)
    return {"tuples": kind is tuple, "lengths": lengths, "items": pack(items)}


def _unpack_lists(column: Column, length: int, allowance: Allowance) -> list[Any]:
    lengths = _lengths(column, length)
    parts = iter(_unpack(column["items"], sum(lengths), allowance))
    lists = [[next(parts) for _ in range(n)] for n in lengths]
    return [tuple(part) for part in lists] if column["tuples"] else lists


def _lengths(column: Column, length: int) -> list[int]:
    """Return how many items each of the packed objects has."""
    check_packed(_is_vector(column["lengths"], length, np.int64))
    lengths: list[int] = column["lengths"].tolist()
    check_packed(all(n >= 0 for n in lengths))
    return lengths


def _length(thing: Any) -> int:
    return len(thing) if isinstance(thing, (list, tuple)) else -1


def _pack_sets(objects: list[Any]) -> Column | None:
    """Sets of texts, which are sorted, so that the same sets become the same bytes."""
    if not all(type(o) is set and _are_texts(o) for o in objects):
        return None
    return {"items": pack([sorted(o) for o in objects])}


def _unpack_sets(column: Column, length: int, allowance: Allowance) -> list[Any]:
    lists = _unpack(column["items"], length, allowance)
    check_packed(all(type(part) is list and _are_texts(part) for part in lists))
    return [set(part) for part in lists]


def _pack_vocabularies(objects: list[Any]) -> Column | None:
    """Dictionaries of many texts to numbers of one type, laid end to end."""
    if not all(type(o) is dict for o in objects) or max(map(len, objects)) <= FEW_TEXTS:
        return None
    keys, values = list(chain(*objects)), list(chain(*(o.values() for o in objects)))
    kind = type(values[0])
    if not _are_texts(keys) or not issubclass(kind, (int, float, np.number)):
        return None
    if not all(type(value) is kind for value in values):
        return None
    lengths = np.array([len(o) for o in objects], dtype=np.int64)
    return {"lengths": lengths, "keys": pack(keys), "values": pack(values)}


def _unpack_vocabularies(column: Column, length: int, allowance: Allowance) -> list[Any]:
    lengths = _lengths(column, length)
    keys = _unpack(column["keys"], sum(lengths), allowance)
    values = _unpack(column["values"], sum(lengths), allowance)
    check_packed(_are_texts(keys))
    pairs = zip(keys, values, strict=True)
    vocabularies = [dict(islice(pairs, n)) for n in lengths]
    check_packed([len(vocabulary) for vocabulary in vocabularies] == lengths)  # no text twice
    return vocabularies


def _pack_dicts(objects: list[Any]) -> Column | None:
    """Dictionaries with the same keys, which are strings."""
    kind = type(objects[0])
    if kind not in (dict, Bunch) or not all(type(o) is kind for o in objects):
        return None
    keys = list(objects[0])
    if not all(type(key) is str for key in keys) or any(list(o) != keys for o in objects):
        return None
    columns = {key: pack([o[key] for o in objects]) for key in keys}
    return {"bunches": kind is Bunch, "items": columns}


def _unpack_dicts(column: Column, length: int, allowance: Allowance) -> list[Any]:
    columns = {key: _unpack(part, length, allowance) for key, part in column["items"].items()}
    kind = Bunch if column["bunches"] else dict
    return [kind(**{key: part[i] for key, part in columns.items()}) for i in range(length)]


def _pack_estimators(objects: list[Any]) -> Column | None:
    """Estimators, and other objects of ours or scikit-learn's that are just their attributes."""
    kind = type(objects[0])
    if not (all(type(o) is kind for o in objects) and _is_its_attributes(kind)):
        return None
    attributes = _pack_dicts([_without_twins(_without_neighbour_tree(vars(o))) for o in objects])
    if attributes is None:
        return None
    return {"prototype": _bare(objects[0]), **attributes}


def _unpack_estimators(column: Column, length: int, allowance: Allowance) -> list[Any]:
    prototype = column["prototype"]
    check_packed(_is_its_attributes(type(prototype)))
    defaults = _our_defaults(type(prototype))
    estimators = []
    for attributes in _unpack_dicts(column, length, allowance):
        estimator = _bare(prototype)
        if type(prototype).__module__.startswith("sklearn.neighbors."):
            attributes = _with_neighbour_tree(attributes)
        vars(estimator).update(defaults | _with_twins(attributes))
        estimators.append(estimator)
    return estimators


def _our_defaults(kind: Any) -> dict[str, Any]:
    """Return the defaults of a class of ours: older files do not have parameters that are new."""
    if not kind.__module__.startswith("duelrank."):
        return {}
    parameters = inspect.signature(kind).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _is_its_attributes(kind: Any) -> bool:
    """Tell whether objects of this class can be rebuilt from their attributes."""
    if not kind.__module__.startswith(("sklearn.", "duelrank.")) or kind.__dictoffset__ == 0:
        return False
    parent: Any = BaseEstimator if issubclass(kind, BaseEstimator) else object
    return all(
        getattr(kind, name, None) is getattr(parent, name, None)
        for name in ("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__")
    )


def _without_neighbour_tree(attributes: dict[str, Any]) -> dict[str, Any]:
    has_tree = isinstance(attributes.get("_tree"), (BallTree, KDTree))
    return {**attributes, "_tree": None} if has_tree else dict(attributes)


def _with_neighbour_tree(attributes: dict[str, Any]) -> dict[str, Any]:
    method = attributes.get("_fit_method")
    if "_tree" in attributes and isinstance(method, str) and method in NEIGHBOUR_TREES:
        attributes["_tree"] = NEIGHBOUR_TREES[method](
            attributes["_fit_X"],
            attributes["leaf_size"],
            metric=attributes["effective_metric_"],
            **attributes["effective_metric_params_"],
        )
    return attributes


def _without_twins(attributes: dict[str, Any]) -> dict[str, Any]:
    frozen, used = attributes.get("estimator"), attributes.get("estimator_")
    is_twin = isinstance(frozen, FrozenEstimator) and frozen.estimator is used
    return {**attributes, "estimator": FROZEN} if is_twin else attributes


def _with_twins(attributes: dict[str, Any]) -> dict[str, Any]:
    estimator = attributes.get("estimator")
    if isinstance(estimator, str) and estimator == FROZEN:
        attributes["estimator"] = FrozenEstimator(attributes["estimator_"])
    return attributes


def _bare(thing: Any) -> Any:
    bare = copy.copy(thing)
    vars(bare).clear()
    return bare


def _pack_frozen(objects: list[Any]) -> Column | None:
    """Frozen estimators, which without what they freeze could not be asked for anything."""
    if not all(type(o) is FrozenEstimator for o in objects):
        return None
    return {"items": pack([o.estimator for o in objects])}


def _unpack_frozen(column: Column, length: int, allowance: Allowance) -> list[Any]:
    return [FrozenEstimator(o) for o in _unpack(column["items"], length, allowance)]


def _pack_trees(objects: list[Any]) -> Column | None:
    if not all(type(o) is Tree for o in objects):
        return None
    states = []
    for tree in objects:
        _, arguments, state = tree.__reduce__()
        states.append(dict(zip(TREE_ARGUMENTS, arguments, strict=True)) | state)
    return {"states": pack(states)}


def _unpack_trees(column: Column, length: int, allowance: Allowance) -> list[Any]:
    trees = []
    states = _unpack(column["states"], length, allowance)
    check_trees(states)
    for state in states:
        tree = Tree(*(state.pop(name) for name in TREE_ARGUMENTS))
        tree.__setstate__(state)
        trees.append(tree)
    return trees


def _pack_tree_predictors(objects: list[Any]) -> Column | None:
    if not all(type(o) is TreePredictor for o in objects):
        return None
    states = [{name: getattr(o, name) for name in PREDICTOR_ARRAYS} for o in objects]
    return {"states": pack(states)}


def _unpack_tree_predictors(column: Column, length: int, allowance: Allowance) -> list[Any]:
    predictors = []
    for state in _unpack(column["states"], length, allowance):
        check_tree_predictor(state)
        predictors.append(TreePredictor(**state))
    return predictors


def _pack_mixed(objects: list[Any]) -> Column | None:
    """Objects of a few forms, such as texts and a NaN: those of each form together."""
    numbers: dict[Any, int] = {}
    forms = np.array([numbers.setdefault(_form(o), len(numbers)) for o in objects])
    pays = len(numbers) < len(objects) or all(type(o) is np.ndarray for o in objects)
    if not 1 < len(numbers) <= SHORT_LIST or not pays:
        return None
    items = {
        str(number): pack(
            [o for o, form in zip(objects, forms.tolist(), strict=True) if form == number]
        )
        for number in numbers.values()
    }
    return {"forms": forms.astype(np.uint8), "items": items}


def _form(thing: Any) -> Any:
    """Return what objects must have in common, so that they can be packed together."""
    return (thing.dtype, thing.ndim) if type(thing) is np.ndarray else type(thing)


def _unpack_mixed(column: Column, length: int, allowance: Allowance) -> list[Any]:
    forms, items = column["forms"], column["items"]
    check_packed(_is_vector(forms, length, np.uint8))
    counts = np.bincount(forms).tolist()
    check_packed(isinstance(items, dict) and len(items) == len(counts))
    parts = [iter(_unpack(items[str(i)], n, allowance)) for i, n in enumerate(counts)]
    return [next(parts[form]) for form in forms.tolist()]


def _unpack_objects(column: Column, length: int, allowance: Allowance) -> list[Any]:
    check_packed(isinstance(column["values"], list))
    return list(column["values"])


# The first kind that fits is taken.
_KINDS = {
    "same": _pack_same,
    "optional": _pack_optional,
    "numbers": _pack_numbers,
    "texts": _pack_texts,
    "arrays": _pack_arrays,
    "short_lists": _pack_short_lists,
    "lists": _pack_lists,
    "sets": _pack_sets,
    "vocabularies": _pack_vocabularies,
    "dicts": _pack_dicts,
    "trees": _pack_trees,
    "tree_predictors": _pack_tree_predictors,
    "frozen": _pack_frozen,
    "estimators": _pack_estimators,
    "mixed": _pack_mixed,
}
_UNPACKERS = {
    "same": _unpack_same,
    "optional": _unpack_optional,
    "numbers": _unpack_numbers,
    "texts": _unpack_texts,
    "arrays": _unpack_arrays,
    "short_lists": _unpack_short_lists,
    "lists": _unpack_lists,
    "sets": _unpack_sets,
    "vocabularies": _unpack_vocabularies,
    "dicts": _unpack_dicts,
    "trees": _unpack_trees,
    "tree_predictors": _unpack_tree_predictors,
    "frozen": _unpack_frozen,
    "estimators": _unpack_estimators,
    "mixed": _unpack_mixed,
    "objects": _unpack_objects,
}
