"""The back ends by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from autoexp_tui.agents.backend import Backend
from autoexp_tui.agents.claude import CLAUDE
from autoexp_tui.agents.codex import CODEX
from autoexp_tui.agents.command import COMMAND
from autoexp_tui.agents.scripted import SCRIPTED
from autoexp_tui.model.agents import BackendName

BACKENDS: Final[Mapping[BackendName, Backend]] = {
    "scripted": SCRIPTED,
    "command": COMMAND,
    "codex": CODEX,
    "claude": CLAUDE,
}
