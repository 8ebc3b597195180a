"""A small table with a checkpoint of any kind, put together by hand.

Versions 0 to 4 make up the checkpoint, versions 5 and 6 come after it and touch what it holds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from tablespec.formats.delta.deletion_vector import encode_positions, encode_z85
from tests.handmade import actions_of, add, checkpoint_file, commit, commit_file, metadata, protocol

VERSION = 4
COLUMNS = {"id": "long", "x": "double", "s": "string", "p": "string", "n": "integer"}
Row = tuple[int, float | None, str | None, str | None, int | None]

A: list[Row] = [(1, 0.5, "apple", "red", 1), (2, None, "pear", "red", 1)]
B: list[Row] = [(3, 7.5, "fig", "red", None)]
C: list[Row] = [(10, -1.0, None, None, 2), (11, 2.0, "kiwi", None, 2)]
D: list[Row] = [(20, math.nan, "plum", "a b/é%", 2)]
E: list[Row] = [(30, 1.0, "gone", "red", 1)]
F: list[Row] = [(40, 3.0, "lime", "blue", 3)]
ROWS: dict[int, list[Row]] = {
    0: A,
    1: [*A, *B, *E],
    2: [*A, *B, *E, *C],
    3: [*A, *B, *C, *D],
    4: [*A, *B, *C[:1], *D],
    5: [*B, *C[:1], *D, *F],
    6: [*B, *D, *F],
}

_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
    }
)
_BOUNDS = pa.struct({"id": pa.int64(), "x": pa.float64(), "s": pa.string()})
_NULLS = pa.struct({"id": pa.int64(), "x": pa.int64(), "s": pa.int64()})
ADD: dict[str, pa.DataType] = {
    "path": pa.string(),
    "partitionValues": _TEXTS,
    "size": pa.int64(),
    "modificationTime": pa.int64(),
    "dataChange": pa.bool_(),
    "stats": pa.string(),
    "deletionVector": _VECTOR,
}
PARSED: dict[str, pa.DataType] = {
    "partitionValues_parsed": pa.struct({"p": pa.string(), "n": pa.int32()}),
    "stats_parsed": pa.struct(
        {"numRecords": pa.int64(), "minValues": _BOUNDS, "maxValues": _BOUNDS, "nullCount": _NULLS}
    ),
}
OTHERS: dict[str, pa.DataType] = {
    "remove": pa.struct({"path": pa.string(), "deletionTimestamp": pa.int64(), "dataChange": pa.bool_()}),
    "metaData": pa.struct(
        {
            "id": pa.string(),
            "format": pa.struct({"provider": pa.string(), "options": _TEXTS}),
            "schemaString": pa.string(),
            "partitionColumns": pa.list_(pa.string()),
            "configuration": _TEXTS,
            "createdTime": pa.int64(),
        }
    ),
    "protocol": pa.struct(
        {
            "minReaderVersion": pa.int32(),
            "minWriterVersion": pa.int32(),
            "readerFeatures": pa.list_(pa.string()),
            "writerFeatures": pa.list_(pa.string()),
        }
    ),
    "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
    "domainMetadata": pa.struct({"domain": pa.string(), "configuration": pa.string(), "removed": pa.bool_()}),
}
SIDECAR: dict[str, pa.DataType] = {
    "checkpointMetadata": pa.struct({"version": pa.int64()}),
    "sidecar": pa.struct({"path": pa.string(), "sizeInBytes": pa.int64(), "modificationTime": pa.int64()}),
}

Action = Mapping[str, Any]


def write_log(folder: Path, *, statistics: bool = True) -> None:
    """The commits 0 to 6 with their data files."""

    def added(name: str, rows: Sequence[Row], deleted: Iterable[int] | None = None) -> dict[str, Any]:
        given = {"partitionValues": {"p": rows[0][3], "n": None if rows[0][4] is None else str(rows[0][4])}}
        given["stats"] = json.dumps(stats_of(rows)) if statistics else None
        if deleted is not None:
            given["deletionVector"] = vector(deleted)
        return add(folder, f"{name}.parquet", data(rows), **given)

    def removed(name: str, deleted: Iterable[int] | None = None) -> dict[str, Any]:
        action: dict[str, Any] = {"path": f"{name}.parquet", "deletionTimestamp": 1, "dataChange": True}
        return {"remove": action if deleted is None else {**action, "deletionVector": vector(deleted)}}

    features = protocol(3, 7, reader_features=("deletionVectors", "v2Checkpoint"))
    domain = {"domainMetadata": {"domain": "io.test", "configuration": "{}", "removed": False}}
    commit(folder, 0, features, metadata(COLUMNS, partition_by=["p", "n"]), added("a", A))
    commit(folder, 1, added("b", B), added("e", E))
    commit(folder, 2, added("c", C), {"txn": {"appId": "loader", "version": 7, "lastUpdated": 1}}, domain)
    commit(folder, 3, removed("e"), added("d", D))
    commit(folder, 4, removed("c"), added("c", C, [1]))
    commit(folder, 5, removed("a"), added("f", F))
    commit(folder, 6, removed("c", [1]), added("c", C, [0, 1]))


def data(rows: Sequence[Row]) -> pa.Table:
    columns = list(zip(*rows))
    return pa.table({"id": pa.array(columns[0], pa.int64()), "x": pa.array(columns[1], pa.float64()), "s": columns[2]})


def stats_of(rows: Sequence[Row]) -> dict[str, Any]:
    """The statistics of a file, without bounds where a value is NaN."""
    columns = {name: [row[index] for row in rows] for index, name in enumerate(("id", "x", "s"))}
    known = {name: [value for value in values if value is not None] for name, values in columns.items()}
    bounded = {name: values for name, values in known.items() if values and values == values}
    bounded = {name: values for name, values in bounded.items() if not any(value != value for value in values)}
    return {
        "numRecords": len(rows),
        "minValues": {name: min(values) for name, values in bounded.items()},
        "maxValues": {name: max(values) for name, values in bounded.items()},
        "nullCount": {name: len(rows) - len(values) for name, values in known.items()},
    }


def vector(deleted: Iterable[int]) -> dict[str, Any]:
    positions = BitMap64(deleted)
    content = encode_positions(positions)
    text = encode_z85(content + bytes(-len(content) % 4))
    return {
        "storageType": "i",
        "pathOrInlineDv": text,
        "sizeInBytes": len(content),
        "cardinality": len(positions),
    }


def without_commits(folder: Path, upto: int = VERSION) -> None:
    """Clean up the log, so that only the checkpoint tells what was before."""
    for version in range(upto + 1):
        commit_file(folder, version).unlink()


def hint(folder: Path, version: int = VERSION, **given: object) -> None:
    """Point `_last_checkpoint` at a version."""
    folder.joinpath("_delta_log/_last_checkpoint").write_text(json.dumps({"version": version, "size": 10, **given}))


# --- the actions of the checkpoint --------------------------------------------------------------------------------


def table_actions(folder: Path) -> list[Action]:
    """What the checkpoint says about the table."""
    kinds = ("protocol", "metaData", "txn", "domainMetadata")
    return [
        {kind: one} for kind in kinds for version in range(VERSION + 1) for one in actions_of(folder, version, kind)
    ]


def file_actions(folder: Path) -> list[Action]:
    """The live files of the checkpoint and its tombstone."""
    adds = {one["path"]: one for version in range(VERSION + 1) for one in actions_of(folder, version, "add")}
    (gone,) = actions_of(folder, 3, "remove")
    return [*({"add": one} for path, one in adds.items() if path != "e.parquet"), {"remove": gone}]


def parsed(add_: Mapping[str, Any]) -> dict[str, Any]:
    """An add with typed partition values and statistics."""
    values = add_["partitionValues"]
    typed = {"p": values["p"], "n": None if values["n"] is None else int(values["n"])}
    return {**add_, "partitionValues_parsed": typed, "stats_parsed": json.loads(add_["stats"])}


def write_parquet(
    path: Path, actions: Sequence[Action], add_type: Mapping[str, pa.DataType] = ADD, **settings: Any
) -> None:
    """Actions as a Parquet file of a checkpoint; columns for all kinds of actions but those of its second kind."""
    columns = {"add": pa.struct(dict(add_type)), **OTHERS}
    write_columns(path, actions, columns, **settings)


def write_columns(path: Path, actions: Sequence[Action], columns: Mapping[str, pa.DataType], **settings: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = [pa.array([paired(action.get(name), kind) for action in actions], kind) for name, kind in columns.items()]
    pq.write_table(pa.table(arrays, names=list(columns)), path, **settings)


def paired(value: object, kind: pa.DataType) -> object:
    """A value of JSON as Arrow takes it: maps as pairs."""
    if isinstance(value, Mapping):
        if pa.types.is_map(kind):
            return list(value.items())
        return {field.name: paired(value.get(field.name), field.type) for field in kind}
    return value


# --- kinds of checkpoints -------------------------------------------------------------------------------------------


def _named(folder: Path, ending: str) -> Path:
    return folder / "_delta_log" / f"{VERSION:020d}.checkpoint.{ending}"


def _v2_name(folder: Path, ending: str) -> Path:
    return _named(folder, f"80a083e8-7026-4e79-81be-64bd76c43a11.{ending}")


def classic(folder: Path) -> None:
    write_parquet(checkpoint_file(folder, VERSION), [*table_actions(folder), *file_actions(folder)])


def with_parsed_columns(folder: Path, **settings: Any) -> None:
    actions = [{"add": parsed(one["add"])} if "add" in one else one for one in file_actions(folder)]
    everything = [*table_actions(folder), *actions]
    write_parquet(checkpoint_file(folder, VERSION), everything, {**ADD, **PARSED}, **settings)


def with_parsed_columns_only(folder: Path) -> None:
    actions = [{"add": parsed(one["add"])} if "add" in one else one for one in file_actions(folder)]
    kept = {name: kind for name, kind in {**ADD, **PARSED}.items() if name != "stats"}
    write_parquet(checkpoint_file(folder, VERSION), [*table_actions(folder), *actions], kept)


def without_statistics(folder: Path) -> None:
    kept = {name: kind for name, kind in ADD.items() if name != "stats"}
    write_parquet(checkpoint_file(folder, VERSION), [*table_actions(folder), *file_actions(folder)], kept)


def with_null_statistics(folder: Path) -> None:
    nothing = {"stats": None, "stats_parsed": None}
    actions = [{"add": {**parsed(one["add"]), **nothing}} if "add" in one else one for one in file_actions(folder)]
    write_parquet(checkpoint_file(folder, VERSION), [*table_actions(folder), *actions], {**ADD, **PARSED})


def with_required_members(folder: Path) -> None:
    def required(kind: pa.DataType, optional: Sequence[str]) -> pa.DataType:
        members = [(field.name, field.type) for field in kind]
        return pa.struct([pa.field(name, type_, nullable=name in optional) for name, type_ in members])

    vector_ = required(_VECTOR, ["offset"])
    columns = {
        "add": required(pa.struct({**ADD, "deletionVector": vector_}), ["stats", "deletionVector"]),
        "remove": required(OTHERS["remove"], ["deletionTimestamp"]),
        "metaData": required(OTHERS["metaData"], ["createdTime"]),
        "protocol": required(OTHERS["protocol"], ["readerFeatures", "writerFeatures"]),
        "txn": required(OTHERS["txn"], ["lastUpdated"]),
        "domainMetadata": required(OTHERS["domainMetadata"], []),
    }
    write_columns(checkpoint_file(folder, VERSION), [*table_actions(folder), *file_actions(folder)], columns)


def with_unknown_columns(folder: Path) -> None:
    columns = {
        "future": pa.struct({"path": pa.string()}),
        "add": pa.struct({"later": pa.int64(), **ADD, "nested": pa.struct({"path": pa.list_(pa.string())})}),
        **OTHERS,
        "counter": pa.int64(),
    }
    actions = [*table_actions(folder), {"future": {"path": "a.parquet"}}, {"counter": 5}, *file_actions(folder)]
    write_columns(checkpoint_file(folder, VERSION), actions, columns)


def of_small_row_groups(folder: Path) -> None:
    with_parsed_columns(folder, row_group_size=1)


def without_footer_statistics(folder: Path) -> None:
    with_parsed_columns(folder, row_group_size=2, write_statistics=False)


def in_parts(folder: Path) -> None:
    everything = [*file_actions(folder), *table_actions(folder)]
    for number, start in enumerate(range(0, len(everything), 3), start=1):
        count = -(-len(everything) // 3)
        write_parquet(_named(folder, f"{number:010d}.{count:010d}.parquet"), everything[start : start + 3])


def in_json(folder: Path) -> None:
    actions = [{"checkpointMetadata": {"version": VERSION}}, *table_actions(folder), *file_actions(folder)]
    _v2_name(folder, "json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def _sidecars(folder: Path) -> list[Action]:
    actions, found = file_actions(folder), []
    for number, part in enumerate((actions[:2], actions[2:])):
        path = folder / "_delta_log/_sidecars" / f"side car {number}.parquet"
        columns = {"add": pa.struct(ADD), "remove": OTHERS["remove"]}
        write_columns(path, part, columns)
        name = path.name.replace(" ", "%20")
        found.append({"sidecar": {"path": name, "sizeInBytes": path.stat().st_size, "modificationTime": 1}})
    return found


def in_json_with_sidecars(folder: Path) -> None:
    actions = [{"checkpointMetadata": {"version": VERSION}}, *table_actions(folder), *_sidecars(folder)]
    _v2_name(folder, "json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def _with_sidecars(path: Path, folder: Path) -> None:
    actions = [{"checkpointMetadata": {"version": VERSION}}, *table_actions(folder), *_sidecars(folder)]
    write_columns(path, actions, {**OTHERS, **SIDECAR})


def in_parquet_with_sidecars(folder: Path) -> None:
    _with_sidecars(_v2_name(folder, "parquet"), folder)


def with_sidecars_under_the_classic_name(folder: Path) -> None:
    _with_sidecars(checkpoint_file(folder, VERSION), folder)


def of_the_second_kind_without_sidecars(folder: Path) -> None:
    actions = [{"checkpointMetadata": {"version": VERSION}}, *table_actions(folder), *file_actions(folder)]
    write_columns(_v2_name(folder, "parquet"), actions, {"add": pa.struct(ADD), **OTHERS, **SIDECAR})


KINDS: dict[str, Callable[[Path], None]] = {
    kind.__name__.replace("_", " "): kind
    for kind in (
        classic,
        with_parsed_columns,
        with_parsed_columns_only,
        without_statistics,
        with_null_statistics,
        with_required_members,
        with_unknown_columns,
        of_small_row_groups,
        without_footer_statistics,
        in_parts,
        in_json,
        in_json_with_sidecars,
        in_parquet_with_sidecars,
        with_sidecars_under_the_classic_name,
        of_the_second_kind_without_sidecars,
    )
}
