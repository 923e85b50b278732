"""YAML of our own writing is what PyYAML reads back."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from autoexp_tui.probes.yaml_text import format_yaml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
TREES = st.recursive(
    LEAVES,
    lambda of: (
        st.lists(of, max_size=3)
        | st.dictionaries(TEXTS | st.integers(), of, max_size=3)
    ),
    max_leaves=12,
)
SPECIAL = (
    *("", "yes", "NO", "null", "~", "1", "1.5", "1e5", "0x1f", "2026-11-22", "a: b"),
    *("# c", "- a", "?", "${a.b}", "{x}", "&a", "*a", "!t", "|", ">", "%", "@", "`"),
    *("\x85", "\u2028", "\ufeff", "\x7f", "\x00", "é", "😀", " a ", "a\n", "=", "<<"),
    *(".inf", "1:30", "a\tb", "'", '"', "\\", "no.", "y/n", "off-line"),
)


@given(st.dictionaries(TEXTS, TREES, max_size=4))
@example({text: [text, {"b": [text]}] for text in SPECIAL})
@example({"a": [float("nan"), float("-inf"), {"b": float("inf")}]})
def test_what_is_written_reads_back_equal(tree: dict[str, Any]) -> None:
    assert repr(yaml.safe_load(format_yaml(tree))) == repr(tree)


def test_keys_stay_in_their_order_in_blocks() -> None:
    tree = {"b": {"z": 1, "a": [1, {"x": 1e-05}]}, "a": {}, "c": []}
    assert format_yaml(tree) == (
        "b:\n  z: 1\n  a:\n  - 1\n  -\n    x: 1.0e-05\na: {}\nc: []\n"
    )
