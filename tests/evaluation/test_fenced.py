"""What a candidate's job of a plan finds in its environment."""

from __future__ import annotations

from autoexp_tui.evaluation.fenced import list_passed


def test_a_candidate_gets_its_run_s_variables_and_no_token_of_slurm() -> None:
    given = {
        "SLURM_JOB_ID": "7",
        "SLURM_JWT": "secret",
        "CUDA_VISIBLE_DEVICES": "0",
        "AUTOEXP_ATTEMPT": "1",
        "OWN": "x",
        "HF_TOKEN": "secret",
    }
    assert list_passed(given, ["OWN"]).keys() == given.keys() - {
        "SLURM_JWT",
        "HF_TOKEN",
    }
