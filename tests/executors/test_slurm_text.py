"""Slurm's words as they are really said, and what they mean.

Answers here are copied from a cluster of version 22.05; a test's name says which of
Slurm's habits it is about.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.engine.executor_port import TaskPhase
from autoexp_tui.executors.slurm.text import (
    AccountRow,
    ClusterFacts,
    QueueRow,
    build_sacct,
    build_squeue,
    format_queue_name,
    format_reason,
    has_nothing_to_cancel,
    has_token,
    join_scancel_ids,
    parse_config,
    parse_sacct,
    parse_sbatch,
    parse_squeue,
    parse_state,
)
from autoexp_tui.model.states import Cause
from tests.executors.slurm_scripted import (
    ACCOUNT_HEADING,
    CONFIG,
    QUEUE_HEADING,
    queue_answer,
)

SQUEUE = queue_answer("""\
12|12|COMPLETED|None|n1|main|1795200200|1795200200|we|ird,name with blank-tok1
2|2|FAILED|BadConstraints||main|1795200200|1795200200|wrap
16_[2-9%2]|16|PENDING|JobArrayTaskLimit||main|N/A|1795200200|arr-tok5
16_0|19|RUNNING|None|n[1-4]|main|1795200257|1795200200|arr-tok5
4+0|4|RUNNING|None|n1|main|1795201477|1795201477|het.sh
4+1|5|RUNNING|None|n3|main|1795201477|1795201477|het.sh
""")
SACCT = f"""\
{ACCOUNT_HEADING}\
1|1|CANCELLED by 0|0:0|1795200200|None|1795200302|None assigned|wrap
8|8|PENDING|0:0|1795200200|Unknown|Unknown|None assigned|wrap
12|12|COMPLETED|0:0|1795200200|1795200200|1795200200|n1|we|ird,name with blank-tok1
14|14|FAILED|0:11|1795200201|1795200202|1795200203|n2|segv-tok3
16_5|16|FAILED|0:15|1795200200|1795200205|1795200207|n2|arr-tok5
12|12|NODE_FAIL|0:0|1795200863|1795200863|1795200878|n[1-4]|nf
"""

STATES: dict[str, tuple[TaskPhase, Cause | None]] = {
    "PENDING CONFIGURING REQUEUED REQUEUE_HOLD SPECIAL_EXIT": (TaskPhase.QUEUED, None),
    "RUNNING COMPLETING SIGNALING STAGE_OUT": (TaskPhase.RUNNING, None),
    "SUSPENDED STOPPED": (TaskPhase.SUSPENDED, None),
    "COMPLETED FAILED": (TaskPhase.ENDED, None),
    "CANCELLED CANCELLED+": (TaskPhase.ENDED, Cause.USER),
    "TIMEOUT DEADLINE": (TaskPhase.ENDED, Cause.TIMEOUT),
    "OUT_OF_MEMORY": (TaskPhase.ENDED, Cause.OUT_OF_MEMORY),
    "NODE_FAIL BOOT_FAIL RECONFIG_FAIL": (TaskPhase.ENDED, Cause.NODE_FAIL),
    "PREEMPTED": (TaskPhase.ENDED, Cause.PREEMPTED),
    "REVOKED": (TaskPhase.ENDED, Cause.LOST),
    "LAUNCH_FAILED": (TaskPhase.ENDED, Cause.SUBMIT_ERROR),
    "MELTING 12 completed_": (TaskPhase.UNKNOWN, None),
}


def test_every_raw_state_lands_somewhere() -> None:
    for words, expected in STATES.items():
        for word in words.split():
            state = parse_state(word)
            assert (state.standing, state.cause) == expected, word


def test_squeue_is_asked_for_ended_jobs_hidden_partitions_and_each_task() -> None:
    words = build_squeue("ann")
    assert words[:7] == ("squeue", "-a", "-r", "-t", "all", "-u", "ann")
    assert words[-1].endswith("|%j|end")


def test_every_row_of_squeue_and_sacct_is_read() -> None:
    """A waiting array and a job of several parts may be one row or more."""
    booked = parse_sacct(SACCT)
    assert [row.id for row in booked] == ["1", "8", "12", "14", "16_5", "12"]
    assert (booked[0].state.by, booked[2].name) == (0, "we|ird,name with blank-tok1")
    rows = {row.id: row for row in parse_squeue(SQUEUE)}
    assert list(rows) == ["12", "2", "16_[2-9%2]", "16_0", "4+0", "4+1"]
    assert rows["12"].name == "we|ird,name with blank-tok1"
    assert (rows["12"].reason, rows["2"].reason) == ("", "BadConstraints")
    assert rows["16_0"] == QueueRow(
        id="16_0",
        state=parse_state("RUNNING"),
        reason="",
        nodes="n[1-4]",
        partition="main",
        starts_at=1795200257.0,
        ended_at=None,
        name="arr-tok5",
    )
    assert booked[3] == AccountRow(
        id="14",
        state=parse_state("FAILED"),
        exit_code=0,
        signal=11,
        started_at=1795200202.0,
        ended_at=1795200203.0,
        nodes="n2",
        name="segv-tok3",
    )
    assert (booked[0].nodes, booked[1].started_at, booked[1].ended_at) == (
        "",
        None,
        None,
    )


def test_another_job_whose_name_has_several_lines_does_not_spoil_the_answer() -> None:
    """And only an ended job has an end."""
    text = (
        f"{QUEUE_HEADING}"
        "autoexp|3|3|COMPLETED|None|n1|main|1795201477|1795201478|1|a\n\n|end\n"
        "autoexp|1|1|RUNNING|None|n1|main|1795201477|1795201479|1|new\nline|x|end\n"
        "autoexp|7|7|RUNNING|None|n1|main|1795201477|N/A|1|ours-tok|end\n"
    )
    assert [(row.id, row.name, row.ended_at) for row in parse_squeue(text)] == [
        ("3", "a\n\n", 1795201478.0),
        ("1", "new\nline|x", None),
        ("7", "ours-tok", None),
    ]


def test_a_heading_alone_is_no_row_and_no_error_but_nothing_is_no_answer() -> None:
    assert (parse_squeue(QUEUE_HEADING), parse_sacct(ACCOUNT_HEADING)) == ((), ())
    for text in ("", "\n", "Maintenance on Friday.\n"):
        with pytest.raises(ValueError, match="squeue said"):
            parse_squeue(text)
        with pytest.raises(ValueError, match="sacct said"):
            parse_sacct(text)


def test_lines_of_others_around_the_rows_are_skipped() -> None:
    for line in ("*** Maintenance ***", "12|12|RUNNING", "Lmod: module slurm loaded"):
        assert parse_squeue(f"{line}\n{SQUEUE}{line}\n") == parse_squeue(SQUEUE)
        assert parse_sacct(f"*** {line} ***\n{SACCT}") == parse_sacct(SACCT)


def test_an_answer_that_is_not_whole_is_not_believed() -> None:
    for text in (
        "slurm_load_jobs error: Unable to contact slurm controller",
        "JOBID PARTITION NAME",
        SQUEUE[:-9],
        f"{SQUEUE}autoexp|16_3|16|PEND",
        SQUEUE.replace("|1795200257|", "|"),
        QUEUE_HEADING[:-9],
    ):
        with pytest.raises(ValueError, match="squeue said"):
            parse_squeue(text)


def test_sacct_is_always_told_since_when() -> None:
    words = build_sacct("ann", 1795200200.7)
    assert words[:4] == ("sacct", "-X", "-P", "-u")
    assert words[words.index("-S") + 1] == "uts1795200200"


def test_sbatch_says_an_id_and_maybe_its_cluster_or_nothing_that_is_one() -> None:
    for said in ("51\n", "51;cluster\n", "A site's greeting\n\n51;a.b-c\n"):
        assert parse_sbatch(said) == "51"
    for said in ("", "Submitted batch job 51", "51 52", "-1", "51;"):
        with pytest.raises(ValueError, match="instead of a job id"):
            parse_sbatch(said)


def test_the_configuration_tells_what_matters_and_the_rest_is_as_by_default() -> None:
    assert parse_config(CONFIG) == ClusterFacts(cluster="elwe", version="23.11.4")
    small = parse_config("MinJobAge = 5 sec\nMaxArraySize = 10001\n")
    assert small == ClusterFacts(min_job_age=5.0, max_array_size=10001)
    for text in ("", "MinJobAge = (null)\nMaxArraySize = UNLIMITED"):
        assert parse_config(text) == ClusterFacts()
    for none in ("accounting_storage/none", "(null)"):
        found = parse_config(f"AccountingStorageType = {none}\n")
        assert found == ClusterFacts(accounting=False)


def test_tasks_of_an_array_are_cancelled_as_one_range() -> None:
    for ids, words in (
        ("51_1 51_2 51_3 60", "51_[1-3] 60"),
        ("51_3 51_1 51_1", "51_[1,3]"),
        ("51_7", "51_[7]"),
        ("60 61 60", "60 61"),
        ("", ""),
    ):
        assert join_scancel_ids(ids.split()) == tuple(words.split())


OVER = "scancel: error: Kill job error on job id 1_2: Invalid job id specified\n"
NOT_OVER = (
    "slurm_load_jobs error: Unable to contact slurm controller\n",
    "scancel: error: Kill job error on job id 30: Job can not be altered now\n",
)


def test_a_cancel_that_finds_only_ended_jobs_is_done() -> None:
    for stderr in (OVER, OVER + OVER.replace("1_2", "9")):
        assert has_nothing_to_cancel(stderr)
    for stderr in ("", *NOT_OVER, *(OVER + other for other in NOT_OVER)):
        assert not has_nothing_to_cancel(stderr)


@given(st.text(), st.from_regex(r"[a-z0-9]{6,12}", fullmatch=True))
def test_a_name_in_the_queue_is_plain_and_known_by_its_token_at_the_end(
    readable: str, token: str
) -> None:
    name = format_queue_name(readable, token)
    assert name.isascii()
    assert not set(name) & set(" \n\t|;$`'\"\\/")
    assert not name.startswith("-")
    assert has_token(name, token)
    assert not has_token(f"{name}-other", token)


def test_a_reason_is_said_plainly() -> None:
    for reason, words in (
        ("Priority", "lower priority than other jobs in partition main"),
        ("(Resources)", "no free room in partition main yet: next in line"),
        ("JobHeldUser", "held by its owner: scontrol release 51"),
        (
            "ReqNodeNotAvail, UnavailableNodes:n[1-4]",
            "nodes that it needs are down, reserved or drained",
        ),
        (
            "launch failed requeued held",
            "Slurm could not launch it, and holds it: scontrol release 51",
        ),
        ("AssocGrpCpuLimit", "assoc grp cpu limit"),
        ("QOSMaxJobsPerUserLimit", "qos max jobs per user limit"),
        ("node is not responding", "node is not responding"),
        ("None", ""),
        ("", ""),
    ):
        assert format_reason(reason, partition="main", job_id="51") == words
        elsewhere = words.replace("partition main", "the partition")
        assert format_reason(reason, job_id="51") == elsewhere
