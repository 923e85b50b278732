"""A plan that is submitted again, on real processes."""

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
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.specs import Plan
from autoexp_tui.storage.done_file import get_done_path, read_done
from autoexp_tui.storage.json_codec import decode_plan, encode_plan
from autoexp_tui.storage.output_dir_lock import Owner, take_ownership
from autoexp_tui.storage.session_dir import SessionDir
from tests.e2e.campaign import Campaign, result_of
from tests.model.builders import job


class Again:
    """A small campaign whose jobs have fingerprints."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.campaign = Campaign(root)
        self.campaign.write(families=2, seconds=0.3)
        self._capsys = capsys
        self.change(lambda plan: plan)

    def change(self, how: Callable[[Plan], Plan], **prints: str) -> None:
        """Write the plan anew; `prints`: jobs that would do other work."""
        manifest = self.campaign.manifest
        made = how(decode_plan(manifest.read_bytes()))
        jobs = tuple(
            replace(job, fingerprint=prints.get(job.name, f"f-{job.name}"))
            for job in made.jobs
        )
        manifest.write_bytes(encode_plan(replace(made, jobs=jobs)))

    def call(self, main: Callable[..., int], *words: str) -> tuple[int, str, str]:
        place = ["--state-dir", str(self.campaign.state_dir)]
        code = run_guarded(main, [*words, *place])
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err

    def run(self, *words: str) -> dict[str, dict[str, object]]:
        """`autoexp-run`, which must end well; its jobs."""
        given = ["--manifest", str(self.campaign.manifest), "--json", *words]
        code, out, err = self.call(run, *given)
        assert code == 0, err
        return result_of(out)

    def begun(self) -> int:
        """How often any process of a job began, so far."""
        return sum(self.campaign.begun().values())

    def sessions(self) -> list[str]:
        place = self.campaign.state_dir
        return sorted(path.parent.name for path in place.glob("*/plan.json"))


@pytest.fixture
def again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Again:
    made = Again(tmp_path, capsys)
    made.run()
    return made


def test_the_second_run_ends_at_once_and_starts_no_process(again: Again) -> None:
    before = again.begun()
    jobs = again.run()
    assert again.begun() == before
    assert {job["state"] for job in jobs.values()} == {"COMPLETED"}
    assert {job["attempts"] for job in jobs.values()} == {0}
    assert "done already in session" in str(jobs["report"]["why"])
    assert len(again.sessions()) == 2


def test_force_runs_all_anew(again: Again) -> None:
    before = again.begun()
    jobs = again.run("--force")
    assert {job["attempts"] for job in jobs.values()} <= {1, 2}
    assert again.begun() >= before + len(jobs)


def change(again: Again) -> None:
    again.change(lambda plan: plan, stable1="other")


def empty(again: Again) -> None:
    shutil.rmtree(again.campaign.root / "out/stable1")
    (again.campaign.root / "out/stable1").mkdir()


def damage(again: Again) -> None:
    get_done_path(again.campaign.root / "out/report").write_bytes(b"\x00{")


@pytest.mark.parametrize(
    ("happens", "ran"),
    [
        (change, {"stable1", "cooldown1", "report"}),
        (empty, {"stable1", "cooldown1", "report"}),
        (damage, {"report"}),
    ],
)
def test_what_changed_is_gone_or_damaged_runs_and_what_builds_on_it(
    again: Again, happens: Callable[[Again], None], ran: set[str]
) -> None:
    happens(again)
    assert {name for name, job in again.run().items() if job["attempts"]} == ran


def test_it_outlives_the_session_that_did_it(again: Again) -> None:
    (session,) = again.sessions()
    code, _, err = again.call(sessions, "clean", session, "--yes")
    assert code == 0, err
    before = again.begun()
    again.run()
    assert again.begun() == before


def test_a_run_that_failed_half_way_is_no_longer_done(again: Again) -> None:
    def breaks(made: Plan) -> Plan:
        jobs = (
            replace(job, command=("false",)) if job.name == "stable1" else job
            for job in made.jobs
        )
        return replace(
            made, jobs=tuple(jobs), monitoring=replace(made.monitoring, state_events=())
        )

    written = again.campaign.manifest.read_bytes()
    again.change(breaks, stable1="other")
    manifest = str(again.campaign.manifest)
    assert again.call(run, "--manifest", manifest)[0] == 1
    again.campaign.manifest.write_bytes(written)
    assert again.run()["stable1"]["attempts"] == 1


def test_the_plan_says_what_is_done_and_what_changed_since(again: Again) -> None:
    manifest = str(again.campaign.manifest)
    assert "5 of 5 jobs are done already" in again.call(plan, "--manifest", manifest)[1]
    again.change(lambda plan: plan, stable1="other")
    _, out, _ = again.call(plan, "--manifest", manifest)
    assert "2 of 5 jobs are done already" in out
    assert "changed since they were done, run again: stable1" in out
    assert "build on what runs again, run again: cooldown1, report" in out
    told = json.loads(again.call(plan, "--manifest", manifest, "--json")[1])
    assert told["done_before"] == ["stable0", "cooldown0"]
    assert told["changed_since"] == ["stable1"]


def test_submit_and_run_say_what_is_done(again: Again) -> None:
    words = ("--manifest", str(again.campaign.manifest))
    code, out, _ = again.call(submit, *words, "--json")
    assert (code, set(json.loads(out)["jobs"].values())) == (0, {"COMPLETED"})
    code, out, err = again.call(run, *words)
    assert code == 0
    assert "5 of 5 jobs: not run again" in err
    assert "stable0" not in err
    assert "5 completed (5 done before)" in out


def test_retry_runs_a_done_job_anew(again: Again) -> None:
    again.run()
    newest = max(
        again.sessions(),
        key=lambda name: (again.campaign.state_dir / name).stat().st_mtime,
    )
    before = again.begun()
    code, _, err = again.call(sessions, "retry", newest, "stable1")
    assert code == 0, err
    jobs = result_of(again.call(run, "--session", newest, "--json")[1])
    ran = {name for name, job in jobs.items() if job["attempts"]}
    assert ran == {"stable1", "cooldown1", "report"}
    assert again.begun() == before + 3


def test_no_word_is_left_in_a_directory_that_another_session_has_by_now(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    spec = job("a", output_dir=str(out), fingerprint="f")
    work = DoneWork(job="a", session="s1", mark="m", fingerprint="f", at=1.0)
    ground = Ground(SessionDir(tmp_path / "state/s1"))
    theirs = Owner(session="s2", state_dir=str(tmp_path / "state"), job="a")
    take_ownership(out, theirs)
    ground.note_done(spec, work)
    assert read_done(out) is None
    mine = Owner(session="s1", state_dir=str(tmp_path / "state"), job="a")
    take_ownership(out, mine)
    ground.note_done(spec, work)
    assert read_done(out) == work
