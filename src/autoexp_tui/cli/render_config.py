"""autoexp-render-config: a composed config, or that of one job, as YAML or JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from autoexp_tui.cli.diagnostics import ExitCode, exit_with
from autoexp_tui.cli.options import common, parse, parser


def main(argv: Sequence[str]) -> int:
    """Print a resolved config."""
    made = parser("autoexp-render-config", __doc__ or "")
    made.add_argument("--job", metavar="NAME", default="", help="of this job")
    args = parse(made, argv)
    options = common(args)
    from autoexp_tui.adapters.planning import PlanningRequest, plan_in_child

    request = PlanningRequest(
        want="config",
        config_ref=options.config_ref or "exp",
        config_dir=options.config_dir,
        overrides=options.overrides,
        state_dir=options.state_dir,
        job=args.job,
        now=time.time(),
    )
    result = plan_in_child(request)
    result.raise_errors()
    config = dict(result.config or {})
    if options.json:
        print(json.dumps(config))
    else:
        import yaml

        print(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), end="")
    return ExitCode.OK


def entry() -> None:
    """The console script."""
    exit_with(main)


if __name__ == "__main__":
    entry()
