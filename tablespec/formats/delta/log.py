"""What lies in `_delta_log`, and which of it makes up a version."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import attrs
import msgspec

from tablespec.errors import ChangesGoneError, InstantNotFoundError, MissingLogError
from tablespec.storage.store import FileInfo, Storage

LOG = "_delta_log"
LAST_CHECKPOINT = f"{LOG}/_last_checkpoint"

GONE = "its commit is not in the log any more"

_COMMIT = re.compile(r"([0-9]{20})\.json")
_CLASSIC = re.compile(r"([0-9]{20})\.checkpoint\.parquet")
_PART = re.compile(r"([0-9]{20})\.checkpoint\.([0-9]{10})\.([0-9]{10})\.parquet")
_UUID = re.compile(r"([0-9]{20})\.checkpoint\.[0-9a-fA-F-]{36}\.(?:json|parquet)")
_COMPACTED = re.compile(r"([0-9]{20})\.([0-9]{20})\.compacted\.json")


@attrs.frozen
class Checkpoint:
    """A complete checkpoint: one file, or all parts of one."""

    version: int
    files: tuple[FileInfo, ...]


@attrs.frozen
class Compaction:
    """The reconciled actions of the versions from `start` to `end`."""

    start: int
    end: int
    file: FileInfo


@attrs.frozen(kw_only=True)
class Listing:
    """The files of a log that count, each kind in the order of versions."""

    commits: tuple[tuple[int, FileInfo], ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    compactions: tuple[Compaction, ...] = ()

    @property
    def latest_version(self) -> int:
        """The newest version, or -1 for an empty log."""
        last_commit = self.commits[-1][0] if self.commits else -1
        return max(last_commit, self.checkpoints[-1].version if self.checkpoints else -1)


@attrs.frozen
class Segment:
    """The files that make up one version: a checkpoint, if any, and what came after it."""

    version: int
    checkpoint: Checkpoint | None
    tail: tuple[FileInfo, ...]


def commit_path(version: int) -> str:
    """Where the commit of a version lies."""
    return f"{LOG}/{version:020d}.json"


def list_log(storage: Storage, start: int = 0) -> Listing:
    """The log from version `start` on."""
    after = f"{LOG}/{start:020d}" if start else ""
    return sort_out(storage.list(LOG, after=after))


def sort_out(files: Iterable[FileInfo]) -> Listing:
    """The files of a log by kind; foreign and temporary files are passed over, incomplete sets of parts too."""
    commits: list[tuple[int, FileInfo]] = []
    checkpoints: list[Checkpoint] = []
    compactions: list[Compaction] = []
    parts: dict[tuple[int, int], dict[int, FileInfo]] = {}
    for file in files:
        name = file.path.removeprefix(f"{LOG}/")
        if found := _COMMIT.fullmatch(name):
            commits.append((int(found[1]), file))
        elif found := _CLASSIC.fullmatch(name) or _UUID.fullmatch(name):
            checkpoints.append(Checkpoint(int(found[1]), (file,)))
        elif found := _PART.fullmatch(name):
            parts.setdefault((int(found[1]), int(found[3])), {})[int(found[2])] = file
        elif found := _COMPACTED.fullmatch(name):
            compactions.append(Compaction(int(found[1]), int(found[2]), file))
    for (version, count), files_of in parts.items():
        if set(files_of) == set(range(1, count + 1)):
            checkpoints.append(Checkpoint(version, tuple(files_of[part] for part in range(1, count + 1))))
    return Listing(
        commits=tuple(sorted(commits, key=lambda pair: pair[0])),
        checkpoints=tuple(sorted(checkpoints, key=lambda checkpoint: checkpoint.version)),
        compactions=tuple(sorted(compactions, key=lambda compaction: (compaction.start, compaction.end))),
    )


def segment(listing: Listing, version: int, table: str, unusable: frozenset[Checkpoint] = frozenset()) -> Segment:
    """The files that make up `version`, from the newest usable checkpoint on."""
    if version < 0 or version > listing.latest_version:
        raise InstantNotFoundError(table, str(version), _range(listing))
    usable = [one for one in listing.checkpoints if one.version <= version and one not in unusable]
    checkpoint = usable[-1] if usable else None
    first = 0 if checkpoint is None else checkpoint.version + 1
    commits = dict(listing.commits)
    tail: list[FileInfo] = []
    current = first
    while current <= version:
        compaction = _longest(listing.compactions, current, version)
        if compaction is not None:
            tail.append(compaction.file)
            current = compaction.end + 1
        elif current in commits:
            tail.append(commits[current])
            current += 1
        elif current == 0 and listing.checkpoints and version < listing.checkpoints[0].version:
            # The log was cleaned up and starts with a checkpoint that is newer than the version asked for.
            raise InstantNotFoundError(table, str(version), _range(listing))
        else:
            raise MissingLogError(table, current, version)
    return Segment(version, checkpoint, tuple(tail))


def reachable(listing: Listing) -> Sequence[tuple[int, FileInfo]]:
    """The versions that can be reconstructed, oldest first, each with the file that tells its time."""
    commits = dict(listing.commits)
    checkpoints = {one.version: one.files[0] for one in listing.checkpoints}
    found: list[tuple[int, FileInfo]] = []
    for version in sorted({*commits, *checkpoints}):
        follows = version == (found[-1][0] + 1 if found else 0)
        if follows or version in checkpoints:
            found.append((version, commits.get(version) or checkpoints[version]))
    return found


def commits_between(listing: Listing, after: int, upto: int, table: str) -> list[tuple[int, FileInfo]]:
    """The commits after a version up to another, oldest first; raises ChangesGoneError when one is not there any more."""
    commits = dict(listing.commits)
    missing = [version for version in range(after + 1, upto + 1) if version not in commits]
    if missing:
        left = missing[-1] if missing[-1] < upto else None
        raise ChangesGoneError(table, missing[0], GONE, left)
    return [(version, commits[version]) for version in range(after + 1, upto + 1)]


def last_checkpoint_version(storage: Storage) -> int:
    """The version that `_last_checkpoint` hints at; 0 when the hint is missing or damaged."""
    try:
        hint = msgspec.json.decode(storage.read(LAST_CHECKPOINT))
        version = hint["version"]
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        return 0
    return version if isinstance(version, int) and version > 0 else 0


def _longest(compactions: Sequence[Compaction], start: int, limit: int) -> Compaction | None:
    fitting = [one for one in compactions if one.start == start and start < one.end <= limit]
    return max(fitting, key=lambda one: one.end, default=None)


def _range(listing: Listing) -> str:
    versions = [version for version, _ in reachable(listing)] or [one.version for one in listing.checkpoints]
    return f"{versions[0]} to {max(versions[-1], listing.latest_version)}" if versions else "none"
