"""A person's own keys, read from TOML and checked before anything is bound.

    [keys]
    "run.kill" = "ctrl+k"
    "move.down" = ["j", "down", "ctrl+n"]

An unknown id or key, a key that must stay free, or two commands on one key in one
place are refused with every finding at once: a keymap never makes an acting key mean
something else in silence.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from autoexp_tui.cockpit.commands import (
    COMMANDS,
    FORBIDDEN_KEYS,
    Commands,
    clashes,
    spelled,
)
from autoexp_tui.model.errors import UsageError

_NAMED = frozenset(
    {
        "escape", "enter", "tab", "space", "backspace", "delete", "insert",
        "home", "end", "pageup", "pagedown", "up", "down", "left", "right",
        *(f"f{number}" for number in range(1, 13)),
    }
)  # fmt: skip
_MODIFIERS = ("ctrl+", "alt+", "shift+")


def load_keymap(path: Path) -> Commands:
    """The command table with the keys of a TOML file.

    Raises:
        UsageError: the file cannot be read, or what it says cannot be.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(error.strerror or str(error), str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"not TOML: {error}", str(path)) from error
    table = content.get("keys", {})
    if not isinstance(table, dict) or set(content) - {"keys"}:
        raise UsageError("expected one table, [keys]", str(path))
    return keymap(table, str(path))


def keymap(table: Mapping[str, object], where: str = "ui.keys") -> Commands:
    """The command table with the keys of `{id: key | [keys]}`.

    Raises:
        UsageError: with every finding.
    """
    own: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for name, value in table.items():
        if name not in COMMANDS:
            problems.append(f"no command {name!r}{_nearest(name)}")
            continue
        own[name] = tuple(_keys(name, value, problems))
    problems += _twins(own)
    problems += _clashes(own)
    if problems:
        raise UsageError(
            "; ".join(problems), where, "the help (?) lists ids and keys; nothing bound"
        )
    return Commands(own)


def _nearest(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, 1)
    return f", did you mean {near[0]!r}?" if near else ""


def _keys(name: str, value: object, problems: list[str]) -> Iterable[str]:
    entries = value if isinstance(value, list) else [value]
    for entry in entries:
        key = _key(entry) if isinstance(entry, str) else None
        if key is None:
            problems.append(f"{name}: no key {entry!r}")
        elif key in FORBIDDEN_KEYS:
            problems.append(f"{name}: {key} must stay free")
        else:
            yield key


def _key(text: str) -> str | None:
    """Textual's name of a key; None when there is no such key."""
    from textual.keys import _character_to_key

    if len(text) == 1 and text.isprintable():
        return _character_to_key(text)
    base = text
    while base.startswith(_MODIFIERS):
        base = base.split("+", 1)[1]
    named = base in _NAMED or (len(base) == 1 and base.isalnum() and base != text)
    return text if named or spelled(text) != text else None


def _twins(own: Mapping[str, tuple[str, ...]]) -> Iterable[str]:
    """Lower-case twins of acting keys stay unbound."""
    merged = Commands(own)
    acting = {
        key: command.id
        for command in merged
        if command.acts
        for key in merged.keys(command.id)
    }
    for name, keys in own.items():
        for key in keys:
            twin = key.upper() if len(key) == 1 else key
            if key != twin and twin in acting and key not in COMMANDS[name].keys:
                yield f"{name}: {key} is one slip from {twin} ({acting[twin]})"


def _clashes(own: Mapping[str, tuple[str, ...]]) -> Iterable[str]:
    merged = Commands(own)
    for name in own:
        for other in merged:
            shared = set(merged.keys(name)) & set(merged.keys(other.id))
            if not shared or not clashes(COMMANDS[name], other):
                continue
            if other.id in own and other.id < name:
                continue
            keys = ", ".join(sorted(spelled(key) for key in shared))
            yield f"{name}: {keys} is {other.id}'s{' (it acts)' if other.acts else ''}"
