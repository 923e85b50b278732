"""What looks like a secret is not shown: values of certain keys, and certain shapes.
Only text is masked, for people and for what others read; jobs get their true values. It
is no fence: what is called otherwise and looks like nothing known is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

MASK: Final = "***"
Share: TypeAlias = Literal["private", "group", "group_write"]
"""Who but the user may read, or write, what a plan's jobs leave."""
_ONE_WORD: Final = frozenset(
    {"token", "secret", "password", "passwd", "credential", "credentials", "apikey"}
)
_TWO_WORDS: Final = frozenset({"api", "access", "secret", "private"})
"""Before `key`."""
_TOKENS_OF_TEXT: Final = frozenset(
    """
    additional audio begin bos bot cls decoder document end eod eoc eom eop eos eot fim
    first forced image last mask middle min max newline next pad padding per prefix
    sentinel sep special start stop suffix time unk unknown video vocab word
    """.split()  # noqa: SIM905 - as a list it takes a page
)
"""Words before `token` with which a language model's own tokens are called."""
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SHAPES: Final = re.compile(
    r"\bhf_[A-Za-z0-9]{16,}|\bsk-[A-Za-z0-9_-]{16,}|\bgithub_pat_\w{20,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
)
_USER_IN_URL: Final = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^/\s:@'\"]*):[^/\s@'\"]+@")
_NO_TEXT: Final = re.compile(
    r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|0[xob][0-9a-fA-F]+"
    r"|[-+]?\.?(?:inf|nan)"
    r"|true|false|yes|no|on|off|null|none|~|\?\?\?|"
    r"|(?:~|\.{1,2})?/(?:[\w.+-]{1,40}/)*[\w.+-]{0,40}|\$\{?\w[^\s]*|\{[\w.]+\}|\*\*\*",
    re.IGNORECASE,
)
_PAIR: Final = re.compile(
    r"""(?:\A|(?<=[\s,{(\[;&?'"+~]))
        (?:--?(?P<option>[A-Za-z_][\w.\-/@]*)(?:=|[ ]+(?=[^-\s=:]))
         |-?(?P<key>[A-Za-z_][\w.\-/@]*)(?:['"]?\]?\s*(?:=+|:=)\s*|['"]?:[ ]+|['"]:)
         |(?<=[{,])(?P<inner>[A-Za-z_][\w.\-/@]*):)
        (?P<value>"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s,}\])"';&]+)""",
    re.VERBOSE,
)
_HINT: Final = re.compile(
    "token|secret|passw|credential|key|hf_|sk-|github_pat|gh[pousr]_|akia|asia|://"
)
"""One of these is in every text that holds a secret, whatever its case."""
_YAML_KEY: Final = re.compile(
    r"(?P<indent>[+-]?\s*(?:- )*)(?P<key>[\w.\-/@]+|'[^']*'|\"[^\"]*\"):[ ]+"
    r"(?P<value>\S.*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskRules:
    """`project.mask`: which keys are masked besides, and which are not."""

    add: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()


NO_RULES: Final = MaskRules()


def mask_rules(config: Mapping[str, object]) -> MaskRules:
    project = config.get("project")
    found = project.get("mask") if isinstance(project, Mapping) else None
    given = found if isinstance(found, Mapping) else {}
    return MaskRules(
        add=tuple(map(str, given.get("add") or ())),
        keep=tuple(map(str, given.get("keep") or ())),
    )


@lru_cache(maxsize=16_384)
def is_secret_key(key: str, rules: MaskRules = NO_RULES) -> bool:
    """Whether values of a key, or of a variable, are secrets, by its name."""
    key = key.strip("'\"").lstrip("+~-")
    last = re.split(r"[./@]", key)[-1]
    if key in rules.keep or last in rules.keep:
        return False
    if key in rules.add or last in rules.add:
        return True
    words = ["", *(word.lower() for word in _WORDS.findall(last))]
    if words[-1] == "token" and words[-2] in _TOKENS_OF_TEXT:
        return False
    return words[-1] in _ONE_WORD or (words[-1] == "key" and words[-2] in _TWO_WORDS)


def mask_value(key: str, value: object, rules: MaskRules = NO_RULES) -> object:
    """A value as it may be shown, every part by its key; a list may be a command."""
    if isinstance(value, str):
        if is_secret_key(key, rules) and not is_no_text(value):
            return MASK
        return mask_yaml(value, rules)
    if isinstance(value, Mapping):
        return mask_values(value, rules)
    if not isinstance(value, list | tuple):
        return value
    if all(isinstance(part, str) for part in value):
        return type(value)(mask_yaml(word, rules) for word in mask_words(value, rules))
    return type(value)(mask_value("", part, rules) for part in value)


def mask_values(
    values: Mapping[str, object], rules: MaskRules = NO_RULES
) -> dict[str, object]:
    return {key: mask_value(str(key), value, rules) for key, value in values.items()}


def may_hold_secret(text: str, rules: MaskRules = NO_RULES) -> bool:
    """Whether it is worth looking: without what this finds nothing is masked."""
    is_hinted = _HINT.search(text.casefold()) is not None
    return is_hinted or any(map(text.__contains__, rules.add))


def mask_text(text: str, rules: MaskRules = NO_RULES) -> str:
    """Text with `key=value`, `key: value` and `--key value` of secrets masked."""
    if not may_hold_secret(text, rules):
        return text
    shown: list[str] = []
    end_of_last = at = 0
    while match := _PAIR.search(text, at):
        at, end = match.span("value")
        if is_secret_key(match["option"] or match["key"] or match["inner"], rules):
            value = match["value"]
            quote = value[0] if value[:1] in "'\"" else ""
            kept = not quote and is_no_text(value)
            shown += text[end_of_last:at], value if kept else f"{quote}{MASK}{quote}"
            end_of_last = at = end
    return mask_shapes("".join([*shown, text[end_of_last:]]))


def mask_words(words: Sequence[str], rules: MaskRules = NO_RULES) -> tuple[str, ...]:
    """The words of a command; a secret option's value may be the next word."""
    shown: list[str] = []
    for word, before in zip(words, ("", *words), strict=False):
        is_value = before.startswith("-") and "=" not in before
        if is_value and not word.startswith("-") and is_secret_key(before, rules):
            shown.append(str(mask_value(before, word, rules)))
        else:
            shown.append(mask_override(word, rules))
    return tuple(shown)


def mask_override(text: str, rules: MaskRules = NO_RULES) -> str:
    """`key=value`, its value masked as a whole where the key is a secret's."""
    key, equals, value = text.partition("=")
    if equals and " " not in key and is_secret_key(key, rules):
        bare = value.strip("'\"")
        return text if bare == value and is_no_text(value) else f"{key}={MASK}"
    return mask_text(text, rules)


def mask_yaml(text: str, rules: MaskRules = NO_RULES) -> str:
    """YAML, or a diff of it, with secrets masked, those of many lines too."""
    if not may_hold_secret(text, rules):
        return text
    lines: list[str] = []
    deeper: int | None = None
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip("+- "))  # a diff's marks, a list's dashes
        if deeper is not None and (indent > deeper or not line.strip()):
            continue
        deeper = None
        match = _YAML_KEY.fullmatch(line)
        bare = match["value"] if match else ""
        secret = match is not None and is_secret_key(match["key"], rules)
        if secret and bare[:1] not in "[{" and not is_no_text(bare):
            lines.append(f"{line.removesuffix(bare)}'{MASK}'")
            deeper = indent
            continue
        sign = line[:1] if line[:1] in ("+", "-") else ""  # a diff's, and no option's
        lines.append(sign + mask_text(line[len(sign) :], rules))
    return "\n".join(lines)


def mask_shapes(text: str) -> str:
    """Text without what is a secret by its shape, whatever it is called."""
    if not may_hold_secret(text):
        return text
    return _USER_IN_URL.sub(rf"\1:{MASK}@", _SHAPES.sub(MASK, text))


def is_no_text(value: str) -> bool:
    return _NO_TEXT.fullmatch(value) is not None
