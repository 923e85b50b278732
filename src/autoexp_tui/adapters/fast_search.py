"""Tests of text by the regex engine that comes with pydantic: linear and vectorised.

Implementations of `monitor.sieve.MakeTest` and `monitor.careful.Linear`. It only
answers yes or no, which is all that they ask.
"""

from __future__ import annotations

from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

from autoexp_tui.monitor.sieve import AnyTest, Test, by_re


def fast_test(pattern: str) -> AnyTest:
    """Whether `pattern` occurs in a text, at gigabytes a second where it seldom does.

    One that the engine does not take is tested by Python's own.
    """
    validator = _validator(pattern)
    if validator is None:
        return by_re(pattern)
    holds = validator.isinstance_python

    def test(text: str | bytes) -> bool:
        if isinstance(text, str) or text.isascii():
            return holds(text)
        return _may_hold(validator, text)

    return test


@lru_cache(maxsize=256)
def rust_test(pattern: str) -> Test | None:
    """The same, of texts; None for a pattern that the engine does not take."""
    validator = _validator(pattern)
    return None if validator is None else validator.isinstance_python


@lru_cache(maxsize=256)
def _validator(pattern: str) -> SchemaValidator | None:
    schema = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
    try:
        return SchemaValidator(schema)
    except SchemaError:
        return None


def _may_hold(validator: SchemaValidator, data: bytes) -> bool:
    """Bytes are read as UTF-8; those that are none may hold anything."""
    try:
        validator.validate_python(data)
    except ValidationError as error:
        return (
            error.errors(include_url=False, include_context=False, include_input=False)[
                0
            ]["type"]
            != "string_pattern_mismatch"
        )
    return True
