"""A partial repaint leaves on the terminal what a full one would, for fewer bytes."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.renderables.background_screen import BackgroundScreen
from textual.strip import Strip

from autoexp_tui.cockpit.painting import (
    PLAIN,
    Pen,
    ThriftyCompositor,
    ThriftyUpdate,
    change,
    pen_of,
    tinted,
)
from autoexp_tui.cockpit.spans import Line, Span, compare_lines, pad
from autoexp_tui.cockpit.text import strip
from autoexp_tui.cockpit.themes import Skin, load_skin
from tests.cockpit.seat import cockpit
from tests.support.campaigns import all_running
from tests.support.scripted_handle import moved

CELLS = 24
ROWS = 3
CONSOLE = Console(color_system="256", force_terminal=True, width=CELLS)
SKIN: Skin = load_skin("dark", no_color=False, ascii_only=False)

texts = st.text(alphabet="ab 01é漢字▆─\N{COMBINING ACUTE ACCENT}", max_size=9)
roles = st.sampled_from(["text", "running", "failed", "muted", "strong", "focus"])
lines = st.lists(st.builds(Span, texts, roles), max_size=5).map(tuple)


def drawn(content: Line) -> Strip:
    return strip(pad(content, CELLS), SKIN, CELLS)


def terminal() -> tuple[pyte.Screen, pyte.Stream]:
    screen = pyte.Screen(CELLS, ROWS)
    return screen, pyte.Stream(screen)


def fully(content: Line) -> str:
    """Textual's own way: all of the line."""
    return f"\x1b[2;1H{drawn(content).render(CONSOLE)}"


def partially(before: Line, after: Line) -> str:
    spans = [
        (1, start, end)
        for start, end in compare_lines(pad(before, CELLS), pad(after, CELLS))
    ]
    chops: list[dict[int, Strip | None]] = [{0: None}, {0: drawn(after)}]
    return ThriftyUpdate(chops, spans, [[CELLS], [CELLS]]).render_segments(CONSOLE)


def looks(screen: pyte.Screen) -> list[object]:
    return [screen.buffer[1][cell] for cell in range(CELLS)]


@given(lines, lines)
def test_the_changed_cells_are_all_that_has_to_be_sent(
    before: Line, after: Line
) -> None:
    whole, feed_whole = terminal()
    feed_whole.feed(fully(after))
    part, feed_part = terminal()
    feed_part.feed(fully(before))
    feed_part.feed(partially(before, after))
    assert looks(part) == looks(whole)


@given(lines)
def test_an_equal_line_sends_nothing(content: Line) -> None:
    assert compare_lines(content, content) == []


def test_far_changes_are_sent_apart_and_near_ones_together() -> None:
    before = (Span("0" * 20),)
    after = (Span("1000010000000000000" + "1"),)
    assert compare_lines(before, after) == [(0, 6), (19, 20)]


def test_a_wide_character_is_never_cut_in_two() -> None:
    assert compare_lines((Span("a漢b"),), (Span("ax b"),)) == [(1, 3)]


def test_what_joins_a_wide_character_is_drawn_with_it() -> None:
    joined = (Span("字\N{COMBINING ACUTE ACCENT}0"),)
    assert compare_lines((Span("字0"),), joined) == [(0, 3)]


def test_a_colour_is_named_when_it_changes_and_not_again() -> None:
    red, blue = Pen(foreground="31"), Pen(foreground="34")
    assert change(PLAIN, red) == "\x1b[31m"
    assert change(red, red) == ""
    assert change(red, blue) == "\x1b[34m"
    assert change(red, PLAIN) == "\x1b[39m"
    assert change(Pen("1", "31"), red) == "\x1b[0;31m"


@pytest.mark.parametrize("system", [None, *ColorSystem])
def test_a_pen_says_no_more_colours_than_the_terminal_has(
    system: ColorSystem | None,
) -> None:
    pen = pen_of(Style.parse("bold #5f87af on #121212"), system)
    longest = {
        None: "",
        ColorSystem.STANDARD: "90",
        ColorSystem.EIGHT_BIT: "38;5;67",
        ColorSystem.TRUECOLOR: "38;2;95;135;175",
        ColorSystem.WINDOWS: "90",
    }[system]
    assert len(pen.foreground) <= len(longest)
    assert bool(pen.attributes) == (system is not None)


def test_what_lies_left_of_the_change_is_not_sent() -> None:
    piece = Strip([Segment("abcdef"), Segment("ghi", Style(bold=True))])
    update = ThriftyUpdate([{0: piece}], [(0, 7, 8)], [[9]])
    assert update.render_segments(CONSOLE) == "\x1b[1;8H\x1b[0;1mh\x1b[0m"


async def test_a_second_of_24_live_runs_is_under_4_kilobytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[int] = []
    original = ThriftyCompositor.render_partial_update

    def counted(self: ThriftyCompositor) -> object:
        update = original(self)
        if update is not None:
            sent.append(len(update.render_segments(CONSOLE).encode()))
        return update

    async with cockpit(all_running(24), size=(200, 60)) as seat:
        monkeypatch.setattr(ThriftyCompositor, "render_partial_update", counted)
        for _ in range(5):
            await seat.push(moved(seat.handle.snapshot(), 1))
    assert 0 < sum(sent) / 5 < 4096


def test_below_an_overlay_every_style_is_tinted_as_textual_tints_it() -> None:
    content = [Segment("a", style) for style in SKIN.roles.values()]
    content += [Segment("b"), Segment("c", Style(bold=True))]
    tint, under = Color(10, 20, 30, 0.6), Style.parse("on #101010")
    (ours,) = tinted([Strip(content)], tint, under)
    theirs = BackgroundScreen.process_segments(content, tint)
    assert list(ours) == [Segment(one.text, under + one.style) for one in theirs]
