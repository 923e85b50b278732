"""Why a job's values do not resolve, told as it was told of another job.

A mistake that a thousand jobs share would have each of them composed by Hydra, to be
told the same. How far a value came, until there was nothing to be read, is known (see
`interpolations`): who comes to the same end in the same way fails in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from autoexp_tui.config.config_view import OmegaView
from autoexp_tui.config.fast_values import Traced
from autoexp_tui.config.interpolations import Trace
from autoexp_tui.config.plain_tree import ABSENT, Path, at, leaves, touches
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import CannotCompose

_MOST_HELD: Final = 4096
"""Answers of a witness; a job may have texts of its own."""

Problems: TypeAlias = tuple[Problem, ...]


class Witness:
    """A job, as Hydra composed it, something of whose config does not resolve."""

    def __init__(self, view: OmegaView, tree: Any, changed: frozenset[Path]) -> None:
        """`tree`: as written; `changed`: where it is not as the template's."""
        self.view = view
        self.traced = Traced(tree)
        self.changed = changed
        self._told: dict[tuple[str, str], Problems | None] = {}

    def of_key(self, path: str) -> Problems | None:
        """What hinders a key of its own; None: nothing does."""
        return self._asked((path, ""), lambda: self.view.select(path))

    def of_value(self, value: object, at: str) -> Problems | None:
        """What would hinder a value at a key."""
        return self._asked((at, repr(value)), lambda: self.view.interpolate(value, at))

    def _asked(
        self, key: tuple[str, str], ask: Callable[[], object]
    ) -> Problems | None:
        if key not in self._told:
            if len(self._told) >= _MOST_HELD:
                self._told.clear()
            self._told[key] = _problems(ask)
        return self._told[key]


def _problems(ask: Callable[[], object]) -> Problems | None:
    try:
        ask()
    except CannotCompose as error:
        return error.problems
    except KeyError:
        pass
    return None


class SharedFaults:
    """What hinders one job's values, where they hinder a witness's alike."""

    def __init__(self, tree: Any, changed: frozenset[Path], witness: Witness) -> None:
        """`tree`: the job's, as written; `changed`: as of a witness."""
        self._own = Traced(tree)
        self._other = witness.traced
        self._witness = witness
        self._changed = changed | witness.changed

    def of_leaf(self, path: str) -> Problems | None:
        """What hinders a leaf, a list being one; None: that is not certain."""
        keys = tuple(path.split("."))
        own = at(self._own.tree, keys)
        if own is ABSENT:
            return None
        if repr(own) == repr(at(self._other.tree, keys)):
            places = (place for place, _ in leaves(own, keys))
            alike = all(self._are_alike_at(place, set()) for place in places)
            return self._witness.of_key(path) if alike else None
        if not isinstance(own, str):
            return None
        mine, theirs = self._own.failure(keys), self._other.failure_of_text(own)
        if mine is None or theirs is None or not self._are_alike(mine, theirs, set()):
            return None
        return self._witness.of_value(own, path)

    def of_texts(self, texts: Iterable[str], value: object, at: str) -> Problems | None:
        """What hinders a value at a key, of which the `texts` are to be resolved."""
        for text in texts:
            mine = self._own.failure_of_text(text)
            theirs = self._other.failure_of_text(text)
            if not self._both(mine, theirs, set()):
                return None
        return self._witness.of_value(value, at)

    # ------------------------------------------------------------------- comparing
    def _are_alike_at(self, path: Path, seen: set[Path]) -> bool:
        """Whether a leaf, written alike in both, resolves in both or fails alike."""
        if path in seen:  # a ring, all of which is compared
            return True
        seen.add(path)
        return self._both(self._own.failure(path), self._other.failure(path), seen)

    def _both(self, mine: Trace | None, theirs: Trace | None, seen: set[Path]) -> bool:
        if mine is None or theirs is None:
            return mine is theirs
        return self._are_alike(mine, theirs, seen)

    def _are_alike(self, mine: Trace, theirs: Trace, seen: set[Path]) -> bool:
        if mine.sought != theirs.sought:
            return False
        if mine.sought:  # whatever was read before
            return all(self._fail_alike_at(path, seen) for path in mine.sought)
        return self._is_shared(self._own.causes(mine)) and self._is_shared(
            self._other.causes(theirs)
        )

    def _fail_alike_at(self, path: Path, seen: set[Path]) -> bool:
        """Whether there is nothing to be read, for the same cause in both."""
        own, other = at(self._own.tree, path), at(self._other.tree, path)
        if own is ABSENT and other is ABSENT:
            return _above(self._own.tree, path) == _above(self._other.tree, path)
        if isinstance(own, dict | list) or repr(own) != repr(other):
            return False
        if path in seen:
            return True
        return self._own.failure(path) is not None and self._are_alike_at(path, seen)

    def _is_shared(self, causes: Iterable[Path] | None) -> bool:
        """Whether both have all of it from the first job of their structure."""
        return causes is not None and not any(
            touches(one, other) for one in self._changed for other in causes
        )


def _above(tree: Any, path: Path) -> tuple[Path, str]:
    """The last key on the way to what is not there; what it has, if that is a value."""
    for size in range(len(path) - 1, -1, -1):
        found = at(tree, path[:size])
        if found is not ABSENT:
            value = "" if isinstance(found, dict | list) else repr(found)
            return path[:size], value
    return (), ""
