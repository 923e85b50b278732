"""The lines above and below: header, footer and what is said in its place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from textual import events
from textual.actions import parse
from textual.widgets import Input

from autoexp_tui.cockpit.render.bars import (
    HeaderFacts,
    render_counts,
    render_footer,
    render_header,
    render_time_bar,
)
from autoexp_tui.cockpit.render.layout import SMALLEST, is_too_small
from autoexp_tui.cockpit.spans import Line, Span, cut
from autoexp_tui.cockpit.widgets.pane import LinesWidget, Painted

if TYPE_CHECKING:
    from autoexp_tui.cockpit.commands import Commands, Pane
    from autoexp_tui.cockpit.session_model import Desk
    from autoexp_tui.cockpit.themes import Skin


class Header(LinesWidget):
    """What this is, how old the data is, who is needed."""

    def __init__(self, skin: Skin, desk: Desk, **options: Any) -> None:
        super().__init__(skin, **options)
        self.desk = desk
        self.now = 0.0
        self.read_only = False

    def tell(self, now: float) -> None:
        """Draw what changed by `now` (UTC)."""
        self.now = now
        self.repaint()

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        screen = self.screen.size
        if is_too_small(*screen):
            text = f" too small: {SMALLEST[0]}x{SMALLEST[1]} at least; all goes on"
            return [Painted(cut((Span(text, "warning"),), cells))]
        facts = HeaderFacts(
            now=self.now,
            groups=self.desk.groups,
            ends=self.desk.ends,
            gpu_hours=self.desk.gpu_hours,
            read_only=self.read_only,
            failed=self.desk.failed,
        )
        session = self.desk.session
        lines = (
            render_header(session, facts, cells),
            render_counts(session, cells, apart=self.skin.ascii),
        )
        return [Painted(one) for one in lines]


class Footer(LinesWidget):
    """The keys that matter here; for a while, what was just said."""

    def __init__(self, skin: Skin, commands: Commands, **options: Any) -> None:
        super().__init__(skin, **options)
        self.commands = commands
        self.replay = False
        """Whether a replay's keys are among them."""
        self.pane: Pane = "jobs"
        self.useful: Collection[str] = ()
        self.labels: Mapping[str, str] = {}
        self.notice: Line = ()

    def tell(
        self, pane: Pane, useful: Collection[str], labels: Mapping[str, str]
    ) -> None:
        """Show the keys of a pane; see `footer_line`."""
        self.pane = pane
        self.useful = useful
        self.labels = labels
        self.repaint()

    def say(self, notice: Line) -> None:
        """Show a notice instead of the keys; an empty one shows the keys again."""
        self.notice = notice
        self.repaint()

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        if self.notice:
            return [Painted(cut(self.notice, cells))]
        content = render_footer(
            self.commands,
            self.pane,
            self.useful,
            cells,
            replay=self.replay,
            labels=self.labels,
        )
        return [Painted(content)]


class TimeBar(LinesWidget):
    """Where a replay stands between the beginning and the end of its journal."""

    def __init__(self, skin: Skin, desk: Desk, **options: Any) -> None:
        super().__init__(skin, **options)
        self.desk = desk

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        playback = self.desk.session.snapshot.playback
        if playback is None:
            return [Painted((Span(" reading the journal", "muted"),))]
        return [Painted(one) for one in render_time_bar(playback, cells, rows)]


class ProblemLine(LinesWidget):
    """What is wrong with what is being typed below it."""

    def __init__(self, skin: Skin, **options: Any) -> None:
        super().__init__(skin, **options)
        self.problem = ""

    def tell(self, problem: str) -> None:
        """Show a problem; an empty one is none."""
        self.problem = problem
        self.repaint()

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        return [Painted(cut((Span(f" {self.problem}", "failed"),), cells))]


Typed: TypeAlias = events.Key | events.Paste


class Prompt(Input):
    """One line to type in, where the footer stands. Its cursor does not blink.

    Its screen hands it keys by `take`, in the order in which they were typed: Textual
    would send some to whatever had the focus when they came.
    """

    DEFAULT_CSS = """
    Prompt { background: $background; color: $foreground; border: none; padding: 0 1;
             height: 1; }
    Prompt:focus { background: $background; border: none; }
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(compact=True, select_on_focus=False, **options)
        self.cursor_blink = False

    def take(self, event: Typed) -> None:
        """Type a key, edit with it, or paste a text's first line."""
        if isinstance(event, events.Paste):
            self.replace("".join(event.text.splitlines()[:1]), *self.selection)
        elif event.is_printable and event.character is not None:
            self.replace(event.character, *self.selection)
        else:
            for binding in self._bindings.key_to_bindings.get(event.key, ()):
                _, name, arguments = parse(binding.action)
                getattr(self, f"action_{name}")(*arguments)
