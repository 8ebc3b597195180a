"""Files that could not be read while a table was looked after: they stay in the table and are left alone for a while.

A skip never changes what reads see. It stands in the commit that found it, and with all others in a domain of the table, which
survives checkpoints.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

import msgspec

from tablespec.formats.base import TableState
from tablespec.formats.maintenance import MaintainableFormat

DOMAIN = "io.tablespec.skips"
DETAIL = "skip"
COOLDOWN = timedelta(hours=24)


class Skip(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file, as the log spells it, that could not be read; times are milliseconds UTC."""

    path: str
    reason: str
    operation: str
    skip_count: int
    skip_timestamp: int
    retry_after: int


class _Skips(msgspec.Struct, frozen=True):
    skips: tuple[Skip, ...] = ()


def skips_of(format_: MaintainableFormat, state: TableState) -> tuple[Skip, ...]:
    """The files that are being left alone or were, in path order."""
    text = format_.domain(state, DOMAIN)
    if text is None:
        return ()
    try:
        return msgspec.json.decode(text, type=_Skips).skips
    except msgspec.DecodeError:
        # Nothing depends on it: a file that still cannot be read is found out again.
        return ()


def resting(skips: Sequence[Skip], now: int) -> frozenset[str]:
    """The paths that are not to be tried before their time."""
    return frozenset(skip.path for skip in skips if skip.retry_after > now)


def failed(
    before: Sequence[Skip], unreadable: Mapping[str, str], operation: str, now: int, cooldown: timedelta
) -> tuple[Skip, ...]:
    """The skips of files that could not be read now, with the reasons why; each counts how often it happened."""
    counts = {skip.path: skip.skip_count for skip in before}
    return tuple(
        Skip(
            path=path,
            reason=reason,
            operation=operation,
            skip_count=counts.get(path, 0) + 1,
            skip_timestamp=now,
            retry_after=now + cooldown // timedelta(milliseconds=1),
        )
        for path, reason in sorted(unreadable.items())
    )


def carried(before: Sequence[Skip], new: Sequence[Skip], over: Collection[str]) -> tuple[Skip, ...]:
    """All skips that hold from now on: the new ones, and old ones of files that are not `over`."""
    replaced = {skip.path for skip in new} | set(over)
    return tuple(sorted((*new, *(skip for skip in before if skip.path not in replaced)), key=lambda skip: skip.path))


def domain_text(skips: tuple[Skip, ...]) -> str | None:
    """What the table keeps about its skips; None for none."""
    return msgspec.json.encode(_Skips(skips)).decode() if skips else None


def detail_text(skips: tuple[Skip, ...]) -> str:
    """What a commit says about the files that it had to skip."""
    return msgspec.json.encode(skips).decode()
