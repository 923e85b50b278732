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
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import exit_with
from autoexp_tui.cli.open import session_called
from autoexp_tui.cli.options import Options, common, parse, parser
from autoexp_tui.cli.session_verbs import clean as session_clean
from autoexp_tui.cli.session_verbs import commands as session_commands
from autoexp_tui.cli.session_verbs import engines as session_engines
from autoexp_tui.cli.session_verbs import show as session_looking
from autoexp_tui.model.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from autoexp_tui.storage.session_dir import SessionDir

Names = Sequence[str]
Run = Callable[["SessionDir", Names, "argparse.Namespace", Options], int]


@dataclass(frozen=True, slots=True)
class Verb:
    """What a verb does with a session, and what it takes beside its id."""

    run: Run
    options: tuple[str, ...] = ()
    names: int | None = 0
    """How many words may follow the id; None: any number."""


def main(argv: Sequence[str]) -> int:
    """Carry out one verb."""
    args = _parsed(argv)
    options = common(args)
    words = ([options.session] if options.session else []) + args.words
    if args.verb == "list":
        _require_few(args.verb, words, 0)
        return session_looking.list_all(options)
    if args.verb == "trust":
        from autoexp_tui.cli.session_verbs.trust import trust

        _require_few(args.verb, words, 1)
        return trust(words, options)
    if args.verb == "clean":
        return session_clean.clean(words, args, options)
    verb = _VERBS[args.verb]
    if not words:
        raise UsageError(
            f"{args.verb}: which session?",
            hint="`autoexp-sessions list` names them.",
        )
    _require_few(args.verb, words[1:], verb.names)
    session = session_called(words[0], options)
    return verb.run(session, words[1:], args, options)


def _require_few(verb: str, words: Names, most: int | None) -> None:
    if most is not None and len(words) > most:
        raise UsageError(
            f"{verb}: {words[most]!r} is one word too many",
            hint=f"autoexp-sessions {verb} --help tells what it takes.",
        )


# -------------------------------------------------------------------------- parsing
def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    """Each verb has its own options: the parser is made for the one that is meant."""
    verb = next((word for word in argv if word in _ALL), "")
    args = parse(_parser(verb), argv)
    _require_verb(args.verb)
    if args.verb != verb:  # what looked like the verb was an option's value
        args = parse(_parser(args.verb), argv)
    return args


def _parser(verb: str) -> argparse.ArgumentParser:
    made = parser("autoexp-sessions", __doc__ or "", overrides=False)
    made.add_argument("verb", nargs="?", default="", metavar="VERB")
    made.add_argument("words", nargs="*", default=[], metavar="ID [JOB...]")
    for name in _ALL.get(verb, ()):
        _OPTIONS[name](made)
    return made


def _require_verb(verb: str) -> None:
    if verb in _ALL:
        return
    near = get_close_matches(verb, _ALL, n=1, cutoff=0.5)
    meant = f"Did you mean {near[0]}? " if near else ""
    problem = f"there is no verb {verb!r}" if verb else "what is to be done?"
    raise UsageError(problem, hint=f"{meant}Verbs: {', '.join(_ALL)}.")


def _flag(name: str, text: str) -> Callable[[argparse.ArgumentParser], object]:
    return lambda made: made.add_argument(name, action="store_true", help=text)


def _value(
    name: str, metavar: str, text: str
) -> Callable[[argparse.ArgumentParser], object]:
    return lambda made: made.add_argument(name, metavar=metavar, default="", help=text)


_OPTIONS: dict[str, Callable[[argparse.ArgumentParser], object]] = {
    "all": _flag("--all", "every job that fits"),
    "reason": _value("--reason", "TEXT", "kept with the command"),
    "with-jobs": _flag("--jobs", "cancel what runs or waits as well"),
    "jobs": _value("--jobs", "STATE,...", "only jobs in these states"),
    "since": _value("--since", "WHEN", "what is new since: 2h, 14:02, 03-12, left"),
    "ended": _flag("--ended", "every session whose jobs have all ended"),
    "older-than": _value("--older-than", "AGE", "of these only the old ones: 30d, 12h"),
    "set": lambda made: made.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="run it with another value; may be repeated",
    ),
    "followers": lambda made: made.add_argument(
        "--followers",
        choices=("wait", "use"),
        default="wait",
        help="of a job that begins anew: wait for its new files (default), or use "
        "those that are there",
    ),
    "repair": _flag("--repair", "what would mend it; --yes does it"),
}


def _check(
    session: SessionDir, names: Names, args: argparse.Namespace, options: Options
) -> int:
    from autoexp_tui.cli.session_verbs.check import check

    del names
    return check(session, options, repair=args.repair)


_VERBS: dict[str, Verb] = {
    "show": Verb(session_looking.show, ("jobs", "since"), names=1),
    "stop": Verb(session_engines.stop, ("with-jobs",)),
    "restart": Verb(session_engines.restart),
    "pause": Verb(session_commands.pause),
    "resume": Verb(session_commands.resume),
    "kill": Verb(session_commands.kill, ("all", "reason"), names=None),
    "retry": Verb(session_commands.retry, ("all", "set", "followers"), names=None),
    "skip": Verb(session_commands.skip, ("all", "reason"), names=None),
    "waive": Verb(session_commands.waive, ("reason",), names=2),
    "approve": Verb(session_commands.approve, ("all", "reason"), names=None),
    "reject": Verb(session_commands.reject, ("all", "reason"), names=None),
    "check": Verb(_check, ("repair",)),
}
_ALL: dict[str, tuple[str, ...]] = {
    "list": (),
    **{name: verb.options for name, verb in _VERBS.items()},
    "clean": ("ended", "older-than"),
    "trust": (),
}


def entry() -> None:
    """The console script."""
    exit_with(main)


if __name__ == "__main__":
    entry()
