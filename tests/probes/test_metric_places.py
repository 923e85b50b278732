"""Which files of metrics there are, and how much of them is earlier."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoexp_tui.engine.ports import FoundFile
from autoexp_tui.probes.metric_places import MOST_FILES, find_files, note_lengths


@pytest.fixture
def attempts(tmp_path: Path) -> tuple[Path, Path]:
    made = (tmp_path / "attempts" / "1", tmp_path / "attempts" / "2")
    for one in made:
        one.mkdir(parents=True)
    return made


def test_plain_paths_and_patterns_are_found_each_once(
    tmp_path: Path, attempts: tuple[Path, Path]
) -> None:
    for name in ("b.csv", "a.csv", "m.jsonl"):
        (tmp_path / name).write_text("x")
    patterns = [str(tmp_path / "m.jsonl"), str(tmp_path / "*.csv"), f"{tmp_path}/gone"]
    found = find_files([*patterns, patterns[0]], *map(str, attempts))
    assert [(Path(one.path).name, one.pattern) for one in found] == [
        ("m.jsonl", 0),
        ("a.csv", 1),
        ("b.csv", 1),
    ]


def test_what_an_earlier_session_and_attempt_wrote_is_told_apart(
    tmp_path: Path, attempts: tuple[Path, Path]
) -> None:
    file = tmp_path / "m.jsonl"
    places = [str(file)]
    file.write_text("of an earlier session\n")
    note_lengths(attempts[0], places)
    with file.open("a") as more:
        more.write("of the first attempt\n")
    note_lengths(attempts[1], places)
    with file.open("a") as more:
        more.write("of the second\n")
    (found,) = find_files(places, *map(str, attempts))
    assert found == FoundFile(str(file), 0, foreign=22, before=43, is_new=False)


def test_a_file_that_came_with_the_attempt_is_new(
    tmp_path: Path, attempts: tuple[Path, Path]
) -> None:
    places = [str(tmp_path / "m.jsonl")]
    note_lengths(attempts[0], places)
    Path(places[0]).write_text("x\n")
    assert find_files(places, *[str(attempts[0])] * 2) == [FoundFile(places[0])]


def test_a_file_that_was_written_anew_has_no_earlier_part(
    tmp_path: Path, attempts: tuple[Path, Path]
) -> None:
    file = tmp_path / "m.jsonl"
    file.write_text("long before\n")
    note_lengths(attempts[0], [str(file)])
    file.write_text("x\n")
    (found,) = find_files([str(file)], *[str(attempts[0])] * 2)
    assert found.foreign == 0


def test_lengths_are_kept_once_however_often_an_attempt_is_sent(
    tmp_path: Path, attempts: tuple[Path, Path]
) -> None:
    file = tmp_path / "m.jsonl"
    file.write_text("before\n")
    note_lengths(attempts[0], [str(file)])
    file.write_text("before\nand of the run\n")
    note_lengths(attempts[0], [str(file)])
    (found,) = find_files([str(file)], *[str(attempts[0])] * 2)
    assert found.before == 7


@pytest.mark.parametrize("kept", [b"", b"[]", b'{"/m": 3}', b"\xff"])
def test_a_damaged_note_counts_as_none(
    tmp_path: Path, attempts: tuple[Path, Path], kept: bytes
) -> None:
    (attempts[0] / "files_before.json").write_bytes(kept)
    (tmp_path / "m.csv").write_text("x\n")
    (found,) = find_files([f"{tmp_path}/m.csv"], *map(str, attempts))
    assert (found.foreign, found.before) == (0, 0)


def test_so_many_files_and_no_more(tmp_path: Path, attempts: tuple[Path, Path]) -> None:
    for number in range(MOST_FILES + 5):
        (tmp_path / f"{number:03}.csv").write_text("x\n")
    assert len(find_files([f"{tmp_path}/*.csv"], *map(str, attempts))) == MOST_FILES
