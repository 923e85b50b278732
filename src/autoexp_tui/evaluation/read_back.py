"""A search's directory, read without its session: the summary anew, and whether all is
there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from autoexp_tui.model.errors import EnvironmentFailed, UsageError
from autoexp_tui.storage.atomic import explaining, write_atomic
from autoexp_tui.tree.validate import Finding, check_manifest, render_report
from autoexp_tui.tree.views import VERSION, render_summary

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


def render_directory(directory: Path) -> Path:
    """Write TREE_SUMMARY.md anew; where it lies."""
    path = directory / "TREE_SUMMARY.md"
    write_atomic(path, render_summary(read_search(directory)).encode())
    return path


def validate_directory(directory: Path) -> list[Finding]:
    """Check it, and write VALIDATION_REPORT.md; refs are looked up where the repository
    is there."""
    search, ground = read_search(directory), _Ground(directory)
    findings = check_manifest(search, ground, with_git=ground.find_refs() is not None)
    report = render_report(findings)
    write_atomic(directory / "VALIDATION_REPORT.md", report.encode())
    return findings


@dataclass
class _Ground:
    directory: Path
    _refs: dict[str, str] | None = None

    def hash_file(self, path: str) -> str | None:
        found = self.directory / path
        return sha256(found.read_bytes()).hexdigest() if found.is_file() else None

    def exists(self, path: str) -> bool:
        return (self.directory / path).exists()

    def find_refs(self) -> dict[str, str] | None:
        """None: the repository is not there."""
        from autoexp_tui.evaluation.requests import Request, find_record
        from autoexp_tui.worktrees.refs import list_refs

        if self._refs is None:
            steps = sorted(self.directory.glob("calls/*/ideas.json"))
            request = find_record(Request, steps[0]) if steps else None
            if request is None or not Path(request.git_dir).is_dir():
                return None
            refs = list_refs(request.repository)
            self._refs = {
                name.removeprefix("refs/"): commit for name, commit in refs.items()
            }
        return self._refs

    def find_commit(self, ref: str) -> str | None:
        return (self.find_refs() or {}).get(ref)
