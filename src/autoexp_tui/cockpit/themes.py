"""Themes as data: TOML files that say how each role looks.

Three come with the package (`dark`, `light`, `ansi`), or a path to one's own. Without
colours the ansi theme is taken and only attributes (bold, dim, reverse) remain."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from rich.errors import StyleSyntaxError
from rich.style import Style
from textual.app import App
from textual.filter import Monochrome
from textual.theme import BUILTIN_THEMES, Theme

from autoexp_tui.cockpit.keymap import read_toml
from autoexp_tui.cockpit.spans import Role
from autoexp_tui.model.errors import UsageError

ROLES: tuple[str, ...] = get_args(Role)
ROWS = ("cursor", "away")
_COLORS = (
    *("primary", "secondary", "accent", "warning", "error", "success"),
    *("foreground", "background", "surface", "panel"),
)
_TABLES = {"colors": _COLORS, "roles": ROLES, "rows": ROWS}
"""Of a theme's file, and what each of them has."""


@dataclass(frozen=True, slots=True)
class Skin:
    """A theme ready to draw with."""

    theme: Theme
    base: Style
    """Ink and paper; empty where the terminal's own are used."""
    roles: Mapping[str, Style]
    """Each over `base`."""
    cursor: Style
    """Laid over the row under the cursor of the pane that has the focus."""
    away: Style
    """The same while the focus is elsewhere."""
    ascii: bool = False
    """Whether every glyph is drawn as its ASCII twin."""


def find_themes_directory() -> Path:
    """Where the shipped themes lie: in the package, or beside the sources."""
    package = Path(__file__).resolve().parent.parent
    packed = package / "_data" / "themes"
    return packed if packed.is_dir() else package.parent.parent / "themes"


def list_themes() -> list[str]:
    """The names of the shipped themes."""
    return sorted(entry.stem for entry in find_themes_directory().glob("*.toml"))


def load_skin(name: str = "dark", *, no_color: bool, ascii_only: bool) -> Skin:
    """The skin of a theme's name, or of a path to a theme file; raises UsageError."""
    directory = find_themes_directory()
    name = "ansi" if no_color else name
    path = directory / f"{name}.toml"
    if name.endswith(".toml"):
        path = Path(name).expanduser()
    elif not path.is_file():
        hint = f"themes: {', '.join(list_themes())}; or a path to a .toml file"
        raise UsageError(f"no theme {name!r}", "ui.theme", hint)
    skin = replace(_build_skin(read_toml(path), str(path)), ascii=ascii_only)
    if not no_color:
        return skin
    return replace(
        skin,
        roles={role: style.without_color for role, style in skin.roles.items()},
        cursor=skin.cursor.without_color,
        away=skin.away.without_color,
    )


def _build_skin(content: Mapping[str, Any], where: str) -> Skin:
    problems = []
    for table, keys in _TABLES.items():
        given = content.get(table)
        if not isinstance(given, dict):
            problems.append(f"no table [{table}]")
            continue
        for word, names in (
            ("missing", [key for key in keys if key not in given]),
            ("unknown", [key for key in given if key not in keys]),
        ):
            problems += [f"{word}: {table}.{name}" for name in names]
    if problems:
        raise UsageError("; ".join(problems), where)
    ansi, colors = bool(content.get("ansi", False)), content["colors"]
    theme = Theme(
        name=f"autoexp-{content.get('name', 'own')}",
        dark=bool(content.get("dark", True)),
        ansi=ansi,
        boost="ansi_default" if ansi else None,
        variables=dict(BUILTIN_THEMES["ansi-dark"].variables) if ansi else {},
        **{key: str(value) for key, value in colors.items()},  # type: ignore[arg-type]
    )
    paper = f"{colors['foreground']} on {colors['background']}"
    base = Style() if ansi else _parse_style(paper, "colors", where)
    styles = {
        role: base + _parse_style(text, f"roles.{role}", where)
        for role, text in content["roles"].items()
    }
    rows = content["rows"]
    cursor, away = (_parse_style(rows[key], f"rows.{key}", where) for key in ROWS)
    return Skin(theme, base, styles, cursor, away)


def _parse_style(text: object, key: str, where: str) -> Style:
    try:
        return Style.parse(str(text))
    except StyleSyntaxError as error:
        raise UsageError(f"{key}: {error}", where) from error


def is_ascii() -> bool:
    """Whether the environment's locale knows ASCII alone."""
    # Python's own encoding says nothing: it is UTF-8 under LC_ALL=C too.
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    chosen = next((value for name in names if (value := os.environ.get(name))), "C")
    return "utf" not in chosen.lower()


def apply_skin(
    app: App[Any], theme: str, *, no_color: bool | None, ascii_only: bool | None
) -> Skin:
    """Give an app its theme; without colours (None: by NO_COLOR) no grey is put in,
    glyphs by the locale where `ascii_only` is None."""
    if no_color is None:
        no_color = bool(os.environ.get("NO_COLOR"))
    if ascii_only is None:
        ascii_only = is_ascii()
    skin = load_skin(theme, no_color=no_color, ascii_only=ascii_only)
    app.register_theme(skin.theme)
    app.theme = skin.theme.name
    if no_color:
        app._filters = [one for one in app._filters if not isinstance(one, Monochrome)]
    return skin
