"""How a step runs a program of the candidate's: isolated, bounded, to its last
process."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage
from typing import NoReturn

from autoexp_tui.agents.supervision import ALLOWED, End, Program, run_program
from autoexp_tui.evaluation.requests import (
    EVAL_TIMEOUT,
    Request,
    StepRecord,
    load_record,
    write_record,
)
from autoexp_tui.isolation.kinds import choose_isolation
from autoexp_tui.isolation.port import Isolation, Profile
from autoexp_tui.isolation.profiles import make_evaluation_profile
from autoexp_tui.model.agents import Limits, Outcome
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.storage.atomic import explain, make_directory
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import join_some
from autoexp_tui.worktrees.checkouts import build_environment
from autoexp_tui.worktrees.tree_repository import Git, Place, TreeRepository, list_refs

_DAYS = 7 * 86_400.0
_TAIL = 2000
_OUTSIDE = "environment"
_ROOM_BYTES = 1 << 20
"""With less the disk is full: whatever failed may have failed by that."""
_TOO_LARGE = (-signal.SIGXFSZ, 128 + signal.SIGXFSZ)


@dataclass(frozen=True)
class StepFailed(Exception):
    """The step has no result; `code` is stored, `problem` is for people."""

    code: str
    problem: str
    resume_at: float | None = None
    """When the service of an agent may be called again (s of Unix time), if known."""


@dataclass(frozen=True, slots=True)
class Fence:
    """What runs a candidate's programs in one step."""

    request: Request
    isolation: Isolation
    private: Path
    """Below it lie HOME and TMPDIR of what runs."""
    deadline: float
    """Monotonic: when the step has taken as long as it may."""

    def choose(self, command: Sequence[str]) -> Isolation:
        """What goes round a command: an `apptainer exec` gets flags of its own."""
        return choose_isolation(self.request.isolation, (self.isolation,), command)

    def prepare(self, worktree: Path, output: Path) -> tuple[Profile, dict[str, str]]:
        """What a program of the candidate's may reach, and its environment."""
        profile = make_evaluation_profile(
            worktree,
            self.private,
            output,
            readable=self.request.list_readable(),
            file_bytes=self.request.options.max_disk_bytes,
        )
        return profile, make_environment(profile, output, self.request.repository)

    def run(
        self,
        command: Sequence[str],
        worktree: Path,
        output: Path,
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> End:
        """A command in a worktree; what it printed is in `log`, and here as well. None
        of its processes is left."""
        make_directory(log.parent)
        profile, env = self.prepare(worktree, output)
        env |= environment or {}
        seconds = max(0.1, self.deadline - time.monotonic())
        limits = Limits(
            wall_seconds=seconds,
            idle_seconds=seconds,
            stop_seconds=2.0,
            disk_bytes=self.request.options.max_disk_bytes,
        )
        argv = self.choose(command).wrap(name_program(command), profile)
        with suppress(FileNotFoundError):  # of an earlier attempt
            log.rename(log.with_suffix(f"{log.suffix}.earlier"))
        own = profile.list_writable()
        program = Program(argv, str(worktree), env, limits, directories=own)
        return run_program(program, log, _print_line)


def make_environment(
    profile: Profile, output: Path, tree: TreeRepository
) -> dict[str, str]:
    """Of a program of foreign code; its directories are made. Raises
    EnvironmentFailed."""
    for place in (output, profile.home, profile.tmp):
        make_directory(place)
    env = {name: os.environ[name] for name in ALLOWED & os.environ.keys()}
    env |= {"HOME": str(profile.home), "TMPDIR": str(profile.tmp)}
    return env | build_environment(tree) | {"PYTHONDONTWRITEBYTECODE": "1"}


def name_program(command: Sequence[str]) -> Sequence[str]:
    """`python` is the one that runs us: there may be no other, or one of any age."""
    return (sys.executable, *command[1:]) if command[0] == "python" else command


def _print_line(line: bytes) -> None:
    """Into the job's log, where metrics are read and people look."""
    sys.stdout.buffer.write(line if line.endswith(b"\n") else line + b"\n")
    sys.stdout.buffer.flush()


def make_fence(request: Request, name: str) -> Fence:
    """For the programs of a step; raises UsageError where isolation is required and
    none works here."""
    seconds = request.seconds or _DAYS
    private = request.home if request.evaluation else Path(request.directory, "calls")
    return Fence(
        request,
        choose_isolation(request.isolation),
        private / "private" / name,
        time.monotonic() + seconds,
    )


def list_kept_refs(git: Git, place: Place) -> dict[str, str]:
    """Refs that nobody but us moves while a step at `place` runs: its own, and those of
    nodes."""
    own, nodes = git.tree.get_ref(place), f"{git.tree.refs}n"
    refs = list_refs(git).items()
    return {name: at for name, at in refs if name == own or name.startswith(nodes)}


def require_refs(git: Git, place: Place, before: Mapping[str, str]) -> None:
    """Raises StepFailed where foreign code moved a ref of the search."""
    now = list_kept_refs(git, place)
    names = sorted(before.keys() | now.keys())
    if moved := [one for one in names if before.get(one) != now.get(one)]:
        raise StepFailed(
            "refs_moved", f"while it ran somebody moved {join_some(moved, 5)}"
        )


def require_success(end: End, code: str, what: str) -> None:
    """Raises StepFailed with the last words of a command that did not end with 0."""
    if end.exit_code == 0 and end.stop is None and not end.left:
        return
    told = f"it ended with {end.exit_code}"
    if end.exit_code is None:
        told = f"it did not start: {end.reason}"
    elif end.stop is Outcome.TIMEOUT:
        told = "it took longer than it may"
    elif end.stop is Outcome.MAX_DISK or end.exit_code in _TOO_LARGE:
        told = "it wrote more than tree.max_disk_bytes"
    elif end.left:
        told = f"{end.left} processes of it could not be ended"
    words = clean((end.errors or end.output)[-_TAIL:], keep_newlines=True).strip()
    last = words.splitlines()[-1] if words else ""
    raise StepFailed(code, f"{what}: {told}" + (f": {last}" if last else ""))


def run_step(
    arguments: Sequence[str], name: str, step: Callable[[Request], object]
) -> int:
    """A program's exit status: 0, or 1 with its failure told. Its one argument is its
    request, beside which `name` records what it came to; nothing of an earlier attempt
    stays. None is no record. On a full disk it ends by a signal: nothing that it came
    to is its own, and it is tried again."""
    path = Path(*arguments).with_name(name)
    path.unlink(missing_ok=True)
    request, began = load_record(Request, Path(*arguments)), time.monotonic()
    try:
        if (record := step(request)) is not None:
            write_record(path, record)
    except StepFailed as failed:
        code, late = failed.code, time.monotonic() - began
        if request.seconds and late >= request.seconds:
            code = EVAL_TIMEOUT  # whatever of it was cut off
        told = StepRecord(code=code, problem=failed.problem, resume_at=failed.resume_at)
        status = 1
    except (AutoexpError, OSError) as fault:
        error = fault
        if isinstance(error, OSError):
            error = explain(error, path.parent, "go on")
        told = StepRecord(code=_OUTSIDE, problem=error.line)
        status = error.exit_code or 1
    else:
        return 0
    _print_error(f"{told.code}: {told.problem}")
    full = f"{path.parent}: the disk is full"
    is_full = disk_usage(path.parent).free < _ROOM_BYTES
    try:
        write_record(path, StepRecord(code=_OUTSIDE, problem=full) if is_full else told)
    except AutoexpError as error:  # over quota, say
        is_full, full = True, error.line
    if is_full:
        _print_error(full)
        signal.raise_signal(signal.SIGTERM)
    return status


def _print_error(text: str) -> None:
    with suppress(OSError):  # the log may lie on the full disk
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def exit_process(status: int) -> NoReturn:
    """End this process at once: Python's own end, which takes apart what goes anyway,
    costs a step a tenth of its start."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
