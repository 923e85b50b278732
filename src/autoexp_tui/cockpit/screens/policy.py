"""The pane of a policy, over the whole screen: lines that it makes of the snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from textual.app import ComposeResult
from textual.geometry import Size

from autoexp_tui.cockpit.render.layout import Boxes, build_two_boxes
from autoexp_tui.cockpit.screens.base import BoxScreen
from autoexp_tui.cockpit.spans import Line, line, outside, wrap
from autoexp_tui.cockpit.widgets.text_pane import TextPane
from autoexp_tui.model.policy import Policy

if TYPE_CHECKING:
    from autoexp_tui.cockpit.commands import Pane
    from autoexp_tui.cockpit.session_model import Desk
    from autoexp_tui.cockpit.themes import Skin


class PolicyPane(TextPane):
    """What a policy says of its part of the session."""

    name_in_table = "why"

    def __init__(self, skin: Skin, desk: Desk, policy: Policy, **options: Any) -> None:
        super().__init__(skin, **options)
        self.desk = desk
        self.policy = policy

    def make(self, cells: int) -> Sequence[Line]:
        lines = self.policy.list_lines(self.desk.session.snapshot)
        return [part for text in lines for part in wrap(line(outside(text)), cells)]


class PolicyScreen(BoxScreen):
    """One pane, as large as the terminal."""

    first_pane: Pane = cast("Pane", "policy")

    def __init__(self, skin: Skin, desk: Desk, name: str) -> None:
        super().__init__(f"policy:{name}")
        self.skin = skin
        self.desk = desk
        self._policy = Policy.kinds[name]()

    def compose(self) -> ComposeResult:
        self.pane = PolicyPane(self.skin, self.desk, self._policy, id="policy")
        yield self.pane
        yield from self.frame(self.skin, self.desk)

    def boxes_for(self, size: Size) -> Boxes:
        pane = self.first_pane
        return build_two_boxes(size.width, size.height, pane, pane, pane)

    def renew(self) -> None:
        if self.is_mounted:
            self.tell_time()
            self.pane.renew()
            self.tell_footer()
