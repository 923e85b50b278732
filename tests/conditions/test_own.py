"""Conditions of the user's own: what they see, say, and do when they are wrong."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.conditions.bindings import bind
from autoexp_tui.conditions.custom_conditions import OwnFailed, make, says
from autoexp_tui.conditions.kinds import Composite, Not, OwnCondition
from autoexp_tui.model.condition import EvalContext, evaluate, find_wake, needs
from autoexp_tui.model.facts import FactKey, FactValue, FileText, JobKey, TextKey
from autoexp_tui.model.states import JobState, Result, Verdict
from autoexp_tui.model.wording import sentence
from tests.conditions.known import NOW, Known, failed_look, job, known
from tests.model.builders import at

CTX = EvalContext(job="me", waiting_lived=NOW - 100)


def own(name: str, **fields: object) -> OwnCondition:
    return OwnCondition(
        class_path=f"tests.conditions.own_classes:{name}", fields=fields
    )


LINES = own("EnoughLines", path="/a", lines=2)


def judged(spec: OwnCondition | Not | Composite, facts: Known | None = None) -> Verdict:
    return evaluate(spec, facts or Known(), at(NOW), CTX)


def text(lines: str) -> Known:
    facts: dict[FactKey, FactValue] = {
        TextKey("/a"): FileText(lines),
        JobKey("me"): job(JobState.WAITING),
    }
    return known(facts)


@pytest.mark.parametrize(
    ("lines", "result"), [("1\n2\n", Result.PASS), ("1\n", Result.WAIT)]
)
def test_it_judges_what_it_asked_for(lines: str, result: Result) -> None:
    assert needs(LINES, "me") == {TextKey("/a"), JobKey("me")}
    verdict = judged(LINES, text(lines))
    assert verdict.result is result
    assert sentence(verdict.why, NOW) == f"{len(lines) // 2} of 2 lines in /a"


def test_it_is_not_asked_before_everything_is_known() -> None:
    assert judged(LINES).why.code == "not_looked"
    assert judged(LINES, failed_look(TextKey("/a"))).why.code == "look_failed"


@pytest.mark.parametrize(("name", "problem"), [
    ("Raises", "RuntimeError: out of cheese"),
    ("ReadsMore", "AttributeError: 'NoneType' object has no attribute 'value'"),
    ("SaysNonsense", "gave 'yes', which is no Verdict"),
    ("NeedsNonsense", "names '/a/path', which is no key of a fact"),
])  # fmt: skip
def test_a_class_that_is_wrong_makes_the_job_wait_with_the_reason(
    name: str, problem: str
) -> None:
    verdict = judged(own(name, at=NOW))
    assert (verdict.result, verdict.why.code) == (Result.WAIT, "own_failed")
    assert problem in sentence(verdict.why, NOW)


@pytest.mark.parametrize("unknown", [LINES, own("Raises", at=NOW)])
def test_what_is_not_known_or_wrong_is_unknown_to_those_around_it(
    unknown: OwnCondition,
) -> None:
    assert judged(Not(condition=unknown)).result is Result.WAIT
    assert judged(Composite(mode="any", conditions=(unknown,))).result is Result.WAIT


def test_it_says_when_to_ask_again() -> None:
    spec = own("Later", at=NOW + 30)
    assert find_wake(spec, Known(), at(NOW), CTX) == NOW + 30
    assert evaluate(spec, Known(), at(NOW + 30), CTX).result is Result.PASS


def test_its_timeout_runs_like_any_other() -> None:
    spec = replace(own("Later", at=NOW * 2), timeout_seconds=10.0)
    assert judged(spec).why.code == "start_timeout"


def test_a_reason_in_words_of_its_own_is_kept_clean() -> None:
    verdict = judged(own("OwnWords", at=NOW))
    words = sentence(verdict.why, NOW)
    assert verdict.why.code == "own_says"
    assert "my_code" in words
    assert "\x1b" not in words


def test_references_in_its_fields_are_bound() -> None:
    spec = own("EnoughLines", path="/out/{runtime.a.best}", more=["{runtime.a.best}"])
    bound, missing = bind(spec, lambda *_: "7", {"a": None})
    assert bound is not None
    assert missing == ()
    assert bound.fields == {"path": "/out/7", "more": ["7"]}


@pytest.mark.parametrize(("class_path", "fields", "problem"), [
    ("no_such_module:X", {}, "No module named"),
    ("tests.conditions.own_classes:Gone", {}, "has no attribute"),
    ("tests.conditions.own_classes:NoEvaluate", {}, "has no evaluate()"),
    ("tests.conditions.own_classes:Later", {"when": 1}, "unexpected keyword"),
])  # fmt: skip
def test_what_cannot_be_made_says_why(
    class_path: str, fields: dict[str, object], problem: str
) -> None:
    with pytest.raises(OwnFailed, match=re.escape(problem)):
        make(class_path, fields)


def test_there_are_three_results() -> None:
    with pytest.raises(ValueError, match="maybe"):
        says("maybe", "so")


def test_what_cannot_be_made_is_imported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = tmp_path / "marks"
    code = f"with open({str(marks)!r}, 'a') as f: f.write('x')\nraise ImportError\n"
    (tmp_path / "cannot_be_made.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = OwnCondition(class_path="cannot_be_made:Class")
    for _ in range(3):
        assert judged(spec).why.code == "own_failed"
        assert needs(spec, "me") == frozenset()
    assert marks.read_text() == "x"
