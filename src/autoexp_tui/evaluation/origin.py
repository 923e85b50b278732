"""What a job of a search was made from: an idea, and the commit that it runs."""

from __future__ import annotations

from pathlib import Path

from autoexp_tui.evaluation.requests import (
    IMPLEMENTED,
    PATCH,
    Implemented,
    Request,
    find_record,
    load_record,
)
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.storage.provenance import GitState, MadeFrom, ProvenanceRecord
from autoexp_tui.storage.session_dir import read_if_there
from autoexp_tui.tree.jobs import PROGRAMS


def find_origin(job: JobSpec) -> ProvenanceRecord | None:
    """None: it is no job of a search; raises EnvironmentFailed where its request does
    not read."""
    module, *arguments = job.command[2:] or ("",)
    if not module.startswith(f"{PROGRAMS}."):
        return None
    request = load_record(Request, Path(arguments[0]))
    home, made = request.home, Implemented(commit=request.commit)
    if request.idea:
        made = find_record(Implemented, home / IMPLEMENTED) or Implemented()
    patch = home / PATCH
    diff = read_if_there(patch) if request.idea and made.commit else None
    told = MadeFrom(
        asked_by=f"evaluation {request.evaluation}" if request.evaluation else "",
        idea=request.title,
        commit=made.commit,
        parent=request.commit if request.idea else "",
        diff=str(patch) if diff else "",
        diff_sha256=made.diff_sha256,
    )
    text = (diff or b"").decode("utf-8", "replace")
    return ProvenanceRecord(git=GitState(commit=made.commit, diff=text), made_from=told)
