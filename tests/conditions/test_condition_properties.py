"""What holds of every condition, whatever the facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.conditions import kinds as k
from autoexp_tui.model import facts as f
from autoexp_tui.model.condition import (
    Condition,
    EvalContext,
    evaluate,
    find_wake,
    needs,
)
from autoexp_tui.model.states import Cause, JobState, Result
from autoexp_tui.model.wording import CODES, sentence
from tests.conditions.known import NOW, Known
from tests.model.builders import at

JOBS = st.sampled_from(["me", "up", "w"])
PATHS = st.sampled_from(["/a", "/b/*.pt"])
NUMBERS = st.one_of(st.integers(-3, 3), st.floats())
TIMES = st.one_of(st.none(), st.floats(0, 2 * NOW))
TIMEOUTS = st.one_of(st.none(), st.floats(0, 300))
BASE = {"timeout_seconds": TIMEOUTS, "blocking": st.booleans()}
WRITERS = st.sampled_from(["", "w"])
OPS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
REGEXES = st.sampled_from(["a", "(", "[0-9]+", "(a+)+", ""])
LOOKED_AT: st.SearchStrategy[Condition] = st.one_of(
    st.builds(k.FileExists, path=PATHS, glob=st.booleans(), min_size=st.integers(0, 3),
              writer=WRITERS, **BASE),
    st.builds(k.FileContent, path=PATHS, pattern=REGEXES,
              mode=st.sampled_from(["contains", "regex"]), writer=WRITERS, **BASE),
    st.builds(k.CommandPasses, command=st.just(("c",)), **BASE),
    st.builds(k.LogPattern, log_path=PATHS, pattern=st.just("a"), glob=st.booleans(),
              check_mode=st.sampled_from(["any", "all"]), **BASE),
)  # fmt: skip
"""Those that look at what is outside of the engine."""
SINGLE: st.SearchStrategy[Condition] = st.one_of(
    LOOKED_AT,
    st.builds(k.MetadataIs, key=st.just("k"), job=JOBS, op=OPS,
              value=st.one_of(NUMBERS, st.text(max_size=3), st.booleans(), st.none()),
              **BASE),
    st.builds(k.MetricIs, name=st.sampled_from(["loss", "lr"]), job=JOBS, op=OPS,
              value=NUMBERS, after_step=st.integers(0, 3), **BASE),
    st.builds(k.JobStateIs, jobs=st.lists(JOBS, max_size=3).map(tuple),
              state=st.sampled_from(["COMPLETED", "failed", "TIMEOUT", "RUNNING",
                                     "odd"]), **BASE),
    st.builds(k.TimeReached, after_seconds=TIMEOUTS, at=TIMES, **BASE),
    st.builds(k.Approval, on_timeout=st.sampled_from(["hold", "reject"]), **BASE),
    st.builds(k.MaxAttempts, max_attempts=st.integers(0, 3), **BASE),
    st.builds(k.Cooldown, cooldown_seconds=st.floats(0, 300), **BASE),
    st.builds(k.OwnCondition,
              class_path=st.just("autoexp_tui.testing.own_condition:EnoughLines"),
              fields=st.just({"path": "/a", "lines": 1}), **BASE),
    st.builds(k.OwnCondition, class_path=st.just("tests.conditions.own_classes:Later"),
              fields=st.fixed_dictionaries({"at": st.floats(NOW - 100, NOW + 100)}),
              **BASE),
)  # fmt: skip


def _composed(
    parts: st.SearchStrategy[Condition], fewest: int = 0
) -> st.SearchStrategy[Condition]:
    return st.one_of(
        st.builds(k.Composite, mode=st.sampled_from(["all", "any"]),
                  conditions=st.lists(parts, min_size=fewest, max_size=3).map(tuple),
                  **BASE),
        st.builds(k.Not, condition=parts, **BASE),
    )  # fmt: skip


CONDITIONS = st.recursive(SINGLE, _composed, max_leaves=5)
LOOKED_AT_TOGETHER = st.recursive(LOOKED_AT, lambda of: _composed(of, 1), max_leaves=4)
SMALL = st.integers(0, 3)
TEXTS = st.text(max_size=4)
VALUES: dict[type, st.SearchStrategy[f.FactValue]] = {
    f.StatKey: st.builds(f.FileStat, exists=st.booleans(), size=SMALL),
    f.GlobKey: st.builds(f.Matches, paths=st.lists(TEXTS).map(tuple), largest=SMALL),
    f.TextKey: st.builds(f.FileText, text=st.one_of(st.none(), TEXTS)),
    f.LogKey: st.builds(f.LogFound, files=SMALL, matched=SMALL, line=TEXTS, path=TEXTS),
    f.CommandKey: st.builds(f.CommandResult, exit_code=st.one_of(st.none(), SMALL)),
    f.JobKey: st.builds(f.JobFact, state=st.sampled_from(JobState),
                        cause=st.one_of(st.none(), st.sampled_from(Cause)),
                        attempts=SMALL, step=st.one_of(st.none(), SMALL),
                        ended_lived=st.one_of(st.none(), st.floats(NOW - 200, NOW))),
    f.MetadataKey: st.one_of(st.none(), TEXTS, st.just("2")),
    f.MetricKey: st.builds(f.MetricFact, value=st.floats(), step=SMALL),
    f.ApprovalKey: st.builds(f.ApprovalFact,
                             approved=st.sampled_from([None, True, False])),
    f.FiredKey: st.one_of(st.none(), st.floats(NOW - 200, NOW)),
}  # fmt: skip
ANY_VALUE = st.one_of(*VALUES.values())
CONTEXTS = st.builds(
    EvalContext, job=st.just("me"),
    waiting_lived=st.one_of(st.none(), st.floats(NOW - 300, NOW)),
    action=st.just("rule/0"), grace_seconds=st.floats(0, 100),
    asked_lived=st.one_of(st.none(), st.floats(NOW - 300, NOW)),
)  # fmt: skip


ERRORS = st.sampled_from(["", "", "", "gone"])


@st.composite
def situations(
    draw: st.DrawFn, *, fitting: bool = True
) -> tuple[Condition, dict[f.FactKey, f.Fact], EvalContext]:
    """A condition, some of the facts it needs, and for whom it is judged."""
    spec = draw(CONDITIONS)
    ctx = draw(CONTEXTS)
    keys = sorted(needs(spec, ctx.job, ctx.action), key=repr)
    facts: dict[f.FactKey, f.Fact] = {}
    for key in keys:
        if draw(st.integers(0, 3)):
            value = draw(VALUES[type(key)] if fitting else ANY_VALUE)
            facts[key] = f.Fact(value, draw(st.floats(NOW - 200, NOW)), draw(ERRORS))
    return spec, facts, ctx


Situation: TypeAlias = tuple[Condition, Mapping[f.FactKey, f.Fact], EvalContext]


@given(situations(fitting=False))
def test_judging_never_raises(situation: Situation) -> None:
    spec, facts, ctx = situation
    verdict = evaluate(spec, Known(facts), at(NOW), ctx)
    assert verdict.why.code in CODES
    assert sentence(verdict.why, NOW)
    for _, value in verdict.why.args:  # a journal can hold them
        assert isinstance(value, str) or abs(value) < float("inf")


@given(situations(), st.floats(0, 1, exclude_max=True))
def test_only_what_is_needed_is_read_and_nothing_changes_before_its_moment(
    situation: Situation, part: float
) -> None:
    spec, facts, ctx = situation
    seen = Known(facts)
    verdict = evaluate(spec, seen, at(NOW), ctx)
    wake = find_wake(spec, seen, at(NOW), ctx)
    assert seen.asked <= needs(spec, ctx.job, ctx.action)
    assert wake is None or wake > NOW
    end = NOW + 10_000 if wake is None else wake
    later = NOW + (end - NOW) * part
    assert later >= end or evaluate(spec, seen, at(later), ctx) == verdict


OUTSIDE = (f.StatKey, f.GlobKey, f.TextKey, f.LogKey, f.CommandKey)
UNKNOWN_FACTS = st.sampled_from([
    None, f.Fact(None, NOW, "Stale file handle"),
    f.Fact(None, NOW, "no answer from /a", f.Silence("/a", NOW - 42)),
])  # fmt: skip


@given(LOOKED_AT_TOGETHER, CONTEXTS, st.data())
def test_what_nobody_could_look_at_decides_nothing(
    spec: Condition, ctx: EvalContext, data: st.DataObject
) -> None:
    facts: dict[f.FactKey, f.Fact] = {}
    for key in sorted(needs(spec, ctx.job, ctx.action), key=repr):
        inside = not isinstance(key, OUTSIDE)
        strategy = VALUES[type(key)].map(lambda value: f.Fact(value, NOW))
        fact = data.draw(strategy if inside else UNKNOWN_FACTS)
        if fact is not None:
            facts[key] = fact
    assert evaluate(spec, Known(facts), at(NOW + 10_000), ctx).result is Result.WAIT
