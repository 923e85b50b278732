"""Apply an idea's edits to the working tree: what an agent would do, by a script.

    python -m autoexp_tui.demo.packing.implement [IDEA.md]

The idea is read from the file, else from standard input; the tree is the current
directory. Exit status 1: an edit does not apply, and no file is changed. An edit:

    <<<<<<< FILE
    the lines as they are
    =======
    the lines as they should be
    >>>>>>> FILE

It applies where its lines stand exactly once: on any other commit it either does what
it says or is refused."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autoexp_tui.demo.packing import PackingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_EDIT: Final = re.compile(
    r"^<{7} (\w[\w.-]*)\n(.*?)^={7}\n(.*?)^>{7} \1$", re.MULTILINE | re.DOTALL
)


def apply_edits(idea: str, read: Callable[[str], str]) -> dict[str, str]:
    """The text after the idea, by file; `read` gives the text of a file before it.

    Raises PackingError when the idea has no edit, or one does not apply."""
    edits = _EDIT.findall(idea)
    if not edits:
        raise PackingError("the idea has no edit: <<<<<<< FILE, =======, >>>>>>> FILE")
    texts: dict[str, str] = {}
    for number, (file, old, new) in enumerate(edits, start=1):
        text = texts[file] if file in texts else read(file)
        if (times := text.count(old)) != 1:
            raise PackingError(
                f"edit {number} of {len(edits)} does not apply: its lines stand "
                f"{times} times in {file}, not once: {old.splitlines()[:1]}"
            )
        texts[file] = text.replace(old, new)
    return texts


def implement(idea: str, tree: Path) -> tuple[str, ...]:
    """Apply the edits in `tree`; returns the names of the files that they name.

    Raises PackingError before anything is changed."""

    def read(file: str) -> str:
        try:
            return (tree / file).read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise PackingError(f"cannot read {file}: {error}") from error

    texts = apply_edits(idea, read)
    for file, text in texts.items():
        (tree / file).write_bytes(text.encode())
    return tuple(texts)


def answer_call(role: str, prompt: str, directory: Path) -> str:
    """As an agent that is a function: apply the edits in the prompt of `implement`.

    It changes nothing in other roles; a review has nothing to add to an edit."""
    if role != "implement":
        return "Nothing to add: the edits are all of the idea."
    return f"edited {', '.join(implement(prompt, directory))}"


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status."""
    try:
        idea = Path(arguments[0]).read_bytes() if arguments else sys.stdin.buffer.read()
        print(answer_call("implement", idea.decode(), Path()))
    except (PackingError, OSError, UnicodeDecodeError) as error:
        print(f"implement: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
