"""The size of modules and functions: what is large is listed, what is too large fails."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
FOLDERS = ("tablespec", "engines", "tests", "docs")


@attrs.frozen
class Limit:
    """From how many lines on a thing is listed, and from how many on it is too large."""

    kind: str
    listed: int
    failing: int


MODULE = Limit("module", 350, 500)
FUNCTION = Limit("function", 40, 60)


@attrs.frozen
class Size:
    """The lines of one module or function."""

    limit: Limit
    place: str
    lines: int

    @property
    def is_large(self) -> bool:
        """Whether it is worth a look."""
        return self.lines > self.limit.listed

    @property
    def is_too_large(self) -> bool:
        """Whether it must be cut; a module of many small tests is still read one test at a time."""
        of_tests = self.place.startswith("tests/") and self.limit is MODULE
        return self.lines > self.limit.failing and not of_tests

    def __str__(self) -> str:
        mark = "TOO LARGE" if self.is_too_large else "large"
        return f"{mark:9}  {self.limit.kind:8}  {self.lines:4} lines  {self.place}"


def sizes() -> list[Size]:
    """Every module and function of the project, the largest first."""
    found = [size for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") for size in _sizes_in(path)]
    return sorted(found, key=lambda size: (size.limit.kind, -size.lines, size.place))


def report(found: list[Size]) -> str:
    """The large ones, and how many there are in all."""
    modules = [size for size in found if size.limit is MODULE]
    total = sum(size.lines for size in modules)
    summary = f"{len(modules)} modules, {len(found) - len(modules)} functions, {total} lines"
    return "\n".join([*(str(size) for size in found if size.is_large), summary])


def _sizes_in(path: Path) -> Iterator[Size]:
    text = path.read_text(encoding="utf-8")
    place = str(path.relative_to(ROOT))
    yield Size(MODULE, place, len(text.splitlines()))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield Size(FUNCTION, f"{place}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1)


if __name__ == "__main__":
    everything = sizes()
    sys.stdout.write(report(everything) + "\n")
    sys.exit(any(size.is_too_large for size in everything))
