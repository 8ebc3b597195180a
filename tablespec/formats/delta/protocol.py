"""Which tables this release may read and write: one table of features, and the rules over it."""

from __future__ import annotations

import attrs
import msgspec

from tablespec.errors import ProtocolUpgradeNeededError, ProtocolVersionError
from tablespec.formats.delta.actions import ProtocolAction

READER_VERSION = 3
WRITER_VERSION = 7


@attrs.frozen(kw_only=True)
class Feature:
    """A capability that a table may ask of its clients.

    `reader` says whether readers are concerned too; `legacy` is the (reader, writer) version that implied it before features had names;
    `requires` names the features without which it must not stand.
    """

    name: str
    reader: bool = False
    legacy: tuple[int, int] | None = None
    requires: tuple[str, ...] = ()
    readable: bool = True
    writable: bool = True


FEATURES: dict[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature(name="appendOnly", legacy=(1, 2)),
        Feature(name="invariants", legacy=(1, 2)),
        Feature(name="checkConstraints", legacy=(1, 3)),
        Feature(name="changeDataFeed", legacy=(1, 4)),
        # Expressions of generated columns are Spark SQL; a writer that cannot compute them must not write.
        Feature(name="generatedColumns", legacy=(1, 4), writable=False),
        Feature(name="columnMapping", reader=True, legacy=(2, 5)),
        Feature(name="identityColumns", legacy=(1, 6), writable=False),
        Feature(name="deletionVectors", reader=True),
        Feature(name="timestampNtz", reader=True),
        Feature(name="v2Checkpoint", reader=True),
        Feature(name="vacuumProtocolCheck", reader=True),
        Feature(name="typeWidening", reader=True),
        Feature(name="typeWidening-preview", reader=True),
        Feature(name="variantType", reader=True, writable=False),
        Feature(name="variantType-preview", reader=True, writable=False),
        Feature(name="rowTracking", requires=("domainMetadata",)),
        Feature(name="domainMetadata"),
        Feature(name="inCommitTimestamp"),
        Feature(name="clustering", requires=("domainMetadata",)),
        Feature(name="allowColumnDefaults", writable=False),
        Feature(name="materializePartitionColumns", writable=False),
        Feature(name="icebergCompatV1", writable=False),
        Feature(name="icebergCompatV2", writable=False),
        Feature(name="checkpointProtection", writable=False),
        Feature(name="catalogManaged", reader=True, readable=False, writable=False),
        # Our own: declared only by tables whose log holds top-level actions of ours.
        Feature(name="tablespec-topLevelActions"),
    )
}

# Old versions imply these two, so most tables that ask for them never use them; they only stop a writer when they are used.
OFTEN_UNUSED = frozenset({"generatedColumns", "identityColumns"})

DEFAULT_PROTOCOL = ProtocolAction(min_reader_version=1, min_writer_version=1)


def features_of(protocol: ProtocolAction) -> frozenset[str]:
    """The names of all features that a protocol asks for, whether listed or implied by its versions."""
    listed = set(_listed(protocol.reader_features)) | set(_listed(protocol.writer_features))
    for feature in FEATURES.values():
        if feature.legacy is None:
            continue
        reader, writer = feature.legacy
        if protocol.min_writer_version < WRITER_VERSION and protocol.min_writer_version >= writer:
            listed.add(feature.name)
        if feature.reader and protocol.min_reader_version < READER_VERSION and protocol.min_reader_version >= reader:
            listed.add(feature.name)
    return frozenset(listed)


def check_readable(protocol: ProtocolAction, table: str) -> None:
    """Raise unless this release can read tables of that protocol."""
    unknown = [
        name for name in _listed(protocol.reader_features) if name not in FEATURES or not FEATURES[name].readable
    ]
    if protocol.min_reader_version > READER_VERSION or unknown:
        raise _error(protocol, table, "read", tuple(unknown))


def check_writable(protocol: ProtocolAction, table: str, used: frozenset[str]) -> None:
    """Raise unless this release can write tables of that protocol; `used` names the features that the schema really uses."""
    check_readable(protocol, table)
    refused = [
        name
        for name in sorted(features_of(protocol))
        if name not in FEATURES or (not FEATURES[name].writable and (name not in OFTEN_UNUSED or name in used))
    ]
    if protocol.min_writer_version > WRITER_VERSION or refused:
        raise _error(protocol, table, "written", tuple(refused))


def upgraded(protocol: ProtocolAction, needed: frozenset[str]) -> ProtocolAction:
    """The protocol with `needed` added; versions never fall and no feature is dropped."""
    missing = _with_required(needed) - features_of(protocol)
    if not missing:
        return protocol
    features = features_of(protocol) | missing
    for_readers = sorted(name for name in features if name in FEATURES and FEATURES[name].reader)
    named_readers = (
        any(FEATURES[name].legacy is None for name in for_readers) or protocol.min_reader_version == READER_VERSION
    )
    reader_version = READER_VERSION if named_readers else max(protocol.min_reader_version, 2 if for_readers else 1)
    return ProtocolAction(
        min_reader_version=reader_version,
        min_writer_version=WRITER_VERSION,
        reader_features=tuple(for_readers) if reader_version == READER_VERSION else msgspec.UNSET,
        writer_features=tuple(sorted(features)),
    )


def require_upgrade_allowed(protocol: ProtocolAction, needed: frozenset[str], table: str, operation: str) -> None:
    """Raise naming the features that an upgrade would add."""
    missing = _with_required(needed) - features_of(protocol)
    if missing:
        raise ProtocolUpgradeNeededError(table, operation, tuple(sorted(missing)))


def _with_required(names: frozenset[str]) -> frozenset[str]:
    return names.union(*(FEATURES[name].requires for name in names if name in FEATURES))


def _listed(features: tuple[str, ...] | msgspec.UnsetType | None) -> tuple[str, ...]:
    return features if isinstance(features, tuple) else ()


def _error(protocol: ProtocolAction, table: str, access: str, unknown: tuple[str, ...]) -> ProtocolVersionError:
    required = f"minReaderVersion {protocol.min_reader_version}, minWriterVersion {protocol.min_writer_version}"
    features = features_of(protocol)
    if features:
        required += f" with the features {', '.join(sorted(features))}"
    known = sorted(
        name for name, feature in FEATURES.items() if (feature.readable if access == "read" else feature.writable)
    )
    supported = f"minReaderVersion {READER_VERSION}, minWriterVersion {WRITER_VERSION} with {', '.join(known)}"
    return ProtocolVersionError(table, access, required, supported, unknown)
