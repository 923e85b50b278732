"""The bottom line: the keys that matter here, looking left, acting right."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.render.spans import Line, Span, join, width

if TYPE_CHECKING:
    from autoexp_tui.cockpit.commands import Command, Commands, Pane

_BORDER = "│"
_AS_EVER: Final[Mapping[str, str]] = MappingProxyType({})


def footer_line(
    commands: Commands,
    pane: Pane,
    useful: Collection[str],
    cells: int,
    *,
    replay: bool = False,
    labels: Mapping[str, str] = _AS_EVER,
) -> Line:
    """The footer for a pane, at most `cells` wide.

    `useful` holds the ids of acting commands that could do something now, `labels`, by
    id, the words of those that do something else than usual. Where the line is too
    long, what stands last in the table's order of importance goes first.
    """
    here = commands.at(pane, replay=replay)
    looks = [entry for entry in here if _looks(entry)]
    acts = [entry for entry in here if entry.acts and entry.foot]
    acts = [entry for entry in acts if entry.id in useful]
    looks = _own_first(looks)
    acts.sort(key=lambda entry: entry.foot)
    while True:
        content = _line(looks, acts, commands, labels)
        if width(content) <= cells or not (looks or acts):
            return content
        (looks if len(looks) > 2 or not acts else acts).pop()


def _looks(entry: Command) -> bool:
    return bool(entry.foot) and not entry.acts and entry.id != "app.leave"


def _own_first(entries: list[Command]) -> list[Command]:
    """A replay's, then by importance; a pane's own before those of everywhere."""
    return sorted(
        entries, key=lambda entry: (not entry.replay, entry.foot, len(entry.where))
    )


def _line(
    looks: list[Command],
    acts: list[Command],
    commands: Commands,
    labels: Mapping[str, str],
) -> Line:
    left = join((_hint(entry, commands, labels) for entry in looks), "  ")
    leave = commands.key("app.leave")
    last: Line = (Span(leave, "key"), Span(" leave"))
    right = join([*(_hint(entry, commands, labels) for entry in acts), last], "  ")
    border: Line = (Span(" "), Span(_BORDER, "rule"), Span(" "))
    return (Span(" "), *left, *border, *right)


def _hint(entry: Command, commands: Commands, labels: Mapping[str, str]) -> Line:
    label = labels.get(entry.id, entry.label)
    return (Span(commands.key(entry.id), "key"), Span(f" {label}"))
