"""URLs of storage as text: their canonical form, and which lies below which.

Everything is literal: a percent sign in a URL or a path is a percent sign, so a name means the same at every store.
"""

from __future__ import annotations

import re
from pathlib import Path

from tablespec.errors import UnsupportedUrlError

LOCAL = "file://"

_SCHEMES = {
    "file": "file",
    "memory": "memory",
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "az": "az",
    "abfs": "abfss",
    "abfss": "abfss",
}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)
_UNTIDY_SEGMENT = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)")


def canonical(url: str) -> str:
    """The one spelling of a URL or local path: absolute, scheme in short form, no `.`, `..`, `//` or trailing slash.

    Raises UnsupportedUrlError where no store can be meant.
    """
    if not isinstance(url, str):
        raise UnsupportedUrlError(repr(url), "it is no text; write str(path) for a path of pathlib")
    written_scheme, place, path = _parts(url)
    scheme = _SCHEMES.get(written_scheme.lower())
    if scheme is None:
        raise UnsupportedUrlError(url, f"the scheme {written_scheme} is not one of {', '.join(_SCHEMES)}")
    if scheme == "file" and place not in ("", "localhost"):
        raise UnsupportedUrlError(url, f"{place} is another machine; write file:/// and an absolute path")
    if scheme != "file" and not place:
        raise UnsupportedUrlError(url, "it names no bucket, container or memory")
    key = tidy(path)
    if key is None:
        raise UnsupportedUrlError(url, "its path climbs above the root of the store")
    root = LOCAL if scheme == "file" else f"{scheme}://{place}"
    return f"{root}/{key}" if key else root


def split_root(url: str) -> tuple[str, str]:
    """The store of a canonical URL, as `scheme://place`, and the path in it."""
    start = url.find("/", url.index("://") + 3)
    return (url, "") if start < 0 else (url[:start], url[start + 1 :])


def below(root: str, url: str) -> str | None:
    """The path from one canonical URL down to another, by whole segments; None when it lies elsewhere."""
    if url == root:
        return ""
    return url[len(root) + 1 :] if url.startswith(root + "/") else None


def is_absolute(path: str) -> bool:
    """Whether a path of a table names its place by itself: a URL, also `file:/x` as Spark writes it, or `/x`."""
    return path.startswith(("/", "file:/")) or _URL.match(path) is not None


def tidy(path: str) -> str | None:
    """The path without empty, `.` and `..` segments; None when it climbs above its start."""
    if _UNTIDY_SEGMENT.search(path) is None:
        return path
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == ".." and not kept:
            return None
        if segment == "..":
            kept.pop()
        elif segment not in ("", "."):
            kept.append(segment)
    return "/".join(kept)


def _parts(url: str) -> tuple[str, str, str]:
    match = _URL.fullmatch(url)
    if match is not None:
        return match[1], match[2], match[3]
    if url.startswith("file:/"):
        return "file", "", url.removeprefix("file:")
    if not url:
        raise UnsupportedUrlError(url, "it is empty")
    try:
        return "file", "", str(Path(url).expanduser().absolute())
    except RuntimeError as error:
        raise UnsupportedUrlError(url, str(error)) from error
