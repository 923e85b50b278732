"""autoexp-tree-score A.csv B.csv: two results compared, as a search compares them.

A is the baseline, B the candidate. Metrics, weights and bounds are those of a config or
a session's plan, if one is named; else the defaults of `tree` hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoexp_tui.cli.diagnostics import ExitCode, make_entry, print_json
from autoexp_tui.cli.options import Options, option, parse_options
from autoexp_tui.model.errors import UsageError

if TYPE_CHECKING:
    from autoexp_tui.tree.options import TreeOptions

_FLAGS = (
    (["files"], {"metavar": "CSV", "nargs": "*", "help": "the baseline, a candidate"}),
    option(
        "--sweep-config-limit", "rows that count: tree.sweep_config_limit", "N",
        type=int, default=None,
    ),
)  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Compare; raises UsageError, EnvironmentFailed, ResultsRefused."""
    options, args = parse_options(
        "autoexp-tree-score", __doc__, argv, _FLAGS, overrides=False
    )
    if len(args.files) != 2:
        hint = "autoexp-tree-score BASELINE.csv CANDIDATE.csv"
        raise UsageError("two files of results are compared", hint=hint)
    how = _find_options(options)
    if args.sweep_config_limit is not None:
        how = replace(how, sweep_config_limit=args.sweep_config_limit)
    before, after = map(Path, args.files)
    told = compare_files(before, after, how)
    if options.json:
        print_json(told)
        return ExitCode.OK
    from autoexp_tui.tree.views import format_comparison

    print("\n".join(format_comparison(told, "Against the baseline")))
    print(f"Rows: {told['ok_count']} ok of {told['expected_count']}")
    return ExitCode.OK


def compare_files(before: Path, after: Path, how: TreeOptions) -> dict[str, Any]:
    """The comparison as manifest.json holds it, with the counts of the candidate's
    rows."""
    from autoexp_tui.evaluation.read_back import read_results
    from autoexp_tui.tree.scores import compare_results
    from autoexp_tui.tree.views import list_comparison

    baseline, candidate = (read_results(path, how) for path in (before, after))
    compared = list_comparison(compare_results(baseline, candidate, how))
    assert compared is not None
    counts = candidate.count_rows(how.gate.min_rows, how.sweep_config_limit)
    return {
        "baseline": str(before),
        "candidate": str(after),
        **compared,
        "ok_count": counts.ok_count,
        "error_count": counts.error_count,
        "expected_count": counts.expected_count,
    }


def _find_options(options: Options) -> TreeOptions:
    """Those of the search that is named, else the defaults."""
    from autoexp_tui.tree.options import read_options

    if not (options.config_ref or options.session or options.manifest):
        return read_options({})
    from autoexp_tui.cli.open import ask_plan, build_request
    from autoexp_tui.config.planning import run_planning

    is_made = options.session or options.manifest
    answer = ask_plan(options) if is_made else run_planning(build_request(options))
    answer.raise_errors()
    plan = answer.plan
    assert plan is not None, "what has no errors has a plan"
    if not plan.tree:
        raise UsageError(f"{plan.config_ref}: its config has no section `tree`")
    return read_options(plan.tree)


entry = make_entry(main, __name__)
