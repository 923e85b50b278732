"""The command table, keymaps and themes: data that is checked."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from textual.actions import parse

from autoexp_tui.cockpit.app import CockpitApp
from autoexp_tui.cockpit.job_actions import JobActions
from autoexp_tui.cockpit.keymap import (
    COMMANDS,
    FORBIDDEN_KEYS,
    Keymap,
    build_keymap,
    format_keys,
    has_clash,
    load_keymap,
)
from autoexp_tui.cockpit.screens.events import EventsScreen
from autoexp_tui.cockpit.screens.jobs import JobsScreen
from autoexp_tui.cockpit.screens.lists import SCREENS
from autoexp_tui.cockpit.spans import Span, line
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.cockpit.themes import ROLES, Skin, find_themes_directory, load_skin
from autoexp_tui.cockpit.widgets.events_panes import (
    EffectPane,
    EventsPane,
    EvidencePane,
)
from autoexp_tui.cockpit.widgets.grid_pane import GridPane
from autoexp_tui.cockpit.widgets.headings import (
    NeedsPane,
    StagesPane,
    TimelinePane,
    WaitingPane,
)
from autoexp_tui.cockpit.widgets.job_panes import JobsPane
from autoexp_tui.cockpit.widgets.log_pane import LogPane
from autoexp_tui.cockpit.widgets.metrics_pane import MetricsPane
from autoexp_tui.cockpit.widgets.pane import draw_strip, to_ascii
from autoexp_tui.cockpit.widgets.why_pane import AnswerPane, WhyPane
from autoexp_tui.model.errors import UsageError
from tests.support.scripted_handle import HOSTILE

TABLE = Keymap()


# ------------------------------------------------------------------------ commands
def test_no_key_means_two_things_in_one_place() -> None:
    for first, second in combinations(COMMANDS.values(), 2):
        shared = set(first.keys) & set(second.keys)
        assert not (shared and has_clash(first, second)), (first.id, second.id, shared)


def test_acting_keys_are_upper_case_their_twins_and_forbidden_ones_stay_free() -> None:
    acting = [key for command in TABLE if command.acts for key in command.keys]
    assert acting == [key.upper() for key in acting]
    bound = {key for command in TABLE for key in command.keys}
    assert not ({"s", "r", "a", "x", "p", "u"} | FORBIDDEN_KEYS) & bound


def test_upper_case_letters_that_look_are_only_moves_and_searches() -> None:
    looking = {
        key
        for command in TABLE
        if not command.acts
        for key in command.keys
        if len(key) == 1 and key.isupper()
    }
    assert looking == {"G", "N", "E"}


PANES: dict[str, tuple[type, type]] = {
    "stages": (StagesPane, JobsScreen),
    "jobs": (JobsPane, JobsScreen),
    "why": (WhyPane, JobsScreen),
    "metrics": (MetricsPane, JobsScreen),
    "needs": (NeedsPane, JobsScreen),
    "log": (LogPane, JobsScreen),
    "events": (EventsPane, EventsScreen),
    "effect": (EffectPane, EventsScreen),
    "evidence": (EvidencePane, EventsScreen),
    "timeline": (TimelinePane, SCREENS["timeline"]),
    "waiting": (WaitingPane, SCREENS["waiting"]),
    "grid": (GridPane, SCREENS["grid"]),
    "conditions": (AnswerPane, SCREENS["grid"]),
}


def test_every_command_can_be_carried_out_where_it_is() -> None:
    for command in TABLE:
        destination, name, parameters = parse(command.action)
        for where in command.where:
            pane, screen = PANES[where]
            target = {"app": CockpitApp, "pane": pane}.get(destination, screen)
            assert hasattr(target, f"action_{name}"), (command.id, where)
        if name == "act":
            assert hasattr(JobActions, str(parameters[0]))


def test_the_documentation_lists_every_command() -> None:
    text = format_keys(TABLE)
    assert all(f"`{command.id}`" in text for command in TABLE)


# -------------------------------------------------------------------------- keymap
def test_a_person_s_keys_replace_ours() -> None:
    table = {"run.kill": "ctrl+k", "move.down": ["j", "down", "f5"], "rows.need": "#"}
    own = build_keymap(table)
    assert own.keys("run.kill") == ("ctrl+k",)
    assert own.keys("rows.need") == ("number_sign",)
    assert own.keys("move.down") == ("j", "down", "f5")
    assert own.keys("move.up") == ("k", "up")


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"run.kil": "x"}, "did you mean 'run.kill'"),
        ({"run.kill": "ctrl+nonsense"}, "no key 'ctrl+nonsense'"),
        ({"run.kill": 7}, "no key 7"),
        ({"rows.mark": "ctrl+z"}, "ctrl+z must stay free"),
        ({"rows.mark": "K"}, "run.kill's (it acts)"),
        ({"run.kill": "j"}, "move.down's"),
        ({"rows.mark": "s"}, "one slip from S"),
        ({"rows.mark": "f2", "rows.range": "f2"}, "f2"),
    ],
)
def test_a_keymap_that_cannot_be_is_refused(
    table: dict[str, object], told: str
) -> None:
    with pytest.raises(UsageError) as refused:
        build_keymap(table)
    assert told in str(refused.value)


def test_all_findings_are_told_at_once() -> None:
    with pytest.raises(UsageError) as refused:
        build_keymap({"nope": "x", "rows.mark": "ctrl+a"})
    assert "nope" in str(refused.value)
    assert "ctrl+a" in str(refused.value)


def test_one_key_may_mean_different_things_in_different_panes() -> None:
    own = build_keymap({"log.follow": "f3", "metrics.scale": "f3"})
    assert own.keys("log.follow") == own.keys("metrics.scale")


def test_a_keymap_is_read_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text('[keys]\n"run.kill" = "ctrl+k"\n')
    assert load_keymap(path).key("run.kill") == "ctrl+k"


@pytest.mark.parametrize("text", ["[keys", "[other]\nx = 1", "keys = 3", None])
def test_a_file_that_is_no_keymap_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "keys.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError):
        load_keymap(path)


# -------------------------------------------------------------------------- themes
def skin(name: str = "dark", **options: bool) -> Skin:
    wanted = {"no_color": False, "ascii_only": False, **options}
    return load_skin(name, **wanted)


@pytest.mark.parametrize("name", ["dark", "light", "ansi"])
def test_every_shipped_theme_has_every_role(name: str) -> None:
    assert set(skin(name).roles) == set(ROLES)


def test_the_ansi_theme_uses_the_terminal_s_own_colours() -> None:
    made = skin("ansi")
    assert made.theme.ansi
    for style in made.roles.values():
        for color in (style.color, style.bgcolor):
            assert color is None or color.is_system_defined or color.is_default


def test_without_colours_no_colour_remains_and_the_cursor_is_still_seen() -> None:
    made = skin("dark", no_color=True)
    styles = [*made.roles.values(), made.cursor, made.away]
    assert all(style.color is None and style.bgcolor is None for style in styles)
    assert made.cursor.reverse


def test_an_unknown_theme_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as refused:
        skin("neon")
    assert "ansi, dark, light" in str(refused.value)


def test_a_theme_of_one_s_own_is_a_path(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    shipped = (find_themes_directory() / "dark.toml").read_text()
    own.write_text(shipped.replace('name = "dark"', 'name = "mine"'))
    assert skin(str(own)).theme.name == "autoexp-mine"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('failed = "#ff5f5f"', ""), "missing: roles.failed"),
        (('failed = "#ff5f5f"', 'failed = "no-colour"'), "roles.failed"),
        (("[rows]", "[lines]"), "[rows]"),
        (('failed = "#ff5f5f"', 'failed = "#ff5f5f"\nfoo = "red"'), "roles.foo"),
    ],
)
def test_a_theme_that_cannot_be_is_refused(
    tmp_path: Path, change: tuple[str, str], told: str
) -> None:
    own = tmp_path / "own.toml"
    own.write_text((find_themes_directory() / "dark.toml").read_text().replace(*change))
    with pytest.raises(UsageError) as refused:
        skin(str(own))
    assert told in str(refused.value)


# ---------------------------------------------------------------------------- text
@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_hostile_reaches_a_strip(name: str) -> None:
    drawn = draw_strip(line(name, Span(name, "failed")), skin(), 40)
    assert drawn.cell_length == 40
    for segment in drawn:
        assert segment.text.isprintable()
        assert segment.control is None


def test_markup_is_text_and_what_is_too_long_is_cut() -> None:
    markup = "x[/red] run[lr=0.1] [/"
    assert draw_strip(line(markup), skin(), 30).text.startswith(markup)
    assert draw_strip(line(markup), skin(), 10).cell_length == 10


def test_ascii_mode_draws_only_ascii_by_as_many_cells() -> None:
    glyphs = "".join(look.glyph for look in Look) + "─│┬█░▁▅…⠓▴▾漢é"
    assert draw_strip(line(glyphs), skin(ascii_only=True), 60).text.isascii()
    assert to_ascii("漢é⧗") == "??e:"
