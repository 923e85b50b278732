"""What is tried next, which runs are ended, and what was learnt: rules over a context.

Each study is about one hypothesis. It sees what its runs came to and names the next;
none is a script: rates are bracketed around the best one so far, batches grow until a
warning says that they do not help, and what is to be beaten is what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, TypeAlias

from autoexp_tui.demo.tuning.context import ASKED, Context, Run

FIRST_RATES: Final = (6e-4, 3e-3)
_FACTOR: Final = 5.0
"""Beyond the best rate, where that is the highest or the lowest of all."""
_NEAR: Final = 2.5
"""A rate that is no farther off than this factor is near enough."""
_BATCHES: Final = (256, 512, 1024, 2048, 4096)
_WIDTHS: Final = (384, 512)
_BATCH: Final = 64
"""Of the config, where a run has no other."""
_LONGER: Final = 10
"""Times the samples of other runs, at the rate over `_SLOWER`."""
_SLOWER: Final = 25
_HOPELESS: Final = 0.35
"""So far above the best result no run catches up after two fifths of its steps."""
_WORSE: Final = 0.15
"""Above the best curve at the same step, after a fifth of its steps."""

_SHORT: Final = 25
"""Percent of a budget: with less left no study goes on."""
_NOTHING: Final = (
    "Nothing is left to try.",
    "Nothing is to be tried before a run ends.",
)

Item: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    id: str
    """Of its hypothesis; names of its runs begin with it."""
    claim: str
    status: str = "open"
    items: Sequence[Item] = ()
    """What it wants to be tried now, what is tried already included."""
    learnt: str = ""
    is_left: bool = False
    """Whether it ends without a result."""

    @property
    def is_over(self) -> bool:
        return self.is_left or self.status != "open"


def decide(context: Context) -> Mapping[str, Any]:
    """The answer to a call."""
    base = find_base(context)
    studies = [_study_rates(context, base)]
    if base is not None:
        makers = (_study_patience, _study_batches, _study_widths)
        studies += [make(context, base) for make in makers]
    studies = [_leave(one, context) for one in studies]
    if base is not None and all(one.is_over for one in studies):
        studies.append(_study_repeat(context, base))
    closed = tuple(one.id for one in studies if one.is_over)
    kept = [{"id": name} for name in context.listed if not name.startswith(closed)]
    items = [item for one in studies if not one.is_over for item in one.items]
    new = [item for item in items if not context.is_begun(item["id"])]
    decided = tuple(one.id for one in studies if one.status != "open")
    needless = decided + tuple(context.dropped)
    kills = dict(_list_kills(context, base, needless))
    is_busy = kept or any(run.status == "running" for run in context.runs.values())
    thoughts = [f"{one.id}: {one.learnt}" for one in studies]
    thoughts += [ASKED + " ".join(context.asked)] if context.asked else []
    return {
        "reflection": "\n".join(thoughts),
        "hypotheses": [
            {"id": one.id, "description": one.claim, "status": one.status}
            for one in studies
        ],
        "experiment_list": kept + new,
        "kill_runs": [*kills],
        "reasoning": _explain(new, kills) or _NOTHING[bool(is_busy)],
    }


def _explain(new: Sequence[Item], kills: Mapping[str, str]) -> str:
    told = [f"end {name}: {reason}" for name, reason in kills.items()]
    told += [f"try {item['id']}: {item['note']}" for item in new]
    return "; ".join(told)


def _leave(study: Study, context: Context) -> Study:
    """Over, though nothing is decided, where a person wants no more of it, or where
    what is left of a budget is for the last word alone."""
    if study.id in context.dropped:
        return replace(study, is_left=True, learnt="a person wants no more of it")
    if context.left_percent < _SHORT and not study.is_over:
        return replace(study, is_left=True, learnt="the budget is short")
    return study


def find_base(context: Context) -> Run | None:
    """The better of the first two rates, once both have ended: what others change."""
    runs = [context.find_ended(name_rate(rate)) for rate in FIRST_RATES]
    done = [run for run in runs if run is not None and run.result is not None]
    completed = [run for run in done if run.status == "completed"]
    return min(completed, key=_get_result) if completed and None not in runs else None


def _get_result(run: Run) -> float:
    return math.inf if run.result is None else run.result


def _list_kills(
    context: Context, base: Run | None, needless: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Runs that are not worth going on, with the reason."""
    running = [run for run in context.runs.values() if run.status == "running"]
    for run in running:
        if run.id in context.asked:
            continue
        if run.id.startswith(needless):
            yield run.id, "what it was to tell is decided"
        elif base is not None and (behind := measure_lag(context, base, run)) > _WORSE:
            told = f"{behind:.2f} above {base.id} at the same step"
            yield run.id, f"{context.metric} is {told}"


def measure_lag(context: Context, base: Run, run: Run) -> float:
    """How far a run is above the base's curve at its step; 0: nobody can say."""
    is_other = run.overrides.get("batch_size") != base.overrides.get("batch_size")
    if is_other or run.step is None or run.result is None:
        return 0.0  # their steps are not those of the base
    curve = context.curves.get(base.id, {})
    # What is measured at the very step that it is at may not be told yet.
    passed = [step for step in curve if (base.step or 0) // 5 <= step < run.step]
    return run.result - curve[max(passed)] if passed else 0.0


# --------------------------------------------------------------------- the hypotheses


def name_rate(rate: float) -> str:
    return f"rate{spell(rate)}"


def spell(number: float) -> str:
    """Two digits: `3e-3`."""
    digits, exponent = f"{number:.1e}".split("e")
    return f"{digits.removesuffix('.0')}e{int(exponent)}"


def _study_rates(context: Context, base: Run | None) -> Study:
    names = (*context.runs, *context.listed)
    begun = {name.removeprefix("rate") for name in names if name.startswith("rate")}
    runs = {float(name): context.find_ended(f"rate{name}") for name in begun}
    known = {
        rate: _get_result(run) if run.status == "completed" else math.inf
        for rate, run in runs.items()
        if run is not None
    }
    status, learnt = "open", "two rates are tried first"
    wanted: Sequence[float] = () if runs else FIRST_RATES
    if base is not None:
        best = min(known, key=known.__getitem__)
        learnt = f"of {len(known)} the best is {spell(best)}, with {known[best]:.4g}"
        if len(known) == len(runs):
            wanted = choose_rates(known)
            end = "confirmed" if best == max(known) else "rejected"
            status = status if wanted else end
    return Study(
        id="rate",
        claim="A higher learning rate converges faster.",
        status=status,
        items=[_make_rate(rate, context, base) for rate in wanted],
        learnt=learnt,
    )


def choose_rates(known: Mapping[float, float]) -> tuple[float, ...]:
    """The rates to try next: on a logarithmic scale the middles of the gaps beside the
    best one, and farther out where it is at an end; none: the gaps are small.

    `known`: rate -> loss, inf for a run that was ended."""
    rates = sorted(known)
    best = min(rates, key=known.__getitem__)
    if best == rates[-1]:
        return (best * _FACTOR,)
    if best == rates[0]:
        return (best / _FACTOR,)
    gaps = [gap for gap in pairwise(rates) if best in gap and gap[1] / gap[0] > _NEAR]
    return tuple(math.sqrt(low * high) for low, high in gaps)


def _make_item(study: str, name: str, note: str, *overrides: str, **more: Any) -> Item:
    given = {"hypothesis": study, "overrides": [*overrides], "note": note}
    return {"id": f"{study}{name}", **given, **more}


def _make_rate(rate: float, context: Context, base: Run | None) -> Item:
    given = f"lr={spell(rate)}"
    if base is None:
        return _make_item("rate", spell(rate), "one of the first two", given)
    late = 2 * (base.step or 0) // 5
    worst = f"{_get_result(base) + _HOPELESS:.4g}"
    more = {"kill_criteria": f"{context.metric} > {worst} after step {late}"}
    if rate > float(base.overrides["lr"]):
        more["expects"] = _beat(base, context)
    else:
        more["hypothesis"] = ""  # what a lower rate comes to says nothing against it
    return _make_item("rate", spell(rate), "beside the best rate", given, **more)


def _beat(run: Run, context: Context) -> str:
    return f"{context.metric} < {_get_result(run):.4g}"


def _study_patience(context: Context, base: Run) -> Study:
    rate = spell(float(base.overrides["lr"]) / _SLOWER)
    samples = _LONGER * _BATCH * (base.step or 0)
    note = f"{base.id} at a small part of its rate, with {_LONGER} times its samples"
    given, beat = (f"lr={rate}", f"samples={samples}"), _beat(base, context)
    item = _make_item("patience", "", note, *given, expects=beat)
    claim = "A low learning rate wins when a run is ten times as long."
    return _conclude("patience", claim, [item], context)


def _study_batches(context: Context, base: Run) -> Study:
    """The next size when the last one has shown something, until a warning fires."""
    rate, beat = f"lr={base.overrides['lr']}", _beat(base, context)
    wanted: list[Item] = []
    for size in _BATCHES:
        note, given = f"{base.id} with another batch", (rate, f"batch_size={size}")
        wanted.append(_make_item("batch", f"{size}", note, *given, expects=beat))
        run = context.find_ended(f"batch{size}")
        if run is None or run.status == "failed":
            status, learnt = "open", f"batch{size} is to tell"
            break
    else:
        status = "confirmed" if run and run.is_met else "rejected"
        learnt = "the largest was tried"
    if "batch" in context.falsified:
        count = context.failures.get("batch", 0)
        status, learnt = "rejected", f"given up: warned of {count} failures in a row"
    claim = "A larger batch lowers the loss after the same number of samples."
    return Study(id="batch", claim=claim, status=status, items=wanted, learnt=learnt)


def _study_widths(context: Context, base: Run) -> Study:
    rate, wanted, before = f"lr={base.overrides['lr']}", list[Item](), base.id
    for width in _WIDTHS:
        more = {"baseline_run": before, "depends_on": [before]}
        note, given = f"{before} with a wider layer", (rate, f"hidden={width}")
        wanted.append(_make_item("width", f"{width}", note, *given, **more))
        before = f"width{width}"
    claim = "A wider hidden layer lowers the loss."
    return _conclude("width", claim, wanted, context)


def _study_repeat(context: Context, base: Run) -> Study:
    done = [run for run in context.runs.values() if run.status == "completed"]
    best = min((run for run in done if run.id != "repeat"), key=_get_result)
    given = [f"{key}={value}" for key, value in best.overrides.items()]
    note, beat = f"{best.id} from another seed", _beat(base, context)
    item = _make_item("repeat", "", note, *given, "seed=1", expects=beat)
    claim = "What is best is so from another seed, too."
    return _conclude("repeat", claim, [item], context)


def _conclude(name: str, claim: str, items: Sequence[Item], context: Context) -> Study:
    """A study that ends with the last of its runs, or with the first that disappoints
    it."""
    runs = [context.find_ended(item["id"]) for item in items]
    ended = [run for run in runs if run is not None and run.status != "failed"]
    bad = [run for run in ended if run.is_met is False or run.status == "killed"]
    status = "confirmed" if len(ended) == len(items) else "open"
    told = ", ".join(f"{run.id} {_tell(run)}" for run in ended)
    return Study(
        id=name,
        claim=claim,
        status="rejected" if bad else status,
        items=items,
        learnt=told or "nothing yet",
    )


def _tell(run: Run) -> str:
    return (
        f"came to {_get_result(run):.4g}" if run.status == "completed" else run.status
    )
