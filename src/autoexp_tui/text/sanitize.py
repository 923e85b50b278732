"""Text from outside, made harmless: what is shown never steers a terminal.

Escape sequences, control characters and what reorders or hides others go; markup stays:
whoever renders the result must render it as text."""

from __future__ import annotations

import re
from typing import Final

ELLIPSIS: Final = "…"
_STRING_END = r"(?:\x07|\x1b\\|\x9c|\x18|\x1a)?"
_ESCAPES = (
    # OSC, DCS, SOS, PM, APC and screen's title: a payload up to its end. One that
    # never ends is taken to the end of its line, so that it cannot hide what follows.
    r"(?:\x1b[\]PX^_k]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\x18\x1a\r\n]*"
    + _STRING_END,
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?",  # CSI
    r"\x1b[ -/]+[0-~]?",  # character sets and other sequences with intermediates
    r"\x1b[0-~]?",  # two-character sequences, or a lone ESC
)
_BREAKS = r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]"
_CONTROLS = r"[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f]"
_HIDERS = (
    "["
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # bidi marks, overrides, isolates
    "\u00ad\u180e\u200b\u2060-\u2064\ufeff\ufff9-\ufffb"  # invisible
    "\U000e0000-\U000e007f"  # tags: invisible text
    "]"
)
_SURROGATES = "[\ud800-\udfff]"
_STRIP: Final = re.compile(
    "|".join(
        [
            *_ESCAPES,
            f"(?P<line>{_BREAKS})",
            f"(?P<bad>{_SURROGATES})",
            _CONTROLS,
            _HIDERS,
        ]
    )
)
_HIDDEN: Final = re.compile(
    f"{_CONTROLS}|{_HIDERS}|{_SURROGATES}|\r(?!\n)|[\v\f\x1c-\x1e\x85\u2028\u2029]"
    "|[\u200c\u200d]"
)
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
)
_JOINED_SCRIPT = f"[^\0-\u02ff\u200c\u200d{_MARKS}]"
_JOINERS: Final = re.compile(
    f"(?P<before>{_JOINED_SCRIPT})?"
    "(?P<joiner>[\u200c\u200d])[\u200c\u200d]*"
    f"(?P<after>(?={_JOINED_SCRIPT}))?"
)
_PILES: Final = re.compile(f"([{_MARKS}]{{4}})[{_MARKS}]+")
_BLANKS: Final = str.maketrans({"\n": " ", "\t": " "})


def clean(text: str, *, keep_newlines: bool = False, limit: int | None = None) -> str:
    """`text` without anything that could steer, reorder or hide. `keep_newlines`: tabs
    and line breaks (as newlines) stay, else each is a blank; `limit`: at most this many
    characters, the last an ellipsis when text was cut."""
    whole = text if limit is None else text[: 4 * limit + 4096]
    shown = whole
    if not whole.isprintable():  # most text is
        shown = _STRIP.sub(_replace_match, whole)
        if not shown.isascii():
            shown = _JOINERS.sub(_join_scripts, shown)
        shown = shown if keep_newlines else shown.translate(_BLANKS)
    if not shown.isascii():
        shown = _PILES.sub(r"\1", shown)
    if limit is None or (len(shown) <= limit and len(whole) == len(text)):
        return shown
    return shown[: max(limit - 1, 0)] + ELLIPSIS[:limit]


def clean_line(value: object, limit: int = 400) -> str:
    """A text from outside as one harmless line, no two blanks in a row."""
    return " ".join(clean(str(value), limit=limit).split())


def escape_hidden(text: str) -> str:
    """`text` with all that `clean` would take out, and every joiner, written out as in
    a program (`\\x1b`, `\\u202e`): who judges code has to see all of it."""
    return _HIDDEN.sub(lambda one: one[0].encode("unicode_escape").decode(), text)


def _replace_match(match: re.Match[str]) -> str:
    if match["line"] is not None:
        return "\n"
    return "\ufffd" if match["bad"] is not None else ""


def _join_scripts(match: re.Match[str]) -> str:
    """Joiners stay only within scripts that need them, one at a time."""
    before = match["before"] or ""
    fits = bool(before) and match["after"] is not None
    return before + (match["joiner"] if fits else "")
