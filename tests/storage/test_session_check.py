"""What a check finds in a session, and that it changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoexp_tui.events.events import MessageLogged
from autoexp_tui.model.errors import JournalDamaged, SessionOwned
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.journal import load_state, read_session
from autoexp_tui.storage.lease import take_lease
from autoexp_tui.storage.session_check import (
    Flaw,
    SessionReport,
    check_session,
    repair_journal,
)
from autoexp_tui.storage.session_dir import SessionDir

from .whole_session import WholeSession, whole

Change = Callable[[WholeSession], object]


@pytest.fixture
def made(tmp_path: Path) -> WholeSession:
    return whole(tmp_path / "k7f2")


def check(session: SessionDir) -> SessionReport:
    return check_session(session)


def repair(made: WholeSession) -> None:
    salvage = check(made.session).salvage
    assert salvage is not None
    repair_journal(made.session, salvage, SystemClock())


def found(made: WholeSession) -> list[Flaw]:
    return list(check(made.session).flaws)


def only(made: WholeSession) -> Flaw:
    (flaw,) = found(made)
    return flaw


def tree(path: Path) -> dict[str, str]:
    """Every file and what is in it."""
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file() and not file.is_symlink()
    }


def part(made: WholeSession, epoch: int) -> Path:
    return made.session.get_part(epoch)


def test_a_session_that_was_left_in_order_is_sound(made: WholeSession) -> None:
    checked = check(made.session)
    assert checked.flaws == []
    assert checked.is_sound()
    assert (checked.parts, checked.records, checked.count_jobs()) == (
        2,
        len(made.records),
        1,
    )


def test_a_session_that_an_engine_runs_is_sound(tmp_path: Path) -> None:
    made = WholeSession(tmp_path / "k7f2")
    made.submit()
    made.begin()
    checked = check(made.session)
    assert checked.flaws == []
    assert f"pid {os.getpid()}" in checked.engine


def test_a_state_that_an_older_version_kept_is_ignored(made: WholeSession) -> None:
    path = made.session.path / "state.2.json"
    path.write_bytes(b"no state")
    path.chmod(0o600)
    assert check(made.session).flaws == []
    assert load_state(made.session).state == made.state


def flip(path: Path, offset: int, bits: int = 0b1000) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= bits
    path.write_bytes(bytes(data))


def duplicate_line(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[1], *lines[2:]]))


def interleave(made: WholeSession) -> None:
    """A record of another engine in the midst of a part."""
    mine = part(made, 2).read_bytes().splitlines(keepends=True)
    theirs = part(made, 1).read_bytes().splitlines(keepends=True)
    part(made, 2).write_bytes(b"".join([mine[0], theirs[-1], *mine[1:]]))


def zero(path: Path, start: int, length: int) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:start] + b"\0" * length + data[start + length :])


def put_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def rewrite(made: WholeSession, old: bytes, new: bytes) -> None:
    """Change a part as another program would, the lines' checks included."""
    data = part(made, 2).read_bytes().replace(old, new)
    bare = [line.rpartition(b',"crc":"')[0] for line in data.splitlines()]
    part(made, 2).write_bytes(
        b"".join(b'%s,"crc":"%08x"}\n' % (line, zlib.crc32(line)) for line in bare)
    )


DAMAGE: dict[str, tuple[Change, str, str]] = {
    "a bit in a text": (
        lambda made: flip(part(made, 2), part(made, 2).read_bytes().index(b"loss")),
        "journal.2.jsonl, line 4",
        "not those that were written",
    ),
    "a line twice": (
        lambda made: duplicate_line(part(made, 1)),
        "journal.1.jsonl",
        "stands where record",
    ),
    "a block of zeros in the midst": (
        lambda made: zero(part(made, 1), 300, 64),
        "journal.1.jsonl, line",
        "not those that were written",
    ),
    "the writes of two engines": (
        interleave,
        "journal.2.jsonl",
        "of epoch 1 stands where record",
    ),
    "a truncated sealed part": (
        lambda made: os.truncate(part(made, 1), 500),
        "journal.1.jsonl",
        "bytes are missing",
    ),
    "an empty sealed part": (
        lambda made: os.truncate(part(made, 1), 0),
        "journal.1.jsonl",
        "bytes are missing after byte 0",
    ),
    "a missing part": (
        lambda made: part(made, 1).unlink(),
        "journal.2.jsonl",
        "'journal.1.jsonl', is missing",
    ),
    "CR LF": (
        lambda made: part(made, 2).write_bytes(
            part(made, 2).read_bytes().replace(b"\n", b"\r\n")
        ),
        "journal.2.jsonl, line 1",
        "ends in CR",
    ),
    "a byte-order mark": (
        lambda made: part(made, 2).write_bytes(
            b"\xef\xbb\xbf" + part(made, 2).read_bytes()
        ),
        "journal.2.jsonl, line 1",
        "byte-order mark",
    ),
    "a directory in its place": (
        lambda made: put_directory(part(made, 1)),
        "journal.1.jsonl",
        "cannot read the journal",
    ),
    "a record of a newer version amid older ones": (
        lambda made: rewrite(made, b'"v":1,"seq":9', b'"v":2,"seq":9'),
        "journal.2.jsonl, line",
        "version 2; this program knows 1",
    ),
    "an event of a newer version": (
        lambda made: rewrite(
            made, b'"type":"MessageLogged"', b'"type":"JobTeleported"'
        ),
        "journal.2.jsonl, line",
        "unknown type of event 'JobTeleported'",
    ),
    "a field of a newer version": (
        lambda made: rewrite(made, b'"text":"loss', b'"mood":1,"text":"loss'),
        "journal.2.jsonl, line",
        "mood: Unexpected keyword argument",
    ),
    "a lost plan": (lambda made: made.session.plan.unlink(), "plan.json", "is gone"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_named_with_its_place(made: WholeSession, what: str) -> None:
    change, where, problem = DAMAGE[what]
    change(made)
    before = tree(made.session.path)
    errors = [flaw for flaw in found(made) if flaw.severity == "error"]
    assert where in errors[0].where
    assert problem in errors[0].problem
    assert errors[0].hint
    assert tree(made.session.path) == before  # a check changes nothing


@pytest.mark.parametrize("goes", ["renamed", "deleted"])
def test_a_newest_part_that_is_gone_is_an_error(made: WholeSession, goes: str) -> None:
    part = made.session.journal.resolve()
    if goes == "renamed":
        part.rename(f"{part}.bak")
    else:
        part.unlink()
    flaws = [flaw for flaw in found(made) if flaw.severity == "error"]
    assert [flaw.problem for flaw in flaws] == ["the part that it leads to is gone"]


@pytest.mark.parametrize(
    ("epoch", "tail", "problem"),
    [
        (2, b"\0" * 4096, "torn line"),
        (2, b'{"v":1,"seq":99', "torn line"),
        (2, b"\0\0{", "torn line"),
        (1, b"late\n", "5 bytes that no later part counts"),
    ],
)
def test_torn_and_void_bytes_are_only_noted(
    made: WholeSession, epoch: int, tail: bytes, problem: str
) -> None:
    with part(made, epoch).open("ab") as file:
        file.write(tail)
    flaw = only(made)
    assert flaw.severity == "note"
    assert problem in flaw.problem
    assert check(made.session).is_sound()


MENDED_OTHERWISE = ("a lost plan", "a directory in its place")
NEWER = [what for what in DAMAGE if "newer version" in what]


@pytest.mark.parametrize("what", [*NEWER, "a lost plan"])
def test_what_a_newer_version_wrote_or_a_lost_plan_is_not_repaired_away(
    made: WholeSession, what: str
) -> None:
    DAMAGE[what][0](made)
    assert check(made.session).salvage is None
    assert ("newer autoexp-tui" in found(made)[0].hint) == (what in NEWER)


@pytest.mark.parametrize(
    "what", [what for what in DAMAGE if what not in (*MENDED_OTHERWISE, *NEWER)]
)
def test_a_repair_goes_on_from_the_last_commit_that_reads(
    made: WholeSession, what: str
) -> None:
    DAMAGE[what][0](made)
    before = tree(made.session.path)
    with pytest.raises(JournalDamaged):
        load_state(made.session)
    salvage = check(made.session).salvage
    if salvage is None:  # the very first commit is gone
        return
    repair(made)
    records = list(read_session(made.session))
    assert records[: salvage.records] == made.records[: salvage.records]
    assert records[-2:-1][0].event == MessageLogged(
        text=f"the journal was damaged: a person let it {salvage.describe()}",
        level="warning",
    )
    after = tree(made.session.path)
    assert {name: after[name] for name in before} == before


def test_a_repair_says_what_it_would_leave_out(made: WholeSession) -> None:
    flip(part(made, 2), part(made, 2).read_bytes().index(b"loss"))
    (flaw,) = (one for one in found(made) if one.severity == "error")
    good = len(made.records) - 2
    assert f"go on after record {good}" in flaw.repair
    assert "leave out 2 lines" in flaw.repair


def test_nothing_is_repaired_while_an_engine_lives(made: WholeSession) -> None:
    flip(part(made, 2), part(made, 2).read_bytes().index(b"loss"))
    take_lease(made.session, SystemClock())
    with pytest.raises(SessionOwned):
        repair(made)


def test_after_a_repair_the_next_engine_goes_on(made: WholeSession) -> None:
    flip(part(made, 2), part(made, 2).read_bytes().index(b"loss"))
    repair(made)
    made._take(first=False)
    made.write(MessageLogged(text="after"))
    texts = [getattr(record.event, "text", "") for record in read_session(made.session)]
    assert "loss 2.5" not in texts
    assert texts[-1] == "after"


@pytest.mark.parametrize(
    ("change", "severity", "problem"),
    [
        (WholeSession.record_exit, "note", "a ended, and no engine has recorded it"),
        (
            lambda made: (made.session.get_attempt("a", 1) / "begin.0.json").unlink(),
            "warning",
            "no record that it began",
        ),
    ],
    ids=["its end that nobody recorded", "its begin is gone"],
)
def test_what_is_odd_about_a_job_that_runs_is_told(
    tmp_path: Path, change: Change, severity: str, problem: str
) -> None:
    made = WholeSession(tmp_path / "k7f2")
    made.submit()
    made.begin()
    change(made)
    made.leave()
    flaw = only(made)
    assert flaw.severity == severity
    assert problem in flaw.problem


def test_records_that_may_not_be_read_are_an_error(
    made: WholeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = sorted(made.session.attempts.iterdir())[:1]
    real = Path.iterdir

    def refuse(path: Path) -> Iterator[Path]:
        if path == job:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert ("error", "Permission denied") in [
        (flaw.severity, flaw.problem.rpartition(": ")[2]) for flaw in found(made)
    ]


def test_a_record_that_does_not_read_is_named(made: WholeSession) -> None:
    (made.session.get_attempt("a", 1) / "begin.0.json").write_bytes(b"\0\0\0")
    named = [flaw.where for flaw in found(made)]
    assert str(made.session.get_attempt("a", 1) / "begin.0.json") in named


def test_an_exit_record_of_another_hand_is_named(made: WholeSession) -> None:
    place = made.session.get_attempt("a", 1)
    begin = json.loads((place / "begin.0.json").read_text())
    (place / "begin.0.json").write_text(json.dumps({**begin, "nonce": "abcd"}))
    [flaw] = [one for one in found(made) if one.where.endswith("exit.0.json")]
    assert "not written by the job's supervisor" in flaw.problem


def test_a_directory_that_another_session_owns_is_an_error(tmp_path: Path) -> None:
    made = WholeSession(tmp_path / "k7f2")
    made.submit()
    made.begin()
    made.leave()
    owner = made.output / ".autoexp" / "owner.json"
    owner.write_text(owner.read_text().replace("k7f2", "b2bb"))
    assert "session b2bb owns it" in only(made).problem


AROUND: dict[str, tuple[Change, str, str]] = {
    "an empty lease": (
        lambda made: (made.session.lease / "1.json").write_bytes(b""),
        "warning",
        "it does not read",
    ),
    "garbage in a lease": (
        lambda made: (made.session.lease / "2.json").write_bytes(b"\xff\0?"),
        "warning",
        "it does not read",
    ),
    "a lease that was removed": (
        lambda made: (made.session.lease / "1.json").unlink(),
        "error",
        "lease/1.json, is gone",
    ),
    "no directory of leases": (
        lambda made: shutil.rmtree(made.session.lease),
        "error",
        "there is no directory of leases",
    ),
    "a file that others may read": (
        lambda made: made.session.plan.chmod(0o644),
        "warning",
        "mode 644",
    ),
    "no exit record of a job that completed": (
        lambda made: (made.session.get_attempt("a", 1) / "exit.0.json").unlink(),
        "warning",
        "there is no exit record",
    ),
    "an attempt that the journal does not know": (
        lambda made: made.record_begin(2),
        "error",
        "an attempt of a never ordered",
    ),
    "records of an unknown job": (
        lambda made: (made.session.attempts / "b" / "1").mkdir(parents=True),
        "error",
        "a job that the journal does not know",
    ),
}


@pytest.mark.parametrize("what", AROUND)
def test_what_is_odd_around_the_journal_is_told(made: WholeSession, what: str) -> None:
    change, severity, problem = AROUND[what]
    change(made)
    flaw = only(made)
    assert flaw.severity == severity
    assert problem in flaw.problem


def test_a_disk_that_is_mounted_read_only_is_one_finding(
    made: WholeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, may = os.statvfs, os.access

    def read_only(path: Path) -> os.statvfs_result:
        fields = list(real(path))
        fields[8] |= os.ST_RDONLY
        return os.statvfs_result(fields)

    monkeypatch.setattr(os, "statvfs", read_only)
    monkeypatch.setattr(
        os, "access", lambda path, mode: not mode & os.W_OK and may(path, mode)
    )
    flaw = only(made)
    assert "read-only" in flaw.problem
    assert "copy" in flaw.hint
