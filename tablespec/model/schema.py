"""Column types and schemas, free of any engine."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import attrs

from tablespec.errors import ColumnNotFoundError, InvalidOptionError

PRIMITIVES = (
    "boolean",
    "byte",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "variant",
    "void",
)


@attrs.frozen
class Primitive:
    """A type without parts, named as Delta names it."""

    name: str

    def __attrs_post_init__(self) -> None:
        if self.name not in PRIMITIVES:
            raise ValueError(self.name)

    def __str__(self) -> str:
        return self.name


@attrs.frozen
class DecimalType:
    """Exact numbers of a fixed number of digits."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@attrs.frozen
class ArrayType:
    """A list of values of one type."""

    element: DataType
    contains_null: bool = True

    def __str__(self) -> str:
        return f"array<{self.element}>"


@attrs.frozen
class MapType:
    """Keys with values."""

    key: DataType
    value: DataType
    value_contains_null: bool = True

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@attrs.frozen(kw_only=True)
class Field:
    """A named column, or a member of a struct.

    `physical_name` is the name inside data files and statistics; `metadata` holds (key, JSON text) pairs.
    """

    name: str
    type: DataType
    nullable: bool = True
    physical_name: str = ""
    field_id: int | None = None
    metadata: tuple[tuple[str, str], ...] = ()

    @property
    def stored_name(self) -> str:
        """The name of this field inside data files."""
        return self.physical_name or self.name


@attrs.frozen
class StructType:
    """Named members in order."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{field.name}:{field.type}' for field in self.fields)}>"


DataType = Primitive | DecimalType | ArrayType | MapType | StructType

BOOLEAN = Primitive("boolean")
BYTE = Primitive("byte")
SHORT = Primitive("short")
INTEGER = Primitive("integer")
LONG = Primitive("long")
FLOAT = Primitive("float")
DOUBLE = Primitive("double")
STRING = Primitive("string")
BINARY = Primitive("binary")
DATE = Primitive("date")
TIMESTAMP = Primitive("timestamp")
TIMESTAMP_NTZ = Primitive("timestamp_ntz")
VARIANT = Primitive("variant")
VOID = Primitive("void")

INTEGRAL = (BYTE, SHORT, INTEGER, LONG)


@attrs.frozen
class Schema:
    """The columns of a table, in order."""

    fields: tuple[Field, ...]

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        # Tables may have thousands of columns, and each of them is asked for. The first of several with the same name counts.
        return {field.name: field for field in reversed(self.fields)}

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __repr__(self) -> str:
        columns = (f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in self.fields)
        return f"Schema({', '.join(columns)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the top-level columns."""
        return tuple(field.name for field in self.fields)

    def field(self, *path: str) -> Field:
        """The field at `path`; names that differ only in case match when exactly one does."""
        fields = self.fields
        for depth, name in enumerate(path):
            if not isinstance(name, str):
                raise ColumnNotFoundError(repr(name), ())
            found = (self._by_name.get(name) if depth == 0 else None) or _find(fields, name)
            if found is None:
                where = "the table" if depth == 0 else f"the struct {'.'.join(path[:depth])}"
                raise ColumnNotFoundError(".".join(path), near_names(name, [field.name for field in fields]), where)
            if depth == len(path) - 1:
                return found
            fields = found.type.fields if isinstance(found.type, StructType) else ()
        raise ValueError("an empty path names no field")

    def select(self, names: tuple[str, ...]) -> Schema:
        """The named columns, in the order given."""
        return Schema(tuple(self.field(name) for name in names))

    def stored_as(self, names: Mapping[str, str]) -> Schema:
        """The same columns for files in which some have other names; members are named by their paths, joined by dots.

        Steps into arrays and maps are called `element`, `key` and `value`.
        """
        return Schema(_stored_as(self.fields, names, "")) if names else self

    def leaves(self) -> Iterator[tuple[tuple[str, ...], Field]]:
        """Every leaf outside of arrays and maps with the path of names to it, depth first."""
        return _leaves(self.fields, ())


def column_names(option: str, names: Sequence[str]) -> tuple[str, ...]:
    """The names that an option gives; a text alone, whose letters would be taken for names, is refused."""
    expected = "the names of columns, such as ['id']"
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidOptionError(option, repr(names), expected)
    found = tuple(names)
    if not all(isinstance(name, str) for name in found):
        raise InvalidOptionError(option, repr(names), expected)
    return found


def _stored_as(fields: tuple[Field, ...], names: Mapping[str, str], prefix: str) -> tuple[Field, ...]:
    return tuple(
        attrs.evolve(
            field,
            physical_name=names.get(f"{prefix}{field.name}", field.physical_name),
            type=_type_stored_as(field.type, names, f"{prefix}{field.name}."),
        )
        for field in fields
    )


def _type_stored_as(data_type: DataType, names: Mapping[str, str], prefix: str) -> DataType:
    match data_type:
        case StructType(fields):
            return StructType(_stored_as(fields, names, prefix))
        case ArrayType(element):
            return attrs.evolve(data_type, element=_type_stored_as(element, names, f"{prefix}element."))
        case MapType(key, value):
            keys = _type_stored_as(key, names, f"{prefix}key.")
            return attrs.evolve(data_type, key=keys, value=_type_stored_as(value, names, f"{prefix}value."))
        case _:
            return data_type


def types_in(data_type: DataType) -> Iterator[DataType]:
    """A column type and all types inside of it."""
    yield data_type
    match data_type:
        case ArrayType(element):
            yield from types_in(element)
        case MapType(key, value):
            yield from types_in(key)
            yield from types_in(value)
        case StructType(fields):
            for field in fields:
                yield from types_in(field.type)


def repeated_names(fields: tuple[Field, ...], prefix: str = "") -> tuple[str, ...]:
    """The paths, in lower case, of fields at any depth that share their name, case aside, with another beside them."""
    folded = [field.name.lower() for field in fields]
    found = sorted({f"{prefix}{name}" for name in folded if folded.count(name) > 1})
    for field in fields:
        found += _repeated_below(field.type, f"{prefix}{field.name.lower()}.")
    return tuple(found)


def _repeated_below(data_type: DataType, prefix: str) -> tuple[str, ...]:
    match data_type:
        case StructType(fields):
            return repeated_names(fields, prefix)
        case ArrayType(element):
            return _repeated_below(element, f"{prefix}element.")
        case MapType(key, value):
            return (*_repeated_below(key, f"{prefix}key."), *_repeated_below(value, f"{prefix}value."))
        case _:
            return ()


def near_names(name: str, names: list[str]) -> tuple[str, ...]:
    """Up to three of `names` that a typing mistake may have meant."""
    folded = {other.lower(): other for other in names}
    return tuple(folded[match] for match in difflib.get_close_matches(name.lower(), list(folded), n=3, cutoff=0.6))


def _find(fields: tuple[Field, ...], name: str) -> Field | None:
    for field in fields:
        if field.name == name:
            return field
    alike = [field for field in fields if field.name.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _leaves(fields: tuple[Field, ...], prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Field]]:
    for field in fields:
        path = (*prefix, field.name)
        if isinstance(field.type, StructType):
            yield from _leaves(field.type.fields, path)
        else:
            yield path, field
