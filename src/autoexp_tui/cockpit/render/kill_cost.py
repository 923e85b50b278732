"""What an end costs, in words: steps, hours, and what waits behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.render.reasons import reason
from autoexp_tui.cockpit.render.spans import Line, Span, line, outside
from autoexp_tui.cockpit.render.status_style import FACES
from autoexp_tui.cockpit.state.kill_cost import Loss
from autoexp_tui.model.wording import duration, plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView

MOST_BEHIND = 20
"""Waiting jobs that are named before the rest is counted."""


def to_kill(job: JobView, loss: Loss | None, session: SessionView) -> Line:
    """A job by name, with what is lost of it; with its reason where nothing is."""
    face = FACES[job.look]
    told = _loss_words(loss) if loss and loss.seconds else reason(job, session)
    return line(
        Span(f"  {face.glyph} ", face.role),
        Span(outside(job.name)),
        Span(f"  {told}", "muted"),
    )


def _loss_words(loss: Loss) -> str:
    """`812 steps since 48000, 12 min, 0.9 GPU h`."""
    steps = plural(loss.steps, "step") if loss.steps is not None else ""
    last = "its checkpoint" if loss.checkpoint is None else loss.checkpoint
    since = "" if loss.unknown else f"since {last}"
    parts = [
        " ".join(part for part in (steps, since) if part),
        "no checkpoint known" if loss.unknown else "",
        duration(loss.seconds),
        _gpu_hours(loss.gpu_hours),
    ]
    return ", ".join(part for part in parts if part)


def _gpu_hours(hours: float) -> str:
    return f"{hours:.1f} GPU h" if hours >= 0.05 else ""


def lost(losses: Sequence[Loss]) -> Iterable[Line]:
    """All that is lost: steps, running time, GPU hours; and what is known of none."""
    if not losses:
        return
    steps = [loss.steps for loss in losses if loss.steps is not None]
    parts = [
        _listed(steps) if steps else "",
        f"{duration(sum(loss.seconds for loss in losses))} of running",
        _gpu_hours(sum(loss.gpu_hours for loss in losses)),
    ]
    what = "its checkpoint" if len(losses) == 1 else "their checkpoints"
    known = steps or any(not loss.unknown for loss in losses)
    since = f" since {what}" if known else ""
    told_parts = ", ".join(part for part in parts if part)
    yield (Span(f"Lost{since}: {told_parts}.", "failed"),)
    unsaved = Counter(loss.unknown for loss in losses if loss.unknown)
    for way, number in unsaved.items():
        text = f"{plural(number, 'job')} with no checkpoint known ({outside(way)})."
        yield (Span(text, "failed"),)


def _listed(steps: Sequence[int]) -> str:
    """`812 and 90 steps`; of many their sum and the most."""
    if len(steps) == 1:
        return plural(steps[0], "step")
    if len(steps) <= 4:
        parts = [str(number) for number in steps]
        return f"{', '.join(parts[:-1])} and {parts[-1]} steps"
    return f"{sum(steps)} steps in all, {max(steps)} at most"


def skipped_behind(
    jobs: Sequence[JobView], behind: Sequence[JobView], session: SessionView
) -> Iterable[Line]:
    """How many wait for the jobs, and what the plan does with those."""
    skipped = _skipped(jobs, behind, session)
    held = len(behind) - skipped
    pronoun = "it" if len(jobs) == 1 else "them"
    if skipped:
        text = f"{_that_wait(skipped)} for {pronoun} will be skipped."
        yield (Span(text, "warning"),)
    if held:
        text = (
            f"{_that_wait(held)} for {pronoun} can never start, and {_is(held)} held."
        )
        yield (Span(text, "warning"),)


def _that_wait(number: int) -> str:
    return f"{plural(number, 'job')} that {'waits' if number == 1 else 'wait'}"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _skipped(
    jobs: Sequence[JobView], behind: Sequence[JobView], session: SessionView
) -> int:
    """How many are skipped: not what the plan holds, nor what waits for that."""
    gone = {job.name for job in jobs}
    for job in behind:  # in plan order: what is waited for comes first
        waits_for = session.upstream.get(job.name, ())
        if gone.intersection(waits_for) and not _is_held_when_doomed(job, session):
            gone.add(job.name)
    return len(gone) - len(jobs)


def _is_held_when_doomed(job: JobView, session: SessionView) -> bool:
    """Whether a wait of the job that can never end is left to a person."""
    spec, plan = job.record.spec, session.snapshot.plan
    if plan is None or plan.rules_of(spec).doomed != "hold":
        return False
    return not any(one.kind == "job_state" for one in spec.start_conditions)


def names_behind(behind: Sequence[JobView]) -> Iterable[Line]:
    if not behind:
        return
    yield (Span("Waiting for it:" if len(behind) == 1 else "Waiting for them:"),)
    for job in behind[:MOST_BEHIND]:
        face = FACES[job.look]
        yield (Span(f"  {face.glyph} ", face.role), Span(outside(job.name), "muted"))
    if len(behind) > MOST_BEHIND:
        yield (Span(f"    and {len(behind) - MOST_BEHIND} more", "muted"),)
