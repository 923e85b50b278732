"""What the dialogs ask of the session, and of jobs: exact counts, what is lost.

The stay button has the focus; `y` confirms, Enter never does. Where ten or more jobs
would end, the count has to be typed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Final

from autoexp_tui.cockpit.render.plan_findings import format_warning
from autoexp_tui.cockpit.render.why import find_unbegun_search, render_job
from autoexp_tui.cockpit.spans import Line, Span, line, outside
from autoexp_tui.cockpit.state.forecast import (
    NO_LOOKS,
    NO_RATES,
    Cut,
    Looks,
    Loss,
    Rates,
    estimate_loss,
    find_cut,
    find_linked,
    find_waiting,
    format_cut,
    format_lost_hours,
    is_outside,
    select_killable,
)
from autoexp_tui.cockpit.state.parameters import Parameter, describe_job
from autoexp_tui.cockpit.state.reasons import (
    describe_condition,
    explain_why,
    find_reason,
)
from autoexp_tui.cockpit.state.session import (
    BEGUN_LOOKS,
    JobView,
    Look,
    Scope,
    SessionView,
    sort_jobs,
)
from autoexp_tui.model.commands import Command, Skip, Submit, Waive
from autoexp_tui.model.masking import MaskRules, mask_text
from autoexp_tui.model.state import VOID, Ask
from autoexp_tui.model.states import BEGUN, NOT_STARTED, JobState
from autoexp_tui.planning.estimate import estimate, format_gpu_hours
from autoexp_tui.text.spelling import duration, format_pace, plural

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
    """Whether something ends by it: a countdown goes before the command."""
    subject: str = ""
    """What ends then, for the countdown; of jobs it is their number."""
    jobs: tuple[JobView, ...] = ()
    """Those that it is about, as they were shown."""
    build: Callable[[Choice, str], Command] | None = None
    """The command for a way and a typed text; raises `AnswerError` where that cannot be
    meant."""
    preview: Callable[[Choice, str], Sequence[Line]] = lambda choice, text: ()
    """Lines that show what a typed text would change."""
    fill: Callable[[Mapping[str, str]], Command] | None = None
    """The choices are fields of a form: the command for their texts, by id; raises
    `AnswerError`."""
    items: tuple[str, ...] = ()
    """Lines below the others, numbered, that space leaves out one by one; cleaned."""
    void: frozenset[int] = frozenset()
    """Places of items that cannot be done any more."""


def ask_about_lines(name: str, ask: Ask, place: str, mask: MaskRules) -> Question:
    """What A shows of a question that is no job's; `place` as in `ask_approval`."""
    which = f" ({place})" if place else ""
    return Question(
        title=f"Approve {outside(name, 60)}{which}?",
        lines=((Span(outside(mask_text(ask.prompt, mask), 4000), "strong"),), ()),
        stay="Decide later",
        confirm="approve",
        others=(("x", "refuse"),),
        items=tuple(outside(mask_text(text, mask), 2000) for text in ask.lines),
        void=frozenset(
            at for at, text in enumerate(ask.lines) if text.startswith(VOID)
        ),
    )


def ask_approval(
    job: JobView, ask: Ask, files: Sequence[tuple[str, str]], place: str
) -> Question:
    """What A shows: the prompt, then path and text of each of the files that belong to
    it; `place` is `2 of 3` when several ask."""
    lines: list[Line] = [
        (Span(outside(ask.prompt, 4000), "strong"),),
        (Span(f"y starts {outside(job.name)}."),),
        (),
    ]
    for path, text in files:
        lines.append((Span(f"-- {outside(path, 4096)}", "accent"),))
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


def select_asking(jobs: Sequence[JobView]) -> tuple[JobView, ...]:
    return tuple(job for job in jobs if job.look is Look.ASKS)


def ask_leave(session: SessionView, come_back: str) -> Question | None:
    """What q asks; None when nothing could be disturbed by leaving."""
    snapshot = session.snapshot
    if snapshot.engine.role != "live" or not snapshot.open:
        return None
    todo = sum(not job.record.ended for job in session.jobs)
    left = f"{session.count(*BEGUN_LOOKS)} running, {todo} not ended yet."
    if not todo:
        ends = outside(", ".join(snapshot.open_ends), 60)
        ends = ends or ("a question that waits for you" if session.asks else "")
        still = (
            f"still open: {ends}" if ends else "what rules ordered is still being done"
        )
        left = f"All jobs have ended; {still}."
    goes_on = Span("The engine goes on without this screen; nothing is stopped.")
    told = (goes_on, Span(left, "muted"), Span(come_back, "muted"))
    return Question(
        title="Leave?",
        lines=tuple(line(one) for one in told if one.text),
        stay="Stay",
        confirm="leave",
        others=() if snapshot.paused else (("p", "pause submission and leave"),),
    )


def ask_submit(
    scope: Scope,
    session: SessionView,
    usual: Rates = NO_RATES,
    telling: Sequence[Parameter] = (),
) -> Question | None:
    """What S asks: which jobs, how many at a time, at what cost, which cannot run
    here; None when every job was asked to run already.

    `usual` is how fast stages go, `telling` the parameters that tell families apart.
    """
    waiting = [job for job in session.jobs if _is_submittable(job)]
    plan = session.snapshot.plan
    search = find_unbegun_search(session)
    if plan is None or not (waiting or search):
        return None
    lines: list[Line] = [(Span(f"{_describe_executor(waiting, session)}."),)]
    if search:
        lines.append((Span(f"It begins {search}."),))
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
    if not waiting:
        plan = session.snapshot.plan
        yield Choice("all", "the research" if plan and plan.research else "the search")
        return
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


MOST_BEHIND: Final = 20
"""Waiting jobs that are named before the rest is counted."""


def render_jobs(
    scope: Scope, jobs: Sequence[JobView], session: SessionView, looks: Looks = NO_LOOKS
) -> Iterator[Line]:
    """Every job by name, nothing is summed up away: with what is lost of one that runs,
    with its reason where nothing is."""
    if scope.by_marks:
        yield (Span(f"{scope.words}:", "accent" if scope.hidden else "muted"),)
    for job in jobs:
        loss = estimate_loss(job, session.now, looks) if is_outside(job) else None
        lost = _describe_loss(loss) if loss and loss.seconds else ""
        yield render_job(job, lost or find_reason(job, session), "  ")


def ask_kill(
    scope: Scope, session: SessionView, looks: Looks = NO_LOOKS
) -> Question | None:
    """What K asks; None when nothing in the scope can be ended."""
    jobs = select_killable(scope.jobs)
    if not jobs:
        return None
    number, running = len(jobs), sum(job.record.state in BEGUN for job in jobs)
    which = f"{plural(number, 'job')}, {running} of them running"
    return Question(
        title=f"Kill {plural(number, 'running job') if running == number else which}?",
        lines=(
            *describe_kill(jobs, session, looks),
            *render_jobs(scope, jobs, session, looks),
            *_render_behind(find_waiting(jobs, session)),
        ),
        stay="Keep running" if any(map(is_outside, jobs)) else "Keep them",
        confirm=f"kill in {COUNTDOWN} s (U stops it)",
        typed=number if number >= TYPE_FROM else None,
        danger=True,
    )


def describe_kill(
    jobs: Sequence[JobView], session: SessionView, looks: Looks = NO_LOOKS
) -> Iterator[Line]:
    """What is lost of `jobs` together, and what waits for them."""
    live = (job for job in jobs if is_outside(job))
    losses = [estimate_loss(job, session.now, looks) for job in live]
    yield from _render_losses([one for one in losses if one.seconds or one.steps])
    yield from _render_skipped(jobs, find_waiting(jobs, session), session)


def _describe_loss(loss: Loss) -> str:
    """`812 steps since 48000, 12 min, 0.9 GPU h`."""
    steps = plural(loss.steps, "step") if loss.steps is not None else ""
    last = "its checkpoint" if loss.checkpoint is None else loss.checkpoint
    parts = [
        steps if loss.unknown else f"{steps} since {last}".lstrip(),
        "no checkpoint known" if loss.unknown else "",
        duration(loss.seconds),
        format_lost_hours(loss.gpu_hours),
    ]
    return ", ".join(filter(None, parts))


def _render_losses(losses: Sequence[Loss]) -> Iterator[Line]:
    """All that is lost: steps, running time, GPU hours; and what is known of none."""
    if not losses:
        return
    steps = [loss.steps for loss in losses if loss.steps is not None]
    numbers = " and ".join(map(str, steps)) if len(steps) <= 4 else f"{sum(steps)}"
    parts = [
        f"{numbers} step{'' if steps == [1] else 's'}" if steps else "",
        f"{duration(sum(loss.seconds for loss in losses))} of running",
        format_lost_hours(sum(loss.gpu_hours for loss in losses)),
    ]
    since = f" since {'its checkpoint' if len(losses) == 1 else 'their checkpoints'}"
    known = steps or any(not loss.unknown for loss in losses)
    lost = ", ".join(filter(None, parts))
    yield (Span(f"Lost{since if known else ''}: {lost}.", "failed"),)
    for way, number in Counter(loss.unknown for loss in losses if loss.unknown).items():
        text = f"{plural(number, 'job')} with no checkpoint known ({outside(way)})."
        yield (Span(text, "failed"),)


def _render_skipped(
    jobs: Sequence[JobView], behind: Sequence[JobView], session: SessionView
) -> Iterator[Line]:
    """How many wait for the jobs, and what the plan does with those."""
    plan, gone = session.snapshot.plan, {job.name for job in jobs}
    for job in behind:  # in plan order: what is waited for comes first
        spec = job.record.spec
        # A wait that can never end is left to a person, where the plan says so.
        hold = plan is not None and plan.rules_of(spec).doomed == "hold"
        by_state = any(one.kind == "job_state" for one in spec.start_conditions)
        waits = gone.intersection(session.links.upstream.get(job.name, ()))
        if waits and (by_state or not hold):
            gone.add(job.name)
    skipped, whom = len(gone) - len(jobs), "it" if len(jobs) == 1 else "them"
    for number, what in (
        (skipped, "will be skipped"),
        (len(behind) - skipped, "can never start, and will be held"),
    ):
        wait = "waits" if number == 1 else "wait"
        text = f"{plural(number, 'job')} that {wait} for {whom} {what}."
        yield from [(Span(text, "warning"),)] if number else []


def _render_behind(behind: Sequence[JobView]) -> Iterator[Line]:
    if behind:
        yield (Span("Waiting for it:" if len(behind) == 1 else "Waiting for them:"),)
    for job in behind[:MOST_BEHIND]:
        yield (
            Span(f"  {job.look.glyph} ", job.look.role),
            Span(outside(job.name), "muted"),
        )
    if len(behind) > MOST_BEHIND:
        yield (Span(f"    and {len(behind) - MOST_BEHIND} more", "muted"),)


def ask_skip(scope: Scope, session: SessionView) -> Question | None:
    """What X asks; None when nothing in the scope waits."""
    jobs = tuple(job for job in scope.jobs if job.record.state in NOT_STARTED)
    if not jobs:
        return None
    number, behind = len(jobs), find_waiting(jobs, session)
    return Question(
        title=f"Skip {plural(number, 'job')}?",
        lines=(
            *_render_skipped(jobs, behind, session),
            *render_jobs(scope, jobs, session),
            *_render_behind(behind),
        ),
        stay="Let it wait" if number == 1 else "Let them wait",
        confirm="do it",
        choices=tuple(_list_skip_choices(jobs, session)),
        jobs=jobs,
        build=partial(build_skip, [job.name for job in jobs]),
        typed=number if number >= TYPE_FROM else None,
    )


def _list_skip_choices(
    jobs: Sequence[JobView], session: SessionView
) -> Iterator[Choice]:
    job, one = jobs[0], len(jobs) == 1
    what = "it" if one else f"all {len(jobs)}"
    yield Choice("skip", f"skip {what}", asks="reason", optional=True)
    for index, spec in enumerate(job.record.spec.start_conditions if one else ()):
        status = job.find_status(index)
        if status is None or not status.waived:
            subject = describe_condition(spec, session)
            state = f" ({explain_why(status.why, job, session)})" if status else ""
            label = f"let it start without: {subject}{state}"
            yield Choice(f"waive:{index}", label, asks="reason")


def build_skip(jobs: Sequence[str], choice: Choice, text: str) -> Command:
    """The command for an answered X; raises AnswerError."""
    reason = text.strip()
    if not choice.id.startswith("waive:"):
        return Skip(jobs=tuple(jobs), reason=reason)
    if not reason:
        raise AnswerError("a waived condition needs a reason; it is kept")
    return Waive(job=jobs[0], condition=int(choice.id.split(":")[1]), reason=reason)
