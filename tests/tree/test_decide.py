"""What a search does, over the real engine: the disk, git and the jobs are scripted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.policy import has_work_left
from autoexp_tui.model.states import ACTIVE, Cause, Why
from autoexp_tui.model.wording import sentence
from autoexp_tui.tree.commands import (
    EndEvaluation,
    GrantRetry,
    MarkEvaluation,
    ProposeIdea,
    RetryEvaluation,
)
from autoexp_tui.tree.decide import TreePolicy
from autoexp_tui.tree.effects import WorkInGit, WritePack, build_pack
from autoexp_tui.tree.events import CleanupDeferred, TreeBegun, ViewsWritten
from autoexp_tui.tree.ports import GitWork
from autoexp_tui.tree.state import Judgement, Leftover, Tree, tree_of
from autoexp_tui.tree.views import find_best, list_run, list_search, write_manifest
from tests.engine.bench import Bench
from tests.model.builders import plan
from tests.support.fake_script import RunScript
from tests.tree.fake_trees import FakeTrees

OPTIONS: dict[str, Any] = {
    "metrics": [{"name": "m"}],
    "gate": {"min_rows": 1},
    "beam_width": 2,
    "max_depth": 2,
    "ideas_per_node": 3,
    "max_parallel_evals": 2,
}


def propose(node: str) -> Sequence[str]:
    gain = 0.1 * (int(node[1:]) + 1)
    return [f"{gain} of {node}", f"{gain / 2} of {node}", "-0.5 worse"]


def search(
    trees: FakeTrees, scripts: Any = None, given: str = "", **options: Any
) -> Bench:
    made = replace(plan(), jobs=(), tree={**OPTIONS, **options})
    return Bench(
        made,
        scripts,
        submit=False,
        first=(TreeBegun(run="r"),),
        adapters={"tree": trees},
        approve=frozenset({given}),
    )


def find(bench: Bench) -> Tree:
    return tree_of(bench.engine.state)


def test_a_beam_goes_on_to_its_last_depth_and_says_why_it_ended() -> None:
    trees = FakeTrees(propose)
    bench = search(trees)
    bench.run(120)
    tree = find(bench)
    assert find_code(tree.stopped) == "max_depth_reached"
    assert [len(one.nodes) for one in tree.closed] == [2, 2]
    assert [*tree.evaluations] == [
        f"e{at}" for at in range(1, len(tree.evaluations) + 1)
    ]
    assert tree.nodes["n1"].evaluation == "e1"
    best = tree.find_best()
    assert best is not None
    assert best.depth == 2


def find_judgement(bench: Bench, name: str) -> Judgement:
    found = find(bench).evaluations[name].judgement
    assert found is not None
    return found


def find_code(reason: Why | None) -> str:
    assert reason is not None
    return reason.code


def find_names(bench: Bench) -> list[str]:
    return [*bench.engine.state.jobs]


def decide_all(bench: Bench, seconds: int = 400) -> str:
    """Run to the end; what was decided, as the manifest has it."""
    bench.run(1)
    for _ in range(seconds):
        if not (TreePolicy().is_open(find(bench)) or bench.engine.state.pending):
            break
        bench.run(1)
    tree = find(bench)
    assert not bench.world.faults, bench.world.faults
    return write_manifest(list_search(tree, tree.options), {})


@pytest.mark.parametrize("seed", range(6))
def test_what_is_decided_depends_neither_on_workers_nor_on_speed(seed: int) -> None:
    draw = random.Random(seed)
    names = [f"e{at}_{step}" for at in range(1, 16) for step in ("implement", "sweep")]
    names += [f"n{at}_ideas" for at in range(5)]
    slow = {name: [[RunScript(seconds=draw.uniform(0.5, 20))]] for name in names}
    alone = decide_all(search(FakeTrees(propose), max_parallel_evals=1))
    beside = search(FakeTrees(propose), slow, max_parallel_evals=4)
    assert decide_all(beside) == alone


@pytest.mark.parametrize("seed", range(20))
def test_an_engine_that_dies_at_any_step_loses_nothing_and_opens_nothing_twice(
    seed: int,
) -> None:
    draw = random.Random(seed)
    whole = decide_all(search(FakeTrees(propose)))
    trees = FakeTrees(propose)
    bench = search(trees)
    for _ in range(12):
        bench.single_steps(draw.randrange(1, 40))
        bench.die(draw.uniform(0.1, 30))
    assert decide_all(bench) == whole
    jobs = [name for name in find_names(bench) if name.endswith("sweep")]
    assert len(jobs) == len(find(bench).evaluations)
    assert all(len(bench.engine.state.jobs[name].attempts) == 1 for name in jobs)


def fails(seconds: float = 1.0) -> list[list[RunScript]]:
    return [[RunScript(seconds=seconds, exit_code=1)]]


def test_a_step_that_fails_is_a_result_and_pauses_nothing() -> None:
    scripts = {f"e{at}_implement": fails() for at in (1, 2)}
    bench = search(FakeTrees(propose), scripts)
    decide_all(bench)
    tree, state = find(bench), bench.engine.state
    assert find_code(tree.stopped) == "empty_frontier"
    codes = [find_code(find_judgement(bench, name).why) for name in ("e1", "e2")]
    assert codes == ["step_failed"] * 2
    assert state.paused is None
    assert state.jobs["e1_sweep"].state == "SKIPPED"


@pytest.mark.parametrize("cause", [Cause.NODE_FAIL, Cause.SIGNAL])
def test_a_lost_step_costs_an_attempt_and_not_the_evaluation(cause: Cause) -> None:
    lost = RunScript(seconds=1.0, cause=cause)
    again = [[lost], [RunScript(seconds=1.0)]]
    for tries, judged in ((again, "scored"), ([[lost], [lost]], "failed")):
        bench = search(FakeTrees(propose), {"e1_sweep": tries}, max_depth=1)
        decide_all(bench)
        assert find(bench).evaluations["e1"].retries == 1
        assert find_judgement(bench, "e1").outcome == judged


def test_a_lost_call_for_ideas_is_made_again() -> None:
    lost = RunScript(seconds=1.0, cause=Cause.NODE_FAIL)
    calls = {"n0_ideas": [[lost], [RunScript(seconds=1.0)]]}
    bench = search(FakeTrees(propose), calls, max_depth=1)
    decide_all(bench)
    assert len(bench.engine.state.jobs["n0_ideas"].attempts) == 2


@pytest.mark.parametrize(
    ("faults", "end"), [(3, "max_depth_reached"), (99, "tree_broken")]
)
def test_what_git_and_the_disk_refuse_is_tried_again_and_not_for_ever(
    faults: int, end: str
) -> None:
    left = [faults]

    class Refusing(FakeTrees):
        def work(self, work: GitWork) -> Sequence[Leftover]:
            left[0] -= 1
            if left[0] >= 0:
                raise EnvironmentFailed("no space left", "refs/tree/r/n1")
            return super().work(work)

    bench = search(Refusing(propose), max_depth=1)
    decide_all(bench)
    assert find_code(find(bench).stopped) == end
    assert len(bench.ordered(WorkInGit)) == 1
    assert 90 < left[0] < 96 or faults == 3


@pytest.mark.parametrize(("about", "job"), [("e1", "e1_implement"), ("n0", "n0_ideas")])
@pytest.mark.parametrize(
    ("code", "told", "seconds"),
    [
        ("agent_rate_limit", 900.0, 900),
        ("agent_rate_limit", None, 300),
        ("agent_unavailable", None, 300),
    ],
)
def test_a_service_that_is_away_pauses_what_needs_it_and_is_no_result(
    about: str, job: str, code: str, told: float | None, seconds: int
) -> None:
    begun = search(FakeTrees(propose)).clock.utc()
    trees = FakeTrees(propose)
    trees.faults[about] = [(code, told and begun + told)]
    bench = search(trees, {job: [*fails(), [RunScript(seconds=1.0)]]}, max_depth=1)
    bench.run(30)
    at = find(bench).resume_at - begun
    assert seconds <= at < seconds + 30
    assert "agents wait until" in TreePolicy().is_open(find(bench))
    opened = [*find(bench).evaluations]
    bench.die(5)
    bench.run(60)
    assert [*find(bench).evaluations] == opened
    plain = decide_all(search(FakeTrees(propose), max_depth=1))
    assert decide_all(bench, 2000) == plain
    assert len(bench.engine.state.jobs[job].attempts) == 2


@pytest.mark.parametrize(
    ("code", "outcome", "stopped"),
    [
        ("agent_unavailable", "failed", "max_depth_reached"),
        ("agent_auth_error", "failed", "agent_login"),
    ],
)
def test_a_service_that_stays_away_is_a_failure_and_a_refused_login_ends_the_search(
    code: str, outcome: str, stopped: str
) -> None:
    trees = FakeTrees(propose, faults={"e1": [(code, None)] * 3})
    bench = search(trees, {"e1_implement": fails() * 3}, max_depth=1)
    decide_all(bench, 2000)
    assert find_judgement(bench, "e1").outcome == outcome
    assert find_code(find(bench).stopped) == stopped


def test_an_evaluation_ends_when_its_steps_took_too_long_together() -> None:
    long = {"e1_implement": [[RunScript(seconds=6.0)]]}
    long["e1_sweep"] = [[RunScript(seconds=900.0)]]
    bench = search(FakeTrees(propose), long, max_depth=1, eval_timeout_seconds=10.0)
    decide_all(bench)
    assert find_code(find_judgement(bench, "e1").why) == "eval_timeout"
    assert bench.engine.state.jobs["e1_sweep"].state == "CANCELLED"


def test_the_number_of_evaluations_is_never_exceeded_and_the_depth_still_closes() -> (
    None
):
    bench = search(FakeTrees(propose), max_total_idea_evals=2, max_parallel_evals=4)
    decide_all(bench)
    tree = find(bench)
    assert [*tree.evaluations] == ["e1", "e2"]
    assert find_code(tree.stopped) == "max_total_idea_evals_reached"
    assert [one.nodes for one in tree.closed] == [("n1", "n2")]


def test_the_root_is_measured_before_anything_is_compared_with_it() -> None:
    trees = FakeTrees(propose, has_baseline=False)
    bench = search(trees, max_depth=1)
    decide_all(bench)
    tree = find(bench)
    assert next(iter(tree.evaluations)) == "e0"
    assert trees.calls.index("collect e0") < trees.calls.index("pack n0")
    baseline = tree.nodes["n0"].baseline
    assert baseline is not None
    assert baseline.path == "artifacts/e0.csv"
    pruned = bench.ordered(WorkInGit)[0]
    assert "e0" in pruned.rejected
    broken = search(trees, {"e0_sweep": fails()})
    decide_all(broken)
    assert find_code(find(broken).stopped) == "no_baseline"


@pytest.mark.parametrize("workers", [1, 4])
def test_a_gain_within_the_noise_of_the_baseline_is_indecisive(workers: int) -> None:
    trees = FakeTrees(propose, measured={"e0_1": 0.98, "e0_2": 1.0, "e0_3": 1.02})
    noise = {"repeats": 3, "k": 3.0}
    bench = search(trees, max_depth=1, noise=noise, max_parallel_evals=workers)
    decide_all(bench)
    tree = find(bench)
    assert [*tree.evaluations][:4] == ["e0_1", "e0_2", "e0_3", "e1"]
    assert trees.calls.index("collect e0_3") < trees.calls.index("pack n0")
    gates = [find_judgement(bench, name).gate for name in ("e1", "e2")]
    assert [one.why.code for one in gates if one] == ["gate_passed", "indecisive"]
    told = list_search(tree, tree.options)["root"]["noise"]
    assert told["repeats"] == [0.98, 1.0, 1.02]
    assert told["standard_error"] == pytest.approx(0.02 * (4 / 3) ** 0.5)


def test_calls_of_agents_at_a_time_are_bounded_and_sweeps_go_on_beside_them() -> None:
    slow = {f"e{at}_sweep": [[RunScript(seconds=40.0)]] for at in (1, 2, 3)}
    lost = RunScript(seconds=1.0, cause=Cause.NODE_FAIL)
    slow["e1_implement"] = [[lost], [RunScript(seconds=4.0)]]
    options: dict[str, Any] = {"max_depth": 1, "max_parallel_evals": 3}
    bench = search(FakeTrees(propose), slow, llm_max_inflight=1, **options)
    most = {"implement": 0, "sweep": 0}
    for _ in range(60):
        bench.run(1)
        for stage in most:
            live = [
                job
                for job in bench.engine.state.jobs.values()
                if job.spec.stage == stage and job.state in ACTIVE
            ]
            most[stage] = max(most[stage], len(live))
    assert most == {"implement": 1, "sweep": 3}
    plain = decide_all(search(FakeTrees(propose), max_depth=1))
    assert decide_all(bench) == plain


@pytest.mark.parametrize(
    ("times", "waits"), [(1, [1]), (3, [1, 2, 4]), (9, [1, 2, 4, 8])]
)
def test_what_cannot_be_removed_is_tried_ever_later_then_named(
    times: int, waits: list[int]
) -> None:
    trees = FakeTrees(propose, stuck={"e3": times})
    bench = search(trees, max_depth=1)
    decide_all(bench)
    tries = [
        r.t for r in bench.world.session.records if type(r.event) is CleanupDeferred
    ]
    gaps = [after - before for before, after in pairwise(tries)]
    assert gaps == pytest.approx(waits, abs=0.6)
    last = {type(one.event): one.t for one in bench.world.session.records}
    assert last[ViewsWritten] - last[CleanupDeferred] < 5
    left = list_run(trees.views[-1])["deferred_cleanup"]
    assert left == [] if times < 5 else [
        {"path": "e3", "kind": "worktree", "reason": "it is busy",
         "attempts": 5, "next_retry_at": None}
    ]  # fmt: skip


def test_the_files_follow_the_search_from_its_opening_to_its_last_cleanup() -> None:
    trees = FakeTrees(propose)
    slow = {"e1_sweep": [[RunScript(seconds=50)]]}
    bench = search(trees, slow, max_parallel_evals=1)
    bench.run(2)
    assert [*trees.views[0].nodes] == ["n0"]
    bench.run(40)
    assert trees.views[-1].open == ("e1",)
    written = len(trees.views)
    bench.run(10)
    assert len(trees.views) == written
    bench.die(1)
    decide_all(bench)
    last = trees.views[-1]
    assert list_search(last, last.options) == list_search(
        find(bench), find(bench).options
    )
    assert all(one["is_ready"] for one in list_run(last)["nodes"].values())


def test_a_node_keeps_what_was_told_to_whoever_wrote_its_ideas() -> None:
    bench = search(FakeTrees(propose))
    decide_all(bench)
    tree = find(bench)
    nodes = list_search(tree, tree.options)["nodes"]
    assert nodes["n1"]["context"] == {
        "path": "calls/n1_ideas/prompt_context.txt",
        "sha256": "sha of n1",
        "ideas_dirs": ["node_ideas/n0", "node_ideas/n1"],
        "ideas": [{"path": "node_ideas/n0/0.md", "sha256": "sha"}],
    }
    assert [nodes[name]["status"] for name in ("n0", "n2", "n4")] == [
        "expanded", "expanded", "frontier",
    ]  # fmt: skip


def test_a_node_below_the_root_that_a_person_promotes_is_not_the_best() -> None:
    slow = {"e1_sweep": [[RunScript(seconds=20)]]}
    bench = search(FakeTrees(lambda _: ["-0.1 worse"]), slow, max_depth=1)
    bench.run(15)
    bench.order(MarkEvaluation(evaluation="e1", choice="promote", reason="seen"))
    decide_all(bench)
    tree = find(bench)
    best = tree.find_best()
    assert best is not None
    assert (len(tree.nodes), best.id) == (2, "n0")
    assert find_best(list_search(tree, tree.options)) == "n0"


def test_an_idea_that_was_tried_is_skipped_and_said_so() -> None:
    def repeat(node: str) -> Sequence[str]:
        return ["0.1 better", "0.1 better", f"0.2 {node}"]

    bench = search(FakeTrees(repeat))
    decide_all(bench)
    skipped = [(one.idea.id, one.same_as) for one in find(bench).skipped]
    assert skipped[0] == ("n0/1.md", "n0/0.md")
    assert ("n1/0.md", "n0/0.md") in skipped


@pytest.mark.parametrize(("number", "faults", "stopped", "code"), [
    (5, {}, "max_depth_reached", 0),
    (2, {}, "ideas_used_up", 0),
    (0, {"n0": [("no_ideas", None)]}, "no_ideas", 1),
])  # fmt: skip
def test_each_node_gets_the_next_ideas_of_a_directory_and_their_end_is_told(
    number: int, faults: Any, stopped: str, code: int
) -> None:
    ideas = [f"0.{at} more" for at in range(number)]
    trees = FakeTrees(lambda _: ideas, faults=faults)
    bench = search(trees, ideas_per_node=2, beam_width=1)
    decide_all(bench)
    tree = find(bench)
    tried = [one.idea.title for one in tree.evaluations.values() if one.idea]
    assert tried == ideas[:4]
    assert [one.idea.title for one in tree.skipped] == ideas[:2]
    end = TreePolicy().find_exit(tree)
    assert (find_code(tree.stopped), end and end.code) == (stopped, code)


def test_a_repository_that_is_not_as_it_has_to_be_ends_the_search() -> None:
    bench = search(FakeTrees(propose, refuses="there are changes"))
    bench.run(2)
    reason = find(bench).stopped
    assert reason is not None
    assert reason.code == "tree_broken"
    assert "there are changes" in sentence(reason, 0.0)
    assert not has_work_left(bench.engine.state)  # another start begins anew


@pytest.mark.parametrize("choice", ["promote", "reject"])
def test_a_mark_of_a_person_wins_and_survives_a_kill(choice: Any) -> None:
    slow = {"e3_sweep": [[RunScript(seconds=20)]]}
    bench = search(FakeTrees(propose), slow, max_depth=1, beam_width=1)
    bench.run(15)
    name = "e2" if choice == "promote" else "e1"
    bench.order(MarkEvaluation(evaluation=name, choice=choice, reason="seen"))
    bench.run(1)
    bench.die(5)
    decide_all(bench)
    (node, *_) = find(bench).closed[0].list_promoted()
    assert node == ("e2", "n1")
    ranked = {f"e{one.eval_id}": one for one in find(bench).closed[0].ranking}
    assert ranked[name].why.code.endswith("_by_hand")


@pytest.mark.parametrize("node", ["n1", "n0"])
def test_an_idea_of_a_person_is_tried_though_the_engine_dies_on_any_node(
    node: str,
) -> None:
    slow = {"e4_sweep": [[RunScript(seconds=40)]]}
    bench = search(FakeTrees(propose), slow)
    while not find(bench).closed or not find(bench).is_listed:
        bench.run(1)
    bench.order(ProposeIdea(node=node, text="# 0.9 by hand\n"), by="ann")
    bench.run(2)
    bench.die(3)
    decide_all(bench)
    tree = find(bench)
    (own,) = [one for one in tree.evaluations.values() if one.idea and one.idea.by]
    assert (own.node, own.depth) == (node, 1)
    assert tree.nodes["n3"].evaluation == own.id
    assert node in tree.closed[1].expanded


@pytest.mark.parametrize(("strategy", "dirs"), [
    ("node_plus_ancestors", ["n0", "n1", "n3"]),
    ("node_only", ["n3"]),
    ("global_prior_ideas", ["n0", "n1", "n2", "n3", "n4"]),
])  # fmt: skip
def test_a_context_has_the_nodes_numbers_and_the_directories_of_its_strategy(
    strategy: str, dirs: list[str]
) -> None:
    def first(node: str) -> list[str]:
        return [f"{0.3 if node == 'n1' else 0.1} of {node}", f"0.05 of {node}"]

    bench = search(FakeTrees(first), ideas_context_strategy=strategy)
    decide_all(bench)
    pack = build_pack(bench.engine.state, WritePack(node="n3"))
    assert [*pack.ideas_dirs] == [f"node_ideas/{name}" for name in dirs]
    assert pack.comparison is not None
    assert pack.comparison.primary_delta == pytest.approx(0.4)
    told = [one.node for one in pack.tried]
    assert set(told) == {name for name in dirs if name in ("n0", "n1", "n2")}


def test_an_evaluation_that_a_person_ends_has_no_result() -> None:
    slow = {"e1_sweep": [[RunScript(seconds=900)]]}
    bench = search(FakeTrees(propose), slow, max_depth=1)
    bench.run(10)
    bench.order(EndEvaluation(evaluation="e1"))
    decide_all(bench)
    assert find_code(find_judgement(bench, "e1").why) == "ended_by_hand"


@pytest.mark.parametrize("scope", ["node", "node_plus_ancestors", "global"])
def test_nodes_are_expanded_again_where_nothing_was_promoted(scope: str) -> None:
    def ideas(place: str) -> Sequence[str]:
        return ["-0.5 worse"] if place == "n0" else ["-0.5 worse", "0.3 better"]

    bench = search(FakeTrees(ideas), stop_on_empty_frontier=False, dedupe=scope)
    bench.run(120)
    tree = find(bench)
    assert [one.expanded for one in tree.closed] == [("n0",), ("n0",)]
    assert [one.idea.id for one in tree.evaluations.values() if one.idea] == [
        "n0/0.md",
        "n0/r2/1.md",  # the other repeats one of the first round
    ]
    assert tree.closed[1].nodes == ("n1",)
    assert {"n0_ideas", "n0_ideas_r2"} <= bench.engine.state.jobs.keys()


def test_a_person_may_grant_a_further_attempt() -> None:
    lost = [RunScript(seconds=1.0, cause=Cause.NODE_FAIL)]
    scripts = {"e1_sweep": [lost, lost, [RunScript(seconds=1.0)]]}
    bench = search(FakeTrees(propose), scripts, max_depth=1)
    bench.run(3)
    bench.order(GrantRetry(evaluation="e1"))
    decide_all(bench)
    assert find_judgement(bench, "e1").outcome == "scored"


def test_a_person_may_have_results_of_the_open_depth_made_again() -> None:
    slow = {"e2_implement": [[RunScript(seconds=60.0)]]}
    bench = search(FakeTrees(propose), slow, max_depth=1)
    bench.run(20)
    assert find_judgement(bench, "e1").outcome == "scored"
    bench.order(RetryEvaluation(evaluation="e1", anyway=True))
    decide_all(bench)
    assert find(bench).evaluations["e1"].round == 2
    assert "e1_sweep_r2" in bench.engine.state.jobs


def test_the_output_of_what_came_to_no_results_goes_with_its_depth() -> None:
    trees = FakeTrees(propose)
    fails = {"e1_sweep": [[RunScript(seconds=1, cause=Cause.EXIT_CODE)]]}
    decide_all(search(trees, fails, max_depth=1))
    assert trees.emptied == {"e1"}
