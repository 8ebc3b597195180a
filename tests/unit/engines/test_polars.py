"""Tables as Polars frames."""

from __future__ import annotations

import math
import sys
from datetime import date

import polars as pl
import pyarrow as pa
import pytest
import tablespec_polars
from deltalake import write_deltalake

import tablespec
from tests.rows import assert_same_rows

TRIPS = pa.table({"id": [1, 2, 3], "city": ["sf", "la", None], "fare": [10.0, 20.0, 30.0]})


@pytest.fixture(params=[["city"], []], ids=["partitioned", "unpartitioned"])
def table(request, tmp_path) -> tablespec.Table:
    made = tablespec.create_table(str(tmp_path / "trips"), TRIPS.schema, partition_by=request.param, key=["id"])
    made.append(TRIPS)
    return made


def test_an_unpartitioned_table_is_a_scan_of_its_files(tmp_path):
    made = tablespec.create_table(str(tmp_path / "trips"), TRIPS.schema)
    made.append(TRIPS)

    assert "Parquet SCAN" in tablespec_polars.scan(made).explain()


@pytest.mark.parametrize(
    "predicate",
    [
        pl.col("city") == "sf",
        pl.col("city").is_in(["sf", "ny"]),
        pl.col("id") < 2,
        ~(pl.col("id") >= 2),
        pl.col("city").str.starts_with("s"),
        pl.col("city").str.contains("^s"),
        pl.col("id") % 2 * pl.col("fare") == 10,
        pl.col("fare").cast(pl.Int8) == 10,
        pl.col("city").str.to_uppercase() == "SF",
        pl.col("id").map_batches(lambda values: values == 1, return_dtype=pl.Boolean),
        (pl.col("city") == "sf") & (pl.col("id") % 2 == 1),
    ],
    ids=str,
)
def test_every_filter_gives_the_rows_that_match(table, predicate):
    assert_same_rows(tablespec_polars.scan(table).filter(predicate).collect(), [(1, "sf", 10.0)])
    assert_same_rows(tablespec_polars.scan(table, where=predicate, columns=["id"]).collect(), [(1,)])


def test_files_that_a_filter_excludes_are_not_opened(tmp_path):
    made = tablespec.create_table(str(tmp_path / "trips"), TRIPS.schema, partition_by=["city"])
    made.append(TRIPS)
    frame = tablespec_polars.scan(made)
    for file in (tmp_path / "trips" / "city=la").iterdir():
        file.unlink()

    found = frame.filter(pl.col("city") == "sf").collect()

    assert_same_rows(found, [(1, "sf", 10.0)])


def test_filters_of_different_queries_stay_apart(table):
    frame = tablespec_polars.scan(table)

    both = pl.concat([frame.filter(pl.col("id") == 1), frame.filter(pl.col("id") == 3)])

    assert_same_rows(both.select("id").collect(), [(1,), (3,)])
    assert frame.select(pl.len()).collect().item() == 3


def test_a_limit_is_kept_with_and_without_a_filter(table):
    frame = tablespec_polars.scan(table)

    assert frame.head(2).collect().height == 2
    assert frame.filter(pl.col("id") > 1).head(1).collect().height == 1


def test_a_frame_stays_on_the_state_it_was_made_on(table):
    frame = tablespec_polars.scan(table)
    table.delete("id = 1")

    assert_same_rows(frame.collect(), TRIPS)


def test_a_name_in_sql_stays_on_its_state_until_it_is_refreshed(table):
    context = pl.SQLContext()
    tablespec_polars.attach(context, table, "trips")
    table.delete("id = 1")
    query = "SELECT id FROM trips ORDER BY id"

    assert context.execute(query, eager=True).rows() == [(1,), (2,), (3,)]
    tablespec_polars.refresh(context, table, "trips")
    assert context.execute(query, eager=True).rows() == [(2,), (3,)]


def test_an_expression_says_which_rows_are_deleted(table):
    tablespec_polars.delete(table, (pl.col("city") == "sf") | pl.col("city").is_null())

    assert_same_rows(table.scan(), [(2, "la", 20.0)])


def test_an_expression_without_an_exact_counterpart_changes_nothing(table):
    with pytest.raises(tablespec.UnsupportedOperatorError):
        tablespec_polars.delete(table, (pl.col("id") == 1) & (pl.col("fare") * 2 > 10))

    assert_same_rows(table.scan(), TRIPS)


def test_a_lazy_frame_is_written_batch_by_batch(table):
    new = tablespec_polars.scan(table).with_columns(pl.col("id") + 10)

    tablespec_polars.append(table, new)

    assert_same_rows(table.scan("id > 10"), [(11, "sf", 10.0), (12, "la", 20.0), (13, None, 30.0)])


@pytest.mark.parametrize("verb", ["append", "upsert"])
@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (
            lambda frame: frame.with_columns(pl.lit("x").cast(pl.Float64).alias("fare")),
            "conversion from `str` to `f64`",
        ),
        (lambda frame: frame.select("nothing"), "nothing"),
        (lambda frame: pl.scan_parquet("/nowhere.parquet"), "nowhere"),
    ],
    ids=["a value that cannot be cast", "unknown column", "no file"],
)
def test_a_frame_that_fails_is_told_of_and_nothing_is_written(table, tmp_path, verb, broken, problem):
    files = set(tmp_path.rglob("*"))

    with pytest.raises(tablespec.SourceFailedError, match=problem):
        getattr(tablespec_polars, verb)(table, broken(tablespec_polars.scan(table)))

    assert set(tmp_path.rglob("*")) == files


def test_an_error_of_python_in_a_frame_stays_what_it_is(table):
    def torn(values: pl.Series) -> pl.Series:
        raise ZeroDivisionError

    broken = pl.col("fare").map_batches(torn, return_dtype=pl.Float64)
    with pytest.raises(ZeroDivisionError):
        tablespec_polars.append(table, tablespec_polars.scan(table).with_columns(broken))

    assert_same_rows(table.scan(), TRIPS)


def test_a_query_in_a_statement_that_fails_is_told_by_its_text(tmp_path):
    lake = tablespec.Catalog(str(tmp_path))
    lake.create_table("db.trips", TRIPS.schema)
    context = pl.SQLContext()
    tablespec_polars.attach_catalog(context, lake, "lake")

    for query in ("SELECT * FROM nothing", "SELECT nothing FROM lake.db.trips"):
        with pytest.raises(tablespec.SourceFailedError, match=query.replace("*", ".")):
            tablespec_polars.sql(context, f"INSERT INTO lake.db.trips {query}")


def test_a_table_in_memory_comes_through_arrow():
    made = tablespec.create_table("memory://polars-adapter/trips", TRIPS.schema)
    made.append(TRIPS)

    found = tablespec_polars.scan(made).filter(pl.col("id") > 1).select("city").head(1).collect()

    assert_same_rows(found, [("la",)])


def test_hidden_columns_are_read_when_named(table):
    found = tablespec_polars.scan(table, columns=["_row_id"])

    assert_same_rows(found.filter(pl.col("_row_id") >= 1).collect(), [(1,), (2,)])
    assert_same_rows(tablespec_polars.scan(table, "_row_id >= 0 AND id = 2", ["id"]).collect(), [(2,)])


def test_a_frame_looks_only_once_which_rows_are_deleted(tmp_path):
    table = tablespec.create_table(str(tmp_path / "numbers"), pa.schema({"n": pa.int64()}))
    table.append(pa.table({"n": range(9)}))
    table.delete("n > 1")
    frame = tablespec_polars.scan(table)
    before = frame.collect()
    for file in (tmp_path / "numbers" / "dv").iterdir():
        file.unlink()

    assert_same_rows(before, [(0,), (1,)])
    assert_same_rows(frame.collect(), [(0,), (1,)])
    assert frame.select(pl.len()).collect().item() == 2


@pytest.mark.parametrize("rows", [9, 64, 65])
def test_deleted_rows_are_left_out_wherever_they_lie_in_their_file(tmp_path, rows):
    table = tablespec.create_table(str(tmp_path / "numbers"), pa.schema({"n": pa.int64()}))
    table.append(pa.table({"n": range(rows)}))
    table.append(pa.table({"n": [100, 101]}))
    gone = {0, 1, 7, 8, 9, 62, 63, 64}
    table.delete(f"n in ({', '.join(map(str, gone))})")

    found = tablespec_polars.scan(table)

    kept = [(n,) for n in range(rows) if n not in gone]
    assert_same_rows(found.collect(), [*kept, (100,), (101,)])
    assert_same_rows(found.filter(pl.col("n") >= 8).collect(), [(n,) for (n,) in [*kept, (100,), (101,)] if n >= 8])


@pytest.mark.parametrize(("columns", "problem"), [([], "rows without columns"), (["id", "ID"], "a column twice")])
@pytest.mark.parametrize("where", [None, "id > 1", pl.col("id") > 1], ids=str)
def test_columns_that_make_no_frame_are_refused(table, where, columns, problem):
    """A frame without columns counts no rows, however many there are."""
    columns = columns if not isinstance(where, pl.Expr) else [name.lower() for name in columns]

    for read in (tablespec_polars.scan, tablespec_polars.read_optimized):
        with pytest.raises(tablespec.UnsupportedByEngineError, match=problem):
            read(table, where=where, columns=columns)
    for read in (tablespec_polars.incremental, tablespec_polars.changes):
        with pytest.raises(tablespec.UnsupportedByEngineError, match=problem):
            read(table, 0, where=where, columns=columns)


@pytest.mark.parametrize("name", ["*", "^id$", "^.*$"])
def test_a_column_whose_name_polars_takes_for_a_pattern_is_refused_and_others_are_read(tmp_path, name):
    table = tablespec.create_table(str(tmp_path), pa.schema({"id": pa.int64(), name: pa.int64()}))
    table.append(pa.table({"id": [1, 2], name: [30, 40]}))
    is_forty = tablespec.Compare(tablespec.Op.EQ, tablespec.Column((name,)), tablespec.Literal(40))

    for columns in (None, [name]):
        with pytest.raises(tablespec.UnsupportedByEngineError, match="pattern"):
            tablespec_polars.scan(table, columns=columns)
    assert_same_rows(tablespec_polars.scan(table, columns=["id"]).collect(), [(1,), (2,)])
    assert_same_rows(tablespec_polars.scan(table, where=is_forty, columns=["id"]).collect(), [(2,)])


@pytest.mark.parametrize("most_files", [1000, 0])
def test_files_that_call_their_texts_categories_are_read(tmp_path, monkeypatch, most_files):
    """As deltalake writes those of pandas."""
    monkeypatch.setattr(sys.modules["tablespec_polars.scan"], "_MOST_FILES", most_files)
    city = TRIPS.column("city").combine_chunks().dictionary_encode()
    cities = pa.array([[{"city": name}] for name in city.to_pylist()], pa.list_(pa.struct({"city": city.type})))
    write_deltalake(tmp_path, TRIPS.set_column(1, "city", city).append_column("cities", cities))
    frame = tablespec_polars.scan(tablespec.open_table(str(tmp_path)))

    assert_same_rows(frame.drop("cities").collect(), TRIPS)
    assert_same_rows(frame.filter(pl.col("city") > "la").select("id", "cities").collect(), [(1, [{"city": "sf"}])])
    assert_same_rows(frame.filter(pl.col("city").is_null()).select("id").collect(engine="streaming"), [(3,)])


def test_a_column_with_the_name_that_says_where_a_row_lies_is_not_taken_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["tablespec_polars.scan"], "_MOST_FILES", 0)
    name = "tablespec row of the file"
    table = tablespec.create_table(str(tmp_path), pa.schema({name: pa.int64(), "n": pa.int64()}))
    table.append(pa.table({name: [7, 8, 9], "n": [1, 2, 3]}))
    table.delete("n = 2")

    assert_same_rows(tablespec_polars.scan(table).collect(), [(7, 1), (9, 3)])


def test_statements_go_to_attached_catalogs_with_queries_of_polars(tmp_path):
    context = pl.SQLContext(staged=pl.LazyFrame({"id": [1, 4], "city": ["sf", "ny"], "fare": [99.0, 40.0]}))
    lake = tablespec.Catalog(str(tmp_path / "lake"))
    lake.create_table("db.trips", TRIPS.schema, key=["id"]).append(TRIPS)
    tablespec_polars.attach_catalog(context, lake, "lake")

    deleted = tablespec_polars.sql(context, "DELETE FROM lake.db.trips WHERE id = 2")
    tablespec_polars.sql(
        context,
        "MERGE INTO lake.db.trips t USING (SELECT id, city, fare * 2 AS fare FROM staged) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    )
    tablespec_polars.sql(context, "INSERT INTO lake.db.trips SELECT id + 10, city, fare FROM staged WHERE id = 1")

    assert deleted.rows_deleted == 1
    rows = [(1, "sf", 198.0), (3, None, 30.0), (4, "ny", 80.0), (11, "sf", 99.0)]
    assert_same_rows(lake.load("db.trips").scan(), rows)
    assert tablespec_polars.sql(context, "SELECT count(*) FROM staged").collect().item() == 2


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE TABLE lake.db.trips",
        "DROP TABLE lake.db.trips",
        "CREATE TABLE lake.db.trips AS SELECT 1 AS id",
        "CREATE TABLE lake.db.others AS SELECT 1 AS id",
        "EXPLAIN TRUNCATE TABLE lake.db.trips",
        "DROP TABLE own, lake.db.trips",
        "SELECT 1; DELETE FROM lake.db.trips",
    ],
)
def test_statements_that_polars_would_run_on_what_stands_for_a_catalog_table_are_refused(tmp_path, statement):
    lake = tablespec.Catalog(str(tmp_path))
    lake.create_table("db.trips", TRIPS.schema).append(TRIPS)
    context = pl.SQLContext(own=pl.LazyFrame({"id": [1]}))
    tablespec_polars.attach_catalog(context, lake, "lake")

    with pytest.raises(tablespec.UnsupportedByEngineError, match=r"lake\.db\.(trips|others)"):
        tablespec_polars.sql(context, statement)

    assert context.tables() == ["own"]
    assert_same_rows(lake.load("db.trips").scan(), TRIPS)


def test_the_plan_of_a_query_on_a_table_of_a_catalog_is_explained(tmp_path):
    lake = tablespec.Catalog(str(tmp_path))
    lake.create_table("db.trips", TRIPS.schema).append(TRIPS)
    context = pl.SQLContext()
    tablespec_polars.attach_catalog(context, lake, "lake")

    plan = tablespec_polars.sql(context, "EXPLAIN SELECT id FROM lake.db.trips WHERE id > 1").collect()

    assert 'SELECTION: col("id") > 1' in plan.to_series().str.strip_chars().to_list()


def test_tables_of_a_catalog_are_named_in_queries_of_polars(tmp_path):
    context = pl.SQLContext(names=pl.LazyFrame({"id": [1, 2], "name": ["lake.db.trips", "two"]}))
    lake = tablespec.Catalog(str(tmp_path / "lake"))
    trips = lake.create_table("db.trips", TRIPS.schema, key=["id"])
    trips.append(TRIPS)
    tablespec_polars.attach_catalog(context, lake, "lake")

    found = tablespec_polars.sql(
        context, "SELECT t.id, name FROM names JOIN lake.db.trips t ON t.id = names.id WHERE name = 'lake.db.trips'"
    )
    copied = tablespec_polars.sql(context, "INSERT INTO lake.db.trips SELECT id + 10, city, fare FROM lake.db.trips")

    assert copied.rows_inserted == 3
    assert_same_rows(found.collect(), [(1, "lake.db.trips")])
    assert_same_rows(trips.scan(columns=["id"]), [(1,), (2,), (3,), (11,), (12,), (13,)])
    assert context.tables() == ["names"]


def test_a_table_of_the_context_goes_before_one_of_a_catalog_with_its_name(tmp_path):
    context = pl.SQLContext({"lake.db.trips": pl.LazyFrame({"id": [7]})})
    lake = tablespec.Catalog(str(tmp_path / "lake"))
    lake.create_table("db.trips", TRIPS.schema).append(TRIPS)
    tablespec_polars.attach_catalog(context, lake, "lake")

    assert tablespec_polars.sql(context, "SELECT id FROM lake.db.trips").collect().rows() == [(7,)]
    assert context.tables() == ["lake.db.trips"]


def test_a_name_that_follows_is_refused(table):
    with pytest.raises(tablespec.TableSpecError, match="refresh"):
        tablespec_polars.attach(pl.SQLContext(), table, "trips", follow=True)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ({"id": [1], "city": ["x"], "fare": [1.0], "more": [2]}, "the column more is not in the table"),
        ({"id": [1], "ID": [1], "city": ["x"], "fare": [1.0]}, "stands more than once"),
        ({"id": [object()], "city": ["x"], "fare": [1.0]}, "id"),
        ({"id": ["one"], "city": ["x"], "fare": [1.0]}, "id"),
    ],
    ids=["unknown column", "column twice", "unsupported type", "wrong type"],
)
def test_rows_that_do_not_fit_are_refused_by_name_and_nothing_is_written(table, rows, problem):
    for frame in (pl.DataFrame(rows), pl.LazyFrame(rows)):
        with pytest.raises(tablespec.TableSpecError, match=problem):
            tablespec_polars.append(table, frame)

    assert_same_rows(table.scan(), TRIPS)


@pytest.mark.parametrize(
    "kind", [pl.String, pl.Categorical, pl.Enum(["la", "sf"])], ids=["texts", "categories", "enum"]
)
def test_texts_of_every_kind_are_written_by_every_verb(table, kind):
    rows = pl.DataFrame({"id": [2, 9], "city": pl.Series(["la", "sf"], dtype=kind), "fare": [21.0, 90.0]})

    for frame in (rows, rows.lazy()):
        tablespec_polars.append(table, frame)
        tablespec_polars.replace_using(table, ["city"], frame)
        tablespec_polars.upsert(table, frame)
        tablespec_polars.upsert(table, frame, order_by="fare")

    assert_same_rows(table.scan("city in ('la', 'sf')"), [(2, "la", 21.0), (9, "sf", 90.0)])


# --- one read of all files ---

VALUES = {
    "numbers": pa.array([-1, 0, 7, None], pa.int32()),
    "texts like numbers": pa.array(["007", "1.50", "-0", None]),
    "texts like dates": pa.array(["2026-01-01", "nan", "true", None]),
    "dates": pa.array([date(1, 1, 1), date(2026, 1, 31), date(9999, 12, 31), None]),
    "odd texts": pa.array(["a b", "ä=%", "~+", None]),
    "the name of no value": pa.array(["x", "y", "__HIVE_DEFAULT_PARTITION__", None]),
    "booleans": pa.array([True, False, True, None]),
}


@pytest.mark.parametrize("folder", ["plain", "env=test"])
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_partition_values_are_those_of_the_log(tmp_path, values, folder):
    rows = pa.table({"id": [1, 2, 3, 4], "p": values})
    made = tablespec.create_table(str(tmp_path / folder), rows.schema, partition_by=["p"])
    made.append(rows)
    frame = tablespec_polars.scan(made)

    assert_same_rows(frame.collect(), rows)
    assert_same_rows(frame.filter(pl.col("p").is_null()).collect(), [(4, None)])
    assert_same_rows(frame.filter(pl.col("p") == values[0].as_py()).sort("id").head(1).collect(), rows.slice(0, 1))


@pytest.mark.parametrize("partition_by", [["p"], []], ids=["partitioned", "unpartitioned"])
def test_rows_that_vectors_delete_are_left_out_of_every_query(tmp_path, partition_by):
    rows = pa.table({"id": range(300), "p": [number // 100 for number in range(300)]})
    made = tablespec.create_table(str(tmp_path / "t"), rows.schema, partition_by=partition_by)
    made.append(rows.slice(0, 150))
    made.append(rows.slice(150))
    made.delete("id = 0 or id = 99 or (id >= 100 and id < 140) or id = 299")
    left = [(number, number // 100) for number in range(300) if number not in {0, 99, *range(100, 140), 299}]
    frame = tablespec_polars.scan(made)

    assert "Parquet SCAN" in frame.explain()
    assert_same_rows(frame.collect(), left)
    assert_same_rows(frame.collect(engine="streaming"), left)
    assert frame.select(pl.len()).collect().item() == len(left)
    assert frame.head(5).collect().height == 5
    assert_same_rows(frame.filter(pl.col("p") == 1).select("id").collect(), [(number,) for number in range(140, 200)])
    assert_same_rows(frame.filter(pl.col("id") >= 298).collect(), [(298, 2)])
    assert_same_rows(tablespec_polars.scan(made, where="id < 3", columns=["id"]).collect(), [(1,), (2,)])
    assert_same_rows(tablespec_polars.read_optimized(made).collect(), rows)


def test_of_many_files_those_that_the_log_excludes_are_not_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["tablespec_polars.scan"], "_MOST_FILES", 1)
    made = tablespec.create_table(str(tmp_path / "t"), pa.schema({"id": pa.int64()}))
    made.append(pa.table({"id": [1, 2]}))
    made.append(pa.table({"id": [3, 4]}))
    frame = tablespec_polars.scan(made)
    first = min(made.scan("id = 1").slices, key=str).slice.base
    (tmp_path / "t" / first.path).unlink()

    assert_same_rows(frame.filter(pl.col("id") > 3).collect(), [(4,)])


@pytest.mark.parametrize(
    "predicate", [pl.col("x") < math.inf, pl.col("x") != math.nan, ~(pl.col("x") > 1e308 * 10)], ids=str
)
def test_numbers_that_are_not_finite_can_be_asked_for_where_the_log_chooses_the_files(tmp_path, monkeypatch, predicate):
    monkeypatch.setattr(sys.modules["tablespec_polars.scan"], "_MOST_FILES", 0)
    rows = pa.table({"x": [1.5, math.inf, math.nan]})
    made = tablespec.create_table(str(tmp_path / "t"), rows.schema)
    made.append(rows)

    found = tablespec_polars.scan(made).filter(predicate).collect()

    assert_same_rows(found, pl.DataFrame(rows).filter(predicate))
