"""What rules decided, a line each, for who watches without a screen.

A restart is over between two snapshots, and a state that nobody saw tells nobody why a
second attempt runs; the events do. What a rule logs at level `info` stays with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from autoexp_tui.events import events
from autoexp_tui.events.events import Recorded
from autoexp_tui.model.wording import sentence

SPENT: Final = "not again"
"""Of a rule that has no attempt left, whatever it matches."""
_SPENT_CODES: Final = frozenset({"attempts_spent", "firings_spent"})


def rule_lines(records: Sequence[Recorded], after: int) -> Iterator[tuple[str, str]]:
    """What is said of the records behind record `after`: a word, and the rest."""
    for record in records:
        if record.seq <= after:
            continue
        match record.event:
            case events.RetryOrdered(job=job, why=why, held=False):
                yield "again", f"{job}  {sentence(why, record.t)}"
            case events.ActionDropped(job=job, action=action, why=why) if (
                why.code in _SPENT_CODES
            ):
                yield SPENT, f"{job}  rule {action}: {sentence(why, record.t)}"
            case events.ActionDropped(job=job, action=action, why=why) if (
                why.code == "value_refused"
            ):
                yield "warning", f"{job}  rule {action}: {sentence(why, record.t)}"
            case events.MessageLogged(level="warning" | "error") as logged:
                job = f"{logged.job}  " if logged.job else ""
                yield logged.level, f"{job}{logged.text}"
