"""Every verb that commits, done to one small table: in its partition `a`, or in `b` where nothing of `a` is touched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import pyarrow as pa

import tablespec
from tablespec.formats.base import TableFormat
from tablespec.formats.detect import open_format
from tablespec.model.instant import Instant
from tablespec.model.schema import DOUBLE, Field, Schema
from tablespec.storage.store import Storage
from tablespec.table import Table
from tablespec.txn.transaction import Retries
from tablespec.write.execution import Strategy
from tablespec.write.runner import Threads

COPY_ON_WRITE = Strategy.COPY_ON_WRITE
# One thread, so that the calls of a verb come in the same order every time; patience, so that only conflicts end a verb.
ONE = Threads(1)
PATIENT = Retries(attempts=200, first_pause=0.001, longest_pause=0.05)
CALM = {"runner": ONE, "retries": PATIENT}
MERGING = (tablespec.when_matched_update(), tablespec.when_not_matched_insert())

# The version at which the table of `make_table` stands, and the first of its ids in each partition.
BASE = 3
FIRST = {"a": 1, "b": 101}
# A file of this partition cannot be read where a table is made with one.
DAMAGED = "damaged"


def make_table(folder: Path, *, isolation: str = "Serializable", damaged: bool = False) -> Path:
    """A table whose partitions have two files each, one of them with a deletion vector."""
    schema = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.float64())])
    properties = {"delta.isolationLevel": isolation}
    table = tablespec.create_table(str(folder), schema, partition_by=["p"], key=["id"], properties=properties)
    for steps in ((0, 1, 2), (3, 4)):
        unreadable = [(1000 + steps[0], DAMAGED)] if damaged else []
        table.append(rows(*((first + step, p) for p, first in FIRST.items() for step in steps), *unreadable))
    table.delete("id in (5, 105)", runner=ONE)
    for path in folder.glob(f"p={DAMAGED}/*.parquet"):
        path.write_bytes(b"\0" * path.stat().st_size)
    return folder


def rows(*values: tuple[int, str]) -> pa.Table:
    """Rows with these ids in these partitions."""
    ids, partitions = zip(*values)
    return pa.table({"id": list(ids), "p": list(partitions), "v": [float(number) for number in ids]})


@attrs.frozen
class Verb:
    """Something that commits; `act` takes the table and the partition, and what it gives has an instant or is one."""

    act: Callable[[Table, str], object]
    # Whether it needs a file that cannot be read.
    damaged: bool = False

    def run(self, table: Table, partition: str) -> Instant | None:
        """Do it, and give its instant; None when there was nothing to commit."""
        done = self.act(table, partition)
        return done if done is None or isinstance(done, Instant) else done.instant  # type: ignore[attr-defined, no-any-return]


def _in(p: str, *steps: int) -> pa.Table:
    return rows(*((FIRST[p] + step, p) for step in steps))


def _with_column(p: str) -> pa.Table:
    return _in(p, 21).append_column("w", pa.array([p]))


VERBS: dict[str, Verb] = {
    "append": Verb(lambda table, p: table.append(_in(p, 20), retries=PATIENT)),
    "append with a new column": Verb(
        lambda table, p: table.append(_with_column(p), merge_schema=True, retries=PATIENT)
    ),
    "append of an application": Verb(
        lambda table, p: table.append(_in(p, 22), transaction=("loader", 1), retries=PATIENT)
    ),
    "replace_where": Verb(lambda table, p: table.replace_where(f"p = '{p}'", _in(p, 30), **CALM)),
    "replace_using": Verb(lambda table, p: table.replace_using(["id"], _in(p, 0, 31), **CALM)),
    "overwrite_partitions": Verb(lambda table, p: table.overwrite_partitions(_in(p, 0, 32), **CALM)),
    "delete": Verb(lambda table, p: table.delete(f"id = {FIRST[p]}", **CALM)),
    "delete by rewriting": Verb(lambda table, p: table.delete(f"id = {FIRST[p]}", strategy=COPY_ON_WRITE, **CALM)),
    "delete of a partition": Verb(lambda table, p: table.delete(f"p = '{p}'", **CALM)),
    "update": Verb(lambda table, p: table.update({"v": "v + 100"}, f"p = '{p}' and id <> 3", **CALM)),
    "update by rewriting": Verb(
        lambda table, p: table.update({"v": "v + 100"}, f"id = {FIRST[p] + 1}", strategy=COPY_ON_WRITE, **CALM)
    ),
    "merge": Verb(lambda table, p: table.merge(_in(p, 1, 40), "t.id = s.id", *MERGING, **CALM)),
    "merge by rewriting": Verb(
        lambda table, p: table.merge(_in(p, 1, 41), "t.id = s.id", *MERGING, strategy=COPY_ON_WRITE, **CALM)
    ),
    "upsert": Verb(lambda table, p: table.upsert(_in(p, 2, 50), **CALM)),
    "upsert by rewriting": Verb(lambda table, p: table.upsert(_in(p, 2, 51), strategy=COPY_ON_WRITE, **CALM)),
    "compact": Verb(lambda table, p: table.compact(f"p = '{p}'", **CALM)),
    "cluster": Verb(lambda table, p: table.cluster(["v"], f"p = '{p}'", **CALM)),
    "skip": Verb(lambda table, p: table.compact(f"p = '{DAMAGED}'", **CALM), damaged=True),
    "restore": Verb(lambda table, p: table.restore(1, **CALM)),
    "set_properties": Verb(lambda table, p: table.set_properties({"owner": p})),
    "add_columns": Verb(lambda table, p: table.add_columns(Schema((Field(name=f"of_{p}", type=DOUBLE),)))),
    "add_constraint": Verb(lambda table, p: table.add_constraint("positive", "id > 0")),
    "upgrade_protocol": Verb(lambda table, p: table.upgrade_protocol(["v2Checkpoint"])),
}


def open_at(url: str, options: Mapping[str, str] | None = None) -> Table:
    """The table at a place."""
    return Table(format_at(Storage.at(url, options)))


def format_at(storage: Storage) -> TableFormat:
    """The format of the table at a place."""
    return open_format(storage)


def values(url: str, options: Mapping[str, str] | None = None) -> list[tuple[object, ...]]:
    """The readable rows of a table, with all that their columns hold, in order."""
    table = open_at(url, options)
    found = table.scan(f"p in {tuple(FIRST)}").to_table().to_pylist()
    return sorted((tuple(sorted(row.items())) for row in found), key=str)


def row_ids(url: str, options: Mapping[str, str] | None = None) -> list[int]:
    """The ids of the readable rows."""
    return open_at(url, options).scan(f"p in {tuple(FIRST)}", ["_row_id"]).to_table().column("_row_id").to_pylist()
