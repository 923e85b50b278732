"""Runs on real processes: of a plan that is submitted again, and such as stop early."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoexp_tui.cli.assemble import Ground
from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.plan import main as plan
from autoexp_tui.cli.run import main as run
from autoexp_tui.cli.sessions import main as sessions
from autoexp_tui.cli.submit import main as submit
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.rules import Storm
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.storage.done_file import get_done_path, read_done
from autoexp_tui.storage.json_codec import decode_plan, encode_plan
from autoexp_tui.storage.output_dir_lock import Owner, take_ownership
from autoexp_tui.storage.session_dir import SessionDir
from tests.e2e.campaign import Campaign, result_of
from tests.model.builders import job


class Runs:
    """A small campaign, and commands over its state directory."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.campaign, self._capsys = Campaign(root), capsys
        self.campaign.write(families=2, seconds=0.3)
        self.words = ("--manifest", str(self.campaign.manifest))
        self.change()

    def change(
        self,
        job: Callable[[JobSpec], JobSpec] = lambda job: job,
        whole: Callable[[Plan], Plan] = lambda plan: plan,
        **prints: str,
    ) -> None:
        """Write the plan anew; `prints`: jobs that would do other work."""
        made = whole(decode_plan(self.campaign.manifest.read_bytes()))
        jobs = tuple(
            replace(job(one), fingerprint=prints.get(one.name, f"f-{one.name}"))
            for one in made.jobs
        )
        self.campaign.manifest.write_bytes(encode_plan(replace(made, jobs=jobs)))

    def call(
        self, main: Callable[..., int], *words: str, code: int = 0
    ) -> tuple[str, str]:
        """What a command says on either stream; it must end with this code."""
        place = ["--state-dir", str(self.campaign.state_dir)]
        found = run_guarded(main, [*words, *place])
        out, err = self._capsys.readouterr()
        assert found == code, err
        return out, err

    def run(self, *words: str) -> dict[str, dict[str, object]]:
        """`autoexp-run`, which must end well; its jobs."""
        return result_of(self.call(run, *(words or self.words), "--json")[0])

    def ran(self, *words: str) -> set[str]:
        """The jobs that it did not find done."""
        return {name for name, job in self.run(*words).items() if job["attempts"]}

    def begun(self) -> int:
        """How often any process of a job began, so far."""
        return sum(self.campaign.begun().values())

    def sessions(self) -> list[str]:
        found = self.campaign.state_dir.glob("*/plan.json")
        newest_last = sorted(found, key=lambda path: path.parent.stat().st_mtime)
        return [path.parent.name for path in newest_last]


@pytest.fixture
def runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Runs:
    return Runs(tmp_path, capsys)


@pytest.fixture
def again(runs: Runs) -> Runs:
    """It has run once."""
    runs.run()
    return runs


ALL = {"stable0", "cooldown0", "stable1", "cooldown1", "report"}
ANEW = {"stable1", "cooldown1", "report"}


def test_the_second_run_ends_at_once_and_starts_no_process(again: Runs) -> None:
    before = again.begun()
    jobs = again.run()
    assert again.begun() == before
    assert {job["state"] for job in jobs.values()} == {"COMPLETED"}
    assert {job["attempts"] for job in jobs.values()} == {0}
    assert "done already in session" in str(jobs["report"]["why"])
    out, err = again.call(run, *again.words)
    assert "5 of 5 jobs: not run again" in err
    assert "stable0" not in err
    assert "5 completed (5 done before)" in out
    told = json.loads(again.call(submit, *again.words, "--json")[0])
    assert set(told["jobs"].values()) == {"COMPLETED"}
    assert len(again.sessions()) == 4
    again.call(sessions, "retry", again.sessions()[-1], "stable1")
    assert again.ran("--session", again.sessions()[-1]) == ANEW
    assert again.begun() == before + 3
    assert again.ran(*again.words, "--force") == ALL
    assert again.begun() >= before + 8
    before = again.begun()  # what is done outlives the sessions that did it
    again.call(sessions, "clean", *again.sessions(), "--yes")
    assert again.ran() == set()
    assert again.begun() == before


def change(again: Runs) -> None:
    again.change(stable1="other")


def empty(again: Runs) -> None:
    shutil.rmtree(again.campaign.root / "out/stable1")
    (again.campaign.root / "out/stable1").mkdir()


def damage(again: Runs) -> None:
    get_done_path(again.campaign.root / "out/report").write_bytes(b"\x00{")


@pytest.mark.parametrize(
    ("happens", "ran"), [(change, ANEW), (empty, ANEW), (damage, {"report"})]
)
def test_what_changed_is_gone_or_damaged_runs_and_what_builds_on_it(
    again: Runs, happens: Callable[[Runs], None], ran: set[str]
) -> None:
    assert "5 of 5 jobs are done already" in again.call(plan, *again.words)[0]
    happens(again)
    told = json.loads(again.call(plan, *again.words, "--json")[0])
    assert set(told["done_before"]) == ALL - ran
    if happens is change:
        assert told["changed_since"] == ["stable1"]
        out = again.call(plan, *again.words)[0]
        assert "2 of 5 jobs are done already" in out
        assert "changed since they were done, run again: stable1" in out
        assert "build on what runs again, run again: cooldown1, report" in out
    assert again.ran() == ran


def quiet(made: Plan, **rules: Any) -> Plan:
    """Nothing is restarted."""
    return replace(made, monitoring=replace(made.monitoring, state_events=(), **rules))


def test_a_run_that_failed_half_way_is_no_longer_done(again: Runs) -> None:
    def breaks(job: JobSpec) -> JobSpec:
        return replace(job, command=("false",)) if job.name == "stable1" else job

    written = again.campaign.manifest.read_bytes()
    again.change(breaks, quiet, stable1="other")
    again.call(run, *again.words, code=1)
    again.campaign.manifest.write_bytes(written)
    assert again.run()["stable1"]["attempts"] == 1


def test_no_word_is_left_in_a_directory_that_another_session_has_by_now(
    tmp_path: Path,
) -> None:
    out, state = tmp_path / "out", tmp_path / "state"
    spec = job("a", output_dir=str(out), fingerprint="f")
    work = DoneWork(job="a", session="s1", mark="m", fingerprint="f", at=1.0)
    ground = Ground(SessionDir(state / "s1"))
    for session, noted in (("s2", None), ("s1", work)):
        take_ownership(out, Owner(session=session, state_dir=str(state), job="a"))
        ground.note_done(spec, work)
        assert read_done(out) == noted


def test_a_run_in_a_storm_ends_with_6_and_goes_on_when_resumed(runs: Runs) -> None:
    mended = runs.campaign.root / "mended"
    test = f"import os, sys; sys.exit(not os.path.exists({str(mended)!r}))"

    def breaks(job: JobSpec) -> JobSpec:
        free = replace(job, start_conditions=(), cancel_conditions=(), depends_on=())
        return replace(free, command=(sys.executable, "-c", test))

    def single(made: Plan) -> Plan:
        one = replace(made.executor, settings={"slots": 1})
        rules = quiet(made, storm=Storm(failures=3))
        return replace(rules, edges=(), executor=one)

    runs.change(breaks, single)
    out, err = runs.call(run, *runs.words, code=6)
    assert "stopped by the storm breaker" in err
    assert "3 failed" in out
    (session,) = runs.sessions()
    runs.call(run, "--session", session, code=6)
    mended.touch()
    runs.call(sessions, "resume", session)
    runs.call(sessions, "retry", session, "--all")
    states = Counter(job["state"] for job in runs.run("--session", session).values())
    assert states == {"COMPLETED": 5}


NEVER = {"class_name": "FileExists", "path": "{sibling.first.output_dir}/saved"}
ASKS = {"class_name": "Approval", "prompt": "Go on?"}


@pytest.mark.parametrize(
    ("command", "condition", "states"),
    [("false", NEVER, ["FAILED", "WAITING"]), ("true", ASKS, ["COMPLETED", "WAITING"])],
)
def test_a_run_ends_with_1_over_what_cannot_start_or_asks_and_a_later_one_answers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    condition: dict[str, str],
    states: list[str],
) -> None:
    second = {"stage": "second", "backend.command": ["true"]}
    config = {
        "project": {"name": "{stage}", "base_output_dir": "out"},
        "backend": {"class_name": "Command", "command": [command]},
        "slurm": {"client": {"class_name": "LocalClient"}},
        "monitoring": {"doomed": "hold", "doomed_grace_seconds": 0.5},
        "sweep": {
            "configs": [{"stage": "first"}, {**second, "start_conditions": [condition]}]
        },
    }
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOEXP_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "exp.yaml").write_text(yaml.safe_dump(config))
    assert run_guarded(run, ["--config-ref", "exp", "--json", "--no-wait"]) == 1
    out, err = capsys.readouterr()
    result = json.loads(out.splitlines()[-1])
    assert [job["state"] for job in result["jobs"]] == states
    if condition is NEVER:
        assert "1 job cannot start" in err
        return
    words = ["--session", result["session"], "--approve", "all", "--json"]
    assert run_guarded(run, words) == 0
    jobs = result_of(capsys.readouterr().out)
    assert jobs["second"]["state"] == "COMPLETED"
