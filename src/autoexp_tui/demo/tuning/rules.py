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

from autoexp_tui.demo.tuning.context import Context, Run

FIRST_RATES: Final = (6e-4, 3e-3)
_FACTOR: Final = 5.0
"""Beyond the best rate, where that is the highest or the lowest of all."""
_NEAR: Final = 2.5
"""A rate that is no farther off than this factor is near enough."""
_BATCHES: Final = (256, 512, 1024, 2048, 4096)
_WIDTHS: Final = (512, 1024)
_LONG: Final = 480_000
"""Samples, three times as many as other runs see."""
_HOPELESS: Final = 0.35
"""So far above the best result no run catches up after two fifths of its steps."""
_WORSE: Final = 0.15
"""Above the best curve at the same step, after a fifth of its steps."""

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


def decide(context: Context) -> Mapping[str, Any]:
    """The answer to a call."""
    base = find_base(context)
    studies = [_study_rates(context, base)]
    if base is not None:
        makers = (_study_patience, _study_batches, _study_widths)
        studies += [make(context, base) for make in makers]
    studies = [_drop(one, context) for one in studies]
    if base is not None and all(one.status != "open" for one in studies):
        studies.append(_drop(_study_repeat(context, base), context))
    closed = tuple(one.id for one in studies if one.status != "open")
    kept = [{"id": name} for name in context.listed if not name.startswith(closed)]
    items = [it for one in studies if one.status == "open" for it in one.items]
    new = [item for item in items if not context.is_begun(item["id"])]
    kills = dict(_list_kills(context, base, closed))
    return {
        "reflection": "\n".join(f"{one.id}: {one.learnt or 'open'}" for one in studies),
        "hypotheses": [
            {"id": one.id, "description": one.claim, "status": one.status}
            for one in studies
        ],
        "experiment_list": kept + new,
        "kill_runs": [*kills],
        "reasoning": _explain(new, kills),
    }


def _explain(new: Sequence[Item], kills: Mapping[str, str]) -> str:
    told = [f"end {name}: {reason}" for name, reason in kills.items()]
    told += [f"try {item['id']}: {item['note']}" for item in new]
    return "; ".join(told) or "Nothing is to be tried before a run ends."


def _drop(study: Study, context: Context) -> Study:
    """Closed, where a person wants no more of it."""
    if study.id not in context.dropped or study.status != "open":
        return study
    return replace(study, status="rejected", learnt="a person wants no more of it")


def find_base(context: Context) -> Run | None:
    """The better of the first two rates, once both have ended: what others change."""
    runs = [context.find_ended(name_rate(rate)) for rate in FIRST_RATES]
    done = [run for run in runs if run is not None and run.result is not None]
    completed = [run for run in done if run.status == "completed"]
    return min(completed, key=_get_result) if completed and None not in runs else None


def _get_result(run: Run) -> float:
    return math.inf if run.result is None else run.result


def _list_kills(
    context: Context, base: Run | None, closed: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Runs that are not worth going on, with the reason."""
    running = [run for run in context.runs.values() if run.status == "running"]
    for run in running:
        if run.hypothesis in closed:
            yield run.id, f"the study {run.hypothesis} is over"
        elif base is not None and (behind := measure_lag(context, base, run)) > _WORSE:
            told = f"{behind:.2f} above {base.id} at the same step"
            yield run.id, f"{context.metric} is {told}"


def measure_lag(context: Context, base: Run, run: Run) -> float:
    """How far a run is above the base's curve at its step; 0: nobody can say."""
    is_other = run.overrides.get("batch_size") != base.overrides.get("batch_size")
    if is_other or run.step is None or run.result is None:
        return 0.0  # their steps are not those of the base
    curve = context.curves.get(base.id, {})
    passed = [step for step in curve if (base.step or 0) // 5 <= step <= run.step]
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
    wanted: Sequence[float] = ()
    known = {
        rate: _get_result(run) if run.status == "completed" else math.inf
        for rate, run in runs.items()
        if run is not None
    }
    is_told = base is not None and len(known) == len(runs)
    if not runs:
        wanted = FIRST_RATES
    elif is_told:
        wanted = choose_rates(known)
    status, learnt = "open", ""
    if known and base is not None:
        best = min(known, key=known.__getitem__)
        learnt = f"best so far {spell(best)} with {known[best]:.4g} of {len(known)}"
        if is_told and not wanted:
            status = "confirmed" if best == max(known) else "rejected"
            learnt += f"; it holds up to {spell(best)}, and no rate near it was better"
    return Study(
        id="rate",
        claim="A higher learning rate converges faster.",
        status=status,
        items=[_make_rate(rate, context, base) for rate in wanted],
        learnt=learnt or "two rates are tried first",
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


def _make_rate(rate: float, context: Context, base: Run | None) -> Item:
    item = {
        "id": name_rate(rate),
        "hypothesis": "rate",
        "overrides": [f"lr={spell(rate)}"],
        "note": "one of the first two" if base is None else "beside the best rate",
    }
    if base is None:
        return item
    late = 2 * (base.step or 0) // 5
    worst = f"{_get_result(base) + _HOPELESS:.4g}"
    item["kill_criteria"] = f"{context.metric} > {worst} after step {late}"
    if rate > float(base.overrides["lr"]):
        item["expects"] = _beat(base, context)
    return item


def _beat(run: Run, context: Context) -> str:
    return f"{context.metric} < {_get_result(run):.4g}"


def _study_patience(context: Context, base: Run) -> Study:
    rate = float(base.overrides["lr"]) / _FACTOR
    item = {
        "id": "patience",
        "hypothesis": "patience",
        "overrides": [f"lr={spell(rate)}", f"samples={_LONG}"],
        "expects": _beat(base, context),
        "note": f"a fifth of the rate of {base.id}, three times its samples",
    }
    claim = "A low learning rate wins when a run is three times as long."
    return _conclude("patience", claim, [item], context)


def _study_batches(context: Context, base: Run) -> Study:
    """The next size when the last one has shown something, until a warning fires."""
    wanted: list[Item] = []
    for size in _BATCHES:
        item: Item = {
            "id": f"batch{size}",
            "hypothesis": "batch",
            "overrides": [f"lr={base.overrides['lr']}", f"batch_size={size}"],
            "expects": _beat(base, context),
            "note": f"{base.id} with another batch",
        }
        wanted.append(item)
        run = context.find_ended(item["id"])
        if run is None or run.status == "failed":
            status, learnt = "open", f"{item['id']} is to tell"
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
    wanted: list[Item] = []
    before = base.id
    for width in _WIDTHS:
        name = f"width{width}"
        wanted.append(
            {
                "id": name,
                "hypothesis": "width",
                "overrides": [f"lr={base.overrides['lr']}", f"hidden={width}"],
                "depends_on": [] if before == base.id else [before],
                "baseline_run": before,
                "note": f"{before} with a wider layer",
            }
        )
        before = name
    claim = "A wider hidden layer lowers the loss."
    return _conclude("width", claim, wanted, context)


def _study_repeat(context: Context, base: Run) -> Study:
    done = [run for run in context.runs.values() if run.status == "completed"]
    best = min((run for run in done if run.id != "repeat"), key=_get_result)
    given = [f"{key}={value}" for key, value in best.overrides.items()]
    item = {
        "id": "repeat",
        "hypothesis": "repeat",
        "overrides": [*given, "seed=1"],
        "expects": _beat(base, context),
        "note": f"{best.id} from another seed",
    }
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
