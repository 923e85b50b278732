"""A job's config on the fast road: a shared tree, and the few values of its own.

All jobs whose overrides have one structure share what Hydra composed of the first of
them. A job brings other scalars; of the rest only what was made of changed keys is
resolved anew. Whatever is not certain is asked of the composed config, the slow road,
which every view can be turned into at any moment; of what does not resolve for the same
cause as in another job, that one is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from autoexp_tui.config.config_view import (
    MOST_PROBLEMS,
    OmegaView,
    Relatives,
    by_cause,
    mentions,
)
from autoexp_tui.config.eval_rewrite import rewrite_tree
from autoexp_tui.config.fast_faults import Problems, SharedFaults, Witness
from autoexp_tui.config.fast_values import JobValues, Template
from autoexp_tui.config.interpolations import (
    MISSING,
    Absent,
    Doubtful,
    canonical,
    is_open,
    keys_of,
)
from autoexp_tui.config.plain_tree import (
    Path,
    at,
    first_difference,
    leaves,
    unpatched,
    with_values,
)
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import CannotCompose

SWITCH: Final = "AUTOEXP_COMPOSE"
"""The environment variable that, set to `hydra`, turns the fast road off."""
T = TypeVar("T")


class FastView:
    """A `planning.ports.ConfigView` over a template and a job's own scalars."""

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
        self._is_certain = True
        """Whether what is written is known without Hydra."""
        self._puts: list[tuple[str, object]] = []
        apart = {path: own[path] for path in own if not template.has(path, own[path])}
        tree = with_values(template.tree, apart)
        self._changed = frozenset(apart)
        self._values = JobValues(tree, template, self._changed)
        self._leaves: tuple[str, ...] | None = None

    # ------------------------------------------------------------- the port
    def select(self, path: str) -> object:
        """See `OmegaView.select`."""
        if self._is_certain:
            try:
                return unpatched(self._values.whole(self._followed(path)))
            except Absent:
                raise KeyError(path) from None
            except Doubtful:
                self._tell(self._shared_problems(path))
        return self._asked(lambda view: view.select(path))

    def raw(self, path: str) -> object:
        """See `OmegaView.raw`."""
        if self._is_certain:
            try:
                return unpatched(at(self._values.tree, self._followed(path)))
            except Absent:
                raise KeyError(path) from None
            except Doubtful:
                pass
        return self.slow.raw(path)

    def has(self, path: str) -> bool:
        """See `OmegaView.has`."""
        if self._is_certain:
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
        if not self._is_certain:
            return self.slow.leaf_paths()
        if self._leaves is None:
            self._leaves = tuple(_leaf_paths(self._values.tree, ""))
        return self._leaves

    def interpolate(self, value: object, at: str = "") -> object:
        """See `OmegaView.interpolate`."""
        if not mentions(value):
            return value
        if self._is_certain:
            with suppress(Doubtful):
                ready = Relatives(self, absolute=True).anchored(rewrite_tree(value), at)
                try:
                    return self._meant(ready)
                except Doubtful:
                    self._tell(self._problems_of(ready, value, at))
        return self._asked(lambda view: view.interpolate(value, at))

    def put(self, path: str, value: object) -> None:
        """See `OmegaView.put`."""
        self._puts.append((path, value))
        if self._slow is not None:
            self._slow.put(path, value)
        keys = tuple(path.split("."))
        try:
            tree = with_values(self._values.tree, {keys: rewrite_tree(value)})
        except LookupError:
            tree = None
        self._is_certain = self._is_certain and tree is not None and "[" not in path
        self._changed |= {keys}
        self._values = JobValues(tree, self._template, self._changed)
        self._leaves = None
        witness = self._template.witness
        if witness is not None and witness.view is self._slow:
            self._bear_witness(witness.view)

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
        if self._is_certain:
            with suppress(Doubtful):
                found = self._values.whole(())
                if isinstance(found, dict):
                    self._compare(found)
                    return found
            self._tell(self._shared_problems(""))
        return self._asked(OmegaView.to_dict)

    def _compare(self, found: Mapping[str, object]) -> None:
        sample, self._sample = self._sample, None
        if sample is not None:
            where = first_difference(found, self._put_on(sample()).to_dict())
            if where:
                raise CannotCompose((_differs(where),))

    def written_dict(self) -> Mapping[str, object]:
        """See `OmegaView.written_dict`."""
        if not self._is_certain:
            return self.slow.written_dict()
        return self._values.tree  # type: ignore[no-any-return]

    # --------------------------------------------------------- the slow road
    @property
    def is_fast(self) -> bool:
        """Whether Hydra was not asked, and need not be, but to compare."""
        return self._slow is None and self._is_certain

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

    # -------------------------------------------------- what does not resolve
    def _asked(self, ask: Callable[[OmegaView], T]) -> T:
        """What Hydra's config says; the first that refuses is asked for others too."""
        view = self.slow
        try:
            return ask(view)
        except CannotCompose:
            if self._template.witness is None:
                self._bear_witness(view)
            raise

    def _bear_witness(self, view: OmegaView) -> None:
        """Answer for others too, as long as it is certain what is written here."""
        self._template.witness = (
            Witness(view, self._values.tree, self._changed)
            if self._is_certain
            else None
        )

    def _tell(self, problems: Problems) -> None:
        if problems:
            raise CannotCompose(problems)

    def _shared(self) -> SharedFaults | None:
        witness = self._template.witness
        if witness is None:
            return None
        return SharedFaults(self._values.tree, self._changed, witness)

    def _shared_problems(self, path: str) -> Problems:
        """What hinders a key, or all below it; empty: Hydra has to say."""
        shared = self._shared()
        if shared is None:
            return ()
        found: list[Problem] = []
        for leaf in self._doubtful_below(path):
            problems = shared.of_leaf(leaf)
            if problems is None:
                return ()
            found += problems
            if len(found) >= MOST_PROBLEMS:
                break
        return by_cause(found, self._as_text)

    def _doubtful_below(self, path: str) -> Iterator[str]:
        """The leaves that may not resolve; a list is one."""
        for leaf in self.leaf_paths():
            if leaf == path or not path or leaf.startswith(f"{path}."):
                keys = tuple(leaf.split("."))
                if self._may_fail(at(self._values.tree, keys)):
                    try:
                        self._values.whole(keys)
                    except Doubtful:
                        yield leaf

    def _may_fail(self, node: object) -> bool:
        texts = (value for _, value in leaves(node))
        return any(value == MISSING or is_open(value) for value in texts)

    def _as_text(self, path: str) -> str:
        found = at(self._values.tree, tuple(path.split(".")))
        return found if isinstance(found, str) else ""

    def _problems_of(self, ready: object, value: object, at: str) -> Problems:
        """What hinders a value at a key, `ready` with its relative texts settled."""
        shared = self._shared()
        if shared is None:
            return ()
        texts = [text for _, text in leaves(ready) if is_open(text)]
        return shared.of_texts(texts, value, at) or ()

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
