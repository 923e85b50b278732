"""The planning process, asked from outside; and its answers, asked in this process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from hydra.core.global_hydra import GlobalHydra

from autoexp_tui.actions.notify import Log
from autoexp_tui.config.planning import (
    COMMAND,
    ChildPlanner,
    PlanningAnswer,
    PlanningChild,
    PlanningRequest,
    decode_answer,
    encode_answer,
    encode_request,
    report_of,
    run_planning,
)
from autoexp_tui.config.planning_main import answer_request
from autoexp_tui.model.errors import (
    AutoexpError,
    EnvironmentFailed,
    Problem,
    UsageError,
    ValidationFailed,
)
from autoexp_tui.model.specs import Plan
from autoexp_tui.storage.json_codec import encode_plan
from autoexp_tui.storage.manifests import read_manifest
from autoexp_tui.storage.provenance import load_record, read_record
from tests.config.config_trees import write_tree

EXPERIMENT = """
project: {name: "{lr}_{stage}", base_output_dir: out}
lr: 1
backend: {class_name: Command, command: ["./train", "${lr}", "{{x}}"], env: {A: b}}
slurm: {log_dir: "${project.base_output_dir}/logs"}
sweep:
  groups:
    - params: {lr: [1e-4, 2]}
    - configs:
        - stage: first
        - stage: then
          start_conditions:
            - {class_name: JobState, job_name: "{sibling.first.name}",
               state: COMPLETED, timeout_seconds: 5}
"""


@pytest.fixture(autouse=True)
def own_hydra() -> Iterator[None]:
    yield
    GlobalHydra.instance().clear()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_tree(tmp_path / "config", exp=EXPERIMENT)
    return tmp_path


def asked(place: Path, *overrides: str, **words: object) -> PlanningAnswer:
    request = PlanningRequest(cwd=str(place), overrides=overrides)
    return answer_request(replace(request, **words))  # type: ignore[arg-type]


def planned(place: Path, *overrides: str, **words: object) -> Plan:
    answer = asked(place, *overrides, **words)
    assert answer.errors == ()
    assert answer.plan is not None
    return answer.plan


def test_a_plan_means_the_same_from_anywhere(place: Path) -> None:
    plan = planned(place)
    job = plan.jobs[1]
    assert [job.name for job in plan.jobs] == [
        "1e-4_first", "1e-4_then", "2_first", "2_then",
    ]  # fmt: skip
    assert job.output_dir == f"{place}/out/1e-4_then"
    assert job.log_dir == f"{place}/out/logs/1e-4_then"
    assert job.cwd == str(place)
    assert plan.state_dir == f"{place}/outputs/.autoexp"
    assert job.command == ("./train", "0.0001", "{{x}}")
    assert job.depends_on == ("1e-4_first",)


def test_what_the_config_read_of_the_environment_is_in_the_plan(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_DATA", "/d")
    plan = planned(place, "+data=${oc.env:MY_DATA}")
    assert list(plan.environment) == ["MY_DATA"]
    assert "/d" not in plan.environment.values()


def test_a_kept_plan_has_a_manifest_and_a_record_of_its_configs(place: Path) -> None:
    answer = asked(place, keep=True, state_dir="state")
    plan = read_manifest(Path(answer.manifest))
    record = load_record(place / "state", plan.plan_id)
    assert plan == answer.plan
    assert record is not None
    configs = record.get_configs("2_then")
    assert configs is not None
    resolved, raw = map(yaml.safe_load, (configs.resolved, configs.unresolved))
    assert resolved["project"]["name"] == "2_then"
    assert raw["slurm"]["log_dir"] == "${project.base_output_dir}/logs"


def test_a_warning_leads_to_the_line_that_it_is_about(place: Path) -> None:
    key = "backend.args.fresh"
    text = EXPERIMENT.replace("- stage: then", f"- {key}: 1\n          stage: then")
    write_tree(place / "config", exp=text)
    (added,) = [one for one in planned(place).warnings if one.where == key]
    path, _, line = added.place.rpartition(":")
    assert key in Path(path).read_text().splitlines()[int(line) - 1]
    assert added.below == f"{added.place}: {added.hint}"


def test_what_is_an_error_already_is_no_warning_besides(place: Path) -> None:
    answer = asked(place, "sweep.groups.0.params={slurm.tiem: 3}")
    assert [one.where for one in answer.errors] == ["slurm.tiem"]
    assert [one for one in answer.warnings if one.where == "slurm.tiem"] == []


def test_a_plan_that_is_only_looked_at_writes_nothing(place: Path) -> None:
    planned(place)
    assert sorted(path.name for path in place.iterdir()) == ["config"]


def test_a_report_is_the_plan_as_the_command_writes_it(place: Path) -> None:
    told = asked(place, report=True)
    plan = planned(place)
    assert json.loads(told.report) == report_of(plan)
    assert told.plan is None


def test_points_stop_after_the_expansion(place: Path) -> None:
    answer = asked(place, "backend.class_name=Nonsense", want="points")
    assert answer.errors == ()
    assert answer.points[2] == {"index": 2, "parameters": {"lr": 2, "stage": "first"}}


def test_points_of_a_file_need_no_other_config(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("type: zip\nparams: {a: [1, 2], b: [3, 4]}")
    answer = asked(tmp_path, want="points", sweep_file="mine.yaml", config_dir="none")
    assert [point["parameters"] for point in answer.points] == [
        {"a": 1, "b": 3},
        {"a": 2, "b": 4},
    ]


def test_the_primary_config_resolves_as_far_as_it_can(place: Path) -> None:
    answer = asked(place, "+shown=${stage}", want="config")
    assert answer.config is not None
    assert answer.config["shown"] == "${stage}"
    assert answer.config["lr"] == 1


def test_one_jobs_config_is_wholly_resolved(place: Path) -> None:
    asks = asked(place, "+shown=${stage}", want="config", job="2_then")
    answer = decode_answer(encode_answer(asks))  # as it comes from the process
    assert answer.config is not None
    assert answer.config["shown"] == "then"
    assert answer.config["lr"] == 2


@pytest.mark.parametrize(("overrides", "failed", "where", "message"), [
    (["lrr=1"], "config", "override lrr", "there is no such key"),
    (["backend.class_name=Commnd"], "plan", "backend.class_name",
     "there is no backend `Commnd`"),
    (["+monitoring.los=1"], "plan", "monitoring.los", "is no key here"),
    (["sweep.groups.0.params.lr='${nowhere}'"], "plan", "lr",
     "${nowhere} names no key of the config"),
])  # fmt: skip
def test_findings_are_in_the_answer(
    place: Path, overrides: list[str], failed: str, where: str, message: str
) -> None:
    answer = asked(place, *overrides)
    assert answer.failed == failed
    assert answer.plan is None
    found = [(one.where, one.message.partition(" (")[0]) for one in answer.errors]
    assert (where, message) in found


def test_a_state_dir_that_cannot_be_made_is_the_environments_fault(place: Path) -> None:
    (place / "state").write_text("a file")
    answer = asked(place, keep=True, state_dir="state")
    assert answer.failed == "environment"


def test_a_broken_sweep_file_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("type: zip\nparams: {a: [1\n")
    answer = asked(tmp_path, want="points", sweep_file="mine.yaml")
    assert answer.errors[0].where.endswith("mine.yaml:3")


@pytest.mark.parametrize(("failed", "error", "exit_code"), [
    ("config", UsageError, 2), ("plan", ValidationFailed, 3),
    ("environment", EnvironmentFailed, 5),
])  # fmt: skip
def test_each_kind_of_failure_has_its_exit_code(
    failed: str, error: type[AutoexpError], exit_code: int
) -> None:
    problem = Problem("is wrong", where="here", hint="mend it")
    result = PlanningAnswer(errors=(problem,), failed=failed)  # type: ignore[arg-type]
    with pytest.raises(error, match=r"(?s)here.*is wrong.*mend it") as caught:
        result.raise_errors()
    assert caught.value.exit_code == exit_code


def test_the_child_answers_and_a_users_print_does_no_harm(place: Path) -> None:
    (place / "mine.py").write_text(
        dedent("""
        print("hello from the user's module")
        class Backend:
            def problems(self, backend, config): return ()
            def command(self, backend, config):
                print("and from its function")
                return ["run", str(config["lr"])]
        """)
    )
    result = run_planning(
        PlanningRequest(cwd=str(place), overrides=("backend.class_name=mine:Backend",))
    )
    result.raise_errors()
    assert result.plan is not None
    assert result.plan.jobs[0].command == ("run", "0.0001")


def test_a_backend_of_the_user_s_that_fails_is_an_error_with_its_line(
    place: Path,
) -> None:
    (place / "mine.py").write_text(
        "class Backend:\n"
        "    def problems(self, backend, config): raise RuntimeError('boom')\n"
        "    def command(self, backend, config): return ()\n"
    )
    request = PlanningRequest(
        cwd=str(place), overrides=("backend.class_name=mine:Backend",), state_dir="s"
    )
    errors = run_planning(request).errors
    assert {error.where for error in errors} == {"backend.class_name"}
    assert {error.hint for error in errors} == {f"raised at {place}/mine.py:2"}
    said = "`mine:Backend` failed in problems: RuntimeError: boom"
    assert all(error.message.startswith(said) for error in errors)


def test_a_crash_leaves_its_traceback_in_a_file_and_one_line(place: Path) -> None:
    (place / "mine.py").write_text(
        "class Backend:\n"
        "    def problems(self, backend, config): raise KeyboardInterrupt('boom')\n"
        "    def command(self, backend, config): return ()\n"
    )
    request = PlanningRequest(
        cwd=str(place), overrides=("backend.class_name=mine:Backend",), state_dir="s"
    )
    with pytest.raises(
        AutoexpError, match="planning crashed: KeyboardInterrupt: boom"
    ) as c:
        run_planning(request)
    log = Path(c.value.hint.rpartition(" ")[2])
    assert log.parent == place / "s" / "crashes"
    assert "boom" in log.read_text()


def test_planning_that_takes_too_long_is_ended(place: Path) -> None:
    (place / "mine.py").write_text("import time\ntime.sleep(60)\n")
    child = PlanningChild(
        PlanningRequest(cwd=str(place), overrides=("backend.class_name=mine:Backend",))
    )
    with pytest.raises(EnvironmentFailed, match="longer than 2 s"):
        child.wait(limit_seconds=2)


def test_a_killed_child_says_so(place: Path) -> None:
    child = PlanningChild(PlanningRequest(cwd=str(place)))
    threading.Timer(0.2, child.kill).start()
    with pytest.raises(EnvironmentFailed, match="planning was killed"):
        child.wait()


def test_planning_ends_when_nobody_waits_for_the_answer_any_more(place: Path) -> None:
    (place / "mine.py").write_text(
        "import time\nopen('began', 'w').close()\ntime.sleep(60)\n"
    )
    request = PlanningRequest(
        cwd=str(place), overrides=("backend.class_name=mine:Backend",)
    )
    with subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=place,
        start_new_session=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(encode_request(request))
        child.stdin.close()
        while not (place / "began").exists():
            assert child.poll() is None
            threading.Event().wait(0.01)
        child.stdout.close()  # as when who asked is killed
        assert child.wait(20) == -signal.SIGKILL


def test_a_file_called_like_a_module_of_ours_does_no_harm(place: Path) -> None:
    for name in ("yaml.py", "hydra.py", "json.py"):
        (place / name).write_text("raise ImportError('the wrong module')\n")
    assert run_planning(PlanningRequest(cwd=str(place), want="points")).points


def test_the_child_has_a_process_group_of_its_own(place: Path) -> None:
    child = PlanningChild(PlanningRequest(cwd=str(place)))
    group = os.getpgid(child.pid)
    child.close()
    assert group == child.pid
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


def again(
    place: Path, plan: Plan, *further: str, job: str = "2_then"
) -> PlanningAnswer:
    manifest = place / "plan.json"
    manifest.write_bytes(encode_plan(plan))
    return asked(place, want="job", manifest=str(manifest), job=job, further=further)


def test_a_job_made_again_is_the_job_that_was(place: Path) -> None:
    plan = planned(place)
    answer = again(place, plan)
    assert answer.errors == ()
    assert answer.job == plan.jobs[3]


def test_further_overrides_change_the_command_and_no_name(place: Path) -> None:
    plan = planned(place)
    job = again(place, plan, "lr=5").job
    assert job is not None
    assert job.command == ("./train", "5", "{{x}}")
    assert job.name == "2_then"
    assert job.output_dir == plan.jobs[3].output_dir
    assert job.start_conditions == plan.jobs[3].start_conditions
    assert job.overrides[-1] == "lr=5"
    assert job.fingerprint != plan.jobs[3].fingerprint


def test_a_config_that_changed_since_refuses_to_make_a_job_again(place: Path) -> None:
    plan = planned(place)
    (place / "config" / "exp.yaml").write_text(EXPERIMENT.replace("A: b", "A: c"))
    answer = again(place, plan, "lr=5")
    assert answer.errors[0].message == "the config has changed since the plan was made"


def test_a_job_that_is_not_in_the_plan_names_those_that_are(place: Path) -> None:
    answer = again(place, planned(place), job="nobody")
    assert answer.errors[0].hint == "jobs: 1e-4_first, 1e-4_then, 2_first, 2_then"


def test_the_planner_makes_a_job_again_from_wherever_it_is(
    place: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = planned(place)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    planner = ChildPlanner()
    assert planner.compose(plan, "2_then", ["lr=5"]).command[1] == "5"
    with pytest.raises(UsageError, match="2_then cannot be made anew"):
        planner.compose(plan, "2_then", ["lrr=5"])


def test_the_planner_keeps_the_config_of_a_job_with_other_values(place: Path) -> None:
    plan = planned(place)
    planner = ChildPlanner(state_dir=str(place / "state"))
    assert planner.compose(plan, "2_then", []).config_record == ""
    assert not (place / "state").exists()
    made = planner.compose(plan, "2_then", [*plan.jobs[3].overrides, "lr=5"])
    assert made.overrides == (*plan.jobs[3].overrides, "lr=5")
    assert made.own_values["lr"] == 5
    place_of_record = Path(made.config_record)
    assert place_of_record.is_relative_to(place / "state")
    record = read_record(place_of_record)
    configs = record.get_configs("2_then") if record else None
    assert configs is not None
    assert "lr: 5\n" in configs.resolved


def test_the_planner_composes_where_the_plan_was_made(place: Path) -> None:
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    plan = planned(place, "++backend.cwd=elsewhere")
    made = ChildPlanner().compose(plan, "2_then", ["lr=5"])
    assert plan.cwd == str(place)
    assert made.cwd == plan.jobs[3].cwd == str(elsewhere)


def test_a_plan_whose_directory_is_gone_composes_nothing_anew(place: Path) -> None:
    plan = replace(planned(place), cwd=str(place / "gone"))
    with pytest.raises(UsageError, match="the plan was made is not there") as raised:
        ChildPlanner().compose(plan, "2_then", ["lr=5"])
    assert raised.value.where == str(place / "gone")


def test_a_manifest_of_old_composes_where_its_jobs_run(place: Path) -> None:
    plan = replace(planned(place), cwd="")
    assert ChildPlanner().compose(plan, "2_then", ["lr=5"]).cwd == str(place)


RULED = (
    EXPERIMENT.replace(
        "- stage: then",
        """- stage: then
          monitoring.log_events:
            - {name: saved, pattern: 'it{2} \\"(?P<it>\\d{1,9})\\" \\{x\\}',
               extract_groups: {at: it},
               actions: [{class_name: Log, message: "{at} of {name}, ${lr}"}]}
          monitoring.anomalies.nan: warn""",
    )
    + "monitoring: {stall_after_seconds: 60}\n"
)


def test_rules_in_a_sweep_reach_their_job_as_written(place: Path) -> None:
    write_tree(place / "config", exp=RULED)
    plan = planned(place)
    rules = plan.rules_of(plan.jobs[3])
    assert plan.warnings == ()
    assert plan.jobs[2].rules == ""
    assert (rules.anomalies.nan, rules.stall_after_seconds) == ("warn", 60)
    assert rules.log_events[0].pattern == r"it{2} \"(?P<it>\d{1,9})\" \{x\}"
    assert rules.log_events[0].actions == (Log(message="{at} of {name}, 2"),)


def test_a_rule_of_a_job_that_is_wrong_names_the_job(place: Path) -> None:
    write_tree(place / "config", exp=RULED.replace("it{2} ", "it("))
    answer = asked(place)
    assert "does not compile" in answer.errors[0].message
    assert answer.errors[0].where == "monitoring.log_events.0.pattern"
    assert answer.errors[0].job == "1e-4_then"
