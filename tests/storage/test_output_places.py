"""Which output directories need a look."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autoexp_tui.model.specs import JobSpec
from autoexp_tui.storage.done_file import filter_existing
from tests.model.builders import job


def jobs_in(place: Path, names: list[str]) -> list[JobSpec]:
    return [
        job(name, at, output_dir=str(place / name)) for at, name in enumerate(names)
    ]


MANY = [f"j{n}" for n in range(20)]


def there(jobs: list[JobSpec]) -> list[str]:
    return [one.name for one in filter_existing(jobs)]


def test_of_many_those_that_are_there_are_found_in_their_order(tmp_path: Path) -> None:
    for name in ("j7", "j3"):
        (tmp_path / name).mkdir()
    assert there(jobs_in(tmp_path, MANY)) == ["j3", "j7"]


def test_nothing_is_in_a_directory_that_is_not_there(tmp_path: Path) -> None:
    assert there(jobs_in(tmp_path / "none", MANY)) == []


def test_many_jobs_cost_one_look_at_their_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    listdir = os.listdir

    def counted(place: str) -> list[str]:
        looks.append(place)
        return listdir(place)

    monkeypatch.setattr(os, "listdir", counted)
    there(jobs_in(tmp_path, MANY))
    assert looks == [str(tmp_path)]


def test_a_directory_that_cannot_be_listed_says_nothing_of_its_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(place: str) -> list[str]:
        raise PermissionError(place)

    monkeypatch.setattr(os, "listdir", refuse)
    assert there(jobs_in(tmp_path, MANY)) == MANY


@pytest.mark.parametrize("name", ["J3", "na\u00efve", "..", "."])
def test_a_name_that_a_file_system_may_take_for_another_is_looked_at(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "j3").mkdir()
    jobs = jobs_in(tmp_path, MANY)
    odd = job("odd", 20, output_dir=f"{tmp_path}/{name}")
    assert there([*jobs, odd]) == ["j3", "odd"]


def test_a_few_jobs_are_looked_at_without_a_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "listdir", lambda _: pytest.fail("listed"))
    assert there(jobs_in(tmp_path, ["a", "b"])) == ["a", "b"]
