"""What lies on disk before sbatch is run, and what its answers mean."""

from __future__ import annotations

import json
from collections import Counter
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
from autoexp_tui.executors.slurm.script import AROUND, read_template
from autoexp_tui.executors.slurm.submit import Sender, SubmitSettings
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.specs import Resources
from autoexp_tui.model.states import Cause
from autoexp_tui.testing.clock import ManualClock


class Sbatch:
    """`Commands` whose sbatch ends as it is told to."""

    def __init__(self, **ends: Any) -> None:
        self.calls: Counter[str] = Counter()
        self.ends: dict[str, Any] = {"status": 0, "stdout": "51\n"} | ends
        self.sent: list[tuple[str, ...]] = []

    def run(self, arguments: Sequence[str], timeout: float) -> Ran:
        self.sent.append(tuple(arguments))
        return Ran(arguments=tuple(arguments), **self.ends)


class Place:
    """A session's directory, and submissions in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock()
        self.settings = SubmitSettings(
            wrapper=root / "wrapper.py",
            python="python3",
            scripts=root / "scripts",
            array_logs=root / "log" / ".arrays",
            grace_seconds=7.0,
            throttle=2,
        )

    def submission(self, *jobs: str) -> Submission:
        tasks = tuple(self.task(job) for job in jobs or ("train_lr0.1",))
        return Submission(token="tok", session="k7f2", tasks=tasks)

    def task(self, job: str) -> Task:
        return Task(
            job=job,
            attempt=2,
            command=("python", "train.py"),
            env={"A": "b"},
            cwd=str(self.root / "out" / job),
            output_dir=str(self.root / "out" / job),
            log_dir=str(self.root / "log" / job),
            attempt_dir=str(self.root / "attempts" / job / "2"),
            resources=Resources(options={"partition": "main"}),
        )

    def send(self, submission: Submission, **ends: Any) -> SubmitAnswer:
        self.sbatch = Sbatch(**ends)
        return Sender(self.settings, self.sbatch, self.clock).send(submission)

    def written(self, name: str) -> dict[str, Any]:
        found = json.loads((self.root / "scripts" / "tok" / name).read_text())
        assert isinstance(found, dict)
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# ---------------------------------------------------------------------- what it sends
def test_a_single_job_s_log_lies_where_the_wrapper_looks_for_it(place: Place) -> None:
    place.send(place.submission())
    (words,) = place.sbatch.sent
    assert f"--output={place.root}/log/train_lr0.1/slurm-%j.out" in words
    assert "--job-name=train_lr0.1-tok" in words
    assert words[-2:] == ("--partition=main", f"{place.root}/scripts/tok/job.sh")
    assert place.written("0.json")["log_home"] == ""


def test_an_array_s_logs_lie_apart_and_its_tasks_are_throttled(place: Place) -> None:
    place.send(place.submission("a_train", "b_train", "c_train"))
    (words,) = place.sbatch.sent
    assert f"--output={place.root}/log/.arrays/tok/slurm-%A_%a.out" in words
    assert "--array=0-2%2" in words
    assert "--job-name=train-tok" in words
    assert (place.root / "log" / ".arrays" / "tok").is_dir()
    assert (place.root / "attempts" / "b_train" / "2").is_dir()


def test_what_a_session_keeps_of_a_submission_is_private_at_every_level(
    place: Place,
) -> None:
    place.send(place.submission())
    kept = (place.root / "attempts", place.root / "scripts")
    below = [path for home in kept for path in home.rglob("*") if path.is_dir()]
    modes = {path.stat().st_mode & 0o777 for path in (*kept, *below)}
    assert modes == {0o700}


def test_a_task_file_tells_the_wrapper_all_it_needs(place: Place) -> None:
    place.settings = replace(place.settings, launcher=("srun", "--unbuffered"))
    place.send(place.submission("a", "b"))
    told = place.written("1.json")
    assert told["command"] == [*AROUND, "srun", "--unbuffered", "python", "train.py"]
    assert (told["job"], told["attempt"], told["index"]) == ("b", 2, 1)
    assert (told["token"], told["nonce"], told["session"]) == ("tok", "tok", "k7f2")
    assert (told["grace_seconds"], told["record_patience"]) == (7.0, 300.0)
    assert told["log_home"] == f"{place.root}/log/.arrays/tok"
    assert told["env"] == {"A": "b"}


def test_sent_again_it_is_the_same_in_every_byte(place: Place) -> None:
    files = ("0.json", "1.json", "job.sh")
    taken = []
    for _ in range(2):
        place.send(place.submission("a", "b"))
        folder = place.root / "scripts" / "tok"
        taken.append([(folder / name).read_bytes() for name in files])
    assert taken[0] == taken[1]


def test_a_percent_in_the_path_of_the_logs_is_no_pattern(tmp_path: Path) -> None:
    place = Place(tmp_path / "50%j")
    place.send(place.submission())
    (words,) = place.sbatch.sent
    assert any("50%%j/log/train_lr0.1/slurm-%j.out" in word for word in words)


# ------------------------------------------------------------------------ its answers
def test_an_id_is_acceptance_of_every_task(place: Place) -> None:
    one = place.send(place.submission(), stdout="51;cluster\n")
    many = place.send(place.submission("a", "b"))
    assert isinstance(one, Accepted)
    assert isinstance(many, Accepted)
    assert (one.executor_ids, many.executor_ids) == (("51",), ("51_0", "51_1"))
    assert one.sent.startswith("sbatch --parsable")


def fails(words: str, status: int = 1) -> dict[str, Any]:
    return {"status": status, "stdout": "", "stderr": words and f"sbatch: {words}\n"}


@pytest.mark.parametrize(
    ("ends", "kind", "said"),
    [
        (
            {"status": None, "stdout": ""},
            Uncertain,
            "sbatch did not answer within 60 s",
        ),
        ({"stdout": "hello"}, Uncertain, "instead of a job id"),
        (fails("error: Socket timed out on send/recv"), Uncertain, "Socket timed out"),
        *((fails("", status), Unexplained, "no reason") for status in (1, 127, 255)),
        (fails("error: AssocMaxSubmitJobLimit"), Busy, "AssocMaxSubmitJobLimit"),
        (fails("error: invalid partition specified: main"), Rejected, "main"),
    ],
)
def test_an_answer_of_sbatch_is_told_with_what_was_sent(
    place: Place, ends: dict[str, Any], kind: type, said: str
) -> None:
    answer = place.send(place.submission(), **ends)
    assert isinstance(answer, kind)
    assert not isinstance(answer, Accepted)
    assert said in answer.message
    assert answer.sent.startswith("sbatch ")


@pytest.mark.parametrize("status", [-9, 137], ids=["itself", "below a shell"])
def test_an_sbatch_that_was_killed_is_in_doubt(place: Place, status: int) -> None:
    answer = place.send(place.submission(), status=status, stdout="")
    assert isinstance(answer, Uncertain)
    assert answer.message == "sbatch was killed by SIGKILL"


@pytest.mark.parametrize("stderr", ["", "sbatch: error: Invalid --time specification"])
def test_an_sbatch_that_names_a_job_and_fails_is_in_doubt(
    place: Place, stderr: str
) -> None:
    answer = place.send(place.submission(), status=1, stdout="51\n", stderr=stderr)
    assert isinstance(answer, Uncertain)


def test_complaints_beside_an_id_are_no_failure(place: Place) -> None:
    stderr = "sbatch: error: lua: 16 GB per GPU are recommended\n"
    answer = place.send(place.submission(), stdout="51\n", stderr=stderr)
    assert isinstance(answer, Accepted)


def test_a_controller_that_is_not_there_was_sent_nothing(place: Place) -> None:
    text = (
        "sbatch: error: Batch job submission failed: Unable to contact slurm "
        "controller (connect failure)\n"
    )
    answer = place.send(place.submission(), status=1, stdout="", stderr=text)
    assert isinstance(answer, Busy)
    assert answer.unreachable


def test_a_missing_sbatch_is_told(place: Place) -> None:
    answer = place.send(place.submission(), status=None, missing="sbatch is not here")
    assert isinstance(answer, Rejected)
    assert (answer.cause, answer.message) == (Cause.SUBMIT_ERROR, "sbatch is not here")


# ---------------------------------------------------------------- what cannot be sent
@pytest.mark.parametrize("blocked", ["scripts", "log", "attempts"])
def test_a_directory_that_cannot_be_made_is_told_and_nothing_sent(
    place: Place, blocked: str
) -> None:
    (place.root / blocked).write_text("in the way")
    answer = place.send(place.submission())
    assert isinstance(answer, Rejected)
    assert answer.cause is Cause.SUBMIT_ERROR
    assert str(place.root / blocked) in answer.message
    assert place.sbatch.sent == []


def test_a_template_that_is_gone_is_told_and_nothing_sent(place: Place) -> None:
    place.settings = replace(place.settings, template_path="/nowhere/job.sh")
    answer = place.send(place.submission())
    assert isinstance(answer, Rejected)
    assert "/nowhere/job.sh" in answer.message
    assert place.sbatch.sent == []


def test_a_template_of_the_user_s_is_filled_in(place: Place) -> None:
    path = place.root / "own.sh"
    path.write_text('#!/bin/sh\ncd "{output_dir}" || exit 1\nexec {command}\n')
    place.settings = replace(place.settings, template_path=str(path))
    place.send(place.submission())
    text = (place.root / "scripts" / "tok" / "job.sh").read_text()
    assert f'cd "{place.root}/out/train_lr0.1" || exit 1\n' in text
    assert text.endswith("/scripts/tok/${SLURM_ARRAY_TASK_ID:-0}.json\n")


def test_a_template_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.sh"
    path.write_bytes(b"#!/bin/sh\n\xff {command}\n")
    with pytest.raises(UsageError, match="it is no text"):
        read_template(str(path))
