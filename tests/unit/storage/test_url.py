"""Canonical URLs and what lies below them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tablespec.errors import UnsupportedUrlError
from tablespec.storage.store import Storage
from tablespec.storage.url import below, canonical, is_absolute, split_root, tidy


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("/data/table", "file:///data/table"),
        ("/data//table/", "file:///data/table"),
        ("/data/./x/../table", "file:///data/table"),
        ("file:///data/table/", "file:///data/table"),
        ("file:/data/table", "file:///data/table"),
        ("file://localhost/data/table", "file:///data/table"),
        ("FILE:///data", "file:///data"),
        ("/", "file://"),
        ("/a b%20c#d?e=é", "file:///a b%20c#d?e=é"),
        ("file:///a%20b", "file:///a%20b"),
        ("memory://name", "memory://name"),
        ("memory://name/sub/", "memory://name/sub"),
        ("s3://bucket", "s3://bucket"),
        ("s3a://bucket/a//b/", "s3://bucket/a/b"),
        ("s3n://bucket/a/../b", "s3://bucket/b"),
        ("gs://bucket/a", "gs://bucket/a"),
        ("az://container/a", "az://container/a"),
        ("abfs://container@account.dfs.core.windows.net/a/", "abfss://container@account.dfs.core.windows.net/a"),
        ("abfss://container@account.dfs.core.windows.net/a", "abfss://container@account.dfs.core.windows.net/a"),
    ],
)
def test_a_url_has_one_canonical_spelling_which_is_its_own(written: str, expected: str) -> None:
    assert canonical(written) == expected
    assert canonical(expected) == expected


def test_a_relative_path_starts_at_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert canonical("a/../b") == f"file://{tmp_path}/b"
    assert canonical(".") == f"file://{tmp_path}"


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert canonical("~/table") == f"file://{tmp_path}/table"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "it is empty"),
        ("hdfs://host/a", "the scheme hdfs is not one of file, memory, s3"),
        ("file://host/a", "host is another machine"),
        ("s3://", "it names no bucket"),
        ("memory:///a", "it names no bucket"),
        ("s3://bucket/../a", "climbs above the root"),
        ("~nobody-of-this-name/a", "home directory"),
    ],
)
def test_a_url_without_a_store_is_refused_with_the_reason(url: str, why: str) -> None:
    with pytest.raises(UnsupportedUrlError, match=why):
        Storage.at(url)


@pytest.mark.parametrize(
    ("root", "url", "expected"),
    [
        ("s3://b/t", "s3://b/t/x/y", "x/y"),
        ("s3://b/t", "s3://b/t", ""),
        ("s3://b", "s3://b/t", "t"),
        ("s3://b/t", "s3://b/t2", None),
        ("s3://b/t/x", "s3://b/t", None),
        ("s3://b", "s3://bb", None),
        ("file://", "file:///a", "a"),
        ("file:///a", "s3://a", None),
    ],
)
def test_one_url_lies_below_another_by_whole_segments(root: str, url: str, expected: str | None) -> None:
    assert below(root, url) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://b/t/x", ("s3://b", "t/x")),
        ("s3://b", ("s3://b", "")),
        ("file:///a/b", ("file://", "a/b")),
        ("file://", ("file://", "")),
    ],
)
def test_a_url_splits_into_its_store_and_the_path_there(url: str, expected: tuple[str, str]) -> None:
    assert split_root(url) == expected


@pytest.mark.parametrize("path", ["/a", "file:/a", "file:///a", "s3://b/a", "hdfs://h/a", "x+y.z-1://a"])
def test_a_url_or_a_leading_slash_makes_a_path_absolute(path: str) -> None:
    assert is_absolute(path)


@pytest.mark.parametrize("path", ["a", "a/b", "p=s3://b/a", "a:/b", "a:b", "~", "file:a", "1://a"])
def test_any_other_path_is_relative(path: str) -> None:
    assert not is_absolute(path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/b", "a/b"),
        ("a//b/", "a/b"),
        ("./a/./b/.", "a/b"),
        ("a/../b", "b"),
        ("a/..", ""),
        ("", ""),
        ("...", "..."),
        (".a/..b/c..", ".a/..b/c.."),
        ("a\n/..\n", "a\n/..\n"),
        ("..", None),
        ("a/../..", None),
    ],
)
def test_a_tidy_path_has_no_empty_and_no_dotted_segments(path: str, expected: str | None) -> None:
    assert tidy(path) == expected
