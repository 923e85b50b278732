"""What lies on disk before sbatch is run, what its answers mean, and what it is asked
of a plan before anything is sent."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.engine.executor_port import (
    Accepted,
    Busy,
    Rejected,
    Submission,
    SubmitAnswer,
    Task,
    Uncertain,
    Unexplained,
)
from autoexp_tui.executors.slurm.commands import Ran
from autoexp_tui.executors.slurm.refusals import check_cluster
from autoexp_tui.executors.slurm.script import AROUND
from autoexp_tui.executors.slurm.submit import SubmitSettings, send
from autoexp_tui.model.errors import EnvironmentFailed, UsageError
from autoexp_tui.model.specs import JobSpec, Plan, Resources, Scalar
from autoexp_tui.model.states import Cause
from autoexp_tui.testing.clock import ManualClock
from tests.executors.slurm_scripted import (
    CONFIG,
    SILENT,
    Answer,
    ScriptedCommands,
    fails,
    says,
)
from tests.model.builders import job, plan
from tests.support.tasks import make_task

MISSING = Ran(arguments=("?",), status=None, missing="sbatch is not here: load it")


class Place:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.sbatch = ScriptedCommands({})
        self.settings = SubmitSettings(
            wrapper=root / "wrapper.py",
            python="python3",
            scripts=root / "scripts",
            array_logs=root / "log" / ".arrays",
            grace_seconds=7.0,
            throttle=2,
        )

    def send(self, *jobs: str, answer: Ran | None = None) -> SubmitAnswer:
        tasks = tuple(self.task(job) for job in jobs or ("train_lr0.1",))
        submission = Submission(token="tok", session="k7f2", tasks=tasks)
        self.sbatch.answers["sbatch"] = answer or says("51\n")
        return send(submission, self.settings, self.sbatch, ManualClock())

    def task(self, job: str) -> Task:
        command, env = ("python", "train.py"), {"A": "b"}
        asked = Resources(options={"partition": "main"})
        return make_task(self.root, job, 2, command=command, env=env, resources=asked)

    def written(self, index: int) -> dict[str, Any]:
        path = self.root / "scripts" / "tok" / f"{index}.json"
        found = json.loads(path.read_text())
        assert isinstance(found, dict)
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "50%j")


def test_a_single_job_s_log_lies_where_the_wrapper_looks_for_it(place: Place) -> None:
    """A percent in its path is no pattern; all that is kept is private."""
    place.send()
    (words,) = place.sbatch.ran
    root = str(place.root).replace("%", "%%")
    assert f"--output={root}/log/train_lr0.1/slurm-%j.out" in words
    assert "--job-name=train_lr0.1-tok" in words
    assert words[-2:] == ("--partition=main", f"{place.root}/scripts/tok/job.sh")
    assert place.written(0)["log_home"] == ""
    script = (place.root / "scripts" / "tok" / "job.sh").read_text()
    whose = "#!/bin/bash\n# train_lr0.1, of the session k7f2.\n"
    assert script.startswith(f"{whose}exec python3 ")
    assert script.count("\n") == 3
    kept = (place.root / "attempts", place.root / "scripts")
    below = [path for home in kept for path in home.rglob("*") if path.is_dir()]
    assert {path.stat().st_mode & 0o777 for path in (*kept, *below)} == {0o700}


def test_an_array_s_logs_lie_apart_and_its_files_tell_the_wrapper_all(
    place: Place,
) -> None:
    """Its tasks are throttled; sent again, its files are the same."""
    place.settings = replace(place.settings, launcher=("srun", "--unbuffered"))
    place.send("a_train", "b_train", "c_train")
    (words,) = place.sbatch.ran
    assert any(word.endswith("/log/.arrays/tok/slurm-%A_%a.out") for word in words)
    assert {"--array=0-2%2", "--job-name=train-tok"} <= set(words)
    assert (place.root / "log" / ".arrays" / "tok").is_dir()
    assert (place.root / "attempts" / "b_train" / "2").is_dir()
    expected = {
        "command": [*AROUND, "srun", "--unbuffered", "python", "train.py"],
        "job": "b_train",
        "attempt": 2,
        "index": 1,
        "env": {"A": "b"},
        "token": "tok",
        "nonce": "tok",
        "session": "k7f2",
        "grace_seconds": 7.0,
        "record_patience": 300.0,
        "log_home": f"{place.root}/log/.arrays/tok",
    }
    assert expected.items() <= place.written(1).items()
    files = [place.root / "scripts" / "tok" / n for n in ("0.json", "1.json", "job.sh")]
    before = [path.read_bytes() for path in files]
    place.send("a_train", "b_train", "c_train")
    assert [path.read_bytes() for path in files] == before


def test_an_id_is_acceptance_of_every_task(place: Place) -> None:
    stderr = "sbatch: error: lua: 16 GB per GPU are recommended\n"
    answer = says("51;cluster\n", stderr=stderr)
    found = place.send(answer=answer), place.send("a", "b")
    ids = [one.executor_ids for one in found if isinstance(one, Accepted)]
    assert ids == [("51",), ("51_0", "51_1")]
    assert found[0].sent.startswith("sbatch --parsable")


def test_an_answer_of_sbatch_is_told_with_what_was_sent(place: Place) -> None:
    for answer, kind, said in (
        (SILENT, Uncertain, "sbatch did not answer within 60 s"),
        # By itself, and below a shell.
        *((says(status=n), Uncertain, "killed by SIGKILL") for n in (-9, 137)),
        (says("51\n", status=1), Uncertain, "sbatch named a job, yet failed"),
        (says("hello"), Uncertain, "instead of a job id"),
        (fails("sbatch: error: Socket timed out"), Uncertain, "Socket timed out"),
        *((says(status=n), Unexplained, "no reason") for n in (1, 127, 255)),
        (fails("sbatch: error: AssocMaxSubmitJobLimit"), Busy, "AssocMaxSubmit"),
        (fails("sbatch: error: invalid partition specified: x"), Rejected, "main"),
        (MISSING, Rejected, "sbatch is not here"),
    ):
        told = place.send(answer=answer)
        assert isinstance(told, kind)
        assert not isinstance(told, Accepted)
        assert said in told.message
        assert told.sent.startswith("sbatch ")
        missing = answer is MISSING
        assert (getattr(told, "cause", None) is Cause.SUBMIT_ERROR) == missing


def test_a_controller_that_is_not_there_was_sent_nothing(place: Place) -> None:
    away = "Unable to contact slurm controller (connect failure)"
    answer = place.send(answer=fails(f"sbatch: error: {away}"))
    assert isinstance(answer, Busy)
    assert answer.unreachable


@pytest.mark.parametrize("blocked", ["scripts", "log", "attempts", "own.sh"])
def test_what_cannot_be_made_or_read_is_told_and_nothing_sent(
    place: Place, blocked: str
) -> None:
    place.root.mkdir()
    if blocked == "own.sh":
        template = str(place.root / blocked)
        place.settings = replace(place.settings, template_path=template)
    else:
        (place.root / blocked).write_text("in the way")
    answer = place.send()
    assert isinstance(answer, Rejected)
    assert answer.cause is Cause.SUBMIT_ERROR
    assert str(place.root / blocked) in answer.message
    assert place.sbatch.ran == []


def test_a_template_of_the_user_s_is_filled_in(place: Place) -> None:
    place.root.mkdir()
    path = place.root / "own.sh"
    path.write_text('#!/bin/sh\ncd "{output_dir}" || exit 1\nexec {command}\n')
    place.settings = replace(place.settings, template_path=str(path))
    place.send()
    text = (place.root / "scripts" / "tok" / "job.sh").read_text()
    assert f'cd "{place.root}/out/train_lr0.1" || exit 1\n' in text
    assert text.endswith("/scripts/tok/${SLURM_ARRAY_TASK_ID:-0}.json\n")


WOULD = says(
    stderr="sbatch: Job 11 to start at 2026-11-20T18:50:49 using 1 processors on nodes "
    "n1 in partition main\n"
)


def asking(name: str, **options: Scalar) -> JobSpec:
    return replace(job(name), resources=Resources(options=options))


def cluster(sbatch: Answer, scontrol: Answer | None = None) -> ScriptedCommands:
    return ScriptedCommands({"scontrol": scontrol or says(CONFIG), "sbatch": sbatch})


def with_template(path: str) -> Plan:
    made = plan(asking("a"))
    settings = {"template_path": path}
    return replace(made, executor=replace(made.executor, settings=settings))


def test_jobs_that_ask_for_the_same_are_one_question_about_where_and_when() -> None:
    commands = cluster(WOULD)
    jobs = [asking("a", mem="1G"), asking("b", mem="2G"), asking("c", mem="1G")]
    one, two = check_cluster(plan(*jobs), commands).checks
    assert (one.jobs, two.jobs) == (("a", "c"), ("b",))
    sent = commands.ran_by("sbatch")
    assert ["--test-only" in words for words in sent] == [True, True]
    assert (one.verdict, one.nodes, one.partition) == ("taken", "n1", "main")
    local = time.localtime(one.starts_at)
    assert time.strftime("%Y-%m-%dT%H:%M:%S", local) == "2026-11-20T18:50:49"


def test_a_refusal_names_its_option() -> None:
    asked, option = plan(asking("a", partition="x")), "slurm.sbatch.partition"
    for answer, verdict, where in (
        (says(), "taken", None),
        (fails("sbatch: error: AssocMaxSubmitJobLimit"), "not now", None),
        (fails("sbatch: error: invalid partition specified: x"), "refused", option),
    ):
        (one,) = check_cluster(asked, cluster(answer)).checks
        assert (one.verdict, one.refused and one.refused.where) == (verdict, where)
        assert one.starts_at is None


def test_the_template_s_own_lines_are_asked_about_too(tmp_path: Path) -> None:
    template = tmp_path / "job.sh"
    template.write_text("#!/bin/bash\n#SBATCH --mem=9T\nexec {command}\n")
    seen: list[str] = []

    def sbatch(words: Sequence[str]) -> Ran:
        seen.append(Path(words[-1]).read_text())
        return WOULD

    check_cluster(with_template(str(template)), cluster(sbatch))
    assert seen == ["#!/bin/bash\n#SBATCH --mem=9T\nexec true\n"]
    with pytest.raises(UsageError, match="cannot read /nope"):
        check_cluster(with_template("/nope"), cluster(WOULD))


def test_without_a_cluster_the_next_step_is_told() -> None:
    unset = fails("scontrol: fatal: Could not establish a configuration source")
    for scontrol, told in (
        (SILENT, "scontrol did not answer within 30 s"),
        (unset, "no cluster is set up on this machine"),
        (MISSING, "sbatch is not here"),
    ):
        commands = cluster(WOULD, scontrol)
        with pytest.raises(EnvironmentFailed, match=told) as caught:
            check_cluster(plan(asking("a")), commands)
        assert caught.value.hint
        assert commands.calls["sbatch"] == 0


def test_a_controller_that_goes_away_in_between_is_no_refusal() -> None:
    away = fails("sbatch: error: Unable to contact slurm controller")
    with pytest.raises(EnvironmentFailed, match="Unable to contact"):
        check_cluster(plan(asking("a")), cluster(away))
