"""Which checkpoint a job goes on from, and when that is the one to blame. An
attempt that failed on one before a further step is a strike against it; enough in a
row, or a rule, have it moved aside. Looks and moves are ordered, and no attempt starts
in between."""

from __future__ import annotations

import posixpath

from autoexp_tui.actions.orders import emit_order
from autoexp_tui.effects.effects import LookForCheckpoint, MoveCheckpoint
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.outputs import FoundCheckpoint, SavedCheckpoint
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Why, why
from autoexp_tui.text.spelling import plural


def request_look(context: DecisionContext, job: JobRecord, *, after: int) -> None:
    """Look what the next attempt would go on from; move it at `after` strikes."""
    where = context.rules_of(job.name).checkpoints
    if where.glob:
        look = LookForCheckpoint(
            job=job.name,
            attempt=len(job.attempts),
            output_dir=job.spec.output_dir,
            glob=where.glob,
            pointer=where.pointer,
            after=after,
        )
        emit_order(context, look)


def list_held_by_looks(context: DecisionContext) -> frozenset[str]:
    """Jobs whose checkpoints are being looked at, or moved: they do not start yet."""
    return frozenset(
        pending.effect.job
        for pending in context.state.pending.values()
        if isinstance(pending.effect, LookForCheckpoint | MoveCheckpoint)
    )


def handle_look(
    context: DecisionContext,
    look: LookForCheckpoint,
    found: FoundCheckpoint | None,
    problem: str,
) -> None:
    """Take what a look has found, and order the move when it is time."""
    if problem:
        _warn(context, look.job, look.path, problem)
    elif found is None and look.after:
        context.draft.emit(events.CheckpointSeen(job=look.job))
    elif found is None:
        _warn(context, look.job, look.path, "there is none")
    elif not look.after:
        _move(context, look, found, 0)
    else:
        strikes = _count_strikes(context.job(look.job), look, found)
        saved = SavedCheckpoint(checkpoint=found.newest, strikes=strikes)
        context.draft.emit(events.CheckpointSeen(job=look.job, saved=saved))
        if strikes >= look.after:
            _move(context, look, found, strikes)


def _count_strikes(
    job: JobRecord, look: LookForCheckpoint, found: FoundCheckpoint
) -> int:
    """How many attempts in a row failed on the newest checkpoint, this one counted."""
    saved, attempt = job.saved, job.attempts[look.attempt - 1]
    if not attempt.resume or saved is None or saved.checkpoint != found.newest:
        return 0
    # Had it reported another step, it came further; at a smaller one its log counts
    # something else than the checkpoints' names, and nothing can be said.
    if attempt.reached not in (None, saved.checkpoint.step):
        return 0
    return saved.strikes + 1


def _move(
    context: DecisionContext,
    look: LookForCheckpoint,
    found: FoundCheckpoint,
    strikes: int,
) -> None:
    path = found.newest.path
    if found.others < look.keep:
        left = f"{found.others} would be left, and {look.keep} are to be kept"
        _warn(context, look.job, path, left)
        return
    order = MoveCheckpoint(
        job=look.job,
        output_dir=look.output_dir,
        checkpoint=found.newest,
        target=found.target,
        pointer=look.pointer,
        before=found.before,
        strikes=strikes,
    )
    reason = why("quarantine_asked", path=path)
    if strikes:
        reason = why("quarantine", path=path, attempts=plural(strikes, "attempt"))
    emit_order(context, order, reason)


def handle_move(context: DecisionContext, move: MoveCheckpoint, problem: str) -> None:
    """Take what came of a move."""
    path, before = move.checkpoint.path, move.before
    if problem:
        _warn(context, move.job, path, problem)
        return
    moved = events.CheckpointQuarantined(
        job=move.job, checkpoint=move.checkpoint, moved_to=move.target, before=before
    )
    context.draft.emit(moved)
    reason = why(
        "quarantined",
        path=path,
        target=move.target,
        attempts=plural(move.strikes, "attempt") if move.strikes else "",
        before=posixpath.basename(before.path) if before else "the beginning",
    )
    _raise(context, move.job, move.target, reason)


def _warn(context: DecisionContext, job: str, path: str, problem: str) -> None:
    _raise(context, job, path, why("not_quarantined", path=path, problem=problem))


def _raise(context: DecisionContext, job: str, about: str, reason: Why) -> None:
    warning = "q" + ids.digest(job, about, reason.code)
    context.draft.emit(events.WarningRaised(warning_id=warning, why=reason, job=job))
