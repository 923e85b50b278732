"""A text of OmegaConf's grammar is parsed once, and means what it always meant."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from omegaconf import OmegaConf, grammar_parser
from omegaconf.errors import GrammarParseError

from autoexp_tui.config import parse_trees
from autoexp_tui.config.parse_trees import parse_tree, share_parse_trees


@pytest.fixture(autouse=True)
def shared() -> Iterator[None]:
    share_parse_trees()
    parse_tree.cache_clear()
    yield
    parse_tree.cache_clear()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that OmegaConf's grammar has read."""
    texts: list[str] = []

    def counted(text: str) -> object:
        texts.append(text)
        return grammar_parser.parse(text)

    monkeypatch.setattr(parse_trees, "parse", counted)
    return texts


def test_configs_with_the_same_text_share_its_tree(parsed: list[str]) -> None:
    text = "${a}-${oc.select:b,none}"
    for n in range(3):
        assert OmegaConf.create({"a": n, "c": text}).c == f"{n}-none"
    assert parsed == [text]


def test_a_tree_that_was_read_reads_the_same_after_others() -> None:
    text = "${a}/${oc.select:'b',\"x y\"}/${l[0]}/${n.${a}}"
    config = OmegaConf.create({"a": "k", "l": [1], "n": {"k": "v"}, "t": text})
    first = config.t
    OmegaConf.create({"other": "${oc.env:NOWHERE,[1,{a:2}]}"}).get("other")
    assert config.t == first == "k/x y/1/v"


def test_a_text_that_does_not_parse_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(GrammarParseError):
            OmegaConf.create({"a": "${b"})
