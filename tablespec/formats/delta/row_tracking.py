"""Row ids: which tables have them, and where the next ones start."""

from __future__ import annotations

import uuid

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.formats.delta.actions import DomainMetadataAction
from tablespec.formats.delta.adds import from_actions
from tablespec.formats.delta.checkpoint import add_batches
from tablespec.formats.delta.protocol import features_of
from tablespec.formats.delta.state import ROW_COMMIT_VERSION_COLUMN, ROW_ID_COLUMN, DeltaState
from tablespec.formats.delta.stats_json import parse_stats

DOMAIN = "delta.rowTracking"


class _Mark(msgspec.Struct):
    rowIdHighWaterMark: int  # noqa: N815 - as the log spells it


def hidden_column_properties() -> tuple[tuple[str, str], ...]:
    """The properties that name the hidden columns of a new table; the names are never used for anything else."""
    return (
        (ROW_ID_COLUMN, f"_row-id-col-{uuid.uuid4()}"),
        (ROW_COMMIT_VERSION_COLUMN, f"_row-commit-version-col-{uuid.uuid4()}"),
    )


def is_tracked(state: DeltaState) -> bool:
    """Whether files of this table get row ids: it declares them, or it was made with hidden columns for them."""
    return "rowTracking" in features_of(state.protocol) or ROW_ID_COLUMN in state.properties


def high_water_mark(state: DeltaState) -> int:
    """The largest row id that was ever handed out, as far as the log shows; -1 before the first."""
    mark = _greatest(from_actions(list(state.reconciled.adds.values())), state)
    declared = _declared(state)
    if declared is not None:
        return max(mark, declared)
    # Some clients drop domains from their checkpoints; what the adds show must not be handed out again.
    return state.told(_greatest_of_all)


def all_numbered(state: DeltaState) -> bool:
    """Whether every live file has row ids."""
    return state.told(_all_numbered)


def _all_numbered(state: DeltaState) -> bool:
    if any(add.base_row_id is None for add in state.reconciled.adds.values()):
        return False
    for path in state.reconciled.checkpoint_files:
        for adds in add_batches(state.storage, path):
            if len(adds) and (adds.type.get_field_index("baseRowId") < 0 or adds.field("baseRowId").null_count):
                return False
    return True


def mark_action(mark: int) -> DomainMetadataAction:
    """The action that records a high-water mark."""
    configuration = msgspec.json.encode({"rowIdHighWaterMark": mark}).decode()
    return DomainMetadataAction(domain=DOMAIN, configuration=configuration, removed=False)


def _greatest_of_all(state: DeltaState) -> int:
    mark = _greatest(from_actions(list(state.reconciled.adds.values())), state)
    for path in state.reconciled.checkpoint_files:
        for adds in add_batches(state.storage, path):
            mark = max(mark, _greatest(adds, state))
    return mark


def _declared(state: DeltaState) -> int | None:
    domain = state.reconciled.domains.get(DOMAIN)
    if domain is None:
        return None
    try:
        return msgspec.json.decode(domain.configuration, type=_Mark).rowIdHighWaterMark
    except msgspec.DecodeError:
        return None


def _greatest(adds: pa.StructArray, state: DeltaState) -> int:
    if not len(adds) or adds.type.get_field_index("baseRowId") < 0:
        return -1
    starts = adds.field("baseRowId")
    if adds.type.get_field_index("stats_parsed") >= 0:
        counts = adds.field("stats_parsed").field("numRecords")
    else:
        counts = parse_stats(adds.field("stats"), [], state.storage.url).field("numRecords")
    last = pc.max(pc.add(starts, pc.subtract(pc.coalesce(counts, 1), 1))).as_py()
    return -1 if last is None else int(last)
