"""How columns lie in a Parquet file: a dictionary is worth it for values that repeat, and steps for numbers that move by small ones."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

# Of so few rows a dictionary never costs much.
_FEW_ROWS = 4_096
# A sample is made of runs, so that values which repeat only side by side are seen to repeat.
_RUNS, _RUN_ROWS = 64, 64
_STEPS = "DELTA_BINARY_PACKED"
# Most steps, without the few between the runs of a sample and the odd jump.
_MOST = (0.05, 0.95)


def dictionary_columns(rows: pa.Table) -> list[str]:
    """The leaves whose values seem to repeat, judged by a sample; those inside of other columns are taken to."""
    columns = list(rows.schema)
    if rows.num_rows > _FEW_ROWS:
        sample = _sample(rows)
        columns = [field for field in columns if _repeats(sample.column(field.name), rows.num_rows)]
    return [path for field in columns for path in leaf_paths(field)]


def stepping_columns(rows: pa.Table, dictionaries: Collection[str]) -> dict[str, str]:
    """The encoding of steps for columns of whole numbers, dates and times, without dictionaries, that move by small ones in a sample.

    They do where steps take at most half of the bits that the numbers take: files are smaller for it, and there is less to take apart.
    """
    if rows.num_rows <= _FEW_ROWS:
        return {}
    # A name with dots in it is also that of a leaf of another column.
    names = [field.name for field in rows.schema if _is_whole(field.type) and "." not in field.name]
    sample = _sample(rows.select([name for name in names if name not in dictionaries]))
    return {name: _STEPS for name in sample.column_names if _steps_are_small(sample.column(name))}


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


def _is_whole(type_: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(type_) or pa.types.is_date32(type_) or pa.types.is_timestamp(type_))


def _steps_are_small(sample: pa.ChunkedArray) -> bool:
    width = 64 if sample.type.bit_width == 64 else 32
    numbers = sample.drop_null().cast(pa.int64() if width == 64 else pa.int32()).combine_chunks()
    if len(numbers) < 2:
        return False
    # Steps wrap around at the ends of the numbers, as they do in files.
    steps = pc.pairwise_diff(numbers).cast(pa.int64()).slice(1)
    low, high = pc.quantile(steps, list(_MOST), interpolation="nearest").to_pylist()
    return bool((high - low).bit_length() <= width // 2)
