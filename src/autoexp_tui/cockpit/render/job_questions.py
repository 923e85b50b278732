"""What K, R and X ask: exact jobs, what is lost, what comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.render.questions import COUNTDOWN, TYPE_FROM, Choice, Question
from autoexp_tui.cockpit.spans import Line, Span, line, outside
from autoexp_tui.cockpit.state.kill_cost import (
    NO_LOOKS,
    Looks,
    Loss,
    estimate_loss,
    find_checkpoint,
    find_waiting,
    has_nan,
    is_outside,
    select_killable,
)
from autoexp_tui.cockpit.state.parameters import format_value
from autoexp_tui.cockpit.state.reasons import (
    describe_condition,
    explain_why,
    find_reason,
)
from autoexp_tui.cockpit.state.status import FACES
from autoexp_tui.conditions.files import awaited_by
from autoexp_tui.model import resubmission as revival
from autoexp_tui.model.states import BEGUN, NOT_STARTED
from autoexp_tui.model.wording import duration, plural
from autoexp_tui.planning.overrides import read_override_key
from autoexp_tui.sweep.points import plain_key

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, Scope, SessionView
    from autoexp_tui.model.specs import JobSpec


def _names(jobs: Sequence[JobView], session: SessionView) -> Iterable[Line]:
    """Every job by name, with glyph and reason: nothing is summed up away."""
    for job in jobs:
        face = FACES[job.look]
        yield line(
            Span(f"  {face.glyph} ", face.role),
            Span(outside(job.name)),
            Span(f"  {find_reason(job, session)}", "muted"),
        )


def _chosen_by(scope: Scope) -> Iterable[Line]:
    if scope.by_marks:
        yield (Span(f"{scope.words}:", "accent" if scope.hidden else "muted"),)


# ------------------------------------------------------------------------- kill
def ask_kill(
    scope: Scope, session: SessionView, looks: Looks = NO_LOOKS
) -> Question | None:
    """What K asks; None when nothing in the scope can be ended."""
    jobs = select_killable(scope.jobs)
    if not jobs:
        return None
    live = [job for job in jobs if is_outside(job)]
    losses = {job.name: estimate_loss(job, session.now, looks) for job in live}
    behind = find_waiting(jobs, session)
    lines: list[Line] = [
        *_stakes(jobs, losses.values(), behind, session),
        *_chosen_by(scope),
        *(render_killed(job, losses.get(job.name), session) for job in jobs),
        *render_behind(behind),
    ]
    return Question(
        title=f"Kill {_described(jobs)}?",
        lines=tuple(lines),
        stay="Keep running" if live else "Keep them",
        confirm=f"kill in {COUNTDOWN} s (U stops it)",
        typed=len(jobs) if len(jobs) >= TYPE_FROM else None,
        danger=True,
    )


def describe_kill(
    jobs: Sequence[JobView], session: SessionView, looks: Looks = NO_LOOKS
) -> Iterable[Line]:
    """What is lost of `jobs` together, and what waits for them."""
    losses = [estimate_loss(job, session.now, looks) for job in jobs if is_outside(job)]
    return _stakes(jobs, losses, find_waiting(jobs, session), session)


def _stakes(
    jobs: Sequence[JobView],
    losses: Iterable[Loss],
    behind: Sequence[JobView],
    session: SessionView,
) -> Iterator[Line]:
    yield from render_lost([loss for loss in losses if loss.seconds or loss.steps])
    yield from render_skipped(jobs, behind, session)


def _described(jobs: Sequence[JobView]) -> str:
    running = sum(1 for job in jobs if job.record.state in BEGUN)
    if running == len(jobs):
        return plural(len(jobs), "running job")
    rest = len(jobs) - running
    if not running:
        return f"{plural(len(jobs), 'job')} that {_have(rest)} not begun"
    return f"{plural(len(jobs), 'job')}, {running} of them running"


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


# --------------------------------------------------------------------- resubmit
def ask_resubmit(scope: Scope, session: SessionView) -> Question | None:
    """What R asks; None when nothing in the scope ended in a way that R mends."""
    jobs = [job for job in scope.jobs if revival.may_come_back(job.record)]
    if not jobs:
        return None
    brought, followers = describe_resubmit(jobs, session)
    lines = [*_chosen_by(scope), *_names(jobs, session), *brought, *followers]
    return Question(
        title=f"Resubmit {plural(len(jobs), 'job')}?",
        lines=tuple(lines),
        stay="Leave as it is" if len(jobs) == 1 else "Leave as they are",
        confirm="resubmit",
        choices=tuple(_resubmit_choices(jobs, followed=bool(followers))),
    )


def describe_resubmit(
    jobs: Sequence[JobView], session: SessionView
) -> tuple[Sequence[Line], Sequence[Line]]:
    """What comes back with `jobs`; who waits for what they write, and will read it."""
    revived = _revived_with(jobs, session)
    return list(_brought_back(revived, session)), list(
        _followers(jobs, revived, session)
    )


def _brought_back(revived: Sequence[JobView], session: SessionView) -> Iterator[Line]:
    if revived:
        number = plural(len(revived), "job")
        yield (Span(f"Brings back {number} {_because(revived)}:", "accent"),)
        yield from _names(revived, session)


def _because(revived: Sequence[JobView]) -> str:
    """Why jobs come back with others."""
    was, builds = ("was", "builds") if len(revived) == 1 else ("were", "build")
    if any(job.record.done_before for job in revived):
        return f"that {was} skipped because of this, or {builds} on its results"
    return f"that {was} skipped because of this"


def _revived_with(jobs: Sequence[JobView], session: SessionView) -> tuple[JobView, ...]:
    """What the engine brings back with `jobs`, by the engine's own rule."""
    records = {job.name: job.record for job in session.jobs}
    below = revival.dependants(records.values())
    names = [job.name for job in jobs]
    return session.named(tuple(revival.ended_because_of(names, records, below)))


def _followers(
    jobs: Sequence[JobView], revived: Sequence[JobView], session: SessionView
) -> Iterator[Line]:
    """Who waits for what these jobs write, and what they will read."""
    names = {job.name for job in jobs}
    behind = session.named(
        [one for job in jobs for one in session.behind.get(job.name, ())]
    )
    waiting = (job for job in behind if job.record.state in NOT_STARTED)
    found = [
        (follower, part)
        for follower in dict.fromkeys((*waiting, *revived))
        for part in awaited_by(follower.record.spec)
        if part.writer in names
    ]
    if found:
        yield (Span("Wait for what it writes, and will read:", "accent"),)
    for follower, part in found:
        yield line(
            Span(f"  {outside(follower.name)}"),
            Span(
                f"  {describe_condition(part, session)}  {outside(part.watched_path)}",
                "muted",
            ),
        )


def _resubmit_choices(jobs: Sequence[JobView], *, followed: bool) -> Iterable[Choice]:
    """The ways back; each says from where, the first one is the advised one."""
    ill = [job for job in jobs if has_nan(job)]
    anew = bool(ill) or any(job.record.done_before for job in jobs)
    waits = "; followers wait for its new files" if followed else ""
    saved, fresh = _from_saved(jobs), _from_the_beginning(ill, waits)
    yield from (fresh, saved) if anew else (saved, fresh)
    start = "from the beginning" if anew else _place_saved(jobs).split(" (")[0]
    keeps = not anew
    nodes = dict.fromkeys(
        outside(job.attempt.node) for job in jobs if job.attempt and job.attempt.node
    )
    yield Choice(
        "overrides",
        f"with other values, {start}{waits}",
        asks="overrides, as key=value",
        from_checkpoint=keeps,
    )
    if followed:
        yield Choice(
            "overrides",
            f"with other values, {start}; followers use the files that are there",
            asks="overrides, as key=value",
            from_checkpoint=keeps,
            use_files=True,
        )
    yield Choice(
        "nodes",
        f"without these nodes, {start}",
        asks="nodes",
        given=" ".join(nodes),
        from_checkpoint=keeps,
    )
    yield Choice(
        "limit",
        f"with another time limit, {start}",
        asks="limit, as 90m, 12h or 2d",
        from_checkpoint=keeps,
    )


def _from_saved(jobs: Sequence[JobView]) -> Choice:
    return Choice("checkpoint", _place_saved(jobs))


def _from_the_beginning(ill: Sequence[JobView], waits: str) -> Choice:
    label = f"as planned, from the beginning{waits}"
    if ill:
        step = find_checkpoint(ill[0])
        whose = f"checkpoint {step}" if len(ill) == 1 else f"{len(ill)} checkpoints"
        verb = "was" if len(ill) == 1 else "were"
        label += f": {whose} {verb} saved when the loss was nan already"
    return Choice("planned", label, from_checkpoint=False)


def _place_saved(jobs: Sequence[JobView]) -> str:
    saved = [step for job in jobs if (step := find_checkpoint(job)) is not None]
    if not saved:
        return "from a checkpoint, where the program finds one"
    if len(jobs) == 1:
        return f"from the newest checkpoint (step {saved[0]})"
    return f"from the newest checkpoint ({len(saved)} of {len(jobs)} have one)"


def render_overrides(
    jobs: Sequence[JobView], overrides: Sequence[str]
) -> tuple[Line, ...]:
    """What typed overrides change, a line each: the old value and the new."""
    return tuple(_override_line(jobs, entry) for entry in overrides)


def _override_line(jobs: Sequence[JobView], entry: str) -> Line:
    key, sign, value = entry.partition("=")
    if not sign or not key:
        return (Span(f"  {outside(entry)}: not of the form key=value", "failed"),)
    old = {_present(job.record.spec, key) for job in jobs} - {""}
    before = " | ".join(sorted(old)) or "as configured"
    return line(
        Span(f"  {outside(key)}: ", "muted"),
        Span(before, "failed"),
        Span(" -> ", "muted"),
        Span(outside(value), "done"),
    )


def _present(spec: JobSpec, key: str) -> str:
    """The value that a job has now; empty where only its config tells."""
    plain = read_override_key(key)
    for name, value in spec.parameters.items():
        if plain_key(name) == plain:
            return format_value(value)
    given = [text for text in spec.overrides if read_override_key(text) == plain]
    return outside(given[-1].partition("=")[2]) if given else ""


def render_place(jobs: Sequence[JobView]) -> Line:
    """Where jobs write that run with other values."""
    if len(jobs) == 1:
        place = outside(jobs[0].record.spec.output_dir, 4096)
        return (Span(f"  It writes into the same directory: {place}", "warning"),)
    return (Span("  Each writes into the same directory as before.", "warning"),)


# ------------------------------------------------------------------- skip, waive
def ask_skip(scope: Scope, session: SessionView) -> Question | None:
    """What X asks; None when nothing in the scope waits."""
    jobs = [job for job in scope.jobs if job.record.state in NOT_STARTED]
    if not jobs:
        return None
    behind = find_waiting(jobs, session)
    lines = (
        *render_skipped(jobs, behind, session),
        *_chosen_by(scope),
        *_names(jobs, session),
        *render_behind(behind),
    )
    return Question(
        title=f"Skip {plural(len(jobs), 'job')}?",
        lines=lines,
        stay="Let it wait" if len(jobs) == 1 else "Let them wait",
        confirm="do it",
        choices=tuple(_skip_choices(jobs, session)),
        typed=len(jobs) if len(jobs) >= TYPE_FROM else None,
    )


def _skip_choices(jobs: Sequence[JobView], session: SessionView) -> Iterable[Choice]:
    what = "it" if len(jobs) == 1 else f"all {len(jobs)}"
    yield Choice("skip", f"skip {what}", asks="reason", optional=True)
    if len(jobs) > 1:
        return
    job = jobs[0]
    for index, spec in enumerate(job.record.spec.start_conditions):
        status = job.status(index)
        if status is not None and status.waived:
            continue
        subject = describe_condition(spec, session)
        state = f" ({explain_why(status.why, job, session)})" if status else ""
        label = f"let it start without: {subject}{state}"
        yield Choice(f"waive:{index}", label, asks="reason")


MOST_BEHIND = 20
"""Waiting jobs that are named before the rest is counted."""


def render_killed(job: JobView, loss: Loss | None, session: SessionView) -> Line:
    """A job by name, with what is lost of it; with its reason where nothing is."""
    face = FACES[job.look]
    told = _loss_words(loss) if loss and loss.seconds else find_reason(job, session)
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


def render_lost(losses: Sequence[Loss]) -> Iterable[Line]:
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


def render_skipped(
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


def render_behind(behind: Sequence[JobView]) -> Iterable[Line]:
    if not behind:
        return
    yield (Span("Waiting for it:" if len(behind) == 1 else "Waiting for them:"),)
    for job in behind[:MOST_BEHIND]:
        face = FACES[job.look]
        yield (Span(f"  {face.glyph} ", face.role), Span(outside(job.name), "muted"))
    if len(behind) > MOST_BEHIND:
        yield (Span(f"    and {len(behind) - MOST_BEHIND} more", "muted"),)
