"""A secret in a config: true for the job, masked for whoever reads what it leaves."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.e2e.campaign import run_command

SECRET = "abc-s3cr3t-def"
CONFIG = """
defaults: [_self_, {slurm: local}]
project: {name: "x{train_tokens}", base_output_dir: %s, share: %s}
hub: {token: %s, url: "https://ada:%s@host/x"}
train_tokens: 1000
backend:
  class_name: Bash
  script: |
    umask > $OUT/umask; env | grep HUB_TOKEN > $OUT/env; echo logged
  env: {HUB_TOKEN: "${hub.token}", OUT: %s}
sweep:
  params: {train_tokens: [1000, 2000]}
"""


class Place:
    """A config, and our commands in its directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "config").mkdir()

    def write(self, share: str = "private", *changes: tuple[str, str]) -> None:
        text = CONFIG % (self.root / "out", share, SECRET, SECRET, self.root)
        for old, new in changes:
            text = text.replace(old, new)
        (self.root / "config" / "x.yaml").write_text(text)

    def say(self, command: str, *words: str, umask: int = 0o022) -> str:
        given = () if "--manifest" in words else ("-C", "config", "--config-ref", "x")
        done = run_command(self.root, command, *given, *words, umask=umask)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def modes(self, pattern: str) -> set[str]:
        """Of all files so called, of which there is one at least."""
        found = [path for path in self.root.rglob(pattern) if path.is_file()]
        assert found
        return set(map(mode, found))


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    return Place(tmp_path)


def test_what_a_run_leaves_and_commands_show_holds_no_secret_and_the_job_had_it(
    place: Place,
) -> None:
    place.write()
    module = place.root / "hub.py"  # a change takes one secret away and adds another
    module.write_text(f"HF_TOKEN = '{SECRET}-old'\n")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
    for did in (("init", "-q"), ("add", "hub.py"), ("commit", "-qm", "one")):
        subprocess.run([*git, *did], cwd=place.root, check=True)
    module.write_text(f"HF_TOKEN = '{SECRET}-new'\n")
    said = place.say("run", "--json", f"+hf={{token:{SECRET}}}")
    assert SECRET not in said
    assert (place.root / "env").read_text() == f"HUB_TOKEN={SECRET}\n"
    for path in (place.root / "out").rglob("*"):
        if path.is_file():
            assert SECRET not in path.read_text(errors="replace"), path
    resolved = next((place.root / "out").rglob("resolved_config.yaml")).read_text()
    assert "token: '***'" in resolved
    assert "ada:***@host" in resolved
    assert "train_tokens: 1000" in resolved or "train_tokens: 2000" in resolved
    diff = next((place.root / "out").rglob("git.diff")).read_text()
    assert "+HF_TOKEN = '***'" in diff
    assert "-HF_TOKEN = '***'" in diff
    for command, *words in (
        ("visualize",),
        ("render_config", "--json"),
        ("plan", f"hub.token={SECRET}x", "--json"),
    ):
        assert SECRET not in place.say(command, *words), (command, words)
    assert SECRET in place.say("render_config", "--unmask")
    place.write("private", ("echo logged", "echo --hub-token ${hub.token}"))
    said = place.say("plan")
    assert "the command line holds what looks like a secret" in said
    assert SECRET not in said


@pytest.mark.parametrize(
    ("share", "directory", "file"),
    [
        ("private", "0o700", "0o600"),
        ("group", "0o2750", "0o640"),
        ("{group: write}", "0o2770", "0o660"),
    ],
)
def test_modes_are_what_the_project_says_whatever_the_umask(
    place: Place, share: str, directory: str, file: str
) -> None:
    umask = 0o002 if share == "private" else 0o077
    place.write(share)
    place.say("run", "--json", umask=umask)
    outputs = list((place.root / "out").rglob("provenance"))
    assert outputs
    for provenance in outputs:
        assert mode(provenance.parent) == mode(provenance) == directory
        assert {mode(path) for path in provenance.iterdir()} == {file}
    assert place.modes("current.log") == {file}
    assert int((place.root / "umask").read_text(), 8) == umask
    assert place.modes("task.*.json") == {"0o600"}
    # So does a job that runs without a session.
    manifest = next(place.root.rglob("manifests/plan_????????????.json"))
    words = ("--manifest", str(manifest), "--index", "0", "--force")
    shutil.rmtree(place.root / "out")
    place.say("run_sweep_entry", *words, umask=umask)
    (word,) = (place.root / "out").rglob("done.json")
    assert mode(word.parent) == mode(word.parent.parent) == directory
    assert mode(word) == file
    assert place.modes("slurm-*.out") == {file}
    assert place.modes("task.json") == {"0o600"}


def test_digests_of_the_environment_are_keyed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write("private", (f"token: {SECRET}", 'token: "${oc.env:SHORT}"'))
    monkeypatch.setenv("SHORT", "1234")
    manifest = place.say("plan", "--json")
    stored = "".join(p.read_text() for p in place.root.rglob("plan_*.json"))
    kept = next(place.root.rglob("manifests/plan_????????????.json"))
    assert json.loads(kept.read_text())["environment"]["SHORT"]
    assert hashlib.sha256(b"1234").hexdigest()[:8] not in stored + manifest
    assert mode(place.root / "xdg" / "autoexp-tui" / "digest-key") == "0o600"


IN_A_CONDITION = (
    "start_conditions:\n  - class_name: CommandCondition\n"
    f"    command: [true, --token, {SECRET}]\nsweep:"
)
MASK = ("project: {", "project: {mask: {add: [pin], keep: [b_token]}, ")


@pytest.mark.parametrize(
    ("changes", "params", "words", "shown", "hidden"),
    [
        ([("sweep:", IN_A_CONDITION)], f"hub.token: [{SECRET}]", "", "", SECRET),
        (  # what tells jobs apart is shown
            [],
            "hub.token: [one-a, two-b], a.token: [three-c]",
            "+a.token=0",
            "one-a two-b",
            "three-c",
        ),
        (
            [MASK],
            "a_pin: [x1y2], pin: [x3y4], b_token: [kept]",
            "+a_pin=0 +pin=0 +b_token=0",
            "x1y2 kept",
            "x3y4",
        ),
    ],
)
def test_points_show_what_tells_jobs_apart_and_no_secret(
    place: Place,
    changes: list[tuple[str, str]],
    params: str,
    words: str,
    shown: str,
    hidden: str,
) -> None:
    place.write("private", *changes, ("params: {", f"params: {{{params}, "))
    said = place.say("plan", "--points", *words.split())
    assert [one for one in shown.split() if one not in said] == []
    assert hidden not in said
    if not words:
        assert SECRET not in place.say("plan", "--json")
