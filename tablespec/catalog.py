"""Finding and making tables: by their place, or by their name in a warehouse."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import attrs
import pyarrow as pa

from tablespec.arrow.schema import columns_of
from tablespec.errors import (
    InvalidNameError,
    InvalidOptionError,
    InvalidSchemaError,
    NotATableError,
    TableNotFoundError,
    UnsupportedByEngineError,
)
from tablespec.formats.base import OpenOptions, Profile
from tablespec.formats.detect import create_format, is_of_log, is_table, open_format
from tablespec.model.schema import Schema, column_names
from tablespec.sql.query import altered_tables
from tablespec.storage.store import Storage
from tablespec.table import Table
from tablespec.txn.transaction import new_operation_id
from tablespec.write.authorize import ANONYMOUS, Access, Authorizer, Privilege, chosen

RECORD_KEY = "tablespec.recordKey"

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@attrs.frozen(kw_only=True)
class NewTable:
    """What a table is made of; `key` names the columns that identify a record."""

    schema: Schema | pa.Schema
    partition_by: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    profile: Profile = Profile.OPEN

    @classmethod
    def of(
        cls,
        schema: Schema | pa.Schema,
        partition_by: Sequence[str],
        key: Sequence[str],
        properties: Mapping[str, str] | None,
        profile: Profile,
    ) -> NewTable:
        """A new table as its makers tell it; raises for names and properties in a shape that may mean something else."""
        if not isinstance(properties, Mapping | None):
            raise InvalidOptionError("properties", repr(properties), "names with values, such as {'owner': 'me'}")
        return cls(
            schema=schema,
            partition_by=column_names("partition_by", partition_by),
            key=column_names("key", key),
            properties=tuple((properties or {}).items()),
            profile=profile,
        )


def open_at(
    storage: Storage, access: Access, *, check_protocol: bool = True, options: OpenOptions = OpenOptions()
) -> Table:
    """The table at a place; asks for SELECT before it looks there."""
    access.check(Privilege.SELECT)
    return Table(open_format(storage, check_protocol=check_protocol, options=options), access)


def create_at(storage: Storage, access: Access, new: NewTable) -> Table:
    """A new table in the native format; asks for INSERT before it looks there."""
    access.check(Privilege.INSERT)
    if not isinstance(new.profile, Profile):
        raise InvalidOptionError("profile", repr(new.profile), " or ".join(map(str, Profile)))
    columns = columns_of(new.schema)
    named = dict(new.properties)
    if new.key:
        named[RECORD_KEY] = _record_key(columns, new.key)
    format_ = create_format(storage, columns, new.partition_by, tuple(named.items()), new_operation_id(), new.profile)
    return Table(format_, access)


def _record_key(columns: Schema, key: tuple[str, ...]) -> str:
    """How the properties of a table name its record key."""
    names = [columns.field(name).name for name in key]
    for name in names:
        if "," in name:
            raise InvalidSchemaError(
                f"the column {name!r} cannot be part of a record key: a comma tells its columns apart"
            )
    return ",".join(names)


@attrs.frozen(init=False)
class Catalog:
    """The tables below a warehouse: the one called `db.table` lies in the folder `db/table`.

    There is nothing but the folders: a table that anybody puts there has a name, and one that is gone has none. Names are
    taken as they are written, capitals and all.
    """

    storage: Storage
    authorizer: Authorizer
    principal: str

    def __init__(
        self,
        warehouse: str,
        storage_options: Mapping[str, str] | None = None,
        authorizer: Authorizer | None = None,
        principal: str = ANONYMOUS,
    ) -> None:
        self.__attrs_init__(Storage.at(warehouse, storage_options), chosen(authorizer), principal)

    def load(self, name: str) -> Table:
        """The table of that name; asks for SELECT."""
        return open_at(self._place(name), self._access(name))

    def create_table(
        self,
        name: str,
        schema: Schema | pa.Schema,
        *,
        partition_by: Sequence[str] = (),
        key: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        profile: Profile = Profile.OPEN,
    ) -> Table:
        """A new table of that name, in the native format; asks for INSERT."""
        new = NewTable.of(schema, partition_by, key, properties, profile)
        return create_at(self._place(name), self._access(name), new)

    def exists(self, name: str) -> bool:
        """Whether there is a table of that name."""
        return is_table(self._place(name))

    def list(self, database: str | None = None) -> tuple[str, ...]:
        """The names of all tables, or of those of one database, in order."""
        if database is not None and not _IDENTIFIER.fullmatch(database):
            raise InvalidNameError(f"{database}.*")
        databases = self._folders("") if database is None else [database]
        names = [f"{one}.{table}" for one in databases for table in self._folders(one)]
        return tuple(name for name in names if is_table(self._place(name)))

    def databases(self) -> tuple[str, ...]:
        """The databases that hold a table, in order."""
        return tuple(dict.fromkeys(name.partition(".")[0] for name in self.list()))

    def drop(self, name: str) -> None:
        """Remove a table and every file in its folder, for good; asks for DELETE.

        Raises TableNotFoundError or NotATableError where there is no table, and removes nothing then. When it is interrupted it can be
        called again: the log goes last.
        """
        place = self._place(name)
        self._access(name).check(Privilege.DELETE)
        paths = [file.path for file in place.list()]
        if not is_table(place):
            raise NotATableError(place.url) if paths else TableNotFoundError(place.url)
        for path in sorted(paths, key=is_of_log):
            place.delete(path)

    def _access(self, name: str) -> Access:
        return Access(authorizer=self.authorizer, principal=self.principal, table=name)

    def _place(self, name: str) -> Storage:
        database, _, table = name.partition(".")
        if not _IDENTIFIER.fullmatch(database) or not _IDENTIFIER.fullmatch(table):
            raise InvalidNameError(name)
        return attrs.evolve(self.storage, url=f"{self.storage.url}/{database}/{table}")

    def _folders(self, folder: str) -> Sequence[str]:
        folders, _ = self.storage.list_folder(folder)
        names = [path.rstrip("/").rpartition("/")[2] for path in folders]
        return sorted(name for name in names if _IDENTIFIER.fullmatch(name))


@attrs.frozen
class Catalogs:
    """Catalogs by name: `lake.db.trips` is the table `db.trips` of the one called lake."""

    named: tuple[tuple[str, Catalog], ...] = ()

    def load(self, name: str) -> Table:
        """The table of that name; asks for SELECT."""
        catalog, _, table = name.partition(".")
        found = dict(self.named).get(catalog)
        if found is None:
            raise InvalidNameError(name)
        return found.load(table)

    def has(self, name: tuple[str, ...] | None) -> bool:
        """Whether a name, in parts, begins with that of a catalog."""
        return name is not None and len(name) > 1 and name[0] in dict(self.named)

    def check_unaltered(self, text: str, engine: str) -> None:
        """Raise for statements that an engine would run on what stands for tables of these catalogs, which would stay as they are."""
        altered = next((name for name in altered_tables(text) if self.has(name)), None)
        if altered is not None:
            what = (
                f"make, change or remove {'.'.join(altered)}, which belongs to an attached catalog, by this statement"
            )
            way_out = (
                "begin it with DELETE, UPDATE, INSERT or MERGE to change rows, one statement at a time, "
                "and make and remove tables by the catalog"
            )
            raise UnsupportedByEngineError(engine, what, way_out)

    def find(self, name: tuple[str, ...]) -> Table | None:
        """The table that the first three parts of a name stand for, asking for SELECT; None where there is no such table."""
        if len(name) < 3 or not self.has(name):
            return None
        catalog, table = dict(self.named)[name[0]], ".".join(name[1:3])
        return catalog.load(table) if catalog.exists(table) else None

    def with_catalog(self, name: str, catalog: Catalog) -> Catalogs:
        """These and one more, which takes the place of one of the same name."""
        if not _IDENTIFIER.fullmatch(name):
            raise InvalidNameError(name)
        return Catalogs((*((other, one) for other, one in self.named if other != name), (name, catalog)))
