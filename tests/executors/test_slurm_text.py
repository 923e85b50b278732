"""Slurm's words as they are really said, and what they mean.

Answers here are copied from a cluster of version 22.05; a test's name says which of
Slurm's habits it is about.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.executors.slurm.text import (
    AccountRow,
    ClusterFacts,
    QueueRow,
    Standing,
    build_sacct,
    build_squeue,
    extract_complaint,
    format_array_option,
    format_queue_name,
    format_reason,
    has_nothing_to_cancel,
    has_token,
    join_scancel_ids,
    make_task_ids,
    parse_config,
    parse_sacct,
    parse_sbatch,
    parse_squeue,
    parse_state,
)
from autoexp_tui.model.states import Cause
from tests.executors.slurm_scripted import (
    ACCOUNT_HEADING,
    QUEUE_HEADING,
    queue_answer,
)
from tests.support.fake_slurm_text import expand_names

ROWS = """\
4|4|COMPLETED|None|n1|main|1795200200|1795200200|wrap
12|12|COMPLETED|None|n1|main|1795200200|1795200200|we|ird,name with blank-tok1
2|2|FAILED|BadConstraints||main|1795200200|1795200200|wrap
15|15|FAILED|JobLaunchFailure|n2|main|1795200200|1795200200|badout-tok4
16_2|16|PENDING|JobArrayTaskLimit||main|N/A|1795200200|arr-tok5
18|18|PENDING|Resources||main|1795203800|1795200200|long-tok7
17|17|PENDING|JobHeldUser||main|N/A|1795200200|held-tok6
16_0|19|RUNNING|None|n2|main|1795200200|1795200200|arr-tok5
21|21|RUNNING|None|n[1-4]|main|1795200257|1795200200|prio-tok8
37|37|PREEMPTED|None|n1|kill|1795200480|1795200480|pk1
36|36|CANCELLED|BeginTime||main|1795200480|1795200478|req
"""
SQUEUE = queue_answer(ROWS)
SACCT = f"""\
{ACCOUNT_HEADING}\
1|1|CANCELLED by 0|0:0|1795200200|None|1795200302|None assigned|wrap
2|2|FAILED|1:0|1795200200|1795200200|1795200200|None assigned|wrap
8|8|PENDING|0:0|1795200200|Unknown|Unknown|None assigned|wrap
12|12|COMPLETED|0:0|1795200200|1795200200|1795200200|n1|we|ird,name with blank-tok1
13|13|FAILED|3:0|1795200200|1795200200|1795200200|n1|three-tok2
14|14|FAILED|0:11|1795200200|1795200200|1795200200|n2|segv-tok3
15|15|FAILED|0:53|1795200200|1795200200|1795200200|n2|badout-tok4
21|21|RUNNING|0:0|1795200200|1795200257|Unknown|n[1-4]|prio-tok8
36|36|REQUEUED|0:0|1795200477|1795200478|1795200478|n1|req
16_5|16|FAILED|0:15|1795200200|1795200205|1795200207|n2|arr-tok5
12|12|NODE_FAIL|0:0|1795200863|1795200863|1795200878|n[1-4]|nf
"""


STANDINGS = {
    Standing.QUEUED: "PENDING CONFIGURING REQUEUED REQUEUE_FED REQUEUE_HOLD "
    "RESV_DEL_HOLD SPECIAL_EXIT",
    Standing.RUNNING: "RUNNING COMPLETING SIGNALING STAGE_OUT RESIZING",
    Standing.SUSPENDED: "SUSPENDED STOPPED",
}
CAUSES = {
    None: "COMPLETED FAILED",
    Cause.USER: "CANCELLED",
    Cause.TIMEOUT: "TIMEOUT DEADLINE",
    Cause.OUT_OF_MEMORY: "OUT_OF_MEMORY",
    Cause.NODE_FAIL: "NODE_FAIL BOOT_FAIL RECONFIG_FAIL",
    Cause.PREEMPTED: "PREEMPTED",
    Cause.LOST: "REVOKED",
    Cause.SUBMIT_ERROR: "LAUNCH_FAILED",
}
RAW: list[tuple[str, Standing, Cause | None]] = [
    *((one, at, None) for at, words in STANDINGS.items() for one in words.split()),
    *(
        (one, Standing.ENDED, by)
        for by, words in CAUSES.items()
        for one in words.split()
    ),
]


@pytest.mark.parametrize(("text", "standing", "cause"), RAW)
def test_every_raw_state_lands_somewhere(
    text: str, standing: Standing, cause: Cause | None
) -> None:
    assert (parse_state(text).standing, parse_state(text).cause) == (standing, cause)


@given(st.text())
def test_any_other_text_is_alive(text: str) -> None:
    state = parse_state(text)
    known = state.word in {word for word, _, _ in RAW}
    assert known or (state.standing, state.cause) == (Standing.UNKNOWN, None)


@pytest.mark.parametrize(
    ("text", "word", "by"),
    [
        ("CANCELLED by 0", "CANCELLED", 0),
        ("CANCELLED by 1000", "CANCELLED", 1000),
        ("CANCELLED+", "CANCELLED", None),
        ("FAILED", "FAILED", None),
    ],
)
def test_a_cancelled_state_names_who_did_it_after_a_space(
    text: str, word: str, by: int | None
) -> None:
    assert (parse_state(text).word, parse_state(text).by) == (word, by)


def test_squeue_is_asked_for_ended_jobs_hidden_partitions_and_each_task() -> None:
    words = build_squeue("ann")
    assert words[:7] == ("squeue", "-a", "-r", "-t", "all", "-u", "ann")
    assert words[-1].endswith("|%j|end")


def test_every_row_of_squeue_is_read() -> None:
    rows = {row.id: row for row in parse_squeue(SQUEUE)}
    assert len(rows) == 11
    assert rows["12"].name == "we|ird,name with blank-tok1"
    assert rows["16_0"] == QueueRow(
        id="16_0",
        raw_id="19",
        state=parse_state("RUNNING"),
        reason="",
        nodes="n2",
        partition="main",
        starts_at=1795200200.0,
        ended_at=None,
        submitted_at=1795200200.0,
        name="arr-tok5",
    )


def test_another_job_whose_name_has_several_lines_does_not_spoil_the_answer() -> None:
    text = (
        f"{QUEUE_HEADING}"
        "autoexp|3|3|COMPLETED|None|n1|main|1795201477|1795201477|1|a\n\n|end\n"
        "autoexp|1|1|RUNNING|None|n1|main|1795201477|N/A|1|new\nline|x|end\n"
        "autoexp|7|7|RUNNING|None|n1|main|1795201477|N/A|1|ours-tok|end\n"
    )
    assert [(row.id, row.name) for row in parse_squeue(text)] == [
        ("3", "a\n\n"),
        ("1", "new\nline|x"),
        ("7", "ours-tok"),
    ]


def test_jobs_of_several_parts_and_waiting_arrays_may_be_one_row_or_more() -> None:
    text = queue_answer(
        "16_[2-9%2]|16|PENDING|JobArrayTaskLimit||main|N/A|1795200200|arr-tok5\n"
        "4+0|4|RUNNING|None|n1|main|1795201477|1795201477|het.sh\n"
        "4+1|5|RUNNING|None|n3|main|1795201477|1795201477|het.sh\n"
    )
    assert [row.id for row in parse_squeue(text)] == ["16_[2-9%2]", "4+0", "4+1"]


def test_a_heading_alone_is_no_row_and_no_error() -> None:
    assert (parse_squeue(QUEUE_HEADING), parse_sacct(ACCOUNT_HEADING)) == ((), ())


@pytest.mark.parametrize("text", ["", "\n", "Maintenance on Friday.\n"])
def test_an_answer_without_a_heading_is_no_empty_queue(text: str) -> None:
    with pytest.raises(ValueError, match="squeue said"):
        parse_squeue(text)
    with pytest.raises(ValueError, match="sacct said"):
        parse_sacct(text)


@pytest.mark.parametrize(
    "line",
    ["*** Maintenance on Friday ***", "12|12|RUNNING", "Lmod: module slurm loaded"],
)
def test_lines_of_others_around_the_rows_are_skipped(line: str) -> None:
    queue = f"{line}\n{SQUEUE}{line}\n"
    assert parse_squeue(queue) == parse_squeue(SQUEUE)
    assert parse_sacct(f"*** {line} ***\n{SACCT}") == parse_sacct(SACCT)


@pytest.mark.parametrize(
    "text",
    [
        "slurm_load_jobs error: Unable to contact slurm controller",
        "JOBID PARTITION NAME",
        SQUEUE[:-9],
        f"{SQUEUE}autoexp|16_3|16|PEND",
        SQUEUE.replace("|1795200257|", "|"),
        QUEUE_HEADING[:-9],
    ],
)
def test_an_answer_that_is_not_whole_is_not_believed(text: str) -> None:
    with pytest.raises(ValueError, match="squeue said"):
        parse_squeue(text)


PLAIN = st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=8)
IDS = st.one_of(
    st.integers(1).map(str),
    st.tuples(st.integers(1), st.integers(0)).map(lambda pair: f"{pair[0]}_{pair[1]}"),
)
TIMES = st.none() | st.integers(1, 2**40).map(float)
NAMES = st.text(st.characters(blacklist_characters="\n", categories=["L", "N", "P"]))
STATES = st.sampled_from(["PENDING", "RUNNING", "COMPLETED", "TIMEOUT", "NEWWORD"]).map(
    parse_state
)


def shown(time: float | None, none: str) -> str:
    return none if time is None else f"{time:.0f}"


@given(
    st.builds(
        QueueRow,
        id=IDS,
        raw_id=st.integers(1).map(str),
        state=STATES,
        reason=PLAIN.filter(lambda word: word != "None"),
        nodes=PLAIN,
        partition=PLAIN,
        starts_at=TIMES,
        ended_at=st.none(),
        submitted_at=TIMES,
        name=NAMES,
    )
)
def test_a_row_of_squeue_is_read_as_it_was_written(row: QueueRow) -> None:
    fields = (
        *(row.id, row.raw_id, row.state.word, row.reason, row.nodes, row.partition),
        *(shown(row.starts_at, "N/A"), shown(row.submitted_at, "N/A"), row.name),
    )
    assert parse_squeue(queue_answer("|".join(fields))) == (row,)


def test_only_an_ended_job_has_an_end() -> None:
    text = QUEUE_HEADING + "".join(
        f"autoexp|{n}|{n}|{word}|None|n1|main|5|9|1|a-tok|end\n"
        for n, word in enumerate(["RUNNING", "FAILED"], start=1)
    )
    assert [row.ended_at for row in parse_squeue(text)] == [None, 9.0]


def test_sacct_is_always_told_since_when() -> None:
    words = build_sacct("ann", 1795200200.7)
    assert words[:4] == ("sacct", "-X", "-P", "-u")
    assert words[words.index("-S") + 1] == "uts1795200200"


def test_every_row_of_sacct_is_read() -> None:
    rows = parse_sacct(SACCT)
    assert len(rows) == 11
    assert rows[5] == AccountRow(
        id="14",
        raw_id="14",
        state=parse_state("FAILED"),
        exit_code=0,
        signal=11,
        submitted_at=1795200200.0,
        started_at=1795200200.0,
        ended_at=1795200200.0,
        nodes="n2",
        name="segv-tok3",
    )


@given(
    st.builds(
        AccountRow,
        id=IDS,
        raw_id=st.integers(1).map(str),
        state=STATES,
        exit_code=st.integers(0, 255),
        signal=st.integers(0, 64),
        submitted_at=TIMES,
        ended_at=TIMES,
        nodes=PLAIN,
        name=NAMES,
    )
)
def test_a_row_of_sacct_is_read_as_it_was_written(row: AccountRow) -> None:
    fields = (
        *(row.id, row.raw_id, row.state.word, f"{row.exit_code}:{row.signal}"),
        *(shown(row.submitted_at, "Unknown"), "None", shown(row.ended_at, "Unknown")),
        *(row.nodes or "None assigned", row.name),
    )
    assert parse_sacct(ACCOUNT_HEADING + "|".join(fields) + "\n") == (row,)


@pytest.mark.parametrize(
    ("stdout", "job_id"),
    [("51\n", "51"), ("51;cluster\n", "51"), ("A site's greeting\n\n51;a.b-c\n", "51")],
)
def test_sbatch_says_an_id_and_maybe_its_cluster(stdout: str, job_id: str) -> None:
    assert parse_sbatch(stdout) == job_id


@pytest.mark.parametrize("stdout", ["", "Submitted batch job 51", "51 52", "-1", "51;"])
def test_anything_else_that_sbatch_says_is_no_id(stdout: str) -> None:
    with pytest.raises(ValueError, match="instead of a job id"):
        parse_sbatch(stdout)


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        (
            "sbatch: error: No room\nsbatch: error: No room\nscancel: Try later\n\n",
            "No room; Try later",
        ),
        ("sbatch: error: \x1b[2Jboo\n", "boo"),
        ("\n", "no reason was given"),
    ],
)
def test_a_complaint_is_said_once_and_without_the_program(
    stderr: str, said: str
) -> None:
    assert extract_complaint(stderr) == said


CONFIG = """\
Configuration data as of 2026-11-20T18:45:03
AccountingStorageBackupHost = (null)
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = throwaway
KillWait                = 10 sec
MaxArraySize            = 10001
MinJobAge               = 5 sec
SLURM_VERSION           = 22.05.8
X11Parameters           = (null)

Slurmctld(primary) at vm is UP
"""


def test_the_configuration_tells_what_matters_to_a_client() -> None:
    assert parse_config(CONFIG) == ClusterFacts(
        cluster="throwaway",
        version="22.05.8",
        min_job_age=5.0,
        max_array_size=10001,
        accounting=True,
        kill_wait=10.0,
    )


@pytest.mark.parametrize("kind", ["accounting_storage/none", "(null)"])
def test_a_cluster_may_have_no_accounting(kind: str) -> None:
    assert not parse_config(f"AccountingStorageType = {kind}\n").accounting


@pytest.mark.parametrize("text", ["", "MinJobAge = (null)\nMaxArraySize = UNLIMITED"])
def test_what_the_configuration_does_not_tell_is_as_by_default(text: str) -> None:
    assert parse_config(text) == ClusterFacts()


def test_a_single_task_has_the_job_s_id_and_an_array_s_its_index_too() -> None:
    assert (make_task_ids("51", 1), make_task_ids("51", 3)) == (
        ("51",),
        ("51_0", "51_1", "51_2"),
    )


@pytest.mark.parametrize(
    ("throttle", "option"), [(0, "0-9"), (3, "0-9%3"), (10, "0-9"), (99, "0-9")]
)
def test_a_throttle_is_said_only_where_it_throttles(throttle: int, option: str) -> None:
    assert format_array_option(10, throttle) == option


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (["51_1", "51_2", "51_3", "60"], ("51_[1-3]", "60")),
        (["51_3", "51_1", "51_1"], ("51_[1,3]",)),
        (["51_7"], ("51_[7]",)),
        (["60", "61", "60"], ("60", "61")),
        ([], ()),
    ],
)
def test_tasks_of_an_array_are_cancelled_as_one_range(
    ids: list[str], words: tuple[str, ...]
) -> None:
    assert join_scancel_ids(ids) == words


@given(st.lists(st.integers(0, 60), min_size=1))
def test_a_range_means_exactly_its_tasks(indices: list[int]) -> None:
    names = join_scancel_ids([f"51_{index}" for index in indices])
    assert set(expand_names(names)) == {f"51_{index}" for index in indices}
    assert len(names) == 1


OVER = "scancel: error: Kill job error on job id 1_2: Invalid job id specified\n"


@pytest.mark.parametrize(
    ("stderr", "over"),
    [
        (OVER, True),
        (OVER + OVER.replace("1_2", "9"), True),
        (OVER + "slurm_load_jobs error: Unable to contact slurm controller\n", False),
        (
            "scancel: error: Kill job error on job id 30: Job can not be altered now, "
            "try again later\n",
            False,
        ),
        ("", False),
    ],
)
def test_a_cancel_that_finds_only_ended_jobs_is_done(stderr: str, over: bool) -> None:
    assert has_nothing_to_cancel(stderr) is over


@given(st.text(), st.from_regex(r"[a-z0-9]{6,12}", fullmatch=True))
def test_a_name_in_the_queue_is_plain_and_known_by_its_token(
    readable: str, token: str
) -> None:
    name = format_queue_name(readable, token)
    assert name.isascii()
    assert not set(name) & set(" \n\t|;$`'\"\\/")
    assert not name.startswith("-")
    assert has_token(name, token)


def test_a_token_is_not_found_in_the_middle_of_a_name() -> None:
    assert not has_token("train-tok1-tok2", "tok1")


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
            "assoc grp cpu limit",
        ),
        (
            "QOSMaxJobsPerUserLimit",
            "qos max jobs per user limit",
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
    assert format_reason(reason, partition="main", job_id="51") == words


def test_a_reason_without_a_partition_names_none() -> None:
    assert (
        format_reason("Priority") == "lower priority than other jobs in the partition"
    )


@given(st.text())
def test_every_reason_has_words_or_is_none(reason: str) -> None:
    known = reason.strip("()").split(",")[0].strip()
    assert bool(format_reason(reason)) == (known not in ("", "None"))
