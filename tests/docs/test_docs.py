"""The documentation says what the code does: commands, YAML, links, keys, fields."""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.options import Parser, read_options
from autoexp_tui.cockpit.keymap import Keymap, display_key
from autoexp_tui.cockpit.settings import build_settings
from autoexp_tui.config.settings import HouseParser
from autoexp_tui.config.specs import ACTIONS, CONDITIONS, parse_condition
from autoexp_tui.config.yaml_files import parse_nodes
from autoexp_tui.executors import wrapper
from autoexp_tui.model import wording
from autoexp_tui.plan import expand_sweep
from autoexp_tui.research import options as research_options
from autoexp_tui.tree import options as tree_options

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    page.relative_to(ROOT)
    for page in (
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    )
)
COMMANDS = sorted(
    tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
)

_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_INLINE = re.compile(r"`(autoexp-[a-z-]+ [^`]+)`")
_OPTION = re.compile(r"--[a-z][a-z-]*")


class Block(NamedTuple):
    """A fenced block of a page."""

    page: Path
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}#{self.number}"


@cache
def text_of(page: Path) -> str:
    return (ROOT / page).read_text("utf-8")


@cache
def prose_of(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", text_of(page))


def blocks(language: str) -> list[Block]:
    return [
        Block(page, number, found[2])
        for page in PAGES
        for number, found in enumerate(_FENCE.finditer(text_of(page)), 1)
        if found[1] == language
    ]


# --------------------------------------------------------------------- command lines
class Stopped(Exception):
    """The command has parsed its arguments, and must not do anything."""

    def __init__(self, made: argparse.ArgumentParser, args: argparse.Namespace) -> None:
        super().__init__(made.prog)
        self.parser = made
        self.given = args


@pytest.fixture
def parse_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands stop as soon as they know what they were told."""

    def stop_intermixed(self: Parser, argv: Sequence[str]) -> None:
        args = argparse.ArgumentParser.parse_intermixed_args(self, argv)
        raise Stopped(self, args)

    def stop(self: Parser, argv: Sequence[str]) -> None:
        raise Stopped(self, argparse.ArgumentParser.parse_args(self, argv))

    monkeypatch.setattr(Parser, "parse_intermixed_args", stop_intermixed)
    monkeypatch.setattr(Parser, "parse_args", stop)


def parsed(words: Sequence[str]) -> Stopped:
    """What a command makes of its arguments.

    Raises:
        UsageError: it does not take them.
    """
    name = words[0].removeprefix("autoexp-").replace("-", "_")
    module = importlib.import_module(f"autoexp_tui.cli.{name}")
    with pytest.raises(Stopped) as stopped:
        module.main(list(words[1:]))
    return stopped.value


def command_lines() -> Iterator[str]:
    for block in blocks("sh"):
        for line in block.text.splitlines():
            if line.startswith("autoexp-"):
                yield " ".join(shlex.quote(w) for w in shlex.split(line, comments=True))
    for page in PAGES:
        yield from _INLINE.findall(prose_of(page))


@pytest.mark.usefixtures("parse_alone")
@pytest.mark.parametrize("line", sorted(set(command_lines())))
def test_a_command_line_of_the_docs_is_one_that_the_command_takes(line: str) -> None:
    stopped = parsed(shlex.split(line))
    if hasattr(stopped.given, "config_ref"):
        read_options(stopped.given)


@pytest.mark.usefixtures("parse_alone")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_is_documented(command: str) -> None:
    verb = ["list"] if command == "autoexp-sessions" else []
    options = set(_OPTION.findall(parsed([command, *verb]).parser.format_help()))
    told = set(_OPTION.findall(text_of(Path("docs/running.md"))))
    told |= set(_OPTION.findall(text_of(Path("docs/cockpit.md"))))
    assert options <= told


def test_every_exit_code_is_documented() -> None:
    rows = re.findall(r"^\| (\d+) \|", text_of(Path("docs/running.md")), re.MULTILINE)
    assert [int(row) for row in rows] == sorted(ExitCode)


# ---------------------------------------------------------------------------- blocks
@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_a_yaml_block_is_a_config_that_is_accepted(block: Block) -> None:
    _, config = parse_nodes(block.text, str(block))
    assert isinstance(config, dict)
    for spec in conditions_in(config):
        parse_condition(spec, str(block))
    with_backend = {"backend": {"class_name": "Null"}, **config}
    assert HouseParser("/cwd").check(with_backend) == ()


def conditions_in(config: Mapping[str, Any]) -> Iterator[object]:
    points = expand_sweep(config["sweep"]) if "sweep" in config else ()
    for place in (config, *(point.parameters for point in points)):
        for key in ("start_conditions", "cancel_conditions"):
            yield from place.get(key, ())


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_a_json_block_is_json(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_a_toml_block_is_a_keymap_or_settings_that_are_accepted(block: Block) -> None:
    assert build_settings(tomllib.loads(block.text), block.text).keymap is not None


# ----------------------------------------------------------------------------- links
def links() -> list[tuple[Path, str]]:
    return [
        (page, target)
        for page in PAGES
        for target in _LINK.findall(prose_of(page))
        if "://" not in target
    ]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text("utf-8")), re.M)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize(("page", "target"), links())
def test_a_relative_link_leads_somewhere(page: Path, target: str) -> None:
    path, _, anchor = target.partition("#")
    place = (ROOT / page).parent / path if path else ROOT / page
    assert place.exists()
    assert not anchor or anchor in anchors(place)


def test_every_page_of_the_docs_is_linked_from_the_readme() -> None:
    linked = set(_LINK.findall(text_of(Path("README.md"))))
    assert {str(page) for page in PAGES if page.parts[0] == "docs"} <= linked


def test_the_map_of_the_code_base_has_every_package_and_names_what_is_there() -> None:
    source = ROOT / "src" / "autoexp_tui"
    packages = {place.parent.name for place in source.glob("*/__init__.py")}
    page = text_of(Path("docs/architecture.md"))
    first = page.partition("## The commit loop")[0]
    told = re.findall(r"^(\w+)/", first, re.MULTILINE) + re.findall(r"`(\w+)`", first)
    assert packages <= set(told)
    one = "|".join(packages)
    named = re.findall(rf"(?<![\w/-])((?:{one})(?:[./][a-z_]+)+)(?![\w(])", page)
    pages = {f"{path.stem}.md" for path in PAGES}
    for name in {name.removesuffix(".py") for name in named if name not in pages}:
        place = source / name.replace(".", "/")
        assert place.is_dir() or place.with_suffix(".py").exists(), name


# --------------------------------------------------------------------- tables, fields
def test_the_table_of_keys_is_that_of_the_cockpit() -> None:
    table = "| id | keys | what it does |\n|---|---|---|\n"
    for one in Keymap():
        keys = " ".join(f"`{display_key(key)}`" for key in one.keys)
        keys = keys.replace("|", "\\|")  # else it would end the cell
        table += f"| `{one.id}` | {keys} | {one.help} |\n"
    assert table in text_of(Path("docs/cockpit.md")), f"it should be:\n{table}"


def describe_options(module: ModuleType, places: dict[str, Any]) -> Iterator[str]:
    """A row an option: its default, and the sentence below its field. `places`: what
    holds them, by the dots before; parts of those come behind them."""
    source = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
    said = {
        (kind.name, field.target.id): str(told.value.value)
        for kind in source.body
        if isinstance(kind, ast.ClassDef)
        for field, told in pairwise(kind.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(told, ast.Expr)
        and isinstance(told.value, ast.Constant)
    }
    waiting = list(places.items())
    while waiting:
        prefix, part = waiting.pop(0)
        parts = dict[str, Any]()
        for name in (one.name for one in fields(part)):
            default = getattr(part, name)
            if is_dataclass(default):
                parts[f"{prefix}{name}."] = default
                continue
            if name == "metrics":
                default = [one.name for one in default]
            shown = "" if default in ("", ()) else f"`{json.dumps(default)}`"
            yield f"| `{prefix}{name}` | {shown} | {said[type(part).__name__, name]} |"
        waiting = [*parts.items(), *waiting]


@pytest.mark.parametrize(
    ("page", "module", "places"),
    [
        ("tree", tree_options,
         {"": tree_options.TreeOptions(), "metrics.N.": tree_options.Metric(name="")}),
        ("research", research_options, {"": research_options.ResearchOptions()}),
    ],
)  # fmt: skip
def test_a_table_of_options_is_that_of_its_model(
    page: str, module: ModuleType, places: dict[str, Any]
) -> None:
    rows = describe_options(module, places)
    table = "\n".join(["| key | default | |", "|---|---|---|", *rows])
    assert f"{table}\n" in text_of(Path(f"docs/{page}.md")), f"it should be:\n{table}"


def test_every_reason_of_a_search_is_documented() -> None:
    block = wording._TEMPLATES.partition("# the gate of a tree")[2].partition("\n# ")[0]
    codes = " ".join(codes for codes, *_ in wording._ENTRY.findall(block)).split()
    assert len(codes) > 30
    told = set(re.findall(r"`(\w+)`", text_of(Path("docs/tree.md"))))
    assert {*codes} - told == set()


def test_conditions_and_actions_are_documented_with_their_fields() -> None:
    page = text_of(Path("docs/conditions-and-reactions.md"))
    words = set(re.findall(r"`(\w+)`", page))
    for name, kind in (*CONDITIONS.items(), *ACTIONS.items()):
        assert {name, *kind.list_fields()} <= words, name


def test_every_variable_that_a_job_finds_is_documented() -> None:
    source = Path(wrapper.__file__).read_text("utf-8")
    names = set(re.findall(r'env\["(\w+)"\]', source))
    told = set(re.findall(r"`(\w+)`", text_of(Path("docs/local-executor.md"))))
    assert names <= told
