"""The two rankings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.demo.conftest import Outcome, Run

    Report = Callable[[list[Any]], tuple[Outcome, Any]]


def result(
    before: float | None, after: float | None, lr: float = 0.001, **other: Any
) -> dict[str, Any]:
    """What an evaluation with a baseline writes."""
    return {
        "name": f"lr={lr:g}",
        "lr": lr,
        "iteration": 100,
        "tokens": 6400,
        "heldout_loss": after,
        "corpus": "abc",
        "baseline": {"heldout_loss": before},
        **other,
    }


@pytest.fixture
def report(demo: Run, tmp_path: Path) -> Report:
    """Write results, report on them, and give back the outcome and the record."""

    def run(results: list[Any]) -> tuple[Outcome, Any]:
        paths = [tmp_path / f"{index}.json" for index in range(len(results))]
        for path, content in zip(paths, results, strict=True):
            path.write_text(json.dumps(content))
        output = tmp_path / "report.json"
        outcome = demo("report", "--results", *paths, "--output", output)
        return outcome, json.loads(output.read_text()) if output.exists() else None

    return run


CROSSED = [result(1.6, 1.5, lr=0.001), result(1.7, 1.4, lr=0.005)]


def test_runs_are_ranked_before_and_after_cooldown(report: Report) -> None:
    outcome, record = report(CROSSED)
    assert [entry["lr"] for entry in record["before"]] == [0.001, 0.005]
    assert [entry["lr"] for entry in record["after"]] == [0.005, 0.001]
    gains = {entry["lr"]: entry["gain"] for entry in record["after"]}
    assert gains == pytest.approx({0.001: 0.1, 0.005: 0.3})
    assert record["winner_changed"] is True
    assert outcome.lines("No: the winner changed. Best before cooldown: lr 0.001")


def test_a_winner_that_stays_is_said(report: Report) -> None:
    outcome, record = report([result(1.6, 1.5), result(1.7, 1.55, lr=0.005)])
    assert record["winner_changed"] is False
    assert outcome.lines("Yes: the same wins.")


def test_the_printed_report_is_also_the_markdown_file(
    report: Report, tmp_path: Path
) -> None:
    outcome = report(CROSSED)[0]
    assert (tmp_path / "report.md").read_text() == outcome.out
    assert "| 1    | 0.001     | 1.6000 | 0.005    | 1.4000 |" in outcome.out


def test_a_diverged_run_is_last_and_has_no_gain(report: Report) -> None:
    outcome, record = report([result(None, None, lr=0.3), result(1.6, 1.5)])
    assert record["after"][-1] == {
        "name": "lr=0.3",
        "lr": 0.3,
        "heldout_loss": None,
        "gain": None,
    }
    assert outcome.lines("| lr=0.3   | 0.3   | inf    | inf         | nan    |")


def test_a_name_stays_in_its_cell(report: Report) -> None:
    outcome = report([result(1.6, 1.5, name="a|b\nc")])[0]
    assert outcome.lines(r"| a\|b c | 0.001 |")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (result(1.6, 1.5, tokens=1), "not at equal tokens"),
        (result(1.6, 1.5, corpus="def"), "different texts"),
        (result(1.6, 1.5, baseline=None), "is not the result of an evaluation"),
        ({}, "is not the result of an evaluation"),
        ([], "is not the result of an evaluation"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(
    report: Report, content: Any, message: str
) -> None:
    outcome, record = report([result(1.6, 1.5), content])
    assert outcome.status == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
    assert record is None
