"""Random schemas, as deep as tables have them."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from tablespec.model.schema import (
    PRIMITIVES,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    Primitive,
    Schema,
    StructType,
)

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
metadata = st.dictionaries(
    names, st.none() | st.booleans() | st.integers(-9, 9) | names | st.lists(names, max_size=2), max_size=2
)


@st.composite
def decimals(draw: st.DrawFn) -> DecimalType:
    precision = draw(st.integers(1, 38))
    return DecimalType(precision, draw(st.integers(0, precision)))


def fields(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[Field]:
    return st.builds(
        Field,
        name=names,
        type=types,
        nullable=st.booleans(),
        physical_name=st.just(""),
        field_id=st.none(),
        metadata=metadata.map(
            lambda pairs: tuple((key, msgspec.json.encode(value).decode()) for key, value in pairs.items())
        ),
    )


def structs(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[StructType]:
    members = st.lists(fields(types), min_size=1, max_size=3, unique_by=lambda field: field.name.lower())
    return members.map(lambda found: StructType(tuple(found)))


types: st.SearchStrategy[DataType] = st.recursive(
    # A column of nothing but nulls is nothing to make collections of.
    st.sampled_from([Primitive(name) for name in PRIMITIVES if name != "void"]) | decimals(),
    lambda inner: (
        st.builds(ArrayType, inner, st.booleans()) | st.builds(MapType, inner, inner, st.booleans()) | structs(inner)
    ),
    max_leaves=6,
)
schemas = structs(types).map(lambda struct: Schema(struct.fields))
