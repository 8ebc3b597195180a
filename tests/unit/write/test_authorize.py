"""Who may do what: asked before anything is read or written."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import attrs
import pyarrow as pa
import pytest

import tablespec
from tablespec import Catalog, PolicyFile, Privilege, RowOp, Table, TableIndex
from tablespec.errors import IndexNotFoundError, InvalidPolicyError, NotAuthorizedError, TableNotFoundError
from tablespec.formats.delta.format import DeltaFormat
from tablespec.model.schema import DOUBLE, Field, Schema
from tablespec.storage.store import FileInfo
from tablespec.write.authorize import AllowAll, Authorizer, Rule, access_to
from tablespec.write.clauses import (
    when_matched_delete,
    when_matched_update,
    when_not_matched_by_source_delete,
    when_not_matched_by_source_update,
    when_not_matched_insert,
)
from tablespec.write.merge_plan import Clause
from tests.rows import assert_same_rows
from tests.storages import CountingStorage

ROWS = pa.table({"id": [1, 2, 3], "city": ["sf", "sf", "la"]})


def opened(table: Table) -> Table:
    """The same table without anybody to ask."""
    return tablespec.open_table(table.url)


def named_index(table: Table) -> None:
    """Ask for an index; the table has none."""
    with suppress(IndexNotFoundError):
        table.index("text")


VERBS: dict[str, tuple[Callable[[Table], object], set[str]]] = {
    "scan": (lambda table: table.scan(), {"SELECT"}),
    "read_optimized": (lambda table: table.read_optimized(), {"SELECT"}),
    "incremental": (lambda table: table.incremental(0), {"SELECT"}),
    "changes": (lambda table: table.changes(0), {"SELECT"}),
    "file_index": (lambda table: table.file_index, {"SELECT"}),
    "slice_reader": (lambda table: table.slice_reader(), {"SELECT"}),
    "append": (lambda table: table.append(ROWS), {"INSERT"}),
    "plan_append": (lambda table: table.plan_append(ROWS.schema), {"INSERT"}),
    "commit_append": (lambda table: table.commit_append(opened(table).plan_append(ROWS.schema), ()), {"INSERT"}),
    "plan_replace": (lambda table: table.plan_replace("city = 'la'", ROWS.schema), {"SELECT", "INSERT", "DELETE"}),
    "commit_replace": (
        lambda table: table.commit_replace(opened(table).plan_replace("city = 'la'", ROWS.schema), ()),
        {"SELECT", "INSERT", "DELETE"},
    ),
    "delete": (lambda table: table.delete("id = 1"), {"SELECT", "DELETE"}),
    "replace_where": (lambda table: table.replace_where("city = 'la'"), {"SELECT", "INSERT", "DELETE"}),
    "replace_using": (lambda table: table.replace_using(["id"], ROWS), {"SELECT", "INSERT", "DELETE"}),
    "overwrite_partitions": (lambda table: table.overwrite_partitions(ROWS), {"SELECT", "INSERT", "DELETE"}),
    "update": (lambda table: table.update({"id": "id + 1"}, "id = 1"), {"SELECT", "UPDATE"}),
    "upsert": (lambda table: table.upsert(ROWS), {"SELECT", "INSERT", "UPDATE"}),
    "merge": (lambda table: table.merge(ROWS, "t.id = s.id", when_matched_delete()), {"SELECT", "DELETE"}),
    "begin_delete": (lambda table: table.begin_delete(), {"SELECT", "DELETE"}),
    "begin_update": (lambda table: table.begin_update(), {"SELECT", "UPDATE"}),
    "begin_merge": (lambda table: table.begin_merge(), {"SELECT", "INSERT", "UPDATE", "DELETE"}),
    "sql": (lambda table: table.sql("DELETE FROM trips WHERE id = 1"), {"SELECT", "DELETE"}),
    "set_properties": (lambda table: table.set_properties({"a": "b"}), {"UPDATE"}),
    "upgrade_protocol": (lambda table: table.upgrade_protocol(["deletionVectors"]), {"UPDATE"}),
    "add_columns": (lambda table: table.add_columns(Schema((Field(name="fare", type=DOUBLE),))), {"UPDATE"}),
    "add_constraint": (lambda table: table.add_constraint("positive", "id > 0"), {"UPDATE"}),
    "checkpoint": (lambda table: table.checkpoint(), {"UPDATE"}),
    "search": (lambda table: table.search("sf"), {"SELECT"}),
    "create_text_index": (lambda table: table.create_text_index(["city"]), {"UPDATE"}),
    "create_record_index": (lambda table: table.create_record_index(), {"UPDATE"}),
    "index": (lambda table: named_index(table), {"SELECT"}),
    "indexes": (lambda table: table.indexes, {"SELECT"}),
    "record_index": (lambda table: table.record_index, {"SELECT"}),
    "compact": (lambda table: table.compact(), {"UPDATE"}),
    "cluster": (lambda table: table.cluster(["id"]), {"UPDATE"}),
    "vacuum": (lambda table: table.vacuum(), {"DELETE"}),
    "vacuum_indexes": (lambda table: table.vacuum_indexes(), {"UPDATE"}),
    "expire_log": (lambda table: table.expire_log(), {"DELETE"}),
    "restore": (lambda table: table.restore(0), {"INSERT", "UPDATE", "DELETE"}),
}

EVERYTHING = {one.value for one in Privilege}
REFUSALS = [(verb, one) for verb, (_, needed) in VERBS.items() for one in sorted(needed)]


@attrs.frozen
class Remembering:
    """Allows everything and remembers what it was asked."""

    asked: list[tuple[str, str, str]] = attrs.field(factory=list)

    def check(self, principal: str, table: str, privilege: Privilege) -> None:
        self.asked.append((principal, table, privilege.value))


class Grants(set[str]):
    """Allows the privileges that it holds, and is as false as any empty set where it holds none."""

    def check(self, principal: str, table: str, privilege: Privilege) -> None:
        if privilege.value not in self:
            raise NotAuthorizedError(principal, table, privilege.value)


@pytest.fixture
def url(tmp_path: Path) -> str:
    table = tablespec.create_table(str(tmp_path / "trips"), ROWS.schema, partition_by=["city"], key=["id"])
    table.append(ROWS)
    return table.url


@attrs.frozen
class Watched(CountingStorage):
    """Remembers listings of folders, new files and removals, too."""

    def list_folder(self, prefix: str) -> tuple[tuple[str, ...], tuple[FileInfo, ...]]:
        self.calls.append(("list_folder", prefix))
        return super().list_folder(prefix)

    def create(self, path: str) -> BinaryIO:
        self.calls.append(("create", path))
        return super().create(path)

    def delete(self, path: str) -> None:
        self.calls.append(("delete", path))
        super().delete(path)


def watched(url: str, authorizer: Authorizer) -> tuple[Table, list[tuple[str, str]]]:
    """A table of which nothing is known yet, and what is asked of its store."""
    storage = Watched.at(url)
    return Table(DeltaFormat(storage), access_to(url, authorizer, "ana")), storage.calls


@pytest.fixture
def policy(tmp_path: Path) -> Callable[[str], PolicyFile]:
    def read(text: str) -> PolicyFile:
        path = tmp_path / "policy.toml"
        path.write_text(text)
        return PolicyFile.read(path)

    return read


@pytest.mark.parametrize(
    ("clause", "privilege"),
    [
        (when_matched_update(), "UPDATE"),
        (when_matched_delete(), "DELETE"),
        (when_not_matched_insert(), "INSERT"),
        (when_not_matched_by_source_update({"id": 0}), "UPDATE"),
        (when_not_matched_by_source_delete(), "DELETE"),
    ],
    ids=lambda value: value.kind.value if isinstance(value, Clause) else value,
)
def test_a_merge_asks_for_what_its_clauses_do(clause, privilege, url):
    authorizer = Remembering()
    table = tablespec.open_table(url, authorizer=authorizer)
    authorizer.asked.clear()

    table.merge(ROWS, "t.id = s.id", clause)

    assert [asked for _, _, asked in authorizer.asked] == ["SELECT", privilege]


def test_an_engine_that_begins_a_merge_asks_for_what_it_will_store(url):
    authorizer = Remembering()
    table = tablespec.open_table(url, authorizer=authorizer)
    authorizer.asked.clear()

    table.begin_merge(ops=[RowOp.INSERT, RowOp.UPDATE_DELETE, RowOp.UPDATE_INSERT])

    assert [asked for _, _, asked in authorizer.asked] == ["SELECT", "INSERT", "UPDATE"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_asks_for_its_privileges_in_the_name_of_the_principal(verb, url):
    authorizer = Remembering()
    table = tablespec.open_table(url, authorizer=authorizer, principal="ana")
    authorizer.asked.clear()

    call, privileges = VERBS[verb]
    call(table)

    assert set(authorizer.asked) == {("ana", url, privilege) for privilege in privileges}


@pytest.mark.parametrize(("verb", "missing"), REFUSALS)
def test_a_verb_is_refused_before_anything_of_the_table_is_read(verb, missing, url):
    table, calls = watched(url, Grants(EVERYTHING - {missing}))

    with pytest.raises(NotAuthorizedError) as caught:
        VERBS[verb][0](table)

    assert (caught.value.privilege, calls) == (missing, [])


@pytest.mark.parametrize(("verb", "missing"), REFUSALS)
def test_a_verb_without_one_of_its_privileges_leaves_the_table_as_it_was(verb, missing, url):
    table = attrs.evolve(tablespec.open_table(url), access=access_to(url, Grants(EVERYTHING - {missing}), "ana"))

    with pytest.raises(NotAuthorizedError) as caught:
        VERBS[verb][0](table)

    assert (caught.value.table, caught.value.privilege) == (url, missing)
    assert tablespec.open_table(url).instant().version == 1
    assert_same_rows(tablespec.open_table(url).scan(), [(1, "sf"), (2, "sf"), (3, "la")])


def test_every_public_verb_of_a_table_is_authorized():
    told_once_opened = {"schema_at", "instant", "history", "url", "schema", "partition_columns", "record_key"}
    told_once_opened |= {"properties", "info", "timeline", "skips"}
    verbs = {name for name, member in vars(Table).items() if callable(member) or isinstance(member, property)}
    public = {name for name in verbs if not name.startswith("_")}

    assert public - told_once_opened == set(VERBS)


@pytest.mark.parametrize("change", [TableIndex.refresh, TableIndex.drop], ids=["refresh", "drop"])
@pytest.mark.parametrize(
    "found",
    [
        lambda table: table.index("text-city"),
        lambda table: table.indexes[0],
        lambda table: table.create_text_index(["city"]),
    ],
    ids=["index", "indexes", "create_text_index"],
)
def test_changing_an_index_asks_for_update_before_anything_is_read(found, change, url):
    tablespec.open_table(url).create_text_index(["city"])
    tablespec.open_table(url).append(ROWS)
    grants = Grants(EVERYTHING)
    table, calls = watched(url, grants)
    index = found(table)
    before = index.coverage()
    grants.discard("UPDATE")
    calls.clear()

    with pytest.raises(NotAuthorizedError) as caught:
        change(index)

    assert (caught.value.principal, caught.value.privilege, calls) == ("ana", "UPDATE", [])
    assert tablespec.open_table(url).index("text-city").coverage() == before


def test_a_record_index_is_changed_by_none_who_may_only_read(url):
    tablespec.open_table(url).create_record_index()
    table = tablespec.open_table(url, authorizer=Grants({"SELECT"}))

    with pytest.raises(NotAuthorizedError):
        table.indexes[0].drop()

    assert [one.name for one in table.indexes] == ["record"]


def test_whoever_may_read_a_table_may_list_and_use_its_indexes(url):
    tablespec.open_table(url).create_text_index(["city"])

    table = tablespec.open_table(url, authorizer=Grants({"SELECT"}))

    assert [one.name for one in table.indexes] == ["text-city"]
    assert table.index("text-city").coverage().covered == 2
    assert table.search("la", select=["id"]).column("id").to_pylist() == [3]


@pytest.mark.parametrize("change", [TableIndex.refresh, TableIndex.drop], ids=["refresh", "drop"])
def test_whoever_may_update_a_table_changes_its_indexes(change, url):
    tablespec.open_table(url).create_text_index(["city"])

    change(tablespec.open_table(url, authorizer=Grants({"SELECT", "UPDATE"})).index("text-city"))

    assert len(tablespec.open_table(url).indexes) == (change is TableIndex.refresh)


def test_opening_asks_for_select_before_it_looks_at_the_place(tmp_path):
    nowhere = str(tmp_path / "nothing")

    with pytest.raises(NotAuthorizedError, match=r"ana does not have the privilege SELECT on file://.*/nothing"):
        tablespec.open_table(nowhere, authorizer=Grants(), principal="ana")
    with pytest.raises(TableNotFoundError):
        tablespec.open_table(nowhere, authorizer=AllowAll(), principal="ana")


def test_creating_asks_for_insert_and_leaves_nothing_when_it_is_refused(tmp_path):
    with pytest.raises(NotAuthorizedError) as caught:
        tablespec.create_table(str(tmp_path / "new"), ROWS.schema, authorizer=Grants({"SELECT"}))

    assert str(caught.value).startswith(f"anonymous does not have the privilege INSERT on file://{tmp_path}/new;")
    assert list(tmp_path.iterdir()) == []


def test_without_an_authorizer_everything_is_allowed(url):
    tablespec.open_table(url).delete("id = 1")

    assert_same_rows(tablespec.open_table(url).scan(), [(2, "sf"), (3, "la")])


@pytest.mark.parametrize(
    "use",
    [
        lambda url: tablespec.open_table(url, authorizer=Grants()),
        lambda url: tablespec.create_table(f"{url}/new", ROWS.schema, authorizer=Grants()),
        lambda url: Catalog(url, authorizer=Grants()).create_table("sales.trips", ROWS.schema),
    ],
    ids=["open_table", "create_table", "Catalog"],
)
def test_an_authorizer_that_counts_as_false_is_asked_all_the_same(use, url):
    with pytest.raises(NotAuthorizedError):
        use(url)


def test_a_catalog_asks_about_its_tables_by_name(tmp_path):
    authorizer = Remembering()
    catalog = Catalog(str(tmp_path), authorizer=authorizer, principal="ana")

    catalog.create_table("sales.trips", ROWS.schema).append(ROWS)
    catalog.load("sales.trips").scan()
    catalog.drop("sales.trips")

    assert authorizer.asked == [
        ("ana", "sales.trips", privilege) for privilege in ("INSERT", "INSERT", "SELECT", "SELECT", "DELETE")
    ]


def test_a_refused_drop_removes_nothing(tmp_path):
    Catalog(str(tmp_path)).create_table("sales.trips", ROWS.schema).append(ROWS)

    with pytest.raises(NotAuthorizedError):
        Catalog(str(tmp_path), authorizer=Grants({"SELECT"})).drop("sales.trips")

    assert_same_rows(Catalog(str(tmp_path)).load("sales.trips").scan(), ROWS)


def test_a_table_with_a_policy_travels_to_workers(url, policy):
    rules = policy(f"""[[rule]]\nprincipal = "ana"\ntable = "{url}"\nprivileges = ["SELECT"]""")
    table = tablespec.open_table(url, authorizer=rules, principal="ana")

    assert pickle.loads(pickle.dumps(table.access)) == table.access


def test_a_policy_grants_the_union_of_its_rules(policy):
    rules = policy(
        """
        [[rule]]
        principal = "ana"
        table = "sales.*"
        privileges = ["SELECT"]
        [[rule]]
        principal = "*"
        table = "sales.trips"
        privileges = ["INSERT", "DELETE"]
        """
    )

    granted = {
        (who, table, privilege.value)
        for who in ("ana", "ben")
        for table in ("sales.trips", "sales.fares", "salesX.trips", "hr.people")
        for privilege in Privilege
        if _allows(rules, who, table, privilege)
    }

    assert granted == {
        ("ana", "sales.trips", "SELECT"),
        ("ana", "sales.trips", "INSERT"),
        ("ana", "sales.trips", "DELETE"),
        ("ana", "sales.fares", "SELECT"),
        ("ben", "sales.trips", "INSERT"),
        ("ben", "sales.trips", "DELETE"),
    }


def test_a_policy_of_patterns_of_urls_covers_tables_below_them(policy):
    rules = policy("""[[rule]]\nprincipal = "ana"\ntable = "s3://lake/sales/*"\nprivileges = ["SELECT"]""")

    assert _allows(rules, "ana", "s3://lake/sales/eu/trips", Privilege.SELECT)
    assert not _allows(rules, "ana", "s3://lake/sales2/trips", Privilege.SELECT)
    assert not _allows(rules, "ana", "s3://LAKE/sales/trips", Privilege.SELECT)


@pytest.mark.parametrize(
    ("pattern", "granted", "refused"),
    [
        ("file:///x/[raw]/t", "file:///x/[raw]/t", "file:///x/r/t"),
        ("file:///x/[raw]/*", "file:///x/[raw]/t", "file:///x/w/t"),
        ("a[!b]c", "a[!b]c", "axc"),
        ("[", "[", "x"),
        ("[[]", "[[]", "["),
        ("]?", "]x", "]"),
    ],
)
def test_brackets_in_patterns_of_a_policy_stand_for_themselves(pattern, granted, refused, policy):
    of_tables = policy(f"""[[rule]]\nprincipal = "*"\ntable = "{pattern}"\nprivileges = ["SELECT"]""")
    of_principals = policy(f"""[[rule]]\nprincipal = "{pattern}"\ntable = "*"\nprivileges = ["SELECT"]""")

    assert [_allows(of_tables, "ana", table, Privilege.SELECT) for table in (granted, refused)] == [True, False]
    assert [_allows(of_principals, name, "t", Privilege.SELECT) for name in (granted, refused)] == [True, False]


def test_a_policy_without_rules_refuses_everything(policy):
    assert policy("").rules == ()
    assert not _allows(policy(""), "ana", "sales.trips", Privilege.SELECT)


def test_a_policy_refuses_until_it_is_read_again(policy):
    before = policy("")

    after = policy("""[[rule]]\nprincipal = "ana"\ntable = "*"\nprivileges = ["SELECT"]""")

    assert not _allows(before, "ana", "sales.trips", Privilege.SELECT)
    assert after.rules == (Rule("ana", "*", (Privilege.SELECT,)),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[rule]", "Expected"),
        ("[[rules]]", "rules is not a [[rule]]"),
        ("rule = 1", "rule is not a [[rule]]"),
        ("rule = [1]", "rule 1 must have principal, table and privileges"),
        ("""[[rule]]\nprincipal = "a"\ntable = "t" """, "rule 1 must have principal, table and privileges"),
        (
            """[[rule]]\nprincipal = "a"\ntable = "t"\nprivileges = ["SELECT"]\nuntil = 1""",
            "rule 1 must have principal, table and privileges, and nothing else",
        ),
        ("""[[rule]]\nprincipal = "a"\ntable = "t"\nprivileges = ["DROP"]""", "'DROP' is not one of SELECT, INSERT"),
        ("""[[rule]]\nprincipal = "a"\ntable = "t"\nprivileges = [["SELECT"]]""", "['SELECT'] is not one of SELECT"),
        ("""[[rule]]\nprincipal = "a"\ntable = "t"\nprivileges = "SELECT" """, "privileges is a list of text"),
        ("""[[rule]]\nprincipal = 1\ntable = "t"\nprivileges = ["SELECT"]""", "principal and table are text"),
    ],
)
def test_a_policy_that_is_not_understood_is_refused_and_never_half_applied(text, why, policy, tmp_path):
    with pytest.raises(InvalidPolicyError) as caught:
        policy(text)

    assert why in str(caught.value)
    assert str(tmp_path / "policy.toml") in str(caught.value)


def test_a_policy_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidPolicyError, match="cannot be used"):
        PolicyFile.read(tmp_path / "nothing.toml")


def _allows(policy: PolicyFile, principal: str, table: str, privilege: Privilege) -> bool:
    try:
        policy.check(principal, table, privilege)
    except NotAuthorizedError:
        return False
    return True
