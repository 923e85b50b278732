"""Any program: the prompt on its standard input, exit status 0 and the answer file."""

from __future__ import annotations

from typing import Final

from autoexp_tui.agents.backend import Backend

COMMAND: Final = Backend(
    build_command=lambda request, schema_path: request.agent.command, has_events=False
)
