"""Orders to the outside. Each is journaled as `EffectOrdered` before it is sent."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias

from autoexp_tui.events import events
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.effect import Effect, TaskId
from autoexp_tui.model.errors import AutoexpError, format_os_reason
from autoexp_tui.model.event import list_names
from autoexp_tui.model.facts import CommandResult, Moment
from autoexp_tui.model.outputs import Checkpoint, DoneWork
from autoexp_tui.model.resubmission import work_of
from autoexp_tui.model.rules import JoinMode
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.state import PendingEffect, SessionState
from autoexp_tui.model.states import Cause, why


class _OfTasks(Effect):
    """An effect on tasks of several jobs."""

    __slots__ = ()
    tasks: tuple[TaskId, ...]

    def job_names(self) -> Sequence[str]:
        return [job for job, _ in self.tasks]

    def name_object(self) -> str:
        return ", ".join(self.job_names())

    def describe(self) -> str:
        if len(self.tasks) == 1:
            return f"attempt {self.tasks[0][1]}"
        return list_names(self.job_names())


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitTasks(_OfTasks, kind="submit", recovery="probe", topic="submit"):
    """Start the tasks as one submission, found again by `token`."""

    token: str
    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTasks(_OfTasks, kind="cancel", topic="cancel"):
    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposeJob(Effect, kind="compose", topic="person"):
    """Plan one job again with further overrides, in the planning process."""

    job: str
    overrides: tuple[str, ...]
    """All of them, those of the plan included."""
    from_checkpoint: bool = True
    """How the job goes on once it is planned."""
    sources: tuple[TaskId, ...] = ()
    """The attempts whose metadata the overrides hold; empty: they hold none."""
    log_values: tuple[str, ...] = ()
    """What overrides took from logs, as far as a shell would read it as more than a
    word: it must not come into a script."""
    use_files: bool = False

    def describe(self) -> str:
        return " ".join(self.overrides)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureEvidence(Effect, kind="evidence"):
    """Keep what can be seen of a run that a rule ends."""

    job: str
    attempt: int
    run: int
    name: str
    """Of what it is evidence: `stall`, `nan`, a rule's name."""
    number: int
    """Among the attempt's captures, from 1."""
    log_only: bool = False
    ends: Cause | None = None
    """The cause with which the run is ended afterwards; None: that is ordered."""
    seconds: float
    """The longest that the end of the run waits for it."""

    def describe(self) -> str:
        return f"attempt {self.attempt}  {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LookForCheckpoint(Effect, kind="look_for_checkpoint"):
    """See what a job's next attempt would go on from, and whether to move it aside."""

    job: str
    attempt: int
    output_dir: str
    """Nothing outside of it is looked at or moved."""
    glob: str = ""
    path: str = ""
    """A certain one; empty: the newest match of `glob`."""
    pointer: str = ""
    keep: int = 0
    after: int = 0
    """Strikes from which on it is moved; 0: at once."""

    def describe(self) -> str:
        return self.path or self.glob


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAtFiles(Effect, kind="look_at_files"):
    """See what lies there of what the followers of a job wait for."""

    job: str
    attempt: int
    """The one that is to come."""

    def describe(self) -> str:
        return f"before attempt {self.attempt}: what followers wait for"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveCheckpoint(Effect, kind="move_checkpoint"):
    """Move a checkpoint aside, to a name beside it; done twice is done once."""

    job: str
    output_dir: str
    checkpoint: Checkpoint
    target: str
    pointer: str = ""
    before: Checkpoint | None = None
    """What the pointer is to name afterwards."""
    strikes: int = 0
    """How many attempts in a row blame it; 0: a rule says so."""

    def name_object(self) -> str:
        return self.checkpoint.path

    def describe(self) -> str:
        return f"{self.checkpoint.path} -> {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanJobs(Effect, kind="plan"):
    """Plan a config, in the planning process, for its jobs to join the session."""

    job: str
    action: str
    config_ref: str = ""
    config_path: str = ""
    """A file; then there is no `config_ref`."""
    overrides: tuple[str, ...] = ()
    log_values: tuple[str, ...] = ()
    mode: JoinMode = "queue"

    def name_object(self) -> str:
        """What is planned, as on a command line."""
        return " ".join((self.config_ref or self.config_path, *self.overrides))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddJob(Effect, kind="add"):
    job: str
    action: str
    spec: JobSpec
    mode: JoinMode = "queue"

    def name_object(self) -> str:
        return self.spec.name

    def describe(self) -> str:
        return f"{self.spec.name}: {shlex.join(self.spec.command)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddJobs(Effect, kind="add_jobs"):
    """Of older journals: `DecisionContext.add_jobs` needs no order."""

    policy: str
    asked_by: str
    jobs: tuple[JobSpec, ...]
    mode: JoinMode = "queue"

    def name_object(self) -> str:
        return list_names([job.name for job in self.jobs])

    def describe(self) -> str:
        return f"{self.name_object()}, for {self.asked_by}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinJobs(Effect, kind="join", topic="person"):
    """Read a plan that lies beside the journal, and what is done of it, for its jobs to
    join as a person was shown them; see `model.commands.Grow`."""

    sha: str
    run: tuple[str, ...] = ()
    hold: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    seen: tuple[TaskId, ...] = ()
    """Of `hold` and `end`: the attempts that the person saw, 0 of none."""
    force: bool = False
    asked_by: str = ""

    def name_object(self) -> str:
        return f"plan_{self.sha}"

    def describe(self) -> str:
        parts = (("run", self.run), ("hold", self.hold), ("end", self.end))
        return "; ".join(f"{verb} {list_names(jobs)}" for verb, jobs in parts if jobs)


PoolName: TypeAlias = Literal["executor", "command", "planner", "errand"]
"""The threads on which a call may block."""


class Errands(Protocol):
    """What rules do outside, each time once; blocks."""

    def run(
        self, command: Sequence[str], timeout: float, env: Mapping[str, str], cwd: str
    ) -> CommandResult:
        """Run a command without a shell, `timeout` seconds at most. `env` is added to
        the engine's own; `cwd` empty: where the engine runs."""

    def append(self, path: str, text: str, below: str = "") -> None:
        """Add `text` as whole lines to a file, which is made if need be. Raises
        OSError: it cannot be written, or lies elsewhere than `below`."""


class DoneNotes(Protocol):
    def note_done(self, spec: JobSpec, work: DoneWork) -> None:
        """Keep that the job's work is done; nothing, where the directory has another
        owner by now. Repeatable; blocks. Raises AutoexpError: it cannot be kept."""


class Outside(Protocol):
    """The outside, as far as effects reach it."""

    @property
    def errands(self) -> Errands: ...
    @property
    def preparation(self) -> DoneNotes: ...
    @property
    def adapters(self) -> Mapping[str, Any]:
        """What policies reach, by their own names."""


class Settlement(Protocol):
    @property
    def pending(self) -> PendingEffect:
        """The order."""

    def end(self, outcome: str, detail: str) -> None:
        """It is over; `outcome`: `ok`, or else it failed."""

    def rest(self, seconds: float) -> float:
        """It is not over: it is sent again so much later. Returns when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    ok: bool = True
    detail: str = ""
    value: object = None
    """What came back besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideEffect(Effect):
    """An effect that is one call outside, and settled by its answer."""

    pool: ClassVar[PoolName] = "executor"

    def send(self, outside: Outside, state: SessionState) -> Callable[[], Answer]:
        """What to call, in the effect's pool; must not block itself."""
        return partial(self.call, outside)

    def call(self, outside: Outside) -> Answer:
        """What is done, where nothing of the session's state is needed; may block."""
        raise NotImplementedError(type(self).__name__)

    def settle(
        self, context: DecisionContext, settlement: Settlement, answer: Answer
    ) -> None:
        """Take the answer: the effect is over, as it says."""
        settlement.end("ok" if answer.ok else "failed", answer.detail)


AGAIN_SECONDS: Final = 10.0
PATIENCE_SECONDS: Final = 60.0
"""A disk that is full for a moment, or a lock of git's, costs no step of a policy."""


UNTOLD_SECONDS: Final = 300.0
"""Until a service is tried again that did not say when it is back."""
_LEAST_SECONDS, _MOST_SECONDS = 30.0, 86_400.0
"""The same, where it did: clocks differ, and services err."""


def find_resumption(
    now: Moment, told: float | None, untold_seconds: float = UNTOLD_SECONDS
) -> float:
    """When, as `t`, a service that is away is tried again. `told`: when it said that it
    is back, in seconds of Unix time by a clock of its own."""
    if told is None:
        return now.t + untold_seconds
    return now.t + min(max(told - now.utc, _LEAST_SECONDS), _MOST_SECONDS)


Call: TypeAlias = Callable[[], object]
"""What is done outside; it blocks, and may raise AutoexpError."""


class AdapterEffect(OutsideEffect, pool="errand"):
    """An order of a policy to its adapter, all of which may be done again."""

    __slots__ = ()
    adapter: ClassVar[str]
    """The name of what it goes to, in `Outside.adapters`."""
    patience_seconds: ClassVar[float] = 0.0
    """For which it is tried again when it fails."""

    def send(self, outside: Outside, state: SessionState) -> Callable[[], Answer]:
        call = self.build_call(outside.adapters[self.adapter], state)

        def answer() -> Answer:
            try:
                value = call()
            except AutoexpError as error:
                return Answer(ok=False, detail=error.line)
            return Answer(value=value, detail=self.describe_value(value))

        return answer

    def build_call(self, adapter: Any, state: SessionState, /) -> Call:
        """The call, of which nothing changes when the state does."""
        raise NotImplementedError(type(self).__name__)

    def describe_value(self, value: object) -> str:
        """What the journal keeps of it."""
        return ""

    def settle(
        self, context: DecisionContext, settlement: Settlement, answer: Answer
    ) -> None:
        age = context.now.utc - settlement.pending.ordered_utc
        if not answer.ok and 0 <= age < self.patience_seconds:  # clocks are set back
            settlement.rest(AGAIN_SECONDS)
            told = f"it is tried again: {answer.detail}"
            context.draft.emit(events.MessageLogged(text=told, level="warning"))
            return
        super().settle(context, settlement, answer)
        if not answer.ok:
            self.take_failure(context, answer.detail)
        else:
            self.take(context, answer.value)

    def take(self, context: DecisionContext, value: object) -> None:
        """What follows."""

    def take_failure(self, context: DecisionContext, problem: str) -> None:
        """What follows when it did not come about, and is not tried again."""
        context.draft.emit(events.MessageLogged(text=problem, level="warning"))


def warn_of_failure(
    context: DecisionContext, pending: PendingEffect, problem: str
) -> None:
    """Say that what a rule ordered outside did not come about."""
    effect = pending.effect
    reason = why(
        "action_failed", kind=effect.kind, what=effect.name_object(), problem=problem
    )
    context.draft.emit(
        events.WarningRaised(
            warning_id=f"x{pending.effect_id}", why=reason, job=effect.find_job()
        )
    )


NOTIFY_TIMEOUT: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNotifyCommand(OutsideEffect, kind="notify", recovery="once", pool="command"):
    """Run the user's notification command with a message as its last argument."""

    command: tuple[str, ...]
    message: str

    def job_names(self) -> Sequence[str]:
        return ()

    def name_object(self) -> str:
        return self.message

    def describe(self) -> str:
        return f"{' '.join(self.command)}: {self.message}"

    def call(self, outside: Outside) -> Answer:
        words = (*self.command, self.message)
        result = outside.errands.run(words, NOTIFY_TIMEOUT, {}, "")
        return Answer(ok=result.exit_code == 0, detail=result.detail)


class _Errand(OutsideEffect, recovery="once", pool="errand"):
    """What a rule of a job has done outside, once; a person is told when it fails."""

    __slots__ = ()

    job: str

    def settle(
        self, context: DecisionContext, settlement: Settlement, answer: Answer
    ) -> None:
        super().settle(context, settlement, answer)
        if not answer.ok:
            warn_of_failure(context, settlement.pending, answer.detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendText(_Errand, kind="append"):
    job: str
    path: str
    text: str
    below: str = ""
    """The directory that it must lie in, links resolved; empty: any."""

    def name_object(self) -> str:
        return self.path

    def describe(self) -> str:
        return f"{self.path}: {self.text}"

    def call(self, outside: Outside) -> Answer:
        try:
            outside.errands.append(self.path, self.text, self.below)
        except OSError as error:
            return Answer(ok=False, detail=format_os_reason(error))
        return Answer(detail=self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunActionCommand(_Errand, kind="command"):
    job: str
    command: tuple[str, ...]
    timeout: float
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    """Empty: where the engine runs."""

    def name_object(self) -> str:
        return " ".join(self.command)

    def describe(self) -> str:
        return f"$ {shlex.join(self.command)}"

    def call(self, outside: Outside) -> Answer:
        result = outside.errands.run(self.command, self.timeout, self.env, self.cwd)
        ended = "" if result.exit_code is None else f"exit {result.exit_code}"
        detail = "\n".join(filter(None, (ended, result.detail)))
        return Answer(ok=result.exit_code == 0, detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteDone(OutsideEffect, kind="note_done"):
    """Leave word in a completed job's output directory, for sessions to come."""

    job: str

    def describe(self) -> str:
        return "left word of success in its output directory"

    def send(self, outside: Outside, state: SessionState) -> Callable[[], Answer]:
        job = state.jobs[self.job]
        spec, work = job.spec, work_of(state, job)

        def call() -> Answer:
            try:
                outside.preparation.note_done(spec, work)
            except AutoexpError as error:
                return Answer(ok=False, detail=error.line)
            return Answer()

        return call
