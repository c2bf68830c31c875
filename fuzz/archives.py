"""Model files, taken apart and put together again with a checksum that fits.

Members and objects have numbers of our own, and nothing tells when the file was made: the same
model gives the same bytes.
"""

from __future__ import annotations

import io
import json
import random
import zipfile
from typing import Any

from duelrank.storage import _archive
from fuzz import arrays, documents, strangers
from fuzz.arrays import archive_of

SCHEMA, DESCRIPTION = "schema.json", "duelrank.json"
CREATED = "2000-01-01T00:00:00+00:00"

CONTENTS = (
    b"",
    b"{",
    b"[" * 100_000,
    b"\x80\x04.",
    bytes(1000),
    b'{"format":' + b"9" * 5000 + b"}",
)

Members = dict[str, bytes]


def canonical(content: bytes) -> Members:
    """Return the members of a model file, without what differs from run to run."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members.pop(SCHEMA))
    description = json.loads(members.pop(DESCRIPTION))
    numbers: dict[Any, int] = {}
    files: dict[str, str] = {}
    for part, key in documents.places_in(schema):
        if key == "__id__":
            part[key] = numbers.setdefault(part[key], len(numbers) + 1)
        elif key == "file":
            ending = part[key].rpartition(".")[2]
            part[key] = files.setdefault(part[key], f"{len(files) + 1}.{ending}")
    description["created"] = CREATED
    renamed = {files[name]: members[name] for name in files}
    return {
        **renamed,
        SCHEMA: documents.written(schema),
        DESCRIPTION: documents.written(description),
    }


def signed(members: Members) -> bytes:
    """Return a model file whose checksum fits, if its description can be read."""
    others = {name: member for name, member in members.items() if name != DESCRIPTION}
    try:
        description = json.loads(members[DESCRIPTION])
        description.pop("checksum", None)
        description["checksum"] = _archive._checksum(others, description)
    except (KeyError, ValueError, AttributeError, TypeError, RecursionError):
        return archive_of(members)
    return archive_of({**others, DESCRIPTION: json.dumps(description).encode()})


def altered(
    members: Members, others: list[Members], random: random.Random, story: list[str]
) -> Members:
    """Alter one member of a model file, or which members there are.

    Parameters
    ----------
    members : dict of str to bytes
        The members.
    others : list of dict
        Those of other models.
    random : Random
        Source of all choices.
    story : list of str
        Gets a line that says what was done.
    """
    members = dict(members)
    binary = sorted(name for name in members if not name.endswith(".json"))
    way = random.random()
    if way < 0.15 and SCHEMA in members:
        schema = json.loads(members.pop(SCHEMA))
        strangers.put_in(schema, members, random, story)
        members[SCHEMA] = documents.written(schema)
    elif way < 0.45 and SCHEMA in members:
        schema = json.loads(members[SCHEMA])
        theirs = [json.loads(random.choice(others)[SCHEMA])]
        documents.alter_schema(schema, theirs, random, story)
        members[SCHEMA] = documents.written(schema)
    elif way < 0.8 and binary:
        name = random.choice(binary)
        story.append(f"member {name}:")
        members[name] = arrays.altered(members[name], random, story)
    elif way < 0.88 and DESCRIPTION in members:
        description = json.loads(members[DESCRIPTION])
        documents.alter(description, random, story)
        members[DESCRIPTION] = documents.written(description)
    elif way < 0.94 and binary:
        donor = random.choice(others)
        theirs_named = sorted(name for name in donor if not name.endswith(".json")) or [SCHEMA]
        name, theirs_name = random.choice(binary), random.choice(theirs_named)
        members[name] = donor[theirs_name]
        story.append(f"member {name} is {theirs_name} of another model")
    else:
        _alter_names(members, random, story)
    return members


def damaged(content: bytes, random: random.Random, story: list[str]) -> bytes:
    """Damage the bytes of a file."""
    place = random.randrange(len(content))
    way = random.randrange(5)
    story.append(f"the file is damaged at byte {place}, in way {way}")
    if way == 0:
        return content[:place]
    if way == 1:
        return (
            content[:place]
            + bytes([content[place] ^ 1 << random.randrange(8)])
            + content[place + 1 :]
        )
    if way == 2:
        return content[:place] + content[place + random.choice([1, 16, 1000]) :]
    if way == 3:
        return content[:place] + content[max(0, place - random.choice([1, 16, 1000])) :]
    return content + random.randbytes(random.choice([1, 22, 500]))


def _alter_names(members: Members, random: random.Random, story: list[str]) -> None:
    name = random.choice(sorted(members))
    way = random.randrange(4)
    if way == 0:
        del members[name]
        story.append(f"member {name} is missing")
    elif way == 1:
        new = random.choice(["../x.npy", "x.npy", "a/b.npy", "1.npy", "\x1b[31m.npy", "x.exe", ""])
        members[new or "x"] = members.pop(name)
        story.append(f"member {name} is called {new!r}")
    elif way == 2:
        other = random.choice(sorted(members))
        members[name], members[other] = members[other], members[name]
        story.append(f"members {name} and {other} are swapped")
    else:
        members[name] = random.choice(CONTENTS)
        story.append(f"member {name} holds something else")
