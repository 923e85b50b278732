"""What is ill about a loss: not a number, flat, rising. Each finding is made once, and
once more as cleared; what follows from it is decided elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from autoexp_tui.model.rules import Anomalies

Code: TypeAlias = Literal["nan", "plateau", "divergence"]
Numbers: TypeAlias = Mapping[str, int | float]


@dataclass(frozen=True, slots=True)
class Finding:
    """An anomaly that began, or passed."""

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
    """The newest."""
    _back: tuple[int, float] | None = None
    """A point before it: the first after a return, or a late line."""
    _last: float | None = None
    _minimum: float = math.inf
    _anchor: tuple[int, float] | None = None
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
            if settings.flat_share is not None and total:
                steps = math.ceil(settings.flat_share * total)
                stood = step - (self._anchor[0] if self._anchor else step)
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
        self._count, self._minimum, self._anchor = 0, math.inf, None
        if math.isfinite(first[1]):
            self._record(*first)
        return True

    def _record(self, step: int, value: float) -> None:
        self._count += 1
        self._minimum = min(self._minimum, value)
        share = self.settings.plateau_percent / 100  # of a negative loss's height too
        before = self._anchor[1] if self._anchor else None
        if before is None or value < before - abs(before) * share:
            self._anchor = (step, value)

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
