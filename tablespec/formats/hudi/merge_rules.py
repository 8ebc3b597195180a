"""By which rules the log records of a table are merged, told by its properties."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tablespec.errors import UnsupportedTableError
from tablespec.formats.hudi.key_generator import key_prefix
from tablespec.formats.hudi.properties import TableProperties

_EVENT_TIME_PAYLOADS = frozenset({"DefaultHoodieRecordPayload", "EventTimeAvroPayload"})
_COMMIT_TIME_PAYLOADS = frozenset({"OverwriteWithLatestAvroPayload"})
_EVENT_TIME_STRATEGY = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
_COMMIT_TIME_STRATEGY = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
_MERGE_PROPERTY = "hoodie.record.merge.property."
_WAY_OUT = "read_optimized reads its base files; compaction by Hudi makes them whole"


@attrs.frozen(kw_only=True)
class MergeRules:
    """How log records meet others of the same key.

    `key` are the columns that keys are made of where rows do not carry them, `key_prefix` what deletes may write before such a key;
    `delete_marker` is a column with the value that marks a deleted row, besides `_hoodie_is_deleted` and `_hoodie_operation`.
    """

    event_time: bool
    ordering: tuple[str, ...]
    key: tuple[str, ...] | None
    key_prefix: str = ""
    delete_marker: tuple[str, str] | None = None


def merge_rules(url: str, table: TableProperties) -> MergeRules:
    """The rules of a table; raises UnsupportedTableError for rules that only its writer knows."""
    entries = dict(table.entries)
    mode = _mode(url, table, entries)
    partial = entries.get("hoodie.table.partial.update.mode", "NONE") or "NONE"
    if partial.upper() not in ("NONE", "KEEP_VALUES"):
        raise UnsupportedTableError(url, f"log files with the partial update mode {partial}", _WAY_OUT)
    if not table.meta_fields and not table.record_key:
        raise UnsupportedTableError(url, "log files without meta fields and without a record key", _WAY_OUT)
    field, marker = (entries.get(f"{_MERGE_PROPERTY}hoodie.payload.delete.{one}", "") for one in ("field", "marker"))
    return MergeRules(
        event_time=mode == "EVENT_TIME_ORDERING" and bool(table.ordering_fields),
        ordering=table.ordering_fields if mode == "EVENT_TIME_ORDERING" else (),
        key=None if table.meta_fields else table.record_key,
        key_prefix="" if table.meta_fields else key_prefix(table),
        delete_marker=(field, marker) if field and marker else None,
    )


def _mode(url: str, table: TableProperties, entries: Mapping[str, str]) -> str:
    mode = entries.get("hoodie.record.merge.mode", "").upper()
    if mode in ("COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING"):
        return mode
    if mode:
        raise UnsupportedTableError(url, f"log files with the merge mode {mode}", _WAY_OUT)
    payload = entries.get("hoodie.compaction.payload.class", "").rpartition(".")[2]
    strategy = entries.get("hoodie.record.merge.strategy.id") or entries.get(
        "hoodie.compaction.record.merger.strategy", ""
    )
    by_payload = dict.fromkeys(_EVENT_TIME_PAYLOADS, "EVENT_TIME_ORDERING")
    by_payload |= dict.fromkeys(_COMMIT_TIME_PAYLOADS, "COMMIT_TIME_ORDERING")
    by_strategy = {_EVENT_TIME_STRATEGY: "EVENT_TIME_ORDERING", _COMMIT_TIME_STRATEGY: "COMMIT_TIME_ORDERING"}
    # Up to version 7 the payload class decides, later the strategy.
    told = [(payload, by_payload, "payload class"), (strategy, by_strategy, "merge strategy")]
    for name, known, what in told if table.version < 8 else reversed(told):
        if name and name not in known:
            raise UnsupportedTableError(url, f"log files with the {what} {name}", _WAY_OUT)
        if name:
            return known[name]
    return "EVENT_TIME_ORDERING" if table.ordering_fields else "COMMIT_TIME_ORDERING"
