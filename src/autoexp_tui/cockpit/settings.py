"""A person's own file of the cockpit, and commands on keys as it or a config has them:
read and checked, all findings at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from autoexp_tui.cockpit.keymap import PANES, Keymap, build_keymap
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.own_commands import OwnCommand

_FIELDS: Final = ("key", "label", "command", "where", "confirm", "terminal")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a person's own file says of the cockpit."""

    theme: str = ""
    keymap: Keymap | None = None


_SETTINGS: Final = frozenset({"theme", "keys", "commands"})


def build_settings(
    content: Mapping[str, object], where: str, *, commands: bool = True
) -> Settings:
    """Of a person's own file: `theme`, `[keys]`, `[[commands]]` (read with `commands`
    alone); what is not there is as usual; raises UsageError."""
    unknown = sorted(set(content) - _SETTINGS)
    keys, theme = content.get("keys", {}), content.get("theme", "")
    if unknown or not isinstance(keys, dict) or not isinstance(theme, str):
        hint = "theme = NAME, [keys] and [[commands]]"
        problem = f"unknown: {', '.join(unknown)}" if unknown else "of another form"
        raise UsageError(problem, where, hint)
    keymap = build_keymap(keys, where)
    if commands and "commands" in content:
        keymap = keymap.add(read_own_commands(content["commands"], where), where)
    return Settings(theme, keymap)


def read_own_commands(entries: object, where: str) -> tuple[OwnCommand, ...]:
    """The commands of a list of mappings; raises UsageError with all that is wrong."""
    problems: list[str] = []
    found = []
    listed = entries if isinstance(entries, list | tuple) else [entries]
    for number, entry in enumerate(listed):
        wrong = [*_check_entry(entry)]
        problems += [f"[{number}]{problem}" for problem in wrong]
        if not wrong:
            many = {key: tuple(entry.get(key) or ()) for key in ("command", "where")}
            found.append(OwnCommand(**{**entry, **many}))
    if problems:
        hint = f"an entry has {', '.join(_FIELDS)}; nothing bound"
        raise UsageError("; ".join(problems), where, hint)
    return tuple(found)


def _check_entry(entry: object) -> Iterator[str]:
    if not isinstance(entry, Mapping):
        yield " is no mapping"
        return
    yield from (f".{key} is no key here" for key in entry if key not in _FIELDS)
    for key in ("key", "label"):
        if not (isinstance(entry.get(key), str) and entry[key].strip()):
            yield f".{key} is no text"
    for key in ("command", "where"):
        value = entry.get(key, ())
        texts = isinstance(value, list | tuple)
        if not texts or not all(isinstance(one, str) for one in value):
            yield f".{key} is no list of words"
        elif key == "command" and not (value and value[0]):
            yield ".command has no program"
        elif key == "where":
            yield from (f".where: no pane {one!r}" for one in value if one not in PANES)
    for key in ("confirm", "terminal"):
        if not isinstance(entry.get(key, False), bool):
            yield f".{key} is neither true nor false"
