"""What agents may set of a config, for an item or a fix: keys of the person's own, what
a program is given, and what a job asks of a machine. Who is trusted, what is spent,
measured and run is no agent's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from autoexp_tui.planning.overrides import read_override_key
from autoexp_tui.text.sanitize import clean, clean_line

MOST_CHARACTERS: Final = 500
"""Of an override."""
MOST_IN_ALL: Final = 2000
"""Characters of all of an item: a person is shown them whole."""
_OVERRIDE: Final = re.compile(r"(~|\+{0,2})([^=]*)(=.*)?")
_KEY: Final = re.compile(r"[A-Za-z_]\w*(?:[./-]\w+)*", re.ASCII)
_NO_VALUE: Final = re.compile(r"""[^\w.+/:@%,=\-\[\]{}'" ]|\.\./""")
_OPEN: Final = re.compile(
    r"(?:backend\.args|backend\.megatron)\..+|slurm\.sbatch\.(?:time|nodes|ntasks"
    r"|gres|gpus|mem|(?:gpus|ntasks)[_-]per[_-](?:node|task)"
    r"|cpus[_-]per[_-](?:task|gpu)|mem[_-]per[_-](?:cpu|gpu))"
)
"""What an agent may set of the sections of ours: what a program is given, and what a
job asks of a machine."""
_PARAMETERS: Final = re.compile(r"sweep\.(?:groups\.\d+\.)*params\.")
CLOSED: Final[Mapping[str, str]] = {
    "research": "what is spent and who approves",
    "agents": "which programs are called, and how they are isolated",
    "tree": "which search runs",
    "project": "where results lie, and who reads them",
    "monitoring": "what is measured, and which commands run",
    "backend": "which program runs; backend.args.KEY may be set",
    "environment": "which program runs",
    "slurm": "where jobs run, and for whom; slurm.sbatch.time, nodes, gpus, mem and "
    "the like may be set",
    "sweep": "which jobs there are; sweep.params.KEY may be set",
    "start_conditions": "what a job waits for",
    "start_condition_cmd": "what a job waits for",
    "cancel_conditions": "what ends a job",
    "ui": "what persons see",
    "experiments": "the whole config; config_ref may name another",
    "hydra": "how configs are found",
    "defaults": "how the config is put together",
}
"""Sections of which an agent may set no key, and what each decides."""


def find_overrides_problem(overrides: Sequence[str]) -> str:
    """Why an agent may not set these; empty: it may. A value is stated: it refers to
    nothing in the config or the environment, and no shell would read more in it."""
    for text in overrides:
        if problem := _find_problem(text):
            return f"{clean_line(text, 80)}: {problem}"
    if sum(map(len, overrides)) > MOST_IN_ALL:
        return f"the overrides have more than {MOST_IN_ALL} characters"
    return ""


def _find_problem(text: str) -> str:
    if len(text) > MOST_CHARACTERS:
        return f"it has more than {MOST_CHARACTERS} characters"
    if clean(text) != text:
        return "it holds control characters"
    match = _OVERRIDE.fullmatch(text)
    if match is None or not match[2] or (match[3] is None and match[1] != "~"):
        return "it is not KEY=VALUE"
    if not _KEY.fullmatch(match[2]):
        return f"{match[2]} is no plain key"
    if bad := _NO_VALUE.search(match[3] or ""):
        return f"its value holds {bad[0]}"
    key = _PARAMETERS.sub("", read_override_key(text), count=1)
    section = key.partition(".")[0]
    is_open = _OPEN.fullmatch(key) and match[1] != "~"
    if section in CLOSED and not is_open:
        return f"no agent may set {key}: {section} decides {CLOSED[section]}"
    return ""
