"""LIKE patterns that are plain text tests."""

from __future__ import annotations

from tablespec.expr.nodes import TextTest

_ANYTHING = None


def read_pattern(pattern: str, escape: str | None) -> tuple[TextTest | None, str]:
    """The text test and the text that a LIKE pattern asks for; no test means that the whole string must be equal.

    Raises ValueError, naming the reason, for patterns that are no such test.
    """
    characters = _characters(pattern, escape)
    start = next((index for index, character in enumerate(characters) if character is not _ANYTHING), len(characters))
    end = len(characters) - next(
        (index for index, character in enumerate(reversed(characters)) if character is not _ANYTHING), 0
    )
    if start == len(characters) > 0:
        return TextTest.STARTS_WITH, ""
    middle = [character for character in characters[start:end] if character is not _ANYTHING]
    if len(middle) < end - start:
        raise ValueError("LIKE with % in the middle")
    return _test(starts=start > 0, ends=end < len(characters)), "".join(middle)


def _test(*, starts: bool, ends: bool) -> TextTest | None:
    if starts and ends:
        return TextTest.CONTAINS
    if starts:
        return TextTest.ENDS_WITH
    return TextTest.STARTS_WITH if ends else None


def _characters(pattern: str, escape: str | None) -> list[str | None]:
    """The characters that must stand there, with None for `%`."""
    if escape is None and "\\" in pattern:
        # Spark takes the backslash as an escape character, DuckDB as a plain one.
        raise ValueError("LIKE with a backslash and without ESCAPE")
    if escape is not None and len(escape) != 1:
        raise ValueError("LIKE with an ESCAPE that is not one character")
    found: list[str | None] = []
    rest = iter(pattern)
    for character in rest:
        if character == escape:
            escaped = next(rest, "")
            if escaped not in ("%", "_", escape):
                raise ValueError(f"LIKE with {escape + escaped!r}")
            found.append(escaped)
        elif character == "_":
            raise ValueError("LIKE with _")
        else:
            found.append(_ANYTHING if character == "%" else character)
    return found
