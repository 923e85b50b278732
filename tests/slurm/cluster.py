"""A throw-away Slurm cluster: several nodes on one host, in one directory.

A `Cluster` belongs to the process that made it and is gone with it, however that ends.
It brings a real Slurm up, breaks parts of it on purpose, and puts it back in order.
It judges nothing: what Slurm should do is said by the tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGKILL
from types import TracebackType
from typing import Self

from tests.slurm import settings as conf
from tests.slurm.daemons import (
    ClusterError,
    Daemons,
    answers,
    reserve_ports,
    user_name,
)
from tests.slurm.keeper import KEEPER
from tests.slurm.processes import descendants_of, kill_steps, remove_cgroups, steps_of
from tests.slurm.programs import (
    SEARCH_PATH,
    host_address,
    host_name,
    plugin_folder,
    program,
    why_no_cluster,
    why_no_memory_limits,
)
from tests.slurm.settings import Place, Settings
from tests.slurm.shims import script

START_SECONDS = 180.0
"""For a daemon to answer: beside a load of 20 it takes many times as long as alone."""
_LONGEST_HOME = 60
"""Characters; a Unix socket's path, a step's in the spool included, ends at 107."""
_FOLDERS = ("etc", "log", "pid", "state", "munge", "dev", "shims")
_CALLER_S_OWN = re.compile(
    r"S(LURM|BATCH|QUEUE|CANCEL|ACCT|INFO|RUN|ALLOC|CONTROL|PRIO)"
)
"""Variables that would change what a command does."""


class Cluster:
    """One cluster in one directory, which is short, its own, and removed at the end."""

    def __init__(self, settings: Settings | None = None, home: Path | None = None):
        self.settings = settings or Settings()
        self.home = home or Path(tempfile.mkdtemp(prefix="autoexp-slurm-", dir="/tmp"))
        self._daemons = Daemons(self.home)
        self._first_port = 0

    def __enter__(self) -> Self:
        """Starts it; one that fails on a machine that can have it is tried again."""
        try:
            self.up()
        except ClusterError:
            if self._why_not():
                raise
            self.up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    def up(self) -> None:
        """Starts everything and waits until all nodes are idle; raises ClusterError."""
        if reason := self._why_not():
            raise ClusterError(reason)
        self._make_folders()
        self._first_port, token = reserve_ports(
            host_address() or "", conf.ports_needed(self.settings)
        )
        try:
            with token:
                self._write_configuration()
                self._daemons.open(self._cgroups, token)
            self._start_all()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Ends everything that was started here, jobs included, and nothing else."""
        self._daemons.close()
        remove_cgroups(self._cgroups)
        shutil.rmtree(self.home, ignore_errors=True)

    def clear(self) -> None:
        """Starts what was stopped, cancels all jobs, and waits for idle nodes."""
        self.dbd_start()
        self.ctld_start()
        for name in self.settings.node_names:
            self.node_start(name)
        for shim in (self.home / "shims").iterdir():
            shim.unlink()
        self._daemons.until("empty queue and idle nodes", self._is_clear, 180.0, [])

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
        shown = self.run(
            "squeue", "-h", "-t", "all", "-j", job, "-o", "%T", check=False
        )
        return shown.stdout.partition("\n")[0].strip()

    def wait_for_state(self, job: str, *states: str, patience_s: float = 60.0) -> str:
        """Waits until a job is in one of `states`; which one.

        Raises:
            ClusterError: It was not within `patience_s`.
        """
        seen: list[str] = []

        def is_there() -> bool:
            seen.append(self.state_of(job))
            return seen[-1] in states

        try:
            self._daemons.until("such state", is_there, patience_s, [])
        except ClusterError:
            raise ClusterError(f"job {job} is {seen[-1]}, not {states}") from None
        return seen[-1]

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
        self._daemons.until(
            "saved state", lambda: token.encode() in saved.read_bytes(), 30.0, []
        )

    @contextmanager
    def shim(self, name: str, body: str) -> Iterator[None]:
        """Puts a fake command before the real one, also for an `env` taken earlier.

        Args:
            name: A command, such as sbatch.
            body: A shell script, see `tests.slurm.shims`.
        """
        path = self.home / "shims" / name
        path.with_suffix(".new").write_text(script(program(name) or name, body))
        path.with_suffix(".new").chmod(0o755)
        path.with_suffix(".new").replace(path)
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

    def node_stop(self, name: str, *, with_steps: bool = False) -> None:
        """Kills a node's daemon; with its steps, the whole node is gone."""
        self._daemons.stop(f"slurmd.{name}", hard=True)
        if with_steps:
            kill_steps(self.home / "spool" / name)

    def node_start(self, name: str) -> None:
        (self.home / "spool" / name).mkdir(parents=True, exist_ok=True)
        self._start(f"slurmd.{name}", "slurmd", "-D", "-N", name)

    def ctld_stop(self, *, hard: bool = False) -> None:
        """Ends the controller: told to, so that it saves its state, or killed."""
        self._daemons.stop("slurmctld", hard=hard)

    def ctld_start(self) -> None:
        """Starts the controller and waits until it answers."""
        self._start("slurmctld", "slurmctld", "-D")
        self._daemons.until(
            "controller", self._controller_is_up, START_SECONDS, ["slurmctld"]
        )

    def ctld_restart(self, *, hard: bool = False) -> None:
        self.ctld_stop(hard=hard)
        self.ctld_start()

    def dbd_stop(self, *, hard: bool = False) -> None:
        self._daemons.stop("slurmdbd", hard=hard)

    def dbd_start(self) -> None:
        """Starts the accounting daemon, where there is one, and waits for its port."""
        if not self.settings.accounting:
            return
        place = self._place()
        address = (place.address, place.accounting_port)
        for last in (False, False, True):
            self._start("slurmdbd", "slurmdbd", "-D")
            try:
                self._daemons.until(
                    "slurmdbd", lambda: answers(address), START_SECONDS, ["slurmdbd"]
                )
            except ClusterError:  # beside a fresh database it ends now and then
                if last or self._daemons.is_alive("slurmdbd"):
                    raise
                time.sleep(1.0)
            else:
                return

    def _why_not(self) -> str | None:
        if len(str(self.home)) > _LONGEST_HOME:
            return f"{self.home} is too long for the sockets in it"
        if self._daemons.is_alive(KEEPER):
            return f"a cluster runs in {self.home} already"
        if self.home.exists() and any(self.home.iterdir()):
            return f"{self.home} holds files that are no cluster's"
        if reason := why_no_cluster(accounting=self.settings.accounting):
            return reason
        return why_no_memory_limits() if self.settings.memory_limits else None

    def _make_folders(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)
        for folder in _FOLDERS:
            (self.home / folder).mkdir(parents=True)
        # The munge daemon wants a way to its socket that everybody may go.
        self.home.chmod(0o755)

    def _write_configuration(self) -> None:
        settings, place, etc = self.settings, self._place(), self.home / "etc"
        for i in range(settings.gpus):
            # Devices must be devices; which ones does not matter, nobody opens them.
            (self.home / "dev" / f"gpu{i}").symlink_to(os.devnull)
        _write_secret(etc / "munge.key", os.urandom(128))
        _write_secret(etc / "slurmdbd.conf", conf.slurmdbd_conf(place).encode())
        (etc / "slurm.conf").write_text(conf.slurm_conf(settings, place))
        place.prolog.write_text(conf.prolog_script(place))
        place.prolog.chmod(0o755)
        (etc / "gres.conf").write_text(conf.gres_conf(settings, place))
        (etc / "cgroup.conf").write_text(conf.cgroup_conf(settings))
        (etc / "database.cnf").write_text(conf.database_conf(place))
        (etc / "database.sql").write_text(conf.DATABASE_SQL)

    def _place(self) -> Place:
        plugins, address = plugin_folder(), host_address()
        if plugins is None or address is None:
            raise ClusterError(why_no_cluster() or "no place for a cluster")
        return Place(
            home=self.home,
            host=host_name(),
            address=address,
            user=user_name(),
            plugins=plugins,
            first_port=self._first_port,
        )

    def _start_all(self) -> None:
        self._start_munge()
        for name in self.settings.node_names:
            self.node_start(name)
        if self.settings.accounting:
            self._start_database()
            self.dbd_start()
        self.ctld_start()
        self._daemons.until(
            "idle nodes", self._all_idle, START_SECONDS, self._daemons.status()
        )

    def _start_munge(self) -> None:
        folder, etc = self.home / "munge", self.home / "etc"
        paths = {
            "socket": self._place().munge_socket,
            "pid-file": folder / "pid",
            "key-file": etc / "munge.key",
            "seed-file": folder / "seed",
        }
        options = [f"--{option}={path}" for option, path in paths.items()]
        self._start("munged", "munged", "--foreground", "--force", *options)
        self._daemons.until(
            "munged", lambda: answers(paths["socket"]), START_SECONDS, ["munged"]
        )

    def _start_database(self) -> None:
        options = f"--defaults-file={self.home}/etc/database.cnf"
        try:
            self._install_database(options)
        except ClusterError:  # on a loaded machine it fails now and then: afresh, once
            shutil.rmtree(self.home / "db", ignore_errors=True)
            (self.home / "db").mkdir()
            self._install_database(options)
        self._start("mariadbd", "mariadbd", options)
        address = ("127.0.0.1", self._place().database_port)
        self._daemons.until(
            "database", lambda: answers(address), START_SECONDS, ["mariadbd"]
        )

    def _install_database(self, options: str) -> None:
        self.run(
            "mariadb-install-db",
            options,
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            timeout_s=2 * START_SECONDS,
        )

    def _start(self, name: str, *argv: str) -> None:
        env = {
            "PATH": SEARCH_PATH,
            "SLURM_CONF": str(self.home / "etc" / "slurm.conf"),
            "LC_ALL": "C",
            "TZ": "UTC",
        }
        self._daemons.start(name, list(argv), env)

    @property
    def _cgroups(self) -> tuple[str, ...]:
        """Names that Slurm gives to the cgroups of our nodes; without limits, none."""
        names = self.settings.node_names if self.settings.memory_limits else ()
        return tuple(f"slurm_{name}" for name in names)

    def _controller_is_up(self) -> bool:
        ping = self.run("scontrol", "ping", check=False)
        return ping.stdout.strip().endswith("UP")

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
        self._resume_nodes()
        return self._all_idle()

    def _cancel_all(self, states: set[str]) -> None:
        mine = ("scancel", "--quiet", "-u", user_name())
        if "RUNNING" in states:
            self.run(*mine, "--signal=KILL", "--full", "--state=RUNNING", check=False)
        self.run(*mine, check=False)
        if "COMPLETING" in states:
            self._kill_jobs()

    def _kill_jobs(self) -> None:
        """Kills what runs in steps, which would else be waited for as by `KillWait`."""
        for name in self.settings.node_names:
            for pid in descendants_of(*steps_of(self.home / "spool" / name)):
                with suppress(ProcessLookupError):
                    os.kill(pid, SIGKILL)

    def _resume_nodes(self) -> None:
        for name, state in self._node_states().items():
            if state.startswith(("down", "drain", "drng")):
                update = ("scontrol", "update", f"nodename={name}", "state=resume")
                self.run(*update, check=False)


def _write_secret(path: Path, content: bytes) -> None:
    """Writes a file that its owner alone may read, as the daemons demand."""
    path.touch(0o600)
    path.write_bytes(content)
