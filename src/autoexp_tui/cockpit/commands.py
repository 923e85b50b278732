"""Every command of the cockpit, once: bindings, footer, palette, help and docs read it.

Lower-case keys look, upper-case keys act. What a command is stands in `command_kinds`,
the table itself in `command_table`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from autoexp_tui.cockpit.command_kinds import Command, Pane
from autoexp_tui.cockpit.command_table import TABLE

__all__ = [
    "COMMANDS",
    "FORBIDDEN_KEYS",
    "Command",
    "Commands",
    "Pane",
    "clashes",
    "keys_markdown",
    "spelled",
]

FORBIDDEN_KEYS: Final = frozenset({"ctrl+a", "ctrl+b", "ctrl+z"})
"""screen's and tmux's prefixes, and the key that would stop the engine."""

COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {command.id: command for command in TABLE}
)
"""By id, in the order in which help lists them."""


class Commands:
    """The table with a person's own keys."""

    def __init__(self, own_keys: Mapping[str, tuple[str, ...]] | None = None) -> None:
        own = own_keys or {}
        self._keys = {
            command.id: own.get(command.id, command.keys) for command in TABLE
        }

    def __iter__(self) -> Iterator[Command]:
        return iter(COMMANDS.values())

    def keys(self, command_id: str) -> tuple[str, ...]:
        """The keys of a command, as Textual names them."""
        return self._keys[command_id]

    def key(self, command_id: str) -> str:
        """The command's first key as a person reads it: `!`, `ctrl+d`, `K`."""
        keys = self._keys[command_id]
        return spelled(keys[0]) if keys else ""

    def at(self, pane: Pane, *, replay: bool = False) -> Sequence[Command]:
        """The commands that a pane has and that a key of theirs reaches.

        In a replay its own come first, and what has no other key is hidden by them.
        """
        here = [command for command in self if pane in command.where]
        own = [command for command in here if command.replay and replay]
        taken = {key for command in own for key in self.keys(command.id)}
        rest = (
            command
            for command in here
            if not command.replay and not taken.issuperset(self.keys(command.id))
        )
        return (*own, *rest)


_SPELLED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "exclamation_mark": "!",
        "question_mark": "?",
        "slash": "/",
        "full_stop": ".",
        "comma": ",",
        "colon": ":",
        "plus": "+",
        "underscore": "_",
        "left_square_bracket": "[",
        "right_square_bracket": "]",
        "escape": "esc",
        "minus": "-",
        "semicolon": ";",
        "equals_sign": "=",
        "less_than_sign": "<",
        "greater_than_sign": ">",
    }
)


def spelled(key: str) -> str:
    """A key as a person reads it."""
    return _SPELLED.get(key, key)


def clashes(first: Command, second: Command) -> bool:
    """Whether two commands may not share a key."""
    alike = first.replay == second.replay  # a replay's keys go before all others
    return first.id != second.id and alike and bool(first.where & second.where)


def keys_markdown(commands: Commands) -> str:
    """The table for the documentation: id, keys, what it does."""
    rows = [
        "| "
        + " | ".join(
            (
                f"`{command.id}`",
                " ".join(f"`{spelled(key)}`" for key in commands.keys(command.id)),
                command.help,
            )
        )
        + " |"
        for command in commands
    ]
    return "\n".join(("| id | keys | what it does |", "|---|---|---|", *rows)) + "\n"
