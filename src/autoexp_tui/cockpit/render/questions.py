"""What the dialogs ask: exact jobs, exact counts, what is lost, what happens next.

A question changes nothing by itself. Its stay button has the focus; `y` confirms,
Enter never does. Where ten or more jobs would end, the count has to be typed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.render.plan_findings import format_warning
from autoexp_tui.cockpit.spans import Line, Span, outside
from autoexp_tui.cockpit.state.forecast import (
    NO_RATES,
    Cut,
    Rates,
    find_cut,
)
from autoexp_tui.cockpit.state.kill_cost import (
    find_needed,
)
from autoexp_tui.cockpit.state.parameters import (
    describe_job,
    find_varying,
)
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.model.states import JobState
from autoexp_tui.model.wording import count, duration, plural
from autoexp_tui.model.wording import size as spell_size
from autoexp_tui.planning.estimate import estimate, format_gpu_hours
from autoexp_tui.text.spelling import format_pace

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.parameters import Parameter
    from autoexp_tui.cockpit.state.session import JobView, Scope, SessionView
    from autoexp_tui.model.specs import Plan
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


# --------------------------------------------------------------------- approval
def ask_approval(
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


def select_asking(jobs: Sequence[JobView]) -> tuple[JobView, ...]:
    """Those that wait for an answer."""
    return tuple(job for job in jobs if job.look is Look.ASKS)


# ------------------------------------------------------------------------ leave
def ask_leave(session: SessionView, come_back: str) -> Question | None:
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
def ask_save(path: str, target: str, size: int) -> Question | None:
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


_LOCAL = frozenset({"local", "Local", "LocalCommand"})


_OTHER_PLAN = (
    "! The config is being planned again. y submits the plan shown here; what is being "
    "planned is then not opened."
)


_NAMED = 3
"""Jobs that are too large, by name, before the rest is counted."""


def ask_submit(
    scope: Scope,
    session: SessionView,
    usual: Rates = NO_RATES,
    telling: Sequence[Parameter] | None = None,
) -> Question | None:
    """What S asks; None when every job was asked to run already.

    Args:
        scope: what is marked, else under the cursor.
        session: as shown.
        usual: what is known of how fast stages go.
        telling: the parameters that tell families apart, where they are at hand.
    """
    waiting = [job for job in session.jobs if _submittable(job)]
    plan = session.snapshot.plan
    if not waiting or plan is None:
        return None
    where = f"{_where(session)}{_partitions(waiting, session)}"
    limits = _limits(waiting, session)
    lines: list[Line] = [(Span(f"{where}{_room(plan, session)}{limits}."),)]
    if session.snapshot.engine.doing:
        lines.append((Span(_OTHER_PLAN, "warning"),))
    lines += _done_words(waiting)
    lines += _too_large_words(waiting, session)
    lines += describe_cuts(waiting, session, usual)
    lines += [
        (Span(f"! {format_warning(finding)}", "warning"),) for finding in plan.warnings
    ]
    return Question(
        title=f"Submit {outside(plan.name)}?",
        lines=tuple(lines),
        stay="Not now",
        confirm="submit",
        choices=tuple(_choices(scope, session, waiting, telling)),
    )


# ------------------------------------------------------------------------ where
def _where(session: SessionView) -> str:
    """`On this machine`, or the executor by its name."""
    name = outside(session.snapshot.engine.executor).removesuffix("Client")
    if name in _LOCAL:
        return "On this machine"
    return f"On {name.lower() or 'the executor'}"


def _is_cluster(session: SessionView) -> bool:
    name = outside(session.snapshot.engine.executor).removesuffix("Client")
    return name.lower() == "slurm"


def _partitions(jobs: Sequence[JobView], session: SessionView) -> str:
    """`, partition gpu`, of a cluster."""
    if not _is_cluster(session):
        return ""
    asked = {
        outside(str(job.record.spec.resources.options.get("partition") or ""))
        for job in jobs
    }
    names = [name or "the default one" for name in sorted(asked)]
    if len(names) == 1:
        return f", partition {names[0]}" if "" not in asked else ", default partition"
    return f", partitions {', '.join(names[:-1])} and {names[-1]}"


def _limits(jobs: Sequence[JobView], session: SessionView) -> str:
    """`, time limit 1 h`: what a cluster will hold the jobs to."""
    if not _is_cluster(session):
        return ""
    asked = {job.record.spec.resources.time_limit_seconds for job in jobs}
    known = sorted(limit for limit in asked if limit)
    if not known:
        return ", no time limit of their own"
    if len(asked) == 1:
        return f", time limit {duration(known[0])}"
    upper = duration(known[-1]) if len(known) == len(asked) else "none"
    return f", time limits {duration(known[0])} to {upper}"


def _room(plan: Plan, session: SessionView) -> str:
    """`, 4 at a time, 2 GPUs`, as far as it is known."""
    engine = session.snapshot.engine
    limits = [limit for limit in (plan.executor.max_parallel, engine.slots) if limit]
    at_once = f", {min(limits)} at a time" if limits else ""
    asked = any(job.record.spec.resources.gpus for job in session.jobs)
    if engine.gpus is None or not asked:
        return at_once
    return f"{at_once}, {plural(engine.gpus, 'GPU') if engine.gpus else 'no GPU'}"


# ------------------------------------------------------------------- done already
def _done_words(jobs: Sequence[JobView]) -> Iterable[Line]:
    """How many need not run, since an earlier session has done their work."""
    done = sum(1 for job in jobs if job.record.done)
    if done:
        text = f"{done} of {plural(len(jobs), 'job')} {_is(done)} done already"
        more = " and not run again; --force runs all, R one of them anew."
        yield (Span(text, "done"), Span(more))


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


# -------------------------------------------------------------------- too large
def _too_large(jobs: Sequence[JobView], session: SessionView) -> Sequence[JobView]:
    """Those that the machine has too few GPUs for, where it is known how many."""
    gpus = session.snapshot.engine.gpus
    if gpus is None:
        return ()
    wanting = [job for job in jobs if job.record.spec.resources.gpus > gpus]
    return [job for job in wanting if not job.record.done]


def _too_large_words(jobs: Sequence[JobView], session: SessionView) -> Iterable[Line]:
    """Which jobs the machine has too few GPUs for, and what to do about it."""
    large = _too_large(jobs, session)
    if not large:
        return
    most = max(job.record.spec.resources.gpus for job in large)
    want = "wants" if len(large) == 1 else "want"
    up_to = "" if len(large) == 1 else "up to "
    text = f"! {plural(len(large), 'job')} {want} {up_to}{plural(most, 'GPU')}: "
    names = ", ".join(outside(job.name) for job in large[:_NAMED])
    more = f" and {len(large) - _NAMED} more" if len(large) > _NAMED else ""
    yield (Span(text, "failed"), Span(f"{names}{more}."))
    has = session.snapshot.engine.gpus or "none"
    yield (
        Span(f"  This machine has {has}, and refuses them. Lower slurm.sbatch.gpus, "),
        Span("or open the plan where there are more."),
    )


def _fitting(jobs: Sequence[JobView], session: SessionView) -> tuple[JobView, ...]:
    """Jobs that this machine can run, all that they wait for among them."""
    missing = {job.name for job in _too_large(jobs, session)}
    if not missing:
        return tuple(jobs)
    asked = {job.name for job in jobs}
    for job in jobs:  # in plan order: what is waited for comes first
        waits_for = asked.intersection(session.upstream.get(job.name, ()))
        if missing & waits_for:
            missing.add(job.name)
    return tuple(job for job in jobs if job.name not in missing)


# ---------------------------------------------------------------------- choices
def _submittable(job: JobView) -> bool:
    return job.record.state in (JobState.PLANNED, JobState.HELD)


def _choices(
    scope: Scope,
    session: SessionView,
    waiting: Sequence[JobView],
    telling: Sequence[Parameter] | None,
) -> Iterable[Choice]:
    fitting = _fitting(waiting, session)
    if 0 < len(fitting) < len(waiting):
        label = f"the {plural(len(fitting), 'job')} that can run here, hold the rest"
        yield _choice("fitting", label, fitting, session)
    number = plural(len(waiting), "job")
    left = len(waiting) < len(session.jobs)
    label = f"the {number} that {_is(len(waiting))} left" if left else f"all {number}"
    yield _choice("all", label, waiting, session)
    marked = [job for job in scope.jobs if _submittable(job)]
    if scope.by_marks and marked:
        jobs = _with_upstream(marked, session)
        extra = len(jobs) - len(marked)
        words = f"the {plural(len(marked), 'marked job')}"
        needs = f" and {extra} needed upstream" if extra else ""
        yield _choice("marked", words + needs, jobs, session)
    yield from _family(scope, session, waiting, telling)


def _family(
    scope: Scope,
    session: SessionView,
    waiting: Sequence[JobView],
    telling: Sequence[Parameter] | None,
) -> Iterable[Choice]:
    """The family under the cursor first, where there are others."""
    first = scope.jobs[0] if scope.jobs else waiting[0]
    family = first.record.spec.family or waiting[0].record.spec.family
    members = [job for job in waiting if job.record.spec.family == family]
    if family and 0 < len(members) < len(waiting):
        jobs = _with_upstream(members, session)
        known = find_varying(session.snapshot.plan) if telling is None else telling
        name = describe_job(members[0].record.spec, known)
        which = name or outside(family)
        label = f"one family first ({which}, {plural(len(jobs), 'job')}), hold the rest"
        yield _choice("family", label, jobs, session)


def _with_upstream(
    jobs: Sequence[JobView], session: SessionView
) -> tuple[JobView, ...]:
    needed = [job for job in find_needed(jobs, session) if _submittable(job)]
    return tuple(sorted((*jobs, *needed), key=lambda job: job.index))


def _choice(
    name: str, label: str, jobs: Sequence[JobView], session: SessionView
) -> Choice:
    large = len(_too_large(jobs, session))
    refused = f", {large} of them refused here" if large else ""
    left = [job for job in jobs if not job.record.done]
    return Choice(
        name, f"{label}{refused}: {_cost(left)}", tuple(job.name for job in jobs)
    )


def _cost(jobs: Sequence[JobView]) -> str:
    """`at most 12 GPU h an attempt`; of those that are left to run."""
    if not jobs:
        return "nothing is left to run"
    words = format_gpu_hours(estimate(job.record.spec for job in jobs))
    return f"{words} an attempt" if words.endswith(" h") else words


def describe_cuts(
    jobs: Sequence[JobView], session: SessionView, known: Rates
) -> Iterable[Line]:
    """Of jobs that are about to be submitted: a line a stage whose limit is short."""
    stages: dict[str, list[Cut]] = {}
    for job in jobs if known else ():
        cut = find_cut(job, session.now, known)
        if cut is not None:
            stages.setdefault(job.stage, []).append(cut)
    for stage, cuts in stages.items():
        first = min(cuts, key=lambda one: one.step / one.total)
        verb = "reaches" if len(cuts) == 1 else "reach"
        yield (
            Span(f"! {plural(len(cuts), 'job')} of {outside(stage) or 'the plan'} "),
            Span(f"{verb} only step ~{count(first.step)} of {count(first.total)} "),
            Span(f"before the time limit, at {format_pace(first.rate)}."),
        )
