"""Themes as data: TOML files that say how each role looks.

Three come with the package (`dark`, `light`, `ansi`); a path to one's own file works
the same way. Without colours (NO_COLOR) the ansi theme is taken and only attributes
(bold, dim, reverse, underline) remain: states are told by glyph and word anyway.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from rich.color import Color, ColorSystem
from rich.errors import StyleSyntaxError
from rich.style import Style
from textual.theme import BUILTIN_THEMES, Theme

from autoexp_tui.cockpit.spans import Role
from autoexp_tui.model.errors import UsageError

ROLES: tuple[str, ...] = get_args(Role)
_COLORS = (
    "primary",
    "secondary",
    "accent",
    "warning",
    "error",
    "success",
    "foreground",
    "background",
    "surface",
    "panel",
)


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

    @property
    def eight_bit(self) -> bool:
        """Whether every colour is, to the eye, one of the 256 that terminals share."""
        styles = (*self.roles.values(), self.cursor, self.away)
        colors = [color for one in styles for color in (one.color, one.bgcolor)]
        return all(_is_shared(color) for color in colors if color is not None)


def themes_directory() -> Path:
    """Where the shipped themes lie: in the package, or beside the sources."""
    package = Path(__file__).resolve().parent.parent
    packed = package / "_data" / "themes"
    return packed if packed.is_dir() else package.parent.parent / "themes"


def load_skin(name: str = "dark", *, no_color: bool, ascii_only: bool) -> Skin:
    """The skin of a theme's name, or of a path to a theme file.

    Raises:
        UsageError: there is no such theme, or it says what cannot be.
    """
    path = _find("ansi" if no_color else name)
    skin = replace(_read(path), ascii=ascii_only)
    return _without_colors(skin) if no_color else skin


def _find(name: str) -> Path:
    if name.endswith(".toml"):
        return Path(name).expanduser()
    path = themes_directory() / f"{name}.toml"
    if not path.is_file():
        known = sorted(entry.stem for entry in themes_directory().glob("*.toml"))
        hint = f"themes: {', '.join(known)}; or a path to a .toml file"
        raise UsageError(f"no theme {name!r}", "ui.theme", hint)
    return path


def _read(path: Path) -> Skin:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(error.strerror or str(error), str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"not TOML: {error}", str(path)) from error
    return _skin(content, str(path))


def _skin(content: Mapping[str, object], where: str) -> Skin:
    colors = _table(content, "colors", where)
    roles = _table(content, "roles", where)
    rows = _table(content, "rows", where)
    missing = [key for key in _COLORS if key not in colors]
    missing += [f"roles.{role}" for role in ROLES if role not in roles]
    missing += [f"rows.{key}" for key in ("cursor", "away") if key not in rows]
    unknown = [f"roles.{key}" for key in roles if key not in ROLES]
    unknown += [f"colors.{key}" for key in colors if key not in _COLORS]
    if missing or unknown:
        found = "; ".join(
            f"{word}: {', '.join(keys)}"
            for word, keys in (("missing", missing), ("unknown", unknown))
            if keys
        )
        raise UsageError(found, where)
    ansi = bool(content.get("ansi", False))
    theme = Theme(
        name=f"autoexp-{content.get('name', 'own')}",
        dark=bool(content.get("dark", True)),
        ansi=ansi,
        boost="ansi_default" if ansi else None,
        variables=dict(BUILTIN_THEMES["ansi-dark"].variables) if ansi else {},
        **{key: str(value) for key, value in colors.items()},  # type: ignore[arg-type]
    )
    base = (
        Style()
        if theme.ansi
        else _style(
            f"{colors['foreground']} on {colors['background']}", "colors", where
        )
    )
    return Skin(
        theme=theme,
        base=base,
        roles={
            key: base + _style(text, f"roles.{key}", where)
            for key, text in roles.items()
        },
        cursor=_style(rows["cursor"], "rows.cursor", where),
        away=_style(rows["away"], "rows.away", where),
    )


def _table(content: Mapping[str, object], key: str, where: str) -> Mapping[str, object]:
    table = content.get(key)
    if not isinstance(table, dict):
        raise UsageError(f"no table [{key}]", where)
    return table


def _style(text: object, key: str, where: str) -> Style:
    try:
        return Style.parse(str(text)) if text else Style()
    except StyleSyntaxError as error:
        raise UsageError(f"{key}: {error}", where) from error


_A_SHADE = 10
"""Of 255: neighbouring greys of the 256 colours are this far apart."""


def _is_shared(color: Color) -> bool:
    triplet = color.triplet
    if triplet is None:
        return True
    shared = color.downgrade(ColorSystem.EIGHT_BIT).get_truecolor()
    return all(abs(a - b) <= _A_SHADE for a, b in zip(shared, triplet, strict=True))


def _without_colors(skin: Skin) -> Skin:
    return replace(
        skin,
        roles={role: _plain(style) for role, style in skin.roles.items()},
        cursor=_plain(skin.cursor),
        away=_plain(skin.away),
    )


def _plain(style: Style) -> Style:
    return Style(
        bold=style.bold,
        dim=style.dim,
        italic=style.italic,
        underline=style.underline,
        reverse=style.reverse,
    )
