"""What single commits did to the rows of file groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from tablespec.errors import ChangesGoneError
from tablespec.formats.hudi.commit_metadata import CommitMetadata, WriteStat
from tablespec.formats.hudi.names import parse_log_file_name
from tablespec.formats.hudi.slices import GroupFile, slices_at
from tablespec.formats.hudi.timeline import ActiveTimeline, CompletedAction, visibility_of
from tablespec.model.change import KeyedChanges, SliceChange
from tablespec.model.file import FileGroupId, FileSlice, LogFile


@attrs.frozen(kw_only=True)
class GroupHistory:
    """The files of a table by group, and the writes that made them, oldest request first."""

    url: str
    files: Mapping[FileGroupId, Sequence[GroupFile]]
    timeline: ActiveTimeline
    layout: int
    whole_images: bool
    key: tuple[str, ...]
    version: str | None

    def slice_at(self, group: FileGroupId, upto: int, replaced: frozenset[FileGroupId]) -> FileSlice | None:
        """The state of a group after the writes up to a request time."""
        seen = [action for action in self.timeline.writes if action.request <= upto]
        visibility = visibility_of(self.timeline, seen, layout=self.layout)
        found = slices_at(self.files.get(group, ()), visibility, replaced)
        return attrs.evolve(found[0], upto=upto) if found else None

    def changes_of(
        self, action: CompletedAction, commit: CommitMetadata, replaced: frozenset[FileGroupId]
    ) -> KeyedChanges | None:
        """The changes of a commit; `replaced` are the groups that earlier commits took away."""
        changes = [self._replaced(action, group, replaced) for group in commit.replaced]
        stats: dict[FileGroupId, list[WriteStat]] = {}
        for stat in commit.stats:
            stats.setdefault(stat.group, []).append(stat)
        changes += [self._written(action, group, of_group, replaced) for group, of_group in stats.items()]
        found = tuple(change for change in changes if change is not None)
        return KeyedChanges(action.instant, found, self.key, self.version) if found else None

    def _replaced(
        self, action: CompletedAction, group: FileGroupId, replaced: frozenset[FileGroupId]
    ) -> SliceChange | None:
        if group in replaced:
            return None
        before = self.slice_at(group, action.request - 1, replaced)
        if before is None:
            raise ChangesGoneError(self.url, action.request, f"the files of the group {group.id} were cleaned up")
        return SliceChange(before, None)

    def _written(
        self,
        action: CompletedAction,
        group: FileGroupId,
        stats: Sequence[WriteStat],
        replaced: frozenset[FileGroupId],
    ) -> SliceChange | None:
        before = self.slice_at(group, action.request - 1, replaced)
        after = self.slice_at(group, action.request, replaced)
        log = tuple(_change_file(path, size) for stat in stats for path, size in stat.change_files)
        if log and self.whole_images and (before or after):
            return SliceChange(before, after, log)
        previous = max((stat.previous for stat in stats if stat.previous is not None), default=None)
        there = before.base.path.rpartition("_")[2].split(".")[0] if before and before.base else None
        if previous is not None and (before is None or (there is not None and int(there) < previous)):
            raise ChangesGoneError(
                self.url, action.request, f"the state of the group {group.id} before it was cleaned up"
            )
        if after is None:
            raise ChangesGoneError(self.url, action.request, f"the files of the group {group.id} were cleaned up")
        return SliceChange(before, after, log)


def by_group(files: Iterable[GroupFile]) -> dict[FileGroupId, list[GroupFile]]:
    """The files of each group."""
    found: dict[FileGroupId, list[GroupFile]] = {}
    for file in files:
        found.setdefault(file.group, []).append(file)
    return found


def changes_of_all(
    history: GroupHistory,
    actions: Sequence[CompletedAction],
    commit_of: Callable[[CompletedAction], CommitMetadata],
    may_match: Callable[[FileGroupId], bool],
) -> list[KeyedChanges]:
    """The changes of several commits, oldest first; groups of partitions that cannot match are left out."""
    found = []
    for action in actions:
        commit = commit_of(action)
        if not commit.changes_data:
            continue
        earlier = [one for one in history.timeline.writes if one.request < action.request]
        replaced = frozenset(
            group for one in earlier if one.action == "replacecommit" for group in commit_of(one).replaced
        )
        matching = attrs.evolve(
            commit,
            stats=tuple(stat for stat in commit.stats if may_match(stat.group)),
            replaced=tuple(group for group in commit.replaced if may_match(group)),
        )
        if (changes := history.changes_of(action, matching, replaced)) is not None:
            found.append(changes)
    return found


def _change_file(path: str, size: int) -> LogFile:
    name = parse_log_file_name(path.rsplit("/", 1)[-1])
    return LogFile(path=path, size=size, instant=name.instant if name else -1, version=name.version if name else 1)
