"""Whether the files of a search are what its manifest says: each finding names what is
wrong and where. Pure: what lies on the disk and in git is asked through `Ground`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from autoexp_tui.tree.views import list_chain


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
    found = [*_check_artifacts(search, ground), *_check_places(search)]
    found += _check_files(search, ground)
    if with_git:
        found += _check_refs(search, ground)
    return [*found, *_check_state(search), *_check_ranking(search)]


def _list_artifacts(search: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, node in search["nodes"].items():
        yield f"nodes.{name}.baseline_results_csv", node["baseline_results_csv"]
    for name, one in search["evaluations"].items():
        yield f"evaluations.{name}.candidate_results_csv", one["candidate_results_csv"]


def _check_artifacts(search: Mapping[str, Any], ground: Ground) -> Iterator[Finding]:
    for where, file in _list_artifacts(search):
        if file is None:
            continue
        now = ground.hash_file(file["path"])
        if now is None:
            yield Finding(where, f"{file['path']} is missing")
        elif now != file["sha256"]:
            yield Finding(where, f"{file['path']} was changed: its sha256 is {now}")


def _check_places(search: Mapping[str, Any]) -> Iterator[Finding]:
    if search["config"]["artifact_policy"] != "copy_to_run_root":
        return
    for name, node in search["nodes"].items():
        file = node["baseline_results_csv"]
        if file is not None and not file["path"].startswith("artifacts/"):
            where = f"nodes.{name}.baseline_results_csv"
            yield Finding(where, f"{file['path']} does not lie in artifacts/")


def _check_files(search: Mapping[str, Any], ground: Ground) -> Iterator[Finding]:
    for name, node in search["nodes"].items():
        for idea in node["ideas"]:
            if not ground.exists(idea["path"]):
                yield Finding(f"nodes.{name}.ideas", f"{idea['path']} is missing")
    for name, one in search["evaluations"].items():
        path = f"eval/{name}/eval_result.json"
        if one["status"] == "completed" and not ground.exists(path):
            yield Finding(f"evaluations.{name}", f"{path} is missing")


def _check_refs(search: Mapping[str, Any], ground: Ground) -> Iterator[Finding]:
    for name, node in search["nodes"].items():
        commit, where = ground.find_commit(node["ref_name"]), f"nodes.{name}.ref_name"
        if commit is None:
            yield Finding(where, f"there is no ref {node['ref_name']}")
        elif commit != node["commit"]:
            yield Finding(where, f"{node['ref_name']} is at {commit}")


def _check_state(search: Mapping[str, Any]) -> Iterator[Finding]:
    """Frontier and expanded nodes belong together, depth by depth."""
    state, nodes = search["state"], search["nodes"]
    expanded = state["expanded_node_ids_by_depth"]
    done = state["completed_depths"]
    if done != list(range(state["current_depth"])):
        yield Finding("state.completed_depths", f"{done}, not each before the present")
    for depth, names in expanded.items():
        for name in names:
            if name not in nodes:
                yield Finding(f"state.expanded.{depth}", f"there is no node {name}")
    for depth in done:
        if str(depth) not in expanded:
            yield Finding("state.expanded", f"depth {depth} expanded no node")
            continue
        parents = {
            one["parent_node_id"]
            for one in search["evaluations"].values()
            if one["depth"] == depth and one["idea"] is not None
        }
        for name in sorted(parents - set(expanded[str(depth)])):
            where = f"state.expanded.{depth}"
            yield Finding(where, f"{name} has evaluations and is not in it")
    for name in state["frontier_node_ids"]:
        if name not in nodes:
            yield Finding("state.frontier_node_ids", f"there is no node {name}")


def _check_ranking(search: Mapping[str, Any]) -> Iterator[Finding]:
    """Who was promoted is who the ranking says, and each chain leads to the root."""
    nodes, state = search["nodes"], search["state"]
    made = {node["eval_id"] for node in nodes.values() if node["eval_id"]}
    for name, one in search["evaluations"].items():
        is_promoted = one["decision"]["promoted"]
        if is_promoted != (name in made):
            told = "promoted" if is_promoted else "not promoted"
            yield Finding(f"evaluations.{name}", f"is {told}; its nodes say otherwise")
    for name, node in nodes.items():
        chain = list_chain(search, name)
        if (
            nodes[chain[0]]["parent_node_id"]
            or len(chain) != len(node["idea_chain"]) + 1
        ):
            yield Finding(f"nodes.{name}.idea_chain", "does not lead to the root")
    last = state["current_depth"] - 1
    if last < 0:
        return
    promoted = [
        (one["decision"]["rank"], name)
        for name, one in search["evaluations"].items()
        if one["depth"] == last and one["decision"]["promoted"]
    ]
    by_eval = {node["eval_id"]: name for name, node in nodes.items()}
    wanted = [by_eval.get(name) for _, name in sorted(promoted)]
    if list(state["frontier_node_ids"]) != wanted:
        where = "state.frontier_node_ids"
        yield Finding(where, f"{state['frontier_node_ids']}, the ranking says {wanted}")


def render_report(findings: list[Finding]) -> str:
    """The text of VALIDATION_REPORT.md."""
    if not findings:
        return "# Validation\n\nNothing is wrong.\n"
    lines = [f"- {one.where}: {one.problem}" for one in findings]
    return "\n".join(["# Validation", "", f"{len(findings)} findings:", "", *lines, ""])
