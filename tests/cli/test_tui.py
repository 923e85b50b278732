"""What the cockpit's command line means, before there is a screen."""

from __future__ import annotations

import pytest

from autoexp_tui.cli.options import Options
from autoexp_tui.cli.tui import _with_config


@pytest.mark.parametrize(
    "options", [Options(config_dir="conf"), Options(overrides=("lr=3",))]
)
def test_a_config_directory_or_overrides_alone_mean_the_usual_config(
    options: Options,
) -> None:
    assert _with_config(options).config_ref == "exp"


@pytest.mark.parametrize(
    "options",
    [
        Options(config_ref="mine", overrides=("lr=3",)),
        Options(session="k7f2", config_dir="conf"),
        Options(manifest="plan.json", config_dir="conf"),
    ],
)
def test_what_was_named_stays(options: Options) -> None:
    assert _with_config(options) == options
