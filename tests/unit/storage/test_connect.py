"""How options reach the stores."""

from __future__ import annotations

import pytest
from obstore.store import AzureStore, GCSStore, S3Store

from tablespec.errors import UnsupportedUrlError
from tablespec.storage.connect import connect
from tablespec.storage.store import Storage


@pytest.mark.parametrize(
    ("root", "options", "kind"),
    [
        ("s3://bucket", {}, S3Store),
        ("s3://bucket", {"AWS_REGION": "eu-west-1", "aws_conditional_put": "etag"}, S3Store),
        ("gs://bucket", {"GOOGLE_SKIP_SIGNATURE": "true", "timeout": "5s"}, GCSStore),
        ("az://container", {"account_name": "account", "azure_timeout": "5s"}, AzureStore),
        ("abfss://container@account.dfs.core.windows.net", {"AZURE_STORAGE_ACCOUNT_KEY": "Zm9v"}, AzureStore),
        ("abfss://container@account.dfs.core.windows.net", {"account_name": "account"}, AzureStore),
    ],
)
def test_each_scheme_has_its_store(root: str, options: dict[str, str], kind: type) -> None:
    assert isinstance(connect(root, options), kind)


def test_client_options_are_found_in_every_spelling() -> None:
    store = connect("s3://bucket", {"AWS_ALLOW_HTTP": "true", "Timeout": "7s", "aws_region": "eu-west-1"})

    assert isinstance(store, S3Store)
    assert store.client_options == {"allow_http": "true", "timeout": "7s"}
    assert store.config == {"bucket": "bucket", "region": "eu-west-1"}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"colour": "blue"}, "colour"),
        ({"AWS_S3_LOCKING_PROVIDER": "dynamodb"}, "aws_s3_locking_provider"),
        ({"timeout": "soon"}, "soon"),
        ({"max_retries": "many"}, "max_retries is 'many'"),
    ],
)
def test_an_option_that_means_nothing_is_refused_by_name(options: dict[str, str], why: str) -> None:
    storage = Storage.at("s3://bucket/table", options)

    with pytest.raises(UnsupportedUrlError, match=why):
        storage.read("a")


def test_a_memory_is_known_by_its_name() -> None:
    Storage.at("memory://connect-one/t").put("a", b"1")

    assert Storage.at("memory://connect-one").read("t/a") == b"1"
    assert list(Storage.at("memory://connect-two").list()) == []
