"""The obstore store behind a URL, made from one flat mapping of options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from obstore.exceptions import BaseError
from obstore.store import MemoryStore, from_url

from tablespec.errors import UnsupportedUrlError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

# Two openings of one memory:// URL must see the same files, and nothing but this process keeps them.
_MEMORIES: dict[str, MemoryStore] = {}

_PROVIDER_PREFIXES = ("aws_", "azure_", "google_")

# obstore takes these apart from the options of the provider, and panics where they are mixed.
_CLIENT_OPTIONS = frozenset(
    (
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    )
)


def connect(root: str, options: Mapping[str, str]) -> ObjectStore:
    """The store of a URL like `s3://bucket`; nothing is sent yet.

    Options are spelled in any case, with or without the name of the provider before them; `max_retries` is a number.
    Raises UnsupportedUrlError for those that obstore does not know.
    """
    if root.startswith("memory://"):
        return _MEMORIES.setdefault(root, MemoryStore())
    provider: dict[str, str] = {}
    client: dict[str, str] = {}
    retries: dict[str, int] = {}
    for written, value in options.items():
        key = written.lower()
        plain = _without_provider(key)
        if plain == "max_retries":
            retries[plain] = _number(root, written, value)
        elif plain in _CLIENT_OPTIONS:
            client[plain] = value
        else:
            provider[key] = value
    try:
        # obstore types the options of each provider apart, and these are whatever the caller gave.
        return from_url(root, config=provider, client_options=client, retry_config=retries)  # type: ignore[call-overload, no-any-return]
    except (BaseError, ValueError) as error:
        raise UnsupportedUrlError(root, str(error).split("\n", maxsplit=1)[0]) from error


def _without_provider(key: str) -> str:
    for prefix in _PROVIDER_PREFIXES:
        if key.startswith(prefix):
            return key.removeprefix(prefix)
    return key


def _number(root: str, option: str, value: str) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise UnsupportedUrlError(root, f"the option {option} is {value!r}; expected a whole number") from error
