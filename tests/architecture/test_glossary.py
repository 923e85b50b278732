"""The glossary in CONTRIBUTING: short, and one meaning a word."""

from __future__ import annotations

import re
from pathlib import Path

import autoexp_tui
from tests.architecture.measure import HERE, Package, own_verbs, words

CONTRIBUTING = (HERE.parent.parent / "CONTRIBUTING.md").read_text()
DEFINED = re.compile(r"^ *(?:async )?(?:def|class) (\w+)", re.MULTILINE)
GLOSSARY = CONTRIBUTING.partition("## Glossary\n")[2].partition("\n## ")[0]


def test_the_glossary_adds_at_most_forty_verbs_to_those_of_the_field() -> None:
    assert 0 < len(own_verbs()) <= 40
    assert own_verbs().isdisjoint(words("verbs"))


def test_each_word_of_the_glossary_stands_there_once_with_a_meaning() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", GLOSSARY, re.MULTILINE)
    terms = [term for term, _ in rows]
    assert len(terms) == len(set(terms))
    assert all(meaning.strip() for _, meaning in rows)


def test_words_that_the_glossary_bans_are_in_no_name() -> None:
    text = GLOSSARY.partition("These words are not used in names: ")[2].partition(".")[
        0
    ]
    banned = set(re.findall(r"\w+", text))
    assert len(banned) > 10
    used = {
        (source.module, name)
        for source in Package(Path(autoexp_tui.__file__).parent).sources
        for name in (source.module.rpartition(".")[2], *DEFINED.findall(source.text))
        if banned & {part.lower() for part in re.findall("[A-Z]?[a-z]+", name)}
    }
    assert used == set()
