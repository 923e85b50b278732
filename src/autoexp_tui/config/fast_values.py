"""The values of jobs whose configs have one shape: shared, but for a few of their own.

All jobs whose overrides have one structure share what Hydra composed of the first of
them. A job brings other scalars; of the rest only what was made of changed keys is
resolved anew.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from autoexp_tui.config.interpolations import (
    MISSING,
    Absent,
    Doubtful,
    Evaluations,
    Place,
    Trace,
    evaluate,
    is_open,
)
from autoexp_tui.config.plain_tree import (
    ABSENT,
    Path,
    at,
    leaves,
    touches,
    unpatched,
    with_values,
)
from autoexp_tui.config.quick_texts import quick
from autoexp_tui.text.structural_cache import Patched

if TYPE_CHECKING:
    from autoexp_tui.config.fast_faults import Witness

_IN_PROGRESS: Final = object()


class Values(ABC):
    """One tree's values; see `interpolations.Reading`."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self._known: dict[Path, object] = {}

    def value(self, path: Path) -> object:
        """The resolved value of a leaf, or a `Place`.

        Raises:
            Absent: there is no such key.
            Doubtful: it is missing, or not certain.
        """
        return self._meaning(at(self.tree, path), path)

    def _meaning(self, node: Any, path: Path) -> object:
        """The value of what is written at `path`; see `value`."""
        if node is ABSENT:
            raise Absent(path)
        if isinstance(node, dict | list):
            return Place(path)
        if not is_open(node):
            return self._closed(node, path)
        found = self._known.get(path)
        if found is _IN_PROGRESS:
            raise Doubtful(path)
        if found is None:
            self._known[path] = _IN_PROGRESS
            try:
                found = self._evaluated(node, path)
            finally:
                del self._known[path]
            self._known[path] = found
        return found

    def _closed(self, node: object, path: Path) -> object:
        if node == MISSING:
            raise Doubtful(path)
        return node

    @abstractmethod
    def _evaluated(self, text: str, path: Path) -> object:
        """What the interpolation at `path` stands for; Doubtful: not certain."""

    def whole(self, path: Path) -> object:
        """The resolved value at a path, dicts and lists with all that is in them.

        Raises:
            Doubtful: something in it is not certain.
        """
        found = self.value(path)
        return self.inside(found.path) if isinstance(found, Place) else found

    def inside(self, path: Path) -> object:
        """A dict or list with everything in it resolved."""
        node = at(self.tree, path)
        if isinstance(node, dict):
            return {key: self.whole((*path, key)) for key in node}
        return [self.whole((*path, index)) for index in range(len(node))]


class Traced(Values):
    """Notes what each value was made of, or what it would have been made of."""

    def __init__(self, tree: Any) -> None:
        super().__init__(tree)
        self._traces: dict[Path, Trace] = {}
        self._failures: dict[Path, Trace | None] = {}

    def _evaluated(self, text: str, path: Path) -> object:
        self._traces[path] = Trace()
        return evaluate(self, text, path[:-1], self._traces[path])

    def behind(self, path: Path) -> set[Path]:
        """All that a leaf was made of, itself included."""
        seen: set[Path] = set()
        self._add(path, seen)
        return seen

    def failure(self, path: Path) -> Trace | None:
        """How far a leaf came that does not resolve; None: it does."""
        if path not in self._failures:
            self._failures[path] = None  # in a ring of containers
            try:
                found = self.value(path)
            except Doubtful:
                self._failures[path] = self._traces.get(path) or Trace()
            else:
                self._failures[path] = self._failure_inside(found)
        return self._failures[path]

    def failure_of_text(self, text: str) -> Trace | None:
        """The same of a text that stands nowhere in the tree, at its root."""
        trace = Trace()
        try:
            found = evaluate(self, text, (), trace)
        except Doubtful:
            return trace
        return self._failure_inside(found)

    def _failure_inside(self, found: object) -> Trace | None:
        if not isinstance(found, Place):
            return None
        inside = (leaf for leaf, _ in leaves(at(self.tree, found.path), found.path))
        sought = {leaf for leaf in inside if self.failure(leaf) is not None}
        return Trace(sought=sought) if sought else None

    def causes(self, trace: Trace) -> set[Path] | None:
        """All that was looked at on the way; None: it may be otherwise next time."""
        seen: set[Path] = set()
        self._add_behind(trace, seen)
        traces = (self._traces.get(path) for path in seen)
        impure = trace.impure or any(one and one.impure for one in traces)
        return None if impure else seen

    def _add(self, path: Path, seen: set[Path]) -> None:
        if path not in seen:
            seen.add(path)
            if path in self._traces:
                self._add_behind(self._traces[path], seen)

    def _add_behind(self, trace: Trace, seen: set[Path]) -> None:
        for read, found in trace.reads.items():
            self._add(read, seen)
            if isinstance(found, Place):
                self._within(found.path, seen)
        for other in (*trace.crossed, *trace.sought):
            self._add(other, seen)

    def _within(self, path: Path, seen: set[Path]) -> None:
        seen.add(path)
        for leaf, value in leaves(at(self.tree, path), path):
            if is_open(value):
                self._add(leaf, seen)


WHOLE: Final = None
Branches: TypeAlias = "dict[str | int, Branches | None]"
"""Key -> branches below it; `WHOLE` where everything below may differ."""


class Template:
    """What jobs of one structure share: the first one's config, as written."""

    def __init__(self, tree: Any) -> None:
        """`tree`: nested dicts and lists, with interpolations."""
        self.tree = tree
        self.evaluations = Evaluations()
        self.witness: Witness | None = None
        """A job something of which does not resolve."""
        self._traces: dict[Path, frozenset[Path] | None] = {}
        """Interpolated leaf -> all it was made of; None: that is not certain."""
        self._affected: dict[frozenset[Path], Branches] = {}

    def has(self, path: Path, value: object) -> bool:
        """Whether the first job has the very same there, as written."""
        return repr(at(self.tree, path)) == repr(value)  # 1 is not 1.0, nor 0.0 -0.0

    @cached_property
    def resolved(self) -> Any:
        """The first job's config with everything resolved that is certain."""
        values = Traced(self.tree)
        resolved = self.tree
        for path, value in leaves(self.tree):
            if value == MISSING or is_open(value):
                self._traces[path] = None
                with suppress(Doubtful):
                    resolved = with_values(resolved, {path: values.whole(path)})
                    self._traces[path] = frozenset(values.behind(path))
        return unpatched(resolved)

    def affected(self, changed: frozenset[Path]) -> Branches:
        """Where values may differ from the first job's when these keys do."""
        found = self._affected.get(changed)
        if found is None:
            self._affected[changed] = found = _branches(self._touched_by(changed))
        return found

    def _touched_by(self, changed: frozenset[Path]) -> Iterator[Path]:
        _ = self.resolved  # makes the traces
        yield from changed
        for path, trace in self._traces.items():
            if trace is None or any(touches(a, b) for a in changed for b in trace):
                yield path


def _branches(paths: Iterable[Path]) -> Branches:
    root: Branches = {}
    for path in sorted(paths, key=len):
        node = root
        for key in path[:-1]:
            inner = node.setdefault(key, {})
            if inner is None:  # WHOLE
                break
            node = inner
        else:
            node[path[-1]] = WHOLE
    return root


class JobValues(Values):
    """A job's values: resolved anew only where its own keys are seen."""

    def __init__(self, tree: Any, template: Template, changed: frozenset[Path]) -> None:
        super().__init__(tree)
        self._template = template
        self._changed = changed
        self.trace = Trace()
        """Of what nobody asks for."""

    def _evaluated(self, text: str, path: Path) -> object:
        parts = quick(text)
        if parts is not None and not parts.expression:  # as quickly read as found again
            return evaluate(self, text, path[:-1], self.trace)
        return self._template.evaluations.value(self, text, path[:-1])

    def text(self, text: str) -> object:
        """What a text that stands nowhere in the tree means at its root.

        Raises:
            Doubtful: OmegaConf has to say.
        """
        found = self._template.evaluations.value(self, text, ())
        return unpatched(self.whole(found.path)) if isinstance(found, Place) else found

    def whole(self, path: Path) -> object:
        """The resolved value at a path; shared with other jobs where it can be."""
        known: Any = self._template.resolved
        branches = self._template.affected(self._changed)
        for key in path:
            if key not in branches:
                return self._shared(path)
            below = branches[key]
            if below is None:  # WHOLE
                return self._anew(at(self.tree, path), path)
            branches, known = below, known[key]
        return self._patched(known, branches, at(self.tree, path), path)

    def _shared(self, path: Path) -> object:
        known = at(self._template.resolved, path)
        if known is ABSENT:
            raise Absent(path)
        return known

    def _patched(self, known: Any, branches: Branches, node: Any, path: Path) -> object:
        """The template's dict or list with this job's values in it.

        `node`: what is written at `path`.
        """
        values: dict[str | int, object] = {}
        for key, below in branches.items():
            inner, place = at(node, (key,)), (*path, key)
            if below is None:  # WHOLE
                values[key] = self._anew(inner, place)
            else:
                values[key] = self._patched(known[key], below, inner, place)
        if isinstance(known, dict):
            return Patched(known, values)
        return [values.get(n, item) for n, item in enumerate(known)]

    def _anew(self, node: Any, path: Path) -> object:
        """What is written at `path` with everything in it resolved for this job."""
        found = self._meaning(node, path)
        if not isinstance(found, Place):
            return found
        if found.path != path:
            return self.whole(found.path)
        if isinstance(node, dict):
            return {key: self._anew(item, (*path, key)) for key, item in node.items()}
        return [self._anew(item, (*path, n)) for n, item in enumerate(node)]
