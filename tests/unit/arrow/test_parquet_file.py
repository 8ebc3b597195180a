"""Parquet files opened for their rows: whatever types columns come in, the rows are those of the file."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablespec.arrow.convert import by_field_id, by_stored_name
from tablespec.arrow.parquet import read_positioned
from tablespec.arrow.parquet_file import BUFFER_BYTES, WHOLE_BYTES, open_parquet, open_rows
from tablespec.arrow.schema import FIELD_ID, schema_of
from tablespec.model.schema import LONG, STRING, Field, Schema
from tablespec.storage.store import Storage

TEXTS = pa.list_(pa.string())
COLUMNS = {
    "number": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "text": (pa.string(), st.text(max_size=5)),
    "often": (pa.string(), st.sampled_from(["sf", "la"])),
    "bytes": (pa.binary(), st.binary(max_size=5)),
    "texts": (TEXTS, st.lists(st.none() | st.text(max_size=3), max_size=3)),
    "member": (pa.struct({"a": pa.string(), "n": pa.int64()}), st.fixed_dictionaries({"a": st.text(), "n": st.none()})),
    "member.a": (pa.string(), st.text(max_size=3)),
    "deep": (pa.struct({"l": TEXTS}), st.fixed_dictionaries({"l": st.lists(st.text(max_size=2), max_size=2)})),
    "map": (pa.map_(pa.string(), pa.string()), st.lists(st.tuples(st.text(max_size=2), st.none()), max_size=2)),
}


def stored(storage: Storage, table: pa.Table, **how: object) -> None:
    sink = io.BytesIO()
    pq.write_table(table, sink, **{"store_schema": False, **how})
    storage.put("rows.parquet", sink.getvalue())


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Columns of all kinds of texts, beside others."""
    count = draw(st.integers(0, 12))
    values = {
        name: pa.array(draw(st.lists(st.none() | some, min_size=count, max_size=count)), type_)
        for name, (type_, some) in COLUMNS.items()
    }
    return pa.table(values)


@settings(max_examples=100)
@given(
    table=tables(),
    chosen=st.lists(st.sampled_from([*COLUMNS]), min_size=1, unique=True),
    seldom=st.sets(st.sampled_from([*COLUMNS])),
    how=st.fixed_dictionaries(
        {
            "row_group_size": st.integers(1, 12),
            "store_schema": st.booleans(),
            "use_dictionary": st.booleans() | st.just(["often"]),
        }
    ),
    batch_rows=st.integers(1, 12),
)
def test_columns_of_any_types_come_as_they_are_stored_whichever_are_asked_for(table, chosen, seldom, how, batch_rows):
    storage = Storage.at("memory://tests/of-opened-files")
    stored(storage, table, **how)
    schema = schema_of(table.schema.empty_table().select(chosen).schema)

    with open_rows(storage, "rows.parquet", schema, by_stored_name, seldom) as file:
        pieces = list(read_positioned(file, schema, by_stored_name, batch_rows=batch_rows))

    assert [row for piece in pieces for row in piece.batch.to_pylist()] == table.select(chosen).to_pylist()
    starts = [piece.start for piece in pieces]
    assert starts == [sum(piece.rows for piece in pieces[:number]) for number in range(len(pieces))]


@pytest.mark.parametrize("url", ["local", "memory"])
@pytest.mark.parametrize("store_schema", [True, False])
def test_texts_that_lie_in_dictionaries_stay_in_them_until_few_rows_are_left(tmp_path, url, store_schema):
    storage = Storage.at(str(tmp_path) if url == "local" else "memory://tests/of-dictionaries")
    count = 3_000
    table = pa.table(
        {
            "often": [None if number % 7 == 0 else f"value {number % 11 + number // 1000}" for number in range(count)],
            "own": [f"value {number}" for number in range(count)],
            "number": [number % 5 for number in range(count)],
            "asked": ["x"] * count,
        }
    )
    dictionaries = ["often", "number", "asked"]
    stored(storage, table, row_group_size=1_000, use_dictionary=dictionaries, store_schema=store_schema)
    names = ("often", "own", "number", "lacking", "asked")
    schema = Schema(tuple(Field(name=name, type=LONG if name == "number" else STRING) for name in names))
    chosen = pa.array([0, 1, 7, 999])

    with open_rows(storage, "rows.parquet", schema, by_stored_name, names[:-1]) as file:
        pieces = list(read_positioned(file, schema, by_stored_name))

    kept = [field.name for field in pieces[0].stored.schema if pa.types.is_dictionary(field.type)]
    assert kept == ["often"]
    assert [piece.column("often").type for piece in pieces] == [pa.string()] * 3
    assert [row for piece in pieces for row in piece.batch.drop_columns("lacking").to_pylist()] == table.to_pylist()
    few = [piece.take(chosen) for piece in pieces]
    places = [place for piece in few for place in piece.positions.to_pylist()]
    assert places == [start + number for start in (0, 1_000, 2_000) for number in chosen.to_pylist()]
    assert [text for piece in few for text in piece.column("often").to_pylist()] == table.column("often").take(
        places
    ).to_pylist()
    assert few[0].column("lacking").to_pylist() == [None] * 4


def test_texts_come_as_large_ones_unless_they_are_inside_of_other_types(tmp_path):
    storage = Storage.at(str(tmp_path))
    table = pa.table({"text": ["a", None], "texts": pa.array([["a"], None], TEXTS)})
    stored(storage, table)
    schema = schema_of(table.schema)

    with open_rows(storage, "rows.parquet", schema, by_stored_name) as file:
        (piece,) = read_positioned(file, schema, by_stored_name)

    assert {field.name: field.type for field in piece.stored.schema} == {"text": pa.large_string(), "texts": TEXTS}
    assert piece.batch.schema.types == [pa.string(), TEXTS]
    assert piece.batch.to_pylist() == table.to_pylist()


def test_columns_are_found_by_their_ids_in_either_way_of_reading(tmp_path):
    storage = Storage.at(str(tmp_path))
    ids = [{FIELD_ID: str(number).encode()} for number in (7, 8)]
    fields = [pa.field("x", pa.string(), metadata=ids[0]), pa.field("y", TEXTS, metadata=ids[1])]
    stored(storage, pa.table([["a"], [["b"]]], schema=pa.schema(fields)))
    schema = schema_of(pa.schema({"texts": TEXTS, "text": pa.string()}))
    numbered = Schema(tuple(Field(name=one.name, type=one.type, field_id=id_) for one, id_ in zip(schema, (8, 7))))

    with open_rows(storage, "rows.parquet", numbered, by_field_id) as file:
        (piece,) = read_positioned(file, numbered, by_field_id)

    assert piece.batch.to_pylist() == [{"texts": ["b"], "text": "a"}]


def test_rows_of_a_row_group_that_is_too_large_to_be_read_whole_are_the_same(tmp_path):
    storage = Storage.at(str(tmp_path))
    count = 3 * WHOLE_BYTES // 1_000
    often = [f"{number % 3:0500}" for number in range(count)]
    own = [f"{number:01000}" for number in range(count)]
    table = pa.table({"often": often, "own": own})
    stored(storage, table, use_dictionary=["often"], compression="none")
    assert pq.read_metadata(tmp_path / "rows.parquet").row_group(0).total_byte_size > WHOLE_BYTES > BUFFER_BYTES
    schema = schema_of(table.schema)

    with open_rows(storage, "rows.parquet", schema, by_stored_name, ["often"]) as file:
        batches = [piece.batch for piece in read_positioned(file, schema, by_stored_name)]

    assert pa.Table.from_batches(batches).cast(table.schema).equals(table)


@pytest.mark.parametrize("url", ["local", "memory"])
def test_a_file_is_opened_from_any_store(tmp_path, url):
    storage = Storage.at(str(tmp_path) if url == "local" else "memory://tests/of-parquet")
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2]}), sink)
    storage.put("a b%20.parquet", sink.getvalue())

    with open_parquet(storage, "a b%20.parquet") as file:
        assert file.read().to_pylist() == [{"id": 1}, {"id": 2}]


def test_a_file_that_is_gone_is_not_found(tmp_path):
    storage = Storage.at(str(tmp_path))

    with pytest.raises(FileNotFoundError):
        open_parquet(storage, "gone.parquet")
    with pytest.raises(FileNotFoundError):
        open_rows(storage, "gone.parquet", Schema(()), by_stored_name)
