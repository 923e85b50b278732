"""A job's config on the fast road: a shared tree, and the few values of its own.

All jobs whose overrides have one structure share what Hydra composed of the first of
them. A job brings other scalars; of the rest only what was made of changed keys is
resolved anew. Whatever is not certain is asked of the composed config, the slow road,
which every view can be turned into at any moment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from functools import cached_property
from typing import Any, Final, TypeAlias

from autoexp_tui.adapters.config_view import OmegaView, Relatives, mentions
from autoexp_tui.adapters.eval_rewrite import rewrite_tree
from autoexp_tui.adapters.interpolations import (
    MISSING,
    Absent,
    Doubtful,
    Evaluations,
    Place,
    Trace,
    canonical,
    evaluate,
    is_open,
    keys_of,
)
from autoexp_tui.adapters.plain_tree import (
    ABSENT,
    Path,
    at,
    first_difference,
    leaves,
    touches,
    unpatched,
    with_values,
)
from autoexp_tui.adapters.quick_texts import quick
from autoexp_tui.core.errors import Problem
from autoexp_tui.core.shared_texts import Patched
from autoexp_tui.plan.ports import CannotCompose

SWITCH: Final = "AUTOEXP_COMPOSE"
"""The environment variable that, set to `hydra`, turns the fast road off."""
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


class _Traced(Values):
    """Notes what each value was made of."""

    def __init__(self, tree: Any) -> None:
        super().__init__(tree)
        self._traces: dict[Path, Trace] = {}

    def _evaluated(self, text: str, path: Path) -> object:
        self._traces[path] = Trace()
        return evaluate(self, text, path[:-1], self._traces[path])

    def behind(self, path: Path, seen: set[Path] | None = None) -> set[Path]:
        """All that a leaf was made of, itself included."""
        seen = set() if seen is None else seen
        if path in seen:
            return seen
        seen.add(path)
        trace = self._traces.get(path)
        for read, found in trace.reads.items() if trace else ():
            self.behind(read, seen)
            if isinstance(found, Place):
                self._within(found.path, seen)
        for crossed in trace.crossed if trace else ():
            self.behind(crossed, seen)
        return seen

    def _within(self, path: Path, seen: set[Path]) -> None:
        seen.add(path)
        for leaf, value in leaves(at(self.tree, path), path):
            if is_open(value):
                self.behind(leaf, seen)


WHOLE: Final = None
Branches: TypeAlias = "dict[str | int, Branches | None]"
"""Key -> branches below it; `WHOLE` where everything below may differ."""


class Template:
    """What jobs of one structure share: the first one's config, as written."""

    def __init__(self, tree: Any) -> None:
        """`tree`: nested dicts and lists, with interpolations."""
        self.tree = tree
        self.evaluations = Evaluations()
        self._traces: dict[Path, frozenset[Path] | None] = {}
        """Interpolated leaf -> all it was made of; None: that is not certain."""
        self._affected: dict[frozenset[Path], Branches] = {}

    def has(self, path: Path, value: object) -> bool:
        """Whether the first job has the very same there, as written."""
        return repr(at(self.tree, path)) == repr(value)  # 1 is not 1.0, nor 0.0 -0.0

    @cached_property
    def resolved(self) -> Any:
        """The first job's config with everything resolved that is certain."""
        values = _Traced(self.tree)
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


class _JobValues(Values):
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


class FastView:
    """A `plan.ports.ConfigView` over a template and a job's own scalars."""

    def __init__(
        self,
        template: Template,
        own: Mapping[Path, object],
        composed: Callable[[], OmegaView],
        told: Callable[[], object],
        sample: Callable[[], OmegaView] | None = None,
    ) -> None:
        """`own`: what the job sets; `composed`: the slow road; `told`: it is taken.

        With `sample`, which composes the job by nothing that is known of others, the
        resolved config is compared with what that gives.
        """
        self._template = template
        self._composed = composed
        self._told = told
        self._sample = sample
        self._slow: OmegaView | None = None
        self._puts: list[tuple[str, object]] = []
        apart = {path: own[path] for path in own if not template.has(path, own[path])}
        tree = with_values(template.tree, apart)
        self._changed = frozenset(apart)
        self._values = _JobValues(tree, template, self._changed)
        self._leaves: tuple[str, ...] | None = None

    # ------------------------------------------------------------- the port
    def select(self, path: str) -> object:
        """See `OmegaView.select`."""
        if self._slow is None:
            try:
                return unpatched(self._values.whole(self._followed(path)))
            except Absent:
                raise KeyError(path) from None
            except Doubtful:
                pass
        return self.slow.select(path)

    def raw(self, path: str) -> object:
        """See `OmegaView.raw`."""
        if self._slow is None:
            try:
                return unpatched(at(self._values.tree, self._followed(path)))
            except Absent:
                raise KeyError(path) from None
            except Doubtful:
                pass
        return self.slow.raw(path)

    def has(self, path: str) -> bool:
        """See `OmegaView.has`."""
        if self._slow is None:
            try:
                self._followed(path)
            except Absent:
                return False
            except Doubtful:
                return self.slow.has(path)
            return True
        return self.slow.has(path)

    def leaf_paths(self) -> Sequence[str]:
        """See `OmegaView.leaf_paths`."""
        if self._slow is not None:
            return self._slow.leaf_paths()
        if self._leaves is None:
            self._leaves = tuple(_leaf_paths(self._values.tree, ""))
        return self._leaves

    def interpolate(self, value: object, at: str = "") -> object:
        """See `OmegaView.interpolate`."""
        if not mentions(value):
            return value
        if self._slow is None:
            with suppress(Doubtful):
                ready = Relatives(self, absolute=True).anchored(rewrite_tree(value), at)
                return self._meant(ready)
        return self.slow.interpolate(value, at)

    def put(self, path: str, value: object) -> None:
        """See `OmegaView.put`."""
        self._puts.append((path, value))
        if self._slow is not None:
            self._slow.put(path, value)
            return
        keys = tuple(path.split("."))
        try:
            tree = with_values(self._values.tree, {keys: rewrite_tree(value)})
        except LookupError:
            tree = None
        if tree is None or "[" in path:
            _ = self.slow
            return
        self._changed |= {keys}
        self._values = _JobValues(tree, self._template, self._changed)
        self._leaves = None

    def shares(self, path: str) -> bool:
        """Whether all jobs of the structure have this very text there."""
        keys = keys_of(path)
        text = at(self._template.tree, keys)
        return (
            isinstance(text, str)
            and not is_open(text)
            and at(self._values.tree, keys) is text
        )

    def to_dict(self) -> Mapping[str, object]:
        """See `OmegaView.to_dict`.

        Raises:
            CannotCompose: something does not resolve; or this is a sample, and Hydra
                composes something else.
        """
        if self._slow is None:
            with suppress(Doubtful):
                found = self._values.whole(())
                if isinstance(found, dict):
                    self._compare(found)
                    return found
        return self.slow.to_dict()

    def _compare(self, found: Mapping[str, object]) -> None:
        sample, self._sample = self._sample, None
        if sample is not None:
            where = first_difference(found, self._put_on(sample()).to_dict())
            if where:
                raise CannotCompose((_differs(where),))

    def written_dict(self) -> Mapping[str, object]:
        """See `OmegaView.written_dict`."""
        if self._slow is not None:
            return self._slow.written_dict()
        return self._values.tree  # type: ignore[no-any-return]

    # --------------------------------------------------------- the slow road
    @property
    def is_fast(self) -> bool:
        """Whether Hydra was not asked, but to compare."""
        return self._slow is None

    @property
    def slow(self) -> OmegaView:
        """The same config as Hydra composes it; taken once, it stays taken."""
        if self._slow is None:
            self._told()
            self._slow = self._put_on(self._composed())
        return self._slow

    def _put_on(self, view: OmegaView) -> OmegaView:
        for path, value in self._puts:
            view.put(path, value)
        return view

    # ---------------------------------------------------------------- pieces
    def _followed(self, path: str) -> Path:
        """Where a dotted path leads, interpolated dicts and lists followed.

        Raises:
            Absent: nowhere.
            Doubtful: OmegaConf has to say.
        """
        keys = keys_of(path) if path else ()
        if "" in keys:
            raise Doubtful(path)
        return canonical(self._values, keys, self._values.trace)

    def _meant(self, value: object) -> object:
        if isinstance(value, Mapping):
            return {key: self._meant(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._meant(item) for item in value]
        if isinstance(value, str) and is_open(value):
            return self._values.text(value)
        return value


def _differs(where: str) -> Problem:
    return Problem(
        "a job that was composed from another one is not what Hydra composes; "
        "this is a bug of ours",
        where=where,
        hint=f"set {SWITCH}=hydra to have every job composed by Hydra, and report it",
    )


def _leaf_paths(node: Mapping[str, object], prefix: str) -> Iterator[str]:
    for key, value in node.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict) and value:
            yield from _leaf_paths(value, path)
        else:
            yield path
