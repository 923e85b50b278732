"""Wishes, in the imperative: what a person or a script asks of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from autoexp_tui.model.kinds import Kind, KindTable

if TYPE_CHECKING:
    from autoexp_tui.model.decision_context import DecisionContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Kind):
    kinds: ClassVar[KindTable[Command]] = KindTable(
        "command",
        {
            "model.commands": "submit:Submit kill:Kill resubmit:Resubmit answer:Answer "
            "skip:Skip waive:Waive pause:Pause resume:Resume acknowledge:Acknowledge "
            "grow:Grow stop:StopEngine answer_ask:AnswerAsk",
            "tree.commands": "mark_evaluation:MarkEvaluation "
            "end_evaluation:EndEvaluation add_idea:AddIdea "
            "propose_idea:ProposeIdea retry_evaluation:RetryEvaluation "
            "grant_retry:GrantRetry",
            "research.commands": "put_item:PutItem move_item:MoveItem "
            "remove_item:RemoveItem tell_agent:TellAgent consult:Consult "
            "end_call:EndCall acknowledge_condition:AcknowledgeCondition "
            "end_research:EndResearch",
        },
    )
    is_personal: ClassVar[bool] = False
    """Whether a person has to decide it, and no job may."""

    def handle(self, context: DecisionContext, order: Order) -> None:
        """Carry out a policy's command; the engine's own are handled by the engine."""
        raise NotImplementedError(self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit(Command, kind="submit"):
    """Let jobs run; the rest of the planned ones is held."""

    jobs: tuple[str, ...] = ()
    plan_id: str = ""
    """The plan whose jobs were shown: no other is submitted. Empty: none is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(Command, kind="kill"):
    jobs: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resubmit(Command, kind="resubmit"):
    """Bring back jobs that ended, and those that were skipped because of them."""

    jobs: tuple[str, ...]
    from_checkpoint: bool = True
    overrides: tuple[str, ...] = ()
    exclude_nodes: tuple[str, ...] = ()
    time_limit_seconds: float | None = None
    use_files: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Command, kind="answer", is_personal=True):
    """Approve or refuse what an approval asked; bound to its digest."""

    job: str
    digest: str
    approved: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerAsk(Command, kind="answer_ask", is_personal=True):
    """Approve or refuse a question that is no job's; bound to the lines that remain."""

    ask: str
    digest: str
    approved: bool
    dropped: tuple[int, ...] = ()
    """Places, from 0, of the lines that are left out of an approval."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip(Command, kind="skip"):
    """Do not run jobs that have not started."""

    jobs: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waive(Command, kind="waive", is_personal=True):
    """Let one start condition of a waiting job count as passed."""

    job: str
    condition: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Command, kind="pause"):
    """Submit nothing more until `Resume`; what runs goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(Command, kind="resume"):
    """Submit again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge(Command, kind="acknowledge"):
    warnings: tuple[str, ...] = ()
    limits: tuple[tuple[str, int], ...] = ()
    """Attempts, as (job, attempt), whose time limit is known to cut them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grow(Command, kind="grow"):
    """Let a plan join that lies beside the journal, and say what becomes of jobs that
    are no longer planned. It names all that a person was shown; `expected` of its order
    has the attempts of `hold` and `end`."""

    sha: str
    run: tuple[str, ...] = ()
    """Jobs of the plan that are let run; its others are held."""
    hold: tuple[str, ...] = ()
    """Jobs of the session that have not begun."""
    end: tuple[str, ...] = ()
    """Jobs of the session, begun or not."""
    force: bool = False
    """Run also what an earlier session has done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopEngine(Command, kind="stop"):
    """End the engine at the next commit boundary, with or without its jobs."""

    cancel_jobs: bool = False
    hand_over: bool = False
    """A successor will take the lease: say so in the journal."""


LEAVING: Final = "front end"
"""Who orders a stop when an engine's own process ends."""


def is_signed(command: Command) -> bool:
    """Whether it tells which process sent it."""
    return command.is_personal or isinstance(command, Grow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """One process on one host; code of the user can forge it."""

    user: str = ""
    host: str = ""
    boot: str = ""
    namespace: str = ""
    pid: int = 0
    started: str = ""
    leader: int = 0
    """The pid of its session's leader: a login shell outlives what it starts."""
    leader_started: str = ""
    tty: str = ""
    ssh_client: str = ""
    """Address that the person logged in from; empty: not by ssh."""
    job: str = ""
    """Of which job it is a process, in words; empty: of none that was found."""
    doubt: Literal["", "unnamed", "ended"] = ""
    """`unnamed`: the command names none. `ended`: neither it nor its leader lived."""
    checked: bool = False

    def __str__(self) -> str:
        ssh = f"from {self.ssh_client}" if self.ssh_client else ""
        pid = f"pid {self.pid}" if self.pid else ""
        where = ", ".join(filter(None, (self.tty, ssh, pid)))
        who = f"{self.user} on {self.host}" if self.user else self.host
        return f"{who} ({where})" if where else who


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A command on its way: who, and what they had seen."""

    command_id: str
    command: Command
    by: str = "person"
    seen_seq: int = 0
    expected: Mapping[str, int] = field(default_factory=dict)
    """Job -> number of attempts that the sender saw; a stale one is refused."""
    sender: Sender | None = None
    """Which process sent it, of commands that are signed."""

    @property
    def asker(self) -> str:
        """Who asks, as `ann@login1`; a job's process by its job."""
        sender = self.sender
        if sender is None or not (sender.job or sender.user):
            return self.by
        return sender.job or f"{sender.user}@{sender.host}"
