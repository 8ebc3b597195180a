"""The files of a scan, as Spark's planner asks for them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from urllib.parse import urlsplit

import attrs

from tablespec import FileSlice, ReadOptimized, Scan, TableSpecError
from tablespec_spark.expressions import necessary

# How Hadoop spells the schemes of stores.
SCHEMES = {"file": "file", "s3": "s3a", "gs": "gs", "abfss": "abfss"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@attrs.frozen(eq=False)
class CleanFiles:
    """Lists the files of a scan that have no deleted rows, or all of them where the scan leaves deletions aside."""

    scan: Scan

    def partitions(self, filters: str) -> Sequence[tuple[tuple[object, ...], Sequence[FileSlice]]]:
        """The files that may match Spark's filters, by partition."""
        everything = isinstance(self.scan.mode, ReadOptimized)
        found: dict[tuple[object, ...], list[FileSlice]] = {}
        for slice_ in matching_slices(self.scan, filters):
            if slice_.base is not None and (everything or slice_.deletes is None):
                found.setdefault(slice_.partition_values, []).append(slice_)
        return list(found.items())

    def __call__(self, filters: str) -> bytes:
        """The same, packed."""
        return packed(self.scan, self.partitions(filters))


@attrs.frozen(eq=False)
class DeletedFiles:
    """Lists the files of a scan that have deleted rows, each as a partition of its own with the numbers of its rows.

    Without filters all of them are listed, since counts rely on it.
    """

    scan: Scan
    files: Mapping[str, tuple[FileSlice, range]]

    def partitions(self, filters: str) -> Sequence[tuple[tuple[object, ...], Sequence[FileSlice]]]:
        """The files that may match Spark's filters."""
        paths = (
            self.files
            if filters == "[]"
            else [slice_.base.path for slice_ in matching_slices(self.scan, filters) if slice_.base]
        )
        return [
            ((*slice_.partition_values, numbers.start, len(numbers)), [slice_])
            for slice_, numbers in (self.files[path] for path in paths if path in self.files)
        ]

    def __call__(self, filters: str) -> bytes:
        """The same, packed."""
        return packed(self.scan, self.partitions(filters))


def matching_slices(scan: Scan, filters: str) -> list[FileSlice]:
    """The slices of a scan that may match Spark's filters too."""
    schema = scan.state.schema
    for filter_ in json.loads(filters):
        try:
            scan = scan.where(necessary([filter_], schema))
        except TableSpecError:
            # A comparison that makes no sense for our types: Spark applies it by itself.
            continue
    return [judged.slice for judged in scan.slices]


def packed(scan: Scan, partitions: Iterable[tuple[tuple[object, ...], Sequence[FileSlice]]]) -> bytes:
    """Partitions with their values and files, in the form that `TableFileIndex` reads."""
    found = list(partitions)
    parts = [struct.pack(">i", len(found))]
    for values, slices in found:
        parts += [_packed_value(value) for value in values]
        parts.append(struct.pack(">i", len(slices)))
        for slice_ in slices:
            if slice_.base is not None:
                parts.append(_packed_bytes(hadoop_path(scan, slice_.base.path).encode()))
                parts.append(struct.pack(">qq", slice_.base.size, slice_.base.modified))
    return b"".join(parts)


def hadoop_path(scan: Scan, path: str) -> str:
    """Where Spark finds a file of the table."""
    storage = scan.storage
    if path.startswith(("/", "file:/")) or "://" in path:
        # Raises where the table must not name files outside of it.
        storage.local_path(path)
        return hadoop_url(path)
    return f"{hadoop_url(storage.url)}/{path}"


def hadoop_url(url: str) -> str:
    """A URL in the spelling of Hadoop."""
    scheme, separator, rest = url.partition("://")
    return f"{SCHEMES.get(scheme, scheme)}{separator}{rest}"


def has_hadoop_url(url: str) -> bool:
    """Whether Spark can reach the store by itself."""
    return urlsplit(url).scheme in SCHEMES


def _packed_bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _packed_value(value: object) -> bytes:
    return b"\x00" if value is None else b"\x01" + _packed_bytes(_stored_value(value))


def _stored_value(value: object) -> bytes:
    """A partition value as Spark holds it: days, microseconds, the text of everything else."""
    match value:
        case bytes():
            return value
        case bool():
            return b"true" if value else b"false"
        case datetime():
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            return str((aware - _EPOCH) // timedelta(microseconds=1)).encode()
        case date():
            return str((value - date(1970, 1, 1)).days).encode()
        case Decimal():
            return format(value, "f").encode()
        case float():
            return str(value).replace("inf", "Infinity").replace("nan", "NaN").encode()
        case _:
            return str(value).encode()
