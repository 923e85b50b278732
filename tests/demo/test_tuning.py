"""The agents of the research example: what they read, and what they decide by rule."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.research.fixtures import LIVE, NOW, make_view

from autoexp_tui.demo.tuning import rules
from autoexp_tui.demo.tuning.agent import OUTPUT, answer, repair
from autoexp_tui.demo.tuning.context import Context, Run, read_context
from autoexp_tui.model.states import why
from autoexp_tui.research.context import render_context
from autoexp_tui.research.state import Note, Warned

LOSSES = {
    "rate6e-4": 2.13, "rate3e-3": 1.973, "rate1.5e-2": 2.345, "rate1.3e-3": 2.0,
    "rate6.7e-3": 2.03, "batch256": 2.02, "batch512": 2.08, "batch1024": 2.18,
    "width384": 1.95, "width512": 1.93, "repeat": 1.92, "patience": 1.98,
}  # fmt: skip
CURVE = {500: 2.335, 1000: 2.125, 1500: 2.05, 2000: 2.01, 2500: 1.973}


@dataclass
class Campaign:
    """Runs of known results, two at a time."""

    losses: Mapping[str, float]
    runs: dict[str, Run] = field(default_factory=dict)
    items: dict[str, rules.Item] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)
    killed: list[str] = field(default_factory=list)

    def consult(self) -> None:
        context = Context(
            metric="eval_loss",
            runs=self.runs,
            listed=[*self.items],
            failures=self.failures,
            falsified=[name for name, count in self.failures.items() if count >= 3],
            curves={"rate3e-3": CURVE},
        )
        made = rules.decide(context)
        self.items = {
            one["id"]: self.items.get(one["id"], one) for one in made["experiment_list"]
        }
        self.statuses = {one["id"]: one["status"] for one in made["hypotheses"]}
        for name in made["kill_runs"]:
            self.end(name, "killed", is_met=False)
            self.killed.append(name)

    def end(self, name: str, status: str, *, is_met: bool | None) -> None:
        result = self.losses[name] if status == "completed" else None
        run = self.runs[name]
        self.runs[name] = replace(run, status=status, result=result, is_met=is_met)
        if is_met is not None:
            count = self.failures.get(run.hypothesis, 0)
            self.failures[run.hypothesis] = 0 if is_met else count + 1

    def list_running(self) -> list[str]:
        return [name for name, run in self.runs.items() if run.status == "running"]

    def start(self) -> None:
        for name, item in [*self.items.items()]:
            ended = self.runs.keys() - self.list_running()
            if (
                len(self.list_running()) < 2
                and set(item.get("depends_on", ())) <= ended
            ):
                del self.items[name]
                given = dict(one.split("=") for one in item["overrides"])
                self.runs[name] = Run(
                    id=name,
                    status="running",
                    result=3.0 if name == "patience" else 2.0,
                    step=2500,
                    hypothesis=item["hypothesis"],
                    overrides=given,
                )

    def play(self) -> None:
        """To its end: the oldest run ends, the agent is asked, what fits begins."""
        for _ in range(40):
            self.consult()
            self.start()
            if not self.list_running():
                return
            name, *_ = self.list_running()
            is_met = self.losses[name] < self.losses["rate3e-3"]
            self.end(name, "completed", is_met=is_met)
        raise AssertionError("it does not come to an end")


def test_the_campaign_of_the_example_tries_what_its_results_call_for() -> None:
    campaign = Campaign(LOSSES)
    campaign.play()
    assert set(campaign.runs) == set(LOSSES)
    assert campaign.killed == ["patience"]
    assert campaign.statuses == {
        "rate": "rejected",
        "patience": "rejected",
        "batch": "rejected",
        "width": "confirmed",
        "repeat": "confirmed",
    }
    repeat = campaign.runs["repeat"].overrides
    assert repeat == {"lr": "3e-3", "hidden": "512", "seed": "1"}


def test_with_other_results_it_goes_elsewhere() -> None:
    better = {"rate1.5e-2": 1.9, "rate7.5e-2": 2.5, "rate6.7e-3": 1.8, "batch256": 1.7}
    more = {"batch512": 1.6, "batch1024": 1.65, "batch2048": 2.5, "batch4096": 3}
    more |= {"rate3.4e-2": 2.4, "width384": 2.5, "rate4.5e-3": 1.9}
    campaign = Campaign(LOSSES | better | more)
    campaign.play()
    assert {"rate7.5e-2", "rate3.4e-2", "batch4096"} <= campaign.runs.keys()
    assert "width512" not in campaign.runs, "a wider one was worse"
    assert campaign.runs["repeat"].overrides["batch_size"] == "512"


@pytest.mark.parametrize(
    ("known", "wanted"),
    [
        ({6e-4: 2.1, 3e-3: 1.9}, ["1.5e-2"]),
        ({6e-4: 1.9, 3e-3: 2.1}, ["1.2e-4"]),
        ({6e-4: 2.1, 3e-3: 1.9, 1.5e-2: float("inf")}, ["1.3e-3", "6.7e-3"]),
        ({1.3e-3: 2.0, 3e-3: 1.9, 1.5e-2: 2.5}, ["6.7e-3"]),
        ({1.3e-3: 2.0, 3e-3: 1.9, 6.7e-3: 2.5}, []),
    ],
)
def test_rates_are_bracketed_around_the_best(
    known: Mapping[float, float], wanted: list[str]
) -> None:
    assert [rules.spell(rate) for rate in rules.choose_rates(known)] == wanted


@pytest.mark.parametrize(
    ("changes", "is_killed"),
    [
        ({}, True),
        ({"result": 2.25}, False),
        ({"step": 500}, False),
        ({"overrides": {"batch_size": "32"}}, False),
        ({"result": None}, False),
        ({"status": "completed"}, False),
    ],
)
def test_a_run_that_is_clearly_behind_at_the_same_step_is_ended(
    changes: Mapping[str, Any], is_killed: bool
) -> None:
    late = Run(id="late", status="running", result=2.4, step=1200)
    base = [
        Run(
            id=name,
            status="completed",
            result=LOSSES[name],
            step=2500,
            overrides={"lr": name[4:]},
        )
        for name in ("rate6e-4", "rate3e-3")
    ]
    runs = {run.id: run for run in (*base, replace(late, **changes))}
    context = Context(metric="loss", runs=runs, curves={"rate3e-3": CURVE})
    assert rules.decide(context)["kill_runs"] == (["late"] if is_killed else [])
    once = rules.decide(replace(context, asked=["late"]))
    assert once["kill_runs"] == [], "a person was asked"
    assert once["reflection"].endswith("asked to end: late"), "it is remembered"
    unread = replace(context, curves={})
    assert rules.decide(unread)["kill_runs"] == [], "curves cannot be read"


@pytest.mark.parametrize(
    ("changes", "kept", "killed"),
    [
        ({}, ["rate3e-3"], []),
        ({"dropped": ["rate"]}, [], ["rate6e-4"]),
        ({"left_percent": 24}, [], []),
    ],
)
def test_a_study_ends_where_a_person_drops_it_or_a_budget_is_short(
    changes: Mapping[str, Any], kept: list[str], killed: list[str]
) -> None:
    runs = {"rate6e-4": Run(id="rate6e-4", status="running")}
    context = Context(metric="loss", runs=runs, listed=["rate3e-3"])
    made = rules.decide(replace(context, **changes))
    assert [one["id"] for one in made["experiment_list"]] == kept
    assert made["kill_runs"] == killed


def test_the_context_is_read_as_it_is_written(tmp_path: Path) -> None:
    state = {"runs": [{"run_id": "r1", "metrics_history": [{"step": 5, "loss": 2.5}]}]}
    (tmp_path / "experiment_state.json").write_text(json.dumps(state))
    notes = (Note("Please drop width: no time.", "ann", NOW),)
    reason = why("hypothesis_falsified", name="h1", what="A lower rate", failures=3)
    warnings = {"k": Warned(key="k", severity="high", why=reason)}
    told: dict[str, Any] = {
        "reflection": "Low rates win.\nasked to end: r9 r4",
        "notes": notes,
    }
    view = make_view(directory=str(tmp_path), warnings=warnings, **told)
    text = render_context(view, LIVE, view.research.consultations["c3"])
    assert read_context(text) == Context(
        metric="loss",
        runs={
            "r1": Run(id="r1", status="completed", result=2.31, step=5000,
                      hypothesis="h1", overrides={"lr": "0.01"}, is_met=True),
            "r2": Run(id="r2", status="failed", step=200, hypothesis="h1",
                      fixed_by="r3", overrides={"lr": "0.1", "batch_size": "64"}),
            "r3": Run(id="r3", status="completed", result=3.5, step=5000, is_met=False,
                      hypothesis="-", overrides={"lr": "0.1", "batch_size": "32"}),
            "r4": Run(id="r4", status="killed", hypothesis="h1", overrides={"lr": "1"}),
            "r5": Run(id="r5", status="running", result=2.34, step=1500,
                      hypothesis="h1", overrides={"lr": "0.003"}),
        },
        listed=["x1", "x2", "x3"],
        failures={"h1": 2, "h2": 0},
        falsified=["h1"],
        left_percent=70,
        dropped=["width"],
        asked=["r4", "r9"],
        curves={"r1": {5: 2.5}},
    )  # fmt: skip
    with pytest.raises(ValueError, match="no objective"):
        read_context("Say hello.")


TOO_LARGE = (
    "> MemoryError: tried to allocate {} MB for a pass over 1024 contexts, beside 2.00 "
    "MB for the model; the limit is 16 MB"
)


@pytest.mark.parametrize(
    ("prompt", "overrides"),
    [
        (TOO_LARGE.format(20.48), ["micro_batch=512"]),
        (TOO_LARGE.format(81.92), ["micro_batch=128"]),
        (TOO_LARGE.format(102400), []),
        ("> RuntimeError: asked to crash at iteration 26", []),
    ],
)
def test_too_little_memory_is_repaired_by_smaller_passes(
    prompt: str, overrides: list[str], tmp_path: Path
) -> None:
    assert repair(prompt)["overrides"] == overrides
    answer("fixer", prompt, tmp_path)
    assert json.loads((tmp_path / OUTPUT).read_text())["overrides"] == overrides
