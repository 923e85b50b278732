"""The log in the cockpit: its end, its past, its errors."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.cockpit.render import questions
from autoexp_tui.cockpit.widgets.log_pane import LogPane
from autoexp_tui.model.snapshot import Snapshot
from tests.cockpit.seat import Seat, cockpit
from tests.support.campaigns import campaign
from tests.support.scripted_handle import with_job


def with_log(path: Path) -> Snapshot:
    """A session whose first job writes to `path`."""
    base = campaign(31)
    first = base.jobs[0]
    attempt = replace(first.attempts[0], log_path=str(path))
    return with_job(base, first.name, attempts=(attempt,))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "slurm-1.out"
    path.write_text("".join(f"iteration {n}/5000 | loss 2.5\n" for n in range(5000)))
    return path


def write(path: Path, text: str) -> None:
    path.write_text(text)


def same(first: Path, second: Path) -> bool:
    return first.read_bytes() == second.read_bytes()


async def shows(seat: Seat, text: str) -> None:
    await seat.until(lambda: text in seat.pane("log"))


async def test_the_end_is_followed_until_somebody_scrolls_up(log: Path) -> None:
    async def grow(line: str) -> None:
        with log.open("a") as more:
            more.write(f"{line}\n")
        seat.jobs.logs.look()
        await seat.until(lambda: seat.app.context.background.is_idle)

    async with cockpit(with_log(log)) as seat:
        await shows(seat, "iteration 4999/5000")
        seat.check(log="at the end|-- end of log|exit 0 --")
        await grow("one more line")
        await shows(seat, "one more line")
        await seat.press("0", "ctrl+u")
        await seat.until(lambda: "one more line" not in seat.pane("log"))
        await grow("the last line")
        seat.check(log="!the last line")
        await seat.press("f")
        await shows(seat, "the last line")


async def test_a_search_finds_upwards_and_marks_the_line(log: Path) -> None:
    async with cockpit(with_log(log)) as seat:
        await shows(seat, "iteration 4999/5000")
        await seat.press("0", "slash")
        await seat.type("iteration 123/")
        await seat.press("enter")
        await shows(seat, "iteration 123/5000")
        await seat.press("y")
        assert "29 B sent to the clipboard" in seat.footer
        await seat.press("slash")
        await seat.type("nowhere")
        await seat.press("enter")
        await seat.until(lambda: "no further match" in seat.footer)


async def test_a_search_that_is_given_up_leaves_the_filter_alone(log: Path) -> None:
    async with cockpit(with_log(log)) as seat:
        await seat.press("slash")
        await seat.type("stable")
        await seat.press("enter", "0", "slash", "escape")
        assert seat.model.arrangement.filter is not None


async def test_a_pattern_that_is_refused_is_told_and_stays_to_be_mended(
    log: Path,
) -> None:
    async with cockpit(with_log(log)) as seat:
        await shows(seat, "iteration 4999/5000")
        await seat.press("0", "slash")
        await seat.type("(?=123/)")
        await seat.press("enter")
        assert "the pattern looks around itself" in seat.everything
        for _ in range(8):
            await seat.press("backspace")
        await seat.type("iteration 123/")
        await seat.press("enter")
        await shows(seat, "iteration 123/5000")
        assert "looks around itself" not in seat.everything


async def test_n_goes_on_from_what_is_seen_once_the_match_is_not(log: Path) -> None:
    async with cockpit(with_log(log)) as seat:
        await shows(seat, "iteration 4999/5000")
        await seat.press("0", "slash")
        await seat.type("iteration [0-9]*000/")
        await seat.press("enter")
        await shows(seat, "iteration 4000/5000")
        await seat.press("g")
        await shows(seat, "iteration 0/5000")
        await seat.press("n")
        await shows(seat, "iteration 1000/5000")
        await seat.press("G")
        await shows(seat, "iteration 4999/5000")
        await seat.press("N")
        await shows(seat, "iteration 4000/5000")


async def test_a_look_at_the_file_behind_a_long_search_does_not_undo_it(
    log: Path,
) -> None:
    async with cockpit(with_log(log)) as seat:
        await shows(seat, "iteration 4999/5000")
        await seat.press("0", "slash")
        await seat.type("iteration 1000/")
        pane = seat.app.screen.query_one("#log", LogPane)
        held = threading.Event()
        seat.app.run_worker(seat.app.context.background.fetch("held", held.wait))
        await seat.press("enter")
        pane.look()  # a second has passed, and the search goes on
        held.set()
        await seat.until(lambda: seat.app.context.background.is_idle)
        assert "iteration 1000/5000" in seat.pane("log")
        write(log, "".join(f"iteration {n}/5000 | loss 2.5\n" for n in range(5001)))
        await seat.press("G")
        await shows(seat, "iteration 5000/5000")


async def test_a_search_ends_with_the_log_that_it_is_in(log: Path) -> None:
    async with cockpit(with_log(log)) as seat:
        await shows(seat, "iteration 4999/5000")
        await seat.press("0", "slash")
        await seat.type("found nowhere")
        held = threading.Event()
        seat.app.run_worker(seat.app.context.background.fetch("held", held.wait))
        await seat.press("enter", "2", "j")  # another job, while it is searched
        held.set()
        await seat.until(lambda: seat.app.context.background.is_idle)
        await seat.press("0", "escape", "escape")
        assert seat.app.focused is not seat.jobs.logs


async def test_lines_wrap_on_request_and_a_match_among_them_is_in_view(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.log"
    write(path, "".join(f"{n} {'word ' * 200}tail\n" for n in range(60)))
    async with cockpit(with_log(path)) as seat:
        await shows(seat, "59 word")
        seat.check(log="!tail")
        await seat.press("0", "w")
        await shows(seat, "tail")
        await seat.press("slash")
        await seat.type("30 word")
        await seat.press("enter")
        await shows(seat, "\n30 word")


async def test_e_goes_from_error_to_error(log: Path) -> None:
    with log.open("a") as more:
        more.write("Traceback (most recent call last):\n" + "fine\n" * 60)
    async with cockpit(with_log(log)) as seat:
        await shows(seat, "fine")
        await seat.press("0", "E")
        await shows(seat, "Traceback")


async def test_a_log_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "late.out"
    async with cockpit(with_log(path)) as seat:
        await shows(seat, f"waiting for {path}"[:60])
        write(path, "here it is\n")
        seat.jobs.logs.look()
        await shows(seat, "here it is")


async def test_a_replaced_log_is_read_anew_and_told(log: Path) -> None:
    async with cockpit(with_log(log)) as seat:
        await shows(seat, "iteration 4999/5000")
        write(log, "a new run\n")
        seat.jobs.logs.look()
        await shows(seat, "a new run")
        assert "the log was replaced" in seat.footer


async def test_a_log_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    async with cockpit(with_log(tmp_path)) as seat:
        await shows(seat, "cannot read")


async def test_times_can_be_hidden(tmp_path: Path) -> None:
    path = tmp_path / "a.out"
    path.write_text(" [2026-03-14 08:41:00] iteration 7\n")
    async with cockpit(with_log(path)) as seat:
        await shows(seat, "2026-03-14 08:41:00")
        await seat.press("0", "t")
        assert "2026-03-14" not in seat.pane("log")
        assert "iteration 7" in seat.pane("log")


async def test_a_copy_is_saved_where_it_was_asked(log: Path, tmp_path: Path) -> None:
    target = tmp_path / "saved"
    target.mkdir()
    async with cockpit(with_log(log), save_directory=str(target)) as seat:
        await shows(seat, "iteration 4999/5000")
        await seat.press("0", "ctrl+s")
        await seat.until(lambda: f"saved 154 kB as {target}" in seat.footer)
        assert same(target / log.name, log)
        await seat.press("ctrl+s")
        await seat.until(lambda: "not saved" in seat.footer)


async def test_a_large_copy_is_asked_for_first(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "SAVES_UNASKED", 1000)
    target = tmp_path / "saved"
    target.mkdir()
    async with cockpit(with_log(log), save_directory=str(target)) as seat:
        await shows(seat, "iteration 4999/5000")
        await seat.press("0", "ctrl+s")
        assert "Write a copy of 154 kB?" in seat.dialog
        assert str(target) in seat.dialog
        await seat.hear()
        await seat.press("enter", "ctrl+s")
        assert not (target / log.name).exists()
        await seat.hear()
        await seat.press("y")
        await seat.until(lambda: "saved 154 kB" in seat.footer)
        assert same(target / log.name, log)


async def test_a_hostile_log_draws_nothing_but_text(tmp_path: Path) -> None:
    path = tmp_path / "a.out"
    path.write_bytes(b"\x1b[2J\x1b]52;c;eA==\x07[/red] \x9b31m caf\xe9\n")
    async with cockpit(with_log(path)) as seat:
        await shows(seat, "[/red]")
        assert "\x1b" not in seat.pane("log")


async def test_a_job_that_has_not_begun_has_no_log_to_save(log: Path) -> None:
    async with cockpit(with_log(log)) as seat:
        waiting = next(j for j in seat.model.session.jobs if j.attempt is None)
        seat.jobs.show_job(waiting)
        await shows(seat, "no log: this job has not begun")
        await seat.press("0", "ctrl+s")
        seat.check(footer="no log to save")
        await seat.press("o")
        seat.check(footer="no log yet")


async def test_a_job_that_never_ran_is_not_waited_for(log: Path) -> None:
    base = with_log(log)
    first = base.jobs[0]
    unborn = replace(first.attempts[0], began_at=None, log_path="")
    async with cockpit(with_job(base, first.name, attempts=(unborn,))) as seat:
        await shows(seat, "no log: nothing was started")


# ------------------------------------------------------------------------- attempts
def tried_again(places: list[Path]) -> Snapshot:
    """The first job has had an attempt for each of these logs."""
    base = campaign(31)
    first = base.jobs[0]
    attempts = tuple(
        replace(first.attempts[0], number=number, log_path=str(place))
        for number, place in enumerate(places, 1)
    )
    return with_job(base, first.name, attempts=attempts)


@pytest.fixture
def places(tmp_path: Path) -> list[Path]:
    found = [tmp_path / f"slurm-{number}.out" for number in (1, 2, 3)]
    for number, place in enumerate(found, 1):
        place.write_text(f"this is attempt {number}\n")
    return found


async def test_the_newest_attempt_s_log_comes_first_and_earlier_ones_are_a_key_away(
    places: list[Path],
) -> None:
    async with cockpit(tried_again(places)) as seat:
        await shows(seat, "this is attempt 3")
        assert "attempt 3 of 3" in seat.pane("log")
        await seat.press("0", "less_than_sign")
        await shows(seat, "this is attempt 2")
        assert "-- end of log" in seat.pane("log")
        await seat.press("less_than_sign", "less_than_sign")
        await shows(seat, "this is attempt 1")
        assert "no earlier attempt" in seat.footer
        await seat.press("greater_than_sign", "greater_than_sign")
        await shows(seat, "this is attempt 3")


async def test_who_follows_goes_on_with_the_next_attempt_and_who_reads_stays(
    places: list[Path],
) -> None:
    async with cockpit(tried_again(places[:1])) as seat:
        await shows(seat, "this is attempt 1")
        await seat.push(tried_again(places[:2]))
        await shows(seat, "this is attempt 2")
        await seat.press("0", "less_than_sign")
        await shows(seat, "this is attempt 1")
        await seat.push(tried_again(places))
        await shows(seat, "attempt 1 of 3")
        seat.check(log="this is attempt 1", jobs="done #3")


async def test_where_stderr_is_is_said_and_the_log_stays(log: Path) -> None:
    async with cockpit(with_log(log)) as seat:
        await shows(seat, "iteration 4999/5000")
        await seat.press("0", "o")
        assert "stdout and stderr are both in this file" in seat.footer
        assert "iteration 4999/5000" in seat.pane("log")
