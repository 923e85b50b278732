"""What the jobs of a search tell of what they were made from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autoexp_tui.evaluation.origin import find_origin
from autoexp_tui.evaluation.requests import (
    IMPLEMENTED,
    PATCH,
    Implemented,
    Request,
    write_record,
)
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.storage.provenance import MadeFrom
from tests.model.builders import job

DIFF = "-a\n+b\n"


def make_job(step: str, request: Request) -> JobSpec:
    path = request.home / f"{step}.json"
    write_record(path, request)
    words = ("python", "-m", f"autoexp_tui.evaluation.{step}", str(path))
    return job("e12", command=words)


def make_request(place: Path, **changes: str) -> Request:
    known = Request(
        directory=str(place),
        git_dir=str(place / ".git"),
        top=str(place),
        worktree_root=str(place / "trees"),
        run="r",
        root_commit="c0",
        node="n1",
        commit="c1",
        evaluation="e12",
        title="Anneal longer",
        idea=str(place / "idea.md"),
    )
    return replace(known, **changes)  # type: ignore[arg-type]


def test_a_measurement_names_its_idea_its_commit_and_what_that_changes(
    tmp_path: Path,
) -> None:
    request = make_request(tmp_path)
    spec = make_job("sweep", request)
    write_record(
        request.home / IMPLEMENTED, Implemented(commit="c2", diff_sha256="ab", files=1)
    )
    (request.home / PATCH).write_text(DIFF)
    found = find_origin(spec)
    assert found is not None
    assert (found.git.commit, found.git.diff) == ("c2", DIFF)
    assert found.made_from == MadeFrom(
        asked_by="evaluation e12",
        idea="Anneal longer",
        commit="c2",
        parent="c1",
        diff=str(request.home / PATCH),
        diff_sha256="ab",
    )


def test_an_implementation_names_the_idea_and_the_commit_that_it_begins_on(
    tmp_path: Path,
) -> None:
    request = make_request(tmp_path)
    found = find_origin(make_job("implement", request))
    assert found is not None
    assert found.made_from == MadeFrom(
        asked_by="evaluation e12", idea="Anneal longer", parent="c1"
    )


def test_the_root_s_measurement_names_the_commit_alone(tmp_path: Path) -> None:
    request = make_request(tmp_path, idea="", title="", commit="c0")
    found = find_origin(make_job("sweep", request))
    assert found is not None
    assert found.made_from == MadeFrom(asked_by="evaluation e12", commit="c0")


def test_a_job_of_no_search_has_no_such_origin() -> None:
    assert find_origin(job("a", command=("python", "-m", "trainer", "x"))) is None
    assert find_origin(job("a", command=("true",))) is None
