"""The adapters offer the same functions with the same parameters; who knows one knows all."""

from __future__ import annotations

import inspect
from typing import get_args, get_type_hints

import pytest
import tablespec_duckdb
import tablespec_polars
import tablespec_spark

# The object of the engine that a function works with stands first, under the name that people of the engine give it.
SESSIONS = ("spark", "con", "context")
FUNCTIONS = {
    "append",
    "attach",
    "attach_catalog",
    "changes",
    "cluster",
    "compact",
    "delete",
    "incremental",
    "merge",
    "overwrite_partitions",
    "read_optimized",
    "refresh",
    "replace_using",
    "replace_where",
    "scan",
    "sql",
    "update",
    "upsert",
}


@pytest.mark.parametrize("adapter", [tablespec_duckdb, tablespec_polars, tablespec_spark])
def test_an_adapter_offers_every_function(adapter):
    assert set(adapter.__all__) >= FUNCTIONS


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_a_function_has_the_same_parameters_in_every_adapter(function):
    duckdb, polars, spark = (
        _parameters(getattr(adapter, function)) for adapter in (tablespec_duckdb, tablespec_polars, tablespec_spark)
    )

    assert duckdb == polars == spark


def test_read_is_what_people_of_spark_call_a_scan():
    assert tablespec_spark.read is tablespec_spark.scan


def _parameters(function):
    """Names, kinds and defaults, with the keywords that stand behind `**` written out."""
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in SESSIONS:
            continue
        keywords = ()
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            (unpacked,) = get_args(get_type_hints(function)[name])
            keywords = tuple(sorted(get_type_hints(unpacked)))
        found.append((name, parameter.kind, parameter.default, keywords))
    return found
