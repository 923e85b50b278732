"""sbatch's refusals are told plainly, with the option, Slurm's words, the next step."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from autoexp_tui.executors.slurm.refusals import refused
from autoexp_tui.model.scalars import Scalar


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
            "Invalid node name specified",
            {"exclude": "n99"},
            "there is no node `n99`",
            "slurm.sbatch.exclude",
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
    told = refused(message, options)
    assert (told.reason, told.where) == (reason, where)
    assert told.hint


def test_what_is_not_known_is_told_in_slurm_s_words() -> None:
    told = refused("Batch job submission failed: The moon is full", {})
    assert (told.reason, told.hint) == ("The moon is full", "")
    assert told.line == "The moon is full"


def test_a_line_has_reason_option_slurm_s_words_and_the_next_step() -> None:
    told = refused("invalid partition specified: x", {"partition": "x"})
    assert told.line == (
        "there is no partition `x` (slurm.sbatch.partition). Slurm said: invalid "
        "partition specified: x. `sinfo -o %R` lists them"
    )


def test_braces_in_slurm_s_words_are_only_text() -> None:
    assert "{partition}" in refused("odd {partition} {0}", {}).line


def test_control_characters_of_a_message_are_gone() -> None:
    assert "\x1b" not in refused("a \x1b[31mred\x1b[0m refusal", {}).line
