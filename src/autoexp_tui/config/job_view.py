"""A job's config as a template with the job's own values in it.

Of what jobs share only what was made of changed keys is resolved anew. Whatever is not
certain is asked of the config that Hydra composes, which a view can turn to at any
moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any, Final, TypeVar

from autoexp_tui.config.config_view import OmegaView, Relatives, mentions
from autoexp_tui.config.eval_rewrite import rewrite_tree
from autoexp_tui.config.interpolations import (
    Absent,
    Doubtful,
    Place,
    Values,
    is_open,
    split_keys,
)
from autoexp_tui.config.job_template import Template
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.text.plain_tree import Path, at, leaves, unpatched, with_values

SWITCH: Final = "AUTOEXP_COMPOSE"
"""The environment variable that, set to `hydra`, has every job composed by Hydra."""
T = TypeVar("T")


class JobView:
    """A `planning.ports.ConfigView` over a template and a job's own values."""

    def __init__(
        self,
        template: Template,
        own: Mapping[Path, object],
        compose: Callable[[], OmegaView],
        compare: Callable[[], OmegaView] | None = None,
    ) -> None:
        """`own`: what the job sets; `compose`: the same by Hydra.

        With `compare`, which composes the job by nothing that is known of others, the
        resolved config is compared with what that gives.
        """
        self._template = template
        self._compose = compose
        self._compare = compare
        self._composed: OmegaView | None = None
        self._puts: list[tuple[str, object]] = []
        self._changed = frozenset(own)
        self._values: Values | None = Values(with_values(template.tree, own))
        """None: what is written is not known without Hydra."""
        self._leaves: tuple[str, ...] | None = None

    # ------------------------------------------------------------- the port
    def select(self, path: str) -> object:
        """See `OmegaView.select`."""
        return self._ask(
            lambda values: values.whole(_locate(values, path)),
            lambda view: view.select(path),
        )

    def raw(self, path: str) -> object:
        """See `OmegaView.raw`."""
        return self._ask(
            lambda values: unpatched(at(values.tree, _locate(values, path))),
            lambda view: view.raw(path),
        )

    def has(self, path: str) -> bool:
        """See `OmegaView.has`."""
        with suppress(KeyError):
            return self._ask(
                lambda values: _locate(values, path) is not None,
                lambda view: view.has(path),
            )
        return False

    def leaf_paths(self) -> Sequence[str]:
        """See `OmegaView.leaf_paths`."""
        if self._leaves is None:
            self._leaves = self._ask(
                lambda values: tuple(_leaf_paths(values.tree, "")),
                lambda view: tuple(view.leaf_paths()),
            )
        return self._leaves

    def interpolate(self, value: object, at: str = "") -> object:
        """See `OmegaView.interpolate`."""
        if not mentions(value):
            return value
        relatives = Relatives(self, absolute=True)
        return self._ask(
            lambda values: _meaning(
                values, relatives.anchored(rewrite_tree(value), at)
            ),
            lambda view: view.interpolate(value, at),
        )

    def put(self, path: str, value: object) -> None:
        """See `OmegaView.put`."""
        self._puts.append((path, value))
        if self._composed is not None:
            self._composed.put(path, value)
        self._leaves = None
        if self._values is not None:
            self._values = self._with(path, value, self._values)

    def _with(self, path: str, value: object, values: Values) -> Values | None:
        keys = tuple(path.split("."))
        self._changed |= {keys}
        try:
            tree = with_values(values.tree, {keys: rewrite_tree(value)})
        except LookupError:
            return None
        return None if "[" in path else Values(tree)

    def to_dict(self) -> Mapping[str, object]:
        """See `OmegaView.to_dict`.

        Raises:
            CannotCompose: something does not resolve; or the job is to be compared,
                and Hydra composes something else.
        """
        return self._ask(self._resolve, OmegaView.to_dict)

    def _resolve(self, values: Values) -> Mapping[str, object]:
        affected = self._template.affected(self._changed)
        found: Mapping[str, object] = with_values(
            self._template.resolved, {path: values.whole(path) for path in affected}
        )
        compare, self._compare = self._compare, None
        if compare is not None:
            _check_same(found, self._put_all(compare()).to_dict())
        return found

    def written_dict(self) -> Mapping[str, object]:
        """See `OmegaView.written_dict`."""
        return self._ask(lambda values: values.tree, OmegaView.written_dict)

    # ----------------------------------------------------------------- Hydra
    @property
    def is_shared(self) -> bool:
        """Whether Hydra was not asked, and need not be, but to compare."""
        return self._composed is None and self._values is not None

    def _ask(self, ours: Callable[[Values], T], hydras: Callable[[OmegaView], T]) -> T:
        """What our values say; where they are in doubt, what Hydra's config says."""
        if self._values is not None:
            try:
                return ours(self._values)
            except Absent as error:
                raise KeyError(str(error)) from None
            except Doubtful:
                pass
        if self._composed is None:
            self._composed = self._put_all(self._compose())
        return hydras(self._composed)

    def _put_all(self, view: OmegaView) -> OmegaView:
        for path, value in self._puts:
            view.put(path, value)
        return view


def _locate(values: Values, path: str) -> Path:
    """Where a dotted path leads."""
    if path and "" in path.split("."):
        raise Doubtful(path)
    return values.locate(split_keys(path))


def _meaning(values: Values, value: object) -> object:
    """A value that stands nowhere in the config, with every `${...}` resolved."""
    if isinstance(value, Mapping):
        return {key: _meaning(values, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_meaning(values, item) for item in value]
    if not isinstance(value, str) or not is_open(value):
        return value
    found = values.evaluate(value)
    return values.whole(found.path) if isinstance(found, Place) else found


def _check_same(ours: Any, hydras: Any) -> None:
    """Refuse a config that is not Hydra's, with types and order.

    Raises:
        CannotCompose: it is not.
    """
    if repr(ours) != repr(hydras):
        pairs = zip_longest(leaves(ours), leaves(hydras), fillvalue=((), None))
        where = next((a[0] or b[0] for a, b in pairs if repr(a) != repr(b)), ())
        message = "a job that was composed from another one is not what Hydra composes"
        hint = f"set {SWITCH}=hydra to have every job composed by Hydra, and report it"
        where_is = ".".join(map(str, where))
        problem = Problem(f"{message}; this is a bug of ours", where_is, hint=hint)
        raise CannotCompose((problem,))


def _leaf_paths(node: Mapping[str, object], prefix: str) -> Iterator[str]:
    for key, value in node.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict) and value:
            yield from _leaf_paths(value, path)
        else:
            yield path
