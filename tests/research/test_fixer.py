from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.model.states import Cause
from autoexp_tui.research.fixer import (
    _BY_CAUSE,
    MECHANICAL,
    build_fixed_item,
    classify_failure,
    is_fixable,
    needs_person,
)
from autoexp_tui.research.options import Fixer, ResearchOptions
from autoexp_tui.research.state import Fix, Item, Research, Run
from autoexp_tui.text.sanitize import clean

FIXER = Fixer(agent=("mechanic",), may_override=("train.batch_size", "model", "opt.*"))
RUN = Run(id="r3", item=Item(id="r3", overrides=("train.lr=1e-3", "+note=a")), jobs=())


def chain(length: int) -> list[Run]:
    """A run and its repeats, each with a fix."""
    runs = [RUN]
    for _ in range(length):
        fix = Fix(run=runs[-1].id)
        item = build_fixed_item(runs[-1], fix, [run.id for run in runs])
        runs.append(Run(id=item.id, item=item, jobs=()))
    return runs


@pytest.mark.parametrize(("options", "mechanical", "streaks", "fixes", "asked"), [
    (FIXER, "oom", {}, 0, True),
    (FIXER, "oom", {"oom": 2, "shape": 3}, 2, True),
    (FIXER, "oom", {"oom": 3}, 0, False),
    (FIXER, "oom", {}, 3, False),  # of other failures, but of the same run
    (FIXER, "", {}, 0, False),
    (replace(FIXER, agent=()), "oom", {}, 0, False),
    (replace(FIXER, attempts=0), "oom", {}, 0, False),
])  # fmt: skip
def test_the_fixer_is_asked_until_its_fixes_failed_too_often(
    options: Fixer, mechanical: str, streaks: dict[str, int], fixes: int, asked: bool
) -> None:
    research, runs = Research(ResearchOptions(fixer=options)), chain(fixes)
    research.runs, research.fix_streaks = {run.id: run for run in runs}, streaks
    assert is_fixable(research, runs[-1], mechanical) is asked


@pytest.mark.parametrize(("before", "fix", "after"), [
    ((), ("a.b=2",), ("a.b=2",)),
    (("a.b=1", "c=3"), ("a.b=2",), ("c=3", "a.b=2")),
    (("a.b=1",), ("++a.b=2",), ("a.b=2",)),
    (("+a.b=1",), ("a.b=2",), ("+a.b=2",)),  # beneath, there is no such key
    (("++a.b=1",), ("+a.b=2",), ("++a.b=2",)),
    (("~a.b",), ("+a.b=2",), ("~a.b", "+a.b=2")),
    (("a.b=1",), ("~a.b",), ("~a.b",)),
    (("db/x=one",), ("db/x=two", "c=1", "c=2"), ("db/x=two", "c=2")),
])  # fmt: skip
def test_a_fix_sets_its_keys_over_those_of_the_item(
    before: tuple[str, ...], fix: tuple[str, ...], after: tuple[str, ...]
) -> None:
    run = replace(RUN, item=replace(RUN.item, overrides=before))
    made = build_fixed_item(run, Fix(run="r3", overrides=fix), ())
    assert made.overrides == after


def test_the_repeats_of_a_run_have_ids_of_their_own() -> None:
    assert [run.id for run in chain(2)] == ["r3", "r3_fix1", "r3_fix2"]
    assert [run.item.fixes for run in chain(2)] == ["", "r3", "r3_fix1"]
    again = build_fixed_item(RUN, Fix(run="r3"), {"r3_fix1", "r3_fix2"})
    assert (again.id, again.jobs) == ("r3_fix3", ())


@pytest.mark.parametrize(("overrides", "needed"), [
    ((), False),
    (("train.batch_size=32",), False),
    (("++train.batch_size=32", "model.layers=2", "opt.adam.eps=1"), False),
    (("~model",), False),
    (("train={batch_size: 32}",), True),
    (("train.batch_size_max=1",), True),
    (("train.batch_size=32", "train.command=rm"), True),
    (("opt@train=adam",), True),  # it is put at `train`
])  # fmt: skip
def test_a_fix_of_keys_that_are_not_named_needs_a_person(
    overrides: tuple[str, ...], needed: bool
) -> None:
    assert needs_person(Fix(run="r3", overrides=overrides), FIXER) is needed


TAILS = sorted((Path(__file__).parent / "log_tails").glob("*.txt"))
"""Ends of logs; each is named by its failure, and by who said so."""
UNFIXABLE = {"unknown", "infrastructure"}


@pytest.mark.parametrize("path", TAILS, ids=lambda path: path.stem)
def test_a_failure_is_told_by_the_end_of_its_log(path: Path) -> None:
    failure = path.name.partition(".")[0]
    expected = "" if failure in UNFIXABLE else failure
    tail = path.read_text(encoding="utf-8")
    for read in (tail, clean(tail, keep_newlines=True), "\n" * 900 + tail):
        assert classify_failure(Cause.EXIT_CODE, read) == expected
    assert classify_failure(Cause.EXIT_CODE, tail + "step\n" * 200) == ""
    assert classify_failure(Cause.STALL, tail) == ""


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
FULL = "OSError: [Errno 28] No space left on device"


@pytest.mark.parametrize(("cause", "tail", "expected"), [
    (Cause.OUT_OF_MEMORY, "", "oom"), (Cause.OUT_OF_MEMORY, FULL, "oom"),
    (Cause.TIMEOUT, "", "timeout"), (Cause.TIMEOUT, OOM, "oom"),
    (Cause.TIMEOUT, FULL, ""), (Cause.SIGNAL, OOM, "oom"), (Cause.SIGNAL, "", ""),
    ("", OOM, ""), ("of a later version", OOM, ""),
    *((cause, OOM, "") for cause in Cause if cause not in _BY_CAUSE),
])  # fmt: skip
def test_what_ended_a_run_goes_before_what_its_log_says(
    cause: str, tail: str, expected: str
) -> None:
    assert classify_failure(cause, tail) == expected


def test_each_failure_has_its_row_and_its_tails() -> None:
    names = MECHANICAL.keys()
    assert names - {""} == {path.name.partition(".")[0] for path in TAILS} - UNFIXABLE
    assert set(filter(None, _BY_CAUSE.values())) < names


def test_no_search_of_a_line_takes_longer_than_its_length_allows() -> None:
    bounded = re.compile(r"\\d\+|\[\\d\.\]\*|\.\{0,\d+\}")
    for pattern in MECHANICAL.values():
        assert not re.search(r"[*+]|\{\d*,", bounded.sub("", pattern.pattern))
