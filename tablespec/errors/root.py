"""What every error and warning of this package is."""

from __future__ import annotations


class TableSpecError(Exception):
    """The base of every error of this package."""


class TableSpecWarning(UserWarning):
    """Something was odd about a table, and reading went on with a right answer."""
