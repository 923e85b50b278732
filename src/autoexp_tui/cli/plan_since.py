"""What changed since the last plan of a config: `python -m autoexp_tui.cli.plan_since`.

A process of its own for the cockpit: two plans of thousands of jobs are read and
compared, which its keys would feel. `STATE_DIR PLAN_ID` in, one line of JSON out;
nothing where there is no plan before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from autoexp_tui.cockpit.render.plan_changes import PlanChanges
    from autoexp_tui.model.specs import Plan

_SECONDS: Final = 120.0
_MOST_LINES: Final = 1000
_POLITE: Final = 10
"""Added to the niceness: a campaign may be running beside it."""


def changes_of(plan: Plan) -> PlanChanges | None:
    """How a plan differs from the last one of its config; None without one.

    Waits for a process: to be called off the screen's thread. What goes wrong there
    is no fault of the plan, and gives None.
    """
    from autoexp_tui.cockpit.render.plan_changes import PlanChanges

    # -P: a file of the user's that is called like a module must not be one.
    words = (sys.executable, "-P", "-m", __name__, plan.state_dir, plan.plan_id)
    try:
        ran = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        tree = json.loads(ran.stdout or b"null")
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    if ran.returncode != 0 or not isinstance(tree, dict):
        return None
    lines = tuple((mark, text) for mark, text in tree["lines"])
    return PlanChanges(tree["created_at"], tree["head"], lines, differs=tree["differs"])


def main(argv: Sequence[str]) -> int:
    """Compare, and print."""
    from autoexp_tui.planning.compare_words import headline, told
    from autoexp_tui.storage.plan_history import manifest_of, since_last
    from autoexp_tui.storage.session_dir import read_manifest

    with suppress(OSError):
        os.nice(_POLITE)
    path = manifest_of(Path(argv[0]), argv[1])
    since = since_last(read_manifest(path)) if path is not None else None
    if since is None:
        print("null")
        return 0
    found = since.difference
    answer = {
        "created_at": since.created_at,
        "differs": found.any,
        "head": headline(found),
        "lines": [(one.mark, one.text) for one in told(found, _MOST_LINES)],
    }
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
