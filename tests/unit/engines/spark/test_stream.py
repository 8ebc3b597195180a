"""Tables as streams, and streams into tables."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
import tablespec_spark
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes
from pyspark.sql.types import LongType, StructField, StructType
from tablespec_spark.source import TableSource

import tablespec
from tests.rows import assert_same_rows

SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string()})
LIMITED = ReadMaxBytes(1)


@pytest.fixture
def table(tmp_path):
    """A table of which each version has one row more, in a file of its own."""
    made = tablespec.create_table(str(tmp_path / "trips"), SCHEMA, key=["id"])
    for number in (1, 2, 3):
        made.append(_rows(number))
    return made


def _rows(*numbers):
    return pa.table({"id": pa.array(numbers, pa.int64()), "city": pa.array(["sf" for _ in numbers], pa.string())})


class _Stream:
    """A stream as Spark runs it, batch by batch; a new one begins where the offset of another ended."""

    def __init__(self, table, offset=None, **options):
        given = {"path": table.url, **{name.lower(): str(value) for name, value in options.items()}}
        source = TableSource(given)
        schema = source.schema()
        self.reader = pickle.loads(pickle.dumps(source)).streamReader(schema)
        self.offset = offset or self.reader.initialOffset()

    def batch(self, limit=LIMITED):
        """The rows of the next batch, or None where there is nothing new."""
        end = json.loads(json.dumps(self.reader.latestOffset(self.offset, limit)))
        if end == self.offset:
            return None
        rows = self.rows(self.offset, end)
        self.offset = end
        return rows

    def rows(self, start, end):
        partitions = pickle.loads(pickle.dumps(self.reader.partitions(start, end)))
        batches = [batch for partition in partitions for batch in self.reader.read(partition)]
        return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


# --- the source ---


def test_a_stream_gives_all_rows_at_first_and_then_those_that_are_new(table):
    stream = _Stream(table)
    assert stream.batch() == [(1, "sf"), (2, "sf"), (3, "sf")]
    assert stream.batch() is None

    table.append(_rows(4))
    table.update({"city": "'la'"}, "id = 1")
    table.delete("id = 2")

    assert stream.batch() == [(1, "la"), (4, "sf")]
    table.compact()
    assert stream.batch() == []


def test_a_stream_of_changes_tells_what_happened(table):
    stream = _Stream(table, readingMode="changes", startingVersion=4, columns="id,city,_change_type,_commit_version")
    assert stream.batch() is None

    table.update({"city": "'la'"}, "id = 1")
    table.delete("id = 2")

    assert stream.batch() == [
        (1, "la", "update_postimage", 4),
        (1, "sf", "update_preimage", 4),
        (2, "sf", "delete", 5),
    ]


def test_a_stream_begins_at_a_version_at_a_time_or_now(table):
    time = table.instant(2).time.isoformat()

    assert _Stream(table, startingVersion=3).batch() == [(3, "sf")]
    assert _Stream(table, startingTimestamp=time).batch() == [(2, "sf"), (3, "sf")]
    latest = _Stream(table, startingVersion="latest")
    assert latest.batch() is None
    table.append(_rows(4))
    assert latest.batch() == [(4, "sf")]


def test_batches_have_no_more_files_bytes_or_versions_than_asked_for(table):
    size = table.scan().slices[0].slice.size

    for options in ({"maxFilesPerTrigger": 2}, {"maxBytesPerTrigger": 2 * size + 9}):
        stream = _Stream(table, **options)
        batches = [stream.batch(), stream.batch(), stream.batch()]
        assert [batch and len(batch) for batch in batches] == [2, 1, None]
        assert sorted(batches[0] + batches[1]) == [(1, "sf"), (2, "sf"), (3, "sf")]
    by_version = _Stream(table, maxVersionsPerTrigger=1, startingVersion=1)
    assert [by_version.batch() for _ in range(4)] == [[(1, "sf")], [(2, "sf")], [(3, "sf")], None]


def test_a_batch_without_limits_takes_the_rest_of_one_that_was_cut(table):
    stream = _Stream(table, maxFilesPerTrigger=2)
    first = stream.batch()
    table.append(_rows(4))

    assert sorted(first + stream.batch(ReadAllAvailable())) == [(1, "sf"), (2, "sf"), (3, "sf"), (4, "sf")]
    assert stream.batch() is None


def test_a_cut_batch_goes_on_with_the_version_it_began_with(table):
    stream = _Stream(table, maxFilesPerTrigger=2)
    first = stream.batch()
    table.update({"city": "'la'"}, "id < 4")
    again = _Stream(table, offset=stream.offset, maxFilesPerTrigger=2)

    rest = [again.batch(), again.batch(), again.batch()]

    assert sorted(first + rest[0]) == [(1, "sf"), (2, "sf"), (3, "sf")]
    assert sorted(rest[1] + (rest[2] or [])) == [(1, "la"), (2, "la"), (3, "la")]


def test_a_cut_batch_is_not_gone_on_with_under_another_filter(table):
    stream = _Stream(table, maxFilesPerTrigger=2)
    stream.batch()

    with pytest.raises(tablespec.TableSpecError, match="'incremental where id > 1'; expected incremental until"):
        _Stream(table, offset=stream.offset, where="id > 1").batch()
    stream.batch()
    table.append(_rows(4, 0))
    assert _Stream(table, offset=stream.offset, where="id > 1").batch() == [(4, "sf")]


def test_a_stream_whose_columns_are_said_not_to_be_null_goes_on(table):
    said = StructType([StructField("id", LongType(), nullable=False)])
    reader = TableSource({"path": table.url}).streamReader(said)
    start = reader.initialOffset()
    table.append(_rows(4))

    (partition,) = reader.partitions(start, reader.latestOffset(start, LIMITED))

    assert sum(batch.num_rows for batch in reader.read(partition)) == 4


def test_available_now_leaves_what_comes_later_for_the_next_run(table):
    stream = _Stream(table, maxFilesPerTrigger=2)
    stream.reader.prepareForTriggerAvailableNow()
    table.append(_rows(4))

    assert [batch and len(batch) for batch in (stream.batch(), stream.batch(), stream.batch())] == [2, 1, None]
    assert _Stream(table, offset=stream.offset).batch() == [(4, "sf")]


def test_the_same_offsets_give_the_same_rows_again(table):
    stream = _Stream(table, maxFilesPerTrigger=2)
    start = stream.offset
    first = stream.batch()
    table.append(_rows(4))
    table.delete("id = 1")

    assert _Stream(table).rows(start, stream.offset) == first


@pytest.mark.parametrize("mode", ["incremental", "changes"])
def test_new_columns_stop_a_stream_by_name_and_one_that_is_started_again_has_them(table, mode):
    stream = _Stream(table, readingMode=mode, startingVersion=3)
    table.append(_rows(4))
    start = stream.offset
    before = stream.batch()
    assert [row[:2] for row in before] == [(3, "sf"), (4, "sf")]
    table.append(_rows(5).append_column("more", pa.array(["x"])), merge_schema=True)

    with pytest.raises(tablespec.TableSpecError, match=r"version 5 .* the columns .*more.* start it again"):
        stream.batch()

    again = _Stream(table, offset=stream.offset, readingMode=mode)
    assert [row[:3] for row in again.batch()] == [(5, "sf", "x")]
    # What was begun before is told once more, in the columns of today.
    assert [row[:3] for row in again.rows(start, stream.offset)] == [(3, "sf", None), (4, "sf", None)]


def test_columns_that_the_stream_is_not_about_may_come(table):
    stream = _Stream(table, columns="id")
    table.append(_rows(4).append_column("more", pa.array(["x"])), merge_schema=True)

    assert stream.batch() == [(1,), (2,), (3,), (4,)]


@pytest.mark.parametrize("mode", ["incremental", "changes"])
def test_a_stream_whose_versions_were_cleaned_up_is_stopped_by_name(table, mode):
    stream = _Stream(table, readingMode=mode, startingVersion=2)
    table.checkpoint()
    for version in (1, 2):
        Path(table.url.removeprefix("file://"), "_delta_log", f"{version:020}.json").unlink()

    with pytest.raises(tablespec.TableSpecError, match=r"the changes of version 2 .* are gone"):
        stream.batch()


def test_a_table_in_the_place_of_the_one_that_was_read_stops_the_stream(table):
    stream = _Stream(table)
    stream.batch()
    shutil.rmtree(table.url.removeprefix("file://"))
    made = tablespec.create_table(table.url, SCHEMA)

    with pytest.raises(tablespec.TableSpecError, match="is not the table that the stream has read"):
        _Stream(made, offset=stream.offset).batch()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"readingMode": "snapshot"}, "incremental or changes for a stream"),
        ({"versionAsOf": "1"}, "no option versionasof for streaming"),
        ({"startingVersion": "9"}, "startingVersion is '9'; expected latest, or a version up to 4"),
        ({"maxFilesPerTrigger": "0"}, "maxFilesPerTrigger is '0'; expected a whole number from 1 on"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(table, options, message):
    with pytest.raises(tablespec.TableSpecError, match=message):
        _Stream(table, **options).batch()


# --- with Spark ---


def _run(spark, source, target, checkpoint, **options):
    """Everything that there is now, from table to table."""
    stream = spark.readStream.format("tablespec").options(**options).load(source.url)
    write = stream.writeStream.format("tablespec").option("checkpointLocation", str(checkpoint))
    query = write.trigger(availableNow=True).start(target)
    query.awaitTermination(120)
    assert query.exception() is None


@pytest.mark.spark
def test_rows_go_from_table_to_table_once_whatever_is_cut_off(spark, table, tmp_path):
    tablespec_spark.register(spark)
    target, checkpoint = str(tmp_path / "copy"), tmp_path / "checkpoint"
    _run(spark, table, target, checkpoint, maxFilesPerTrigger=2)
    copy = tablespec.open_table(target)
    assert_same_rows(copy.scan(), [(1, "sf"), (2, "sf"), (3, "sf")])

    # Killed after the commit of the table and before Spark wrote down that the batch is done: Spark runs it again.
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    table.append(_rows(4))
    _run(spark, table, target, checkpoint, maxFilesPerTrigger=2)
    assert_same_rows(copy.scan(), [(1, "sf"), (2, "sf"), (3, "sf"), (4, "sf")])

    # Killed after the rows were written and before the commit of the table: the log does not know of the last batch.
    newest = sorted((Path(target) / "_delta_log").glob("*.json"))[-1]
    newest.unlink()
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
    assert_same_rows(tablespec.open_table(target).scan(), [(1, "sf"), (2, "sf"), (3, "sf")])
    _run(spark, table, target, checkpoint, maxFilesPerTrigger=2)
    assert_same_rows(tablespec.open_table(target).scan(), [(1, "sf"), (2, "sf"), (3, "sf"), (4, "sf")])


@pytest.mark.spark
def test_a_stream_of_counts_replaces_the_table_in_complete_mode(spark, table, tmp_path):
    tablespec_spark.register(spark)
    rows = spark.readStream.format("tablespec").option("readingMode", "changes").load(table.url)
    write = rows.groupBy("city").count().writeStream.format("tablespec").outputMode("complete")
    write = write.option("checkpointLocation", str(tmp_path / "checkpoint"))
    for expected in (3, 4):
        write.trigger(availableNow=True).start(str(tmp_path / "counts")).awaitTermination(120)
        assert_same_rows(tablespec.open_table(str(tmp_path / "counts")).scan(), [("sf", expected)])
        table.append(_rows(4))


@pytest.mark.spark
def test_what_stops_a_stream_is_told_by_the_query(spark, table, tmp_path):
    tablespec_spark.register(spark)
    stream = spark.readStream.format("tablespec").option("startingVersion", 4).load(table.url)
    table.append(_rows(4))
    table.append(_rows(5).append_column("more", pa.array(["x"])), merge_schema=True)
    write = stream.writeStream.format("tablespec").option("checkpointLocation", str(tmp_path / "checkpoint"))

    query = write.trigger(availableNow=True).start(str(tmp_path / "copy"))

    with pytest.raises(StreamingQueryException, match="start it again from its checkpoint"):
        query.awaitTermination(120)
