"""What K, R and X ask: exact jobs, exact counts, what is lost, what comes back; and the
commands of their answers."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.render.questions import (
    COUNTDOWN,
    TYPE_FROM,
    AnswerError,
    Choice,
    Question,
)
from autoexp_tui.cockpit.render.why import render_job
from autoexp_tui.cockpit.spans import Line, Span, line, outside
from autoexp_tui.cockpit.state.kill_cost import (
    NO_LOOKS,
    Looks,
    Loss,
    estimate_loss,
    find_checkpoint,
    find_waiting,
    format_gpu_hours,
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
from autoexp_tui.conditions.files import list_awaited_by
from autoexp_tui.model import resubmission
from autoexp_tui.model.commands import Command, Resubmit, Skip, Waive
from autoexp_tui.model.states import BEGUN, NOT_STARTED
from autoexp_tui.planning.overrides import read_override_key
from autoexp_tui.sweep.points import plain_key
from autoexp_tui.text.spelling import duration, plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, Scope, SessionView
    from autoexp_tui.model.specs import JobSpec

MOST_BEHIND: Final = 20
"""Waiting jobs that are named before the rest is counted."""
_UNITS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_USE_FILES: Final = "followers use the files that are there"
_LIMIT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
_CLOCK: Final = re.compile(r"(?:(\d+)-)?(\d+):(\d{2})(?::(\d{2}))?")


def _render_jobs(
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
            *_render_jobs(scope, jobs, session, looks),
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
        format_gpu_hours(loss.gpu_hours),
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
        format_gpu_hours(sum(loss.gpu_hours for loss in losses)),
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
        yield render_job(job, "", "  ")
    if len(behind) > MOST_BEHIND:
        yield (Span(f"    and {len(behind) - MOST_BEHIND} more", "muted"),)


def ask_resubmit(scope: Scope, session: SessionView) -> Question | None:
    """What R asks; None when nothing in the scope ended in a way that R mends."""
    jobs = tuple(job for job in scope.jobs if resubmission.can_come_back(job.record))
    if not jobs:
        return None

    def preview(choice: Choice, text: str) -> Sequence[Line]:
        if choice.id != "overrides":
            return ()
        return (*render_overrides(jobs, text.split()), render_place(jobs))

    brought, followers = describe_resubmit(jobs, session)
    return Question(
        title=f"Resubmit {plural(len(jobs), 'job')}?",
        lines=(*_render_jobs(scope, jobs, session), *brought, *followers),
        stay="Leave as it is" if len(jobs) == 1 else "Leave as they are",
        confirm="resubmit",
        choices=tuple(_list_resubmit_choices(jobs, followed=bool(followers))),
        jobs=jobs,
        build=partial(build_resubmit, [job.name for job in jobs]),
        preview=preview,
    )


def describe_resubmit(
    jobs: Sequence[JobView], session: SessionView
) -> tuple[Sequence[Line], Sequence[Line]]:
    """What comes back with `jobs`, by the engine's own rule; who waits for what they
    write, and will read it."""
    records = {job.name: job.record for job in session.jobs}
    below = resubmission.dependants(records.values())
    names = [job.name for job in jobs]
    ended = resubmission.list_ended_because_of(names, records, below)
    revived = session.list_jobs(ended)
    brought: list[Line] = []
    if revived:
        done = any(job.record.done_before for job in revived)
        more = " or built on its results" if done else ""
        number = plural(len(revived), "job")
        text = f"Brings back {number} that ended because of this{more}:"
        rows = (render_job(one, find_reason(one, session), "  ") for one in revived)
        brought = [(Span(text, "accent"),), *rows]
    waiting = {
        one: None
        for name in names
        for one in session.list_jobs(session.links.behind.get(name, ()))
        if not one.record.started
    }
    followers: list[Line] = [
        line(
            Span(f"  {outside(job.name)}"),
            Span(f"  {describe_condition(part, session)}", "muted"),
            Span(f"  {outside(part.path_to_watch)}", "muted"),
        )
        for job in (*waiting, *(one for one in revived if one not in waiting))
        for part in list_awaited_by(job.record.spec)
        if part.writer in names
    ]
    if followers:
        title = Span("Wait for what it writes, and will read:", "accent")
        followers.insert(0, (title,))
    return brought, followers


def _list_resubmit_choices(
    jobs: Sequence[JobView], *, followed: bool
) -> Iterator[Choice]:
    """The ways back; each says from where, the first one is the advised one."""
    ill = [str(find_checkpoint(job)) for job in jobs if has_nan(job)]
    anew = bool(ill) or any(job.record.done_before for job in jobs)
    steps = [step for job in jobs if (step := find_checkpoint(job)) is not None]
    found = f"{len(steps)} of {len(jobs)} have one" if steps else "if there is one"
    if steps and len(jobs) == 1:
        found = f"step {steps[0]}"
    waits = "; followers wait for its new files" if followed else ""
    nan = f": checkpoint {', '.join(ill)} was saved when the loss was nan already"
    saved = Choice("checkpoint", f"from the newest checkpoint ({found})")
    label = f"as planned, from the beginning{waits}{nan if ill else ''}"
    fresh = Choice("planned", label, from_checkpoint=False)
    yield from (fresh, saved) if anew else (saved, fresh)
    start = "from the beginning" if anew else "from the newest checkpoint"
    nodes = {one.attempt.node: None for one in jobs if one.attempt and one.attempt.node}
    for name, label, asks in (
        ("overrides", f"with other values, {start}{waits}", "overrides, as key=value"),
        ("overrides", f"with other values, {start}; {_USE_FILES}", ""),
        ("nodes", f"without these nodes, {start}", "nodes"),
        ("limit", f"with another time limit, {start}", "limit, as 90m, 12h or 2d"),
    ):
        if asks or followed:
            yield Choice(
                name,
                label,
                asks=asks or "overrides, as key=value",
                given=outside(" ".join(nodes)) if name == "nodes" else "",
                from_checkpoint=not anew,
                use_files=not asks,
            )


def render_overrides(
    jobs: Sequence[JobView], overrides: Iterable[str]
) -> Iterator[Line]:
    """What typed overrides change, a line each: the old value and the new."""
    for entry in overrides:
        key, sign, value = entry.partition("=")
        if not sign or not key:
            text = f"  {outside(entry)}: not of the form key=value"
            yield (Span(text, "failed"),)
            continue
        old = {_find_present(job.record.spec, key) for job in jobs} - {""}
        yield line(
            Span(f"  {outside(key)}: ", "muted"),
            Span(" | ".join(sorted(old)) or "as configured", "failed"),
            Span(" -> ", "muted"),
            Span(outside(value), "done"),
        )


def _find_present(spec: JobSpec, key: str) -> str:
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
            *_render_jobs(scope, jobs, session),
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
        status = job.status(index)
        if status is None or not status.waived:
            subject = describe_condition(spec, session)
            state = f" ({explain_why(status.why, job, session)})" if status else ""
            label = f"let it start without: {subject}{state}"
            yield Choice(f"waive:{index}", label, asks="reason")


def parse_time_limit(text: str) -> float:
    """Seconds of `90m`, `12h`, `2d`, `12:00:00`, `1-12:00:00`; raises AnswerError."""
    seconds = 0.0
    if found := _LIMIT.fullmatch(text.strip()):
        seconds = float(found[1]) * _UNITS[found[2]]
    elif clock := _CLOCK.fullmatch(text.strip()):
        days, hours, minutes, rest = (int(part or 0) for part in clock.groups())
        seconds = float(days * 86400 + hours * 3600 + minutes * 60 + rest)
    if not seconds:
        raise AnswerError("a limit reads 90m, 12h, 2d or 12:00:00")
    return seconds


def parse_overrides(text: str) -> tuple[str, ...]:
    """The overrides in a line, quoted as in a shell; raises AnswerError."""
    try:
        found = tuple(shlex.split(text))
    except ValueError as error:
        raise AnswerError("a quote is not closed") from error
    if not found:
        raise AnswerError("no override was typed")
    for entry in found:
        if not entry.startswith("~") and not re.match(r"^[^=\s]+=", entry):
            raise AnswerError(f"{entry}: an override reads key=value")
    return found


def build_resubmit(jobs: Sequence[str], choice: Choice, text: str) -> Resubmit:
    """The command for an answered R; raises AnswerError."""
    nodes: tuple[str, ...] = ()
    if choice.id == "nodes" and not (nodes := tuple(text.replace(",", " ").split())):
        raise AnswerError("no node was typed")
    return Resubmit(
        jobs=tuple(jobs),
        from_checkpoint=choice.from_checkpoint and choice.id != "planned",
        overrides=parse_overrides(text) if choice.id == "overrides" else (),
        use_files=choice.use_files,
        exclude_nodes=nodes,
        time_limit_seconds=parse_time_limit(text) if choice.id == "limit" else None,
    )


def build_skip(jobs: Sequence[str], choice: Choice, text: str) -> Command:
    """The command for an answered X; raises AnswerError."""
    reason = text.strip()
    if not choice.id.startswith("waive:"):
        return Skip(jobs=tuple(jobs), reason=reason)
    if not reason:
        raise AnswerError("a waived condition needs a reason; it is kept")
    return Waive(job=jobs[0], condition=int(choice.id.split(":")[1]), reason=reason)
