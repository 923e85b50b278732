"""How a job was made, in pages: overrides, config, script; of one job, or of two."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from autoexp_tui.cockpit.spans import Line, Role, Span, fit, line, outside
from autoexp_tui.cockpit.state.parameters import find_planned, format_value
from autoexp_tui.model.masking import NO_RULES, MaskRules, mask_override, mask_value
from autoexp_tui.model.wording import duration, plural
from autoexp_tui.planning.job_details import JobDetails
from autoexp_tui.sweep.points import STAGE_KEYS

if TYPE_CHECKING:
    from autoexp_tui.model.specs import JobSpec, Plan
    from autoexp_tui.planning.job_details import Entry, Origin


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


def build_known_pages(plan: Plan, jobs: Sequence[JobSpec]) -> tuple[Page, ...]:
    """The pages of one job or of two before their papers are read."""
    nothing = JobDetails()
    pages = (
        build_diff_pages((jobs[0], nothing), (jobs[1], nothing))
        if len(jobs) == 2
        else build_pages(plan, jobs[0], nothing)
    )
    told = ((Span("It is being read.", "muted"),),)
    return (pages[0], Page("Config", told), Page("Script", told))


# --------------------------------------------------------------------------- one job
def build_pages(plan: Plan, job: JobSpec, papers: JobDetails) -> tuple[Page, ...]:
    """What a person may want to read of how one job is made."""
    return (
        Page("Overrides", tuple(_overrides(plan, job))),
        Page("Config", tuple(_config(papers))),
        Page("Script", _texts(papers.script)),
    )


def _overrides(plan: Plan, job: JobSpec) -> Iterable[Line]:
    yield (Span(outside(job.name, 2000), "strong"),)
    about = [f"stage {outside(job.stage)}"] if job.stage else []
    about += [f"family {outside(job.family)}"] if job.family else []
    yield (Span(", ".join([*about, f"index {job.index}"]), "muted"),)
    yield ()
    yield (Span("Swept", "title"), Span("  as written in the sweep", "muted"))
    yield from _pairs(
        (key, format_value(mask_value(key, value, plan.mask)))
        for key, value in _swept(plan, job).items()
    )
    yield ()
    yield from _changed(job, plan.mask)
    yield (Span("Overrides", "title"), Span("  as Hydra gets them", "muted"))
    yield from _texts(_mask_overrides(job.overrides, plan))
    yield ()
    yield (Span("Of the command line", "title"), Span("  for every job", "muted"))
    yield from _texts(_mask_overrides(plan.overrides, plan))
    yield ()
    yield (Span("Asks for", "title"),)
    yield from _pairs(_resources(job))


def _mask_overrides(overrides: Sequence[str], plan: Plan) -> Sequence[str]:
    return [f"  {mask_override(one, plan.mask)}" for one in overrides] or ["  none"]


def _swept(plan: Plan, job: JobSpec) -> Mapping[str, object]:
    """What the sweep says of a job, whatever it runs with by now."""
    if job.planned is None:
        return job.parameters
    return next((one.parameters for one in plan.jobs if one.name == job.name), {})


def _changed(job: JobSpec, rules: MaskRules) -> Iterable[Line]:
    """What the job runs with instead of the plan's values."""
    if job.planned is None:
        return
    yield (Span("Changed", "title"), Span("  it runs with these values", "muted"))
    yield from _pairs(
        (
            key,
            f"{format_value(mask_value(key, value, rules))}  "
            f"(planned: {mask_value(key, find_planned(job, key), rules)})",
        )
        for key, value in job.own_values.items()
    )
    yield ()


def _resources(job: JobSpec) -> Iterable[tuple[str, str]]:
    needs = job.resources
    limit = needs.time_limit_seconds
    yield "time limit", "none" if limit is None else duration(limit)
    yield "gpus", str(needs.gpus)
    for key, option in sorted(needs.options.items()):
        yield f"--{key}", format_value(option)
    yield "output", job.output_dir


def _pairs(pairs: Iterable[tuple[str, str]]) -> Iterable[Line]:
    shown = [(outside(key), outside(value, _LONG)) for key, value in pairs]
    cells = min(_WIDEST_KEY, max((cell_len(key) for key, _ in shown), default=0))
    for key, value in shown:
        yield line(Span(f"  {fit(key, max(cells, cell_len(key)))}  ", "muted"), value)
    if not shown:
        yield (Span("  nothing", "muted"),)


def _config(papers: JobDetails) -> Iterable[Line]:
    if papers.missing:
        yield (Span(papers.missing, "warning"),)
        return
    yield (Span(_origins(papers.entries), "muted"),)
    yield ()
    keys = [outside(one.key) for one in papers.entries]
    column = min(_WIDEST_KEY, max(map(cell_len, keys), default=0))
    for one, key in zip(papers.entries, keys, strict=True):
        yield _entry(one, _at_least(key, column))


def _entry(one: Entry, key: str) -> Line:
    told: Role = "strong" if one.origin in _SET else "text"
    written = f"  {outside(one.written, _LONG)}" if one.written else ""
    return line(
        Span(f"{key}  ", "muted"),
        Span(f"{one.origin:<{_WIDEST_ORIGIN}}  ", _ORIGINS[one.origin]),
        Span(outside(one.value, _LONG), told),
        Span(written, "muted"),
    )


def _origins(entries: Sequence[Entry]) -> str:
    """`212 keys: 3 swept, 1 override, 208 file`."""
    counts = dict.fromkeys(_ORIGINS, 0)
    for one in entries:
        counts[one.origin] += 1
    told = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    return f"{plural(len(entries), 'key')}: {told}"


def _at_least(text: str, cells: int) -> str:
    return text if cell_len(text) > cells else fit(text, cells)


def _texts(lines: Sequence[str]) -> tuple[Line, ...]:
    return tuple((Span(outside(text, _LONG)),) for text in lines)


# --------------------------------------------------------------------------- two jobs
Told = tuple["JobSpec", "JobDetails"]


def build_diff_pages(
    first: Told, second: Told, rules: MaskRules = NO_RULES
) -> tuple[Page, ...]:
    """What differs between two jobs, page by page; each says so when nothing does."""
    (one, mine), (other, yours) = first, second
    names = (one.name, other.name)
    return (
        _differs("Overrides", names, (_sweep(one, rules), _sweep(other, rules))),
        _config_differs(names, mine, yours),
        _differs("Script", names, (mine.script, yours.script)),
    )


def _sweep(job: JobSpec, rules: MaskRules) -> Sequence[str]:
    """What the sweep says of a job, and what it asks for, by lines."""
    parameters = [
        f"{key}: {format_value(mask_value(key, value, rules))}"
        for key, value in job.parameters.items()
        if key not in STAGE_KEYS
    ]
    asked = [f"{key}: {value}" for key, value in _resources(job)]
    return [
        f"stage: {job.stage}",
        *parameters,
        *(f"override {mask_override(text, rules)}" for text in job.overrides),
        *asked,
    ]


def _config_differs(
    names: tuple[str, str], mine: JobDetails, yours: JobDetails
) -> Page:
    missing = mine.missing or yours.missing
    if missing:
        return Page("Config", ((Span(missing, "warning"),),))
    sides = tuple(
        [f"{one.key}: {one.value}" for one in papers.entries]
        for papers in (mine, yours)
    )
    # Keys are whole paths: lines around a change would say nothing more.
    return _differs("Config", names, (sides[0], sides[1]), around=0)


def _differs(
    title: str,
    names: tuple[str, str],
    sides: tuple[Sequence[str], Sequence[str]],
    *,
    around: int = 2,
) -> Page:
    before, after = ([outside(text, _LONG) for text in side] for side in sides)
    first, second = (outside(name) for name in names)
    lines = difflib.unified_diff(before, after, first, second, lineterm="", n=around)
    shown = [text for text in lines if around or not text.startswith("@@")]
    if not shown:
        return Page(f"{title} (alike)", ((Span("Nothing differs here.", "muted"),),))
    changed = sum(text[:1] in "+-" for text in shown) - 2
    return Page(
        f"{title} ({plural(changed, 'line')})",
        tuple((Span(text, _ROLES.get(text[:1], "text")),) for text in shown),
    )
