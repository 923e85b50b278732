"""Values in Hydra's override grammar, spelled so that they read back equal; parameters
of a point as overrides of a config, and what of them is hardly meant.

Whether a key selects a config group, sets a key that is there, or adds one is decided
here. A list that slipped one level down is no sweep at all, and nothing fails; so it is
with text where a number is meant: YAML takes `1e-3, 3e-3` without brackets, `0o17` and
`2024-01-01` for text. Whoever means it writes `++` before the key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from typing import Final, TypeGuard

from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import CannotCompose, Composer, ConfigView
from autoexp_tui.sweep.points import NOT_OVERRIDES, format_in_name, shorten_text
from autoexp_tui.text.did_you_mean import find_slip
from autoexp_tui.text.plain_tree import map_texts

MISSING: Final = "???"
"""What OmegaConf reads as a value that is still to come."""
BARE: Final = re.compile(r"(?!\.[0-9])[A-Za-z_/.][\w/.\-:@%+]*", re.ASCII)
"""Texts that need no quotes."""
_WORDS: Final = frozenset({"null", "true", "false", "nan", "inf"})
_KEY_TO_ESCAPE: Final = re.compile(r"([\\()\[\]{}:=, \t])")
_KEY_IN_ESCAPES: Final = re.compile(r"[A-Za-z_][\w/.\-\\()\[\]{}:=, \t]*", re.ASCII)


class CannotSpell(ValueError):
    """A value that no Hydra override can carry."""


def format_override(key: str, value: object) -> str:
    """`key=value` in Hydra's grammar, or `~key`; raises CannotSpell."""
    if key.startswith("~") and value is None:
        return key
    return f"{key}={format_value(value)}"


def format_value(value: object) -> str:
    """A value in Hydra's grammar; raises CannotSpell where that cannot write it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else str(value)
        case str():
            return _format_text(value)
        case Mapping():
            items = [f"{_format_key(k)}:{format_value(v)}" for k, v in value.items()]
            return "{" + ",".join(items) + "}"
        case list() | tuple():
            return "[" + ",".join(format_value(item) for item in value) + "]"
    raise CannotSpell(f"{value!r} is a {type(value).__name__}; write it as text")


@lru_cache(maxsize=8192)
def _format_text(text: str) -> str:
    if BARE.fullmatch(text) and text.lower().lstrip("+") not in _WORDS:
        return text
    return quote(text)


def quote(text: str) -> str:
    """`text` in quotes, by the rule that Hydra and OmegaConf share.

    A quote inside is escaped, and backslashes before a quote (the closing one too) are
    doubled; all other backslashes stay single.
    """
    mark = '"' if "'" in text and '"' not in text else "'"
    escaped = re.sub(rf"(\\*){mark}", lambda m: m[1] * 2 + "\\" + mark, text)
    tail = len(escaped) - len(escaped.rstrip("\\"))
    return mark + escaped + "\\" * tail + mark


def strip_quotes(text: str) -> str:
    """An override of one `{...}` without quotes: what is put in may be a number."""
    head, _, value = text.partition("=")
    return f"{head}={value[1:-1]}" if _ONE_REFERENCE.fullmatch(value) else text


_ONE_REFERENCE: Final = re.compile(r"""(['"])\{[^{}'"\\]+\}\1""")


def _format_key(key: object) -> str:
    if isinstance(key, bool | int):
        return str(key).lower()
    if isinstance(key, str) and (
        _KEY_IN_ESCAPES.fullmatch(key)
        and key == key.strip()
        and key.lower() not in _WORDS
    ):
        return _KEY_TO_ESCAPE.sub(r"\\\1", key)
    raise CannotSpell(f"Hydra cannot write the key {key!r} inside a value")


_DOLLARS: Final = re.compile(r"(\\*)\$\{")


def escape_dollars(value: object) -> object:
    """`value` with every `${` escaped, so that OmegaConf reads it as it is."""
    return map_texts(value, partial(_DOLLARS.sub, lambda m: m[1] * 2 + r"\${"))


def read_override_key(text: str) -> str:
    """`a.b` of `++a.b=1`; the group's own path of `optim@train=adam`."""
    key = text.partition("=")[0].lstrip("+~")
    group, _, package = key.partition("@")
    return (package or group).replace("/", ".")


_REFUSED: Final = {
    "sweeper": "put the values to try into `sweep`: sweep.params.KEY=[1,2]",
    "launcher": "choose where jobs run by the group `slurm`: slurm=generic",
}
"""Settings of Hydra's own that would run one job where many were meant."""
_OURS: Final = frozenset(key for key in NOT_OVERRIDES if "." not in key)
"""Keys of a point that no config has: a slip of one must not become a new key."""
_Choices = tuple[str, ...]


@dataclass(slots=True)
class Overrides:
    texts: dict[str, str] = field(default_factory=dict)
    """Parameter -> override, in order; flattened ones under their dotted keys."""
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)


class OverrideWriter:
    def __init__(
        self, composer: Composer, points: Iterable[Mapping[str, object]] = ()
    ) -> None:
        """`points`: the parameters of the sweep, for the numbers among them."""
        self._composer = composer
        self._settings = composer.settings
        # All jobs ask for the same few.
        self._is_group = cache(composer.is_group)
        self._compose = cache(self._compose_choices)
        self._children: dict[ConfigView, Mapping[str, set[str]]] = {}
        self._numbers: dict[str, int | float] = {}
        """The first number that each parameter has in any of the points."""
        for point in points:
            for key, value in point.items():
                if is_number(value):
                    self._numbers.setdefault(key, value)

    def write(self, parameters: Mapping[str, object]) -> Overrides:
        """The overrides of a point, in order; of groups that do not compose, why."""
        made = Overrides()
        flat = list(self.flatten(parameters))
        chosen: _Choices = ()
        for key, value in flat:
            with suppress(CannotSpell):
                if self.selects(key):
                    chosen = (*chosen, format_override(key, value))
        view = self._compose(chosen)
        if isinstance(view, tuple):
            made.errors += view
            return made
        for key, value in flat:
            try:
                full_key = self._check_key(key, value, view, made)
                made.texts[key] = format_override(full_key, value)
            except CannotSpell as error:
                made.errors.append(Problem(str(error), where=key))
        return made

    def flatten(self, parameters: Mapping[str, object]) -> Iterable[tuple[str, object]]:
        """The parameters; a mapping on a group or a section as the keys below it."""
        for key, value in parameters.items():
            below = f"{key.lstrip('+')}."
            if (isinstance(value, Mapping) and value) and (
                self.selects(key) or any(s.startswith(below) for s in self._settings)
            ):
                yield from self.flatten({f"{key}.{k}": v for k, v in value.items()})
            else:
                yield key, value

    def selects(self, key: str) -> bool:
        return self._is_group(key.lstrip("+~"))

    def _compose_choices(self, chosen: _Choices) -> ConfigView | tuple[Problem, ...]:
        """The config with these choices, or why it does not compose."""
        try:
            composer = self._composer
            return composer.compose(chosen, {}) if chosen else composer.base()
        except CannotCompose as error:
            return error.problems

    def _list_children(self, view: ConfigView) -> Mapping[str, set[str]]:
        """Dotted path -> the names below it."""
        found: dict[str, set[str]] = {"": set(_OURS)}
        for path in view.leaf_paths():
            names = path.split(".")
            for at, name in enumerate(names):
                found.setdefault(".".join(names[:at]), set()).add(name)
        return found

    def _check_key(
        self, key: str, value: object, view: ConfigView, made: Overrides
    ) -> str:
        """`key`, with `++` when it adds; an error when it looks like a slip."""
        if (found := check_hydra_key(key.lstrip("+~"), key)) is not None:
            finding, is_error = found
            (made.errors if is_error else made.warnings).append(finding)
        # A slash is for groups: of one that is not there, composing says so.
        if self.selects(key) or key[0] in "+~" or "/" in key:
            return key
        is_there = view.has(key)
        held = view.raw(key) if is_there else None
        if isinstance(value, str | bool):
            self._check_literal(key, value, held, made)
        else:
            made.warnings += _check_shape(key, value, held)
        if is_there:
            return key
        meant = None
        if key not in self._settings:
            meant = self._find_slip(key, view)
            # The job would start early.
            meant = meant or ("start_conditions" if _are_conditions(value) else None)
        if meant is not None:
            hint = f"did you mean `{meant}`? write `++{key}` to add it"
            made.errors.append(Problem("is not in the config", key, hint=hint))
        elif key not in self._settings:
            hint = f"write `++{key}` to say that this is meant"
            message = "is not in the config, and is added to it"
            made.warnings.append(Problem(message, key, hint=hint))
        return f"++{key}"

    def _find_slip(self, key: str, view: ConfigView) -> str | None:
        if view not in self._children:
            self._children[view] = self._list_children(view)
        parts = key.split(".")
        for at, part in enumerate(parts):
            children = self._children[view].get(".".join(parts[:at]), set())
            if part not in children:
                meant = find_slip(part, sorted(children))
                return meant and ".".join([*parts[:at], meant, *parts[at + 1 :]])
        return None

    def _check_literal(
        self, key: str, value: object, held: object, made: Overrides
    ) -> None:
        """Text, true or false where the config, or other points, have a number."""
        if isinstance(value, str) and ("${" in value or "{runtime." in value):
            return
        number = held if is_number(held) else self._numbers.get(key)
        if number is None:
            return
        kind = "the text " if isinstance(value, str) else ""
        before = "and was" if number is held else "where other jobs have"
        message = f"is {kind}{_quote(value)}, {before} the number {_quote(number)}"
        hint = f"`++{key}` says that it is meant"
        if isinstance(value, str) and "," in value and number is held:
            brackets = f"values to try have brackets: `{key}: [{shorten_text(value)}]`"
            made.errors.append(Problem(message, key, hint=f"{brackets}; {hint}"))
        else:
            made.warnings.append(Problem(message, key, hint=hint))


def _check_shape(key: str, value: object, held: object) -> Iterator[Problem]:
    """A list or a mapping where the config has one value."""
    if isinstance(value, Mapping) and isinstance(held, Mapping):
        for name, inner in value.items():
            yield from _check_shape(f"{key}.{name}", inner, held.get(name))
        return
    if isinstance(held, str) and (held == MISSING or "${" in held):
        return
    is_mapping = isinstance(value, Mapping)
    one = bool | int | float | str if is_mapping else bool | int | float
    if isinstance(value, Mapping | list | tuple) and isinstance(held, one):
        hint = (
            f"values to try are a list right below `params`: `{key}: [1, 2]`; "
            f"`++{key}` says that it is meant"
        )
        noun = "mapping" if is_mapping else "list"
        yield Problem(f"is set to a {noun}, and was {_quote(held)}", key, hint=hint)


def _are_conditions(value: object) -> bool:
    items = value if isinstance(value, list | tuple) else ()
    return any(isinstance(one, Mapping) and "class_name" in one for one in items)


def _quote(held: object) -> str:
    # As YAML has it.
    text = str(held).lower() if isinstance(held, bool) else format_in_name(held)
    return f"`{shorten_text(text)}`"


def check_hydra_key(key: str, where: str) -> tuple[Problem, bool] | None:
    """The finding of a `hydra...` key, and whether it is an error; None for others."""
    head, _, rest = key.replace("/", ".").partition(".")
    name = rest.partition(".")[0].partition("@")[0]
    if head != "hydra" or not name or name == "searchpath":
        return None
    if name in _REFUSED:
        message = f"Hydra's {name} is not used: jobs are swept and submitted from here"
        return Problem(message, where=where, hint=_REFUSED[name]), True
    hint = "take it out; of `hydra`, only `hydra.searchpath` is read"
    return Problem("has no effect here", where=where, hint=hint), False


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)
