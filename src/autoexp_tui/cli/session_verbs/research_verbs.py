"""autoexp-sessions consult, note: what a person tells a research loop."""

from __future__ import annotations

from autoexp_tui.cli.open import require_person
from autoexp_tui.cli.session_verbs.request import Request, load, print_answer, send
from autoexp_tui.model.commands import Command
from autoexp_tui.model.errors import UsageError
from autoexp_tui.research.commands import Consult, TellAgent
from autoexp_tui.research.state import find_research


def consult(request: Request) -> int:
    """Have the research agent called, as soon as its least interval is over."""
    return _send(request, Consult())


def note(request: Request) -> int:
    """Tell the research agent something: each context has it from now on."""
    text = " ".join(request.names)
    if not text.strip():
        hint = f"autoexp-sessions note {request.words[0]} 'try smaller batches'"
        raise UsageError("note: what is the agent to be told?", hint=hint)
    return _send(request, TellAgent(text=text))


def _send(request: Request, command: Command) -> int:
    session = request.session
    require_person(request.verb, session.state_dir)
    if find_research(load(session)) is None:
        raise UsageError(f"session {session.id} has no research loop")
    return print_answer(request, send(request, [command]))
