"""The hidden columns of every table that can tell them: they are read when named, and never show up otherwise."""

from __future__ import annotations

from tablespec.model.schema import LONG, STRING, Field, Schema

ROW_ID = "_row_id"
ROW_COMMIT_VERSION = "_row_commit_version"
FILE = "_file"
POSITION = "_position"

# Where a row lies: its file, as the log spells it, and its position in it.
PHYSICAL = (Field(name=FILE, type=STRING), Field(name=POSITION, type=LONG))


def hidden_columns(schema: Schema, row_id: str, row_commit_version: str) -> Schema:
    """The hidden columns of a table; a column of the table with such a name hides the hidden one.

    `row_id` and `row_commit_version` name the columns of files in which rows that were moved or changed keep theirs.
    """
    tracked = (
        Field(name=ROW_ID, type=LONG, physical_name=row_id),
        Field(name=ROW_COMMIT_VERSION, type=LONG, physical_name=row_commit_version),
    )
    return Schema(tuple(field for field in (*tracked, *PHYSICAL) if field.name not in schema))
