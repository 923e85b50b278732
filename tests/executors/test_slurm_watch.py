"""When the controller is asked, and what of its answers is believed."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from autoexp_tui.executors.slurm.commands import Ran
from autoexp_tui.executors.slurm.text import ClusterFacts
from autoexp_tui.executors.slurm.watch import QueueWatch, Rhythm
from autoexp_tui.testing.clock import ManualClock
from tests.executors.slurm_scripted import (
    ACCOUNT_HEADING,
    SILENT,
    Answer,
    ScriptedCommands,
    fails,
    queue,
    says,
)

ROW = "7|7|RUNNING|None|n1|main|5|1|a-tok\n"
ACCOUNT = "7|7|COMPLETED|0:0|1|5|8|n1|a-tok\n"
CONFIG = "AccountingStorageType = accounting_storage/slurmdbd\nMinJobAge = 5 sec\n"


class Watched:
    def __init__(self, **answers: Answer) -> None:
        self.clock = ManualClock()
        quiet = {"scontrol": says(CONFIG), "sacct": says(ACCOUNT_HEADING)}
        self.says = ScriptedCommands({"squeue": queue(ROW), **quiet, **answers})
        self.watch = QueueWatch(
            commands=self.says,
            monotonic=self.clock.monotonic,
            ask_seconds=30.0,
            user="ann",
        )


def test_our_jobs_are_asked_for_by_number_whatever_logname_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOGNAME", "somebody-else")
    watch = QueueWatch(ScriptedCommands({}), lambda: 0.0, ask_seconds=1.0)
    assert watch.user == str(os.getuid())


def asked_at(
    rhythm: Rhythm,
    seconds: int,
    moves: Sequence[float] = (),
    *,
    wait: float = 60.0,
    hurried: bool = False,
) -> list[float]:
    """When polls ten times a second ask; `moves`: when the answers begin to differ.

    `wait`: that nobody waits longer.
    """
    times: list[float] = []
    for now in (tenth / 10 for tenth in range(10 * seconds)):
        rhythm.hurried = hurried
        if rhythm.is_due(now):
            moved = not times or any(times[-1] < at <= now for at in moves)
            rhythm.note_question(now, moved=moved)
            rhythm.wait = min(rhythm.wait, wait)
            times.append(now)
    return times


def test_questions_come_every_15_seconds_and_slower_to_60_while_nothing_moves() -> None:
    assert asked_at(Rhythm(), 260) == [0, 15, 37.5, 71.3, 122, 182, 242]
    moved = asked_at(Rhythm(), 150, moves=[100])
    assert moved == [0, 15, 37.5, 71.3, 122, 137]
    waited_for = asked_at(Rhythm(), 100, wait=15.0)  # something is to come
    assert waited_for == [0, 15, 30, 45, 60, 75, 90]


def test_whoever_hurries_all_the_time_asks_every_three_seconds() -> None:
    assert len(asked_at(Rhythm(), 60, hurried=True)) == 20
    rhythm = Rhythm(hurried=True)
    rhythm.note_question(0.0, moved=True)  # one hurry is one question
    assert not rhythm.is_due(14.0)


def test_what_the_queue_said_stays_when_it_does_not_answer() -> None:
    def squeue(_: Sequence[str]) -> Ran:
        return answers.pop(0)

    missing = Ran(arguments=(), status=None, missing="squeue: not here")
    for bad, error in (
        (SILENT, "squeue did not answer within 30 s"),
        (fails("squeue: error: Socket timed out"), "squeue: Socket timed out"),
        (missing, "squeue: not here"),
        (queue(ROW.replace("7|7", "seven|7")), "squeue said"),
    ):
        answers = [queue(ROW), bad, queue("")]
        watched = Watched(squeue=squeue)
        watched.watch.ask()
        before = watched.watch.answered_at
        assert before == watched.clock.monotonic()
        watched.clock.advance(60)
        assert watched.watch.ask() is None
        assert (list(watched.watch.rows), watched.watch.answered_at) == (["7"], before)
        assert watched.watch.error.startswith(error)
        assert (watched.watch.ask(), watched.watch.error) == ({}, "")


def test_an_answer_that_was_overtaken_by_a_later_one_s_is_no_news() -> None:
    def squeue(_: Sequence[str]) -> Ran:
        if watched.says.calls["squeue"] > 1:
            return queue(ROW.replace("RUNNING", "COMPLETED"))
        watched.clock.advance(1)
        watched.watch.ask()
        return queue(ROW)

    watched = Watched(squeue=squeue)
    watched.watch.ask()
    assert watched.watch.rows["7"].state.word == "COMPLETED"


def test_a_submission_is_found_by_its_name_in_queue_or_accounting() -> None:
    for row, account, token, job in (
        (ROW.replace("7|7", "7_3|9"), "", "tok", "7"),
        ("", ACCOUNT, "tok", "7"),
        # Accounting alone shows what a killed controller has forgotten.
        ("", ACCOUNT.replace("COMPLETED", "PENDING"), "tok", ""),
        (ROW, "", "ok", ""),
        (ROW, "", "a", ""),
    ):
        watched = Watched(squeue=queue(row), sacct=says(ACCOUNT_HEADING + account))
        watched.watch.ask()
        watched.watch.ask_accounts(0.0)
        assert watched.watch.find_job(token) == job


def test_a_cluster_without_accounting_is_asked_for_it_once_at_most() -> None:
    disabled = fails("Slurm accounting storage is disabled")
    for config, asked in (("AccountingStorageType = (null)\n", 0), (CONFIG, 1)):
        watched = Watched(scontrol=says(config), sacct=disabled)
        assert all(watched.watch.ask_accounts(0.0) for _ in range(3))
        assert watched.says.calls["sacct"] == asked


def test_the_configuration_is_asked_for_until_it_is_known_and_defaults_hold() -> None:
    answers = [SILENT, says(CONFIG)]
    watched = Watched(scontrol=lambda _: answers.pop(0))
    assert watched.watch.load_facts() == ClusterFacts()
    assert watched.watch.get_known_facts().min_job_age == 300.0
    assert [watched.watch.load_facts().min_job_age for _ in range(3)] == [5.0] * 3
    assert watched.says.calls["scontrol"] == 2
