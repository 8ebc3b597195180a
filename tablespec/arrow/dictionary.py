"""Which columns of a Parquet file are worth a dictionary: one of values that hardly repeat costs time and space for nothing."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

# Of so few rows a dictionary never costs much.
_FEW_ROWS = 4_096
# A sample is made of runs, so that values which repeat only side by side are seen to repeat.
_RUNS, _RUN_ROWS = 64, 64


def dictionary_columns(rows: pa.Table) -> list[str]:
    """The leaves whose values seem to repeat, judged by a sample; those inside of other columns are taken to."""
    columns = list(rows.schema)
    if rows.num_rows > _FEW_ROWS:
        sample = _sample(rows)
        columns = [field for field in columns if _repeats(sample.column(field.name), rows.num_rows)]
    return [path for field in columns for path in leaf_paths(field)]


def leaf_paths(field: pa.Field, prefix: str = "") -> list[str]:
    """The paths of the leaf columns of a field, as Parquet spells them."""
    path = f"{prefix}{field.name}"
    if pa.types.is_struct(field.type):
        return [leaf for member in field.type for leaf in leaf_paths(member, f"{path}.")]
    if pa.types.is_map(field.type):
        members = (field.type.key_field.with_name("key"), field.type.item_field.with_name("value"))
        return [leaf for member in members for leaf in leaf_paths(member, f"{path}.key_value.")]
    if pa.types.is_list(field.type) or pa.types.is_large_list(field.type):
        return leaf_paths(field.type.value_field.with_name("element"), f"{path}.list.")
    return [path]


def _sample(rows: pa.Table) -> pa.Table:
    step = rows.num_rows // _RUNS
    return pa.concat_tables([rows.slice(run * step, _RUN_ROWS) for run in range(_RUNS)])


def _repeats(sample: pa.ChunkedArray, rows: int) -> bool:
    """Whether a value seems to come four times or more, in the sample or seen from how many of it had come before."""
    if pa.types.is_nested(sample.type):
        return True
    size, distinct = len(sample), pc.count_distinct(sample, mode="all").as_py()
    return bool(4 * distinct <= size or (size - distinct) * rows >= 2 * size * size)
