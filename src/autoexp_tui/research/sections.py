"""A text of bounded length made of sections: of each the records that matter most are
told whole, and what is behind them is folded into a line. What is told is cleaned and
masked, and none of it reads as a heading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from autoexp_tui.model.masking import MaskRules, mask_text, may_hold_secret
from autoexp_tui.text.sanitize import clean, clean_line
from autoexp_tui.text.spelling import join_some

T = TypeVar("T")
_FOLD_BYTES: Final = 240
"""That the line about what is behind may take."""
_MOST_LINE: Final = 2000
"""Characters: overrides of an agent are whole."""
_MOST_QUOTED: Final = 10
"""Texts of others in a block, the newest."""
_CUT: Final = "… (cut)"
_NOTHING: Final = "None."


def clean_words(text: object) -> str:
    """A text of others as one harmless line."""
    return clean_line(text, _MOST_LINE)


@dataclass(frozen=True, slots=True)
class Section(Generic[T]):
    title: str
    records: Sequence[T]
    """The newest last."""
    tell: Callable[[T], str]
    """A record in one line or a few; nothing is shown of one that tells nothing."""
    name_kind: Callable[[T], str] | None = None
    """What a record is, for the line about those that are left out."""
    head: str = ""
    """Above the entries, where there are any."""
    is_queue: bool = False
    """Whether the first records matter most, and not the last."""

    def sort(self) -> Iterator[T]:
        """The records, most worth first."""
        return iter(self.records) if self.is_queue else reversed(self.records)

    def fold(self, shown: int) -> str:
        """A line about the records that are not; empty: what is cut has a mark."""
        if not (rest := [*self.sort()][shown:]):
            return ""
        kinds = count_kinds(map(self.name_kind, rest)) if self.name_kind else ""
        word = "more" if self.is_queue else "older"
        return clean_line(f"and {len(rest)} {word}: {kinds}".removesuffix(": "))

    def join(self, told: Sequence[str]) -> str:
        """The section with these entries, most worth first."""
        lines = [*filter(None, told[:: 1 if self.is_queue else -1])]
        head = [self.head] if self.head and lines else []
        body = "\n".join([*head, *(lines or [_NOTHING])])
        return f"\n# {self.title}\n\n{body}\n"


class _Draft(Generic[T]):
    """A section as far as it is told: what there is no room for is never written."""

    def __init__(self, section: Section[T], rules: MaskRules) -> None:
        self._section = section
        self._rest = (mask_lines(section.tell(one), rules) for one in section.sort())
        self._told = list[str]()
        self._size = measure(section.join([_NOTHING]))

    def fits(self, room: int) -> bool:
        """Whether all of it fits into `room` bytes: tells on until it does not."""
        while self._size <= room and (entry := next(self._rest, None)) is not None:
            self._told.append(entry)
            self._size += measure(entry)
        return self._size <= room

    def render(self, room: int) -> str:
        """With those that fit into `room` bytes, of the first at least its start."""
        if self.fits(room) or not self._told:
            return self._section.join(self._told)
        kept, size = [*self._told], self._size + _FOLD_BYTES
        while kept and size > room:
            size -= measure(kept.pop())
        kept = kept or [cut_text(self._told[0], room - size)]
        folded = cut_text(self._section.fold(len(kept)), _FOLD_BYTES - 1)
        return self._section.join([*kept, folded])


def mask_lines(text: str, rules: MaskRules) -> str:
    """A text with its secrets masked, each line by itself."""
    if not may_hold_secret(text, rules):
        return text
    return "\n".join(mask_text(line, rules) for line in text.split("\n"))


def tell_lines(lines: Iterable[str]) -> str:
    """A record that is some lines of its own."""
    return "\n".join(map(clean_words, lines))


def render_sections(
    sections: Sequence[Section[T]], room: int, rules: MaskRules
) -> list[str]:
    """Sections in `room` bytes together: those that need little have it, the others
    share the rest alike."""
    drafts = [_Draft(one, rules) for one in sections]
    texts = dict[int, str]()
    while left := [at for at in range(len(drafts)) if at not in texts]:
        share = room // len(left)
        short = [at for at in left if drafts[at].fits(share)]
        rendered = {at: drafts[at].render(share) for at in short or left}
        room -= sum(map(measure, rendered.values()))
        texts |= rendered
    return [texts[at] for at in range(len(drafts))]


def count_kinds(kinds: Iterable[str]) -> str:
    """`3 open, 9 rejected`."""
    counts = Counter(kinds)
    return join_some([f"{counts[kind]} {kind}" for kind in sorted(counts)], 12)


def measure(text: str) -> int:
    """Bytes of a text and of the end of its line."""
    return len(text.encode()) + 1


def cut_text(text: str, most: int) -> str:
    """`text` in at most `most` bytes of UTF-8, with a mark where it was cut."""
    if measure(text) <= most + 1:
        return text
    kept = text.encode()[: max(0, most - len(_CUT.encode()))].decode("utf-8", "ignore")
    return kept + _CUT if kept else ""


def quote(text: str, mark: str = "> ") -> str:
    """The lines of a text of others, each behind a mark, so that none reads as a line
    of ours."""
    shown = clean(text, keep_newlines=True).strip("\n")
    return "\n".join(f"{mark}{line}" for line in shown.split("\n")) if shown else ""


def write_block(
    head: str, details: Iterable[tuple[str, str]] = (), quoted: Sequence[str] = ()
) -> str:
    """A line, and below it the details that there are, and texts of others."""
    lines = [f"  {clean_words(f'{name}: {it}')}" for name, it in details if it]
    lines += [f"  > {clean_words(it)}" for it in quoted[-_MOST_QUOTED:]]
    return "\n".join([clean_words(head), *lines])
