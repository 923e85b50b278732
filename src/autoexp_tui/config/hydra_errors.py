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
    InterpolationResolutionError,
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
_RESOLVER_PREFIX: Final = re.compile(
    r"^\w+ raised while resolving interpolation: (.*)$", re.DOTALL
)
_NOT_OVERRIDDEN: Final = re.compile(r"Could not override '(?P<key>[^']+)'\.")
_NO_DELETE: Final = re.compile(
    r"Could not delete(?: from config)?\.?\s*'(?P<key>[^']+)'"
)
_NO_GROUP: Final = re.compile(
    r"Override (?P<text>\S+) looks like a config group override,\s+but config group"
    r"\s+'(?P<key>[^']+)'\s+does not"
)
_UNLISTED: Final = "No match in the defaults list"
_MULTIPLE: Final = re.compile(
    r"Multiple values for (?P<key>\S+)\."
    r"|(?P<again>\S+) appears more than once in the final defaults list"
)
_IN_CONFIG: Final = re.compile(r"^In '?(?P<config>[^':]+)'?: (?P<rest>.*)$", re.DOTALL)
_NOT_FOUND: Final = re.compile(r"Could not (?:find|load) '(?P<name>[^']+)'")

_MISSING: Final = re.compile(r"Missing mandatory value: (?P<key>\S+)")
_IN_A_LIST: Final = re.compile(r"\[(\d+)\]")
_BELOW_A_VALUE: Final = re.compile(
    r"Error trying to access (?P<key>\S+): node `(?P<node>[^`]+)` is not a container"
)
_MERGING: Final = re.compile(r"Error merging override (?P<text>.+)")

_NO_CHOICE: Final = re.compile(
    "Config group override must be a string|Error resolving interpolation"
)
_NO_NAME: Final = re.compile(r"(?is)null|true|false|nan|inf|(?![a-z_]).*")

_OF_OMEGACONF: Final = ("oc.eval", "oc.env", "oc.select", "oc.decode", "oc.create")
_RESOLVERS: Final = f"resolvers: {', '.join(_OF_OMEGACONF)}, oc.dict.*, ax.*"
_FAILED: Final = (
    (
        "Recursive interpolation",
        "refers to itself",
        "follow the ${...} of this key: they come back to it",
    ),
    (  # in words that hang on how deep the stack was before
        "maximum recursion depth exceeded",
        "refers to itself, or to too long a row of keys",
        "follow the ${...} of this key: they come back to it, or never end",
    ),
    (
        "HydraConfig was not set",
        "${hydra:...} has no value here",
        "write the value itself, or ask the environment: ${oc.env:PWD}",
    ),
)
"""How a resolver fails, and what is said of it: message, hint."""
_A_SWEEP: Final = (
    "is a Hydra sweep, and a config has one value for a key",
    "override {text}",
    "write key=[1,2] for a list, key='1,2' for text; values to try belong into `sweep`",
)
_REFUSED: Final = (
    (
        r"Could not append to config\. An item is already at '(?P<key>[^']+)'",
        "`+` adds, but it is there already",
        "override +{key}",
        "to change it write `{key}=...`; `++{key}=...` does either",
    ),
    (r"(?m)Ambiguous value for argument '(?P<text>.+?)'$", *_A_SWEEP),
    (r"Sweep parameters '(?P<text>.+?)' requires --multirun", *_A_SWEEP),
    *(
        (
            twice,
            "is chosen more than once",
            "group {key}",
            "in a defaults list write `override {key}: CHOICE` for the second",
        )
        for twice in (
            r"Multiple values for (?P<key>\S+)\.",
            r"(?P<key>\S+) appears more than once in the final defaults list",
        )
    ),
    (
        r"(?s)You must specify '(?P<key>[^']+)'.*?Available options:\s*(?P<options>.*)",
        "has no choice: it is ??? in the defaults",
        "group {key}",
        "add {key}=CHOICE; {options}",
    ),
    (
        r"force-add of config groups .*?'\+*(?P<key>.+)'",
        "`++` does not go with a group",
        "override ++{key}",
        "write `{key}` to change the choice, `+{key}` to add the group",
    ),
    (
        r"hydra\.searchpath must be a list of strings\. Got: (?P<text>.*)",
        "is no list of places",
        "override hydra.searchpath",
        "write hydra.searchpath=[file://DIR,pkg://PACKAGE.DIR]",
    ),
)
"""How Hydra refuses an override, and what is said of it: message, place, hint."""


def compose_problem(
    error: Exception,
    *,
    where: str,
    overrides: Sequence[str] = (),
    keys: Iterable[str] = (),
    groups: Iterable[str] = (),
) -> Problem:
    """What hinders composing. `where`: the primary config; `overrides`: what was asked
    for; `keys`, `groups`: what exists, for near misses."""
    if isinstance(error, MissingConfigException):
        return _explain_choice(error, where, overrides)
    if isinstance(error, OverrideParseException):
        return explain_unreadable(error.override)
    if isinstance(error, RecursionError):
        deepest = max(
            overrides, key=lambda text: sum(map(text.count, "[{.")), default=""
        )
        name = shorten_text(deepest.partition("=")[0])
        return explain_too_deep(f"override {name}" if deepest else where)
    text = str(error)
    cause = error.__cause__
    if isinstance(cause, OmegaConfBaseException) and not text.strip():
        return resolve_problem(cause, keys)
    merging = _MERGING.match(text)
    if merging and cause is not None:
        override = f"override {merging['text']}"
        return Problem(_drop_key_lines(str(cause)), where=override)
    return (
        _explain_choices(text, overrides, tuple(groups))
        or _explain_override(text, tuple(keys), tuple(groups))
        or Problem(_drop_key_lines(text) or type(error).__name__, where=where)
    )


def _explain_choices(
    text: str, overrides: Sequence[str], groups: tuple[str, ...]
) -> Problem | None:
    """`+group=x` where the defaults choose it; or what is no name of a choice."""
    twice, no_choice = _MULTIPLE.search(text), _NO_CHOICE.search(text)
    added = f"+{twice['key'] or twice['again']}" if twice else ""
    for override in reversed(overrides) if twice or no_choice else ():
        key, _, value = override.partition("=")
        bare, where = key.lstrip("+"), f"override {shorten_text(override)}"
        if twice and key == added:
            hint = f"write `{override.removeprefix('+')}` to change the choice"
            message = "`+` adds, but the config chooses this group already"
            return Problem(message, where=where, hint=hint)
        is_group = no_choice and bare.partition("@")[0] in groups
        if is_group and _NO_NAME.fullmatch(value.strip()):
            hint = f"write the name of a file in {bare}/, without .yaml"
            return Problem("is no name of a choice", where=where, hint=hint)
    return None


def explain_unreadable(text: str) -> Problem:
    """An override that Hydra's grammar does not take."""
    if "=" not in text:
        hint = "an override is key=value; +key=value adds, ~key removes"
        return Problem(f"`{text}` is not an override", where="command line", hint=hint)
    key, _, value = text.partition("=")
    where = f"override {shorten_text(key, _LONGEST_KEY)}"
    if not is_key(key):
        return Problem(
            f"`{shorten_text(key, _LONGEST_KEY)}` is no key", where=where, hint=A_KEY
        )
    shown = shorten_text(value, _LONGEST_KEY)
    hint = f"quote the value for Hydra: {shorten_text(key, _LONGEST_KEY)}='{shown}'"
    return Problem(
        f"`{shorten_text(text, _LONGEST_KEY)}` cannot be read", where=where, hint=hint
    )


def resolve_problem(error: Exception, keys: Iterable[str], at: str = "") -> Problem:
    """What hinders resolving a value; `at` is the key when the error has none."""
    where = str(getattr(error, "full_key", None) or at)
    message = _drop_key_lines(str(error))
    if missing := _MISSING.search(message):
        # Spelled from its own subtree, or from the top.
        found = missing["key"]
        if isinstance(error, MissingMandatoryValue):
            found = str(error.full_key or f"{at}.{found}".lstrip("."))
        key = _IN_A_LIST.sub(r".\1", found)
        message, hint = "has no value: it is ??? in the config", f"set it: {key}=VALUE"
        return Problem(message, where=key, hint=hint)
    if below := _BELOW_A_VALUE.search(message):
        key, node = below["key"], below["node"]
        message = f"${{{key}}} names no key: `{node}` is a value, with none below it"
        return Problem(
            message, where=where, hint=f"set `{key}`, not `{node}` as a whole"
        )
    if isinstance(error, InterpolationKeyError):
        quoted = re.search(r"'(.*)'", message)
        name, known = quoted[1] if quoted else message, tuple(keys)
        if near := _find_nearest_key(name, known):
            hint = f"did you mean `{near}`?"
        else:
            tops = sorted({key.partition(".")[0] for key in known})
            hint = list_names(tops, "top-level keys")
        message = f"${{{name}}} names no key of the config"
        return Problem(message, where=where, hint=hint)
    if isinstance(error, UnsupportedInterpolationType):
        name = message.rpartition(" ")[2]
        near = find_slip(name, (*_OF_OMEGACONF, *HELPERS))
        hint = f"did you mean `{near}`?" if near else _RESOLVERS
        return Problem(f"there is no resolver `{name}`", where=where, hint=hint)
    if isinstance(error, InterpolationResolutionError):
        for words, words_of_ours, hint in _FAILED:
            if words in message:
                return Problem(words_of_ours, where=where, hint=hint)
        found = _RESOLVER_PREFIX.match(message)
        message = found[1].strip() if found else message
    return Problem(message, where=where)


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
        message = f"there is no config `{name}`"
        return Problem(
            message, where=place, hint=did_you_mean(name, options, "configs")
        )
    for text in reversed(overrides):
        key, _, value = text.lstrip("+").partition("=")
        chosen = key.partition("@")[0]
        if (chosen == group and choice in value) or f"{chosen}/{value}" == name:
            place, group = f"override {text}", chosen
            choice = name.removeprefix(f"{group}/")
            break
    hint = did_you_mean(choice, options, f"choices of `{group}`")
    return Problem(f"`{group}` has no choice `{choice}`", where=place, hint=hint)


def _explain_override(
    text: str, keys: tuple[str, ...], groups: tuple[str, ...]
) -> Problem | None:
    if found := _NOT_OVERRIDDEN.search(text):
        key, where = found["key"], f"override {found['key']}"
        if key.partition("@")[0] in groups or _UNLISTED in text:
            hint = f"the config's defaults do not choose it; add it: +{key}=CHOICE"
            return Problem("is not in the defaults list", where=where, hint=hint)
        if "/" not in key:
            near = _find_nearest_key(key, [*keys, *groups])
            meant = f"did you mean `{near}`? " if near else ""
            hint = f"{meant}write `++{key}=...` to add it"
            return Problem("there is no such key", where=where, hint=hint)
    elif found := _NO_DELETE.search(text):
        near = _find_nearest_key(found["key"], keys)
        hint = f"did you mean `{near}`?" if near else "leave the override out"
        if found["key"] in groups:
            hint = "the defaults list does not choose this group: leave it out"
        place = f"override ~{found['key']}"
        return Problem("`~` removes, but it is not there", place, hint=hint)
    elif found := _NO_GROUP.search(text):
        key, where = found["key"], f"override {found['text']}"
    if found:
        hint = did_you_mean(key, groups, "groups")
        return Problem(f"there is no config group `{key}`", where=where, hint=hint)
    for shape, message, place, hint in _REFUSED:
        if found := re.search(shape, text):
            parts = found.groupdict()
            parts["options"] = list_names(parts.get("options", "").split(), "choices")
            where = place.format(**parts)
            return Problem(message, where=where, hint=hint.format(**parts))
    return None


def find_unlisted_group(error: Exception) -> str:
    """The group that is chosen, and that no defaults list names; else empty."""
    found = _NOT_OVERRIDDEN.search(text := str(error))
    return found["key"].partition("@")[0] if found and _UNLISTED in text else ""
