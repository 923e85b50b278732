"""The agents of the research example: what they read, and what they decide by rule."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.research.fixtures import LIVE, NOW, make_view

from autoexp_tui.demo.tuning import agent as rules
from autoexp_tui.demo.tuning.agent import OUTPUT, answer, read_state, repair
from autoexp_tui.model.states import why
from autoexp_tui.research.context import render_context
from autoexp_tui.research.state import Note, Warned
from autoexp_tui.research.state_file import build_state

LOSSES = {
    "rate6e-4": 2.13, "rate3e-3": 1.973, "rate1.5e-2": 2.345, "rate1.3e-3": 2.0,
    "rate6.7e-3": 2.03, "batch256": 2.02, "batch512": 2.08, "batch1024": 2.18,
    "width384": 1.95, "width512": 1.93, "repeat": 1.92, "patience": 1.98,
}  # fmt: skip


def make_run(name: str, status: str = "running", **more: Any) -> dict[str, Any]:
    """A run as experiment_state.json has it."""
    empty = {"result": None, "step": None, "met": None, "fix_relaunch": ""}
    return {
        "run_id": name,
        "status": status,
        "overrides": [],
        "live_metrics": {},
        **empty,
        **more,
    }


def make_state(*runs: Any, listed: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("warnings", "hypotheses", "consultations", "notes"), ())
    return {
        **nothing,
        "objective": {"metric": "loss"},
        "runs": runs,
        "experiment_list": [{"id": name} for name in listed],
        "budget": {"fraction_remaining": None},
        **more,
    }


@dataclass
class Campaign:
    """Runs of known results, two at a time."""

    losses: Mapping[str, float]
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    items: dict[str, rules.Item] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)
    killed: list[str] = field(default_factory=list)

    def consult(self) -> None:
        warned = [name for name, count in self.failures.items() if count >= 3]
        warnings = [{"key": f"hypothesis:{name}:x"} for name in warned]
        state = make_state(*self.runs.values(), listed=[*self.items], warnings=warnings)
        made = rules.decide(state)
        self.items = {
            one["id"]: self.items.get(one["id"], one) for one in made["experiment_list"]
        }
        self.statuses = {one["id"]: one["status"] for one in made["hypotheses"]}
        for name in made["kill_runs"]:
            self.end(name, "killed", is_met=False)
            self.killed.append(name)

    def end(self, name: str, status: str, *, is_met: bool | None) -> None:
        run, result = self.runs[name], self.losses[name]
        run |= {"status": status, "met": is_met, "step": 2500}
        run["result"] = result if status == "completed" else None
        if is_met is not None:
            count = self.failures.get(run["hypothesis"], 0)
            self.failures[run["hypothesis"]] = 0 if is_met else count + 1

    def list_running(self) -> list[str]:
        return [name for name, run in self.runs.items() if run["status"] == "running"]

    def start(self) -> None:
        for name, item in [*self.items.items()]:
            ended = self.runs.keys() - self.list_running()
            if (
                len(self.list_running()) < 2
                and set(item.get("depends_on", ())) <= ended
            ):
                del self.items[name]
                loss = 3.0 if name == "patience" else 2.0
                self.runs[name] = make_run(
                    name,
                    live_metrics={"loss": loss, "step": 2501},
                    hypothesis=item["hypothesis"],
                    overrides=item["overrides"],
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
    assert campaign.runs["repeat"]["overrides"] == ["lr=3e-3", "hidden=512", "seed=1"]


def test_with_other_results_it_goes_elsewhere() -> None:
    better = {"rate1.5e-2": 1.9, "rate7.5e-2": 2.5, "rate6.7e-3": 1.8, "batch256": 1.7}
    more = {"batch512": 1.6, "batch1024": 1.65, "batch2048": 2.5, "batch4096": 3}
    more |= {"rate3.4e-2": 2.4, "width384": 2.5, "rate4.5e-3": 1.9}
    campaign = Campaign(LOSSES | better | more)
    campaign.play()
    assert {"rate7.5e-2", "rate3.4e-2", "batch4096"} <= campaign.runs.keys()
    assert "width512" not in campaign.runs, "a wider one was worse"
    assert "batch_size=512" in campaign.runs["repeat"]["overrides"]


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


BASE = [
    make_run(name, "completed", result=LOSSES[name], step=2500,
             overrides=[f"lr={name[4:]}"])
    for name in ("rate6e-4", "rate3e-3")
]  # fmt: skip
LATE = {"loss": 2.4, "step": 2501}


@pytest.mark.parametrize(
    ("changes", "is_killed"),
    [
        ({}, True),
        ({"live_metrics": {**LATE, "loss": 2.1}}, False),
        ({"live_metrics": {**LATE, "step": 2500}}, False),
        ({"live_metrics": {**LATE, "loss": "nan"}}, False),
        ({"live_metrics": {}}, False),
        ({"status": "completed"}, False),
    ],
)
def test_a_run_that_is_clearly_behind_after_as_many_steps_is_ended(
    changes: Mapping[str, Any], is_killed: bool
) -> None:
    late = make_run("late", **{"live_metrics": LATE, **changes})
    state = make_state(*BASE, late)
    assert rules.decide(state)["kill_runs"] == (["late"] if is_killed else [])
    asked = {"decided": (), "asked": ({"id": "late"},)}
    refused = {"decided": ({"refused": ("end late",)},), "asked": ()}
    for call in (asked, refused):
        once = rules.decide({**state, "consultations": [call]})
        assert once["kill_runs"] == [], "a person was asked"


@pytest.mark.parametrize(
    ("changes", "kept", "killed"),
    [
        ({}, ["rate3e-3"], []),
        ({"notes": [{"text": "Please drop rate."}]}, [], ["rate6e-4"]),
        ({"budget": {"fraction_remaining": 0.24}}, [], []),
    ],
)
def test_a_study_ends_where_a_person_drops_it_or_a_budget_is_short(
    changes: Mapping[str, Any], kept: list[str], killed: list[str]
) -> None:
    state = make_state(make_run("rate6e-4"), listed=["rate3e-3"], **changes)
    made = rules.decide(state)
    assert [one["id"] for one in made["experiment_list"]] == kept
    assert made["kill_runs"] == killed


def test_a_run_that_a_fix_repeats_is_what_that_came_to() -> None:
    first = make_run("batch256", "failed", fix_relaunch="batch256_fix1")
    again = make_run("batch256_fix1", "completed", result=1.5, met=True)
    assert rules.Known(make_state(first)).find_ended("batch256") is None
    assert rules.Known(make_state(first, again)).find_ended("batch256") == again


def test_the_state_file_that_a_prompt_names_has_what_the_rules_ask(
    tmp_path: Path,
) -> None:
    reason = why("hypothesis_falsified", name="h1", what="A lower rate", failures=3)
    warned = Warned(key="hypothesis:h1:r2", severity="high", why=reason)
    view = make_view(
        directory=str(tmp_path),
        warnings={warned.key: warned},
        notes=(Note("Please drop width: no time.", "ann", NOW),),
    )
    text = render_context(view, LIVE, view.research.consultations["c3"])
    state = json.dumps(build_state(view, LIVE), allow_nan=False)
    (tmp_path / "experiment_state.json").write_text(state)
    known = rules.Known(read_state(text))
    assert (known.metric, known.live, known.listed) == (
        "loss",
        ["r5"],
        ["x1", "x2", "x3"],
    )
    assert (known.falsified, known.dropped, known.is_short) == (
        ["h1"],
        ["width"],
        False,
    )
    assert known.asked == {"r4", "c1"}
    assert known.find_ended("r2") == known.runs["r3"]
    assert rules.get_result(known.runs["r1"]) == 2.31
    assert rules.read_override(known.runs["r1"], "lr") == "0.01"
    assert rules.decide(read_state(text))["experiment_list"]
    with pytest.raises(ValueError, match="names no experiment_state"):
        read_state("Say hello.")


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
