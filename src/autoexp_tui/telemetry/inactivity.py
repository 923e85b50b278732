"""What does not happen in a run: its log falls silent, its counter stands still. Only
time (that engines lived) in which somebody looked counts. A quiet period has a key that
follows from the log alone, so reading it again finds the same one.

What is ill about a loss: not a number, flat, rising. Each finding is made once, and
once more as cleared; what follows from it is decided elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from autoexp_tui.model.rules import Anomalies, LogEvent
from autoexp_tui.telemetry.log_rules import Match, compile_rule_pattern, find_number
from autoexp_tui.text.patterns import LineSearch, Pattern, make_readable
from autoexp_tui.text.spelling import duration

LOOK_GAP_SECONDS: Final = 120.0
"""Between two looks at a log: after a longer one its clocks begin anew."""


_NO_LINES: Final = LineSearch([])


@dataclass(frozen=True, slots=True)
class QuietRule:
    rule: LogEvent
    after: float
    """Seconds."""
    pattern: Pattern | None = None
    """None: of every output, or of the run's own counter."""
    search: LineSearch = _NO_LINES
    """The same, over many lines."""

    @property
    def counts(self) -> bool:
        """Whether it is about a counter, not about silence."""
        return self.rule.pattern_type == "progress"


def compile_quiet_rule(rule: LogEvent, stall_after_seconds: float) -> QuietRule:
    """A rule of `QUIET_TYPES`, ready to use; raises ValueError."""
    after = stall_after_seconds if rule.after_seconds is None else rule.after_seconds
    if not rule.pattern:
        return QuietRule(rule, after)
    pattern = compile_rule_pattern(rule)
    if rule.pattern_type == "progress" and not pattern.groups:
        raise ValueError(f"rule {rule.name}: the pattern has no group")
    return QuietRule(rule, after, pattern, LineSearch([pattern]))


@dataclass(slots=True)
class Clock:
    """Since when something has not moved; it stands until that first happens. The first
    report of a counter is no movement: who goes on from a checkpoint may report where
    it starts and then prepare itself for long."""

    value: float | None = None
    """Where the counter stands, as the run reported it last."""
    since: float | None = None
    key: int = 0
    offset: int = 0
    told: bool = False
    """This quiet period has been told of."""

    def move(self, now: float, key: int, offset: int) -> None:
        """It moved: a quiet period ends, the next may begin."""
        self.since, self.key, self.offset, self.told = now, key, offset, False

    def report(self, value: float | None, now: float, key: int, offset: int) -> None:
        """The run says where it is; None: what it said is no number."""
        if value is None or not math.isfinite(value):
            return
        moved = self.value is not None and value != self.value
        self.value = value
        if moved:
            self.move(now, key, offset)

    def measure(self, seen_at: float | None) -> float:
        """Seconds without movement, up to the last look."""
        if self.since is None or seen_at is None:
            return 0.0
        return seen_at - self.since

    def tell(self, seen_at: float | None, after: float) -> bool:
        """Whether a quiet period is `after` seconds old; told once."""
        stands = self.since is not None and seen_at is not None and not self.told
        is_over = stands and self.measure(seen_at) >= after
        self.told = self.told or is_over
        return is_over


class InactivityWatch:
    """The quiet of one run, for its stall and for each of its rules."""

    def __init__(
        self, rules: Sequence[QuietRule] = (), *, afresh: bool = False
    ) -> None:
        """`afresh`: the run starts at step 0."""
        start = 0.0 if afresh else None
        self.looked_at: float | None = None
        """When the log was last looked at; None: nobody looked for an unknown time, and
        it is counted from the next look on."""
        self.shortest = min((rule.after for rule in rules), default=math.inf)
        """Seconds that the least patient rule waits."""
        self.steps = Clock(start)
        """Of the run's own counter."""
        ordered = sorted(rules, key=lambda rule: rule.counts)
        self._clocks = [(rule, Clock(start)) for rule in ordered]

    def note_look(self, now: float) -> None:
        """Somebody looked at the log, whatever there was to see."""
        before, self.looked_at = self.looked_at, now
        if before is not None and now - before <= LOOK_GAP_SECONDS:
            return
        # Nobody knows what happened meanwhile: count from now.
        if self.steps.since is not None:
            self.steps.since = now
        for rule, clock in self._clocks:
            if clock.since is not None or not rule.counts:
                clock.since = now  # silence begins with the first look

    def read_lines(self, data: bytes, offset: int, now: float) -> None:
        """New whole lines that begin at byte `offset` of the log."""
        end = offset + len(data)
        text = make_readable(data)
        for rule, clock in self._clocks:
            if rule.pattern is None:
                if not rule.counts:
                    clock.move(now, end, end)
                continue
            for line in rule.search.find(text):
                at = offset + line.start
                if rule.counts:
                    clock.report(find_number(rule.pattern, line.text), now, at + 1, at)
                elif rule.pattern.search(line.text):
                    clock.move(now, at + 1, at)

    def report_step(self, step: int, now: float, offset: int) -> None:
        """The run's own counter was reported by the line at byte `offset`."""
        self.steps.report(step, now, step, offset)
        for rule, clock in self._clocks:
            if rule.counts and rule.pattern is None:
                clock.report(step, now, step, offset)

    def is_stalled(self, after: float) -> bool:
        """Whether the counter stood for `after` seconds and has not moved since."""
        return self.steps.tell(self.looked_at, after) or self.steps.told

    def find_due(self) -> Iterator[tuple[LogEvent, int, Match]]:
        """The rules whose time is over, once in a quiet period; silences first. Each
        with what names the period within the run, and with what stands still, in words,
        where it began."""
        for rule, clock in self._clocks:
            if clock.tell(self.looked_at, rule.after):
                what = "new output"
                if rule.counts:
                    what = f"step after {clock.value:.10g}"
                elif rule.pattern:
                    what = f'new line that matches "{rule.rule.pattern}"'
                text = f"no {what} for {duration(rule.after)}"
                found = Match(rule.rule.name, clock.offset, text)
                yield rule.rule, clock.key, found


Code: TypeAlias = Literal["nan", "plateau", "divergence"]
Numbers: TypeAlias = Mapping[str, int | float]


@dataclass(frozen=True, slots=True)
class Finding:
    code: Code
    """Also the code of the reason that tells of it."""
    args: tuple[tuple[str, str | int | float], ...]
    """For `model.facts.Why`; numbers that are not finite as text."""
    cleared: bool = False


@dataclass(slots=True)
class AnomalyWatch:
    """Watches one metric of one run; steps that go back start it anew: a point before
    the newest step and a later one, still before it. A single late line is none."""

    settings: Anomalies = field(default_factory=Anomalies)
    metric: str = "loss"
    _active: set[Code] = field(default_factory=set)
    _count: int = 0
    """Finite observations since the steps last went back."""
    _step: int | None = None
    _back: tuple[int, float] | None = None
    """A point before it: the first after a return, or a late line."""
    _last: float | None = None
    _minimum: float = math.inf
    anchor: tuple[int, float] | None = None
    """Since when, and from which value, the loss has not fallen enough."""

    def observe(
        self, step: int, value: float, total: int | None = None
    ) -> list[Finding]:
        """What the next point of the metric shows; `total`: the run's last step."""
        is_number = math.isfinite(value)
        last = {} if self._last is None else {"last": self._last}
        findings = [*self._judge("nan", step, value, last, holds=not is_number)]
        if self._step is not None and step < self._step:
            if not self._has_returned(step, value):
                return findings
        else:
            self._back = None
        self._step = step
        if is_number:
            self._record(step, value)
            settings, enough = self.settings, self._count >= self.settings.min_points
            steps = settings.flat_steps
            if steps is None and settings.flat_share is not None and total:
                steps = math.ceil(settings.flat_share * total)
            if steps is not None:
                stood = step - (self.anchor[0] if self.anchor else step)
                holds = enough and stood >= steps
                more = {"percent": settings.plateau_percent, "steps": steps}
                findings += self._judge("plateau", step, value, more, holds=holds)
            # It clears at half the height at which it began, so that noise is no news.
            percent = settings.divergence_percent
            limit = percent / 2 if "divergence" in self._active else percent
            holds = enough and value > self._minimum + abs(self._minimum) * limit / 100
            more = {"percent": percent, "minimum": self._minimum}
            findings += self._judge("divergence", step, value, more, holds=holds)
            self._last = value
        return findings

    def _has_returned(self, step: int, value: float) -> bool:
        """Whether the run goes on from an earlier step; then all begins anew there."""
        first, self._back = self._back, (step, value)
        if first is None or step <= first[0]:
            return False
        self._back = None
        self._count, self._minimum, self.anchor = 0, math.inf, None
        if math.isfinite(first[1]):
            self._record(*first)
        return True

    def _record(self, step: int, value: float) -> None:
        self._count += 1
        self._minimum = min(self._minimum, value)
        share = self.settings.plateau_percent / 100  # of a negative loss's height too
        before = self.anchor[1] if self.anchor else None
        if before is None or value < before - abs(before) * share:
            self.anchor = (step, value)

    def _judge(
        self, code: Code, step: int, value: float, more: Numbers, *, holds: bool
    ) -> Iterator[Finding]:
        """The finding, if it is news; `more`: numbers that it tells."""
        is_off = code != "plateau" and getattr(self.settings, code) == "off"
        if is_off or holds == (code in self._active):
            return
        self._active ^= {code}
        shown = value if math.isfinite(value) else str(value)
        args = {"metric": self.metric, "step": step, "value": shown, **more}
        yield Finding(code, tuple(args.items()), cleared=not holds)
