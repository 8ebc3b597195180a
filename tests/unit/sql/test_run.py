"""DELETE, UPDATE and INSERT, run on real tables."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import tablespec
from tablespec import Catalog
from tablespec.errors import (
    ColumnNotFoundError,
    ConstraintViolatedError,
    FullTableChangeError,
    InvalidNameError,
    InvalidStatementError,
    NonPartitionedTableError,
    NotAuthorizedError,
    PartitionColumnNotFoundError,
    ReplaceWhereMismatchError,
    SchemaMismatchError,
    TableNotFoundError,
    TypeMismatchError,
    UnsupportedOperatorError,
)
from tablespec.write.authorize import PolicyFile, Privilege, Rule
from tests.rows import assert_same_rows
from tests.unit.sql.conftest import TRIPS, UPDATES

# --- delete and update ----------------------------------------------------------------------------------------------


def test_delete_removes_the_rows_for_which_the_condition_is_true(catalog, trips):
    result = tablespec.sql("DELETE FROM sales.trips WHERE fare > 10", catalog)

    assert (result.rows_deleted, result.instant.version) == (2, 2)
    assert_same_rows(trips.scan(), [(2, "sf", None), (4, None, 7.0)])


def test_a_statement_that_matches_nothing_commits_nothing(catalog, trips):
    assert tablespec.sql("DELETE FROM sales.trips WHERE id = 99", catalog).instant is None
    assert trips.instant().version == 1


def test_update_sets_columns_from_the_row_as_it_was(catalog, trips):
    result = tablespec.sql(
        "UPDATE sales.trips SET id = id + 10, fare = fare * id, city = upper(city) WHERE fare >= 12.5", catalog
    )

    assert result.rows_updated == 2
    assert_same_rows(trips.scan(), [(11, "SF", 12.5), (2, "sf", None), (13, "LA", 90.0), (4, None, 7.0)])


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM {}",
        "DELETE FROM {} WHERE TRUE",
        "DELETE FROM {} WHERE 1 = 1",
        "UPDATE {} SET fare = 0",
        "UPDATE {} SET fare = 0 WHERE TRUE",
        "INSERT INTO {} REPLACE WHERE TRUE VALUES (1, 'sf', 1)",
    ],
)
def test_a_statement_that_would_change_every_row_is_refused(statement, trips):
    with pytest.raises(FullTableChangeError, match="allow_full_table=True"):
        trips.sql(statement.format("trips"))

    assert_same_rows(trips.scan(), TRIPS)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM trips WHERE trips.id = 1",
        "DELETE FROM trips AS x WHERE x.id = 1",
        "DELETE FROM trips x WHERE X.ID = 1",
        'DELETE FROM "trips" WHERE `trips`."id" = 1;',
        "delete from trips where id = 1 -- the first",
    ],
)
def test_columns_may_be_qualified_by_the_table_or_its_alias(statement, trips):
    trips.sql(statement)

    assert_same_rows(trips.scan(), TRIPS[1:])


def test_columns_of_a_catalog_table_may_be_qualified_by_its_whole_name(catalog, trips):
    tablespec.sql("UPDATE sales.trips SET trips.fare = sales.trips.fare + 1 WHERE trips.id = 1", catalog)

    assert_same_rows(trips.scan(where="id = 1"), [(1, "sf", 13.5)])


def test_a_table_with_an_alias_is_not_known_by_its_name(trips):
    with pytest.raises(ColumnNotFoundError):
        trips.sql("DELETE FROM trips AS x WHERE trips.id = 1")


def test_names_and_values_with_odd_characters_are_taken_as_they_are(tmp_path):
    odd = ["it's", 'say "hi"', "back\\slash", "100%", "a_b", "tick`tock", "line\nbreak"]
    data = pa.table({"o'dd `n\"ame\\%": odd, "n": range(len(odd))})
    properties = {"delta.columnMapping.mode": "name"}
    table = tablespec.create_table(str(tmp_path / "odd"), data.schema, properties=properties)
    table.append(data)

    for value in odd[:-1]:
        table.sql("DELETE FROM t WHERE `o'dd ``n\"ame\\%` = '" + value.replace("'", "''") + "'")

    assert_same_rows(table.scan(), [("line\nbreak", len(odd) - 1)])


# --- insert ---------------------------------------------------------------------------------------------------------


def test_insert_adds_rows_that_are_written_out(trips):
    result = trips.sql("INSERT INTO trips VALUES (5, 'ny', 1.5), (6, NULL, 2 * 3)")

    assert (result.rows_inserted, result.rows_deleted, result.instant.version) == (2, 0, 2)
    assert_same_rows(trips.scan(where="id > 4"), [(5, "ny", 1.5), (6, None, 6.0)])


@pytest.mark.parametrize(
    "statement", ["INSERT INTO table VALUES (5, 'ny', 1)", "INSERT INTO TABLE trips VALUES (5, 'ny', 1);"]
)
def test_a_table_may_be_called_table(statement, trips):
    trips.sql(statement)

    assert_same_rows(trips.scan(where="id = 5"), [(5, "ny", 1.0)])


def test_insert_into_some_columns_leaves_the_others_null(trips):
    trips.sql("INSERT INTO trips (CITY, id) VALUES ('ny', 5)")

    assert_same_rows(trips.scan(where="id = 5"), [(5, "ny", None)])


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {} (id) VALUES (9)",
        "INSERT INTO {} (ID) SELECT id FROM sales.updates WHERE id = 9",
        "INSERT INTO {} BY NAME SELECT id FROM sales.updates WHERE id = 9",
        "INSERT INTO {} (id) REPLACE WHERE city IS NULL VALUES (9)",
    ],
)
def test_partition_columns_that_an_insert_does_not_name_are_null(statement, catalog):
    table = catalog.create_table("sales.parted", catalog.load("sales.trips").schema, partition_by=["city", "fare"])

    tablespec.sql(statement.format("sales.parted"), catalog)

    assert_same_rows(table.scan(), [(9, None, None)])


@pytest.mark.parametrize("column", ["id", "city"])
def test_columns_that_an_insert_does_not_name_must_take_nulls(column, catalog):
    columns = [pa.field("id", pa.int64(), False), pa.field("city", pa.string(), False), pa.field("fare", pa.float64())]
    table = catalog.create_table("sales.parted", pa.schema(columns), partition_by=[column])

    with pytest.raises(SchemaMismatchError, match=f"the column {column} is missing and must not be null"):
        table.sql("INSERT INTO parted (fare) VALUES (9)")

    assert table.instant().version == 0


def test_rows_of_a_replacement_without_a_partition_column_must_match_with_null_there(trips):
    with pytest.raises(ReplaceWhereMismatchError):
        trips.sql("INSERT INTO trips (id) REPLACE WHERE city = 'sf' VALUES (9)")

    assert_same_rows(trips.scan(), TRIPS)


@pytest.mark.parametrize("rows", ["VALUES (9)", "SELECT 9"])
def test_an_engine_answers_for_the_columns_that_an_insert_names(rows, catalog, trips):
    class Answer:
        names = ("nine",)

        def rows(self, names):
            return pa.table({names[0]: [9]})

    tablespec.sql(f"INSERT INTO sales.trips (id) {rows}", catalog, queries=lambda text: Answer())

    assert_same_rows(trips.scan(where="id = 9"), [(9, None, None)])


def test_values_become_values_of_the_types_of_the_columns(tmp_path):
    schema = pa.schema(
        {
            "flag": pa.bool_(),
            "tiny": pa.int8(),
            "price": pa.decimal128(9, 2),
            "ratio": pa.float32(),
            "raw": pa.binary(),
            "day": pa.date32(),
            "at": pa.timestamp("us", "UTC"),
            "local": pa.timestamp("us"),
            "tags": pa.list_(pa.string()),
        }
    )
    table = tablespec.create_table(str(tmp_path / "types"), schema)

    table.sql(
        "INSERT INTO t VALUES (TRUE, -128, 12.5, 0.5, X'00ff', DATE '2026-01-31', TIMESTAMP '2026-01-31 12:00:00+00:00', "
        "TIMESTAMP_NTZ '2026-01-31 12:00:00', NULL), (NULL, NULL, 1, NULL, NULL, '2026-02-01', '2026-02-01T00:00:00Z', NULL, NULL)"
    )

    noon = datetime(2026, 1, 31, 12)
    assert_same_rows(
        table.scan(),
        [
            (True, -128, Decimal("12.50"), 0.5, b"\x00\xff", date(2026, 1, 31), noon.replace(tzinfo=UTC), noon, None),
            (None, None, Decimal("1.00"), None, None, date(2026, 2, 1), datetime(2026, 2, 1, tzinfo=UTC), None, None),
        ],
    )


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ("('x', 'sf', 1)", TypeMismatchError),
        ("(1.5, 'sf', 1)", TypeMismatchError),
        ("(99999999999999999999, 'sf', 1)", TypeMismatchError),
        ("(1, 2, 3)", TypeMismatchError),
        ("(1, 'sf')", InvalidStatementError),
        ("(1, 'sf', 1, 1)", InvalidStatementError),
        ("(1, 'sf', 1), (1, 'sf')", InvalidStatementError),
        ("(id, 'sf', 1)", InvalidStatementError),
        ("(DEFAULT, 'sf', 1)", InvalidStatementError),
        ("(1, (SELECT 'sf'), 1)", UnsupportedOperatorError),
    ],
)
def test_values_that_do_not_fit_are_refused_and_nothing_is_written(values, error, trips):
    with pytest.raises(error):
        trips.sql(f"INSERT INTO trips VALUES {values}")

    assert trips.instant().version == 1


def test_insert_takes_the_columns_of_another_table_in_order(catalog, trips):
    result = tablespec.sql(
        "INSERT INTO sales.trips (city, id) SELECT u.city AS id, ID FROM sales.updates u WHERE u.fare < 30", catalog
    )

    assert result.rows_inserted == 2
    assert_same_rows(trips.scan(), [*TRIPS, (2, "sf", None), (9, "ny", None)])


def test_insert_takes_all_columns_of_another_table_in_order(catalog, trips):
    tablespec.sql("INSERT INTO sales.trips SELECT * FROM sales.updates", catalog)

    assert_same_rows(trips.scan(), [*TRIPS, *UPDATES])


def test_insert_by_name_takes_columns_where_their_names_say(catalog, trips):
    tablespec.sql("INSERT INTO sales.trips BY NAME SELECT city, id FROM sales.updates WHERE id = 9", catalog)

    assert_same_rows(trips.scan(), [*TRIPS, (9, "ny", None)])


def test_a_column_may_be_selected_more_than_once(catalog):
    pairs = catalog.create_table("sales.pairs", pa.schema({"a": pa.string(), "b": pa.string()}))

    tablespec.sql("INSERT INTO sales.pairs SELECT city, City FROM sales.trips WHERE id = 1", catalog)

    assert_same_rows(pairs.scan(), [("sf", "sf")])


def test_a_table_may_be_read_as_it_was(catalog, trips):
    trips.sql("DELETE FROM trips WHERE city = 'sf'")

    tablespec.sql(
        "INSERT INTO sales.trips REPLACE WHERE city = 'sf' SELECT * FROM sales.trips VERSION AS OF 1 WHERE city = 'sf'",
        catalog,
    )

    assert_same_rows(trips.scan(), TRIPS)


def test_columns_of_a_table_may_be_read_as_they_were(catalog, trips):
    trips.sql("UPDATE trips SET fare = 0, city = 'x' WHERE id < 4")
    copies = catalog.create_table("sales.copies", pa.schema({"a": pa.string(), "b": pa.float64()}))

    tablespec.sql(
        "INSERT INTO sales.copies SELECT city, fare FROM sales.trips VERSION AS OF 1 WHERE id > 1 AND fare > 0", catalog
    )
    tablespec.sql("INSERT INTO sales.copies SELECT city AS a, fare FROM sales.trips VERSION AS OF 0", catalog)

    assert_same_rows(copies.scan(), [("la", 30.0), (None, 7.0)])


def test_a_select_without_rows_inserts_nothing_and_commits_nothing(catalog, trips):
    result = tablespec.sql("INSERT INTO sales.trips SELECT * FROM sales.updates WHERE id = 0", catalog)

    assert (result.instant, result.rows_inserted) == (None, 0)
    assert trips.instant().version == 1


def test_columns_of_another_type_are_refused(catalog, trips):
    with pytest.raises(SchemaMismatchError):
        tablespec.sql("INSERT INTO sales.trips SELECT city, city, fare FROM sales.updates", catalog)
    with pytest.raises(InvalidStatementError, match="there are 1 values for 3 columns"):
        tablespec.sql("INSERT INTO sales.trips SELECT id FROM sales.updates", catalog)

    assert trips.instant().version == 1


# --- replace --------------------------------------------------------------------------------------------------------


def test_replace_where_exchanges_the_rows_under_the_predicate(trips):
    result = trips.sql("INSERT INTO trips REPLACE WHERE city = 'sf' VALUES (7, 'sf', 70)")

    assert (result.rows_deleted, result.rows_inserted) == (2, 1)
    assert_same_rows(trips.scan(), [(7, "sf", 70.0), (3, "la", 30.0), (4, None, 7.0)])


def test_replace_where_takes_rows_of_another_table(catalog, trips):
    tablespec.sql("INSERT INTO sales.trips REPLACE WHERE city = 'la' SELECT * FROM sales.updates WHERE id = 3", catalog)

    assert_same_rows(trips.scan(where="city = 'la'"), [(3, "la", 33.0)])


def test_replace_where_without_rows_still_deletes(catalog, trips):
    tablespec.sql("INSERT INTO sales.trips REPLACE WHERE city = 'la' SELECT * FROM sales.updates WHERE id = 0", catalog)

    assert_same_rows(trips.scan(), [TRIPS[0], TRIPS[1], TRIPS[3]])


def test_replace_where_refuses_rows_outside_of_the_predicate(trips):
    with pytest.raises(ReplaceWhereMismatchError):
        trips.sql("INSERT INTO trips REPLACE WHERE city = 'sf' VALUES (7, 'la', 70)")

    assert_same_rows(trips.scan(), TRIPS)


def test_replace_where_looks_at_other_columns_only_when_asked_to(catalog, trips):
    statement = "INSERT INTO {} REPLACE WHERE fare >= 12.5 VALUES (7, 'sf', 70)"

    with pytest.raises(PartitionColumnNotFoundError, match="data_columns=True"):
        trips.sql(statement.format("trips"))
    with pytest.raises(NonPartitionedTableError, match="data_columns=True"):
        tablespec.sql(statement.format("sales.updates"), catalog)
    assert_same_rows(trips.scan(), TRIPS)

    trips.sql(statement.format("trips"), data_columns=True)
    tablespec.sql(statement.format("sales.updates"), catalog, data_columns=True)
    assert_same_rows(trips.scan(), [(2, "sf", None), (7, "sf", 70.0), (4, None, 7.0)])
    assert_same_rows(catalog.load("sales.updates").scan(), [(7, "sf", 70.0), (9, "ny", 9.0)])


# --- names, constraints and privileges ------------------------------------------------------------------------------


def test_constraints_hold_for_statements(trips):
    trips.add_constraint("small", "id < 100")

    with pytest.raises(ConstraintViolatedError):
        trips.sql("UPDATE trips SET id = id * 100 WHERE id = 3")
    with pytest.raises(ConstraintViolatedError):
        trips.sql("INSERT INTO trips VALUES (100, 'sf', 1)")

    assert_same_rows(trips.scan(), TRIPS)


def test_a_table_by_itself_has_one_name(trips):
    with pytest.raises(InvalidStatementError, match=r"updates is not the one table there is; .* a catalog"):
        trips.sql("INSERT INTO trips SELECT * FROM updates")
    with pytest.raises(InvalidStatementError, match=r"sales.trips is not the one table there is"):
        trips.sql("DELETE FROM sales.trips WHERE id = 1")


def test_a_table_by_itself_can_be_read_into_itself(trips):
    trips.sql("INSERT INTO trips SELECT id, city, fare FROM trips WHERE id = 3")

    assert_same_rows(trips.scan(), [*TRIPS, TRIPS[2]])


def test_the_names_of_a_catalog_have_two_parts(catalog):
    with pytest.raises(InvalidNameError):
        tablespec.sql("DELETE FROM trips WHERE id = 1", catalog)
    with pytest.raises(InvalidNameError):
        tablespec.sql("DELETE FROM a.sales.trips WHERE id = 1", catalog)
    with pytest.raises(InvalidNameError):
        tablespec.sql("DELETE FROM `sales.trips` WHERE id = 1", catalog)
    with pytest.raises(InvalidNameError):
        tablespec.sql("DELETE FROM `..`.`sales` WHERE id = 1", catalog)
    with pytest.raises(TableNotFoundError):
        tablespec.sql("DELETE FROM sales.nothing WHERE id = 1", catalog)


def test_a_column_that_is_not_there_is_refused(trips):
    with pytest.raises(ColumnNotFoundError):
        trips.sql("DELETE FROM trips WHERE nothing = 1")
    with pytest.raises(ColumnNotFoundError):
        trips.sql("UPDATE trips SET nothing = 1 WHERE id = 1")
    with pytest.raises(ColumnNotFoundError):
        trips.sql("INSERT INTO trips (nothing) VALUES (1)")


def test_a_statement_needs_the_privileges_of_what_it_does(catalog, tmp_path, trips):
    policy = PolicyFile("policy.toml", (Rule("ana", "sales.*", (Privilege.SELECT, Privilege.INSERT)),))
    limited = Catalog(str(tmp_path), authorizer=policy, principal="ana")

    tablespec.sql("INSERT INTO sales.trips SELECT * FROM sales.updates WHERE id = 9", limited)
    for statement, privilege in [
        ("DELETE FROM sales.trips WHERE id = 1", "DELETE"),
        ("UPDATE sales.trips SET fare = 0 WHERE id = 1", "UPDATE"),
        ("INSERT INTO sales.trips REPLACE WHERE city = 'sf' VALUES (1, 'sf', 1)", "DELETE"),
        (
            "MERGE INTO sales.trips t USING sales.updates u ON t.id = u.id WHEN MATCHED THEN UPDATE SET *",
            "UPDATE",
        ),
    ]:
        with pytest.raises(NotAuthorizedError, match=f"ana does not have the privilege {privilege} on sales.trips"):
            tablespec.sql(statement, limited)

    assert_same_rows(trips.scan(), [*TRIPS, (9, "ny", 9.0)])
