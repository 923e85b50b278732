"""Sweep filters: which key a name means, and whether a point stays.

A filter is an expression over a point's parameters. Names are bound once for a node,
to the keys that its points have, and then read from each point. A filter that holds
`${...}` needs a composed config and is evaluated for each job by its caller, who
resolves the interpolations. What the expression language is: `expression`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from autoexp_tui.sweep.expression import (
    ExpressionError,
    compile_expression,
    explain_unknown_name,
    strip_comments,
)
from autoexp_tui.sweep.points import STAGE, STAGE_KEYS, find_stage, plain_key
from autoexp_tui.text.interpolations import Unbalanced, find_whole, split_tokens

_SIBLING: Final = re.compile(r"\{\s*(sibling|all|base|parent|runtime)\s*[.\[]")
_OPERAND: Final = "__operand_{}__"


def is_deferred(text: str) -> bool:
    """Whether a filter needs the composed config of the job."""
    return "${" in strip_comments(text)


def check_filter(text: str) -> None:
    """Raise ExpressionError: it reads siblings, or is not an allowed expression."""
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


def list_names(rows: Iterable[Mapping[str, object]]) -> Collection[str]:
    """What filters may name: keys of rows and of mappings in them."""
    return {name: None for row in rows for name, _ in _list_named(row)}


def _list_named(
    values: Mapping[str, object], above: str = ""
) -> Iterator[tuple[str, object]]:
    for key, value in values.items():
        name = f"{above}.{key}" if above else plain_key(key)
        yield name, value
        if isinstance(value, Mapping):
            yield from _list_named(value, name)


class PointFilter:
    """An expression bound to the keys that the points of a node have."""

    def __init__(self, text: str, known: Collection[str]) -> None:
        """`known`: see `list_names`; ExpressionError: a name is none, or several."""
        self._expression = compile_expression(text, dotted=True)
        self._bindings = {
            name: _bind(name, known, exact=name in self._expression.keys)
            for name in self._expression.names
            if not name.startswith("__operand_")
        }

    def holds(
        self,
        parameters: Mapping[str, object],
        operands: Mapping[str, object] | None = None,
    ) -> bool:
        """Whether the point stays; ExpressionError: it fails, or gives no truth."""
        names = {**self.read(parameters), **(operands or {})}
        found = self._expression.evaluate(names)
        if isinstance(found, bool):
            return found
        raise ExpressionError(f"gives {found!r:.80}, and a filter says True or False")

    def read(self, parameters: Mapping[str, object]) -> dict[str, object]:
        """What each name of the filter stands for in a point; None: it has none."""
        values = {**dict(_list_named(parameters)), "": find_stage(parameters) or None}
        return {name: values.get(key) for name, key in self._bindings.items()}


def _bind(name: str, known: Collection[str], *, exact: bool) -> str:
    """The key that `name` means (if `exact`, wholly); empty: the stage, however."""
    if name in STAGE_KEYS and (STAGE in known or "_meta.stage" in known):
        return ""
    if (whole := plain_key(name)) in known:
        return whole
    ends = [key for key in known if key.endswith((f".{name}", f"/{name}"))]
    if exact or not ends:
        raise ExpressionError(explain_unknown_name(name, known))
    if len(ends) > 1:
        raise ExpressionError(
            f"`{name}` is the end of {', '.join(ends)}; write one of them whole"
        )
    return ends[0]


def is_kept_by(
    text: str,
    parameters: Mapping[str, object],
    known: Collection[str],
    resolve: Callable[[str], object],
) -> bool:
    """Whether a point stays by a filter that holds `${...}`; ExpressionError.

    `resolve` gives the typed value of one interpolation in the job's config; values
    are operands, so that none can rewrite the expression.
    """
    lifted, operands = _extract_operands(text)
    values = {
        _OPERAND.format(at): resolve(operand) for at, operand in enumerate(operands)
    }
    return PointFilter(lifted, known).holds(parameters, values)


def _extract_operands(text: str) -> tuple[str, list[str]]:
    operands: list[str] = []
    lifted = ""
    try:
        for token in split_tokens(strip_comments(text).replace("\\${", "${")):
            if "${" not in token:
                lifted += token
            elif operand := find_whole(token):
                if operand not in operands:
                    operands.append(operand)
                lifted += _OPERAND.format(operands.index(operand))
            else:
                raise ExpressionError(
                    "has a `${...}` inside a longer text; compare it by itself"
                )
    except Unbalanced:
        raise ExpressionError("holds a `${` or a quote that does not close") from None
    compile_expression(lifted, dotted=True)
    return lifted, operands
