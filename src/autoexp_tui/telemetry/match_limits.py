"""How many matches of a rule are events of their own, and what becomes of the others.

A rule that matches every line of a chatty log would fill the journal and hold up all
else. Beyond a few a second its matches are gathered: one event tells where the first
and the last of them lie, and how many there were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from autoexp_tui.telemetry.log_rules import Match

MOST_AT_ONCE: Final = 50
"""Matches of a rule that are events of their own although they come together."""
MOST_A_SECOND: Final = 5.0
GATHER_SECONDS: Final = 1.0
"""For which matches are gathered before they are told."""


@dataclass(slots=True)
class Gathered:
    """Matches that are told as one."""

    first: int
    """Offset of the first one's line, bytes."""
    since_lived: float
    last: Match
    count: int = 0
    metadata: dict[str, str] = field(default_factory=dict)

    def add(self, match: Match) -> None:
        """One more; what it extracted counts instead of what came before."""
        self.last = match
        self.count += 1
        self.metadata.update(match.metadata)


@dataclass(slots=True)
class _Rule:
    left: float
    lived: float
    gathered: Gathered | None = None


class MatchLimits:
    """Of the rules over one run's log."""

    def __init__(self) -> None:
        self._rules: dict[str, _Rule] = {}

    @property
    def gathers(self) -> bool:
        """Whether there is anything to be told."""
        return any(rule.gathered for rule in self._rules.values())

    def gather(self, match: Match, lived: float) -> bool:
        """Whether a match is gathered; else it is an event of its own."""
        rule = self._rules.setdefault(match.rule, _Rule(MOST_AT_ONCE, lived))
        rule.left += (lived - rule.lived) * MOST_A_SECOND
        rule.left, rule.lived = min(rule.left, MOST_AT_ONCE), lived
        if rule.gathered is None and rule.left >= 1.0:
            rule.left -= 1.0
            return False
        if rule.gathered is None:
            rule.gathered = Gathered(match.offset, lived, match)
        rule.gathered.add(match)
        return True

    def take_due(self, lived: float) -> Iterator[Gathered]:
        """What was gathered for long enough; infinity: all of it."""
        for rule in self._rules.values():
            found = rule.gathered
            if found is not None and lived - found.since_lived >= GATHER_SECONDS:
                rule.gathered = None
                yield found
