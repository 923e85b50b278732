"""autoexp-sessions VERB ID: the cockpit's commands for scripts.

list                       every session of this and other known state directories
show ID [JOB]              how it stands: its engine, its jobs; all about one job
results ID...              what the runs came to, by swept values, the best first
stop ID [--jobs]           ends its engine; with --jobs also what runs
restart ID                 leaves an engine behind that goes on
pause|resume ID            submits nothing more; submits again
kill|retry|skip ID JOB...  jobs by name, or --all of what fits; retry also with other
                           values: --set KEY=VALUE
waive ID JOB [N]           lets a start condition of a waiting job count as passed
approve|reject ID [NAME]   answers what is asked, by jobs and by questions; --drop N
                           leaves a line of a question out
consult ID                 has the research agent called
note ID TEXT               tells the research agent something
clean ID...                removes sessions that nobody runs
trust DIR                  writes into a directory of another owner all the same
check ID [--repair]        reads all of it, says what is wrong and what would mend it

An ID may be shortened as long as no other begins so.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Final, NamedTuple

from autoexp_tui.cli.diagnostics import make_entry
from autoexp_tui.cli.options import Flag, option, parse_options
from autoexp_tui.model.errors import UsageError
from autoexp_tui.text.did_you_mean import did_you_mean

_PACKAGE: Final = "autoexp_tui.cli.session_verbs"


class Verb(NamedTuple):
    """What a verb does, and what it takes."""

    run: str
    """Its function, by the module of `session_verbs`; that is loaded when it runs."""
    flags: tuple[Flag, ...] = ()
    words: int | None = 1
    """How many may follow it, the session's id among them; None: any number."""


_WORDS: Final[tuple[Flag, ...]] = (
    (["verb"], {"nargs": "?", "default": "", "metavar": "VERB"}),
    (["words"], {"nargs": "*", "default": [], "metavar": "ID [JOB...]"}),
)
_ALL: Final = option("--all", "every job that fits")
_REASON: Final = option("--reason", "kept with the command", "TEXT")
_SET: Final = option(
    "--set",
    "run it with another value; may be repeated",
    "KEY=VALUE",
    action="append",
    default=[],
)
_FOLLOWERS: Final = option(
    "--followers",
    "of a job that begins anew: wait for its new files (default), or use those there",
    "{wait,use}",
    choices=("wait", "use"),
    default="wait",
)
_DROP: Final = option(
    "--drop",
    "approve a question without this line of it; may be repeated",
    "N",
    action="append",
    type=int,
    default=[],
)
VERBS: Final[dict[str, Verb]] = {
    "list": Verb("show.list_all", words=0),
    "show": Verb(
        "show.show",
        (
            option("--jobs", "only jobs in these states", "STATE,..."),
            option("--since", "what is new since: 2h, 14:02, 03-12, left", "WHEN"),
        ),
        words=2,
    ),
    "results": Verb(
        "results.show_results",
        (
            option("--stage", "of this stage; by default of what has the result", "S"),
            option(
                "--metric",
                "a column: loss, accuracy:max, loss@5000; * for all; may be repeated",
                "METRIC",
                action="append",
                default=[],
            ),
            option(
                "--by",
                "rows by these parameters alone; all others are averaged over",
                "KEY,...",
            ),
            option("--baseline", "the row to compare with", "KEY=VALUE,..."),
            option("--csv", "as CSV"),
            option("--markdown", "as a Markdown table"),
        ),
        words=None,
    ),
    "stop": Verb(
        "maintenance.stop", (option("--jobs", "cancel what runs or waits as well"),)
    ),
    "restart": Verb("maintenance.restart"),
    "pause": Verb("job_verbs.pause_or_resume"),
    "resume": Verb("job_verbs.pause_or_resume"),
    "kill": Verb("job_verbs.kill", (_ALL, _REASON), words=None),
    "retry": Verb("job_verbs.retry", (_ALL, _SET, _FOLLOWERS), words=None),
    "skip": Verb("job_verbs.skip", (_ALL, _REASON), words=None),
    "waive": Verb("job_verbs.waive", (_REASON,), words=3),
    "approve": Verb("job_verbs.answer", (_ALL, _REASON, _DROP), words=None),
    "reject": Verb("job_verbs.answer", (_ALL, _REASON), words=None),
    "consult": Verb("job_verbs.consult"),
    "note": Verb("job_verbs.note", words=None),
    "check": Verb(
        "maintenance.check", (option("--repair", "what would mend it; --yes does it"),)
    ),
    "clean": Verb(
        "maintenance.clean",
        (
            option("--ended", "every session whose jobs have all ended"),
            option("--older-than", "of these only the old ones: 30d, 12h", "AGE"),
        ),
        words=None,
    ),
    "trust": Verb("maintenance.trust"),
}


def _list_all_flags() -> tuple[Flag, ...]:
    """What any verb takes, each option once, and the verbs: for a shell to complete."""
    (names, settings), words = _WORDS
    flags = {tuple(one[0]): one for verb in VERBS.values() for one in verb.flags}
    return ((names, {**settings, "choices": ("", *VERBS)}), words, *flags.values())


def main(argv: Sequence[str]) -> int:
    """Carry out one verb."""
    given = next((word for word in argv if word in VERBS), "")
    verb = VERBS.get(given, Verb(""))
    flags = (*_WORDS, *verb.flags)
    if not given and any(word.startswith("--print-completion") for word in argv):
        flags = _list_all_flags()
    options, args = parse_options(
        *("autoexp-sessions", __doc__, argv, flags), overrides=False
    )
    if args.verb != given or not given:
        raise UsageError(
            f"there is no verb {args.verb!r}" if args.verb else "what is to be done?",
            hint=did_you_mean(args.verb, list(VERBS), "Verbs"),
        )
    words = ([options.session] if options.session else []) + args.words
    if verb.words is not None and len(words) > verb.words:
        raise UsageError(
            f"{args.verb}: {words[verb.words]!r} is one word too many",
            hint=f"autoexp-sessions {args.verb} --help tells what it takes.",
        )
    from autoexp_tui.cli.session_verbs.request import Request

    module, _, name = verb.run.partition(".")
    run = getattr(import_module(f"{_PACKAGE}.{module}"), name)
    code: int = run(Request(args.verb, words, args, options))
    return code


entry = make_entry(main, __name__)
