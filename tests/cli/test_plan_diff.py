"""autoexp-plan --diff, and what it says of the last plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.cli.plan import main
from autoexp_tui.cli.plan_diff import find_changes
from autoexp_tui.model.specs import Plan
from autoexp_tui.storage.manifests import write_manifest
from tests.config.config_trees import write_tree
from tests.planning.plans import job, plan
from tests.storage.test_session_list import Engine

pytestmark = pytest.mark.usefixtures("planned_here")

Say = Callable[..., tuple[int, str, str]]

EXP = """
project: {name: "seed{seed}", base_output_dir: out}
seed: 1
lr: 1e-3
warmup: ${oc.eval:${lr}*10}
backend: {class_name: Command, command: ["true", "${lr}"]}
sweep: {params: {seed: [1, 2], lr: LR}}
"""


def write(tmp_path: Path, lr: str = "1e-3", config: str = EXP) -> None:
    write_tree(tmp_path / "config", exp=config.replace("LR", lr))


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say) -> Say:
    """Run autoexp-plan where ./config/exp.yaml is."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    return lambda *argv: say(main, *argv, "--state-dir", "state")


def manifest_in(text: str) -> str:
    """The path that a plan's text ends with."""
    return text.strip().splitlines()[-1].split()[-1]


def test_a_change_of_all_jobs_is_told_with_the_keys_that_follow(
    say: Say, tmp_path: Path
) -> None:
    old = manifest_in(say()[1])
    write(tmp_path, "3e-4")
    code, out, _ = say("--diff", old)
    assert code == 0
    assert out.splitlines()[1:] == [
        "2 jobs changed",
        "  ~ 2 jobs: lr 1e-3 -> 3e-4; warmup 0.01 -> 3e-3; "
        "backend.command [true, 1e-3] -> [true, 3e-4] (seed1, seed2)",
    ]


def test_the_json_of_a_difference_names_both_plans(say: Say, tmp_path: Path) -> None:
    old = manifest_in(say()[1])
    write(tmp_path, "3e-4")
    tree = json.loads(say("--diff", old, "--json")[1])
    assert Path(old).name == f"plan_{tree['old']}.json"
    assert tree["counts"]["changed"] == 2


@pytest.mark.parametrize("other", ["id", "plan_id", "beginning", "config", "session"])
def test_the_other_plan_may_be_named_in_any_way(
    say: Say, tmp_path: Path, other: str
) -> None:
    old = Path(manifest_in(say()[1]))
    plan_id = old.stem.removeprefix("plan_")
    session = Engine(tmp_path / "state", "k7f2", 1.0).session
    session.plan.write_bytes(old.read_bytes())
    write(tmp_path, "3e-4")
    named = {
        "id": plan_id,
        "plan_id": old.stem,
        "beginning": plan_id[:8],
        "config": "exp",
        "session": "k7f2",
    }
    code, out, err = say("--diff", named[other])
    assert (code, err) == (0, "")
    assert "lr 1e-3 -> 3e-4" in out


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            "k7f3",
            "{root}/state: --diff k7f3: no manifest, plan, session or config of that "
            "name\n  did you mean `k7f2`?\n",
        ),
        (
            "exp",
            "--diff exp: the only plan of exp is this one\n"
            "  Name a manifest, a plan's id or a session to compare with.\n",
        ),
    ],
)
def test_where_there_is_no_other_plan_it_says_what_there_is(
    say: Say, tmp_path: Path, other: str, said: str
) -> None:
    Engine(tmp_path / "state", "k7f2", 1.0)
    code, _, err = say("--diff", other)
    assert (code, err) == (2, f"error: {said.format(root=tmp_path)}")


def test_only_a_plan_made_again_is_told_against_the_earlier_one(say: Say) -> None:
    first = say()[1]
    assert "since the plan" not in first
    assert ": nothing differs: 2 jobs\n" in say()[1]
    assert "since the plan" not in say("--manifest", manifest_in(first))[1]


def test_a_plan_says_what_changed_since_the_last_one(say: Say, tmp_path: Path) -> None:
    say()
    write(tmp_path, "[1e-3, 3e-4]", EXP.replace("seed{seed}", "seed{seed}_{lr}"))
    out = say()[1]
    assert "2 jobs added, 2 renamed\n" in out
    assert "  + 2 jobs (lr 3e-4): seed1_3e-4, seed2_3e-4\n" in out
    assert "  > 2 jobs renamed: seed1 -> seed1_1e-3, seed2 -> seed2_1e-3\n" in out


def planned_twice(tmp_path: Path) -> Plan:
    """The second plan of a config, with a job more than the first."""
    first = plan([job("a")], plan_id="one", created_at=1000.0, state_dir=str(tmp_path))
    second = replace(
        first,
        plan_id="two",
        created_at=2000.0,
        jobs=(*first.jobs, job("b", 1, fingerprint="other")),
    )
    write_manifest(tmp_path, first)
    write_manifest(tmp_path, second)
    return second


def test_a_job_more_is_told_whatever_the_files_of_the_user_s_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('not yours')\n")
    monkeypatch.chdir(tmp_path)
    found = find_changes(planned_twice(tmp_path))
    assert found is not None
    assert (found.created_at, found.differs) == (1000.0, True)
    assert "1 job added" in found.head


def test_a_plan_that_nobody_kept_has_nothing_before_it(tmp_path: Path) -> None:
    assert find_changes(plan([job("a")], state_dir=str(tmp_path))) is None
