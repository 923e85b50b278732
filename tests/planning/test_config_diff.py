"""What differs between two recorded configs."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.planning.plan_diff import diff_values
from autoexp_tui.text.plain_tree import ABSENT, flatten

CONFIG: dict[str, Any] = {
    "optim": {"lr": 1e-3, "betas": [0.9, 0.95], "kind": "adam"},
    "data": {"files": [{"path": "a.bin", "weight": 1}, {"path": "b.bin"}]},
    "note": "two\nlines: yes",
    "empty": {},
}


def differing(old: object, new: object) -> dict[str, tuple[object, object]]:
    """Dotted key -> (old, new)."""
    changes = diff_values(dict(flatten("", old)), dict(flatten("", new)))
    return {key: (theirs, ours) for key, theirs, ours in changes}


def text(**changed: object) -> dict[str, Any]:
    return {**CONFIG, **changed}


def test_a_value_is_told_with_its_whole_key_and_type() -> None:
    new = text(optim={"lr": 3e-4, "betas": [0.9, 0.99], "kind": "adam"})
    told: dict[str, Any] = {
        "optim.lr": (1e-3, 3e-4),
        "optim.betas": ([0.9, 0.95], [0.9, 0.99]),
    }
    assert differing(text(), new) == told
    files = [{"path": "a.bin", "weight": 2}, {"path": "b.bin"}]
    told = {"data.files.0.weight": (1, 2)}
    assert differing(text(), text(data={"files": files})) == told
    assert differing(text(), text(extra={"x": None})) == {"extra.x": (ABSENT, None)}
    assert differing(text(extra=1), text()) == {"extra": (1, ABSENT)}


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.floats(-9, 9),
    st.text("ab: -\"'{}[]\n#\x85é", max_size=5),
)  # fmt: skip
KEYS = st.text("ab.-: 1\"'", min_size=1, max_size=3)
TREES = st.recursive(
    SCALARS,
    lambda of: st.lists(of, max_size=3) | st.dictionaries(KEYS, of),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text("abc-", min_size=1, max_size=2), TREES, max_size=4),
    st.sampled_from(["zz", "0", "- x"]),
    SCALARS,
)
def test_an_added_key_differs(tree: dict[str, Any], key: str, value: object) -> None:
    tree.pop(key, None)
    found = differing({"top": tree}, {"top": {**tree, key: value}})
    if tree:
        assert found == {f"top.{key}": (ABSENT, value)}
    else:
        assert found[f"top.{key}"] == (ABSENT, value)


@given(TREES)
def test_a_tree_does_not_differ_from_itself(tree: object) -> None:
    assert differing({"t": tree}, {"t": copy.deepcopy(tree)}) == {}
