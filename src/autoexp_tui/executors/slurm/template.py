"""The batch script's template: the user's file, or ours."""

from __future__ import annotations

from pathlib import Path

from autoexp_tui.executors.slurm.script import OURS, template_problems
from autoexp_tui.model.errors import UsageError


def read_template(path: str) -> str:
    """The user's template, or ours where the path is empty.

    Raises:
        UsageError: it cannot be read, or starts nothing.
    """
    if not path:
        return OURS
    try:
        text = Path(path).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(
            f"cannot read {path}: {reason}",
            "slurm.template_path",
            "null takes our own script.",
        ) from error
    problems = template_problems(text, path)
    if problems:
        raise UsageError(problems[0].message, problems[0].where, problems[0].hint)
    return text
