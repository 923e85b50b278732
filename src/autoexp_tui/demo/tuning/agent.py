"""The agents of the research example: no model, but rules. In the role `research` one
decides what is tried next, which runs are ended and what was learnt, in the role
`fixer` it repairs runs without memory.

A prompt names experiment_state.json, which has in full what the prompt tells: the rules
look there. They import nothing of ours, so that they show what an agent has to go by.
Each study is about one hypothesis. It sees what its runs came to and names the next;
none is a script: rates are bracketed around the best one so far, batches grow until a
warning says that they do not help, and what is to be beaten is what was measured."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

Item: TypeAlias = Mapping[str, Any]
Run: TypeAlias = Mapping[str, Any]

FIRST_RATES: Final = (6e-4, 3e-3)
_FACTOR: Final = 5.0
"""Beyond the best rate, where that is the highest or the lowest of all."""
_NEAR: Final = 2.5
"""A rate that is no farther off than this factor is near enough."""
_BATCHES: Final = (256, 512, 1024, 2048, 4096)
_WIDTHS: Final = (384, 512)
_LONGER: Final = 10 * 64
"""Samples for each step of the base, whose batch is 64, at the rate over `_SLOWER`."""
_SLOWER: Final = 25
_HOPELESS: Final = 0.35
"""So far above the best result no run catches up after two fifths of its steps."""
_WORSE: Final = 0.15
"""Above the best result after more steps than that took."""
_SHORT: Final = 0.25
"""Of a budget: with less left no study goes on."""


class Known:
    """The state file, as the rules ask it."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.metric: str = state["objective"]["metric"]
        self.runs: Mapping[str, Run] = {run["run_id"]: run for run in state["runs"]}
        going = ("running", "queued")
        self.live = [run["run_id"] for run in state["runs"] if run["status"] in going]
        self.listed: Sequence[str] = [one["id"] for one in state["experiment_list"]]
        left = state["budget"]["fraction_remaining"]
        self.is_short = left is not None and left < _SHORT
        notes = "\n".join(note["text"] for note in state["notes"])
        self.dropped = re.findall(r"\bdrop (\w+)", notes, re.IGNORECASE)
        """Hypotheses that a person wants no more of: a note says `drop NAME`."""
        keys = [warning["key"].split(":") for warning in state["warnings"]]
        self.falsified = [key[1] for key in keys if key[0] == "hypothesis"]
        calls = state["consultations"]
        refused = [
            it for one in calls for did in one["decided"] for it in did["refused"]
        ]
        ids = [text.split()[1] for text in refused if text.startswith("end ")]
        self.asked = {*ids, *(line["id"] for one in calls for line in one["asked"])}
        """Runs about whose end a person was asked; whatever came of that, not again."""

    def find_ended(self, name: str) -> Run | None:
        """A run, or what repeats it with a fix, once it has ended for good."""
        run = self.runs.get(name)
        while run and (again := self.runs.get(run["fix_relaunch"])):
            run = again
        is_open = run is None or run["run_id"] in self.live or run["fix_relaunch"]
        return None if is_open else run


def get_result(run: Run) -> float:
    """Of a completed run; infinity: it came to nothing."""
    is_done = run["status"] == "completed" and run["result"] is not None
    return float(run["result"]) if is_done else math.inf


def read_override(run: Run, key: str) -> str:
    """Its newest value; empty: it has none."""
    pairs = (text.lstrip("+").partition("=") for text in reversed(run["overrides"]))
    return next((value for name, _, value in pairs if name == key), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    id: str
    """Of its hypothesis; names of its runs begin with it."""
    claim: str
    status: str = "open"
    items: Sequence[Item] = ()
    """What it wants to be tried now, what is tried already included."""
    learnt: str = ""
    is_over: bool = False


def decide(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer to a call."""
    known = Known(state)
    base = find_base(known)
    studies = [_study_rates(known, base)]
    if base is not None:
        makers = (_study_patience, _study_batches, _study_widths)
        studies += [make(known, base) for make in makers]
    studies = [_judge_end(one, known) for one in studies]
    if base is not None and all(one.is_over for one in studies):
        studies.append(_judge_end(_study_repeat(known, base), known))
    closed = tuple(one.id for one in studies if one.is_over)
    kept = [{"id": name} for name in known.listed if not name.startswith(closed)]
    wanted = [item for one in studies if not one.is_over for item in one.items]
    begun = {*known.runs, *known.listed}
    new = [item for item in wanted if item["id"] not in begun]
    decided = (one.id for one in studies if one.status != "open")
    kills = dict(_list_kills(known, base, (*decided, *known.dropped)))
    told = [f"end {name}: {reason}" for name, reason in kills.items()]
    told += [f"try {item['id']}: {item['note']}" for item in new]
    is_busy = kept or known.live
    rest = "to be tried before a run ends" if is_busy else "left to try"
    return {
        "reflection": "\n".join(f"{one.id}: {one.learnt}" for one in studies),
        "hypotheses": [
            {"id": one.id, "description": one.claim, "status": one.status}
            for one in studies
        ],
        "experiment_list": kept + new,
        "kill_runs": [*kills],
        "reasoning": "; ".join(told) or f"Nothing is {rest}.",
    }


def _judge_end(study: Study, known: Known) -> Study:
    """Over once it is decided, and where there is another reason to end it."""
    if study.id in known.dropped:
        return replace(study, is_over=True, learnt="a person wants no more of it")
    if study.status == "open" and known.is_short:
        return replace(study, is_over=True, learnt="the budget is short")
    return replace(study, is_over=study.status != "open")


def find_base(known: Known) -> Run | None:
    """The better of the first two rates, once both have ended: what others change."""
    runs = [known.find_ended(f"rate{spell(rate)}") for rate in FIRST_RATES]
    done = [run for run in runs if run and get_result(run) < math.inf]
    return min(done, key=get_result) if done and None not in runs else None


def _list_kills(
    known: Known, base: Run | None, needless: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Runs that are not worth going on, with the reason."""
    for name in known.live:
        if name in known.asked:
            continue
        if name.startswith(needless):
            yield name, "what it was to tell is decided"
        elif base and (lag := measure_lag(known, base, known.runs[name])) > _WORSE:
            told = f"{lag:.2f} above {base['run_id']} after as many steps"
            yield name, f"{known.metric} is {told}"


def measure_lag(known: Known, base: Run, run: Run) -> float:
    """How far a run is above the base's result after more steps than that took; 0: it
    is not so far, or tells no number."""
    value, step = (run["live_metrics"].get(key) for key in (known.metric, "step"))
    is_late = isinstance(value, float) and step is not None and step > base["step"]
    return value - get_result(base) if is_late else 0.0


# --------------------------------------------------------------------- the hypotheses


def spell(number: float) -> str:
    """Two digits: `3e-3`."""
    digits, exponent = f"{number:.1e}".split("e")
    return f"{digits.removesuffix('.0')}e{int(exponent)}"


def _make_item(
    study: str, name: object, note: str, *overrides: str, **more: Any
) -> Item:
    given = {"hypothesis": study, "overrides": [*overrides], "note": note}
    return {"id": f"{study}{name}", **given, **more}


def _beat(run: Run, known: Known) -> str:
    return f"{known.metric} < {get_result(run):.4g}"


def _study_rates(known: Known, base: Run | None) -> Study:
    names = (*known.runs, *known.listed)
    begun = {name.removeprefix("rate") for name in names if name.startswith("rate")}
    runs = {float(name): known.find_ended(f"rate{name}") for name in begun}
    results = {rate: get_result(run) for rate, run in runs.items() if run}
    status, learnt = "open", "two rates are tried first"
    wanted: Sequence[float] = () if runs else FIRST_RATES
    if base is not None:
        best = min(results, key=results.__getitem__)
        learnt = (
            f"of {len(results)} the best is {spell(best)}, with {results[best]:.4g}"
        )
        if len(results) == len(runs) and not (wanted := choose_rates(results)):
            status = "confirmed" if best == max(results) else "rejected"
    return Study(
        id="rate",
        claim="A higher learning rate converges faster.",
        status=status,
        items=[_make_rate(rate, known, base) for rate in wanted],
        learnt=learnt,
    )


def choose_rates(results: Mapping[float, float]) -> tuple[float, ...]:
    """The rates to try next: on a logarithmic scale the middles of the gaps beside the
    best one, and farther out where it is at an end; none: the gaps are small.

    `results`: rate -> loss, inf for a run that was ended."""
    rates = sorted(results)
    best = min(rates, key=results.__getitem__)
    if best == rates[-1]:
        return (best * _FACTOR,)
    if best == rates[0]:
        return (best / _FACTOR,)
    gaps = [gap for gap in pairwise(rates) if best in gap and gap[1] / gap[0] > _NEAR]
    return tuple(math.sqrt(low * high) for low, high in gaps)


def _make_rate(rate: float, known: Known, base: Run | None) -> Item:
    given = f"lr={spell(rate)}"
    if base is None:
        return _make_item("rate", spell(rate), "one of the first two", given)
    worst, late = get_result(base) + _HOPELESS, 2 * base["step"] // 5
    more = {"kill_criteria": f"{known.metric} > {worst:.4g} after step {late}"}
    if rate > float(read_override(base, "lr")):
        more["expects"] = _beat(base, known)
    else:
        more["hypothesis"] = ""  # what a lower rate comes to says nothing against it
    return _make_item("rate", spell(rate), "beside the best rate", given, **more)


def _study_patience(known: Known, base: Run) -> Study:
    rate = spell(float(read_override(base, "lr")) / _SLOWER)
    given = (f"lr={rate}", f"samples={_LONGER * base['step']}")
    note = f"{base['run_id']} at a small part of its rate, for ten times as long"
    item = _make_item("patience", "", note, *given, expects=_beat(base, known))
    claim = "A low learning rate wins when a run is ten times as long."
    return _conclude("patience", claim, [item], known)


def _study_batches(known: Known, base: Run) -> Study:
    """The next size when the last one has shown something, until a warning fires."""
    rate, beat = f"lr={read_override(base, 'lr')}", _beat(base, known)
    note, items = f"{base['run_id']} with another batch", list[Item]()
    for size in _BATCHES:
        given = (rate, f"batch_size={size}")
        items.append(_make_item("batch", size, note, *given, expects=beat))
        run = known.find_ended(f"batch{size}")
        if run is None or run["status"] == "failed":
            break
    claim = "A larger batch lowers the loss after the same number of samples."
    study = _conclude("batch", claim, items, known)
    is_last = run is not None and run["status"] != "failed"
    is_over = is_last or "batch" in known.falsified
    return study if is_over else replace(study, status="open")


def _study_widths(known: Known, base: Run) -> Study:
    rate, items, before = f"lr={read_override(base, 'lr')}", [], base["run_id"]
    for width in _WIDTHS:
        more = {"baseline_run": before, "depends_on": [before]}
        note, given = f"{before} with a wider layer", (rate, f"hidden={width}")
        items.append(_make_item("width", width, note, *given, **more))
        before = f"width{width}"
    return _conclude("width", "A wider hidden layer lowers the loss.", items, known)


def _study_repeat(known: Known, base: Run) -> Study:
    runs = (run for name, run in known.runs.items() if name != "repeat")
    best = min(runs, key=get_result)
    note, beat = f"{best['run_id']} from another seed", _beat(base, known)
    given = (*best["overrides"], "seed=1")
    item = _make_item("repeat", "", note, *given, expects=beat)
    claim = "What is best is so from another seed, too."
    return _conclude("repeat", claim, [item], known)


def _conclude(study: str, claim: str, items: Sequence[Item], known: Known) -> Study:
    """A study that ends with the last of its runs, or with the first that disappoints
    it."""
    runs = [known.find_ended(item["id"]) for item in items]
    ended = [run for run in runs if run and run["status"] != "failed"]
    is_bad = any(run["met"] is False or run["status"] == "killed" for run in ended)
    status = "confirmed" if len(ended) == len(items) else "open"
    told = [f"{run['run_id']} {run['status']}, {get_result(run):.4g}" for run in ended]
    return Study(
        id=study,
        claim=claim,
        status="rejected" if is_bad else status,
        items=items,
        learnt="; ".join(told).replace(", inf", "") or "nothing yet",
    )


OUTPUT: Final = "_research_output.json"
_STATE: Final = re.compile(r"^Curves of all runs .*: (/.*\.json)$", re.MULTILINE)
_MEMORY: Final = re.compile(
    r"MemoryError: tried to allocate ([\d.]+) MB for a pass over (\d+) contexts, "
    r"beside ([\d.]+) MB for the model; the limit is (\d+) MB"
)


def answer(role: str, prompt: str, directory: Path) -> str:
    """Write the answer into `directory`; raises ValueError for another prompt."""
    made = repair(prompt) if role == "fixer" else decide(read_state(prompt))
    text = json.dumps(made, indent=2, allow_nan=False)
    (directory / OUTPUT).write_text(text + "\n", encoding="utf-8")
    told: str = made["fix_applied"] if role == "fixer" else made["reasoning"]
    return told or "No override helps."


def read_state(prompt: str) -> Mapping[str, Any]:
    """What the file that a prompt names holds; raises ValueError, OSError."""
    if (found := _STATE.search(prompt)) is None:
        raise ValueError("the prompt names no experiment_state.json")
    state: Mapping[str, Any] = json.loads(Path(found[1]).read_bytes())
    return state


def repair(prompt: str) -> Mapping[str, Any]:
    """Smaller passes for a run that had too little memory: its gradient stays the same.
    Nothing for any other failure, and where no pass is small enough."""
    if found := _MEMORY.search(prompt):
        passing, rows, kept, limit = map(float, found.groups())
        kept *= 5 / 4  # the sum of the gradients of the passes
        smaller = rows
        while smaller >= 2 and kept + passing * smaller / rows > limit:
            smaller //= 2
        if kept + passing * smaller / rows <= limit:
            applied = f"passes of {smaller:.0f} contexts in place of {rows:.0f}"
            return {"fix_applied": applied, "overrides": [f"micro_batch={smaller:.0f}"]}
    return {"fix_applied": "", "overrides": []}
