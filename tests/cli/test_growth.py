"""More of a session from the shell: asked about, joined, or refused with its place."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cli.open import SessionOpener
from autoexp_tui.cli.options import Options
from autoexp_tui.cli.run import main as run
from autoexp_tui.cli.submit import main as submit

Say = Callable[..., tuple[int, str, str]]
EXPERIMENT = """
project: {name: "{n}_{stage}", base_output_dir: out}
n: 0
tag: x
backend:
  class_name: Command
  command: [sh, -c, 'echo "$0 $1" >> "$2"', "${n}", "${stage}", %s]
slurm: {client: {class_name: LocalClient}}
sweep:
  groups:
    - params: {n: [1, 2]}
    - configs:
        - stage: first
        - stage: then
          start_conditions:
            - {class_name: JobState, job_name: "{sibling.first.name}",
               state: COMPLETED, timeout_seconds: 60}
"""


class Shell:
    """Commands in a directory with a session that has run two families to their end."""

    def __init__(self, root: Path, say: Say) -> None:
        """A first session of this root is run and kept beside it for the next test."""
        self.root, self._say = root, say
        kept = root.with_name("kept")
        if not kept.exists():
            (root / "config").mkdir()
            self.write(EXPERIMENT)
            self.call(run)
            shutil.copytree(root, kept, symlinks=True)
        shutil.rmtree(root)
        shutil.copytree(kept, root, symlinks=True)
        os.chdir(root)
        (session,) = (root / "outputs/.autoexp").glob("*/plan.json")
        self.session = session.parent.name

    def write(self, text: str) -> None:
        (self.root / "config/exp.yaml").write_text(text % (self.root / "ledger"))

    def call(self, main: Callable[..., int], *words: str, code: int = 0) -> str:
        found, out, err = self._say(main, *words)
        assert found == code, err
        return f"{out}{err}"

    def grow(self, *words: str, code: int = 0) -> str:
        return self.call(submit, "--session", self.session, *words, code=code)

    def tell(self, *words: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.grow(*words, "--yes", "--json"))
        return told

    @property
    def ran(self) -> Counter[str]:
        return Counter((self.root / "ledger").read_text().split("\n")[:-1])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One path for all, which the session names."""
    made = tmp_path_factory.mktemp("growth") / "root"
    made.mkdir()
    return made


@pytest.fixture
def shell(
    planned_here: None, root: Path, monkeypatch: pytest.MonkeyPatch, say: Say
) -> Shell:
    monkeypatch.chdir(root)
    return Shell(root, say)


def test_two_more_values_join_once_somebody_has_said_yes_and_run_once(
    shell: Shell,
) -> None:
    asked = shell.grow("n=[1,2,3,4]", code=3)
    assert "adds 4 jobs, 4 stay the same" in asked
    assert "Add --yes" in asked
    told = shell.grow("n=[1,2,3,4]", "--yes")
    assert "adds 4 jobs, 4 stay the same" in told
    shell.call(run, "--session", shell.session)
    names = [f"{n} {stage}" for n in range(1, 5) for stage in ("first", "then")]
    assert shell.ran == Counter(names)
    assert "nothing joins" in shell.grow("--yes", code=3)


def test_without_a_screen_more_joins_and_runs_to_its_end(shell: Shell) -> None:
    words = ("--session", shell.session, "n=[1,2,3]", "--yes", "--json")
    jobs = json.loads(shell.call(run, *words).splitlines()[0])["jobs"]
    assert {job["name"]: job["attempts"] for job in jobs}["3_then"] == 1
    assert max(shell.ran.values()) == 1


def test_beside_a_living_engine_more_is_handed_to_that_and_watched(
    shell: Shell,
) -> None:
    options = Options(state_dir=str(shell.root / "outputs/.autoexp"))
    place = shell.root / "outputs/.autoexp" / shell.session
    engine = SessionOpener(options).own(str(place))
    try:
        words = ("--session", shell.session, "n=[1,2,3]", "--yes", "--json")
        told = json.loads(shell.call(run, *words).splitlines()[0])
    finally:
        engine.close()
    assert [job["state"] for job in told["jobs"]] == ["COMPLETED"] * 6
    assert max(shell.ran.values()) == 1


def test_what_differs_stays_or_comes_again_under_new_names(shell: Shell) -> None:
    shell.write(EXPERIMENT.replace("tag: x", "tag: y"))
    assert "--differing rename" in shell.grow("--yes", code=3)
    told = shell.tell("--differing", "rename")
    assert told["new_names"]["1_first"] == "1_first_v2"
    assert told["outcome"] == "done"
    shell.write(EXPERIMENT.replace("tag: x", "tag: z"))
    assert "4 differ and join under" in shell.grow("--differing", "rename", "--yes")
    shell.call(run, "--session", shell.session)
    assert set(shell.ran.values()) == {3}
    assert "4 stay the same" in shell.grow("--yes", code=3)


def test_what_is_no_longer_planned_is_named_and_ended_where_that_is_asked(
    shell: Shell,
) -> None:
    shell.tell("n=[1,2,3,4]", "--first-family")  # the other one is held
    told = shell.tell("n=[1,2,3]", "--unplanned-waiting", "end")
    assert told["no_longer_planned"]["waiting"] == ["4_first", "4_then"]
    assert "0 jobs, 6 stay the same" in shell.grow("--yes", code=3)


def test_a_name_that_means_another_point_has_to_be_decided_about(shell: Shell) -> None:
    by_index = EXPERIMENT.replace('"{n}_{stage}"', '"run_${index}"')
    shell.write(by_index)
    shell.call(run)
    sessions = (shell.root / "outputs/.autoexp").glob("*/plan.json")
    (shell.session,) = {one.parent.name for one in sessions} - {shell.session}
    told = shell.grow("n=[9,1,2]", "--yes", code=3)
    assert "mean other points now: run_0 was n=1 and is now n=9" in told
    assert shell.tell("n=[9,1,2]", "--differing", "keep")["added"] == ["run_4", "run_5"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("project.base_output_dir=other",), 3, "project.base_output_dir: is"),
        (("monitoring.state_dir=other",), 3, "/other now, and outputs/.autoexp"),
        (("slurm.client.class_name=SlurmClient",), 3, "slurm.client.class_name: is"),
        (("nn=3",), 2, "there is no such key"),
        (("n=[3,3]",), 3, "2 jobs have the name 3_first"),
        (("--config-ref", "other"), 2, "again, without --config-ref"),
    ],
)
def test_what_a_session_cannot_take_is_refused_with_its_place(
    shell: Shell, words: tuple[str, ...], code: int, told: str
) -> None:
    before = (shell.root / "outputs/.autoexp" / shell.session / "journal.jsonl").stat()
    assert told in shell.grow(*words, "--yes", code=code)
    after = (shell.root / "outputs/.autoexp" / shell.session / "journal.jsonl").stat()
    assert after.st_size == before.st_size


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("n: 0", "n: 0\nmonitoring: {state_dir: b}", "monitoring.state_dir: is "),
        ("base_output_dir: out", "base_output_dir: b", "project.base_output_dir: is "),
        ("LocalClient", "SlurmClient", "slurm.client.class_name: is SlurmClient now"),
    ],
)
def test_a_file_that_changed_what_a_session_cannot_is_refused_too(
    shell: Shell, old: str, new: str, told: str
) -> None:
    shell.write(EXPERIMENT.replace(old, new))
    assert told in shell.grow("n=[1,2,3]", "--yes", code=3)


def test_the_choices_about_a_session_need_one(say: Say) -> None:
    code, _, err = say(submit, "--differing", "rename")
    assert (code, "Name it with --session" in err) == (2, True)
