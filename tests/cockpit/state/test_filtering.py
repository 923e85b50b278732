"""What is typed after `/` finds what a person means."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autoexp_tui.cockpit.state.rows import (
    Filter,
    FilterError,
    check_names,
    compile_filter,
    is_unfinished,
)
from autoexp_tui.cockpit.state.session import JobView, build_session
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.model.states import Cause
from tests.support.campaigns import campaign

SESSION = build_session(campaign(125))


def rate(job: JobView) -> float:
    return float(str(job.record.spec.parameters["optim.lr"]))


KEEPS: dict[str, Callable[[JobView], bool]] = {
    "cooldown": lambda job: job.stage == "cooldown",
    "COOLDOWN": lambda job: job.stage == "cooldown",
    "doomed": lambda job: job.look is Look.DOOMED,
    "failed stable": lambda job: (job.look, job.stage) == (Look.FAILED, "stable"),
    "memory": lambda job: job.record.cause is Cause.OUT_OF_MEMORY,
    "lr>1e-3": lambda job: rate(job) > 1e-3,
    "optim.lr>1e-3": lambda job: rate(job) > 1e-3,
    "lr>=2e-3": lambda job: rate(job) >= 2e-3,
    "lr!=1e-3 lr>1e-3": lambda job: rate(job) > 1e-3,
    "lr=0.001": lambda job: rate(job) == 1e-3,
    "lr=1e-3": lambda job: rate(job) == 1e-3,
    "stage:cooldown": lambda job: job.stage == "cooldown",
    'stage=="cooldown"': lambda job: job.stage == "cooldown",
    "stage!=cooldown": lambda job: job.stage != "cooldown",
    "loss<2.6": lambda job: job.list_metrics().get("loss", 9.0) < 2.6,
    "momentum>0": lambda job: False,
    "stage>3": lambda job: False,
}


@pytest.mark.parametrize("text", KEEPS)
def test_a_filter_keeps_what_a_person_means(text: str) -> None:
    found, means = compile_filter(text), KEEPS[text]
    assert found is not None
    for job in SESSION.jobs:
        meant = "optim.lr" in job.record.spec.parameters or "lr" not in text
        assert found.keeps(job) == (meant and means(job)), job.name


def test_nothing_typed_is_no_filter() -> None:
    assert compile_filter("   ") is None


def of_language(text: str) -> Filter:
    found = compile_filter(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "text",
    [
        "stage == 'stable' and lr > 1e-3",
        "lr > 1e-3 and stage in ['stable']",
        "stage == 'stable' or lr<0",
    ],
)
def test_an_expression_goes_to_the_sweep_s_language(text: str) -> None:
    found = of_language(text)
    assert {job.stage for job in SESSION.jobs if found.keeps(job)} == {"stable"}


def test_an_expression_that_fails_over_a_job_does_not_keep_it() -> None:
    found = of_language("stage == 1 and lr > 2")
    report = next(job for job in SESSION.jobs if job.stage == "report")
    assert not found.keeps(report)


@pytest.mark.parametrize("text", ["lr > ! 2", "(lr > 1e-3", "lr != 1 and ! x"])
def test_a_broken_expression_is_refused_with_its_reason(text: str) -> None:
    with pytest.raises(FilterError, match="does not parse"):
        compile_filter(text)


@pytest.mark.parametrize("text", ["not a ! word", "in doubt !", "failed stable"])
def test_plain_words_are_never_refused(text: str) -> None:
    assert of_language(text).text == text


def test_words_with_a_keyword_are_found_as_words() -> None:
    wanted = of_language("cooldown in")
    assert not any(wanted.keeps(job) for job in SESSION.jobs if job.stage == "report")


@pytest.mark.parametrize("text", ["lrr>1e-3", "failed lrr=2", "lrr > 1e-3"])
def test_a_name_that_no_job_has_is_refused_with_the_near_miss(text: str) -> None:
    with pytest.raises(FilterError, match="no job has `lrr`; did you mean `lr`"):
        check_names(compile_filter(text), SESSION.jobs)


def test_a_name_like_no_other_is_told_what_there_is() -> None:
    with pytest.raises(FilterError, match=r"there are .*loss"):
        check_names(compile_filter("momentum>0"), SESSION.jobs)


@pytest.mark.parametrize("text", ["", "lr>1e-3 failed", "loss<3", "optim.lr=1", "a b"])
def test_names_that_some_job_has_are_fine(text: str) -> None:
    check_names(compile_filter(text), SESSION.jobs)


@pytest.mark.parametrize("text", ["lr>", "lr > 1 and", "lr ==", "stage:", "min(lr"])
def test_what_is_still_being_typed_is_not_judged(text: str) -> None:
    assert is_unfinished(text)
    assert not is_unfinished(f"{text} 1)")
