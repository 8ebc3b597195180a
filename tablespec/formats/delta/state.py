"""A Delta table at one instant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import attrs
from pyroaring import BitMap64

from tablespec.expr.nodes import TRUE, Predicate
from tablespec.formats.base import JudgedSlice, Survey
from tablespec.formats.delta.actions import AddAction, MetadataAction, ProtocolAction
from tablespec.formats.delta.adds import TableShape, from_actions, judged
from tablespec.formats.delta.checkpoint import judged_adds, surveyed_adds
from tablespec.formats.delta.deletion_vector import load
from tablespec.formats.delta.load import told
from tablespec.formats.delta.properties import constraints_of
from tablespec.formats.delta.replay import Reconciled
from tablespec.formats.delta.schema_json import parse_schema
from tablespec.formats.layout import ReadLayout
from tablespec.model.file import FileSlice
from tablespec.model.instant import Instant
from tablespec.model.row import PHYSICAL, hidden_columns
from tablespec.model.schema import Schema
from tablespec.storage.store import FileInfo, Storage

_Answer = TypeVar("_Answer")

# So many slices take a few megabytes.
FEW_FILES = 4096

KEY_PROPERTY = "tablespec.recordKey"
MAPPING_MODE = "delta.columnMapping.mode"
ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
ROW_COMMIT_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"


@attrs.frozen
class DeltaCodec:
    """Deletion vectors are all that a Delta slice has besides its base file."""

    def deleted_positions(self, storage: Storage, slice_: FileSlice) -> BitMap64 | None:
        """The positions in the slice's deletion vector, or None when it has none."""
        return None if slice_.deletes is None else load(storage, slice_.deletes)


@attrs.frozen
class AddedFiles:
    """The adds of one commit."""

    actions: tuple[AddAction, ...]
    shape: TableShape

    def judge(self, predicate: Predicate) -> Sequence[JudgedSlice]:
        """Those that may match."""
        if not self.actions:
            return ()
        return tuple(one for _, one in judged(from_actions(self.actions), predicate, self.shape))


@attrs.frozen(eq=False)
class LiveFiles:
    """The live files of a state: those of its checkpoint that nothing touched since, and those added after it.

    Where they are few, the list of all is kept, so that whoever asks again for the same state does not read the log again.
    """

    storage: Storage
    reconciled: Reconciled
    shape: TableShape
    _all: list[tuple[JudgedSlice, ...]] = attrs.field(factory=list, init=False, repr=False)

    def judge(self, predicate: Predicate) -> Sequence[JudgedSlice]:
        """Those that may match."""
        if predicate == TRUE and self._all:
            return self._all[0]
        found = told(self.storage, self.reconciled, lambda reconciled: self._judge(reconciled, predicate))
        if predicate == TRUE and len(found) <= FEW_FILES:
            self._all.append(tuple(found))
        return found

    def all(self) -> Sequence[FileSlice]:
        """Every slice."""
        return [one.slice for one in self.judge(TRUE)]

    def survey(self) -> Survey:
        """What all of them are; sizes of files that are gone since the checkpoint are still counted."""
        return told(self.storage, self.reconciled, self._survey)

    def _survey(self, reconciled: Reconciled) -> Survey:
        parts = [surveyed_adds(self.storage, path, self.shape) for path in reconciled.checkpoint_files]
        old = [slice_ for _, found in parts for key, slice_ in found if key not in reconciled.touched]
        vectors = tuple(add for add in reconciled.adds.values() if add.deletion_vector is not None)
        new = [one.slice for one in AddedFiles(vectors, self.shape).judge(TRUE)]
        size = sum(total for total, _ in parts) + sum(add.size for add in reconciled.adds.values())
        return Survey(bytes=size, unclean=(*old, *new))

    def _judge(self, reconciled: Reconciled, predicate: Predicate) -> Sequence[JudgedSlice]:
        found: list[JudgedSlice] = []
        for path in reconciled.checkpoint_files:
            judged_here = judged_adds(self.storage, path, predicate, self.shape)
            found += [one for key, one in judged_here if key not in reconciled.touched]
        tail = AddedFiles(tuple(reconciled.adds.values()), self.shape)
        return [*found, *tail.judge(predicate)]


@attrs.frozen(slots=False, eq=False)
class DeltaState:
    """A Delta table right after one version; `told_by` is its commit, or the checkpoint that stands in for it."""

    storage: Storage
    instant: Instant
    protocol: ProtocolAction = attrs.field(repr=False)
    metadata: MetadataAction = attrs.field(repr=False)
    reconciled: Reconciled = attrs.field(repr=False)
    told_by: FileInfo = attrs.field(repr=False)

    @cached_property
    def schema(self) -> Schema:
        """The columns, partition columns included."""
        return parse_schema(self.metadata.schema_string, self.storage.url, mapped=self.mapping_mode != "none")

    @property
    def mapping_mode(self) -> str:
        """How columns are found in files: none, name or id."""
        return self.properties.get(MAPPING_MODE, "none")

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The names of the partition columns, in their order."""
        return self.metadata.partition_columns

    @property
    def properties(self) -> Mapping[str, str]:
        """The table properties."""
        return self.metadata.configuration

    @property
    def record_key(self) -> tuple[str, ...]:
        """The columns that identify a record, where the table names them."""
        text = self.properties.get(KEY_PROPERTY, "")
        return tuple(name for name in text.split(",") if name)

    @property
    def constraints(self) -> tuple[tuple[str, str], ...]:
        """The (name, expression) pairs that every row must satisfy."""
        return constraints_of(self.properties, self.schema)

    @cached_property
    def shape(self) -> TableShape:
        """What the adds of this state are understood by."""
        return TableShape(table=self.storage.url, schema=self.schema, partition_columns=self.partition_columns)

    @cached_property
    def files(self) -> LiveFiles:
        """The live files."""
        return LiveFiles(self.storage, self.reconciled, self.shape)

    @property
    def layout(self) -> ReadLayout:
        """How the columns are found in the base files."""
        names = (self.properties.get(ROW_ID_COLUMN, ""), self.properties.get(ROW_COMMIT_VERSION_COLUMN, ""))
        return ReadLayout(
            schema=self.schema,
            constants=self.partition_columns,
            by_field_id=self.mapping_mode == "id",
            hidden=hidden_columns(self.schema, *names),
        )

    @property
    def tracked_columns(self) -> Schema:
        """The hidden columns of row ids and commit versions, unless columns of the table have their names."""
        return Schema(tuple(field for field in self.layout.hidden if field not in PHYSICAL))

    @property
    def codec(self) -> DeltaCodec:
        """What is inside of the slices."""
        return DeltaCodec()

    def told(self, ask: Callable[[DeltaState], _Answer]) -> _Answer:
        """What `ask` finds in this state; where its checkpoint turns out to be damaged, in the same state made without it."""
        return told(self.storage, self.reconciled, lambda reconciled: ask(attrs.evolve(self, reconciled=reconciled)))
