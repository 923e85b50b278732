"""The example's git repository, with one commit whose id is the same everywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from autoexp_tui.demo.packing import PackingError

_AUTHOR: Final = ("Packing example", "packing@example.invalid")


def find_repository(directory: Path, epoch: int) -> Path:
    """`directory`, with the repository; made once, anew where that was cut off."""
    if not (directory / ".git" / "refs" / "heads" / "main").exists():
        shutil.rmtree(directory, ignore_errors=True)
        make_repository(directory, epoch)
    return directory


def make_repository(directory: Path, epoch: int) -> str:
    """Write the files into `directory`, new or empty, and commit them.

    `epoch`: seconds, the date of the commit. Returns the id of the commit. Raises
    PackingError: the directory holds something, or git is missing or fails."""
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise PackingError(f"{directory} is not empty: name one that is")
    for source in sorted((Path(__file__).parent / "files").iterdir()):
        if source.is_file():
            (directory / source.name).write_bytes(source.read_bytes())
    (directory / ".gitignore").write_bytes(b"__pycache__/\noutput/\n")
    environment = _make_environment(epoch)
    for arguments in (
        ("init", "--quiet", "--template="),
        ("symbolic-ref", "HEAD", "refs/heads/main"),
        ("add", "--all"),
        ("commit", "--quiet", "--message=The packing solver"),
    ):
        _run_git(directory, environment, *arguments)
    return _run_git(directory, environment, "rev-parse", "HEAD").strip()


def _make_environment(epoch: int) -> dict[str, str]:
    """Nothing of the user's configuration: no hook, filter, signature, other hash."""
    kept = {key: text for key, text in os.environ.items() if key[:4] != "GIT_"}
    name, mail = _AUTHOR
    ours = {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_DEFAULT_HASH": "sha1",
        "HOME": os.devnull,  # what git before 2.32 knows
        "XDG_CONFIG_HOME": os.devnull,
        "LC_ALL": "C",
    }
    for role in ("AUTHOR", "COMMITTER"):
        ours[f"GIT_{role}_NAME"] = name
        ours[f"GIT_{role}_EMAIL"] = mail
        ours[f"GIT_{role}_DATE"] = f"@{epoch} +0000"
    return kept | ours


def _run_git(directory: Path, environment: dict[str, str], *arguments: str) -> str:
    command = ("git", "-c", "gc.auto=0", *arguments)
    try:
        return subprocess.run(
            command,
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except FileNotFoundError as error:
        raise PackingError("git is not on the PATH") from error
    except subprocess.CalledProcessError as error:
        raise PackingError(f"git {arguments[0]}: {error.stderr.strip()}") from error
