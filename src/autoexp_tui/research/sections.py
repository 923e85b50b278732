"""A text of bounded length made of sections: of each the entries that matter most are
whole, and what is behind them is folded into a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from autoexp_tui.model.masking import mask_text
from autoexp_tui.text.sanitize import clean

_FOLD_BYTES: Final = 240
"""That the line about what is behind may take."""
_CUT: Final = "… (cut)"


@dataclass(slots=True)
class Section:
    title: str
    entries: Iterable[str]
    """By their worth, most first; made as far as there is room."""
    fold: Callable[[int], str] = lambda shown: "(the rest is left out)"
    """A line about the entries behind the first `shown`."""
    head: str = ""
    """Above the entries, where there are any."""
    is_newest_last: bool = False
    """Whether the entries are shown the other way round."""
    is_whole: bool = True
    _shown: list[str] = field(default_factory=list)
    _rest: str = ""

    @property
    def frame(self) -> int:
        """Bytes that it takes beside its entries."""
        return measure(f"\n# {self.title}\n\n{self.head or 'None.'}")

    @property
    def size(self) -> int:
        """Bytes of the entries that are shown, and of the line about the others."""
        return sum(map(measure, filter(None, [*self._shown, self._rest])))

    def take(self, room: int) -> None:
        """Make the entries, up to the first that does not fit into `room` bytes."""
        for entry in self.entries:
            self._shown.append(entry)
            room -= measure(entry)
            if room < 0:
                self.is_whole = False
                return

    def cut(self, room: int) -> None:
        """Show what fits into `room` bytes; of the first entry at least its start."""
        if self.is_whole and self.size <= max(0, room):
            return
        kept, left = list[str](), room - _FOLD_BYTES
        for entry in self._shown:
            left -= measure(entry)
            if left < 0:
                break
            kept.append(entry)
        start = cut_text(self._shown[0], room - _FOLD_BYTES - 1)
        self._shown = kept or list(filter(None, [start]))
        rest = self.fold(len(self._shown))
        self._rest, self.is_whole = cut_text(rest, min(room, _FOLD_BYTES) - 1), False

    def render(self) -> str:
        lines = [*self._shown, self._rest][:: -1 if self.is_newest_last else 1]
        body = "\n".join(filter(None, [self.head if self._shown else "", *lines]))
        return f"\n# {self.title}\n\n{body or 'None.'}\n"


def fit_sections(sections: Sequence[Section], room: int) -> None:
    """Cut sections to `room` bytes together: those that need little have it, the others
    share the rest alike."""
    room -= sum(one.frame for one in sections)
    for one in sections:
        one.take(room)
    # The larger ones last; among equals the order is theirs.
    by_size = sorted(sections, key=lambda one: (not one.is_whole, one.size))
    for at, one in enumerate(by_size):
        one.cut(room // (len(by_size) - at))
        room -= one.size


def measure(text: str) -> int:
    """Bytes of a text and of the end of its line."""
    return len(text) + 1 if text.isascii() else len(text.encode()) + 1


def cut_text(text: str, most: int) -> str:
    """`text` in at most `most` bytes of UTF-8, with a mark where it was cut."""
    if measure(text) <= most + 1:
        return text
    kept = text.encode()[: max(0, most - len(_CUT.encode()))].decode("utf-8", "ignore")
    return kept + _CUT if kept else ""


def quote(text: str, most: int, mark: str = "> ") -> str:
    """The lines of a text of others, at most `most` characters, each behind a mark, so
    that none reads as a line of ours; secrets are masked."""
    shown = mask_text(clean(text, keep_newlines=True, limit=most)).strip("\n")
    return "\n".join(f"{mark}{line}" for line in shown.split("\n")) if shown else ""
