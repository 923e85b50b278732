"""An agent without a model: a script in data, or a function of a Python module.

Data is a JSON file: a list of steps, or such lists by role (`*`: any other role). A
step is a mapping of one key: `write` {path: text}, `remove` [paths], `step` (a use of a
tool), `say` (the last message), `usage` {input_tokens, ...}, `sleep` seconds, `fail`
message, `exit` status. A function is `module:function`, called with role, prompt and
directory; the text that it returns is the last message. As any other agent it runs as
a program of its own, the prompt on its standard input:
`python -m autoexp_tui.agents.scripted ROLE SCRIPT`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final


class ScriptFailed(Exception):
    """What a script says went wrong."""


def _tell(kind: str, **fields: object) -> None:
    sys.stdout.write(json.dumps({"type": kind, **fields}) + "\n")
    sys.stdout.flush()


def _write_files(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def _remove_files(names: Sequence[str]) -> None:
    for name in names:
        Path(name).unlink()


def _fail(message: str) -> None:
    raise ScriptFailed(message)


_STEPS: Final[Mapping[str, Callable[[Any], None]]] = {
    "write": _write_files,
    "remove": _remove_files,
    "step": lambda name: _tell("step", name=name),
    "say": lambda text: _tell("text", text=text),
    "usage": lambda usage: _tell("usage", usage=usage),
    "sleep": time.sleep,
    "fail": _fail,
    "exit": sys.exit,
}


def run_script(role: str, script: str, prompt: str) -> None:
    """Raises ScriptFailed, and whatever a function raises."""
    module, is_function, name = script.partition(":")
    if is_function:
        text = getattr(import_module(module), name)(role, prompt, Path.cwd())
        _tell("text", text=str(text or ""))
        return
    tree = json.loads(Path(script).read_bytes())
    steps = tree if isinstance(tree, list) else tree.get(role, tree.get("*", []))
    for step in steps:
        for name, value in step.items():
            _STEPS[name](value)


def main(arguments: list[str]) -> None:
    role, script = arguments
    try:
        run_script(role, script, sys.stdin.read())
    except Exception as error:
        _tell("result", failure=f"{type(error).__name__}: {error}"[:2000])
        raise
    _tell("result")


if __name__ == "__main__":
    main(sys.argv[1:])
