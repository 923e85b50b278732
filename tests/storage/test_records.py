"""What is read from an attempt's directory, and what a damaged record is worth."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from autoexp_tui.engine.executor_port import BeginRecord, ExitRecord
from autoexp_tui.storage.attempt_records import (
    AttemptRecords,
    RecordCache,
    read_attempt,
)
from autoexp_tui.testing.clock import ManualClock

PROCESS = {
    "host": "n1",
    "machine": "m",
    "boot": "b",
    "namespace": "ns",
    "pid": 4711,
    "started": "123",
}
CLAIM = {
    "token": "abc",
    "executor_id": "abc.0",
    "nonce": "n",
    "claimed_at": 1.5,
    "process": PROCESS,
}


def begin(run: int = 0) -> dict[str, object]:
    return {
        "run": run,
        "began_at": 2.5,
        "executor_id": "abc.0",
        "process": PROCESS,
        "log_path": "/log/slurm-abc.0.out",
        "command_pid": 4713,
        "from_a_later_version": [1, 2],
    }


def ended(run: int = 0, **more: object) -> dict[str, object]:
    return {"run": run, "ended_at": 9.0, "exit_code": 0, "signal": None, **more}


def write(directory: Path, **records: object) -> AttemptRecords:
    """Records by name (`_` for `.`, without `.json`) as they are read back."""
    directory.mkdir(exist_ok=True)
    for name, record in records.items():
        file = "claim" if name == "claim" else name.replace("_", ".") + ".json"
        text = record if isinstance(record, str) else json.dumps(record)
        (directory / file).write_text(text)
    return read_attempt(str(directory))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "attempt"


def test_no_directory_means_no_records(place: Path) -> None:
    assert read_attempt(str(place)) == AttemptRecords()


def test_a_directory_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="symbolic links"):
        read_attempt(str(loop))


def test_a_claim_names_its_owner(place: Path) -> None:
    claim = write(place, claim=CLAIM).claim
    assert claim is not None
    assert (claim.token, claim.executor_id, claim.claimed_at) == ("abc", "abc.0", 1.5)
    assert (claim.process.host, claim.process.pid) == ("n1", 4711)


def test_a_begun_run_has_no_end_yet(place: Path) -> None:
    records = write(place, claim=CLAIM, begin_0=begin())
    assert records.run is not None
    assert records.run.began == BeginRecord(
        run=0,
        began_at=2.5,
        executor_id="abc.0",
        host="n1",
        pid=4711,
        log_path="/log/slurm-abc.0.out",
    )
    assert records.run.command_pid == 4713
    assert records.exited is None


def test_an_ended_run_has_its_exit(place: Path) -> None:
    noted = ended(timed_out=True, ending="time limit", note="command not found: x")
    records = write(place, begin_0=begin(), exit_0=noted)
    assert records.exited == ExitRecord(
        run=0, ended_at=9.0, exit_code=0, signal=None, note="command not found: x"
    )
    assert records.run is not None
    assert (records.run.timed_out, records.run.ending) == (True, "time limit")


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({"asked": True}, True),
        ({"asked": False}, False),
        ({}, None),  # of an earlier wrapper
        ({"asked": None}, None),
        ({"asked": "no"}, None),
    ],
)
def test_an_exit_tells_whether_the_command_was_asked_to_end(
    place: Path, more: dict[str, object], *, asked: bool | None
) -> None:
    records = write(place, begin_0=begin(), exit_0={**ended(), **more})
    assert records.exited is not None
    assert records.exited.asked is asked


def test_the_newest_run_judges(place: Path) -> None:
    records = write(
        place,
        begin_9=begin(9),
        exit_9=ended(9, exit_code=3),
        begin_10=begin(10),
    )
    assert records.run is not None
    assert records.run.began.run == 10
    assert records.exited is None


def test_an_end_without_a_begin_is_no_end(place: Path) -> None:
    assert write(place, claim=CLAIM, exit_0=ended()).exited is None


def test_other_marks_are_seen(place: Path) -> None:
    (place).mkdir()
    (place / "cancel").touch()
    records = write(
        place,
        void={"why": "cancelled", "message": "cancel file", "at": 3.0},
        duplicate_n2=CLAIM,
        task_n1={},
    )
    assert records.cancel_ordered
    assert records.void is not None
    assert records.void.why == "cancelled"
    assert records.duplicates == ("n2",)
    assert records.task_files == ("task.n1.json",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "\x00" * 100,
        "{}",
        json.dumps(ended(exit_code="0")),
        json.dumps(ended(exit_code=True)),
        json.dumps(ended(exit_code=None)),
        json.dumps(ended(signal=9)),
        json.dumps(ended(ended_at="now")),
        '{"ended_at": NaN, "exit_code": 0}',
        json.dumps(ended(padding="x" * 70_000)),
    ],
)
def test_a_damaged_record_is_named_and_counts_as_missing(
    text: str, place: Path
) -> None:
    records = write(place, begin_0=begin(), exit_0=text)
    assert records.run is not None
    assert records.exited is None
    assert records.damaged == ("exit.0.json",)


def test_a_damaged_begin_leaves_the_run_before_it(place: Path) -> None:
    records = write(place, begin_0=begin(), begin_1="{")
    assert records.run is not None
    assert records.run.began.run == 0
    assert records.damaged == ("begin.1.json",)


def test_what_is_being_written_is_not_looked_at(place: Path) -> None:
    write(place, begin_0=begin())
    (place / ".exit.0.json.77.tmp").write_text("{")
    assert read_attempt(str(place)).damaged == ()


class Cached:
    """A directory, its cache and a clock."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.clock = ManualClock()
        self.cache = RecordCache(self.clock.monotonic)

    def read(self, *, fresh: bool = False) -> AttemptRecords:
        return self.cache.read(str(self.place), fresh=fresh)

    def readings(self, looks: int) -> int:
        before = self.cache.readings
        for _ in range(looks):
            self.read()
            self.clock.advance(1.0)
        return self.cache.readings - before


@pytest.fixture
def cached(place: Path) -> Cached:
    place.mkdir()
    return Cached(place)


def test_what_did_not_change_is_not_read_again(cached: Cached) -> None:
    cached.readings(5)
    assert cached.readings(20) == 0


def test_a_new_record_is_seen_at_the_next_look(cached: Cached) -> None:
    cached.readings(5)
    write(cached.place, begin_0=begin())
    assert cached.read().run is not None


def test_a_change_within_one_tick_of_the_files_clock_is_not_missed(
    cached: Cached,
) -> None:
    age = os.stat(cached.place).st_mtime_ns
    cached.read()
    write(cached.place, begin_0=begin())
    os.utime(cached.place, ns=(age, age))
    cached.clock.advance(0.5)
    assert cached.read().run is not None


def test_a_fresh_look_believes_no_age(cached: Cached) -> None:
    cached.readings(5)
    age = os.stat(cached.place).st_mtime_ns
    write(cached.place, begin_0=begin())
    os.utime(cached.place, ns=(age, age))
    assert cached.read().run is None
    assert cached.read(fresh=True).run is not None


def noncy(place: Path) -> dict[str, object]:
    """A begin record as the wrapper writes it, with its log beside `place`."""
    more = {"log_path": str(place.parent / "log.out"), "nonce": "abcd"}
    return {**begin(), **more, "exit_copy": str(place.parent / "copy.json")}


def copied(place: Path, *, copies: bool = True) -> ExitRecord | None:
    write(place, claim=CLAIM, begin_0=noncy(place))
    return read_attempt(str(place), copies=copies).exited


def copy_text() -> str:
    return json.dumps(ended(exit_code=3, nonce="abcd"))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (copy_text(), 3),
        (json.dumps(ended(nonce="of another")), None),
        *((text, None) for text in ("{", "[]", "[" * 9999)),
    ],
)
def test_an_end_that_could_not_be_written_is_read_beside_the_output(
    text: str, code: int | None, place: Path
) -> None:
    (place.parent / "copy.json").write_text(text)
    found = copied(place)
    assert (found.exit_code if found else None) == code


def test_copies_are_looked_for_only_when_asked(place: Path) -> None:
    (place.parent / "copy.json").write_text(copy_text())
    assert copied(place, copies=False) is None


def test_the_record_itself_counts_before_its_copies(place: Path) -> None:
    (place.parent / "copy.json").write_text(copy_text())
    write(place, exit_0=ended(exit_code=0, nonce="abcd"))
    found = copied(place)
    assert found is not None
    assert found.exit_code == 0


def test_a_fresh_look_of_a_cache_takes_a_copy(place: Path) -> None:
    cache = RecordCache(ManualClock().monotonic)
    write(place, claim=CLAIM, begin_0=noncy(place))
    assert cache.read(str(place)).exited is None
    (place.parent / "copy.json").write_text(copy_text())
    assert cache.read(str(place), fresh=True).exited is not None


def test_an_exit_record_without_its_runs_nonce_was_forged(place: Path) -> None:
    found = write(place, claim=CLAIM, begin_0=noncy(place), exit_0=ended())
    assert found.exited is None
    assert found.forged == ("exit.0.json",)
    assert "was not written by its supervisor" in found.tampering


def test_an_exit_record_without_a_begin_record_is_told(place: Path) -> None:
    found = write(place, claim=CLAIM, exit_0=ended())
    assert "its begin record is not" in found.tampering


def test_records_that_were_put_right_are_told(place: Path) -> None:
    end = ended(nonce="abcd", restored=["claim", "begin.0.json"])
    found = write(place, claim=CLAIM, begin_0=noncy(place), exit_0=end)
    assert found.exited is not None
    assert found.tampering.startswith("claim, begin.0.json was removed, changed or")
