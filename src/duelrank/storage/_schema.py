"""The schema of a skops file, before skops reads it.

The *schema* is nested JSON. A part that stands for an object may have a number, ``__id__``; another
part with the same number stands for the same object, and skops reads one of them. `save` writes
all of them out in full. A file that repeats the number only can describe more objects than there
are atoms with a few kilobytes: forty lists, each of which holds the one before twice. skops would
go through all of them. So such a file is refused, and so is one that is nested too deeply for
skops, which calls itself for every level.
"""

from __future__ import annotations

from typing import Any

# Pipelines in pipelines with stacks in them have about 60 levels.
MOST_LEVELS = 200


class SchemaError(ValueError):
    """A schema that skops should not read; the message is a part of a sentence."""


def check_schema(schema: Any) -> None:
    """Raise unless skops can read a schema in a time that its length limits.

    Parts with the same number must be equally large and equally deep. Then it does not matter which
    of them skops reads: what it makes of the schema is as large and as deep as the schema.

    Parameters
    ----------
    schema : nested lists and dictionaries
        What the file holds.
    """
    _check_levels(schema)
    _measure(schema, {})


def _check_levels(schema: Any) -> None:
    level = [schema]
    for _ in range(MOST_LEVELS):
        level = [
            part for whole in level for part in _parts(whole) if isinstance(part, (dict, list))
        ]
        if not level:
            return
    raise SchemaError(f"its objects are nested in more than {MOST_LEVELS} levels")


def _measure(part: Any, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return how many dictionaries and lists there are in a part, and in how many levels."""
    n_parts, n_levels = 1, 1
    for inner in _parts(part):
        if isinstance(inner, (dict, list)):
            more, levels = _measure(inner, known)
            n_parts, n_levels = n_parts + more, max(n_levels, levels + 1)
    number = part.get("__id__") if isinstance(part, dict) else None
    if number is not None:
        if type(number) is not int:
            raise SchemaError("it numbers its objects by what is no number")
        if known.setdefault(number, (n_parts, n_levels)) != (n_parts, n_levels):
            raise SchemaError("it gives one number to different objects")
    return n_parts, n_levels


def _parts(whole: Any) -> Any:
    return whole.values() if isinstance(whole, dict) else whole
