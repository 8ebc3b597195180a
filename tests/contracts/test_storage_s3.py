"""What holds for S3 beyond the contract of every storage."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

import pytest

from tablespec.errors import StorageError
from tablespec.storage.store import Storage


@pytest.fixture
def folder() -> str:
    """A folder of the bucket that no other test uses."""
    return uuid4().hex


def test_names_written_by_others_are_listed_and_read_literally(s3_options, s3_client, folder: str) -> None:
    names = ["p=a%2Fb/x y#1?é.parquet", "x%20y", "x+y"]
    for name in names:
        s3_client.put_object(Bucket="tables", Key=f"{folder}/{name}", Body=name.encode())
    storage = Storage.at(f"s3://tables/{folder}", s3_options)

    assert [info.path for info in storage.list()] == names
    assert [storage.read(name) for name in names] == [name.encode() for name in names]


def test_our_names_are_the_keys_that_others_see(s3_options, s3_client, folder: str) -> None:
    Storage.at(f"s3://tables/{folder}/a b%20", s3_options).put("p=a%2Fb/x y#1?é.parquet", b"")

    listed = s3_client.list_objects_v2(Bucket="tables", Prefix=folder)["Contents"]

    assert [entry["Key"] for entry in listed] == [f"{folder}/a b%20/p=a%2Fb/x y#1?é.parquet"]


def test_the_marker_of_a_folder_is_not_one_of_its_files(s3_options, s3_client, folder: str) -> None:
    for key in (f"{folder}/", f"{folder}/log/", f"{folder}/log/1"):
        s3_client.put_object(Bucket="tables", Key=key, Body=b"")
    storage = Storage.at(f"s3://tables/{folder}", s3_options)

    assert [info.path for info in storage.list("log")] == ["log/1"]
    assert storage.list_folder("") == (("log",), ())
    assert [info.path for info in storage.list_folder("log")[1]] == ["log/1"]


def test_an_abandoned_file_leaves_no_parts_behind(s3_options, s3_client, folder: str) -> None:
    storage = Storage.at(f"s3://tables/{folder}", s3_options)

    with pytest.raises(KeyError), storage.create("a") as file:
        file.write(bytes(25 << 20))
        raise KeyError
    dropped = storage.create("b")
    dropped.write(bytes(25 << 20))
    del dropped

    uploads = s3_client.list_multipart_uploads(Bucket="tables").get("Uploads", [])
    assert [upload["Key"] for upload in uploads if upload["Key"].startswith(folder)] == []


@pytest.mark.parametrize("scheme", ["s3a", "s3n", "S3"])
def test_every_spelling_of_the_scheme_means_the_same_place(s3_options, folder: str, scheme: str) -> None:
    storage = Storage.at(f"s3://tables/{folder}", s3_options)
    storage.put("a", b"1")

    assert Storage.at(f"{scheme}://tables/{folder}", s3_options) == storage
    assert storage.read(f"{scheme}://tables/{folder}/a") == b"1"


def test_options_may_be_spelled_as_obstore_does(s3_options, folder: str) -> None:
    plain = {
        "endpoint": s3_options["AWS_ENDPOINT_URL"],
        "allow_http": "true",
        "access_key_id": "test",
        "secret_access_key": "test",
        "region": "us-east-1",
        "timeout": "20s",
        "connect_timeout": "2s",
        "max_retries": "2",
    }

    Storage.at(f"s3://tables/{folder}", plain).put("a", b"1")

    assert Storage.at(f"s3://tables/{folder}", s3_options).read("a") == b"1"


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda storage: storage.put("a", b"1"), id="put"),
        pytest.param(lambda storage: storage.put_if_absent("a", b"1"), id="put_if_absent"),
        pytest.param(lambda storage: storage.create("a").close(), id="create"),
        pytest.param(lambda storage: list(storage.list()), id="list"),
        pytest.param(lambda storage: storage.list_folder(""), id="list_folder"),
    ],
)
def test_a_bucket_that_is_not_there_is_a_storage_error(s3_options, act) -> None:
    storage = Storage.at("s3://no-such-bucket/table", s3_options)

    with pytest.raises(StorageError, match=r"(?s)s3://no-such-bucket/table.*NoSuchBucket"):
        act(storage)


def test_a_store_out_of_reach_is_a_storage_error_in_few_words(s3_options) -> None:
    unreachable = {**s3_options, "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "max_retries": "0"}
    storage = Storage.at("s3://tables/t", unreachable)

    with pytest.raises(StorageError) as caught:
        storage.read("a")
    with pytest.raises(StorageError), storage.create("b") as file:
        file.write(bytes(25 << 20))

    assert caught.value.url == "s3://tables/t/a"
    assert "Debug source" not in str(caught.value)
    assert "test" not in str(caught.value)


def test_put_if_absent_is_false_for_an_own_file_whose_answer_was_lost(s3_options, folder: str) -> None:
    with losing_the_first_answer(s3_options["AWS_ENDPOINT_URL"]) as endpoint:
        storage = Storage.at(f"s3://tables/{folder}", {**s3_options, "AWS_ENDPOINT_URL": endpoint})

        assert not storage.put_if_absent("log/1", b"mine")

        assert storage.read("log/1") == b"mine"


@contextmanager
def losing_the_first_answer(endpoint: str) -> Iterator[str]:
    """The URL of a proxy before `endpoint` that hangs up when the first answer comes, and passes on all later ones."""
    host, port = endpoint.removeprefix("http://").split(":")
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve, args=(server, (host, int(port))), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def _serve(server: socket.socket, upstream: tuple[str, int]) -> None:
    loses = True
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        store = socket.create_connection(upstream)
        threading.Thread(target=_pass_on, args=(client, store), daemon=True).start()
        threading.Thread(target=_pass_on, args=(store, client, loses), daemon=True).start()
        loses = False


def _pass_on(source: socket.socket, target: socket.socket, loses: bool = False) -> None:
    while data := source.recv(65536):
        if loses:
            break
        target.sendall(data)
    for end in (source, target):
        with suppress(OSError):  # the thread of the other direction may have been first
            end.shutdown(socket.SHUT_RDWR)
