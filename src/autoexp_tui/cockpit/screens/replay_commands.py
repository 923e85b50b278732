"""What a replay's keys do: a function each, by the command's id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from autoexp_tui.text.time_parsing import EXAMPLES, NoMoment, parse_moment

if TYPE_CHECKING:
    from autoexp_tui.cockpit.screens.base import BoxScreen
    from autoexp_tui.engine.handle import Player
    from autoexp_tui.model.snapshot import Playback

Move = Callable[["Player", "Playback"], object]

MOVES: Final[Mapping[str, Move]] = MappingProxyType(
    {
        "replay.play": lambda player, shown: player.toggle(),
        "replay.slower": lambda player, shown: player.change_speed(0.5),
        "replay.faster": lambda player, shown: player.change_speed(2.0),
        "replay.back": lambda player, shown: player.step(-1),
        "replay.on": lambda player, shown: player.step(1),
        "replay.begin": lambda player, shown: player.jump(shown.begin),
        "replay.end": lambda player, shown: player.jump(shown.end),
    }
)


def carry_out_replay(screen: BoxScreen, command_id: str) -> None:
    """Move the replay; what comes of it is shown as soon as it is there."""
    player = screen.cockpit.handle.player
    shown = screen.cockpit.desk.session.snapshot.playback
    if player is None or shown is None:
        screen.say("the journal is still being read", "warning")
    elif command_id == "replay.jump":
        ask_moment(screen, player)
    else:
        screen.cockpit.bridge_hurry()
        MOVES[command_id](player, shown)


def ask_moment(screen: BoxScreen, player: Player) -> None:
    """Ask for a time, and go there."""

    def answered(text: str) -> None:
        shown = screen.cockpit.desk.session.snapshot.playback
        if shown is None or not text.strip():
            return
        try:
            wanted = parse_moment(text, shown.at, shown.begin, shown.end)
        except NoMoment as error:
            screen.say(str(error), "warning")
            return
        if not shown.begin <= wanted <= shown.end:
            screen.say("the journal does not reach so far: its nearest moment")
        screen.cockpit.bridge_hurry()
        player.jump(wanted)

    screen.prompt("time", EXAMPLES, "", answered)
