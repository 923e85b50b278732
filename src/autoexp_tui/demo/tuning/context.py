"""Reads the prompt of a research call, section by section, as the rules need it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

_NUMBER: Final = r"(-?\d[\d.]*(?:[eE][-+]?\d+)?)"
_DETAIL: Final = re.compile(r"^  ([A-Z][\w ]*): (.*)$", re.MULTILINE)
_HEAD: Final = re.compile(r"^(?:→|-) (\S+?):? (.*)$")
_HYPOTHESIS: Final = re.compile(
    r"^- (\S+) \[(\w+)(?:, (\d+) failures? in a row)?\]", re.MULTILINE
)
_ASKED: Final = re.compile(
    r"^  (?:A person is asked|Refused[^:]*): end ([\w.-]+)", re.MULTILINE
)
ASKED: Final = "asked to end: "
"""Begins the line of a reflection with runs about which a person was asked once."""
_DROP: Final = re.compile(r"^ {4}.*\bdrop (\w+)", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    id: str
    status: str
    """running, completed, failed, killed or cancelled."""
    result: float | None = None
    """Of the objective; of a running one, by now."""
    step: int | None = None
    hypothesis: str = ""
    overrides: Mapping[str, str] = field(default_factory=dict)
    is_met: bool | None = None
    fixed_by: str = ""
    """The run that repeats it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    metric: str
    runs: Mapping[str, Run]
    listed: Sequence[str] = ()
    failures: Mapping[str, int] = field(default_factory=dict)
    """Hypothesis -> how often it failed in a row."""
    falsified: Sequence[str] = ()
    """Hypotheses that a warning names."""
    left_percent: int = 100
    """Of the budget of which least is left."""
    dropped: Sequence[str] = ()
    """Hypotheses that a person wants no more of: a note says `drop NAME`."""
    asked: Sequence[str] = ()
    """Runs about whose end a person was asked; whatever came of that, not again."""
    curves: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Run -> step -> the objective."""

    def find(self, name: str) -> Run | None:
        """A run, or what repeats it with a fix."""
        run = self.runs.get(name)
        while run and (again := self.runs.get(run.fixed_by)):
            run = again
        return run

    def is_begun(self, name: str) -> bool:
        return name in self.runs or name in self.listed

    def find_ended(self, name: str) -> Run | None:
        """The same once it has ended for good: not where a fix waits to be run."""
        run = self.find(name)
        is_open = run is None or run.status == "running" or run.fixed_by
        return None if is_open else run


def read_context(prompt: str) -> Context:
    """Raises ValueError: it is no context of a research call."""
    parts = re.split(r"^# (.+)\n", prompt, flags=re.MULTILINE)
    titles = [title.split()[0].strip(",:") for title in parts[1::2]]
    sections = dict(zip(titles, parts[2::2], strict=True))
    if (objective := re.search(r"^(\S+): \w+ is better", prompt, re.MULTILINE)) is None:
        raise ValueError("the context states no objective")
    metric = objective[1]
    runs = {
        run.id: run
        for run in (
            *_read_completed(sections.get("Completed", "")),
            *_read_blocks(sections.get("Failed", ""), metric),
            *_read_blocks(sections.get("Running", ""), metric),
        )
    }
    known = _HYPOTHESIS.findall(sections.get("Hypotheses", ""))
    warned = re.findall(r"^- high: .*$", sections.get("Warnings", ""), re.MULTILINE)
    left = re.findall(r"(\d+) % left$", sections.get("Budget", ""), re.MULTILINE)
    asked = _ASKED.findall(sections.get("What", ""))
    for line in re.findall(rf"^> {ASKED}(.*)$", sections.get("Your", ""), re.MULTILINE):
        asked += line.split()
    named = [re.search(r"the hypothesis (\S+)", line, re.IGNORECASE) for line in warned]
    state = re.search(r": (/.*\.json)$", sections.get("State", ""), re.MULTILINE)
    return Context(
        metric=metric,
        runs=runs,
        listed=re.findall(r"^\d+\. ([\w.-]+)", sections.get("Experiment", ""), re.M),
        failures={name: int(count or 0) for name, _, count in known},
        falsified=[found[1] for found in named if found],
        left_percent=min(map(int, left), default=100),
        dropped=_DROP.findall(sections.get("Notes", "")),
        asked=[*dict.fromkeys(asked)],
        curves=_read_curves(Path(state[1]), metric) if state else {},
    )


def _read_completed(section: str) -> Iterator[Run]:
    for line in section.splitlines():
        cells = line.split(" | ")
        if len(cells) == 7 and cells[0] != "run":
            name, result, step, _, met, hypothesis, given = cells
            yield Run(
                id=name,
                status="completed",
                result=_read_number(result),
                step=int(step) if step.isdigit() else None,
                hypothesis=hypothesis,
                overrides=_read_overrides(given),
                is_met={"yes": True, "no": False}.get(met),
            )


def _read_blocks(section: str, metric: str) -> Iterator[Run]:
    """Of runs that go on, or that did not complete: a line, and details below it."""
    for block in re.split(r"^(?=(?:→|-) )", section, flags=re.MULTILINE):
        if (head := _HEAD.match(block.partition("\n")[0])) is None:
            continue
        name, told = head.groups()
        details = dict(_DETAIL.findall(block))
        is_running = block.startswith("→")
        at = details.get("Progress", "") if is_running else told
        what = rf"\b{re.escape(metric)}" if is_running else r"\bresult"
        value = re.search(rf"{what} {_NUMBER}", at)
        step = re.search(r"\bstep (\d+)", at)
        again = re.search(r", as (\S+)$", details.get("Fixed", ""))
        yield Run(
            id=name,
            status="running" if is_running else told.split()[0],
            result=float(value[1]) if value else None,
            step=int(step[1]) if step else None,
            hypothesis=details.get("Hypothesis", "").partition(":")[0],
            overrides=_read_overrides(details.get("Overrides", "")),
            fixed_by=again[1] if again else "",
        )


def _read_overrides(text: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in text.split() if "=" in word)
    return {key.lstrip("+"): value for key, _, value in pairs}


def _read_number(text: str) -> float | None:
    return float(text) if re.fullmatch(_NUMBER, text) else None


def _read_curves(path: Path, metric: str) -> dict[str, dict[int, float]]:
    """Of experiment_state.json, where it can be read."""
    try:
        runs: list[dict[str, Any]] = json.loads(path.read_bytes())["runs"]
    except (OSError, ValueError, KeyError):
        return {}
    return {
        run["run_id"]: {
            point["step"]: point[metric]
            for point in run["metrics_history"]
            if isinstance(point.get(metric), float)
        }
        for run in runs
    }
