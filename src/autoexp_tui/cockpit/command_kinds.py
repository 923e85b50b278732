"""What a command of the cockpit is, and the panes that one may belong to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

Pane: TypeAlias = Literal[
    "stages",
    "jobs",
    "why",
    "metrics",
    "needs",
    "log",
    "events",
    "effect",
    "evidence",
    "timeline",
    "waiting",
    "grid",
    "conditions",
]
Group: TypeAlias = Literal[
    "Move", "Look", "Log", "Metrics", "Events", "Time-line", "Act", "Replay", "Cockpit"
]

JOBS_MODE: Final[frozenset[Pane]] = frozenset(
    {"stages", "jobs", "why", "metrics", "needs", "log"}
)
CHRONICLE: Final[frozenset[Pane]] = frozenset({"events", "effect"})
EVENTS_MODE: Final[frozenset[Pane]] = CHRONICLE | {"evidence"}
TIMELINE_MODE: Final[frozenset[Pane]] = frozenset({"timeline", "conditions"})
WAITING_MODE: Final[frozenset[Pane]] = frozenset({"waiting", "conditions"})
GRID_MODE: Final[frozenset[Pane]] = frozenset({"grid", "conditions"})
EVERYWHERE: Final[frozenset[Pane]] = (
    JOBS_MODE | EVENTS_MODE | TIMELINE_MODE | WAITING_MODE | GRID_MODE
)
LISTS: Final[frozenset[Pane]] = frozenset(
    {"stages", "jobs", "needs", "events", "timeline", "waiting", "grid"}
)
STAGES: Final[frozenset[Pane]] = frozenset({"stages"})
ROWS: Final[frozenset[Pane]] = frozenset({"jobs"})
ABOUT_JOBS: Final[frozenset[Pane]] = (
    JOBS_MODE | TIMELINE_MODE | WAITING_MODE | GRID_MODE
)
STRIPS: Final[frozenset[Pane]] = frozenset({"timeline"})
LOG: Final[frozenset[Pane]] = frozenset({"log", "evidence"})
METRICS: Final[frozenset[Pane]] = frozenset({"metrics"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One thing that a person can ask for."""

    id: str
    keys: tuple[str, ...]
    """Textual's key names, the one to show first."""
    label: str
    """For the footer: a word or two."""
    help: str
    group: Group
    where: frozenset[Pane]
    acts: bool = False
    """Whether it changes anything outside the screen."""
    foot: int = 0
    """Place in the footer, 1 first to stay; 0: never there."""
    replay: bool = False
    """Whether only a replay has it; there its keys go before all others."""
    rank: int = field(default=0, compare=False)
