from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.hydra_source import AutoexpSource
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.overrides import format_override
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.probes.config_files import find_shipped
from tests.config.config_trees import BASE, LARGE, SMALL, write_tree
from tests.support.refusals import read_refusals

CHOICES = ", ".join(
    sorted(
        {
            "large",
            "small",
            *(one.stem for one in (find_shipped("config") / "backend").iterdir()),
        }
    )
)
"""Of the tree, and of what is shipped."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path, exp=BASE, backend__small=SMALL, backend__large=LARGE)


@pytest.fixture(autouse=True)
def own_hydra() -> Iterator[None]:
    yield
    GlobalHydra.instance().clear()


def composer(
    root: Path,
    *overrides: str,
    ref: str = "exp",
    environ: Mapping[str, str] | None = None,
) -> HydraComposer:
    return HydraComposer(ref, root, overrides, environ=environ or {})


def composed(root: Path, *overrides: str, **mounts: object) -> Mapping[str, object]:
    mounts.setdefault("stage", "s")
    return composer(root).compose(overrides, mounts).to_dict()


def problems(
    root: Path, *overrides: str, command_line: Sequence[str] = (), ref: str = "exp"
) -> tuple[Problem, ...]:
    with pytest.raises(CannotCompose) as caught:
        composer(root, *command_line, ref=ref).compose(
            overrides, {"stage": "s"}
        ).to_dict()
    return caught.value.problems


# ------------------------------------------------------------------------ composing
def test_expressions_outside_quotes_are_evaluated(tree: Path) -> None:
    assert composed(tree, "backend.lr=4")["backend"] == {
        "class_name": None,
        "lr": 4,
        "iters": 14,
        "name": "small",
    }


def test_brackets_that_are_escaped_inside_an_expression_group(tmp_path: Path) -> None:
    escaped = r"lr: 4\ndoubled: ${oc.eval:\(${lr}\ +\ 1\)*2}".replace(r"\n", "\n")
    assert composed(write_tree(tmp_path, exp=escaped))["doubled"] == 10


@pytest.mark.parametrize("prefix", ["", "+", "++"])
def test_a_key_of_ours_that_the_config_leaves_out_can_be_set(
    prefix: str, tree: Path
) -> None:
    made = composer(
        tree, f"{prefix}slurm.max_parallel=2", f"{prefix}slurm.client.slots=3"
    )
    assert made.base().select("slurm.max_parallel") == 2
    assert made.base().select("slurm.client.slots") == 3


def test_a_key_that_is_not_ours_is_still_not_made_up(tree: Path) -> None:
    (found,) = problems(tree, command_line=["slurm.max_paralel=2"])
    assert found.where == "override slurm.max_paralel"


def test_an_expression_in_an_override_is_evaluated(tree: Path) -> None:
    config = composed(tree, "backend.iters=${oc.eval:int(${backend.lr} * 2.5)}")

    assert config["backend"]["iters"] == 2  # type: ignore[index]


def test_a_value_can_never_rewrite_an_expression(tree: Path) -> None:
    name = "backend.name='1 + 1'"
    found = problems(tree, name, "backend.iters=${oc.eval:int(${backend.name})}")

    assert "invalid literal" in found[0].message


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["backend=large"],
        ["backend.lr=7", "++backend.new={a: [1, {b: '${..lr}'}]}"],
        ["~backend.name", "+extra=[1,2]", "project.name='x y'"],
        ["+backend@other=large", "backend.lr=${other.lr}"],
    ],
)
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
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = write_tree(tmp_path_factory.mktemp("other"), exp="a: 1")
    composed(elsewhere)  # Hydra's own files are read by the first of a process
    before = AutoexpSource.files.parsed
    made = composer(tree)
    for rate in range(5):
        made.compose([f"backend.lr={rate}"], {})

    assert AutoexpSource.files.parsed - before == 2
    assert made.composed == 1  # the base, which all jobs share


def test_search_path_entries_are_read_by_our_source(tree: Path, tmp_path: Path) -> None:
    write_tree(tmp_path / "more", optim__adam="beta: ${oc.eval:1 - 0.1}")
    searched = f"hydra: {{searchpath: [file://{tmp_path}/more]}}\n{BASE}"
    (tree / "exp.yaml").write_text(searched)
    config = composed(tree, "+optim=adam")

    assert config["optim"] == {"beta": 0.9}


def test_a_search_path_on_the_command_line_is_ours_too(
    tree: Path, tmp_path: Path
) -> None:
    write_tree(tmp_path / "more", optim__adam="beta: ${oc.eval:1 + 1}")
    made = composer(tree, f"hydra.searchpath=[{tmp_path}/more]", "+optim=adam")

    assert made.base().select("optim.beta") == 2


def test_a_search_path_that_is_not_there_is_refused(tree: Path) -> None:
    (found,) = problems(tree, command_line=["hydra.searchpath=[/nowhere/at/all]"])

    assert found == Problem(
        "/nowhere/at/all is not there",
        where="hydra.searchpath",
        hint="correct the path, or take the entry out",
    )


def test_an_experiment_may_extend_another_config(tree: Path) -> None:
    write_tree(
        tree,
        experiments__one="""
        # @package _global_
        defaults:
          - /exp
          - override /backend: large
          - _self_
        project: {base_output_dir: elsewhere}
        """,
    )
    made = composer(tree, ref="experiments/one")

    assert made.base().select("backend.name") == "large"
    assert made.base().select("project.base_output_dir") == "elsewhere"


def test_a_group_added_on_the_command_line_can_be_chosen_again(tree: Path) -> None:
    write_tree(tree, optim__adam="name: adam", optim__sgd="name: sgd")
    made = composer(tree, "+optim=adam")

    assert made.compose(["optim=sgd"], {}).select("optim.name") == "sgd"


# ---------------------------------------------------------------------- environment
def test_the_environment_is_read_once_and_recorded(tree: Path) -> None:
    environ = {"WHO": "a", "SECRET": "s"}
    write_tree(tree, env="who: ${oc.env:WHO}\nother: ${oc.env:NOT_SET,fallback}")
    made = composer(tree, ref="env", environ=environ)
    environ["WHO"] = "b"
    config = made.base().to_dict()
    digests = made.environment.digests()

    assert config == {"who": "a", "other": "fallback"}
    assert list(digests) == ["NOT_SET", "WHO"]
    assert digests["NOT_SET"] == ""
    assert digests["WHO"] not in ("", "a")


def test_a_variable_that_is_not_set_says_how_to_set_it(tree: Path) -> None:
    found = problems(tree, "backend.name=${oc.env:NOT_SET}")

    assert found[0].where == "backend.name"
    assert "export NOT_SET=" in found[0].message


def test_now_is_one_moment_for_all_jobs(tree: Path) -> None:
    made = HydraComposer("exp", tree, ["+day=${now:%Y-%m-%d}"], now=1e9)

    assert made.compose([], {}).select("day") == "2001-09-09"


def test_two_composers_do_not_mix(tree: Path, tmp_path: Path) -> None:
    write_tree(tmp_path / "other", exp="who: ${oc.env:WHO}")
    mine, other = composer(tree), composer(tmp_path / "other", environ={"WHO": "o"})

    assert other.base().select("who") == "o"
    assert mine.base().select("backend.name") == "small"
    assert other.compose([], {}).select("who") == "o"


# ----------------------------------------------------------------- mounts and views
def test_mounts_lie_at_the_root_before_anything_is_resolved(tree: Path) -> None:
    view = composer(tree).compose([], {"stage": "stable", "index": 3})

    assert view.select("project.name") == "run_stable"
    assert view.select("index") == 3


def test_a_jobs_aux_joins_the_configs_aux(tree: Path) -> None:
    config = composed(tree, aux={"more": "${oc.eval:${.tokens} + 1}"})

    assert config["aux"] == {"tokens": 100, "more": 101}


@pytest.mark.parametrize("written", ["${.tokens}", "${.aux.tokens}"])
def test_a_relative_value_falls_back_to_aux(tree: Path, written: str) -> None:
    assert composed(tree, f"backend.lr={written}")["backend"]["lr"] == 100  # type: ignore[index]


def test_a_relative_value_prefers_the_key_beside_it(tree: Path) -> None:
    config = composed(tree, "++backend.twice=${.lr}", aux={"lr": 9})

    assert config["backend"]["twice"] == 1  # type: ignore[index]


def test_a_condition_field_is_resolved_in_the_jobs_config(tree: Path) -> None:
    view = composer(tree).compose([], {"stage": "s"})
    condition = {
        "path": "${project.base_output_dir}/${stage}",
        "min_size": "${oc.eval:${.tokens} // 10}",
        "pattern": r"\d+ {x}",
        "names": ["${backend.name}"],
    }

    assert view.interpolate(condition) == {
        "path": "out/s",
        "min_size": 10,
        "pattern": r"\d+ {x}",
        "names": ["small"],
    }


def test_a_value_is_resolved_relative_to_the_key_it_is_set_on(tree: Path) -> None:
    view = composer(tree).compose([], {"stage": "s"})

    assert view.interpolate("${.lr}", at="backend.new") == 1


def test_an_escaped_interpolation_becomes_its_literal(tree: Path) -> None:
    view = composer(tree).compose([], {"stage": "s"})

    assert view.interpolate(r"\${x}") == "${x}"


def test_a_view_tells_absent_from_null_and_from_unresolvable(tree: Path) -> None:
    view = composer(tree, "+gone=${nowhere}", "+nothing=null").base()

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


def test_a_path_through_an_interpolated_subtree_is_followed(tree: Path) -> None:
    view = composer(tree, "+same=${backend}").base()

    assert view.select("same.lr") == 1
    assert view.has("same.lr")


def test_leaves_come_in_order_and_a_list_is_one(tree: Path) -> None:
    view = composer(tree, "+xs=[1,2]", "+empty={}").base()

    assert list(view.leaf_paths()) == [
        "backend.class_name",
        "backend.lr",
        "backend.iters",
        "backend.name",
        "project.name",
        "project.base_output_dir",
        "aux.tokens",
        "doubled",
        "xs",
        "empty",
    ]


def test_only_what_is_asked_for_is_resolved(tree: Path) -> None:
    view = composer(tree, "+broken=${nowhere}").base()

    assert view.select("doubled") == 2


def test_a_group_has_options_and_a_key_has_none(tree: Path) -> None:
    made = composer(tree)

    write_tree(tree, optim__adam="lr: 1", optim__sgd="lr: 2")

    assert made.group_options("optim") == ("adam", "sgd")
    assert made.group_options("backend.lr") is None
    assert made.group_options("") is None


# ----------------------------------------------------------------------------- sweep
def test_the_sweep_is_as_written_and_no_part_of_a_job(tree: Path) -> None:
    made = composer(tree)

    assert made.sweep() == {
        "type": "product",
        "groups": [{"params": {"backend.lr": [1, 2], "optim.lr": [3]}}],
    }
    assert not made.base().has("sweep")
    assert not made.compose([], {}).has("sweep")


def test_expressions_in_the_sweep_stay_as_written(tree: Path) -> None:
    expression = "${oc.eval:int(${backend.lr} * 2)}"
    (tree / "exp.yaml").write_text(f"sweep: {{configs: [{{k: '{expression}'}}]}}")

    assert composer(tree).sweep() == {"configs": [{"k": expression}]}


def test_no_sweep_is_none(tree: Path) -> None:
    assert composer(tree, "~sweep").sweep() is None


@pytest.mark.parametrize(
    ("override", "params"),
    [
        (
            "sweep.groups.0.params.optim.lr=[1e-4,2e-4]",
            {"backend.lr": [1, 2], "optim.lr": [1e-4, 2e-4]},
        ),
        (
            "+sweep.groups.0.params.a.b=[1]",
            {"backend.lr": [1, 2], "optim.lr": [3], "a.b": [1]},
        ),
        ("~sweep.groups.0.params.optim.lr", {"backend.lr": [1, 2]}),
        ("sweep.groups.0.params={x: [7]}", {"x": [7]}),
    ],
)
def test_an_override_reaches_into_the_sweep_by_literal_keys(
    tree: Path, override: str, params: Mapping[str, object]
) -> None:
    sweep = composer(tree, override).sweep()

    assert sweep is not None
    assert sweep["groups"] == [{"params": params}]


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("sweep.groups.0.parms=1", "groups.0.params"),
        ("sweep.groups.0.params.optim.l=1", "groups.0.params.optim.lr"),
    ],
)
def test_an_override_of_the_sweep_that_reaches_nothing_is_an_error(
    tree: Path, override: str, meant: str
) -> None:
    with pytest.raises(CannotCompose) as caught:
        composer(tree, override).sweep()
    problem = caught.value.problems[0]

    assert problem.where == f"override {override}"
    assert problem.hint == f"did you mean `{meant}`?; + adds"


def test_a_sweep_that_is_no_mapping_is_refused(tree: Path) -> None:
    (tree / "exp.yaml").write_text("sweep: [1, 2]")
    with pytest.raises(CannotCompose, match="not a mapping"):
        composer(tree).sweep()


# -------------------------------------------------------------------------- findings
@pytest.mark.parametrize(
    ("override", "where", "message", "hint"),
    read_refusals(__file__, "a_bad_override_says_where_what_and_the_next_step"),
)
def test_a_bad_override_says_where_what_and_the_next_step(
    tree: Path, override: str, where: str, message: str, hint: str
) -> None:
    assert problems(tree, override)[0] == Problem(message, where=where, hint=hint)


@pytest.mark.parametrize("override", ["backend=larg", "backend.lrr=1", "backend.lr=(1"])
def test_the_command_line_gets_the_same_words(tree: Path, override: str) -> None:
    on_command_line = problems(tree, command_line=[override])

    assert on_command_line == problems(tree, override)


def test_a_primary_config_that_is_not_there_names_those_that_are(tree: Path) -> None:
    found = problems(tree, ref="exq")[0]

    assert found.message == "there is no config `exq`"
    assert found.hint == "did you mean `exp`?"


@pytest.mark.parametrize("directory", ["/etc/autoexp", "..", "sub/../.."])
def test_a_path_in_place_of_a_primary_config_s_name_gets_the_way(
    tree: Path, directory: str
) -> None:
    found = problems(tree, ref=f"{directory}/exp.yaml")[0]

    assert found.message == (
        f"`{directory}/exp` is a path; --config-ref takes a config's name"
    )
    assert f"--config-dir {directory} --config-ref exp" in found.hint


def test_a_group_without_a_choice_names_the_choices(tree: Path) -> None:
    (tree / "exp.yaml").write_text("defaults: [{backend: '???'}]\na: 1")
    found = problems(tree)[0]

    assert found.where == "group backend"
    assert found.hint == f"add backend=CHOICE; choices: {CHOICES}"


def test_a_group_chosen_twice_says_override(tree: Path) -> None:
    (tree / "exp.yaml").write_text("defaults: [{backend: small}, {backend: large}]")

    assert problems(tree)[0].hint.startswith("in a defaults list write `override")


def test_every_value_that_does_not_resolve_is_found_at_once(tree: Path) -> None:
    found = problems(tree, "backend.name=${a1}", "project.base_output_dir=${a2}")

    assert [one.where for one in found] == ["backend.name", "project.base_output_dir"]


def test_a_value_where_keys_are_read_below_it_is_named(tree: Path) -> None:
    (tree / "exp.yaml").write_text("optim: 3\nrate: ${optim.lr}\n")
    (found,) = problems(tree)

    message = "${optim.lr} names no key: `optim` is a value, with none below it"
    hint = "set `optim.lr`, not `optim` as a whole"
    assert found == Problem(message, where="rate", hint=hint)


def test_a_value_that_is_read_relative_to_its_reader_is_named_from_the_top(
    tree: Path,
) -> None:
    (tree / "exp.yaml").write_text("a: {b: {optim: 3}, rate: '${.b.optim.lr}'}\n")
    (found,) = problems(tree)

    message = "${b.optim.lr} names no key: `a.b.optim` is a value, with none below it"
    hint = "set `a.b.optim.lr`, not `a.b.optim` as a whole"
    assert found == Problem(message, where="a.rate", hint=hint)


def test_a_value_that_is_missing_is_named_by_its_own_key(tree: Path) -> None:
    view = composer(tree).compose(("backend.lr=???", "doubled=${backend.lr}"), {})
    with pytest.raises(CannotCompose) as caught:
        view.select("doubled")

    assert [one.where for one in caught.value.problems] == ["backend.lr"]
    assert caught.value.problems[0].hint == "set it: backend.lr=VALUE"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("lr: 5\nsub: {lr: '???'}\nreader: ${sub}\n", "sub.lr"),
        ("lr: '???'\nsub: {lr: '${lr}'}\nreader: ${sub}\n", "lr"),
        ("sub: {lr: '???', low: '${.lr}'}\nreader: {of: '${sub.low}'}\n", "sub.lr"),
        ("sub: {rates: [1, '???']}\nreader: ${sub}\n", "sub.rates.1"),
    ],
)
def test_a_missing_value_is_named_where_it_is_missing_whoever_reads_it(
    tree: Path, written: str, expected: str
) -> None:
    (tree / "exp.yaml").write_text(written)
    assert {one.where for one in problems(tree)} == {expected}


@pytest.mark.parametrize("written", ["${iters}", "${.iters}", "${ax.int:${.iters}}"])
def test_the_key_that_is_wrong_comes_before_those_that_read_it(
    tree: Path, written: str
) -> None:
    config = f"early: '{written}'\niters: '${{oc.evla:1}}'\n"
    (tree / "exp.yaml").write_text(config)
    (found,) = problems(tree)

    assert found.where == "iters"
    assert found.message == "there is no resolver `oc.evla` (also: early)"


def test_a_broken_file_is_named_with_its_line(tree: Path) -> None:
    (tree / "backend" / "large.yaml").write_text("a: 1\nb: {sibling.x.y}\n")
    found = problems(tree, "backend=large")[0]

    assert found.where.endswith("backend/large.yaml:2")
    assert found.hint == 'quote it: "{sibling.x.y}"'


def test_a_text_of_either_quote_in_an_expression_reaches_a_job(tree: Path) -> None:
    written = """${oc.eval:'${backend.lr} == "it\\'s"'} ${oc.eval:"'a'"}"""

    config = composed(tree, format_override("++told", written))

    assert config["told"] == "False a"
