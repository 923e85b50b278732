"""The script of a dry run: what it holds, and that it is data alone."""

from __future__ import annotations

from collections import Counter

from autoexp_tui.demo.dry_run_steps import (
    METRIC,
    OUTCOMES,
    ROWS,
    ScriptedStep,
    format_results,
    list_steps,
)

STEPS = [
    step
    for depth, nodes in enumerate(OUTCOMES, start=1)
    for node in range(len(nodes))
    for step in list_steps(depth, node)
]


def classify(step: ScriptedStep) -> str:
    """What a reader of the CSV finds."""
    if step.results is None:
        return "no file"
    header, *lines = step.results.splitlines()
    if METRIC not in header:
        return "no column"
    if len(lines) < ROWS:
        return "short"
    rows = [line.split(",") for line in lines]
    bad = [row for row in rows if row[1] != "ok" or not row[2][:1].isdigit()]
    return f"{bad[0][1]} {bad[0][2]}" if bad else "measured"


def test_each_kind_of_end_is_there_once() -> None:
    kinds = Counter(map(classify, STEPS))
    assert kinds.pop("measured") >= 20
    assert kinds == dict.fromkeys(
        ("no file", "no column", "short", "ok nan", "ok failed to converge", "error "),
        1,
    )
    assert sum(step.is_stuck for step in STEPS) == 1
    assert sum(step.is_broken for step in STEPS) == 1
    assert sum(step.written is None for step in STEPS) == 1
    assert [step.seconds > 0 for step in STEPS].count(True) == 1
    assert STEPS[0].seconds > 0  # opened first, and so it ends behind others


def test_two_of_the_first_depth_tie_for_the_last_place_in_the_beam() -> None:
    measured = [step for step in STEPS[:7] if classify(step) == "measured"]
    means = sorted((mean(step.results or "") for step in measured), reverse=True)
    assert means[0] > means[1] == means[2] > 0.75 > means[3]


def mean(results: str) -> float:
    cells = [float(line.split(",")[2]) for line in results.splitlines()[1:]]
    return round(sum(cells) / len(cells), 9)


def test_ideas_differ_but_for_one_that_repeats_another_in_other_blanks() -> None:
    texts = [step.idea for step in STEPS]
    assert len(set(texts)) == len(texts)
    plain = Counter(" ".join(text.replace("*", "-").split()) for text in texts)
    assert sorted(plain.values())[-2:] == [1, 2]


def test_it_goes_on_beyond_its_table() -> None:
    steps = list_steps(5, 3, 9)
    assert [step.file_name for step in steps][-1] == "idea-09.md"
    assert mean(steps[0].results or "") > mean(list_steps(3, 1)[0].results or "")
    assert mean(format_results(75)) == 0.75
