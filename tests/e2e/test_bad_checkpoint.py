"""A checkpoint that cannot be read, and a run that goes on from the one before."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import MaxAttempts
from autoexp_tui.model.rules import Checkpoints, Monitoring, StateEvent
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.session_dir import SessionDir
from tests.e2e.campaign import Campaign, result_of, save_plan

LATEST = "latest_checkpointed_iteration.txt"


def write(campaign: Campaign) -> Path:
    """A trainer of 300 steps whose checkpoint at 200 is spoilt by its first attempt."""
    out = campaign.root / "out"
    save = out / "checkpoints"
    words = [sys.executable, "-m", "autoexp_tui.demo", "train", "--save", str(save)]
    words += ["--train-iters", "300", "--warmup-iters", "10", "--save-interval", "100"]
    words += ["--crash-at", "250", "--hidden", "8", "--batch-size", "4"]
    spoil = f"echo junk > {shlex.quote(str(save))}/iter_00000200/model.npz"
    script = (
        f'{shlex.join(words)} && exit; [ "$AUTOEXP_RESUME" = 0 ] && {spoil}; exit 1'
    )
    spec = JobSpec(
        name="train",
        index=0,
        command=("bash", "-c", script),
        output_dir=str(out),
        log_dir=str(campaign.root / "logs/train"),
    )
    restart = Restart(quarantine_after=1, conditions=(MaxAttempts(max_attempts=5),))
    rules = Monitoring(
        state_events=(StateEvent(name="crashed", state="crash", actions=(restart,)),),
        checkpoints=Checkpoints(
            glob="checkpoints/iter_*", pointer=f"checkpoints/{LATEST}"
        ),
    )
    save_plan(campaign.root, [spec], rules)
    return save


def test_a_run_goes_on_from_the_checkpoint_before_a_spoilt_one(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    save = write(campaign)
    run = campaign.start("--manifest", str(campaign.manifest), "--json")
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert result_of(out)["train"]["attempts"] == 3
    assert (save / "iter_00000200.quarantined-1/model.npz").read_text() == "junk\n"
    assert (save / "iter_00000200/done.txt").exists(), "it was trained anew"
    assert (save / LATEST).read_text() == "300\n"
    log = (tmp_path / "logs/train/current.log").read_text()
    assert "iteration 100" in log
    state = load_state(SessionDir(campaign.state_dir / campaign.session())).state
    assert [warned.why.code for warned in state.warnings.values()] == ["quarantined"]
