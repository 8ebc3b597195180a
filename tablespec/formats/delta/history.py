"""What commits say about themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tablespec.formats.base import HistoryEntry, WinningCommit
from tablespec.formats.delta.actions import Line, MetadataAction
from tablespec.formats.delta.adds import TableShape
from tablespec.formats.delta.properties import DELETION_VECTORS, Enablement
from tablespec.formats.delta.protocol import features_of
from tablespec.formats.delta.row_tracking import DOMAIN
from tablespec.formats.delta.state import AddedFiles
from tablespec.model.instant import Instant
from tablespec.storage.store import FileInfo


def commit_info(lines: Sequence[Line]) -> dict[str, object]:
    """The commitInfo of a commit, or nothing."""
    return next((line.commit_info for line in lines if line.commit_info is not None), {})


def commit_timestamp(lines: Sequence[Line]) -> int | None:
    """The in-commit timestamp, where there is one."""
    stamp = commit_info(lines).get("inCommitTimestamp")
    return stamp if isinstance(stamp, int) else None


def instants(
    files: Sequence[tuple[int, FileInfo]], stamps: Mapping[int, int], enablement: Enablement | None = None
) -> tuple[Instant, ...]:
    """The instants of versions, oldest first: the times of their files, or their stamps where they have some."""
    times: list[int] = []
    stamped = -1
    for version, file in files:
        # Clocks of stores and writers may go back; time on a timeline does not.
        if version in stamps:
            stamped = max(stamps[version], stamped + 1)
            times.append(stamped)
        else:
            times.append(max(file.modified, times[-1] + 1) if times else file.modified)
    _before_stamps([version for version, _ in files], times, stamps, enablement)
    return tuple(Instant(version, time, "commit") for (version, _), time in zip(files, times))


def _before_stamps(
    versions: Sequence[int], times: list[int], stamps: Mapping[int, int], enablement: Enablement | None
) -> None:
    """Let no version come after the stamp of a later one: a log that was copied has files that are younger than what they tell."""
    limit: int | None = None
    for index, version in reversed([*enumerate(versions)]):
        if version in stamps:
            limit = times[index]
            continue
        if limit is None and enablement is not None and version < enablement.version:
            limit = enablement.timestamp
        if limit is not None:
            limit = times[index] = min(times[index], limit - 1)


def operation_id(lines: Sequence[Line]) -> str:
    """The id of the operation that wrote the commit, where tablespec wrote it."""
    ours = commit_info(lines).get("tablespec")
    found = ours.get("operationId") if isinstance(ours, dict) else None
    return found if isinstance(found, str) else ""


def history_entry(instant: Instant, lines: Sequence[Line]) -> HistoryEntry:
    """What a person wants to know about a commit."""
    info = commit_info(lines)
    return HistoryEntry(
        instant=instant,
        operation=str(info.get("operation", "")),
        parameters=_pairs(info.get("operationParameters")),
        metrics=_pairs(info.get("operationMetrics")),
        engine=str(info.get("engineInfo", "")),
        files_added=sum(line.add is not None for line in lines),
        files_removed=sum(line.remove is not None for line in lines),
    )


def winning_commit(
    version: int,
    lines: Sequence[Line],
    shape: TableShape,
    known: frozenset[str],
    before: MetadataAction | None = None,
) -> WinningCommit:
    """A commit as its losing rivals see it, who know of a table with some features; `before` is the metadata that it found."""
    adds = tuple(line.add for line in lines if line.add is not None)
    removed = frozenset(line.remove.path for line in lines if line.remove is not None)
    file_actions = [line.add or line.remove for line in lines if line.add is not None or line.remove is not None]
    return WinningCommit(
        version=version,
        operation_id=operation_id(lines),
        blind_append=commit_info(lines).get("isBlindAppend") is True,
        data_change=any(action is not None and action.data_change is not False for action in file_actions),
        added=AddedFiles(adds, shape),
        added_paths=frozenset(add.path for add in adds),
        removed=removed,
        metadata_changed=any(line.meta_data is not None for line in lines),
        vectors_allowed=_allows_vectors(before, [line.meta_data for line in lines if line.meta_data is not None]),
        protocol_changed=any(line.protocol is not None for line in lines),
        features_dropped=any(line.protocol is not None and known - features_of(line.protocol) for line in lines),
        transactions=frozenset(line.txn.app_id for line in lines if line.txn is not None),
        # The mark of row ids moves with every commit and is worked out anew on every attempt.
        domains=frozenset(
            line.domain_metadata.domain
            for line in lines
            if line.domain_metadata is not None and line.domain_metadata.domain != DOMAIN
        ),
    )


def _allows_vectors(before: MetadataAction | None, after: Sequence[MetadataAction]) -> bool:
    """Whether new metadata differ from the old ones in nothing but the property that lets rows be deleted by vectors."""
    if before is None or len(after) != 1:
        return False
    (new,) = after
    enabled = {**before.configuration, DELETION_VECTORS: "true"}
    return new.configuration == enabled and msgspec.structs.replace(new, configuration=before.configuration) == before


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    return tuple((str(key), str(item)) for key, item in value.items()) if isinstance(value, dict) else ()
