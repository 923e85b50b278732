"""Texts with references: read into pieces, and what stands for each in a job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from autoexp_tui.config.config_view import ConfigTree
from autoexp_tui.config.resolvers import Environment, register_resolvers
from autoexp_tui.planning.references import (
    Identity,
    Interpolation,
    NotAReference,
    Reference,
    Substitution,
    World,
    list_references,
    parse_address,
    parse_template,
    split_pattern,
)
from autoexp_tui.sweep.expand import expand
from autoexp_tui.sweep.families import Families


def ref(inside: str) -> Reference:
    return Reference((inside,), f"{{{inside}}}")


NESTED = "{runtime.{sibling.a.name}.key}"


@pytest.mark.parametrize(("text", "parts"), [
    (NESTED, (Reference(("runtime.", ref("sibling.a.name"), ".key"), NESTED),)),
    ("plain", ("plain",)), ("", ()), ("{stage}", (ref("stage"),)), ("a}b", ("a}b",)),
    ("lr{lr}_{stage}", ("lr", ref("lr"), "_", ref("stage"))), ("a{{b}}c", ("a{b}c",)),
    ("{{{a}}}", ("{", ref("a"), "}")), ("${a}", (Interpolation(("${a}",)),)),
    ("{sibling[a=1, b=2].x}", (ref("sibling[a=1, b=2].x"),)), (r"\${a}", (r"\${a}",)),
    ("${a.${b}}x", (Interpolation(("${a.${b}}",)), "x")), ("${a", ("${a",)),
    ("${f:{a:1}}", (Interpolation(("${f:{a:1}}",)),)),
    ("${f:{a:{b:1}}}", (Interpolation(("${f:{a:{b:1}}}",)),)),
    ("${base.lr}", (Reference(("base.lr",), "${base.lr}"),)),
    ("${base.lr}x", (Reference(("base.lr",), "${base.lr}"), "x")),
])  # fmt: skip
def test_a_text_is_read_into_pieces(text: str, parts: tuple[object, ...]) -> None:
    assert parse_template(text) == parts


@pytest.mark.parametrize(("text", "inside"), [
    ("${oc.eval:int({sibling.stable.iters}*0.8)}", "sibling.stable.iters"),
    ("${oc.eval:{aux.x}+1}", "aux.x"), ("${oc.eval:{stage}}", "stage"),
    ("${oc.eval:'{all.x.y}'}", "all.x.y"),
    ("${oc.eval:int(${base.train_iters}*0.8)}", "base.train_iters"),
])  # fmt: skip
def test_references_are_found_inside_interpolations(text: str, inside: str) -> None:
    assert [found.parts for found in list_references(text)] == [(inside,)]
    assert isinstance(parse_template(text)[0], Interpolation)
    own = parse_template("${base.lr}", base_is_a_key=True)
    assert own == (Interpolation(("${base.lr}",)),)


IS_NONE = r"is no reference; write \{\{ and \}\}"


@pytest.mark.parametrize(("text", "said"), [
    ("{}", IS_NONE), ("{ }", IS_NONE), ("{1}", IS_NONE), ('{"a": 1}', IS_NONE),
    ("{print $1}", IS_NONE), ("{a'}", IS_NONE),
    ("{a", "does not close"), ("x{sibling.{b}", "does not close"),
    ("{sibling.${stage}.name}", r"write \{aux\.x\}"),
    ("{{sibling.stable.name}}", r"write \{sibling\.\.\.\}$"),
    ("a/{{ base.name }}", r"write \{base\.\.\.\}$"),
    (r"\${sibling.stable.name}", r"write \{sibling\.\.\.\}$"),
    (r"x \${aux.tokens}", r"write \{aux\.\.\.\}$"),
])  # fmt: skip
def test_other_braces_are_refused_with_the_way_to_write_them(
    text: str, said: str
) -> None:
    with pytest.raises(NotAReference, match=said):
        parse_template(text)
    for literal in ("{{x}}", "{{{sibling.a.name}}}", r"\${own}", "{{siblings.x}}"):
        parse_template(literal)


@pytest.mark.parametrize("text", ["{" * 3000, "{a" * 3000, "${{a}" * 500])
def test_hostile_braces_are_refused_fast(text: str) -> None:
    began = time.thread_time()
    try:
        parse_template(text)
    except NotAReference as error:
        text = str(error)
    assert time.thread_time() - began < 0.5
    assert text


@given(st.text(alphabet="{}$\\ab.", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        template = parse_template(text)
    except NotAReference:
        return
    assert template or not text


@given(st.text(alphabet="ab{}\\", max_size=20))
def test_doubled_braces_are_literal(text: str) -> None:
    quoted = text.replace("{", "{{").replace("}", "}}")
    assert "".join(map(str, parse_template(quoted))) == text


class Stages(frozenset[str]):
    """Stages through which nobody goes: there may be thousands."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError


@pytest.mark.parametrize(("inside", "kind", "rest"), [
    ("sibling.stable.name", "sibling", "stable.name"), ("base.name", "base", "name"),
    ("sibling[lr=1].name", "sibling", "[lr=1].name"), ("parent.name", "base", "name"),
    ("all.stable.name", "all", "stable.name"), ("aux.x", "own", "aux.x"),
    ("runtime.job.key", "runtime", "job.key"), ("basement.x", "own", "basement.x"),
    ("stage", "own", "stage"),
])  # fmt: skip
def test_the_head_says_whose_value_is_wanted(inside: str, kind: str, rest: str) -> None:
    assert parse_address(inside) == (kind, rest)


@pytest.mark.parametrize(("rest", "pattern", "accessor"), [
    ("stable.output_dir", "stable", "output_dir"),
    ("stable.backend.lr", "stable", "backend.lr"), ("v1.5.name", "v1.5", "name"),
    ("[lr=1].name", "[lr=1]", "name"), ("[a=1,b=2].x.y", "[a=1,b=2]", "x.y"),
    ("lr=2.5e-4.backend.lr", "lr=2.5e-4", "backend.lr"), ("lr=9.5.x", "lr=9", "5.x"),
    ("index=0.name", "index=0", "name"), ("stabble.name", "stabble", "name"),
])  # fmt: skip
def test_pattern_and_accessor_are_told(rest: str, pattern: str, accessor: str) -> None:
    known = {"lr=2.5e-4", "index=0"}
    found = split_pattern(rest, Stages(["stable", "v1", "v1.5"]), known.__contains__)
    assert found == (pattern, accessor)


@pytest.mark.parametrize("rest", ["stable", "", "[a=1]", ".name", "lr=1"])
def test_a_reference_must_say_what_of_the_job(rest: str) -> None:
    with pytest.raises(NotAReference, match="does not say what of the job"):
        split_pattern(rest, ["stable"], lambda _: False)


LOAD = ["{sibling.stable.output_dir}/{sibling.none.x}", "{oops"]
SWEEP = {"groups": [
    {"params": {"lr": [1e-4, 5e-4]}},
    {"configs": [{"stage": "stable"}, {"stage": "cooldown", "load": LOAD}]},
]}  # fmt: skip


def build_world(sweep: Mapping[str, Any]) -> World:
    """Jobs that are all composed, of a stage each and alternately of two rates."""
    register_resolvers(Environment({}), 0.0)
    made = expand(sweep)
    families = Families(made.points, made.removed)
    views = [
        ConfigTree({"backend": {"lr": lr, "iters": 100, "text": r"it's \${lr}",
                                "tags": ["a", "b"]}, "lr": 7, "aux": {"n": 0.5}})
        for lr in (1e-4, 1e-4, 5e-4, 5e-4)
    ]  # fmt: skip

    def find_job(at: int) -> tuple[Identity, Callable[[], ConfigTree]]:
        name = f"job{at}.1"
        identity = Identity(
            name=name, output_dir=f"/out/{name}", log_dir=f"/logs/{name}",
            script_path=f"/scripts/{name}.sbatch", stage=families.points[at].stage,
            index=at, family=families.family(at),
        )  # fmt: skip
        return identity, lambda: views[at]

    return World(families, {"checkpoint_iteration"}, find_job, [])


@pytest.fixture
def world() -> World:
    return build_world(SWEEP)


def own_of(world: World, at: int = 1) -> tuple[Identity, ConfigTree]:
    identity, view = world.find_job(at)
    return identity, view()  # type: ignore[return-value]


class Mounts(list[object]):
    """Keeps what would be mounted."""

    def __call__(self, _: str, value: object) -> str:
        self.append(value)
        return f"${{_refs.r{len(self) - 1}}}"


def before(world: World, value: object, at: int = 1) -> Any:
    return Substitution(world, at, Mounts()).value(value)


def after(world: World, value: object) -> Any:
    own = own_of(world)

    def mount(_: str, held: object) -> str:
        own[1].put("_refs.r0", held)
        return "${_refs.r0}"

    return Substitution(world, 1, mount, own, is_final=True).value(value)


def finished(world: World, value: object) -> Any:
    """The value as parameters have it once their own job is composed."""
    parameters = Substitution(world, 1, Mounts())
    parameters.value(value)
    parameters.own = own_of(world)
    return parameters.value(value)


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


def test_only_what_a_sibling_has_there_is_resolved_and_it_is_a_literal() -> None:
    world = build_world(SWEEP)
    _, first = own_of(world, 0)
    for path, value in (("text", "C:\\"), ("more", "{lr}"), ("broken", "${nowhere}")):
        first.put(f"backend.{path}", value)
    found = before(world, "{sibling.stable.text}${lr}")
    assert OmegaConf.create({"lr": 1, "x": found}).x == "C:\\1"
    assert before(world, "a$ {sibling.stable.more}") == "a$ {lr}"
    assert before(world, "{sibling.stable.backend.lr}") == 1e-4


def test_inside_an_interpolation_a_value_is_mounted_with_its_type(world: Any) -> None:
    mounts = Mounts()
    text = "${oc.eval:int({sibling.stable.backend.lr}*{aux.n})}"
    found = Substitution(world, 1, mounts).value(text)
    assert found == "${oc.eval:int(${_refs.r0}*${aux.n})}"
    assert mounts == [1e-4]


def test_what_reads_the_job_itself_is_an_interpolation_at_first(world: Any) -> None:
    text = "{output_dir}/{sibling.stable.index}/{backend.lr}"
    assert before(world, text) == "${output_dir}/0/${backend.lr}"
    assert finished(world, text) == "/out/job1.1/0/1e-4"
    found = finished(world, {"a": ["it_{aux.n}_${x}", "{aux.n}"]})
    assert found == {"a": ["it_0.5_${x}", 0.5]}
    found = finished(world, ["{backend.text}", "x{backend.text}"])
    assert found == [r"it's \${lr}", r"xit's \${lr}"]


def test_what_a_value_of_the_job_is_made_of_is_finished_first(world: World) -> None:
    asked: list[str] = []
    own = own_of(world)
    parameters = Substitution(world, 1, Mounts(), own, prepare=asked.append)
    assert parameters.value("{iters}_{name}") == "100_job1.1"
    assert asked == ["iters", "name"]
    with pytest.raises(NotAReference, match="parameters cannot"):
        parameters.value("{checkpoint_iteration}")


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


def test_stages_of_different_size_do_not_fit_in_one_text() -> None:
    uneven = build_world({"configs": [{"stage": one} for one in "aab"]})
    with pytest.raises(NotAReference, match="different size"):
        before(uneven, "{all.a.name}{all.b.name}", at=2)
    named = build_world({"configs": [{"stage": "a"}, {"stage": "b", "from": "a"}]})
    assert before(named, "{sibling.{from}.name}") == "job0.1"
