import pyarrow as pa
import pytest

from tablespec.arrow.schema import schema_of
from tablespec.errors import ConstraintViolatedError, UnsupportedConstraintError
from tablespec.write.check import constraints, verified
from tests.rows import assert_same_rows

TABLE = "memory://m/t"


def run(data, *checks):
    rules = constraints(TABLE, schema_of(data.schema), checks)
    batches = iter([batch.cast(_nullable(batch.schema)) for batch in data.to_batches()])
    return pa.Table.from_batches(verified(batches, rules), _nullable(data.schema))


def _nullable(schema):
    return pa.schema([field.with_nullable(True) for field in schema])


def required(name, kind):
    return pa.field(name, kind, nullable=False)


def refuse(field, values, *checks):
    rules = constraints(TABLE, schema_of(pa.schema([field])), checks)
    batch = pa.RecordBatch.from_arrays([pa.array(values, field.type)], names=[field.name])
    with pytest.raises(ConstraintViolatedError) as caught:
        list(verified(iter([batch]), rules))
    return caught.value


def test_rows_that_keep_all_rules_pass_as_they_are():
    data = pa.table({"x": [1, 2]})

    assert_same_rows(run(data, ("positive", "x > 0"), ("small", "x < 10")), [(1,), (2,)])


def test_a_null_in_a_column_that_must_not_be_null_is_refused():
    error = refuse(required("x", pa.int64()), [1, None])

    assert str(error) == "a row breaks the constraint x NOT NULL of memory://m/t: {'x': None}; nothing was written"


def test_a_null_member_of_a_struct_is_refused():
    error = refuse(pa.field("s", pa.struct([required("a", pa.int64())])), [{"a": 1}, {"a": None}])

    assert error.constraint == "s.a NOT NULL"


def test_a_null_struct_breaks_the_rule_of_its_member():
    error = refuse(pa.field("s", pa.struct([required("a", pa.int64())])), [{"a": 1}, None])

    assert error.constraint == "s.a NOT NULL"


def test_members_at_any_depth_are_looked_at():
    inner = pa.struct([required("b", pa.int64())])
    error = refuse(pa.field("s", pa.struct([("a", inner)])), [{"a": {"b": 1}}, {"a": {"b": None}}])

    assert error.constraint == "s.a.b NOT NULL"


@pytest.mark.parametrize(
    ("kind", "values", "constraint"),
    [
        (pa.list_(pa.field("element", pa.int64(), False)), [[1], [2, None]], "x.element NOT NULL"),
        (pa.map_(pa.string(), pa.field("value", pa.int64(), False)), [[("a", 1)], [("b", None)]], "x.value NOT NULL"),
        (
            pa.list_(pa.struct([required("a", pa.int64())])),
            [[{"a": 1}], [{"a": 2}, {"a": None}]],
            "x.element.a NOT NULL",
        ),
    ],
    ids=["element", "value", "member of an element"],
)
def test_nulls_inside_of_lists_and_maps_are_refused_where_they_must_not_be(kind, values, constraint):
    nullable = {
        "x.element NOT NULL": pa.list_(pa.int64()),
        "x.value NOT NULL": pa.map_(pa.string(), pa.int64()),
        "x.element.a NOT NULL": pa.list_(pa.struct([("a", pa.int64())])),
    }[constraint]
    rules = constraints(TABLE, schema_of(pa.schema([("x", kind)])), ())
    batch = pa.RecordBatch.from_arrays([pa.array(values, nullable)], names=["x"])

    with pytest.raises(ConstraintViolatedError) as caught:
        list(verified(iter([batch]), rules))

    assert caught.value.constraint == constraint


def test_an_empty_or_null_list_has_no_elements_that_could_be_null():
    kind = pa.list_(pa.field("element", pa.int64(), False))
    rules = constraints(TABLE, schema_of(pa.schema([("x", kind)])), ())
    batch = pa.RecordBatch.from_arrays([pa.array([[], None, [1]], pa.list_(pa.int64()))], names=["x"])

    assert_same_rows(pa.Table.from_batches(verified(iter([batch]), rules)), [([],), (None,), ([1],)])


def test_a_row_that_fails_a_check_is_shown_with_the_check():
    error = refuse(pa.field("x", pa.int64()), [1, 2, -3, -4], ("positive", "x > 0"))

    assert (error.constraint, error.row) == ("positive (x > 0)", "{'x': -3}")


def test_a_check_that_is_null_counts_as_broken():
    error = refuse(pa.field("x", pa.int64()), [1, None], ("positive", "x > 0"))

    assert error.row == "{'x': None}"


def test_a_check_may_say_that_null_is_welcome():
    assert_same_rows(run(pa.table({"x": [1, None]}), ("positive", "x > 0 or x is null")), [(1,), (None,)])


def test_later_batches_are_checked_too():
    rules = constraints(TABLE, schema_of(pa.schema([("x", pa.int64())])), (("positive", "x > 0"),))
    batches = [pa.RecordBatch.from_pydict({"x": [value]}) for value in (1, 2, -3)]

    flow = verified(iter(batches), rules)

    assert [next(flow).to_pylist(), next(flow).to_pylist()] == [[{"x": 1}], [{"x": 2}]]
    with pytest.raises(ConstraintViolatedError):
        next(flow)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nonsense(x) > 0", "nonsense"),
        ("y > 0", "no column 'y'"),
        ("x >", "line 1 column"),
        ("x = 'a'", "does not fit"),
    ],
)
def test_a_check_that_cannot_be_understood_stops_every_write(text, why):
    with pytest.raises(UnsupportedConstraintError, match=why) as caught:
        constraints(TABLE, schema_of(pa.schema([("x", pa.int64())])), (("odd", text),))

    assert caught.value.constraint == f"odd ({text})"
    assert str(caught.value).endswith("write with Spark instead")
