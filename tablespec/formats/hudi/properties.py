"""The file hoodie.properties: what a table says about itself."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping

import attrs

from tablespec.errors import CorruptLogError, UnsupportedTableError
from tablespec.storage.store import Storage

PROPERTIES = ".hoodie/hoodie.properties"
BACKUP = ".hoodie/hoodie.properties.backup"
VERSIONS = (6, 8, 9)

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_KEY_END = re.compile(r"(?<!\\)((?:\\\\)*)[ \t\f]*[=: \t\f][ \t\f]*")


@attrs.frozen(kw_only=True)
class TableProperties:
    """The properties that a reader needs, with Hudi's defaults filled in, and all entries as they stand.

    `key_generator` is a Java class in version 6 and a type such as SIMPLE from version 8 on; empty where the table does
    not say.
    """

    entries: tuple[tuple[str, str], ...]
    name: str
    version: int
    is_merge_on_read: bool
    base_file_format: str
    create_schema: str
    record_key: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    key_generator: str
    hive_style: bool
    url_encoded: bool
    meta_fields: bool
    timeline_folder: str
    history_folder: str
    archive_folder: str

    @property
    def layout(self) -> int:
        """The layout of the timeline: 1 up to version 7, 2 from version 8 on."""
        return 2 if self.version >= 8 else 1


def load_properties(storage: Storage) -> TableProperties:
    """The properties of the table; refuses tables that this release would misread.

    While a writer replaces the file it may be missing or cut short, and its backup holds: a wrong checksum tells.
    """
    entries = _load_entries(storage)
    try:
        properties = table_properties(entries)
    except ValueError as error:
        raise CorruptLogError(storage.url, PROPERTIES, 0, str(error)) from error
    for feature, way_out in unsupported(properties):
        raise UnsupportedTableError(storage.url, feature, way_out)
    return properties


def parse_properties(text: str) -> tuple[tuple[str, str], ...]:
    """The entries of a Java properties file in order, its escapes undone; of a key given twice the last one holds."""
    return tuple(dict(_entry(line) for line in _logical_lines(text)).items())


def table_checksum(entries: Mapping[str, str]) -> int:
    """The checksum that the entries must carry; it covers the names of database and table alone."""
    return zlib.crc32(f"{entries.get('hoodie.database.name', '')}.{entries.get('hoodie.table.name', '')}".encode())


def table_properties(entries: tuple[tuple[str, str], ...]) -> TableProperties:
    """The typed properties of the entries; raises ValueError when the version or the type of the table is missing."""
    found = dict(entries)
    version = int(_required(found, "hoodie.table.version"))
    table_type = found.get("hoodie.table.type", "COPY_ON_WRITE").upper()
    if table_type not in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        raise ValueError(f"the table type {table_type} is unknown")
    generator = found.get("hoodie.table.keygenerator.type") or found.get("hoodie.table.keygenerator.class", "")
    file_format = found.get("hoodie.table.base.file.format") or found.get("hoodie.table.ro.file.format") or "PARQUET"
    timeline = found.get("hoodie.timeline.path") or "timeline"
    return TableProperties(
        entries=entries,
        name=found.get("hoodie.table.name", ""),
        version=version,
        is_merge_on_read=table_type == "MERGE_ON_READ",
        base_file_format=file_format.upper(),
        create_schema=found.get("hoodie.table.create.schema", ""),
        record_key=_listed(found.get("hoodie.table.recordkey.fields", "")),
        ordering_fields=_listed(
            found.get("hoodie.table.ordering.fields") or found.get("hoodie.table.precombine.field", "")
        ),
        partition_fields=_listed(found.get("hoodie.table.partition.fields", "")),
        key_generator=generator,
        hive_style=_flag(found, "hoodie.datasource.write.hive_style_partitioning", default=False),
        url_encoded=_flag(found, "hoodie.datasource.write.partitionpath.urlencode", default=False),
        meta_fields=_flag(found, "hoodie.populate.meta.fields", default=True),
        # Before version 8 the instants lie in .hoodie itself, between everything else.
        timeline_folder=f".hoodie/{timeline}" if version >= 8 else ".hoodie",
        history_folder=f".hoodie/{timeline}/{found.get('hoodie.timeline.history.path') or 'history'}",
        archive_folder=f".hoodie/{found.get('hoodie.archivelog.folder') or 'archived'}",
    )


def unsupported(properties: TableProperties) -> Iterator[tuple[str, str]]:
    """Everything about a table that this release refuses to read, each with a way out."""
    entries = dict(properties.entries)
    if properties.version not in VERSIONS:
        yield f"Hudi table version {properties.version}", "upgrade it with Hudi to version 6, 8 or 9"
    if properties.base_file_format != "PARQUET":
        yield f"{properties.base_file_format} base files", "Parquet base files can be read"
    if entries.get("hoodie.bootstrap.base.path"):
        yield "a bootstrap base path", "rewrite the bootstrapped files with Hudi's clustering"
    if entries.get("hoodie.table.format", "native") != "native":
        yield f"the table format plugin {entries['hoodie.table.format']}", ""
    if entries.get("hoodie.table.storage.layout", "default").lower() != "default":
        yield f"the storage layout {entries['hoodie.table.storage.layout']}", ""
    if _flag(entries, "hoodie.datasource.write.drop.partition.columns", default=False):
        yield "data files without their partition columns", "write it with drop.partition.columns=false"


def _load_entries(storage: Storage) -> tuple[tuple[str, str], ...]:
    why = "it is missing, and so is its backup"
    for path in (PROPERTIES, BACKUP):
        try:
            entries = parse_properties(storage.read(path).decode("latin-1"))
        except FileNotFoundError:
            continue
        found, wanted = dict(entries).get("hoodie.table.checksum", "missing"), table_checksum(dict(entries))
        if found == str(wanted):
            return entries
        why = f"its checksum is {found} and should be {wanted}, and no sound backup stands beside it"
    raise CorruptLogError(storage.url, PROPERTIES, 0, why)


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for line in re.split(r"\r\n|\r|\n", text):
        stripped = line.lstrip(" \t\f")
        if not pending and (not stripped or stripped[0] in "#!"):
            continue
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        if backslashes % 2:
            pending += stripped[:-1]
            continue
        yield pending + stripped
        pending = ""
    if pending:
        yield pending


def _entry(line: str) -> tuple[str, str]:
    end = _KEY_END.search(line)
    if end is None:
        return _unescape(line), ""
    return _unescape(line[: end.end(1)]), _unescape(line[end.end() :])


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPES.get(found[2], found[2]), text)


def _required(entries: Mapping[str, str], key: str) -> str:
    if not entries.get(key):
        raise ValueError(f"the property {key} is missing")
    return entries[key]


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _flag(entries: Mapping[str, str], key: str, *, default: bool) -> bool:
    return entries.get(key, str(default)).strip().lower() == "true"
