"""The places where every contract of storage must hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tablespec.storage.store import Storage


@pytest.fixture(scope="session")
def s3_options() -> Iterator[dict[str, str]]:
    """Options for an S3 server on loopback that has a bucket named `tables`."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }
    _client(options).create_bucket(Bucket="tables")
    yield options
    server.stop()


@pytest.fixture
def s3_client(s3_options: dict[str, str]):
    """The server of `s3_options` by other means than ours."""
    return _client(s3_options)


@pytest.fixture(params=["local", "memory", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """An empty place of each kind; its URL ends with `/table`."""
    match request.param:
        case "local":
            return Storage.at(f"{tmp_path}/table")
        case "memory":
            return Storage.at(f"memory://{uuid4().hex}/table")
        case _:
            return Storage.at(f"s3://tables/{uuid4().hex}/table", request.getfixturevalue("s3_options"))


def _client(options: dict[str, str]):
    return boto3.client(
        "s3",
        endpoint_url=options["AWS_ENDPOINT_URL"],
        aws_access_key_id=options["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=options["AWS_SECRET_ACCESS_KEY"],
        region_name=options["AWS_REGION"],
    )
