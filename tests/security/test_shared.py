"""`project.share: group`: colleagues watch, others do not, and no secret is shown."""

from __future__ import annotations

import json
import pwd
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.two_users import (
    User,
    common_place,
    give,
    interpreter,
    user,
    write_config,
)

pytestmark = pytest.mark.slow
SECRET = "abc-s3cr3t-def"
ALICE, BOB, GROUP, OUTSIDER = 61021, 61022, 61020, 61023
"""Of their own here, and their slots with them."""


class Lab:
    """A project of a group: Alice runs, Bob watches."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.alice = user(ALICE, root / "alice", GROUP)
        self.bob = user(BOB, root / "bob", GROUP)
        self.project = root / "project"
        self.project.mkdir()
        give(self.project, ALICE, GROUP, 0o2770)
        self.state_dir = self.project / "outputs" / ".autoexp"

    def run(self, share: object = "group", **changes: object) -> Path:
        """Alice's session, run to its end with a umask that closes everything."""
        base = str(self.project / "outputs")
        write_config(
            self.project,
            project={"name": "exp", "base_output_dir": base, "share": share},
            **changes,
        )
        give(self.project / "config", ALICE, GROUP)
        words = ("-C", "config", "--config-ref", "exp", "slurm=local")
        done = self.alice.run("run", *words, cwd=self.project, umask=0o077)
        assert done.returncode == 0, done.stderr
        (session,) = [one for one in self.state_dir.iterdir() if len(one.name) == 4]
        return session

    def watch(self, who: User, *words: str, command: str = "sessions") -> str:
        """What somebody reads of the session."""
        place = ("--state-dir", str(self.state_dir))
        done = who.run(command, *words, *place, cwd=self.root)
        return f"{done.returncode}\n{done.stdout}{done.stderr}"


@pytest.fixture
def lab() -> Iterator[Lab]:
    with common_place("shared") as place:
        yield Lab(place)


WITH_SECRET = {
    "hub": {"token": SECRET},
    "backend": {"class_name": "Bash", "script": "echo watched",
                "env": {"HUB_TOKEN": "${hub.token}"}},
}  # fmt: skip
OPEN = """
import sys
from pathlib import Path
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.cli.open import SessionOpener
from autoexp_tui.cli.options import Options
handle = SessionOpener(Options()).view(sys.argv[1])
snapshot = handle.snapshot()
print(handle.read_only, snapshot.engine.user, *(job.name for job in snapshot.jobs))
print(dict(snapshot.jobs[0].spec.env))
handle.close()
"""


@pytest.mark.parametrize("share", ["group", {"group": "write"}])
def test_a_colleague_watches_a_session_and_finds_no_secret(
    lab: Lab, share: object
) -> None:
    session = lab.run(share, **WITH_SECRET)
    assert session.name in lab.watch(lab.bob, "list")
    shown = lab.watch(lab.bob, "show", session.name, "--json")
    assert shown.startswith("0\n"), shown
    assert "exp" in shown
    opened = lab.bob.call([interpreter(), "-c", OPEN, str(session)], cwd=lab.root)
    assert opened.stdout == f"True user {ALICE} exp\n{{'HUB_TOKEN': '***'}}\n", opened
    found = lab.bob.call(["grep", "-rl", SECRET, str(lab.project)], cwd=lab.root)
    inside = [line for line in found.stdout.split() if "/config/" not in line]
    assert inside == []
    logs = lab.bob.call(["grep", "-rh", "watched", str(lab.project)], cwd=lab.root)
    assert "watched" in logs.stdout


def test_without_a_secret_the_plan_itself_is_readable_and_what_gives_rights_is_not(
    lab: Lab,
) -> None:
    session = lab.run()
    plan = lab.bob.call(["cat", str(session / "plan.json")], cwd=lab.root)
    assert json.loads(plan.stdout)["share"] == "group"
    assert not list(session.rglob("*.public.json"))
    for name in ("inbox", "attempts", "scripts", "viewers", "../manifests"):
        tried = lab.bob.call(["ls", str(session / name)], cwd=lab.root)
        assert "Permission denied" in tried.stderr, name
    assert lab.alice.run(
        "sessions", "check", session.name, "--state-dir", str(lab.state_dir),
        cwd=lab.root,
    ).returncode == 0  # fmt: skip
    lab.project.chmod(0o755)
    outsider = user(OUTSIDER, lab.root / "outsider")
    tried = outsider.call(["ls", str(lab.state_dir)], cwd=lab.root)
    assert "Permission denied" in tried.stderr


def test_a_private_session_stays_private(lab: Lab) -> None:
    lab.run("private")
    lab.project.chmod(0o2775)
    tried = lab.bob.call(["ls", str(lab.state_dir)], cwd=lab.root)
    assert "Permission denied" in tried.stderr


# ------------------------------------------------------- members work on each other's
def two_members() -> tuple[pwd.struct_passwd, pwd.struct_passwd]:
    """Two accounts of this machine with one group."""
    accounts = [one for one in pwd.getpwall() if one.pw_uid and one.pw_gid]
    for one in accounts:
        for other in accounts:
            if one.pw_gid == other.pw_gid and one.pw_uid < other.pw_uid:
                return one, other
    pytest.skip("no two accounts of one group here")


class Members(Lab):
    """Two accounts that the system knows to be in one group."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        one, other = two_members()
        self.alice = user(one.pw_uid, root / "one", one.pw_gid)
        self.bob = user(other.pw_uid, root / "other", one.pw_gid)
        self.group = one.pw_gid
        give(self.project, one.pw_uid, self.group, 0o2770)

    def go(self, who: User, share: object) -> str:
        """Run the config: a job that writes down who ran it."""
        shutil.rmtree(self.project / "config", ignore_errors=True)
        write_config(
            self.project,
            project={"name": "exp", "base_output_dir": str(self.project / "outputs"),
                     "share": share},
            backend={"class_name": "Bash", "script": f"id -u >> {self.ran}"},
        )  # fmt: skip
        give(self.project / "config", who.uid, self.group)
        words = ("-C", "config", "--config-ref", "exp", "slurm=local")
        done = who.run("run", *words, cwd=self.project)
        return f"{done.returncode}\n{done.stdout}{done.stderr}"

    @property
    def ran(self) -> Path:
        return self.project / "ran"


@pytest.fixture
def members() -> Iterator[Members]:
    with common_place("members") as place:
        yield Members(place)


def test_what_a_member_has_done_is_done_for_the_group_and_for_no_other(
    members: Members,
) -> None:
    first = members.go(members.alice, {"group": "write"})
    assert first.startswith("0\n"), first
    second = members.go(members.bob, {"group": "write"})
    assert second.startswith("0\n"), second
    assert members.ran.read_text() == f"{members.alice.uid}\n"
    (done,) = (members.project / "outputs").rglob("done.json")
    done.unlink()
    third = members.go(members.bob, "private")
    assert not third.startswith("0\n")
    assert "is not written to: it belongs to" in third
    members.ran.chmod(0o666)
    fourth = members.go(members.bob, {"group": "write"})
    assert fourth.startswith("0\n"), fourth
    assert members.ran.read_text() == f"{members.alice.uid}\n{members.bob.uid}\n"
