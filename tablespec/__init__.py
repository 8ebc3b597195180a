"""tablespec: one table API over Delta Lake and Apache Hudi tables, free of any engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version

import pyarrow as pa

from tablespec.arrow.stream import ArrowStream, source_errors
from tablespec.catalog import Catalog, Catalogs, NewTable, create_at, open_at
from tablespec.errors import (
    InstantNotFoundError,
    InvalidOptionError,
    SchemaMismatchError,
    SourceFailedError,
    TableExistsError,
    TableNotFoundError,
    TableSpecError,
    TableSpecWarning,
    UnsupportedByEngineError,
    UnsupportedOperatorError,
    UnsupportedTableError,
)
from tablespec.expr.filters import from_filter
from tablespec.expr.nodes import (
    And,
    Column,
    Compare,
    In,
    IsNull,
    Literal,
    Match,
    Not,
    Op,
    Operand,
    Or,
    Predicate,
    Scalar,
    Text,
    TextTest,
    all_of,
    columns_of,
)
from tablespec.expr.tokenizer import TOKENIZERS, match
from tablespec.formats.base import JudgedSlice, NewFile, OpenOptions, Profile, Survey
from tablespec.formats.detect import UNFINISHED
from tablespec.index.build import Refreshed
from tablespec.index.catalog import Coverage, TableIndex
from tablespec.index.record import RecordIndex
from tablespec.maintain.cluster import Clustering
from tablespec.maintain.compact import Compacting
from tablespec.maintain.rewrite import RewriteResult
from tablespec.maintain.skip import COOLDOWN
from tablespec.model.file import FileSlice
from tablespec.model.instant import Instant, Timeline
from tablespec.model.reading import Cdc, Incremental, ReadingMode, ReadOptimized, Snapshot
from tablespec.model.schema import (
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    Primitive,
    Schema,
    StructType,
    types_in,
)
from tablespec.read.changes import ChangeScan
from tablespec.read.file_index import At, Filters
from tablespec.read.incremental import IncrementalScan
from tablespec.read.scan import Scan
from tablespec.sql.query import changed_table, names_in
from tablespec.sql.run import Queries, Tables, run_statement
from tablespec.storage.store import Storage
from tablespec.table import Table
from tablespec.txn.transaction import Retries
from tablespec.write.append import Appended, Appending, AppendPlan
from tablespec.write.authorize import ANONYMOUS, Authorizer, PolicyFile, Privilege, access_to
from tablespec.write.change_target import RowOp
from tablespec.write.clauses import (
    when_matched_delete,
    when_matched_update,
    when_not_matched_by_source_delete,
    when_not_matched_by_source_update,
    when_not_matched_insert,
)
from tablespec.write.execution import Changing, Strategy
from tablespec.write.fragment import Fragment
from tablespec.write.merge_plan import Clause, KeyValues
from tablespec.write.merge_sink import MergeSink, RowChangeParadigm
from tablespec.write.merge_spread import SpreadMerge, SpreadSource, TableRows
from tablespec.write.page_source import UpdatablePageSource
from tablespec.write.replace_where import ReplaceOptions
from tablespec.write.row_change import ChangeHandle, ChangeResult
from tablespec.write.rows import KeyedRows, RowWriter
from tablespec.write.update import Assignments

__all__ = [
    "COOLDOWN",
    "TOKENIZERS",
    "UNFINISHED",
    "And",
    "AppendPlan",
    "Appended",
    "Appending",
    "ArrayType",
    "ArrowStream",
    "Assignments",
    "At",
    "Authorizer",
    "Catalog",
    "Catalogs",
    "Cdc",
    "ChangeHandle",
    "ChangeResult",
    "ChangeScan",
    "Changing",
    "Clause",
    "Clustering",
    "Column",
    "Compacting",
    "Compare",
    "Coverage",
    "DataType",
    "DecimalType",
    "Field",
    "FileSlice",
    "Filters",
    "Fragment",
    "In",
    "Incremental",
    "IncrementalScan",
    "Instant",
    "InstantNotFoundError",
    "InvalidOptionError",
    "IsNull",
    "JudgedSlice",
    "KeyValues",
    "KeyedRows",
    "Literal",
    "MapType",
    "Match",
    "MergeSink",
    "NewFile",
    "Not",
    "Op",
    "OpenOptions",
    "Operand",
    "Or",
    "PolicyFile",
    "Predicate",
    "Primitive",
    "Privilege",
    "Profile",
    "Queries",
    "ReadOptimized",
    "ReadingMode",
    "RecordIndex",
    "Refreshed",
    "ReplaceOptions",
    "Retries",
    "RewriteResult",
    "RowChangeParadigm",
    "RowOp",
    "RowWriter",
    "Scalar",
    "Scan",
    "Schema",
    "SchemaMismatchError",
    "Snapshot",
    "SourceFailedError",
    "SpreadMerge",
    "SpreadSource",
    "Storage",
    "Strategy",
    "StructType",
    "Survey",
    "Table",
    "TableExistsError",
    "TableIndex",
    "TableNotFoundError",
    "TableRows",
    "TableSpecError",
    "TableSpecWarning",
    "Tables",
    "Text",
    "TextTest",
    "Timeline",
    "UnsupportedByEngineError",
    "UnsupportedOperatorError",
    "UnsupportedTableError",
    "UpdatablePageSource",
    "all_of",
    "changed_table",
    "columns_of",
    "create_table",
    "from_filter",
    "match",
    "names_in",
    "open_table",
    "source_errors",
    "sql",
    "types_in",
    "when_matched_delete",
    "when_matched_update",
    "when_not_matched_by_source_delete",
    "when_not_matched_by_source_update",
    "when_not_matched_insert",
]
__version__ = version("tablespec")


def open_table(
    url: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Sequence[str] = (),
    check_protocol: bool = True,
    authorizer: Authorizer | None = None,
    principal: str = ANONYMOUS,
    options: OpenOptions = OpenOptions(),
) -> Table:
    """The table at a path or URL, in whatever format it is.

    `allowed_roots` are places outside of the table whose files its log may name. `check_protocol=False` reads tables that this
    release does not know how to read rightly; it is for looking at them, not for trusting them, and never lets one write.
    `options` choose how Hudi tables are read.
    An authorizer is asked for SELECT now, and for what each verb needs on behalf of the principal.
    """
    storage = Storage.at(url, storage_options, allowed_roots)
    access = access_to(storage.url, authorizer, principal)
    return open_at(storage, access, check_protocol=check_protocol, options=options)


def create_table(
    url: str,
    schema: Schema | pa.Schema,
    *,
    partition_by: Sequence[str] = (),
    key: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    profile: Profile = Profile.OPEN,
    storage_options: Mapping[str, str] | None = None,
    authorizer: Authorizer | None = None,
    principal: str = ANONYMOUS,
) -> Table:
    """A new table in the native format; `key` names the columns that identify a record."""
    storage = Storage.at(url, storage_options)
    new = NewTable.of(schema, partition_by, key, properties, profile)
    return create_at(storage, access_to(storage.url, authorizer, principal), new)


def sql(statement: str, catalog: Tables, *, data_columns: bool = False, queries: Queries | None = None) -> ChangeResult:
    """Run a DELETE, UPDATE, INSERT or MERGE on tables of a catalog.

    `data_columns` lets INSERT INTO ... REPLACE WHERE look at other columns than those of the partitions. Queries are the engines' matter:
    one hands over `queries` to answer those that INSERT and MERGE take their rows from.
    """
    return run_statement(statement, catalog, data_columns=data_columns, queries=queries)
