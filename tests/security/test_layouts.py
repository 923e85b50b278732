"""Ordinary layouts of directories, each planned, run and resumed without a word.

Two made-up users work in directories as clusters have them. Who may not write is told
elsewhere; here nobody is refused, and no warning is given.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.security.two_users import (
    ALICE,
    BOB,
    GROUP,
    User,
    common_place,
    give,
    user,
    write_config,
)

pytestmark = pytest.mark.slow


@dataclass
class Layout:
    """Where somebody works, and how."""

    user: User
    cwd: Path
    base: str = "outputs"
    umask: int = 0o022
    state_dir: str = ""
    log_dir: str = ""


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with common_place("users") as place:
        yield place


def bob(machine: Path, *groups: int) -> User:
    return user(BOB, machine / "bob", *groups)


def at_home(
    machine: Path, *groups: int, base: str = "outputs", **fields: Any
) -> Layout:
    """Bob's, who works in his home."""
    return Layout(bob(machine, *groups), machine / "bob", base, **fields)


def make(place: Path, owner: int, mode: int, group: int = -1) -> Path:
    place.mkdir()
    return give(place, owner, group, mode)


# --------------------------------------------------------------------------- layouts
def project_of_another_owner(machine: Path) -> Layout:
    place = make(machine / "project", ALICE, 0o2770, GROUP)
    make(place / "outputs", ALICE, 0o2770, GROUP)
    return Layout(bob(machine, GROUP), place)


def default_acl(machine: Path) -> Layout:
    place = make(machine / "project", ALICE, 0o2775, GROUP)
    set_acl(make(place / "outputs", ALICE, 0o2770, GROUP), BOB)
    return at_home(machine, base=f"{place}/outputs")


def below_a_link_of_roots(machine: Path) -> Layout:
    (machine / "scratch").symlink_to(make(machine / "disk7", BOB, 0o755))
    return at_home(machine, base=f"{machine}/scratch/outputs")


def below_a_link_of_ones_own(machine: Path) -> Layout:
    layout, link = at_home(machine), machine / "bob" / "outputs"
    link.symlink_to(make(machine / "disk7", BOB, 0o700))
    os.chown(link, BOB, BOB, follow_symlinks=False)
    return layout


def umask_077(machine: Path) -> Layout:
    return at_home(machine, umask=0o077)


def in_a_sticky_directory(machine: Path) -> Layout:
    return at_home(machine, base=str(make(machine / "scratch", 0, 0o1777)))


def root_over_another_uid(machine: Path) -> Layout:
    place = make(machine / "project", ALICE, 0o755)
    make(place / "outputs", ALICE, 0o755)
    return Layout(user(0, machine / "root"), place)


def setgid_of_ones_own(machine: Path) -> Layout:
    place = make(machine / "project", BOB, 0o2775, GROUP)
    return Layout(bob(machine, GROUP), place, umask=0o002)


LAYOUTS = [
    project_of_another_owner, default_acl, below_a_link_of_roots,
    below_a_link_of_ones_own, umask_077,
    in_a_sticky_directory, root_over_another_uid, setgid_of_ones_own,
]  # fmt: skip


def set_acl(place: Path, uid: int) -> None:
    """Let one more user write, now and in what is made there."""
    user_obj, one, group_obj, mask, other = 0x01, 0x02, 0x04, 0x10, 0x20
    entries = [(user_obj, 7, -1), (one, 7, uid), (group_obj, 7, -1), (mask, 7, -1)]
    packed = [struct.pack("<HHi", *entry) for entry in (*entries, (other, 0, -1))]
    data = struct.pack("<I", 2) + b"".join(packed)
    try:
        for name in ("system.posix_acl_access", "system.posix_acl_default"):
            os.setxattr(place, name, data)
    except OSError:
        pytest.skip("no access lists on this file system")


# ----------------------------------------------------------------------------- the test
def configure(layout: Layout, machine: Path) -> None:
    """A job that runs at once, and one that waits for a file `go`."""
    jobs = machine / "jobs"
    jobs.mkdir(exist_ok=True)
    jobs.chmod(0o777)
    base = layout.base if os.path.isabs(layout.base) else layout.cwd / layout.base
    write_config(
        layout.cwd, project={"name": "{stage}", "base_output_dir": str(base)},
        backend={"class_name": "Bash", "script": f"echo ${{stage}} >> {jobs}/ran"},
        slurm={"client": {"class_name": "LocalClient", "slots": 2},
               **({"log_dir": layout.log_dir} if layout.log_dir else {})},
        stage="first",
        sweep={"type": "list",
               "configs": [{"stage": "first"},
                           {"stage": "second",
                            "start_conditions": [
                                {"class_name": "FileExists",
                                 "path": f"{machine}/go"}]}]},
    )  # fmt: skip
    for one in (layout.cwd / "config", *(layout.cwd / "config").iterdir()):
        os.chown(one, layout.user.uid, layout.user.uid)


def said(ran: subprocess.CompletedProcess[str]) -> str:
    return f"{ran.returncode}\n{ran.stdout}\n{ran.stderr}"


@pytest.mark.parametrize("arrange", LAYOUTS)
def test_what_is_ordinary_is_planned_run_and_resumed_without_a_word(
    machine: Path, arrange: Callable[[Path], Layout]
) -> None:
    layout = arrange(machine)
    campaign(layout, machine)
    assert (machine / "jobs" / "ran").read_text().split() == ["first", "second"]
    rows = json.loads(run(layout, "sessions", "list", "--json").stdout)
    assert [(row["user"], row["problem"]) for row in rows] == [("", "")]


def run(layout: Layout, command: str, *words: str) -> subprocess.CompletedProcess[str]:
    state = ["--state-dir", layout.state_dir] if layout.state_dir else []
    done = layout.user.run(command, *words, *state, cwd=layout.cwd, umask=layout.umask)
    assert "belongs to" not in done.stderr
    assert "warning" not in done.stderr.lower()
    return done


def campaign(layout: Layout, machine: Path) -> None:
    """Plan, run a half, and resume for the rest."""
    configure(layout, machine)
    planned = run(layout, "plan", "--config-ref", "exp")
    assert planned.returncode == 0, said(planned)
    for word in ("belongs to", "not written to", "modes of files"):
        assert word not in planned.stdout
    sent = run(layout, "submit", "--config-ref", "exp")
    assert sent.returncode == 0, said(sent)
    session = sent.stdout.split()[1].rstrip(":")
    (machine / "go").touch()
    ended = run(layout, "monitor", "--session", session)
    assert ended.returncode == 0, said(ended)


# ------------------------------------------------------------------------- the refused
@pytest.mark.parametrize(
    ("what", "where", "owner", "mode"),
    [
        ("base", "hers", ALICE, 0o1777),
        ("state_dir", "hers", ALICE, 0o1777),
        ("state_dir", "bob/open", BOB, 0o777),
    ],
)
def test_where_others_may_meddle_nothing_is_submitted(
    machine: Path, what: str, where: str, owner: int, mode: int
) -> None:
    layout = at_home(machine, **{what: str(machine / where)})
    make(machine / where, owner, mode)
    configure(layout, machine)
    state = ["--state-dir", layout.state_dir] if layout.state_dir else []
    sent = layout.user.run(
        "submit", "--config-ref", "exp", *state, cwd=layout.cwd, umask=layout.umask
    )
    assert sent.returncode != 0
    hers = owner == ALICE
    why = f"it belongs to user {ALICE}" if hers else "everybody may write to it"
    assert why in sent.stderr
    assert not (machine / "jobs" / "ran").exists()
