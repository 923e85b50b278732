"""The file and line at which a finding's key stands, and which files there are."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest
import yaml

from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.planning import PlanningRequest
from autoexp_tui.config.planning_main import answer_request
from autoexp_tui.config.yaml_files import KeyPlaces
from autoexp_tui.model.errors import Problem
from autoexp_tui.sweep.expand import expand_sweep
from tests.config.config_trees import write_tree

EXP = """\
defaults:
  - _self_
  - optim: adam
  - /data/mix@data: web
project:
  name: x
backend:
  lr: 1e-3
sweep:
  groups:
    - params:
        ++backend.lrr: [1, 2]
        optim.lr: [1, 2]
        optim: [sgd]
    - type: list
      configs:
        - stage: stable
          backend.load: a
        - stage: cooldown
          backend.load: b
          start_conditions:
            - class_name: FileExists
  filter: lr > 1
"""


def places_in(place: Path, text: str) -> KeyPlaces:
    """Of a config of one file."""
    (place / "exp.yaml").write_text(text)
    return KeyPlaces([(place / "exp.yaml", ())])


def line(places: KeyPlaces, where: str, job: str = "") -> tuple[str, int] | None:
    found = places.find(Problem("wrong", where=where, job=job))
    return None if found is None else (Path(found[0]).name, found[1])


@pytest.mark.parametrize(("where", "job", "expected"), [
    ("project.name", "", ("exp.yaml", 6)), ("sweep.filter", "", ("exp.yaml", 23)),
    ("sweep.groups.1.configs.0", "", ("exp.yaml", 17)),
    ("sweep.groups[1].configs[1].backend.load", "", ("exp.yaml", 20)),
    ("sweep.groups.0.params.optim.lr", "", ("exp.yaml", 13)),
    pytest.param("backend.lrr", "job 0", ("exp.yaml", 12), id="added by the sweep"),
    pytest.param("++backend.lrr", "job 0", ("exp.yaml", 12), id="with its marks"),
    ("start_conditions.0.path", "x_cooldown", ("exp.yaml", 22)),
    pytest.param("project.name", "x", ("exp.yaml", 6), id="choices unknown"),
    ("backend.load", "x_cooldown", ("exp.yaml", 18)),
    pytest.param("optim.beta", "", ("adam.yaml", 2), id="in the group's file"),
    pytest.param("backend.nope", "", ("exp.yaml", 7), id="what it belongs to"),
    pytest.param("override optim=sgd", "job 0", ("exp.yaml", 14), id="a swept choice"),
    *((where, "", None) for where in ("", "nope", "-C conf", "override backend.lr=x")),
])  # fmt: skip
def test_a_key_has_its_file_and_line(
    where: str, job: str, expected: tuple[str, int] | None, tmp_path: Path
) -> None:
    write_tree(tmp_path, exp=EXP, optim__adam="name: adam\nbeta: 0.9\n")
    files = [(tmp_path / "exp.yaml", ()), (tmp_path / "optim/adam.yaml", ("optim",))]
    assert line(KeyPlaces(files), where, job) == expected


@pytest.mark.parametrize(("text", "where"), [
    ("a: [", "b.c"), ("- 1\n", "b.c"), (f"a: {'[' * 100}{']' * 100}\n", "a"),
], ids=["open", "list", "deep"])  # fmt: skip
def test_a_config_that_does_not_read_has_no_places(
    text: str, where: str, tmp_path: Path
) -> None:
    assert line(places_in(tmp_path, text), where, "job 0") is None


SWEEPS = yaml.safe_load(Path(__file__).with_name("sweeps.yaml").read_text())


@pytest.mark.parametrize("sweep", SWEEPS.values(), ids=SWEEPS)
def test_the_line_of_every_parameter_holds_the_value_of_the_job(
    sweep: str, tmp_path: Path
) -> None:
    text = f"lr: 1\nsweep:\n{indent(sweep, '  ')}\n"
    places, lines = places_in(tmp_path, text), text.splitlines()
    for point in expand_sweep(yaml.safe_load(text)["sweep"]):
        for key, value in point.parameters.items():
            if key not in ("stage", "project.name"):
                found = places.find(Problem("wrong", key, "job"), point.entries)
                assert found is not None, key
                assert str(value) in lines[found[1] - 1], (key, value)


def test_a_sweep_that_is_a_file_of_its_own_has_its_lines(tmp_path: Path) -> None:
    text = "configs:\n  - lr: 11\n  - lr: 21\n"
    exp = "defaults: [_self_, sweep: sizes]\nlr: 1\n"
    write_tree(tmp_path, exp=exp, sweep__sizes=text)
    point = expand_sweep(yaml.safe_load(text))[1]
    files = [(tmp_path / "exp.yaml", ()), (tmp_path / "sweep/sizes.yaml", ("sweep",))]
    found = KeyPlaces(files).find(Problem("wrong", "lr", "job 1"), point.entries)
    assert found == (str(tmp_path / "sweep" / "sizes.yaml"), 3)


@pytest.mark.parametrize(("sweep", "key", "index", "at"), [
    pytest.param("configs: [" + "\n {a: 1}," * 10 + "]", "a", 4, 6, id="entries"),
    pytest.param("params: {\n lr: [\n 1,\n x],\n bs: [1, 2]}", "lr", 2, 4, id="value"),
    pytest.param("params: {lr: [11, 12]}, derived_jobs: [{name: a,\n start_conditions: "
                 "[{}]}, {name: b,\n start_conditions: [\n{}]}]",
                 "start_conditions.0", 2, 4, id="its own condition"),
])  # fmt: skip
def test_a_finding_has_the_line_of_what_its_job_chose(
    sweep: str, key: str, index: int, at: int, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    text = f"sweep: {{{sweep}}}\n"
    points = expand_sweep(yaml.safe_load(text)["sweep"])
    origins = {str(point.index): point.entries for point in points}
    monkeypatch.chdir(tmp_path)
    problem = Problem("is wrong", key, str(index))
    found = places_in(tmp_path, text).add_place(problem, origins)
    assert found.place == f"exp.yaml:{at}"


TREE = {
    "exp": "defaults: [optim: adam, /data/mix@data: web, base, _self_]",
    "base": "defaults:\n  - _self_\n  - model/size@net: small\nown: 1",
    "optim__adam": "defaults:\n  - schedule: cosine\n  - common\nlr: 1",
    "optim__common": "eps: 1", "optim__sgd": "lr: 2",
    "optim__schedule__cosine": "steps: 1", "data__mix__web": "share: 1",
    "model__size__small": "# @package _global_\nwidth: 1",
    "model__size__deep": "# @package net.deep\nwidth: 1",
    "more": "# @package _global_\ndefaults:\n  - exp\n  - override optim: sgd",
    "broken": "defaults: [optim: lost, _self_]\nlr: 1",
}  # fmt: skip
ALL = {
    "exp.yaml": "", "base.yaml": "", "optim/adam.yaml": "optim",
    "optim/common.yaml": "optim", "optim/schedule/cosine.yaml": "optim.schedule",
    "data/mix/web.yaml": "data", "model/size/small.yaml": "net",
}  # fmt: skip
DEEP = {k: v for k, v in ALL.items() if "small" not in k}
OF_SGD = {k: v for k, v in ALL.items() if not k.startswith("optim")}


@pytest.mark.parametrize(("primary", "override", "expected"), [
    ("exp", "++a=1", ALL), ("exp", "optim=sgd", OF_SGD | {"optim/sgd.yaml": "optim"}),
    ("exp", "model/size@net=deep", DEEP | {"model/size/deep.yaml": "net"}),
    ("more", "++a=1", OF_SGD | {"optim/sgd.yaml": "optim", "more.yaml": ""}),
    pytest.param("broken", "++a=1", {"broken.yaml": ""}, id="does not compose"),
])  # fmt: skip
def test_files_are_those_that_hydra_takes_with_the_keys_they_go_below(
    primary: str, override: str, expected: dict[str, str], tmp_path: Path
) -> None:
    root = write_tree(tmp_path, **TREE)
    files = HydraComposer(primary, root, [override]).list_files()
    found = {str(path.relative_to(tmp_path)): ".".join(keys) for path, keys in files}
    assert found == expected


@pytest.mark.parametrize(("entry", "found"), [
    ("_self_\nhydra: {sweeper: {a: 1}, searchpath: [/x]}\nhydrate: {a: 1}\nx:\n  - a",
     ["hydra.sweeper", "hydra.searchpath"]),
    ("m: hydra/tiny", []), ("override hydra/launcher@x: y", ["hydra/launcher"]),
    ("hydra/launcher/basic", ["hydra/launcher"]),
    ("/hydra/launcher/basic@x", ["hydra/launcher"]), ("hydra/x", ["hydra"]),
    ("m: [hydra/tiny, a]", []), ("''", []),
])  # fmt: skip
def test_an_entry_is_told_by_its_group(
    entry: str, found: list[str], tmp_path: Path
) -> None:
    text = f"defaults:\n  - {entry}\n  - _self_"
    assert [*places_in(tmp_path, text).list_hydra_keys()] == found


@pytest.mark.parametrize(("override", "is_error"), [
    ("+hydra.sweeper.size=3", True), ("hydra/launcher=joblib", True),
    ("+hydra.launcher.n_jobs=3", True), ("hydra.job.chdir=true", False),
    ("hydra.run.dir=x", False),
    pytest.param("++a=1", None, id="a choice of an own group is none"),
])  # fmt: skip
def test_the_command_line_is_looked_at_too(
    tmp_path: Path, override: str, is_error: bool | None
) -> None:
    defaults = "defaults: [{m: hydra/tiny}, hydra/x, _self_]"
    write_tree(
        tmp_path / "config", m__hydra__tiny="a: 1",
        hydra__x="# @package _global_\nb: 1",
        exp=f"{defaults}\nbackend: {{class_name: 'Null'}}\nproject: {{name: x}}\n",
    )  # fmt: skip
    answer = answer_request(PlanningRequest(cwd=str(tmp_path), overrides=(override,)))
    found = answer.errors if is_error else answer.warnings
    told = [one.where for one in found if "hydra" in one.where]
    key = override.partition("=")[0].lstrip("+")
    assert any(key in one for one in told) if is_error is not None else not told
