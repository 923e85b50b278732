"""A checkpoint that cannot be read, and a run that goes on from the one before."""

from __future__ import annotations

import shlex
import sys

from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import MaxAttempts
from autoexp_tui.model.rules import Checkpoints, Monitoring, StateEvent
from tests.e2e.campaign import Campaign, build_job, result_of, save_plan

LATEST = "latest_checkpointed_iteration.txt"


def test_a_run_goes_on_from_the_checkpoint_before_a_spoilt_one(
    campaign: Campaign,
) -> None:
    """A trainer of 300 steps whose checkpoint at 200 is spoilt by its first attempt."""
    save = campaign.root / "out/train/checkpoints"
    words = [sys.executable, "-m", "autoexp_tui.demo", "train", "--save", str(save)]
    words += ["--train-iters", "300", "--warmup-iters", "10", "--save-interval", "100"]
    words += ["--crash-at", "250", "--hidden", "8", "--batch-size", "4"]
    spoil = f"echo junk > {shlex.quote(str(save))}/iter_00000200/model.npz"
    again = f'[ "$AUTOEXP_RESUME" = 0 ] && {spoil}; exit 1'
    script = f"{shlex.join(words)} && exit; {again}"
    restart = Restart(quarantine_after=1, conditions=(MaxAttempts(max_attempts=5),))
    rule = StateEvent(name="crashed", state="crash", actions=(restart,))
    where = Checkpoints(glob="checkpoints/iter_*", pointer=f"checkpoints/{LATEST}")
    job = build_job(campaign.root, "train", 0, "bash", "-c", script)
    save_plan(campaign.root, [job], Monitoring(state_events=(rule,), checkpoints=where))
    run = campaign.run()
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert result_of(out)["train"]["attempts"] == 3
    assert (save / "iter_00000200.quarantined-1/model.npz").read_text() == "junk\n"
    assert (save / "iter_00000200/done.txt").exists(), "it was trained anew"
    assert (save / LATEST).read_text() == "300\n"
    log = (campaign.root / "logs/train/current.log").read_text()
    assert "iteration 100" in log
    warnings = campaign.state().warnings.values()
    assert [warned.why.code for warned in warnings] == ["quarantined"]
