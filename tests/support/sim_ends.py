"""What must be true of a campaign at its end, and what it went through."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Final

from autoexp_tui.effects.effects import RunNotifyCommand
from autoexp_tui.events import events
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import Cause, JobState
from tests.support.memory_journal import MemorySession
from tests.support.sim_checks import Violation
from tests.support.sim_plans import LEDGER
from tests.support.sim_slurm import SlurmCluster
from tests.support.sim_tally import Tally
from tests.support.sim_world import House


def check_words(state: SessionState, world: House) -> None:
    """Every completed job left word of it, for the next session; raises Violation."""
    for name, job in state.jobs.items():
        left = world.ready.done.get(name)
        done = job.state is JobState.COMPLETED and job.spec.fingerprint
        if done and (left is None or left.attempts != len(job.attempts)):
            raise Violation(f"{name} is completed and left no word of it")


def check_ledger(session: MemorySession, world: House) -> None:
    """What must be done once, in doubt rather not, was not done more often than it was
    ordered (a message may come again); raises Violation where it was."""
    lines = Counter(world.errands.written.get(LEDGER, "").splitlines())
    lines += Counter(" ".join(command) for command in world.errands.ran)
    told = Counter(
        " ".join((*effect.command, effect.message))
        for record in session.records
        if isinstance(record.event, events.EffectOrdered)
        and isinstance(effect := record.event.effect, RunNotifyCommand)
    )
    if twice := [line for line, times in lines.items() if times > (told[line] or 1)]:
        raise Violation(f"done twice: {twice}")


def check_growth(asked: Mapping[str, str], session: MemorySession) -> None:
    """Every plan that a person asked for has joined, or they were told why not;
    `asked`: command -> the plan's sha; raises Violation."""
    told, joined = Counter[str](), Counter[str]()
    for record in session.records:
        if isinstance(record.event, events.CommandRefused):
            told[record.command_id] += 1
        if isinstance(record.event, events.PlanAdded):
            joined[record.event.sha] += 1
    for command, sha in asked.items():
        if joined[sha] != 1 and not told[command]:
            raise Violation(f"{command} came to nothing, and nobody said so")


def digest(session: MemorySession, root: str) -> str:
    """Of all that was journaled, whatever place and plans are called."""
    made = hashlib.sha256()
    names = {root: "", **{sha: plan.plan_id for sha, plan in session.plans.items()}}
    for record in session.records:
        text = repr(record)
        for told, name in names.items():
            text = text.replace(told, name)
        made.update(text.encode())
    return made.hexdigest()[:16]


def unfinished(state: SessionState, world: House) -> str:
    """What keeps a campaign from its end."""
    living = [job for job in state.jobs.values() if not job.ended]
    rest = [f"{job.name} {job.state} {job.why and job.why.code}" for job in living]
    pending = list(state.pending.values())
    return f"jobs {rest}, pending {pending}, orders {sorted(world.inbox.orders)}"


def count(
    tally: Tally, state: SessionState, session: MemorySession, cluster: SlurmCluster
) -> None:
    """Add what a campaign went through to its tally."""
    tally.events = len(session.records)
    tally.jobs.update(job.state.value for job in state.jobs.values())
    names = (_name_of(record.event) for record in session.records)
    tally.faults.update(name for name in names if name)
    for (name, attempt), run, _ in cluster.begun(0):
        runs = cluster.scripts.get(name, ())[attempt - 1 : attempt]
        late = runs and runs[0][min(run, len(runs[0]) - 1)].record_lag > 0
        tally.faults["exit record late"] += bool(late)


def _name_of(event: events.Event) -> str:
    """What an event tells of what happened; empty: nothing that is counted."""
    match event:
        case events.AttemptEnded(cause=cause) if cause is not None:
            return _FATES.get(cause, "")
        case events.RunRequeued():
            return "run was requeued"
        case events.RunSuspended():
            return "run was suspended"
        case events.JobsHeld(why=reason) if reason is not None:
            return "submission was held"
        case events.PlanAdded(job=job) if job:
            return "plan joined by a rule"
        case events.RetryOrdered(held=True):
            return "restart was undecided"
    return ""


_FATES: Final = {
    Cause.EXIT_CODE: "run crashed",
    Cause.SIGNAL: "run was killed",
    Cause.LOST: "run vanished",
    Cause.NAN: "run diverged",
    Cause.STALL: "run stood still",
    Cause.KILL_CRITERION: "run hung",
    Cause.OUT_OF_MEMORY: "run used too much memory",
    Cause.TIMEOUT: "run used too much time",
    Cause.PREEMPTED: "run was preempted",
    Cause.NODE_FAIL: "run lost its node",
}
