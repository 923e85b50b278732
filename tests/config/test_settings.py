from __future__ import annotations

from collections.abc import Mapping

import pytest

from autoexp_tui.config.settings import HouseParser
from autoexp_tui.executors.slurm.script import OURS_ALONE, parse_seconds
from autoexp_tui.model import rules as rule_kinds
from autoexp_tui.model import specs
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import SpecRefused
from autoexp_tui.research.options import watch_for_research
from tests.support.refusals import read_refusals

RUNS = {"class_name": "Null"}


def checked(**config: object) -> tuple[Problem, ...]:
    return tuple(HouseParser("/w").check({"backend": RUNS, **config}))


def test_an_empty_config_has_defaults_and_no_findings() -> None:
    assert checked() == ()
    assert HouseParser("/w").monitoring({}) == rule_kinds.Monitoring()
    assert HouseParser("/w").executor({}).class_name == "LocalClient"
    # a value at the top is no slip of a section
    assert checked(u="text", pi=3.14, projects=[1], gui=None) == ()


@pytest.mark.parametrize(
    ("config", "where", "message", "hint"),
    read_refusals(__file__, "a_bad_setting_says_where_what_and_the_next_step"),
)
def test_a_bad_setting_says_where_what_and_the_next_step(
    config: dict[str, object], where: str, message: str, hint: str
) -> None:
    assert checked(**config) == (Problem(message, where=where, hint=hint),)


def test_monitoring_becomes_core_values() -> None:
    config = {
        "monitoring": {
            "state_dir": "s", "poll_seconds": 2,
            "log_events": [{"name": "a", "pattern": "x", "pattern_type": "substring"}],
            "state_events": [{"name": "b", "state": "crash"}],
            "metrics": [{"name": "acc", "pattern": r"acc (\d+)"}],
            "progress": {"metric": "step", "total": "train.steps"},
            "anomalies": {"nan": "warn", "divergence": False},
            "warnings": {"flat": {"share": 0.2}},
            "result": {"metric": "acc", "mode": "max", "over": ["m.seed"]},
            "notify": {"command": ["mail", "me"]}, "lock_stale_seconds": 120,
            "storm": {"failures": 0, "per": ["node"]}},
    }  # fmt: skip
    assert HouseParser("/w").monitoring(config) == rule_kinds.Monitoring(
        poll_seconds=2.0, log_events=(rule_kinds.LogEvent(name="a", pattern="x"),),
        state_events=(rule_kinds.StateEvent(name="b", state="crash"),),
        metrics=(rule_kinds.MetricPattern(name="acc", pattern=r"acc (\d+)"),),
        progress=rule_kinds.Progress(metric="step", total="train.steps"),
        anomalies=rule_kinds.Anomalies(nan="warn", divergence="off", flat_share=0.2),
        result=rule_kinds.ResultSpec(metric="acc", mode="max", over=("m.seed",)),
        notify_command=("mail", "me"), lock_stale_seconds=120.0,
        storm=rule_kinds.Storm(failures=0, per=("node",)),
    )  # fmt: skip


@pytest.mark.parametrize(("flat", "steps"), [
    (None, 500), ({"steps": 90}, 90), ({"share": 0.2}, None),
])  # fmt: skip
def test_a_flat_loss_of_500_steps_is_told_in_research_where_the_config_says_nothing(
    flat: dict[str, float] | None, steps: int | None
) -> None:
    watched = HouseParser("/w").monitoring({"monitoring": {"warnings": {"flat": flat}}})
    assert watch_for_research(watched).anomalies.flat_steps == steps


def test_slurm_becomes_an_executor_and_resources() -> None:
    config = {
        "slurm": {"client": {"class_name": "Slurm", "grace_seconds": 5},
                  "log_dir": "logs", "launcher_cmd": ["srun", "a b"], "max_parallel": 4,
                  "sbatch": {"time": "1-02:00:00", "gpus_per_node": 4, "nodes": 2,
                             "qos": None}},
    }  # fmt: skip
    parser = HouseParser("/w")
    assert parser.executor(config) == specs.ExecutorSpec(
        class_name="SlurmClient", max_parallel=4,
        settings={"log_dir": "logs", "launcher_cmd": "srun 'a b'",
                  "grace_seconds": 5.0},
    )  # fmt: skip
    assert parser.resources(config) == specs.Resources(
        time_limit_seconds=93600.0,
        gpus=8,
        options={"time": "1-02:00:00", "gpus-per-node": 4, "nodes": 2},
    )


@pytest.mark.parametrize(("time", "expected"), [
    (30, 1800.0), ("30", 1800.0), ("01:30", 90.0), ("01:30:00", 5400.0),
    ("2-0", 172800.0), ("1-02:03", 93780.0), ("1-02:03:04", 93784.0),
    ("UNLIMITED", None), (None, None), (True, None),
])  # fmt: skip
def test_a_time_limit_is_read_as_slurm_does(
    time: str | int | None, expected: float | None
) -> None:
    assert parse_seconds(time) == expected


@pytest.mark.parametrize("name", sorted(OURS_ALONE))
def test_an_option_that_hides_a_job_is_refused_and_any_other_is_the_person_s(
    name: str,
) -> None:
    def options(**sbatch: object) -> Mapping[str, object]:
        return HouseParser("/w").resources({"slurm": {"sbatch": sbatch}}).options

    with pytest.raises(SpecRefused, match="not for you to set"):
        options(**{name: "x"})
    assert options(**{name: None}) == {}
    assert options(**{name: False}) == {name: False}
    for own in ("requeue", "no-requeue", "dependency", "signal", "container-image"):
        assert options(**{own: "x"}) == {own: "x"}


@pytest.mark.parametrize(("action", "known"), [
    ({"class_name": "RestartAction", "quarantine_after": 2}, False),
    ({"class_name": "RestartAction"}, True),
    ({"class_name": "QuarantineCheckpointAction"}, False),
    ({"class_name": "QuarantineCheckpoint", "path": "{checkpoint_path}"}, True),
])  # fmt: skip
def test_who_moves_checkpoints_says_where_they_are(
    action: dict[str, object], known: bool
) -> None:
    rules = {"state_events": [{"name": "c", "state": "crash", "actions": [action]}]}
    found = checked(monitoring=rules)
    assert (not found) == known
    assert not checked(monitoring={**rules, "checkpoints": {"glob": "iter_*"}})
    for problem in found:
        assert problem.where == "monitoring.state_events.0.actions.0"
        assert "monitoring.checkpoints.glob" in problem.hint


def test_bounds_of_a_submission_are_kept_where_they_are_not_the_usual_ones() -> None:
    parser = HouseParser("/cwd")
    usual = parser.executor({"slurm": {"confirm": {"gpu_hours": 1000, "jobs": 1000}}})
    assert not [key for key in usual.settings if key.startswith("confirm")]
    own = parser.executor({"slurm": {"confirm": {"gpu_hours": None, "jobs": 5}}})
    assert own.settings["confirm_gpu_hours"] is None
    assert own.settings["confirm_jobs"] == 5
