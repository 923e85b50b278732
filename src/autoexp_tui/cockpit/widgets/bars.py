"""The lines above and below: header, footer and what is said or typed in its place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from textual import events
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
    from autoexp_tui.cockpit.keymap import Pane


class Header(LinesWidget):
    """What this is, how old the data is, who is needed."""

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        if is_too_small(*self.screen.size):
            text = f" too small: {SMALLEST[0]}x{SMALLEST[1]} at least; all goes on"
            return [Painted(cut((Span(text, "warning"),), cells))]
        session = self.model.session
        facts = HeaderFacts(
            now=self.context.find_present(),
            groups=self.model.groups,
            ends=self.model.ends,
            gpu_hours=self.model.gpu_hours,
            read_only=self.context.is_read_only,
            failed=self.model.failed,
        )
        counts = render_counts(session, cells, apart=self.skin.ascii)
        return [Painted(render_header(session, facts, cells)), Painted(counts)]


class Footer(LinesWidget):
    """The keys that matter here; for a while, what was just said, or is asked."""

    problem: str = ""
    """What is wrong with what is being typed, said in a line above; empty: nothing."""

    notice: Line = ()
    _pane: Pane = "jobs"
    _useful: Collection[str] = ()
    _labels: Mapping[str, str] = MappingProxyType({})

    def show_keys(
        self, pane: Pane, useful: Collection[str], labels: Mapping[str, str]
    ) -> None:
        """Show the keys of a pane; see `render_footer`."""
        self._pane, self._useful, self._labels = pane, useful, labels
        self.update_lines()

    def show_notice(self, notice: Line) -> None:
        """Show a notice instead of the keys; an empty one shows the keys again."""
        self.notice = notice
        self.update_lines()

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        keymap, replay = self.context.keymap, self.context.is_replay
        content = self.notice or render_footer(
            keymap, self._pane, self._useful, cells, replay=replay, labels=self._labels
        )
        above = [(Span(f" {self.problem}", "failed"),)] if self.problem else []
        return [Painted(cut(one, cells)) for one in (*above, content)]


class TimeBar(LinesWidget):
    """Where a replay stands between the beginning and the end of its journal."""

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        playback = self.model.session.snapshot.playback
        if playback is None:
            return [Painted((Span(" reading the journal", "muted"),))]
        return [Painted(render_time_bar(playback, cells))]


Typed: TypeAlias = events.Key | events.Paste


class Prompt(Input):
    """One line to type in; its screen hands it keys in the order they were typed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(compact=True, select_on_focus=False, **options)
        self.cursor_blink = False

    async def take(self, event: Typed) -> None:
        """Type a key, edit with it, or paste a text's first line."""
        if isinstance(event, events.Paste):
            self.replace("".join(event.text.splitlines()[:1]), *self.selection)
        elif event.is_printable and event.character is not None:
            self.replace(event.character, *self.selection)
        else:
            for binding in self._bindings.key_to_bindings.get(event.key, ()):
                await self.run_action(binding.action)
