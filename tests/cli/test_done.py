"""Runs on real processes: of a plan that is submitted again, and such as stop early."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.cli.assemble import Ground
from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.plan import main as plan
from autoexp_tui.cli.run import main as run
from autoexp_tui.cli.sessions import main as sessions
from autoexp_tui.cli.submit import main as submit
from autoexp_tui.conditions.kinds import Approval
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import JobSpec
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
        rules: Monitoring | None = None,
        **prints: str,
    ) -> None:
        """Write the plan anew; `prints`: jobs that would do other work."""
        made = decode_plan(self.campaign.manifest.read_bytes())
        made = replace(made, monitoring=rules or made.monitoring)
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


def fail(again: Runs) -> None:
    """It began again, and came to no end."""

    def breaks(job: JobSpec) -> JobSpec:
        return replace(job, command=("false",)) if job.name == "stable1" else job

    written = again.campaign.manifest.read_bytes()
    again.change(breaks, Monitoring(), stable1="other")
    again.call(run, *again.words, code=1)
    again.campaign.manifest.write_bytes(written)


@pytest.mark.parametrize(
    ("happens", "ran"),
    [(change, ANEW), (empty, ANEW), (damage, {"report"}), (fail, ANEW)],
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


def test_a_run_ends_with_1_over_what_asks_and_a_later_one_answers(runs: Runs) -> None:
    def ask(job: JobSpec) -> JobSpec:
        asks = (*job.start_conditions, Approval(prompt="Go on?"))
        return replace(job, start_conditions=asks) if job.name == "report" else job

    runs.change(ask)
    _, err = runs.call(run, *runs.words, "--no-wait", code=1)
    assert "1 job waits for approval" in err
    jobs = runs.run("--session", *runs.sessions(), "--approve", "all")
    assert {job["state"] for job in jobs.values()} == {"COMPLETED"}
