"""The modules of the project and what each of them imports, read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]


@attrs.frozen
class Import:
    """One imported module, or name of a module, and where it is imported."""

    module: str
    name: str | None
    line: int


@attrs.frozen
class Module:
    """A module of the project; `path` is relative to the project."""

    name: str
    path: str
    tree: ast.Module = attrs.field(repr=False, eq=False)

    @property
    def imports(self) -> tuple[Import, ...]:
        """Every import of the module, wherever it stands."""
        return tuple(one for node in ast.walk(self.tree) for one in _imports(node, self.name))

    @property
    def hidden_imports(self) -> tuple[Import, ...]:
        """The imports inside of functions."""
        functions = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        inside = {node for function in functions for node in ast.walk(function)}
        return tuple(one for node in inside for one in _imports(node, self.name))


def modules(folder: str) -> dict[str, Module]:
    """The modules below a folder of packages, by name."""
    found = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        parts = (
            path.relative_to((ROOT / folder).parent if folder == "tablespec" else ROOT / folder).with_suffix("").parts
        )
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8")))
    return found


def imported_modules(module: Module, known: dict[str, Module]) -> Iterator[tuple[str, int]]:
    """The modules among `known` that a module imports, with the line."""
    for one in module.imports:
        inner = f"{one.module}.{one.name}"
        if inner in known:
            yield inner, one.line
        elif one.module in known:
            yield one.module, one.line


def _imports(node: ast.AST, importer: str) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, None, node.lineno)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{importer} line {node.lineno}: imports are absolute"
        for alias in node.names:
            yield Import(node.module or "", alias.name, node.lineno)
