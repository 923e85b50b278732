"""A condition of one's own: a report of free space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from autoexp_tui.extend import (
    Condition,
    EvalContext,
    FactKey,
    Facts,
    FileText,
    Moment,
    TextKey,
    Verdict,
    read_fact,
    say_pass,
    say_wait,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFree(Condition):
    """A report of free space names at least so many GiB."""

    kind: Literal["disk_free"] = "disk_free"
    report: str
    gib: int = 1

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        yield TextKey(self.report)

    def name_object(self) -> str:
        return f"{self.gib} GiB free"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        found = read_fact(facts.get(TextKey(self.report)), FileText, self.report)
        if isinstance(found, Verdict):
            return found
        free = int((found.text or "0").strip() or 0)
        say = say_pass if free >= self.gib else say_wait
        return say("own_says", text=f"{free} GiB are free")
