"""What a back end is: how its program is called, and what its output means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from autoexp_tui.agents.call import Request
from autoexp_tui.model.agents import Usage

MOST_TEXT: Final = 64 * 1024
"""Characters of a message that are kept."""
Event: TypeAlias = Mapping[str, Any]
"""A line of output that is a JSON object; from outside, so of any form."""


@dataclass(slots=True)
class Progress:
    """What a program has told so far."""

    steps: set[str] = field(default_factory=set)
    """Ids of its uses of tools."""
    text: str = ""
    """Its last message."""
    has_ended: bool = False
    """Its last event came: nothing is expected of it but its exit."""
    failure: str = ""
    """What its last event says went wrong; empty: nothing did."""
    complaint: str = ""
    """Its last word, where that was of a trouble that it may yet get over."""
    usage: Usage | None = None
    cost: float | None = None
    seen: dict[str, Usage] = field(default_factory=dict)
    """Usage by message, for when no last event sums it up."""

    def say(self, text: str) -> None:
        self.text = text[:MOST_TEXT]

    def add_step(self, name: str) -> None:
        self.steps.add(name or f"unnamed {len(self.steps)}")

    def end(self, failure: str = "") -> None:
        self.has_ended, self.failure = True, failure


def _ignore(event: Event, progress: Progress) -> None:
    """Its output is text for people."""


def _restore_nothing(home: Path) -> Usage | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    build_command: Callable[[Request, str], tuple[str, ...]]
    """Of a request, and the file with the schema of its last message; empty: that may
    be any text."""
    read_event: Callable[[Event, Progress], None] = _ignore
    has_events: bool = True
    """Whether a last event tells how it went."""
    restore_usage: Callable[[Path], Usage | None] = _restore_nothing
    """Usage by what a program that was killed left in its HOME."""


def get_tree(event: object, *path: str) -> Mapping[str, Any]:
    """A mapping within an event; an empty one where there is none."""
    for key in path:
        event = event.get(key) if isinstance(event, Mapping) else None
    return event if isinstance(event, Mapping) else {}


def get_text(event: Mapping[str, Any], key: str) -> str:
    found = event.get(key)
    return found if isinstance(found, str) else ""


def get_count(event: Mapping[str, Any], key: str) -> int:
    found = event.get(key)
    return found if isinstance(found, int) and found > 0 else 0
