"""Who may do what to which table: asked before anything is read or written."""

from __future__ import annotations

import enum
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

import attrs

from tablespec.errors import InvalidOptionError, InvalidPolicyError, NotAuthorizedError
from tablespec.write.change_target import RowOp
from tablespec.write.merge_plan import Clause, Kind

ANONYMOUS = "anonymous"


class Privilege(enum.Enum):
    """What a principal may be allowed to do to a table."""

    SELECT = "SELECT"
    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


# What verbs need.
DELETING = (Privilege.SELECT, Privilege.DELETE)
UPDATING = (Privilege.SELECT, Privilege.UPDATE)
UPSERTING = (Privilege.SELECT, Privilege.INSERT, Privilege.UPDATE)
REPLACING = (Privilege.SELECT, Privilege.INSERT, Privilege.DELETE)
RESTORING = (Privilege.INSERT, Privilege.UPDATE, Privilege.DELETE)

_OF_CLAUSE = {
    Kind.MATCHED_UPDATE: Privilege.UPDATE,
    Kind.MATCHED_DELETE: Privilege.DELETE,
    Kind.NOT_MATCHED_INSERT: Privilege.INSERT,
    Kind.UNMATCHED_UPDATE: Privilege.UPDATE,
    Kind.UNMATCHED_DELETE: Privilege.DELETE,
}
_OF_OP = {RowOp.INSERT: Privilege.INSERT, RowOp.DELETE: Privilege.DELETE}


def merging(clauses: Sequence[Clause]) -> tuple[Privilege, ...]:
    """What a merge with these clauses needs; raises for what is no clause."""
    for clause in clauses:
        if not isinstance(clause, Clause):
            expected = "clauses one by one, such as when_matched_update(), when_not_matched_insert()"
            raise InvalidOptionError("clauses", repr(clause), expected)
    return (Privilege.SELECT, *dict.fromkeys(_OF_CLAUSE[clause.kind] for clause in clauses))


def storing(ops: Iterable[RowOp]) -> tuple[Privilege, ...]:
    """What an engine needs that will store these operations."""
    return (Privilege.SELECT, *dict.fromkeys(_OF_OP.get(op, Privilege.UPDATE) for op in sorted(ops)))


class Authorizer(Protocol):
    """Knows who may do what; it must pickle where tables travel to workers."""

    def check(self, principal: str, table: str, privilege: Privilege) -> None:
        """Raise NotAuthorizedError unless the principal has the privilege.

        `table` is the name `db.table` for a table of a catalog, and the canonical URL for one that was opened by its place.
        """
        ...


@attrs.frozen
class AllowAll:
    """Lets everybody do everything."""

    def check(self, principal: str, table: str, privilege: Privilege) -> None:
        """Nothing is refused."""


@attrs.frozen
class Rule:
    """Privileges that the principals of one pattern have on the tables of another.

    `*` stands for any characters, `?` for one, and every other character for itself.
    """

    principal: str
    table: str
    privileges: tuple[Privilege, ...]

    def grants(self, principal: str, table: str, privilege: Privilege) -> bool:
        """Whether this rule gives the privilege."""
        return privilege in self.privileges and _matches(principal, self.principal) and _matches(table, self.table)


@attrs.frozen
class PolicyFile:
    """Allows what at least one rule of a TOML file grants, and nothing else; make it with `PolicyFile.read`."""

    path: str
    rules: tuple[Rule, ...]

    @classmethod
    def read(cls, path: str | Path) -> PolicyFile:
        """The policy of a file as it is now; raises InvalidPolicyError where it says anything but rules.

        A rule is a `[[rule]]` with `principal`, `table` and `privileges`. What is written later counts when it is read again.
        """
        try:
            document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidPolicyError(str(path), str(error)) from error
        strange = sorted(set(document) - {"rule"})
        written = document.get("rule", [])
        if strange or not isinstance(written, list):
            raise InvalidPolicyError(str(path), f"{strange[0] if strange else 'rule'} is not a [[rule]]")
        return cls(str(path), tuple(_rule(str(path), number, one) for number, one in enumerate(written, 1)))

    def check(self, principal: str, table: str, privilege: Privilege) -> None:
        """Raise NotAuthorizedError unless a rule grants it."""
        if not any(rule.grants(principal, table, privilege) for rule in self.rules):
            raise NotAuthorizedError(principal, table, privilege.value)


@attrs.frozen(kw_only=True)
class Access:
    """On whose behalf a table is used, and who is asked about it."""

    authorizer: Authorizer = AllowAll()
    principal: str = ANONYMOUS
    table: str = ""

    def check(self, *privileges: Privilege) -> None:
        """Raise NotAuthorizedError unless the principal has all of them."""
        for privilege in privileges:
            self.authorizer.check(self.principal, self.table, privilege)

    def check_index_change(self) -> None:
        """Raise NotAuthorizedError unless the principal may change indexes."""
        self.check(Privilege.UPDATE)


def access_to(table: str, authorizer: Authorizer | None, principal: str) -> Access:
    """The access of a principal to a table; without an authorizer everything is allowed."""
    return Access(authorizer=chosen(authorizer), principal=principal, table=table)


def chosen(authorizer: Authorizer | None) -> Authorizer:
    """The authorizer, or the one that allows everything where there is none."""
    # Not by its truth: one that holds no grants may count as false.
    return AllowAll() if authorizer is None else authorizer


def _matches(name: str, pattern: str) -> bool:
    # fnmatch would take what brackets hold for a choice of characters.
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def _rule(path: str, number: int, written: object) -> Rule:
    members = {"principal", "table", "privileges"}
    if not isinstance(written, Mapping) or set(written) != members:
        raise InvalidPolicyError(path, f"rule {number} must have principal, table and privileges, and nothing else")
    principal, table, privileges = written["principal"], written["table"], written["privileges"]
    if not isinstance(principal, str) or not isinstance(table, str) or not isinstance(privileges, list):
        raise InvalidPolicyError(path, f"rule {number}: principal and table are text, privileges is a list of text")
    known = [privilege.value for privilege in Privilege]
    unknown = [name for name in privileges if name not in known]
    if unknown:
        raise InvalidPolicyError(path, f"rule {number}: {unknown[0]!r} is not one of {', '.join(known)}")
    return Rule(principal, table, tuple(Privilege(name) for name in privileges))
