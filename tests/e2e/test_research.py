"""The example's campaign, for real: agents by rule, and a person who approves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.campaign import run_command

STATE = "outputs/.autoexp"
SMALL = ("samples=128000", "eval_samples=25600", "research.heartbeat_seconds=10")
"""Of so long a run the steepest rate's loss stays above its limit to the end: its
criterion holds whenever somebody looks."""
ASKED = re.compile(r"autoexp-sessions (approve \S+ \S+)")


def play(root: Path) -> tuple[int, Any, Any]:
    """A short campaign to its end: exit status, `--json`'s line, the state file. Each
    question is answered with yes, by hand."""
    slots = f"slurm.client.slots_dir={root / 'slots'}"
    words = ["--config-ref", "experiments/research", "--json", slots, *SMALL]
    command = [sys.executable, "-m", "autoexp_tui.cli.run", *words]
    with subprocess.Popen(
        command,
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stderr:
            if asked := ASKED.search(line):
                done = run_command(
                    root, "sessions", *asked[1].split(), "--state-dir", STATE
                )
                assert done.returncode == 0, done.stderr
        told = json.loads(process.stdout.read().splitlines()[-1])
        status = process.wait()
    (state,) = root.glob(f"{STATE}/*/research/experiment_state.json")
    return status, told, json.loads(state.read_text())


def test_the_campaign_of_the_example_shows_each_element_and_ends_by_itself(
    tmp_path: Path,
) -> None:
    status, told, state = play(tmp_path)
    assert (status, told["stopped"]) == (0, "nothing_left")
    runs = {run["run_id"]: run for run in state["runs"]}
    calls = state["consultations"]
    by_status = {name: run["status"] for name, run in runs.items()}
    # Ended by a criterion, and as the agent asked and a person approved.
    assert "eval_loss >" in runs["rate1.5e-2"]["kill_shown"]
    assert by_status["rate1.5e-2"] == by_status["patience"] == "killed"
    killed = [one for call in calls for one in call["decided"] if one["by"]]
    assert any("end patience" in text for one in killed for text in one["applied"])
    # A crash, repaired by what its log says.
    assert "MemoryError" in runs["batch1024"]["error"]
    assert runs["batch1024"]["fix_relaunch"] == "batch1024_fix1"
    assert by_status["batch1024_fix1"] == "completed"
    assert [one["role"] for one in calls].count("fixer") == 1
    # What was stated, and what became of it.
    became = {one["id"]: one["status"] for one in state["hypotheses"]}
    assert became["width"] == became["repeat"] == "confirmed"
    warned = {one["key"]: one["message"] for one in state["warnings"]}
    assert "failed 3 times" in warned["hypothesis:batch:batch256"]
    assert became["batch"] == "rejected"
    assert "batch2048" not in runs
    # Why the agent was called.
    kinds = {trigger["kind"] for call in calls for trigger in call["triggers"]}
    assert kinds >= {"run_finished", "list_depleted", "heartbeat", "warning_fired"}
    crossed = state["budget"]["milestones"]
    of_calls = [one["left_percent"] for one in crossed if one["budget"] == "calls"]
    assert of_calls[:1] == [75]
    assert "budget_milestone" in kinds
    # Curves are kept, and rates follow from results.
    assert len(runs["rate3e-3"]["metrics_history"]) > 5
    assert {"rate1.3e-3", "rate6.7e-3"} <= runs.keys()
    assert runs["width512"]["depends_on"] == ["width384"]
    assert told["best"]["run"] in {"width512", "repeat"}
