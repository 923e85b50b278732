"""How one plan differs from another: jobs, their parameters, configs and waits.

What differs between recorded configs is asked of whoever keeps them. Jobs are matched
by name, by fingerprint, and by what they do. A path or a name that differs because the
job or the output directory was renamed is no difference. In words alike changes are
told once and counted; everything from a plan is cleaned in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from autoexp_tui.model.masking import mask_override, mask_value
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.as_json import condition_to_json, json_safe
from autoexp_tui.planning.job_config import format_canonical
from autoexp_tui.sweep.points import NOTES, plain_key
from autoexp_tui.text.plain_tree import ABSENT, flatten, map_texts
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import fit, format_yaml_value, plural

_NAME: Final = "project.name"
_NOT_PARAMETERS: Final = frozenset(
    {"start_conditions", "cancel_conditions", "start_condition_cmd", NOTES}
)
"""Compared as conditions, resolved; or notes, which change nothing."""
_NUMBERED: Final = frozenset({"index", "family", "sweep", "_refs"})
"""Top-level keys of a config that another job before this one changes."""


class ValueChange(NamedTuple):
    """One value that differs, by its dotted key; `ABSENT` where there is none."""

    key: str
    old: object = ABSENT
    new: object = ABSENT


Values: TypeAlias = Mapping[str, object]
Tree: TypeAlias = dict[str, Any]
"""What scripts read of a difference, or of a part of it."""
ConfigDiff: TypeAlias = Callable[[str, str], Iterable[ValueChange] | None]
"""Names of an old and a new job -> what differs in their recorded resolved configs;
None: not both are recorded."""
_PARTS: Final = ("parameters", "config", "conditions", "other")
"""Parameters; keys of the resolved config that no parameter sets by the same name;
conditions; command, environment and resources, where no key above tells of them."""
_ALONE: Final = ("added", "removed")
_DIFFERING: Final = ("plan", *_ALONE, "renamed", "changed", "alike")


def is_different(found: Tree) -> bool:
    return any(found[part] for part in _DIFFERING) or found["counts"]["unseen"] > 0


def diff_plans(
    old: Plan, new: Plan, diff_configs: ConfigDiff = lambda *_: None
) -> Tree:
    """How `new` differs from `old`, as scripts read it: nothing folded, and what is
    absent has no key. Without `diff_configs`, no config is recorded."""
    return _PlanComparison(old, new, diff_configs).diff()


class _PlanComparison:
    def __init__(self, old: Plan, new: Plan, diff_configs: ConfigDiff) -> None:
        self._old, self._new = old, new
        self._diff_configs = diff_configs
        self._pairs, self._gone, self._come = _match_jobs(old, new)
        self._renames = {a.name: b.name for a, b in self._pairs if a.name != b.name}
        self._befores: list[dict[str, dict[tuple[str, str], str]]] = [{}, {}]
        """Of both plans: job -> how it waits, for whom by the new name -> for whom."""
        renames: tuple[Mapping[str, str], ...] = (self._renames, {})
        for plan, befores, names in zip(
            (old, new), self._befores, renames, strict=True
        ):
            for edge in plan.edges:
                key = (edge.mode, names.get(edge.before, edge.before))
                befores.setdefault(edge.after, {})[key] = edge.before
        self._stages = [{j.name: j.stage for j in plan.jobs} for plan in (old, new)]

    def diff(self) -> Tree:
        """`without_config`: jobs that do other work by their fingerprints, with no
        record of what differs; `unseen`: those of which nothing else differs."""
        alike: dict[str, list[Tree]] = {}
        changed, renamed = list[Tree](), list[Tree]()
        same = without_config = unseen = 0
        for old, new in self._pairs:
            recorded = self._diff_configs(old.name, new.name)
            is_unknown = recorded is None and old.fingerprint != new.fingerprint
            change = self._diff_job(old, new, recorded or ())
            is_changed = any(change[part] for part in (*_PARTS, "edges"))
            without_config += is_unknown
            if is_changed:
                likeness = self._find_likeness(change, old, new)
                alike.setdefault(likeness, []).append(change)
                changed.append(change)
            if old.name != new.name:
                renamed.append({"from": old.name, "to": new.name})
            elif not is_changed:
                unseen += is_unknown
                same += not is_unknown
        parts: Tree = {
            "plan": list(map(_change_to_json, _diff_wholes(self._old, self._new))),
            "added": self._group_only(self._come, self._old, "new"),
            "removed": self._group_only(self._gone, self._new, "old"),
            "renamed": renamed,
            "changed": changed,
            "alike": [
                {"jobs": [job["name"] for job in jobs], "text": _format_changed(jobs)}
                for jobs in alike.values()
            ],
        }
        counts = {
            **{part: sum(len(one["jobs"]) for one in parts[part]) for part in _ALONE},
            **{part: len(parts[part]) for part in ("renamed", "changed")},
            "same": same,
            "without_config": without_config,
            "unseen": unseen,
        }
        tree: Any = json_safe({"version": 1, "counts": counts, **parts})
        return dict(tree)

    def _diff_job(
        self, old: JobSpec, new: JobSpec, recorded: Iterable[ValueChange]
    ) -> Tree:
        texts = {old.output_dir: new.output_dir, old.log_dir: new.log_dir}
        texts |= {
            _find_root(old.output_dir, old.name): _find_root(new.output_dir, new.name),
            _find_root(old.log_dir, old.name): _find_root(new.log_dir, new.name),
        }
        names = (old.name, *old.depends_on)
        texts |= {one: self._renames[one] for one in names if one in self._renames}
        rename = _build_renamer(texts)

        def keep(pairs: Iterable[ValueChange]) -> list[Tree]:
            return [
                self._mask(one) for one in pairs if _differ(rename(one.old), one.new)
            ]

        def compare(read: Callable[[JobSpec], Values]) -> list[Tree]:
            return keep(diff_values(read(old), read(new)))

        parameters = compare(_flatten_parameters)
        known = {change["key"] for change in parameters}
        config = keep(
            one
            for one in recorded
            if one.key not in known and one.key.partition(".")[0] not in _NUMBERED
        )
        waits = ((j.start_conditions, j.cancel_conditions) for j in (old, new))
        has_equal_waits = next(waits) == next(waits)
        return {
            "name": new.name,
            "old_name": old.name,
            "stage": new.stage,
            "parameters": parameters,
            "config": config,
            "conditions": [] if has_equal_waits else compare(_flatten_conditions),
            "other": [] if parameters or config else compare(_list_launch),
            "edges": list(self._diff_edges(old, new)),
        }

    def _mask(self, change: ValueChange) -> Tree:
        key, old, new = change
        old = mask_value(key, old, self._old.mask)
        return _change_to_json(
            ValueChange(key, old, mask_value(key, new, self._new.mask))
        )

    def _diff_edges(self, old: JobSpec, new: JobSpec) -> Iterator[Tree]:
        before, after = (
            self._befores[0].get(old.name, {}),
            self._befores[1].get(new.name, {}),
        )
        for mine, theirs, added in ((after, before, True), (before, after, False)):
            for mode, name in (key for key in mine if key not in theirs):
                yield {"kind": mode, "added": added, "job": mine[mode, name]}

    def _find_likeness(self, change: Tree, old: JobSpec, new: JobSpec) -> str:
        """The same text for jobs that changed alike, whatever they are called."""
        names = (
            enumerate((old.name, *old.depends_on)),
            enumerate((new.name, *new.depends_on)),
        )
        hide = _build_renamer({name: f"\0{at}" for at, name in chain(*names)})
        values = [hide(one) for part in _PARTS for one in change[part]]
        edges = [
            (e["kind"], e["added"], self._stages[e["added"]].get(e["job"]) or e["job"])
            for e in change["edges"]
        ]
        return format_canonical(json_safe([values, edges]))

    def _group_only(
        self, jobs: Iterable[JobSpec], other: Plan, side: str
    ) -> list[Tree]:
        """Jobs of one plan alone, by stage, with the parameters that all of them share
        and no job of the other plan has so."""
        stages: dict[str, list[JobSpec]] = {}
        for job in jobs:
            stages.setdefault(job.stage, []).append(job)
        theirs = {
            (key, _text(value))
            for job in (other.jobs if stages else ())
            for key, value in _flatten_parameters(job).items()
        }
        found = []
        for stage, members in stages.items():
            first, *others = map(_flatten_parameters, members)
            values = [
                self._mask(ValueChange(key, **{side: one}))
                for key, one in first.items()
                if key not in ("stage", _NAME)
                and (key, _text(one)) not in theirs
                and all(_text(it.get(key, ABSENT)) == _text(one) for it in others)
            ]
            names = [job.name for job in members]
            found.append({"stage": stage, "jobs": names, "values": values})
        return found


def _change_to_json(change: ValueChange) -> Tree:
    sides = change._asdict().items()
    return {name: json_safe(value) for name, value in sides if value is not ABSENT}


def _flatten_conditions(job: JobSpec) -> dict[str, object]:
    """Every field of every condition; defaults say nothing and are left out."""
    return {
        key: value
        for where in ("start_conditions", "cancel_conditions")
        for at, one in enumerate(getattr(job, where))
        for key, value in flatten(
            f"{where}.{at}", _drop_defaults(condition_to_json(one))
        )
    }


def _drop_defaults(tree: object) -> object:
    if isinstance(tree, Mapping):
        kept = {key: _drop_defaults(item) for key, item in tree.items()}
        return {k: v for k, v in kept.items() if v not in (None, "", [], {})}
    return [_drop_defaults(item) for item in tree] if isinstance(tree, list) else tree


def _list_launch(job: JobSpec) -> dict[str, object]:
    """What neither a parameter nor a key of the config tells."""
    texts: dict[str, object] = {"stage": job.stage, "command": " ".join(job.command)}
    texts |= {f"env.{name}": value for name, value in job.env.items()}
    texts |= {f"slurm.sbatch.{k}": v for k, v in job.resources.options.items()}
    return texts | {"cwd": job.cwd}


def _diff_wholes(old: Plan, new: Plan) -> Iterator[ValueChange]:
    sides = [
        {
            "config_ref": plan.config_ref,
            "command line": " ".join(
                mask_override(text, plan.mask)
                for text in plan.overrides
                if text not in other.overrides
            ),
            "project.base_output_dir": plan.base_output_dir,
            "slurm.client.class_name": plan.executor.class_name,
            "slurm.max_parallel": plan.executor.max_parallel,
        }
        for plan, other in ((old, new), (new, old))
    ]
    for key, theirs, ours in diff_values(*sides):
        yield ValueChange(key, theirs or ABSENT, ours or ABSENT)
    for name in sorted({*old.environment} & {*new.environment}):
        if old.environment[name] != new.environment[name]:
            yield ValueChange(f"environment {name}", "a value", "another")


def diff_values(old: Values, new: Values) -> Iterator[ValueChange]:
    """The keys whose values differ, those of `new` first."""
    for key in dict.fromkeys((*new, *old)):
        theirs, ours = old.get(key, ABSENT), new.get(key, ABSENT)
        if theirs is not ours and _differ(theirs, ours):
            yield ValueChange(key, theirs, ours)


def _differ(theirs: object, ours: object) -> bool:
    # Two of one plain type need no text; True and 1, or 1 and 1.0, do.
    if type(theirs) is type(ours) and isinstance(ours, str | int):
        return theirs != ours
    return _text(theirs) != _text(ours)


def _text(value: object) -> str:
    return "" if value is ABSENT else format_canonical(value)


def _flatten_parameters(job: JobSpec) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in job.parameters.items():
        plain = plain_key(key)
        if plain not in _NOT_PARAMETERS:
            found |= flatten(plain, value)
    return found


_Pairs: TypeAlias = list[tuple[JobSpec, JobSpec]]


def _match_jobs(old: Plan, new: Plan) -> tuple[_Pairs, list[JobSpec], list[JobSpec]]:
    """(old, new) of the same job, in the new order; what only old has; only new."""
    left = {job.name: job for job in old.jobs}
    found: dict[int, JobSpec] = {}
    for find_key in (lambda job: job.name, lambda job: job.fingerprint, _describe_work):
        waiting: dict[str, list[JobSpec]] = {}
        missing = [at for at in range(len(new.jobs)) if at not in found]
        for job in left.values() if missing else ():
            waiting.setdefault(find_key(job), []).append(job)
        for at in missing if waiting else ():
            key = find_key(new.jobs[at])
            if key and waiting.get(key):
                found[at] = left.pop(waiting[key].pop(0).name)
    pairs = [(found[at], job) for at, job in enumerate(new.jobs) if at in found]
    come = [job for at, job in enumerate(new.jobs) if at not in found]
    return pairs, list(left.values()), come


def _describe_work(job: JobSpec) -> str:
    """What a job does, whatever it (so no fingerprint) and its parents are called."""
    mine = _flatten_parameters(job)
    mine.pop(_NAME, None)
    hidden: dict[str, str] = {}
    for at, name in enumerate((job.name, *job.depends_on)):
        hidden[name] = f"\0{at}"
        for directory in (job.output_dir, job.log_dir):
            root = _find_root(directory, job.name)
            hidden[f"{root}/{name}" if root else directory] = f"\0{at}"
    env = sorted(job.env.items())
    work = [job.stage, mine, job.command, env, job.resources.key]
    return format_canonical(_build_renamer(hidden)(work))


def _find_root(directory: str, name: str) -> str:
    """The directory that holds the job's own; empty when that is called otherwise."""
    ending = f"/{name}"
    return directory.removesuffix(ending) if directory.endswith(ending) else ""


def _build_renamer(texts: Mapping[str, str]) -> Callable[[object], object]:
    """What replaces names and directories that differ on purpose, where they stand
    whole, in a value and all below it."""
    renamed = {old: new for old, new in texts.items() if old and old != new}

    @cache
    def compile_pattern() -> re.Pattern[str]:  # most are never needed
        either = "|".join(map(re.escape, sorted(renamed, key=len, reverse=True)))
        return re.compile(rf"(?<![\w.\-])(?:{either})(?![\w.\-])")

    def rename(text: str) -> str:
        if not any(old in text for old in renamed):
            return text
        return compile_pattern().sub(lambda found: renamed[found[0]], text)

    return lambda value: map_texts(value, rename) if renamed else value


Mark: TypeAlias = Literal["+", "-", ">", "~", "*", "!"]
"""Added, removed, renamed, changed; of the plan as a whole; what was not compared."""
MarkedLine: TypeAlias = tuple[Mark, str]

MOST_LINES: Final = 40
_MOST_NAMES: Final = 4
_MOST_VALUES: Final = 6
_VALUE_COLUMNS: Final = 60
_COUNTS: Final = {
    **{name: name for name in ("added", "removed", "renamed", "changed")},
    "unseen": "changed in what is not recorded",
    "same": "the same",
}


def summarize_diff(found: Tree) -> str:
    """`12 jobs added, 3 removed, 40 changed, 100 the same`; or that nothing differs."""
    counts = found["counts"]
    if not is_different(found):
        return f"nothing differs: {plural(counts['same'], 'job')}"
    counted = [(counts[name], word) for name, word in _COUNTS.items() if counts[name]]
    if not counted:
        return "what the plan says as a whole differs; it has no jobs"
    (number, word), *rest = counted
    return ", ".join(
        [f"{plural(number, 'job')} {word}", *(f"{n} {w}" for n, w in rest)]
    )


def list_differences(found: Tree, most: int = MOST_LINES) -> tuple[MarkedLine, ...]:
    """Everything that differs, a line for each group of alike changes."""
    lines = list(_list_lines(found))
    if (hidden := len(lines) - most) > 0:
        more = f"and {plural(hidden, 'more difference')}: --json has all"
        lines = [*lines[:most], ("~", more)]
    if number := found["counts"]["without_config"]:
        jobs = plural(number, "job")
        text = f"configs of {jobs} are not recorded with both plans: not compared"
        lines.append(("!", text))
    return tuple(lines)


def _list_lines(found: Tree) -> Iterator[MarkedLine]:
    yield from (("*", _format_change(change)) for change in found["plan"])
    yield from (("+", _format_only(group)) for group in found["added"])
    yield from (("-", _format_only(group)) for group in found["removed"])
    changed = {job["name"] for job in found["changed"]}
    moved = [
        f"{clean(job['from'])} -> {clean(job['to'])}"
        for job in found["renamed"]
        if job["to"] not in changed
    ]
    if moved:
        head = f"{plural(len(moved), 'job')} renamed: "
        yield ">", head + ", ".join(_shorten(moved, _MOST_NAMES))
    yield from (("~", alike["text"]) for alike in found["alike"])


def _format_only(group: Tree) -> str:
    head = plural(len(group["jobs"]), "job")
    stage = f" of {clean(group['stage'])}" if group["stage"] else ""
    values = [
        f"{clean(v['key'])} {_format_value(v.get('new', v.get('old')))}"
        for v in group["values"]
    ]
    why = f" ({', '.join(_shorten(values, 3))})" if values else ""
    return f"{head}{stage}{why}: {_format_names(group['jobs'])}"


def _format_changed(alike: Sequence[Tree]) -> str:
    first = alike[0]
    name, old_name = clean(first["name"]), clean(first["old_name"])
    parts = [_format_change(one) for part in _PARTS for one in first[part]]
    for edge in first["edges"]:
        verb = "waits for" if edge["kind"] == "waits" else "reads"
        no_longer = "" if edge["added"] else "no longer "
        parts.append(f"{no_longer}{verb} {clean(edge['job'])}")
    shown = "; ".join(_shorten(parts, _MOST_VALUES))
    if len(alike) > 1:
        names = _format_names([job["name"] for job in alike])
        return f"{len(alike)} jobs: {shown} ({names})"
    return f"{name if name == old_name else f'{old_name} -> {name}'}: {shown}"


def _format_change(change: Tree) -> str:
    """`optim.lr 1e-3 -> 3e-4`, `lr added: 0.9`, `lr removed: was 0.9`."""
    key = clean(change["key"])
    if "old" not in change:
        return f"{key} added: {_format_value(change['new'])}"
    if "new" not in change:
        return f"{key} removed: was {_format_value(change['old'])}"
    return f"{key} {_format_value(change['old'])} -> {_format_value(change['new'])}"


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(_shorten([clean(name) for name in names], _MOST_NAMES))


def _shorten(texts: Sequence[str], most: int) -> Sequence[str]:
    if len(texts) <= most:
        return texts
    return [*texts[: most - 1], f"and {len(texts) - most + 1} more"]


def _format_value(value: object) -> str:
    if isinstance(value, float):  # without the noise of computing it
        value = float(f"{value:.9g}")
    text = clean(value) if isinstance(value, str) else format_yaml_value(value)
    if isinstance(value, list | tuple):
        text = f"[{', '.join(map(_format_value, value))}]"
    return fit(text or '""', _VALUE_COLUMNS)
