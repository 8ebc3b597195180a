"""The state of a table, made from a checkpoint and the actions after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import attrs

from tablespec.errors import CorruptLogError
from tablespec.formats.delta.actions import (
    AddAction,
    DomainMetadataAction,
    Line,
    MetadataAction,
    ProtocolAction,
    RemoveAction,
    TxnAction,
)
from tablespec.formats.delta.checkpoint import CheckpointState
from tablespec.formats.delta.protocol import DEFAULT_PROTOCOL


@attrs.frozen(kw_only=True)
class Reconciled:
    """The newest word of the log on everything, up to one version.

    The adds of `checkpoint_files` are live unless their key is in `touched`; those of `adds` are live. Mappings are never changed.
    """

    version: int
    protocol: ProtocolAction | None = None
    metadata: MetadataAction | None = None
    transactions: Mapping[str, TxnAction] = MappingProxyType({})
    domains: Mapping[str, DomainMetadataAction] = MappingProxyType({})
    checkpoint_version: int = -1
    checkpoint_files: tuple[str, ...] = ()
    adds: Mapping[str, AddAction] = MappingProxyType({})
    removes: Mapping[str, RemoveAction] = MappingProxyType({})
    touched: frozenset[str] = frozenset()
    in_commit_timestamp: int | None = None


EMPTY = Reconciled(version=-1)


def from_checkpoint(state: CheckpointState) -> Reconciled:
    """The state right after a checkpoint."""
    start = attrs.evolve(EMPTY, checkpoint_version=state.version, checkpoint_files=state.files)
    applied = apply(start, [(state.version, state.lines)])
    # The adds and removes of a JSON checkpoint replace nothing: there is no older state below them.
    return attrs.evolve(applied, version=state.version, in_commit_timestamp=None)


def apply(state: Reconciled, commits: Iterable[tuple[int, Iterable[Line]]]) -> Reconciled:
    """The state after further commits, oldest first."""
    adds, removes, touched = dict(state.adds), dict(state.removes), set(state.touched)
    transactions, domains = dict(state.transactions), dict(state.domains)
    protocol, metadata, version = state.protocol, state.metadata, state.version
    in_commit_timestamp = state.in_commit_timestamp
    for number, lines in commits:
        version, in_commit_timestamp = number, None
        for line in _removes_first(lines):
            if line.add is not None:
                adds[line.add.key] = line.add
                removes.pop(line.add.key, None)
                touched.add(line.add.key)
            elif line.remove is not None:
                adds.pop(line.remove.key, None)
                removes[line.remove.key] = line.remove
                touched.add(line.remove.key)
            elif line.txn is not None:
                transactions[line.txn.app_id] = line.txn
            elif line.domain_metadata is not None:
                domains[line.domain_metadata.domain] = line.domain_metadata
            protocol = line.protocol or protocol
            metadata = line.meta_data or metadata
            if line.commit_info is not None:
                stamp = line.commit_info.get("inCommitTimestamp")
                in_commit_timestamp = stamp if isinstance(stamp, int) else in_commit_timestamp
    return attrs.evolve(
        state,
        version=version,
        protocol=protocol,
        metadata=metadata,
        transactions=transactions,
        domains={name: domain for name, domain in domains.items() if not domain.removed},
        adds=adds,
        removes=removes,
        touched=frozenset(touched),
        in_commit_timestamp=in_commit_timestamp,
    )


def checked(state: Reconciled, table: str) -> tuple[ProtocolAction, MetadataAction]:
    """The protocol and metadata of a state; without a protocol action (1, 1) is taken."""
    if state.metadata is None:
        raise CorruptLogError(table, f"version {state.version}", 0, "no metaData action was ever written")
    return state.protocol or DEFAULT_PROTOCOL, state.metadata


def _removes_first(lines: Iterable[Line]) -> Iterator[Line]:
    # A commit may remove and add the same logical file, in any order; the add is what stays.
    lines = list(lines)
    yield from (line for line in lines if line.remove is not None)
    yield from (line for line in lines if line.remove is None)
