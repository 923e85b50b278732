"""From a config to a plan, over small fakes of the ports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from autoexp_tui.conditions.kinds import (
    Approval,
    CommandPasses,
    Composite,
    FileContent,
    FileExists,
    JobStateIs,
    LogPattern,
    MetadataIs,
    Not,
)
from autoexp_tui.model.errors import ValidationFailed
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.build import (
    PlanOutcome,
    PlanSource,
    build_execution_plan,
    build_plan_outcome,
)
from tests.sweep.fakes import FakeComposer, FakeParser, use_resolvers

CONFIG: Mapping[str, Any] = {
    "project": {"name": "lr${backend.lr}_${stage}", "base_output_dir": "/out"},
    "backend": {"lr": 1e-3, "iters": 100, "load": None, "save": None},
    "slurm": {"log_dir": "/logs"},
    "monitoring": {"extracts": ["checkpoint_iteration"], "total": "backend.iters"},
    "target": 80,
}
GROUPS = {"backend": {"other": {"backend": {"momentum": 0.5}}}}
LR = {"params": {"backend.lr": [1e-4, 5e-4]}}
Sweep = Mapping[str, Any]


@pytest.fixture(autouse=True)
def _resolvers() -> None:
    use_resolvers()


def outcome(sweep: Sweep | None, **changes: Any) -> PlanOutcome:
    composer = FakeComposer({**CONFIG, **changes}, sweep, GROUPS)
    return build_plan_outcome(composer=composer, parser=FakeParser())


def planned(sweep: Sweep | None, **changes: Any) -> Plan:
    found = outcome(sweep, **changes)
    assert not found.errors, found.errors
    assert found.plan is not None
    return found.plan


def errors(sweep: Sweep | None, **changes: Any) -> str:
    found = outcome(sweep, **changes)
    assert found.plan is None
    return "\n".join(map(str, found.errors))


def warnings(sweep: Sweep | None, **changes: Any) -> str:
    return "\n".join(map(str, outcome(sweep, **changes).warnings))


def stages(*configs: Mapping[str, Any], **node: Any) -> Sweep:
    return {"groups": [LR, {"configs": list(configs)}], **node}


def one(*configs: Mapping[str, Any]) -> list[JobSpec]:
    """The jobs of one family."""
    return list(planned({"configs": list(configs)}).jobs)


STABLE = {"stage": "stable", "backend.save": "{output_dir}/checkpoints"}
COOLDOWN = {
    "stage": "cooldown",
    "backend.load": "{sibling.stable.output_dir}/checkpoints",
    "start_conditions": [
        {
            "class_name": "SlurmStateCondition",
            "job_name": "{sibling.stable.name}",
            "state": "COMPLETED",
            "timeout_seconds": 60,
        }
    ],
}


def waiting(condition: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A second stage with one start condition."""
    return {"stage": "cooldown", "start_conditions": [condition], **more}


def condition(mapping: Mapping[str, Any], **more: Any) -> Any:
    """That condition, resolved."""
    return one(STABLE, waiting(mapping, **more))[1].start_conditions[0]


# ------------------------------------------------------------------------ names
def test_errors_come_with_what_their_jobs_chose_in_the_sweep() -> None:
    configs = [{"stage": "a"}, {"stage": "b", "backend.load": "{nowhere}"}]
    groups = [{"params": {"p.lr": [1, 2]}}, {"configs": configs}]
    found = outcome({"defaults": {"project.name": "j{index}"}, "groups": groups})

    told = [job for one in found.errors for job in (one.job, *one.others)]
    assert [found.origins[job] for job in told] == [
        [{"groups.0.params.p.lr": at, "groups.1.configs": 1}] for at in (0, 1)
    ]


def test_jobs_are_named_from_their_own_config() -> None:
    plan = planned(stages(STABLE, COOLDOWN))
    assert [job.name for job in plan.jobs] == [
        "lr1e-4_stable",
        "lr1e-4_cooldown",
        "lr5e-4_stable",
        "lr5e-4_cooldown",
    ]


def test_directories_are_named_after_the_job() -> None:
    job = planned(stages(STABLE)).jobs[0]
    assert job.output_dir == "/out/lr1e-4_stable"
    assert job.log_path_current == "/logs/lr1e-4_stable/current.log"


def test_directories_have_places_when_nothing_is_said() -> None:
    job = planned(None, project={"name": "x"}, slurm={}).jobs[0]
    assert (job.output_dir, job.log_dir) == ("outputs/x", "outputs/logs/x")


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({}, "/out/scripts/lr1e-3_stable.sbatch"),
        ({"script_dir": "/s/"}, "/s/lr1e-3_stable.sbatch"),
    ],
)
def test_scripts_have_a_place_too(settings: Mapping[str, Any], path: str) -> None:
    other = {"stage": "b", "backend.load": "{sibling.stable.script_path}"}
    plan = planned({"configs": [STABLE, other]}, slurm=settings)
    assert plan.jobs[1].overrides == (f"backend.load={path}",)


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("lr{backend.lr}_{stage}", "lr1e-4_a"),
        ("lr${backend.lr}_${stage}", "lr1e-4_a"),
        ("${oc.eval:'_0*2',${backend.lr}}", "2e-4"),
        ("{index}_{family}", "0_f0"),
        ("it{iters}", "it100"),
        ("{{x}}".replace("{{x}}", "plain"), "plain"),
    ],
)
def test_values_in_a_name_are_spelled_short(name: str, spelled: str) -> None:
    sweep = {"configs": [{"stage": "a", "backend.lr": 1e-4}]}
    plan = planned(sweep, project={"name": name})
    assert plan.jobs[0].name == spelled


def test_what_refers_to_the_name_sees_the_final_one() -> None:
    job = planned(
        {"configs": [{"backend.lr": 1e-4}]},
        project={"name": "lr${backend.lr}"},
        backend={"lr": 1, "save": "/out/${project.name}"},
    ).jobs[0]
    assert "--save=/out/lr1e-4" in job.command


# ------------------------------------------------------------------- parameters
def test_no_sweep_is_one_job() -> None:
    (job,) = planned(None, project={"name": "x"}).jobs
    assert (job.name, job.index, job.stage, job.overrides) == ("x", 0, "", ())


def test_a_config_may_have_a_stage_of_its_own_when_the_sweep_has_none() -> None:
    assert planned(None, stage="alone").jobs[0].name == "lr1e-3_alone"


def test_a_job_keeps_its_parameters_as_written() -> None:
    jobs = one(STABLE, COOLDOWN)
    assert jobs[1].parameters == COOLDOWN


def test_a_parameter_may_read_its_own_job() -> None:
    jobs = one({"stage": "a", "backend.save": "{output_dir}/x_{backend.lr}_${target}"})
    assert jobs[0].overrides == ("backend.save='/out/lr1e-3_a/x_1e-3_${target}'",)
    assert "--save=/out/lr1e-3_a/x_1e-3_80" in jobs[0].command


def test_parameters_that_read_one_another_in_a_ring_are_an_error() -> None:
    said = errors(
        {
            "configs": [
                {
                    "stage": "a",
                    "backend.load": "x{backend.save}",
                    "backend.save": "y{backend.load}",
                }
            ]
        }
    )
    assert "backend" in said


@pytest.mark.parametrize(
    ("configs", "overrides"),
    [
        (
            [
                {"stage": "a", "backend.iters": "${oc.eval:'_0*3',${target}}"},
                {"stage": "b", "backend.iters": "{sibling.a.backend.iters}"},
            ],
            ["backend.iters=240"],
        ),
        ([{"stage": "a", "backend.iters": "{target}"}], ["backend.iters=80"]),
        (
            [{"stage": "a", "backend.load": {"from": "{output_dir}", "n": 1}}],
            ["backend.load={from:/out/lr1e-3_a,n:1}"],
        ),
        (
            [{"stage": "a", "backend": "other", "backend.momentum": 0.9}],
            ["backend=other", "backend.momentum=0.9"],
        ),
        ([{"stage": "other", "backend": "{stage}"}], ["backend=other"]),
        (
            [{"stage": "a", "backend": {"save": "{output_dir}/x"}}],
            ["backend.save=/out/lr1e-3_a/x"],
        ),
        (
            [STABLE, {"stage": "x", "project.name": "{sibling.stable.name}_x"}],
            ["project.name=lr1e-3_stable_x"],
        ),
    ],
)
def test_parameters_become_overrides_with_their_types(
    configs: list[Mapping[str, Any]], overrides: list[str]
) -> None:
    assert list(one(*configs)[-1].overrides) == overrides


IN_TURN = {
    "stage": "a",
    "backend.load": "{backend.save}/last",
    "backend.save": "{output_dir}/c",
    "target": "{iters}",
}


@pytest.mark.parametrize(
    ("configs", "at", "word"),
    [
        ([STABLE, COOLDOWN], 1, "--load=/out/lr1e-3_stable/checkpoints"),
        ([IN_TURN], 0, "--load=/out/lr1e-3_a/c/last"),
        (
            [STABLE, {"stage": "b", "backend.load": "{sibling.stable.backend.save}"}],
            1,
            "--load=/out/lr1e-3_stable/checkpoints",
        ),
        (
            [
                {"stage": "a", "backend.load": "{sibling.b.output_dir}"},
                {"stage": "b"},
            ],
            0,
            "--load=/out/lr1e-3_b",
        ),
        (
            [
                {"stage": "a", "backend.load": r"it's \${oc.env:HOME} 'x\\"},
                {"stage": "b", "backend.load": "{sibling.a.backend.load}${target}"},
            ],
            1,
            "--load=it's ${oc.env:HOME} 'x\\\\80",
        ),
    ],
    ids=["sibling", "own in turn", "what it became", "later", "no expression"],
)
def test_values_of_jobs_reach_the_command(
    configs: list[Mapping[str, Any]], at: int, word: str
) -> None:
    assert word in one(*configs)[at].command


@pytest.mark.parametrize(
    ("name", "stage", "spelled"),
    [
        (7, {}, "7"),
        ("t${target}", {"target": "{backend.iters}"}, "t100"),
        ("lr${backend.lr}", {"backend.lr": 1e-4}, "lr1e-4"),
    ],
)
def test_a_name_may_be_a_number_and_read_what_reads_the_job(
    name: object, stage: Mapping[str, Any], spelled: str
) -> None:
    plan = planned({"configs": [{"stage": "a", **stage}]}, project={"name": name})
    assert plan.jobs[0].name == spelled


def test_aux_is_part_of_the_config_and_of_the_overrides() -> None:
    jobs = one(
        {
            "stage": "a",
            "aux": {"k": 5, "twice": "${oc.eval:'_0*2',${aux.k}}"},
            "aux.text": "{stage}!",
            "backend.iters": "${aux.twice}",
            "backend.load": "iter_{aux.twice}{aux.text}",
        }
    )
    assert "--iters=10" in jobs[0].command
    assert "--load=iter_10a!" in jobs[0].command
    assert jobs[0].overrides[0] == "++aux.k=5"
    assert "++aux.text='a!'" in jobs[0].overrides


def test_a_value_of_another_job_can_be_calculated_with() -> None:
    text = "${oc.eval:'int(_0*0.8)',{sibling.a.backend.iters}}"
    jobs = one({"stage": "a"}, {"stage": "b", "backend.iters": text})
    assert "--iters=80" in jobs[1].command
    assert jobs[1].overrides[0] == "++_refs.r0=100"


def test_a_fan_in_reads_all_jobs_of_a_stage() -> None:
    sweep = {
        "type": "list",
        "groups": [
            {"groups": [LR, {"configs": [STABLE]}]},
            {"configs": [{"stage": "r", "backend.load": "{all.stable.output_dir}/x"}]},
        ],
    }
    plan = planned(sweep)
    assert plan.jobs[2].overrides == (
        "backend.load=[/out/lr1e-4_stable/x,/out/lr5e-4_stable/x]",
    )
    assert plan.jobs[2].depends_on == ("lr1e-4_stable", "lr5e-4_stable")


def test_notes_are_shown_with_the_job() -> None:
    jobs = one({"_meta": {"stage": "a", "why": "first"}})
    assert (jobs[0].stage, dict(jobs[0].notes)) == ("a", {"why": "first"})


def test_the_last_step_is_read_from_the_config() -> None:
    assert one({"stage": "a", "backend.iters": 500})[0].progress_total == 500
    assert one({"stage": "a", "backend.iters": 5e2})[0].progress_total == 500
    assert one({"stage": "a", "backend.iters": "x"})[0].progress_total is None


def test_derived_jobs_follow_their_base() -> None:
    sweep = {
        "grids": [{"backend.lr": [1e-4, 5e-4]}],
        "derived_jobs": [
            {
                "name": "cooldown",
                "aux": {"to": "${oc.eval:'int(_0*0.5)',${base.backend.iters}}"},
                "start_conditions": [
                    {
                        "class_name": "MetadataCondition",
                        "key": "base.checkpoint_iteration",
                        "equals": "${aux.to}",
                        "timeout_seconds": 5,
                    }
                ],
                "parameter_overrides": {"backend.load": "{base.output_dir}/{aux.to}"},
            }
        ],
    }
    plan = planned(sweep, project={**CONFIG["project"], "name": "lr${backend.lr}"})
    cooldown = plan.jobs[3]
    assert cooldown.name == "lr5e-4_cooldown"
    assert cooldown.depends_on == ("lr5e-4",)
    assert cooldown.start_conditions == (
        MetadataIs(
            job="lr5e-4", key="checkpoint_iteration", value=50, timeout_seconds=5
        ),
    )
    assert "--load=/out/lr5e-4/50" in cooldown.command


# ------------------------------------------------------------------- conditions
def test_a_condition_waits_for_the_job_it_names() -> None:
    plan = planned({"configs": [STABLE, COOLDOWN]})
    assert plan.jobs[1].start_conditions == (
        JobStateIs(jobs=("lr1e-3_stable",), state="COMPLETED", timeout_seconds=60),
    )
    assert [(e.before, e.after, e.mode) for e in plan.edges] == [
        ("lr1e-3_stable", "lr1e-3_cooldown", "waits"),
        ("lr1e-3_stable", "lr1e-3_cooldown", "reads"),
    ]


KEY = "checkpoint_iteration"


@pytest.mark.parametrize(
    ("mapping", "resolved"),
    [
        (
            {
                "class_name": "FileExistsCondition",
                "path": "{sibling.stable.output_dir}/iter_${target}/{index}.txt",
            },
            FileExists(path="/out/lr1e-3_stable/iter_80/1.txt", writer="lr1e-3_stable"),
        ),
        (
            {"class_name": "Metadata", "key": "loss", "equals": 1},
            MetadataIs(key="loss", value=1),
        ),
        (
            {
                "class_name": "Metadata",
                "key": f"{{runtime.lr1e-3_stable.{KEY}}}",
                "equals": 1,
            },
            MetadataIs(job="lr1e-3_stable", key=KEY, value=1),
        ),
        (
            {
                "class_name": "NotCondition",
                "condition": {
                    "class_name": "FileContent",
                    "path": "{name}",
                    "pattern": "{x}",
                },
            },
            Not(condition=FileContent(path="lr1e-3_cooldown", pattern="{x}")),
        ),
        (
            {
                "class_name": "FileExists",
                "path": "it_${oc.eval:'_0+_1',{sibling.stable.iters},${target}}",
            },
            FileExists(path="it_180"),
        ),
        (
            {
                "class_name": "ApprovalCondition",
                "prompt": "{{go}}?",
                "show_files": ["{all.stable.output_dir}/r.json", "x"],
            },
            Approval(prompt="{go}?", show_files=("/out/lr1e-3_stable/r.json", "x")),
        ),
    ],
)
def test_fields_of_conditions_are_resolved(
    mapping: Mapping[str, Any], resolved: object
) -> None:
    assert condition(mapping) == resolved


def test_a_wait_may_be_told_from_the_path_alone() -> None:
    plan = planned(
        {
            "configs": [
                STABLE,
                waiting(
                    {
                        "class_name": "CompositeCondition",
                        "conditions": [
                            {
                                "class_name": "FileContentCondition",
                                "path": "/out/lr1e-3_stable/x",
                                "pattern": "{sibling.a.b}",
                            }
                        ],
                    }
                ),
            ]
        }
    )
    assert plan.jobs[1].depends_on == ("lr1e-3_stable",)
    assert plan.jobs[1].start_conditions[0] == Composite(
        conditions=(
            FileContent(
                path="/out/lr1e-3_stable/x",
                pattern="{sibling.a.b}",
                writer="lr1e-3_stable",
            ),
        )
    )


@pytest.mark.parametrize(
    "key",
    [
        "{runtime.{sibling.stable.name}.checkpoint_iteration}",
        "{sibling.stable.metadata.checkpoint_iteration}",
        "{sibling.stable.checkpoint_iteration}",
        "{base.checkpoint_iteration}",
        "base.checkpoint_iteration",
        "parent.checkpoint_iteration",
    ],
)
def test_metadata_of_another_job_is_named_by_job_and_key(key: str) -> None:
    found = condition(
        {"class_name": "MetadataCondition", "key": key, "equals": "${target}"},
        **{"backend.load": "{sibling.stable.output_dir}"},
    )
    assert found == MetadataIs(
        job="lr1e-3_stable", key="checkpoint_iteration", value=80
    )


def test_metadata_within_a_text_stays_until_it_is_known() -> None:
    plan = planned(
        {
            "configs": [
                STABLE,
                waiting(
                    {
                        "class_name": "CommandCondition",
                        "command": ["test", "{sibling.stable.checkpoint_iteration}"],
                    }
                ),
            ]
        }
    )
    assert plan.jobs[1].start_conditions == (
        CommandPasses(command=("test", "{runtime.lr1e-3_stable.checkpoint_iteration}")),
    )
    assert plan.jobs[1].depends_on == ("lr1e-3_stable",)


def test_cancel_conditions_are_no_waits() -> None:
    plan = planned(
        {
            "configs": [
                STABLE,
                {
                    "stage": "b",
                    "cancel_conditions": [
                        {
                            "class_name": "LogPatternCondition",
                            "log_path": "{sibling.stable.log_path_current}",
                            "pattern": "FATAL|{x}",
                        }
                    ],
                },
            ]
        }
    )
    (found,) = plan.jobs[1].cancel_conditions
    assert isinstance(found, LogPattern)
    assert found.log_path == "/logs/lr1e-3_stable/current.log"
    assert found.pattern == "FATAL|{x}"
    assert [edge.mode for edge in plan.edges] == ["reads"]


def test_conditions_may_name_jobs_that_read_this_one() -> None:
    jobs = one(
        {
            **STABLE,
            "cancel_conditions": [
                {
                    "class_name": "SlurmStateCondition",
                    "job_name": "{sibling.cooldown.name}",
                    "state": "FAILED",
                }
            ],
        },
        COOLDOWN,
    )
    assert jobs[0].cancel_conditions == (
        JobStateIs(jobs=("lr1e-3_cooldown",), state="FAILED"),
    )


def test_a_start_command_becomes_a_condition_with_a_warning() -> None:
    sweep = {
        "configs": [{"stage": "a", "start_condition_cmd": "test -f '{output_dir}/x y'"}]
    }
    assert planned(sweep).jobs[0].start_conditions == (
        CommandPasses(command=("test", "-f", "/out/lr1e-3_a/x y")),
    )
    assert "start_condition_cmd: is deprecated" in warnings(sweep)


def test_a_start_command_of_the_monitoring_is_one_of_every_job() -> None:
    sweep = {
        "configs": [
            {"stage": "a"},
            {
                "stage": "b",
                "++monitoring.start_condition_cmd": "test -e {sibling.a.name}",
            },
        ]
    }
    monitoring = {"start_condition_cmd": "look ${project.base_output_dir} {name}"}

    first, second = planned(sweep, monitoring=monitoring).jobs

    assert first.start_conditions == (
        CommandPasses(command=("look", "/out", first.name)),
    )
    assert second.start_conditions == (
        CommandPasses(command=("test", "-e", first.name)),
    )


# ------------------------------------------------------------ metadata in parameters
LATE: Mapping[str, Any] = {
    "configs": [
        {"stage": "a"},
        {"stage": "b", "backend.load": "{sibling.a.metadata.checkpoint_iteration}/x"},
        {"stage": "c", "backend.iters": "{sibling.a.checkpoint_iteration}"},
    ]
}


def test_a_parameter_may_hold_metadata_of_another_job() -> None:
    first, second, _ = planned(LATE).jobs

    reference = f"{{runtime.{first.name}.checkpoint_iteration}}"
    assert second.runtime_overrides == (f"backend.load='{reference}/x'",)
    assert second.start_conditions == (
        MetadataIs(job=first.name, key="checkpoint_iteration", op="known"),
    )
    assert second.depends_on == (first.name,)


def test_the_number_of_the_config_stands_for_metadata_in_the_plan() -> None:
    first, _, third = planned(LATE).jobs

    reference = f"{{runtime.{first.name}.checkpoint_iteration}}"
    assert third.overrides == ()
    assert third.runtime_overrides == (f"backend.iters={reference}",)
    assert third.parameters["backend.iters"] == "{sibling.a.checkpoint_iteration}"


def test_a_wait_for_the_same_metadata_is_not_doubled() -> None:
    wait = {
        "class_name": "MetadataCondition",
        "job": "{sibling.a.name}",
        "key": "checkpoint_iteration",
        "value": 80,
    }
    changed = [LATE["configs"][0], {**LATE["configs"][1], "start_conditions": [wait]}]

    assert len(planned({"configs": changed}).jobs[1].start_conditions) == 1


# ---------------------------------------------------------------- dropped jobs
def test_a_filter_over_the_composed_config_leaves_holes_in_the_indices() -> None:
    plan = planned({**stages(STABLE), "filter": "${backend.lr} > 2e-4"})
    assert [(job.index, job.name) for job in plan.jobs] == [(1, "lr5e-4_stable")]


def test_a_deferred_filter_may_name_keys_that_only_other_points_have() -> None:
    sweep = {
        "configs": [{"stage": "a"}, {"stage": "b", "++backend.beta": 1}],
        "filter": "${backend.lr} > 0 and beta is None",
    }
    assert [job.stage for job in planned(sweep).jobs] == ["a"]


def test_a_filter_over_the_config_drops_a_family_that_refers_to_itself() -> None:
    plan = planned(stages(STABLE, COOLDOWN, filter="${backend.lr} > 2e-4"))
    assert [job.name for job in plan.jobs] == ["lr5e-4_stable", "lr5e-4_cooldown"]


def test_a_filter_is_decided_before_a_ring_of_references_is_walked() -> None:
    one = {"stage": "a", "backend.load": "{sibling.b.name}"}
    two = {"stage": "b", "backend.load": "{sibling.a.name}"}
    free = {"stage": "c"}
    sweep = {"configs": [one, two, free], "filter": "'${stage}' == 'c'"}
    assert [job.stage for job in planned(sweep).jobs] == ["c"]


@pytest.mark.parametrize(
    "text",
    [
        "'${backend.load}' != '/out/lr1e-4_stable/checkpoints'",
        "'${project.name}' != 'lr1e-4_cooldown'",
    ],
)
def test_a_filter_over_what_another_job_gives_waits_for_it(text: str) -> None:
    plan = planned(stages(STABLE, COOLDOWN, filter=text))
    assert len(plan.jobs) == 3
    assert plan.jobs[1].name == "lr5e-4_stable"


def test_a_filter_that_is_decided_early_makes_no_warning_twice() -> None:
    new = {**COOLDOWN, "backend.new": 1}
    found = outcome(stages(STABLE, new, filter="${backend.lr} > 0"))
    assert len([w for w in found.warnings if w.where == "backend.new"]) == 1


def test_all_jobs_of_a_stage_leaves_dropped_ones_out() -> None:
    sweep = {
        "type": "list",
        "groups": [
            {**stages(STABLE), "filter": "${backend.lr} > 2e-4"},
            {"configs": [{"stage": "r", "backend.load": "{all.stable.name}"}]},
        ],
    }
    assert planned(sweep).jobs[1].overrides == ("backend.load=[lr5e-4_stable]",)


def test_a_job_that_refers_to_itself_among_all_of_its_stage_is_told_so() -> None:
    said = errors({"configs": [{"stage": "a", "backend.load": "{all.a.name}"}]})
    assert "refers to itself" in said
    assert "of its own stage means this job too" in said


def test_an_empty_list_that_takes_a_branch_with_it_is_warned_about() -> None:
    branch = {"groups": [LR, {"configs": []}]}
    sweep = {"type": "list", "groups": [branch, {"configs": [STABLE]}]}
    said = warnings(sweep)
    assert said.startswith("sweep.groups.0.groups.1.configs: is an empty list")
    assert "the product around it makes no job" in said


def test_a_filter_that_leaves_no_job_is_named() -> None:
    assert "all 2 combinations went by the filter `lr < 0` at sweep.filter" in errors(
        {**LR, "filter": "lr < 0"}
    )
    said = errors({**LR, "filter": "${backend.lr} < 0"})
    assert "all 2 combinations went by the filter `${backend.lr} < 0`" in said


def test_a_failing_filter_is_told_though_another_takes_the_job_away() -> None:
    inner = {"configs": [{"stage": "a"}, {"stage": "b"}]}
    failing = {**inner, "filter": "stage == 'a' or ${backend.load} > 1"}
    said = errors({"groups": [LR, failing], "filter": "'${stage}' == 'a'"})
    assert "sweep.groups.1.filter: `stage == 'a' or ${backend.load} > 1`" in said


# ----------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "reference", ["{sibling.stabble.name}", "{sibling.stable.outputdir}"]
)
def test_a_reference_that_fails_in_many_jobs_is_told_once(reference: str) -> None:
    sweep = stages({"stage": "stable"}, {"stage": "b", "backend.load": reference})
    (error,) = outcome(sweep).errors
    assert error.message.endswith("(and for 1 more job)")


@pytest.mark.parametrize(
    "other",
    [
        COOLDOWN,
        {**COOLDOWN, "backend.load": "x"},
    ],
)
def test_a_job_that_names_a_failing_one_adds_no_error_of_its_own(
    other: Mapping[str, Any],
) -> None:
    sweep = {"configs": [{"stage": "stable", "backend.lrr": 1}, other]}
    assert len(outcome(sweep).errors) == 1


def test_the_same_ring_of_references_in_many_families_is_told_once() -> None:
    two = [
        {"stage": "a", "backend.load": "{sibling.b.name}"},
        {"stage": "b", "backend.load": "{sibling.a.name}"},
    ]
    rates = {"params": {"backend.lr": [1e-3, 2e-3, 3e-3]}}
    (error,) = outcome({"groups": [rates, {"configs": two}]}).errors
    assert error.message == (
        "references go in a ring: job 0 (stage=a, lr=1e-3) -> job 1 (stage=b, lr=1e-3) "
        "-> job 0 (stage=a, lr=1e-3) (and 2 more rings of these stages)"
    )


def test_rings_of_references_of_other_stages_are_each_told() -> None:
    found = outcome(
        {
            "configs": [
                {"stage": one, "backend.load": f"{{sibling.{other}.name}}"}
                for one, other in ("ab", "ba", "cd", "dc")
            ]
        }
    ).errors
    assert ["in a ring" in error.message for error in found] == [True, True]


@pytest.mark.parametrize(
    ("parameters", "key"),
    [
        (
            {"backend.save": "{sibling.c.name}", "backend.load": "{sibling.b.name}"},
            "backend.load",
        ),
        (
            {"backend": {"load": "{sibling.b.name}"}, "target": "{base.x}"},
            "backend.load",
        ),
        ({"project.name": "x{sibling.b.name}"}, "project.name"),
    ],
)
def test_of_several_keys_that_read_jobs_a_ring_is_told_at_the_one_that_closes_it(
    parameters: Mapping[str, Any], key: str
) -> None:
    one = {"stage": "a", **parameters}
    two = {"stage": "b", "backend.load": "{sibling.a.name}"}
    found = outcome({"configs": [one, two, {"stage": "c"}]}).errors

    assert [e.where for e in found if "in a ring" in e.message] == [key]


RING: Final = {
    "configs": [
        {
            "stage": stage,
            "start_conditions": [
                {
                    "class_name": "SlurmState",
                    "job_name": f"{{sibling.{other}.name}}",
                    "state": "COMPLETED",
                }
            ],
        }
        for stage, other in ("ab", "ba")
    ]
}


def test_the_same_ring_in_many_families_is_told_once() -> None:
    rates = {"params": {"backend.lr": [1e-3, 2e-3, 3e-3]}}
    (error,) = outcome({"groups": [rates, RING]}).errors
    assert error.message.endswith("-> lr1e-3_a (and 2 more rings of these stages)")


def test_rings_of_jobs_without_a_stage_are_each_told() -> None:
    def waits(other: int) -> Mapping[str, object]:
        name = f"{{sibling.index={other}.name}}"
        kind = {"class_name": "SlurmState", "job_name": name, "state": "COMPLETED"}
        return {"backend.lr": other, "start_conditions": [kind]}

    said = errors({"configs": [waits(at) for at in (1, 0, 3, 2)]})
    assert said.count("wait for each other in a ring") == 2


@pytest.mark.parametrize(
    ("sweep", "place"),
    [
        ({"params": {"backend.lr": []}}, "sweep.params.backend.lr"),
        ({"groups": [{"params": {"a": []}}, LR]}, "sweep.groups.0.params.a"),
        ({"configs": []}, "sweep.configs"),
        (
            {"groups": [LR, {"configs": [{"params": {"a": []}}]}]},
            "sweep.groups.1.configs.0.params.a",
        ),
    ],
)
def test_a_sweep_without_points_says_which_list_is_empty(
    sweep: Sweep, place: str
) -> None:
    assert f"`{place}` is an empty list: write at least one entry" in errors(sweep)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"monitoring": {"broken": 1}}, "monitoring: is broken"),
        ({"monitoring": {"poll": "${nowhere}"}}, "nowhere"),
    ],
)
def test_what_is_wrong_for_all_jobs_is_an_error(
    changes: Mapping[str, Any], said: str
) -> None:
    assert said in errors(None, **changes)


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ({"backend.load": "{runtime.x}"}, "is not runtime.JOB.KEY"),
        (
            {"backend.load": "{sibling.{all.stable.name}.x}"},
            "inside another reference gives no one value",
        ),
        ({"++backend.broken": True}, "backend: is broken"),
        ({"++slurm.bad": 1}, "slurm.bad: is unknown"),
        (
            {"cancel_conditions": [{"class_name": "FileExists", "path": "${no}"}]},
            "cancel_conditions.0",
        ),
        (
            {"start_conditions": [{"class_name": "Metadata", "key": 5}]},
            "start_conditions.0: is no text",
        ),
        (
            {
                "start_conditions": [
                    {
                        "class_name": "FileExists",
                        "path": "${oc.eval:'_0',{sibling.stable.metadata.x}}",
                    }
                ]
            },
            "is known only while jobs run",
        ),
    ],
)
def test_says_what_is_wrong_with_a_job(job: Mapping[str, Any], said: str) -> None:
    found = outcome({"configs": [{"stage": "stable"}, {"stage": "b", **job}]})
    assert found.plan is None
    assert said in "\n".join(map(str, found.errors))
    assert all(error.job for error in found.errors)


def test_a_failing_plan_is_raised_with_every_error() -> None:
    composer = FakeComposer(CONFIG, {"params": {"backend.lrr": [1, 2, 3]}})
    with pytest.raises(ValidationFailed, match="the plan has 1 error") as caught:
        build_execution_plan(composer=composer, parser=FakeParser())
    (error,) = caught.value.problems
    assert error.where == "backend.lrr"
    assert error.message == "is not in the config (and for 2 more jobs)"


# --------------------------------------------------------------------- warnings
def test_reading_without_waiting_is_warned_about() -> None:
    said = warnings(
        {
            "configs": [
                STABLE,
                {"stage": "b", "backend.load": "{sibling.stable.output_dir}"},
            ]
        }
    )
    assert "lr1e-3_b start_conditions: reads what stable writes, and does not" in said


def test_reading_a_number_needs_no_wait() -> None:
    sweep = {
        "configs": [STABLE, {"stage": "b", "backend.iters": "{sibling.stable.iters}"}]
    }
    assert warnings(sweep) == ""


@pytest.mark.parametrize(
    ("entry", "warned"),
    [
        ({"class_name": "FileExists", "path": "x"}, True),
        ({"class_name": "FileExists", "path": "x", "timeout_seconds": 5}, False),
        ({"class_name": "FileExists", "path": "x", "blocking": False}, False),
        ({"class_name": "Approval"}, False),
        ({"class_name": "Time", "after_seconds": 5}, False),
        (
            {
                "class_name": "Composite",
                "mode": "any",
                "conditions": [
                    {"class_name": "FileExists", "path": "x"},
                    {"class_name": "Time", "after_seconds": 5},
                ],
            },
            False,
        ),
        (
            {
                "class_name": "Composite",
                "conditions": [{"class_name": "FileExists", "path": "x"}],
            },
            True,
        ),
    ],
)
def test_waits_without_an_end_are_warned_about(
    entry: Mapping[str, Any], *, warned: bool
) -> None:
    said = warnings({"configs": [{"stage": "a", "start_conditions": [entry]}]})
    assert ("waits without a time-out" in said) is warned


def test_an_added_key_is_warned_about_once() -> None:
    sweep = {"params": {"backend.momentum": [1, 2]}, "filter": True}
    (warning,) = outcome(sweep, project={"name": "${index}"}).warnings
    assert warning.where == "backend.momentum"
    assert warning.message.endswith("(and for 1 more job)")


# ------------------------------------------------------------------------- plan
def test_a_plan_keeps_where_it_came_from() -> None:
    source = PlanSource(
        config_ref="experiments/dense",
        config_dir="/c",
        overrides=("a=1",),
        created_at=5.0,
        environment={"HOME": "d"},
    )
    plan = build_execution_plan(
        source, composer=FakeComposer(CONFIG, LR), parser=FakeParser()
    )
    assert plan.name == "dense"
    assert (plan.config_ref, plan.config_dir) == ("experiments/dense", "/c")
    assert (plan.overrides, plan.created_at) == (("a=1",), 5.0)
    assert plan.environment == {"HOME": "d"}
    assert plan.base_output_dir == "/out"


@pytest.mark.parametrize(
    ("given", "configured", "wanted"),
    [("/s", "/m", "/s"), ("", "/m", "/m"), ("", None, "outputs/.autoexp")],
)
def test_the_state_dir_is_said_or_configured(
    given: str, configured: str | None, wanted: str
) -> None:
    monitoring, ui = {"state_dir": configured}, {"theme": "light"}
    composer = FakeComposer({**CONFIG, "monitoring": monitoring, "ui": ui})
    plan = build_execution_plan(
        PlanSource(state_dir=given), composer=composer, parser=FakeParser()
    )
    assert (plan.state_dir, plan.ui) == (wanted, ui)


def test_plans_of_equal_content_have_equal_ids() -> None:
    assert planned(LR).plan_id == planned(LR).plan_id
    assert planned(LR).plan_id != planned(LR, target=81).plan_id


def test_the_same_work_has_the_same_fingerprint_wherever_it_lies() -> None:
    moved = {"name": "lr${backend.lr}_${stage}", "base_output_dir": "/elsewhere"}
    here = planned(stages(STABLE, COOLDOWN))
    there = planned(stages(STABLE, COOLDOWN), project=moved)
    assert [j.fingerprint for j in here.jobs] == [j.fingerprint for j in there.jobs]


def test_a_sweep_may_be_given_instead_of_the_configs_own() -> None:
    source = PlanSource(sweep={"params": {"backend.lr": [1, 2, 3]}})
    composer = FakeComposer(CONFIG, LR)
    plan = build_execution_plan(source, composer=composer, parser=FakeParser())
    assert len(plan.jobs) == 3


def test_each_config_is_told_to_whom_records_them() -> None:
    told = []

    def record(index: int, view: Any, config: Mapping[str, Any]) -> None:
        told.append((index, view.raw("backend.load"), config["project"]["name"]))

    build_plan_outcome(
        composer=FakeComposer(CONFIG, stages(STABLE, {"stage": "b"})),
        parser=FakeParser(),
        record=record,
    )
    assert told[1] == (1, None, "lr1e-4_b")


# ------------------------------------------------------------------ how much work


@pytest.mark.parametrize(
    ("sweep", "composed"),
    [
        (stages(STABLE, COOLDOWN), 4),
        (stages(STABLE, filter="${backend.lr} > 0"), 2),
        ({"configs": [{**COOLDOWN, "backend.load": "{sibling.b.name}",
                       "start_conditions": []}, {"stage": "b"}]}, 2),
    ],
    ids=["in order", "with a filter", "read early"],
)  # fmt: skip
def test_each_job_is_composed_once(sweep: Sweep, composed: int) -> None:
    composer = FakeComposer(CONFIG, sweep)
    build_plan_outcome(composer=composer, parser=FakeParser())
    assert len(composer.asked) == composed


def far_apart(reference: str) -> Sweep:
    """All jobs of one stage before those of the other."""
    return {
        "type": "list",
        "groups": [
            {
                "params": {"backend.lr": list(range(70)), "stage": "stable"},
                "defaults": {"backend.save": "{output_dir}/x"},
            },
            {
                "params": {"backend.lr": list(range(70)), "stage": "cooldown"},
                "defaults": {"backend.load": reference, "aux": {"of": "stable"}},
            },
        ],
    }


def test_far_siblings_are_composed_again() -> None:
    composer = FakeComposer(CONFIG, far_apart("{sibling.stable.backend.save}"))
    plan = build_execution_plan(composer=composer, parser=FakeParser())
    assert "backend.load=/out/lr0_stable/x" in plan.jobs[70].overrides
    assert len(composer.asked) == 210


def test_closed_settings_are_checked_once_when_they_do_not_change() -> None:
    parser = FakeParser()
    build_plan_outcome(
        composer=FakeComposer(CONFIG, stages(STABLE, COOLDOWN)), parser=parser
    )
    assert parser.checked == 1


def test_of_many_references_that_find_nothing_each_is_told() -> None:
    configs = [{"backend.load": f"{{sibling.gone{at}.name}}"} for at in range(150)]
    found = outcome({"configs": [{"stage": "here"}, *configs]})
    assert len(found.errors) == 150
    assert {error.hint for error in found.errors} == {"siblings: here", "stages: here"}
