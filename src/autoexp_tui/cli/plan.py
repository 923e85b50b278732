"""autoexp-plan: expand, resolve, validate; submits nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from autoexp_tui.cli.diagnostics import ExitCode, make_entry, print_json, say
from autoexp_tui.cli.open import ask_plan
from autoexp_tui.cli.options import Options, option, parse_options
from autoexp_tui.model.errors import UsageError
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import clock_time, join_some, plural

if TYPE_CHECKING:
    from autoexp_tui.config.planning import PlanningAnswer
    from autoexp_tui.executors.slurm.refusals import Checked, ClusterCheck
    from autoexp_tui.model.specs import Plan

_MOST_NAMED: Final = 5
_MOST_REFUSED: Final = 3
"""Jobs that are named when a cluster refuses them, before the rest is counted."""
_SOON_SECONDS: Final = 60.0
_FLAGS: Final = (
    option("--points", "stop after expanding the sweep"),
    option(
        "--sweep", "expand the sweep of any YAML file, without other config", "FILE"
    ),
    option(
        "--diff",
        "what differs from another plan: a manifest, a plan's id, a session, or the "
        "newest of a config",
        "OTHER",
    ),
    option(
        "--check-cluster",
        "ask Slurm whether it would take the jobs, and when they would start",
    ),
)


def main(argv: Sequence[str]) -> int:
    """Plan and say what came of it: 0, or 3 with every error at once.

    With `--check-cluster` 3 too when the cluster would refuse a job, and 5 when none
    answers.
    """
    options, args = parse_options("autoexp-plan", __doc__, argv, _FLAGS)
    points = args.points or bool(args.sweep)
    if points + bool(args.diff) + args.check_cluster > 1:
        raise UsageError(
            "--points or --sweep, --diff and --check-cluster are different questions",
            hint="Ask one at a time.",
        )
    whole = options.json and not (args.diff or args.check_cluster)
    result = ask_plan(options, points=points, sweep=args.sweep, report=whole)
    if not (points or args.diff or args.check_cluster):
        return _show_plan(result, options)
    result.raise_errors()
    if points:
        print_json({"points": list(result.points)})
    elif result.plan is not None and args.diff:
        from autoexp_tui.cli.plan_diff import show_diff

        show_diff(result.plan, args.diff, options)
    elif result.plan is not None:
        return show_check(result, result.plan, options)
    return ExitCode.OK


def _show_plan(result: PlanningAnswer, options: Options) -> int:
    if result.failed in ("config", "environment"):
        result.raise_errors()
    if options.json:
        if result.report:
            print(result.report)
        else:
            print_json(_to_json(result))
        return ExitCode.VALIDATION if result.errors else ExitCode.OK
    from autoexp_tui.cli.plan_diff import format_since
    from autoexp_tui.cockpit.render.plan_findings import PlanChanges, format_warning

    for finding in result.warnings if result.errors else ():
        below = f"\n    {finding.below}" if finding.below else ""
        say(f"warning: {format_warning(finding)}{below}")
    result.raise_errors()
    if result.plan is not None:
        _print_plan(result.plan, options)
        if result.changes is not None:
            print("\n".join(format_since(PlanChanges(**result.changes))))
        if result.manifest:
            print(f"manifest  {result.manifest}")
    return ExitCode.OK


def _print_plan(plan: Plan, options: Options) -> None:
    from autoexp_tui.cli.executors import is_for_slurm
    from autoexp_tui.cli.visualize import draw_plan
    from autoexp_tui.config.planning import estimate_of
    from autoexp_tui.planning.estimate import describe_estimate
    from autoexp_tui.storage.done_file import check_done

    print(draw_plan(plan, options))
    report = check_done(plan)
    found = estimate_of(plan, report)
    if found.jobs:
        lines = describe_estimate(found, cluster=is_for_slurm(plan))
        print("estimate ", "\n          ".join(lines))
    if report.done:  # not run again, and why others would
        verb = "is" if len(report.done) == 1 else "are"
        total = plural(len(plan.jobs), "job")
        print(f"{len(report.done)} of {total} {verb} done already: not run again")
    for reason, names in (
        ("changed since they were done", report.changed),
        ("build on what runs again", report.upstream),
    ):
        if names:
            shown = join_some(list(map(clean, names)), _MOST_NAMED)
            print(f"{reason}, run again: {shown}")


def show_check(result: PlanningAnswer, plan: Plan, options: Options) -> int:
    """The plan, and what its cluster says of it: 0, or 3 when it would refuse a job;
    raises AutoexpError."""
    from autoexp_tui.cli.executors import is_for_slurm
    from autoexp_tui.executors.slurm.commands import ClusterCommands
    from autoexp_tui.executors.slurm.refusals import check_cluster

    if not is_for_slurm(plan):
        raise UsageError(
            "--check-cluster asks a cluster, and this plan runs on this machine",
            "slurm.client.class_name",
            "slurm=generic sends its jobs to Slurm; leave --local away.",
        )
    check = check_cluster(plan, ClusterCommands())
    if options.json:
        print_json(_to_json(result) | {"cluster": check_json(check)})
    else:
        _show_plan(result, options)
        print(format_check(check, time.time()))
    is_refused = any(one.verdict == "refused" for one in check.checks)
    return ExitCode.VALIDATION if is_refused else ExitCode.OK


def _to_json(result: PlanningAnswer) -> dict[str, object]:
    if result.plan is not None:
        from autoexp_tui.config.planning import report_of

        return report_of(result.plan, result.errors)
    from autoexp_tui.planning.as_json import finding_to_json

    return {
        "version": 1,
        "name": "",
        "jobs": [],
        "edges": [],
        "holes": list(result.holes),
        "holes_more": result.holes_more,
        "errors": [finding_to_json(error) for error in result.errors],
        "warnings": [finding_to_json(warning) for warning in result.warnings],
    }


def format_check(check: ClusterCheck, now: float) -> str:
    """What was asked, and each answer with the next step."""
    facts = check.facts
    name = ", ".join(filter(None, (facts.cluster, f"Slurm {facts.version}".strip())))
    asked = plural(len(check.checks), "question")
    head = f"cluster   {name}: {asked}, nothing was submitted"
    return "\n".join([head, *(_format_answer(one, now) for one in check.checks)])


def _format_answer(one: Checked, now: float) -> str:
    from autoexp_tui.executors.slurm.refusals import format_sizes

    jobs, options = plural(len(one.jobs), "job"), one.options
    partition, limit = options.get("partition"), options.get("time")
    fields = (
        f"partition {partition}" if partition else "",
        format_sizes(options),
        "" if limit is None else f"time {limit}",
    )
    asked = ", ".join(filter(None, fields)) or "no options"
    if one.verdict == "refused":
        names = join_some(one.jobs, _MOST_REFUSED)
        why = f"\n      {one.refused.line}" if one.refused else ""
        return f"  ✗ {jobs:<9} would be refused: {names}{why}"
    if one.verdict == "not now":
        later = "\n      It is sent again by itself until there is room."
        return f"  · {jobs:<9} not taken just now: {one.said}   ({asked}){later}"
    starts = "would be taken"
    if one.starts_at is not None:
        late = one.starts_at - now > _SOON_SECONDS
        when = f"expected {clock_time(one.starts_at, now)}" if late else "at once"
        where = f" on {one.nodes}" if one.nodes else ""
        inside = f" in {one.partition}" if one.partition else ""
        starts = f"would start {when}{where}{inside}"
    return f"  ✓ {jobs:<9} {starts}   ({asked})"


def check_json(check: ClusterCheck) -> dict[str, object]:
    """The answers in the documented shape."""
    checks = []
    for one in check.checks:
        found = asdict(one) | {"options": dict(one.options)}
        if one.refused is not None:
            found["refused"] = asdict(one.refused) | {"where": one.refused.where}
        checks.append(found)
    facts = check.facts
    known = {"version": facts.version, "accounting": facts.accounting}
    return {"name": facts.cluster, **known, "checks": checks}


entry = make_entry(main, __name__, collects=False)
