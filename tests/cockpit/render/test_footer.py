"""The footer: what matters here, as far as it fits."""

from __future__ import annotations

import pytest

from autoexp_tui.cockpit.keymap import Keymap, Pane
from autoexp_tui.cockpit.render.bars import render_footer
from autoexp_tui.cockpit.spans import plain, width

ALL = {"run.kill", "run.resubmit", "run.submit", "run.skip", "run.answer"}


def footer(pane: Pane = "jobs", cells: int = 120, useful: set[str] = ALL) -> str:
    return plain(render_footer(Keymap(), pane, useful, cells))


@pytest.mark.parametrize("cells", range(60, 200, 11))
@pytest.mark.parametrize("pane", ["jobs", "log", "metrics", "events"])
def test_the_footer_fits(pane: Pane, cells: int) -> None:
    assert width(render_footer(Keymap(), pane, ALL, cells)) <= cells


def test_leaving_and_help_are_always_told() -> None:
    assert "q leave" in footer(cells=60)
    assert "? keys" in footer(cells=60)


def test_only_what_could_do_something_is_told() -> None:
    assert "K kill" not in footer(useful=set())
    assert "K kill" in footer(useful={"run.kill"})


def test_the_log_has_its_own_keys() -> None:
    assert "f follow" in footer("log")
    assert "/ search" in footer("log")
    assert "/ filter" not in footer("log")


def test_looking_stands_left_of_acting() -> None:
    looks, acts = footer().split("│")
    assert "/ filter" in looks
    assert "K kill" in acts


def test_a_person_s_own_key_is_shown() -> None:
    own = Keymap({"run.kill": ("ctrl+k",)})
    assert "ctrl+k kill" in plain(render_footer(own, "jobs", ALL, 120))


def test_a_command_that_does_something_else_now_says_what() -> None:
    labels = {"run.pause": "resume"}
    told = plain(render_footer(Keymap(), "jobs", {"run.pause"}, 120, labels=labels))
    assert "P resume" in told
    assert "P pause" not in told
