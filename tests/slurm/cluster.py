"""A throw-away Slurm cluster: several nodes on one host, in one directory.

A `Cluster` belongs to the process that made it and is gone with it, however that ends.
It brings a real Slurm up, breaks parts of it on purpose, and puts it back in order.
It judges nothing: what Slurm should do is said by the tests.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import Self

from tests.slurm.daemons import (
    PREFIX,
    ClusterError,
    Daemons,
    answers,
    kill_marked,
    remove_leftovers,
    reserve_ports,
)
from tests.slurm.settings import (
    SEARCH_PATH,
    USER,
    Settings,
    find_program,
    host_address,
    why_no_cluster,
    why_no_memory_limits,
    write_files,
)

START_SECONDS = 180.0
"""For a daemon to answer: beside a load of 20 it takes many times as long as alone."""
_FOLDERS = ("etc", "log", "pid", "state", "munge", "dev", "shims")
_CALLER_S_OWN = re.compile(
    r"S(LURM|BATCH|QUEUE|CANCEL|ACCT|INFO|RUN|ALLOC|CONTROL|PRIO)"
)
"""Variables that would change what a command does."""


# Bodies of fake commands, which find the real program's path in `$REAL`. One that waits
# does so in its own process: a caller that kills it leaves nothing running.
HANGS = "exec sleep 60\n"


def fails(text: str) -> str:
    """Nothing is done: `text` on the error output, and exit code 1."""
    return f"printf '%s\\n' {quote(text)} >&2\nexit 1\n"


def counted(calls: Path) -> str:
    """The real command, after one line with its arguments was added to `calls`."""
    return (
        "line=$(printf '%s ' \"$@\" | tr '\\n' ' ')\n"
        f"printf '%s\\n' \"$line\" >> {quote(str(calls))}\n"
        'exec "$REAL" "$@"\n'
    )


class Cluster:
    """One cluster in one directory, which is short, its own, and removed at the end."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        # Short: a Unix socket's path, a step's in the spool included, ends at 107.
        name = f"{PREFIX}{os.getpid()}-"
        self.home = Path(tempfile.mkdtemp(prefix=name, dir="/tmp"))
        self._daemons = Daemons(self.home)
        self._port = 0
        self._token: socket.socket | None = None
        """Keeps other clusters off its ports."""

    def __enter__(self) -> Self:
        """Starts it; one that fails on a machine that can have it is tried again."""
        try:
            self.up()
        except ClusterError:
            if self._why_not():
                raise
            self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def up(self) -> None:
        """Starts everything and waits until all nodes are idle; raises ClusterError."""
        if reason := self._why_not():
            raise ClusterError(reason)
        shutil.rmtree(self.home, ignore_errors=True)
        for folder in _FOLDERS:
            (self.home / folder).mkdir(parents=True)
        # The munge daemon wants a way to its socket that everybody may go.
        self.home.chmod(0o755)
        remove_leftovers()
        address = host_address() or ""
        try:
            self._port, self._token = reserve_ports(address, self.settings.ports)
            write_files(self.settings, self.home, self._port)
            self._start_all()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Ends everything that was started here, jobs included, and nothing else."""
        self._daemons.end_all()
        if self._token is not None:
            self._token.close()
        self._remove_cgroups()
        shutil.rmtree(self.home, ignore_errors=True)

    def clear(self) -> None:
        """Starts what was stopped, cancels all jobs, and waits for idle nodes."""
        self.dbd_start()
        self.ctld_start()
        for name in self.settings.node_names:
            self.node_start(name)
        for shim in (self.home / "shims").iterdir():
            shim.unlink()
        self._until("empty queue and idle nodes", self._is_clear)

    @property
    def env(self) -> dict[str, str]:
        """The caller's environment for this cluster's commands, shims first."""
        own = {k: v for k, v in os.environ.items() if not _CALLER_S_OWN.match(k)}
        return own | {
            "SLURM_CONF": str(self.home / "etc" / "slurm.conf"),
            "PATH": f"{self.home}/shims:{SEARCH_PATH}",
            "TZ": "UTC",
        }

    def run(
        self, *argv: str, check: bool = True, timeout_s: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command of this cluster to its end.

        Raises:
            ClusterError: It failed, unless `check` is off.
            subprocess.TimeoutExpired: It took longer than `timeout_s`.
        """
        done = subprocess.run(
            argv,
            env=self.env,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check and done.returncode:
            said = f"{done.stderr.strip()}\n{done.stdout.strip()}"
            raise ClusterError(f"{argv}: rc {done.returncode}: {said}")
        return done

    def submit(self, command: str, *options: str) -> str:
        """Submits a shell command as a job without output; its id."""
        argv = ("sbatch", "--parsable", "--output=/dev/null", *options)
        return self.run(*argv, f"--wrap={command}").stdout.strip().split(";")[0]

    def state_of(self, job: str) -> str:
        """State as squeue shows it, ended jobs too; "" for one it does not know."""
        words = ("squeue", "-h", "-t", "all", "-j", job, "-o", "%T")
        return self.run(*words, check=False).stdout.partition("\n")[0].strip()

    def wait_for_state(self, job: str, state: str) -> None:
        """Waits until a job is in a state; raises ClusterError."""
        self._until(f"{state} of {job}", lambda: self.state_of(job) == state, 60.0)

    def expire(self, job: str) -> None:
        """Lets the time of a running job end in three seconds.

        The controller looks for such jobs every 30 seconds.
        """
        self.run("scontrol", "update", f"jobid={job}", "EndTime=now+3")

    def save(self, job: str) -> None:
        """Waits until the controller has written down what it knows of a job.

        It writes seconds after a change, of some only after the next one. Killed
        before, it has forgotten.
        """
        token = f"saved-{time.monotonic_ns()}"
        saved = self.home / "state" / "job_state"
        self.run("scontrol", "update", f"jobid={job}", f"AdminComment={token}")
        self._until("saved state", lambda: token.encode() in saved.read_bytes(), 30.0)

    @contextmanager
    def shim(self, name: str, body: str) -> Iterator[None]:
        """Puts a fake command before the real one, also for an `env` taken earlier."""
        path = self.home / "shims" / name
        new = path.with_suffix(".new")
        real = quote(find_program(name) or name)
        new.write_text(f"#!/bin/sh\nREAL={real}\n{body}")
        new.chmod(0o755)
        new.replace(path)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)

    @contextmanager
    def failing_prolog(self) -> Iterator[None]:
        """No node can launch a job meanwhile, or until `launch_again`.

        A node that failed to is drained: `scontrol update nodename=n1 state=resume`.
        """
        (self.home / "etc" / "fail-launches").touch()
        try:
            yield
        finally:
            self.launch_again()

    def launch_again(self) -> None:
        (self.home / "etc" / "fail-launches").unlink(missing_ok=True)

    def node_stop(self, name: str) -> None:
        """Kills a node's daemon and its steps: the whole node is gone."""
        self._daemons.stop(f"slurmd.{name}", hard=True)
        kill_marked(self.home, f"SLURMD_NODENAME={name}\0")

    def node_start(self, name: str) -> None:
        (self.home / "spool" / name).mkdir(parents=True, exist_ok=True)
        argv = ("slurmd", "-D", "-N", name)
        self._start(f"slurmd.{name}", *argv, SLURMD_NODENAME=name)

    def ctld_stop(self, *, hard: bool = False) -> None:
        """Ends the controller: told to, so that it saves its state, or killed."""
        self._daemons.stop("slurmctld", hard=hard)

    def ctld_start(self) -> None:
        """Starts the controller and waits until it answers."""
        self._start("slurmctld", "slurmctld", "-D")

        def is_up() -> bool:
            ping = self.run("scontrol", "ping", check=False)
            return ping.stdout.strip().endswith("UP")

        self._until("controller", is_up, needs=["slurmctld"])

    def dbd_start(self) -> None:
        """Starts the accounting daemon, where there is one, and waits for its port."""
        if not self.settings.accounting:
            return
        for last in (False, False, True):
            self._start("slurmdbd", "slurmdbd", "-D")
            try:
                self._until_answers("slurmdbd", (host_address() or "", self._port + 1))
            except ClusterError:  # beside a fresh database it ends now and then
                if last or self._daemons.is_alive("slurmdbd"):
                    raise
                time.sleep(1.0)
            else:
                return

    def _why_not(self) -> str | None:
        if reason := why_no_cluster(accounting=self.settings.accounting):
            return reason
        return why_no_memory_limits() if self.settings.memory_limits else None

    def _start_all(self) -> None:
        self._start_munge()
        for name in self.settings.node_names:
            self.node_start(name)
        if self.settings.accounting:
            self._start_database()
            self.dbd_start()
        self.ctld_start()
        self._until("idle nodes", self._all_idle, needs=self._daemons.names)

    def _start_munge(self) -> None:
        place = self.home / "munge"
        files = (f"--{name}-file={place}/{name}" for name in ("pid", "seed"))
        key = f"--key-file={self.home}/etc/munge.key"
        socket = f"--socket={place}/socket"
        self._start("munged", "munged", "--foreground", "--force", socket, key, *files)
        self._until_answers("munged", place / "socket")

    def _start_database(self) -> None:
        options = f"--defaults-file={self.home}/etc/database.cnf"
        no_tests = "--skip-test-db"
        normal = "--auth-root-authentication-method=normal"
        install = ("mariadb-install-db", options, normal, no_tests)
        try:
            self.run(*install, timeout_s=2 * START_SECONDS)
        except ClusterError:  # on a loaded machine it fails now and then: afresh, once
            shutil.rmtree(self.home / "db", ignore_errors=True)
            (self.home / "db").mkdir()
            self.run(*install, timeout_s=2 * START_SECONDS)
        self._start("mariadbd", "mariadbd", options)
        self._until_answers("mariadbd", ("127.0.0.1", self._port + 2))

    def _start(self, name: str, *argv: str, **more: str) -> None:
        conf = str(self.home / "etc" / "slurm.conf")
        env = {"PATH": SEARCH_PATH, "SLURM_CONF": conf, "LC_ALL": "C", "TZ": "UTC"}
        self._daemons.start(name, list(argv), env | more)

    def _until(
        self,
        what: str,
        is_so: Callable[[], bool],
        patience_s: float = START_SECONDS,
        needs: Iterable[str] = (),
    ) -> None:
        self._daemons.until(what, is_so, patience_s, needs)

    def _until_answers(self, name: str, address: Path | tuple[str, int]) -> None:
        self._until(name, lambda: answers(address), needs=[name])

    def _remove_cgroups(self) -> None:
        """Slurm makes one for each of our nodes where memory is limited."""
        for name in self.settings.node_names if self.settings.memory_limits else ():
            for top in Path("/sys/fs/cgroup").glob(f"*/slurm_{name}"):
                for folder, _, _ in os.walk(top, topdown=False):
                    with suppress(OSError):
                        os.rmdir(folder)

    def _node_states(self) -> dict[str, str]:
        shown = self.run("sinfo", "-h", "-N", "-p", "main", "-o", "%N %t", check=False)
        rows = (line.split() for line in shown.stdout.splitlines())
        return {row[0]: row[1] for row in rows if len(row) == 2}

    def _all_idle(self) -> bool:
        states = self._node_states()
        return all(states.get(name) == "idle" for name in self.settings.node_names)

    def _is_clear(self) -> bool:
        """Whether nothing is left; does one more round against what is."""
        queue = self.run("squeue", "-h", "-a", "-o", "%T", check=False)
        if queue.returncode:
            return False
        if states := set(queue.stdout.split()):
            self._cancel_all(states)
            return False
        for name, state in self._node_states().items():
            if state.startswith(("down", "drain", "drng")):
                update = ("scontrol", "update", f"nodename={name}", "state=resume")
                self.run(*update, check=False)
        return self._all_idle()

    def _cancel_all(self, states: set[str]) -> None:
        mine = ("scancel", "--quiet", "-u", USER)
        if "RUNNING" in states:
            self.run(*mine, "--signal=KILL", "--full", "--state=RUNNING", check=False)
        self.run(*mine, check=False)
        if "COMPLETING" in states:
            # What runs in steps would else be waited for as by `KillWait`.
            kill_marked(self.home, "SLURM_JOB_ID=")
