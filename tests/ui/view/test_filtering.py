"""What is typed after `/` finds what a person means."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from autoexp_tui.testing.campaigns import campaign
from autoexp_tui.ui.view.filtering import compile_filter
from autoexp_tui.ui.view.looks import Look
from autoexp_tui.ui.view.session import JobView, observe

SESSION = observe(campaign(125))


def kept(text: str) -> list[JobView]:
    found = compile_filter(text)
    assert found is not None
    return [job for job in SESSION.jobs if found.keeps(job)]


def rate(job: JobView) -> float:
    return float(str(job.record.spec.parameters["optim.lr"]))


def test_nothing_typed_is_no_filter() -> None:
    assert compile_filter("   ") is None


def test_a_word_is_found_in_name_stage_and_state() -> None:
    assert {job.stage for job in kept("cooldown")} == {"cooldown"}
    assert {job.look for job in kept("doomed")} == {Look.DOOMED}


def test_case_does_not_matter() -> None:
    assert kept("COOLDOWN") == kept("cooldown")


def test_all_words_have_to_be_there() -> None:
    found = kept("failed stable")
    assert {(job.look, job.stage) for job in found} == {(Look.FAILED, "stable")}


def test_a_cause_is_found_by_its_words() -> None:
    assert {str(job.record.cause) for job in kept("memory")} == {"out_of_memory"}


@pytest.mark.parametrize(
    "text", ["lr>1e-3", "optim.lr>1e-3", "lr>=2e-3", "lr!=1e-3 lr>1e-3"]
)
def test_numbers_compare_as_numbers(text: str) -> None:
    found = kept(text)
    assert found
    assert all(rate(one) > 1e-3 for one in found)


def test_equal_numbers_are_equal_however_written() -> None:
    assert kept("lr=0.001") == kept("lr=1e-3")
    assert kept("lr=1e-3")


def test_words_compare_as_words() -> None:
    assert {job.stage for job in kept("stage:cooldown")} == {"cooldown"}
    assert "cooldown" not in {job.stage for job in kept("stage!=cooldown")}


def test_a_metric_can_be_asked_for() -> None:
    assert all((job.metric("loss") or 9) < 2.6 for job in kept("loss<2.6"))


def test_a_key_that_nobody_has_keeps_nothing() -> None:
    assert kept("momentum>0") == []


def test_what_does_not_compare_keeps_nothing() -> None:
    assert kept("stage>3") == []


def compiled(text: str) -> Callable[[Mapping[str, object]], bool]:
    """Stands for the sweep's language."""
    if "!" in text:
        raise ValueError(text)
    return lambda values: (
        values["stage"] == "stable" and float(str(values["lr"])) > 1e-3
    )


def test_an_expression_goes_to_the_sweep_s_language() -> None:
    found = compile_filter("stage == 'stable' and lr > 1e-3", compiled)
    assert found is not None
    assert {job.stage for job in SESSION.jobs if found.keeps(job)} == {"stable"}


def test_an_expression_that_fails_over_a_job_does_not_keep_it() -> None:
    found = compile_filter("a and b", compiled)
    assert found is not None
    report = next(job for job in SESSION.jobs if job.stage == "report")
    assert not found.keeps(report)


def test_what_the_language_refuses_is_taken_as_words() -> None:
    found = compile_filter("not a ! word", compiled)
    assert found is not None
    assert not any(found.keeps(job) for job in SESSION.jobs)
