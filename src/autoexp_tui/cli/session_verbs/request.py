"""What a verb of autoexp-sessions is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.open import find_session
from autoexp_tui.cli.options import Options
from autoexp_tui.model.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from autoexp_tui.storage.session_dir import SessionDir


@dataclass(frozen=True)
class Request:
    """One verb, as the command line asks for it."""

    verb: str
    words: Sequence[str]
    """What follows the verb: mostly a session's id, then names of jobs."""
    args: argparse.Namespace
    """The verb's own options."""
    options: Options

    @cached_property
    def session(self) -> SessionDir:
        """The session that the first word names.

        Raises:
            UsageError: there is no word, no such session, or there are several.
            EnvironmentFailed: it cannot be read.
        """
        if not self.words:
            raise UsageError(
                f"{self.verb}: which session?",
                hint="`autoexp-sessions list` names them.",
            )
        return find_session(self.options, self.words[0])

    @property
    def names(self) -> Sequence[str]:
        """The words behind the session's id."""
        return self.words[1:]

    def print(self, record: object, lines: Iterable[str]) -> int:
        """Print a record for programs, or lines for people; the exit code."""
        print(json.dumps(record) if self.options.json else "\n".join(lines))
        return ExitCode.OK
