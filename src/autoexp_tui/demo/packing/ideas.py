"""The ideas for a node: those of the catalogue, then mutations of the constants.

    python -m autoexp_tui.demo.packing.ideas --ideas-dir DIR [--context-ideas-dir DIR]

Reads `solver.py` in the current directory. Nothing is drawn: the same source and the
same ideas before it give the same ideas, on every machine."""

from __future__ import annotations

import argparse
import re
import sys
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autoexp_tui.demo.packing import PackingError
from autoexp_tui.demo.packing.implement import apply_edits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SOLVER: Final = "solver.py"
IDEAS: Final = 7
FACTORS: Final = (0.4, 0.7, 1.3, 1.8)
"""No two of them undo each other."""
_CONSTANT: Final = re.compile(
    r"^([A-Z_]+) = ([\d.]+)  # ([\d.]+) to ([\d.]+)\b.*$", re.MULTILINE
)
"""A number, and in its comment the range in which an evaluation stays short."""


def list_ideas(
    source: str, taken: Iterable[str] = (), count: int = IDEAS
) -> list[tuple[str, str]]:
    """At most `count` ideas, (file name, markdown), for a node with this solver.

    Those whose titles are among `taken`, the texts of earlier ideas, are left out, as
    are those that do not apply. File names are in the order of the list."""
    titles = {parse_title(text) for text in taken}
    texts = (
        text
        for text in (*read_catalogue(), *mutate_constants(source))
        if parse_title(text) not in titles and applies(text, source)
    )
    return [
        (f"{number:02d}-{make_slug(parse_title(text))}.md", text)
        for number, text in enumerate(islice(texts, count), start=1)
    ]


def read_catalogue() -> list[str]:
    """In the order of their file names."""
    paths = (Path(__file__).parent / "catalogue").glob("*.md")
    return [path.read_text(encoding="utf-8") for path in sorted(paths)]


def parse_title(text: str) -> str:
    """The first line, without its mark."""
    return text.partition("\n")[0].lstrip("# ").strip()


def make_slug(title: str) -> str:
    """A title as a part of a file name."""
    return re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-")


def applies(text: str, source: str) -> bool:
    """Whether each edit of the idea finds its lines in the solver."""
    try:
        apply_edits(text, {SOLVER: source}.__getitem__)
    except (PackingError, KeyError):
        return False
    return True


def mutate_constants(source: str) -> list[str]:
    """Ideas that change one constant each, in an order that the source decides."""
    return sorted(
        _list_mutations(source),
        key=lambda text: sha256(f"{source}\0{text}".encode()).hexdigest(),
    )


def _list_mutations(source: str) -> Iterator[str]:
    for line in _CONSTANT.finditer(source):
        name, value, least, most = line.groups()
        for factor in FACTORS:
            new = scale_number(value, factor)
            if new != value and float(least) <= float(new) <= float(most):
                yield format_mutation(line[0], name, value, new)


def scale_number(text: str, factor: float) -> str:
    """A number as it is written, times a factor; a whole number stays one."""
    value = float(text) * factor
    return repr(round(value, 4)) if "." in text else str(round(value))


def format_mutation(line: str, name: str, old: str, new: str) -> str:
    """The idea to give a constant another number."""
    changed = line.replace(f"{name} = {old}", f"{name} = {new}", 1)
    return (
        f"# {name} from {old} to {new}\n\nA mutation of one constant, in its range.\n\n"
        f"```text\n<<<<<<< {SOLVER}\n{line}\n"
        f"=======\n{changed}\n>>>>>>> {SOLVER}\n```\n"
    )


def main(arguments: Sequence[str]) -> int:
    """Write the ideas of the solver in the current directory; returns the status."""
    parser = argparse.ArgumentParser(prog="ideas", allow_abbrev=False)
    parser.add_argument("--ideas-dir", type=Path, required=True)
    parser.add_argument("--context-ideas-dir", type=Path, action="append", default=[])
    parser.add_argument("--count", type=int, default=IDEAS)
    options = parser.parse_args(arguments)
    try:
        taken = [
            path.read_text(encoding="utf-8")
            for directory in options.context_ideas_dir
            for path in sorted(directory.glob("*.md"))
        ]
        source = Path(SOLVER).read_text(encoding="utf-8")
        options.ideas_dir.mkdir(parents=True, exist_ok=True)
        for name, text in list_ideas(source, taken, options.count):
            (options.ideas_dir / name).write_text(text, encoding="utf-8")
            print(name)
    except (OSError, UnicodeDecodeError) as error:
        print(f"ideas: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
