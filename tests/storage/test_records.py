"""What is read from an attempt's directory, and what a damaged record is worth."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from autoexp_tui.engine.executor_port import BeginRecord, ExitRecord
from autoexp_tui.storage.attempt_records import (
    AttemptRecords,
    RecordCache,
    read_attempt,
)
from autoexp_tui.storage.processes import Identity
from autoexp_tui.testing.clock import ManualClock

from .disk_session import failing

PROCESS = asdict(
    Identity(host="n1", machine="m", boot="b", namespace="ns", pid=4711, started="123")
)
CLAIM: dict[str, object] = {"token": "abc", "executor_id": "abc.0", "nonce": "n"}
CLAIM |= {"claimed_at": 1.5, "process": PROCESS}
BEGAN = BeginRecord(
    run=0,
    began_at=2.5,
    executor_id="abc.0",
    host="n1",
    pid=4711,
    log_path="/log/slurm-abc.0.out",
    gpus=("0", "GPU-ab"),
)
ENDED = ExitRecord(run=0, ended_at=9.0, exit_code=0, signal=None)


def begin(run: int = 0, **more: object) -> dict[str, object]:
    return {
        "run": run,
        "began_at": 2.5,
        "executor_id": "abc.0",
        "process": PROCESS,
        "log_path": "/log/slurm-abc.0.out",
        "command_pid": 4713,
        "gpus": ["0", "GPU-ab"],
        "from_a_later_version": [1, 2],
        **more,
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


def test_what_lies_there_is_read(place: Path) -> None:
    assert read_attempt(str(place)) == AttemptRecords()
    records = write(place, claim=CLAIM, begin_0=begin())
    claim, run = records.claim, records.run
    assert claim is not None
    assert (claim.token, claim.executor_id, claim.claimed_at) == ("abc", "abc.0", 1.5)
    assert (claim.process.host, claim.process.pid) == ("n1", 4711)
    assert run is not None
    assert (run.began, run.command_pid, run.exited) == (BEGAN, 4713, None)
    (place / "cancel").touch()
    (place / ".exit.0.json.77.tmp").write_text("{")  # being written
    void = {"why": "cancelled", "message": "cancel file", "at": 3.0}
    records = write(place, void=void, task_n1={})
    assert records.void is not None
    assert (records.cancel_ordered, records.void.why) == (True, "cancelled")
    assert (records.damaged, records.task_files) == ((), ("task.n1.json",))


def test_the_newest_run_judges(place: Path) -> None:
    told = {"timed_out": True, "ending": "time limit", "note": "x", "asked": False}
    old = {"begin_9": begin(9), "exit_9": ended(9, exit_code=3, **told)}
    records = write(place, **old, begin_10=begin(10))
    assert records.run is not None
    assert (records.run.began.run, records.exited) == (10, None)
    records = write(place, begin_10="{")  # damaged: the one before it
    assert records.exited == replace(ENDED, run=9, exit_code=3, note="x", asked=False)
    assert records.run is not None
    assert (records.run.timed_out, records.run.ending) == (True, "time limit")
    assert records.damaged == ("begin.10.json",)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "null", "[]", "\x00" * 100, "{}"),
        *(json.dumps(ended(exit_code=code)) for code in ("0", True, None)),
        json.dumps(ended(signal=9)),
        json.dumps(ended(ended_at="now")),
        '{"ended_at": NaN, "exit_code": 0}',
    ],
)
def test_a_damaged_record_is_named_and_counts_as_missing(
    text: str, place: Path
) -> None:
    records = write(place, begin_0=begin(), exit_0=text)
    assert records.run is not None
    assert (records.exited, records.damaged) == (None, ("exit.0.json",))


# ------------------------------------------------------------- an end left elsewhere
def with_nonce(place: Path) -> dict[str, object]:
    """A begin record as the wrapper writes it, with its log beside `place`."""
    return begin(nonce="abcd", exit_copy=str(place.parent / "copy.json"))


COPY = json.dumps(ended(exit_code=3, nonce="abcd"))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (COPY, 3),
        (json.dumps(ended(nonce="of another")), None),
        ("[" * 9999, None),
    ],
)
def test_an_end_that_could_not_be_written_is_read_beside_the_output(
    text: str, code: int | None, place: Path
) -> None:
    cache = RecordCache(ManualClock().monotonic)
    (place.parent / "copy.json").write_text(text)
    assert write(place, claim=CLAIM, begin_0=with_nonce(place)).exited is None
    assert cache.read(str(place)).exited is None  # looked for only when asked
    fresh = cache.read(str(place), fresh=True).exited
    assert read_attempt(str(place), copies=True).exited == fresh
    assert (fresh.exit_code if fresh else None) == code
    write(place, exit_0=ended(nonce="abcd"))  # the record itself counts before it
    assert read_attempt(str(place), copies=True).exited == ENDED


def test_an_exit_record_without_its_runs_nonce_was_forged(place: Path) -> None:
    alone = write(place, claim=CLAIM, exit_0=ended())
    assert alone.exited is None
    assert alone.tampering.startswith("exit.0.json was removed, changed or")
    found = write(place, begin_0=with_nonce(place))
    assert (found.exited, found.forged) == (None, ("exit.0.json",))
    assert found.tampering.startswith("exit.0.json was removed, changed or")
    restored = ended(nonce="abcd", restored=["claim", "begin.0.json"])
    found = write(place, exit_0=restored)
    assert found.exited == ENDED
    assert found.tampering.startswith("claim, begin.0.json was removed, changed or")


# ----------------------------------------------------------------------- its cache
def test_what_did_not_change_is_not_read_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.mkdir()
    clock = ManualClock()
    cache = RecordCache(clock.monotonic)

    def look(times: int = 1, *, fresh: bool = False) -> bool:
        """Whether a run is seen."""
        for _ in range(times):
            found = cache.read(str(place), fresh=fresh)
            clock.advance(0.5)
        return found.run is not None

    age = os.stat(place).st_mtime_ns
    assert not look()
    write(place, begin_0=begin())
    os.utime(place, ns=(age, age))
    assert look()  # within one tick of the file's clock, and not missed
    look(10)
    with monkeypatch.context() as closed:
        closed.setattr(os, "listdir", failing())
        assert look(20)
    (place / "begin.0.json").unlink()
    assert not look(10)  # a change is seen at the next look
    age = os.stat(place).st_mtime_ns
    write(place, begin_0=begin())
    os.utime(place, ns=(age, age))
    assert not look()
    assert look(fresh=True)  # believes no age
