"""What is waited for, in sentences that hold for a whole stage."""

from __future__ import annotations

from typing import Any

import pytest

from autoexp_tui.conditions.kinds import (
    Approval,
    CommandPasses,
    Composite,
    Condition,
    Cooldown,
    FileContent,
    FileExists,
    JobStateIs,
    LogPattern,
    MaxAttempts,
    MetadataIs,
    MetricIs,
    Not,
    TimeReached,
)
from autoexp_tui.planning.condition_sentences import Purpose, SentenceWriter
from tests.planning.plans import job, plan, ten_jobs

STABLE = "lr1e-3_stable"
OUTPUT = f"outputs/exp/{STABLE}"
LOGS = f"outputs/logs/{STABLE}"
FAR = "outputs/exp/lr3e-3_stable"


def said(spec: Condition, purpose: Purpose = "start") -> str:
    """The sentence of a condition of the first cooldown job."""
    made = ten_jobs()
    return SentenceWriter(made).describe(spec, made.jobs[1], purpose)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (FileExists(path=f"{OUTPUT}/a/done"), "a/done of its stable job exists"),
        (FileExists(path=f"{FAR}/done"), "done of lr3e-3_stable exists"),
        (
            FileExists(path="outputs/exp/lr1e-3_cooldown/x"),
            "its own x exists",
        ),
        (
            FileExists(path="/data/x", min_size=4_100_000),
            "/data/x exists with at least 4.1 MB",
        ),
        (FileExists(path="/data/*.bin", glob=True), "a match of /data/*.bin exists"),
        (FileContent(path="/x", pattern="ok"), '/x contains "ok"'),
        (FileContent(path="/x", pattern="^ok", mode="regex"), '/x matches "^ok"'),
        (MetadataIs(key="step", op=">=", value=8000), "step >= 8000"),
        (MetadataIs(key="lr", value=0.001, job=STABLE), "lr of its stable job == 1e-3"),
        (MetadataIs(key="ok", value=True, job="else"), "ok of else == true"),
        (
            MetricIs(name="loss", op="<", value=3.2, after_step=500),
            "loss < 3.2 from step 500 on",
        ),
        (JobStateIs(jobs=(STABLE,), state="FAILED"), "its stable job is FAILED"),
        (
            JobStateIs(jobs=("lr3e-3_stable", "x"), state="FAILED"),
            "lr3e-3_stable and x are FAILED",
        ),
        (
            CommandPasses(command=("test", "-f", "a b")),
            "the command test -f 'a b' exits 0",
        ),
        (
            LogPattern(log_path=f"{LOGS}/current.log", pattern="FATAL"),
            'the log of its stable job shows "FATAL"',
        ),
        (
            LogPattern(
                log_path="outputs/logs/lr1e-3_cooldown/current.log", pattern="x"
            ),
            'its own log shows "x"',
        ),
        (
            LogPattern(
                log_path=f"{LOGS}/*.out", pattern="x", glob=True, check_mode="all"
            ),
            'every match of *.out of its stable job shows "x"',
        ),
        (TimeReached(after_seconds=600), "it has waited 10 min"),
        (Approval(prompt="Go on?"), 'a person says yes: "Go on?"'),
        (Approval(), "a person says yes"),
        (MaxAttempts(max_attempts=1), "it has had fewer than 1 attempt"),
        (Cooldown(cooldown_seconds=600), "the last time is 10 min ago"),
        (Not(condition=FileExists(path="/stop")), "not so: /stop exists"),
        (
            Composite(
                mode="any", conditions=(FileExists(path="/a"), FileExists(path="/b"))
            ),
            "(/a exists or /b exists)",
        ),
        (Composite(conditions=(FileExists(path="/a"),)), "/a exists"),
    ],
)
def test_every_kind_of_condition_has_its_sentence(
    spec: Condition, sentence: str
) -> None:
    assert said(spec) == sentence


def test_a_path_is_known_however_it_is_written() -> None:
    spec = FileExists(path=f"./outputs//exp/{STABLE}/../{STABLE}/done")
    assert said(spec) == "done of its stable job exists"


def test_a_moment_is_told_with_its_date() -> None:
    assert said(TimeReached(at=1_900_000_000)).startswith("it is 2030-03-17 ")


def test_a_description_stands_before_what_it_describes() -> None:
    spec = FileExists(path="/x", description="the data")
    assert said(spec) == "the data: /x exists"


def test_a_wait_with_a_limit_says_when_it_gives_up() -> None:
    spec = FileExists(path="/x", timeout_seconds=7200)
    assert said(spec) == "/x exists (gives up after 2 h)"


def test_a_cancel_condition_with_a_limit_stops_looking() -> None:
    spec = FileExists(path="/x", timeout_seconds=7200)
    assert said(spec, "cancel") == "/x exists (looks no more after 2 h)"


def test_an_approval_that_is_held_has_no_limit() -> None:
    assert said(Approval(timeout_seconds=7200)) == "a person says yes"


def test_an_approval_that_is_rejected_in_the_end_has_one() -> None:
    spec = Approval(timeout_seconds=7200, on_timeout="reject")
    assert said(spec) == "a person says yes (gives up after 2 h)"


def test_a_condition_that_does_not_block_says_so() -> None:
    spec = FileExists(path="/x", blocking=False)
    assert said(spec) == "/x exists (only shown, holds nothing back)"


def test_escapes_and_line_breaks_of_a_pattern_are_not_shown() -> None:
    spec = FileContent(path="/x", pattern="a\x1b[31m\n  b")
    assert said(spec) == '/x contains "a b"'


# ------------------------------------------------------------------- several jobs
def test_all_jobs_of_a_stage_are_named_by_the_stage() -> None:
    names = [f"lr{rate}_evaluate" for rate in ("1e-3", "3e-3", "5e-3")]
    assert SentenceWriter(ten_jobs()).name_jobs(names) == "all 3 evaluate jobs"


def test_many_jobs_that_are_no_whole_stage_are_named_and_counted() -> None:
    jobs = [job(f"run{at}", at, stage="s") for at in range(9)]
    words = SentenceWriter(plan(jobs))
    assert words.name_jobs([one.name for one in jobs[:7]]) == "run0, run1 and 5 more"


def test_several_siblings_are_named_together() -> None:
    made = ten_jobs()
    told = SentenceWriter(made).name_jobs(
        ["lr1e-3_stable", "lr1e-3_cooldown"], made.jobs[2]
    )
    assert told == "its stable and cooldown jobs"


def test_siblings_of_one_stage_are_called_by_their_names() -> None:
    family: dict[str, Any] = {"family": "f0"}
    made = plan(
        [
            job("small", stage="train", **family),
            job("large", 1, stage="train", **family),
            job("end", 2, stage="end", **family),
        ]
    )
    assert SentenceWriter(made).name_jobs(["small"], made.jobs[2]) == "small"
