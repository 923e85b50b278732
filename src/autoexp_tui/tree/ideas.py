"""Ideas as markdown files, and which of them repeat another.

Agents and people write them, so a file is bounded and its text is cleaned. Two ideas
are the same when their normalised text is.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from autoexp_tui.model.states import Why, why
from autoexp_tui.text.sanitize import clean, clean_line
from autoexp_tui.tree.options import Scope
from autoexp_tui.tree.state import Idea

MOST_BYTES: Final = 64 * 1024
SUFFIX: Final = ".md"
_TITLE: Final = 120
_PERSONAL: Final = re.compile(rf"own_[0-9a-f]{{12}}{re.escape(SUFFIX)}")
_BULLET: Final = re.compile(r"(?:[-*+\u2022\u2023\u25e6\u2043]|\d{1,3}[.)])\s+")


class IdeaRefused(Exception):
    """A file that is no idea; `why` says so."""

    def __init__(self, reason: Why) -> None:
        super().__init__(reason.code)
        self.why = reason


class IdeaText(NamedTuple):
    """What is read of a file of an idea."""

    title: str
    text: str
    """Cleaned, as it is shown to agents and people."""
    sha256: str
    """Of the normalised text: the same idea has the same."""

    def name_personal(self) -> str:
        """The file of a person's idea."""
        return f"own_{self.sha256[:12]}{SUFFIX}"


def is_personal(file_name: str) -> bool:
    """Whether it is the name of a person's idea: nobody proposed that."""
    return _PERSONAL.fullmatch(file_name) is not None


def parse_idea(data: bytes) -> IdeaText:
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
    return IdeaText(_find_title(text), text, digest)


def normalize_text(text: str) -> str:
    """`text` without what does not make another idea of it: Unicode forms, blank lines,
    spaces, and the marks of lists, which all become `-`."""
    plain = unicodedata.normalize("NFC", text)
    lines = (" ".join(line.split()) for line in plain.splitlines())
    marked = (_BULLET.sub("- ", line, count=1) if line else "" for line in lines)
    return "\n".join(line for line in marked if line)


def dedupe_ideas(
    ideas: Iterable[Idea],
    tried: Iterable[Idea],
    scope: Scope,
    ancestors: Mapping[str, Collection[str]],
) -> tuple[list[Idea], list[tuple[Idea, Idea]]]:
    """In order of nodes and files: those that repeat nothing, and the others, each with
    the first one that it repeats. `tried`: of earlier depths; `ancestors`: of each
    node, the nodes above it."""
    kept, repeats = list[Idea](), list[tuple[Idea, Idea]]()
    ordered = sorted(ideas, key=lambda one: (int(one.node[1:]), one.file))
    known: dict[str, list[Idea]] = {one.sha256: [] for one in ordered}
    for one in tried:
        if one.sha256 in known:
            known[one.sha256].append(one)
    for one in ordered:
        nodes = {one.node}
        if scope == "node_plus_ancestors":
            nodes |= {*ancestors.get(one.node, ())}
        equal = known[one.sha256]
        earlier = (it for it in equal if scope == "global" or it.node in nodes)
        if (same := next(earlier, None)) is not None:
            repeats.append((one, same))
        else:
            kept.append(one)
            equal.append(one)
    return kept, repeats


def cut_ideas(
    ideas: Iterable[Idea], tried: Collection[str], most: int
) -> tuple[Idea, ...]:
    """The first `most` that are new, and the repeats before the last of them, which are
    told: of a directory each node gets the next ones. `tried`: hashes of the texts."""
    known, kept = {*tried}, list[Idea]()
    for one in ideas:
        if one.sha256 not in known:
            if not most:
                break
            most -= 1
            known.add(one.sha256)
        kept.append(one)
    return tuple(kept)


def _find_title(text: str) -> str:
    """The first heading, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    headings = (line.lstrip("#").strip() for line in lines if line.startswith("#"))
    first = next((heading for heading in headings if heading), lines[0])
    return clean_line(_BULLET.sub("", first, count=1), _TITLE)
