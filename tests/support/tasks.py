"""Tasks as an engine would order them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autoexp_tui.engine.executor_port import Task
from autoexp_tui.model.ids import format_filename


def make_task(root: Path | str, job: str = "a", attempt: int = 1, **more: Any) -> Task:
    """A task whose directories lie below `root`."""
    name = format_filename(job)
    fields = {
        "command": ("true",),
        "cwd": f"{root}/out/{name}",
        "output_dir": f"{root}/out/{name}",
        "log_dir": f"{root}/log/{name}",
        "attempt_dir": f"{root}/attempts/{name}/{attempt}",
    }
    return Task(job=job, attempt=attempt, **fields | more)
