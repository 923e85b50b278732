"""autoexp-doctor: what is missing on this machine, and the command that mends it."""

from __future__ import annotations

import json
import locale
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final, Literal

from autoexp_tui.cli.diagnostics import ExitCode, make_entry
from autoexp_tui.cli.options import find_state_dir, parse_options
from autoexp_tui.executors.local.executor import find_slots_dir, get_usual_dir
from autoexp_tui.executors.slurm.commands import ClusterCommands, Commands
from autoexp_tui.executors.slurm.refusals import read_facts
from autoexp_tui.executors.slurm.text import extract_complaint
from autoexp_tui.isolation.kinds import REMEDY, choose_isolation, probe_isolation
from autoexp_tui.isolation.port import Isolation, Promise
from autoexp_tui.model.errors import AutoexpError, EnvironmentFailed
from autoexp_tui.probes.config_files import config_roots, find_config_dir
from autoexp_tui.text.spelling import duration

_MIN_FREE_BYTES: Final = 200 << 20
ASK_SECONDS: Final = 10.0
"""How long a command may take."""
_NEEDED: Final = ("sbatch", "squeue", "scancel", "scontrol")
_MODULE: Final = "Load the cluster's module (`module load slurm`), or add it to PATH."
_FEWEST_JOB_SECONDS: Final = 60.0
"""Of MinJobAge: below that a queue asked once a minute may miss an end."""

Grade = Literal["ok", "hint", "missing"]
_NO: Final = "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    grade: Grade
    found: str
    mend: str = ""
    """The command or the step that mends it; empty: nothing to do."""

    def format(self) -> str:
        """For people; what mends it stands below."""
        mark = {"ok": "✓", "hint": "·", "missing": "✗"}[self.grade]
        line = f" {mark} {self.what:<14} {self.found}"
        return f"{line}\n   {'':<14} {self.mend}" if self.mend else line


def main(argv: Sequence[str]) -> int:
    """Look at everything; exit 5 when something that is needed is missing."""
    options, _ = parse_options("autoexp-doctor", __doc__, argv, overrides=False)
    findings = list(examine(find_state_dir(options), options.config_dir))
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings]))
    else:
        print("\n".join(finding.format() for finding in findings))
    missing = any(finding.grade == "missing" for finding in findings)
    return ExitCode.ENVIRONMENT if missing else ExitCode.OK


def _judge(
    what: str, is_ok: object, found: str, mend: str = "", grade: Grade = "hint"
) -> Finding:
    """What was found; with what mends it when that is not in order."""
    return Finding(what, "ok", found) if is_ok else Finding(what, grade, found, mend)


def examine(state_dir: Path, configs: str = "") -> Iterator[Finding]:
    """Every finding, what is needed first; `configs`: the root that was chosen."""
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", "ok", f"{python} at {sys.executable}")
    for requirement in requires("autoexp-tui") or ():
        name = re.split("[=<>! ;]", requirement)[0]
        if "extra ==" not in requirement:
            found = ""
            with suppress(PackageNotFoundError):
                found = version(name)
            mend = f"{sys.executable} -m pip install '{requirement}'"
            yield _judge(name, found, found or "not installed", mend, _NO)
    git = shutil.which("git")
    found = git or "needed for provenance and code states"
    yield _judge("git", git, found, "apt-get install git, or your site's module", _NO)
    try:
        roots = config_roots(find_config_dir(configs or None, Path.cwd()))
        yield Finding("configs", "ok", ", then ".join(map(str, roots)))
    except AutoexpError as error:
        yield Finding("configs", "missing", error.problem, error.hint)
    place = next(one for one in (state_dir, *state_dir.parents) if one.exists())
    found = f"{state_dir} (writable)"
    try:
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        found = f"{state_dir}: {error.strerror}"
    mend = "Choose another place: --state-dir DIR, or AUTOEXP_STATE_DIR."
    yield _judge("state dir", found.endswith("(writable)"), found, mend, _NO)
    free = shutil.disk_usage(place).free
    found = f"{free / (1 << 30):.1f} GiB free at {place}"
    mend = "Make room: a full disk holds every session that writes there."
    yield _judge("disk", free >= _MIN_FREE_BYTES, found, mend, _NO)
    yield _check_slots_dir()
    yield check_isolation(tuple(probe_isolation()))
    yield from _examine_terminal()
    yield from examine_slurm(state_dir, ClusterCommands())
    gpus = shutil.which("nvidia-smi")
    yield _judge("nvidia-smi", gpus, gpus or "no NVIDIA GPU: no GPU samples")


def _check_slots_dir() -> Finding:
    usual, found = get_usual_dir(), find_slots_dir()
    if found != usual:
        text = f"{found}, because {usual} is not yours alone"
        mend = "Nothing to do. Whoever made it, or an administrator, may remove it."
        return Finding("slots", "hint", text, mend)
    is_own = found.is_dir() and found.stat().st_uid == os.geteuid()
    text = f"{found} {'(yours alone)' if is_own else 'cannot be used'}"
    mend = "Name a directory of your own on this host: slurm.client.slots_dir=DIR"
    return _judge("slots", is_own, text, mend, _NO)


def check_isolation(found: Sequence[Isolation]) -> Finding:
    """What the strongest of `found` promises of agents and candidates."""
    best = choose_isolation("prefer", found)
    has_all = best.promises == frozenset(Promise)
    return _judge("isolation", has_all, best.summarize(), f"{REMEDY}.")


def _examine_terminal() -> Iterator[Finding]:
    encoding = locale.getpreferredencoding(do_setlocale=False)
    is_utf8 = encoding.lower().replace("-", "") == "utf8"
    mend = "export LC_ALL=C.UTF-8 for the full glyphs; without it ASCII is used."
    yield _judge("encoding", is_utf8, encoding, mend)
    term = os.environ.get("TERM", "")
    found = f"TERM={term or 'unset'}"
    yield _judge("terminal", term not in ("", "dumb"), found, "TERM=xterm-256color")
    scope, outlives = ["systemd-run", "--user", "--scope", "--quiet", "true"], False
    with suppress(OSError, subprocess.SubprocessError):
        run = subprocess.run(scope, capture_output=True, timeout=5, check=True)
        outlives = run.returncode == 0
    way = "outlive a logout (systemd-run --user)" if outlives else "detach with setsid"
    mend = "If your site kills processes at logout: loginctl enable-linger, or tmux."
    yield _judge("leaving", outlives, f"engines {way}", mend)


def examine_slurm(state_dir: Path, commands: Commands) -> Iterator[Finding]:
    """Every finding about the cluster; one where there is none.

    Jobs run without a cluster too, so what is absent is a hint. Only where a controller
    answers, and something that jobs need there is not to be had, is it missing.
    """
    if shutil.which("sbatch") is None:
        yield Finding("slurm", "hint", "no sbatch: jobs run on this machine (local)")
        return
    try:
        facts = read_facts(commands, ASK_SECONDS)
    except EnvironmentFailed as error:
        yield Finding("slurm", "hint", error.problem, error.hint)
        return
    name = f" of {facts.cluster}" if facts.cluster else ""
    yield Finding("slurm", "ok", f"the controller{name} answers, {facts.version}")
    for program in _NEEDED:
        if shutil.which(program) is None:
            yield Finding(program, "missing", "not on PATH: jobs need it", _MODULE)
    age = duration(facts.min_job_age)
    trouble, mend = "", ""
    if not facts.accounting:
        trouble = "none on this cluster"
    elif shutil.which("sacct") is None:
        trouble, mend = "sacct is not on PATH", _MODULE
    else:
        asked = ("sacct", "-X", "-n", "-S", "now-1minutes")
        ran, mend = commands.run(asked, ASK_SECONDS), "sacctmgr ping"
        if not ran.ok:
            trouble = f"sacct: {extract_complaint(ran.stderr) or 'no answer'}"
    found = f"{trouble}: ended jobs are known for {age}, then by their own records"
    yield _judge("accounting", not trouble, found if trouble else "sacct answers", mend)
    most = facts.max_array_size - 1
    found = (
        f"up to {most} jobs an array" if most >= 1 else "none here: one job a sbatch"
    )
    yield _judge("arrays", most >= 1, f"{found} (MaxArraySize)")
    yield _judge(
        "MinJobAge",
        facts.accounting or facts.min_job_age >= _FEWEST_JOB_SECONDS,
        f"the controller remembers ended jobs for {age}",
        f"Ask for MinJobAge={_FEWEST_JOB_SECONDS:.0f} or more: nobody else keeps how a "
        "job ended.",
    )
    mend = f"Nodes must see it under the same path: srun -N1 ls -d {state_dir}   tells."
    yield Finding("shared state", "hint", str(state_dir), mend)


entry = make_entry(main, __name__)
