"""Exact edits in the text of an idea, and what becomes of files by them.

    <<<<<<< FILE
    the lines as they are
    =======
    the lines as they should be
    >>>>>>> FILE

An edit applies where its lines stand exactly once: on any other commit it either does
what it says or is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from autoexp_tui.demo.packing import PackingError

if TYPE_CHECKING:
    from collections.abc import Callable

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
