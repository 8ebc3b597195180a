"""The format `tablespec` of `spark.read` and `df.write`."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
import tablespec_spark
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema
from tablespec_spark.destination import Destination, Written, outcome
from tablespec_spark.options import Options
from tablespec_spark.source import TableReader, TableSource

import tablespec
from tests.rows import assert_same_rows
from tests.unit.engines.spark.types import EVERY_TYPE, NESTED

SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string(), "fare": pa.float64()})
ROWS = [(number, "sf" if number % 2 else "la", float(number)) for number in range(6)]


@pytest.fixture
def table(tmp_path):
    """A table of six rows in two partitions; version 1 has three of them."""
    made = tablespec.create_table(str(tmp_path / "trips"), SCHEMA, partition_by=["city"], key=["id"])
    for rows in (ROWS[:3], ROWS[3:]):
        made.append(pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in rows], SCHEMA))
    return made


def _source(url, options):
    """The source as Spark makes it: with names of options in small letters, and pickled on its way."""
    return TableSource({name.lower(): str(value) for name, value in {"path": url, **options}.items()})


def _read(url, **options):
    """The columns and rows that tasks of Spark get from the source."""
    source = _source(url, options)
    schema = source.schema()
    reader = _sent(_sent(source).reader(schema))
    rows = [
        tuple(row.values())
        for partition in reader.partitions()
        for batch in _sent(reader).read(_sent(partition))
        for row in batch.to_pylist()
    ]
    return schema.fieldNames(), rows


def _rows_read(url, **options):
    return _read(url, **options)[1]


def _write(url, *tasks, mode="append", arrow=SCHEMA, **options):
    """Write as Spark does: planned here, each task elsewhere, committed in a third place."""
    writer = _source(url, options).writer(from_arrow_schema(arrow), overwrite=mode == "overwrite")
    batches = [
        [pa.RecordBatch.from_pylist([dict(zip(arrow.names, row)) for row in rows], arrow)] if rows else []
        for rows in tasks
    ]
    messages = [_sent(_sent(writer).write(iter(of_task))) for of_task in batches]
    try:
        _sent(writer).commit(messages)
    except tablespec.TableSpecError:
        _sent(writer).abort(messages)
        raise


def _sent(value):
    return pickle.loads(pickle.dumps(value))


def _data_files(table):
    return sorted(Path(table.url.removeprefix("file://")).rglob("*.parquet"))


# --- in Spark ---


@pytest.mark.spark
def test_every_type_goes_through_spark_and_back_as_it_came(spark, tmp_path):
    tablespec_spark.register(spark)
    data = pa.table({**dict(zip(EVERY_TYPE.column_names, EVERY_TYPE.columns)), **NESTED})
    table = tablespec.create_table(str(tmp_path / "a"), data.schema)
    table.append(data)

    frame = spark.read.format("tablespec").load(table.url)
    assert_same_rows(frame.toArrow(), data)
    frame.write.format("tablespec").mode("append").option("partitionBy", "string").save(str(tmp_path / "b"))
    assert_same_rows(tablespec.open_table(str(tmp_path / "b")).scan(), data)


@pytest.mark.spark
def test_filters_of_one_query_do_not_reach_another(spark, table):
    tablespec_spark.register(spark)
    frame = spark.read.format("tablespec").load(table.url)

    assert frame.where("id = 1").count() == 1
    both = frame.where("id = 1").union(frame.where("id = 2")).union(frame)
    assert_same_rows([tuple(row) for row in both.collect()], [ROWS[1], ROWS[2], *ROWS])


@pytest.mark.spark
def test_spark_replaces_what_replace_where_says_and_everything_without_it(spark, table):
    tablespec_spark.register(spark)
    frame = spark.range(9, 109, numPartitions=4).selectExpr("id", "'sf' city", "double(id) fare")
    write = frame.write.format("tablespec").mode("overwrite")
    new = [(number, "sf", float(number)) for number in range(9, 109)]

    write.option("replaceWhere", "city = 'sf'").save(table.url)
    assert_same_rows(table.scan(), [*ROWS[::2], *new])
    frame.write.format("tablespec").mode("overwrite").save(table.url)
    assert_same_rows(table.scan(), new)


@pytest.mark.spark
def test_what_goes_wrong_in_spark_names_our_reason_and_leaves_no_file(spark, table):
    tablespec_spark.register(spark)
    table.add_constraint("cheap", "fare < 50")
    files = _data_files(table)
    good = spark.range(40, 44, numPartitions=2).selectExpr("id", "'ny' city", "double(id) fare")

    with pytest.raises(PySparkException, match="cheap"):
        good.withColumn("fare", good.fare + 7).write.format("tablespec").mode("append").save(table.url)
    assert _data_files(table) == files
    # A task that Spark stops because another one failed cannot tell what it wrote: such files are left for vacuum.
    with pytest.raises(PySparkException, match="no fare"):
        broken = good.selectExpr("id", "city", "if(id < 43, fare, double(raise_error('no fare'))) fare")
        broken.write.format("tablespec").mode("append").save(table.url)
    with pytest.raises(PySparkException, match="no option verionasof for reading"):
        spark.read.format("tablespec").option("verionAsOf", 1).load(table.url)

    assert_same_rows(table.scan(), ROWS)


# --- reading ---


def test_where_and_columns_choose_rows_and_columns(table):
    columns, rows = _read(table.url, where="city = 'sf' AND fare > 2", columns="fare, id")

    assert (columns, sorted(rows)) == (["fare", "id"], [(3.0, 3), (5.0, 5)])


def test_a_schema_that_the_user_gives_chooses_columns(table):
    chosen = from_arrow_schema(pa.schema({"fare": pa.float64(), "id": pa.int64()}))
    reader = _source(table.url, {"where": "id < 2"}).reader(chosen)
    batches = [batch for one in reader.partitions() for batch in reader.read(one)]
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert_same_rows(rows, [(0.0, 0), (1.0, 1)])

    with pytest.raises(tablespec.TableSpecError, match="the column id is bigint, not string"):
        _source(table.url, {}).reader(from_arrow_schema(pa.schema({"id": pa.string()})))


def test_a_source_stays_on_the_version_whose_columns_it_told(table):
    source = _source(table.url, {})
    schema = source.schema()
    table.delete("id = 0")

    assert (
        sum(batch.num_rows for one in source.reader(schema).partitions() for batch in TableReader(schema, ()).read(one))
        == 6
    )
    assert len(_rows_read(table.url)) == 5
    assert len(_rows_read(table.url, readingMode="readOptimized")) == 6


def test_versions_and_times_of_the_past_can_be_read(table):
    assert_same_rows(_rows_read(table.url, versionAsOf=1), ROWS[:3])
    assert_same_rows(_rows_read(table.url, timestampAsOf=table.instant(1).time.isoformat()), ROWS[:3])
    assert _rows_read(table.url, versionAsOf=0) == []


def test_new_rows_and_changes_are_read_from_a_first_version_to_a_last(table):
    table.update({"fare": "fare + 100"}, "id = 1")
    time = table.instant(2).time.isoformat()

    assert _rows_read(table.url, readingMode="incremental", startingVersion=3) == [(1, "sf", 101.0)]
    since = _rows_read(table.url, readingMode="incremental", startingTimestamp=time, endingVersion=2)
    assert_same_rows(since, ROWS[3:])
    columns = "id,fare,_change_type,_commit_version"
    assert_same_rows(
        _rows_read(table.url, readingMode="changes", startingVersion=2, columns=columns),
        [
            *((number, float(number), "insert", 2) for number in (3, 4, 5)),
            (1, 1.0, "update_preimage", 3),
            (1, 101.0, "update_postimage", 3),
        ],
    )
    assert _rows_read(table.url, readingMode="changes", startingVersion=1, endingVersion=0) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"verionAsOf": "1"}, "no option verionasof for reading; it has path, readingMode"),
        ({"readingMode": "quick"}, "readingMode is 'quick'; expected snapshot or readOptimized"),
        ({"versionAsOf": "last"}, "versionAsOf is 'last'; expected a whole number"),
        ({"versionAsOf": "1", "timestampAsOf": "2024-01-01"}, "none beside versionAsOf"),
        ({"startingVersion": "1"}, "startingVersion is '1'; expected none for a snapshot"),
        ({"versionAsOf": "99"}, "no completed instant 99"),
        ({"where": "nothing = 1"}, "nothing"),
        ({"maxFilesPerTrigger": "1"}, "no option maxfilespertrigger for reading"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(table, options, message):
    with pytest.raises(tablespec.TableSpecError, match=message):
        _read(table.url, **options)


# --- writing ---


def test_append_adds_what_all_tasks_wrote_in_one_commit(table):
    _write(table.url, [(7, "ny", 7.0)], [], [(8, "ny", 8.0), (9, "sf", 9.0)])

    assert_same_rows(table.scan(), [*ROWS, (7, "ny", 7.0), (8, "ny", 8.0), (9, "sf", 9.0)])
    assert table.instant().version == 3


def test_overwrite_replaces_everything_in_one_commit(table):
    _write(table.url, [(9, "sf", 9.0)], mode="overwrite")

    assert_same_rows(table.scan(), [(9, "sf", 9.0)])
    assert (table.instant().version, table.scan(at=2).count()) == (3, 6)


def test_replace_where_looks_at_other_columns_than_those_of_partitions_when_allowed(table):
    with pytest.raises(tablespec.TableSpecError, match="fare"):
        _write(table.url, [(8, "la", 8.0)], mode="overwrite", replaceWhere="fare >= 4")

    _write(table.url, [(8, "la", 8.0)], mode="overwrite", replaceWhere="fare >= 4", dataColumns=True)
    assert_same_rows(table.scan(), [*ROWS[:4], (8, "la", 8.0)])


def test_replace_where_refuses_rows_outside_of_it_and_leaves_no_file(table):
    files = _data_files(table)

    with pytest.raises(tablespec.TableSpecError, match="'city': 'la'"):
        _write(table.url, [(9, "sf", 9.0)], [(8, "la", 8.0)], mode="overwrite", replaceWhere="city = 'sf'")

    assert _data_files(table) == files
    assert_same_rows(table.scan(), ROWS)


def test_columns_come_by_merge_schema_alone(table):
    row, arrow = (7, "sf", 1.0, "x"), SCHEMA.append(pa.field("more", pa.string()))

    with pytest.raises(tablespec.TableSpecError, match="the column more is not in the table"):
        _write(table.url, [row], arrow=arrow)
    _write(table.url, [row], arrow=arrow, mergeSchema=True)

    assert_same_rows(table.scan("id = 7"), [row])


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_table_that_is_not_there_is_made_as_the_options_say(tmp_path, mode):
    url = str(tmp_path / "new")
    properties = json.dumps({"delta.columnMapping.mode": "name", "delta.enableChangeDataFeed": "true"})

    _write(url, ROWS[:3], ROWS[3:], mode=mode, partitionBy="city", key="id", properties=properties)

    made = tablespec.open_table(url)
    assert (made.partition_columns, made.record_key) == (("city",), ("id",))
    assert made.properties["delta.enableChangeDataFeed"] == "true"
    assert_same_rows(made.scan(), ROWS)
    for options, message in [
        ({"partitionBy": "id"}, "partitionBy is 'id'; expected what .*, city"),
        ({"key": "city"}, "key is 'city'; expected what .*, id"),
        ({"properties": '{"delta.appendOnly": "true"}'}, "properties delta.appendOnly is 'true'; .* set_properties"),
    ]:
        with pytest.raises(tablespec.TableSpecError, match=message):
            _write(url, ROWS, **options)
    _write(url, [], partitionBy="city", key="id", properties=properties)


def test_rows_of_a_new_table_must_satisfy_replace_where_too(tmp_path):
    with pytest.raises(tablespec.TableSpecError, match="does not satisfy"):
        _write(str(tmp_path / "new"), ROWS, mode="overwrite", replaceWhere="city = 'sf'", partitionBy="city")

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_times_are_the_same_in_whatever_zone_spark_sends_them(tmp_path):
    time = datetime(2024, 7, 1, 12, tzinfo=UTC)
    wanted = pa.schema({"t": pa.timestamp("us", "UTC")})
    writer = _source(str(tmp_path / "new"), {}).writer(from_arrow_schema(wanted), overwrite=False)
    sent = pa.record_batch({"t": pa.array([time], pa.timestamp("us", "America/Los_Angeles"))})

    writer.commit([writer.write(iter([sent]))])

    assert_same_rows(tablespec.open_table(str(tmp_path / "new")).scan(), [(time,)])


def test_a_table_that_somebody_makes_in_the_meantime_is_left_alone(tmp_path):
    writer = _source(str(tmp_path / "new"), {}).writer(
        from_arrow_schema(pa.schema({"id": pa.int64()})), overwrite=False
    )
    message = writer.write(iter([pa.record_batch({"id": pa.array([1])})]))
    theirs = tablespec.create_table(str(tmp_path / "new"), SCHEMA)

    with pytest.raises(tablespec.TableSpecError, match="is already a table"):
        writer.commit([message])

    assert (theirs.scan().count(), _data_files(theirs)) == (0, [])


def test_a_write_that_is_planned_and_not_committed_makes_no_table(tmp_path):
    writer = _source(str(tmp_path / "new"), {}).writer(
        from_arrow_schema(pa.schema({"id": pa.int64()})), overwrite=False
    )
    writer.abort([writer.write(iter([pa.record_batch({"id": pa.array([1])})])), None])

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_write_that_was_killed_before_the_first_commit_is_followed_by_the_next(tmp_path, mode):
    url = str(tmp_path / "new")
    killed = _source(url, {"partitionBy": "city"}).writer(from_arrow_schema(SCHEMA), overwrite=False)
    killed.write(iter([pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, ROWS[0]))], SCHEMA)]))
    left = set(tmp_path.rglob("*.parquet"))

    _write(url, ROWS, mode=mode, partitionBy="city")

    made = tablespec.open_table(url)
    assert_same_rows(made.scan(), ROWS)
    assert left
    assert left < set(_data_files(made))
    assert [path.name for path in (tmp_path / "new").iterdir() if path.is_file()] == []


def test_files_of_others_are_not_taken_for_those_of_a_killed_write(tmp_path):
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")

    with pytest.raises(tablespec.TableSpecError, match="is not a table that tablespec knows"):
        _write(str(tmp_path), ROWS)

    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def test_a_write_under_a_number_that_is_recorded_is_not_done_again(table):
    for _ in range(2):
        _write(table.url, [(7, "sf", 7.0)], txnAppId="job", txnVersion=3)
    assert_same_rows(table.scan(), [*ROWS, (7, "sf", 7.0)])

    with pytest.raises(tablespec.TableSpecError, match="both txnAppId and txnVersion"):
        _write(table.url, [(7, "sf", 7.0)], txnAppId="job")


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("append", {"replaceWere": "id = 1"}, "no option replacewere for writing"),
        ("append", {"replaceWhere": "id = 1"}, "replaceWhere is 'id = 1'; expected none for mode append"),
        ("overwrite", {"overwriteSchema": "true"}, "no option overwriteschema for writing"),
        ("overwrite", {"replaceWhere": "1 = 1"}, "allow_full_table"),
        ("overwrite", {"mergeSchema": "true"}, "mergeSchema is 'true'; expected none for overwriting"),
        ("append", {"mergeSchema": "yes"}, "mergeSchema is 'yes'; expected true or false"),
    ],
)
def test_write_options_that_make_no_sense_are_refused_by_name(table, mode, options, message):
    with pytest.raises(tablespec.TableSpecError, match=message):
        _write(table.url, [(7, "sf", 7.0)], mode=mode, **options)
    assert_same_rows(table.scan(), ROWS)


# --- what Spark does when things go wrong ---


def _destination(table, **options):
    destination = Destination(
        Options.checked({"path": table.url, **options}, "writing", ("path", "txnAppId", "txnVersion"))
    )
    return destination, destination.plan(SCHEMA)


def _task(plan, *rows):
    data = pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in rows], SCHEMA)
    return Written(outcome(plan, data.to_batches()))


def test_an_attempt_whose_message_spark_drops_leaves_no_rows(table):
    destination, plan = _destination(table)
    _task(plan, (7, "sf", 7.0))

    destination.commit(plan, [_task(plan, (7, "sf", 7.0)), _task(plan)])

    assert_same_rows(table.scan(), [*ROWS, (7, "sf", 7.0)])


def test_an_abort_before_any_commit_removes_what_was_written(table):
    files = _data_files(table)
    destination, plan = _destination(table)

    destination.abort([_task(plan, (7, "sf", 7.0)), None])

    assert _data_files(table) == files


def test_an_abort_after_a_durable_commit_deletes_nothing(table):
    destination, plan = _destination(table)
    messages = [_task(plan, (7, "sf", 7.0)), _task(plan, (8, "la", 8.0))]
    destination.commit(plan, messages)

    destination.abort(messages)

    assert_same_rows(table.scan(), [*ROWS, (7, "sf", 7.0), (8, "la", 8.0)])


def test_a_commit_that_meets_another_schema_is_refused_and_its_files_go(table):
    destination, plan = _destination(table)
    messages = [_task(plan, (7, "sf", 7.0))]
    table.add_constraint("few", "id < 7")
    files = _data_files(table)

    with pytest.raises(tablespec.TableSpecError, match="it changed the schema or the properties"):
        destination.commit(plan, messages)

    assert len(_data_files(table)) == len(files) - 1
