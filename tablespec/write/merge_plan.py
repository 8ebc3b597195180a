"""What a merge says, taken apart: keys, filters and clauses, bound to the columns of table and source."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import json

from tablespec.errors import InvalidPredicateError, InvalidSchemaError
from tablespec.expr.bind import bind
from tablespec.expr.bind_value import bind_qualified, bind_value
from tablespec.expr.nodes import (
    FALSE,
    TRUE,
    And,
    Column,
    Compare,
    In,
    IsNull,
    Literal,
    Match,
    Not,
    Op,
    Operand,
    Or,
    Predicate,
    Scalar,
    Text,
    all_of,
    columns_in,
    columns_of,
    conjuncts,
)
from tablespec.expr.render import render
from tablespec.expr.rewrite import simplify
from tablespec.expr.value import Value, columns_in_value, columns_of_value
from tablespec.model.schema import DOUBLE, FLOAT, Field, Schema, StructType

TARGET = "t"
SOURCE = "s"
# Keys and numbers of rows go beside the columns of both sides under names that begin so.
OURS = "__tablespec_"
# Up to this many keys a filter names each of them; beyond, their range.
LISTED_KEYS = 1000


class Kind(enum.Enum):
    """When a clause applies, and what it does."""

    MATCHED_UPDATE = "when matched then update"
    MATCHED_DELETE = "when matched then delete"
    NOT_MATCHED_INSERT = "when not matched then insert"
    UNMATCHED_UPDATE = "when not matched by source then update"
    UNMATCHED_DELETE = "when not matched by source then delete"

    @property
    def matched(self) -> bool:
        """Whether it is about rows that both sides have."""
        return self in (Kind.MATCHED_UPDATE, Kind.MATCHED_DELETE)

    @property
    def by_source(self) -> bool:
        """Whether it is about rows that only the table has."""
        return self in (Kind.UNMATCHED_UPDATE, Kind.UNMATCHED_DELETE)


@attrs.frozen
class Clause:
    """One clause of a merge; `values` None stands for all columns of the same name."""

    kind: Kind
    where: Predicate | str | None = None
    values: Mapping[str, Value | str | Scalar] | None = None

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.values, Mapping | None):
            why = "values are given by the names of columns; a condition is given as where="
            raise InvalidPredicateError(str(self.values), None, why)


@attrs.frozen
class BoundClause:
    """A clause whose condition and expressions are bound to the columns `t.x` and `s.x`."""

    kind: Kind
    where: Predicate
    values: tuple[tuple[str, Value], ...]


@attrs.frozen(kw_only=True)
class MergePlan:
    """A merge, bound: rows match when `on` is true, which is when all key pairs are equal and `condition` is true."""

    on: Predicate
    keys: tuple[tuple[str, str], ...]
    target_filter: Predicate
    source_filter: Predicate
    residual: Predicate
    clauses: tuple[BoundClause, ...]

    @property
    def condition(self) -> Predicate:
        """What must hold besides the equality of keys."""
        return simplify(And((self.residual, self.source_filter, self.target_filter)))

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """What a commit records of the merge, under the names that Delta has for it."""
        told = {
            "matchedPredicates": _MATCHED,
            "notMatchedPredicates": _INSERTING,
            "notMatchedBySourcePredicates": _ALONE,
        }
        return (
            ("predicate", render(self.on)),
            *(
                (name, json.encode([_told(one) for one in self.clauses if one.kind in kinds]).decode())
                for name, kinds in told.items()
            ),
        )

    @property
    def reads_all(self) -> bool:
        """Whether rows of the table matter that match nothing."""
        return any(clause.kind.by_source for clause in self.clauses)


_MATCHED = (Kind.MATCHED_UPDATE, Kind.MATCHED_DELETE)
_INSERTING = (Kind.NOT_MATCHED_INSERT,)
_ALONE = (Kind.UNMATCHED_UPDATE, Kind.UNMATCHED_DELETE)


def _told(clause: BoundClause) -> dict[str, str]:
    action = {"actionType": clause.kind.value.split()[-1]}
    return action if clause.where == TRUE else {"predicate": render(clause.where), **action}


def plan(on: Predicate | str, clauses: Sequence[Clause], table: Schema, source: Schema) -> MergePlan:
    """Take a merge apart; names may be qualified by `t` and `s`, and must be where both sides have them."""
    for side, schema in (("table", table), ("source", source)):
        taken = [name for name in schema.names if name.startswith(OURS)]
        if taken:
            why = f"the {side} has a column {taken[0]}, and names that begin with {OURS} are those of the merge itself; rename it"
            raise InvalidSchemaError(why)
    both = combined(table, source)
    condition = bind_qualified(on, both, (TARGET, SOURCE))
    keys, target, of_source, residual = [], [], [], []
    for part in conjuncts(condition):
        sides = {path[0] for path in columns_of(part)}
        pair = _key_pair(part)
        if pair is not None:
            keys.append(pair)
        elif sides == {TARGET}:
            target.append(part)
        elif sides == {SOURCE}:
            of_source.append(part)
        else:
            residual.append(part)
    if not clauses:
        raise InvalidPredicateError("", None, "a merge has at least one clause")
    return MergePlan(
        on=condition,
        keys=tuple(keys),
        target_filter=all_of(tuple(target)),
        source_filter=all_of(tuple(of_source)),
        residual=all_of(tuple(residual)),
        clauses=tuple(_bound(clause, table, source, both) for clause in clauses),
    )


def combined(table: Schema, source: Schema) -> Schema:
    """The columns of both sides, each below its qualifier."""
    return Schema(
        (Field(name=TARGET, type=StructType(table.fields)), Field(name=SOURCE, type=StructType(source.fields)))
    )


@attrs.frozen(eq=False)
class KeyValues:
    """What is known of the values of a key that are not null: all of them, the least and the greatest, or nothing.

    Where NaN is among the values, it is the greatest.
    """

    values: pa.Array | None
    complete: bool

    @classmethod
    def of(cls, keys: pa.ChunkedArray) -> KeyValues:
        """All values, or the ends of many."""
        distinct = pc.unique(keys.combine_chunks().drop_null())
        if len(distinct) <= LISTED_KEYS:
            return cls(distinct, complete=True)
        try:
            ends = pc.min_max(distinct).as_py()
        except (pa.ArrowNotImplementedError, OverflowError):
            return cls(None, complete=False)
        # The ends leave NaN out, which is above every number.
        has_nan = pa.types.is_floating(distinct.type) and pc.any(pc.is_nan(distinct)).as_py()
        return cls(pa.array([ends["min"], float("nan") if has_nan else ends["max"]], distinct.type), complete=False)


def pruning(merge: MergePlan, known: Sequence[KeyValues], table: Schema) -> Predicate:
    """What rows of the table must satisfy to matter, in the table's own columns, by the keys of the source."""
    if merge.reads_all:
        return TRUE
    if merge.condition == FALSE:
        return FALSE
    parts = [unqualified(merge.target_filter)]
    parts += [_key_filter(table.field(column), values) for (column, _), values in zip(merge.keys, known)]
    return bind(all_of(tuple(parts)), table)


def needed_columns(merge: MergePlan, table: Schema, *, all_columns: bool) -> tuple[str, ...]:
    """The columns of the table that must be read to decide and to write new versions."""
    if all_columns:
        return table.names
    needed = {key for key, _ in merge.keys}
    for part in (merge.target_filter, merge.residual, *(clause.where for clause in merge.clauses)):
        needed |= {path[1] for path in columns_of(part) if path[0] == TARGET}
    for clause in merge.clauses:
        if clause.kind in (Kind.MATCHED_UPDATE, Kind.UNMATCHED_UPDATE):
            for _, value in clause.values:
                needed |= {path[1] for path in columns_of_value(value) if path[0] == TARGET}
    return tuple(name for name in table.names if name in needed)


def unqualified(predicate: Predicate) -> Predicate:
    """A predicate about one side alone, without the qualifier."""
    match predicate:
        case Literal():
            return predicate
        case Compare(op, left, right):
            return Compare(op, _plain(left), _plain(right))
        case In(column, values):
            return In(_own(column), values)
        case IsNull(column):
            return IsNull(_own(column))
        case Text(test, column, value):
            return Text(test, _own(column), value)
        case Match(columns):
            return attrs.evolve(predicate, columns=tuple(map(_own, columns)))
        case And(operands):
            return And(tuple(unqualified(operand) for operand in operands))
        case Or(operands):
            return Or(tuple(unqualified(operand) for operand in operands))
        case Not(operand):
            return Not(unqualified(operand))
        case _:
            assert_never(predicate)


def _plain(operand: Operand) -> Operand:
    return _own(operand) if isinstance(operand, Column) else operand


def _own(column: Column) -> Column:
    return Column(column.path[1:], column.type)


def _key_pair(part: Predicate) -> tuple[str, str] | None:
    match part:
        case Compare(Op.EQ, Column(left), Column(right)) if len(left) == len(right) == 2:
            if (left[0], right[0]) == (TARGET, SOURCE):
                return left[1], right[1]
            if (left[0], right[0]) == (SOURCE, TARGET):
                return right[1], left[1]
    return None


def _key_filter(field: Field, known: KeyValues) -> Predicate:
    named, values = Column((field.name,)), known.values
    # Columns are compared as floating point where one of them is, constants exactly.
    if values is None or pa.types.is_floating(values.type) != (field.type in (FLOAT, DOUBLE)):
        return TRUE
    try:
        told = values.to_pylist()
    except OverflowError:
        # Predicates have no dates outside of the years 1 to 9999.
        return TRUE
    if not told:
        return Literal(False)
    if known.complete:
        return In(named, tuple(Literal(value) for value in told))
    low, high = told
    least = Compare(Op.GE, named, Literal(low))
    return least if high != high else And((least, Compare(Op.LE, named, Literal(high))))


def _bound(clause: Clause, table: Schema, source: Schema, both: Schema) -> BoundClause:
    where = TRUE if clause.where is None else bind_qualified(clause.where, both, (TARGET, SOURCE))
    _check_sides(clause.kind, columns_in(where))
    if clause.kind in (Kind.MATCHED_DELETE, Kind.UNMATCHED_DELETE):
        return BoundClause(clause.kind, where, ())
    given = clause.values
    if given is None:
        theirs = {field.name.lower(): field.name for field in source}
        shared = [name for name in table.names if name.lower() in theirs]
        given = {name: Column((SOURCE, theirs[name.lower()])) for name in shared}
    if not given:
        why = "the source has no column of the table" if clause.values is None else "it names none"
        raise InvalidPredicateError(clause.kind.value, None, f"an insert or update sets at least one column, and {why}")
    values = {}
    for name, value in given.items():
        field = table.field(name)
        if field.name in values:
            raise InvalidPredicateError(name, None, f"the column {field.name} is set twice")
        values[field.name] = bind_value(value, both, field.type, (TARGET, SOURCE), column=field.name)
        _check_sides(clause.kind, columns_in_value(values[field.name]))
    if clause.kind is not Kind.NOT_MATCHED_INSERT:
        for name in table.names:
            values.setdefault(name, bind_value(Column((TARGET, name)), both, table.field(name).type, (TARGET, SOURCE)))
    return BoundClause(clause.kind, where, tuple(values.items()))


def _check_sides(kind: Kind, columns: Iterable[Column]) -> None:
    """Refuse columns of the side that has no row."""
    if kind.matched:
        return
    missing, why = (
        (SOURCE, "rows without a row of the source can look at columns of the table only")
        if kind.by_source
        else (TARGET, "an insert can look at columns of the source only")
    )
    column = next((column for column in columns if column.path[0] == missing), None)
    if column is None:
        return
    if column.written is None:
        raise InvalidPredicateError(column.name, None, why)
    raise InvalidPredicateError(column.written.text, column.written.position, why)
