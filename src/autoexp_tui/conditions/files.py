"""Conditions on files and logs, who writes them, and when they can no longer come."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from autoexp_tui.conditions.bindings import list_runtime_sources, list_texts
from autoexp_tui.model.condition import (
    Condition,
    EvalContext,
    NameJobs,
    change_parts,
    end_of,
    find_ended_job,
    find_grace_end,
    held_back,
    job_fact,
    needs,
    read_fact,
    say_fail,
    say_pass,
    say_wait,
    walk,
)
from autoexp_tui.model.facts import (
    FactKey,
    Facts,
    FileStat,
    FileText,
    GlobKey,
    JobFact,
    JobKey,
    LogFound,
    LogKey,
    Matches,
    Moment,
    OutsideKey,
    StatKey,
    TextKey,
)
from autoexp_tui.model.kinds import FieldUse
from autoexp_tui.model.outputs import FileIdentity, SetAside
from autoexp_tui.model.states import Verdict
from autoexp_tui.text.patterns import PatternRefused, compile_text_pattern

if TYPE_CHECKING:
    from autoexp_tui.model.specs import JobSpec

_LOOK_SECONDS: Final = 5.0
"""Until it is asked again whether a file was looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCondition(Condition):
    writer: str = ""
    """The job that writes it, when planning knows: lets a doomed wait be found."""

    @property
    def file_key(self) -> StatKey | GlobKey:
        """The look that tells which files lie there."""
        path = self.path_to_watch
        return GlobKey(path) if getattr(self, "glob", False) else StatKey(path)

    @property
    def key(self) -> OutsideKey:
        return self.file_key

    @property
    def path_to_watch(self) -> str:
        """The file or log, or the pattern of their paths."""
        raise NotImplementedError(type(self).__name__)

    def find_use(self, field: str) -> FieldUse:
        is_glob = field in ("path", "log_path") and getattr(self, "glob", False)
        return "glob" if is_glob else "text"

    def name_subject(self, name_jobs: NameJobs) -> str:
        """What is looked for, and the last two parts of the path."""
        tail = "/".join(self.path_to_watch.rstrip("/").split("/")[-2:])
        pattern = getattr(self, "pattern", "")
        return f"{pattern} in {tail}" if pattern else tail

    def list_sources(self) -> Iterator[str]:
        writer = f", written by {self.writer}" if self.writer else ""
        yield f"{self.path_to_watch}{writer}"

    def with_writers(self, owner: Callable[[str], str]) -> Self:
        return replace(self, writer=owner(self.path_to_watch))

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        yield self.key
        if self.writer:
            yield JobKey(self.writer)

    def list_moments(
        self, facts: Facts, now: Moment, ctx: EvalContext
    ) -> Iterator[float]:
        writer = find_ended_job(facts, self.writer)
        if writer is not None and self._find_gone_writer(facts, now, ctx) is None:
            ends = find_grace_end(writer, ctx)
            yield ends if now.lived < ends else now.lived + _LOOK_SECONDS

    def _find_gone_writer(
        self, facts: Facts, now: Moment, ctx: EvalContext
    ) -> JobFact | None:
        """The writer, when it ended for good and a look begun after its grace is known:
        older ones prove nothing."""
        writer, seen = find_ended_job(facts, self.writer), facts.get(self.key)
        if writer is None or seen is None:
            return None
        is_after = min(now.lived, seen.observed_at) >= find_grace_end(writer, ctx)
        return writer if is_after else None

    def judge_wait(
        self,
        waits: Verdict,
        facts: Facts,
        now: Moment,
        ctx: EvalContext,
        code: str = "doomed_file",
        **more: str,
    ) -> Verdict:
        """FAIL when what is waited for can never come: looked for after its writer's
        end; else the wait, or the one for a writer that nobody asked to run."""
        writer, path = self._find_gone_writer(facts, now, ctx), self.path_to_watch
        if writer is None:
            return held_back(facts, self.writer, path) or waits
        args = {"path": path, "writer": self.writer, **more}
        return say_fail(code, **args, **end_of(writer))


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfFile(FileCondition):
    path: str
    fresh: bool = True
    """Whether what an earlier attempt left does not count when the writer begins
    anew."""

    @property
    def path_to_watch(self) -> str:
        return self.path

    def name_object(self) -> str:
        return self.path

    def _find_old(
        self, files: Sequence[FileIdentity | None], facts: Facts, ctx: EvalContext
    ) -> Mapping[FileIdentity, SetAside] | Verdict:
        """Those of files that earlier attempts left; WAIT: that is not known yet."""
        if not self.fresh or self.writer in ("", ctx.job):
            return {}
        writer = job_fact(facts, self.writer)
        if isinstance(writer, Verdict):
            return {}
        if writer.aside is None:
            return say_wait("files_unsure", path=self.path, writer=self.writer)
        aside = {one.file: one for one in writer.aside.values()}
        return {file: aside[file] for file in files if file in aside}

    def _judge_old(
        self, old: Iterable[SetAside], facts: Facts, now: Moment, ctx: EvalContext
    ) -> Verdict:
        """WAIT for the writer's own file; FAIL, which asks a person, once it ended."""
        newest = max(old, key=lambda one: one.file.mtime_ns)
        attempt = (f"attempt {newest.attempt}", newest.values)  # `attempt 1, lr=1e-4`
        whose = ", ".join(filter(None, attempt))
        args = {
            "path": newest.file.path,
            "writer": self.writer,
            "whose": whose if newest.attempt else "an earlier session",
        }
        writer = self._find_gone_writer(facts, now, ctx)
        if writer is None:
            return say_wait("waits_for_new_file", **args)
        return say_fail("file_of_earlier", **args, **end_of(writer))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileExists(_OfFile, kind="file_exists"):
    """A path, or any match of a glob, exists (and is large enough)."""

    glob: bool = False
    min_size: int = 0
    """Bytes."""

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        kind: type[object] = Matches if self.glob else FileStat
        found = read_fact(facts.get(self.key), kind, self.path)
        files: Sequence[FileIdentity | None]
        if isinstance(found, Verdict):
            return found
        if isinstance(found, Matches):
            there, size, files = bool(found.paths), found.largest, found.files
        else:
            assert isinstance(found, FileStat)
            there, size, files = found.exists, found.size, (found.file,)
        old = self._find_old(files, facts, ctx) if there else {}
        if isinstance(old, Verdict):
            return old
        if old:
            new = [file for file in files if file is not None and file not in old]
            there, size = bool(new), max((file.size for file in new), default=0)
        args: dict[str, Any] = {"path": self.path, "size": size}
        if there and size >= self.min_size:
            return say_pass("file_there", **args)
        if old and not there:
            return self._judge_old(old.values(), facts, now, ctx)
        waits = say_wait("file_missing", path=self.path, writer=self.writer)
        if there:
            args |= {"writer": self.writer, "min_size": self.min_size}
            waits = say_wait("file_small", **args)
        return self.judge_wait(waits, facts, now, ctx)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent(_OfFile, kind="file_content"):
    pattern: str
    mode: Literal["contains", "regex"] = "contains"

    @property
    def key(self) -> TextKey:
        return TextKey(self.path, self.pattern if self.mode == "regex" else "")

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        if self.mode == "regex" and (problem := _refuse_pattern(self.pattern)):
            return problem
        file = read_fact(facts.get(self.key), FileText, self.path)
        if isinstance(file, Verdict):
            return file
        old = self._find_old((file.file,), facts, ctx)
        if isinstance(old, Verdict):
            return old
        if old:
            return self._judge_old(old.values(), facts, now, ctx)
        args = {"path": self.path, "writer": self.writer}
        if file.text is None:
            waits = say_wait("file_missing", **args)
        elif file.holds or (self.mode == "contains" and self.pattern in file.text):
            return say_pass("text_there", path=self.path, pattern=self.pattern)
        else:
            waits = say_wait("text_missing", **args, pattern=self.pattern)
        return self.judge_wait(waits, facts, now, ctx)


def _refuse_pattern(pattern: str) -> Verdict | None:
    """A stored condition that this version cannot search with; None: it can."""
    try:
        compile_text_pattern(pattern)
    except PatternRefused as error:
        problem = f"{pattern!r} {error.problem}; {error.hint}"
        return say_wait("bad_condition", problem=problem)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPattern(FileCondition, kind="log_pattern", lasts=True):
    """A regex is found in a log (or all logs of a glob), in new bytes only."""

    log_path: str
    pattern: str
    glob: bool = False
    check_mode: Literal["any", "all"] = "any"
    tail_bytes: int = 1 << 20
    """How much of a file that was there before is read at the first look."""
    skip: tuple[tuple[int, int], ...] = ()
    """Set while jobs run: (inode, bytes) of texts that earlier attempts left."""

    @property
    def key(self) -> LogKey:
        where = (self.log_path, self.pattern, self.glob, self.check_mode)
        return LogKey(*where, self.tail_bytes, self.skip)

    @property
    def path_to_watch(self) -> str:
        return self.log_path

    def name_object(self) -> str:
        return f"{self.pattern!r} in {self.log_path}"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        if problem := _refuse_pattern(self.pattern):
            return problem
        found = read_fact(facts.get(self.key), LogFound, self.log_path)
        if isinstance(found, Verdict):
            return found
        if is_found(self.key, found):
            path = found.path or self.log_path
            return say_pass("log_matched", line=found.line, path=path)
        several = {"matched": found.matched, "files": found.files}
        args: dict[str, Any] = several if self.glob and found.files else {}
        code = "log_no_match" if found.files else "log_no_files"
        sought = {"path": self.log_path, "pattern": self.pattern}
        waits = say_wait(code, **sought, **args)
        more = {"pattern": self.pattern}
        return self.judge_wait(waits, facts, now, ctx, "doomed_log", **more)


def is_found(key: LogKey, found: LogFound) -> bool:
    """Whether any, or all, of the files hold what `key` looks for."""
    wanted = 1 if key.check_mode == "any" else found.files
    return found.files > 0 and found.matched >= wanted


def list_awaited_by(spec: JobSpec) -> Iterator[FileCondition]:
    """What a job waits for that others write, where it must be of their attempt."""
    for condition in (*spec.start_conditions, *spec.cancel_conditions):
        for part in walk(condition):
            if (
                isinstance(part, FileCondition)
                and part.writer not in ("", spec.name)
                and getattr(part, "fresh", True)
            ):
                yield part


def group_awaited(jobs: Sequence[JobSpec]) -> Mapping[str, Sequence[FileCondition]]:
    """Job -> what others wait for that it writes."""
    found: dict[str, list[FileCondition]] = {}
    for spec in jobs:
        for part in list_awaited_by(spec):
            found.setdefault(part.writer, []).append(part)
    return found


class Places:
    """Whose directory a path lies in: the output and log directories of all jobs."""

    def __init__(
        self, jobs: Iterable[tuple[str, str, str]] = (), beside: Places | None = None
    ) -> None:
        """`jobs`: (name, output_dir, log_dir); `beside`: of others, which come first
        and are looked up where they are."""
        self._owners: dict[str, str] = {}
        self._names: set[str] = set()
        self._beside = beside
        for job in jobs:
            self.add(*job)

    def add(self, name: str, output_dir: str, log_dir: str) -> None:
        self._names.add(name)
        for directory in (output_dir, log_dir):
            self._owners.setdefault(posixpath.normpath(directory), name)

    def __contains__(self, name: object) -> bool:
        return name in self._names or (
            self._beside is not None and name in self._beside
        )

    def _find(self, place: str) -> str:
        found = self._beside._find(place) if self._beside is not None else ""
        return found or self._owners.get(place, "")

    def owner(self, path: str) -> str:
        """The job in whose directory a path lies; empty when in none."""
        place = posixpath.normpath(path) if path else ""
        while place and place not in {"/", "."}:
            if found := self._find(place):
                return found
            place = posixpath.dirname(place)
        return ""

    def with_writers(self, condition: Condition) -> Condition:
        """The condition with the job that writes its file or log, where known."""
        return change_parts(condition, lambda part: part.with_writers(self.owner))

    def list_awaited(self, condition: Condition) -> Iterator[str]:
        """The jobs of whom a condition reads anything; names repeat, or are empty."""
        yield from (getattr(key, "job", "") for key in needs(condition, ""))
        if "{runtime." in repr(condition):
            for job, _ in list_runtime_sources(list_texts(condition), self):
                yield job if job in self else ""
