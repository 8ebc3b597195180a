"""Where the tables of these tests lie: on the local disk, or on the object store that `make test-s3` starts."""

from __future__ import annotations

import os
from uuid import uuid4

import pytest

from tests.concurrency.crew import ENDPOINT, ON_A_STORE, Places


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """A place for copies of tables."""
    if not ON_A_STORE:
        return Places(str(tmp_path_factory.mktemp("places")), None)
    options = {
        "AWS_ENDPOINT_URL": os.environ[ENDPOINT],
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": os.environ["TABLESPEC_S3_USER"],
        "AWS_SECRET_ACCESS_KEY": os.environ["TABLESPEC_S3_PASSWORD"],
        "AWS_REGION": "us-east-1",
    }
    return Places(f"s3://tables/{uuid4().hex}", options)
