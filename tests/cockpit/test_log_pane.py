"""The log in the cockpit: its end, its past, its errors."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.cockpit.render import questions
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


def is_same(first: Path, second: Path) -> bool:
    return first.read_bytes() == second.read_bytes()


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


async def test_n_goes_on_from_what_is_seen_once_the_match_is_not(log: Path) -> None:
    async with cockpit(with_logs(log)) as seat:
        await seat.see("0", log=END)
        await seat.see("slash 'iteration~[0-9]*000/ enter", log="iteration 4000/5000")
        await seat.see("g", log="iteration 0/5000")
        await seat.see("n", log="iteration 1000/5000")
        await seat.see("G", log=END)
        await seat.see("N", log="iteration 4000/5000")


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


async def test_e_goes_from_error_to_error(log: Path) -> None:
    write(log, "Traceback (most recent call last):\n" + "fine\n" * 60, "a")
    async with cockpit(with_logs(log)) as seat:
        await seat.see(log="fine")
        await seat.see("0 E", log="Traceback")


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


async def test_a_copy_is_saved_where_it_was_asked_a_large_one_after_asking(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "saved"
    copy = target / log.name
    target.mkdir()
    async with cockpit(with_logs(log), save_directory=str(target)) as seat:
        await seat.see("0 ctrl+s", log=END, footer=f"saved 154 kB as {target}")
        assert is_same(copy, log)
        await seat.see("ctrl+s", footer="not saved")
        copy.unlink()
        monkeypatch.setattr(questions, "SAVES_UNASKED", 1000)
        asked = f"Write a copy of 154 kB?|{target}"
        await seat.see("ctrl+s", dialog=asked)
        await seat.see("hear enter ctrl+s", dialog=asked)
        assert not copy.exists()
        await seat.see("hear y", footer="saved 154 kB")
        assert is_same(copy, log)


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
