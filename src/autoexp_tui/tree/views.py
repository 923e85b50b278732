"""A search as files: manifest.json for programs, TREE_SUMMARY.md for people.

The manifest has two parts. `search` is what was decided: the same, byte for byte,
whatever the number of workers, their speed and the interruptions. `run` is how it came
about. The summary is made of `search` alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.model.wording import sentence
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import format_metric, plural
from autoexp_tui.tree.jobs import find_node_dir
from autoexp_tui.tree.results_csv import FILE as RESULTS
from autoexp_tui.tree.state import (
    ROOT,
    Artifact,
    Evaluation,
    Node,
    Ranked,
    Tree,
    rank_node,
)

if TYPE_CHECKING:
    from autoexp_tui.model.states import Why
    from autoexp_tui.tree.options import TreeOptions
    from autoexp_tui.tree.scores import Comparison

VERSION: Final = 1
OF_THE_RUN: Final = frozenset(
    {
        *("repository", "max_parallel_evals", "worktree_root", "heartbeat_seconds"),
        *("llm_max_inflight", "llm_rate_limit", "sweep_max_parallel"),
        *("lock_stale_seconds", "keep_rejected_worktrees", "keep_failed_artifacts"),
    }
)
"""Options that change how a search runs, and not what it decides."""


def list_run(tree: Tree, **more: Any) -> dict[str, Any]:
    """How a search came about, as plain data; times are seconds of Unix time."""
    options = tree.options
    root = options.worktree_root or tree.directory
    files = [one.baseline for one in tree.nodes.values()]
    judged = [one.judgement for one in tree.evaluations.values() if one.judgement]
    files += [one.artifact for one in judged]
    return {
        **more,
        "directory": tree.directory,
        "options": {key: getattr(options, key) for key in sorted(OF_THE_RUN)},
        "nodes": {
            one.id: {
                "created_at": one.created_at,
                "is_ready": one.ready,
                "worktree": find_node_dir(root, one.id),
            }
            for one in tree.nodes.values()
        },
        "evaluations": {
            one.id: {"opened_at": one.opened_at, "retries": one.retries}
            for one in tree.evaluations.values()
        },
        "sources": {one.path: one.source for one in files if one},
        "deferred_cleanup": [
            asdict(one) | ({"next_retry_at": None} if one.is_given_up else {})
            for one in tree.leftovers.values()
        ],
    }


def list_search(tree: Tree, options: TreeOptions) -> dict[str, Any]:
    """What was decided, as plain data; paths are relative to the search's directory,
    those of worktrees to their root."""
    plain = json.loads(json.dumps(asdict(options)))
    ranks = {one.name: one for depth in tree.closed for one in depth.ranking}
    ended = [one for one in tree.evaluations.values() if one.judgement is not None]
    return {
        "config": {
            "tree_run_id": tree.run,
            **{key: one for key, one in plain.items() if key not in OF_THE_RUN},
        },
        "root": {
            "commit": tree.root_commit,
            "baseline_csv": _list_file(tree.nodes[ROOT].baseline),
            "noise": {
                "repeats": tree.list_means(),
                "standard_error": tree.measure_error(),
            },
        },
        "state": {
            "current_depth": tree.depth,
            "frontier_node_ids": list(tree.frontier),
            "expanded_node_ids_by_depth": {
                str(one.depth): list(one.expanded) for one in tree.closed
            },
            "completed_depths": [one.depth for one in tree.closed],
            "next_node_id": f"n{tree.next_node}",
            "next_eval_id": f"e{tree.next_evaluation}",
            "stop_reason": tree.stopped.code if tree.stopped else None,
            "stop_detail": _tell(tree.stopped),
        },
        "dedupe": {
            "policy": options.dedupe,
            "skipped": [
                {"idea": one.idea.id, "sha256": one.idea.sha256, "same_as": one.same_as}
                for one in tree.skipped
            ],
        },
        "nodes": {name: _list_node(tree, one) for name, one in tree.nodes.items()},
        "evaluations": {
            one.id: _list_evaluation(tree.run, one, ranks.get(one.id))
            for one in sorted(ended, key=lambda one: one.number)
        },
    }


def _list_file(file: Artifact | None) -> dict[str, Any] | None:
    return None if file is None else {"path": file.path, "sha256": file.sha256}


def _tell(reason: Why | None) -> str:
    return sentence(reason, 0.0) if reason is not None else ""


def _list_node(tree: Tree, node: Node) -> dict[str, Any]:
    ideas = node.list_ideas()
    return {
        "node_id": node.id,
        "parent_node_id": node.parent or None,
        "depth": node.depth,
        "commit": node.commit,
        "ref_name": f"tree/{tree.run}/{node.id}",
        "worktree_path": find_node_dir("", node.id),
        "eval_id": node.evaluation or None,
        "baseline_results_csv": _list_file(node.baseline),
        "idea_chain": [one.id for one in node.chain],
        "ideas": [
            {
                "path": f"node_ideas/{one.id}",
                "sha256": one.sha256,
                "title": one.title,
                "by": one.by or None,
            }
            for one in ideas
        ],
        "ideas_problem": node.ideas_problem or None,
        "context": {
            "path": f"calls/{node.ideas_job}/prompt_context.txt",
            "sha256": node.context_sha256,
            "ideas_dirs": _list_ideas_dirs(tree, node),
            "ideas": [{"path": path, "sha256": sha} for path, sha in node.context],
        }
        if node.context_sha256
        else None,
        "status": "frontier" if node.id in tree.frontier else "expanded",
    }


def _list_ideas_dirs(tree: Tree, node: Node) -> list[str]:
    """The directories of earlier ideas that a call for ideas is told, in order."""
    nodes = tree.list_context(node.id)
    own = (f"node_ideas/{place}" for one in nodes for place in one.ideas_places)
    return [*own, *tree.options.ideas.context_dirs]


def _list_evaluation(
    run: str, one: Evaluation, ranked: Ranked | None
) -> dict[str, Any]:
    judged = one.judgement
    assert judged is not None
    gate, counts = judged.gate, judged.counts
    return {
        "eval_id": one.id,
        "parent_node_id": one.node,
        "depth": one.depth,
        "idea_path": f"node_ideas/{one.idea.id}" if one.idea else None,
        "idea": one.idea.title if one.idea else None,
        "idea_sha256": one.idea.sha256 if one.idea else None,
        "status": {"scored": "completed"}.get(judged.outcome, "failed"),
        "error": _tell(judged.why) or None,
        "error_code": judged.why.code if judged.why else None,
        "eval_output_root": f"eval/{one.id}",
        "experiment_dir": f"eval/{one.id}/experiment",
        "summary_json_path": f"eval/{one.id}/eval_result.json",
        "results_csv": f"eval/{one.id}/output/{RESULTS}",
        "candidate_commit": judged.commit or None,
        "candidate_ref_name": f"tree/{run}/{one.id}",
        "diff_sha256": judged.diff_sha256 or None,
        "changed_files": judged.files,
        "candidate_results_csv": _list_file(judged.artifact),
        "ok_count": counts.ok_count if counts else None,
        "error_count": counts.error_count if counts else None,
        "expected_count": counts.expected_count if counts else None,
        "parent_relative": list_comparison(judged.parent),
        "root_relative": list_comparison(judged.root),
        "measured_itself": judged.measured_itself,
        "doubts": [_tell(doubt) for doubt in judged.doubts],
        "decision": {
            "gate_basis": "parent_relative",
            "rank_basis": "root_relative",
            "passed_gate": gate.has_passed if gate else False,
            "gate_reason": gate.why.code if gate else None,
            "gate_refusals": [why.code for why in gate.refusals] if gate else [],
            "primary_regressed": gate.primary_regressed if gate else None,
            "rank": ranked.rank if ranked else None,
            "rank_score": ranked.rank_score if ranked else None,
            "rank_score_is": ranked.basis if ranked else None,
            "promoted": ranked.promoted if ranked else False,
            "promotion_reason": _tell(ranked.why) if ranked else None,
            "promotion_code": ranked.why.code if ranked else None,
            "mark": asdict(one.mark) if one.mark else None,
        },
    }


def list_comparison(one: Comparison | None) -> dict[str, Any] | None:
    """A comparison as plain data."""
    if one is None:
        return None
    plain = asdict(one)
    plain["recommendation_summary"] = plain.pop("recommendation")
    return plain


def write_manifest(search: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """The text of manifest.json; `run`: how it came about."""
    whole = {"manifest_version": VERSION, "search": search, "run": run}
    return json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=True) + "\n"


def render_summary(search: Mapping[str, Any]) -> str:
    """The text of TREE_SUMMARY.md, of the manifest's `search`."""
    lines = [*_render_head(search), *_render_best(search), *_render_depths(search)]
    return "\n".join([*lines, *_render_repeats(search), ""])


def _render_head(search: Mapping[str, Any]) -> Iterator[str]:
    config, state = search["config"], search["state"]
    limit, gate = config["sweep_config_limit"], config["gate"]
    complete = f"all of the first {limit} rows ok"
    if limit is None:
        rate = format_metric(gate["min_ok_rate"])
        complete = f"at least {gate['min_rows']} rows, {rate} of them ok"
    metrics = [
        f"{one['name']} ({one['direction']}, weight {format_metric(one['weight'])})"
        for one in config["metrics"]
    ]
    stopped = state["stop_detail"] or "it goes on"
    ended = len(search["evaluations"])
    yield from (f"# Search {_cell(config['tree_run_id'])}", "")
    counts = f"{plural(ended, 'evaluation')}, {plural(len(search['nodes']), 'node')}"
    yield f"Ended: {_cell(stopped)}. {counts}."
    yield ""
    yield f"- ideas a node: {config['ideas_per_node']}"
    yield f"- depths: {config['max_depth']}, beam: {config['beam_width']}"
    yield f"- complete: {complete}"
    yield f"- context of ideas: {config['ideas_context_strategy']}"
    yield f"- metrics: {_cell(', '.join(metrics))}"
    yield "- scores, deltas of the primary metric, grades and ranks: on the root"
    yield "- gate: on the parent; what is better than the root may be worse than that"
    yield f"- root: {search['root']['commit']}"


def find_best(search: Mapping[str, Any]) -> str:
    """The id of the best node."""

    def key(name: str) -> tuple[float, float, int]:
        found = search["evaluations"].get(search["nodes"][name]["eval_id"] or "")
        if found is None:  # the root
            return rank_node(name, 0.0, 0.0)
        score, root = found["decision"]["rank_score"], found["root_relative"]
        return rank_node(name, score, root["primary_delta"] if root else None)

    best: str = max(search["nodes"], key=key)
    return best


def list_chain(search: Mapping[str, Any], node: str) -> Sequence[str]:
    """The nodes from the root to one."""
    found: list[str] = []
    at: str | None = node
    while at:
        found.append(at)
        at = search["nodes"][at]["parent_node_id"]
    return found[::-1]


def format_message(search: Mapping[str, Any], node: str) -> str:
    """The message of a promoted node's commit on the final branch: its idea, and what
    it came to against the root and against its parent."""
    one = search["evaluations"][search["nodes"][node]["eval_id"]]
    lines = [clean_line(one["idea"]), ""]
    where = f"Search {search['config']['tree_run_id']}, evaluation {one['eval_id']}"
    lines.append(f"{where}, node {node}")
    for side in ("root", "parent"):
        if found := one[f"{side}_relative"]:
            lines += ["", *format_comparison(found, f"Against the {side}")]
    rows = f"Rows: {one['ok_count']} ok of {one['expected_count']}"
    return "\n".join([*lines, "", rows, ""])


def format_comparison(found: Mapping[str, Any], title: str) -> Iterator[str]:
    """A comparison as lines, of `list_comparison`'s plain data."""
    made = found["recommendation_summary"]
    explore = "worth exploring" if made["should_explore"] else "not worth exploring"
    score = format_metric(made["score"], 5)
    yield f"{title}: score {score}, {made['grade']}, {explore}"
    yield f"  primary delta {format_metric(found['primary_delta'], 5)}"
    for one in found["deltas"]:
        numbers = (one["baseline"], one["candidate"], one["delta"])
        before, after, delta = (format_metric(each, 5) for each in numbers)
        yield f"  {clean_line(one['name'])}: {before} -> {after} (delta {delta})"
    yield f"  reasons: {clean_line(', '.join(made['reasons'])) or 'none'}"


def _render_best(search: Mapping[str, Any]) -> Iterator[str]:
    best = find_best(search)
    yield from ("", "## Best path", "")
    yield "| node | evaluation | commit | idea | root score | root delta | rows |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for name in list_chain(search, best):
        node = search["nodes"][name]
        one = search["evaluations"].get(node["eval_id"] or "")
        cells = [name, node["eval_id"] or "", node["commit"][:12]]
        cells.append(one["idea"] if one else "the root")
        cells += [*_list_numbers(one)] if one else ["", "", ""]
        yield _render_row(cells)


def _list_numbers(one: Mapping[str, Any]) -> Iterator[str]:
    root = one["root_relative"]
    yield _spell(one["decision"]["rank_score"])
    yield _spell(root["primary_delta"] if root else None)
    counted = one["ok_count"] is not None
    yield f"{one['ok_count']}/{one['expected_count']}" if counted else ""


def _render_depths(search: Mapping[str, Any]) -> Iterator[str]:
    nodes = {one["eval_id"]: one for one in search["nodes"].values()}
    for depth in search["state"]["completed_depths"]:
        here = [
            one
            for one in search["evaluations"].values()
            if one["depth"] == depth and one["idea"] is not None
        ]
        here.sort(key=lambda o: (o["decision"]["rank"] or 10**9, int(o["eval_id"][1:])))
        yield from ("", f"## Depth {depth}", "")
        for number, one in enumerate(here):
            parent = search["nodes"][one["parent_node_id"]]
            row = _list_cells(one, nodes.get(one["eval_id"]), parent)
            if not number:
                yield _render_row(row)
                yield "|" + " --- |" * len(row)
            yield _render_row(row.values())


def _list_cells(
    one: Mapping[str, Any], node: Mapping[str, Any] | None, parent: Mapping[str, Any]
) -> dict[str, str]:
    """A row by its columns; `node`: what it became."""
    decision, root = one["decision"], one["root_relative"]
    made = root["recommendation_summary"] if root else None
    files = (parent["baseline_results_csv"], one["candidate_results_csv"])
    baseline, result = (file["path"] if file else "" for file in files)
    score, delta, rows = _list_numbers(one)
    return {
        "rank": str(decision["rank"] or "-"),
        "evaluation": one["eval_id"],
        "node": node["ref_name"] if node else "",
        "parent": one["parent_node_id"],
        "commit": (one["candidate_commit"] or "")[:12],
        "idea": one["idea"],
        "root score": score,
        "root delta": delta,
        "root grade": made["grade"] if made else "",
        "explore": str(made["should_explore"]).lower() if made else "",
        "parent gate": decision["gate_reason"] or one["error_code"] or "",
        "ok rows": rows,
        "used": str(root["candidate_rows_used"]) if root else "",
        "baseline": baseline,
        "result": result,
        "experiment": one["experiment_dir"],
        "reason": decision["promotion_reason"] or one["error"] or "",
    }


def _render_repeats(search: Mapping[str, Any]) -> Iterator[str]:
    nodes = search["nodes"].values()
    unused = [one for one in nodes if one["ideas_problem"]]
    if unused:
        yield from ("", "## Files that are no ideas, or calls that failed", "")
    for one in unused:
        yield f"- {one['node_id']}: {_cell(one['ideas_problem'])}"
    skipped = search["dedupe"]["skipped"]
    if skipped:
        yield from ("", f"## Repeats ({search['dedupe']['policy']})", "")
    for one in skipped:
        yield f"- {_cell(one['idea'])} repeats {_cell(one['same_as'])}"


def _render_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return re.sub(r"([\\|<])", r"\\\1", clean_line(text))


def _spell(number: float | None) -> str:
    return "" if number is None else format_metric(number, 5)
