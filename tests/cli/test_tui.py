"""What the cockpit's command line means, before there is a screen."""

from __future__ import annotations

import io
import math

import pytest

from autoexp_tui.cli import tui
from autoexp_tui.cli.options import Options
from autoexp_tui.cli.tui import _choose_config
from autoexp_tui.model.errors import EnvironmentFailed, UsageError


@pytest.mark.parametrize(
    "options", [Options(config_dir="conf"), Options(overrides=("lr=3",))]
)
def test_a_config_directory_or_overrides_alone_mean_the_usual_config(
    options: Options,
) -> None:
    assert _choose_config(options).config_ref == "exp"


@pytest.mark.parametrize(
    "options",
    [
        Options(config_ref="mine", overrides=("lr=3",)),
        Options(session="k7f2", config_dir="conf"),
        Options(manifest="plan.json", config_dir="conf"),
    ],
)
def test_what_was_named_stays(options: Options) -> None:
    assert _choose_config(options) == options


@pytest.mark.parametrize(
    ("text", "speed"), [("1", 1.0), ("60x", 60.0), ("1e6x", 1e6), ("max", math.inf)]
)
def test_a_replay_s_speed_is_a_number_or_as_fast_as_it_goes(
    text: str, speed: float
) -> None:
    assert tui.parse_speed(text) == speed


@pytest.mark.parametrize("text", ["", "x", "0.5x", "-1", "nan", "fast"])
def test_what_is_no_speed_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="speed"):
        tui.parse_speed(text)


def test_a_replay_takes_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui, "_require_terminal", lambda: None)
    with pytest.raises(UsageError, match="plays what happened"):
        tui.main(["--replay", "--config-ref", "exp"])


def test_a_cockpit_without_a_terminal_is_a_lack_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(EnvironmentFailed, match="needs a terminal") as failed:
        tui.main(["--config-ref", "exp"])
    assert failed.value.exit_code == 5
