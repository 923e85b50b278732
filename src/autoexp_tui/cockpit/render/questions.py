"""What the dialogs ask: exact jobs, exact counts, what is lost, what happens next.

A question changes nothing by itself. Its stay button has the focus; `y` confirms,
Enter never does. Where ten or more jobs would end, the count has to be typed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.render.kill_cost import (
    lost,
    names_behind,
    skipped_behind,
    to_kill,
)
from autoexp_tui.cockpit.render.reasons import reason, told
from autoexp_tui.cockpit.render.spans import Line, Span, line, outside
from autoexp_tui.cockpit.render.status_style import FACES, Look
from autoexp_tui.cockpit.state.kill_cost import (
    NO_LOOKS,
    Looks,
    Loss,
    checkpoint_step,
    exists_outside,
    holds_nan,
    killable,
    loss_of,
    waits_behind,
)
from autoexp_tui.cockpit.state.parameters import spell
from autoexp_tui.cockpit.state.subjects import condition_subject
from autoexp_tui.conditions.files import awaited_by
from autoexp_tui.model import resubmission as revival
from autoexp_tui.model.states import BEGUN, NOT_STARTED
from autoexp_tui.model.wording import plural
from autoexp_tui.model.wording import size as spell_size
from autoexp_tui.planning.overrides import override_key
from autoexp_tui.sweep.points import plain_key

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.scope import Scope
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.specs import JobSpec
    from autoexp_tui.model.state import Ask

TYPE_FROM = 10
"""From this many jobs on, ending them asks for their count."""
COUNTDOWN = 5
"""Seconds in which a kill can still be stopped."""
SAVES_UNASKED = 100_000_000
"""Bytes of a log up to which saving a copy asks nothing."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to do it."""

    id: str
    label: str
    jobs: tuple[str, ...] = ()
    """The jobs it is about, where ways differ in that."""
    asks: str = ""
    """What has to be typed for it; empty: nothing."""
    given: str = ""
    """What stands in the field at first."""
    optional: bool = False
    """Whether the field may stay empty."""
    from_checkpoint: bool = True
    """R: whether the program may go on from what it saved."""
    use_files: bool = False
    """R: whether followers may use what lies there although it begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A dialog's text."""

    title: str
    lines: tuple[Line, ...] = ()
    stay: str
    """The button that changes nothing."""
    confirm: str
    """What `y` does, in words."""
    choices: tuple[Choice, ...] = ()
    typed: int | None = None
    """The number that has to be typed before `y` counts."""
    others: tuple[tuple[str, str], ...] = ()
    """Further keys and what they do: `("p", "pause submissions and leave")`."""
    danger: bool = False


def _names(jobs: Sequence[JobView], session: SessionView) -> Iterable[Line]:
    """Every job by name, with glyph and reason: nothing is summed up away."""
    for job in jobs:
        face = FACES[job.look]
        yield line(
            Span(f"  {face.glyph} ", face.role),
            Span(outside(job.name)),
            Span(f"  {reason(job, session)}", "muted"),
        )


def _chosen_by(scope: Scope) -> Iterable[Line]:
    if scope.by_marks:
        yield (Span(f"{scope.words}:", "accent" if scope.hidden else "muted"),)


# ------------------------------------------------------------------------- kill
def kill_question(
    scope: Scope, session: SessionView, looks: Looks = NO_LOOKS
) -> Question | None:
    """What K asks; None when nothing in the scope can be ended."""
    jobs = killable(scope.jobs)
    if not jobs:
        return None
    live = [job for job in jobs if exists_outside(job)]
    losses = {job.name: loss_of(job, session.now, looks) for job in live}
    behind = waits_behind(jobs, session)
    lines: list[Line] = [
        *_stakes(jobs, losses.values(), behind, session),
        *_chosen_by(scope),
        *(to_kill(job, losses.get(job.name), session) for job in jobs),
        *names_behind(behind),
    ]
    return Question(
        title=f"Kill {_described(jobs)}?",
        lines=tuple(lines),
        stay="Keep running" if live else "Keep them",
        confirm=f"kill in {COUNTDOWN} s (U stops it)",
        typed=len(jobs) if len(jobs) >= TYPE_FROM else None,
        danger=True,
    )


def kill_stakes(
    jobs: Sequence[JobView], session: SessionView, looks: Looks = NO_LOOKS
) -> Iterable[Line]:
    """What is lost of `jobs` together, and what waits for them."""
    losses = [loss_of(job, session.now, looks) for job in jobs if exists_outside(job)]
    return _stakes(jobs, losses, waits_behind(jobs, session), session)


def _stakes(
    jobs: Sequence[JobView],
    losses: Iterable[Loss],
    behind: Sequence[JobView],
    session: SessionView,
) -> Iterator[Line]:
    yield from lost([loss for loss in losses if loss.seconds or loss.steps])
    yield from skipped_behind(jobs, behind, session)


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
def resubmit_question(scope: Scope, session: SessionView) -> Question | None:
    """What R asks; None when nothing in the scope ended in a way that R mends."""
    jobs = [job for job in scope.jobs if revival.may_come_back(job.record)]
    if not jobs:
        return None
    brought, followers = resubmit_stakes(jobs, session)
    lines = [*_chosen_by(scope), *_names(jobs, session), *brought, *followers]
    return Question(
        title=f"Resubmit {plural(len(jobs), 'job')}?",
        lines=tuple(lines),
        stay="Leave as it is" if len(jobs) == 1 else "Leave as they are",
        confirm="resubmit",
        choices=tuple(_resubmit_choices(jobs, followed=bool(followers))),
    )


def resubmit_stakes(
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
                f"  {condition_subject(part, session)}  {outside(part.watched_path)}",
                "muted",
            ),
        )


def _resubmit_choices(jobs: Sequence[JobView], *, followed: bool) -> Iterable[Choice]:
    """The ways back; each says from where, the first one is the advised one."""
    ill = [job for job in jobs if holds_nan(job)]
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
        step = checkpoint_step(ill[0])
        whose = f"checkpoint {step}" if len(ill) == 1 else f"{len(ill)} checkpoints"
        verb = "was" if len(ill) == 1 else "were"
        label += f": {whose} {verb} saved when the loss was nan already"
    return Choice("planned", label, from_checkpoint=False)


def _place_saved(jobs: Sequence[JobView]) -> str:
    saved = [step for job in jobs if (step := checkpoint_step(job)) is not None]
    if not saved:
        return "from a checkpoint, where the program finds one"
    if len(jobs) == 1:
        return f"from the newest checkpoint (step {saved[0]})"
    return f"from the newest checkpoint ({len(saved)} of {len(jobs)} have one)"


def override_diff(
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
    plain = override_key(key)
    for name, value in spec.parameters.items():
        if plain_key(name) == plain:
            return spell(value)
    given = [text for text in spec.overrides if override_key(text) == plain]
    return outside(given[-1].partition("=")[2]) if given else ""


def same_place(jobs: Sequence[JobView]) -> Line:
    """Where jobs write that run with other values."""
    if len(jobs) == 1:
        place = outside(jobs[0].record.spec.output_dir, 4096)
        return (Span(f"  It writes into the same directory: {place}", "warning"),)
    return (Span("  Each writes into the same directory as before.", "warning"),)


# ------------------------------------------------------------------- skip, waive
def skip_question(scope: Scope, session: SessionView) -> Question | None:
    """What X asks; None when nothing in the scope waits."""
    jobs = [job for job in scope.jobs if job.record.state in NOT_STARTED]
    if not jobs:
        return None
    behind = waits_behind(jobs, session)
    lines = (
        *skipped_behind(jobs, behind, session),
        *_chosen_by(scope),
        *_names(jobs, session),
        *names_behind(behind),
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
        subject = condition_subject(spec, session)
        state = f" ({told(status.why, job, session)})" if status else ""
        label = f"let it start without: {subject}{state}"
        yield Choice(f"waive:{index}", label, asks="reason")


# --------------------------------------------------------------------- approval
def approval_question(
    job: JobView,
    ask: Ask,
    files: Sequence[tuple[str, str]],
    place: str,
    session: SessionView,
) -> Question:
    """What A shows: the prompt, and the text of the files that go with it.

    Args:
        job: the one that asks.
        ask: what it asks, bound to a digest.
        files: path and text of each file to show.
        place: `2 of 3` when several ask.
        session: whose jobs wrote the files.
    """
    lines: list[Line] = [
        (Span(outside(ask.prompt, 4000), "strong"),),
        (Span(f"y starts {outside(job.name)}."),),
        (),
    ]
    for path, text in files:
        lines.append((Span(f"-- {_heading(path, session)}", "accent"),))
        lines += [(Span(outside(row, 2000)),) for row in text.rstrip("\n").split("\n")]
        lines.append(())
    which = f" ({place})" if place else ""
    return Question(
        title=f"Approve {outside(job.name)}{which}?",
        lines=tuple(lines),
        stay="Decide later",
        confirm="approve",
        others=(("x", "refuse"),),
    )


def _heading(path: str, session: SessionView) -> str:
    """A file by the job in whose directory it is, else by its path."""
    writers = [job for job in session.jobs if _holds(job, path)]
    if not writers:
        return outside(path)
    writer = max(writers, key=lambda job: len(job.record.spec.output_dir))
    inside = path.removeprefix(writer.record.spec.output_dir).lstrip("/")
    return f"{outside(writer.name)}  {outside(inside)}"


def _holds(job: JobView, path: str) -> bool:
    directory = job.record.spec.output_dir.rstrip("/")
    return bool(directory) and path.startswith(f"{directory}/")


def asking(jobs: Sequence[JobView]) -> tuple[JobView, ...]:
    """Those that wait for an answer."""
    return tuple(job for job in jobs if job.look is Look.ASKS)


# ------------------------------------------------------------------------ leave
def leave_question(session: SessionView, come_back: str) -> Question | None:
    """What q asks; None when nothing could be disturbed by leaving."""
    engine = session.snapshot.engine
    if engine.role != "live" or not session.snapshot.open:
        return None
    begun = (Look.RUNNING, Look.STALLED, Look.SUSPENDED, Look.ENDING)
    running = session.count(*begun)
    todo = sum(1 for job in session.jobs if not job.record.ended)
    left = f"{running} running, {todo} not ended yet."
    if not todo:
        left = "All jobs have ended; what rules ordered is still being done."
    lines: list[Line] = [
        (Span("The engine goes on without this screen; nothing is stopped."),),
        (Span(left, "muted"),),
    ]
    if come_back:
        lines.append((Span(come_back, "muted"),))
    pause = (
        (("p", "pause submission and leave"),) if not session.snapshot.paused else ()
    )
    return Question(
        title="Leave?",
        lines=tuple(lines),
        stay="Stay",
        confirm="leave",
        others=pause,
    )


# ----------------------------------------------------------------------- save
def save_question(path: str, target: str, size: int) -> Question | None:
    """What saving a copy of a log asks; None when it is small."""
    if size <= SAVES_UNASKED:
        return None
    lines: list[Line] = [
        (Span("from ", "muted"), Span(outside(path, 4000))),
        (Span("to   ", "muted"), Span(outside(target, 4000))),
    ]
    return Question(
        title=f"Write a copy of {spell_size(size)}?",
        lines=tuple(lines),
        stay="Do not write it",
        confirm=f"write {spell_size(size)}",
    )
