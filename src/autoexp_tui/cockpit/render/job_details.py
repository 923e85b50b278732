"""How a job was made, in pages: overrides, config, script; of one job, or of two."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.spans import Line, Role, Span, line, outside, render_pairs
from autoexp_tui.cockpit.state.parameters import find_planned, format_value
from autoexp_tui.model.masking import MaskRules, mask_override, mask_value
from autoexp_tui.planning.job_details import Entry, JobDetails, Origin
from autoexp_tui.sweep.points import STAGE_KEYS
from autoexp_tui.text.spelling import duration, plural

if TYPE_CHECKING:
    from autoexp_tui.model.specs import JobSpec, Plan

_ORIGINS: Final[dict[Origin, Role]] = {
    "changed": "warning",
    "swept": "accent",
    "override": "warning",
    "ours": "muted",
    "computed": "muted",
    "file": "muted",
}
_ROLES: Final[dict[str, Role]] = {"+": "done", "-": "failed", "@": "accent"}
"""By the first character of a line of a unified diff."""
_SET: Final = frozenset({"changed", "swept", "override"})
"""Origins of values that somebody chose for this run."""
_WIDEST_KEY: Final = 48
_WIDEST_ORIGIN: Final = max(map(len, _ORIGINS))
_LONG: Final = 4000
"""Characters of one value, or line of a script."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a reader: what it is called, its lines."""

    title: str
    lines: tuple[Line, ...]


def build_pages(
    plan: Plan, jobs: Sequence[JobSpec], details: Sequence[JobDetails] = ()
) -> tuple[Page, ...]:
    """How one job is made, or what differs between two; without details what the plan
    tells, until they are read."""
    known = details or [JobDetails()] * len(jobs)
    if len(jobs) == 2:
        first, second = zip(jobs, known, strict=True)
        pages = _build_diff_pages(first, second, plan.mask)
    else:
        pages = (
            Page("Overrides", tuple(_render_overrides(plan, jobs[0]))),
            Page("Config", tuple(_render_config(known[0]))),
            Page("Script", tuple(_render_texts(known[0].script))),
        )
    if details:
        return pages
    reading = ((Span("It is being read.", "muted"),),)
    return (pages[0], Page("Config", reading), Page("Script", reading))


def _render_overrides(plan: Plan, job: JobSpec) -> Iterator[Line]:
    mask, swept = plan.mask, job.parameters
    if job.planned is not None:  # what the sweep says, whatever it runs with by now
        planned = (one.parameters for one in plan.jobs if one.name == job.name)
        swept = next(planned, {})
    values = {key: mask_value(key, value, mask) for key, value in swept.items()}
    pairs = [(key, format_value(value)) for key, value in values.items()]
    sections = [("Swept", "as written in the sweep", pairs)]
    if job.planned is not None:
        changed = []
        for key, value in job.own_values.items():
            before = mask_value(key, find_planned(job, key), mask)
            text = f"{format_value(mask_value(key, value, mask))}  (planned: {before})"
            changed.append((key, text))
        sections.append(("Changed", "it runs with these values", changed))
    for title, note, overrides in (
        ("Overrides", "as Hydra gets them", job.overrides),
        ("Of the command line", "for every job", plan.overrides),
    ):
        pairs = [(mask_override(one, mask), "") for one in overrides]
        sections.append((title, note, pairs))
    sections.append(("Asks for", "", list(_list_resources(job))))
    about = f"stage {job.stage or '-'}, family {job.family or '-'}, index {job.index}"
    yield (Span(outside(job.name, 2000), "strong"),)
    yield (Span(outside(about, 2000), "muted"),)
    for title, note, pairs in sections:
        yield ()
        yield line(Span(title, "title"), Span(f"  {note}" if note else "", "muted"))
        shown = [(outside(key, _LONG), outside(one, _LONG)) for key, one in pairs]
        yield from render_pairs(shown or [("nothing", "")], "  ", _WIDEST_KEY)


def _list_resources(job: JobSpec) -> Iterator[tuple[str, str]]:
    needs = job.resources
    limit = needs.time_limit_seconds
    yield "time limit", "none" if limit is None else duration(limit)
    yield "gpus", str(needs.gpus)
    for key, option in sorted(needs.options.items()):
        yield f"--{key}", format_value(option)
    yield "output", job.output_dir


def _render_config(details: JobDetails) -> Iterator[Line]:
    if details.missing:
        yield (Span(details.missing, "warning"),)
        return
    counts = Counter(one.origin for one in details.entries)
    origins = ", ".join(f"{counts[one]} {one}" for one in _ORIGINS if counts[one])
    yield (Span(f"{plural(len(details.entries), 'key')}: {origins}", "muted"),)
    yield ()
    pairs = ((outside(one.key), _render_entry(one)) for one in details.entries)
    yield from render_pairs(pairs, "", _WIDEST_KEY)


def _render_entry(entry: Entry) -> Line:
    """Who set a key, to what, and how that is written."""
    role: Role = "strong" if entry.origin in _SET else "text"
    written = f"  {outside(entry.written, _LONG)}" if entry.written else ""
    return (
        Span(f"{entry.origin:<{_WIDEST_ORIGIN}}  ", _ORIGINS[entry.origin]),
        Span(outside(entry.value, _LONG), role),
        Span(written, "muted"),
    )


def _render_texts(lines: Iterable[str]) -> Iterator[Line]:
    return ((Span(outside(text, _LONG)),) for text in lines)


def _build_diff_pages(
    first: tuple[JobSpec, JobDetails],
    second: tuple[JobSpec, JobDetails],
    rules: MaskRules,
) -> tuple[Page, ...]:
    """Each page says so when nothing differs."""
    (one, mine), (other, yours) = first, second
    names = (outside(one.name), outside(other.name))
    missing = mine.missing or yours.missing
    config = Page("Config", ((Span(missing, "warning"),),))
    if not missing:
        sides = [
            [f"{entry.key}: {entry.value}" for entry in details.entries]
            for details in (mine, yours)
        ]
        # Keys are whole paths: lines around a change would say nothing more.
        config = _build_diff("Config", names, *sides, around=0)
    swept = (_describe_sweep(job, rules) for job in (one, other))
    script = _build_diff("Script", names, mine.script, yours.script)
    return (_build_diff("Overrides", names, *swept), config, script)


def _describe_sweep(job: JobSpec, rules: MaskRules) -> Sequence[str]:
    """What the sweep says of a job, and what it asks for, by lines."""
    parameters = [
        f"{key}: {format_value(mask_value(key, value, rules))}"
        for key, value in job.parameters.items()
        if key not in STAGE_KEYS
    ]
    return [
        f"stage: {job.stage}",
        *parameters,
        *(f"override {mask_override(text, rules)}" for text in job.overrides),
        *(f"{key}: {value}" for key, value in _list_resources(job)),
    ]


def _build_diff(
    title: str, names: tuple[str, str], *sides: Sequence[str], around: int = 2
) -> Page:
    before, after = ([outside(text, _LONG) for text in side] for side in sides)
    lines = difflib.unified_diff(before, after, *names, lineterm="", n=around)
    shown = [text for text in lines if around or not text.startswith("@@")]
    if not shown:
        return Page(f"{title} (alike)", ((Span("Nothing differs here.", "muted"),),))
    changed = sum(text[:1] in "+-" for text in shown) - 2
    return Page(
        f"{title} ({plural(changed, 'line')})",
        tuple((Span(text, _ROLES.get(text[:1], "text")),) for text in shown),
    )
