"""autoexp-plan: what it refuses, what it finds wrong, and what changed since."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cli.plan import main
from autoexp_tui.cli.plan_diff import format_since
from autoexp_tui.cockpit.render.plan_findings import PlanChanges
from autoexp_tui.model.specs import ExecutorSpec, Plan
from autoexp_tui.storage import plan_changes
from autoexp_tui.storage.manifests import find_manifest, write_manifest
from autoexp_tui.storage.provenance import GitState, RecordBuilder, save_record
from tests.config.config_trees import write_tree
from tests.model.builders import job, plan
from tests.storage.whole_session import WholeSession
from tests.support.journal_contract import PLAN

Said = tuple[int, str, str]
Say = Callable[..., Said]

EXP = """
project: {name: "seed{seed}", base_output_dir: out}
seed: 1
lr: 1e-3
warmup: ${oc.eval:${lr}*10}
backend: {class_name: Command, command: ["true", "${lr}"]}
sweep: {params: {seed: [1, 2], lr: LR}}
"""


def write(root: Path, lr: str = "1e-3", config: str = EXP) -> None:
    write_tree(root / "config", exp=config.replace("LR", lr))


@pytest.fixture
def plan_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say) -> Say:
    """Run autoexp-plan where ./config/exp.yaml is."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    return lambda *argv: say(main, *argv, "--state-dir", "state")


def test_a_session_s_plan_is_shown_and_takes_nothing_else(
    plan_here: Say, say: Say, tmp_path: Path
) -> None:
    WholeSession(tmp_path / "state" / "k7f2", 1.0)
    code, out, _ = plan_here("--session", "k7f2", "--json")
    assert code == 0
    assert [one["name"] for one in json.loads(out)["jobs"]] == [PLAN.jobs[0].name]
    assert plan_here("--session", "k7f2", "--points")[0] == 2
    code, _, err = plan_here("--session", "k7f2", "lr=3")
    assert (code, "--session takes no overrides" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--manifest twice.json", 3, "2 jobs have the name a"),
        (
            "--manifest none.json",
            2,
            "error: none.json: there is no such manifest\n"
            "  autoexp-plan writes one and prints its path\n",
        ),
        ("--manifest twice.json lr=3", 2, "lr=3: --manifest takes no overrides"),
        ("--manifest twice.json --points", 2, "--manifest is a finished plan"),
        (
            "lrr=3",  # one fault of the config is one message
            2,
            "error: override lrr: there is no such key\n"
            "  did you mean `lr`? write `++lrr=...` to add it\n",
        ),
        ("--points --diff exp", 2, "are different questions"),
    ],
)
def test_what_cannot_be_planned_is_refused(
    plan_here: Say, tmp_path: Path, words: str, code: int, said: str
) -> None:
    made = write_manifest(tmp_path / "other", plan(job("a"), job("a", 1)))
    made.rename(tmp_path / "twice.json")
    found, out, err = plan_here(*words.split())
    assert (found, out) == (code, "")
    assert err == said if said.startswith("error") else said in err


@pytest.mark.usefixtures("planned_here")
def test_the_other_plan_may_be_named_in_any_way(plan_here: Say, tmp_path: Path) -> None:
    assert "since the plan" not in plan_here()[1]
    again = plan_here()[1]
    assert ": nothing differs: 2 jobs\n" in again
    old = Path(again.strip().splitlines()[-1].split()[-1])  # where the manifest lies
    assert "since the plan" not in plan_here("--manifest", str(old))[1]
    session = WholeSession(tmp_path / "state" / "k7f2", 1.0).session
    session.plan.write_bytes(old.read_bytes())
    write(tmp_path, "3e-4")
    plan_id = old.stem.removeprefix("plan_")
    for other in ("exp", str(old), plan_id, old.stem, plan_id[:8], "k7f2"):
        code, out, err = plan_here("--diff", other)
        assert (code, err) == (0, "")
        assert out.splitlines()[1:] == [
            "2 jobs changed",
            "  ~ 2 jobs: lr 1e-3 -> 3e-4; warmup 0.01 -> 3e-3; "
            "backend.command [true, 1e-3] -> [true, 3e-4] (seed1, seed2)",
        ]
    tree = json.loads(plan_here("--diff", str(old), "--json")[1])
    assert (tree["old"], tree["counts"]["changed"]) == (plan_id, 2)


@pytest.mark.usefixtures("planned_here")
def test_where_there_is_no_other_plan_it_says_what_there_is_and_else_what_changed(
    plan_here: Say, tmp_path: Path
) -> None:
    WholeSession(tmp_path / "state" / "k7f2", 1.0)
    for other, hint in (("exp", "plans and sessions: k7f2"), ("k7f3", "`k7f2`?")):
        code, _, err = plan_here("--diff", other)
        assert (code, hint in err) == (2, True), err
        assert f"--diff {other}: no other manifest, plan, session or config" in err
    write(tmp_path, "[1e-3, 3e-4]", EXP.replace("seed{seed}", "seed{seed}_{lr}"))
    out = plan_here()[1]
    assert "2 jobs added, 2 renamed\n" in out
    assert "  + 2 jobs (lr 3e-4): seed1_3e-4, seed2_3e-4\n" in out
    assert "  > 2 jobs renamed: seed1 -> seed1_1e-3, seed2 -> seed2_1e-3\n" in out


def kept(root: Path, plan_id: str, at: float, lr: float = 1.0, **fields: Any) -> Plan:
    """A plan of one job, kept as planning keeps it."""
    given = {"config_ref": "exp", "config_dir": "/config", **fields}
    spec = job("a", parameters={"optim.lr": lr}, fingerprint=f"{lr}")
    one = plan(spec, plan_id=plan_id, state_dir=str(root), created_at=at, **given)
    record = RecordBuilder()
    record.add(0, {"optim": {"lr": lr, "min": lr / 2}}, {})
    save_record(root, plan_id, record.record(one.jobs, GitState()))
    write_manifest(root, one)
    return one


def test_the_newest_plan_before_that_can_be_read_is_told_against(
    tmp_path: Path,
) -> None:
    def compare_to_last(one: Plan) -> PlanChanges | None:
        found = plan_changes.compare_to_last(one)
        return PlanChanges(**found) if found else None

    kept(tmp_path, "other", 1.0, config_ref="another")
    assert compare_to_last(kept(tmp_path, "p1", 1.0, lr=9.0)) is None
    kept(tmp_path, "p2", 2.0)
    (tmp_path / "manifests" / "plan_p3.json").write_text("{")
    found = compare_to_last(kept(tmp_path, "p4", 3.0, lr=2.0))
    assert found is not None
    assert (found.created_at, found.head) == (2.0, "1 job changed")
    assert found.lines == (("~", "a: optim.lr 1 -> 2; optim.min 0.5 -> 1"),)
    added = kept(tmp_path, "p5", 4.0, lr=2.0, overrides=("ui.first_run=x",))
    found = compare_to_last(added)
    assert found is not None
    assert found.lines == (("*", "command line added: ui.first_run=x"),)
    spec = ExecutorSpec(class_name="SlurmClient")
    other = {"base_output_dir": "/b", "executor": spec}
    found = compare_to_last(kept(tmp_path, "p6", 5.0, lr=3.0, **other))
    assert found is not None
    told = list(format_since(found))
    assert len(told) == 4, told
    assert told[-1] == "  and 2 more: `autoexp-plan --diff` tells them"
    # a plan is found by the beginning of its id, where one alone begins so
    assert find_manifest(tmp_path, "oth") == tmp_path / "manifests/plan_other.json"
    assert find_manifest(tmp_path, "p") is find_manifest(tmp_path, "") is None
