"""Which blocks of a slice's log count, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tablespec.formats.hudi.log_file import BlockType, LogBlock


def counting(blocks: Iterable[LogBlock], sees: Callable[[int], bool]) -> list[LogBlock]:
    """The data and delete blocks that a reader must merge, oldest first.

    Blocks of writes that are not seen do not count, nor do those that a rollback behind them takes back. A block of a log
    compaction stands in the place of the newest block that it replaces, and only if it replaces one.
    """
    by_instant: dict[int, list[LogBlock]] = {}
    for block in blocks:
        if block.type is BlockType.COMMAND:
            if not block.is_rollback or block.target is None or len(block.content):
                raise ValueError("a command block holds no command that is known")
            by_instant.pop(block.target, None)
            continue
        instant = block.instant
        if instant is None:
            raise ValueError("a block does not say which write it is of")
        if sees(instant):
            by_instant.setdefault(instant, []).append(block)
    return [block for instant in _standing(by_instant) for block in by_instant[instant]]


def _standing(by_instant: dict[int, list[LogBlock]]) -> list[int]:
    """The instants whose blocks count, oldest first."""
    replaced_by: dict[int, int] = {}
    newest_first: list[int] = []
    for instant in reversed(by_instant):
        compacted = by_instant[instant][0].compacted
        if compacted:
            # Log compactions may be compacted again: what counts is the last one.
            last = replaced_by.get(instant, instant)
            replaced_by |= dict.fromkeys(compacted, last)
            continue
        stands = replaced_by.get(instant, instant)
        if stands not in newest_first:
            newest_first.append(stands)
    return newest_first[::-1]
