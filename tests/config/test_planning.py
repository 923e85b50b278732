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
from typing import Any

import pytest
import yaml
from hydra.core.global_hydra import GlobalHydra

from autoexp_tui.conditions.kinds import FileExists, JobStateIs
from autoexp_tui.config import planning as p
from autoexp_tui.config.planning import ChildPlanner
from autoexp_tui.config.planning_main import answer_request
from autoexp_tui.engine.ports import FurtherPlan
from autoexp_tui.model import errors as e
from autoexp_tui.model.specs import Plan
from autoexp_tui.storage import provenance
from autoexp_tui.storage.json_codec import encode_plan
from autoexp_tui.storage.manifests import read_manifest
from autoexp_tui.storage.plan_changes import compare_to_last
from tests.config.config_trees import write_tree
from tests.config.planned_here import planning_here

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


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_tree(tmp_path / "config", exp=EXPERIMENT)
    return tmp_path


def asked(place: Path, *overrides: str, **words: Any) -> p.PlanningAnswer:
    request = p.PlanningRequest(cwd=str(place), overrides=overrides, **words)
    return answer_request(request)


def planned(place: Path, *overrides: str, **words: Any) -> Plan:
    answer = asked(place, *overrides, **words)
    assert answer.errors == ()
    assert answer.plan is not None
    return answer.plan


def of_mine(place: Path, *lines: str) -> p.PlanningRequest:
    """A request to a process, with a backend of the user's own in `mine.py`."""
    (place / "mine.py").write_text("\n".join(lines))
    override = "backend.class_name=mine:Backend"
    return p.PlanningRequest(cwd=str(place), overrides=(override,), state_dir="s")


def backend(problems: str, command: str = "return ()") -> tuple[str, ...]:
    return (
        "class Backend:",
        f"    def problems(self, backend, config): {problems}",
        f"    def command(self, backend, config): {command}",
    )


def test_a_plan_means_the_same_from_anywhere_and_writes_nothing_unless_kept(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_DATA", "/d")
    plan = planned(place, "+data=${oc.env:MY_DATA}")
    assert sorted(path.name for path in place.iterdir()) == ["config"]
    assert list(plan.environment) == ["MY_DATA"]
    assert "/d" not in plan.environment.values()
    job = plan.jobs[1]
    names = ["1e-4_first", "1e-4_then", "2_first", "2_then"]
    assert [job.name for job in plan.jobs] == names
    assert job.output_dir == f"{place}/out/1e-4_then"
    assert job.log_dir == f"{place}/out/logs/1e-4_then"
    assert job.cwd == str(place)
    assert plan.state_dir == f"{place}/outputs/.autoexp"
    assert job.command == ("./train", "0.0001", "{{x}}")
    assert job.depends_on == ("1e-4_first",)
    told = asked(place, "+data=${oc.env:MY_DATA}", report=True)  # as the command does
    assert (json.loads(told.report), told.plan) == (p.report_of(plan), None)


def test_a_kept_plan_has_a_manifest_and_a_record_of_its_configs(place: Path) -> None:
    answer = asked(place, keep=True, state_dir="state")
    plan = read_manifest(Path(answer.manifest))
    record = provenance.record_of(plan, place / "state")
    assert plan == answer.plan
    configs = record.get_configs("2_then") if record else None
    assert configs is not None
    resolved, raw = map(yaml.safe_load, (configs.resolved, configs.unresolved))
    assert resolved["project"]["name"] == "2_then"
    assert raw["slurm"]["log_dir"] == "${project.base_output_dir}/logs"
    (place / "file").write_text("")
    assert asked(place, keep=True, state_dir="file").failed == "environment"


def test_points_stop_after_the_expansion_and_those_of_a_file_need_no_config(
    place: Path,
) -> None:
    answer = asked(place, "backend.class_name=Nonsense", want="points")
    assert answer.errors == ()
    assert answer.points[2] == {"index": 2, "parameters": {"lr": 2, "stage": "first"}}
    file: dict[str, Any] = {"want": "points", "sweep_file": "mine.yaml"}
    (place / "mine.yaml").write_text("type: zip\nparams: {a: [1, 2], b: [3, 4]}")
    points = asked(place, config_dir="none", **file).points
    pairs = [{"a": 1, "b": 3}, {"a": 2, "b": 4}]
    assert [point["parameters"] for point in points] == pairs
    (place / "mine.yaml").write_text("type: zip\nparams: {a: [1\n")
    assert asked(place, **file).errors[0].where.endswith("mine.yaml:3")


def test_the_primary_config_resolves_as_far_as_it_can_and_a_job_s_wholly(
    place: Path,
) -> None:
    for job, expected in (
        ("", {"shown": "${stage}", "lr": 1}),
        ("2_then", {"shown": "then", "lr": 2}),
    ):
        asks = asked(place, "+shown=${stage}", want="config", job=job)
        answer = p.decode_answer(p.encode_answer(asks))  # as it comes from the process
        assert answer.config is not None
        assert expected.items() <= answer.config.items()


@pytest.mark.parametrize(("failed", "error", "exit_code"), [
    ("config", e.UsageError, 2), ("plan", e.ValidationFailed, 3),
    ("environment", e.EnvironmentFailed, 5),
])  # fmt: skip
def test_each_kind_of_failure_has_its_exit_code(
    failed: Any, error: type[e.AutoexpError], exit_code: int
) -> None:
    problem = e.Problem("is wrong", where="here", hint="mend it")
    result = p.PlanningAnswer(errors=(problem,), failed=failed)
    with pytest.raises(error, match=r"(?s)here.*is wrong.*mend it") as caught:
        result.raise_errors()
    assert caught.value.exit_code == exit_code


def test_the_child_answers_whatever_is_printed_and_tells_a_failing_backend_by_line(
    place: Path,
) -> None:
    for name in ("yaml.py", "hydra.py", "json.py"):  # called like modules of ours
        (place / name).write_text("raise ImportError('the wrong module')\n")
    command = "print('and from its function'); return ['run', str(config['lr'])]"
    loud = of_mine(place, "print('hello')", *backend("return ()", command))
    result = p.run_planning(loud)
    result.raise_errors()
    assert result.plan is not None
    assert result.plan.jobs[0].command == ("run", "0.0001")
    failing = of_mine(place, *backend("raise RuntimeError('boom')"))
    errors = p.run_planning(failing).errors
    said = "`mine:Backend` failed in problems: RuntimeError: boom"
    assert all(error.message.startswith(said) for error in errors)
    wanted = ("backend.class_name", f"raised at {place}/mine.py:2")
    assert {(error.where, error.hint) for error in errors} == {wanted}


def test_a_crash_leaves_its_traceback_in_a_file_and_one_line(place: Path) -> None:
    request = of_mine(place, *backend("raise KeyboardInterrupt('boom')"))
    said = "planning crashed: KeyboardInterrupt: boom"
    with pytest.raises(e.AutoexpError, match=said) as caught:
        p.run_planning(request)
    log = Path(caught.value.hint.rpartition(" ")[2])
    assert log.parent == place / "s" / "crashes"
    assert "boom" in log.read_text()


def test_planning_that_takes_too_long_or_is_killed_ends_with_its_group(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def begin(*args: Any, **words: Any) -> subprocess.Popen[bytes]:
        began.append(real(*args, **words))
        assert os.getpgid(began[-1].pid) == began[-1].pid
        if len(began) == 2:
            threading.Timer(0.2, began[-1].kill).start()
        return began[-1]

    monkeypatch.setattr(subprocess, "Popen", begin)
    with pytest.raises(e.EnvironmentFailed, match="longer than 2 s"):
        p.run_planning(of_mine(place, "import time", "time.sleep(60)"), 2)
    with pytest.raises(ProcessLookupError):
        os.killpg(began[0].pid, 0)
    with pytest.raises(e.EnvironmentFailed, match="planning was killed"):
        p.run_planning(p.PlanningRequest(cwd=str(place)))


def test_one_process_answers_several_and_a_crash_costs_one_answer(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, real = list[object](), p._ask_child

    def ask(*asked: Any) -> Any:
        began.append(asked)
        return real(*asked)

    monkeypatch.setattr(p, "_ask_child", ask)
    crash = of_mine(place, *backend("raise KeyboardInterrupt('boom')"))
    good, odd = (p.PlanningRequest(cwd=str(place), config_ref=r) for r in ("exp", "x"))
    first, none, fault, last = p.run_plannings((good, odd, crash, good))
    assert isinstance(first, p.PlanningAnswer)
    assert isinstance(none, p.PlanningAnswer)
    assert (none.failed, first.plan) == ("config", last.plan)  # type: ignore[union-attr]
    assert "boom" in str(fault)
    assert len(began) == 2


def test_planning_ends_when_nobody_waits_for_the_answer_any_more(place: Path) -> None:
    began = "open('began', 'w').close()"
    request = of_mine(place, "import time", began, "time.sleep(60)")
    with subprocess.Popen(
        p.COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=place,
        start_new_session=True,
    ) as child:  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(p.encode_request(request))
        child.stdin.close()
        while not (place / "began").exists():
            assert child.poll() is None
            threading.Event().wait(0.01)
        child.stdout.close()  # as when who asked is killed
        assert child.wait(20) == -signal.SIGKILL


def test_a_job_made_again_is_the_job_that_was_but_for_further_overrides(
    place: Path,
) -> None:
    def again(*further: str, job: str = "2_then") -> p.PlanningAnswer:
        words: dict[str, Any] = {"want": "job", "job": job, "further": further}
        return asked(place, manifest=str(manifest), **words)

    plan = planned(place)
    manifest = place / "plan.json"
    manifest.write_bytes(encode_plan(plan))
    was = plan.jobs[3]
    assert (again().errors, again().job) == ((), was)
    job = again("lr=5").job
    assert job is not None
    assert job.command == ("./train", "5", "{{x}}")
    assert (job.name, job.output_dir) == ("2_then", was.output_dir)
    assert job.start_conditions == was.start_conditions
    assert job.overrides[-1] == "lr=5"
    assert job.fingerprint != was.fingerprint
    hint = "jobs: 1e-4_first, 1e-4_then, 2_first, 2_then"
    assert again(job="nobody").errors[0].hint == hint
    (place / "config" / "exp.yaml").write_text(EXPERIMENT.replace("A: b", "A: c"))
    (error,) = again("lr=5").errors
    assert error.message == "the config has changed since the plan was made"


def test_the_planner_makes_a_job_again_where_the_plan_was_made_and_keeps_its_config(
    place: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (place / "elsewhere").mkdir()
    plan = planned(place, "++backend.cwd=elsewhere")
    monkeypatch.chdir(tmp_path_factory.mktemp("far"))
    planner = ChildPlanner(state_dir=str(place / "state"))
    assert planner.compose(plan, "2_then", []).config_record == ""
    made = planner.compose(plan, "2_then", [*plan.jobs[3].overrides, "lr=5"])
    assert (plan.cwd, made.command[1]) == (str(place), "5")
    assert made.cwd == plan.jobs[3].cwd == str(place / "elsewhere")
    assert made.overrides == (*plan.jobs[3].overrides, "lr=5")
    assert made.own_values["lr"] == 5
    assert Path(made.config_record).is_relative_to(place / "state")
    record = provenance.load_record(Path(made.config_record))
    configs = record.get_configs("2_then") if record else None
    assert configs is not None
    assert "lr: 5\n" in configs.resolved
    with pytest.raises(e.UsageError, match="2_then cannot be made anew"):
        planner.compose(plan, "2_then", ["lrr=5"])
    gone = replace(plan, cwd=str(place / "gone"))
    with pytest.raises(e.UsageError, match="the plan was made is not there") as raised:
        planner.compose(gone, "2_then", ["lr=5"])
    assert raised.value.where == str(place / "gone")
    # a manifest of old composes where its jobs run
    old = replace(planned(place), cwd="")
    assert planner.compose(old, "2_then", ["lr=5"]).cwd == str(place)


TRAIN = """
defaults: [monitoring: plain, _self_]
project: {name: "train{lr}", base_output_dir: out}
lr: 1
backend: {class_name: Command, command: ["./train", "${lr}"]}
slurm: {log_dir: "${project.base_output_dir}/logs"}
sweep: {configs: [{stage: train, lr: 3}]}
"""
EVALUATE = """
project: {name: eval, base_output_dir: out}
load: null
after: null
backend: {class_name: Command, command: ["./eval", "${load}"]}
slurm: {log_dir: "${project.base_output_dir}/logs"}
sweep:
  configs:
    - stage: evaluate
      start_conditions:
        - {class_name: JobState, job_name: "${after}", state: COMPLETED,
           timeout_seconds: 9}
        - {class_name: FileExists, path: "${load}/done", timeout_seconds: 9}
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """The plan of the session that runs."""
    place = tmp_path_factory.mktemp("further")
    write_tree(
        place / "config", train=TRAIN, evaluate=EVALUATE,
        monitoring__plain="poll_seconds: 1\n", monitoring__other="loss: perplexity\n",
    )  # fmt: skip
    plan = planned(place, config_ref="train", keep=True, state_dir="state", now=5.0)
    GlobalHydra.instance().clear()
    return plan


@pytest.fixture
def planner(base: Plan, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChildPlanner]:
    """Further plans are made in this process."""
    with planning_here(monkeypatch):
        yield ChildPlanner(state_dir=base.state_dir)


def further(base: Plan, **fields: Any) -> FurtherPlan:
    known = tuple((job.name, job.output_dir, job.log_dir) for job in base.jobs)
    usual = {"family": "f0", "stage": "train", "families": 1, "now": 9.0}
    return FurtherPlan(base=base, **{"known": known, **usual, **fields})


def evaluation(base: Plan, after: str) -> FurtherPlan:
    load = f"{base.jobs[0].output_dir}/ckpt"
    overrides = (f"load={load}", f"after={after}", "project.name=train3_eval")
    return further(base, config_ref="evaluate", overrides=overrides)


def test_a_further_plan_may_wait_for_jobs_of_the_session_alone(
    base: Plan, planner: ChildPlanner
) -> None:
    plan = planner.plan(evaluation(base, "train3"))
    (job,) = plan.jobs
    state, there = job.start_conditions
    assert isinstance(state, JobStateIs)
    assert state.jobs == ("train3",)
    assert isinstance(there, FileExists)
    assert there.writer == "train3"
    assert job.depends_on == ("train3",)
    assert [(one.before, one.after) for one in plan.edges] == [
        ("train3", "train3_eval")
    ]
    assert (job.family, job.stage) == ("f0", "evaluate")
    assert provenance.record_of(plan, Path(base.state_dir)) is not None
    assert planner.plan(evaluation(base, "train3")) == plan  # asked again after a kill
    with pytest.raises(e.ValidationFailed, match="names the job nobody"):
        planner.plan(evaluation(base, "nobody"))
    with pytest.raises(e.UsageError, match="there is no config `evaluat`"):
        planner.plan(further(base, config_ref="evaluat"))
    with pytest.raises(e.UsageError, match="it has no config"):
        planner.compose(replace(base, config_ref=""), "train3", ["lr=1"])


def test_a_plan_is_not_compared_with_those_that_policies_made_of_its_config(
    base: Plan, planner: ChildPlanner
) -> None:
    planner.plan(further(base, config_ref="train", known=(), prefix="e1-"))
    found = compare_to_last(replace(base, plan_id="later", created_at=10.0))
    assert found is not None
    assert found["created_at"] == base.created_at


def test_plans_of_one_config_have_names_and_places_of_their_own(
    base: Plan, planner: ChildPlanner
) -> None:
    asked = [
        further(base, config_ref=ref, prefix=f"{to}-", output_dir=f"{base.cwd}/{to}")
        for to, ref in (("e1", "train"), ("e2", "trane"), ("e3", "train"))
    ]
    one, none, other = planner.plan_all(asked)
    assert isinstance(none, e.UsageError)
    assert isinstance(one, Plan)
    assert isinstance(other, Plan)
    assert [job.name for job in (*one.jobs, *other.jobs)] == ["e1-train3", "e3-train3"]
    (job,) = one.jobs
    assert job.output_dir == f"{base.cwd}/e1/e1-train3"
    again = planner.compose(one, job.name, [*job.overrides, "lr=7"])
    assert (again.name, again.command) == ("e1-train3", ("./train", "7"))


def test_the_config_of_a_job_is_planned_again_with_what_differs(
    base: Plan, planner: ChildPlanner
) -> None:
    record = provenance.record_of(base, Path(base.state_dir))
    kept = provenance.write_provenance(base, base.jobs[0], record)
    overrides = ("lr=4", "project.name=again", "+monitoring=other")
    own = str(kept / "unresolved_config.yaml")
    plan = planner.plan(further(base, config_path=own, overrides=overrides))
    (job,) = plan.jobs
    assert (job.name, job.stage, job.command) == ("again", "train", ("./train", "4"))
    assert plan.monitoring.loss == "perplexity"
    assert job.output_dir == f"{base.cwd}/out/again"
    made = planner.compose(plan, "again", ["lr=7", "+monitoring=other"])
    assert made.command == ("./train", "7")


def grown(
    place: Path, session: Plan, *further: str, before: tuple[str, ...] = ()
) -> p.PlanningAnswer:
    """The plan of a growth over what a plan has begun."""
    known = tuple((one.name, one.output_dir, one.log_dir) for one in session.jobs)
    prints = tuple((one.name, one.fingerprint) for one in session.jobs)
    return asked(
        place,
        *before,
        want="growth",
        further=further,
        known=known,
        fingerprints=prints,
    )


def test_two_more_values_join_by_the_parameter_s_own_name(place: Path) -> None:
    session = planned(place)
    answer = grown(place, session, "lr=[1e-4,2,3]")
    assert answer.plan is not None
    assert answer.renamed is answer.plan
    prints = {one.name: one.fingerprint for one in answer.plan.jobs}
    assert prints.items() >= {(one.name, one.fingerprint) for one in session.jobs}
    assert [*prints][4:] == ["3_first", "3_then"]
    assert answer.plan.overrides == ("sweep.groups.0.params.lr=[1e-4,2,3]",)
    again = grown(place, session, "lr=[7]", before=answer.plan.overrides).plan
    assert again is not None
    assert again.overrides == ("sweep.groups.0.params.lr=[7]",)


def test_a_job_under_a_new_name_is_composed_with_it_and_so_is_what_waits_for_it(
    place: Path,
) -> None:
    session = planned(place)
    (place / "config" / "exp.yaml").write_text(EXPERIMENT.replace("A: b", "A: c"))
    renamed = grown(place, session).renamed
    assert renamed is not None
    first, then, *_ = renamed.jobs
    assert (first.name, then.name) == ("1e-4_first_v2", "1e-4_then_v2")
    assert first.output_dir == f"{place}/out/1e-4_first_v2"
    assert "project.name='1e-4_first_v2'" in first.overrides
    (condition,) = then.start_conditions
    assert isinstance(condition, JobStateIs)
    assert condition.jobs == ("1e-4_first_v2",)


def test_what_joins_reads_jobs_that_are_there_where_they_are(place: Path) -> None:
    session = planned(place)
    elsewhere = "slurm.log_dir=${project.base_output_dir}/elsewhere"
    plan = grown(place, session, "lr=[1e-4,3]", elsewhere).plan
    assert plan is not None
    logs = [one.log_dir for one in plan.jobs]
    assert logs[:2] == [one.log_dir for one in session.jobs[:2]]
    assert logs[2] == f"{place}/out/elsewhere/3_first"


def test_a_parameter_that_several_nodes_sweep_has_to_be_named_by_its_place(
    place: Path,
) -> None:
    twice = "params: {lr: [1e-4, 2]}\n    - params: {lr: [1]}"
    text = EXPERIMENT.replace("params: {lr: [1e-4, 2]}", twice)
    session = planned(place)
    (place / "config" / "exp.yaml").write_text(text)
    (error,) = grown(place, session, "lr=[3]").errors
    assert "sweep.groups.1.params.lr=..." in error.hint
