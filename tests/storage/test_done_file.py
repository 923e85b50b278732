"""The word of success in an output directory."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.storage.done_file import (
    filter_existing,
    forget_done,
    get_done_path,
    read_done,
    write_done,
)
from tests.model.builders import job

from .disk_session import failing

WORK = DoneWork(
    job="a",
    session="k7f2",
    mark="k7f2@1.000",
    fingerprint="f",
    at=5.0,
    upstream={"b": "k7f2@1.000"},
    upstream_work={"b": "g"},
    metadata={"path": "/o"},
    step=3,
    values={"loss": 2.5, "grad": "nan"},
)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    (tmp_path / ".autoexp").mkdir()
    return tmp_path


def test_what_was_written_is_read_until_it_is_taken_back(output: Path) -> None:
    write_done(output, WORK)
    assert read_done(output) == WORK
    write_done(output, replace(WORK, metadata={"path": "/o/\udce9"}))  # no text
    assert read_done(output) == replace(WORK, metadata={"path": "/o/\ufffd"})
    forget_done(output)
    forget_done(output)
    assert read_done(output) is None
    with pytest.raises(EnvironmentFailed, match=r"done\.json"):
        write_done(output / "gone", WORK)


def test_an_older_version_is_read_and_a_newer_one_or_rubbish_says_nothing(
    output: Path,
) -> None:
    write_done(output, WORK)
    path = get_done_path(output)
    tree = json.loads(path.read_bytes())
    for odd in (tree | {"version": 2}, tree | {"at": "soon"}, {"version": 1}, None):
        path.write_text(json.dumps(odd))
        assert read_done(output) is None
    path.write_bytes(b"\xff{")
    assert read_done(output) is None
    del tree["upstream_work"]
    path.write_text(json.dumps(tree))
    assert read_done(output) == replace(WORK, upstream_work={})


# ---------------------------------------------------------- which directories are there
MANY = {f"j{n}": f"j{n}" for n in range(20)}


def there(place: Path, named: dict[str, str]) -> list[str]:
    """The jobs whose directory is in `place`, of jobs and their directories' names."""
    jobs = [job(name, output_dir=f"{place}/{where}") for name, where in named.items()]
    return [one.name for one in filter_existing(jobs)]


def test_of_many_those_that_are_there_are_found_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, listdir = list[str](), os.listdir

    def look(place: str) -> list[str]:
        looks.append(place)
        return listdir(place)

    monkeypatch.setattr(os, "listdir", look)
    for name in ("j7", "j3"):
        (tmp_path / name).mkdir()
    assert there(tmp_path, MANY) == ["j3", "j7"]
    assert looks == [str(tmp_path)]  # one look for all of them
    assert there(tmp_path / "none", MANY) == []
    monkeypatch.setattr(os, "listdir", failing(errno.EACCES))
    assert there(tmp_path, MANY) == list(MANY)  # nothing is known


@pytest.mark.parametrize("name", ["J3", "na\u00efve", "x/../j3", ".", "j3/"])
def test_a_name_that_a_file_system_may_take_for_another_is_looked_at(
    tmp_path: Path, name: str
) -> None:
    for made in ("j3", "nai\u0308ve"):
        (tmp_path / made).mkdir()
    assert there(tmp_path, MANY | {"odd": name}) == ["j3", "odd"]
