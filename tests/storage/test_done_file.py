"""The word of success in an output directory."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.storage.done_file import (
    filter_existing,
    find_done,
    forget_done,
    get_done_path,
    read_done,
    write_done,
)
from tests.model.builders import job

WORK = DoneWork(
    job="a",
    session="k7f2",
    mark="k7f2@1.000",
    fingerprint="f",
    at=5.0,
    upstream={"b": "k7f2@1.000"},
    upstream_work={"b": "g"},
    metadata={"path": "/o/\udce9"},
    step=3,
    values={"loss": 2.5, "grad": "nan"},
)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    (tmp_path / ".autoexp").mkdir()
    return tmp_path


def test_what_was_written_is_read(output: Path) -> None:
    work = replace(WORK, metadata={"path": "/o"})
    write_done(output, work)
    assert read_done(output) == work


def test_what_an_older_version_wrote_is_read(output: Path) -> None:
    write_done(output, WORK)
    path = get_done_path(output)
    tree = json.loads(path.read_bytes())
    del tree["upstream_work"]
    path.write_text(json.dumps(tree))
    found = read_done(output)
    assert found is not None
    assert (found.upstream, found.upstream_work) == ({"b": "k7f2@1.000"}, {})


def test_bytes_that_no_text_has_do_not_stop_it(output: Path) -> None:
    write_done(output, WORK)
    found = read_done(output)
    assert found is not None
    assert found.metadata == {"path": "/o/\ufffd"}


def test_it_is_taken_back_and_taking_back_nothing_is_fine(output: Path) -> None:
    write_done(output, WORK)
    forget_done(output)
    forget_done(output)
    assert read_done(output) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"version": 2}',
        b'{"version": 1}',
        b'{"version": 1, "job": 3}',
        b'{"version": 1, "job": "a", "session": "s", "mark": "m", '
        b'"fingerprint": "f", "at": "soon"}',
    ],
)
def test_rubbish_says_nothing(output: Path, data: bytes) -> None:
    get_done_path(output).write_bytes(data)
    assert read_done(output) is None


def test_a_newer_version_says_nothing(output: Path) -> None:
    write_done(output, WORK)
    tree = json.loads(get_done_path(output).read_text())
    get_done_path(output).write_text(json.dumps(tree | {"version": 2}))
    assert read_done(output) is None


def test_a_directory_that_refuses_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match=r"done\.json"):
        write_done(tmp_path / "gone", WORK)


def test_every_job_is_looked_for_in_its_own_directory(tmp_path: Path) -> None:
    specs = [job(f"j{n}", n, output_dir=str(tmp_path / f"j{n}")) for n in range(20)]
    for spec in specs[::2]:
        (Path(spec.output_dir) / ".autoexp").mkdir(parents=True)
        write_done(Path(spec.output_dir), replace(WORK, job=spec.name))
    found = find_done(specs)
    assert list(found) == [spec.name for spec in specs[::2]]


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
