"""Sweep filters: which key a name means, and whether a point stays.

A filter is an expression over a point's parameters. Names are bound once for a node,
to the keys that its points have, and then read from each point. A filter that holds
`${...}` needs a composed config and is evaluated for each job by its caller, who
resolves the interpolations. What the expression language is: `expression`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autoexp_tui.sweep.expression import (
    ExpressionError,
    NoneOperand,
    compile_expression,
    explain_unknown_name,
    strip_comments,
)
from autoexp_tui.sweep.interpolation_scanner import split_interpolations
from autoexp_tui.sweep.points import STAGE, STAGE_KEYS, find_stage, plain_key

_SIBLING: Final = re.compile(r"\{\s*(sibling|all|base|parent|runtime)\s*[.\[]")
_QUOTED_OPERAND: Final = re.compile(r"""(['"])(__operand_\d+__)\1""")
_OPERAND: Final = "__operand_{}__"
_META: Final = "_meta.stage"


def is_deferred(text: str) -> bool:
    """Whether a filter needs the composed config of the job."""
    return "${" in strip_comments(text)


def check_filter(text: str) -> None:
    """Whatever can be said against a filter before there are points.

    Raises:
        ExpressionError: it reads siblings, or it is not an allowed expression.
    """
    text = strip_comments(text)
    if _SIBLING.search(text):
        raise ExpressionError(
            "reads another job, which a filter cannot: filters choose the jobs first; "
            "compare the parameters that both share"
        )
    if is_deferred(text):
        _extract_operands(text)
    else:
        compile_expression(text, dotted=True)


# ---------------------------------------------------------------------- binding
@dataclass(frozen=True, slots=True)
class Place:
    """Where a value lies in a point's parameters: a key as written, a path below."""

    key: str
    path: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How a filter names it."""
        return ".".join([plain_key(self.key), *self.path])


def list_places(rows: Iterable[Mapping[str, object]]) -> Iterator[Place]:
    """Every key of each row of parameters, and every key that its mappings hold.

    Rows of one shape are looked at once.
    """
    shapes: set[tuple[str, ...]] = set()
    for parameters in rows:
        shape = tuple(parameters)
        nested = any(isinstance(value, Mapping) for value in parameters.values())
        if nested or shape not in shapes:
            shapes.add(shape)
            for key, value in parameters.items():
                yield from _list_below(value, Place(key))


def _list_below(value: object, place: Place) -> Iterator[Place]:
    yield place
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _list_below(inner, Place(place.key, (*place.path, str(key))))


def _read_first(
    places: Sequence[Place] | None, parameters: Mapping[str, object]
) -> object:
    """The value at the first of some places that a point has; None: at none."""
    if places is None:
        return find_stage(parameters) or None
    for place in places:
        if place.key in parameters:
            value = parameters[place.key]
            for part in place.path:
                value = value.get(part) if isinstance(value, Mapping) else None
            return value
    return None


class PointFilter:
    """An expression bound to the keys that the points of a node have."""

    def __init__(self, text: str, known: Iterable[Place]) -> None:
        """Bind every name of an expression; `known`: the places of all points.

        Raises:
            ExpressionError: a name is no key, or the end of several.
        """
        self._expression = compile_expression(text, dotted=True)
        places: dict[str, list[Place]] = {}
        for place in dict.fromkeys(known):
            places.setdefault(place.name, []).append(place)
        keys = self._expression.keys
        self._bindings = {
            name: _bind(name, places, exact=name in keys)
            for name in self._expression.names
            if not name.startswith("__operand_")
        }

    def holds(
        self,
        parameters: Mapping[str, object],
        operands: Mapping[str, object] | None = None,
    ) -> bool:
        """Whether the point stays.

        Raises:
            ExpressionError: the expression fails, or gives no truth value.
        """
        try:
            found = self._expression.evaluate(
                {**self.read(parameters), **(operands or {})}
            )
        except NoneOperand as error:
            hint = f"write `{error.operand} is not None and ...`"
            raise ExpressionError(f"{error}; {hint}") from None
        if isinstance(found, bool):
            return found
        raise ExpressionError(f"gives {found!r}, and a filter says True or False")

    def read(self, parameters: Mapping[str, object]) -> dict[str, object]:
        """What each name of the filter stands for in a point."""
        return {
            name: _read_first(places, parameters)
            for name, places in self._bindings.items()
        }


def _bind(
    name: str, places: Mapping[str, Sequence[Place]], *, exact: bool
) -> Sequence[Place] | None:
    """Where what `name` means may lie; None: it is the stage, however that is written.

    `exact`: the name is a whole key, nothing less.

    Raises:
        ExpressionError: it means nothing, or more than one thing.
    """
    if name in STAGE_KEYS and (STAGE in places or _META in places):
        return None
    if (whole := plain_key(name)) in places:
        return places[whole]
    ends = [key for key in places if key.endswith((f".{name}", f"/{name}"))]
    if exact or not ends:
        raise ExpressionError(explain_unknown_name(name, places))
    if len(ends) > 1:
        raise ExpressionError(
            f"`{name}` is the end of {', '.join(ends)}; write one of them whole"
        )
    return places[ends[0]]


# --------------------------------------------------------------------- deferred
def is_kept_by(
    text: str,
    parameters: Mapping[str, object],
    known: Iterable[Place],
    resolve: Callable[[str], object],
) -> bool:
    """Whether a point stays by a filter that holds `${...}`.

    `resolve` gives the typed value of one interpolation in the job's config; values
    are operands, so that none can rewrite the expression.

    Raises:
        ExpressionError: the expression fails, or gives no truth value.
    """
    lifted, operands = _extract_operands(text)
    values = {
        _OPERAND.format(at): resolve(operand) for at, operand in enumerate(operands)
    }
    return PointFilter(lifted, known).holds(parameters, values)


def _extract_operands(text: str) -> tuple[str, list[str]]:
    """The filter with a name for each `${...}`, and those interpolations."""
    operands: list[str] = []
    parts: list[str] = []
    for piece, interpolated in split_interpolations(
        strip_comments(text).replace("\\${", "${")
    ):
        if not interpolated:
            parts.append(piece)
            continue
        if piece not in operands:
            operands.append(piece)
        parts.append(_OPERAND.format(operands.index(piece)))
    lifted = _QUOTED_OPERAND.sub(r"\2", "".join(parts))
    if "${" in lifted:
        raise ExpressionError("holds a `${` that does not close")
    names = set(compile_expression(lifted, dotted=True).names)
    if not names.issuperset(re.findall(r"__operand_\d+__", lifted)):
        raise ExpressionError(
            "has a `${...}` inside a longer text; compare it by itself"
        )
    return lifted, operands
