"""Tests of text by the regex engine that comes with pydantic: linear and vectorised.

Implementations of `monitor.sieve.MakeTest` and `monitor.careful.Linear`. It only
answers yes or no, which is all that they ask.
"""

from __future__ import annotations

from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

from autoexp_tui.monitor.sieve import Test, by_re


def fast_test(pattern: str) -> Test:
    """Whether `pattern` occurs in a text, at gigabytes a second where it seldom does.

    One that the engine does not take is tested by Python's own.
    """
    return rust_test(pattern) or by_re(pattern)


@lru_cache(maxsize=256)
def rust_test(pattern: str) -> Test | None:
    """The same; None for a pattern that the engine does not take."""
    schema = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
    try:
        return SchemaValidator(schema).isinstance_python
    except SchemaError:
        return None
