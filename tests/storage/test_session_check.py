"""What a check finds in a session, and that it changes nothing."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from autoexp_tui.events.events import MessageLogged
from autoexp_tui.model.errors import JournalDamaged, SessionOwned
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.journal import load_state, read_session
from autoexp_tui.storage.lease import take_lease
from autoexp_tui.storage.session_check import Flaw, check_session, repair_journal

from .disk_session import failing
from .whole_session import WholeSession, whole

Change = Callable[[WholeSession], object]


@pytest.fixture
def made(tmp_path: Path) -> WholeSession:
    return whole(tmp_path / "k7f2")


@pytest.fixture
def running(tmp_path: Path) -> WholeSession:
    """Its job runs, and its engine."""
    made = WholeSession(tmp_path / "k7f2")
    made.submit()
    made.begin()
    return made


def repair(made: WholeSession) -> None:
    salvage = check_session(made.session).salvage
    assert salvage is not None
    repair_journal(made.session, salvage, SystemClock())


def errors(made: WholeSession) -> list[Flaw]:
    flaws = check_session(made.session).flaws
    return [flaw for flaw in flaws if flaw.severity == "error"]


def require_only(made: WholeSession, severity: str, problem: str) -> Flaw:
    """What is found is one flaw, and this one."""
    (flaw,) = check_session(made.session).flaws
    assert flaw.severity == severity
    assert problem in flaw.problem
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


def attempt(made: WholeSession, name: str) -> Path:
    return made.session.get_attempt("a", 1) / name


def test_a_session_that_was_left_in_order_is_sound(made: WholeSession) -> None:
    (made.session.path / "state.2.json").write_bytes(b"of an older version")
    (made.session.path / "state.2.json").chmod(0o600)
    checked = check_session(made.session)
    assert (checked.flaws, checked.is_sound(), checked.engine) == ([], True, "")
    counts = (checked.parts, checked.records, checked.count_jobs())
    assert counts == (2, len(made.records), 1)
    assert load_state(made.session).state == made.state


# ------------------------------------------------------------------- the journal
def edit(epoch: int, change: Callable[[bytes], bytes]) -> Change:
    return lambda made: part(made, epoch).write_bytes(
        change(part(made, epoch).read_bytes())
    )


def flip(data: bytes) -> bytes:
    """A bit in a text."""
    at = data.index(b"loss")
    return data[:at] + bytes([data[at] ^ 0b1000]) + data[at + 1 :]


def mix(made: WholeSession, epoch: int, source: int) -> None:
    """A record of another engine, or the same one twice, in the midst of a part."""
    mine, others = (
        part(made, one).read_bytes().splitlines(keepends=True)
        for one in (epoch, source)
    )
    again = mine[1] if epoch == source else others[-1]
    part(made, epoch).write_bytes(b"".join([*mine[:2], again, *mine[2:]]))


def put_directory(made: WholeSession) -> None:
    part(made, 1).unlink()
    part(made, 1).mkdir()


def rewrite(old: bytes, new: bytes) -> Change:
    """Change a part as another program would, the lines' checks included."""

    def change(data: bytes) -> bytes:
        lines = data.replace(old, new).splitlines()
        bare = [line.rpartition(b',"crc":"')[0] for line in lines]
        return b"".join(
            b'%s,"crc":"%08x"}\n' % (line, zlib.crc32(line)) for line in bare
        )

    return edit(2, change)


FIRST, SECOND, LINE = "journal.1.jsonl", "journal.2.jsonl", "journal.2.jsonl, line"
OTHER_BYTES, NEXT = "not those that were written", "of epoch 1 stands where record"
DAMAGE: dict[str, tuple[Change, str, str]] = {
    "a bit in a text": (edit(2, flip), f"{LINE} 4", OTHER_BYTES),
    "a line twice": (lambda made: mix(made, 1, 1), FIRST, NEXT),
    "a block of zeros": (
        edit(1, lambda d: d[:300] + b"\0" * 64 + d[364:]),
        f"{FIRST}, line", OTHER_BYTES),
    "the writes of two engines": (lambda made: mix(made, 2, 1), SECOND, NEXT),
    "a truncated part": (edit(1, lambda d: d[:500]), FIRST, "bytes are missing"),
    "a missing part": (
        lambda made: part(made, 1).unlink(), SECOND, f"'{FIRST}', is missing"),
    "a directory": (put_directory, FIRST, "cannot read the journal"),
    "a record of a newer version": (
        rewrite(b'"v":1,"seq":9', b'"v":2,"seq":9'),
        LINE, "version 2; this program knows 1"),
    "an event of a newer version": (
        rewrite(b'"type":"MessageLogged"', b'"type":"JobTeleported"'),
        LINE, "unknown type of event 'JobTeleported'"),
    "a field of a newer version": (
        rewrite(b'"text":"loss', b'"mood":1,"text":"loss'),
        LINE, "mood: Unexpected keyword argument"),
    "a lost plan": (lambda made: made.session.plan.unlink(), "plan.json", "is gone"),
}  # fmt: skip
NEWER = [what for what in DAMAGE if "newer version" in what]


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_named_with_its_place(made: WholeSession, what: str) -> None:
    """And a repair goes on from the last commit that reads."""
    change, where, problem = DAMAGE[what]
    change(made)
    before = tree(made.session.path)
    flaw = errors(made)[0]
    assert where in flaw.where
    assert problem in flaw.problem
    assert ("newer autoexp-tui" in flaw.hint) == (what in NEWER)
    assert flaw.hint
    assert tree(made.session.path) == before  # a check changes nothing
    salvage = check_session(made.session).salvage
    if what in (*NEWER, "a lost plan"):  # is not repaired away
        assert salvage is None
    if salvage is None or what == "a directory":
        return
    with pytest.raises(JournalDamaged):
        load_state(made.session)
    repair(made)
    records = list(read_session(made.session))
    assert records[: salvage.records] == made.records[: salvage.records]
    assert records[-2:-1][0].event == MessageLogged(
        text=f"the journal was damaged: a person let it {salvage.describe()}",
        level="warning",
    )
    after = tree(made.session.path)
    assert {name: after[name] for name in before} == before


def test_a_newest_part_that_is_gone_is_an_error(made: WholeSession) -> None:
    made.session.journal.resolve().unlink()
    problem = "the part that it leads to is gone"
    assert [flaw.problem for flaw in errors(made)] == [problem]


def test_a_repair_says_what_it_leaves_out_and_the_next_engine_goes_on(
    made: WholeSession,
) -> None:
    edit(2, flip)(made)
    (flaw,) = errors(made)
    good = len(made.records) - 2
    assert f"go on after record {good}" in flaw.repair
    assert "leave out 2 lines" in flaw.repair
    lease = take_lease(made.session, SystemClock())
    with pytest.raises(SessionOwned):  # an engine lives
        repair(made)
    lease.release()
    repair(made)
    made.enter()
    made.write(MessageLogged(text="after"))
    texts = [getattr(record.event, "text", "") for record in read_session(made.session)]
    assert "loss 2.5" not in texts
    assert texts[-1] == "after"


# ------------------------------------------------------------------ what is beside it
def truncate(path: Path) -> None:
    path.write_bytes(b"\xff\0?" if "2" in path.name else b"")


def add(tail: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes() + tail)


def copy_first(path: Path) -> None:
    shutil.copytree(path.parent / "1", path)


def test_what_runs_is_sound_and_what_is_odd_about_its_job_is_told(
    running: WholeSession,
) -> None:
    checked = check_session(running.session)
    assert (checked.flaws, f"pid {os.getpid()}" in checked.engine) == ([], True)
    running.leave()
    owner = running.output / ".autoexp" / "owner.json"
    mine = owner.read_text()
    owner.write_text(mine.replace("k7f2", "b2bb"))
    require_only(running, "error", "session b2bb owns it")
    owner.write_text(mine)
    attempt(running, "begin.0.json").unlink()
    require_only(running, "warning", "no record that it began")


def test_records_that_do_not_read_or_of_another_hand_are_named(
    made: WholeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = attempt(made, "begin.0.json")
    begin = json.loads(begun.read_text())
    begun.write_text(json.dumps({**begin, "nonce": "abcd"}))
    (flaw,) = (one for one in errors(made) if one.where.endswith("exit.0.json"))
    assert "not written by the job's supervisor" in flaw.problem
    begun.write_bytes(b"\0\0\0")
    assert str(begun) in [flaw.where for flaw in errors(made)]

    monkeypatch.setattr(Path, "iterdir", failing(errno.EACCES))
    assert "Permission denied" in [
        flaw.problem.rpartition(": ")[2] for flaw in errors(made)
    ]


@pytest.mark.parametrize(
    ("name", "change", "severity", "problem"),
    [
        (SECOND, add(b"\0" * 4096), "note", "unfinished commit"),
        ("lease/1.json", truncate, "warning", "it does not read"),
        ("lease/1.json", Path.unlink, "error", "lease/1.json, is gone"),
        ("lease", shutil.rmtree, "error", "there is no directory of leases"),
        ("plan.json", lambda path: path.chmod(0o644), "warning", "mode 644"),
        ("attempts/a/1/exit.0.json", Path.unlink, "warning", "there is no exit record"),
        ("attempts/a/2", copy_first, "error", "an attempt of a never ordered"),
        ("attempts/b/1", os.makedirs, "error", "a job that the journal does not know"),
    ],
)
def test_what_is_odd_around_the_journal_is_told(
    made: WholeSession,
    name: str,
    change: Callable[[Path], object],
    severity: str,
    problem: str,
) -> None:
    change(made.session.path / name)
    require_only(made, severity, problem)
    assert check_session(made.session).is_sound() == (severity == "note")


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
    assert "copy" in require_only(made, "error", "read-only").hint
