"""Slices seen through indexes: those without a match are left out, and of the others the rows that may match are known."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import assert_never

import attrs
import pyarrow as pa
from pyroaring import BitMap64

from tablespec.arrow.match_text import TextIndex
from tablespec.arrow.schema import arrow_type
from tablespec.expr.nodes import (
    And,
    Column,
    Compare,
    In,
    IsNull,
    Literal,
    Match,
    Not,
    Op,
    Or,
    Predicate,
    Text,
    all_of,
    conjuncts,
)
from tablespec.formats.base import JudgedSlice, TableState
from tablespec.index.keys import key_values
from tablespec.index.record import RecordIndex
from tablespec.index.segment import TEXT, Segment, StoredIndex, base_key, load_to_read
from tablespec.index.text import answers, found_rows, opened_segment
from tablespec.model.file import FileSlice
from tablespec.model.schema import BOOLEAN
from tablespec.read.known import Known, KnownSlice, Mark
from tablespec.storage.store import Storage

# So many keys are looked up one by one; filters that name more are left to statistics.
_MOST_KEYS = 10_000
# A text index, and which of its segments is about a base file.
Answering = tuple[StoredIndex, Mapping[tuple[str, int], Segment]]


@attrs.frozen
class Indexes:
    """All indexes of a table, asked when a predicate could be answered by one."""

    storage: Storage

    def narrowed(self, state: TableState, predicate: Predicate, slices: Sequence[JudgedSlice]) -> list[KnownSlice]:
        """Those of the slices that may hold a match, in the order given."""
        found = [KnownSlice(one) for one in slices]
        matches = tuple(dict.fromkeys(_matches(predicate)))
        if matches and slices:
            answering = [(stored, stored.covering(state.schema)) for stored in load_to_read(self.storage, TEXT)]
            found = [known for one in found if (known := self._text(predicate, matches, answering, one)) is not None]
        keys = named_keys(predicate, state)
        if keys is not None and found:
            found = list(self._keyed(state, predicate, key_values(keys), self._told(state, keys, found)))
        return found

    def _told(self, state: TableState, keys: list[pa.Array], slices: list[KnownSlice]) -> list[KnownSlice]:
        """The slices without those that hold none of the keys as far as the table itself knows."""
        groups = RecordIndex(self.storage, state).groups_with(keys) if len(slices) > 1 else None
        return slices if groups is None else [one for one in slices if one.judged.slice.group in groups]

    def _text(
        self, predicate: Predicate, matches: Sequence[Match], answering: Sequence[Answering], one: KnownSlice
    ) -> KnownSlice | None:
        """A slice with the rows that text indexes found; None where there are none."""
        found = self._found(one.judged.slice, matches, answering)
        if not found:
            return one
        positions = _candidates(predicate, found)
        if positions is not None and not positions:
            return None
        # A test that must hold is told by the positions; others are told by a column of their own.
        must = [part for part in conjuncts(predicate) if isinstance(part, Match) and part in found]
        rest = all_of(tuple(part for part in conjuncts(predicate) if part not in must))
        marks = {
            match: f"tablespec match {number}" for number, match in enumerate(found) if match in set(_matches(rest))
        }
        known = Known(
            predicate=_marked(rest, marks),
            positions=None if positions is None else positions.serialize(),
            marks=tuple(Mark(name, *(rows.serialize() for rows in found[match])) for match, name in marks.items()),
        )
        return attrs.evolve(one, known=known)

    def _found(
        self, slice_: FileSlice, matches: Sequence[Match], answering: Sequence[Answering]
    ) -> dict[Match, tuple[BitMap64, BitMap64]]:
        """For each test that an index answers on a slice, the rows for which it is true and null."""
        key, found = base_key(slice_) or ("", 0), {}
        opened: dict[str, TextIndex | None] = {}
        for match in matches:
            fitting = [
                (stored, covering[key]) for stored, covering in answering if key in covering and answers(stored, match)
            ]
            if not fitting:
                continue
            stored, segment = fitting[0]
            if segment.id not in opened:
                opened[segment.id] = opened_segment(self.storage, stored, segment)
            index = opened[segment.id]
            rows = None if index is None else found_rows(self.storage, segment, index, match)
            if rows is not None:
                found[match] = rows
        return found

    def _keyed(
        self, state: TableState, predicate: Predicate, keys: pa.Array, slices: Sequence[KnownSlice]
    ) -> Iterator[KnownSlice]:
        """The slices that have a record with one of the keys, as far as a record index is about them."""
        located = RecordIndex(self.storage, state).indexed(keys, [one.judged.slice for one in slices]).positions()
        for number, one in enumerate(slices):
            if number not in located:
                yield one
                continue
            positions = located[number]
            if one.known is not None and one.known.rows is not None:
                positions &= one.known.rows
            if positions:
                known = one.known or Known(predicate=predicate)
                yield attrs.evolve(one, known=attrs.evolve(known, positions=positions.serialize()))


def keyed_slices(
    storage: Storage, state: TableState, keys: Mapping[str, pa.Array], slices: Sequence[FileSlice]
) -> dict[int, BitMap64] | None:
    """The positions of the rows with one of some record keys in each slice that a record index covers, by number."""
    if any(pa.types.is_floating(column.type) for column in keys.values()):
        return None
    values = key_values([keys[name] for name in state.record_key])
    return RecordIndex(storage, state).indexed(values, slices).positions()


def named_keys(predicate: Predicate, state: TableState) -> list[pa.Array] | None:
    """The columns of the record keys that a predicate names, where it names all that can match."""
    if not state.record_key:
        return None
    named: dict[str, list[object]] = {}
    for part in conjuncts(predicate):
        match part:
            case Compare(Op.EQ, Column((name,)), Literal(value)):
                named.setdefault(name, [value])
            case In(Column((name,)), values):
                named.setdefault(name, [value.value for value in values])
    if any(name not in named for name in state.record_key):
        return None
    parts = [named[name] for name in state.record_key]
    if reduce(lambda count, values: count * len(values), parts, 1) > _MOST_KEYS:
        return None
    rows = list(itertools.product(*parts))
    types = [arrow_type(state.schema.field(name).type) for name in state.record_key]
    if any(pa.types.is_floating(type_) for type_ in types):
        return None
    return [pa.array([row[number] for row in rows], type_) for number, type_ in enumerate(types)]


def _matches(predicate: Predicate) -> Iterator[Match]:
    match predicate:
        case Match():
            yield predicate
        case And(operands) | Or(operands):
            for operand in operands:
                yield from _matches(operand)
        case Not(operand):
            yield from _matches(operand)


def _candidates(predicate: Predicate, found: dict[Match, tuple[BitMap64, BitMap64]]) -> BitMap64 | None:
    """The positions outside of which no row matches; None where that is not known."""
    match predicate:
        case Match() if predicate in found:
            return found[predicate][0]
        case And(operands):
            known = [rows for operand in operands if (rows := _candidates(operand, found)) is not None]
            return reduce(lambda one, other: one & other, known) if known else None
        case Or(operands):
            parts = [_candidates(operand, found) for operand in operands]
            told = [rows for rows in parts if rows is not None]
            return reduce(lambda one, other: one | other, told) if len(told) == len(parts) else None
        case _:
            return None


def _marked(predicate: Predicate, marks: dict[Match, str]) -> Predicate:
    """The predicate with tests that an index has answered in place of those that it answers."""
    match predicate:
        case Match():
            return (
                Compare(Op.EQ, Column((marks[predicate],), BOOLEAN), Literal(True, BOOLEAN))
                if predicate in marks
                else predicate
            )
        case And(operands):
            return And(tuple(_marked(operand, marks) for operand in operands))
        case Or(operands):
            return Or(tuple(_marked(operand, marks) for operand in operands))
        case Not(operand):
            return Not(_marked(operand, marks))
        case Literal() | Compare() | In() | IsNull() | Text():
            return predicate
        case _:
            assert_never(predicate)
