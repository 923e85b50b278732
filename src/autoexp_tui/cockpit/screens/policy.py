"""The pane of a policy, over the whole screen: lines that it makes of the snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult
from textual.geometry import Size

from autoexp_tui.cockpit.render.layout import Boxes, build_two_boxes
from autoexp_tui.cockpit.screens.base import BoxScreen
from autoexp_tui.cockpit.spans import Line, line, outside, wrap
from autoexp_tui.cockpit.widgets.pane import TextPane
from autoexp_tui.model.policy import Policy

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.cockpit.keymap import Pane


class PolicyPane(TextPane):
    """What a policy says of its part of the session."""

    name_in_table = "why"
    policy: Policy

    def build_lines(self, cells: int) -> Sequence[Line]:
        lines = self.policy.list_lines(self.model.session.snapshot)
        return [part for text in lines for part in wrap(line(outside(text)), cells)]


class PolicyScreen(BoxScreen):
    """One pane, as large as the terminal."""

    first_pane: Pane = cast("Pane", "policy")

    def __init__(self, context: CockpitContext, name: str) -> None:
        super().__init__(context)
        self._policy = Policy.kinds[name]()

    def compose(self) -> ComposeResult:
        self.pane = PolicyPane(self.context.skin, self.model, id="policy")
        self.pane.policy = self._policy
        yield self.pane
        yield from self.compose_frame()

    def find_boxes(self, size: Size) -> Boxes:
        pane = self.first_pane
        return build_two_boxes(size.width, size.height, pane, pane, pane)

    def renew(self) -> None:
        if self.is_mounted:
            self.update_time()
            self.pane.renew()
            self.show_keys()
