"""autoexp-render-config: a composed config, or that of one job, as YAML or JSON."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from autoexp_tui.cli.diagnostics import ExitCode, exit_with, print_json
from autoexp_tui.cli.options import Options, common, parse, parser
from autoexp_tui.probes.config_files import config_dir, config_roots
from autoexp_tui.text.sanitize import clean


def main(argv: Sequence[str]) -> int:
    """Print a resolved config."""
    made = parser("autoexp-render-config", __doc__ or "")
    made.add_argument("--job", metavar="NAME", default="", help="of this job")
    made.add_argument("--unmask", action="store_true", help="show secrets as they are")
    args = parse(made, argv)
    options = common(args)
    from autoexp_tui.config.planning import PlanningRequest, run_planning
    from autoexp_tui.model.masking import mask_rules, mask_values

    request = PlanningRequest(
        want="config",
        config_ref=options.config_ref or "exp",
        config_dir=options.config_dir,
        overrides=options.overrides,
        state_dir=options.state_dir,
        job=args.job,
        now=time.time(),
    )
    result = run_planning(request)
    result.raise_errors()
    config = dict(result.config or {})
    if not args.unmask:
        config = mask_values(config, mask_rules(config))
    if options.json:
        print_json(config)
    else:
        print(_as_yaml(config, options), end="")
    return ExitCode.OK


def _as_yaml(config: Mapping[str, object], options: Options) -> str:
    """The config below a comment that names where it was looked for."""
    import yaml

    roots = config_roots(config_dir(options.config_dir or None, Path.cwd()))
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    if clean(text, keep_newlines=True) != text:  # escapes what would not be seen
        text = yaml.safe_dump(config, sort_keys=False)
    searched = clean(", then ".join(map(str, roots)))
    return f"# searched: {searched}\n{text}"


def entry() -> None:
    """The console script."""
    exit_with(main)


if __name__ == "__main__":
    entry()
