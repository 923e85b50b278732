"""autoexp-init -- CMD ...: writes an experiment around your own training command.

Every `--key value` of the command becomes a knob of the config, so that a sweep can
vary it. Nothing is run and no existing file is changed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from autoexp_tui.cli.diagnostics import ExitCode, make_entry, say
from autoexp_tui.cli.options import build_parser, option
from autoexp_tui.model.errors import UsageError
from autoexp_tui.planning.overrides import escape_dollars
from autoexp_tui.probes.yaml_text import format_scalar
from autoexp_tui.storage.atomic import explaining
from autoexp_tui.text.did_you_mean import find_slip
from autoexp_tui.text.sanitize import clean

_TAKEN = frozenset(
    {"project", "backend", "slurm", "monitoring", "sweep", "tree", "research", "ui"}
    | {"defaults", "aux", "stage", "index", "family", "hydra"}
    | {"null", "true", "false", "yes", "no", "on", "off", "nan", "inf"}
)
"""Top-level keys that mean something already, and words that YAML reads as values."""
_SECTIONS = ("project", "slurm", "monitoring", "ui")
"""Keys of ours that a key of the user's must not look like a misspelling of."""
_LIKELY = ("lr", "learning_rate", "seed", "batch_size", "weight_decay")
"""Knobs that people sweep first."""
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_SAME_NUMBER = re.compile(
    r"-?(0|[1-9][0-9]*)(\.[0-9]*[1-9]|\.0)?"
    r"|-?[1-9][0-9]*(\.[0-9]*[1-9])?e-?[1-9][0-9]*"
)
"""Numbers that are the same when read and written again; 010 and 1.10 are not."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SCRIPTS = (".py", ".sh")
_SHORT = 40
"""Characters of a text that a job's name may hold."""


_FLAGS = (
    option("--name", "of the experiment (the script's)", "NAME"),
    option("-C --config-dir", "where to write it", "DIR", default="config"),
)


def main(argv: Sequence[str]) -> int:
    """Write `config/<name>.yaml`."""
    words = list(argv)
    cut = words.index("--") if "--" in words else len(words)
    usage = "autoexp-init [--name NAME] [-C DIR] -- CMD ..."
    args = build_parser("autoexp-init", __doc__, _FLAGS, usage).parse_args(words[:cut])
    command = words[cut + 1 :]
    if not command:
        raise UsageError(
            "no command given", hint="autoexp-init -- python train.py --lr 1e-3"
        )
    name = args.name or name_command(command)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--name: {name!r} cannot name an experiment",
            hint="Letters, digits, _ . and - can; it becomes a file and a directory.",
        )
    if re.search("[\ud800-\udfff]", "".join(command)):
        raise UsageError(
            "a word of the command is no UTF-8 text",
            hint="Give the file another name, or name it in a script of your own.",
        )
    path = Path(args.config_dir) / f"{name}.yaml"
    _write(path, render_config(name, command))
    for warning in find_doubts(command):
        say(f"warning: {warning}; the experiment is written all the same")
    place = args.config_dir
    where = "" if place == "config" else f" -C {shlex.quote(place)}"
    print(
        f"wrote {path}\n"
        f"  autoexp-plan{where} --config-ref {name}   shows what would run\n"
        f"  autoexp-tui{where} --config-ref {name}    opens it; S starts it"
    )
    return ExitCode.OK


def find_doubts(command: Sequence[str]) -> Iterator[str]:
    """What would keep the command from starting here; it may be right elsewhere."""
    if shutil.which(command[0]) is None:
        yield f"no program {command[0]!r} is on your PATH, or a file that may be run"
    script = next((word for word in command[1:] if word.endswith(_SCRIPTS)), "")
    if script and not Path(script).is_file():
        yield f"the script {script!r} is not a file here"


def _write(path: Path, text: str) -> None:
    if os.path.lexists(path):
        raise UsageError(
            "it exists already, and was left as it is",
            str(path),
            "Choose another name: --name NAME.",
        )
    with explaining(path, "write the experiment"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)


def name_command(command: Sequence[str]) -> str:
    """A name for the experiment: that of the script, else of the program."""
    script = next((word for word in command if word.endswith(_SCRIPTS)), command[0])
    chosen = Path(script).stem
    return re.sub(r"[^A-Za-z0-9_-]+", "_", chosen).strip("_") or "experiment"


def extract_knobs(command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The command's words, `${knob}` where a value was, and the values: of
    `--key value`, `--key=value` and `key=value`."""
    words: list[str] = []
    values: dict[str, str] = {}

    def take(name: str, value: str) -> str:
        key = _name_knob(name, values)
        values[key] = value
        return f"${{{key}}}"

    rest = list(command)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        takes_next = rest and (rest[0][:1] != "-" or _NUMBER.fullmatch(rest[0]))
        if equals and value and re.fullmatch(r"(--?|\+{0,2})[\w.-]+", flag):
            words.append(f"{escape_dollars(flag)}={take(flag, value)}")
        else:
            words.append(str(escape_dollars(word)))
            if word.startswith("--") and not equals and takes_next:
                words.append(take(word, rest.pop(0)))
    return words, values


def _name_knob(flag: str, known: Container[str]) -> str:
    """A new key of the config for a flag, which means nothing else there."""
    bare = re.sub(r"[^A-Za-z0-9_]+", "_", flag.lstrip("-+~"))
    key = bare.strip("_").lower() or "value"
    if key in _TAKEN or find_slip(key, _SECTIONS) or key[0].isdigit():
        key = f"arg_{key}"
    while key in known:
        key += "_"
    return key


_CONFIG = """\
# {comment}
#   autoexp-plan --config-ref {name}    shows what would run
#   autoexp-tui --config-ref {name}     opens it in the cockpit

defaults:
  - slurm: local # this machine; slurm=generic: a Slurm cluster
  - _self_

project:
  name: {job_name}
  base_output_dir: outputs/{name}

{knobs}backend:
  class_name: Command # the words of a command; no shell sees them
  command: [{words}]

monitoring:
  state_dir: outputs/.autoexp
  # Loss, step and speed are read from the log unasked. To restart a crash:
  # state_events:
  #   - name: crashed
  #     state: crash
  #     actions:
  #       - class_name: RestartAction
  #         conditions:
  #           - {{class_name: MaxAttemptsCondition, max_attempts: 2}}

{sweep}
"""


def render_config(name: str, command: Sequence[str]) -> str:
    """The experiment's YAML."""
    words, values = extract_knobs(command)
    # None with braces: in a sweep they are references of ours.
    plain = {k: v for k, v in values.items() if not re.search("[{}]", v)}
    likely = [key for key in _LIKELY if key in plain]
    numbers = [key for key, value in plain.items() if _NUMBER.fullmatch(value)]
    swept = next(iter([*likely, *numbers, *plain]), "")
    lines = [f"{key}: {_format_scalar(value)}\n" for key, value in values.items()]
    sweep, job_name = "# sweep:\n#   params: {seed: [1, 2, 3]}", name
    if swept:  # its value is in the name where it can stand there, else the index
        bare = values[swept].lstrip("-+")
        is_plain = _NAME.fullmatch(bare) and len(values[swept]) <= _SHORT
        job_name += f"_{swept}{{{swept if is_plain else 'index'}}}"
        value = _format_scalar(values[swept])
        sweep = f"sweep:\n  params:\n    {swept}: [{value}] # one job for each value"
    return _CONFIG.format(
        comment=clean(shlex.join(command), limit=400),
        name=name,
        job_name=format_scalar(job_name),
        knobs="".join([*lines, "\n"]) if lines else "",
        words=", ".join(map(format_scalar, words)),
        sweep=sweep,
    )


def _format_scalar(text: str) -> str:
    """A value as YAML: numbers as they are, texts as they reach the job unchanged."""
    if _SAME_NUMBER.fullmatch(text):
        return text
    return format_scalar(str(escape_dollars(text)))


entry = make_entry(main, __name__)
