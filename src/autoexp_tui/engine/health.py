"""How the outside answers, for people; nothing here outlives the engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from autoexp_tui.model.snapshot import InQueue


@dataclass(slots=True)
class Health:
    """What is known of the outside's answers just now."""

    answered_at: float | None = None
    error: str = ""
    deposed: bool = False
    stop_when_idle: bool = False
    calls: int = 0
    queue: dict[str, InQueue] = field(default_factory=dict)
    """Job -> what the executor says of it while it waits there."""
    faults: dict[str, tuple[str, float]] = field(default_factory=dict)
    """What was looked at -> how that failed, and when it was told; monotonic."""
