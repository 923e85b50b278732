"""Jobs that share one composition: equal to Hydra's, always, and mostly without it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from hydra.core.config_store import ConfigStore

from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.job_template import JobKeys, Template, split_overrides
from autoexp_tui.planning.ports import CannotCompose
from tests.config import compose_sets
from tests.planning.large_tree import write_tree

MOUNTS = {"index": 0, "stage": "s"}


def split(*texts: str) -> JobKeys:
    return split_overrides(texts, {}, lambda _: False)


@pytest.mark.parametrize("text", [
    "a.b=[{c:1}]", "a.b=[1,]", "a.b=[1][2]", "a.b=['${.c}']", "a.b={c:1}",
    "a.b='${.c}'", "a.b='???'", "~a.b", "a.b=1,2", "a.b=nan", "a@b=1", "a.0=1",
])  # fmt: skip
def test_what_does_more_than_set_a_value_is_shared(text: str) -> None:
    assert list(split(text).texts) == [text]


@pytest.mark.parametrize("other", ["a.b=2", "a.b.c=2", "a={b:2}", "~a.b"])
def test_keys_that_meet_are_left_in_their_order(other: str) -> None:
    found = split("a.b=1", other, "d=1")
    values = {one.path: one.value for one in found.settings}
    assert (found.texts, values) == (("a.b=1", other), {("d",): 1})


@pytest.mark.parametrize(("text", "is_taken"), [
    *(("lr=2", True), ("++lr=2", True), ("+lr=2", False), ("new=1", False)),
    *(("+new.er=1", True), ("lr.x=1", False), ("inner=1", False)),
    *(("inner=null", False), ("items=[2]", True), ("items=2", False)),
    *(("read=1", True), ("read.x=1", False), ("++sweep.x=1", False)),
    *(("++hydra.x=1", False), ("slurm.max_parallel=1", True)),
])  # fmt: skip
def test_a_value_is_put_in_where_hydra_would_do_no_more(
    text: str, *, is_taken: bool
) -> None:
    tree = {"lr": 1, "inner": {"a": 1}, "items": [1], "read": "${inner}"}
    takes = Template(tree).takes(split(text).settings, {"slurm.max_parallel"})
    assert takes is is_taken


def test_sets_of_many_kinds_are_what_hydra_composes(tmp_path: Path) -> None:
    roads, differences = compose_sets.run(11, 40, tmp_path)
    assert differences == []
    assert roads["fast"] > 10


def test_jobs_of_one_structure_are_composed_once_unless_switched_off(
    tmp_path: Path,
) -> None:
    made = HydraComposer("exp", write_tree(tmp_path), cwd="/cwd")
    for rate in range(1, 9):
        config = made.compose([f"optim.lr={rate}", "model=large"], MOUNTS).to_dict()
        assert config["path"] == f"/cwd/out/large/lr{rate}"
    base, first, sample = 1, 1, 1
    assert made.composed == base + first + sample
    for _ in range(2):
        view = made.compose(["seed=4"], MOUNTS)
        view.put("size", "large")  # seen by all that reads it
        assert view.select("run_of") == "/cwd/out/large/lr0.001-4"
        assert view.to_dict()["scale"] == 4

    switched = {"AUTOEXP_COMPOSE": "hydra"}
    made = HydraComposer("exp", tmp_path, environ=switched, cwd="/cwd")
    for seed in range(3):
        made.compose([f"seed={seed}"], MOUNTS)
    assert made.composed == 3


@pytest.mark.parametrize("further", [
    ("optim.lr=7", "++new=[1]"), ("seed=2", "sweep.params.seed=[5]"),
    ("model=large",), ("optim.lr=1", "optim.lr=2"), ("sweep=null",), ("seed=${size}",),
])  # fmt: skip
def test_with_further_overrides_it_is_what_hydra_composes_of_all(
    further: tuple[str, ...], tmp_path: Path
) -> None:
    root = write_tree(tmp_path)
    with (root / "exp.yaml").open("a") as file:
        file.write("sweep: {params: {seed: [1, 2]}}\n")
    whole = HydraComposer("exp", root, ("seed=3", *further), cwd="/cwd")
    told = [one.to_dict() for one in (whole.base(), whole.compose(["seed=9"], MOUNTS))]
    first = HydraComposer("exp", root, ("seed=3",), cwd="/cwd")
    extended = first.extend(further)
    assert (extended is None) is (
        further[0] in ("model=large", "optim.lr=1", "sweep=null")
    )
    if extended is not None:
        views = (extended.base(), extended.compose(["seed=9"], MOUNTS))
        assert [view.to_dict() for view in views] == told
        assert extended.sweep() == whole.sweep()
        assert extended.extend(()) is None
        assert first.base().to_dict() != told[0]


SWEPT = "size: 1\nsweep: {params: {size: [1, 2, 3]}}\nlast: 1\n"


@pytest.mark.parametrize(("command_line", "job"), [
    ("++a=1", "size=2"), ("~sweep", "++b=1"), ("sweep={params:{size:[4]}}", "++b=1"),
    ("++a=1", "sweep.params.size=[4]"), ("++a=1", "~sweep"),
])  # fmt: skip
def test_a_config_without_the_sweep_is_in_the_order_of_one_with_it(
    command_line: str, job: str, tmp_path: Path
) -> None:
    (tmp_path / "exp.yaml").write_text(SWEPT)
    made = HydraComposer("exp", tmp_path, [command_line])
    wanted = ["size", "last", *(["a"] if "a=" in command_line else [])]
    wanted += ["b"] if "b=" in job else []
    for _ in range(2):
        assert list(made.compose([job], {}).to_dict()) == wanted


@dataclass
class Optimizer:
    """What a user may have registered."""

    lr: float = 1.0
    steps: int = 3


def test_a_schema_of_one_s_own_converts_and_refuses_as_hydra_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ConfigStore.instance()
    monkeypatch.setattr(store, "repo", {**store.repo})
    store.store(group="solver", name="typed", node=Optimizer)
    (tmp_path / "solver").mkdir()
    (tmp_path / "solver/adam.yaml").write_text("defaults: [typed]\nlr: 1.5\n")
    (tmp_path / "exp.yaml").write_text("defaults: [_self_, {solver: adam}]\n")
    made = HydraComposer("exp", tmp_path)
    for text in ("solver.lr=1", "solver.lr=2", "solver.steps=2.5", "solver.steps=x"):
        assert compose_sets.compared(made, ((text,), {}))[1] == ""
    typed = made.compose(["solver.lr=2"], {}).to_dict()["solver"]
    assert typed == {"lr": 2.0, "steps": 3}


def test_what_lies_below_a_null_is_absent(tmp_path: Path) -> None:
    (tmp_path / "exp.yaml").write_text("opt: null\n")
    assert not HydraComposer("exp", tmp_path).base().has("opt.lr")


@pytest.mark.parametrize(
    ("wrong", "where"),
    [({"user": "wrong"}, "user"), ({"tokens": 1e9}, "tokens"), ({"new": 1}, "new")],
)
def test_a_job_that_is_not_what_hydra_composes_is_an_error(
    wrong: dict[str, object], where: str, tmp_path: Path
) -> None:
    made = HydraComposer("exp", write_tree(tmp_path), cwd="/cwd")
    made.compose(["seed=1"], MOUNTS)
    template = next(iter(made._templates.values()))
    assert template is not None
    template.resolved = {**template.resolved, **wrong}
    made._shared = count(1001)
    with pytest.raises(CannotCompose, match="not what Hydra composes") as raised:
        made.compose(["seed=1"], MOUNTS)
    assert raised.value.problems[0].where == where
