"""Runs tasks on this machine, each under a supervisor of its own that outlives us.

The supervisor is the wrapper script; all it leaves is records, so an engine that dies
loses nothing. A start counts when the wrapper has claimed the attempt; a supervisor
that is gone without an exit record is gone; processes of other hosts never are.

The slots of this machine: where their files lie, and who holds them.

The files lie in one directory a user a host: `/tmp/autoexp-tui-<uid>`, or, when
somebody else sits on that name, another one with random letters, remembered for this
host and boot. A slot is taken while its file is locked; the text in it names the
session of whoever locked it last. The wrapper alone takes them and gives them back.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Final, Literal

from autoexp_tui.engine import executor_port as port
from autoexp_tui.engine.ports import Clock
from autoexp_tui.executors.local.start import (
    LocalSettings,
    Starter,
    format_command,
    format_executor_id,
)
from autoexp_tui.executors.supervisors import (
    HeldTimes,
    check_lock,
    check_supervisor,
    find_refusal,
    is_start_alive,
    kill_left_behind,
    report_unknown,
    send_term,
)
from autoexp_tui.executors.wrapper import clean_name
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.ids import format_filename
from autoexp_tui.model.states import Cause
from autoexp_tui.storage.atomic import link_new, make_private, write_atomic
from autoexp_tui.storage.attempt_records import (
    AttemptRecords,
    RecordCache,
    read_attempt,
)
from autoexp_tui.storage.processes import Alive, Identity
from autoexp_tui.storage.trust import read_checked
from autoexp_tui.storage.user_files import find_user_file
from autoexp_tui.text.spelling import plural

TEMPORARY = Path("/tmp")


def get_usual_dir() -> Path:
    """The directory that is meant, whoever has it."""
    return TEMPORARY / f"autoexp-tui-{os.geteuid()}"


def find_slots_dir() -> Path:
    """The user's directory of slots on this host, made where it was not.

    What cannot be made is the usual one: the job that needs it says why.
    """
    me, usual = Identity.get_own(), get_usual_dir()
    memory = find_user_file(format_filename(f"slots-dir.{me.host}.{me.boot}"))
    noted = _read_memory(memory) if memory else None
    for known in (noted, usual):
        if known is not None and _make_own(known):
            return known
    other = usual.with_name(f"{usual.name}-{secrets.token_hex(6)}")
    if not _make_own(other):
        return usual
    if memory is None:
        return other
    data = os.fsencode(f"{other}\n")
    with suppress(OSError, EnvironmentFailed):
        memory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if noted is not None:
            write_atomic(memory, data)
        elif not link_new(memory, data):  # another engine was faster
            return _read_memory(memory) or other
    return other


def _make_own(directory: Path) -> bool:
    with suppress(OSError):
        with suppress(FileExistsError):
            directory.mkdir(0o700)
        found = directory.lstat()
        private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
        return private and found.st_uid == os.geteuid()
    return False


def _read_memory(memory: Path) -> Path | None:
    """The directory that a file of the user's names; None: there is none."""
    try:
        text = os.fsdecode(read_checked(memory, "own").strip())
    except OSError:
        return None
    return Path(text) if text.startswith(str(get_usual_dir())) else None


def explain_queued(
    directory: Path, count: int, gpus: Sequence[str], wanted_gpus: int
) -> str:
    """Why a task that wants a slot and `wanted_gpus` does not start yet."""
    slots = [_find_holder(directory / f"slot.{number}") for number in range(count)]
    cards = [_find_holder(directory / f"gpu.{clean_name(gpu)}") for gpu in gpus]
    if slots and None not in slots:
        which = f"all {count} of this machine are"
        which = "the one of this machine is" if count == 1 else which
        return f"waits for a slot: {which} taken{_format_sessions(slots)}"
    if wanted_gpus > cards.count(None):
        held = len(cards) - cards.count(None)
        head = f"waits for {wanted_gpus} of this machine's {len(cards)} GPUs"
        return f"{head}: {held} are taken{_format_sessions(cards)}"
    return "is about to start"


def _format_sessions(holders: Sequence[str | None]) -> str:
    sessions = [*dict.fromkeys(filter(None, holders))]
    noun = "session" if len(sessions) == 1 else "sessions"
    return f", by {noun} {', '.join(sessions)}" if sessions else ""


def _find_holder(path: Path) -> str | None:
    """The session that holds a lock, empty when unknown; None: nobody holds it."""
    if check_lock(path) is not Alive.YES:  # unknown where there are no locks
        return None
    with suppress(OSError, ValueError, AttributeError):
        return str(json.loads(read_checked(path, "own")).get("session") or "")
    return ""


_FOREIGN_SETTLE_SECONDS = 60.0
"""The settle time of a start that another host made: its processes cannot be seen."""
FOREIGN_LOST_SECONDS: Final = 300.0
"""Longer than a file server keeps the locks of a host that it does not hear of."""


def count_cpus() -> int:
    """The CPUs that this process may use; beside Linux, all."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def list_gpus() -> tuple[str, ...]:
    """The GPUs that this process may use, by the ids that CUDA takes."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is not None:
        return tuple(gpu for gpu in allowed.split(",") if gpu and gpu != "-1")
    names = os.listdir("/dev") if os.access("/dev", os.R_OK) else []
    found = (re.fullmatch(r"nvidia(\d+)", name) for name in names)
    return tuple(sorted((match[1] for match in found if match), key=int))


def build_local_settings(
    wrapper: Path, *, slots: int = 0, slots_dir: str = ""
) -> LocalSettings:
    """This machine as it is; `slots` 0: one a CPU; `slots_dir` empty: the usual."""
    return LocalSettings(
        wrapper=wrapper,
        python=sys.executable,
        slots=slots or count_cpus(),
        slots_dir=Path(slots_dir) if slots_dir else find_slots_dir(),
        gpus=list_gpus(),
    )


LOOKS_APART: Final = 2.0
"""Seconds that a stretch between two polls counts at most towards being lost."""


class LocalExecutor:
    """`executor_port.Executor` over supervisors on this machine."""

    name = "local"
    poll_seconds = 1.0
    array_size = 1
    lost_after_seconds = 5.0

    def __init__(self, settings: LocalSettings, clock: Clock) -> None:
        self.slots = settings.slots
        self._settings = settings
        self._clock = clock
        self._starter = Starter(settings)
        self._cache = RecordCache(clock.monotonic)
        self._me = Identity.get_own()
        self._gone = HeldTimes(LOOKS_APART)
        self._missed: dict[str, float] = {}
        """When a token was first looked for in vain, monotonic."""

    def submit(self, submission: port.Submission) -> port.SubmitAnswer:
        """Start a supervisor; a task that is claimed already is left alone."""
        self._missed.pop(submission.token, None)  # what is sent again: looked for anew
        task, *more = submission.tasks
        if more:  # the engine sends them apart
            problem = "tasks are started one by one here"
            return port.Rejected(message=problem, cause=Cause.SUBMIT_ERROR)
        sent = format_command(task, self._me.host)
        outcome = self._starter.start(submission)
        if outcome is not None:
            return replace(outcome, sent=sent)
        return port.Accepted(
            executor_ids=(format_executor_id(submission.token),),
            submitted_at=self._clock.utc(),
            sent=sent,
        )

    def poll(self, tasks: Sequence[port.Task]) -> port.PollAnswer:
        """One stat a task that did not change, and a look at its supervisor."""
        self._starter.collect()
        own = self._settings
        explain = cache(partial(explain_queued, own.slots_dir, own.slots, own.gpus))
        return port.PollAnswer(
            reports=tuple(self._report(task, explain) for task in tasks)
        )

    def _report(
        self, task: port.Task, explain: Callable[[int], str]
    ) -> port.TaskReport:
        try:
            records = self._cache.read(task.attempt_dir)
            if records.has_copy:
                records = self._cache.read(task.attempt_dir, fresh=True)
            life = self._check_life(task, records)
            if life is Alive.NO and not records.is_over:
                # Its last record may be younger than our look.
                records = self._cache.read(task.attempt_dir, fresh=True)
                life = self._check_life(task, records)
        except OSError as error:
            return report_unknown(task, f"cannot look at its records: {error}")
        if life is Alive.NO:
            return self._report_end(task, records)
        self._note_gone(task, gone=False)
        waits = ""
        if records.supervisor is not None and life is not Alive.YES:
            host = records.supervisor.host
            waits = f"on {host}, whose processes cannot be seen from here"
        elif not records.run:
            waits = explain(task.resources.gpus)
        phase = port.TaskPhase.RUNNING if records.run else port.TaskPhase.QUEUED
        return replace(_build_report(task, records, phase), reason=waits)

    def _note_gone(self, task: port.Task, *, gone: bool) -> float:
        return self._gone.note(task.id, holds=gone, now=self._clock.monotonic())

    def _check_life(self, task: port.Task, records: AttemptRecords) -> Alive:
        if records.is_over:
            return Alive.NO
        if records.supervisor is not None:
            claim = Path(task.attempt_dir, "claim")
            life = check_supervisor(records.supervisor, self._me, claim)
            is_judged = self._settings.foreign_lost_seconds is not None
            return check_lock(claim) if life is Alive.UNKNOWN and is_judged else life
        return Alive.YES if _is_starting(task, records) else Alive.NO

    def _report_end(self, task: port.Task, records: AttemptRecords) -> port.TaskReport:
        run, void = records.run, records.void
        if task.id not in self._gone and run and not run.exited:
            self._kill_left_behind(task, records)
        gone_for = self._note_gone(task, gone=True)
        reason, supervisor = void.message if void else run.ending if run else "", None
        if not records.is_over:
            supervisor = records.supervisor
        if supervisor and supervisor.check_alive(self._me) is Alive.UNKNOWN:
            longest = self._settings.foreign_lost_seconds or 0.0
            gone_for = max(0.0, gone_for - longest + self.lost_after_seconds)
            reason = f"nobody holds its claim, of {supervisor.host}, any more"
        if void:  # nothing to wait for: it says that it never begins
            gone_for = max(gone_for, self.lost_after_seconds)
        would_be_lost = not records.is_over and gone_for >= self.lost_after_seconds
        if would_be_lost and (refusal := find_refusal(task.attempt_dir)):
            self._note_gone(task, gone=False)
            return report_unknown(task, refusal)
        if records.exited:
            self._cache.forget(task.attempt_dir)
        cause = None  # more than its exit code
        if run and run.timed_out:
            cause = Cause.TIMEOUT
        elif not run and void and void.why == "failed":
            cause = Cause.SUBMIT_ERROR
        elif records.cancel_ordered and (run is None or run.ending):
            cause = Cause.USER
        return replace(
            _build_report(task, records, port.TaskPhase.ENDED),
            exited=records.exited,
            cause=cause,
            reason=reason,
            gone_for=gone_for,
            tampering=records.tampering,
        )

    def _kill_left_behind(self, task: port.Task, records: AttemptRecords) -> None:
        run = records.run
        here = run is not None and run.process.is_of_the_boot_of(self._me)
        leader = (run.command_pid, run.command_started) if run and here else (0, "")
        kill_left_behind(task.attempt_dir, leader)

    def cancel(self, tasks: Sequence[port.Task]) -> port.CancelAnswer:
        """Ask each supervisor for the end; one that starts later never begins."""
        problems = [text for text in map(self._cancel, tasks) if text]
        return port.CancelAnswer(
            ok=not problems,
            sent=f"SIGTERM to {plural(len(tasks), 'supervisor')}",
            said="; ".join(problems),
        )

    def _cancel(self, task: port.Task) -> str:
        """What went wrong, empty when nothing did."""
        try:
            make_private(Path(task.attempt_dir))
            Path(task.attempt_dir, "cancel").touch(mode=0o600)
            records = self._cache.read(task.attempt_dir, fresh=True)
            supervisor = records.supervisor
            if supervisor and not records.is_over:
                alive = supervisor.check_alive(self._me)
                if alive is Alive.YES:
                    send_term(supervisor)
                elif alive is Alive.NO:
                    self._kill_left_behind(task, records)
                # Wherever an unknown one is, it looks for the cancel file.
        except OSError as error:
            return f"{task.job}: {error}"
        return ""

    def adopt(self, submissions: Sequence[port.Submission]) -> port.AdoptAnswer:
        """Look for claims and living starts by token."""
        try:
            looks = [(sub, self._find(sub)) for sub in submissions]
        except OSError as error:
            return port.AdoptAnswer(error=str(error))
        return port.AdoptAnswer(
            found=tuple(found for _, found in looks if isinstance(found, port.Found)),
            absent=tuple(sub.token for sub, found in looks if found == "absent"),
        )

    def _find(
        self, submission: port.Submission
    ) -> port.Found | Literal["absent", "unknown"]:
        """Claims of our token; raises OSError where records cannot be looked at."""
        task, token = submission.tasks[0], submission.token
        records = read_attempt(task.attempt_dir)
        if records.claim is None:
            if _is_starting(task, records):
                return "unknown"
            # A start may have claimed it meanwhile.
            records = read_attempt(task.attempt_dir)
        if (claim := records.claim) is not None and claim.token == token:
            self._missed.pop(token, None)
            ids, at = (format_executor_id(token),), claim.claimed_at
            return port.Found(token=token, executor_ids=ids, submitted_at=at)
        now, settle = self._clock.monotonic(), self._settings.settle_seconds
        starts = (os.path.join(task.attempt_dir, one) for one in records.task_files)
        if any(_find_submitter(file) not in ("", self._me.host) for file in starts):
            longest = self._settings.foreign_lost_seconds or 0.0
            settle = max(settle, longest, _FOREIGN_SETTLE_SECONDS)
        since = self._missed.setdefault(token, now)
        return "absent" if now - since >= settle else "unknown"


def _is_starting(task: port.Task, records: AttemptRecords) -> bool:
    return any(
        is_start_alive(os.path.join(task.attempt_dir, name))
        for name in records.task_files
    )


def _build_report(
    task: port.Task, records: AttemptRecords, phase: port.TaskPhase
) -> port.TaskReport:
    return port.TaskReport(
        job=task.job,
        attempt=task.attempt,
        phase=phase,
        executor_id=records.claim.executor_id if records.claim else "",
        began=records.run.began if records.run else None,
        node=records.supervisor.host if records.supervisor else "",
    )


def _find_submitter(task_file: str) -> str:
    """The host that made a start; empty when the file does not tell."""
    try:
        fields = json.loads(read_checked(task_file, "session"))
    except (OSError, ValueError):
        return ""
    return str(fields.get("submitter", "")) if isinstance(fields, dict) else ""
