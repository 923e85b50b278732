"""Hydra's and OmegaConf's complaints in our words: what, where, and the next step.

A shape that is not known keeps its own first line, so that nothing is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from hydra.errors import MissingConfigException, OverrideParseException
from omegaconf.errors import (
    InterpolationKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    UnsupportedInterpolationType,
)

from autoexp_tui.config.resolvers import HELPERS
from autoexp_tui.config.yaml_files import explain_too_deep
from autoexp_tui.model.errors import Problem
from autoexp_tui.sweep.points import A_KEY, is_key, shorten_text
from autoexp_tui.text.did_you_mean import (
    did_you_mean,
    find_nearest,
    find_slip,
    list_names,
)

_LONGEST_KEY: Final = 100
"""Characters of a key, or an override, that is to be found and pasted."""
_PREFIX: Final = re.compile(r"^\w+ raised while resolving interpolation: ")
_NOT_CHOSEN: Final = re.compile(
    r"(?s)Could not override '(?P<key>[^']+)'.*No match in the defaults list"
)
_NOT_FOUND: Final = re.compile(r"Could not (?:find|load) '(?P<name>[^']+)'")
_IN_CONFIG: Final = re.compile(r"^In '?(?P<config>[^':]+)'?: ")
_MISSING: Final = re.compile(r"Missing mandatory value: (?P<key>\S+)")
_MERGING: Final = re.compile(r"Error merging override (?P<text>.+)")
_RESOLVERS: Final = ("oc.eval", "oc.env", "oc.select", "oc.decode", "oc.create")
_RING: Final = re.compile(r"Recursive interpolation|maximum recursion depth exceeded")
_REFUSED: Final = (
    (
        r"Could not append to config\. An item is already at '(?P<key>[^']+)'",
        "`+` adds, but it is there already",
        "override +{key}",
        "to change it write `{key}=...`; `++{key}=...` does either",
    ),
    (
        r"(?m)(?:Ambiguous value for argument|Sweep parameters) '(?P<text>.+?)'",
        "is a Hydra sweep, and a config has one value for a key",
        "override {text}",
        "write key=[1,2] for a list, key='1,2' for text; values to try belong into "
        "`sweep`",
    ),
    (
        r"Multiple values for (?P<key>\S+)\."
        r"|(?P<again>\S+) appears more than once in the final defaults list",
        "is chosen more than once",
        "group {key}",
        "write `{key}=CHOICE` without `+`; in a defaults list `override {key}: CHOICE`",
    ),
    (
        r"Could not override '(?P<key>[^'/@]+)'\.(?! No match)",
        "there is no such key",
        "override {key}",
        "{near}write `++{key}=...` to add it",
    ),
    (
        r"Override (?P<text>\S+) looks like a config group override,\s+but config group"
        r"\s+'(?P<key>[^']+)'|Could not override '(?P<again>[^'@]+)'\.(?! No)",
        "there is no config group `{key}`",
        "override {text}",
        "{groups}",
    ),
)
"""How Hydra refuses an override in words that lead astray, or names no near miss; and
what is said of it: message, place, hint."""


def compose_problem(
    error: Exception,
    *,
    where: str,
    overrides: Sequence[str] = (),
    keys: Sequence[str] = (),
    groups: Sequence[str] = (),
) -> Problem:
    """What hinders composing. `where`: the primary config; `overrides`: what was asked
    for; `keys`, `groups`: what exists, for near misses."""
    if isinstance(error, MissingConfigException):
        return _explain_choice(error, where, overrides)
    if isinstance(error, OverrideParseException):
        return explain_unreadable(error.override)
    if isinstance(error, RecursionError):
        deepest = max(overrides, key=lambda text: text.count("["), default="")
        name = shorten_text(deepest.partition("=")[0])
        return explain_too_deep(f"override {name}" if deepest else where)
    text = str(error)
    cause = error.__cause__
    if isinstance(cause, OmegaConfBaseException) and not text.strip():
        return resolve_problem(cause, keys)
    if (merging := _MERGING.match(text)) and cause is not None:
        where = f"override {merging['text']}"
        return Problem(_drop_key_lines(str(cause)), where=where)
    for shape, message, place, hint in _REFUSED:
        if found := re.search(shape, text):
            parts = {name: value or "" for name, value in found.groupdict().items()}
            key = parts["key"] = parts.get("key") or parts.get("again") or ""
            near = _find_nearest_key(key, [*keys, *groups])
            parts |= {
                "text": parts.get("text") or key,
                "near": f"did you mean `{near}`? " if near else "",
                "groups": did_you_mean(key, groups, "groups"),
            }
            message, place, hint = (
                one.format(**parts) for one in (message, place, hint)
            )
            return Problem(message, where=place, hint=hint)
    lines = [*map(str.strip, text.splitlines())] or [type(error).__name__]
    message, more = lines[0], filter(None, lines[1:])
    for one in overrides:
        key = one.partition("=")[0]
        where = f"override {key}" if f"'{key.lstrip('+~')}'" in message else where
    return Problem(message, where=where, hint=" ".join(more))


def explain_unreadable(text: str) -> Problem:
    """An override that Hydra's grammar does not take."""
    key, equals, value = text.partition("=")
    key, value = shorten_text(key, _LONGEST_KEY), shorten_text(value, _LONGEST_KEY)
    where = f"override {key}"
    if not equals:
        hint = "an override is key=value; +key=value adds, ~key removes"
        return Problem(f"`{text}` is not an override", where="command line", hint=hint)
    if not is_key(text.partition("=")[0]):
        return Problem(f"`{key}` is no key", where=where, hint=A_KEY)
    hint = f"quote the value for Hydra, all of it for a shell: \"{key}='{value}'\""
    shown = shorten_text(text, _LONGEST_KEY)
    return Problem(f"`{shown}` cannot be read", where=where, hint=hint)


def resolve_problem(error: Exception, keys: Sequence[str], at: str = "") -> Problem:
    """What hinders resolving a value; `at` is the key when the error has none."""
    where, hint = str(getattr(error, "full_key", None) or at), ""
    message = _drop_key_lines(str(error))
    if missing := _MISSING.search(message):
        # Spelled from its own subtree, or from the top.
        where = missing["key"]
        if isinstance(error, MissingMandatoryValue):
            where = str(error.full_key or f"{at}.{where}".lstrip("."))
        where = re.sub(r"\[(\d+)\]", r".\1", where)
        message, hint = (
            "has no value: it is ??? in the config",
            f"set it: {where}=VALUE",
        )
    elif isinstance(error, InterpolationKeyError):
        quoted = re.search(r"'(.*)'", message)
        name = quoted[1] if quoted else message
        near = _find_nearest_key(name, keys)
        tops = sorted({key.partition(".")[0] for key in keys})
        hint = f"did you mean `{near}`?" if near else list_names(tops, "top-level keys")
        message = f"${{{name}}} names no key of the config"
    elif isinstance(error, UnsupportedInterpolationType):
        name = message.rpartition(" ")[2]
        near = find_slip(name, (*_RESOLVERS, *HELPERS))
        known = f"resolvers: {', '.join(_RESOLVERS)}, oc.dict.*, ax.*"
        message = f"there is no resolver `{name}`"
        hint = f"did you mean `{near}`?" if near else known
    else:
        message = _PREFIX.sub("", message).strip()
        if _RING.search(message):
            hint = "follow the ${...} of this key: they come back to it"
            message = "refers to itself"
    return Problem(message, where=where, hint=hint)


def _drop_key_lines(text: str) -> str:
    """The message without OmegaConf's trailing `full_key:` and `object_type=`."""
    lines = (line.strip() for line in text.strip().splitlines())
    kept = (ln for ln in lines if not ln.startswith(("full_key:", "object_type=")))
    return " ".join(filter(None, kept))


def _find_nearest_key(key: str, keys: Iterable[str]) -> str | None:
    """The dotted key that `key` most likely meant: misspelled, or elsewhere."""
    known = [other for other in keys if other != key]
    parent, _, tail = key.rpartition(".")
    beside = [one for one in known if one.rpartition(".")[0] == parent]
    found = find_nearest(tail, [one.rpartition(".")[2] for one in beside])
    if found is not None:
        return f"{parent}.{found}".lstrip(".")
    same_tail = [other for other in known if other.rpartition(".")[2] == tail]
    return same_tail[0] if len(same_tail) == 1 else find_slip(key, known)


def _explain_choice(
    error: MissingConfigException, where: str, overrides: Sequence[str]
) -> Problem:
    options = tuple(error.options or ())
    found = _NOT_FOUND.search(str(error))
    name = str(error.missing_cfg_file or (found[1] if found else ""))
    inside = _IN_CONFIG.match(str(error))
    place = f"config `{inside['config']}`" if inside else where
    group, _, choice = name.rpartition("/")
    if not group:
        hint = did_you_mean(name, options, "configs")
        return Problem(f"there is no config `{name}`", where=place, hint=hint)
    for text in reversed(overrides):
        key, _, value = text.lstrip("+").partition("=")
        chosen = key.partition("@")[0]
        if (chosen == group and choice in value) or f"{chosen}/{value}" == name:
            place, group = f"override {text}", chosen
            choice = name.removeprefix(f"{group}/")
            break
    hint = did_you_mean(choice, options, f"choices of `{group}`")
    return Problem(f"`{group}` has no choice `{choice}`", where=place, hint=hint)


def find_unlisted_group(error: Exception) -> str:
    """The group that is chosen, and that no defaults list names; else empty."""
    found = _NOT_CHOSEN.search(str(error))
    return found["key"].partition("@")[0] if found else ""
