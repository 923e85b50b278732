"""A person's yes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from autoexp_tui.model.condition import (
    Condition,
    EvalContext,
    NameJobs,
    read_fact,
    say_fail,
    say_pass,
    say_wait,
)
from autoexp_tui.model.facts import (
    ApprovalFact,
    ApprovalKey,
    FactKey,
    Facts,
    Moment,
)
from autoexp_tui.model.states import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval(Condition, timeout_code="approval_timeout"):
    """A person says yes; bound to what will be done."""

    kind: Literal["approval"] = "approval"
    prompt: str = ""
    show_files: tuple[str, ...] = ()
    """Files whose text is shown with the prompt, when they exist."""
    on_timeout: Literal["hold", "reject"] = "hold"

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        yield ApprovalKey(job)

    def name_object(self) -> str:
        return "an approval"

    def name_subject(self, name_jobs: NameJobs) -> str:
        return "your approval"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        fact = facts.get(ApprovalKey(ctx.job))
        if fact is None or (fact.value is None and not fact.error):
            return say_wait("asks_later", prompt=self.prompt)
        answer = read_fact(fact, ApprovalFact, f"approval of {ctx.job}")
        if isinstance(answer, Verdict):
            return answer
        if answer.approved is None:
            return say_wait("asks_you", prompt=self.prompt)
        if answer.approved:
            return say_pass("approved", by=answer.by, reason=answer.reason)
        return say_fail("refused", by=answer.by, reason=answer.reason)

    def find_deadline(self, ctx: EvalContext) -> float | None:
        if self.on_timeout == "hold":
            return None
        asked = ctx.waiting_lived if ctx.asked_lived is None else ctx.asked_lived
        return Condition.find_deadline(self, replace(ctx, waiting_lived=asked))

    def is_final(self, facts: Facts, now: Moment, ctx: EvalContext) -> bool:
        return True
