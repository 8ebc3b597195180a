"""The names of base and log files, taken apart."""

from __future__ import annotations

import re

import attrs

from tablespec.formats.hudi.instant_time import instant_number

# They are written so that Arrow reads them in the same way as Python does.
FILE_ID = ".+"
TOKEN = "[0-9]+-[0-9]+-[0-9]+"
ENDING = r"(?P<instant>[0-9]+)\.(?P<extension>parquet|orc|hfile|lance)"
BASE = re.compile(rf"(?P<file_id>{FILE_ID})_(?P<token>{TOKEN})_{ENDING}")
LOG = re.compile(
    rf"\.(?P<file_id>[^._]+)_(?P<instant>[0-9]+)\.log\.(?P<version>[0-9]+)(?:_(?P<token>{TOKEN})(?P<cdc>\.cdc)?)?"
)
# Log files that Hudi may write one day, visible and in columns.
NATIVE_LOG = re.compile(rf".+_{TOKEN}_[0-9]+_[0-9]+\.(?:log|delete|cdc)\.[a-z]+")


@attrs.frozen(kw_only=True)
class BaseFileName:
    """What the name of a base file says: its group, who wrote it, when, and in which file format."""

    file_id: str
    write_token: str
    instant: int
    extension: str


@attrs.frozen(kw_only=True)
class LogFileName:
    """What the name of a log file says.

    `instant` is the base instant of the slice in table version 6 and the instant of the writer from version 8 on.
    """

    file_id: str
    instant: int
    version: int
    write_token: str
    is_cdc: bool


def parse_base_file_name(name: str) -> BaseFileName | None:
    """The parts of the name of a base file, or None for any other file."""
    found = BASE.fullmatch(name)
    if found is None:
        return None
    return BaseFileName(
        file_id=found["file_id"],
        write_token=found["token"],
        instant=instant_number(found["instant"]),
        extension=found["extension"],
    )


def parse_log_file_name(name: str) -> LogFileName | None:
    """The parts of the name of a log file, or None for any other file."""
    found = LOG.fullmatch(name)
    if found is None:
        return None
    return LogFileName(
        file_id=found["file_id"],
        instant=instant_number(found["instant"]),
        version=int(found["version"]),
        write_token=found["token"] or "",
        is_cdc=found["cdc"] is not None,
    )
