"""sbatch's refusals are told plainly, and which pass, which last, which are unknown.

Most texts are copied from a cluster of version 22.05.
"""

from __future__ import annotations

from typing import Any

from autoexp_tui.executors.slurm.refusals import (
    Refusal,
    detect_refusal,
    is_count_limit,
    parse_refusal,
)

FAILED = "sbatch: error: Batch job submission failed: "
ERROR = "sbatch: error: "
PREFIX = "Batch job submission failed: "
POLICY = (
    "Job violates accounting/QOS policy (job submit limit, user's size and/or time "
    "limits)"
)


def test_what_is_known_is_told_plainly_and_names_its_option() -> None:
    known: list[tuple[str, dict[str, Any], str, str]] = [
        (
            "invalid partition specified: nope; "
            "allocation failure: Invalid partition name specified",
            {"partition": "nope"},
            "there is no partition `nope`",
            "partition",
        ),
        (
            "allocation failure: Requested node configuration is not available",
            {"partition": "gpu", "nodes": 9, "mem": "1T", "hold": True},
            "no nodes of partition gpu have all of that: nodes 9, mem 1T",
            "",
        ),
        (
            'Invalid --cpus-per-task specification; Try "sbatch --help" for more',
            {"cpus-per-task": "many"},
            "sbatch cannot read the value of `cpus-per-task`",
            "cpus_per_task",
        ),
        (
            "sbatch: unrecognized option '--frobnicate=1'",
            {"frobnicate": 1},
            "sbatch here knows no option `frobnicate`",
            "frobnicate",
        ),
        (
            f"{PREFIX}Requested time limit is invalid (missing or exceeds some limit)",
            {"time": "99-00"},
            "the default partition gives no job a time of 99-00",
            "time",
        ),
        (
            PREFIX + POLICY,
            {"account": "a", "time": "1"},
            "a limit of your account or quality of service forbids it",
            "account",
        ),
        (
            "resolve_ctls_from_dns_srv: res_nsearch error: Unknown host; Could not "
            "establish a configuration source",
            {},
            "no cluster is set up on this machine",
            "",
        ),
    ]
    for message, options, reason, option in known:
        told = parse_refusal(message, options)
        assert told.reason == reason
        assert told.where == (option and f"slurm.sbatch.{option}")
        assert told.hint


def test_what_is_not_known_is_told_in_slurm_s_words() -> None:
    for said in (
        "The moon is full",
        "odd {partition} {0}",
        "option '--gres' requires an argument",  # not: there are no such devices
    ):
        told = parse_refusal(PREFIX + said, {"gres": True})
        assert (told.reason, told.hint, told.line) == (said, "", said)
    assert parse_refusal("a \x1b[31mred\x1b[0m one", {}).line == "a red one"


def test_what_passes_by_itself_is_passing() -> None:
    """And only a limit of how many would let fewer in."""
    for stderr, fewer in (
        (f"{ERROR}AssocMaxSubmitJobLimit\n{FAILED}{POLICY}", True),
        (f"{ERROR}QOSMaxSubmitJobPerUserLimit", True),
        (f"{FAILED}Job violates accounting/QOS policy (job submit limit)", True),
        (f"{FAILED}Slurm temporarily unable to accept job, sleeping", True),
        ("slurm_load: RPC rate limit exceeded, backing off", False),
        *(
            (FAILED + words, False)
            for words in (
                "Resource temporarily unavailable",
                "Required partition not available (inactive or drain)",
                "Slurm backup controller in standby mode",
                "I/O error writing script/environment to file",
                "Required node not available (down, drained or reserved)",
                "Requested nodes are busy",
                "No space left on device",
            )
        ),
    ):
        assert detect_refusal(stderr) is Refusal.PASSING
        assert is_count_limit(stderr) is fewer


MEANINGS = {
    Refusal.LASTING: [
        f"{ERROR}invalid partition specified: x\n{FAILED}Invalid partition name",
        "sbatch: unrecognized option '--bogus=1'\nTry \"sbatch --help\"",
        f"{FAILED}Requested node configuration is not available",
        f"{ERROR}Invalid generic resource (gres) specification",
        f"{ERROR}Memory specification can not be satisfied",
        f"{ERROR}Invalid --time specification",
        f"{FAILED}Job dependency problem",
        f"{FAILED}Invalid job array specification",
        f"{FAILED}Invalid feature specification",
        f"{ERROR}Unable to open file /nosuch/file",
        f"{ERROR}Batch script is empty!",
        f"{FAILED}Requested reservation is invalid",
        f"{FAILED}Invalid license specification",
        f"{FAILED}Node count specification invalid",
        f"{FAILED}Invalid account or account/partition combination specified",
        f"{FAILED}Invalid qos specification",
        f"{FAILED}User's group not permitted to use this partition",
        f"{FAILED}Requested time limit is invalid (missing or exceeds some limit)",
        f"{FAILED}Invalid Trackable RESource (TRES) specification",
    ],
    Refusal.DOUBT: [
        f"{FAILED}Unable to contact slurm controller (receive failure)",
        f"{FAILED}Transport endpoint is not connected",
        f"{FAILED}Socket timed out on send/recv operation",
        f"{FAILED}Zero Bytes were transmitted or received",
    ],
    Refusal.UNREACHABLE: [
        f"{FAILED}Unable to contact slurm controller (connect failure)",
        f"{FAILED}Connection refused",
        f"{ERROR}Munge encode failed: Failed to access "
        f'"/run/munge/munge.socket.2": No such file or directory\n'
        f"{ERROR}slurm_send_node_msg: auth_g_create: REQUEST_SUBMIT_BATCH_JOB has "
        f"authentication error\n{FAILED}Protocol authentication error",
    ],
    Refusal.UNKNOWN: [
        "",
        f"{FAILED}Cluster is rebalancing its tranches",
        f"{ERROR}cli_filter: come back after lunch\n{FAILED}Unspecified error",
    ],
}
"""What no retry mends; without an answer it may have been taken; without a
connection or a credential nothing was sent; words that nobody knows."""


def test_what_a_failure_means() -> None:
    for kind, texts in MEANINGS.items():
        for stderr in texts:
            assert detect_refusal(f"{stderr}\n") is kind, stderr
