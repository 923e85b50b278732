"""A text of bounded length made of sections: of each the entries that matter most are
whole, and what is behind them is folded into a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from autoexp_tui.model.masking import mask_text
from autoexp_tui.text.sanitize import clean, clean_line
from autoexp_tui.text.spelling import join_some

_FOLD_BYTES: Final = 240
"""That the line about what is behind may take."""
_CUT: Final = "… (cut)"


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    entries: Iterable[str]
    """By their worth, most first; made as far as there is room."""
    kinds: Sequence[str] = ()
    """What each entry is, for the line about those that are left out."""
    head: str = ""
    """Above the entries, where there are any."""
    is_newest_last: bool = False
    """Whether the entries are shown the other way round."""

    def take(self, room: int) -> list[str]:
        """The entries, up to the first that does not fit into `room` bytes."""
        taken = list[str]()
        for entry in self.entries:
            taken.append(entry)
            room -= measure(entry)
            if room < 0:
                break
        return taken

    def render(self, taken: Sequence[str], room: int) -> str:
        """With those that fit into `room` bytes, of the first at least its start."""
        if measure(text := self._join(taken)) <= room or not taken:
            return text
        room -= measure(self._join([])) + _FOLD_BYTES
        left, kept = room, list[str]()
        for entry in taken:
            left -= measure(entry)
            if left < 0:
                break
            kept.append(entry)
        kept = kept or [cut_text(taken[0], room)]
        return self._join([*kept, cut_text(self._fold(len(kept)), _FOLD_BYTES - 1)])

    def _fold(self, shown: int) -> str:
        rest = self.kinds[shown:]
        if not rest:
            return "(the rest is left out)"
        word = "older" if self.is_newest_last else "more"
        return f"and {len(rest)} {word}: {clean_line(count_kinds(rest))}"

    def _join(self, entries: Sequence[str]) -> str:
        lines = entries[:: -1 if self.is_newest_last else 1]
        body = "\n".join(filter(None, [self.head, *lines])) if lines else "None."
        return f"\n# {self.title}\n\n{body}\n"


def render_sections(sections: Sequence[Section], room: int) -> list[str]:
    """Sections in `room` bytes together: those that need little have it, the others
    share the rest alike."""
    taken = [one.take(room) for one in sections]
    texts = [""] * len(sections)
    by_size = sorted(range(len(sections)), key=lambda at: sum(map(measure, taken[at])))
    for place, at in enumerate(by_size):
        share = room // (len(sections) - place)
        texts[at] = sections[at].render(taken[at], share)
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
    of ours; secrets are masked."""
    shown = mask_text(clean(text, keep_newlines=True)).strip("\n")
    return "\n".join(f"{mark}{line}" for line in shown.split("\n")) if shown else ""
