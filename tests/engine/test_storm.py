"""The storm breaker, seen through whole runs on fakes."""

from __future__ import annotations

from typing import Any

import pytest

from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.rules import Monitoring, Storm
from tests.engine.bench import Bench
from tests.engine.parts import CRASH, again, on_end
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript

LATE = RunScript(seconds=60.0, exit_code=1)
OK = RunScript(seconds=2.0)


def bench(
    *scripts: RunScript,
    stages: str = "t" * 15,
    slots: int = 1,
    restarts: bool = False,
    has_nodes: bool = False,
    **storm: Any,
) -> Bench:
    """Job after job, the n-th with the n-th script and in the n-th stage, with a storm
    at three failures within 20 s."""
    given = Storm(**{"failures": 3, "quick_seconds": 20.0, **storm})
    rules = Monitoring(
        storm=given, state_events=(on_end("crash", again()),) if restarts else ()
    )
    names = [f"j{n}" for n in range(len(scripts))]
    jobs = (job(name, n, stage=stages[n]) for n, name in enumerate(names))
    by_name = {name: [[one]] * 9 for name, one in zip(names, scripts, strict=True)}
    return Bench(
        plan(*jobs, monitoring=rules), by_name, slots=slots, has_nodes=has_nodes
    )


def begun_after(one: Bench, seconds: float = 60.0) -> int:
    one.run(seconds)
    return len(one.executor.begun)


def blamed(one: Bench) -> str | None:
    """What submission is paused for; None: it is not paused."""
    paused = one.engine.state.paused
    assert paused is None or paused.code == "storm"
    return str(paused.arg("what")) if paused else None


def test_quick_failures_in_a_row_pause_submission_in_the_same_commit() -> None:
    one = bench(*[CRASH] * 6)
    assert begun_after(one) == 3
    assert blamed(one) == "in stage t"
    records = one.world.session.records
    kinds = [type(record.event) for record in records]
    paused = kinds.index(events.SubmissionPaused)
    ended = max(n for n in range(paused) if kinds[n] is events.AttemptEnded)
    assert all(record.more for record in records[ended:paused])


def test_restarts_count_and_are_held_back() -> None:
    one = bench(CRASH, restarts=True, quick_seconds=60.0)
    assert begun_after(one) == 3
    paused = one.engine.state.paused
    assert paused is not None
    assert (one.state("j0"), one.why("j0").code) == ("RETRYING", "held_by_storm")
    assert one.why("j0").arg("at") == paused.arg("at") != ""


@pytest.mark.parametrize(
    ("then", "begun", "warned"),
    [([CRASH] * 6, 6, ["storm"]), ([OK, OK], 5, [])],
)
def test_resume_releases_clears_the_warning_and_the_count_starts_anew(
    then: list[RunScript], begun: int, warned: list[str]
) -> None:
    one = bench(CRASH, CRASH, CRASH, *then)
    assert begun_after(one, 30) == 3
    one.order(commands.Resume())
    assert begun_after(one, 30) == begun
    assert list(one.engine.state.warnings) == warned


def on(*nodes: int) -> list[RunScript]:
    """Crashes on these nodes."""
    return [RunScript(seconds=2.0, exit_code=1, node=f"n{node}") for node in nodes]


LEAVES_OUT: dict[str, Any] = {"action": "exclude_node", "has_nodes": True}


def test_a_bad_node_is_left_out_instead_of_a_pause_where_asked() -> None:
    one = bench(*on(7, 7, 7), OK, OK, **LEAVES_OUT)
    one.run(60)
    assert (blamed(one), one.engine.state.excluded_nodes) == (None, ("n7",))
    assert one.executor.copies[-1].task.resources.options["exclude"] == "n7"
    assert "storm:n7" in one.engine.state.warnings
    one = bench(*on(*[7] * 9), slots=0, **LEAVES_OUT)  # what was queued there before
    one.run(60)
    assert (blamed(one), one.engine.state.excluded_nodes) == (None, ("n7",))


FOUR_NODES = on(*(n // 3 for n in range(15)))
BY_STAGE: dict[str, Any] = {"per": ("stage",), "stages": "ababab"}


@pytest.mark.parametrize(
    ("scripts", "how", "begun", "what", "left_out"),
    [
        ([CRASH, CRASH, OK, CRASH, CRASH, OK], {}, 6, None, 0),
        ([CRASH, CRASH, LATE, CRASH, CRASH, OK], {}, 6, None, 0),
        ([CRASH] * 6, BY_STAGE, 5, "in stage a", 0),
        ([CRASH] * 5, {"stages": "abcde"}, 3, "", 0),
        (on(0, 1, 2, 3, 4), LEAVES_OUT, 3, "in stage t", 0),
        (FOUR_NODES, LEAVES_OUT, 12, "on node n3", 3),
    ],
)
def test_a_row_is_counted_by_stage_or_in_all_until_it_breaks_and_may_blame_nodes(
    scripts: list[RunScript],
    how: dict[str, Any],
    begun: int,
    what: str | None,
    left_out: int,
) -> None:
    one = bench(*scripts, **how)
    assert begun_after(one, 120) == begun
    assert blamed(one) == what
    assert one.engine.state.excluded_nodes == ("n0", "n1", "n2")[:left_out]
    assert left_out or one.warned() == ["storm"] * (what is not None)
