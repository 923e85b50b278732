"""How a job was made, read from what planning keeps beside the manifest.

Slow the first time (the record of a large plan has megabytes): call it off the screen's
thread. The record of the newest plan is held.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml

from autoexp_tui.executors.slurm.script import build_values, read_template, render
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.masking import mask_text, mask_value, mask_yaml
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.job_details import Entry, JobDetails, list_config_entries
from autoexp_tui.storage.provenance import (
    JobConfigs,
    load_made_from,
    load_record,
    record_path,
)
from autoexp_tui.storage.session_dir import read_if_there

_MISSING: Final = (
    "The config of this job was not kept: its plan came without the record of how it "
    "was made, or a rule has made it of its command."
)
_CLUSTER: Final = frozenset({"slurm", "slurmclient"})
_Loader: Final[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Leaves every scalar as the text that it is."""


_load_record: Final = lru_cache(maxsize=1)(load_record)


def read_job_details(plan: Plan, job: JobSpec) -> JobDetails:
    """The details of a job; raises EnvironmentFailed: its record does not read."""
    script = tuple(mask_text(line, plan.mask) for line in build_script(plan, job))
    configs = _find_configs(plan, job)
    if configs is None and (made := load_made_from(job)):
        facts = ((name, mask_text(text, plan.mask)) for name, text in made.list_facts())
        entries = tuple(Entry(name, text, "given") for name, text in facts)
        return JobDetails(entries=entries, script=script)
    if configs is None:
        return JobDetails(script=script, missing=_MISSING)
    found = list_config_entries(
        _parse_yaml(mask_yaml(configs.resolved, plan.mask)),
        _parse_yaml(mask_yaml(configs.unresolved, plan.mask)),
        job,
        plan.overrides,
    )
    entries = tuple(
        replace(one, written=str(mask_value(one.key, one.written, plan.mask)))
        for one in found
    )
    return JobDetails(entries=entries, script=script)


def _find_configs(plan: Plan, job: JobSpec) -> JobConfigs | None:
    """From the plan's record; else from what a job that ran has beside it."""
    path = Path(job.config_record)
    if not job.config_record:
        path = record_path(Path(plan.state_dir), plan.plan_id)
    record = _load_record(path)
    found = record.get_configs(job.name) if record is not None else None
    beside = Path(job.output_dir) / "provenance"
    if found or (kept := read_if_there(beside / "resolved_config.yaml")) is None:
        return found
    written = read_if_there(beside / "unresolved_config.yaml") or b""
    return JobConfigs(*(one.decode("utf-8", "replace") for one in (kept, written)))


def _parse_yaml(text: str) -> Mapping[str, object]:
    try:
        found = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError:
        return {}
    return found if isinstance(found, dict) else {}


def build_script(plan: Plan, job: JobSpec) -> Iterator[str]:
    """What starts a job: its environment, its command, and a cluster's script."""
    yield f"cd {shlex.quote(job.cwd)}" if job.cwd else "# in the session's directory"
    for name, value in sorted(job.env.items()):
        yield f"export {name}={shlex.quote(value)}"
    if plan.executor.class_name.lower() not in _CLUSTER:
        yield from _format_command(job.command)
        return
    resources = job.resources
    if resources.time_limit_seconds is not None:
        yield f"# sbatch: time limit {resources.time_limit_seconds:g} s"
    if resources.gpus:
        yield f"# sbatch: gpus {resources.gpus}"
    for option, setting in sorted(resources.options.items()):
        yield f"# sbatch: --{option}={setting}"
    # The wrapper stands before the command.
    values = build_values(job, shlex.join(job.command))
    try:
        path = str(plan.executor.settings.get("template_path") or "")
        yield from render(read_template(path), values).splitlines()
    except AutoexpError as error:
        yield f"# {error.problem}"
        yield from _format_command(job.command)


def _format_command(command: Sequence[str]) -> Iterator[str]:
    """An option and its value a line, so that two commands can be compared."""
    lines: list[str] = []
    for word in map(shlex.quote, command):
        option = lines[-1].strip() if lines else ""
        is_open = option.startswith("-") and not {"=", " "} & set(option)
        if is_open and not word.startswith("-"):
            lines[-1] += f" {word}"
        else:
            lines.append(word if not lines else f"  {word}")
    yield from (f"{line} \\" for line in lines[:-1])
    yield from lines[-1:]
