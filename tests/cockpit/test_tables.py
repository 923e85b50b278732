"""The command table, keymaps and themes: data that is checked."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest
from textual.actions import parse

from autoexp_tui.cockpit import keymap, terminal
from autoexp_tui.cockpit.actions import Actions
from autoexp_tui.cockpit.app import CockpitApp
from autoexp_tui.cockpit.context import Background
from autoexp_tui.cockpit.keymap import COMMANDS, FORBIDDEN_KEYS, Keymap, build_keymap
from autoexp_tui.cockpit.screens.events import EventsScreen
from autoexp_tui.cockpit.screens.jobs import JobsScreen
from autoexp_tui.cockpit.screens.lists import ListScreen, PolicyScreen
from autoexp_tui.cockpit.screens.research import ResearchScreen
from autoexp_tui.cockpit.screens.results import ResultsScreen
from autoexp_tui.cockpit.screens.tree import TreeScreen
from autoexp_tui.cockpit.session_model import SessionModel
from autoexp_tui.cockpit.spans import Span, line
from autoexp_tui.cockpit.state.session import Look
from autoexp_tui.cockpit.themes import Skin, find_themes_directory, is_ascii, load_skin
from autoexp_tui.cockpit.widgets.pane import Pane, draw_strip, to_ascii
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.states import Cause, JobState
from tests.cockpit.views import questioned
from tests.support.campaigns import campaign
from tests.support.scripted_handle import HOSTILE, with_job

TABLE = Keymap()


def test_no_key_means_two_things_in_one_place() -> None:
    for first, second in combinations(COMMANDS.values(), 2):
        shared = set(first.keys) & set(second.keys)
        clash = keymap.has_clash(first, second)
        assert not (shared and clash), (first.id, second.id, shared)


def test_acting_keys_are_upper_case_their_twins_and_forbidden_ones_stay_free() -> None:
    bound = {key: command.acts for command in TABLE for key in command.keys}
    acting = {key for key, acts in bound.items() if acts}
    assert acting == {key.upper() for key in acting}
    assert not ({"s", "r", "a", "x", "p", "u"} | FORBIDDEN_KEYS) & set(bound)
    twins_of: dict[keymap.Pane, str] = {"tree": "axibrp", "research": "axemitcp"}
    for pane, twins in twins_of.items():  # k is up
        here = {key for one in TABLE.at(pane, parts=keymap.PARTS) for key in one.keys}
        assert not here.intersection(twins)
    capitals = {key for key in bound if len(key) == 1 and key.isupper()}
    assert capitals - acting == {"G", "N", "E"}  # moves and searches


def list_kinds(base: type[Pane]) -> Iterator[tuple[str, type[Pane]]]:
    for kind in base.__subclasses__():
        yield getattr(kind, "name_in_table", ""), kind
        yield from list_kinds(kind)


def test_every_command_can_be_carried_out_where_it_is() -> None:
    panes = dict(list_kinds(Pane))
    panes |= {name: panes.get(name, Pane) for name in keymap.PARTS}
    lists = ("timeline", "waiting", "grid", "conditions")
    screens: dict[str, type] = dict.fromkeys(lists, ListScreen)
    screens |= {"policy": PolicyScreen, "tree": TreeScreen, "research": ResearchScreen}
    screens["results"] = ResultsScreen
    screens |= dict.fromkeys(("events", "effect", "evidence"), EventsScreen)
    for command in TABLE:
        destination, name, parameters = parse(command.action)
        for where in command.where:
            own = {"app": CockpitApp, "pane": panes[where]}
            target = own.get(destination, screens.get(where, JobsScreen))
            assert hasattr(target, f"action_{name}"), (command.id, where)
        is_ours = command.where - keymap.PARTS
        assert name != "act" or not is_ours or hasattr(Actions, str(parameters[0]))


def test_a_person_s_keys_replace_ours(tmp_path: Path) -> None:
    own = build_keymap({"move.down": ["j", "down", "f5"], "rows.need": "#"})
    assert own.keys("rows.need") == ("number_sign",)
    assert own.keys("move.down") == ("j", "down", "f5")
    assert own.keys("move.up") == ("k", "up")
    own = build_keymap({"log.follow": "f3", "metrics.scale": "f3"})  # other panes
    assert own.keys("log.follow") == own.keys("metrics.scale") == ("f3",)
    path = tmp_path / "keys.toml"
    path.write_text('[keys]\n"run.kill" = "ctrl+k"\n')
    assert keymap.load_keymap(path).key("run.kill") == "ctrl+k"


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"run.kil": "x"}, "did you mean `run.kill`"),
        ({"run.kill": "ctrl+nonsense"}, "no key 'ctrl+nonsense'"),
        ({"run.kill": {}}, "no key '{}'"),
        ({"rows.mark": "ctrl+z", "nope": "x"}, "ctrl+z must stay free|nope"),
        ({"rows.mark": "K"}, "run.kill's (it acts)"),
        ({"run.kill": "j"}, "move.down's"),
        ({"rows.mark": "s"}, "one slip from S"),
        ({"rows.mark": "f2", "rows.range": "f2"}, "f2"),
    ],
)
def test_a_keymap_that_cannot_be_is_refused_with_all_findings(
    table: dict[str, object], told: str
) -> None:
    with pytest.raises(UsageError) as refused:
        build_keymap(table)
    assert all(words in str(refused.value) for words in told.split("|"))


@pytest.mark.parametrize("text", ["[keys", "keys = 3", None])
def test_a_file_that_is_no_keymap_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "keys.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError):
        keymap.load_keymap(path)


def skin(name: str = "dark", **options: bool) -> Skin:
    return load_skin(name, **{"no_color": False, "ascii_only": False, **options})


DARK = (find_themes_directory() / "dark.toml").read_text()
FAILED = 'failed = "#ff5f5f"'


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ((FAILED, ""), "missing: roles.failed"),
        ((FAILED, 'failed = "no-colour"'), "roles.failed"),
        (("[rows]", "[lines]"), "[rows]"),
        ((FAILED, f'{FAILED}\nfoo = "red"'), "roles.foo"),
        (None, "ansi, dark, light"),
    ],
)
def test_a_theme_that_cannot_be_is_refused(
    tmp_path: Path, change: tuple[str, str] | None, told: str
) -> None:
    own = tmp_path / "own.toml"
    own.write_text(DARK.replace('name = "dark"', 'name = "mine"'))
    assert skin(str(own)).theme.name == "autoexp-mine"
    own.write_text(DARK.replace(*change) if change else "")
    with pytest.raises(UsageError) as refused:
        skin(str(own) if change else "neon")
    assert told in str(refused.value)


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_hostile_reaches_a_strip(name: str) -> None:
    drawn = draw_strip(line(name, Span(name, "failed")), skin(), 40)
    assert drawn.cell_length == 40
    for segment in drawn:
        assert segment.text.isprintable()
        assert segment.control is None


def test_markup_is_text_and_what_is_too_long_is_cut() -> None:
    markup = "x[/red] run[lr=0.1] [/"
    assert draw_strip(line(markup), skin(), 30).text.startswith(markup)
    assert draw_strip(line(markup), skin(), 10).cell_length == 10


def test_ascii_mode_draws_only_ascii_by_as_many_cells() -> None:
    glyphs = "".join(look.glyph for look in Look) + "─│┬█░▁▅…⠓▴▾漢é"
    assert draw_strip(line(glyphs), skin(ascii_only=True), 60).text.isascii()
    assert to_ascii("漢é⧗") == "??e:"


async def test_only_the_newest_call_of_a_key_that_is_still_waited_for_runs() -> None:
    background, gate = Background("test"), threading.Event()
    ran: list[int] = []
    held = asyncio.create_task(background.fetch("gate", partial(gate.wait, 5)))
    calls = [
        asyncio.create_task(background.fetch("same", partial(ran.append, number)))
        for number in range(5)
    ]
    left = asyncio.create_task(background.fetch("left", partial(ran.append, 9)))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.sleep(0)
    gate.set()
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in ended[:4]] == [True] * 4
    assert await held
    await background.fetch("last", lambda: None)
    assert ran == [4]


BASE = campaign(31)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.delenv("TMUX", raising=False)
    return []


def notifier(written: list[str], snapshot: Snapshot = BASE) -> terminal.Notifier:
    return terminal.Notifier(written.append, SessionModel(snapshot), quiet=False)


def test_a_copy_is_an_osc_52_which_tmux_is_asked_to_pass_on(
    written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = notifier(written).copy("héllo")
    payload = base64.b64encode("héllo".encode()).decode()
    assert written == [f"\x1b]52;c;{payload}\x07"]
    assert "6 B" in words
    monkeypatch.setenv("TMUX", "x")
    notifier(written).copy("x")
    assert written[1].startswith("\x1bPtmux;\x1b\x1b]52;c;")
    assert written[1].endswith("\x1b\\")


def test_nothing_and_what_is_too_long_for_a_terminal_are_not_copied(
    written: list[str],
) -> None:
    words = notifier(written).copy("a" * 200_000)
    assert words == "not copied: 200 kB is too much for a terminal"
    assert notifier(written).copy("") == "nothing to copy"
    assert written == []


def test_a_title_holds_no_sequence_of_others(written: list[str]) -> None:
    notifier(written, replace(BASE, name="a\x1b]0;b\x07c")).show_title()
    assert written[0].endswith(" ac\x07")
    assert written[0].count("\x1b") == 1


RUNNING = next(job.name for job in BASE.jobs if job.state is JobState.RUNNING)
ILL = with_job(BASE, RUNNING, state=JobState.FAILED, cause=Cause.NAN)
TRIED = with_job(ILL, RUNNING, spec=replace(ILL.jobs[0].spec, trial=True))
ANSWERED = with_job(BASE, BASE.jobs[-1].name, ask=None)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (BASE, BASE, ""),
        (BASE, ILL, "dense300m: 1 job failed"),
        (BASE, TRIED, ""),
        (BASE, replace(BASE, open=False), "dense300m: all ended"),
        (ANSWERED, BASE, "dense300m: 1 thing needs you"),
        (BASE, questioned(base=BASE), "dense300m: 1 thing needs you"),
    ],
)
def test_what_is_new_rings_once(
    before: Snapshot, after: Snapshot, said: str, written: list[str]
) -> None:
    model = SessionModel(before)
    bell = terminal.Notifier(written.append, model, quiet=False)
    model.take(after)
    bell.notify()
    bell.notify()
    assert len(written) == bool(said)
    assert not said or written[0].startswith(f"\x07\x1b]9;{said}")


class Dying:
    """A terminal that hangs up at the second write."""

    writes = 0

    def write(self, text: str) -> int:
        self.writes += 1
        if self.writes > 1:
            raise OSError(5, "Input/output error")
        return len(text)

    def flush(self) -> None:
        """Nothing is buffered."""

    def fileno(self) -> int:
        return 2


def test_a_lost_terminal_is_told_once_and_never_written_again() -> None:
    lost: list[int] = []
    dying = Dying()
    file = terminal.LosableFile(dying, lambda: lost.append(1))  # type: ignore[arg-type]
    for _ in range(4):
        file.write("x")
        file.flush()
    assert (lost, dying.writes, file.gone) == ([1], 2, True)


@pytest.mark.parametrize(
    ("environment", "ascii_only"),
    [
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, True),
        ({"LC_ALL": "POSIX"}, True),
        ({"LC_CTYPE": "en_US.ISO-8859-1"}, True),
        ({}, True),
        ({"LANG": "de_DE.UTF-8"}, False),
        ({"LC_CTYPE": "C.utf8", "LANG": "C"}, False),
        ({"LC_ALL": "", "LANG": "C.UTF-8"}, False),
    ],
)
def test_the_environment_s_locale_decides_about_ascii(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], ascii_only: bool
) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
        if name in environment:
            monkeypatch.setenv(name, environment[name])
    assert is_ascii() is ascii_only
