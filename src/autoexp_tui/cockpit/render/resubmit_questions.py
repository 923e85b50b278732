"""What R asks: the ways to bring jobs back, what comes with them, what was answered."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.render.questions import (
    AnswerError,
    Choice,
    Question,
    render_jobs,
)
from autoexp_tui.cockpit.render.why import render_job
from autoexp_tui.cockpit.spans import Line, Span, line, outside
from autoexp_tui.cockpit.state.forecast import find_checkpoint, has_nan
from autoexp_tui.cockpit.state.parameters import format_value
from autoexp_tui.cockpit.state.reasons import describe_condition, find_reason
from autoexp_tui.cockpit.state.session import JobView, Scope, SessionView
from autoexp_tui.conditions.files import list_awaited_by
from autoexp_tui.model import resubmission
from autoexp_tui.model.commands import Resubmit
from autoexp_tui.planning.overrides import read_override_key
from autoexp_tui.sweep.points import plain_key
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from autoexp_tui.model.specs import JobSpec

_UNITS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_USE_FILES: Final = "followers use the files that are there"
_LIMIT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
_CLOCK: Final = re.compile(r"(?:(\d+)-)?(\d+):(\d{2})(?::(\d{2}))?")


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
        lines=(*render_jobs(scope, jobs, session), *brought, *followers),
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
