"""What K, R and X ask: exact jobs, exact counts, what is lost, what comes back; and the
commands of their answers."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
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
_PLAIN: Final = re.compile(r"^(\d+(?:\.\d+)?)\s*([smhd])$")
_CLOCK: Final = re.compile(r"^(?:(\d+)-)?(\d+):(\d{2})(?::(\d{2}))?$")


def _render_jobs(
    jobs: Sequence[JobView],
    session: SessionView,
    losses: Mapping[str, Loss] | None = None,
) -> Iterator[Line]:
    """Every job by name, nothing is summed up away: with what is lost of it, with its
    reason where nothing is."""
    for job in jobs:
        loss = losses.get(job.name) if losses else None
        lost = _describe_loss(loss) if loss and loss.seconds else ""
        yield render_job(job, lost or find_reason(job, session), "  ")


def _render_scope(scope: Scope) -> Iterator[Line]:
    if scope.by_marks:
        yield (Span(f"{scope.words}:", "accent" if scope.hidden else "muted"),)


def ask_kill(
    scope: Scope, session: SessionView, looks: Looks = NO_LOOKS
) -> Question | None:
    """What K asks; None when nothing in the scope can be ended."""
    jobs = select_killable(scope.jobs)
    if not jobs:
        return None
    live = [job for job in jobs if is_outside(job)]
    losses = {job.name: estimate_loss(job, session.now, looks) for job in live}
    number, running = len(jobs), sum(job.record.state in BEGUN for job in jobs)
    which = f"{plural(number, 'job')}, {running} of them running"
    if running == number:
        which = plural(number, "running job")
    elif not running:
        have = "has" if number == 1 else "have"
        which = f"{plural(number, 'job')} that {have} not begun"
    lines: list[Line] = [
        *describe_kill(jobs, session, looks),
        *_render_scope(scope),
        *_render_jobs(jobs, session, losses),
        *_render_behind(find_waiting(jobs, session)),
    ]
    return Question(
        title=f"Kill {which}?",
        lines=tuple(lines),
        stay="Keep running" if live else "Keep them",
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
    since = "" if loss.unknown else f"since {last}"
    parts = [
        " ".join(part for part in (steps, since) if part),
        "no checkpoint known" if loss.unknown else "",
        duration(loss.seconds),
        format_gpu_hours(loss.gpu_hours),
    ]
    return ", ".join(part for part in parts if part)


def _render_losses(losses: Sequence[Loss]) -> Iterator[Line]:
    """All that is lost: steps, running time, GPU hours; and what is known of none."""
    if not losses:
        return
    steps = [loss.steps for loss in losses if loss.steps is not None]
    numbers = f"{sum(steps)} steps in all, {max(steps)} at most" if steps else ""
    if 1 < len(steps) <= 4:
        numbers = f"{', '.join(map(str, steps[:-1]))} and {steps[-1]} steps"
    parts = [
        plural(steps[0], "step") if len(steps) == 1 else numbers,
        f"{duration(sum(loss.seconds for loss in losses))} of running",
        format_gpu_hours(sum(loss.gpu_hours for loss in losses)),
    ]
    what = "its checkpoint" if len(losses) == 1 else "their checkpoints"
    known = steps or any(not loss.unknown for loss in losses)
    since = f" since {what}" if known else ""
    lost = ", ".join(part for part in parts if part)
    yield (Span(f"Lost{since}: {lost}.", "failed"),)
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
        if any(one.kind == "job_state" for one in spec.start_conditions):
            hold = False
        if not hold and gone.intersection(session.links.upstream.get(job.name, ())):
            gone.add(job.name)
    skipped = len(gone) - len(jobs)
    held = len(behind) - skipped
    for number, what in (
        (skipped, "will be skipped"),
        (held, f"can never start, and {'is' if held == 1 else 'are'} held"),
    ):
        wait = "waits" if number == 1 else "wait"
        pronoun = "it" if len(jobs) == 1 else "them"
        text = f"{plural(number, 'job')} that {wait} for {pronoun} {what}."
        if number:
            yield (Span(text, "warning"),)


def _render_behind(behind: Sequence[JobView]) -> Iterator[Line]:
    if not behind:
        return
    yield (Span("Waiting for it:" if len(behind) == 1 else "Waiting for them:"),)
    for job in behind[:MOST_BEHIND]:
        mark = Span(f"  {job.look.glyph} ", job.look.role)
        yield (mark, Span(outside(job.name), "muted"))
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
    named = _render_jobs(jobs, session)
    return Question(
        title=f"Resubmit {plural(len(jobs), 'job')}?",
        lines=(*_render_scope(scope), *named, *brought, *followers),
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
        was, builds = ("was", "builds") if len(revived) == 1 else ("were", "build")
        done = any(job.record.done_before for job in revived)
        more = f", or {builds} on its results" if done else ""
        number = plural(len(revived), "job")
        text = f"Brings back {number} that {was} skipped because of this{more}:"
        brought = [(Span(text, "accent"),), *_render_jobs(revived, session)]
    behind = session.list_jobs(
        one for name in names for one in session.links.behind.get(name, ())
    )
    waiting = (job for job in behind if not job.record.started)
    followers: list[Line] = []
    for follower in dict.fromkeys((*waiting, *revived)):
        for part in list_awaited_by(follower.record.spec):
            if part.writer in names:
                reads = f"{describe_condition(part, session)}  "
                reads += outside(part.path_to_watch)
                name = Span(f"  {outside(follower.name)}")
                followers.append(line(name, Span(f"  {reads}", "muted")))
    if followers:
        title = Span("Wait for what it writes, and will read:", "accent")
        followers.insert(0, (title,))
    return brought, followers


def _list_resubmit_choices(
    jobs: Sequence[JobView], *, followed: bool
) -> Iterator[Choice]:
    """The ways back; each says from where, the first one is the advised one."""
    ill = [job for job in jobs if has_nan(job)]
    anew = bool(ill) or any(job.record.done_before for job in jobs)
    waits = "; followers wait for its new files" if followed else ""
    steps = [step for job in jobs if (step := find_checkpoint(job)) is not None]
    place, more = "from a checkpoint", ", where the program finds one"
    if steps:
        place = "from the newest checkpoint"
        more = f" ({len(steps)} of {len(jobs)} have one)"
        more = f" (step {steps[0]})" if len(jobs) == 1 else more
    start = "from the beginning" if anew else f"{place}{'' if steps else more}"
    label = f"as planned, from the beginning{waits}"
    if ill:
        whose = f"{len(ill)} checkpoints were"
        if len(ill) == 1:
            whose = f"checkpoint {find_checkpoint(ill[0])} was"
        label += f": {whose} saved when the loss was nan already"
    saved = Choice("checkpoint", f"{place}{more}")
    fresh = Choice("planned", label, from_checkpoint=False)
    yield from (fresh, saved) if anew else (saved, fresh)
    other = Choice(
        "overrides",
        f"with other values, {start}{waits}",
        asks="overrides, as key=value",
        from_checkpoint=not anew,
    )
    yield other
    if followed:
        kept = f"with other values, {start}; followers use the files that are there"
        yield replace(other, label=kept, use_files=True)
    nodes = dict.fromkeys(
        outside(job.attempt.node) for job in jobs if job.attempt and job.attempt.node
    )
    yield Choice(
        "nodes",
        f"without these nodes, {start}",
        asks="nodes",
        given=" ".join(nodes),
        from_checkpoint=not anew,
    )
    yield Choice(
        "limit",
        f"with another time limit, {start}",
        asks="limit, as 90m, 12h or 2d",
        from_checkpoint=not anew,
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
    lines = (
        *_render_skipped(jobs, behind, session),
        *_render_scope(scope),
        *_render_jobs(jobs, session),
        *_render_behind(behind),
    )
    return Question(
        title=f"Skip {plural(number, 'job')}?",
        lines=lines,
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
    """Seconds of `90m`, `12h`, `2d`, `12:00:00` or `1-12:00:00`; raises AnswerError."""
    if plain := _PLAIN.match(text.strip()):
        seconds = float(plain[1]) * _UNITS[plain[2]]
    elif clock := _CLOCK.match(text.strip()):
        days, hours, minutes, rest = (int(part or 0) for part in clock.groups())
        seconds = float(days * 86400 + hours * 3600 + minutes * 60 + rest)
    else:
        raise AnswerError("a limit reads 90m, 12h, 2d or 12:00:00")
    if seconds <= 0:
        raise AnswerError("a limit is more than nothing")
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
