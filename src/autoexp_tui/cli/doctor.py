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
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final, Literal

from autoexp_tui.cli.diagnostics import ExitCode, exit_with
from autoexp_tui.cli.options import find_state_dir, parse_options
from autoexp_tui.executors.local.executor import find_slots_dir, get_usual_dir
from autoexp_tui.executors.slurm.commands import ClusterCommands, Commands
from autoexp_tui.executors.slurm.refusals import parse_refusal
from autoexp_tui.executors.slurm.text import (
    ClusterFacts,
    extract_complaint,
    parse_config,
)
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.probes.config_files import config_roots, find_config_dir
from autoexp_tui.text.spelling import duration

_MIN_FREE_BYTES: Final = 200 << 20
ASK_SECONDS: Final = 10.0
"""How long a command may take."""
GRACE_SECONDS: Final = 60.0
"""What a job is given to end by default: `slurm.client.grace_seconds`."""
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


def examine(state_dir: Path, configs: str = "") -> Iterator[Finding]:
    """Every finding, what is needed first; `configs`: the root that was chosen."""
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", "ok", f"{python} at {sys.executable}")
    for requirement in requires("autoexp-tui") or ():
        name = re.split("[=<>! ;]", requirement)[0]
        if "extra ==" in requirement:
            continue
        try:
            yield Finding(name, "ok", version(name))
        except PackageNotFoundError:
            mend = f"{sys.executable} -m pip install '{requirement}'"
            yield Finding(name, "missing", "not installed", mend)
    git = shutil.which("git")
    found = git or "needed for provenance and code states"
    yield _judge("git", git, found, "apt-get install git, or your site's module", _NO)
    try:
        roots = config_roots(find_config_dir(configs or None, Path.cwd()))
    except AutoexpError as error:
        yield Finding("configs", "missing", error.problem, error.hint)
    else:
        yield Finding("configs", "ok", ", then ".join(map(str, roots)))
    place = _find_existing(state_dir)
    try:
        with tempfile.TemporaryFile(dir=place):
            yield Finding("state dir", "ok", f"{state_dir} (writable)")
    except OSError as error:
        mend = "Choose another place: --state-dir DIR, or AUTOEXP_STATE_DIR."
        yield Finding("state dir", "missing", f"{state_dir}: {error.strerror}", mend)
    free = shutil.disk_usage(place).free
    found = f"{free / (1 << 30):.1f} GiB free at {place}"
    mend = "Make room: a full disk holds every session that writes there."
    yield _judge("disk", free >= _MIN_FREE_BYTES, found, mend, _NO)
    yield _check_slots_dir()
    encoding = locale.getpreferredencoding(do_setlocale=False)
    is_utf8 = encoding.lower().replace("-", "") == "utf8"
    mend = "export LC_ALL=C.UTF-8 for the full glyphs; without it ASCII is used."
    yield _judge("encoding", is_utf8, encoding, mend)
    term = os.environ.get("TERM", "")
    yield _judge(
        "terminal",
        term not in ("", "dumb"),
        f"TERM={term or 'unset'}",
        "export TERM=xterm-256color",
    )
    scope = ["systemd-run", "--user", "--scope", "--quiet", "true"]
    try:
        subprocess.run(scope, capture_output=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        mend = (
            "If your site kills processes at logout: loginctl enable-linger, or tmux."
        )
        yield Finding("leaving", "hint", "engines detach with setsid", mend)
    else:
        yield Finding("leaving", "ok", "engines outlive a logout (systemd-run --user)")
    yield from examine_slurm(state_dir, ClusterCommands())
    gpus = shutil.which("nvidia-smi")
    yield _judge("nvidia-smi", gpus, gpus or "no NVIDIA GPU: no GPU samples")


def _judge(
    what: str, is_ok: object, found: str, mend: str = "", grade: Grade = "hint"
) -> Finding:
    """What was found; with what mends it when that is not in order."""
    return Finding(what, "ok", found) if is_ok else Finding(what, grade, found, mend)


def _check_slots_dir() -> Finding:
    usual, found = get_usual_dir(), find_slots_dir()
    if found != usual:
        text = f"{found}, because {usual} is not yours alone"
        mend = "Nothing to do. Whoever made it, or an administrator, may remove it."
        return Finding("slots", "hint", text, mend)
    with suppress(OSError):
        if found.stat().st_uid == os.geteuid():
            return Finding("slots", "ok", f"{found} (yours alone)")
    mend = "Name a directory of your own on this host: slurm.client.slots_dir=DIR"
    return Finding("slots", "missing", f"{found} cannot be used", mend)


def examine_slurm(state_dir: Path, commands: Commands) -> Iterator[Finding]:
    """Every finding about the cluster; one where there is none.

    Jobs run without a cluster too, so what is absent is a hint. Only where a controller
    answers, and something that jobs need there is not to be had, is it missing.
    """
    if shutil.which("sbatch") is None:
        yield Finding("slurm", "hint", "no sbatch: jobs run on this machine (local)")
        return
    ran = commands.run(("scontrol", "show", "config"), ASK_SECONDS)
    if ran.missing:
        yield Finding("slurm", "hint", "sbatch without scontrol", _MODULE)
        return
    if ran.timed_out:
        found = f"the controller did not answer within {ASK_SECONDS:g} s"
        yield Finding("slurm", "hint", found, "scontrol ping")
        return
    if not ran.ok:
        refusal = parse_refusal(extract_complaint(ran.stderr), {})
        mend = refusal.hint or "scontrol ping   says whether the controller is up"
        yield Finding("slurm", "hint", f"no cluster answers: {refusal.reason}", mend)
        return
    facts = parse_config(ran.stdout)
    name = f" of {facts.cluster}" if facts.cluster else ""
    yield Finding("slurm", "ok", f"the controller{name} answers, {facts.version}")
    for program in _NEEDED:
        if shutil.which(program) is None:
            yield Finding(program, "missing", "not on PATH: jobs need it", _MODULE)
    yield _check_accounting(facts, commands)
    most, age = facts.max_array_size - 1, facts.min_job_age
    found = f"up to {most} jobs an array (MaxArraySize)"
    none = "none here (MaxArraySize): one job a sbatch"
    yield _judge("arrays", most >= 1, found if most >= 1 else none)
    yield _judge(
        "MinJobAge",
        facts.accounting or age >= _FEWEST_JOB_SECONDS,
        f"the controller remembers ended jobs for {duration(age)}",
        f"Ask for MinJobAge={_FEWEST_JOB_SECONDS:.0f} or more: nobody else keeps how a "
        "job ended.",
    )
    yield _judge(
        "KillWait",
        facts.kill_wait >= GRACE_SECONDS,
        f"{duration(facts.kill_wait)} between TERM and KILL at a time limit",
        f"grace_seconds ({GRACE_SECONDS:g}) does not count there: a job that needs "
        "longer to save is told earlier by slurm.sbatch.signal=USR1@120.",
    )
    mend = (
        "Nodes must see it under the same path: srun -N1 "
        f"ls -d {_find_existing(state_dir)}   tells; else --state-dir DIR on a "
        "shared disk."
    )
    yield Finding("shared state", "hint", str(state_dir), mend)


def _check_accounting(facts: ClusterFacts, commands: Commands) -> Finding:
    remembers = f"ended jobs are known for {duration(facts.min_job_age)}"
    without = f"{remembers}, then by their own records"
    if not facts.accounting:
        return Finding("accounting", "hint", f"none on this cluster: {without}")
    if shutil.which("sacct") is None:
        found = f"sacct is not on PATH: {without}"
        return Finding("accounting", "hint", found, _MODULE)
    ran = commands.run(("sacct", "-X", "-n", "-S", "now-1minutes"), ASK_SECONDS)
    if ran.ok:
        return Finding("accounting", "ok", "sacct answers")
    why = "no answer" if ran.timed_out else extract_complaint(ran.stderr)
    return Finding("accounting", "hint", f"sacct: {why}; {without}", "sacctmgr ping")


def _find_existing(place: Path) -> Path:
    return next(one for one in (place, *place.parents) if one.exists())


entry = partial(exit_with, main)

if __name__ == "__main__":
    entry()
