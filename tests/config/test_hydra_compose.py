from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import Mock

import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from autoexp_tui.config import yaml_files
from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.overrides import format_override
from autoexp_tui.planning.ports import CannotCompose
from tests.config.config_trees import BASE, LARGE, SMALL, write_tree
from tests.support.refusals import read_refusals

QUOTES = """${oc.eval:'${backend.lr} == "it\\'s"'} ${oc.eval:"'a'"}"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path, exp=BASE, backend__small=SMALL, backend__large=LARGE)


def composer(root: Path, *overrides: str, ref: str = "exp") -> HydraComposer:
    return HydraComposer(ref, root, overrides, environ={})


def problems(
    root: Path, *overrides: str, command_line: Sequence[str] = (), ref: str = "exp"
) -> tuple[Problem, ...]:
    with pytest.raises(CannotCompose) as caught:
        composer(root, *command_line, ref=ref).compose(
            overrides, {"stage": "s"}
        ).to_dict()
    return caught.value.problems


@pytest.mark.parametrize(("command_line", "overrides", "path", "value"), [
    ((), ["backend.lr=4"], "backend.iters", 14),
    ((), ["backend.iters=${oc.eval:int(${backend.lr} * 2.5)}"], "backend.iters", 2),
    ((), [r"++told=${oc.eval:\(${backend.lr}\ +\ 4\)*2}"], "told", 10),
    ((), [format_override("++told", QUOTES)], "told", "False a"),
    ((), [], "project.name", "run_s"),
    ((), [], "aux", {"tokens": 100, "more": 101, "lr": 9}),
    ((), ["backend.lr=${.tokens}"], "backend.lr", 100),
    ((), ["backend.lr=${.aux.tokens}"], "backend.lr", 100),
    ((), ["++backend.twice=${.lr}"], "backend.twice", 1),
    (["+same=${backend}"], [], "same.lr", 1),
    (["+broken=${nowhere}"], [], "doubled", 2),
    (["+optim=adam"], ["optim=sgd"], "optim.name", "sgd"),
    (["+day=${now:%Y-%m-%d}"], [], "day", "2001-09-09"),
    *(([f"{mark}{key}=2"], [], key, 2) for mark in ("", "+", "++") for key in (
        "slurm.max_parallel", "slurm.client.slots")),
])  # fmt: skip
def test_a_job_has_the_value(
    command_line: Sequence[str],
    overrides: Sequence[str],
    path: str,
    value: object,
    tree: Path,
) -> None:
    write_tree(tree, optim__adam="name: adam", optim__sgd="name: sgd")
    made = HydraComposer("exp", tree, command_line, now=1e9)
    aux = {"more": "${oc.eval:${.tokens} + 1}", "lr": 9}
    view = made.compose(overrides, {"stage": "s", "index": 3, "aux": aux})
    assert view.select(path) == value
    assert view.has(path)
    assert view.select("index") == 3


@pytest.mark.parametrize("on_command_line", [True, False])
def test_places_to_search_are_read_by_our_source(
    tree: Path, tmp_path: Path, *, on_command_line: bool
) -> None:
    write_tree(tmp_path / "more", optim__adam="beta: ${oc.eval:1 - 0.1}")
    given = [f"hydra.searchpath=[{tmp_path}/more]"] if on_command_line else []
    if not given:
        searched = f"hydra: {{searchpath: [file://{tmp_path}/more]}}\n{BASE}"
        (tree / "exp.yaml").write_text(searched)
    assert composer(tree, *given, "+optim=adam").base().select("optim.beta") == 0.9


@pytest.mark.parametrize("overrides", [
    [], ["backend=large"], ["backend.lr=7", "++backend.new={a: [1, {b: '${..lr}'}]}"],
    ["~backend.name", "+extra=[1,2]", "project.name='x y'"],
    ["+backend@other=large", "backend.lr=${other.lr}"],
])  # fmt: skip
def test_a_job_is_what_hydra_compose_makes_of_its_overrides(
    tmp_path: Path, overrides: list[str]
) -> None:
    plain = SMALL.replace("${oc.eval:(${.lr} + 3) * 2}", "${oc.eval:'_0',${.lr}}")
    base = BASE.replace("${oc.eval:${backend.lr} * 2}", "${backend.lr}")
    write_tree(tmp_path, exp=base, backend__small=plain, backend__large=LARGE)
    ours = composer(tmp_path).compose(overrides, {}).written_dict()
    GlobalHydra.instance().clear()
    with hydra.initialize_config_dir(str(tmp_path), version_base="1.3"):
        theirs = hydra.compose("exp", overrides)
    expected = OmegaConf.to_container(theirs, resolve=False)
    assert isinstance(expected, dict)
    del expected["sweep"]
    assert ours == expected


def test_a_config_file_is_read_once_for_any_number_of_jobs(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    composer(write_tree(tree / "other", exp="a: 1")).base()  # Hydra's own files
    read = Mock(wraps=yaml_files.read_text)
    monkeypatch.setattr(yaml_files, "read_text", read)
    made = composer(tree)
    for rate in range(5):
        made.compose([f"backend.lr={rate}"], {})
    assert read.call_count == 2
    assert made.composed == 1  # the base, which all jobs share


def test_the_environment_is_read_once_and_recorded(tree: Path) -> None:
    environ = {"WHO": "a", "SECRET": "s"}
    write_tree(tree, env="who: ${oc.env:WHO}\nother: ${oc.env:NOT_SET,fallback}")
    made = HydraComposer("env", tree, environ=environ)
    environ["WHO"] = "b"
    config = made.base().to_dict()
    digests = made.environment.digests()
    assert config == {"who": "a", "other": "fallback"}
    assert list(digests) == ["NOT_SET", "WHO"]
    assert digests["NOT_SET"] == ""
    assert digests["WHO"] not in ("", "a")


def test_a_view_tells_absent_null_and_unresolvable_apart_and_lists_leaves_in_order(
    tree: Path,
) -> None:
    view = composer(tree, "+gone=${nowhere}", "+nothing=null", "+xs=[1,2]").base()
    assert view.select("nothing") is None
    assert view.has("gone")
    assert view.raw("gone") == "${nowhere}"
    assert not view.has("never")
    with pytest.raises(KeyError):
        view.select("never")
    with pytest.raises(KeyError):
        view.raw("backend.lr.deeper")
    with pytest.raises(CannotCompose):
        view.select("gone")
    assert list(view.leaf_paths()) == [
        "backend.class_name", "backend.lr", "backend.iters", "backend.name",
        "project.name", "project.base_output_dir", "aux.tokens", "doubled", "gone",
        "nothing", "xs",
    ]  # fmt: skip


def test_a_group_has_options(tree: Path) -> None:
    made = composer(write_tree(tree, optim__adam="lr: 1", optim__sgd="lr: 2"))
    assert made.is_group("optim")
    assert not any(map(made.is_group, ("backend.lr", "")))


def test_the_sweep_is_as_written_and_no_part_of_a_job(tree: Path) -> None:
    made = composer(tree)
    params = {"backend.lr": [1, 2], "optim.lr": [3]}
    assert made.sweep() == {"type": "product", "groups": [{"params": params}]}
    assert not made.base().has("sweep")
    assert not made.compose([], {}).has("sweep")
    assert composer(tree, "~sweep").sweep() is None
    expression = "${oc.eval:int(${backend.lr} * 2)}"
    (tree / "exp.yaml").write_text(f"sweep: {{configs: [{{k: '{expression}'}}]}}")
    assert composer(tree).sweep() == {"configs": [{"k": expression}]}


@pytest.mark.parametrize(("override", "params"), [
    ("sweep.groups.0.params.optim.lr=[1e-4,2e-4]",
     {"backend.lr": [1, 2], "optim.lr": [1e-4, 2e-4]}),
    ("+sweep.groups.0.params.a.b=[1]",
     {"backend.lr": [1, 2], "optim.lr": [3], "a.b": [1]}),
    ("~sweep.groups.0.params.optim.lr", {"backend.lr": [1, 2]}),
    ("sweep.groups.0.params={x: [7]}", {"x": [7]}),
])  # fmt: skip
def test_an_override_reaches_into_the_sweep_by_literal_keys(
    tree: Path, override: str, params: Mapping[str, object]
) -> None:
    sweep = composer(tree, override).sweep()
    assert sweep is not None
    assert sweep["groups"] == [{"params": params}]


@pytest.mark.parametrize(
    ("override", "where", "message", "hint"),
    read_refusals(__file__, "a_bad_override_says_where_what_and_the_next_step"),
)
def test_a_bad_override_says_where_what_and_the_next_step(
    tree: Path, override: str, where: str, message: str, hint: str
) -> None:
    assert problems(tree, override)[0] == Problem(message, where=where, hint=hint)
    if not override.startswith(("+", "~")):
        assert problems(tree, command_line=[override]) == problems(tree, override)


@pytest.mark.parametrize(
    ("command_line", "where", "message", "hint"),
    read_refusals(__file__, "what_the_command_line_has_wrong_is_told"),
)
def test_what_the_command_line_has_wrong_is_told(
    command_line: str, where: str, message: str, hint: str, tree: Path
) -> None:
    found = problems(tree, command_line=[command_line])[0]
    assert found.where == where
    assert message in found.message
    assert found.hint.startswith(hint)


@pytest.mark.parametrize(("ref", "message", "hint"), [
    ("exq", "there is no config `exq`", "did you mean `exp`?"),
    *((f"{place}/exp.yaml",
       f"`{place}/exp` is a path; --config-ref takes a config's name",
       f"--config-dir {place} --config-ref exp") for place in (
           "/etc/autoexp", "..", "sub/../..")),
])  # fmt: skip
def test_a_primary_config_that_is_not_there_gets_the_way(
    ref: str, message: str, hint: str, tree: Path
) -> None:
    found = problems(tree, ref=ref)[0]
    assert found.message == message
    assert hint in found.hint


@pytest.mark.parametrize(
    ("written", "where", "message", "hint"),
    read_refusals(__file__, "what_a_config_has_wrong_is_told_at_its_cause"),
)
def test_what_a_config_has_wrong_is_told_at_its_cause(
    written: str, where: str, message: str, hint: str, tree: Path
) -> None:
    (tree / "exp.yaml").write_text(written)
    (found,) = problems(tree)
    place = where or str(tree / "exp.yaml")
    assert (found.where, found.message) == (place, message)
    assert found.hint.startswith(hint)


def test_all_values_and_places_that_are_wrong_are_told_at_once(tree: Path) -> None:
    found = problems(tree, "backend.name=${a1}", "project.base_output_dir=${a2}")
    assert [one.where for one in found] == ["backend.name", "project.base_output_dir"]
    found = problems(tree, command_line=["hydra.searchpath=[nowhere,neither]"])
    assert len(found) == 2
    (one,) = problems(tree, f"+zz={'[' * 2000}{']' * 2000}")
    assert one.where == "override +zz"
