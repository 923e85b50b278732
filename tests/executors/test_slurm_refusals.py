"""sbatch's refusals are told plainly, and which pass, which last, which are unknown.

Most texts are copied from a cluster of version 22.05.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from autoexp_tui.executors.slurm.refusals import (
    Refusal,
    detect_refusal,
    is_count_limit,
    parse_refusal,
)
from autoexp_tui.model.specs import Scalar


@pytest.mark.parametrize(
    ("message", "options", "reason", "where"),
    [
        (
            "invalid partition specified: nope; "
            "allocation failure: Invalid partition name specified",
            {"partition": "nope"},
            "there is no partition `nope`",
            "slurm.sbatch.partition",
        ),
        (
            "allocation failure: Requested node configuration is not available",
            {"partition": "gpu", "nodes": 9, "mem": "1T", "hold": True},
            "no nodes of partition gpu have all of that: nodes 9, mem 1T",
            "",
        ),
        (
            "unrecognized option '--frobnicate=1'; Try \"sbatch --help\" for more "
            "information",
            {"frobnicate": 1},
            "sbatch here knows no option `frobnicate`",
            "slurm.sbatch.frobnicate",
        ),
        (
            "Invalid --cpus-per-task specification",
            {"cpus-per-task": "many"},
            "sbatch cannot read the value of `cpus-per-task`",
            "slurm.sbatch.cpus_per_task",
        ),
        (
            "Batch job submission failed: Requested time limit is invalid (missing or "
            "exceeds some limit)",
            {"time": "99-00"},
            "the default partition gives no job a time of 99-00",
            "slurm.sbatch.time",
        ),
        (
            "Batch job submission failed: Job violates accounting/QOS policy (job "
            "submit limit, user's size and/or time limits)",
            {"account": "a", "time": "1"},
            "a limit of your account or quality of service forbids it",
            "slurm.sbatch.account",
        ),
        (
            "resolve_ctls_from_dns_srv: res_nsearch error: Unknown host; Could not "
            "establish a configuration source",
            {},
            "no cluster is set up on this machine",
            "",
        ),
    ],
)
def test_what_is_known_is_told_plainly_and_names_its_option(
    message: str, options: Mapping[str, Scalar], reason: str, where: str
) -> None:
    told = parse_refusal(message, options)
    assert (told.reason, told.where) == (reason, where)
    assert told.hint


def test_what_is_not_known_is_told_in_slurm_s_words() -> None:
    told = parse_refusal("Batch job submission failed: The moon is full", {})
    assert (told.reason, told.hint) == ("The moon is full", "")
    assert told.line == "The moon is full"


def test_an_option_without_its_value_is_not_taken_for_one_that_is_missing() -> None:
    told = parse_refusal("option '--gres' requires an argument", {"gres": True})
    assert told.reason == "option '--gres' requires an argument"


def test_a_line_has_reason_option_slurm_s_words_and_the_next_step() -> None:
    told = parse_refusal("invalid partition specified: x", {"partition": "x"})
    assert told.line == (
        "there is no partition `x` (slurm.sbatch.partition). Slurm said: invalid "
        "partition specified: x. `sinfo -o %R` lists them"
    )


def test_braces_in_slurm_s_words_are_only_text() -> None:
    assert "{partition}" in parse_refusal("odd {partition} {0}", {}).line


def test_control_characters_of_a_message_are_gone() -> None:
    assert "\x1b" not in parse_refusal("a \x1b[31mred\x1b[0m refusal", {}).line


# ------------------------------------------------------------- what a failure means
FAILED = "sbatch: error: Batch job submission failed: "


@pytest.mark.parametrize(
    "stderr",
    [
        "sbatch: error: AssocMaxSubmitJobLimit\n"
        f"{FAILED}Job violates accounting/QOS policy (job submit limit, user's size "
        "and/or time limits)\n",
        f"{FAILED}Slurm temporarily unable to accept job, sleeping and retrying\n",
        f"{FAILED}Resource temporarily unavailable\n",
        f"{FAILED}Required partition not available (inactive or drain)\n",
        f"{FAILED}Slurm backup controller in standby mode\n",
        f"{FAILED}I/O error writing script/environment to file\n",
        f"{FAILED}Required node not available (down, drained or reserved)\n",
        f"{FAILED}Requested nodes are busy\n",
        f"{FAILED}No space left on device\n",
    ],
)
def test_what_passes_by_itself_is_passing(stderr: str) -> None:
    assert detect_refusal(stderr) is Refusal.PASSING


@pytest.mark.parametrize(
    ("stderr", "fewer"),
    [
        ("sbatch: error: AssocMaxSubmitJobLimit\n", True),
        ("sbatch: error: QOSMaxSubmitJobPerUserLimit\n", True),
        (f"{FAILED}Job violates accounting/QOS policy (job submit limit)\n", True),
        (f"{FAILED}Slurm temporarily unable to accept job, sleeping\n", True),
        (f"{FAILED}Resource temporarily unavailable\n", False),
        ("slurm_load: RPC rate limit exceeded, backing off\n", False),
    ],
)
def test_only_a_limit_of_how_many_would_let_fewer_in(stderr: str, fewer: bool) -> None:
    assert detect_refusal(stderr) is Refusal.PASSING
    assert is_count_limit(stderr) is fewer


MEANINGS = {
    Refusal.LASTING: [
        "sbatch: error: invalid partition specified: nosuch\n"
        f"{FAILED}Invalid partition name specified\n",
        "sbatch: unrecognized option '--bogus=1'\n"
        'Try "sbatch --help" for more information\n',
        f"{FAILED}Requested node configuration is not available\n",
        "sbatch: error: Invalid generic resource (gres) specification\n",
        "sbatch: error: Memory specification can not be satisfied\n"
        f"{FAILED}Requested node configuration is not available\n",
        "sbatch: error: Invalid --time specification\n",
        f"{FAILED}Job dependency problem\n",
        f"{FAILED}Invalid job array specification\n",
        "Invalid time specification (pos=0): nonsense\n"
        "sbatch: error: Invalid --begin specification\n",
        f"{FAILED}Invalid feature specification\n",
        f"{FAILED}Invalid node name specified\n",
        "sbatch: error: Unable to open file /nosuch/file\n",
        "sbatch: error: Batch script is empty!\n",
        f"{FAILED}Requested reservation is invalid\n",
        f"{FAILED}Invalid license specification\n",
        f"{FAILED}Node count specification invalid\n",
        f"{FAILED}Invalid account or account/partition combination specified\n",
        f"{FAILED}Invalid qos specification\n",
        f"{FAILED}User's group not permitted to use this partition\n",
        f"{FAILED}Requested time limit is invalid (missing or exceeds some limit)\n",
        f"{FAILED}Invalid Trackable RESource (TRES) specification\n",
    ],
    Refusal.DOUBT: [
        f"{FAILED}Unable to contact slurm controller (receive failure)\n",
        f"{FAILED}Transport endpoint is not connected\n",
        f"{FAILED}Socket timed out on send/recv operation\n",
        f"{FAILED}Zero Bytes were transmitted or received\n",
    ],
    Refusal.UNREACHABLE: [
        f"{FAILED}Unable to contact slurm controller (connect failure)\n",
        f"{FAILED}Connection refused\n",
        "sbatch: error: If munged is up, restart with --num-threads=10\n"
        "sbatch: error: Munge encode failed: Failed to connect to "
        '"/run/munge/socket": Connection refused\n'
        "sbatch: error: slurm_send_node_msg: auth_g_create: REQUEST_SUBMIT_BATCH_JOB "
        "has authentication error\n"
        f"{FAILED}Protocol authentication error\n",
        "sbatch: error: Munge encode failed: Failed to access "
        '"/run/munge/munge.socket.2": No such file or directory\n'
        f"{FAILED}Protocol authentication error\n",
    ],
    Refusal.UNKNOWN: [
        "",
        f"{FAILED}Cluster is rebalancing its tranches\n",
        "sbatch: error: cli_filter: come back after lunch\n"
        f"{FAILED}Unspecified error\n",
    ],
}
"""What no retry mends; without an answer it may have been taken; without a
connection or a credential nothing was sent; words that nobody knows."""


@pytest.mark.parametrize(
    ("kind", "stderr"), [(kind, text) for kind in MEANINGS for text in MEANINGS[kind]]
)
def test_what_a_failure_means(kind: Refusal, stderr: str) -> None:
    assert detect_refusal(stderr) is kind
