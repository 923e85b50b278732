"""What a submission begins with, and the yes that a large one needs.

The yes is asked for on a terminal, or given by `--yes`.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Sequence

from autoexp_tui.cli.diagnostics import say
from autoexp_tui.cli.options import Options
from autoexp_tui.model.errors import NotConfirmed
from autoexp_tui.model.specs import Plan
from autoexp_tui.planning.dag import find_first_family
from autoexp_tui.planning.estimate import estimate, read_bounds
from autoexp_tui.storage.done_file import check_done
from autoexp_tui.text.spelling import plural

_YES = frozenset({"y", "yes"})
_HINT = "Add --yes to do it; `slurm.confirm` in the config has the bounds."


def choose_jobs(plan: Plan, options: Options, *, first_family: bool) -> tuple[str, ...]:
    """Which jobs go first, once what they may cost is confirmed; empty: all go.

    With `first_family` those of the first one that has not done all its work. Raises
    NotConfirmed where nobody said yes to what is above the bounds.
    """
    if not first_family:
        confirm(plan, options)
        return ()
    chosen = find_first_family(plan, _find_done_jobs(plan, options))
    confirm(plan, options, frozenset(chosen))
    return chosen


def confirm(plan: Plan, options: Options, going: Container[str] | None = None) -> None:
    """Return once somebody has said yes to what is above the plan's bounds; raises
    NotConfirmed where nobody did. `going`: the jobs that go now; None: all."""
    above = _find_above(plan, options, going)
    if not above:
        return
    what = f"this submits {'; '.join(above)}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NotConfirmed(what, hint=_HINT)
    say(f"{what[:1].upper()}{what[1:]}.")
    print("Submit? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in _YES:
        raise NotConfirmed("not submitted", hint="Nothing was started.")


def require_confirmed(plan: Plan, options: Options) -> None:
    """The same where a screen has the terminal: there S asks."""
    if above := _find_above(plan, options):
        raise NotConfirmed(f"--submit submits {'; '.join(above)}", hint=_HINT)


def _find_above(
    plan: Plan, options: Options, going: Container[str] | None = None
) -> Sequence[str]:
    """What is above its bound, done jobs left out; nothing with `--yes`."""
    bounds = read_bounds(plan)
    jobs = [job for job in plan.jobs if going is None or job.name in going]
    if options.yes or not bounds.find_excess(estimate(jobs)):
        return ()
    done = _find_done_jobs(plan, options)
    found = estimate([job for job in jobs if job.name not in done])
    exceeded = bounds.describe(found)
    if exceeded and found.without_limit and found.gpus:
        endless = plural(len(found.without_limit), "job")
        exceeded.append(f"{endless} without a time limit")
    return exceeded


def _find_done_jobs(plan: Plan, options: Options) -> frozenset[str]:
    """The names of the jobs that are done already, by their output directories."""
    return frozenset() if options.force else frozenset(check_done(plan).done)
