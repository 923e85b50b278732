"""Runs one attempt at one job and leaves records of it that survive anything.

Started as `python wrapper.py TASK.json` on whatever machine the job was sent to, so it
imports the standard library alone and keeps to what Python 3.6 understands (hence
annotations as strings). A task file comes in, records in `attempt_dir` go out, each
written whole by rename:

    claim                who may run the attempt: a hard link, made once and for all
    duplicate.<id>.json  this start came second and did nothing
    void.json            the attempt never began and never will; says why
    begin.<r>.json       run r begins: who, where, which processes, which log
    exit.<r>.json        run r has ended, and every process of it is gone; says too
                         whether anybody had asked the command to end before it did,
                         and bears the nonce of its begin record
    gpu.jsonl            samples of nvidia-smi
    cancel               made by others: end the attempt, or never begin it

Started again under the same executor id and nonce, it is a further run of the attempt
when the queue counts it as a restart (SLURM_RESTART_COUNT), or when nothing of the
earlier run lives and it did not end by itself; otherwise the later start does nothing.
A run that sees a further one begin (the queue had lost its node) ends itself.

The *supervisor* keeps the records and takes signals. The *guard*, its child, is the
parent of the *command*: it inherits whatever that leaves behind and ends it. Killing
any one of the three, even with SIGKILL, still ends the command's processes and still
leaves a true exit record; one that cannot be written is tried again, and lies meanwhile
in `<output_dir>/.autoexp/exit.<nonce>.json`.
"""

import errno
import fcntl
import json
import os
import select
import signal
import stat
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:  # annotations are never evaluated: a start is spared the import
    from collections.abc import Callable, Iterable
    from typing import Any

    Record = dict[str, Any]

PYTHON_3_6_OR_NEWER_IS_NEEDED_TO_RUN_JOBS: bool = sys.version_info >= (3, 6)
"""An older Python cannot read the line above, and shows it in the log as the reason."""

WRAPPER_VERSION = "3"

ACK, BEGUN = 255, 254
"""To the guard: the exit record is as safe as it can be; the begin record is written.
Other bytes are signals to deliver."""
FORWARDED = (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
SWEEP_SECONDS = 10.0
"""How long leftovers that even SIGKILL does not end are waited for."""
POLITE_SECONDS = 2.0
"""How long leftovers of an ended command have after SIGTERM."""
STROKE_SECONDS = 0.5
"""A signal that reaches us this soon after the command's end may have ended it."""
MOST_SAMPLE_FAILURES = 3
FIND_SECONDS = 60.0
"""How long a task file is waited for: a compute node may see it later than others."""
EX_USAGE, EX_IOERR = 64, 74
"""Exit statuses of sysexits.h, for what is no end of the command."""
NOTE_BYTES = 200
"""Of the reason why a command could not start; fits into the room below."""
RETRY_SECONDS = 0.5
MOST_RETRY_SECONDS = 5.0
MOST_RECORD_BYTES = 64 * 1024
MOST_RESTORED = 50
ROOM = ".exit.room"
ROOM_BYTES = 2048
"""More than an exit record takes; blanks after JSON are JSON still."""

try:
    import ctypes

    PRCTL: "Any" = getattr(ctypes.CDLL(None), "prctl", None)
except (ImportError, OSError):  # without it all but its two calls is done
    PRCTL = None


def read_pid_start(pid: int) -> int:
    """When a live process started, in ticks since boot; 0 when there is none."""
    fields = _read_stat(pid)
    if fields is None or fields[0] in ("Z", "X"):
        return 0
    return int(fields[19])


def _read_stat(pid: int) -> "list[str] | None":
    """`/proc/PID/stat` from the state (field 3) on; None when there is no process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip()
    except OSError:
        return ""


def get_identity() -> "Record":
    """Who we are, so that another process can tell whether we live."""
    namespace = ""
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return {
        "host": os.uname().nodename,
        "machine": _first_line("/etc/machine-id"),
        "boot": _first_line("/proc/sys/kernel/random/boot_id"),
        "namespace": namespace,
        "pid": os.getpid(),
        "started": str(read_pid_start(os.getpid()) or ""),
    }


def write_record(directory: str, name: str, record: "Record") -> None:
    """Write `record` whole or not at all, synced; raises OSError."""
    temporary = temporary_name(directory, name)
    try:
        _write_synced(temporary, record)
        os.rename(temporary, os.path.join(directory, name))
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    sync_directory(directory)


def temporary_name(directory: str, name: str) -> str:
    return os.path.join(directory, f".{name}.{os.uname().nodename}.{os.getpid()}.tmp")


def write_new(directory: str, name: str, record: "Record") -> None:
    """Write a record that nobody else has written, and hold its lock; raises
    OSError."""
    path = os.path.join(directory, name)
    temporary = temporary_name(directory, name)
    try:
        _write_synced(temporary, record)
        lock_for_life(temporary)
        try:
            os.link(temporary, path)
        except FileExistsError:  # also what a repeated answer of NFS looks like
            if not os.path.samestat(os.stat(temporary), os.stat(path)):
                problem = "another start has this run"
                raise FileExistsError(errno.EEXIST, problem, path) from None
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    sync_directory(directory)


def _write_synced(path: str, record: "Record") -> None:
    handle = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with open(handle, "w", encoding="utf-8") as file:
        json.dump(record, file)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def open_private(path: str, flags: int) -> int:
    """Open a file that, if it is new, only its owner may read."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def sync_directory(directory: str) -> None:
    """Make names in `directory` durable, where the file system can."""
    handle = os.open(directory, os.O_RDONLY)
    with suppress(OSError):  # some network file systems refuse; the rename stands
        os.fsync(handle)
    os.close(handle)


def read_record(path: str) -> "Record | None":
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def repeat(
    what: "Callable[[], Any]",
    seconds: float,
    in_vain: "Callable[[], bool]" = lambda: False,
) -> "OSError | None":
    """Repeat `what` while the disk is full or away; the last error when in vain."""
    deadline = time.monotonic() + seconds
    pause, reported = RETRY_SECONDS, ""
    while True:
        try:
            what()
        except OSError as error:
            if str(error) != reported:
                reported = str(error)
                log_line(f"cannot write: {error}")
            vain = isinstance(error, FileExistsError) or in_vain()
            left = deadline - time.monotonic()
            if vain or left <= 0:
                return error
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, MOST_RETRY_SECONDS)
        else:
            return None


def log_line(message: str) -> None:
    """For people, in the supervisor's own log."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {message}\n")
        sys.stderr.flush()


class Task:
    """The task file, with what it may leave out filled in."""

    def __init__(self, fields: "Record") -> None:
        self.fields = fields
        self.attempt_dir = str(fields["attempt_dir"])
        self.command = [str(word) for word in fields["command"]]
        self.log_dir = str(fields["log_dir"])
        self.executor_id = str(fields.get("executor_id") or get_slurm_id() or "unnamed")
        self.nonce = str(fields.get("nonce", ""))
        self.grace_seconds = float(fields.get("grace_seconds", 10.0))
        self.patience_seconds = float(fields.get("patience_seconds", 60.0))
        self.record_patience = float(fields.get("record_patience", "inf"))
        """Seconds for which an exit record is tried; a queue's node is not held up."""
        self.copy_seconds = float(fields.get("copy_seconds", 10.0))
        """How long an exit record is refused before it is left elsewhere as well."""
        self.run_nonce = os.urandom(8).hex()
        """Of the run that this process begins: in its begin and exit records."""
        self.cancel_poll_seconds = float(fields.get("cancel_poll_seconds", 2.0))
        self.time_limit_seconds = fields.get("time_limit_seconds")
        self.gpu_seconds = float(fields.get("gpu_seconds", 30.0))
        self.slots = fields.get("slots") or {}
        self.held: list[int] = []
        """Locks of slots and GPUs: of no use any more when the command is gone."""
        self.log_mode = int(fields.get("log_mode") or 0o600)
        self.log_home = str(fields.get("log_home") or "")
        """Where the queue writes this run's output, if not in `log_dir` itself."""

    def path(self, name: str) -> str:
        return os.path.join(self.attempt_dir, name)

    def release_slots(self) -> None:
        """Let others have our slots: nothing of the command lives any more."""
        close_all(self.held)
        self.held = []

    @property
    def exit_copy(self) -> str:
        """Where the exit record is left when it cannot be written; empty: nowhere."""
        place = str(self.fields.get("output_dir") or "")
        name = f"exit.{self.run_nonce}.json"
        return os.path.join(place, ".autoexp", name) if place else ""

    @property
    def log_name(self) -> str:
        return f"slurm-{clean_name(self.executor_id)}.out"

    @property
    def log_path(self) -> str:
        return os.path.join(self.log_dir, self.log_name)

    def is_cancelled(self) -> bool:
        """Whether somebody asked for this attempt's end."""
        return os.path.exists(self.path("cancel"))


def clean_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in text)


def get_slurm_id() -> str:
    """Slurm's name for the task that we are; empty outside of Slurm."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    if array:
        return f"{array}_{os.environ.get('SLURM_ARRAY_TASK_ID', '')}"
    return os.environ.get("SLURM_JOB_ID", "")


def count_restarts() -> int:
    count = os.environ.get("SLURM_RESTART_COUNT", "")
    return int(count) if count.isdigit() else 0


def take_claim(task: Task) -> "int | None":
    """The number of the run that we may begin; None: the attempt is another's.

    The claim stays locked while a supervisor or guard of ours lives: whoever cannot
    see our processes can still ask the lock.
    """
    wanted = {
        "v": 1,
        "wrapper": WRAPPER_VERSION,
        "executor_id": task.executor_id,
        "slurm_job": os.environ.get("SLURM_JOB_ID", ""),
        "nonce": task.nonce,
        "claimed_at": time.time(),
        "restarts": count_restarts(),
    }
    for name in ("token", "index", "session", "job", "attempt"):
        wanted[name] = task.fields.get(name)
    wanted["process"] = get_identity()
    try:
        write_new(task.attempt_dir, "claim", wanted)
        return next_run(task)
    except FileExistsError:
        holder = read_record(task.path("claim"))
    if holder is None:  # a network disk may refuse once
        time.sleep(0.5)
        holder = read_record(task.path("claim"))
    if is_follower(task, holder, wanted):
        return next_run(task)
    # By the nonce; where the claim has the same one, by the executor id.
    same = holder is not None and holder.get("nonce") == task.nonce
    name = clean_name(task.executor_id) if same else task.nonce
    write_record(task.attempt_dir, f"duplicate.{name}.json", wanted)
    return None


def is_follower(task: Task, holder: "Record | None", wanted: "Record") -> bool:
    """Whether this start, not the first, is a further run of the claimed attempt."""
    ids = ("executor_id", "nonce")  # a requeue keeps both
    if holder is None or any(holder.get(key) != wanted[key] for key in ids):
        return False
    run = next_run(task) - 1
    newest = task.path(f"begin.{run}.json" if run >= 0 else "claim")
    count = int((read_record(newest) or {}).get("restarts") or 0)
    restarted = int(wanted["restarts"]) > count
    ended = read_record(task.path(f"exit.{run}.json")) if run >= 0 else None
    if ended is not None:
        # A queue that forgot that it had launched a run, and ended it, starts it anew
        # without counting that. One that succeeded unasked is not followed.
        ending = str(ended.get("ending") or "")
        killed = ended.get("signal") in (signal.SIGKILL, signal.SIGTERM)
        by_queue = ending.startswith("signal") or (killed and not ending)
        well = ended.get("exit_code") == 0 and ended.get("asked") is False
        return (restarted or by_queue) and not well
    over = run < 0 or lock_for_life(newest)
    return (lock_for_life(task.path("claim")) and over) or restarted


LOCKED: "list[int]" = []
"""Files that we hold open for their locks."""


def lock_for_life(path: str) -> bool:
    """Lock a file until the last of our processes that holds it open is gone."""
    handle = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        log_line(f"no lock on {os.path.basename(path)}: {error}")
        os.close(handle)
        return False
    LOCKED.append(handle)
    return True


def next_run(task: Task) -> int:
    runs = [-1]
    for name in os.listdir(task.attempt_dir):
        head, _, rest = name.partition(".")
        number, _, tail = rest.partition(".")
        if head == "begin" and tail == "json" and number.isdigit():
            runs.append(int(number))
    return max(runs) + 1


def wait_for_slots(
    task: Task, stop: "Callable[[float], bool]"
) -> "tuple[list[int], list[str]] | None":
    """Hold a slot and the GPUs: locks and ids; None when `stop(seconds)`, which waits
    that long at most, says to; raises OSError."""
    if not task.slots:
        return [], []
    place = str(task.slots["dir"])
    with suppress(FileExistsError):
        os.makedirs(place, 0o700)
    found = os.lstat(place)
    if found.st_uid != os.getuid() or found.st_mode & 0o170077 != 0o040000:
        problem = "not a directory that only you can enter"
        raise PermissionError(errno.EPERM, problem, place)
    pause = 0.02
    while True:
        held = take_slots(task.slots)
        if held is not None:
            break
        if stop(pause):
            return None
        pause = min(pause * 1.5, 0.5)
    fields = {name: task.fields.get(name) for name in ("session", "job")}
    for handle in held[0]:  # for those who wait
        with suppress(OSError):  # the lock holds without it
            os.ftruncate(handle, 0)
            os.write(handle, json.dumps(fields).encode())
    return held


def take_slots(slots: "Record") -> "tuple[list[int], list[str]] | None":
    """One look: a free slot and as many GPUs as wanted, or nothing at all."""
    names = [f"slot.{number}" for number in range(int(slots.get("count", 1)))]
    handles = take_locks(slots["dir"], names, 1)
    if handles is None:
        return None
    ids = [str(gpu) for gpu in slots.get("gpu_ids", ())]
    names = [f"gpu.{clean_name(gpu)}" for gpu in ids]
    gpus = take_locks(slots["dir"], names, int(slots.get("gpus", 0)))
    if gpus is None:
        close_all(handles.values())
        return None
    return [*handles.values(), *gpus.values()], [ids[index] for index in sorted(gpus)]


def take_locks(
    directory: str, names: "list[str]", wanted: int
) -> "dict[int, int] | None":
    """Lock `wanted` of the named files: index -> handle; None when too few are free."""
    held: dict[int, int] = {}
    for index, name in enumerate(names):
        if len(held) == wanted:
            break
        handle = take_lock(os.path.join(directory, name))
        if handle is not None:
            held[index] = handle
    if len(held) == wanted:
        return held
    close_all(held.values())
    return None


def close_all(handles: "Iterable[int]") -> None:
    for handle in handles:
        os.close(handle)


def take_lock(path: str) -> "int | None":
    """A handle that holds the lock of the file now at `path`; None when it is taken."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), os.stat(path)):
            return handle  # and not the lock of a file that was removed meanwhile
    os.close(handle)
    return None


class Signals:
    """Signals as numbers in a list, and a pipe that wakes a select."""

    def __init__(self, numbers: "tuple[int, ...]") -> None:
        self.caught: list[int] = []
        self.wake, write = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(write, False)
        quiet = {"warn_on_full_buffer": False} if sys.version_info >= (3, 7) else {}
        signal.set_wakeup_fd(write, **quiet)
        for number in numbers:
            signal.signal(number, lambda caught, _: self.caught.append(caught))

    def wait(self, seconds: float, *handles: int) -> "list[int]":
        """The handles that can be read, after a signal or `seconds` at most."""
        ready, _, _ = select.select([self.wake, *handles], [], [], max(0.0, seconds))
        if self.wake in ready:
            os.read(self.wake, 4096)
        return [handle for handle in handles if handle in ready]

    def take(self) -> "list[int]":
        """The signals since the last call, oldest first."""
        taken = self.caught[:]
        del self.caught[: len(taken)]
        return taken


def set_subreaper() -> bool:
    return PRCTL is not None and PRCTL(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER


def run_command(
    task: Task, env: "dict[str, str]", handles: "tuple[int, int, int, int]", guard: int
) -> None:
    """In the command's process: wait for the word, then exec. Never returns.

    `handles`: the log, where the word comes, what says that we would hear a signal,
    and where the guard is told why the command could not start.
    """
    log, go, ready, fault = handles
    os.setsid()
    if PRCTL is not None:
        PRCTL(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != guard:  # it has died meanwhile
        os.kill(os.getpid(), signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):  # KILL, STOP and the C library's own
            continue
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.close(ready)
    if os.read(go, 1) == b"":  # no word will come: the run does not begin
        os.kill(os.getpid(), signal.SIGKILL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code, message = start_command(task, env)
    text = message.encode("utf-8", "backslashreplace")
    with suppress(OSError):
        os.write(2, b"autoexp: " + text + b"\n")
    with suppress(OSError):
        os.write(fault, text[:NOTE_BYTES])
    os._exit(code)


def start_command(task: Task, env: "dict[str, str]") -> "tuple[int, str]":
    """Exec; when that fails, the exit code that a shell has, and the reason."""
    place = str(task.fields.get("cwd") or task.fields.get("output_dir") or "/")
    program = task.command[0] if task.command else ""
    try:
        make_shared(str(task.fields.get("output_dir") or place), task.log_mode)
        make_shared(place, task.log_mode)
        os.chdir(place)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        return 126, f"cannot use the directory {place}: {reason}"
    try:
        os.execvpe(program, task.command, env)
    except FileNotFoundError:
        if "/" in program and os.path.exists(program):
            return 127, f"the interpreter of {program} is missing"
        return 127, f"command not found: {program}"
    except PermissionError:
        return 126, f"permission denied: {program}"
    except (OSError, ValueError) as error:
        return 126, f"cannot start the command: {error}"


def build_environment(task: Task, run: int, gpus: "list[str]") -> "dict[str, str]":
    """Our own environment, the task's, and where the command finds itself."""
    env = dict(os.environ)
    if gpus:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    env.update({str(k): str(v) for k, v in task.fields.get("env", {}).items()})
    env["AUTOEXP_SESSION"] = str(task.fields.get("session", ""))
    env["AUTOEXP_JOB"] = str(task.fields.get("job", ""))
    env["AUTOEXP_ATTEMPT"] = str(task.fields.get("attempt", ""))
    env["AUTOEXP_RUN"] = str(run)
    env["AUTOEXP_RESUME"] = "1" if run > 0 or task.fields.get("resume") else "0"
    env["AUTOEXP_OUTPUT_DIR"] = str(task.fields.get("output_dir", ""))
    env["AUTOEXP_ATTEMPT_DIR"] = task.attempt_dir
    return env


def oom_kills() -> "int | None":
    """Processes killed for memory in our cgroup, or Slurm job; None: not told."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
        places = {controllers: path for _, controllers, path in lines}
        if "memory" not in places:
            home = job_cgroup("/sys/fs/cgroup" + places[""])
            return _read_oom_count(os.path.join(home, "memory.events"))
        # Version 1 counts in the killed process's own cgroup alone.
        path = "/sys/fs/cgroup/memory" + places["memory"]
        home = job_cgroup(path)
        groups = [path] if home == path else [place for place, _, _ in os.walk(home)]
        files = [os.path.join(one, "memory.oom_control") for one in groups]
        return sum(map(_read_oom_count, files))
    except (OSError, ValueError, KeyError):
        return None


def job_cgroup(path: str) -> str:
    """The cgroup of the whole Slurm job that `path` lies in, else `path`."""
    parts = path.split("/")
    jobs = [n for n, part in enumerate(parts) if part.startswith("job_")]
    return "/".join(parts[: jobs[0] + 1]) if jobs else path


def _read_oom_count(path: str) -> int:
    with open(path, encoding="utf-8") as file:
        return int(dict(line.split() for line in file)["oom_kill"])


class Guard:
    """The command's parent; alive until the exit record is safe."""

    def __init__(self, task: Task, run: int, control: int, report: int) -> None:
        self.task = task
        self.run = run
        self.control = control
        self.report = report
        self.command = 0
        self.go = self.fault = -1
        """Where the command is given the word, and says why it could not start."""
        self.ended: Record = {}
        self.orphaned = False
        """The supervisor is gone: its duties are ours."""
        self.begun = False

    def watch(self, env: "dict[str, str]", log: int) -> None:
        """Start the command (it waits for the word) and see it through."""
        os.setsid()
        inherits = set_subreaper()
        for number in (signal.SIGTERM, *FORWARDED):
            signal.signal(number, signal.SIG_IGN)
        signals = Signals((signal.SIGCHLD,))
        self.command = self._start_command(env, log)
        self._send(pid=self.command)
        while not self.ended and not self.orphaned:
            if signals.wait(1.0, self.control):
                self._obey(os.read(self.control, 64))
            self._collect()
        polite = 0.0 if self.orphaned else POLITE_SECONDS
        left, last = end_descendants(polite, 0 if inherits else self.command)
        if not self.ended:
            self.ended = parse_status(last.get(self.command, signal.SIGKILL))
        self.ended["leftovers"] = left
        self._send(**self.ended)
        self._wait_for_ack(signals)

    def _start_command(self, env: "dict[str, str]", log: int) -> int:
        guard, go, ready, fault = os.getpid(), os.pipe(), os.pipe(), os.pipe()
        command = os.fork()
        if command == 0:
            os.close(go[1])
            run_command(self.task, env, (log, go[0], ready[1], fault[1]), guard)
        for handle in (go[0], ready[1], fault[1]):
            os.close(handle)
        self.go, self.fault = go[1], fault[0]
        os.read(ready[0], 1)  # until then it would not hear a signal to its group
        os.close(ready[0])
        return command

    def _send(self, **fields: "Any") -> None:
        with suppress(OSError):  # nobody listens: the next read of `control` says so
            os.write(self.report, (json.dumps(fields) + "\n").encode())

    def _obey(self, orders: bytes) -> None:
        self.orphaned = orders == b""
        for number in orders:
            if number == BEGUN:  # the command execs
                self.begun = True
                with suppress(OSError):
                    os.write(self.go, b"g")
                continue
            if number == signal.SIGKILL:
                kill_all(list_descendants(os.getpid()), signal.SIGKILL)
            kill_group(self.command, number)
            if number == signal.SIGTERM:  # a stopped process hears nothing
                kill_group(self.command, signal.SIGCONT)

    def _collect(self) -> None:
        for pid, status, max_rss in collect_children()[0]:
            if pid == self.command:
                self.ended = parse_status(status)
                note = os.read(self.fault, NOTE_BYTES).decode("utf-8", "replace")
                if note:
                    self.ended["note"] = note
                self._send(**self.ended, max_rss_kib=max_rss)

    def _wait_for_ack(self, signals: Signals) -> None:
        """Wait until the supervisor has the record; without one, write it."""
        self.task.release_slots()
        while not self.orphaned:
            if signals.wait(1.0, self.control):
                answer = os.read(self.control, 64)
                if ACK in answer:
                    return
                self.orphaned = answer == b""
        if self.begun or os.path.exists(self.task.path(f"begin.{self.run}.json")):
            ended = dict(self.ended, note="the supervisor died")
            write_exit(self.task, self.run, ended)


def parse_status(status: int) -> "Record":
    if os.WIFSIGNALED(status):
        return {"exit_code": None, "signal": os.WTERMSIG(status)}
    return {"exit_code": os.WEXITSTATUS(status), "signal": None}


def kill_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def kill_all(pids: "list[int]", number: int) -> None:
    """Signal processes; those that are gone are no error."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def list_descendants(root: int) -> "list[int]":
    children: dict[int, list[int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        fields = _read_stat(int(name)) if name.isdigit() else None
        if fields is not None and fields[0] not in ("Z", "X"):
            children.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    todo = [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def collect_children() -> "tuple[list[tuple[int, int, int]], bool]":
    """Children that ended (pid, wait status, max RSS in KiB); whether any is left."""
    ended: list[tuple[int, int, int]] = []
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended.append((pid, status, int(usage.ru_maxrss)))


def end_descendants(polite_seconds: float, group: int) -> "tuple[int, dict[int, int]]":
    """End all that descends from us: how many at first, and pid -> wait status.

    `group` is signalled too where the kernel hands no orphans to us; 0: it does.
    """
    if group:
        kill_group(group, signal.SIGKILL)
    statuses: dict[int, int] = {}
    first: int | None = None
    started = time.monotonic()
    while True:
        ended, some_left = collect_children()
        statuses.update({pid: status for pid, status, _ in ended})
        elapsed = time.monotonic() - started
        if not some_left or elapsed > SWEEP_SECONDS:
            return first or 0, statuses
        if first is None or elapsed >= polite_seconds:
            left = list_descendants(os.getpid())
            polite = elapsed < polite_seconds
            kill_all(left, signal.SIGTERM if polite else signal.SIGKILL)
            first = len(left) if first is None else first
        time.sleep(0.01)


class Child:
    """The supervisor's side of the guard and the command."""

    def __init__(self, guard: int, control: int, report: int) -> None:
        self.guard = guard
        self.control = control
        self.report = report
        self.told: Record = {}
        """All that the guard said: `pid`; later how the command ended; at last
        `leftovers`, when every process of it is gone."""
        self._text = b""

    @property
    def command(self) -> int:
        """The command's pid, process group and session; 0: it was never made."""
        return int(self.told.get("pid", 0))

    def send(self, number: int) -> None:
        with suppress(OSError):  # a dead guard: the end of its report says so
            os.write(self.control, bytes([number]))

    def read_report(self) -> bool:
        """Take in what the guard says next; False when it is gone."""
        data = os.read(self.report, 4096)
        lines = (self._text + data).split(b"\n")
        self._text = lines.pop()
        for line in lines:
            self.told.update(json.loads(line.decode()))
        return data != b""


def start_guard(task: Task, run: int, gpus: "list[str]", log: int) -> Child:
    """Fork the guard; the command waits until it is told that the run has begun.

    Forked, not started afresh: we have a single thread here, and the guard shares our
    locks, so that a slot stays taken until the last process of it is gone.
    """
    control, report = os.pipe(), os.pipe()
    env = build_environment(task, run, gpus)
    guard = os.fork()
    if guard == 0:
        code = 70
        try:
            os.close(control[1])
            os.close(report[0])
            Guard(task, run, control[0], report[1]).watch(env, log)
            code = 0
        finally:
            if code:
                sys.excepthook(*sys.exc_info())
            os._exit(code)
    os.close(control[0])
    os.close(report[1])
    return Child(guard, control[1], report[0])


class Supervisor:
    """Sees one run through, from the claim to the exit record."""

    def __init__(self, task: Task, run: int, signals: Signals) -> None:
        self.task = task
        self.run = run
        self.signals = signals
        self.gpus: list[str] = []
        self.ending = ""
        """Why the run is being ended, once it is."""
        self.signalled = False
        """The command was, or may have been, signalled before it ended."""
        self.ended_at: float | None = None
        """When the end of the command was told; monotonic."""
        self.log_start = 0
        """Bytes that were in the log before this run."""
        self.kill_at: float | None = None
        self.killed_at: float | None = None
        """When the guard was first asked to kill; monotonic."""
        self.kept: list[Kept] = []
        self.restored: list[str] = []
        """Names of records that were put back, each time anew."""
        self.oom_kills = oom_kills()
        self.look_at = 0.0
        """When to look for the cancel file next; monotonic."""
        self.limit_at: float | None = None

    def start(self) -> "Child | None":
        """Wait for a slot and begin the run; None when it is not to begin."""
        if not self._take_slots():
            return None
        opened: list[int] = []
        error = self._repeat(lambda: opened.append(open_log(self.task)))
        if error is not None:
            where = "slurm.log_dir says where logs go"
            self._write_void("failed", f"cannot open the log: {error}; {where}")
            return None
        log = opened[0]
        self.log_start = os.fstat(log).st_size
        child = start_guard(self.task, self.run, self.gpus, log)
        os.close(log)
        while not child.command and child.read_report():
            pass
        return child if self._write_begin(child) else None

    def _take_slots(self) -> bool:
        try:
            held = wait_for_slots(self.task, self._stop_waiting)
        except OSError as error:
            self._write_void("failed", f"cannot take a slot: {error}")
            return False
        if held is None or self._stop_waiting(0.0):
            self._write_void("cancelled", self.ending)
            return False
        self.task.held, self.gpus = held
        return True

    def _stop_waiting(self, seconds: float) -> bool:
        self.signals.wait(seconds)
        if signal.SIGTERM in self.signals.take():
            self.ending = "signal 15"
        elif self.task.is_cancelled():
            self.ending = "cancel file"
        return bool(self.ending)

    def _write_void(self, why: str, message: str) -> None:
        record = {"v": 1, "why": why, "message": message, "at": time.time()}
        record["executor_id"] = self.task.executor_id
        log_line(f"the run does not begin: {why}: {message}")
        self._repeat(lambda: write_record(self.task.attempt_dir, "void.json", record))

    def _repeat(self, what: "Callable[[], Any]") -> "OSError | None":
        # whoever asks us to end kills us half a minute later
        return repeat(
            what,
            self.task.patience_seconds,
            lambda: signal.SIGTERM in self.signals.caught,
        )

    def _write_begin(self, child: Child) -> bool:
        record = {
            "v": 1,
            "run": self.run,
            "restarts": count_restarts(),
            "began_at": time.time(),
            "executor_id": self.task.executor_id,
            "node": os.environ.get("SLURMD_NODENAME", ""),
            "partition": os.environ.get("SLURM_JOB_PARTITION", ""),
            "process": get_identity(),
            "log_path": self.task.log_path,
            "log_start": self.log_start,
            "guard_pid": child.guard,
            "command_pid": child.command,
            "command_started": str(read_pid_start(child.command) or ""),
            "gpus": self.gpus,
            "nonce": self.task.run_nonce,
            "exit_copy": self.task.exit_copy,
        }
        name = f"begin.{self.run}.json"
        error = self._repeat(lambda: write_new(self.task.attempt_dir, name, record))
        if error is None:
            set_room_aside(self.task)
            claimed = read_record(self.task.path("claim"))
            self.kept = [Kept(self.task.path(name), record)]
            if claimed is not None:
                self.kept.append(Kept(self.task.path("claim"), claimed))
            return True
        os.close(child.control)
        if isinstance(error, FileExistsError):
            self.ending = f"another start has begun run {self.run}"
            log_line(self.ending)
            name = f"duplicate.{clean_name(self.task.executor_id)}.json"
            self._repeat(lambda: write_record(self.task.attempt_dir, name, record))
        else:
            self._write_void("failed", f"cannot write the begin record: {error}")
        return False

    def watch(self, child: Child) -> "Record":
        """Let the command run; its end as an exit record's fields."""
        update_current_log(self.task)
        if self.task.time_limit_seconds:
            self.limit_at = time.monotonic() + float(self.task.time_limit_seconds)
        child.send(BEGUN)
        while "leftovers" not in child.told:
            self._check(child)
            times = [self.look_at, self.kill_at, self.limit_at]
            pause = min(t for t in times if t is not None) - time.monotonic()
            if self.signals.wait(pause, child.report) and not child.read_report():
                self._replace_guard(child)
            if self.ended_at is None and "signal" in child.told:
                self.ended_at = time.monotonic()
        # Those of a job's end may come to us after the command has ended by them.
        known = self.ending or self.signals.caught
        if get_slurm_id() and self.ended_at and not known:
            self.signals.wait(self.ended_at + STROKE_SECONDS - time.monotonic())
        if self.signals.take():
            self._note_signal()
        self._restore_records()
        ended = {key: child.told[key] for key in child.told if key != "pid"}
        ended.update(asked=bool(self.ending) or self.signalled)
        return dict(ended, oom_kills=self._new_oom_kills())

    def _new_oom_kills(self) -> "int | None":
        now = oom_kills()
        if now is None or self.oom_kills is None:
            return None
        return max(0, now - self.oom_kills)

    def _check(self, child: Child) -> None:
        for number in self.signals.take():
            self._note_signal()
            if number == signal.SIGTERM:
                self._end(child, "signal 15")
            else:
                child.send(number)
        now = time.monotonic()
        if now >= self.look_at:
            self.look_at = now + self.task.cancel_poll_seconds
            if self.task.is_cancelled():
                self._end(child, "cancel file")
            if os.path.exists(self.task.path(f"begin.{self.run + 1}.json")):
                self._end(child, "a further run has begun")
            self._restore_records()
        if self.limit_at is not None and now >= self.limit_at:
            self.limit_at = None
            self._end(child, "time limit")
        if self.kill_at is not None and now >= self.kill_at:
            self.kill_at = now + 1.0
            self._kill(child, now)

    def _kill(self, child: Child, now: float) -> None:
        """Have the guard kill; one that is held by force is killed itself."""
        self.killed_at = self.killed_at or now
        kill_all([child.guard], signal.SIGCONT)
        child.send(signal.SIGKILL)
        fields = _read_stat(child.guard)
        stopped = fields is not None and fields[0] in ("T", "t")
        if now >= self.killed_at + SWEEP_SECONDS and stopped:
            kill_all([child.guard], signal.SIGKILL)

    def _restore_records(self) -> None:
        """Put right what the command, or anybody, did to the records of this run."""
        for kept in self.kept:
            if kept.is_altered():
                self._put_right(kept.path, kept.restore)
        forged = self.task.path(f"exit.{self.run}.json")
        if os.path.lexists(forged):
            self._put_right(forged, lambda: None)

    def _put_right(self, path: str, restore: "Callable[[], None]") -> None:
        directory, name = os.path.split(path)
        if len(self.restored) >= MOST_RESTORED:
            return
        self.restored.append(name)
        log_line(f"{name} was removed, changed or forged: put right")
        try:
            # What bears its name, be it a directory or a pipe, is moved out of the way.
            aside = os.path.join(directory, f".aside.{time.time()}.{name}")
            with suppress(FileNotFoundError):
                os.rename(path, aside)
            restore()
        except OSError as error:
            log_line(f"cannot put {name} right: {error}")

    def _note_signal(self) -> None:
        """Whether the command may have heard it, from us or from whoever sent it."""
        ended = self.ended_at
        if ended is None or time.monotonic() < ended + STROKE_SECONDS:
            self.signalled = True

    def _end(self, child: Child, why: str) -> None:
        if not self.ending and "signal" not in child.told:
            self.ending = why
            self.kill_at = time.monotonic() + self.task.grace_seconds
            kill_all([child.guard], signal.SIGCONT)  # a stopped one hears nothing
            child.send(signal.SIGTERM)

    def _replace_guard(self, child: Child) -> None:
        """The guard was killed: the command died with it, its orphans are ours."""
        log_line("the guard died; ending what is left")
        left, statuses = end_descendants(0.0, 0 if PRCTL is not None else child.command)
        if "signal" not in child.told:
            status = statuses.get(child.command, signal.SIGKILL)
            child.told.update(parse_status(status))
        child.told.update(leftovers=left, note="the guard died")

    def record_end(self, child: Child, ended: "Record") -> int:
        """Write the exit record; our own exit status mirrors the command's."""
        more: Record = {"ending": self.ending}
        if self.restored:
            more["restored"] = sorted(set(self.restored))
        write_exit(self.task, self.run, dict(ended, **more))
        child.send(ACK)
        if ended["exit_code"] is None:
            return 128 + int(ended["signal"])
        return int(ended["exit_code"])


def write_exit(task: Task, run: int, ended: "Record") -> None:
    """Write `exit.<run>.json`, whenever the disk lets us; meanwhile leave a copy."""
    record = dict(ended, v=1, run=run, ended_at=time.time(), nonce=task.run_nonce)
    record["timed_out"] = ended.get("ending") == "time limit"
    gone_on = min(task.copy_seconds, task.record_patience)
    if repeat(lambda: write_exit_file(task, run, record), gone_on) is None:
        return
    copied = write_copy(task, record)
    task.release_slots()
    rest = task.record_patience - gone_on
    vain = repeat(
        lambda: write_exit_file(task, run, record),
        rest,
        lambda: is_removed(task) or (copied and task.is_cancelled()),
    )
    if vain is None and copied:
        with suppress(OSError):
            os.unlink(task.exit_copy)


def write_copy(task: Task, record: "Record") -> bool:
    """Leave an exit record by the output, where a reader looks next; whether it is."""
    if not task.exit_copy:
        return False
    try:
        directory, name = os.path.split(task.exit_copy)
        make_shared(directory, task.log_mode)
        write_record(directory, name, record)
    except OSError as error:
        log_line(f"no copy of the exit record: {error}")
        return False
    return True


def is_removed(task: Task) -> bool:
    """Whether the attempt was removed for good: nobody will look for its end.

    An absent file system looks the same, so the claim, which we hold open, is asked.
    """
    if os.path.exists(task.attempt_dir):
        return False
    try:
        return all(os.fstat(handle).st_nlink == 0 for handle in LOCKED)
    except OSError as error:
        return error.errno == errno.ESTALE


def get_session(attempt_dir: str) -> str:
    """The directory of the session: above `attempts/JOB/N`."""
    return os.path.dirname(os.path.dirname(os.path.dirname(attempt_dir)))


class Kept:
    """A record of ours as we wrote it, should somebody remove or change it."""

    def __init__(self, path: str, record: "Record") -> None:
        self.path = path
        self.record = record
        self.seen: tuple[int, int, int] | None = None
        """Inode, size and age of the file when it was last found to be ours."""

    def is_altered(self) -> bool:
        """Whether it is gone or changed; False while the disk is away."""
        try:
            found = os.stat(self.path)
        except OSError as error:
            return error.errno == errno.ENOENT
        seen = found.st_ino, found.st_size, found.st_mtime_ns
        plain_file = stat.S_ISREG(found.st_mode) and found.st_size <= MOST_RECORD_BYTES
        if not plain_file:
            return True
        if seen != self.seen and read_record(self.path) != self.record:
            return True
        self.seen = seen
        return False

    def restore(self) -> None:
        """Write it over what is there, locked as it was; raises OSError."""
        directory, name = os.path.split(self.path)
        if os.path.isdir(get_session(directory)):  # else its file system is away
            os.makedirs(directory, 0o700, exist_ok=True)
        temporary = temporary_name(directory, name)
        _write_synced(temporary, self.record)
        lock_for_life(temporary)
        os.rename(temporary, self.path)


def write_exit_file(task: Task, run: int, record: "Record") -> None:
    """Write the exit record; on a full disk, into the room that was set aside."""
    name, room = f"exit.{run}.json", task.path(ROOM)
    try:
        write_record(task.attempt_dir, name, record)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        # Without asking for a block or a name more.
        with open(room, "r+b") as file:
            file.write(json.dumps(record).encode().ljust(ROOM_BYTES))
            os.fsync(file.fileno())
        os.rename(room, task.path(name))
        sync_directory(task.attempt_dir)
    else:
        with suppress(OSError):
            os.unlink(room)


def set_room_aside(task: Task) -> None:
    """Take the exit record's blocks now, while there are some."""
    # without it the record may have to wait for room
    with suppress(OSError), open(task.path(ROOM), "wb", opener=open_private) as file:
        file.write(b" " * ROOM_BYTES)
        os.fsync(file.fileno())


def open_log(task: Task) -> int:
    make_shared(task.log_dir, task.log_mode)
    if task.log_home:  # the file that the queue writes: its last words belong to it
        make_shared(task.log_home, task.log_mode)
        with suppress(FileExistsError):  # by an earlier run
            os.symlink(os.path.join(task.log_home, task.log_name), task.log_path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    log = os.open(task.log_path, flags, task.log_mode)
    # A queue makes its logs as the umask says, which is the user's own.
    with suppress(OSError):
        os.fchmod(log, task.log_mode)
    return log


def make_shared(path: str, file_mode: int) -> None:
    """Make a directory and those above it, for whom files of that mode are for."""
    if os.path.isdir(path or os.curdir):
        return
    make_shared(os.path.dirname(path), file_mode)
    for_group = 0o2000 if file_mode & 0o070 else 0
    mode = file_mode | (file_mode & 0o444) >> 2 | for_group
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
        os.chmod(path, mode)  # a umask has no say in it


def update_current_log(task: Task) -> None:
    """Have `current.log` name this run's log, in one step."""
    temporary = os.path.join(task.log_dir, f".current.{os.getpid()}.tmp")
    try:
        os.symlink(os.path.basename(task.log_path), temporary)
        os.replace(temporary, os.path.join(task.log_dir, "current.log"))
    except OSError as error:  # the begin record still names the log
        log_line(f"no current.log: {error}")


QUERY = "index,utilization.gpu,memory.used,memory.total,power.draw,temperature.gpu"
FIELDS = ("index", "util_percent", "used_mib", "total_mib", "watts", "celsius")


class Sampler:
    """Samples the GPUs beside a run, if this machine has any; never disturbs it."""

    def __init__(self, task: Task, gpus: "list[str]") -> None:
        self.task = task
        self.tool: Any = None
        """The running nvidia-smi."""
        paths = [os.path.join(one, "nvidia-smi") for one in os.get_exec_path()]
        tools = [
            one for one in paths if os.access(one, os.X_OK) and os.path.isfile(one)
        ]
        chosen = gpus or list_gpus()
        self.arguments = [*tools[:1], f"--query-gpu={QUERY}"]
        self.arguments += ["--format=csv,noheader,nounits"]
        self.arguments += ["--id=" + ",".join(chosen)] if chosen else []
        if tools and task.gpu_seconds > 0 and chosen != []:
            import threading  # most starts are spared the import

            threading.Thread(target=self._run_samples, daemon=True).start()

    def stop(self) -> None:
        if self.tool is not None:
            with suppress(OSError):
                self.tool.kill()

    def _run_samples(self) -> None:
        failures = 0
        while failures < MOST_SAMPLE_FAILURES:
            failures = 0 if self._take_sample() else failures + 1
            time.sleep(self.task.gpu_seconds)

    def _take_sample(self) -> bool:
        import subprocess

        null, pipe = subprocess.DEVNULL, subprocess.PIPE
        try:
            self.tool = subprocess.Popen(
                self.arguments, stdin=null, stdout=pipe, stderr=null
            )
            text, _ = self.tool.communicate(timeout=10)
            if self.tool.returncode != 0:
                return False
            rows = text.decode("utf-8", "replace").splitlines()
            gpus = [
                dict(zip(FIELDS, map(number, row.split(","))))  # noqa: B905 (3.10)
                for row in rows
                if row.strip()
            ]
            path = self.task.path("gpu.jsonl")
            with open(path, "a", encoding="utf-8", opener=open_private) as file:
                file.write(json.dumps({"t": time.time(), "gpus": gpus}) + "\n")
        except (OSError, subprocess.SubprocessError):
            self.stop()
            return False
        return True


def list_gpus() -> "list[str] | None":
    """The GPUs that a queue gave us, as nvidia-smi takes them; None: any."""
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return None
    words = [word.strip() for word in text.split(",") if word.strip()]
    if any(word.startswith("MIG") for word in words):
        return None  # parts of GPUs have no samples of their own
    return [word for word in words if word.isdigit() or word.startswith("GPU-")]


def number(text: str) -> "float | None":
    try:
        return float(text)
    except ValueError:
        return None


class Starter:
    """Tells a local executor, over our first stdout, what came of the start."""

    listening = False

    def send(self, **fields: "Any") -> None:
        """Say it once and let go of the pipe."""
        if not self.listening:
            return
        self.listening = False
        with suppress(OSError):  # the engine died meanwhile; the claim tells the next
            os.write(1, (json.dumps(fields) + "\n").encode())
        os.dup2(2, 1)


def main(arguments: "list[str]") -> int:
    """Run the task named last; `--detach` first leaves the process that started us."""
    signals = Signals((signal.SIGTERM, *FORWARDED))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closed terminal ends no job
    if not arguments:
        sys.stderr.write(f"usage: {sys.argv[0]} [--detach] TASK.json\n")
        return EX_USAGE
    starter = Starter()
    if arguments[0] == "--detach":
        if os.fork() > 0:  # only the child goes on, and init will reap it
            os._exit(0)
        starter.listening = True
    set_subreaper()
    try:
        task = find_task(arguments[-1], 0.0 if starter.listening else FIND_SECONDS)
        return run_task(task, signals, starter)
    except (OSError, ValueError, KeyError, TypeError) as error:
        log_line(f"cannot run {arguments[-1]}: {error!r}")
        number = getattr(error, "errno", None)
        starter.send(state="failed", message=str(error) or repr(error), errno=number)
        return EX_IOERR


def find_task(path: str, seconds: float) -> Task:
    """The task in a file that this machine may not see yet."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return load_task(path)
        except OSError as error:
            passing = error.errno in (errno.ENOENT, errno.ESTALE, errno.EIO)
            if not passing or time.monotonic() >= deadline:
                raise
            log_line(f"cannot read the task yet: {error}")
            time.sleep(0.5)


def load_task(path: str) -> Task:
    with open(path, encoding="utf-8") as file:
        return Task(json.load(file))


def run_task(task: Task, signals: Signals, starter: Starter) -> int:
    claimed: list[int | None] = []
    patience = 0.0 if starter.listening else task.patience_seconds
    error = repeat(lambda: claimed.append(take_claim(task)), patience)
    if error is not None:
        raise error
    run = claimed[0]
    if run is None:
        starter.send(state="duplicate")
        return 0
    starter.send(state="claimed")
    supervisor = Supervisor(task, run, signals)
    child = supervisor.start()
    if child is None:
        return 0 if supervisor.ending else EX_IOERR
    sampler = Sampler(task, supervisor.gpus)
    try:
        return supervisor.record_end(child, supervisor.watch(child))
    finally:
        sampler.stop()


if __name__ == "__main__":
    status = main(sys.argv[1:])
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(status)  # nothing here is worth taking apart
