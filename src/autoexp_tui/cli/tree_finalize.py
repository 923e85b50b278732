"""autoexp-tree-finalize SESSION|DIR: the winning chain of a search as a branch.

One commit an idea over the root, with its numbers in the message; the tip holds the
very files of the best node. No checkout is touched, and a branch that is there stays.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from autoexp_tui.cli.diagnostics import ExitCode, make_entry
from autoexp_tui.cli.options import Options, option, parse_options

_FLAGS = (
    (
        ["search"],
        {
            "metavar": "SESSION|DIR",
            "nargs": "?",
            "default": "",
            "help": "a session's id, or the directory of a search",
        },
    ),
    option("--branch", "its name (tree-RUN)", "NAME"),
)


def main(argv: Sequence[str]) -> int:
    """Make the branch; raises UsageError, EnvironmentFailed."""
    options, args = parse_options(
        "autoexp-tree-finalize", __doc__, argv, _FLAGS, overrides=False
    )
    from autoexp_tui.evaluation.read_back import finalize_directory

    directory = find_directory(options, args.search)
    branch, tip = finalize_directory(directory, args.branch)
    told = json.dumps({"branch": branch, "tip": tip})
    print(told if options.json else f"branch {branch}: {tip}")
    return ExitCode.OK


def find_directory(options: Options, given: str) -> Path:
    """The directory of a search that a path, an id of a session or the beginning of one
    names; raises UsageError where there is none."""
    from autoexp_tui.cli.open import find_session

    if given and Path(given, "manifest.json").is_file():
        return Path(given)
    return find_session(options, given).path / "tree"


entry = make_entry(main, __name__)
