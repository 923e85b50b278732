from __future__ import annotations

import pytest

from autoexp_tui.tree.ideas import MOST_BYTES, IdeaRefused, dedupe_ideas, parse_idea
from autoexp_tui.tree.options import Scope
from autoexp_tui.tree.state import Idea

TEXT = "# Cool more slowly\n\n* Lower the rate\n* Keep  the best\n"


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
    one, other = (parse_idea(it.encode()) for it in (TEXT, text))
    assert (one.sha256 == other.sha256) is same
    assert (one.name_personal() == other.name_personal()) is same


@pytest.mark.parametrize(("text", "title"), [
    (TEXT, "Cool more slowly"), ("intro\n## \n## Real", "Real"),
    ("- only a line", "only a line"), ("#", "#"), ("x" * 300, "x" * 119 + "…"),
])  # fmt: skip
def test_the_title_is_the_first_heading_else_the_first_line(
    text: str, title: str
) -> None:
    assert parse_idea(text.encode()).title == title


@pytest.mark.parametrize(("data", "code"), [
    (b"", "idea_empty"), (b" \n\x1b[0m\n", "idea_empty"),
    (b"\xff\xfe", "idea_not_text"), (b"a\0b", "idea_not_text"),
    (b"x" * (MOST_BYTES + 1), "idea_too_long"),
])  # fmt: skip
def test_a_file_that_is_no_idea_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(IdeaRefused) as refused:
        parse_idea(data)
    assert refused.value.why.code == code


ABOVE = {"n2": ["n0"], "n10": ["n0"]}


@pytest.mark.parametrize(("scope", "kept"), [
    ("node", ["n2/a", "n10/b", "n10/c"]),  # again on another node, and as on the root
    ("node_plus_ancestors", ["n2/a", "n10/b"]),
    ("global", ["n2/a"]),
])  # fmt: skip
def test_a_repeat_is_skipped_within_its_scope_and_told(
    scope: Scope, kept: list[str]
) -> None:
    def listed(node: str, file: str, sha256: str) -> Idea:
        return Idea(node=node, file=file, title="", sha256=sha256)

    tried = [listed("n0", "x", "old")]
    ideas = [listed("n10", "c", "old"), listed("n10", "b", "new"),
             listed("n2", "z", "new"), listed("n2", "a", "new")]  # fmt: skip
    found, repeats = dedupe_ideas(ideas, tried, scope, ABOVE)
    assert [one.id for one in found] == kept
    assert len(found) + len(repeats) == len(ideas)
    told = {one.id: same.id for one, same in repeats}
    assert told["n2/z"] == "n2/a"  # within one node, in every scope
    assert told.get("n10/c", "n0/x") == "n0/x"
    assert dedupe_ideas(ideas[::-1], tried, scope, ABOVE) == (found, repeats)
