"""What single conditions say of files and logs, and when what they wait for is doomed.

Each judge reads only the facts of its own keys and never raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autoexp_tui.conditions.fact_keys import file_key, log_key, look_key
from autoexp_tui.conditions.kinds import FileContent, FileExists, LogPattern
from autoexp_tui.conditions.verdicts import (
    EvalContext,
    end_of,
    ended_job,
    grace_ends,
    held_back,
    job_fact,
    say_fail,
    say_pass,
    say_wait,
    seen_as,
)
from autoexp_tui.model.facts import (
    Fact,
    Facts,
    FileStat,
    FileText,
    JobFact,
    LogFound,
    LogKey,
    Matches,
)
from autoexp_tui.model.freshness import FileIdentity, SetAside
from autoexp_tui.model.moment import Moment
from autoexp_tui.model.verdicts import Verdict
from autoexp_tui.text.patterns import (
    PatternRefused,
    compile_text_pattern,
)


def judge_file_exists(
    spec: FileExists, facts: Facts, now: Moment, ctx: EvalContext
) -> Verdict:
    """Whether the path, or any match, is there and large enough."""
    fact = facts.get(file_key(spec))
    files: tuple[FileIdentity | None, ...]
    if spec.glob:
        found = seen_as(fact, Matches, spec.path)
        if isinstance(found, Verdict):
            return found
        there, size, files = bool(found.paths), found.largest, found.files
    else:
        stat = seen_as(fact, FileStat, spec.path)
        if isinstance(stat, Verdict):
            return stat
        there, size, files = stat.exists, stat.size, (stat.file,)
    old = _old_files(spec, files, facts, ctx) if there else ()
    if isinstance(old, Verdict):
        return old
    if old:
        new = [file for file in files if file is not None and file not in old]
        there, size = bool(new), max((file.size for file in new), default=0)
    if there and size >= spec.min_size:
        return say_pass("file_there", path=spec.path, size=size)
    if old and not there:
        return _only_old(spec, old, facts, now, ctx)
    waits = _file_waits(spec, size if there else None)
    held = held_back(facts, spec.writer, spec.path)
    return _doomed(spec, facts, now, ctx) or held or waits


def _file_waits(spec: FileExists, size: int | None) -> Verdict:
    args = {"path": spec.path, "writer": spec.writer}
    if size is None:
        return say_wait("file_missing", **args)
    return say_wait("file_small", **args, size=size, min_size=spec.min_size)


def judge_file_content(
    spec: FileContent, facts: Facts, now: Moment, ctx: EvalContext
) -> Verdict:
    """Whether the file has the text."""
    if spec.mode == "regex" and (problem := _bad_pattern(spec.pattern)):
        return problem
    file = seen_as(facts.get(file_key(spec)), FileText, spec.path)
    if isinstance(file, Verdict):
        return file
    old = _old_files(spec, (file.file,), facts, ctx)
    if isinstance(old, Verdict):
        return old
    if old:
        return _only_old(spec, old, facts, now, ctx)
    by_text = spec.mode == "contains" and spec.pattern in (file.text or "")
    if file.text is not None and (file.holds or by_text):
        return say_pass("text_there", path=spec.path, pattern=spec.pattern)
    code = "file_missing" if file.text is None else "text_missing"
    pattern = "" if file.text is None else spec.pattern
    waits = say_wait(code, path=spec.path, writer=spec.writer, pattern=pattern)
    held = held_back(facts, spec.writer, spec.path)
    return _doomed(spec, facts, now, ctx) or held or waits


def _bad_pattern(pattern: str) -> Verdict | None:
    """A stored condition that this version cannot search with; None: it can."""
    try:
        compile_text_pattern(pattern)
    except PatternRefused as error:
        problem = f"{pattern!r} {error.problem}; {error.hint}"
        return say_wait("bad_condition", problem=problem)
    return None


def _old_files(
    spec: FileExists | FileContent,
    files: Sequence[FileIdentity | None],
    facts: Facts,
    ctx: EvalContext,
) -> Mapping[FileIdentity, SetAside] | Verdict:
    """Those of files that earlier attempts left; WAIT: that is not known yet."""
    if not spec.writer or not spec.fresh or spec.writer == ctx.job:
        return {}
    writer = job_fact(facts, spec.writer)
    if isinstance(writer, Verdict):
        return {}
    if writer.aside is None:
        return say_wait("files_unsure", path=spec.path, writer=spec.writer)
    return {
        file: one
        for file in files
        if file is not None
        and (one := writer.aside.get(file.path)) is not None
        and one.file == file
    }


def _only_old(
    spec: FileExists | FileContent,
    old: Mapping[FileIdentity, SetAside],
    facts: Facts,
    now: Moment,
    ctx: EvalContext,
) -> Verdict:
    """WAIT for the writer's own file; FAIL, which asks a person, once it has ended."""
    newest = max(old.values(), key=lambda one: one.file.mtime_ns)
    args = {
        "path": newest.file.path,
        "writer": spec.writer,
        "whose": _whose(newest),
    }
    writer = _gone_writer(spec, facts, now, ctx)
    if writer is None:
        return say_wait("waits_for_new_file", **args)
    return say_fail("file_of_earlier", **args, **end_of(writer))


def _whose(old: SetAside) -> str:
    """`attempt 1, lr=1e-4`."""
    if not old.attempt:
        return "an earlier session"
    return ", ".join(filter(None, (f"attempt {old.attempt}", old.values)))


def _doomed(
    spec: FileExists | FileContent, facts: Facts, now: Moment, ctx: EvalContext
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
    now: Moment,
    ctx: EvalContext,
) -> JobFact | None:
    """The writer, when it ended for good and a look after the grace is known."""
    writer = ended_job(facts, spec.writer)
    if writer is None or now.lived < grace_ends(writer, ctx):
        return None
    fact = facts.get(look_key(spec))
    return writer if looked_after_grace(fact, writer, ctx) else None


def looked_after_grace(fact: Fact | None, writer: JobFact, ctx: EvalContext) -> bool:
    """Whether a look began after the writer's grace: older looks prove nothing."""
    return fact is not None and fact.observed_at >= grace_ends(writer, ctx)


def judge_log_pattern(
    spec: LogPattern, facts: Facts, now: Moment, ctx: EvalContext
) -> Verdict:
    """Whether any, or all, of the logs have the pattern."""
    if problem := _bad_pattern(spec.pattern):
        return problem
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
    spec: LogPattern, facts: Facts, now: Moment, ctx: EvalContext
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
