"""The log in the cockpit: its end, its past, its errors."""

from __future__ import annotations

import filecmp
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.cockpit import logfile
from autoexp_tui.cockpit.logfile import Change, LogFile, compile_search, decode_line
from autoexp_tui.cockpit.widgets import log_pane
from autoexp_tui.model.snapshot import Snapshot
from tests.cockpit.seat import Seat, cockpit
from tests.support.campaigns import campaign
from tests.support.scripted_handle import with_job

END = "iteration 4999/5000"


def iterations(number: int = 5000) -> str:
    return "".join(f"iteration {n}/5000 | loss 2.5\n" for n in range(number))


def with_logs(*paths: Path) -> Snapshot:
    """A session whose first job had an attempt for each of these logs."""
    base = campaign(31)
    first = base.jobs[0]
    attempts = tuple(
        replace(first.attempts[0], number=number, log_path=str(path))
        for number, path in enumerate(paths, 1)
    )
    return with_job(base, first.name, attempts=attempts)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "slurm-1.out"
    path.write_text(iterations())
    return path


def write(path: Path, text: str, mode: str = "w") -> None:
    with path.open(mode) as file:
        file.write(text)


async def look(seat: Seat) -> None:
    seat.jobs.logs.look()
    await seat.idle()


async def test_the_end_is_followed_until_somebody_scrolls_up(log: Path) -> None:
    async with cockpit(with_logs(log)) as seat:
        await seat.see(log=f"{END}|at the end|-- end of log|exit 0 --")
        write(log, "one more line\n", "a")
        await look(seat)
        await seat.see(log="one more line")
        await seat.see("0 ctrl+u", log="!one more line")
        write(log, "the last line\n", "a")
        await look(seat)
        seat.check(log="!the last line")
        await seat.see("f", log="the last line")
        write(log, "a new run\n")
        await look(seat)
        await seat.see(log="a new run", footer="the log was replaced")


async def test_a_search_finds_upwards_and_marks_the_line(log: Path) -> None:
    async with cockpit(with_logs(log)) as seat:
        await seat.see("slash 'stable enter 0", log=END)
        await seat.press("slash", "escape")
        assert (
            seat.model.arrangement.filter is not None
        )  # a search given up is no filter
        await seat.see("slash 'iteration~123/ enter", log="iteration 123/5000")
        await seat.see("y", footer="29 B sent to the clipboard")
        await seat.see("slash 'nowhere enter", footer="no further match")


async def test_a_pattern_that_is_refused_is_told_and_stays_to_be_mended(
    log: Path,
) -> None:
    async with cockpit(with_logs(log)) as seat:
        await seat.see("0 slash '(?=123/) enter", log=END)
        assert "the pattern looks around itself" in seat.everything
        await seat.play("backspace " * 8 + "'iteration~123/ enter")
        await seat.see(log="iteration 123/5000")
        assert "looks around itself" not in seat.everything


async def test_n_goes_on_from_what_is_seen_and_e_to_an_error(log: Path) -> None:
    async with cockpit(with_logs(log)) as seat:
        await seat.see("0", log=END)
        await seat.see("slash 'iteration~[0-9]*000/ enter", log="iteration 4000/5000")
        await seat.see("g", log="iteration 0/5000")
        await seat.see("n", log="iteration 1000/5000")
        await seat.see("G", log=END)
        await seat.see("N", log="iteration 4000/5000")
        write(log, "Traceback (most recent call last):\n" + "fine\n" * 60, "a")
        await look(seat)
        await seat.see("G", log="fine|!Traceback")
        await seat.see("E", log="Traceback")


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_long_search_is_not_undone_but_by_who_leaves_its_log(
    log: Path, leaves: bool
) -> None:
    async with cockpit(with_logs(log)) as seat:
        await seat.see("0 slash", log=END)
        await seat.type("found nowhere" if leaves else "iteration 1000/")
        held = threading.Event()
        seat.app.run_worker(seat.app.context.background.fetch("held", held.wait))
        await seat.press("enter")
        if leaves:
            await seat.press("2", "j")  # another job, while it is searched
        else:
            seat.jobs.logs.look()  # a second has passed, and the search goes on
        held.set()
        await seat.idle()
        if leaves:
            await seat.press("0", "escape", "escape")
            assert seat.app.focused is not seat.jobs.logs
        else:
            seat.check(log="iteration 1000/5000")
            write(log, iterations(5001))
            await seat.see("G", log="iteration 5000/5000")


async def test_lines_wrap_on_request_and_a_match_among_them_is_in_view(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.log"
    write(path, "".join(f"{n} {'word ' * 200}tail\n" for n in range(60)))
    async with cockpit(with_logs(path)) as seat:
        await seat.see(log="59 word|!tail")
        await seat.see("0 w", log="tail")
        await seat.see("slash '30~word enter", log="\n30 word")


async def test_a_log_that_is_not_there_is_waited_for_or_says_why(
    tmp_path: Path, log: Path
) -> None:
    path = tmp_path / "late.out"
    async with cockpit(with_logs(path)) as seat:
        await seat.see(log=f"waiting for {path}"[:60])
        write(path, "here it is\n")
        await look(seat)
        await seat.see(log="here it is")
    async with cockpit(with_logs(tmp_path)) as seat:
        await seat.see(log="cannot read")
    base = with_logs(log)
    unborn = replace(base.jobs[0].attempts[0], began_at=None, log_path="")
    async with cockpit(with_job(base, base.jobs[0].name, attempts=(unborn,))) as seat:
        await seat.see(log="no log: nothing was started")
        waiting = next(job for job in seat.model.session.jobs if job.attempt is None)
        seat.jobs.show_job(waiting)
        await seat.see(log="no log: this job has not begun")
        await seat.see("0 ctrl+s", footer="no log to save")
        await seat.see("o", footer="no log yet")


async def test_a_hostile_log_draws_nothing_but_text_and_times_can_be_hidden(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.out"
    hostile = b"\x1b[2J\x1b]52;c;eA==\x07[/red] \x9b31m caf\xe9\n"
    path.write_bytes(hostile + b" [2026-03-14 08:41:00] iteration 7\n")
    async with cockpit(with_logs(path)) as seat:
        await seat.see(log="[/red]|2026-03-14 08:41:00|!\x1b")
        await seat.see("0 t", log="!2026-03-14|iteration 7")


async def test_a_copy_is_saved_unless_one_is_there_or_it_is_too_large(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "saved"
    target.mkdir()
    async with cockpit(with_logs(log), save_directory=str(target)) as seat:
        await seat.see("0 ctrl+s", log=END, footer=f"saved 154 kB as {target}")
        assert filecmp.cmp(target / log.name, log, shallow=False)
        await seat.see("ctrl+s", footer="not saved")
        monkeypatch.setattr(log_pane, "MOST_SAVED", 1000)
        await seat.see("ctrl+s", footer=f"154 kB is too much to copy: {log}")


async def test_earlier_attempts_are_a_key_away_and_who_reads_one_stays(
    tmp_path: Path,
) -> None:
    logs = [tmp_path / f"slurm-{number}.out" for number in (1, 2, 3)]
    for number, path in enumerate(logs, 1):
        write(path, f"this is attempt {number}\n")
    async with cockpit(with_logs(logs[0])) as seat:
        await seat.see(log="this is attempt 1")
        await seat.push(with_logs(*logs[:2]))
        await seat.see(log="this is attempt 2|attempt 2 of 2")
        await seat.see("0 less_than_sign", log="this is attempt 1|-- end of log")
        await seat.push(with_logs(*logs))
        await seat.see(log="attempt 1 of 3|this is attempt 1", jobs="done #3")
        await seat.see("less_than_sign", footer="no earlier attempt")
        seat.check(log="this is attempt 1")
        await seat.see("greater_than_sign greater_than_sign", log="this is attempt 3")
        await seat.see("o", footer="stdout and stderr are both in this file")
        seat.check(log="this is attempt 3")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.log"


def opened(path: Path, data: bytes | None = None) -> LogFile:
    if data is not None:
        path.write_bytes(data)
    file = LogFile(str(path))
    file.poll()
    return file


def grow(file: LogFile, data: bytes) -> Change:
    with Path(file.path).open("ab") as more:
        more.write(data)
    return file.poll()


def texts(lines: list[logfile.LogLine]) -> list[str]:
    return [line.text for line in lines]


@pytest.fixture
def long_log(path: Path) -> LogFile:
    return opened(path, b"".join(b"line %d\n" % n for n in range(100_000)))


@pytest.mark.parametrize(
    ("offset", "lines", "count", "first"),
    [
        (10**9, 0, 3, 99_997),
        (10**9, -200_000, 2, 0),
        (1_088_870, -20, 20, 99_978),
        (0, 0, 2, 0),
        (500_000, 0, 1, 46_464),
        (0, 10**6, 20, 99_980),
    ],
)
def test_a_page_is_read_around_any_place(
    long_log: LogFile, offset: int, lines: int, count: int, first: int
) -> None:
    found = texts(long_log.read_around(offset, lines, count))
    assert found == [f"line {number}" for number in range(first, first + count)]


@pytest.mark.parametrize("how", ["truncated", "rotated", "pointed elsewhere"])
def test_another_file_at_the_place_begins_anew(path: Path, how: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    file = opened(path, b"old\n" * 100)
    file.read_last(3)
    if how == "rotated":
        path.rename(f"{path}.1")
    elif how == "pointed elsewhere":
        path.unlink()
        path.symlink_to("b.log")
    path.write_text("new\n" if how == "truncated" else "and longer\n" * 100 + "new\n")
    assert file.poll() is Change.REPLACED
    assert texts(file.read_last(1)) == ["new"]
    assert "old" not in texts(file.read_around(0, 0, 200))
    assert grow(file, b"here\n") is Change.GREW
    assert texts(file.read_last(2)) == ["new", "here"]
    path.unlink()
    assert file.poll() is Change.MISSING
    file.close()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"10 %\r50 %\r100 %\r\n", "100 %"),
        (b"one\r\n", "one"),
        (b"caf\xe9\n", "caf\ufffd"),
        (b"\x1b[31mred\x1b[0m\x1b]52;c;eA==\x07\x1b[2J", "red"),
        (b"x" * 100_000, "x" * (logfile.SHOWN - 1) + "…"),
    ],
)
def test_a_line_is_told_as_safe_text(raw: bytes, text: str) -> None:
    assert decode_line(raw) == text


STATE = st.text("abc", min_size=1, max_size=6)
BAR = st.lists(STATE, min_size=1, max_size=12).map(lambda all_: "\r" + "\r".join(all_))
SHORT = st.text("xyz", max_size=7)


@settings(max_examples=80, deadline=None)
@given(st.lists(BAR | SHORT, min_size=2, max_size=6), st.integers(1, 20), st.booleans())
def test_bars_are_one_line_each_however_they_come_and_however_they_are_read(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], piece: int, grows: bool
) -> None:
    path = tmp_path_factory.mktemp("log") / "a.log"
    data = ("\n".join(lines) + "\nend").encode()
    with pytest.MonkeyPatch.context() as small:
        for name, size in (("CHUNK", 16), ("LONGEST", 8)):
            small.setattr(logfile, name, size)
        file = opened(path, b"" if grows else data)
        for start in range(0, len(data) if grows else 0, piece):
            grow(file, data[start : start + piece])
            file.read_last(99)
        found = texts(file.read_last(99))
        assert texts(file.read_around(0, 0, 99)) == found
    assert found == [decode_line(line.encode()) for line in [*lines, "end"]]


def test_an_endless_bar_is_not_read_to_its_beginning(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    real = os.pread

    def pread(handle: int, number: int, offset: int) -> bytes:
        counts.append(number)
        return real(handle, number, offset)

    monkeypatch.setattr(logfile, "MOST", logfile.CHUNK)
    bar = b"".join(b"\r" + b"step %07d " % n + b"#" * 70 for n in range(20_000))
    file = opened(path, b"before\n" + bar)
    monkeypatch.setattr(os, "pread", pread)
    assert texts(file.read_last(5))[-1].startswith("step 0019999 ")
    assert sum(counts) <= path.stat().st_size // 4


def test_a_match_is_found_across_chunks_then_another_one_and_a_search_can_be_stopped(
    long_log: LogFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "SEARCH_CHUNK", 4096)
    for text, start in ((r"line 4711\b", long_log.size), ("line 77777", 0)):
        place = long_log.find_match(compile_search(text), start, forward=not start)
        assert place is not None
        assert long_log.read_around(place, 0, 1)[0].text == text.removesuffix(r"\b")
    assert long_log.find_match(compile_search("nowhere"), 0, forward=True) is None
    pattern = compile_search("99$")
    first = long_log.find_match(pattern, 0, forward=True)
    assert first is not None
    second = long_log.find_match(pattern, first, forward=True)
    assert second is not None
    assert second > first
    assert long_log.find_match(pattern, 0, forward=True, stopped=lambda: True) is None


@pytest.mark.parametrize(
    ("data", "pattern", "place"),
    [
        (b"step 5\n\rstep 5\rstep 6\nend\n", "step 5", 0),
        (b"step 5\n\rstep 5\rstep 6\nend\n", "step 6", 7),
        (b"one\nlo\xffss 3\r\n", "lo.ss 3$", 4),
        (b"xERROR", "error", 0),
        (b"error", "Error", None),
    ],
)
def test_a_search_finds_what_is_shown(
    path: Path, data: bytes, pattern: str, place: int | None
) -> None:
    file = opened(path, data)
    assert file.find_match(compile_search(pattern), file.size, forward=False) == place


def test_a_hostile_log_is_searched_in_time_that_grows_with_it(path: Path) -> None:
    file = opened(path, (b"a" * 200 + b"! ") * 500)
    assert file.find_match(compile_search(r"(?:\w+\s?)+: zzz"), 0, forward=True) is None
