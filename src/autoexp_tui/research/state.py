"""What the research loop of a session knows, as its events have made it: the list of
what is to be tried, runs, hypotheses, warnings, consultations and what they cost.

Records are frozen; the whole is forked as the session's state is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from autoexp_tui.model.agents import Outcome, Usage
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.state import Growing, PolicyPart, changed
from autoexp_tui.model.states import Why
from autoexp_tui.research.options import ResearchOptions

if TYPE_CHECKING:
    from autoexp_tui.model.state import JobRecord, SessionState

PART: Final = "research"
"""Of the session's state that is this policy's."""
HOPELESS: Final = frozenset({Outcome.AUTH_ERROR, Outcome.NOT_FOUND})
"""What the next call would meet as well."""
Role: TypeAlias = Literal["research", "fixer"]
TriggerKind: TypeAlias = Literal[
    "run_finished",
    "list_depleted",
    "warning_fired",
    "budget_milestone",
    "heartbeat",
    "stranded",
    "deadlock",
    "person",
]
Severity: TypeAlias = Literal["low", "medium", "high"]
HypothesisStatus: TypeAlias = Literal["open", "confirmed", "rejected"]
LineKind: TypeAlias = Literal["experiments", "kills", "code", "budget"]
LineOp: TypeAlias = Literal[
    "add", "change", "drop", "remove", "order", "kill", "code", "budget"
]
BudgetName: TypeAlias = Literal["wall_seconds", "gpu_hours", "calls", "tokens", "money"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What is to be tried. Its id names its run; its jobs' names begin with it."""

    id: str
    hypothesis: str = ""
    """The id of one, or words of its own."""
    overrides: tuple[str, ...] = ()
    config_ref: str = ""
    """Empty: the session's."""
    gpus: int | None = None
    """That it takes while it runs, as its answer says; None: as its jobs say."""
    depends_on: tuple[str, ...] = ()
    """Items and runs that must have ended before it begins."""
    kill_criteria: str = ""
    """As `criteria.format_criteria` writes them."""
    expects: str = ""
    """What meets its hypothesis, in the same spelling."""
    baseline_run: str = ""
    """A run that it must beat, where nothing is expected."""
    note: str = ""
    code_ref: str = ""
    """The consultation whose change of code it runs; empty: the code as it is."""
    consultation: str = ""
    """Whose answer has it, or whose fix; empty: a person has inserted it."""
    by: str = ""
    """The person who inserted or edited it: answers leave it where it is."""
    jobs: tuple[JobSpec, ...] = ()
    """As they were planned when it entered; in its run they are left out."""
    fixes: str = ""
    """The run that it repeats with a fix."""

    @property
    def is_persons(self) -> bool:
        """Whether a person inserted or edited it."""
        return bool(self.by) or not self.consultation

    @property
    def wanted_gpus(self) -> int:
        planned = sum(job.resources.gpus for job in self.jobs)
        return planned if self.gpus is None else self.gpus

    @property
    def asker(self) -> str:
        """On whose account its jobs join."""
        return f"item {self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a run ended, and what it has shown."""

    outcome: Literal["completed", "failed", "killed", "cancelled"]
    """Killed: by a criterion, a NaN, a stall or a budget; cancelled: by a person."""
    at: float
    """`t`."""
    cause: str = ""
    """Of the job that ended it, as `model.states.Cause` has it."""
    problem: str = ""
    """A sentence for people; empty: it completed."""
    mechanical: str = ""
    """The name of a failure that the fixer's table knows."""
    result: float | None = None
    """Of the objective; None: it told none that is a finite number."""
    step: int | None = None
    met: bool | None = None
    """Whether what was expected came true; None: nothing was, or nobody can say."""
    shown: str = ""
    """The numbers by which that was judged, in words."""
    gpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """An item that was started, or a job of the session's own plan."""

    id: str
    item: Item
    jobs: tuple[str, ...]
    gpus: int = 0
    began_at: float = 0.0
    """`t`: when it was started."""
    began_lived: float = 0.0
    kill_shown: str = ""
    """The criterion that ended it, with its numbers."""
    killed_at: float = 0.0
    """`t`: when its end was ordered."""
    ended: RunEnd | None = None
    fix_applied: str = ""
    """What was done about its end, in words."""
    fix_relaunch: str = ""
    """The run that repeats it."""

    @property
    def is_planned(self) -> bool:
        """Whether it is a job of a person's plan: those of items have longer names."""
        return self.jobs == (self.id,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    id: str
    description: str = ""
    status: HypothesisStatus = "open"
    expects: str = ""
    """What an item that names it expects, where it says nothing itself."""
    runs: tuple[str, ...] = ()
    consecutive_failures: int = 0
    evidence: tuple[str, ...] = ()
    """A line for each run that ended, as it was judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """Something that the agent should know; made once for its cause."""

    key: str
    severity: Severity
    why: Why
    evidence: tuple[str, ...] = ()
    raised_at: float = 0.0
    """`t`."""
    acknowledged_by: str = ""
    """The person who has seen it; it is told to no agent any more."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """What a consultation was opened for."""

    kind: TriggerKind
    about: str = ""
    """The run, the warning, the milestone."""
    at: float = 0.0
    """`t`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the research agent wrote, read strictly; of the fixer, the item that repeats
    the run."""

    reflection: str = ""
    hypotheses: tuple[Hypothesis, ...] = ()
    """As they are stated: runs and failures are no agent's."""
    order: tuple[str, ...] | None = None
    """The ids of items that take the list's place; None: the list stays as it is."""
    items: tuple[Item, ...] | None = None
    """Of them those that are new or another than in the list. In journals of before:
    all of them, and no `order`."""
    left_out: tuple[str, ...] = ()
    """Items beyond the bound of the list, or that do not plan; with the reason."""
    kills: tuple[str, ...] = ()
    """Runs that are to be ended."""
    reasoning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """What the fixer wrote, read strictly; an empty one gives up."""

    run: str
    fix_applied: str = ""
    """In words."""
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeChange:
    """A change of code that a call left in its worktree."""

    commit: str
    """Made by us; on no branch before it is approved."""
    base: str
    sha256: str
    """Of the diff."""
    files: int
    diffstat: str = ""
    """For people, cleaned."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a decision: what would be done, and whether it still can be."""

    kind: LineKind
    id: str
    """The item, the run, or the consultation of a change of code; of several items, or
    of their order: the ids with commas between them."""
    text: str
    void: str = ""
    """Why it cannot be done any more; empty: it can."""
    op: LineOp = "add"
    """What is done: agents `drop` items of their own, and `remove` those of persons."""
    needs: tuple[str, ...] = ()
    """Keys of lines of the same answer that have to be done as well."""
    restarts: int = 0
    """Only in journals of before."""

    @property
    def key(self) -> str:
        return f"{self.kind} {self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What became of the lines of an answer."""

    applied: tuple[str, ...] = ()
    """In words, as they were shown."""
    refused: tuple[str, ...] = ()
    """By a person."""
    void: tuple[str, ...] = ()
    """With the reason."""
    by: str = ""
    """Who approved; empty: nobody had to."""
    reason: str = ""
    """Of the person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consultation:
    """A call of an agent, from what led to it to what was done about its answer."""

    id: str
    role: Role = "research"
    triggers: tuple[Trigger, ...] = ()
    run: str = ""
    """Of the fixer: the one that failed."""
    opened_at: float = 0.0
    opened_lived: float = 0.0
    listed: tuple[str, ...] = ()
    """Items of the list then: of others the answer does not know, and leaves them."""
    prompt_sha256: str = ""
    """Empty: the context is not written yet."""
    ended_lived: float | None = None
    """When its answer was read; None: it is under way."""
    outcome: Outcome | None = None
    problem: str = ""
    """What was wrong with the call or the answer, for people."""
    usage: Usage | None = None
    cost: float | None = None
    answer: Answer | None = None
    fix: Fix | None = None
    code: CodeChange | None = None
    asked: tuple[Line, ...] = ()
    """Lines that a person is asked about; decided when none is left."""
    decided: tuple[Decided, ...] = ()
    """What was applied at once, and what a person said."""
    ending: str = ""
    """The person who ended the call."""

    @property
    def number(self) -> int:
        return int(self.id[1:])

    @property
    def job(self) -> str:
        return f"{self.id}_{self.role}"

    @property
    def asker(self) -> str:
        """On whose account its job joins."""
        return f"consultation {self.job}"


@dataclass(frozen=True, slots=True)
class Note:
    """What a person tells the agent."""

    text: str
    by: str = ""
    at: float = 0.0
    """`t`."""


@dataclass(frozen=True, slots=True)
class Milestone:
    """A share of a budget that was crossed."""

    budget: BudgetName
    left_percent: int


@dataclass(slots=True)
class Research(PolicyPart):
    """The research loop of a session."""

    growing: ClassVar[tuple[str, ...]] = ("runs", "consultations")
    short: ClassVar[tuple[str, ...]] = (
        *("hypotheses", "warnings", "overtaken", "fix_streaks", "open_rounds"),
        *("usage", "calls", "costs", "code_approved"),
    )
    options: ResearchOptions
    directory: str = ""
    """Absolute; empty until it was opened."""
    python: str = ""
    gpus: int = 0
    """That items share."""
    has_gpus: bool = False
    """Whether GPUs are counted at all; without, slots alone decide."""
    mode: Literal["min", "max"] = "min"
    metric: str = "loss"
    """The objective's, by its canonical name."""
    base_commit: str = ""
    """Where changes of code begin; empty: the agent may change none."""
    items: tuple[Item, ...] = ()
    """The list: the first runs next."""
    runs: Growing[str, Run] = field(default_factory=dict)
    live: tuple[str, ...] = ()
    """Runs that have not ended."""
    hypotheses: dict[str, Hypothesis] = field(default_factory=dict)
    warnings: dict[str, Warned] = field(default_factory=dict)
    consultations: Growing[str, Consultation] = field(default_factory=dict)
    open: tuple[str, ...] = ()
    """Consultations that are not decided yet; their calls may be under way."""
    triggers: tuple[Trigger, ...] = ()
    """That no call was made for yet."""
    was_low: bool = False
    """Whether the list was told to be depleted, and nothing new was learnt since."""
    told_stuck: tuple[str, ...] = ()
    """Items that were told to be stranded or in a deadlock, until the list moves."""
    overtaken: dict[str, int] = field(default_factory=dict)
    """Item -> how many others were started before it although it stood before them."""
    reflection: str = ""
    notes: tuple[Note, ...] = ()
    """Of persons; told to the agent in each context."""
    told_notes: int = 0
    """How many of them an answered context had."""
    best_run: str = ""
    best: float | None = None
    gained_from: float | None = None
    """The newest result that gained `objective.min_delta`: gains count from it, so
    that small ones add up."""
    rounds_since_improvement: int = 0
    open_rounds: dict[str, bool] = field(default_factory=dict)
    """Consultations of which runs began -> whether one gained on the best by then."""
    judged_rounds: tuple[str, ...] = ()
    """Consultations whose runs have all ended, and were counted."""
    milestones: tuple[Milestone, ...] = ()
    last_call_lived: float = 0.0
    """When the newest call was made, or ended."""
    last_opened_lived: float | None = None
    usage: dict[Role, Usage] = field(default_factory=dict)
    calls: dict[Role, int] = field(default_factory=dict)
    costs: dict[Role, float] = field(default_factory=dict)
    gpu_seconds: float = 0.0
    """Of runs that ended."""
    agents_wait: Why | None = None
    """Why no agent is called for now."""
    wait_outcome: Outcome | None = None
    """Of the call that led to it."""
    resume_at: float = 0.0
    """When they are again, in seconds of Unix time."""
    failures: int = 0
    """Calls that failed, in a row."""
    fix_streaks: dict[str, int] = field(default_factory=dict)
    """Mechanical failure -> fixes in a row that did not help."""
    to_fix: tuple[str, ...] = ()
    """Runs that wait for the fixer."""
    code_approved: dict[str, str] = field(default_factory=dict)
    """Consultation -> who approved its change of code; empty text: no person."""
    budget_reached: Why | None = None
    """Nothing more begins; what runs ends."""
    stopped: Why | None = None
    """It is over."""
    next_consultation: int = 1
    changes: int = 0
    """How often something changed that files show."""
    shown_changes: int = -1
    """The same when the state file was written; -1: it never was."""
    shown_lived: float = 0.0
    lived: float = 0.0
    """For how long engines had lived at its newest event, in seconds."""
    unseen: bool = field(default=False, compare=False, repr=False)
    """Nobody looks at its records: they change in place."""

    def change_run(self, name: str, **changes: Any) -> None:
        self.runs[name] = changed(self.runs[name], in_place=self.unseen, **changes)

    def change_call(self, name: str, **changes: Any) -> None:
        known = self.consultations
        known[name] = changed(known[name], in_place=self.unseen, **changes)

    def find_item(self, name: str) -> Item | None:
        return next((one for one in self.items if one.id == name), None)

    def list_open(self, *roles: Role) -> list[Consultation]:
        """Consultations that are not decided yet, of some roles or of any."""
        found = [self.consultations[name] for name in self.open]
        return [one for one in found if not roles or one.role in roles]

    def list_calls(self, *roles: Role) -> list[Consultation]:
        """Those of which the call is under way: the answer is not read yet."""
        return [one for one in self.list_open(*roles) if one.ended_lived is None]

    def find_call(self, *roles: Role) -> Consultation | None:
        return next(iter(self.list_calls(*roles)), None)

    def list_live(self) -> list[Run]:
        return [self.runs[name] for name in self.live]

    def is_known(self, name: str) -> bool:
        """Whether an item or a run has this id."""
        return name in self.runs or self.find_item(name) is not None

    def list_fixing(self) -> tuple[str, ...]:
        """Runs of which the fixer decides, or will."""
        return (*self.to_fix, *(one.run for one in self.list_open("fixer")))

    def find_fixed(self, name: str) -> str:
        """The run, or the item, that repeats a run last: itself where none does."""
        while (run := self.runs.get(name)) and self.is_known(run.fix_relaunch):
            name = run.fix_relaunch
        return name

    def is_settled(self, name: str) -> bool:
        """Whether a run has ended, and no fix of it is under way."""
        name = self.find_fixed(name)
        run = self.runs.get(name)
        return bool(run and run.ended) and name not in self.list_fixing()

    def pauses(self, role: Role) -> bool:
        """Whether calls of a role that fail pause those of all."""
        return role == "research" or self.options.fixer.agent == self.options.agent

    @property
    def wants_mending(self) -> bool:
        """Whether agents wait for what no time brings: a program, a login."""
        return self.agents_wait is not None and self.wait_outcome in HOPELESS

    @property
    def is_hopeless(self) -> bool:
        """Whether whoever only waits for the end has waited enough for agents."""
        most = 2 * max(1, self.options.breaker_failures)
        is_limited = self.wait_outcome is Outcome.RATE_LIMIT
        is_spent = self.failures >= most and not is_limited
        return self.wants_mending or (bool(self.agents_wait) and is_spent)

    def is_better(self, value: float, than: float | None) -> bool:
        """Whether a result gains at least `objective.min_delta` over another."""
        if than is None:
            return True
        gain = than - value if self.mode == "min" else value - than
        least = self.options.objective.min_delta
        return gain > 0 and gain >= least

    def is_best(self, value: float) -> bool:
        """Whether a result is better than all, by however little."""
        if self.best is None:
            return True
        return value < self.best if self.mode == "min" else value > self.best

    @property
    def is_at_target(self) -> bool:
        """Whether a run has reached `objective.target`."""
        target, best = self.options.objective.target, self.best
        if target is None or best is None:
            return False
        return best <= target if self.mode == "min" else best >= target

    @property
    def total_calls(self) -> int:
        return sum(self.calls.values())


def find_research(state: SessionState) -> Research | None:
    """The research loop of a session; None: it has none."""
    found: Any = state.parts.get(PART)
    return found if isinstance(found, Research) else None


def research_of(state: SessionState) -> Research:
    """The same, where there has to be one; raises KeyError."""
    found: Research = state.parts[PART]
    return found


def list_jobs(run: Run, jobs: Mapping[str, JobRecord]) -> Sequence[JobRecord]:
    """The jobs of a run that have joined: another's of the same name is none."""
    known = (jobs[name] for name in run.jobs if name in jobs)
    own = ("", run.item.asker)
    return [job for job in known if run.is_planned or job.asked_by in own]
