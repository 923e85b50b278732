"""autoexp-sessions results: what the runs of sessions came to, in one table."""

from __future__ import annotations

from collections.abc import Sequence

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.open import find_session
from autoexp_tui.cli.session_verbs.request import Request, Sight, look_at
from autoexp_tui.model.errors import UsageError
from autoexp_tui.telemetry.result_export import (
    write_csv,
    write_json,
    write_markdown,
    write_text,
)
from autoexp_tui.telemetry.results import (
    ResultTable,
    Source,
    group_runs,
    list_metrics,
    parse_measures,
)
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import plural


def show_results(request: Request) -> int:
    """The table of one session, or of several, the best row first."""
    if not request.words:
        raise UsageError(
            "results: of which session?", hint="`autoexp-sessions list` names them."
        )
    args, as_json = request.args, request.options.json
    if sum(map(bool, (args.csv, args.markdown, as_json))) > 1:
        raise UsageError("--csv, --markdown and --json: one at a time")
    sessions = (find_session(request.options, word) for word in request.words)
    found = {one.path: one for one in sessions}
    table = _build_table(request, [_make_source(look_at(it)) for it in found.values()])
    rows = table.sort_rows(table.result_column)
    if as_json or args.csv or args.markdown:
        write = write_json if as_json else write_csv if args.csv else write_markdown
        print(write(table, rows), end="")
        return ExitCode.OK
    number = sum(len(group.jobs) for group in table.groups.rows)
    size = f"{plural(len(rows), 'row')} of {plural(number, 'job')}"
    stage = f"stage {table.groups.stage}" if table.groups.stage else ""
    facts = [stage, size, table.groups.describe_over()]
    print(clean_line("; ".join(filter(None, facts))))
    print(write_text(table, rows))
    return ExitCode.OK


def _make_source(sight: Sight) -> Source:
    state = sight.state
    if state.plan is None:
        raise UsageError(f"session {sight.session.id} has no plan yet")
    jobs = [state.jobs[name] for name in state.order]
    live = [sight.live.get(name) for name in state.order]
    return Source(state.plan, jobs, live, sight.session.id)


def _build_table(request: Request, sources: Sequence[Source]) -> ResultTable:
    """As the options say; raises UsageError for what is not there."""
    args = request.args
    by = tuple(args.by.replace(",", " ").split())
    groups = group_runs(sources, args.stage or None, by=by)
    if not groups.stages:
        raise UsageError(f"session {sources[0].session} has no runs yet")
    if not groups.rows:
        hint = did_you_mean(args.stage, groups.stages, "stages")
        raise UsageError(f"--stage: no job is of the stage {args.stage!r}", hint=hint)
    if args.by and groups.unknown:
        keys = list(dict.fromkeys(key for row in groups.rows for key in row.settings))
        hint = did_you_mean(groups.unknown[0], [*keys, *groups.over], "keys")
        raise UsageError(f"--by: no job of this stage sets {args.by!r}", hint=hint)
    try:
        known = list_metrics(sources, groups)
        wanted = parse_measures(" ".join(args.metric), known)
        table = ResultTable(sources, groups, wanted or (groups.result,))
        row = table.find_row(args.baseline) if args.baseline else None
    except ValueError as error:
        raise UsageError(str(error)) from None
    return ResultTable(sources, groups, table.measures, row)
