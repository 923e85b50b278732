"""Which jobs of a plan need not run, by what earlier sessions left."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.done import done_before, is_of_attempt
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.specs import JobSpec, Plan
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


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Plan, dict[str, DoneWork]]:
    """A plan whose jobs depend on earlier ones, some done and some changed."""
    specs: list[JobSpec] = []
    found: dict[str, DoneWork] = {}
    for at in range(draw(st.integers(1, 8))):
        names = [spec.name for spec in specs]
        after = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
        spec = made(f"j{at}", *after, index=at)
        specs.append(spec)
        state = draw(st.sampled_from(["done", "changed", "never"]))
        if state != "never":
            print_then = spec.fingerprint if state == "done" else "then"
            found[spec.name] = left(spec, fingerprint=print_then)
    shuffled = draw(st.permutations(specs))
    return plan(*shuffled), found


@given(graphs())
def test_nothing_is_done_that_builds_on_what_runs(
    made_up: tuple[Plan, dict[str, DoneWork]],
) -> None:
    the_plan, found = made_up
    report = done_before(the_plan, found)
    for spec in the_plan.jobs:
        if spec.name in report.done:
            assert set(spec.depends_on) <= set(report.done)
        said = (spec.name in part for part in (report.changed, report.upstream))
        assert (spec.name in found) == (spec.name in report.done or any(said))
