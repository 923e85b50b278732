"""What the research loop asks of the disk, of git and of planning. All of it blocks,
may be called again after a kill at any step, and raises AutoexpError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from autoexp_tui.model.agents import Outcome, Usage
from autoexp_tui.model.masking import NO_RULES, MaskRules
from autoexp_tui.research.state import Answer, CodeChange, Fix, Item

if TYPE_CHECKING:
    from autoexp_tui.model.state import JobRecord
    from autoexp_tui.research.events import ResearchOpened
    from autoexp_tui.research.options import ResearchOptions
    from autoexp_tui.research.state import Consultation, Research

ADAPTER: Final = "research"
"""The name of `Laboratory` among what policies reach outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The session as it was when something was ordered."""

    research: Research
    jobs: Mapping[str, JobRecord]
    t: float
    """Its moment, as `model.facts.Moment` has it."""
    lived: float
    mask: MaskRules = NO_RULES
    """What is a secret of the session's plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnd:
    """How a call ended."""

    outcome: Outcome
    problem: str = ""
    usage: Usage | None = None
    """Of all its agents; None: none told."""
    cost: float | None = None
    code: CodeChange | None = None
    resume_at: float | None = None
    """When a rate limit ends, in seconds of Unix time, where told."""
    is_sent: bool = True
    """Whether a program of an agent has run: it counts and costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult(CallEnd):
    """What came of a call. Items of its answer are planned: those that do not plan are
    left out of it, with the reason."""

    answer: Answer | None = None
    """Of the fixer: the run's item again, with the fix."""
    fix: Fix | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """Items that are to be planned in one process."""

    items: tuple[Item, ...]
    taken: frozenset[str] = frozenset()
    """Names of jobs and of other items, which no job of theirs may have."""
    code: Mapping[str, CodeChange] = field(default_factory=dict)
    """By the consultation that `Item.code_ref` names."""
    has_gpus: bool = False
    """Whether GPUs are counted."""


def build_plan_request(
    items: Sequence[Item],
    research: Research,
    jobs: Mapping[str, JobRecord],
    code: Mapping[str, CodeChange] = MappingProxyType({}),
) -> PlanRequest:
    """Items that are to enter the list, or to take their places in it; `code`: changes
    beside those that are recorded."""
    again = {one.id for one in items}
    kept = (one for one in research.items if one.id not in again)
    names = (job.name for one in kept for job in one.jobs)
    calls = research.consultations.items()
    changes = {name: one.code for name, one in calls if one.code is not None}
    taken = frozenset((*jobs, *names))
    return PlanRequest(
        items=tuple(items),
        taken=taken,
        code={**changes, **code},
        has_gpus=research.has_gpus,
    )


@dataclass(frozen=True, slots=True)
class PlannedItems:
    items: tuple[Item, ...]
    """With their jobs."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Item -> why it does not plan."""


class Laboratory(Protocol):
    """The disk, git and planning, as the research loop uses them."""

    def open(self, options: ResearchOptions) -> tuple[ResearchOpened, Sequence[str]]:
        """Check the repository and the agents, and make the directory; with it what
        merely differs, for people."""

    def write_call(self, consultation: Consultation, view: View) -> str:
        """Write the context and the request of a call; the sha256 of its context."""

    def read_call(self, consultation: Consultation, view: View) -> CallResult:
        """What a call left, whether its job ended well or not; its items planned."""

    def plan_items(self, request: PlanRequest) -> PlannedItems:
        """Plan items of a person's."""

    def keep_code(self, consultation: Consultation) -> None:
        """Give an approved change of code its ref."""

    def write_state(self, view: View) -> None:
        """Write experiment_state.json anew, by rename."""
