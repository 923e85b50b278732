"""What single conditions say of files and logs, and when what they wait for is doomed.

Each judge reads only the facts of its own keys and never raises.
"""

from __future__ import annotations

import re

from autoexp_tui.core.condition_kinds import FileContent, FileExists, LogPattern
from autoexp_tui.core.facts import (
    Fact,
    Facts,
    FileStat,
    FileText,
    JobFact,
    LogFound,
    LogKey,
    Matches,
)
from autoexp_tui.core.verdicts import Verdict
from autoexp_tui.monitor.careful import narrowed
from autoexp_tui.monitor.fact_keys import file_key, log_key, look_key
from autoexp_tui.monitor.saying import (
    EvalContext,
    end_of,
    ended_job,
    grace_ends,
    held_back,
    say_fail,
    say_pass,
    say_wait,
    seen_as,
)


def judge_file_exists(
    spec: FileExists, facts: Facts, now: float, ctx: EvalContext
) -> Verdict:
    """Whether the path, or any match, is there and large enough."""
    fact = facts.get(file_key(spec))
    if spec.glob:
        found = seen_as(fact, Matches, spec.path)
        if isinstance(found, Verdict):
            return found
        there, size = bool(found.paths), found.largest
    else:
        stat = seen_as(fact, FileStat, spec.path)
        if isinstance(stat, Verdict):
            return stat
        there, size = stat.exists, stat.size
    if there and size >= spec.min_size:
        return say_pass("file_there", path=spec.path, size=size)
    waits = _file_waits(spec, size if there else None)
    held = held_back(facts, spec.writer, spec.path)
    return _doomed(spec, facts, now, ctx) or held or waits


def _file_waits(spec: FileExists, size: int | None) -> Verdict:
    args = {"path": spec.path, "writer": spec.writer}
    if size is None:
        return say_wait("file_missing", **args)
    return say_wait("file_small", **args, size=size, min_size=spec.min_size)


def judge_file_content(
    spec: FileContent, facts: Facts, now: float, ctx: EvalContext
) -> Verdict:
    """Whether the file has the text."""
    file = seen_as(facts.get(file_key(spec)), FileText, spec.path)
    if isinstance(file, Verdict):
        return file
    holds = False if file.text is None else _holds_text(spec, file.text, ctx)
    if isinstance(holds, Verdict):
        return holds
    if holds:
        return say_pass("text_there", path=spec.path, pattern=spec.pattern)
    code = "file_missing" if file.text is None else "text_missing"
    pattern = "" if file.text is None else spec.pattern
    waits = say_wait(code, path=spec.path, writer=spec.writer, pattern=pattern)
    held = held_back(facts, spec.writer, spec.path)
    return _doomed(spec, facts, now, ctx) or held or waits


def _holds_text(spec: FileContent, text: str, ctx: EvalContext) -> bool | Verdict:
    if spec.mode == "contains":
        return spec.pattern in text
    try:
        piece = narrowed(spec.pattern, text, ctx.linear)
        return piece is not None and bool(re.search(spec.pattern, piece, re.MULTILINE))
    except (re.error, RecursionError, OverflowError) as error:
        return say_wait("bad_condition", problem=f"{spec.pattern!r}: {error}")


def _doomed(
    spec: FileExists | FileContent, facts: Facts, now: float, ctx: EvalContext
) -> Verdict | None:
    """FAIL when the file can never come: looked for after its writer's end."""
    writer = _gone_writer(spec, facts, now, ctx)
    if writer is None:
        return None
    end = end_of(writer)
    return say_fail("doomed_file", path=spec.path, writer=spec.writer, **end)


def _gone_writer(
    spec: FileExists | FileContent | LogPattern,
    facts: Facts,
    now: float,
    ctx: EvalContext,
) -> JobFact | None:
    """The writer, when it ended for good and somebody looked after its end."""
    writer = ended_job(facts, spec.writer)
    if writer is None or now < grace_ends(writer, ctx):
        return None
    return writer if looked_since(facts.get(look_key(spec)), writer) else None


def looked_since(fact: Fact | None, writer: JobFact) -> bool:
    """Whether somebody looked after the writer's end: older looks prove nothing."""
    return fact is not None and fact.observed_at >= (writer.ended_at or 0.0)


def judge_log_pattern(
    spec: LogPattern, facts: Facts, now: float, ctx: EvalContext
) -> Verdict:
    """Whether any, or all, of the logs have the pattern."""
    found = seen_as(facts.get(log_key(spec)), LogFound, spec.log_path)
    if isinstance(found, Verdict):
        return found
    if is_found(log_key(spec), found):
        path = found.path or spec.log_path
        return say_pass("log_matched", line=found.line, path=path)
    held = held_back(facts, spec.writer, spec.log_path)
    return _doomed_log(spec, facts, now, ctx) or held or _log_waits(spec, found)


def is_found(key: LogKey, found: LogFound) -> bool:
    """Whether any, or all, of the files hold what `key` looks for."""
    wanted = 1 if key.check_mode == "any" else found.files
    return found.files > 0 and found.matched >= wanted


def _doomed_log(
    spec: LogPattern, facts: Facts, now: float, ctx: EvalContext
) -> Verdict | None:
    """FAIL when nobody writes to the log any more."""
    writer = _gone_writer(spec, facts, now, ctx)
    if writer is None:
        return None
    args = {"path": spec.log_path, "writer": spec.writer, "pattern": spec.pattern}
    return say_fail("doomed_log", **args, **end_of(writer))


def _log_waits(spec: LogPattern, found: LogFound) -> Verdict:
    if found.files == 0:
        return say_wait("log_no_files", path=spec.log_path, pattern=spec.pattern)
    several = {"matched": found.matched, "files": found.files} if spec.glob else {}
    return say_wait("log_no_match", path=spec.log_path, pattern=spec.pattern, **several)
