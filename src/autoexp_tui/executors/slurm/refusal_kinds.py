"""What a failed sbatch means for its jobs: whether it may pass, and was anything taken.

Three classes, by sbatch's own words: what passes by itself, what no retry mends, and
words that nobody knows. Apart from them stand failures of the line to the controller:
of some it is certain that nothing was sent, of others it is not. Pure.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from autoexp_tui.executors.slurm.refusals import is_known


class Refusal(StrEnum):
    """What sbatch's failure means for the submission."""

    LASTING = "lasting"
    """No retry mends it."""
    PASSING = "passing"
    """A limit, or a state of the cluster: later it may go."""
    UNREACHABLE = "unreachable"
    """Nobody was there: nothing was sent."""
    DOUBT = "doubt"
    """The controller may have taken it."""
    UNKNOWN = "unknown"
    """Refused in words that are not known here: it may pass or not."""


_PASSING: Final = re.compile(
    r"maximum number of jobs|too many jobs|MaxJobCount|Submit(?:Job|Limit)"
    r"|(?:Max|Grp)Jobs|temporarily (?:unable to accept|disabled)"
    r"|Resource temporarily unavailable|Slurm temporarily|system (?:is )?busy"
    r"|rate limit|backing off"
    r"|standby mode|partition not available|inactive or drain"
    r"|partition.*(?:is|are) (?:down|drained|draining|inactive|unavailable)"
    r"|node not available|nodes? .*(?:busy|down|drained|draining|reserved)"
    r"|I/O error|writing (?:script|to file)|no space left|disk full|read-only file"
    r"|job script.* (?:not|un)able|slurmctld is (?:starting|shutting|in recovery)",
    re.IGNORECASE,
)
"""What is over when other jobs end, or when the cluster is well again."""
_HOW_MANY: Final = re.compile(
    r"maximum number of jobs|too many jobs|MaxJobCount|Submit(?:Job|Limit)"
    r"|(?:Max|Grp)Jobs|unable to accept job",
    re.IGNORECASE,
)
_TOO_MUCH: Final = re.compile(
    r"(?:Assoc|QOS|Partition)\w*(?:Wall|Time|Cpu|Node|Mem|TRES|GRES|Billing)\w*",
    re.IGNORECASE,
)
"""Limits on what one job may ask for; they stand in a line of their own."""
_POLICY: Final = re.compile(r"accounting/QOS policy", re.IGNORECASE)
"""Either of the two; the line before says which, where the site shows it."""
_UNREACHABLE: Final = re.compile(
    r"connect failure|connection refused|munge encode failed", re.IGNORECASE
)
"""Without a connection, or a credential for one, nothing is sent."""
_AWAY: Final = re.compile(
    r"unable to contact slurm controller|socket timed out|timed out on send/recv"
    r"|connection (?:reset|timed out)|zero bytes were transmitted"
    r"|unexpected message received|transport endpoint|communication connection"
    r"|Header lengths are longer|munge|authentication error",
    re.IGNORECASE,
)


def refusal(stderr: str) -> Refusal:
    """What a failed sbatch's last words mean; words about the line are no answer."""
    if _UNREACHABLE.search(stderr):
        return Refusal.UNREACHABLE
    if _AWAY.search(stderr):
        return Refusal.DOUBT
    if _PASSING.search(stderr):
        return Refusal.PASSING
    if _POLICY.search(stderr) and not _TOO_MUCH.search(stderr):
        return Refusal.PASSING
    return Refusal.LASTING if is_known(stderr) else Refusal.UNKNOWN


def would_take_fewer(stderr: str) -> bool:
    """Whether a busy sbatch met a limit of how many tasks: a smaller array may fit."""
    return bool(_HOW_MANY.search(stderr) or _POLICY.search(stderr))
