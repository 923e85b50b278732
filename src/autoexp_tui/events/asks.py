"""Events of questions that are no job's: a policy asks, a person answers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autoexp_tui.events.jobs import describe_answerer
from autoexp_tui.model.commands import Sender
from autoexp_tui.model.event import (
    Event,
    Headline,
    Recorded,
    append_reason,
    join_parts,
    pick,
)
from autoexp_tui.model.ids import digest_question
from autoexp_tui.model.state import Ask, SessionState
from autoexp_tui.text.spelling import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class AskRaised(
    Event, topic="approval", matters=True, verb="asked", about=("ask", "title")
):
    """A person has to say yes; one of the same name takes the place of an older one."""

    ask: str
    digest: str
    """Binds the answer to the title and to the lines that remain."""
    title: str
    lines: tuple[str, ...] = ()
    """What may be left out of an approval, one by one."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        state.asks[self.ask] = Ask(
            digest=self.digest,
            prompt=self.title,
            lines=self.lines,
            asked_at=record.t,
            asked_lived=state.lived,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AskAnswered(Event, topic="approval"):
    """A person answered, or a policy that was given beforehand."""

    ask: str
    digest: str
    approved: bool
    dropped: tuple[int, ...] = ()
    """Places, from 0, of the lines that are not approved."""
    by: str
    reason: str = ""
    sender: Sender | None = None
    """The process that the answer came from; None: of a policy."""
    policy: str = ""
    """`--approve all` and the like; empty: a person answered."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        ask = state.asks.get(self.ask)
        if ask is None or self.digest != digest_question(
            self.ask, ask.prompt, ask.list_kept(self.dropped)
        ):
            return
        answer = pick(self, "approved", "dropped", "by", "reason")
        state.asks[self.ask] = replace(ask, **answer)

    def format_headline(self, now: float) -> Headline:
        verb = "approved" if self.approved else "refused"
        left = plural(len(self.dropped), "line") if self.dropped else ""
        who = describe_answerer(self.by, self.sender, self.policy)
        parts = join_parts(self.ask, f"without {left}" if left else "", who)
        return Headline(verb, append_reason(parts, self.reason))
