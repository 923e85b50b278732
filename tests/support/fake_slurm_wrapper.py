"""Plays the wrapper on a made-up node: the same records and logs, without a process.

What a start may do is decided by the records alone, as the real one decides it. Times
are arguments (UTC).
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any, Final

from autoexp_tui.engine.executor_port import Task
from autoexp_tui.model.effect import TaskId
from tests.support.fake_script import RunScript

TASK_FILE: Final = "/${SLURM_ARRAY_TASK_ID:-0}.json"
"""The end of the word that names the task file, on the script's line of the wrapper."""
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start of the wrapper, as its environment tells it."""

    executor_id: str
    restarts: int
    node: str
    pid: int
    utc: float
    alone: bool
    """Nothing of an earlier start of the same attempt lives."""

    @property
    def process(self) -> Record:
        unknown = {"machine": "", "boot": "", "namespace": ""}
        started = str(self.pid)
        return {"host": self.node, **unknown, "pid": self.pid, "started": started}


@dataclass(slots=True, kw_only=True)
class PlayedRun:
    """A begun run."""

    fields: Record
    """Of its task file."""
    number: int
    executor_id: str
    script: RunScript
    log: Path
    ending: str = ""
    """Why the wrapper ends it; empty: it does not."""
    over: bool = False
    oom_kills: int = 0
    """How many of its processes the kernel has killed for memory."""
    stopped_at: float | None = None
    """Since when its processes are stopped; None: they are not."""
    stopped_seconds: float = 0.0
    """For how long they were, before that."""
    waiting: list[Callable[[], object]] = field(default_factory=list)
    """What fell due while they were stopped."""

    @property
    def task(self) -> TaskId:
        return (str(self.fields["job"]), int(self.fields["attempt"]))

    @property
    def attempt_dir(self) -> Path:
        return Path(self.fields["attempt_dir"])


def grace_of(run: PlayedRun) -> float:
    """Seconds between asking a run's command to end and killing it."""
    return float(run.fields.get("grace_seconds", 10.0))


def task_file(script: str, index: int | None) -> Path | None:
    """The task file that a script hands to the wrapper; None: it starts none."""
    for line in script.splitlines():
        words: list[str] = []
        with suppress(ValueError):
            words = [] if line.lstrip().startswith("#") else shlex.split(line)
        for word in words:
            if word.endswith(TASK_FILE):
                return Path(word.removesuffix(TASK_FILE), f"{index or 0}.json")
    return None


def task_of(fields: Record) -> Task:
    """The task that a task file describes."""
    plain = ("job", "attempt", "output_dir", "log_dir", "attempt_dir")
    return Task(
        **{name: fields[name] for name in plain},
        command=tuple(fields["command"]),
        env=fields.get("env", {}),
        cwd=fields.get("cwd", ""),
        resume=bool(fields.get("resume")),
        token=fields.get("token", ""),
    )


def claim(fields: Record, start: Start) -> int | None:
    """The number of the run that may begin; None: another has the attempt."""
    directory = Path(fields["attempt_dir"])
    wanted = _wanted(fields, start)
    holder = _read(directory / "claim")
    if holder is None:
        write_record(directory / "claim", wanted, start.utc)
    elif not _may_follow(directory, holder, wanted, start):
        same = holder.get("nonce") == fields["nonce"]
        name = _plain(start.executor_id) if same else fields["nonce"]
        write_record(directory / f"duplicate.{name}.json", wanted, start.utc)
        return None
    return newest_run(directory) + 1


def no_claim(fields: Record, start: Start) -> int | None:
    """What a wrapper would do that had forgotten to claim: a deliberate bug."""
    directory = Path(fields["attempt_dir"])
    write_record(directory / "claim", _wanted(fields, start), start.utc)
    return newest_run(directory) + 1


def _wanted(fields: Record, start: Start) -> Record:
    copied = ("nonce", "token", "index", "session", "job", "attempt")
    return {
        "v": 1,
        "executor_id": start.executor_id,
        "claimed_at": start.utc,
        "restarts": start.restarts,
        "process": start.process,
        **{name: fields.get(name) for name in copied},
    }


def _may_follow(directory: Path, holder: Record, wanted: Record, start: Start) -> bool:
    """The same submission under the same id, restarted or with nothing left of it."""
    if any(holder.get(key) != wanted[key] for key in ("executor_id", "nonce")):
        return False
    newest = newest_run(directory)
    last = holder if newest < 0 else _read(directory / f"begin.{newest}.json") or {}
    restarted = start.restarts > int(last.get("restarts") or 0)
    ended = _read(directory / f"exit.{newest}.json")
    if ended is None:
        return start.alone or restarted
    ending = str(ended["ending"])
    killed = ended["signal"] in (SIGKILL, SIGTERM) and not ending
    from_outside = killed or ending.startswith("signal")
    well = ended["exit_code"] == 0 and not ended["asked"]
    return (restarted or from_outside) and not well


def void(fields: Record, start: Start, message: str) -> None:
    """Record that the attempt does not begin."""
    record = {"v": 1, "why": "cancelled", "message": message, "at": start.utc}
    record["executor_id"] = start.executor_id
    write_record(Path(fields["attempt_dir"], "void.json"), record, start.utc)


def begin(fields: Record, start: Start, number: int, script: RunScript) -> PlayedRun:
    """Open the log and write the begin record."""
    log = _open_log(fields, start)
    record = {
        "v": 1,
        "run": number,
        "restarts": start.restarts,
        "began_at": start.utc,
        "executor_id": start.executor_id,
        "process": start.process,
        "log_path": str(log),
        "log_start": log.stat().st_size,
        "command_pid": start.pid + 2,
    }
    path = Path(fields["attempt_dir"], f"begin.{number}.json")
    write_record(path, record, start.utc)
    name = start.executor_id
    return PlayedRun(
        fields=fields, number=number, executor_id=name, script=script, log=log
    )


def _open_log(fields: Record, start: Start) -> Path:
    directory = Path(fields["log_dir"])
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / f"slurm-{_plain(start.executor_id)}.out"
    if fields.get("log_home") and not log.is_symlink():
        log.symlink_to(Path(fields["log_home"], log.name))
    with log.open("ab"):
        pass
    current = directory / "current.log"
    current.unlink(missing_ok=True)
    current.symlink_to(log.name)
    return log


def write_exit(
    run: PlayedRun,
    utc: float,
    ends: tuple[int | None, int | None],
    note: str = "",
    *,
    seen_utc: float,
) -> None:
    """The exit record of a run that ended at `utc` with an exit code or by a signal,
    as it appears at `seen_utc`."""
    record = {
        "v": 1,
        "run": run.number,
        "ended_at": utc,
        "exit_code": ends[0],
        "signal": ends[1],
        "ending": run.ending,
        "asked": bool(run.ending),
        "timed_out": False,
        "oom_kills": run.oom_kills,
        **({"note": note} if note else {}),
    }
    write_record(run.attempt_dir / f"exit.{run.number}.json", record, seen_utc)


def write_record(path: Path, record: Record, utc: float) -> None:
    """Write a record whole, by rename, at a made-up time.

    The directory gets that time too: a reader on the same clock may take two looks at
    one age as two looks at the same contents.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(json.dumps(record))
    os.replace(temporary, path)
    os.utime(path.parent, (utc, utc))


def _read(path: Path) -> Record | None:
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return found if isinstance(found, dict) else None


def newest_run(directory: Path) -> int:
    """The number of an attempt's newest run that has begun; -1: none has."""
    numbers = (path.name.split(".")[1] for path in directory.glob("begin.*.json"))
    return max((int(number) for number in numbers), default=-1)


def _plain(text: str) -> str:
    """`text` as a part of a file name."""
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in text)
