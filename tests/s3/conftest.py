"""The object store of `make test-s3`."""

from tests.concurrency.conftest import places

__all__ = ["places"]
