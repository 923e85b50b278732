"""Conditions of the user's own: what they see, say, and do when they are wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.conditions.custom_conditions import OwnFailed, make, says
from autoexp_tui.conditions.kinds import Composite, Not, OwnCondition
from autoexp_tui.model.condition import (
    Condition,
    EvalContext,
    evaluate,
    find_wake,
    needs,
)
from autoexp_tui.model.facts import FileText, TextKey
from autoexp_tui.model.states import Result, Verdict
from autoexp_tui.model.wording import sentence
from tests.conditions.known import NOW, Known, failed_look, known
from tests.model.builders import at

CTX = EvalContext(job="me", waiting_lived=NOW - 100)
CLASSES = "tests.conditions.own_classes"


def own(name: str, timeout: float | None = None, **fields: object) -> OwnCondition:
    path = name if ":" in name else f"{CLASSES}:{name}"
    return OwnCondition(class_path=path, fields=fields, timeout_seconds=timeout)


ENOUGH = "autoexp_tui.testing.own_condition:EnoughLines"
LINES = own(ENOUGH, path="/a", lines=2)


def judged(spec: Condition, facts: Known | None = None, now: float = NOW) -> Verdict:
    return evaluate(spec, facts or Known(), at(now), CTX)


def test_it_judges_what_it_asked_for_once_everything_is_known() -> None:
    assert needs(LINES, "me") == {TextKey("/a")}
    assert judged(LINES).why.code == "not_looked"
    assert judged(LINES, failed_look(TextKey("/a"))).why.code == "look_failed"
    for lines, result in (("1\n2\n", Result.PASS), ("1\n", Result.WAIT)):
        verdict = judged(LINES, known({TextKey("/a"): FileText(lines)}))
        assert verdict.result is result
        told = f"{len(lines) // 2} of 2 lines in /a"
        assert sentence(verdict.why, NOW) == told
    read = known({TextKey("/a"): FileText("1\n")})
    assert find_wake(LINES, read, at(NOW), CTX) is None
    later = own("Later", at=NOW + 30)
    assert find_wake(later, Known(), at(NOW), CTX) == NOW + 30
    assert judged(later, now=NOW + 30).result is Result.PASS
    endless = own("Later", timeout=10.0, at=NOW * 2)
    assert judged(endless).why.code == "start_timeout"


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
    for unknown in (own(name, at=NOW), LINES):  # to those around it
        assert judged(Not(condition=unknown)).result is Result.WAIT
        either = Composite(mode="any", conditions=(unknown,))
        assert judged(either).result is Result.WAIT


def test_a_reason_in_words_of_its_own_is_kept_clean() -> None:
    verdict = judged(own("OwnWords", at=NOW))
    words = sentence(verdict.why, NOW)
    assert verdict.why.code == "own_says"
    assert "my_code" in words
    assert "\x1b" not in words
    with pytest.raises(ValueError, match="maybe"):
        says("maybe", "so")


@pytest.mark.parametrize(("class_path", "fields", "problem"), [
    ("no_such_module:X", {}, "No module named"),
    (f"{CLASSES}:Gone", {}, "has no attribute"),
    (f"{CLASSES}:NoEvaluate", {}, "has no evaluate()"),
    (f"{CLASSES}:Later", {"when": 1}, "unexpected keyword"),
])  # fmt: skip
def test_what_cannot_be_made_says_why(
    class_path: str, fields: Any, problem: str
) -> None:
    with pytest.raises(OwnFailed, match=re.escape(problem)):
        make(class_path, fields)


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
