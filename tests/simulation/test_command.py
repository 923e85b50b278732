"""What the simulator's command says."""

from __future__ import annotations

import pytest

from tests.support.simulation import main


def test_it_says_at_which_seed_a_deliberate_bug_was_caught(
    capsys: pytest.CaptureFixture[str],
) -> None:
    small = ["--seeds", "3", "--families", "2", "--jobs", "1"]
    assert main([*small, "--bug", "drop_intent"]) == 1
    said = capsys.readouterr().out
    assert "drop_intent was caught first at seed 0 (memory)\n" in said


def test_it_says_that_a_deliberate_bug_was_not_caught(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--seeds", "0", "--jobs", "1", "--bug", "drop_intent"])
    assert "drop_intent was not caught\n" in capsys.readouterr().out
