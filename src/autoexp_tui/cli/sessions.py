"""autoexp-sessions VERB ID: the cockpit's commands for scripts.

list                      every session of this and other known state directories
show ID [JOB]             how it stands: its engine, its jobs; all about one job
stop ID [--jobs]          ends its engine; with --jobs also what runs
restart ID                leaves an engine behind that goes on
pause|resume ID           submits nothing more; submits again
kill|retry|skip ID JOB... jobs by name, or --all of what fits; retry also with other
                          values: --set KEY=VALUE
waive ID JOB [N]          lets a start condition of a waiting job count as passed
approve|reject ID [JOB]   answers what is asked
clean ID...               removes sessions that nobody runs
trust DIR                 writes into a directory of another owner all the same
check ID [--repair]       reads all of it, says what is wrong and what would mend it

An ID may be shortened as long as no other begins so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from autoexp_tui.cli.diagnostics import exit_with
from autoexp_tui.cli.options import common, parse, parser
from autoexp_tui.cli.session_verbs import clean, engines, job_verbs, show
from autoexp_tui.cli.session_verbs.send_command import Request
from autoexp_tui.model.errors import UsageError

if TYPE_CHECKING:
    import argparse


class Verb(NamedTuple):
    """What a verb does, and what it takes."""

    run: Callable[[Request], int]
    options: tuple[str, ...] = ()
    words: int | None = 1
    """How many may follow it, the session's id among them; None: any number."""


def main(argv: Sequence[str]) -> int:
    """Carry out one verb."""
    args = _parse(argv)
    options = common(args)
    words = ([options.session] if options.session else []) + args.words
    verb = _VERBS[args.verb]
    if verb.words is not None and len(words) > verb.words:
        raise UsageError(
            f"{args.verb}: {words[verb.words]!r} is one word too many",
            hint=f"autoexp-sessions {args.verb} --help tells what it takes.",
        )
    return verb.run(Request(args.verb, words, args, options))


# -------------------------------------------------------------------------- parsing
def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """Each verb has its own options: the parser is made for the one that is meant."""
    verb = next((word for word in argv if word in _VERBS), "")
    args = parse(_make_parser(verb), argv)
    _require_verb(args.verb)
    if args.verb != verb:  # what looked like the verb was an option's value
        args = parse(_make_parser(args.verb), argv)
    return args


def _make_parser(verb: str) -> argparse.ArgumentParser:
    made = parser("autoexp-sessions", __doc__ or "", overrides=False)
    made.add_argument("verb", nargs="?", default="", metavar="VERB")
    made.add_argument("words", nargs="*", default=[], metavar="ID [JOB...]")
    for name in _VERBS[verb].options if verb else ():
        flag, settings = _OPTIONS[name]
        made.add_argument(flag, **settings)
    return made


def _require_verb(verb: str) -> None:
    if verb in _VERBS:
        return
    near = get_close_matches(verb, _VERBS, n=1, cutoff=0.5)
    meant = f"Did you mean {near[0]}? " if near else ""
    problem = f"there is no verb {verb!r}" if verb else "what is to be done?"
    raise UsageError(problem, hint=f"{meant}Verbs: {', '.join(_VERBS)}.")


Option = tuple[str, dict[str, Any]]


def _flag(name: str, about: str) -> Option:
    return name, {"action": "store_true", "help": about}


def _value(name: str, metavar: str, about: str) -> Option:
    return name, {"metavar": metavar, "default": "", "help": about}


_OPTIONS: dict[str, Option] = {
    "all": _flag("--all", "every job that fits"),
    "reason": _value("--reason", "TEXT", "kept with the command"),
    "with-jobs": _flag("--jobs", "cancel what runs or waits as well"),
    "jobs": _value("--jobs", "STATE,...", "only jobs in these states"),
    "since": _value("--since", "WHEN", "what is new since: 2h, 14:02, 03-12, left"),
    "ended": _flag("--ended", "every session whose jobs have all ended"),
    "older-than": _value("--older-than", "AGE", "of these only the old ones: 30d, 12h"),
    "set": (
        "--set",
        {
            "action": "append",
            "default": [],
            "metavar": "KEY=VALUE",
            "help": "run it with another value; may be repeated",
        },
    ),
    "followers": (
        "--followers",
        {
            "choices": ("wait", "use"),
            "default": "wait",
            "help": "of a job that begins anew: wait for its new files (default), or "
            "use those that are there",
        },
    ),
    "repair": _flag("--repair", "what would mend it; --yes does it"),
}


def _check(request: Request) -> int:
    from autoexp_tui.cli.session_verbs.check import check

    return check(request.session, request.options, repair=request.args.repair)


_VERBS: dict[str, Verb] = {
    "list": Verb(show.list_all, words=0),
    "show": Verb(show.show, ("jobs", "since"), words=2),
    "stop": Verb(engines.stop, ("with-jobs",)),
    "restart": Verb(engines.restart),
    "pause": Verb(job_verbs.pause),
    "resume": Verb(job_verbs.resume),
    "kill": Verb(job_verbs.kill, ("all", "reason"), words=None),
    "retry": Verb(job_verbs.retry, ("all", "set", "followers"), words=None),
    "skip": Verb(job_verbs.skip, ("all", "reason"), words=None),
    "waive": Verb(job_verbs.waive, ("reason",), words=3),
    "approve": Verb(job_verbs.approve, ("all", "reason"), words=None),
    "reject": Verb(job_verbs.approve, ("all", "reason"), words=None),
    "check": Verb(_check, ("repair",)),
    "clean": Verb(clean.clean, ("ended", "older-than"), words=None),
    "trust": Verb(clean.trust),
}


def entry() -> None:
    """The console script."""
    exit_with(main)


if __name__ == "__main__":
    entry()
