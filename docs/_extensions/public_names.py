"""Link public names wherever they are written as code, in pages and in docstrings.

`DuelRanker`, `losses.kendall_tau` and `top_k_scorer(2)` become links to the reference, so that
authors write plain backticks. A bare name that means two things, because it is also a parameter, an
attribute or a method somewhere (`noise_exponent`, `predict_order`), is left alone; with its room
(`duelrank.predict_order`) it is linked.
"""

import inspect
import pkgutil
from contextlib import suppress
from importlib import import_module

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

import duelrank


def setup(app):
    app.add_transform(LinkPublicNames)
    return {"parallel_read_safe": True}


class LinkPublicNames(SphinxTransform):
    """Turn literals that are public names into references."""

    default_priority = 500

    def apply(self):
        for literal in list(self.document.findall(nodes.literal)):
            name = literal.astext().partition("(")[0]
            target = TARGETS.get(name)
            if target is None or self._is_elsewhere(literal, target):
                continue
            reference = addnodes.pending_xref(
                "",
                literal.deepcopy(),
                refdomain="py",
                reftype="obj",
                reftarget=target,
                refexplicit=True,
                refwarn=True,
                refdoc=self.env.docname,
            )
            literal.replace_self(reference)

    def _is_elsewhere(self, literal, target):
        """Tell whether a link is in the way: in a title, in another link, on its own page."""
        if self.env.docname == f"api/{target}":
            return True
        inside = (nodes.title, nodes.reference, addnodes.pending_xref)
        parent = literal.parent
        while parent is not None:
            if isinstance(parent, inside):
                return True
            parent = parent.parent
        return False


def public_rooms():
    """Return the rooms of the package by name: its modules without an underscore.

    The command line is no room to import from.
    """
    names = [module.name for module in pkgutil.iter_modules(duelrank.__path__)]
    return {
        name: import_module(f"duelrank.{name}")
        for name in names
        if not name.startswith("_") and name != "cli"
    }


def _targets():
    """Map what authors write to what the reference calls it."""
    targets, other_meanings = {}, set()
    for room_name, room in public_rooms().items():
        targets[f"duelrank.{room_name}"] = f"duelrank.{room_name}"
        for name in room.__all__:
            if not callable(getattr(room, name)):
                continue  # constants have no page
            longest = f"duelrank.{room_name}.{name}"
            path = f"duelrank.{name}" if name in duelrank.__all__ else longest
            for written in (name, path, f"{room_name}.{name}", longest):
                targets[written] = path
            other_meanings |= _other_meanings(getattr(room, name))
    targets["pairs"] = targets["duelrank.pairs"] = "duelrank.pairs"
    return {name: path for name, path in targets.items() if name not in other_meanings}


def _other_meanings(public):
    """Name the parameters and attributes of a function or class."""
    words = set()
    with suppress(TypeError, ValueError):  # neither a function nor a class, or an exception
        words.update(inspect.signature(public).parameters)
    if inspect.isclass(public):
        words.update(dir(public))
        words.update(getattr(public, "__annotations__", ()))
    return words


TARGETS = _targets()
