"""Commits put into the log, and what became of them."""

from __future__ import annotations

from tablespec.errors import StorageError
from tablespec.formats.delta.codec import decode_commit
from tablespec.formats.delta.history import operation_id
from tablespec.formats.delta.log import commit_path, list_log
from tablespec.storage.store import Storage


def put_commit(storage: Storage, version: int, data: bytes, wanted: str) -> bool:
    """Whether a commit became this version; where the store did not say, the operation id in the log does."""
    try:
        if storage.put_if_absent(commit_path(version), data):
            return True
    except StorageError:
        found = _operation_id(storage, version)
        if found is None:
            raise
        return found == wanted
    # A retry inside the store's client may find the file of its own first attempt.
    return _operation_id(storage, version) == wanted


def time_of_commit(storage: Storage, version: int, otherwise: int) -> int:
    """When the file of a durable commit was written, in milliseconds; `otherwise` where the store does not say."""
    try:
        # As timelines do: some stores tell full seconds about one file, and more in listings.
        files = dict(list_log(storage, start=version).commits)
    except StorageError:
        # The commit is durable; its caller must not take it for failed.
        return otherwise
    return files[version].modified if version in files else otherwise


def _operation_id(storage: Storage, version: int) -> str | None:
    try:
        data = storage.read(commit_path(version))
    except FileNotFoundError:
        return None
    return operation_id(decode_commit(data, storage.url, commit_path(version)))
