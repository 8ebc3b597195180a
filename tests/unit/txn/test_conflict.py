import attrs
import pytest

from tablespec.expr.bind import bind
from tablespec.formats.base import Change, ReadsNothing, ReadsWhere, WinningCommit
from tablespec.formats.delta.actions import AddAction
from tablespec.formats.delta.adds import TableShape
from tablespec.formats.delta.state import AddedFiles
from tablespec.model.schema import LONG, STRING, Field, Schema
from tablespec.txn.conflict import CONFLICTS, Isolation, conflict, isolation_of

SCHEMA = Schema((Field(name="id", type=LONG), Field(name="p", type=STRING)))
SHAPE = TableShape(table="t", schema=SCHEMA, partition_columns=("p",))
SERIALIZABLE, WRITE_SERIALIZABLE = Isolation.SERIALIZABLE, Isolation.WRITE_SERIALIZABLE

# A file of the partition p = 'a' whose ids go from 10 to 20.
ADDED = AddAction(
    path="1.parquet",
    partition_values={"p": "a"},
    stats='{"numRecords": 2, "minValues": {"id": 10}, "maxValues": {"id": 20}, "nullCount": {"id": 0}}',
)
NOTHING = WinningCommit(
    version=7,
    operation_id="other",
    blind_append=False,
    data_change=False,
    added=AddedFiles((), SHAPE),
    added_paths=frozenset(),
    removed=frozenset(),
    metadata_changed=False,
    vectors_allowed=False,
    protocol_changed=False,
    features_dropped=False,
    transactions=frozenset(),
    domains=frozenset(),
)
APPEND = attrs.evolve(
    NOTHING, blind_append=True, data_change=True, added=AddedFiles((ADDED,), SHAPE), added_paths=frozenset({ADDED.path})
)
WRITE = attrs.evolve(APPEND, blind_append=False)
DELETE = attrs.evolve(NOTHING, data_change=True, removed=frozenset({"0.parquet"}))
COMPACTION = attrs.evolve(WRITE, data_change=False, removed=frozenset({"0.parquet"}))
# Deleted rows: the file goes and comes with another deletion vector.
REVISION = attrs.evolve(WRITE, removed=frozenset({ADDED.path}))
# Row ids or statistics given to files that are there.
NEW_DESCRIPTION = attrs.evolve(WRITE, data_change=False)

UPGRADE = attrs.evolve(NOTHING, protocol_changed=True)

BLIND = Change(operation="WRITE")


def reading(text, *files):
    """A change of rows that read files, or all files where it names none."""
    return Change(operation="DELETE", reads=ReadsWhere(bind(text, SCHEMA), frozenset(files) if files else None))


def touching(*files):
    return attrs.evolve(BLIND, touched=frozenset(files))


def rule(change, winner, isolation):
    found = conflict(change, [winner], isolation)
    return None if found is None else found[0].name


# Each line: what happens, the change that lost, the commit that won, and the rule by which it must not follow at
# Serializable and at WriteSerializable.
CASES = [
    ("append after append", BLIND, APPEND, None, None),
    ("append after write", BLIND, WRITE, None, None),
    ("append after delete", BLIND, DELETE, None, None),
    ("append after compaction", BLIND, COMPACTION, None, None),
    (
        "append after a change of columns",
        BLIND,
        attrs.evolve(NOTHING, metadata_changed=True),
        "metadata changed",
        "metadata changed",
    ),
    ("append after an upgrade", BLIND, UPGRADE, None, None),
    ("delete after an upgrade", reading("id = 1"), UPGRADE, None, None),
    (
        "upgrade after an upgrade",
        attrs.evolve(BLIND, features=frozenset({"v2Checkpoint"})),
        UPGRADE,
        "protocol changed",
        "protocol changed",
    ),
    (
        "append after a feature was dropped",
        BLIND,
        attrs.evolve(UPGRADE, features_dropped=True),
        "features dropped",
        "features dropped",
    ),
    (
        "delete after a change of properties",
        reading("id = 1"),
        attrs.evolve(NOTHING, metadata_changed=True),
        "metadata changed",
        "metadata changed",
    ),
    ("delete after an append that may match", reading("id = 15"), APPEND, "concurrent append", None),
    ("delete after an append of other values", reading("id = 21"), APPEND, None, None),
    ("delete after an append to another partition", reading("p = 'b'"), APPEND, None, None),
    ("delete after an append to its partition", reading("p = 'a' and id = 12"), APPEND, "concurrent append", None),
    ("delete after a write that may match", reading("id = 15"), WRITE, "concurrent write", "concurrent write"),
    ("delete after a write of other values", reading("id = 21"), WRITE, None, None),
    (
        "delete after a delete of what it read",
        reading("id = 21", "0.parquet", "2.parquet"),
        DELETE,
        "concurrent delete of what was read",
        "concurrent delete of what was read",
    ),
    ("delete after a delete of other files", reading("id = 21", "2.parquet"), DELETE, None, None),
    (
        "a look at the whole table after a delete",
        reading("true"),
        DELETE,
        "concurrent delete of what was read",
        "concurrent delete of what was read",
    ),
    (
        "delete after a delete of other rows of a file that it read",
        reading("id = 15", ADDED.path),
        REVISION,
        "concurrent write",
        "concurrent write",
    ),
    (
        # By its statistics the file has no such row, but it was read: what it held when it was read is what counts.
        "delete after a delete from a file whose bounds have changed",
        reading("id = 21", ADDED.path),
        REVISION,
        "concurrent delete of what was read",
        "concurrent delete of what was read",
    ),
    ("delete after a delete of rows of another partition", reading("p = 'b'", "2.parquet"), REVISION, None, None),
    ("delete after a compaction of files that it read", reading("id = 15", "0.parquet"), COMPACTION, None, None),
    ("delete after a compaction of other files", reading("id = 15", "2.parquet"), COMPACTION, None, None),
    (
        "removing a file that is gone",
        touching("0.parquet"),
        COMPACTION,
        "concurrent delete of the same files",
        "concurrent delete of the same files",
    ),
    ("removing a file that is there", touching("2.parquet"), COMPACTION, None, None),
    (
        "removing a file that was described anew",
        touching(ADDED.path),
        NEW_DESCRIPTION,
        "concurrent new description of the same files",
        "concurrent new description of the same files",
    ),
    ("removing a file beside one that was described anew", touching("2.parquet"), NEW_DESCRIPTION, None, None),
    (
        "the same application",
        attrs.evolve(BLIND, transactions=(("loader", 2),)),
        attrs.evolve(APPEND, transactions=frozenset({"loader"})),
        "concurrent transaction",
        "concurrent transaction",
    ),
    (
        "another application",
        attrs.evolve(BLIND, transactions=(("loader", 2),)),
        attrs.evolve(APPEND, transactions=frozenset({"reporter"})),
        None,
        None,
    ),
    (
        "the same domain",
        attrs.evolve(BLIND, domains=(("io.tablespec.x", "1"),)),
        attrs.evolve(NOTHING, domains=frozenset({"io.tablespec.x"})),
        "concurrent domain",
        "concurrent domain",
    ),
    (
        "another domain",
        attrs.evolve(BLIND, domains=(("io.tablespec.x", "1"),)),
        attrs.evolve(NOTHING, domains=frozenset({"io.tablespec.y"})),
        None,
        None,
    ),
    (
        # Rows that the new rule does not allow would slip in below it.
        "a new constraint after an append",
        attrs.evolve(reading("true"), properties=(("delta.constraints.c", "id > 50"),)),
        APPEND,
        "concurrent append",
        "concurrent append before a change of the table",
    ),
    ("new properties after an append", attrs.evolve(BLIND, properties=(("owner", "me"),)), APPEND, None, None),
    ("new columns after an append", attrs.evolve(BLIND, schema=SCHEMA), APPEND, None, None),
]


@pytest.mark.parametrize(
    ("change", "winner", "serializable", "write_serializable"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_what_may_follow_what(change, winner, serializable, write_serializable):
    assert rule(change, winner, SERIALIZABLE) == serializable
    assert rule(change, winner, WRITE_SERIALIZABLE) == write_serializable


def test_every_rule_is_tried():
    tried = {name for case in CASES for name in case[3:] if name is not None}

    assert tried == {rule.name for rule in CONFLICTS}


def test_whatever_is_refused_under_the_weaker_level_is_refused_under_the_stronger():
    for _, change, winner, serializable, write_serializable in CASES:
        assert serializable is not None or write_serializable is None, (change, winner)


def test_a_rule_tells_why():
    found, winner = conflict(reading("id = 15"), [NOTHING, APPEND], SERIALIZABLE)

    assert found.why == "it appended rows that this operation might have read"
    assert winner == APPEND


def test_columns_that_a_later_commit_took_away_are_not_looked_for():
    without = AddedFiles((ADDED,), attrs.evolve(SHAPE, schema=Schema(SCHEMA.fields[1:])))
    winners = [attrs.evolve(APPEND, added=without), attrs.evolve(NOTHING, version=8, metadata_changed=True)]

    found, winner = conflict(reading("id = 15"), winners, SERIALIZABLE)

    assert (found.name, winner.version) == ("metadata changed", 8)


def test_a_change_that_reads_nothing_is_a_blind_one():
    assert Change(operation="WRITE").reads == ReadsNothing()


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("Serializable", SERIALIZABLE),
        ("WriteSerializable", WRITE_SERIALIZABLE),
        ("", SERIALIZABLE),
        ("odd", SERIALIZABLE),
    ],
)
def test_a_level_that_nobody_knows_is_the_strictest(name, level):
    assert isolation_of(name) is level
