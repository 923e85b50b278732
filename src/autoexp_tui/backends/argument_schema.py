"""The arguments of a program as its argparse parser tells them, read from a file.

`autoexp-import-args` writes such files (see `argument_import`), `NAME.schema.json` with
`"autoexp_schema": 1`. An *action* is one `add_argument`; several may set the same
destination, such as `--fp8` and `--no-fp8`. Nothing here imports the program.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from autoexp_tui.backends.base import Places, Refused
from autoexp_tui.text.did_you_mean import did_you_mean

VERSION: Final = 1
SUFFIX: Final = ".schema.json"
FOLDER: Final = "args"
_MAKE_ONE: Final = (
    f"`autoexp-import-args MODULE:FUNCTION --name NAME` writes config/args/NAME{SUFFIX}"
)

TAKES_VALUES: Final = frozenset({"store", "append", "extend", "other"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One `add_argument`."""

    dest: str
    options: Sequence[str] = ()
    """Spellings as they stand on a command line; none: it goes by position."""
    action: str = "store"
    """store, true, false, const, count, append, append_const, extend, boolean, other"""
    nargs: str | int | None = None
    type: str = "str"
    """int, float, str, bool, or the name of a function of the program's."""
    choices: Sequence[object] = ()
    const: object = None
    required: bool = False
    group: str = ""
    help: str = ""

    @property
    def flag(self) -> str:
        """The spelling that is used: the first long one."""
        return _first_long(self.options)

    @property
    def off_flag(self) -> str:
        """Of a `boolean`, the spelling that turns it off."""
        return _first_long([o for o in self.options if self.turns_off(o)])

    @property
    def label(self) -> str:
        return self.flag or self.dest

    def turns_off(self, option: str) -> bool:
        return self.action == "boolean" and option.startswith("--no-")


def _first_long(options: Sequence[str]) -> str:
    long_ones = [option for option in options if option[:2] == option[:1] * 2]
    return next(iter((*long_ones, *options)), "")


@dataclass(frozen=True, slots=True)
class ExclusiveGroup:
    """Destinations of which one may be given."""

    dests: Sequence[str]
    required: bool = False


@dataclass(frozen=True, kw_only=True)
class Schema:
    """All arguments of a program."""

    actions: tuple[Action, ...] = ()
    defaults: Mapping[str, object] = field(default_factory=dict)
    """By destination; one that is no plain value is not there."""
    exclusive: tuple[ExclusiveGroup, ...] = ()
    source: str = ""
    prefix_chars: str = "-"
    fromfile_prefix_chars: str = ""

    @cached_property
    def by_dest(self) -> Mapping[str, Sequence[Action]]:
        """The actions that set a destination."""
        found: dict[str, list[Action]] = {}
        for action in self.actions:
            found.setdefault(action.dest, []).append(action)
        return found

    @cached_property
    def by_alias(self) -> Mapping[str, Action]:
        """Other spellings of keys: options without their dashes, `_` for `-`."""
        found: dict[str, Action] = {}
        for action in self.actions:
            for option in action.options:
                key = option.lstrip(self.prefix_chars).replace("-", "_")
                if key not in self.by_dest and not action.turns_off(option):
                    found.setdefault(key, action)
        return found

    @cached_property
    def required(self) -> Sequence[str]:
        """Destinations without which the program does not start."""
        return tuple(dict.fromkeys(a.dest for a in self.actions if a.required))


def load_schema(name: str, places: Places) -> Schema:
    """The schema that a config names: a name (of `args/` of a root), or a path. Raises
    Refused: it is not there, or cannot be read."""
    folders = [os.path.join(root, FOLDER) for root in places.config_dirs]
    if "/" in name or name.endswith(".json"):
        roots = (*places.config_dirs, places.cwd)
        paths = [os.path.join(root, os.path.expanduser(name)) for root in roots]
    else:
        paths = [os.path.join(folder, name + SUFFIX) for folder in folders]
    path = next(filter(os.path.isfile, paths), None)
    if path is None:
        files = (f for one in folders if os.path.isdir(one) for f in os.listdir(one))
        known = sorted({f.removesuffix(SUFFIX) for f in files if f.endswith(SUFFIX)})
        hint = did_you_mean(name, known, "schemas") if known else _MAKE_ONE
        raise Refused(f"there is no schema `{name}`", hint)
    try:
        with open(path, encoding="utf-8") as file:
            return decode_schema(json.load(file))
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{path} is no schema of arguments: {error!r}"
        raise Refused(message, "write it again: autoexp-import-args") from None


def decode_schema(data: Any) -> Schema:
    """A schema from its JSON; raises ValueError, KeyError, TypeError or
    AttributeError."""
    if not isinstance(data, dict) or "autoexp_schema" not in data:
        raise ValueError("it has no `autoexp_schema`")
    fields = dict(data)
    version = fields.pop("autoexp_schema")
    if version != VERSION:
        raise ValueError(f"its version is {version!r}, not {VERSION}")
    actions = tuple(Action(**item) for item in fields.pop("arguments"))
    groups = tuple(ExclusiveGroup(**item) for item in fields.pop("exclusive", ()))
    return Schema(actions=actions, exclusive=groups, **fields)
