"""A search's directory, read without its session: the summary anew, and whether all is
there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.model.errors import EnvironmentFailed, UsageError
from autoexp_tui.storage.atomic import explaining, write_atomic
from autoexp_tui.storage.trust import read_foreign
from autoexp_tui.tree.results_csv import MOST_BYTES, Results, parse_results
from autoexp_tui.tree.validate import Finding, check_manifest, render_report
from autoexp_tui.tree.views import (
    VERSION,
    find_best,
    format_message,
    list_chain,
    render_summary,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from autoexp_tui.tree.options import TreeOptions
    from autoexp_tui.worktrees.tree_repository import TreeRepository

_MOST: Final = 256 << 20


def read_search(directory: Path) -> dict[str, Any]:
    """`search` of a manifest; raises EnvironmentFailed, UsageError."""
    path = directory / "manifest.json"
    with explaining(path, "read the manifest"):
        data = path.read_bytes()[:_MOST]
    try:
        manifest = json.loads(data)
        version, search = manifest["manifest_version"], manifest["search"]
    except (ValueError, KeyError, TypeError) as error:
        problem = f"it is no manifest of a search: {error}"
        raise EnvironmentFailed(problem, str(path)) from None
    if version != VERSION:
        raise UsageError(f"its version is {version}, not {VERSION}", str(path))
    return dict(search)


def read_results(path: Path, options: TreeOptions) -> Results:
    """A CSV, by the metrics of a search; raises EnvironmentFailed, ResultsRefused."""
    with explaining(path, "read the results"):
        data = read_foreign(path, MOST_BYTES)
    names, limit = options.list_metrics(), options.sweep_config_limit
    return parse_results(data, names, str(path), limit=limit)


def render_directory(directory: Path) -> Path:
    """Write TREE_SUMMARY.md anew; where it lies."""
    path = directory / "TREE_SUMMARY.md"
    write_atomic(path, render_summary(read_search(directory)).encode())
    return path


def validate_directory(directory: Path) -> list[Finding]:
    """Check it, and write VALIDATION_REPORT.md; refs are looked up where the repository
    is there."""
    from autoexp_tui.worktrees.tree_repository import Git, list_refs

    search, repository = read_search(directory), find_repository(directory)
    ground = _Ground(directory, list_refs(Git(repository)) if repository else {})
    findings = check_manifest(search, ground, with_git=repository is not None)
    report = render_report(findings)
    write_atomic(directory / "VALIDATION_REPORT.md", report.encode())
    return findings


def find_repository(directory: Path) -> TreeRepository | None:
    """The one that the steps of a search were given; None: it is not there."""
    from autoexp_tui.evaluation.requests import Request, find_record

    steps = sorted(directory.glob("calls/*/ideas.json"))
    request = find_record(Request, steps[0]) if steps else None
    found = request.repository if request else None
    return found if found and found.git_dir.is_dir() else None


def finalize_directory(directory: Path, branch: str = "") -> tuple[str, str]:
    """Make a branch of the winning chain, one commit an idea with its numbers; its name
    and its tip. Its dates are the best node's: done again it is the same. Raises
    UsageError, EnvironmentFailed."""
    from autoexp_tui.worktrees.promotion import finalize
    from autoexp_tui.worktrees.tree_repository import Git

    search = read_search(directory)
    best = find_best(search)
    nodes = [search["nodes"][name] for name in list_chain(search, best)[1:]]
    if not nodes:
        problem = "no node is better: the best state of the code is the root"
        raise UsageError(problem, str(directory))
    repository = find_repository(directory)
    if repository is None:
        problem = "the repository of the search is not there"
        hint = "A copy of a search's directory is enough for reports alone."
        raise EnvironmentFailed(problem, str(directory), hint)
    git = Git(repository)
    date = git.run("show", "-s", "--format=%ct", nodes[-1]["commit"])
    links = [
        (node["commit"], format_message(search, node["node_id"])) for node in nodes
    ]
    name = branch or f"tree-{search['config']['tree_run_id']}"
    root = search["root"]["commit"]
    return name, finalize(git, name, root, links, epoch=int(date))


@dataclass
class _Ground:
    directory: Path
    refs: Mapping[str, str]

    def hash_file(self, path: str) -> str | None:
        found = self.directory / path
        return sha256(found.read_bytes()).hexdigest() if found.is_file() else None

    def exists(self, path: str) -> bool:
        return (self.directory / path).exists()

    def find_commit(self, ref: str) -> str | None:
        return self.refs.get(f"refs/{ref}")
