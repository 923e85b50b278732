"""What research costs: how soon freed slots are refilled while an agent is called, a
context of many runs, a look of the policy at many runs, and plans of items.

Run `python -m tests.bench.bench_research [PAIRS]`; prints figures, asserts nothing.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.measures import measure_cpu
from tests.e2e.campaign import wait_until
from tests.e2e.research_place import Place
from tests.engine.bench import decide
from tests.research.fake_laboratory import FakeLaboratory, answer
from tests.research.fixtures import make_long_view
from tests.research.test_decide import answer_in_turn, begin, find, items, runs

from autoexp_tui.cli.diagnostics import freeze_garbage
from autoexp_tui.config.planning import ChildPlanner, PlanningRequest, run_planning
from autoexp_tui.consultation.item_plans import plan_items
from autoexp_tui.model.decision_context import SchedulingPolicy
from autoexp_tui.research.commands import EndCall, EndResearch
from autoexp_tui.research.context import render_context
from autoexp_tui.research.decide import ResearchPolicy
from autoexp_tui.research.ports import PlanRequest
from autoexp_tui.research.state import Item

REFILLS, SLOTS = 200, 3
AGENT = """
import json, time
from pathlib import Path

def answer(role, prompt, directory):
    if directory.name != "1":
        time.sleep(600)
    listed = [{"id": f"r{at}"} for at in range(COUNT)]
    Path("_research_output.json").write_text(json.dumps({"experiment_list": listed}))
"""
SLEEP = "date +%s.%N >> begun; sleep 0.3; date +%s.%N >> ended"
"""What a run does: it notes when it began and when it ended."""


def measure_refills(*, hangs: bool) -> tuple[Sequence[float], float]:
    """Seconds from the end of each run to the begin of the next one in its slot, and
    from the first begin to the last end, while the agent is called for all that time,
    or never."""
    count = REFILLS + SLOTS
    interval = 1 if hangs else 100_000
    with tempfile.TemporaryDirectory() as name:
        words = (
            f"backend.command=[sh,-c,'cd {name}; {SLEEP}']",
            f"research.min_interval_seconds={interval}",
            f"++research.max_items={count}",
        )
        place = Place(Path(name), words)
        place.make(AGENT.replace("COUNT", str(count)))
        run = place.start()

        def is_over() -> bool:
            assert run.poll() is None, place.read_errors()
            ended = place.root / "ended"
            return ended.exists() and len(ended.read_text().split()) == count

        wait_until(is_over, "the end of all runs", 600)
        calls = place.find().consultations
        assert [*calls] == ["c1", "c2"] if hangs else ["c1"], calls
        if hangs:
            place.order(EndCall(consultation="c2"))
        place.order(EndResearch())
        assert run.wait(60) == 0
        begun, ended = (
            sorted(map(float, (place.root / name).read_text().split()))
            for name in ("begun", "ended")
        )
    pairs = zip(ended, begun[SLOTS:], strict=False)
    return sorted(after - before for before, after in pairs), ended[-1] - begun[0]


def compare_refills(pairs: int) -> None:
    refills, wholes = list[float](), list[float]()
    for at in range(pairs):
        order = (True, False) if at % 2 else (False, True)
        found = {hangs: measure_refills(hangs=hangs) for hangs in order}
        (hanging, whole), (alone, least) = found[True], found[False]
        refills.append(median(hanging) / median(alone))
        wholes.append(whole / least)
        print(
            f"refill  {REFILLS} of {SLOTS} slots with a call: {_show(hanging)}, ",
            end="",
        )
        print(f"{whole:.1f} s in all; without: {_show(alone)}, {least:.1f} s; ", end="")
        print(f"{refills[-1]:.2f}x, {wholes[-1]:.2f}x; {_show_load()}", flush=True)
    if pairs:
        told = f"{median(refills):.3f}x, in all {median(wholes):.3f}x"
        print(f"refill  median of {pairs} pairs: {told}")


def _show(seconds: Sequence[float]) -> str:
    p99 = seconds[int(0.99 * len(seconds))]
    return f"p50 {median(seconds):.2f} s, p99 {p99:.2f} s"


def _show_load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"


def repeat(work: Callable[[], object], times: int = 20) -> float:
    """Median CPU in ms."""
    gc.collect()
    return median(measure_cpu(work) for _ in range(times)) * 1e3


def measure_context(count: int) -> None:
    view, live = make_long_view(count)
    render = partial(render_context, view, live, view.research.consultations["c3"])
    size, most = len(render().encode()), view.research.options.context_bytes
    told = f"{size} bytes of at most {most}, {repeat(render):.1f} ms CPU"
    print(f"context of {count} runs: {told}; {_show_load()}")


def measure_policy(ended: int, listed: int = 100, live: int = 8) -> None:
    """A look of the policy where nothing is to be done."""
    short, long, rest = (
        [f"{kind}{at}" for at in range(count)]
        for kind, count in (("s", ended), ("l", live), ("w", listed))
    )
    laboratory = FakeLaboratory(answer_in_turn(answer(*items(*short, *long, *rest))))
    scripts: dict[str, Any] = {f"{name}_run": runs(1e6) for name in long}
    total = ended + listed + live
    more: dict[str, Any] = {"max_items": total, "min_interval_seconds": 1e6}
    bench = begin(laboratory, scripts, slots=live, **more)
    for _ in range(total):
        if len(find(bench).runs) == ended + live and len(find(bench).live) == live:
            break
        bench.run(5)
        bench.snapshots.clear()
        laboratory.views.clear()
    research = find(bench)
    shape = (len(research.runs) - len(research.live), len(research.items))
    assert shape == (ended, listed), shape
    state = bench.engine.state
    contexts = [decide(state.fork(), t=state.lived) for _ in range(20)]
    spent = []
    for context in contexts:
        context.policy = SchedulingPolicy(slots=live)
        spent.append(measure_cpu(partial(ResearchPolicy().decide, context)) * 1e3)
    told = f"{median(spent):.2f} ms CPU"
    shown = f"{ended} ended runs, {listed} listed, {live} live"
    print(f"policy  {shown}: {told}; {_show_load()}", flush=True)


def measure_plans(*counts: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name))
        place.make()
        asked = PlanningRequest(config_ref="exp", cwd=str(place.top), state_dir="s")
        plan = run_planning(asked).plan
        assert plan is not None
        planner = ChildPlanner(state_dir=str(place.top / "s"))
        for count in counts:
            wanted = tuple(
                Item(id=f"i{at}", overrides=(f"lr={at}",)) for at in range(count)
            )
            request = PlanRequest(items=wanted)
            spent = []
            for _ in range(3):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                directory = place.top / "s/s1/research"
                found = plan_items(planner, plan, request, directory, time.time())
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                assert len(found.items) == count, found.problems
                used = after.ru_utime + after.ru_stime
                spent.append(used - before.ru_utime - before.ru_stime)
            print(f"plan  {count} items: {min(spent):.2f} s CPU; {_show_load()}")


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    freeze_garbage()  # as commands do
    for count in (100, 1000):
        measure_context(count)
    for ended in (0, 1000):
        measure_policy(ended)
    measure_plans(1, 10)
    compare_refills(pairs)


if __name__ == "__main__":
    main()
