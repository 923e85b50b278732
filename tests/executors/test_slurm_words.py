"""Slurm's reasons in plain words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.executors.slurm.messages import reason_in_words, split_words


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Priority", "lower priority than other jobs in partition main"),
        ("Resources", "no free room in partition main yet: next in line"),
        ("(Resources)", "no free room in partition main yet: next in line"),
        ("JobHeldUser", "held by its owner: scontrol release 51"),
        ("JobArrayTaskLimit", "the array runs no more tasks at a time"),
        (
            "DependencyNeverSatisfied",
            "depends on a job that failed: it will never start",
        ),
        ("BadConstraints", "no node has what it asks for: it will not start"),
        (
            "ReqNodeNotAvail, UnavailableNodes:n[1-4]",
            "nodes that it needs are down, reserved or drained",
        ),
        (
            "AssocGrpCpuLimit",
            "a limit of your account on the CPUs of all jobs together",
        ),
        (
            "QOSMaxJobsPerUserLimit",
            "a limit of the quality of service on jobs per user",
        ),
        (
            "QOSMaxGRESPerUser",
            "a limit of the quality of service on devices (GRES) per user",
        ),
        (
            "AssocGrpCPUMinutesLimit",
            "a limit of your account on the cpu minutes of all jobs together",
        ),
        (
            "QOSMinCpuNotSatisfied",
            "the quality of service wants a job to ask for more CPUs",
        ),
        (
            "launch failed requeued held",
            "Slurm could not launch it, and holds it: scontrol release 51",
        ),
        ("SomeNewReason", "some new reason"),
        ("node is not responding", "node is not responding"),
        ("None", ""),
        ("", ""),
    ],
)
def test_a_reason_is_said_plainly(reason: str, words: str) -> None:
    assert reason_in_words(reason, partition="main", job_id="51") == words


def test_a_reason_without_a_partition_names_none() -> None:
    assert (
        reason_in_words("Priority") == "lower priority than other jobs in the partition"
    )


@given(st.text())
def test_every_reason_has_words_or_is_none(reason: str) -> None:
    known = reason.strip("()").split(",")[0].strip()
    assert bool(reason_in_words(reason)) == (known not in ("", "None"))


@given(st.text(min_size=1))
def test_words_are_never_lost_altogether(word: str) -> None:
    assert split_words(word)
