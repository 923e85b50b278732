"""The glossary in CONTRIBUTING: short, and one meaning a word."""

from __future__ import annotations

import re

from tests.architecture.measure import HERE, own_verbs, words

CONTRIBUTING = (HERE.parent.parent / "CONTRIBUTING.md").read_text()
GLOSSARY = CONTRIBUTING.partition("## Glossary\n")[2].partition("\n## ")[0]


def test_the_glossary_adds_at_most_forty_verbs_to_those_of_the_field() -> None:
    assert 0 < len(own_verbs()) <= 40
    assert own_verbs().isdisjoint(words("verbs"))


def test_each_word_of_the_glossary_stands_there_once_with_a_meaning() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", GLOSSARY, re.MULTILINE)
    terms = [term for term, _ in rows]
    assert len(terms) == len(set(terms))
    assert all(meaning.strip() for _, meaning in rows)
