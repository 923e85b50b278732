"""What the dialogs ask: a question, its ways, and those about the session.

The stay button has the focus; `y` confirms, Enter never does. Where ten or more jobs
would end, the count has to be typed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.render.plan_findings import format_warning
from autoexp_tui.cockpit.spans import Line, Span, line, outside
from autoexp_tui.cockpit.state.forecast import (
    NO_RATES,
    Cut,
    Rates,
    find_cut,
    format_cut,
)
from autoexp_tui.cockpit.state.kill_cost import find_linked
from autoexp_tui.cockpit.state.parameters import PlanWords, describe_job
from autoexp_tui.cockpit.state.session import sort_jobs
from autoexp_tui.cockpit.state.status import BEGUN_LOOKS, Look
from autoexp_tui.model.commands import Command, Submit
from autoexp_tui.model.states import JobState
from autoexp_tui.planning.estimate import estimate, format_gpu_hours
from autoexp_tui.text.spelling import duration, format_pace, plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.parameters import Parameter
    from autoexp_tui.cockpit.state.session import JobView, Scope, SessionView
    from autoexp_tui.model.state import Ask

TYPE_FROM: Final = 10
"""From this many jobs on, ending them asks for their count."""
COUNTDOWN: Final = 5
"""Seconds in which a kill can still be stopped."""
_OTHER_PLAN: Final = (
    "! The config is being planned again. y submits the plan shown here; what is being "
    "planned is then not opened."
)


class AnswerError(ValueError):
    """What was typed cannot be meant; the message says why."""


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
    jobs: tuple[JobView, ...] = ()
    """Those that it is about, as they were shown."""
    build: Callable[[Choice, str], Command] | None = None
    """The command for a way and a typed text; raises `AnswerError` where that cannot be
    meant."""
    preview: Callable[[Choice, str], Sequence[Line]] = lambda choice, text: ()
    """Lines that show what a typed text would change."""


def ask_approval(
    job: JobView,
    ask: Ask,
    files: Sequence[tuple[str, str]],
    place: str,
    session: SessionView,
) -> Question:
    """What A shows: the prompt, then path and text of each of the files that belong to
    it; `place` is `2 of 3` when several ask."""
    lines: list[Line] = [
        (Span(outside(ask.prompt, 4000), "strong"),),
        (Span(f"y starts {outside(job.name)}."),),
        (),
    ]
    for path, text in files:
        lines.append((Span(f"-- {_name_file(path, session)}", "accent"),))
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


def _name_file(path: str, session: SessionView) -> str:
    """A file by the job in whose directory it is, else by its path."""
    for parent in PurePath(path).parents:
        for job in session.jobs:
            if PurePath(job.record.spec.output_dir) == parent:
                return outside(f"{job.name}  {PurePath(path).relative_to(parent)}")
    return outside(path)


def select_asking(jobs: Sequence[JobView]) -> tuple[JobView, ...]:
    """Those that wait for an answer."""
    return tuple(job for job in jobs if job.look is Look.ASKS)


def ask_leave(session: SessionView, come_back: str) -> Question | None:
    """What q asks; None when nothing could be disturbed by leaving."""
    snapshot = session.snapshot
    if snapshot.engine.role != "live" or not snapshot.open:
        return None
    todo = sum(not job.record.ended for job in session.jobs)
    left = f"{session.count(*BEGUN_LOOKS)} running, {todo} not ended yet."
    if not todo:
        left = "All jobs have ended; what rules ordered is still being done."
    goes_on = Span("The engine goes on without this screen; nothing is stopped.")
    return Question(
        title="Leave?",
        lines=((goes_on,), (Span(left, "muted"),), line(Span(come_back, "muted"))),
        stay="Stay",
        confirm="leave",
        others=() if snapshot.paused else (("p", "pause submission and leave"),),
    )


def ask_submit(
    scope: Scope,
    session: SessionView,
    usual: Rates = NO_RATES,
    telling: Sequence[Parameter] | None = None,
) -> Question | None:
    """What S asks: which jobs, how many at a time, at what cost, which cannot run
    here; None when every job was asked to run already.

    `usual` is how fast stages go, `telling` the parameters that tell families apart,
    where they are known.
    """
    waiting = [job for job in session.jobs if _is_submittable(job)]
    plan = session.snapshot.plan
    if not waiting or plan is None:
        return None
    lines: list[Line] = [(Span(f"{_describe_executor(waiting, session)}."),)]
    if session.snapshot.engine.doing:
        lines.append((Span(_OTHER_PLAN, "warning"),))
    if done := sum(bool(job.record.done) for job in waiting):
        text = f"{done} of {plural(len(waiting), 'job')} done already: not run again; "
        force = "--force runs all, R one of them anew."
        lines.append((Span(text, "done"), Span(force)))
    lines += describe_cuts(waiting, session, usual)
    lines += [
        (Span(f"! {format_warning(finding)}", "warning"),) for finding in plan.warnings
    ]
    if telling is None:
        telling = PlanWords(plan).of_families
    return Question(
        title=f"Submit {outside(plan.name)}?",
        lines=tuple(lines),
        stay="Not now",
        confirm="submit",
        choices=tuple(_list_submit_choices(scope, session, waiting, telling)),
        build=lambda choice, _: Submit(jobs=choice.jobs, plan_id=plan.plan_id),
    )


def _is_submittable(job: JobView) -> bool:
    return job.record.state in (JobState.PLANNED, JobState.HELD)


def _describe_executor(jobs: Sequence[JobView], session: SessionView) -> str:
    """`On slurm, partition gpu, 4 at a time, 2 GPUs, time limit 1 h`."""
    engine, plan = session.snapshot.engine, session.snapshot.plan
    name = outside(engine.executor).removesuffix("Client").lower()
    local = name.startswith("local")
    parts = ["On this machine" if local else f"On {name or 'the executor'}"]
    needs = [job.record.spec.resources for job in jobs]
    if name == "slurm":
        asked = {outside(str(one.options.get("partition") or "")) for one in needs}
        names = " and ".join(sorted(asked - {""}))
        parts.append(f"partition {names}" if "" not in asked else "default partition")
    parallel = plan.executor.max_parallel if plan is not None else None
    if slots := [limit for limit in (parallel, engine.slots) if limit]:
        parts.append(f"{min(slots)} at a time")
    if engine.gpus is not None and any(one.gpus for one in needs):
        parts.append(plural(engine.gpus, "GPU") if engine.gpus else "no GPU")
    if name == "slurm":
        known = {one.time_limit_seconds or inf for one in needs}
        ends = [duration(one) if one < inf else "none" for one in sorted(known)]
        limits = dict.fromkeys((ends[0], ends[-1]))
        parts.append(f"time limit {' to '.join(limits)}")
    return ", ".join(parts)


def describe_cuts(
    jobs: Sequence[JobView], session: SessionView, known: Rates
) -> Iterator[Line]:
    """Of jobs that are about to be submitted: a line a stage whose limit is short."""
    stages: dict[str, list[Cut]] = {}
    for job in jobs if known else ():
        cut = find_cut(job, session.now, known)
        if cut is not None:
            stages.setdefault(job.stage, []).append(cut)
    for stage, cuts in stages.items():
        first = min(cuts, key=lambda one: one.step / one.total)
        number = f"{plural(len(cuts), 'job')} of {outside(stage) or 'the plan'}"
        pace = format_pace(first.rate)
        yield (Span(f"! {number} {format_cut(first)}, at {pace}.", "warning"),)


def _list_submit_choices(
    scope: Scope,
    session: SessionView,
    waiting: Sequence[JobView],
    telling: Sequence[Parameter],
) -> Iterator[Choice]:
    number = plural(len(waiting), "job")
    left = len(waiting) < len(session.jobs)
    label = f"the {number} left" if left else f"all {number}"
    yield _build_choice("all", label, waiting)
    marked = [job for job in scope.jobs if _is_submittable(job)]
    if scope.by_marks and marked:
        jobs = _add_upstream(marked, session)
        extra = len(jobs) - len(marked)
        needs = f" and {extra} needed upstream" if extra else ""
        label = f"the {plural(len(marked), 'marked job')}{needs}"
        yield _build_choice("marked", label, jobs)
    # The family under the cursor first, where there are others.
    first = scope.jobs[0] if scope.jobs else waiting[0]
    family = first.record.spec.family or waiting[0].record.spec.family
    members = [job for job in waiting if job.record.spec.family == family]
    if family and 0 < len(members) < len(waiting):
        jobs = _add_upstream(members, session)
        which = describe_job(members[0].record.spec, telling) or outside(family)
        label = f"one family first ({which}, {plural(len(jobs), 'job')}), hold the rest"
        yield _build_choice("family", label, jobs)


def _add_upstream(jobs: Sequence[JobView], session: SessionView) -> tuple[JobView, ...]:
    needed = find_linked(jobs, session, session.links.upstream)
    return sort_jobs((*jobs, *filter(_is_submittable, needed)))


def _build_choice(name: str, label: str, jobs: Sequence[JobView]) -> Choice:
    """A way to submit, with `at most 12 GPU h an attempt` of what is left to run."""
    left = [job.record.spec for job in jobs if not job.record.done]
    cost = format_gpu_hours(estimate(left)) if left else "nothing is left to run"
    cost = f"{cost} an attempt" if cost.endswith(" h") else cost
    return Choice(name, f"{label}: {cost}", tuple(job.name for job in jobs))
