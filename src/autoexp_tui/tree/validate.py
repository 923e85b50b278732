"""Whether the files of a search are what its manifest says: each finding names what is
wrong and where. Pure: what lies on the disk and in git is asked through `Ground`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

from autoexp_tui.model.states import why
from autoexp_tui.tree.options import TreeOptions
from autoexp_tui.tree.ranking import rank_evaluations
from autoexp_tui.tree.scores import Comparison, Recommendation
from autoexp_tui.tree.state import Artifact, Evaluation, GateOutcome, Judgement, Mark
from autoexp_tui.tree.views import list_chain, render_summary


class Finding(NamedTuple):
    """Something that is not as it has to be."""

    where: str
    problem: str


class Ground(Protocol):
    """What lies there; paths as in the manifest."""

    def hash_file(self, path: str) -> str | None:
        """sha256 of a file; None: it is not there."""

    def exists(self, path: str) -> bool: ...

    def find_commit(self, ref: str) -> str | None:
        """The commit of a ref; None: there is no such ref."""


def check_manifest(
    search: Mapping[str, Any], ground: Ground, *, with_git: bool = True
) -> list[Finding]:
    """All that is wrong; `with_git`: refs are looked up as well."""
    found = [*_check_artifacts(search, ground), *_check_files(search, ground)]
    if with_git:
        found += _check_refs(search, ground)
    return [*found, *_check_state(search), *_check_ranking(search)]


def _check_artifacts(search: Mapping[str, Any], ground: Ground) -> Iterator[Finding]:
    is_copied = search["config"]["artifact_policy"] == "copy_to_run_root"
    sides = {"nodes": "baseline_results_csv", "evaluations": "candidate_results_csv"}
    for table, key in sides.items():
        for name, one in search[table].items():
            if (file := one[key]) is None:
                continue
            where, path = f"{table}.{name}.{key}", file["path"]
            now = ground.hash_file(path)
            if now is None:
                yield Finding(where, f"{path} is missing")
            elif now != file["sha256"]:
                yield Finding(where, f"{path} was changed: its sha256 is {now}")
            if is_copied and not path.startswith("artifacts/"):
                yield Finding(where, f"{path} does not lie in artifacts/")


def _check_files(search: Mapping[str, Any], ground: Ground) -> Iterator[Finding]:
    for name, node in search["nodes"].items():
        paths = [idea["path"] for idea in node["ideas"]]
        for path in [*paths, *([node["context"]["path"]] if node["context"] else [])]:
            if not ground.exists(path):
                yield Finding(f"nodes.{name}.ideas", f"{path} is missing")
    for name, one in search["evaluations"].items():
        path = one["summary_json_path"]
        if one["status"] == "completed" and not ground.exists(path):
            yield Finding(f"evaluations.{name}", f"{path} is missing")
    digest = ground.hash_file("TREE_SUMMARY.md")
    if digest is None:
        yield Finding("TREE_SUMMARY.md", "is missing")
    elif digest != sha256(render_summary(search).encode()).hexdigest():
        yield Finding("TREE_SUMMARY.md", "is not what the manifest says")


def _check_refs(search: Mapping[str, Any], ground: Ground) -> Iterator[Finding]:
    for name, node in search["nodes"].items():
        commit, where = ground.find_commit(node["ref_name"]), f"nodes.{name}.ref_name"
        if commit is None:
            yield Finding(where, f"there is no ref {node['ref_name']}")
        elif commit != node["commit"]:
            yield Finding(where, f"{node['ref_name']} is at {commit}")


def _check_state(search: Mapping[str, Any]) -> Iterator[Finding]:
    """Each depth that is closed expanded what the one before it promoted, once, and of
    those nodes each idea was tried or is a repeat."""
    state, nodes = search["state"], search["nodes"]
    expanded = state["expanded_node_ids_by_depth"]
    done = state["completed_depths"]
    if done != list(range(state["current_depth"])):
        yield Finding("state.completed_depths", f"{done}, not each before the present")
    for name in sorted({*state["frontier_node_ids"], *chain(*expanded.values())}):
        if name not in nodes:
            yield Finding("state", f"there is no node {name}")
    for depth in done:
        here, where = expanded.get(str(depth), []), f"state.expanded.{depth}"
        due = [name for name, one in nodes.items() if one["depth"] == depth]
        if depth:
            due = _list_due(search, depth)
        for name in [name for name in due if name not in here]:
            yield Finding(where, f"{name} was promoted, and is not expanded")
        for name in [name for name in here if name not in due]:
            if not _is_by_hand(nodes.get(name)):
                yield Finding(where, f"{name} is expanded again")
        yield from _check_ideas(search, depth, here)


def _is_by_hand(node: Mapping[str, Any] | None) -> bool:
    """Whether a person added an idea: only so is a node there again."""
    return node is not None and any(one.get("by") for one in node["ideas"])


def _list_due(search: Mapping[str, Any], depth: int) -> list[str]:
    """The nodes that a depth from the second on has to expand."""
    promoted = [*_list_promoted(search, depth - 1)]
    if promoted or search["config"]["stop_on_empty_frontier"]:
        return promoted
    again: list[str] = search["state"]["expanded_node_ids_by_depth"][str(depth - 1)]
    return again


def _list_promoted(search: Mapping[str, Any], depth: int) -> Iterator[str]:
    """The nodes that a depth promoted, best first."""
    by_eval = {node["eval_id"]: name for name, node in search["nodes"].items()}
    ranks = sorted(
        (one["decision"]["rank"], name)
        for name, one in search["evaluations"].items()
        if one["depth"] == depth and one["decision"]["promoted"]
    )
    yield from (by_eval[name] for _, name in ranks if name in by_eval)


_WHOLE: Final = frozenset(
    {None, "empty_frontier", "ideas_used_up", "no_ideas", "max_depth_reached"}
)
"""Reasons for the end behind which no depth was cut short."""


def _check_ideas(
    search: Mapping[str, Any], depth: int, expanded: Sequence[str]
) -> Iterator[Finding]:
    """Evaluations of the depth are of its nodes; no idea of these was passed over."""
    found = search["evaluations"].values()
    tried = {one["idea_path"]: one for one in found if one["idea_path"]}
    where = f"state.expanded.{depth}"
    here = {one["parent_node_id"] for one in tried.values() if one["depth"] == depth}
    for name in sorted(here - {*expanded}):
        yield Finding(where, f"{name} has evaluations, and is not in it")
    state = search["state"]
    is_last = depth == state["current_depth"] - 1
    if is_last and state["stop_reason"] not in _WHOLE:
        return
    repeats = {f"node_ideas/{one['idea']}" for one in search["dedupe"]["skipped"]}
    for name in expanded:
        node = search["nodes"].get(name) or {"ideas": ()}
        for idea in node["ideas"]:
            if idea["path"] not in tried and idea["path"] not in repeats:
                yield Finding(where, f"{idea['path']} was not evaluated")


def _check_ranking(search: Mapping[str, Any]) -> Iterator[Finding]:
    """Each depth, ranked again, promotes who was promoted; these are the nodes, and the
    last of them the frontier; each chain leads to the root."""
    nodes, state = search["nodes"], search["state"]
    for depth in state["completed_depths"]:
        yield from _rank_again(search, depth)
    made = {node["eval_id"] for node in nodes.values() if node["eval_id"]}
    for name, one in search["evaluations"].items():
        is_promoted = one["decision"]["promoted"]
        if is_promoted != (name in made):
            told = "promoted" if is_promoted else "not promoted"
            yield Finding(f"evaluations.{name}", f"is {told}; its nodes say otherwise")
    for name, node in nodes.items():
        if len(list_chain(search, name)) != len(node["idea_chain"]) + 1:
            yield Finding(f"nodes.{name}.idea_chain", "does not lead to the root")
    last = state["current_depth"] - 1
    if last < 0:
        return
    wanted, frontier = _list_due(search, last + 1), state["frontier_node_ids"]
    more = frontier[len(wanted) :]
    if frontier[: len(wanted)] != wanted or not all(
        _is_by_hand(nodes.get(name)) for name in more
    ):
        yield Finding(
            "state.frontier_node_ids", f"{frontier}, the ranking says {wanted}"
        )


def _rank_again(search: Mapping[str, Any], depth: int) -> Iterator[Finding]:
    config, found = search["config"], search["evaluations"]
    here = [one for one in found.values() if one["depth"] == depth and one["idea"]]
    options = TreeOptions(frontier=config["frontier"], beam_width=config["beam_width"])
    for ranked in rank_evaluations(map(_read_evaluation, here), options):
        name = ranked.name
        decision = found[name]["decision"]
        stored = (decision["rank"], decision["promoted"])
        is_left_out = decision["promotion_code"] == "left_out_of_beam"
        if stored != (ranked.rank, ranked.promoted and not is_left_out):
            told = f"rank {ranked.rank}, promoted: {ranked.promoted}"
            problem = f"rank {stored[0]}, promoted: {stored[1]}; ranked again: {told}"
            yield Finding(f"evaluations.{name}.decision", problem)


def _read_evaluation(one: Mapping[str, Any]) -> Evaluation:
    """As far as it is ranked."""
    decision, root, file = (
        one[key] for key in ("decision", "root_relative", "candidate_results_csv")
    )
    reason = why(decision["gate_reason"] or one["error_code"] or "not_measured")
    judged = Judgement(
        outcome="scored" if file else "failed",
        commit=one["candidate_commit"] or "",
        diff_sha256=one["diff_sha256"] or "",
        files=one["changed_files"],
        artifact=Artifact(**file) if file else None,
        root=_read_comparison(root) if root else None,
        gate=GateOutcome(reason, () if decision["passed_gate"] else (reason,)),
    )
    mark, name = decision["mark"], one["eval_id"]
    return Evaluation(
        id=name,
        node=one["parent_node_id"],
        depth=one["depth"],
        idea=None,
        judgement=judged,
        mark=Mark(**mark) if mark else None,
    )


def _read_comparison(root: Mapping[str, Any]) -> Comparison:
    made = {key: one for key, one in root.items() if key != "recommendation_summary"}
    recommendation = Recommendation(**root["recommendation_summary"])
    return Comparison(recommendation=recommendation, **made)


def render_report(findings: list[Finding]) -> str:
    """The text of VALIDATION_REPORT.md."""
    if not findings:
        return "# Validation\n\nNothing is wrong.\n"
    lines = [f"- {one.where}: {one.problem}" for one in findings]
    return "\n".join(["# Validation", "", f"{len(findings)} findings:", "", *lines, ""])
