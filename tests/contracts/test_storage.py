"""What every kind of storage promises."""

from __future__ import annotations

import pickle
import random
import time
from concurrent.futures import ThreadPoolExecutor

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablespec.errors import PathOutsideTableError, StorageError
from tablespec.storage.store import Storage

ODD_NAMES = [
    "p=a%2Fb/x y#1?é.parquet",
    "00000000000000000001.json#1",
    ".hidden/.file",
    "a+b&c=d;e,f:g@h",
    "a~b*[c]{d}|e^f`g\"h<i>'",
    "back\\slash",
    "%",
    "%25%zz",
    " before and after ",
    "...",
    "e\u0301 is not \u00e9",
    "日本/🦆.parquet",
]

READS = [
    pytest.param(lambda storage, path: storage.read(path), id="read"),
    pytest.param(lambda storage, path: storage.read_range(path, 0, 1), id="read_range"),
    pytest.param(lambda storage, path: storage.read_range(path, 0, 0), id="read_nothing"),
    pytest.param(lambda storage, path: storage.open(path), id="open"),
]
LOOKS = [
    *READS,
    pytest.param(lambda storage, path: storage.head(path), id="head"),
    pytest.param(lambda storage, path: storage.local_path(path), id="local_path"),
]
WRITES = [
    pytest.param(lambda storage, path: storage.put(path, b"x"), id="put"),
    pytest.param(lambda storage, path: storage.put_if_absent(path, b"x"), id="put_if_absent"),
    pytest.param(lambda storage, path: storage.create(path), id="create"),
    pytest.param(lambda storage, path: storage.delete(path), id="delete"),
]
LISTS = [
    pytest.param(lambda storage, path: list(storage.list(path)), id="list"),
    pytest.param(lambda storage, path: storage.list_folder(path), id="list_folder"),
]


def paths(storage: Storage, prefix: str = "", after: str = "") -> list[str]:
    return [info.path for info in storage.list(prefix, after=after)]


def beside(storage: Storage, allowed: str | None = None) -> tuple[Storage, Storage]:
    """A storage at a sibling whose name begins like ours, and ours that allows `allowed` or all of that sibling."""
    other = Storage(f"{storage.url}-2", storage.options)
    return other, attrs.evolve(storage, allowed_roots=(allowed or other.url,))


# --- listing ---------------------------------------------------------------------------------------------------------


def test_a_folder_that_is_not_there_has_no_files(storage: Storage) -> None:
    assert paths(storage) == []
    assert paths(storage, "nowhere/at/all") == []
    assert storage.list_folder("") == ((), ())
    assert storage.list_folder("nowhere") == ((), ())


def test_a_file_is_not_a_folder_and_so_has_no_files(storage: Storage) -> None:
    storage.put("a", b"1")

    assert paths(storage, "a") == []
    assert storage.list_folder("a") == ((), ())


def test_files_are_listed_at_any_depth_in_the_order_of_their_bytes(storage: Storage) -> None:
    for path in ("b", "a/y/z", "é", "a/x", "a.b", "a-b", "a/y.1", "a0", "Z", "🦆", "\ufffd"):
        storage.put(path, b"1")

    assert paths(storage) == ["Z", "a-b", "a.b", "a/x", "a/y.1", "a/y/z", "a0", "b", "é", "\ufffd", "🦆"]


def test_a_folder_is_listed_by_whole_segments(storage: Storage) -> None:
    for path in ("log/1", "log/2/3", "log-1", "log2/1"):
        storage.put(path, b"1")

    assert paths(storage, "log") == ["log/1", "log/2/3"]
    assert paths(storage, "log/") == ["log/1", "log/2/3"]


@pytest.mark.parametrize("prefix", ["", "a", "a/y"])
def test_listing_after_a_path_gives_those_that_sort_after_it(storage: Storage, prefix: str) -> None:
    written = ["a-b", "a.b", "a/x", "a/xyz", "a/y-1", "a/y/z", "a/y/zz", "a0", "b"]
    for path in written:
        storage.put(path, b"1")

    below = [path for path in written if path.startswith(f"{prefix}/" if prefix else "")]
    for after in ("0", "a", "a-", "a/", "a/x/", "a/xx", "a/y", "a/y/", "a/y/zzz", "c", *written):
        assert paths(storage, prefix, after) == [path for path in below if path > after]


@pytest.mark.slow
def test_more_files_than_one_answer_holds_are_all_listed(storage: Storage) -> None:
    many = [f"log/{number:05}" for number in range(1003)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: storage.put(path, b""), many))

    assert paths(storage, "log") == many
    assert paths(storage, "log", after="log/00990") == many[991:]


def test_a_folder_gives_what_lies_directly_in_it(storage: Storage) -> None:
    for path in ("t/b", "t/a", "t/p=2/x", "t/p=10/y/z", "t/p=10-", "u/x"):
        storage.put(path, b"12")

    folders, files = storage.list_folder("t")

    assert folders == ("t/p=10", "t/p=2")
    assert [(info.path, info.size) for info in files] == [("t/a", 2), ("t/b", 2), ("t/p=10-", 2)]
    assert storage.list_folder("") == (("t", "u"), ())


def test_a_listing_and_a_look_at_one_file_tell_the_same(storage: Storage) -> None:
    before = int(time.time()) * 1000 - 2000
    storage.put("a/b", b"12345")

    info = storage.head("a/b")

    assert info is not None
    assert (info.path, info.size) == ("a/b", 5)
    assert before <= info.modified <= time.time() * 1000 + 2000
    assert list(storage.list()) == [info]
    assert storage.list_folder("a") == ((), (info,))


# --- reading ---------------------------------------------------------------------------------------------------------


def test_nothing_is_known_about_a_file_that_is_not_there(storage: Storage) -> None:
    storage.put("a/b", b"1")

    assert storage.head("nowhere") is None
    assert storage.head("a") is None
    assert storage.head("a/b/c") is None


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("path", ["nowhere", "no/where", "a/b/c"])
def test_reading_a_file_that_is_not_there_raises_file_not_found(storage: Storage, read, path: str) -> None:
    storage.put("a/b", b"1")

    with pytest.raises(FileNotFoundError, match=r"table/" + path):
        read(storage, path)


@pytest.mark.parametrize(("offset", "length"), [(0, 10), (0, 1), (3, 4), (9, 1), (5, 0), (0, 0)])
def test_a_range_gives_exactly_its_bytes(storage: Storage, offset: int, length: int) -> None:
    storage.put("a", b"0123456789")

    assert storage.read_range("a", offset, length) == b"0123456789"[offset : offset + length]


@pytest.mark.parametrize(("offset", "length"), [(0, 11), (9, 2), (10, 1), (100, 5)])
def test_a_range_beyond_the_end_is_an_error(storage: Storage, offset: int, length: int) -> None:
    storage.put("a", b"0123456789")

    with pytest.raises(StorageError, match="table/a"):
        storage.read_range("a", offset, length)


def test_an_open_file_reads_from_any_position(storage: Storage) -> None:
    data = random.Random(7).randbytes(300_000)
    storage.put("a", data)

    with storage.open("a") as file:
        assert (file.readable(), file.seekable(), file.writable()) == (True, True, False)
        assert file.seek(0, 2) == file.tell() == len(data)
        assert file.read(5) == b""
        for offset, size in [
            (0, 4),
            (4, 4),
            (299_990, 10),
            (299_990, 100),
            (100_000, 200_000),
            (64_000, 70_000),
            (5, 1),
        ]:
            assert file.seek(offset) == offset
            assert file.read(size) == data[offset : offset + size]
            assert file.tell() == min(offset + size, len(data))
        assert file.seek(-2, 1) == 4
        file.seek(299_000)
        assert file.read() == data[299_000:]
    assert file.closed


def test_an_empty_file_can_be_written_and_read(storage: Storage) -> None:
    storage.put("a", b"")
    with storage.create("b"):
        pass

    assert storage.read("a") == storage.read("b") == storage.open("a").read() == b""


def test_arrow_writes_and_reads_a_file(storage: Storage) -> None:
    table = pa.table({"number": range(100_000), "text": [str(number) for number in range(100_000)]})

    with storage.create("t.parquet") as file:
        pq.write_table(table, file)

    assert pq.read_table(storage.open("t.parquet")).equals(table)
    assert pq.read_table(pa.PythonFile(storage.open("t.parquet"), mode="r"), columns=["text"]).equals(table.select([1]))


# --- writing ---------------------------------------------------------------------------------------------------------


def test_put_replaces_the_file_that_is_there(storage: Storage) -> None:
    storage.put("a/b", b"the first and longer one")
    storage.put("a/b", b"2")

    assert storage.read("a/b") == b"2"
    assert paths(storage) == ["a/b"]


def test_a_second_put_if_absent_leaves_the_first_file_as_it_was(storage: Storage) -> None:
    assert storage.put_if_absent("log/1", b"first")
    assert not storage.put_if_absent("log/1", b"second")

    assert storage.read("log/1") == b"first"
    assert paths(storage) == ["log/1"]


def test_a_large_put_if_absent_is_conditional_too(storage: Storage) -> None:
    large = bytes(11 << 20)

    assert storage.put_if_absent("a", large)
    assert not storage.put_if_absent("a", large[1:])

    assert storage.read("a") == large


def test_a_deleted_file_is_absent_again(storage: Storage) -> None:
    storage.put("a/b", b"1")

    storage.delete("a/b")

    assert paths(storage) == []
    assert storage.put_if_absent("a/b", b"2")


def test_deleting_a_file_that_is_not_there_changes_nothing(storage: Storage) -> None:
    storage.put("a", b"1")

    storage.delete("b")
    storage.delete("a/b")
    storage.delete("no/where")

    assert paths(storage) == ["a"]


@pytest.mark.parametrize("size", [10, 25 << 20], ids=["small", "many parts"])
def test_a_created_file_appears_when_closed(storage: Storage, size: int) -> None:
    data = random.Random(7).randbytes(size)
    piece = max(size // 3, 1)

    file = storage.create("d/a")
    for start in range(0, size, piece):
        file.write(data[start : start + piece])
    absent = storage.head("d/a") is None
    file.close()
    file.close()

    assert absent
    assert file.tell() == size
    assert storage.read("d/a") == data
    assert paths(storage) == ["d/a"]


@pytest.mark.parametrize("size", [10, 25 << 20], ids=["small", "many parts"])
def test_an_exception_while_writing_leaves_nothing(storage: Storage, size: int) -> None:
    with pytest.raises(KeyError), storage.create("d/a") as file:
        file.write(bytes(size))
        raise KeyError

    assert file.closed
    assert paths(storage) == []


def test_a_created_file_that_is_dropped_leaves_nothing(storage: Storage) -> None:
    file = storage.create("d/a")
    file.write(b"half")
    del file

    assert paths(storage) == []


def test_an_abandoned_file_leaves_the_one_it_would_have_replaced(storage: Storage) -> None:
    storage.put("a", b"old")

    with pytest.raises(KeyError), storage.create("a") as file:
        file.write(b"new")
        raise KeyError

    assert storage.read("a") == b"old"


def test_a_created_file_replaces_the_one_that_is_there(storage: Storage) -> None:
    storage.put("a", b"old")

    with storage.create("a") as file:
        file.write(b"new")

    assert storage.read("a") == b"new"


def test_a_closed_file_takes_no_more_bytes(storage: Storage) -> None:
    with storage.create("a") as file:
        file.write(b"1")

    with pytest.raises(ValueError, match="closed"):
        file.write(b"2")


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_is_taken_literally_by_every_method(storage: Storage, name: str) -> None:
    storage.put(name, b"12")
    assert paths(storage) == [name]
    info = storage.head(name)
    assert info is not None
    assert info.path == name
    assert storage.read(name) == storage.open(name).read() == storage.read_range(name, 0, 2) == b"12"
    assert not storage.put_if_absent(name, b"3")

    folder = name.rpartition("/")[0]
    assert storage.list_folder(folder) == ((), (info,))
    assert paths(storage, folder) == [name]

    storage.delete(name)
    assert paths(storage) == []
    with storage.create(name) as file:
        file.write(b"45")
    assert storage.read(name) == b"45"


def test_names_that_differ_only_by_encoding_are_different_files(storage: Storage) -> None:
    names = ["p=a%2Fb/x", "p=a%252Fb/x", "p=a/b/x", "x y", "x%20y", "x+y"]
    for name in names:
        storage.put(name, name.encode())

    assert paths(storage) == sorted(names)
    assert [storage.read(name) for name in names] == [name.encode() for name in names]


@pytest.mark.parametrize("path", ["a//b", "./a/b", "a/./b", "a/c/../b", "x/../a/b", "a/b/"])
def test_an_untidy_path_that_stays_inside_means_the_tidy_one(storage: Storage, path: str) -> None:
    storage.put(path, b"1")

    assert paths(storage) == ["a/b"]
    assert storage.read(path) == b"1"


@pytest.mark.parametrize("act", [*LOOKS, *WRITES, *LISTS])
@pytest.mark.parametrize("path", ["..", "../x", "a/../../x", "../table-2/x", "a/b/../../../table/x"])
def test_a_relative_path_never_leaves_the_table(storage: Storage, act, path: str) -> None:
    with pytest.raises(PathOutsideTableError, match="outside the table"):
        act(storage, path)


@pytest.mark.parametrize("act", [*LOOKS, *WRITES])
@pytest.mark.parametrize("path", ["", ".", "a/..", "/"])
def test_the_folder_itself_is_not_a_file(storage: Storage, act, path: str) -> None:
    with pytest.raises(StorageError, match="folder"):
        act(storage, storage.url if path == "/" else path)


# --- absolute paths --------------------------------------------------------------------------------------------------


def test_an_absolute_path_below_the_table_is_the_same_as_a_relative_one(storage: Storage) -> None:
    inside = f"{storage.url}/a%2F/b c"
    storage.put(inside, b"12")

    assert paths(storage) == paths(storage, f"{storage.url}/a%2F") == ["a%2F/b c"]
    assert storage.read(inside) == storage.read("a%2F/b c") == b"12"
    info = storage.head(inside)
    assert info is not None
    assert info.path == "a%2F/b c"
    assert storage.local_path(inside) == storage.local_path("a%2F/b c")


@pytest.mark.parametrize("act", [*LOOKS, *WRITES, *LISTS])
def test_an_absolute_path_elsewhere_is_outside_the_table(storage: Storage, act) -> None:
    other, _ = beside(storage)
    other.put("x", b"1")

    for outside in (f"{other.url}/x", other.url, f"{storage.url}/../table-2/x", "/nowhere/x", "s3://another/table/x"):
        with pytest.raises(PathOutsideTableError):
            act(storage, outside)


def test_a_file_below_an_allowed_root_can_be_read(storage: Storage) -> None:
    other, trusting = beside(storage)
    other.put("d/x", b"123")
    outside = f"{other.url}/d/x"

    info = trusting.head(outside)

    assert info is not None
    assert (info.path, info.size) == (outside, 3)
    assert trusting.read(outside) == trusting.open(outside).read() == b"123"
    assert trusting.read_range(outside, 1, 1) == b"2"
    assert trusting.local_path(outside) == other.local_path("d/x")
    with pytest.raises(FileNotFoundError):
        trusting.read(f"{other.url}/d/y")


def test_an_allowed_root_is_matched_by_whole_segments(storage: Storage) -> None:
    other, trusting = beside(storage, allowed=f"{storage.url}-2/d")
    other.put("d/x", b"1")
    other.put("d2/x", b"1")

    assert trusting.read(f"{other.url}/d/x") == b"1"
    with pytest.raises(PathOutsideTableError):
        trusting.read(f"{other.url}/d2/x")
    with pytest.raises(PathOutsideTableError):
        trusting.read(f"{other.url}/d/../d2/x")


@pytest.mark.parametrize("act", [*WRITES, *LISTS])
def test_nothing_is_written_or_listed_below_an_allowed_root(storage: Storage, act) -> None:
    other, trusting = beside(storage)
    other.put("x", b"as it was")

    with pytest.raises(PathOutsideTableError):
        act(trusting, f"{other.url}/x")

    assert other.read("x") == b"as it was"


# --- the value -------------------------------------------------------------------------------------------------------


def test_a_storage_is_a_value_that_pickles_also_after_use(storage: Storage) -> None:
    storage.put("a", b"1")

    copy = pickle.loads(pickle.dumps(storage))

    assert copy == storage
    assert hash(copy) == hash(storage)
    assert copy.read("a") == b"1"


def test_two_openings_of_one_place_see_the_same_files(storage: Storage) -> None:
    storage.put("a", b"1")

    assert Storage.at(f"{storage.url}/", dict(storage.options)).read("a") == b"1"
