"""Rows of a partition put in an order in which files hold narrow ranges of values.

The memory of a worker is bounded by the clustering columns of one partition with some numbers for each of its rows, and twice the rows of
one new file, or of a `SPOOLS`-th of the partition where that is more. Rows on their way into several files wait on local disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import timedelta
from itertools import chain, pairwise
from pathlib import Path

import attrs
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.errors import InvalidOptionError, InvalidSchemaError, UnsupportedTypeError
from tablespec.formats.base import LiveFile, NewFile, TableFormat
from tablespec.maintain.compact import BUFFERS, UNBOUNDED
from tablespec.maintain.rewrite import (
    RewriteFragment,
    RewriteResult,
    Rewriting,
    begin,
    by_partition,
    check_cooldown,
    finish,
    new_file_bytes,
    run,
    surviving,
)
from tablespec.maintain.rewrite_target import RewriteTarget
from tablespec.maintain.row_order import Layout, Order, inverted, laid_out
from tablespec.maintain.skip import COOLDOWN
from tablespec.model.file import FileSlice
from tablespec.model.schema import DecimalType, Primitive, Schema, column_names
from tablespec.read.file_index import Filters
from tablespec.txn.transaction import Retries
from tablespec.write.data_file import write_files
from tablespec.write.runner import Runner, Threads

SPOOLS = 64
BATCH_ROWS = 65_536
_PLACE = "__tablespec_place"
_UNORDERED = ("variant", "void")


@attrs.frozen(kw_only=True)
class ClusterTask:
    """A partition whose rows are put in order."""

    target: RewriteTarget
    slices: tuple[FileSlice, ...]
    by: tuple[str, ...]
    order: Order
    target_bytes: int


class Clustering(Rewriting, total=False):
    """Keywords of a clustering."""

    order: str


def cluster(
    format_: TableFormat,
    by: Sequence[str],
    where: Filters = None,
    *,
    order: str = Order.SORT.value,
    target_bytes: int | None = None,
    cooldown: timedelta = COOLDOWN,
    runner: Runner = Threads(),
    retries: Retries = Retries(),
) -> RewriteResult:
    """Write every partition that may hold rows that match `where` anew, its rows ordered by columns.

    Rows, their ids and their commit versions stay the same, and nothing counts as changed. After `sort` the files of a partition
    follow one another in the order of the columns; rows that are equal in all of them lie in one file, but for those that fill more
    than one. `zorder` makes the ranges of all columns narrow.
    """
    check_cooldown(cooldown)
    job = begin(format_, "cluster", where, beside=_PLACE, whole_partitions=True)
    columns = _orderable(job.state.schema, by)
    tasks = plan(job.files, job.target, columns, _order(order), new_file_bytes(job, target_bytes))
    fragments = run(job, write_ordered, tasks, runner)
    parameters = (("order", order), ("clusterBy", msgspec.json.encode(columns).decode()))
    return finish(job, fragments, parameters, cooldown=cooldown, retries=retries)


def plan(
    files: Sequence[LiveFile], target: RewriteTarget, by: tuple[str, ...], order: Order, target_bytes: int
) -> list[ClusterTask]:
    """A task for each partition."""
    return [
        ClusterTask(
            target=target,
            slices=tuple(file.slice for file in partition),
            by=by,
            order=order,
            target_bytes=target_bytes,
        )
        for partition in by_partition(files)
    ]


def write_ordered(task: ClusterTask) -> RewriteFragment:
    """Write the rows of a partition in their new order; on a worker."""

    def write(slices: tuple[FileSlice, ...]) -> tuple[NewFile, ...]:
        keys = _keys(task, slices)
        if not keys.num_rows:
            return ()
        layout = laid_out(keys.columns, task.order, _rows_per_file(task, slices, keys.num_rows))
        del keys
        return _write(task, slices, layout)

    return surviving(task.slices, write)


def _order(name: str) -> Order:
    try:
        return Order(name)
    except ValueError as error:
        raise InvalidOptionError("order", repr(name), " or ".join(one.value for one in Order)) from error


def _orderable(schema: Schema, by: Sequence[str]) -> tuple[str, ...]:
    fields = [schema.field(name) for name in column_names("by", by)]
    if not fields or len({field.name for field in fields}) < len(fields):
        raise InvalidSchemaError("rows are clustered by one column or more, each named once")
    for field in fields:
        if not isinstance(field.type, Primitive | DecimalType) or str(field.type) in _UNORDERED:
            raise UnsupportedTypeError(field.name, str(field.type), "rows cannot be ordered by it")
    return tuple(field.name for field in fields)


def _keys(task: ClusterTask, slices: tuple[FileSlice, ...]) -> pa.Table:
    batches = [batch for slice_ in slices for batch in task.target.rows(slice_, task.by)]
    return pa.Table.from_batches(batches) if batches else pa.table({})


def _rows_per_file(task: ClusterTask, slices: tuple[FileSlice, ...], rows: int) -> int:
    physical = [slice_.base.rows for slice_ in slices if slice_.base is not None and slice_.base.rows is not None]
    live = sum(slice_.size for slice_ in slices) * min(1.0, rows / max(sum(physical), 1))
    files = max(1, round(live / task.target_bytes))
    return -(-rows // files)


def _write(task: ClusterTask, slices: tuple[FileSlice, ...], layout: Layout) -> tuple[NewFile, ...]:
    storage, write = task.target.storage, attrs.evolve(task.target.write, file_bytes=UNBOUNDED)
    written: list[NewFile] = []
    try:
        with tempfile.TemporaryDirectory(prefix="tablespec-cluster-") as folder:
            for rows in _files_in_order(task, slices, layout, Path(folder)):
                written += write_files(storage, write, iter(rows.to_batches(BATCH_ROWS)), BUFFERS)
        return tuple(written)
    except BaseException:
        for file in written:
            storage.delete(file.path)
        raise


def _files_in_order(
    task: ClusterTask, slices: tuple[FileSlice, ...], layout: Layout, folder: Path
) -> Iterator[pa.Table]:
    """The rows of each new file, in the new order."""
    placed = _placed(task, slices, layout.places)
    step = -(-(len(layout.starts) - 1) // SPOOLS)
    ranges = [layout.starts[first : first + step + 1] for first in range(0, len(layout.starts) - 1, step)]
    if len(ranges) == 1:
        yield from _cut(pa.Table.from_batches(placed), ranges[0])
        return
    for path, starts in zip(_spooled(placed, ranges, folder), ranges):
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
            yield from _cut(stream.read_all(), starts)


def _placed(task: ClusterTask, slices: tuple[FileSlice, ...], places: pa.Array) -> Iterator[pa.RecordBatch]:
    """The rows as they lie, each with its new place."""
    done = 0
    for slice_ in slices:
        for batch in task.target.rows(slice_, task.target.columns):
            yield batch.append_column(_PLACE, places.slice(done, batch.num_rows))
            done += batch.num_rows


def _spooled(batches: Iterator[pa.RecordBatch], ranges: Sequence[Sequence[int]], folder: Path) -> list[Path]:
    """Rows sorted out into a file on local disk for each range of places."""
    paths = [folder / f"{number}.arrow" for number in range(len(ranges))]
    first = next(batches)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with ExitStack() as stack:
        files = [stack.enter_context(pa.OSFile(str(path), "wb")) for path in paths]
        writers = [stack.enter_context(pa.ipc.new_stream(file, first.schema, options=options)) for file in files]
        for batch in chain([first], batches):
            places = batch.column(_PLACE)
            for writer, starts in zip(writers, ranges):
                inside = pc.and_(pc.greater_equal(places, starts[0]), pc.less(places, starts[-1]))
                writer.write_batch(batch.filter(inside))
    return paths


def _cut(rows: pa.Table, starts: Sequence[int]) -> Iterator[pa.Table]:
    """Rows put in order, those of each file apart."""
    order = inverted(pc.subtract(rows.column(_PLACE), starts[0]).combine_chunks())
    ordered = rows.drop_columns([_PLACE]).take(order)
    for start, end in pairwise(starts):
        yield ordered.slice(start - starts[0], end - start)
