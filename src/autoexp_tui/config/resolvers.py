"""The resolvers of a config that are ours: `oc.env`, `oc.eval`, `now` and `ax.*`.

Registered for the whole process, which belongs to planning. `oc.env` answers from one
reading of the environment and remembers what was asked; `now` is one moment for all
jobs of a plan; `oc.eval` is `plan`'s safe evaluator over typed operands (see
`eval_rewrite`); `ax.*` are the helpers of `resolver_table`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Final

from omegaconf import DictConfig, ListConfig, OmegaConf

from autoexp_tui.config.eval_rewrite import MIXED
from autoexp_tui.config.resolver_table import HELPERS, Helper
from autoexp_tui.storage.user_files import hash_keyed
from autoexp_tui.sweep.expression import compile_expression

_NO_DEFAULT: Final = "\0no default"
PURE: Final = frozenset(
    {
        *("oc.env", "oc.eval", "now"),
        *(name for name, helper in HELPERS.items() if helper.pure),
    }
)
"""Resolvers that give the same for the same arguments, all through a plan."""


class Environment:
    """The environment as it was once; constant within a plan."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._asked: set[str] = set()

    def read(self, name: str, default: object = _NO_DEFAULT) -> str | None:
        """The variable's text, as `oc.env` gives it.

        Raises:
            LookupError: it is not set and there is no default.
        """
        self._asked.add(name)
        if name in self._values:
            return self._values[name]
        if default == _NO_DEFAULT:
            message = f"the environment variable {name} is not set: export {name}=..."
            raise LookupError(message)
        return None if default is None else str(default)

    def digests(self) -> dict[str, str]:
        """Names that were asked for -> keyed digest of the value; empty: not set."""
        return {
            name: hash_keyed(self._values[name]) if name in self._values else ""
            for name in sorted(self._asked)
        }


def register_resolvers(environment: Environment, now: float) -> None:
    """Make `oc.env`, `oc.eval`, `now` and `ax.*` ours for this process.

    `now`: UTC, seconds since the epoch; `${now:...}` shows it in local time.
    """
    moment = datetime.fromtimestamp(now).astimezone()
    OmegaConf.register_new_resolver("oc.env", environment.read, replace=True)
    OmegaConf.register_new_resolver("oc.eval", evaluate, replace=True)
    OmegaConf.register_new_resolver("now", moment.strftime, replace=True)
    for name, helper in HELPERS.items():
        OmegaConf.register_new_resolver(
            name, partial(_call_helper, helper), replace=True
        )


def _call_helper(helper: Helper, *values: object) -> object:
    return helper(*map(_to_plain, values))


def evaluate(expression: object, *operands: object) -> object:
    """The value of an expression over `_0`, `_1` ...

    Raises:
        ValueError: the expression is refused or fails; it is named with its operands.
    """
    _refuse_mixed(str(expression))
    names = {f"_{at}": _to_plain(value) for at, value in enumerate(operands)}
    try:
        value = compile_expression(str(expression)).evaluate(names)
    except (ValueError, ArithmeticError, TypeError, LookupError) as error:
        given = ", ".join(f"{name} = {value!r}" for name, value in names.items())
        shown = f"`{expression}`" + (f" with {given}" if given else "")
        raise ValueError(f"oc.eval {shown}: {error}") from None
    # A config knows lists alone.
    return list(value) if isinstance(value, tuple | set | frozenset) else value


def _refuse_mixed(expression: str) -> None:
    """A `_0` that was written by hand means arguments, and none were told apart."""
    if MIXED.search(expression):
        shown = MIXED.sub("${...}", expression)
        raise ValueError(
            f"oc.eval `{shown}`: `_0` goes with no ${{...}} in one expression; quote "
            "the expression alone, and give its arguments after it: "
            "${oc.eval:'_0 + 1',${key}}"
        )


def _to_plain(value: object) -> object:
    if isinstance(value, DictConfig | ListConfig):
        return OmegaConf.to_container(value, resolve=True)
    return value
