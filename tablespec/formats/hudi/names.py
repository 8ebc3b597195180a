"""The names of base and log files, taken apart."""

from __future__ import annotations

import re

import attrs

from tablespec.formats.hudi.instant_time import instant_number

_BASE = re.compile(r"(?P<file_id>.+)_(?P<token>\d+-\d+-\d+)_(?P<instant>\d+)\.(?P<extension>parquet|orc|hfile|lance)")
_LOG = re.compile(
    r"\.(?P<file_id>[^._]+)_(?P<instant>\d+)\.log\.(?P<version>\d+)(?:_(?P<token>\d+-\d+-\d+)(?P<cdc>\.cdc)?)?"
)
# Log files that Hudi may write one day, visible and in columns.
_NATIVE_LOG = re.compile(r".+_\d+-\d+-\d+_\d+_\d+\.(?:log|delete|cdc)\.[a-z]+")


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


def is_native_log(name: str) -> bool:
    """Whether a file is a log file of a format that is not known yet."""
    return name.count(".") > 1 and _NATIVE_LOG.fullmatch(name) is not None


def parse_base_file_name(name: str) -> BaseFileName | None:
    """The parts of the name of a base file, or None for any other file."""
    found = _BASE.fullmatch(name)
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
    found = _LOG.fullmatch(name)
    if found is None:
        return None
    return LogFileName(
        file_id=found["file_id"],
        instant=instant_number(found["instant"]),
        version=int(found["version"]),
        write_token=found["token"] or "",
        is_cdc=found["cdc"] is not None,
    )
