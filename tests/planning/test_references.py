"""What references stand for, and how they get into the values of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from omegaconf import OmegaConf

from autoexp_tui.planning.references import Identity, NotAReference, Values, World
from autoexp_tui.planning.substitution import Substitution
from autoexp_tui.sweep.expand import expand
from autoexp_tui.sweep.families import Families
from tests.sweep.fakes import FakeView, use_resolvers

LOAD = ["{sibling.stable.output_dir}/{sibling.none.x}", "{oops"]
SWEEP = {
    "groups": [
        {"params": {"lr": [1e-4, 5e-4]}},
        {"configs": [{"stage": "stable"}, {"stage": "cooldown", "load": LOAD}]},
    ]
}
CONFIGS: list[Mapping[str, Any]] = [
    {"backend": {"lr": lr, "iters": 100, "text": "it's ${lr}", "tags": ["a", "b"]}}
    for lr in (1e-4, 1e-4, 5e-4, 5e-4)
]


@dataclass
class FakeWorld(World):
    """Four jobs, all composed."""

    views: list[FakeView] = field(default_factory=list)

    def view(self, at: int) -> FakeView:
        return self.views[at]


def build_world(families: Families, views: list[FakeView]) -> FakeWorld:
    def find_job(at: int) -> tuple[Identity, Callable[[], FakeView]]:
        name = f"job{at}.1"
        identity = Identity(
            name=name, output_dir=f"/out/{name}", log_dir=f"/logs/{name}",
            script_path=f"/scripts/{name}.sbatch", stage=families.points[at].stage,
            index=at, family=families.family(at),
        )  # fmt: skip
        return identity, lambda: views[at]

    keys = {"checkpoint_iteration"}
    return FakeWorld(families, keys, find_job, [], views=views)


@pytest.fixture
def world() -> FakeWorld:
    use_resolvers()
    made = expand(SWEEP)
    views = [
        FakeView(OmegaConf.create({**config, "lr": 7, "aux": {"n": 0.5}}))
        for config in CONFIGS
    ]
    for view in views:
        view.put("backend.text", "it's \\${lr}")
    return build_world(Families(made.points, made.removed), views)


class Mounts:
    """Keeps what would be mounted."""

    def __init__(self) -> None:
        self.held: list[object] = []

    def __call__(self, _: str, value: object) -> str:
        self.held.append(value)
        return f"${{_refs.r{len(self.held) - 1}}}"


def before(world: FakeWorld, value: object, at: int = 1) -> Any:
    return Substitution(Values(world, at), Mounts()).value(value)


def after(world: FakeWorld, value: object, at: int = 1) -> Any:
    view = world.view(at)

    def mount(_: str, held: object) -> str:
        view.put("_refs.r0", held)
        return "${_refs.r0}"

    values = Values(world, at, (world.find_job(at)[0], view))
    return Substitution(values, mount, view=view).value(value)


@pytest.mark.parametrize(("reference", "value"), [
    ("sibling.stable.name", "job0.1"), ("sibling.stable.project.name", "job0.1"),
    ("sibling.stable.output_dir", "/out/job0.1"), ("sibling.stable.stage", "stable"),
    ("sibling.stable.log_dir", "/logs/job0.1"), ("sibling.stable._stage", "stable"),
    ("sibling.stable.log_path", "/logs/job0.1/slurm-%j.out"), ("base.name", "job0.1"),
    ("sibling.stable.log_path_current", "/logs/job0.1/current.log"), ("index", 1),
    ("sibling.stable.script_path", "/scripts/job0.1.sbatch"), ("stage", "cooldown"),
    ("sibling.stable.index", 0), ("sibling.stable.family", "f0"), ("family", "f0"),
    ("sibling[stage=stable].index", 0), ("sibling._stage=stable.index", 0),
    ("sibling[lr=5e-4].index", 3), ("sibling.lr=5e-4.index", 3),
    ("sibling.index=2.name", "job2.1"), ("sibling.stable.backend.lr", 1e-4),
    ("sibling.stable.backend.iters", 100), ("sibling.stable.iters", 100),
    ("sibling.stable.backend.tags", ["a", "b"]), ("sibling.stable.aux.n", 0.5),
    ("all.stable.name", ["job0.1", "job2.1"]), ("all.stable.backend.lr", [1e-4, 5e-4]),
    ("all[lr=1e-4].name", ["job0.1", "job1.1"]),
])  # fmt: skip
def test_a_reference_keeps_its_type(world: Any, reference: str, value: Any) -> None:
    found = before(world, [f"{{{reference}}}", "{sibling.stable.name}"])
    wanted = value if isinstance(value, list) and "all" in reference else [value]
    assert found[:-1] == wanted


@pytest.mark.parametrize(("value", "replaced"), [
    ("lr{sibling.stable.backend.lr}_{sibling.stable.iters}", "lr1e-4_100"),
    ({"a": ["{sibling.stable.index}", 1], "b": {"c": "{{x}}"}},
     {"a": [0, 1], "b": {"c": "{x}"}}), ("{sibling.stable.text}", r"it's \${lr}"),
    ("x {sibling.stable.text}", r"x it's \${lr}"), ("${base.backend.iters}", 100),
    ("{all.stable.output_dir}/x_{all.stable.index}",
     ["/out/job0.1/x_0", "/out/job2.1/x_2"]),
    (["cat", "{all.stable.name}", "a{all.stable.index}"],
     ["cat", "job0.1", "job2.1", "a0", "a2"]),
    ("{sibling.stable.metadata.x}", "{runtime.job0.1.x}"),
    ("{sibling.stable.metadata.x}!", "{runtime.job0.1.x}!"),
])  # fmt: skip
def test_values_of_others_are_literals(world: Any, value: Any, replaced: Any) -> None:
    assert before(world, value) == replaced
    without_braces = {"a": [1, "x"], "b": None}
    assert before(world, without_braces) is without_braces


@pytest.mark.parametrize(("text", "said"), [
    ("{sibling.{aux.n}.name}", "only values that are written"),
    ("${oc.eval:{output_dir}}", "is not known yet"),
    ("${oc.eval:{sibling.stable.metadata.x} + 1}", "set it as a parameter of its own"),
])  # fmt: skip
def test_what_is_known_too_late_is_refused(world: Any, text: str, said: str) -> None:
    with pytest.raises(NotAReference, match=said):
        before(world, text)


def test_a_substituted_value_hides_and_makes_no_interpolation(world: FakeWorld) -> None:
    world.view(0).put("backend.text", "C:\\")
    found = before(world, "{sibling.stable.text}${lr}")
    assert OmegaConf.create({"lr": 1, "x": found}).x == "C:\\1"
    world.view(0).put("backend.more", "{lr}")
    assert before(world, "a$ {sibling.stable.more}") == "a$ {lr}"


def test_only_the_selected_path_of_a_sibling_is_resolved(world: FakeWorld) -> None:
    world.view(0).put("broken", "${nowhere}")
    before(world, "{sibling.stable.backend.lr}")
    assert world.view(0).selected == ["backend.lr"]


def test_inside_an_interpolation_a_value_is_mounted_with_its_type(world: Any) -> None:
    mounts = Mounts()
    text = "${oc.eval:int({sibling.stable.backend.lr}*{aux.n})}"
    found = Substitution(Values(world, 1), mounts).value(text)
    assert found == "${oc.eval:int(${_refs.r0}*${aux.n})}"
    assert mounts.held == [1e-4]


def finished(world: FakeWorld, value: object) -> Any:
    """The value as parameters have it once their own job is composed."""
    values = Values(world, 1)
    parameters = Substitution(values, Mounts())
    parameters.value(value)
    values.own = world.find_job(1)[0], world.view(1)
    return parameters.value(value)


def test_what_reads_the_job_itself_is_an_interpolation_at_first(world: Any) -> None:
    text = "{output_dir}/{sibling.stable.index}/{backend.lr}"
    assert before(world, text) == "${output_dir}/0/${backend.lr}"
    assert finished(world, text) == "/out/job1.1/0/1e-4"
    found = finished(world, {"a": ["it_{aux.n}_${x}", "{aux.n}"]})
    assert found == {"a": ["it_0.5_${x}", 0.5]}
    found = finished(world, ["{backend.text}", "x{backend.text}"])
    assert found == [r"it's \${lr}", r"xit's \${lr}"]


def test_what_a_value_of_the_job_is_made_of_is_finished_first(world: FakeWorld) -> None:
    asked: list[str] = []
    own = world.find_job(1)[0], world.view(1)
    values = Values(world, 1, own, prepare=asked.append)
    assert Substitution(values, Mounts()).value("{iters}_{name}") == "100_job1.1"
    assert asked == ["iters", "name"]
    with pytest.raises(NotAReference, match="parameters cannot"):
        Substitution(values, Mounts()).value("{checkpoint_iteration}")


@pytest.mark.parametrize(("value", "resolved"), [
    ("{output_dir}/x", "/out/job1.1/x"), ("{backend.lr}", 1e-4), ("{iters}", 100),
    ("{checkpoint_iteration}", "{runtime.job1.1.checkpoint_iteration}"),
    ("a {base.checkpoint_iteration}", "a {runtime.job0.1.checkpoint_iteration}"),
    ("{runtime.{sibling.stable.name}.checkpoint_iteration}",
     "{runtime.job0.1.checkpoint_iteration}"), ("lr{backend.lr}", "lr1e-4"),
    ("${backend.iters}", 100), ("{sibling.stable.name}_${lr}", "job0.1_7"),
    ("${oc.eval:'_0*2',{sibling.stable.iters}}", 200), (r"\${lr}", "${lr}"),
    ("{sibling.stable.text}", "it's ${lr}"), ("{{a}}", "{a}"),
    ("{sibling.stable.text}${lr}", "it's ${lr}7"),
    (["{all.stable.name}"], ["job0.1", "job2.1"]),
    ("{all.stable.name}", ["job0.1", "job2.1"]),
    ("{all.stable.name}_${lr}", ["job0.1_7", "job2.1_7"]),
])  # fmt: skip
def test_conditions_are_resolved_as_a_whole(
    world: Any, value: Any, resolved: Any
) -> None:
    assert after(world, value) == resolved


def test_stages_of_different_size_do_not_fit_in_one_text(world: FakeWorld) -> None:
    points = expand({"configs": [{"stage": s} for s in ("a", "a", "b")]}).points
    world.families = Families(points)
    with pytest.raises(NotAReference, match="different size"):
        before(world, "{all.a.name}{all.b.name}", at=2)
    points = expand({"configs": [{"stage": "a"}, {"stage": "b", "from": "a"}]}).points
    world.families = Families(points)
    assert before(world, "{sibling.{from}.name}") == "job0.1"
