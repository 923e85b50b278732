"""autoexp-doctor: what is missing on this machine, and the command that mends it."""

from __future__ import annotations

import importlib.metadata
import json
import locale
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from autoexp_tui.cli.diagnostics import ExitCode, exit_with
from autoexp_tui.cli.doctor_slurm import Finding, examine_slurm
from autoexp_tui.cli.options import common, parse, parser, state_dir_of
from autoexp_tui.executors.local.slots_dir import find_slots_dir, usual_slots_dir
from autoexp_tui.executors.slurm.commands import ClusterCommands
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.probes.config_files import config_dir, config_roots

_MIN_FREE_BYTES = 200 << 20


def main(argv: Sequence[str]) -> int:
    """Look at everything; exit 5 when something that is needed is missing."""
    made = parser("autoexp-doctor", __doc__ or "", overrides=False)
    options = common(parse(made, argv))
    findings = list(examine(state_dir_of(options), options.config_dir))
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings]))
    else:
        print("\n".join(finding.line for finding in findings))
    missing = any(finding.grade == "missing" for finding in findings)
    return ExitCode.ENVIRONMENT if missing else ExitCode.OK


def examine(state_dir: Path, configs: str = "") -> Iterator[Finding]:
    """Every finding, what is needed first; `configs`: the root that was chosen."""
    yield _python()
    yield from _packages()
    yield _program("git", "needed for provenance and code states", "git", needed=True)
    yield _configs(configs)
    yield _state_dir(state_dir)
    yield _disk(state_dir)
    yield _slots_dir()
    yield _multiplexer()
    yield _encoding()
    yield _terminal()
    yield _detaching()
    yield from examine_slurm(state_dir, ClusterCommands())
    yield _program("nvidia-smi", "no NVIDIA GPU: no GPU samples", "")


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", "ok", f"{version} at {sys.executable}")


def _packages() -> Iterator[Finding]:
    for requirement in importlib.metadata.requires("autoexp-tui") or ():
        if "extra ==" in requirement:
            continue
        name = requirement.split("=")[0].split("<")[0].split(">")[0].split("!")[0]
        yield _package(name.strip(), requirement)


def _package(name: str, requirement: str) -> Finding:
    try:
        return Finding(name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        mend = f"{sys.executable} -m pip install '{requirement}'"
        return Finding(name, "missing", "not installed", mend)


def _program(name: str, without: str, package: str, *, needed: bool = False) -> Finding:
    place = shutil.which(name)
    if place:
        return Finding(name, "ok", place)
    mend = f"apt-get install {package}, or your site's module" if package else ""
    return Finding(name, "missing" if needed else "hint", without, mend)


def _configs(chosen: str) -> Finding:
    """The directories that configs are looked for in."""
    try:
        roots = config_roots(config_dir(chosen or None, Path.cwd()))
    except AutoexpError as error:
        return Finding("configs", "missing", error.problem, error.hint)
    return Finding("configs", "ok", ", then ".join(map(str, roots)))


def _state_dir(state_dir: Path) -> Finding:
    place = next(p for p in (state_dir, *state_dir.parents) if p.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        mend = "Choose another place: --state-dir DIR, or AUTOEXP_STATE_DIR."
        return Finding("state dir", "missing", f"{state_dir}: {error.strerror}", mend)
    return Finding("state dir", "ok", f"{state_dir} (writable)")


def _disk(state_dir: Path) -> Finding:
    place = next(p for p in (state_dir, *state_dir.parents) if p.exists())
    free = shutil.disk_usage(place).free
    text = f"{free / (1 << 30):.1f} GiB free at {place}"
    if free >= _MIN_FREE_BYTES:
        return Finding("disk", "ok", text)
    mend = "Make room: a full disk holds every session that writes there."
    return Finding("disk", "missing", text, mend)


def _slots_dir() -> Finding:
    usual, found = usual_slots_dir(), find_slots_dir()
    if found != usual:
        text = f"{found}, because {usual} is not yours alone"
        return Finding(
            "slots",
            "hint",
            text,
            "Nothing to do. Whoever made it, or an administrator, may remove it.",
        )
    try:
        private = found.stat().st_uid == os.geteuid()
    except OSError:
        private = False
    if private:
        return Finding("slots", "ok", f"{found} (yours alone)")
    mend = "Name a directory of your own on this host: slurm.client.slots_dir=DIR"
    return Finding("slots", "missing", f"{found} cannot be used", mend)


def _multiplexer() -> Finding:
    if os.environ.get("TMUX") or os.environ.get("STY"):
        return Finding("tmux", "ok", "inside one")
    if shutil.which("tmux") or shutil.which("screen"):
        mend = "Start `tmux` first: a lost connection then costs not even the screen."
        return Finding("tmux", "hint", "not inside tmux or screen", mend)
    return Finding("tmux", "hint", "not installed; runs go on without it")


def _encoding() -> Finding:
    encoding = locale.getpreferredencoding(do_setlocale=False)
    if encoding.lower().replace("-", "") == "utf8":
        return Finding("encoding", "ok", encoding)
    mend = "export LC_ALL=C.UTF-8 for the full glyphs; without it ASCII is used."
    return Finding("encoding", "hint", encoding, mend)


def _terminal() -> Finding:
    term = os.environ.get("TERM", "")
    colour = os.environ.get("COLORTERM", "")
    if term in ("", "dumb"):
        mend = "export TERM=xterm-256color"
        return Finding("terminal", "hint", f"TERM={term or 'unset'}", mend)
    return Finding("terminal", "ok", f"{term} {colour}".strip())


def _detaching() -> Finding:
    if _works(["systemd-run", "--user", "--scope", "--quiet", "true"]):
        return Finding("leaving", "ok", "engines outlive a logout (systemd-run --user)")
    return Finding(
        "leaving",
        "hint",
        "engines detach with setsid",
        "If your site kills processes at logout: loginctl enable-linger, or tmux.",
    )


def _works(command: Sequence[str]) -> bool:
    run: Callable[..., subprocess.CompletedProcess[bytes]] = subprocess.run
    try:
        return run(command, capture_output=True, timeout=5, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def entry() -> None:
    """The console script."""
    exit_with(main)


if __name__ == "__main__":
    entry()
