"""Values of a config as the words that argparse reads back as the same values.

A word that begins with a dash is an option to argparse unless it looks like a plain
negative number, so such a value is joined to its flag (`--x=-1e-05`). In a list there
is nothing to join it to: what cannot be said there is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

from autoexp_tui.backends.argument_schema import (
    PLAIN_TYPES,
    TAKES_VALUES,
    Action,
    Schema,
    listed_choices,
)
from autoexp_tui.backends.messages import spelled
from autoexp_tui.text.did_you_mean import did_you_mean, nearest

Words: TypeAlias = tuple[str, ...]

NEGATIVE: Final = re.compile(r"-\d+|-\d*\.\d+")
"""What argparse takes for a number and not for an option."""
_NOTHING: Final = object()


class Unsayable(Exception):
    """A value that an argument does not take; the message says why."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def joined(flag: str, word: str, from_file_chars: str = "") -> Words:
    """A flag and its one value, so that the value is never taken for an option."""
    if word[:1] == "-" and not NEGATIVE.fullmatch(word):
        return (f"{flag}={word}",)
    if from_file_chars and word[:1] in tuple(from_file_chars):
        return (f"{flag}={word}",)
    return (flag, word)


def words_of(value: object, actions: Sequence[Action], schema: Schema) -> Words:
    """The words that give a destination its value; an option that has it needs none.

    Raises:
        Unsayable: no words do.
    """
    if value is None:
        return ()
    default = schema.defaults.get(actions[0].dest, _NOTHING)
    if _is_same(value, default) and actions[0].options:
        return ()  # by position it stays: one behind it would take its place
    if isinstance(value, bool):
        found = _of_truth(value, actions, default)
        if found is not None:
            return found
    for action in actions:
        if action.action == "const" and _is_same(value, action.const):
            return (action.flag,)
    taking = [one for one in actions if one.action in (*TAKES_VALUES, "count")]
    consts = [one for one in actions if one.action == "append_const"]
    if consts and not taking:
        return _of_consts(value, consts)
    if not taking:
        raise _no_value(value, actions)
    return alone(value, taking[0], schema)


def alone(value: object, action: Action, schema: Schema) -> Words:
    """The words for a value by one action; see `words_of`.

    Raises:
        Unsayable: no words do.
    """
    if value is None:
        return ()
    if action.action not in (*TAKES_VALUES, "count"):
        return _switched(value, action)
    if action.action == "count":
        return (action.flag,) * _whole(value)
    if action.action == "append":
        return _repeated(value, action, schema)
    return _once(value, action, schema)


# ---------------------------------------------------------------------------- switches
def _of_truth(
    value: bool,  # noqa: FBT001 - the value of the argument
    actions: Sequence[Action],
    default: object,
) -> Words | None:
    """Words for true or false; None: none of the actions is a switch."""
    wanted = "true" if value else "false"
    for action in actions:
        if action.action == "boolean":
            return (action.flag if value else action.refusal,)
        if action.action == wanted:
            return (action.flag,)
    switches = [one for one in actions if one.action in ("true", "false")]
    if not switches:
        return None
    if _is_so_anyway(value, default, switches[0].action):
        return ()
    flags = ", ".join(one.flag for one in switches)
    raise Unsayable(f"is {wanted}, which the program has no flag for", f"has {flags}")


def _is_so_anyway(value: bool, default: object, action: str) -> bool:  # noqa: FBT001
    """Whether a switch that is left alone means this; nothing counts as off."""
    if default is _NOTHING:
        return value is (action == "false")
    return value is bool(default)


def _of_consts(value: object, actions: Sequence[Action]) -> Words:
    """Flags each of which puts its own value on a list; true: the only one, once."""
    if value is False:
        return ()
    if value is True and len(actions) == 1:
        return (actions[0].flag,)
    given = value if isinstance(value, list | tuple) else [value]
    by_const = [(one.const, one.flag) for one in actions]
    words = [
        next((flag for const, flag in by_const if _is_same(item, const)), "")
        for item in given
    ]
    if not all(words):
        listed = listed_choices([const for const, _ in by_const])
        message = f"is {value!r}; it may be a list of {listed}"
        raise Unsayable(message, f"flags: {', '.join(flag for _, flag in by_const)}")
    return tuple(words)


def _switched(value: object, action: Action) -> Words:
    """By the spelling of a flag: true gives it, false does not."""
    if value is True:
        return (action.flag,)
    if value is False:
        return (action.refusal,) if action.action == "boolean" else ()
    raise _no_value(value, [action])


def _no_value(value: object, actions: Sequence[Action]) -> Unsayable:
    flags = ", ".join(one.flag for one in actions)
    consts = [one.const for one in actions if one.action == "const"]
    if consts:
        listed = listed_choices(consts)
        return Unsayable(f"is {value!r}; it may be {listed}", f"flags: {flags}")
    return Unsayable(f"is {value!r}; {flags} takes no value", "true or false")


def _whole(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise Unsayable(f"is {value!r}; it counts how often the flag is given", "0, 1, 2")


# ------------------------------------------------------------------------------ values
def _repeated(value: object, action: Action, schema: Schema) -> Words:
    """The flag anew for every item."""
    items = _items(value, action)
    found: list[str] = []
    for item in items:
        found += _once(item, action, schema)
    return tuple(found)


def _once(value: object, action: Action, schema: Schema) -> Words:
    """The flag once, with all that belongs to it."""
    takes_many = action.nargs not in (None, "?") or action.action == "extend"
    if not takes_many:
        return _single(value, action, schema)
    items = _items(value, action)
    _check_count(len(items), action)
    words = tuple(_in_list(item, action, schema) for item in items)
    return (action.flag, *words) if action.options else words


def _single(value: object, action: Action, schema: Schema) -> Words:
    if isinstance(value, list | tuple):
        hint = f"{action.flag} takes one; write it as one text"
        raise Unsayable(f"is a list of {len(value)}", hint)
    if action.nargs == "?" and action.options and _is_same(value, action.const):
        return (action.flag,)
    word = _typed(value, action)
    if word == "--":
        raise Unsayable("is `--`, at which argparse stops to read options")
    if not action.options:
        return (word,)
    return joined(action.flag, word, schema.from_file_chars)


def _in_list(value: object, action: Action, schema: Schema) -> str:
    word = _typed(value, action)
    if isinstance(value, float) and word[:1] == "-" and not NEGATIVE.fullmatch(word):
        word = format(Decimal(word), "f")
    is_number = NEGATIVE.fullmatch(word) and not schema.has_negative_options
    is_option = len(word) > 1 and word[0] in schema.prefix_chars and not is_number
    if word == "--" or (is_option and action.options):
        raise Unsayable(
            f"holds {word!r}, which argparse would take for an option",
            "in a list no item may begin with a dash",
        )
    if schema.from_file_chars and word[:1] in tuple(schema.from_file_chars):
        raise Unsayable(f"holds {word!r}, which the program would read as a file")
    return word


def _items(value: object, action: Action) -> Sequence[object]:
    if isinstance(value, list | tuple):
        return value
    name = action.flag or action.dest
    raise Unsayable(f"is {value!r}; {name} takes a list", f"[{value}]")


def _check_count(count: int, action: Action) -> None:
    nargs = action.nargs if action.nargs is not None else 1
    name = action.flag or action.dest
    if isinstance(nargs, int) and count != nargs:
        raise Unsayable(f"is a list of {count}; {name} takes {nargs}")
    if nargs == "+" and count == 0:
        hint = "null leaves it out"
        raise Unsayable(f"is an empty list; {name} takes one or more", hint)


def _typed(value: object, action: Action) -> str:
    """One value as a word, judged by type and choices."""
    if isinstance(value, dict | list | tuple):
        raise Unsayable(f"is or holds {value!r}; an argument takes plain values")
    spell = _SPELLED.get(action.type, spelled)
    word = spell(value)
    if action.choices:
        _check_choice(value, word, action)
    return word


def _check_choice(value: object, word: str, action: Action) -> None:
    is_plain = action.type in PLAIN_TYPES
    allowed = {str(choice) for choice in action.choices}
    if word in allowed or (is_plain and any(value == c for c in action.choices)):
        return
    meant = nearest(word, allowed)
    hint = did_you_mean(word, allowed, "choices") if meant else ""
    listing = listed_choices(action.choices)
    raise Unsayable(f"is {value!r}; it may be {listing}", hint)


def _int(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, bool | float) or not _reads(int, value):
        raise Unsayable(f"is {_shown(value)}, not a whole number")
    return str(value)


def _float(value: object) -> str:
    if isinstance(value, bool) or not _reads(float, value):
        raise Unsayable(f"is {_shown(value)}, not a number")
    return str(value)


def _reads(kind: Callable[[Any], object], value: object) -> bool:
    try:
        kind(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _bool(value: object) -> str:
    """`type=bool` calls every text true but the empty one."""
    if isinstance(value, bool):
        return "True" if value else ""
    raise Unsayable(f"is {_shown(value)}, neither true nor false")


def _shown(value: object) -> str:
    return spelled(value) if isinstance(value, bool) else repr(value)


_SPELLED: Final[dict[str, Callable[[object], str]]] = {
    "int": _int,
    "float": _float,
    "bool": _bool,
}


def _is_same(value: object, other: object) -> bool:
    """Equal, and of kinds that argparse would not tell apart either.

    A truth is never a number; 1 and 1.0 are the same.
    """
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        if len(value) != len(other):
            return False
        return all(_is_same(a, b) for a, b in zip(value, other, strict=True))
    if isinstance(value, bool) is not isinstance(other, bool):
        return False
    return type(value) in _SCALARS and type(other) in _SCALARS and value == other


_SCALARS: Final = (bool, int, float, str)


def positional(actions: Sequence[Action]) -> Iterator[Action]:
    """Those that go by position, in order."""
    return (action for action in actions if not action.options)
