"""Where ideas come from, and what their writers are told, over a real repository."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from autoexp_tui.evaluation.requests import Request, load_record
from tests.evaluation.one_evaluation import OneEvaluation
from tests.worktrees.conftest import write_files

WRITE = """
import json, pathlib, sys
place = pathlib.Path(sys.argv[sys.argv.index("--ideas-dir") + 1])
for number in (3, 1, 2):
    (place / f"{number}.md").write_text(f"# Idea {number}\\n")
(place / "words").write_text(json.dumps(sys.argv[1:]))
"""


def list_titles(one: OneEvaluation) -> list[str]:
    status, proposed = one.propose(one.open())
    assert status == 0
    return [idea.title for idea in proposed.ideas]


def test_a_command_writes_to_its_nodes_directory_and_is_told_the_earlier_ones(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", WRITE]
    dirs = ["earlier", "/elsewhere"]
    given = {"ideas": {"command": command, "context_dirs": dirs}}
    one = OneEvaluation(tmp_path, options=given)
    one.begin()
    assert list_titles(one) == ["Idea 1", "Idea 2", "Idea 3"]
    target = one.directory / "node_ideas" / "n0"
    words = json.loads((target / "words").read_text())
    context = [str(target), str(one.top / "earlier"), "/elsewhere"]
    assert words == ["--ideas-dir", str(target)] + [
        word for place in context for word in ("--context-ideas-dir", place)
    ]


@pytest.mark.parametrize(("forced", "titles"), [(False, ["Own"]), (True, ["New"])])
def test_ideas_that_are_there_stay_unless_they_are_made_anew(
    tmp_path: Path, forced: bool, titles: list[str]
) -> None:
    given = {"ideas": {"dir": str(tmp_path / "new")}, "force_regenerate_ideas": forced}
    one = OneEvaluation(tmp_path, options=given)
    one.begin()
    write_files(tmp_path / "new", {"2.md": "# New\n"})
    write_files(one.directory / "node_ideas" / "n0", {"1.md": "# Own\n"})
    assert list_titles(one) == titles


def test_a_node_s_context_has_a_persons_notes_and_ideas_of_other_directories(
    tmp_path: Path,
) -> None:
    given = {"ideas": {"dir": "x", "context_dirs": ["old"], "notes": ["Stay small."]}}
    one = OneEvaluation(tmp_path, options=given)
    opened = one.begin()
    write_files(one.top / "old", {"a.md": "# An old one\n", "b.md": ""})
    _, packed = one.pack(opened)
    assert [path for path, _ in packed.files] == ["old/a.md"]
    home = one.directory / "calls" / "n0_ideas"
    text = (home / "prompt_context.txt").read_text()
    assert "## Notes of the person\n\n    Stay small." in text
    assert "An old one (a.md, before this search): not tried" in text
    asked = load_record(Request, home / "ideas.json")
    assert asked.prompt_sha256 == packed.sha256
