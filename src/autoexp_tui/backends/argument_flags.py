"""The arguments of a program that nothing is known of, as its command line takes them.

`key: value` is `--key value`; true is the bare flag, false and null leave it out, a
list gives the flag once and then every item. With a schema all this is known better:
see `argument_check`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from autoexp_tui.backends.argument_words import joined
from autoexp_tui.backends.messages import is_word_list, problem, spelled
from autoexp_tui.model.errors import Problem

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_NO_OTHERS: Final[Mapping[str, str]] = {}


def flags(
    args: Mapping[str, object],
    *,
    dashes: bool,
    refusals: Mapping[str, str] = _NO_OTHERS,
    spellings: Mapping[str, str] = _NO_OTHERS,
) -> list[str]:
    """The words of all arguments, in their order.

    `dashes`: for the underscores of keys. `refusals`: what to say for false;
    `spellings`: flags that are not spelled like their keys.
    """
    words: list[str] = []
    for key, value in args.items():
        if value is None:
            continue
        if value is False:
            words += [refusals[key]] if key in refusals else []
            continue
        if value is True and key in refusals:
            continue
        flag = spellings.get(key) or "--" + (key.replace("_", "-") if dashes else key)
        words += _given(flag, value)
    return words


def _given(flag: str, value: object) -> Sequence[str]:
    if value is True:
        return (flag,)
    if isinstance(value, list | tuple):
        return (flag, *map(spelled, value))
    return joined(flag, spelled(value))


def problems_of_flags(args: object, place: str) -> list[Problem]:
    """What is wrong with arguments whose program is not known; `place`: their key."""
    if args is None:
        return []
    if not isinstance(args, Mapping):
        return [
            problem(place, f"is {args!r}, not a mapping", f"{place}: {{lr: 0.001}}")
        ]
    return [
        problem(
            f"{place}.{key}", "is a mapping or a nested list; flags take plain values"
        )
        for key, value in args.items()
        # Most values are plain, and there are many of them in many jobs.
        if value.__class__ not in _PLAIN
        and (
            isinstance(value, Mapping)
            or (isinstance(value, list) and not is_word_list(value))
        )
    ]
