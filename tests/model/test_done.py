"""Which jobs of a plan need not run, by what earlier sessions left."""

from __future__ import annotations

from typing import Any

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


def test_what_an_earlier_session_completed_is_done() -> None:
    report = done_before(plan(A, B, C), ALL)
    assert set(report.done) == {"a", "b", "c"}
    assert not report.changed


def test_nothing_is_done_where_nothing_was_left() -> None:
    assert not done_before(plan(A, B, C), {}).done


def test_a_job_that_would_do_other_work_runs_and_all_that_builds_on_it() -> None:
    report = done_before(plan(made("a", fingerprint="other"), B, C), ALL)
    assert not report.done
    assert report.changed == ("a",)
    assert report.upstream == ("b", "c")


def test_a_job_beside_a_changed_one_stays_done() -> None:
    other = made("x")
    plan_now = plan(made("a", fingerprint="other"), B, other)
    assert set(done_before(plan_now, {**ALL, "x": left(other)}).done) == {"x"}


def test_results_of_another_session_than_was_built_on_are_not_the_same() -> None:
    again = {**ALL, "a": left(A, "s2@2")}
    report = done_before(plan(A, B, C), again)
    assert set(report.done) == {"a"}
    assert report.upstream == ("b", "c")


def test_a_session_of_the_same_id_later_on_is_another_one() -> None:
    again = {**ALL, "a": left(A, "s1@999")}
    assert set(done_before(plan(A, B), again).done) == {"a"}


def test_what_was_done_over_two_sessions_is_done() -> None:
    found = {**ALL, "c": left(C, "s2@2", upstream={"b": "s1@1"})}
    assert set(done_before(plan(A, B, C), found).done) == {"a", "b", "c"}


def test_an_upstream_that_a_job_did_not_have_then_makes_it_run() -> None:
    found = {**ALL, "b": left(B, upstream={})}
    assert set(done_before(plan(A, B), found).done) == {"a"}


def test_results_of_other_values_in_the_same_session_are_not_the_same() -> None:
    b = left(B, upstream_work={"a": "f-a with other values"})
    report = done_before(plan(A, B, C), {**ALL, "b": b})
    assert set(report.done) == {"a"}
    assert report.upstream == ("b", "c")


def test_the_same_work_of_the_same_session_stands() -> None:
    b = left(B, upstream_work={"a": "f-a"})
    assert set(done_before(plan(A, B), {**ALL, "b": b}).done) == {"a", "b"}


def test_another_job_s_word_in_the_directory_is_no_word_of_this_one() -> None:
    assert not done_before(plan(A), {"a": left(A, job="b")}).done


def test_jobs_without_a_fingerprint_always_run() -> None:
    bare = made("a", fingerprint="")
    assert not done_before(plan(bare), {"a": left(bare)}).done


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
