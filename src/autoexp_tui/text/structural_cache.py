"""Texts that were written of dicts, found again by the dict itself.

Configs of one plan share most of their dicts; what is the same object is written once,
and of one that differs from another in few keys only these are. A dict must not be
changed after it was written.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Fields: TypeAlias = Mapping[str, str]
"""Key -> its text with the key in front, in the order in which they are written."""

_MOST_FIELDS: Final = 512
"""Dicts whose keys are remembered one by one."""


class Patched(dict[Any, Any]):
    """A dict that is another one but for a few keys; both are left as they are."""

    __slots__ = ("changed", "origin")

    def __init__(self, origin: dict[Any, Any], values: Mapping[Any, Any]) -> None:
        """A copy of `origin` with `values` in it; new keys come last."""
        super().__init__(origin)
        self.update(values)
        changed = dict.fromkeys(values)
        if isinstance(origin, Patched):
            self.origin: dict[Any, Any] = origin.origin
            self.changed: Mapping[Any, None] = {**origin.changed, **changed}
        else:
            self.origin, self.changed = origin, changed


class _Written(NamedTuple):
    value: dict[Any, Any]
    """Held, so that its id stays its own."""
    how: Hashable
    text: Any


class _Known:
    """What was made of the dicts that were asked for last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[int, _Written] = OrderedDict()

    def of(self, value: dict[Any, Any], how: Hashable) -> Any:
        known = self._known.get(id(value))
        if known is None or known.value is not value or known.how != how:
            return None
        self._known.move_to_end(id(value))
        return known.text

    def keep(self, value: dict[Any, Any], how: Hashable, text: Any) -> None:
        self._known[id(value)] = _Written(value, how, text)
        if len(self._known) > self._most:
            self._known.popitem(last=False)


class SharedTexts:
    """The texts of the dicts that were asked for last."""

    def __init__(self, most: int = 4096) -> None:
        """`most`: dicts that are remembered."""
        self._texts = _Known(most)
        self._fields = _Known(_MOST_FIELDS)

    def text(
        self,
        value: dict[Any, Any],
        how: Hashable,
        fields: Callable[[Mapping[Any, Any]], Fields],
        joined: Callable[[Fields], str],
    ) -> str:
        """The text of a dict, written that way.

        `fields` gives the texts of its keys, each decided by key and value alone,
        `joined` makes one text of them.
        """
        if isinstance(value, Patched):
            return joined(self._of_patched(value, how, fields))
        known: str | None = self._texts.of(value, how)
        if known is None:
            known = joined(fields(value))
            self._texts.keep(value, how, known)
        return known

    def _of_patched(
        self,
        value: Patched,
        how: Hashable,
        fields: Callable[[Mapping[Any, Any]], Fields],
    ) -> Fields:
        known: Fields | None = self._fields.of(value.origin, how)
        if known is None:
            known = fields(value.origin)
            self._fields.keep(value.origin, how, known)
        changed = {**known, **fields({key: value[key] for key in value.changed})}
        return changed if len(changed) == len(known) else fields(value)
