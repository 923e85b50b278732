"""The yes that a large submission needs: asked on a terminal, or given by --yes."""

from __future__ import annotations

import sys
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import say
from autoexp_tui.model.errors import NotConfirmed
from autoexp_tui.model.wording import plural

if TYPE_CHECKING:
    from autoexp_tui.cli.options import Options
    from autoexp_tui.model.specs import Plan

_YES = frozenset({"y", "yes"})


def confirmed(
    plan: Plan, options: Options, going: Container[str] | None = None
) -> Plan:
    """The plan, once somebody has said yes to what is above its bounds.

    Args:
        plan: what is submitted.
        options: with `yes` it is said already.
        going: the names of the jobs that go now; None: all of them.

    Raises:
        NotConfirmed: nobody did, or nobody can be asked.
    """
    above = _above(plan, options, going)
    if not above or options.yes:
        return plan
    what = f"this submits {'; '.join(above)}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise _refusal(what)
    say(f"{what[:1].upper()}{what[1:]}.")
    print("Submit? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in _YES:
        raise NotConfirmed("not submitted", hint="Nothing was started.")
    return plan


def confirmed_without_asking(plan: Plan, options: Options) -> Plan:
    """The same where a screen has the terminal: S asks there.

    Raises:
        NotConfirmed: it is above a bound, and --yes was not given.
    """
    above = _above(plan, options)
    if above and not options.yes:
        raise _refusal(f"--submit submits {'; '.join(above)}")
    return plan


def _refusal(what: str) -> NotConfirmed:
    return NotConfirmed(
        what,
        hint="Add --yes to do it; `slurm.confirm` in the config has the bounds.",
    )


def _above(
    plan: Plan, options: Options, going: Container[str] | None = None
) -> Sequence[str]:
    """What is above its bound, done jobs left out."""
    from autoexp_tui.planning.estimate import bounds_of, estimate

    bounds = bounds_of(plan)
    jobs = [job for job in plan.jobs if going is None or job.name in going]
    if not bounds.exceeded(estimate(jobs)):
        return ()
    done = frozenset() if options.force else done_jobs(plan)
    found = estimate([job for job in jobs if job.name not in done])
    exceeded = [f"{one.words} ({one.key})" for one in bounds.exceeded(found)]
    if exceeded and found.without_limit and found.gpus:
        endless = plural(len(found.without_limit), "job")
        exceeded.append(f"{endless} without a time limit")
    return exceeded


def done_jobs(plan: Plan) -> frozenset[str]:
    """The names of the jobs that are done already, by their output directories."""
    from autoexp_tui.storage.done_file import check_done

    return frozenset(check_done(plan).done)
