"""What does not happen in a run: its log falls silent, its counter stands still.

A `RunWatch` is told what one run writes and when its log was looked at; it says which
rules have waited long enough, each once in a quiet period. Only time in which somebody
looked counts: whoever did not look, or was suspended meanwhile, knows nothing of it.
A quiet period has a key that follows from the log alone (a byte or a step), so reading
the log again finds the same one. What follows from it is not decided here.
All times here are seconds that engines lived.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from autoexp_tui.conditions.comparing import as_number
from autoexp_tui.model.rules import LogEvent
from autoexp_tui.telemetry.log_rules import compile_rule_pattern
from autoexp_tui.text.patterns import (
    LineSearch,
    Pattern,
    PatternMatch,
    readable,
)
from autoexp_tui.text.spelling import duration

LOOK_GAP_SECONDS: Final = 120.0
"""Between two looks at a log: after a longer one its clocks begin anew."""


@dataclass(frozen=True, slots=True)
class QuietRule:
    """A rule over what does not happen, ready to use."""

    rule: LogEvent
    after: float
    """Seconds."""
    pattern: Pattern | None = None
    """None: of every output, or of the run's own counter."""
    search: LineSearch | None = None
    """The same, over many lines."""


@dataclass(frozen=True, slots=True)
class Still:
    """A rule has waited long enough."""

    rule: LogEvent
    key: int
    """Names the quiet period within the run."""
    offset: int
    """Bytes from the start of the log to where it began."""
    line: str
    """What stands still, in words."""


def compile_quiet_rule(rule: LogEvent, stall_after_seconds: float) -> QuietRule:
    """A rule of `QUIET_TYPES`, ready to use.

    Raises:
        ValueError: its pattern is refused, or has no group to read a number from.
    """
    after = stall_after_seconds if rule.after_seconds is None else rule.after_seconds
    if not rule.pattern:
        return QuietRule(rule, after)
    pattern = compile_rule_pattern(rule)
    if rule.pattern_type == "progress" and not pattern.groups:
        raise ValueError(f"rule {rule.name}: the pattern has no group")
    return QuietRule(rule, after, pattern, LineSearch([pattern]))


# ------------------------------------------------------------------------- clocks
@dataclass(slots=True)
class Clock:
    """Since when something has not moved; it stands until that first happens."""

    since: float | None = None
    key: int = 0
    offset: int = 0
    told: bool = False
    """This quiet period has been told of."""

    def move(self, now: float, key: int, offset: int) -> None:
        """It moved: a quiet period ends, the next may begin."""
        self.since, self.key, self.offset, self.told = now, key, offset, False

    def anew(self, now: float) -> None:
        """Nobody knows what happened meanwhile: count from now."""
        if self.since is not None:
            self.since = now

    def still(self, seen_at: float | None) -> float:
        """Seconds without movement, up to the last look."""
        if self.since is None or seen_at is None:
            return 0.0
        return seen_at - self.since

    def is_over(self, seen_at: float | None, after: float) -> bool:
        """Whether a quiet period is `after` seconds old that nobody was told of."""
        running = self.since is not None and seen_at is not None
        return running and not self.told and self.still(seen_at) >= after


@dataclass(slots=True)
class Counter:
    """A number that a run reports again and again.

    The first report is no movement: a run that goes on from a checkpoint may report
    where it starts and then prepare itself for long. One that starts afresh has moved
    as soon as it is past zero.
    """

    value: float | None = None
    clock: Clock = field(default_factory=Clock)

    def report(self, value: float | None, now: float, key: int, offset: int) -> None:
        """The run says where it is; None: what it said is no number."""
        if value is None:
            return
        moved = self.value is not None and value != self.value
        self.value = value
        if moved:
            self.clock.move(now, key, offset)


# ------------------------------------------------------------------------ one run
class RunWatch:
    """The quiet of one run, for its stall and for each of its rules."""

    def __init__(
        self, rules: Sequence[QuietRule] = (), *, afresh: bool = False
    ) -> None:
        """`afresh`: the run starts at step 0."""
        start = 0.0 if afresh else None
        self.looked_at: float | None = None
        """When the log was last looked at; None: not since the clocks stopped."""
        self.shortest = min((rule.after for rule in rules), default=math.inf)
        """Seconds that the least patient rule waits."""
        self._steps = Counter(start)
        self._silence = [(rule, Clock()) for rule in rules if not _counts(rule)]
        self._counters = [(rule, Counter(start)) for rule in rules if _counts(rule)]

    # -------------------------------------------------------------------- what moves
    def look(self, now: float) -> None:
        """Somebody looked at the log, whatever there was to see."""
        if self.looked_at is None or now - self.looked_at > LOOK_GAP_SECONDS:
            self._begin_anew(now)
        self.looked_at = now

    def blind(self) -> None:
        """Nobody looked for an unknown time: count from the next look on."""
        self.looked_at = None

    def read(self, data: bytes, offset: int, now: float) -> None:
        """New whole lines that begin at byte `offset` of the log."""
        end = offset + len(data)
        lines = readable(data) if self._reads_lines else b""
        for rule, clock in self._silence:
            if rule.pattern is None:
                clock.move(now, end, end)
            for start, _ in _matches(rule, lines):
                clock.move(now, offset + start + 1, offset + start)
        for rule, counter in self._counters:
            for start, match in _matches(rule, lines):
                place = offset + start
                number = _number(rule, match)
                counter.report(number, now, place + 1, place)

    @property
    def _reads_lines(self) -> bool:
        rules = (rule for rule, _ in (*self._silence, *self._counters))
        return any(rule.pattern is not None for rule in rules)

    def step(self, step: int, now: float, offset: int) -> None:
        """The run's own counter was reported by the line at byte `offset`."""
        self._steps.report(step, now, step, offset)
        for rule, counter in self._counters:
            if rule.pattern is None:
                counter.report(step, now, step, offset)

    # ------------------------------------------------------------------- what stands
    @property
    def moved_lived(self) -> float | None:
        """When the run's own counter last moved; None: it has not."""
        return self._steps.clock.since

    @property
    def stood(self) -> float:
        """Seconds for which the run's own counter stands still, as far as is known."""
        return self._steps.clock.still(self.looked_at)

    def stalled(self, after: float) -> bool:
        """Whether the counter stood for `after` seconds and has not moved since."""
        clock = self._steps.clock
        clock.told = clock.told or clock.is_over(self.looked_at, after)
        return clock.told

    def due(self) -> Iterator[Still]:
        """The rules whose time is over, once in a quiet period."""
        for rule, clock in self._silence:
            if clock.is_over(self.looked_at, rule.after):
                yield _still(rule, clock, _silent(rule))
        for rule, counter in self._counters:
            if counter.clock.is_over(self.looked_at, rule.after):
                yield _still(rule, counter.clock, _stands(rule, counter))

    def _begin_anew(self, now: float) -> None:
        counters = (self._steps, *(counter for _, counter in self._counters))
        for counter in counters:
            counter.clock.anew(now)
        for _, clock in self._silence:
            clock.since = now  # silence begins with the first look


def _counts(rule: QuietRule) -> bool:
    return rule.rule.pattern_type == "progress"


def _matches(rule: QuietRule, lines: bytes) -> Iterator[tuple[int, PatternMatch]]:
    """(start, match) of each line that the rule's pattern is about."""
    if rule.pattern is None or rule.search is None:
        return
    for line in rule.search.find(lines):
        match = rule.pattern.search(line.text)
        if match is not None:
            yield line.start, match


def _number(rule: QuietRule, match: PatternMatch) -> float | None:
    """What the group `value`, or the first one, spells; None: no number."""
    text = match[rule.pattern.value_group] if rule.pattern else None
    value = as_number(text.decode().replace(",", "")) if text else None
    return value if value is not None and math.isfinite(value) else None


# -------------------------------------------------------------------------- words
def _still(rule: QuietRule, clock: Clock, line: str) -> Still:
    clock.told = True
    return Still(rule.rule, clock.key, clock.offset, line)


def _silent(rule: QuietRule) -> str:
    what = f'line that matches "{rule.rule.pattern}"' if rule.pattern else "output"
    return f"no new {what} for {duration(rule.after)}"


def _stands(rule: QuietRule, counter: Counter) -> str:
    return f"no step after {counter.value:.10g} for {duration(rule.after)}"
