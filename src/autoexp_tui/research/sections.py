"""A text of bounded length made of sections: of each the records that matter most are
told whole, and what is behind them is folded into a line. What is told is cleaned and
masked, and none of it reads as a heading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from autoexp_tui.model.masking import MaskRules, mask_text
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

    def write(self, room: int, rules: MaskRules) -> list[str]:
        """What is told of the records, most worth first, up to the first that does not
        fit into `room` bytes."""
        told = list[str]()
        for record in self._sort():
            lines = self.tell(record).split("\n")
            told.append("\n".join(mask_text(line, rules) for line in lines))
            room -= measure(told[-1])
            if room < 0:
                break
        return told

    def render(self, told: Sequence[str], room: int) -> str:
        """With those that fit into `room` bytes, of the first at least its start."""
        if measure(text := self._join(told)) <= room or not told:
            return text
        room -= measure(self._join([])) + _FOLD_BYTES
        left, kept = room, list[str]()
        for entry in told:
            left -= measure(entry)
            if left < 0:
                break
            kept.append(entry)
        kept = kept or [cut_text(told[0], room)]
        return self._join([*kept, cut_text(self._fold(len(kept)), _FOLD_BYTES - 1)])

    def _sort(self) -> Iterator[T]:
        return iter(self.records) if self.is_queue else reversed(self.records)

    def _fold(self, shown: int) -> str:
        """A line about the records that are not; empty: what is cut has a mark."""
        if not (rest := [*self._sort()][shown:]):
            return ""
        kinds = count_kinds(map(self.name_kind, rest)) if self.name_kind else ""
        word = "more" if self.is_queue else "older"
        return clean_line(f"and {len(rest)} {word}: {kinds}".removesuffix(": "))

    def _join(self, told: Sequence[str]) -> str:
        lines = [*filter(None, told[:: 1 if self.is_queue else -1])]
        head = [self.head] if self.head else []
        body = "\n".join([*head, *lines]) if lines else "None."
        return f"\n# {self.title}\n\n{body}\n"


def tell_lines(lines: Iterable[str]) -> str:
    """A record that is some lines of its own."""
    return "\n".join(map(clean_words, lines))


def render_sections(
    sections: Sequence[Section[T]], room: int, rules: MaskRules
) -> list[str]:
    """Sections in `room` bytes together: those that need little have it, the others
    share the rest alike."""
    told = [one.write(room, rules) for one in sections]
    texts = [""] * len(sections)
    by_size = sorted(range(len(sections)), key=lambda at: sum(map(measure, told[at])))
    for place, at in enumerate(by_size):
        share = room // (len(sections) - place)
        texts[at] = sections[at].render(told[at], share)
        room -= measure(texts[at])
    return texts


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
