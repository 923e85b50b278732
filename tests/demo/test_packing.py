"""The packing example: its repository, its scorer, its ideas, a search with them."""

from __future__ import annotations

import csv
import json
import math
import os
import random
import runpy
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import autoexp_tui
from autoexp_tui.demo.packing import PackingError, ideas
from autoexp_tui.demo.packing.ideas import list_ideas, parse_title, read_catalogue
from autoexp_tui.demo.packing.implement import answer_call, apply_edits, implement
from autoexp_tui.demo.packing.repository import make_repository

FILES = Path(ideas.__file__).parent / "files"
ROOT = (FILES / "solver.py").read_text()
SCORER: Any = runpy.run_path(str(FILES / "score.py"))
CATALOGUE = {parse_title(text): text for text in read_catalogue()}
EPOCH = 1_700_000_000
OTHER_SEEDS = range(3, 15)


@cache
def measure(source: str, seeds: Sequence[int] = (1, 2)) -> float:
    """The mean ratio of a solver over sizes and seeds."""
    module: dict[str, Any] = {}
    exec(source, module)
    found = [
        SCORER["measure_points"]([list(point) for point in module["solve"](size, seed)])
        for size in SCORER["BEST_DISTANCE"]
        for seed in seeds
    ]
    return math.fsum(row[0] for row in found) / len(found)


def change(source: str, idea: str) -> str:
    return apply_edits(idea, {"solver.py": source}.__getitem__)["solver.py"]


def run_script(tree: Path, *words: str, **variables: str) -> Any:
    # The caches that the interpreter writes are a part of what is looked at.
    environment = {**os.environ, **variables, "PYTHONDONTWRITEBYTECODE": ""}
    environment["PYTHONPATH"] = str(Path(autoexp_tui.__file__).parent.parent)
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    make_repository(tmp_path / "tree", EPOCH)
    return tmp_path / "tree"


# -------------------------------------------------------------------- the repository
def test_its_commit_is_the_same_under_any_configuration_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_repository(tmp_path / "one", EPOCH)
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks/pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "hooks/pre-commit").chmod(0o755)
    (tmp_path / ".gitconfig").write_text(
        f"[core]\nhooksPath = {tmp_path}/hooks\nautocrlf = true\n"
        "[commit]\ngpgsign = true\n[user]\nname = Me\n[init]\ndefaultBranch = trunk\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert make_repository(tmp_path / "two", EPOCH) == first
    assert make_repository(tmp_path / "three", EPOCH + 1) != first


def test_it_is_not_made_over_what_is_there(tree: Path) -> None:
    with pytest.raises(PackingError, match="not empty"):
        make_repository(tree, EPOCH)


def test_the_root_passes_its_test_and_is_scored_and_leaves_the_tree_clean(
    tree: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results.csv"
    places = {"AGENTIC_OUTPUT_DIR": str(tmp_path), "AGENTIC_RESULTS_CSV": str(results)}
    for script in ("test_solver.py", "sweep.py", "score.py"):
        assert run_script(tree, script, **places).returncode == 0
    rows = [*csv.DictReader(results.read_text().splitlines())]
    assert [row["status"] for row in rows] == ["ok"] * 8
    assert [int(row["config_id"]) for row in rows] == [*range(8)]
    mean = math.fsum(float(row["ratio"]) for row in rows) / 8
    assert mean == pytest.approx(measure(ROOT), abs=1e-8)
    assert 0.74 < mean < 0.78
    status = ("git", "status", "--porcelain")
    assert subprocess.check_output(status, cwd=tree, text=True) == ""


# ------------------------------------------------------------------------ the scorer
def test_the_optimum_of_twelve_points_is_the_one_of_the_literature() -> None:
    best = SCORER["BEST_DISTANCE"]
    assert best[12] == pytest.approx(math.sqrt(34) / 15, abs=1e-12)
    assert [*best.values()] == sorted(best.values(), reverse=True)


CORNERS = [[0, 0], [1, 0], [0, 1], [1, 1]]
EDGE = [[0.5, 0], [0, 0.5], [1, 0.5], [0.5, 1]]
TEN = [*CORNERS, *EDGE, [0.5, 0.5], [0.25, 0.25]]


@pytest.mark.parametrize(("points", "status"), [
    (TEN, "ok"), (TEN[:9], "count"), ([*TEN, [0.75, 0.75]], "count"),
    ([*TEN[:9], [0.25, 1.001]], "outside"), ([*TEN[:9], [0.2, math.nan]], "outside"),
    ([*TEN[:9], [0.2, math.inf]], "outside"), ([*TEN[:9], [0.2]], "malformed"),
    ([*TEN[:9], ["0.2", 0.1]], "malformed"), ([*TEN[:9], [True, 0.1]], "malformed"),
    ("ten", "malformed"), (None, "missing"),
])  # fmt: skip
def test_a_row_says_what_is_wrong_with_its_points(points: Any, status: str) -> None:
    line = json.dumps({"config_id": 0, "points": points, "ratio": 1.0})
    first, *others = SCORER["score_results"](f"not json\n{line}\n[]\n")
    assert first[:2] == ("0", status)
    assert {row[1] for row in others} == {"missing"}
    assert all(cell == "" for cell in first[2:]) is (status != "ok")


def test_the_metrics_are_measured_from_the_points() -> None:
    ratio, radius, evenness = SCORER["measure_points"](TEN)
    smallest = math.sqrt(0.125)
    assert ratio == pytest.approx(smallest / SCORER["BEST_DISTANCE"][10])
    assert radius == pytest.approx(smallest / (2 + 2 * smallest))
    # The tenth and its four neighbours are that near, the others a half.
    assert evenness == pytest.approx(smallest / ((smallest + 0.5) / 2))


# ------------------------------------------------------------------------- the ideas
@pytest.mark.parametrize(("title", "least", "most"), [
    ("Hold a move at the border", 0.85, 0.92), ("Double the moves", 0.80, 0.86),
    ("Move less and less", 0.88, 0.94), ("Polish at the end", 0.90, 0.96),
    ("Move the point with the nearest neighbour", 0.64, 0.74),
    ("Accept small losses", 0.64, 0.74), ("Start on a grid", 0.74, 0.753),
    ("Draw from a generator with a seed", 0.7537, 0.7538),
])  # fmt: skip
def test_some_ideas_help_and_some_hurt(title: str, least: float, most: float) -> None:
    assert least < measure(change(ROOT, CATALOGUE[title])) < most


def test_one_idea_repeats_another_and_one_changes_nothing() -> None:
    border, walls = "Hold a move at the border", "Stop at the walls"
    assert change(ROOT, CATALOGUE[border]) == change(ROOT, CATALOGUE[walls])
    assert change(ROOT, CATALOGUE["Draw from a generator with a seed"]) == ROOT


def test_one_idea_breaks_the_test_and_its_points_are_not_scored(tree: Path) -> None:
    implement(CATALOGUE["Let points stand a little outside"], tree)
    tested = run_script(tree, "test_solver.py")
    assert tested.returncode == 1
    assert "outside" in tested.stderr
    assert run_script(tree, "sweep.py").returncode == 0
    assert run_script(tree, "score.py").returncode == 0
    assert ",outside,,," in (tree / "output/results.csv").read_text()


def test_ideas_apply_in_any_order_or_change_nothing(tree: Path) -> None:
    rng = random.Random(1)
    for _ in range(60):
        source = ROOT
        for text in rng.sample([*CATALOGUE.values()], 4):
            (tree / "solver.py").write_text(source)
            if ideas.applies(text, source):
                assert implement(text, tree) == ("solver.py",)
            else:
                with pytest.raises(PackingError, match="does not apply"):
                    implement(text, tree)
                assert (tree / "solver.py").read_text() == source
            source = (tree / "solver.py").read_text()
        compile(source, "solver.py", "exec")


def test_an_idea_that_does_not_apply_ends_with_its_reason(tree: Path) -> None:
    idea = tree / "idea.md"
    for text, reason in (
        (CATALOGUE["Double the moves"] * 2, "edit 2 of 2 does not apply"),
        ("# Think harder\n", "no edit"),
        (CATALOGUE["Double the moves"].replace("solver.py", "gone.py"), "gone.py"),
    ):
        idea.write_text(text)
        run = run_script(tree, "-m", "autoexp_tui.demo.packing.implement", str(idea))
        assert (run.returncode, reason in run.stderr) == (1, True)
        assert "Traceback" not in run.stderr
        assert (tree / "solver.py").read_text() == ROOT


def test_as_an_agent_it_edits_where_it_implements_alone(tree: Path) -> None:
    prompt = f"Do this:\n\n{CATALOGUE['Double the moves']}\nEnd with a line."
    answer_call("review_1", prompt, tree)
    assert (tree / "solver.py").read_text() == ROOT
    answer_call("implement", prompt, tree)
    assert "STEPS = 2800" in (tree / "solver.py").read_text()


def test_a_node_gets_the_catalogue_first_and_then_mutations_in_their_range() -> None:
    first = list_ideas(ROOT)
    second = list_ideas(ROOT, [text for _, text in first])
    assert [parse_title(text) for _, text in first + second] == [*CATALOGUE]
    assert [name[:3] for name, _ in first] == [f"{n:02d}-" for n in range(1, 8)]
    third = list_ideas(ROOT, CATALOGUE.values(), 99)
    titles = {parse_title(text) for _, text in third}
    assert titles == {
        *(f"STEPS from 1400 to {new}" for new in (560, 980, 1820, 2520)),
        *(f"REACH from 0.4 to {new}" for new in ("0.28", "0.52", "0.72")),
    }
    assert all(change(ROOT, text) != ROOT for _, text in third)


@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_ideas_of_a_command_do_not_depend_on_the_order_of_hashes(
    tree: Path, tmp_path: Path, seed: str
) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    for number, text in enumerate(CATALOGUE.values()):
        (taken / f"{number}.md").write_text(text)
    words = f"-m autoexp_tui.demo.packing.ideas --ideas-dir {tmp_path}/new --count 5"
    context = ["--context-ideas-dir", str(taken)]
    run = run_script(tree, *words.split(), *context, PYTHONHASHSEED=seed)
    found = {path.name: path.read_text() for path in (tmp_path / "new").iterdir()}
    assert run.stdout.split() == sorted(found)
    assert found == dict(list_ideas(ROOT, CATALOGUE.values(), 5))


# -------------------------------------------------------------------------- a search
def test_a_beam_of_two_gets_near_the_optimum_by_ideas_that_really_help() -> None:
    frontier: list[tuple[str, tuple[str, ...], list[str]]] = [(ROOT, (), [])]
    sources, opened = [ROOT], 0
    for _ in range(3):
        found = []
        for source, chain, taken in frontier:
            proposed = [text for _, text in list_ideas(source, taken)]
            opened += len(proposed)
            for text in proposed:
                new = change(source, text)
                if new in sources or "outside" in parse_title(text):
                    continue
                sources.append(new)
                if measure(new) >= measure(source) - 1e-6:
                    found.append((new, (*chain, text), [*taken, *proposed]))
        frontier = sorted(found, key=lambda one: -measure(one[0]))[:2]
    best, chain, _ = frontier[0]
    assert (opened, len(sources) - 1 >= 20) == (35, True)
    assert measure(best) >= 0.95
    source = ROOT
    for text in chain:  # also where the search did not look
        new = change(source, text)
        assert measure(new, OTHER_SEEDS) > measure(source, OTHER_SEEDS) + 0.005
        source = new
