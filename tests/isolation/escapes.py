"""Ways out, run inside the fence: `python escapes.py NAME BASE PID PORT`.

Each returns when it got through, and raises OSError when it was stopped (or `Held`).
The status is 0 for out, 3 for stopped; any other one is a mistake of the escape's own.
Standard library alone: it runs under whatever Python the user may run.
"""

import ctypes
import fcntl
import os
import resource
import shutil
import signal
import socket
import sys
from pathlib import Path

NAME, BASE, VICTIM, PORT = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:5])
OWN = BASE / "cand/e1"
KEY = BASE / "home/.ssh/key"
JOURNAL = BASE / "state/journal"


class Held(Exception):
    """Stopped, though no system call failed."""


# ------------------------------------------------------------------------------ reads
def read_key() -> None:
    KEY.read_text()


def read_hidden_data() -> None:
    (BASE / "hidden/data.csv").read_text()


def read_scorer() -> None:
    (BASE / "scorer/score.py").read_text()


def read_through_symlink() -> None:
    (OWN / "link").symlink_to(KEY)
    (OWN / "link").read_text()


def read_through_root_of_process() -> None:
    Path(f"/proc/{VICTIM}/root{KEY}").read_text()


def list_home() -> None:
    os.listdir(BASE / "home")


# ----------------------------------------------------------------------------- writes
def write_home() -> None:
    (BASE / "home/.bashrc").write_text("evil")


def write_state() -> None:
    JOURNAL.open("a").write("evil")


def write_other_worktree() -> None:
    (BASE / "cand/e2/solver.py").write_text("evil")


def write_through_symlink() -> None:
    (OWN / "link").symlink_to(JOURNAL)
    (OWN / "link").write_text("evil")


def write_through_hard_link() -> None:
    os.link(JOURNAL, OWN / "hard")
    (OWN / "hard").write_text("evil")


def write_login() -> None:
    (BASE / "login.json").open("r+").write("evil")


def empty_file() -> None:
    os.truncate(JOURNAL, 0)


def rename_out() -> None:
    (OWN / "mine").write_text("evil")
    (OWN / "mine").rename(BASE / "state/mine")


def rename_in() -> None:
    JOURNAL.rename(OWN / "stolen")


def move_own_directory() -> None:
    OWN.rename(BASE / "state/mine")


def remove_upwards() -> None:
    for place in ("state", "cand/e2", "home"):
        shutil.rmtree(BASE / place)


# ------------------------------------------------------------------------------ modes
def change_mode() -> None:
    KEY.chmod(0o777)


def change_time() -> None:
    os.utime(JOURNAL, (0, 0))


# ----------------------------------------------------------- other processes and theirs
def trace_process() -> None:
    call_libc("ptrace", 16, VICTIM, 0, 0)  # PTRACE_ATTACH


def read_environment_of_process() -> None:
    if b"SECRET" not in Path(f"/proc/{VICTIM}/environ").read_bytes():
        raise Held


def read_memory_of_process() -> None:
    open(f"/proc/{VICTIM}/mem", "rb").close()


def signal_process() -> None:
    os.kill(VICTIM, signal.SIGTERM)


def signal_everything() -> None:
    os.kill(VICTIM, 0)
    os.kill(-os.getpgid(VICTIM), signal.SIGTERM)


def leave_daemon() -> None:
    """It holds a lock for as long as it lives, and ends with whoever looks."""
    lock = os.open(OWN / "lock", os.O_RDWR | os.O_CREAT)
    held, told = os.pipe()
    if os.fork():
        os.close(told)
        os.read(held, 1)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    fcntl.flock(lock, fcntl.LOCK_EX)
    (OWN / "daemon").write_text(str(os.getpid()))
    os.write(told, b".")
    for handle in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), handle)
    while True:
        signal.pause()


# ---------------------------------------------------------------------------- network
def connect_tcp() -> None:
    socket.create_connection(("127.0.0.1", PORT), 5)


def listen_tcp() -> None:
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()


def ask_by_udp() -> None:
    asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asked.settimeout(2)
    asked.connect(("127.0.0.1", PORT))
    asked.send(b"?")
    asked.recv(1)


def connect_unix() -> None:
    socket.socket(socket.AF_UNIX).connect(str(BASE / "run/tmux"))


def connect_abstract() -> None:
    socket.socket(socket.AF_UNIX).connect(f"\0autoexp-{PORT}")


# ----------------------------------------------------------------------------- limits
def write_large_file() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    (OWN / "large").write_bytes(bytes(2 << 20))


def lift_limits() -> None:
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))
    except ValueError as error:
        raise Held from error


def open_many_files() -> None:
    for _ in range(100):
        os.open(os.devnull, os.O_RDONLY)


def call_libc(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = map(ctypes.c_long, arguments)
    if getattr(libc, name)(*words) == -1:
        raise OSError(ctypes.get_errno(), name)


if __name__ == "__main__":
    try:
        globals()[NAME]()
    except (OSError, Held) as error:
        print(f"{NAME}: {error!r}")
        sys.exit(3)
