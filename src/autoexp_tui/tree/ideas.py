"""Ideas as markdown files, and which of them repeat another.

Agents and people write them, so a file is bounded and its text is cleaned. Two ideas
are the same when their normalised text is; two implementations when their diffs make
the same changes, wherever in a file.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autoexp_tui.model.states import Why, why
from autoexp_tui.text.sanitize import clean, clean_line
from autoexp_tui.tree.options import Scope

MOST_BYTES: Final = 64 * 1024
SUFFIX: Final = ".md"
_TITLE: Final = 120
_ID: Final = 12
_BULLET: Final = re.compile(r"(?:[-*+\u2022\u2023\u25e6\u2043]|\d{1,3}[.)])\s+")
_PLACE_OF_DIFF: Final = re.compile(r"(?m)^(index .*|@@ .*? @@.*)$\n?")


class IdeaRefused(Exception):
    """A file that is no idea; `why` says so."""

    def __init__(self, reason: Why) -> None:
        super().__init__(reason.code)
        self.why = reason


@dataclass(frozen=True, slots=True)
class Idea:
    """`idea_id` is the beginning of `text_hash`: the same idea has the same id."""

    idea_id: str
    title: str
    text: str
    """Cleaned, as it is shown to agents and people."""
    file_name: str
    sha256: str
    """Of the file."""
    text_hash: str
    """Sha256 of the normalised text."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What was tried on a node before: the hash of an idea's text, or of a diff."""

    node: int
    digest: str
    what: str
    """`e12`, or the file's name: for people."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """An idea for a node."""

    node: int
    idea: Idea


@dataclass(frozen=True, slots=True)
class SkippedIdea:
    node: int
    file_name: str
    text_hash: str
    why: Why


def parse_idea(file_name: str, data: bytes) -> Idea:
    """The idea of a file; raises IdeaRefused where it is empty, binary or too long."""
    if len(data) > MOST_BYTES:
        raise IdeaRefused(why("idea_too_long", bytes=len(data), most=MOST_BYTES))
    try:
        raw = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise IdeaRefused(why("idea_not_text")) from None
    if "\0" in raw:
        raise IdeaRefused(why("idea_not_text"))
    text = clean(raw, keep_newlines=True).strip()
    normalised = normalize_text(text)
    if not normalised:
        raise IdeaRefused(why("idea_empty"))
    digest = hashlib.sha256(normalised.encode()).hexdigest()
    sha256 = hashlib.sha256(data).hexdigest()
    return Idea(digest[:_ID], _find_title(text), text, file_name, sha256, digest)


def normalize_text(text: str) -> str:
    """`text` without what does not make another idea of it: Unicode forms, blank lines,
    spaces, and the marks of lists, which all become `-`."""
    plain = unicodedata.normalize("NFC", text)
    lines = (" ".join(line.split()) for line in plain.splitlines())
    marked = (_BULLET.sub("- ", line, count=1) if line else "" for line in lines)
    return "\n".join(line for line in marked if line)


def hash_diff(diff: str) -> str:
    """Sha256 of a diff without the places and object ids in it: the same changes of the
    same files have the same hash, whatever commit they are made on."""
    lines = (line.rstrip() for line in _PLACE_OF_DIFF.sub("", diff).splitlines())
    return hashlib.sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()


def dedupe_ideas(
    proposals: Iterable[Proposal],
    tried: Sequence[Tried],
    scope: Scope,
    ancestors: Mapping[int, Collection[int]],
) -> tuple[tuple[Proposal, ...], tuple[SkippedIdea, ...]]:
    """Those that repeat nothing, in order of (node, file name), and the others. Of two
    equal ones the first in this order is kept. `ancestors`: of each node, its parents
    up to the root."""
    known, kept, skipped = [*tried], list[Proposal](), list[SkippedIdea]()
    for one in sorted(proposals, key=lambda one: (one.node, one.idea.file_name)):
        idea = one.idea
        same = find_repeat(one.node, idea.text_hash, known, scope, ancestors)
        if same is None:
            kept.append(one)
            known.append(Tried(one.node, idea.text_hash, idea.file_name))
            continue
        reason = why("idea_repeated", what=same.what, node=f"n{same.node}")
        skipped.append(SkippedIdea(one.node, idea.file_name, idea.text_hash, reason))
    return tuple(kept), tuple(skipped)


def find_repeat(
    node: int,
    digest: str,
    known: Iterable[Tried],
    scope: Scope,
    ancestors: Mapping[int, Collection[int]],
) -> Tried | None:
    """What was tried before with this hash, in `scope` of a node; the first."""
    nodes = {node}
    if scope == "node_plus_ancestors":
        nodes |= {*ancestors.get(node, ())}
    return next(
        (
            one
            for one in known
            if one.digest == digest and (scope == "global" or one.node in nodes)
        ),
        None,
    )


def _find_title(text: str) -> str:
    """The first heading, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    headings = (line.lstrip("#").strip() for line in lines if line.startswith("#"))
    first = next((heading for heading in headings if heading), lines[0])
    return clean_line(_BULLET.sub("", first, count=1), _TITLE)
