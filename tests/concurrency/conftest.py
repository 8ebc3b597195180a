"""The object store of the contracts serves these tests too."""

from tests.contracts.conftest import s3_options

__all__ = ["s3_options"]
