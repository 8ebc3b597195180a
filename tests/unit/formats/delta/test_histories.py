"""Random histories of a table against a model that is a list of rows for every version.

After every step every version that can still be read is read, with its rows and its columns of that time, whole and filtered.
"""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from pathlib import Path

import attrs
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import tablespec
from tablespec import Profile
from tablespec.arrow.schema import arrow_schema
from tablespec.expr.nodes import And, Literal, Not, Or, Predicate, columns_of
from tablespec.model.schema import DOUBLE, FLOAT, INTEGER, LONG, STRING, DataType, DecimalType, Field, Schema
from tests.handmade import actions_of, add, checkpoint_file, commit, commit_file, versions_of
from tests.rows import assert_same_rows
from tests.unit.expr.random_predicates import SCHEMA, Row, predicates, rows, truth

PARTITIONS = ["flag", "number", "name", "city", "day", "at", "measure", "big"]
WIDER: dict[DataType, DataType] = {INTEGER: LONG, FLOAT: DOUBLE, DecimalType(5, 2): DecimalType(12, 4)}
MAPPING = "delta.columnMapping.mode"
BATCHES = st.lists(st.lists(rows(), max_size=3), min_size=1, max_size=3)


@attrs.frozen
class Version:
    """What one version of the table holds."""

    schema: Schema
    rows: tuple[Row, ...]


class Histories(RuleBasedStateMachine):
    """A table that is written, grown, checkpointed and cleaned up in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.versions: list[Version] = []
        self.row_ids: list[tuple[int, int]] = []
        self.predicate: Predicate = Literal(True)

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    # --- steps ---

    @initialize(
        order=st.permutations(SCHEMA.names),
        partitions=st.lists(st.sampled_from(PARTITIONS), unique=True, max_size=2),
        mode=st.sampled_from(["none", "name", "id"]),
        profile=st.sampled_from(Profile),
        predicate=predicates(),
    )
    def create(
        self, order: list[str], partitions: list[str], mode: str, profile: Profile, predicate: Predicate
    ) -> None:
        first = list(dict.fromkeys([*partitions, *order]))[: len(partitions) + 4]
        self.partitions = tuple(partitions)
        self.left = [name for name in order if name not in first]
        schema = Schema(tuple(field for field in SCHEMA if field.name in first))
        properties = {} if mode == "none" else {MAPPING: mode}
        self.table = tablespec.create_table(
            str(self.folder), schema, partition_by=partitions, properties=properties, profile=profile
        )
        self.versions = [Version(schema, ())]
        self.predicate = predicate

    @rule(batches=BATCHES, leave_out=st.integers(0, 7), predicate=predicates())
    def append(self, batches: list[list[Row]], leave_out: int, predicate: Predicate) -> None:
        """Rows that lack some of the columns."""
        free = [name for name in self.newest.schema.names if name not in self.partitions]
        left_out = {name for place, name in enumerate(free) if leave_out >> place & 1 and len(free) > 3}
        columns = Schema(tuple(field for field in self.newest.schema if field.name not in left_out))
        self.write(batches, columns)
        self.predicate = predicate

    @precondition(lambda self: self.left)
    @rule(batches=BATCHES, count=st.integers(1, 2), predicate=predicates())
    def append_with_new_columns(self, batches: list[list[Row]], count: int, predicate: Predicate) -> None:
        """Rows that bring columns along."""
        self.write(batches, self.grown(count))
        self.predicate = predicate

    @precondition(lambda self: self.left)
    @rule(predicate=predicates())
    def add_columns(self, predicate: Predicate) -> None:
        """Columns without rows."""
        schema = self.grown(1)
        self.table.add_columns(Schema(schema.fields[-1:]))
        self.versions.append(Version(schema, self.newest.rows))
        self.predicate = predicate

    @rule(batches=BATCHES, predicate=predicates())
    def append_wider_types(self, batches: list[list[Row]], predicate: Predicate) -> None:
        """Rows whose columns are of wider types."""
        fields = [attrs.evolve(field, type=WIDER.get(field.type, field.type)) for field in self.newest.schema]
        self.write(batches, Schema(tuple(fields)))
        self.predicate = predicate

    @rule(row=rows(), predicate=predicates())
    @precondition(lambda self: not self.partitions and MAPPING not in self.table.properties)
    def append_by_another_client(self, row: Row, predicate: Predicate) -> None:
        """A file without statistics, tags or row ids."""
        given = self.fitting([row], self.newest.schema)
        rows_ = pa.Table.from_pylist(given, arrow_schema(self.newest.schema))
        name = f"theirs-{len(self.versions)}.parquet"
        commit(self.folder, len(self.versions), add(self.folder, name, rows_, stats=None))
        self.versions.append(Version(self.newest.schema, (*self.newest.rows, *given)))
        self.predicate = predicate

    @rule(predicate=predicates())
    def checkpoint(self, predicate: Predicate) -> None:
        self.table.checkpoint()
        self.predicate = predicate

    @rule(interval=st.integers(1, 4), predicate=predicates())
    def change_the_interval(self, interval: int, predicate: Predicate) -> None:
        self.table.set_properties({"delta.checkpointInterval": str(interval)})
        self.versions.append(self.newest)
        self.predicate = predicate

    @precondition(lambda self: self.checkpoints())
    @rule(which=st.integers(0, 9), keep_own=st.booleans(), predicate=predicates())
    def clean_up_the_log(self, which: int, keep_own: bool, predicate: Predicate) -> None:
        """Commits that a checkpoint covers go, and with them older checkpoints."""
        covered = self.checkpoints()[which % len(self.checkpoints())]
        for version in versions_of(self.folder):
            # In-commit timestamps must not get lost with the newest commit.
            own = version == covered and not keep_own and version < len(self.versions) - 1
            if version < covered or own:
                commit_file(self.folder, version).unlink()
        for version in self.checkpoints():
            if version < covered:
                checkpoint_file(self.folder, version).unlink()
        self.predicate = predicate

    @rule(text=st.sampled_from(["", "oops", '{"version": 1}', '{"version": 999}', None]))
    def lose_the_hint(self, text: str | None) -> None:
        hint = self.folder / "_delta_log" / "_last_checkpoint"
        if text is None:
            hint.unlink(missing_ok=True)
        else:
            hint.write_text(text)
        self.table = tablespec.open_table(str(self.folder))

    @rule()
    def reopen(self) -> None:
        self.table = tablespec.open_table(str(self.folder))

    # --- what holds after every step ---

    @invariant()
    def every_version_that_can_be_read_is_on_the_timeline(self) -> None:
        timeline = self.table.timeline

        assert [instant.version for instant in timeline] == self.readable()
        stamps = [instant.timestamp for instant in timeline]
        assert stamps == sorted(set(stamps))
        if self.versions:
            assert self.table.instant().version == timeline.latest().version == len(self.versions) - 1

    @invariant()
    def every_version_reads_right(self) -> None:
        for number in self.readable():
            version = self.versions[number]
            scan = self.table.scan(at=number)
            assert [(field.name, field.type) for field in plain(scan.schema)] == [
                (field.name, field.type) for field in version.schema
            ]
            assert_same_rows(scan, self.expected(version, version.rows))

    @invariant()
    def filters_agree_with_the_model(self) -> None:
        for number in {self.readable()[0], self.readable()[-1]}:
            version = self.versions[number]
            predicate = within(self.predicate, version.schema)
            matching = [row for row in version.rows if truth(predicate, row) is True]
            scan = self.table.scan(predicate, at=number)
            assert_same_rows(scan, self.expected(version, matching))
            assert scan.count() == len(matching)

    @invariant()
    def files_hold_all_rows(self) -> None:
        slices = [one for partition in self.table.file_index.list_files_at(None) for one in partition.file_slices]
        unknown = [one for one in slices if one.rows is None]
        known = sum(one.rows for one in slices if one.rows is not None)

        assert known + len(unknown) == len(self.newest.rows)
        assert self.table.scan().count() == len(self.newest.rows)

    @invariant()
    def row_ids_never_overlap_and_timestamps_grow(self) -> None:
        ranges = sorted(self.row_ids)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))
        infos = [actions_of(self.folder, version, "commitInfo") for version in versions_of(self.folder)]
        stamps = [info[0]["inCommitTimestamp"] for info in infos if info]
        assert stamps == sorted(set(stamps))

    # --- the model ---

    @property
    def newest(self) -> Version:
        return self.versions[-1]

    def write(self, batches: list[list[Row]], columns: Schema) -> None:
        """Append rows in these columns, which the table may have to grow for."""
        schema = arrow_schema(columns)
        given = [self.fitting(batch, columns) for batch in batches]
        arrow = [pa.RecordBatch.from_pylist(batch, schema) for batch in given]
        before = self.newest
        wanted = {field.name: field for field in columns}
        kept = tuple(wanted.pop(field.name, field) for field in before.schema)
        after = Schema((*kept, *wanted.values()))
        appended = self.table.append(
            pa.RecordBatchReader.from_batches(schema, arrow), merge_schema=after != before.schema
        )
        new = [row for batch in given for row in batch]
        assert appended.rows == len(new)
        if new or after != before.schema:
            self.versions.append(Version(after, (*before.rows, *new)))
            self.remember_row_ids(appended.instant.version)
        assert appended.instant.version == len(self.versions) - 1

    def remember_row_ids(self, version: int) -> None:
        for added in actions_of(self.folder, version, "add"):
            self.row_ids.append((added["baseRowId"], added["baseRowId"] + json.loads(added["stats"])["numRecords"]))

    def grown(self, count: int) -> Schema:
        new, self.left = self.left[:count], self.left[count:]
        return Schema((*self.newest.schema.fields, *(SCHEMA.field(name) for name in new)))

    def fitting(self, batch: list[Row], columns: Schema) -> list[Row]:
        """The rows with all columns of the random schema, so that the truth of predicates can be told; others are null."""
        found = []
        for row in batch:
            values = {name: row[name] if name in columns else None for name in SCHEMA.names}
            for name in self.partitions:
                if SCHEMA.field(name).type == STRING and values[name] == "":
                    values[name] = None
            found.append(values)
        return found

    def expected(self, version: Version, rows_: list[Row] | tuple[Row, ...]) -> pa.Table:
        return pa.Table.from_pylist(list(rows_), arrow_schema(version.schema))

    def checkpoints(self) -> list[int]:
        return [version for version in range(len(self.versions)) if checkpoint_file(self.folder, version).exists()]

    def readable(self) -> list[int]:
        commits, checkpoints = set(versions_of(self.folder)), self.checkpoints()

        def follows(start: int, version: int) -> bool:
            return all(number in commits for number in range(start, version + 1))

        return [
            version
            for version in range(len(self.versions))
            if follows(0, version) or any(one <= version and follows(one + 1, version) for one in checkpoints)
        ]


def plain(schema: Schema) -> Schema:
    """The schema without ids, physical names and metadata, at the first level and in structs."""

    def bare(data_type: DataType) -> DataType:
        fields = getattr(data_type, "fields", None)
        return data_type if fields is None else attrs.evolve(data_type, fields=tuple(map(field, fields)))

    def field(given: Field) -> Field:
        return Field(name=given.name, type=bare(given.type), nullable=given.nullable)

    return Schema(tuple(map(field, schema)))


def within(predicate: Predicate, schema: Schema) -> Predicate:
    """The predicate with null in place of what it says about columns that the table does not have."""
    match predicate:
        case And(operands):
            return And(tuple(within(operand, schema) for operand in operands))
        case Or(operands):
            return Or(tuple(within(operand, schema) for operand in operands))
        case Not(operand):
            return Not(within(operand, schema))
        case _:
            return predicate if all(path[0] in schema for path in columns_of(predicate)) else Literal(None)


Histories.TestCase.settings = settings(
    max_examples=max(20, settings.default.max_examples // 4), stateful_step_count=12, deadline=None
)
TestHistories = Histories.TestCase
