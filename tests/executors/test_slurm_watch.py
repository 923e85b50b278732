"""When the controller is asked, and what of its answers is believed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from autoexp_tui.executors.slurm.commands import Ran
from autoexp_tui.executors.slurm.text import ClusterFacts
from autoexp_tui.executors.slurm.watch import QueueWatch, Rhythm
from autoexp_tui.testing.clock import ManualClock
from tests.executors.slurm_scripted import ACCOUNT_HEADING, queue_answer

ROW = "7|7|RUNNING|None|n1|main|5|1|a-tok\n"
ACCOUNT = "7|7|COMPLETED|0:0|1|5|8|n1|a-tok\n"
CONFIG = "AccountingStorageType = accounting_storage/slurmdbd\nMinJobAge = 5 sec\n"


class Says:
    """`Commands` that answer what they are told to, by program."""

    def __init__(self, **texts: str) -> None:
        self.calls: Counter[str] = Counter()
        self.texts = {"scontrol": CONFIG, "sacct": "", "squeue": ""} | texts
        self.stderr: dict[str, str] = {}
        """Programs that fail, and with which words."""
        self.silent: set[str] = set()
        self.missing: set[str] = set()
        self.meanwhile: Callable[[], None] | None = None
        """What happens while an answer is on its way."""

    def run(self, arguments: Sequence[str], timeout: float) -> Ran:
        words = tuple(arguments)
        self.calls[words[0]] += 1
        if words[0] in self.missing:
            return Ran(arguments=words, status=None, missing=f"{words[0]}: not here")
        if words[0] in self.silent:
            return Ran(arguments=words, status=None)
        if words[0] in self.stderr:
            return Ran(arguments=words, status=1, stderr=self.stderr[words[0]])
        text = self.texts[words[0]]
        if words[0] == "squeue":
            text = queue_answer(text)
        elif words[0] == "sacct":
            text = ACCOUNT_HEADING + text
        answer = Ran(arguments=words, status=0, stdout=text)
        if self.meanwhile:
            self.meanwhile()
        return answer


class Watched:
    """A watch over such commands, on a manual clock."""

    def __init__(self, **texts: str) -> None:
        self.clock = ManualClock()
        self.says = Says(**texts)
        self.watch = QueueWatch(
            commands=self.says,
            monotonic=self.clock.monotonic,
            ask_seconds=30.0,
            user="ann",
        )


def asked_at(
    rhythm: Rhythm, seconds: float, moves: Sequence[float] = ()
) -> list[float]:
    """When a poll a second asks; `moves`: when the answers begin to differ."""
    times: list[float] = []
    for now in range(int(seconds)):
        if rhythm.is_due(float(now)):
            moved = any((times or [-1.0])[-1] < at <= now for at in moves)
            rhythm.note_question(float(now), moved=moved or not times)
            times.append(float(now))
    return times


def test_questions_come_every_15_seconds_and_slower_to_60_while_nothing_moves() -> None:
    assert asked_at(Rhythm(), 260) == [0, 15, 38, 72, 123, 183, 243]


def test_questions_are_quick_again_after_something_has_moved() -> None:
    times = asked_at(Rhythm(), 260, moves=[100])
    assert 123.0 in times
    assert 138.0 in times


def test_one_hurry_is_one_question() -> None:
    rhythm = Rhythm()
    rhythm.hurried = True
    rhythm.note_question(0.0, moved=True)
    assert not rhythm.is_due(14.0)


def test_while_something_is_to_come_questions_do_not_become_slower() -> None:
    rhythm, times = Rhythm(), []
    for now in range(100):
        if rhythm.is_due(float(now)):
            rhythm.note_question(float(now), moved=False)
            rhythm.wait = min(rhythm.wait, rhythm.first)
            times.append(now)
    assert times == [0, 15, 30, 45, 60, 75, 90]


def test_whoever_hurries_all_the_time_asks_every_three_seconds() -> None:
    rhythm, times = Rhythm(), []
    for tenth in range(600):
        rhythm.hurried = True
        if rhythm.is_due(tenth / 10):
            rhythm.note_question(tenth / 10, moved=True)
            times.append(tenth / 10)
    assert len(times) == 20


def test_a_controller_that_fails_is_asked_less_and_less() -> None:
    watched = Watched()
    watched.says.stderr["squeue"] = "slurm_load_jobs error: no"
    for _ in range(600):
        if watched.watch.rhythm.is_due(watched.clock.monotonic()):
            watched.watch.ask()
        watched.clock.advance(1)
    assert watched.says.calls["squeue"] <= 13


def test_what_the_queue_said_stays_when_it_does_not_answer() -> None:
    watched = Watched(squeue=ROW)
    watched.watch.ask()
    before = watched.watch.answered_at
    assert before == watched.clock.monotonic()
    watched.clock.advance(60)
    watched.says.silent.add("squeue")
    assert watched.watch.ask() is None
    assert "7" in watched.watch.rows
    assert watched.watch.answered_at == before
    assert watched.watch.error == "squeue did not answer within 30 s"


def test_an_answer_that_was_overtaken_by_a_later_one_s_is_no_news() -> None:
    watched = Watched(squeue=ROW)

    def later_answer() -> None:
        watched.says.meanwhile = None
        watched.clock.advance(1)
        watched.says.texts["squeue"] = ROW.replace("RUNNING", "COMPLETED")
        watched.watch.ask()

    watched.says.meanwhile = later_answer
    watched.watch.ask()
    row = watched.watch.rows.get("7")
    assert row is not None
    assert row.state.word == "COMPLETED"


def test_an_answer_ends_the_error() -> None:
    watched = Watched(squeue=ROW)
    watched.says.stderr["squeue"] = "slurm_load_jobs error: Socket timed out"
    watched.watch.ask()
    assert "Socket timed out" in watched.watch.error
    watched.says.stderr.clear()
    watched.watch.ask()
    assert watched.watch.error == ""


def test_a_program_that_is_missing_is_named() -> None:
    watched = Watched()
    watched.says.missing.add("squeue")
    assert watched.watch.ask() is None
    assert watched.watch.error == "squeue: not here"


def test_an_answer_that_cannot_be_read_is_no_answer() -> None:
    watched = Watched(squeue=ROW)
    watched.watch.ask()
    watched.says.texts["squeue"] = ROW.replace("7|7", "seven|7")
    assert watched.watch.ask() is None
    assert "7" in watched.watch.rows
    assert "squeue said" in watched.watch.error


@pytest.mark.parametrize(
    ("row", "account", "token", "job"),
    [
        (ROW.replace("7|7", "7_3|9"), "", "tok", "7"),
        ("", ACCOUNT, "tok", "7"),
        # Accounting alone shows what a killed controller has forgotten.
        ("", ACCOUNT.replace("COMPLETED", "PENDING"), "tok", ""),
        (ROW, "", "ok", ""),
        (ROW, "", "a", ""),
    ],
)
def test_a_submission_is_found_by_its_name_in_queue_or_accounting(
    row: str, account: str, token: str, job: str
) -> None:
    watched = Watched(squeue=row, sacct=account)
    watched.watch.ask()
    watched.watch.ask_accounts(0.0)
    assert watched.watch.find_job(token) == job


@pytest.mark.parametrize("how", ["by its configuration", "by its own words"])
def test_a_cluster_without_accounting_is_asked_for_it_once_at_most(how: str) -> None:
    watched = Watched()
    if how == "by its configuration":
        watched.says.texts["scontrol"] = "AccountingStorageType = (null)\n"
    watched.says.stderr["sacct"] = "Slurm accounting storage is disabled\n"
    assert all(watched.watch.ask_accounts(0.0) for _ in range(3))
    assert watched.says.calls["sacct"] <= 1


def test_accounting_that_is_down_is_no_answer() -> None:
    watched = Watched()
    watched.says.stderr["sacct"] = (
        "sacct: error: Problem talking to the database: Connection refused\n"
    )
    assert not watched.watch.ask_accounts(0.0)
    assert watched.watch.error.endswith("Connection refused")


def test_the_configuration_is_asked_for_once() -> None:
    watched = Watched()
    assert [watched.watch.load_facts().min_job_age for _ in range(3)] == [5.0] * 3
    assert watched.says.calls["scontrol"] == 1


def test_defaults_hold_until_the_configuration_is_known() -> None:
    watched = Watched()
    watched.says.silent.add("scontrol")
    assert watched.watch.load_facts() == ClusterFacts()
    watched.says.silent.clear()
    assert watched.watch.get_known_facts().min_job_age == 300.0
    assert watched.watch.load_facts().min_job_age == 5.0
