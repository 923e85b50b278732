"""The screen of the voting policy, as one of ours under a mode key is."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from autoexp_tui.cockpit.context import CockpitContext
from autoexp_tui.cockpit.keymap import Pane
from autoexp_tui.cockpit.render.questions import Choice, Question
from autoexp_tui.cockpit.screens.base import BoxScreen
from autoexp_tui.cockpit.spans import Line, line, outside
from autoexp_tui.cockpit.widgets.pane import ListPane
from autoexp_tui.model.commands import Command
from tests.extending.vote import CallVote, Vote

ROWS = """
[Act]
research.approve  A  research  1  approve  approve what is asked
research.add  I  research  2  add  vote about one line more
[Tree]
research.count  d  research  3  count  say how many there are
"""
"""Of the key table."""


class VotePane(ListPane):
    name_in_table = "research"
    number = "7"
    heading = "Vote"

    @property
    def part(self) -> Vote:
        part: Vote = self.model.session.snapshot.parts["research"]
        return part

    def renew(self) -> None:
        self.set_keys(self.part.lines)

    def row(self, place: int, cells: int) -> Line:
        return line(outside(self.keys[place]))


class VoteScreen(BoxScreen):
    first_pane: Pane = "research"

    def __init__(self, context: CockpitContext) -> None:
        super().__init__(context)
        self.pane = VotePane(context, id="research")
        self.content = (self.pane,)

    def find_useful(self) -> Collection[str]:
        return ("research.approve", "research.add")

    async def act(self, verb: str) -> None:
        if verb == "approve":
            await self.app.run_action(("app", "answer", (("vote/1",),)))
        else:
            add = Choice("add", "one line more", asks="line")
            question = Question(
                title="Add a line?",
                stay="Add none",
                confirm="add it",
                choices=(add,),
                build=partial(call_vote, self.pane.part.lines),
            )
            await self.app.run_action(("app", "ask", (question,)))

    def action_research_count(self) -> None:
        self.notify(f"{len(self.pane.keys)} lines")

    def action_look_open(self) -> None:
        self.notify(f"opened {self.pane.key}")


def call_vote(lines: tuple[str, ...], choice: Choice, text: str) -> Command:
    return CallVote(lines=(*lines, text))
