"""`retry --set`, and what `show --json` tells of the values and metrics of attempts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml

from autoexp_tui.cli import run
from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.session_verbs import request as session_request
from autoexp_tui.conditions.kinds import FileExists
from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.events import events
from autoexp_tui.model.specs import Edge
from autoexp_tui.model.states import Cause, JobState, Outcome, why
from autoexp_tui.storage.done_file import read_done
from autoexp_tui.storage.output_dir_lock import read_owner
from tests.cli.session_places import Place

FAILS_AT = 1e-4
"""The rate at which the job of `Site` fails."""


def two_attempts(place: Place) -> dict[str, Any]:
    """`train` failed at the plan's rate, and runs with another."""
    planned = place.plan().jobs[0]
    values = {"lr": 2e-4}
    spec = replace(
        planned, parameters=values, planned={"lr": 1e-4}, fingerprint="other"
    )
    place.session(
        "k7f2",
        events.JobsReleased(jobs=("train",)),
        *_begun(1),
        _noted(1, 3.0),
        _ended(1),
        events.JobEnded(job="train", state=JobState.FAILED, cause=Cause.EXIT_CODE),
        events.JobReplanned(
            job="train", spec=spec, why=why("other_overrides", overrides="lr=2e-4")
        ),
        events.JobRevived(job="train", why=why("revived_by", by="script")),
        *_begun(2),
        _noted(2, float("inf")),
        released=False,
    )
    code, out, err = place.say("show", "k7f2", "train", "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out, parse_constant=_refuse)["job"]
    return found


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


def _begun(number: int) -> Iterator[events.Event]:
    yield events.EffectOrdered(
        effect_id=f"e{number}",
        effect=SubmitTasks(token=f"t{number}", tasks=(("train", number),)),
    )
    yield events.SubmissionAccepted(
        token=f"t{number}", executor_ids=("x",), submitted_at=1.0
    )
    yield events.RunBegan(job="train", attempt=number, run=0, began_at=1.0)


def _noted(number: int, loss: float) -> events.MetricsNoted:
    values: dict[str, float | str] = {"loss": loss if loss < 1e9 else str(loss)}
    return events.MetricsNoted(
        job="train", attempt=number, run=0, step=number, total=9, values=values
    )


def _ended(number: int) -> events.AttemptEnded:
    return events.AttemptEnded(
        job="train", attempt=number, outcome=Outcome.FAILED, cause=Cause.EXIT_CODE
    )


def test_each_attempt_tells_its_values_and_metrics_as_data(place: Place) -> None:
    job = two_attempts(place)
    assert (job["values"], job["planned_values"]) == ({"lr": 2e-4}, {"lr": 1e-4})
    assert [one["values"] for one in job["runs"]] == [{"lr": 1e-4}, {"lr": 2e-4}]
    assert [one["metrics"] for one in job["runs"]] == [
        {"step": 1, "total": 9, "values": {"loss": 3.0}},
        {"step": 2, "total": 9, "values": {"loss": "inf"}},
    ]
    assert job["metrics"] == job["runs"][1]["metrics"]
    whole = json.loads(place.say("show", "k7f2", "--json")[1])["jobs"][0]
    for key in ("values", "planned_values", "metrics", "runs"):
        assert whole[key] == job[key]


def test_people_read_the_values_of_each_attempt(place: Place) -> None:
    two_attempts(place)
    out = place.say("show", "k7f2", "train")[1]
    assert "values: lr=0.0001\n" in out
    assert "values: lr=0.0002 (planned: 0.0001)\n" in out


def followed(place: Place, session: str) -> None:
    """`train` failed, and `wait` waits for a file that it writes."""
    plan = place.plan()
    waits = FileExists(path=str(place.root / "iter_8"), writer="train")
    follower = replace(plan.jobs[1], start_conditions=(waits,))
    edge = Edge(before="train", after="wait", mode="waits")
    place.session(
        session,
        events.JobsReleased(jobs=("train",)),
        *_begun(1),
        _ended(1),
        events.JobEnded(job="train", state=JobState.FAILED, cause=Cause.EXIT_CODE),
        plan=replace(plan, jobs=(plan.jobs[0], follower), edges=(edge,)),
        released=False,
    )


@pytest.fixture
def unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No engine lives: its answer is not waited for."""
    monkeypatch.setattr(session_request, "ANSWER_SECONDS", 0.2)


@pytest.mark.usefixtures("unanswered")
@pytest.mark.parametrize(
    ("given", "shown", "hidden"),
    [
        (
            (),
            ("Wait for what it writes, and will read:", "{root}/iter_8"),
            ("written anew", "same directory"),
        ),
        (
            ("--set", "lr=2e-4"),
            (
                "They wait until it is written anew",
                "It writes into the same directory: {root}/out/train",
            ),
            (),
        ),
        (
            ("--set", "lr=2e-4", "--followers", "use"),
            ("They read what lies there by now.",),
            (),
        ),
    ],
)
def test_retry_says_what_followers_will_read_and_where_it_writes(
    place: Place,
    given: tuple[str, ...],
    shown: tuple[str, ...],
    hidden: tuple[str, ...],
) -> None:
    followed(place, "k7f2")
    said = place.say("retry", "k7f2", "train", *given)[2]
    assert [one for one in shown if one.format(root=place.root) not in said] == []
    assert [one for one in hidden if one in said] == []


@pytest.fixture
def failed(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """A session whose only job failed at the planned rate."""
    monkeypatch.chdir(place.root)
    monkeypatch.setenv("AUTOEXP_STATE_DIR", str(place.state_dir))
    script = f"echo 'lm loss: 2.5'; test ${{lr}} != {FAILS_AT:g}"
    config = {
        "project": {"name": "job", "base_output_dir": "out"},
        "backend": {"class_name": "Bash", "script": script},
        "slurm": {"client": {"class_name": "LocalClient"}},
        "lr": FAILS_AT,
        "sweep": {"params": {"lr": [FAILS_AT]}},
    }
    (place.root / "config").mkdir()
    (place.root / "config" / "exp.yaml").write_text(yaml.safe_dump(config))
    code = run_guarded(run.main, ["--config-ref", "exp", "--json", "--yes"])
    out = capsys.readouterr().out
    assert code == 1, out
    session: str = json.loads(out.splitlines()[-1])["session"]
    return session


def test_a_job_tried_again_with_another_value_is_known_by_it(
    place: Place, failed: str
) -> None:
    code, out, err = place.say("retry", failed, "job", "--set", "lr=5e-4")
    assert code == 0, (out, err)
    code = run_guarded(run.main, ["--session", failed, "--json"])
    assert code == 0, place.capsys.readouterr()
    place.capsys.readouterr()
    told = json.loads(place.say("show", failed, "job", "--json")[1])["job"]
    assert [one["values"]["lr"] for one in told["runs"]] == [FAILS_AT, 5e-4]
    home = place.root / "out" / "job"
    config = yaml.safe_load((home / "provenance" / "resolved_config.yaml").read_text())
    assert config["lr"] == 5e-4
    overrides = (home / "provenance" / "overrides.txt").read_text().splitlines()
    assert overrides == ["lr=0.0001", "lr=5e-4"]
    owner, done = read_owner(home), read_done(home)
    prints = [one["fingerprint"] for one in told["runs"]]
    assert len(set(prints)) == 2
    assert owner is not None
    assert done is not None
    assert owner.fingerprint == done.fingerprint == prints[1]
    run_guarded(run.main, ["--config-ref", "exp", "--json", "--yes"])  # as planned
    (job,) = json.loads(place.capsys.readouterr().out.splitlines()[-1])["jobs"]
    assert job["attempts"] == 1


def test_values_that_do_not_compose_are_refused_where_they_were_given(
    place: Place, failed: str
) -> None:
    code, _, err = place.say("retry", failed, "job", "--set", "lrr=5e-4")
    assert code == 1
    assert "refused: " in err
    assert "lrr" in err
