"""What a condition is about, in a few words.

Conditions are told apart by their `kind`: the classes themselves are the largest part
of the core, and a first screen, which has none of them, loads without.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.render.spans import outside
from autoexp_tui.model.wording import clock_time, duration

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import SessionView
    from autoexp_tui.conditions import kinds as condition_kinds


def condition_subject(spec: condition_kinds.Condition, session: SessionView) -> str:
    """What a condition is about, in a few words: `iter_8000/done.txt`."""
    return outside(spec.description) or outside(_subject(spec, session))


def _subject(spec: condition_kinds.Condition, session: SessionView) -> str:
    if spec.kind == "composite" or spec.kind == "not":
        return _of_others(spec, session)
    if spec.kind == "job_state":
        return _of_jobs(spec, session)
    return _of_one(spec)


def _of_others(
    spec: condition_kinds.Composite | condition_kinds.Not, session: SessionView
) -> str:
    if spec.kind == "not":
        return f"not {condition_subject(spec.condition, session)}"
    joint = " and " if spec.mode == "all" else " or "
    return joint.join(condition_subject(part, session) for part in spec.conditions)


def _of_jobs(spec: condition_kinds.JobStateIs, session: SessionView) -> str:
    jobs = session.named(spec.jobs)
    names = dict.fromkeys(job.stage or job.name for job in jobs)
    return f"{', '.join(names) or ', '.join(spec.jobs)} {spec.state}"


def _of_one(spec: condition_kinds.Condition) -> str:
    """Of a condition that speaks for itself; empty for limits on a job's tries."""
    match spec.kind:
        case "file_exists":
            return _end_of(spec.path)
        case "file_content":
            return f"{spec.pattern} in {_end_of(spec.path)}"
        case "metadata":
            return f"{spec.key} {spec.op} {spec.value}"
        case "metric":
            return f"{spec.name} {spec.op} {spec.value:g}"
        case "command":
            name = posixpath.basename(spec.command[0]) if spec.command else "command"
            return f"{name} exits 0"
        case "log_pattern":
            return f"{spec.pattern} in {_end_of(spec.log_path)}"
        case "time":
            return _time(spec)
        case "approval":
            return "your approval"
        case "own":
            return spec.class_path.rpartition(":")[2]
        case _:
            return ""


def _time(spec: condition_kinds.TimeReached) -> str:
    if spec.at is not None:
        return clock_time(spec.at)
    return f"{duration(spec.after_seconds or 0.0)} of waiting"


def _end_of(path: str) -> str:
    return "/".join(path.rstrip("/").split("/")[-2:])


def what_is_read(spec: condition_kinds.Condition) -> Iterator[str]:
    """Where a condition looks, in full: paths, jobs, commands; clean."""
    match spec.kind:
        case "composite":
            for part in spec.conditions:
                yield from what_is_read(part)
        case "not":
            yield from what_is_read(spec.condition)
        case "job_state":
            yield from (outside(f"the state of {name}") for name in spec.jobs)
        case "file_exists" | "file_content":
            yield _of_writer(spec.path, spec.writer)
        case "log_pattern":
            yield _of_writer(spec.log_path, spec.writer)
        case "metadata":
            yield outside(f"{spec.key} of {spec.job or 'its own log'}")
        case "metric":
            yield outside(f"{spec.name} of {spec.job or 'its own log'}")
        case "command":
            yield outside(f"$ {shlex.join(spec.command)}", 2000)
        case "own":
            yield outside(f"what {spec.class_path} asks for")


def _of_writer(path: str, writer: str) -> str:
    return outside(f"{path}, written by {writer}" if writer else path, 4000)
