"""Which jobs of a plan need not run, by what earlier sessions left."""

from __future__ import annotations

from typing import Any

import pytest

from autoexp_tui.model.done import done_before, is_of_attempt
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.specs import JobSpec
from tests.model.builders import job, plan


def made(name: str, *after: str, **fields: Any) -> JobSpec:
    given: dict[str, Any] = {"fingerprint": f"f-{name}", "depends_on": after}
    return job(name, **{**given, **fields})


def left(spec: JobSpec, mark: str = "s1@1", **fields: Any) -> DoneWork:
    """What `spec` left when a session ran it with all that it depends on."""
    given: dict[str, Any] = {
        "job": spec.name,
        "session": mark.partition("@")[0],
        "mark": mark,
        "fingerprint": spec.fingerprint,
        "at": 5.0,
        "upstream": dict.fromkeys(spec.depends_on, mark),
    }
    return DoneWork(**{**given, **fields})


A, B, C = made("a"), made("b", "a"), made("c", "b")
ALL = {spec.name: left(spec) for spec in (A, B, C)}


OTHER_A, X, BARE = made("a", fingerprint="other"), made("x"), made("a", fingerprint="")


@pytest.mark.parametrize(
    ("jobs", "found", "done", "changed", "upstream"),
    [
        ((A, B, C), ALL, "abc", "", ""),
        ((A, B, C), {}, "", "", ""),
        ((OTHER_A, B, C), ALL, "", "a", "bc"),
        ((OTHER_A, B, X), {**ALL, "x": left(X)}, "x", "a", "b"),
        # results of another session than was built on, of the same id, too
        ((A, B, C), {**ALL, "a": left(A, "s2@2")}, "a", "", "bc"),
        ((A, B), {**ALL, "a": left(A, "s1@999")}, "a", "", "b"),
        (
            (A, B, C),
            {**ALL, "c": left(C, "s2@2", upstream={"b": "s1@1"})},
            "abc",
            "",
            "",
        ),
        # an upstream that the job did not have then
        ((A, B), {**ALL, "b": left(B, upstream={})}, "a", "", "b"),
        # results of other values in the same session, and of the same
        ((A, B, C), {**ALL, "b": left(B, upstream_work={"a": "other"})}, "a", "", "bc"),
        ((A, B), {**ALL, "b": left(B, upstream_work={"a": "f-a"})}, "ab", "", ""),
        ((A,), {"a": left(A, job="b")}, "", "a", ""),  # another job's word
        ((BARE,), {"a": left(BARE)}, "", "a", ""),
        ((B, C), ALL, "", "", ""),  # of a plan that has not what it builds on
    ],
)
def test_a_job_is_done_when_its_work_and_all_that_it_builds_on_stand(
    jobs: tuple[JobSpec, ...],
    found: dict[str, DoneWork],
    done: str,
    changed: str,
    upstream: str,
) -> None:
    report = done_before(plan(*jobs), found)
    assert sorted(report.done) == list(done)
    assert (report.changed, report.upstream) == (tuple(changed), tuple(upstream))


def test_a_word_outlives_a_late_submission_of_its_own_attempt() -> None:
    word = left(made("a"), attempts=2)
    assert is_of_attempt(word, word.session, attempt=1)
    assert is_of_attempt(word, word.session, attempt=2)
    assert not is_of_attempt(word, word.session, attempt=3)
    assert not is_of_attempt(word, "another", attempt=1)
