"""Reads the interpolations that most configs have without OmegaConf's grammar.

Texts of plain `${a.b}` and words around them, and our `${oc.eval:'...',${a},${b}}` in
typed form. Anything else is not for here: `quick` gives None.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_KEY: Final = r"\.*[A-Za-z_]\w*(?:\.\w+)*"
_NODE: Final = re.compile(rf"\$\{{({_KEY})\}}", re.ASCII)
_EVAL: Final = re.compile(
    rf"\$\{{oc\.eval:'([^'\\$]*)'((?:,\$\{{{_KEY}\}})*)\}}", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Quick:
    """A text in parts."""

    pieces: tuple[str, ...]
    """Words; at odd places the keys between them."""
    expression: str = ""
    """Of `oc.eval`, whose operands the keys are then; empty: there is none."""

    @property
    def keys(self) -> tuple[str, ...]:
        """What is looked up, in order."""
        return self.pieces[1::2]

    @property
    def alone(self) -> bool:
        """Whether the text is one key and nothing else: it keeps its type."""
        return len(self.pieces) == 3 and not self.pieces[0] and not self.pieces[2]


@lru_cache(maxsize=8192)
def quick(text: str) -> Quick | None:
    """The parts of a text; None: it needs the whole grammar."""
    called = _EVAL.fullmatch(text)
    if called is not None:
        return Quick(tuple(_NODE.split(called[2])), called[1])
    pieces = tuple(_NODE.split(text))
    words = pieces[::2]
    if any("${" in word or "\\" in word for word in words):
        return None
    return Quick(pieces)
