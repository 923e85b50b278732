"""Parameters of a point as Hydra overrides, spelled so that they read back equal.

Two questions are answered here: how a value is written in Hydra's override grammar,
and whether a key selects a config group, sets a key that is there, or adds one. The
composing itself is behind `planning.ports.Composer`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.as_json import CLASS_NAMES
from autoexp_tui.planning.override_checks import (
    Scalar,
    check_hydra_key,
    check_list_text,
    check_value,
    find_number_at,
    warn_of_literal,
)
from autoexp_tui.planning.ports import CannotCompose, Composer, ConfigView
from autoexp_tui.sweep.points import NOT_OVERRIDES
from autoexp_tui.text.did_you_mean import find_slip

BARE: Final = re.compile(r"(?!\.[0-9])[A-Za-z_/.][\w/.\-:@%+]*", re.ASCII)
"""Texts that need no quotes."""
_WORDS: Final = frozenset({"null", "true", "false", "nan", "inf"})
_BARE_KEY: Final = re.compile(r"[A-Za-z_][\w/.\-]*", re.ASCII)
_KEY_TO_ESCAPE: Final = re.compile(r"([\\()\[\]{}:=, \t])")
_KEY_IN_ESCAPES: Final = re.compile(r"[A-Za-z_][\w/.\-\\()\[\]{}:=, \t]*", re.ASCII)


_OURS: Final = frozenset(key for key in NOT_OVERRIDES if "." not in key)
"""Keys of a point that no config has: a slip of one must not become a new key."""
_CONDITIONS: Final = frozenset(
    name.removesuffix("Condition") for name in (*CLASS_NAMES.values(), "SlurmState")
)


class CannotSpell(ValueError):
    """A value that no Hydra override can carry."""


# --------------------------------------------------------------------- spelling
def format_override(key: str, value: object) -> str:
    """`key=value` in Hydra's grammar; `~key` alone when it deletes without a value.

    Raises:
        CannotSpell: the grammar has no way to write the value.
    """
    if key.startswith("~") and value is None:
        return key
    return f"{key}={format_value(value)}"


def format_value(value: object) -> str:
    """A value in Hydra's grammar.

    Raises:
        CannotSpell: there is no way to write it.
    """
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


def quote(text: str, mark: str = "") -> str:
    """`text` in quotes, by the rule that Hydra and OmegaConf share.

    A quote inside is escaped, and backslashes before a quote (the closing one too) are
    doubled; all other backslashes stay single. Without a `mark` it is the one that
    leaves least to escape.
    """
    mark = mark or ('"' if "'" in text and '"' not in text else "'")
    escaped = escape_marks(text, mark)
    tail = len(escaped) - len(escaped.rstrip("\\"))
    return mark + escaped + "\\" * tail + mark


def escape_marks(text: str, mark: str) -> str:
    """`text` with every quote `mark` escaped."""
    return re.sub(rf"(\\*){mark}", lambda m: m[1] * 2 + "\\" + mark, text)


def strip_quotes(text: str) -> str:
    """An override whose value is one `{...}`, without the quotes around that.

    What is put in for it may be a number then, and not only text.
    """
    head, _, value = text.partition("=")
    return f"{head}={value[1:-1]}" if _ONE_REFERENCE.fullmatch(value) else text


_ONE_REFERENCE: Final = re.compile(r"""(['"])\{[^{}'"\\]+\}\1""")


def _format_key(key: object) -> str:
    if isinstance(key, bool | int):
        return str(key).lower()
    if isinstance(key, str) and key.lower() not in _WORDS:
        if _BARE_KEY.fullmatch(key):
            return key
        if _KEY_IN_ESCAPES.fullmatch(key) and key == key.strip():
            return _KEY_TO_ESCAPE.sub(r"\\\1", key)
    raise CannotSpell(f"Hydra cannot write the key {key!r} inside a value")


# --------------------------------------------------------------------- literals
_DOLLARS: Final = re.compile(r"(\\*)\$\{")


def escape_dollars(value: object) -> object:
    """`value` with every `${` escaped, so that OmegaConf reads it as it is."""
    if isinstance(value, str):
        return _DOLLARS.sub(lambda m: m[1] * 2 + r"\${", value)
    if isinstance(value, Mapping):
        return {key: escape_dollars(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [escape_dollars(item) for item in value]
    return value


def read_override_key(text: str) -> str:
    """`a.b` of `++a.b=1`; the group's own path of `optim@train=adam`."""
    key = text.partition("=")[0].lstrip("+~")
    group, _, package = key.partition("@")
    return (package or group).replace("/", ".")


# ------------------------------------------------------------------------- keys
@dataclass(slots=True)
class Overrides:
    """What a point's parameters became."""

    texts: dict[str, str] = field(default_factory=dict)
    """Parameter -> override, in order; flattened ones under their dotted keys."""
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    are_groups_known: bool = True
    """Whether it is known what the groups bring."""


class OverrideWriter:
    """Writes parameters as overrides of one primary config."""

    def __init__(
        self, composer: Composer, numbers: Mapping[str, float] | None = None
    ) -> None:
        """`numbers`: parameters that some point of the sweep sets to a number."""
        self._composer = composer
        self._numbers = numbers or {}
        self._settings = composer.settings()
        self._is_group: dict[str, bool] = {}
        self._places: dict[tuple[str, ...], _Places | CannotCompose] = {}

    def write(self, parameters: Mapping[str, object]) -> Overrides:
        """The overrides of a point, in order.

        When the groups that it selects do not compose, its keys are looked for in the
        config as it is without them.
        """
        made = Overrides()
        flat = list(self.flatten(parameters))
        chosen = [
            format_override(key, value)
            for key, value in flat
            if self.selects(key) and not _is_unspeakable(value)
        ]
        places = self._find_places(tuple(chosen), made)
        for key, value in flat:
            try:
                selects = self.selects(key)
                spelled = key if selects else places.check_key(key, value, made)
                made.texts[key] = format_override(spelled, value)
            except CannotSpell as error:
                made.errors.append(Problem(str(error), where=key))
        if not made.are_groups_known:
            made.warnings.clear()
        return made

    def flatten(self, parameters: Mapping[str, object]) -> Iterable[tuple[str, object]]:
        """The parameters; a mapping on a group or a section as the keys below it."""
        for key, value in parameters.items():
            if isinstance(value, Mapping) and value and self._has_keys(key):
                yield from self.flatten({f"{key}.{k}": v for k, v in value.items()})
            else:
                yield key, value

    def _has_keys(self, key: str) -> bool:
        """Whether the key is a config group, or a section with keys of ours."""
        below = f"{key.lstrip('+')}."
        return self.selects(key) or any(one.startswith(below) for one in self._settings)

    def selects(self, key: str) -> bool:
        """Whether the key is a config group."""
        bare = key.lstrip("+~")
        if bare not in self._is_group:
            options = self._composer.group_options(bare)
            self._is_group[bare] = options is not None
        return self._is_group[bare]

    def _find_places(self, chosen: tuple[str, ...], made: Overrides) -> _Places:
        found = self._compose_places(chosen)
        if isinstance(found, CannotCompose):
            made.errors += found.problems
            made.are_groups_known = False
            found = self._compose_places(())
        if isinstance(found, CannotCompose):
            raise found
        return found

    def _compose_places(self, chosen: tuple[str, ...]) -> _Places | CannotCompose:
        """The keys with these choices, or why they do not compose: asked once."""
        if chosen not in self._places:
            try:
                view = (
                    self._composer.compose(chosen, {})
                    if chosen
                    else self._composer.base()
                )
                self._places[chosen] = _Places(view, self._settings, self._numbers)
            except CannotCompose as error:
                self._places[chosen] = CannotCompose(error.problems)
        return self._places[chosen]


def _is_unspeakable(value: object) -> bool:
    try:
        format_value(value)
    except CannotSpell:
        return True
    return False


class _Places:
    """The keys that a config has, to tell setting from adding."""

    def __init__(
        self,
        view: ConfigView,
        settings: Collection[str],
        numbers: Mapping[str, float],
    ) -> None:
        self._view = view
        self._numbers = numbers
        self._own_numbers: dict[str, int | float | None] = {}
        self._settings = settings
        self._children: dict[str, set[str]] | None = None
        self._has: dict[str, bool] = {}

    def check_key(self, key: str, value: object, made: Overrides) -> str:
        """`key`, with `++` when it adds; an error when it looks like a slip."""
        # A slash is for groups: of one that is not there, composing says so.
        if (found := check_hydra_key(key.lstrip("+~"), key)) is not None:
            finding, is_error = found
            (made.errors if is_error else made.warnings).append(finding)
        if key[0] in "+~" or "/" in key:
            return key
        if isinstance(value, Mapping | list | tuple):
            made.warnings += check_value(key, value, self._view)
        elif isinstance(value, str | bool):
            self._check_literal(key, value, made)
        if self._is_there(key):
            return key
        if key in self._settings:
            return f"++{key}"
        meant = self._find_slip(key) or (
            "start_conditions" if _is_condition(value) else None
        )
        if meant is not None:
            hint = f"did you mean `{meant}`? write `++{key}` to add it"
            made.errors.append(Problem("is not in the config", where=key, hint=hint))
        else:
            hint = f"write `++{key}` to say that this is meant"
            message = "is not in the config, and is added to it"
            made.warnings.append(Problem(message, where=key, hint=hint))
        return f"++{key}"

    def _check_literal(self, key: str, value: Scalar, made: Overrides) -> None:
        """Text, true or false where a number was."""
        if isinstance(value, str) and ("${" in value or "{runtime." in value):
            return
        if key not in self._own_numbers:
            self._own_numbers[key] = find_number_at(self._view, key)
        own = self._own_numbers[key]
        error = None if own is None else check_list_text(key, value, own)
        number = self._numbers.get(key) if own is None else own
        if error is not None:
            made.errors.append(error)
        elif number is not None:
            was = own is not None
            made.warnings.append(warn_of_literal(key, value, number, was=was))

    def _is_there(self, key: str) -> bool:
        """Whether the config has the key: all jobs ask for the same few."""
        if key not in self._has:
            self._has[key] = self._view.has(key)
        return self._has[key]

    def _find_slip(self, key: str) -> str | None:
        """The existing key that `key` most likely meant."""
        parts = key.split(".")
        for at in range(len(parts)):
            parent = ".".join(parts[:at])
            children = self._list_children().get(parent, set())
            if at == 0:
                children = children | _OURS
            if parts[at] in children:
                continue
            meant = find_slip(parts[at], sorted(children))
            return ".".join([*parts[:at], meant, *parts[at + 1 :]]) if meant else None
        return None

    def _list_children(self) -> dict[str, set[str]]:
        if self._children is None:
            self._children = _find_children(self._view.leaf_paths())
        return self._children


def _is_condition(value: object) -> bool:
    """Whether a value is a condition, or a list with one in it."""
    if isinstance(value, list | tuple):
        return any(_is_condition(item) for item in value)
    name = value.get("class_name") if isinstance(value, Mapping) else None
    return isinstance(name, str) and name.removesuffix("Condition") in _CONDITIONS


def _find_children(paths: Sequence[str]) -> dict[str, set[str]]:
    """Parent -> names of its children, from the paths of leaves."""
    found: dict[str, set[str]] = {}
    for path in paths:
        parts = path.split(".")
        for at, part in enumerate(parts):
            found.setdefault(".".join(parts[:at]), set()).add(part)
    return found
