"""Conditions as a user might write them: good ones and bad ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autoexp_tui.conditions.custom_conditions import says
from autoexp_tui.model.facts import FactKey, Facts, StatKey
from autoexp_tui.model.states import Result, Verdict, why


class Later:
    def __init__(self, at: float) -> None:
        self.at = at

    def needs(self, job: str) -> Iterable[FactKey]:
        return ()

    def evaluate(self, facts: Facts, now: float) -> Verdict:
        return says("pass" if now >= self.at else "wait", f"at {self.at}")

    def wake_at(self, facts: Facts, now: float) -> float | None:
        return self.at


class Raises(Later):
    def evaluate(self, facts: Facts, now: float) -> Verdict:
        raise RuntimeError("out of cheese")


class ReadsMore(Later):
    def evaluate(self, facts: Facts, now: float) -> Verdict:
        fact: Any = facts.get(StatKey("/secret"))
        return says("pass", f"it is {fact.value}")


class SaysNonsense(Later):
    def evaluate(self, facts: Facts, now: float) -> Verdict:
        return "yes"  # type: ignore[return-value]


class NeedsNonsense(Later):
    def needs(self, job: str) -> Iterable[FactKey]:
        return ["/a/path"]  # type: ignore[list-item]


class OwnWords(Later):
    def evaluate(self, facts: Facts, now: float) -> Verdict:
        return Verdict(Result.WAIT, why("my_code", left=float("inf"), who="\x1b[31mme"))


class NoEvaluate:
    def needs(self, job: str) -> Iterable[FactKey]:
        return ()
