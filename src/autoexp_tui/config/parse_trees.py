"""Trees of OmegaConf's grammar, of which each text has only one.

A config's interpolations are few, and every composition parses them all again: when
they are set, and when they are resolved. A tree depends on nothing but its text, and
reading it changes nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import omegaconf._utils
import omegaconf.base
from omegaconf.grammar_parser import parse

_READERS: Final[tuple[Any, ...]] = (omegaconf.base, omegaconf._utils)
"""The modules of OmegaConf that parse."""


@lru_cache(maxsize=2048)
def parse_tree(text: str) -> Any:
    """The tree of a text, not to be changed.

    Raises:
        GrammarParseError: it does not parse.
    """
    return parse(text)


def share_parse_trees() -> None:
    """Have OmegaConf read its trees from here: it offers no place for that."""
    for module in _READERS:
        module.parse = parse_tree
