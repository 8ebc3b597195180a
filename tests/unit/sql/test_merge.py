"""MERGE, run on real tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tablespec
from tablespec.errors import (
    AmbiguousColumnError,
    ColumnNotFoundError,
    InvalidPredicateError,
    InvalidStatementError,
    MultipleMatchesError,
    TypeMismatchError,
)
from tests.rows import assert_same_rows
from tests.unit.sql.conftest import TRIPS


def test_merge_updates_deletes_and_inserts(catalog, trips):
    result = tablespec.sql(
        """
        MERGE INTO sales.trips AS x
        USING sales.updates AS y
        ON x.id = y.id
        WHEN MATCHED AND y.fare > 30 THEN DELETE
        WHEN MATCHED THEN UPDATE SET fare = y.fare + x.id, x.city = upper(x.city)
        WHEN NOT MATCHED THEN INSERT (id, city, fare) VALUES (y.id, 'from ' || y.city, y.fare)
        WHEN NOT MATCHED BY SOURCE AND x.fare IS NOT NULL AND x.city IS NULL THEN UPDATE SET fare = 0
        WHEN NOT MATCHED BY SOURCE THEN DELETE
        """,
        catalog,
    )

    assert (result.rows_updated, result.rows_deleted, result.rows_inserted) == (2, 2, 1)
    assert_same_rows(trips.scan(), [(2, "SF", 22.0), (9, "from ny", 9.0), (4, None, 0.0)])


@pytest.mark.parametrize("on", ["trips.id = updates.id", "sales.trips.id = Sales.Updates.id"])
def test_merge_of_all_columns_goes_by_name(on, catalog, trips):
    tablespec.sql(
        f"MERGE INTO sales.trips USING sales.updates ON {on} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        catalog,
    )

    assert_same_rows(trips.scan(), [(1, "sf", 12.5), (2, "sf", 20.0), (3, "la", 33.0), (4, None, 7.0), (9, "ny", 9.0)])


@pytest.mark.parametrize("update", ["UPDATE SET *", "UPDATE *"])
def test_merge_takes_rows_that_are_written_out(update, trips):
    trips.sql(
        "MERGE INTO trips USING (VALUES (1, 'oakland', 1.5), (8, NULL, 8)) AS s(id, city, fare) ON trips.id = s.id "
        f"WHEN MATCHED THEN {update} WHEN NOT MATCHED BY TARGET THEN INSERT *"
    )

    assert_same_rows(trips.scan(), [(1, "oakland", 1.5), *TRIPS[1:], (8, None, 8.0)])


def test_columns_of_values_that_the_table_lacks_have_the_type_of_their_values(trips):
    trips.sql(
        "MERGE INTO trips USING (VALUES (1, 0.5, NULL), (3, 2, 'x')) AS s(id, factor, note) ON trips.id = s.id "
        "WHEN MATCHED AND note IS NULL THEN UPDATE SET fare = trips.fare * CAST(factor AS DOUBLE)"
    )

    assert_same_rows(trips.scan(where="id in (1, 3)"), [(1, "sf", 6.25), (3, "la", 30.0)])


def test_values_of_no_common_type_are_refused(trips):
    with pytest.raises(TypeMismatchError):
        trips.sql(
            "MERGE INTO trips USING (VALUES (1, 2), (2, 'x')) AS s(id, note) ON trips.id = s.id WHEN MATCHED THEN DELETE"
        )


def test_merge_takes_some_columns_and_rows_of_another_table(catalog, trips):
    tablespec.sql(
        "MERGE INTO sales.trips t USING (SELECT id AS k, fare f FROM sales.updates WHERE fare < 30) AS u ON t.id = u.k "
        "WHEN MATCHED THEN UPDATE SET fare = f WHEN NOT MATCHED THEN INSERT (id, city) VALUES (k, 'new')",
        catalog,
    )

    assert_same_rows(
        trips.scan(), [(1, "sf", 12.5), (2, "sf", 20.0), (3, "la", 30.0), (4, None, 7.0), (9, "new", None)]
    )


def test_insert_without_columns_takes_a_value_for_each_column(trips):
    trips.sql(
        "MERGE INTO trips USING (VALUES (8)) AS s(id) ON trips.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'x', 1)"
    )

    assert_same_rows(trips.scan(), [*TRIPS, (8, "x", 1.0)])


def test_the_names_of_table_and_source_may_be_any(trips):
    """The letters by which merges know the two sides are given to the other side here."""
    trips.sql(
        "MERGE INTO trips AS s USING (VALUES (1, 99)) AS t(id, fare) ON s.id = t.id WHEN MATCHED THEN UPDATE SET fare = s.fare + T.fare"
    )

    assert_same_rows(trips.scan(), [(1, "sf", 111.5), *TRIPS[1:]])


def test_a_column_that_both_sides_have_must_be_qualified(catalog, trips):
    with pytest.raises(AmbiguousColumnError):
        tablespec.sql(
            "MERGE INTO sales.trips t USING sales.updates u ON t.id = u.id WHEN MATCHED AND fare > 1 THEN DELETE",
            catalog,
        )

    assert trips.instant().version == 1


@pytest.mark.parametrize(
    ("clause", "error", "sentence"),
    [
        ("AND fare > 1 THEN DELETE", AmbiguousColumnError, "the column 'fare' is ambiguous; write a.fare or b.fare"),
        (
            "THEN UPDATE SET fare = fare + 1",
            AmbiguousColumnError,
            "the column 'fare' is ambiguous; write a.fare or b.fare",
        ),
        ("AND b.faer > 1 THEN DELETE", ColumnNotFoundError, "b has no column 'faer'; did you mean fare?"),
        ("THEN UPDATE SET fare = A.nope", ColumnNotFoundError, "a has no column 'nope'"),
        (
            "THEN UPDATE SET fare = faer",
            ColumnNotFoundError,
            "a row of a and b has no column 'faer'; did you mean fare?",
        ),
        ("AND b.fare = 'x' THEN DELETE", TypeMismatchError, "column b.fare is of type double"),
        ("AND a.city = b.fare THEN DELETE", TypeMismatchError, "which does not fit column b.fare of type double"),
        ("THEN UPDATE SET fare = upper(a.fare)", TypeMismatchError, "column a.fare is of type double"),
        ("THEN UPDATE SET id = b.fare * 2", TypeMismatchError, "`b`.`fare`"),
        ("AND s.fare > 1 THEN DELETE", InvalidStatementError, "the tables are called a and b"),
    ],
)
def test_errors_call_table_and_source_as_the_statement_does(clause, error, sentence, catalog, trips):
    with pytest.raises(error) as caught:
        tablespec.sql(f"MERGE INTO sales.trips a USING sales.updates b ON a.id = b.id WHEN MATCHED {clause}", catalog)

    assert sentence in str(caught.value)


def test_errors_call_tables_without_another_name_by_their_own(catalog, trips):
    with pytest.raises(AmbiguousColumnError, match=r"write trips\.fare or updates\.fare$"):
        tablespec.sql(
            "MERGE INTO sales.trips USING sales.updates ON trips.id = updates.id WHEN MATCHED AND fare > 1 THEN DELETE",
            catalog,
        )


@pytest.mark.parametrize(
    ("clause", "marked", "why"),
    [
        (
            "WHEN NOT MATCHED\n  AND trips.fare > 1 THEN INSERT *",
            "trips.fare",
            "an insert can look at columns of the source",
        ),
        (
            "WHEN NOT MATCHED THEN INSERT (id, city)\n VALUES (s.id, upper(city))",
            "city))",
            "an insert can look at columns of the source",
        ),
        ("WHEN NOT MATCHED BY SOURCE\n AND s.fare > 1 THEN DELETE", "s.fare", "can look at columns of the table only"),
        (
            "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET fare =\n CASE WHEN s.fare > 1 THEN 1 END",
            "s.fare",
            "can look at columns of the table only",
        ),
    ],
)
def test_a_column_of_the_side_without_a_row_is_told_with_its_place(clause, marked, why, trips):
    statement = f"MERGE INTO trips USING (VALUES (8, 1.5)) AS s(id, fare) ON trips.id = s.id {clause}"

    with pytest.raises(InvalidPredicateError, match=why) as caught:
        trips.sql(statement)

    assert (caught.value.text, caught.value.position) == (statement, statement.index(marked))


def test_a_struct_column_is_not_taken_for_a_table(tmp_path):
    data = pa.table({"id": [1], "s": [{"a": 1}], "t": [{"a": 2}]})
    table = tablespec.create_table(str(tmp_path / "structs"), data.schema)
    table.append(data)
    merge = "MERGE INTO x USING (VALUES (1)) AS y(id) ON x.id = y.id WHEN MATCHED AND {} THEN DELETE"

    with pytest.raises(InvalidStatementError, match=r"not clear whose column this is; write x\.s\.a or y\.s\.a"):
        table.sql(merge.format("s.a = 1"))
    with pytest.raises(InvalidStatementError, match="not clear whose column this is"):
        table.sql(merge.format("T.a = 2"))
    assert_same_rows(table.scan(columns=["id"]), [(1,)])

    table.sql(merge.format("x.s.a = 1 AND x.t.a = 2"))
    assert_same_rows(table.scan(), [])


def test_a_row_that_is_matched_twice_is_refused(trips):
    with pytest.raises(MultipleMatchesError):
        trips.sql(
            "MERGE INTO trips USING (VALUES (1, 1), (1, 2)) AS s(id, fare) ON trips.id = s.id WHEN MATCHED THEN UPDATE SET fare = s.fare"
        )

    assert_same_rows(trips.scan(), TRIPS)


@pytest.mark.parametrize(
    ("clause", "error"),
    [
        ("WHEN NOT MATCHED AND trips.fare > 1 THEN INSERT *", InvalidPredicateError),
        ("WHEN NOT MATCHED BY SOURCE AND s.fare > 1 THEN DELETE", InvalidPredicateError),
        ("WHEN NOT MATCHED THEN INSERT (id, city) VALUES (s.id, trips.city)", InvalidPredicateError),
        ("WHEN NOT MATCHED BY SOURCE THEN UPDATE SET fare = s.fare", InvalidPredicateError),
        ("WHEN MATCHED THEN UPDATE SET nothing = 1", ColumnNotFoundError),
        ("WHEN MATCHED THEN UPDATE SET fare = s.nothing", ColumnNotFoundError),
        ("WHEN MATCHED THEN UPDATE SET s.fare = 1", InvalidStatementError),
        ("WHEN MATCHED THEN UPDATE SET fare = 1, FARE = 2", InvalidStatementError),
        ("WHEN NOT MATCHED THEN INSERT (id, ID) VALUES (1, 2)", InvalidStatementError),
        ("WHEN NOT MATCHED THEN INSERT (id, city) VALUES (1)", InvalidStatementError),
        ("WHEN NOT MATCHED THEN INSERT VALUES (1)", InvalidStatementError),
        ("WHEN NOT MATCHED THEN UPDATE SET fare = 1", InvalidStatementError),
        ("WHEN NOT MATCHED THEN DELETE", InvalidStatementError),
        ("WHEN MATCHED THEN INSERT *", InvalidStatementError),
        ("WHEN MATCHED THEN DO NOTHING", InvalidStatementError),
        ("WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", InvalidStatementError),
        ("WHEN MATCHED THEN UPDATE SET fare = 1 WHERE fare = 2", InvalidStatementError),
        ("WHEN MATCHED THEN UPDATE SET *, fare = 2", InvalidStatementError),
    ],
)
def test_a_clause_that_makes_no_sense_is_refused(clause, error, trips):
    with pytest.raises(error):
        trips.sql(f"MERGE INTO trips USING (VALUES (8, 1.5)) AS s(id, fare) ON trips.id = s.id {clause}")

    assert trips.instant().version == 1


@pytest.mark.parametrize(
    ("using", "why"),
    [
        ("trips", "table and source are both called trips"),
        ("(VALUES (1)) AS TRIPS(id)", "table and source are both called trips"),
        ("(VALUES (1))", "the source must have a name"),
        ("(SELECT * FROM trips)", "the source must have a name"),
        ("(VALUES (1)) AS s", "each column of VALUES must have a name"),
        ("(VALUES (1, 2)) AS s(id)", "each column of VALUES must have a name"),
        ("(VALUES (1, 2)) AS s(id, ID)", "each column of VALUES must have a name"),
        ("(SELECT * FROM trips) AS s(a, b, c)", "names of columns is not supported here"),
        ("(SELECT * FROM trips UNION SELECT * FROM trips) AS s", "the source must be a table, VALUES, or SELECT"),
        ("updates AS s", "updates is not the one table there is"),
    ],
)
def test_a_source_that_is_not_understood_is_refused(using, why, trips):
    with pytest.raises(InvalidStatementError) as caught:
        trips.sql(f"MERGE INTO trips USING {using} ON trips.id = 1 WHEN MATCHED THEN DELETE")

    assert why in str(caught.value)
