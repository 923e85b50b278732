"""Texts that were written of dicts, found again by the dict itself.

Configs of one plan share most of their dicts; what is the same object is written once.
A dict must not be changed after it was written.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, NamedTuple


class _Written(NamedTuple):
    value: dict[Any, Any]
    """Held, so that its id stays its own."""
    how: Hashable
    text: str


class SharedTexts:
    """The texts of the dicts that were asked for last."""

    def __init__(self, most: int = 4096) -> None:
        """`most`: dicts that are remembered."""
        self._most = most
        self._known: OrderedDict[int, _Written] = OrderedDict()

    def of(self, value: dict[Any, Any], how: Hashable) -> str | None:
        """The text of this very dict, written that way; None: it has none."""
        known = self._known.get(id(value))
        if known is None or known.value is not value or known.how != how:
            return None
        self._known.move_to_end(id(value))
        return known.text

    def keep(self, value: dict[Any, Any], how: Hashable, text: str) -> str:
        """Remember a text, and give it back."""
        self._known[id(value)] = _Written(value, how, text)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return text
