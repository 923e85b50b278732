"""The file and line at which a finding's key stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoexp_tui.config.key_places import KeyPlaces
from autoexp_tui.model.errors import Problem

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


@pytest.fixture
def places(tmp_path: Path) -> KeyPlaces:
    (tmp_path / "optim").mkdir()
    (tmp_path / "optim" / "adam.yaml").write_text("name: adam\nbeta: 0.9\n")
    (tmp_path / "exp.yaml").write_text(EXP)
    return KeyPlaces(
        [(tmp_path / "exp.yaml", ()), (tmp_path / "optim/adam.yaml", ("optim",))]
    )


def line(places: KeyPlaces, where: str, job: str = "") -> tuple[str, int] | None:
    found = places.find(Problem("wrong", where=where, job=job))
    return None if found is None else (Path(found[0]).name, found[1])


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("project.name", 6),
        ("sweep.filter", 22),
        ("sweep.groups.1.configs.0", 16),
        ("sweep.groups[1].configs[1].backend.load", 19),
        ("sweep.groups.0.params.optim.lr", 13),
    ],
)
def test_a_path_of_the_primary_config_has_its_line(
    where: str, expected: int, places: KeyPlaces
) -> None:
    assert line(places, where) == ("exp.yaml", expected)


def test_a_key_that_the_sweep_adds_is_found_there(places: KeyPlaces) -> None:
    assert line(places, "backend.lrr", "job 0 (lrr=1)") == ("exp.yaml", 12)


def test_a_condition_of_a_job_is_found_in_the_sweep(places: KeyPlaces) -> None:
    where = "start_conditions.0.path"
    assert line(places, where, "x_cooldown") == ("exp.yaml", 21)


def test_of_a_job_whose_choices_are_unknown_the_config_itself_is_looked_at_first(
    places: KeyPlaces,
) -> None:
    assert line(places, "project.name", "x_cooldown") == ("exp.yaml", 6)
    assert line(places, "backend.load", "x_cooldown") == ("exp.yaml", 17)


def test_a_key_of_a_chosen_group_is_found_in_its_file(places: KeyPlaces) -> None:
    assert line(places, "optim.beta") == ("adam.yaml", 2)


def test_a_key_that_is_not_there_leads_to_what_it_belongs_to(
    places: KeyPlaces,
) -> None:
    assert line(places, "backend.nope") == ("exp.yaml", 7)


def test_a_place_that_planning_told_itself_is_taken(places: KeyPlaces) -> None:
    assert line(places, "other.yaml:41: sweep") == ("other.yaml", 41)


@pytest.mark.parametrize("where", ["", "nope", "-C conf"])
def test_what_stands_in_no_file_has_no_place(where: str, places: KeyPlaces) -> None:
    assert line(places, where) is None


@pytest.mark.parametrize("text", ["a: [", "a: &x [*x]\n", "\x00", "- 1\n"])
def test_a_config_that_does_not_read_has_no_places(text: str, tmp_path: Path) -> None:
    (tmp_path / "exp.yaml").write_text(text)
    assert line(KeyPlaces([(tmp_path / "exp.yaml", ())]), "b.c") is None


def test_aliases_that_multiply_are_looked_at_once(tmp_path: Path) -> None:
    levels = "\n".join(f"  a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]" for n in range(1, 30))
    (tmp_path / "exp.yaml").write_text(f"sweep:\n  a0: &a0 [1]\n{levels}\n")
    places = KeyPlaces([(tmp_path / "exp.yaml", ())])
    assert line(places, "backend.lr", "job 0") is None


def test_a_key_written_with_its_marks_is_found_without_them(places: KeyPlaces) -> None:
    where, job = "++backend.lrr", "job 0 (lrr=1)"
    assert line(places, where, job) == ("exp.yaml", 12)


def test_a_swept_choice_of_a_group_is_found_in_the_sweep(tmp_path: Path) -> None:
    (tmp_path / "exp.yaml").write_text("sweep:\n  params:\n    slurm: [locla]\n")
    places = KeyPlaces([(tmp_path / "exp.yaml", ())])
    found = line(places, "override slurm=locla", "job 0")
    assert found == ("exp.yaml", 3)


def test_an_override_of_the_command_line_stands_in_no_file(places: KeyPlaces) -> None:
    assert line(places, "override backend.lr=x") is None


def test_a_file_whose_path_has_a_space_is_a_place(places: KeyPlaces) -> None:
    assert line(places, "my configs/exp.yaml:7") == ("exp.yaml", 7)


@pytest.mark.parametrize("levels", [100, 60_000])
def test_a_config_nested_beyond_all_reason_has_no_places(
    levels: int, tmp_path: Path
) -> None:
    (tmp_path / "exp.yaml").write_text(f"a: {'[' * levels}{']' * levels}\n")
    assert line(KeyPlaces([(tmp_path / "exp.yaml", ())]), "a") is None
