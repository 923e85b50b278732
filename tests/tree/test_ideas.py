from __future__ import annotations

import pytest

from autoexp_tui.tree.ideas import (
    MOST_BYTES,
    Idea,
    IdeaRefused,
    Proposal,
    Tried,
    dedupe_ideas,
    hash_diff,
    parse_idea,
)
from autoexp_tui.tree.options import Scope

TEXT = "# Cool more slowly\n\n* Lower the rate\n* Keep  the best\n"


def idea(name: str, text: str = TEXT) -> Idea:
    return parse_idea(name, text.encode())


@pytest.mark.parametrize(("text", "same"), [
    ("  # Cool more slowly\r\n- Lower the rate \n\n\n• Keep the\tbest", True),
    ("# Cool more slowly\n1. Lower the rate\n2) Keep the best", True),
    ("# Cool more slowly\n\x1b[31m+ Lower the rate\n+ Keep the best", True),
    ("# Cool more slowly\n* Raise the rate\n* Keep the best", False),
    ("# Cool more slowly\n* Lower the rate\n* Keep the best -1.5", False),
])  # fmt: skip
def test_an_idea_is_the_same_whatever_its_spaces_and_bullets(
    text: str, *, same: bool
) -> None:
    one, other = idea("a.md"), idea("b.md", text)
    assert (one.idea_id == other.idea_id) is same
    assert (one.text_hash == other.text_hash) is same
    assert one.sha256 != other.sha256


@pytest.mark.parametrize(("text", "title"), [
    (TEXT, "Cool more slowly"), ("intro\n## \n## Real", "Real"),
    ("- only a line", "only a line"), ("#", "#"), ("x" * 300, "x" * 119 + "…"),
])  # fmt: skip
def test_the_title_is_the_first_heading_else_the_first_line(
    text: str, title: str
) -> None:
    assert idea("a.md", text).title == title


@pytest.mark.parametrize(("data", "code"), [
    (b"", "idea_empty"), (b" \n\x1b[0m\n", "idea_empty"),
    (b"\xff\xfe", "idea_not_text"), (b"a\0b", "idea_not_text"),
    (b"x" * (MOST_BYTES + 1), "idea_too_long"),
])  # fmt: skip
def test_a_file_that_is_no_idea_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(IdeaRefused) as refused:
        parse_idea("a.md", data)
    assert refused.value.why.code == code


ANCESTORS = {1: (0,), 2: (0,)}


@pytest.mark.parametrize(("scope", "kept"), [
    ("node", ["1a", "2b", "2c"]),  # again on another node, and as on the root
    ("node_plus_ancestors", ["1a", "2b"]),
    ("global", ["1a"]),
])  # fmt: skip
def test_a_repeat_is_skipped_within_its_scope_and_told(
    scope: Scope, kept: list[str]
) -> None:
    old = "tried on the root"
    proposals = [
        Proposal(2, idea("c", old)), Proposal(2, idea("b")),
        Proposal(1, idea("z")), Proposal(1, idea("a")),
    ]  # fmt: skip
    tried = [Tried(0, idea("x", old).text_hash, "e3")]
    found, skipped = dedupe_ideas(proposals, tried, scope, ANCESTORS)
    assert [f"{one.node}{one.idea.file_name}" for one in found] == kept
    assert len(found) + len(skipped) == len(proposals)
    assert skipped[0].why.arg("what") == "a"  # z of node 1 repeats it, in every scope
    if scope != "node":
        assert (skipped[-1].file_name, skipped[-1].why.arg("what")) == ("c", "e3")
    assert dedupe_ideas(proposals[::-1], tried, scope, ANCESTORS) == (found, skipped)


def test_a_diff_is_the_same_on_another_commit_and_line() -> None:
    diff = "diff --git a/s b/s\nindex 1..2 100644\n@@ -1,2 +1,2 @@ def f\n a\n-b\n+c\n"
    moved = diff.replace("1..2", "3..4").replace("-1,2 +1,2", "-9,2 +9,2")
    assert hash_diff(moved) == hash_diff(diff) != hash_diff(diff.replace("+c", "+d"))
