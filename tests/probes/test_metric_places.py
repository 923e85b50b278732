"""Which files of metrics there are, and how much of them is earlier."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.engine.ports import FoundFile, LogCursor, Search
from autoexp_tui.probes.log_reader import MOST_FILES, LogReader, note_lengths


def find_files(patterns: list[str], *attempts: str) -> list[FoundFile]:
    return [*LogReader().find(Search(tuple(patterns), *attempts))]


@pytest.fixture
def attempts(tmp_path: Path) -> list[str]:
    made = [tmp_path / "attempts" / number for number in "12"]
    for one in made:
        one.mkdir(parents=True)
    return list(map(str, made))


def test_paths_and_patterns_are_found_once(tmp_path: Path, attempts: list[str]) -> None:
    for name in ("b.csv", "a.csv", "m.jsonl"):
        (tmp_path / name).write_text("x")
    patterns = [f"{tmp_path}/{name}" for name in ("m.jsonl", "*.csv", "gone")]
    found = find_files([*patterns, patterns[0]], *attempts)
    named = [(Path(one.path).name, one.pattern) for one in found]
    assert named == [("m.jsonl", 0), ("a.csv", 1), ("b.csv", 1)]
    for number in range(MOST_FILES + 5):
        (tmp_path / f"{number:03}.csv").write_text("x\n")
    assert len(find_files([f"{tmp_path}/*.csv"], *attempts)) == MOST_FILES


def test_a_file_of_records_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    file, reader = tmp_path / "events.out.tfevents.1", LogReader()
    at, found = (
        LogCursor(
            job="a",
            attempt=1,
            run=0,
            path=str(file),
            offset=0,
            outlives=True,
            binary=True,
        ),
        b"",
    )
    for part in (b"\x18\0\n\0", b"\r\xff" * 9, b"\0end"):
        with file.open("ab") as target:
            target.write(part)
        chunk = reader.read(replace(at, offset=len(found)))
        assert chunk is not None
        assert (chunk.offset, chunk.midline) == (len(found), False)
        found += chunk.data
    assert found == file.read_bytes()
    assert reader.read(replace(at, offset=len(found))) is None


def test_earlier_parts_are_told_apart(tmp_path: Path, attempts: list[str]) -> None:
    file = tmp_path / "m.jsonl"
    places = [str(file)]
    file.write_text("of an earlier session\n")
    note_lengths(Path(attempts[0]), places)
    file.write_text(file.read_text() + "of the first attempt\n")
    note_lengths(Path(attempts[1]), places)
    file.write_text(file.read_text() + "of the second\n")
    note_lengths(Path(attempts[1]), places)  # sent again: its lengths stay
    found = find_files(places, *attempts)
    assert found == [FoundFile(str(file), 0, foreign=22, before=43, is_new=False)]
    file.write_text("x\n")  # written anew
    assert find_files(places, *attempts)[0].foreign == 0


def test_a_file_of_the_attempt_is_new(tmp_path: Path, attempts: list[str]) -> None:
    place = f"{tmp_path}/m.jsonl"
    note_lengths(Path(attempts[0]), [place])
    Path(place).write_text("x\n")
    assert find_files([place], *[attempts[0]] * 2) == [FoundFile(place)]
