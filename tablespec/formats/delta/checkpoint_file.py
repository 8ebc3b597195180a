"""One Parquet file of a checkpoint, opened: what its footer tells, and which of its row groups a predicate needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from types import TracebackType
from typing import Self

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from tablespec.arrow.parquet_file import open_parquet
from tablespec.arrow.schema import arrow_type
from tablespec.arrow.stats import leaf_indexes, value_range
from tablespec.arrow.verdict import ColumnBounds, verdicts
from tablespec.errors import CorruptLogError
from tablespec.expr.nodes import TRUE, Predicate
from tablespec.formats.delta.adds import TableShape
from tablespec.formats.delta.bounds import outer_bounds
from tablespec.formats.delta.stats_json import Leaf
from tablespec.model.schema import DOUBLE, FLOAT
from tablespec.storage.store import Storage

# Small batches, whose memory is used again and again; smaller still where there are few rows at all.
BATCH_ROWS = 16_384
FEW_ROWS = 65_536

GONE = "the file of this checkpoint is missing"
# A leaf that is never null when its action is there.
MARKS = {
    "protocol": "protocol.minReaderVersion",
    "metaData": "metaData.id",
    "txn": "txn.appId",
    "domainMetadata": "domainMetadata.domain",
    "sidecar": "sidecar.path",
    "add": "add.path",
    "remove": "remove.path",
}


@attrs.frozen(slots=False, eq=False)
class CheckpointFile:
    """A checkpoint file; the footer is looked at once."""

    file: pq.ParquetFile
    table: str
    path: str

    @classmethod
    def open(cls, storage: Storage, path: str) -> CheckpointFile:
        """The file at `path`."""
        try:
            return cls(open_parquet(storage, path), storage.url, path)
        except FileNotFoundError as error:
            raise CorruptLogError(storage.url, path, 0, GONE) from error
        except (pa.ArrowException, OSError) as error:
            raise CorruptLogError(storage.url, path, 0, f"the checkpoint cannot be read ({error})") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()
        # Some damage shows only when a page is read.
        if isinstance(error, (pa.ArrowInvalid, OSError)):
            raise CorruptLogError(self.table, self.path, 0, f"the checkpoint cannot be read ({error})") from error

    @cached_property
    def leaves(self) -> dict[str, int]:
        """The leaf columns by their dotted paths."""
        return leaf_indexes(self.file.metadata)

    @cached_property
    def add_type(self) -> pa.StructType:
        """The Arrow type of the adds."""
        return self.file.schema_arrow.field("add").type

    def mark_of_adds(self, read: Sequence[str]) -> str:
        """The column to know the rows with adds by: statistics where they are read anyway, or sizes, as paths take longer to read.

        Only a column that every add has a value in will do.
        """
        marks = [*(["add.stats"] if "add.stats" in read else []), "add.size"]
        return next((mark for mark in marks if self._in_all_adds(mark)), MARKS["add"])

    def _in_all_adds(self, column: str) -> bool:
        path, other = self.leaves[MARKS["add"]], self.leaves.get(column, -1)
        if other < 0:
            return False
        counts = [(self.present(group, path), self.present(group, other)) for group in range(self.file.num_row_groups)]
        return all(adds is not None and adds == values for adds, values in counts)

    def has(self, action: str) -> bool:
        """Whether the file has a column for an action."""
        return MARKS[action] in self.leaves

    def groups_with(self, action: str) -> list[int]:
        """The row groups in which an action may stand, as far as the footer can tell."""
        leaf = self.leaves[MARKS[action]]
        return [group for group in range(self.file.metadata.num_row_groups) if self.present(group, leaf) != 0]

    def rows(self, group: int) -> int:
        """The number of rows of a row group."""
        return int(self.file.metadata.row_group(group).num_rows)

    def present(self, group: int, leaf: int) -> int | None:
        """How many values of a leaf column are not null in a row group, or None when the footer does not say."""
        metadata = self.file.metadata.row_group(group)
        statistics = metadata.column(leaf).statistics
        if statistics is None or not statistics.has_null_count:
            return None
        return int(metadata.num_rows - statistics.null_count)

    def filled(self, group: int, column: str) -> bool:
        """Whether a column has values in a row group, as far as the footer can tell."""
        indexes = [index for path, index in self.leaves.items() if path == column or path.startswith(f"{column}.")]
        return any(self.present(group, index) != 0 for index in indexes)

    def read(self, group: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of a row group, batch by batch."""
        size = BATCH_ROWS if self.file.metadata.num_rows > FEW_ROWS else BATCH_ROWS // 4
        yield from self.file.iter_batches(size, row_groups=[group], columns=list(columns), use_threads=False)

    def batches(self, group: int, action: str, columns: Sequence[str]) -> Iterator[tuple[int, pa.StructArray]]:
        """Some columns of an action in a row group, batch by batch, each with the number of its first row."""
        start = 0
        for batch in self.read(group, columns):
            yield start, batch.column(action)
            start += batch.num_rows

    def partition_source(self, leaf: Leaf) -> str:
        """The column to take a partition value from: the typed one where it has the right type."""
        index = self.add_type.get_field_index("partitionValues_parsed")
        parsed = self.add_type.field(index).type if index >= 0 else None
        name = leaf.path[0]
        usable = (
            parsed is not None
            and parsed.get_field_index(name) >= 0
            and parsed.field(name).type == arrow_type(leaf.type)
        )
        return f"add.partitionValues_parsed.{name}" if usable else "add.partitionValues"

    def chosen_groups(self, predicate: Predicate, shape: TableShape) -> Sequence[int]:
        """The row groups that may hold an add that may match."""
        groups = self.groups_with("add")
        if predicate == TRUE or not groups:
            return groups
        present = [self.present(group, self.leaves["add.path"]) for group in groups]
        rows = pa.array([1 if count is None else count for count in present], pa.int64())

        def bounds_of(path: tuple[str, ...]) -> ColumnBounds | None:
            return self._bounds(shape.leaf(path), groups, present, partition=path[0] in shape.partition_columns)

        may_match, _ = verdicts(predicate, bounds_of, rows, len(groups))
        return [group for group, chosen in zip(groups, may_match.to_pylist()) if chosen]

    def _bounds(
        self, leaf: Leaf, groups: Sequence[int], present: Sequence[int | None], *, partition: bool
    ) -> ColumnBounds | None:
        """Bounds over all adds of each row group; unknown where an add lacks them. Null is a partition value of its own."""
        kinds = ("partitionValues_parsed",) * 2 if partition else ("stats_parsed.minValues", "stats_parsed.maxValues")
        indexes = [self.leaves.get(f"add.{kind}.{'.'.join(leaf.path)}") for kind in kinds]
        if indexes[0] is None or indexes[1] is None:
            return None
        if leaf.type in (FLOAT, DOUBLE) and not partition:
            # A bound may be NaN, which then bounds nothing, and footers leave NaN out.
            return None
        lows: list[object] = []
        highs: list[object] = []
        counts: list[int | None] = []
        for group, adds in zip(groups, present):
            low, high, missing = self._range(group, indexes[0], indexes[1], adds)
            usable = missing is not None and (partition or missing == 0)
            lows.append(low if usable else None)
            highs.append(high if usable else None)
            counts.append(missing if partition else None)
        try:
            wanted = arrow_type(leaf.type)
            low_array, high_array = outer_bounds(pa.array(lows, wanted), pa.array(highs, wanted), leaf.type)
            return ColumnBounds(low_array, high_array, pa.array(counts, pa.int64()))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return None

    def _range(self, group: int, low: int, high: int, adds: int | None) -> tuple[object, object, int | None]:
        """The least and the greatest value of two leaf columns in a row group, and how many adds lack one of them."""
        metadata = self.file.metadata.row_group(group)
        least, greatest = metadata.column(low).statistics, metadata.column(high).statistics
        counts = [self.present(group, index) for index in (low, high)]
        if adds is None or None in counts:
            return None, None, None
        missing = adds - min(count for count in counts if count is not None)
        lows, highs = value_range(least), value_range(greatest)
        if missing < adds and (lows is None or highs is None):
            return None, None, None
        return lows and lows[0], highs and highs[1], missing
