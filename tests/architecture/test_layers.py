"""The layers of docs/architecture.md, held by the imports that the source really makes."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import pytest

import tablespec
from tests.architecture.imports import Module, imported_modules, modules

# A layer imports only the layers before it. Packages that share a line do not import each other.
LAYERS = (
    ("errors",),
    ("model",),
    ("expr", "storage"),
    ("arrow",),
    ("formats",),
    ("read", "txn"),
    ("index",),
    ("write",),
    ("maintain",),
    ("sql",),
    ("table",),
    ("catalog",),
    ("__init__",),
    ("cli",),
)
# Where a third-party package may be imported; nowhere for an empty tuple.
HOMES = {
    "pyarrow": (
        "arrow",
        "formats",
        "read",
        "txn",
        "index",
        "write",
        "maintain",
        "table",
        "catalog",
        "sql",
        "__init__",
        "cli",
    ),
    "sqlglot": ("expr", "sql"),
    "obstore": ("storage",),
    "tantivy": ("arrow.match_text",),
    "fastavro": ("formats.hudi",),
    "typer": ("cli",),
    "click": ("cli",),
    "rich": ("cli",),
    "pyspark": (),
    "duckdb": (),
    "polars": (),
    "deltalake": (),
    "hudi": (),
}
ENGINES = {"tablespec_spark": "pyspark", "tablespec_duckdb": "duckdb", "tablespec_polars": "polars"}
CORE = modules("tablespec")
ADAPTERS = modules("engines")


def test_a_layer_imports_only_the_layers_before_it():
    assert [problem for module in CORE.values() for problem in _upward_or_sideways(module)] == []


def test_no_import_stands_inside_a_function():
    everything = [*CORE.values(), *ADAPTERS.values()]

    assert [f"{m.path}:{one.line} imports {one.module}" for m in everything for one in m.hidden_imports] == []


def test_no_modules_import_each_other_in_a_circle():
    graph = {name: {imported for imported, _ in imported_modules(module, CORE)} for name, module in CORE.items()}

    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_third_party_packages_stay_in_their_homes():
    problems = [
        f"{module.path}:{one.line} imports {one.module}"
        for module in CORE.values()
        for one in module.imports
        if (homes := HOMES.get(one.module.partition(".")[0])) is not None
        and not any(_is_in(module.name, home) for home in homes)
    ]

    assert problems == []


def test_the_model_is_made_of_attrs_and_nothing_else():
    allowed = {"attrs", "tablespec", *sys.stdlib_module_names}
    problems = [
        f"{module.path}:{one.line} imports {one.module}"
        for module in CORE.values()
        if _is_in(module.name, "model") or module.name == "tablespec.errors"
        for one in module.imports
        if one.module.partition(".")[0] not in allowed
    ]

    assert problems == []


def test_the_formats_never_see_each_other_and_only_detection_names_them():
    concrete = ("formats.delta", "formats.hudi")
    problems = [
        f"{module.path}:{line} imports {imported}"
        for module in CORE.values()
        if module.name != "tablespec.formats.detect"
        for imported, line in imported_modules(module, CORE)
        for format_ in concrete
        if _is_in(imported, format_) and not _is_in(module.name, format_)
    ]

    assert problems == []


def test_engines_import_only_public_names_of_tablespec():
    assert [problem for module in ADAPTERS.values() for problem in _private_names(module)] == []


def test_an_engine_adapter_knows_one_engine():
    others = {*ENGINES, *ENGINES.values()}
    problems = [
        f"{module.path}:{one.line} imports {one.module}"
        for module in ADAPTERS.values()
        for one in module.imports
        if (top := one.module.partition(".")[0]) in others
        and top not in (adapter := module.name.partition(".")[0], ENGINES[adapter])
    ]

    assert problems == []


def test_every_module_has_a_layer():
    assert {_layer(name) for name in CORE} <= {layer for line in LAYERS for layer in line}


def _upward_or_sideways(module: Module) -> Iterator[str]:
    rank = {layer: number for number, line in enumerate(LAYERS) for layer in line}
    layer = _layer(module.name)
    for imported, line in imported_modules(module, CORE):
        other = _layer(imported)
        if other != layer and rank[other] >= rank[layer]:
            yield f"{module.path}:{line} imports {imported}"


def _private_names(module: Module) -> Iterator[str]:
    for one in module.imports:
        if one.module == "tablespec" and one.name is not None and one.name not in tablespec.__all__:
            yield f"{module.path}:{one.line} imports {one.name} of tablespec"
        elif one.module.startswith("tablespec."):
            yield f"{module.path}:{one.line} imports {one.module}"
    for node in ast.walk(module.tree):
        match node:
            case ast.Attribute(value=ast.Name(id="tablespec"), attr=name) if name not in tablespec.__all__:
                yield f"{module.path}:{node.lineno} uses tablespec.{name}"


def _layer(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def _is_in(module: str, package: str) -> bool:
    place = "tablespec" if package == "__init__" else f"tablespec.{package}"
    return module == place or (package != "__init__" and module.startswith(f"{place}."))
