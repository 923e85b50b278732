"""What a job chose in its sweep leads to the line that it has a value from."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from unittest.mock import Mock

import pytest
import yaml

from autoexp_tui.config.key_places import KeyPlaces, walk
from autoexp_tui.model.errors import Problem
from autoexp_tui.sweep.expand import expand_sweep
from autoexp_tui.sweep.points import SweepPoint

# Every value stands once in its sweep, so that a line tells whose it is.
SWEEPS = {
    "entries without a stage": """
        type: list
        configs:
          - {lr: 11, model.size: 12}
          - {lr: 21, model.size: 22}
          - lr: 31
            model.size: 32
        """,
    "values one below the other": """
        params:
          lr:
            - 11
            - 12
          optim.wd: [21, 22]
          ++extra.steps:
            - 31
            - 32
        """,
    "pairs": """
        type: zip
        params:
          lr:
            - 11
            - 12
          bs:
            - 21
            - 22
        """,
    "defaults below entries that cover them": """
        defaults: {lr: 91, bs: 92}
        groups:
          - configs:
              - {lr: 11}
              - {wd: 12}
          - defaults:
              bs: 81
            configs:
              - {beta: 21}
              - {bs: 22}
        """,
    "a later group wins a key that both set": """
        groups:
          - params: {lr: [11, 12], wd: 13}
          - configs:
              - {lr: 21}
              - {wd: 22}
        """,
    "nodes inside configs": """
        type: list
        configs:
          - {lr: 11}
          - params:
              lr:
                - 21
                - 22
          - defaults: {wd: 31}
            groups:
              - configs:
                  - lr: 32
                  - lr: 33
              - params: {bs: [41, 42]}
        """,
    "groups one after another": """
        type: list
        groups:
          - params: {lr: [11, 12]}
          - params:
              lr: [21, 22]
              wd: 23
        """,
    "grids": """
        base_values: {wd: 91}
        grids:
          - {lr: [11, 12], bs: 13}
          - lr: [21, 22]
            bs:
              - 23
              - 24
        """,
    "derived jobs": """
        params: {lr: [11, 12], wd: 13}
        derived_jobs:
          - name: cooldown
            parameter_overrides: {wd: 21}
          - name: report
            for_each_base_job: false
            parameter_overrides:
              bs: 31
        """,
}
OURS = {"stage", "project.name"}


def written(sweep: str) -> str:
    return f"lr: 1\nsweep:\n{indent(dedent(sweep).strip(), '  ')}\n"


def told(places: KeyPlaces, key: str, point: SweepPoint) -> int:
    found = places.find(Problem("wrong", key, "job"), point.entries)
    assert found is not None, key
    return found[1]


@pytest.mark.parametrize("sweep", SWEEPS.values(), ids=SWEEPS)
def test_the_line_of_every_parameter_holds_the_value_of_the_job(
    sweep: str, tmp_path: Path
) -> None:
    text = written(sweep)
    (tmp_path / "exp.yaml").write_text(text)
    places = KeyPlaces([(tmp_path / "exp.yaml", ())])
    lines = text.splitlines()
    points = expand_sweep(yaml.safe_load(text)["sweep"])
    for point in points:
        for key, value in point.parameters.items():
            if key not in OURS:
                assert str(value) in lines[told(places, key, point) - 1], (key, value)


def test_a_derived_job_leads_to_its_own_condition(tmp_path: Path) -> None:
    sweep = """
        params: {lr: [11, 12]}
        derived_jobs:
          - name: a
            start_conditions: [{class_name: FileExists}]
          - name: b
            start_conditions:
              - class_name: FileExists
    """
    text = written(sweep)
    (tmp_path / "exp.yaml").write_text(text)
    point = expand_sweep(yaml.safe_load(text)["sweep"])[2]

    places = KeyPlaces([(tmp_path / "exp.yaml", ())])
    assert told(places, "start_conditions.0", point) == 9


def test_a_sweep_that_is_a_file_of_its_own_is_looked_through(tmp_path: Path) -> None:
    (tmp_path / "sweep").mkdir()
    (tmp_path / "exp.yaml").write_text("defaults: [_self_, sweep: sizes]\nlr: 1\n")
    text = "configs:\n  - lr: 11\n  - lr: 21\n"
    (tmp_path / "sweep" / "sizes.yaml").write_text(text)
    point = expand_sweep(yaml.safe_load(text))[1]

    problem = Problem("wrong", "lr", "job 1")
    files = [(tmp_path / "exp.yaml", ()), (tmp_path / "sweep/sizes.yaml", ("sweep",))]
    found = KeyPlaces(files).find(problem, point.entries)

    assert found == (str(tmp_path / "sweep" / "sizes.yaml"), 3)


def placed(text: str, problem: Problem, place: Path) -> Problem:
    """The finding, placed; the jobs are called by their index."""
    (place / "exp.yaml").write_text(text)
    points = expand_sweep(yaml.safe_load(text)["sweep"])
    origins = {str(point.index): [point.entries] for point in points}
    return KeyPlaces([(place / "exp.yaml", ())]).add_places([problem], origins)[0]


def line(problem: Problem) -> int:
    return int(problem.place.rpartition(":")[2])


def test_a_finding_of_several_entries_tells_all_their_lines(tmp_path: Path) -> None:
    text = "sweep:\n configs:\n - lrr: 1\n - lrr: 2\n - lrr: 3\n"
    problem = Problem("is nowhere", "lrr", "0", "write lr", others=("1", "2"))
    found = placed(text, problem, tmp_path)

    assert line(found) == 3
    assert found.hint == "write lr; the same at line 4, line 5"


def test_a_finding_of_two_jobs_of_one_name_tells_both_lines(tmp_path: Path) -> None:
    text = "sweep:\n configs:\n - project.name: x\n - project.name: x\n"
    (tmp_path / "exp.yaml").write_text(text)
    points = expand_sweep(yaml.safe_load(text)["sweep"])
    origins = {"x": [point.entries for point in points]}

    problem = Problem("2 jobs have the name x", "project.name", "x")
    (found,) = KeyPlaces([(tmp_path / "exp.yaml", ())]).add_places([problem], origins)

    assert (line(found), found.hint) == (3, "the same at line 4")


def test_of_many_lines_the_first_are_told_and_the_others_counted(
    tmp_path: Path,
) -> None:
    text = "sweep:\n configs:\n" + " - lrr: 1\n" * 10
    others = tuple(map(str, range(1, 10)))
    found = placed(text, Problem("is nowhere", "lrr", "0", others=others), tmp_path)

    assert found.hint.startswith("the same at line 4, line 5")
    assert found.hint.endswith("line 9, 3 places more")


def test_what_several_values_have_in_common_is_of_their_key(tmp_path: Path) -> None:
    text = "sweep:\n params:\n  lrr:\n  - 1\n  - 2\n"
    found = placed(text, Problem("is nowhere", "lrr", "0", others=("1",)), tmp_path)

    assert (line(found), found.hint) == (3, "")


def test_what_several_jobs_of_one_value_have_is_of_that_value(tmp_path: Path) -> None:
    text = "sweep:\n params:\n  lr:\n  - 1\n  - x\n  bs: [1, 2]\n"
    found = placed(text, Problem("is text", "lr", "2", others=("3",)), tmp_path)

    assert (line(found), found.hint) == (5, "")


def test_a_value_that_the_command_line_set_has_the_line_of_its_key(
    tmp_path: Path,
) -> None:
    (tmp_path / "exp.yaml").write_text("sweep:\n params:\n  lr:\n  - 1\n  - 2\n")
    point = expand_sweep({"params": {"lr": [1, 2, 3]}})[2]

    assert told(KeyPlaces([(tmp_path / "exp.yaml", ())]), "lr", point) == 3


def test_findings_of_a_thousand_keys_are_looked_up_along_their_jobs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "sweep:\n configs:\n" + "".join(f" - k{n}: 1\n" for n in range(1000))
    points = expand_sweep(yaml.safe_load(text)["sweep"])
    (tmp_path / "exp.yaml").write_text(text)
    places = KeyPlaces([(tmp_path / "exp.yaml", ())])
    walked = Mock(wraps=walk)
    monkeypatch.setattr("autoexp_tui.config.key_places.walk", walked)

    lines = [told(places, f"k{at}", point) for at, point in enumerate(points)]

    assert lines == list(range(3, 1003))
    assert walked.call_count <= 2 * len(points)
