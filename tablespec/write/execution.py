"""How a verb that changes rows goes about it."""

from __future__ import annotations

import enum
from typing import TypedDict

import attrs

from tablespec.errors import InvalidOptionError
from tablespec.txn.transaction import Retries, check_retries
from tablespec.write.runner import Runner, Threads


class Strategy(enum.Enum):
    """How rows go: by deletion vectors beside the files, or by writing the files anew."""

    MERGE_ON_READ = "merge-on-read"
    COPY_ON_WRITE = "copy-on-write"


@attrs.frozen(kw_only=True)
class Execution:
    """By which strategy rows go (None for the table's own), who runs the tasks, and how often a lost race is run again."""

    strategy: Strategy | None = None
    runner: Runner = Threads()
    retries: Retries = Retries()

    def __attrs_post_init__(self) -> None:
        check_strategy(self.strategy)
        check_retries(self.retries)
        if not isinstance(self.runner, Runner):
            raise InvalidOptionError("runner", repr(self.runner), "what runs tasks, such as Threads(4)")


def check_strategy(strategy: Strategy | None) -> None:
    """Raise for what is no strategy: it would count as merge-on-read without a word."""
    if not isinstance(strategy, Strategy | None):
        raise InvalidOptionError("strategy", repr(strategy), " or ".join(map(str, Strategy)))


class Retrying(TypedDict, total=False):
    """Keywords of verbs that commit."""

    retries: Retries


class Running(Retrying, total=False):
    """Keywords of verbs that spread their work."""

    runner: Runner


class Changing(Retrying, total=False):
    """Keywords of verbs that change rows, for engines that spread the work by themselves."""

    strategy: Strategy | None


class Executing(Running, Changing, total=False):
    """Keywords of verbs that change rows: the fields of an execution."""
