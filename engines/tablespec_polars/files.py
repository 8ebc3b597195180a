"""The rows of Parquet files as Polars reads them itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate

import attrs
import polars as pl
import pyarrow as pa

from tablespec import (
    ArrayType,
    DataType,
    Field,
    FileSlice,
    JudgedSlice,
    Literal,
    MapType,
    Primitive,
    Scan,
    Snapshot,
    StructType,
    columns_of,
    types_in,
)
from tablespec_polars.expressions import condition, is_pattern

_EVERYTHING = Literal(True)
_VARIANT = Primitive("variant")
_UNREADABLE = (_VARIANT, Primitive("void"))
_WIDENED = tuple(map(Primitive, ("short", "integer", "long", "float", "double")))
_CASTS = pl.ScanCastOptions(
    integer_cast=["upcast", "allow-float"],
    float_cast="upcast",
    datetime_cast=["convert-timezone", "nanosecond-downcast", "millisecond-upcast"],
    missing_struct_fields="insert",
    extra_struct_fields="ignore",
    categorical_to_string="allow",
)
_ROW = "tablespec row of the file"
# Partition values that Polars reads from directories as they are meant: those that need no escaping.
_IN_DIRECTORIES = tuple(map(Primitive, ("byte", "short", "integer", "long", "string", "date")))
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# Polars offers this to its own reader of Delta tables and promises nobody that it stays.
_KNOWS_DELETIONS = "_deletion_files" in inspect.signature(pl.scan_parquet).parameters
# A frame of at most so many rows keeps what it knows of them from one query to the next, a bit a row.
_MOST_ROWS = 1 << 29


def one_read(asked: Scan) -> pl.LazyFrame | None:
    """All files of a scan in one read, which Polars plans by itself; None where it could give other rows."""
    types = polars_schema(attrs.evolve(asked, columns=None).arrow_schema)
    reading = _reading(asked, {*asked.schema.names, *(path[0] for path in columns_of(asked.predicate))}, None, types)
    matched = None if reading is None else condition(asked.predicate, types)
    files = _local_files(asked)
    if reading is None or matched is None or not files:
        return None
    if not all(asked.reader.layout.schema.field(name).type in _IN_DIRECTORIES for name in reading.order):
        return None
    if not all(_tells_partition(path, reading.partition(slice_)) for path, slice_ in files.items()):
        return None
    deletions = _Deletions(asked, files)
    if deletions.any and not deletions.readable:
        return None
    rows = reading.whole(list(files), deletions if deletions.any else None)
    if asked.predicate != _EVERYTHING:
        rows = rows.filter(matched)
    return rows.select(asked.schema.names)


def _local_files(asked: Scan) -> dict[str, FileSlice]:
    """The slices by the paths of their files; empty where one of them cannot be reached by Polars or needs a merge."""
    found: dict[str, FileSlice] = {}
    for one in asked.slices:
        base = one.slice.base
        path = None if base is None or one.slice.needs_merge else asked.storage.local_path(base.path)
        if path is None:
            return {}
        found[path] = one.slice
    return found


def _tells_partition(path: str, values: Mapping[str, object]) -> bool:
    """Whether the directories of a file say its partition values, and nothing else that looks like some."""
    parts = path.split("/")
    directories = [part for part in parts if "=" in part]
    said = [f"{name}={_NO_VALUE if value is None else value}" for name, value in values.items()]
    plain = all(_PLAIN.fullmatch(part) and part != _NO_VALUE for pair in values.items() for part in map(str, pair))
    return not directories if not values else plain and directories == said and parts[-1] not in directories


@attrs.frozen(eq=False)
class _Deletions:
    """The deleted rows of files, told when Polars is about to read them, and kept for the next query of the frame."""

    asked: Scan
    files: Mapping[str, FileSlice]
    _known: dict[str, pa.BooleanArray] = attrs.field(factory=dict, init=False)
    _keeps: bool = attrs.field(init=False)

    @_keeps.default
    def _are_few(self) -> bool:
        return sum(map(_rows, self.files.values())) <= _MOST_ROWS

    @property
    def any(self) -> bool:
        """Whether a row is deleted."""
        return self.asked.mode == Snapshot() and any(slice_.deletes is not None for slice_ in self.files.values())

    @property
    def readable(self) -> bool:
        """Whether Polars can be told which rows those are: it wants to know of every row of a file."""
        return _KNOWS_DELETIONS and all(
            slice_.base is not None and slice_.base.rows is not None for slice_ in self.files.values()
        )

    def kept(self, requested: pl.DataFrame) -> pl.DataFrame:
        """For every row of the requested files whether it is kept."""
        flags = [self._flags(path) for path in requested["path"]]
        ends = pa.array([0, *accumulate(map(len, flags))], pa.int64())
        vectors = pa.LargeListArray.from_arrays(ends, pa.concat_arrays(flags))
        return pl.DataFrame({"selection_vector": pl.Series(vectors)})

    def _flags(self, path: str) -> pa.BooleanArray:
        """For every row of a file whether it is kept."""
        known = self._known.get(path)
        if known is not None:
            return known
        slice_ = self.files[path]
        kept = self.asked.reader.kept(slice_)
        flags = pa.repeat(True, _rows(slice_)) if kept is None else kept
        if self._keeps:
            self._known[path] = flags
        return flags


def _rows(slice_: FileSlice) -> int:
    return 0 if slice_.base is None else slice_.base.rows or 0


def file_rows(
    asked: Scan, names: Sequence[str], slices: Sequence[JudgedSlice], predicate: pl.Expr | None
) -> pl.LazyFrame | None:
    """The rows of slices read by Polars itself; None where it could give other ones."""
    everything = polars_schema(attrs.evolve(asked, columns=None).arrow_schema)
    reading = _reading(asked, {*names, *(path[0] for path in columns_of(asked.predicate))}, predicate, everything)
    matched = None if reading is None else condition(asked.predicate, everything)
    if reading is None or matched is None:
        return None
    parts = reading.parts(asked, [one.slice for one in slices])
    if not parts:
        return None
    rows = parts[0] if len(parts) == 1 else pl.concat(parts)
    if asked.predicate != _EVERYTHING:
        rows = rows.filter(matched)
    if predicate is not None:
        rows = rows.filter(predicate)
    return rows.select(names)


@attrs.frozen(kw_only=True, eq=False)
class _Reading:
    """Which columns Polars reads: those of files, by the names that they have there, and those that the log holds."""

    stored: tuple[Field, ...]
    constants: tuple[Field, ...]
    order: tuple[str, ...]
    types: pl.Schema

    def parts(self, asked: Scan, slices: Sequence[FileSlice]) -> list[pl.LazyFrame]:
        """The rows of slices; empty where one of them cannot be reached by Polars or needs a merge."""
        clean: dict[tuple[object, ...], list[str]] = {}
        dirty: list[pl.LazyFrame] = []
        for slice_ in slices:
            path = None if slice_.base is None or slice_.needs_merge else asked.storage.local_path(slice_.base.path)
            if path is None:
                return []
            deleted = asked.reader.deleted(slice_) if asked.mode == Snapshot() else None
            if not deleted:
                clean.setdefault(slice_.partition_values, []).append(path)
                continue
            gone = pl.Series(list(deleted), dtype=pl.get_index_type()).implode()
            rows = self._read([path], row_index_name=_ROW).filter(~pl.col(_ROW).is_in(gone))
            dirty.append(self._named(rows, slice_.partition_values))
        return [*(self._named(self._read(paths), values) for values, paths in clean.items()), *dirty]

    def partition(self, slice_: FileSlice) -> dict[str, object]:
        """The values of all partition columns of a slice, in the order of the directories."""
        return dict(zip(self.order, slice_.partition_values))

    def whole(self, paths: list[str], deletions: _Deletions | None) -> pl.LazyFrame:
        """The rows of files whose directories say their partition values, without those that are deleted."""
        said = {name: self.types[name] for name in self.order}
        rows = self._read(paths, said, deletions=deletions)
        stored = (pl.col(field.stored_name).alias(field.name) for field in self.stored)
        return rows.select(*stored, *(pl.col(field.name) for field in self.constants))

    def _read(
        self,
        paths: list[str],
        said: Mapping[str, pl.DataType] | None = None,
        *,
        row_index_name: str | None = None,
        deletions: _Deletions | None = None,
    ) -> pl.LazyFrame:
        """The rows of files; `said` are the columns whose values their directories say."""
        private = {} if deletions is None else {"_deletion_files": ("delta-deletion-vector", deletions.kept)}
        return pl.scan_parquet(
            paths,
            row_index_name=row_index_name,
            schema={field.stored_name: self.types[field.name] for field in self.stored},
            glob=False,
            hive_partitioning=bool(said),
            hive_schema=said or None,
            **private,  # type: ignore[arg-type]  # one name, see _KNOWS_DELETIONS
            missing_columns="insert",
            extra_columns="ignore",
            cast_options=_CASTS,
        )

    def _named(self, rows: pl.LazyFrame, partition_values: tuple[object, ...]) -> pl.LazyFrame:
        """The rows with the names of the table, and the values of their partition."""
        found = rows.select(pl.col(field.stored_name).alias(field.name) for field in self.stored)
        values = dict(zip(self.order, partition_values))
        return found.with_columns(
            pl.lit(values[field.name], self.types[field.name]).alias(field.name) for field in self.constants
        )


def _reading(asked: Scan, names: set[str], predicate: pl.Expr | None, types: pl.Schema) -> _Reading | None:
    """How to read some columns and those of a query's filter; None where Polars cannot read one."""
    layout = asked.reader.layout
    needed = names if predicate is None else {*names, *predicate.meta.root_names()}
    if layout.by_field_id or any(name not in layout.schema or name == _ROW or is_pattern(name) for name in needed):
        return None
    # Polars does not open files with variants, whatever it is asked for.
    if any(_VARIANT in types_in(field.type) for field in layout.schema):
        return None
    stored = [field for field in layout.schema if field.name not in (*layout.constants, *layout.converted)]
    if not needed <= {field.name for field in stored} | set(layout.constants):
        return None
    chosen = [field for field in stored if field.name in needed] or [
        field for field in stored if _is_readable(field.type, field)
    ][:1]
    if not chosen or not all(_is_readable(field.type, field) for field in chosen):
        return None
    constants = tuple(field for field in layout.schema if field.name in layout.constants and field.name in needed)
    return _Reading(stored=tuple(chosen), constants=constants, order=layout.constants, types=types)


def _is_readable(data_type: DataType, field: Field) -> bool:
    """Whether Polars finds and converts the values of a column as tables do."""
    if any(key == "delta.typeChanges" for key, _ in field.metadata) and data_type not in _WIDENED:
        return False
    match data_type:
        case StructType(fields):
            return bool(fields) and all(
                member.stored_name == member.name and _is_readable(member.type, member) for member in fields
            )
        case ArrayType(element):
            return _is_readable(element, field)
        case MapType(key, value):
            return _is_readable(key, field) and _is_readable(value, field)
        case _:
            return data_type not in _UNREADABLE


def polars_schema(arrow: pa.Schema) -> pl.Schema:
    """The columns of a schema as Polars has them."""
    return pl.DataFrame(arrow.empty_table()).schema
