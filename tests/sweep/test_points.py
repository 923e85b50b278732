"""How values are spelled in names, and which names a job may have."""

from __future__ import annotations

import pytest

from autoexp_tui.sweep.points import find_fault_of_name, format_in_name, join_path


@pytest.mark.parametrize(("value", "text"), [
    (1e-4, "1e-4"), (2.5e-4, "2.5e-4"), (0.01, "0.01"), (50.0, "50"), (64, "64"),
    ("adam", "adam"), (True, "True"), (None, "None"), ([1e-4, "a"], "[1e-4, a]"),
    ({"a": 0.5}, "{a: 0.5}"),
])  # fmt: skip
def test_values_are_spelled_short(value: object, text: str) -> None:
    assert format_in_name(value) == text


@pytest.mark.parametrize(("name", "fault"), [
    ("", "is empty"), ("a/.autoexp", "`.autoexp`, where we keep our own files"),
    ("provenance/a", "`provenance`, where we keep our own files"), (" ", "is empty"),
    ("a\0b", "control character"), ("a\nb", "control character"),
    ("a{b", "holds braces"), ("a}b", "holds braces"), ("/a", "a path from the root"),
    ("~a", "a path from the root"), ("..", "holds `..`"), ("a/../b", "holds `..`"),
    ("a//b", "an empty part"), ("a/", "an empty part"), ("./a", "an empty part"),
    ("ü" * 128, "longer than 255 bytes"),
])  # fmt: skip
def test_a_name_may_not_lead_elsewhere(name: str, fault: str) -> None:
    assert fault in find_fault_of_name(name)
    for fine in ("lr1e-4_stable", "a/b", "ünï", "a b", "..a", "[x]"):
        assert find_fault_of_name(fine) == ""
    assert [join_path(d, "x") for d in ("/a", "/a/", "")] == ["/a/x", "/a/x", "x"]
