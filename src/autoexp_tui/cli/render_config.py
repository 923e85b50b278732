"""autoexp-render-config: a composed config, or that of one job, as YAML or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autoexp_tui.cli.diagnostics import ExitCode, make_entry, print_json
from autoexp_tui.cli.open import build_request
from autoexp_tui.cli.options import option, parse_options
from autoexp_tui.config.planning import run_planning
from autoexp_tui.model.masking import mask_rules, mask_values
from autoexp_tui.probes.config_files import config_roots, find_config_dir
from autoexp_tui.text.sanitize import clean

_FLAGS = (
    option("--job", "of this job", "NAME"),
    option("--unmask", "show secrets as they are"),
)


def main(argv: Sequence[str]) -> int:
    """Print a resolved config."""
    options, args = parse_options("autoexp-render-config", __doc__, argv, _FLAGS)
    request = replace(build_request(options), want="config", job=args.job)
    result = run_planning(request)
    result.raise_errors()
    config = dict(result.config or {})
    if not args.unmask:
        config = mask_values(config, mask_rules(config))
    if options.json:
        print_json(config)
        return ExitCode.OK
    import yaml

    roots = config_roots(find_config_dir(options.config_dir or None, Path.cwd()))
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    if clean(text, keep_newlines=True) != text:  # escapes what would not be seen
        text = yaml.safe_dump(config, sort_keys=False)
    print(f"# searched: {clean(', then '.join(map(str, roots)))}\n{text}", end="")
    return ExitCode.OK


entry = make_entry(main, __name__)
