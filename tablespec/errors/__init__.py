"""Every error and warning that tablespec raises on purpose.

Fields are positional and the sentence is made in `__str__`, so that an error survives pickling on its way back from a worker.
"""

from __future__ import annotations

from tablespec.errors.commit import (
    CommitConflictError,
    CommitRetriesExhaustedError,
    ProtocolUpgradeNeededError,
    ProtocolVersionError,
)
from tablespec.errors.expression import (
    AmbiguousColumnError,
    ColumnNotFoundError,
    InvalidPredicateError,
    InvalidStatementError,
    TypeMismatchError,
    UnsupportedOperatorError,
    ValueOverflowError,
)
from tablespec.errors.root import (
    TableSpecError,
    TableSpecWarning,
)
from tablespec.errors.rows import (
    AppendOnlyTableError,
    ConstraintViolatedError,
    FullTableChangeError,
    InvalidPageError,
    InvalidSchemaError,
    MultipleMatchesError,
    NonPartitionedTableError,
    NoRecordKeyError,
    PartitionColumnNotFoundError,
    ReplaceWhereMismatchError,
    SchemaMismatchError,
    UnsupportedConstraintError,
    UnsupportedTypeError,
)
from tablespec.errors.stored import (
    ChangesGoneError,
    CorruptFileError,
    CorruptLogError,
    DataFileMissingError,
    MissingLogError,
    PathOutsideTableError,
    StorageError,
    UnsupportedUrlError,
)
from tablespec.errors.table import (
    InstantNotFoundError,
    InvalidNameError,
    InvalidPolicyError,
    InvalidPropertyError,
    MissingExtraError,
    NotATableError,
    NotAuthorizedError,
    ReadOnlyFormatError,
    ShortRetentionError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedTableError,
)

__all__ = [
    "AmbiguousColumnError",
    "AppendOnlyTableError",
    "ChangesGoneError",
    "ColumnNotFoundError",
    "CommitConflictError",
    "CommitRetriesExhaustedError",
    "ConstraintViolatedError",
    "CorruptFileError",
    "CorruptLogError",
    "DataFileMissingError",
    "FullTableChangeError",
    "InstantNotFoundError",
    "InvalidNameError",
    "InvalidPageError",
    "InvalidPolicyError",
    "InvalidPredicateError",
    "InvalidPropertyError",
    "InvalidSchemaError",
    "InvalidStatementError",
    "MissingExtraError",
    "MissingLogError",
    "MultipleMatchesError",
    "NoRecordKeyError",
    "NonPartitionedTableError",
    "NotATableError",
    "NotAuthorizedError",
    "PartitionColumnNotFoundError",
    "PathOutsideTableError",
    "ProtocolUpgradeNeededError",
    "ProtocolVersionError",
    "ReadOnlyFormatError",
    "ReplaceWhereMismatchError",
    "SchemaMismatchError",
    "ShortRetentionError",
    "StorageError",
    "TableExistsError",
    "TableNotFoundError",
    "TableSpecError",
    "TableSpecWarning",
    "TypeMismatchError",
    "UnsupportedConstraintError",
    "UnsupportedOperatorError",
    "UnsupportedTableError",
    "UnsupportedTypeError",
    "UnsupportedUrlError",
    "ValueOverflowError",
]
