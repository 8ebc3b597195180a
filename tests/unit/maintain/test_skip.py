import json
import re
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablespec
from tablespec.errors import CommitConflictError, CorruptFileError, UnsupportedTableError
from tablespec.maintain import skip
from tablespec.maintain.rewrite import RewriteResult
from tablespec.maintain.skip import Skip
from tablespec.write.execution import Strategy
from tests.handmade import LEGACY, actions_of, add, commit, commit_file, contents, metadata, protocol, versions_of
from tests.rows import assert_same_rows
from tests.unit.maintain.tables import Interrupted, append, data_files, groups, new_table, tracked_rows

HOUR = 3_600_000
NEVER = timedelta(0)


@pytest.fixture
def table(tmp_path):
    """Four files of one partition, one row each; no row of the second can be read."""
    table = new_table(tmp_path)
    for number in range(4):
        append(table, (number, "sf", 1))
    break_file(tmp_path, corrupt_path(table))
    return table


def corrupt_path(table):
    """The file of row 1."""
    (one,) = table.scan(where="id = 1").slices
    return one.slice.base.path


def break_file(folder, path):
    whole = (folder / path).read_bytes()
    (folder / path).write_bytes(b"\0" * len(whole))


def readable_rows(table):
    return tracked_rows_of(table, "id <> 1")


def tracked_rows_of(table, where):
    columns = [*table.schema.names, "_row_id", "_row_commit_version"]
    return list(zip(*(column.to_pylist() for column in table.scan(where, columns=columns).to_table().columns)))


def test_compaction_goes_on_with_the_files_that_can_be_read(table):
    before = readable_rows(table)

    result = table.compact()

    assert (result.files_removed, result.files_added, len(result.skipped)) == (3, 1, 1)
    assert_same_rows(readable_rows(table), before)


def test_a_skipped_file_stays_in_the_table_untouched(table, tmp_path):
    path = corrupt_path(table)
    before = (tmp_path / path).read_bytes()

    table.compact()

    assert path in data_files(table)
    assert (tmp_path / path).read_bytes() == before
    with pytest.raises(CorruptFileError):
        table.scan().to_table()


def test_the_commit_tells_what_was_skipped_and_why(table, tmp_path):
    path = corrupt_path(table)

    version = table.compact().instant.version

    (info,) = actions_of(tmp_path, version, "commitInfo")
    (told,) = info["tablespec"]["skip"]
    assert set(told) == {"path", "reason", "operation", "skipCount", "skipTimestamp", "retryAfter"}
    assert (told["path"], told["operation"], told["skipCount"]) == (path, "compact", 1)
    assert path in told["reason"]
    assert told["retryAfter"] == told["skipTimestamp"] + 24 * HOUR


def test_each_skip_is_an_action_of_its_own_where_the_table_wants_that(table, tmp_path):
    path = corrupt_path(table)
    table.set_properties({"tablespec.topLevelActions": "true"})

    version = table.compact().instant.version

    (info,) = actions_of(tmp_path, version, "commitInfo")
    (told,) = actions_of(tmp_path, version, "skip")
    assert (told["path"], [told]) == (path, info["tablespec"]["skip"])
    assert [one.path for one in tablespec.open_table(str(tmp_path)).skips] == [path]


@pytest.mark.parametrize("checkpointed", [False, True], ids=["from the commits", "from a checkpoint"])
def test_the_table_knows_its_skips(table, tmp_path, checkpointed):
    (expected,) = table.compact().skipped
    if checkpointed:
        table.checkpoint()

    assert tablespec.open_table(str(tmp_path)).skips == (expected,)


def test_a_skipped_file_is_left_alone_until_its_time(table, tmp_path):
    table.compact()
    before = contents(tmp_path)

    assert table.compact(max_deleted_fraction=0) == RewriteResult(instant=None)
    assert contents(tmp_path) == before


def test_a_file_that_fails_again_after_its_time_counts_on(table):
    table.compact(cooldown=NEVER)
    append(table, (4, "sf", 1))

    second = table.compact(cooldown=NEVER)
    third = table.compact(cooldown=timedelta(hours=1))

    assert [one.skip_count for one in second.skipped] == [2]
    assert [one.skip_count for one in third.skipped] == [3]
    assert [one.retry_after - one.skip_timestamp for one in table.skips] == [HOUR]


def test_skips_alone_are_committed(table, tmp_path):
    for path in data_files(table) - {corrupt_path(table)}:
        break_file(tmp_path, path)
    versions = versions_of(tmp_path)

    result = table.compact()

    # The last one that is left is not worth being read alone.
    assert (result.files_removed, len(result.skipped)) == (0, 3)
    assert versions_of(tmp_path) == [*versions, result.instant.version]
    assert actions_of(tmp_path, result.instant.version, "remove") == []


def test_a_file_that_can_be_read_again_is_compacted_and_no_longer_skipped(tmp_path):
    table = new_table(tmp_path)
    for number in range(3):
        append(table, (number, "sf", 1))
    rows, path = tracked_rows(table), corrupt_path(table)
    whole = (tmp_path / path).read_bytes()
    (tmp_path / path).unlink()
    (skipped,) = table.compact(cooldown=NEVER).skipped
    assert "it is not there" in skipped.reason
    (tmp_path / path).write_bytes(whole)

    result = table.compact()

    assert (result.files_removed, result.skipped, table.skips) == (2, (), ())
    assert_same_rows(tracked_rows(table), rows)


def test_skips_of_files_that_are_gone_are_forgotten(table):
    table.compact(cooldown=NEVER)
    table.delete("id <= 1")
    assert len(table.skips) == 1
    for number in (5, 6):
        append(table, (number, "sf", 1))

    table.compact()

    assert table.skips == ()


def test_what_is_left_is_not_written_when_it_is_not_worth_it(tmp_path):
    table = new_table(tmp_path)
    for number in range(2):
        append(table, (number, "sf", 1))
    break_file(tmp_path, corrupt_path(table))
    before = data_files(table)

    result = table.compact()

    assert (result.files_removed, result.files_added, len(result.skipped)) == (0, 0, 1)
    assert data_files(table) == before


def test_a_file_whose_deletion_vector_is_gone_is_skipped(tmp_path):
    table = new_table(tmp_path)
    append(table, *((number, "sf", 1) for number in range(5)))
    table.delete("id = 1")
    for path in (tmp_path / "dv").iterdir():
        path.unlink()

    (skipped,) = table.compact().skipped

    assert skipped.path in next(iter(groups(table).values()))
    assert "deletion_vector" in skipped.reason


def test_a_file_that_breaks_off_in_the_middle_leaves_no_row_behind(tmp_path):
    table = new_table(tmp_path)
    append(table, *((number, "x" * 50, 1) for number in range(100_000)))
    append(table, (200_000, "sf", 1))
    append(table, (200_001, "sf", 1))
    (one,) = table.scan(where="id = 1").slices
    path = tmp_path / one.slice.base.path
    whole = bytearray(path.read_bytes())
    start, end = len(whole) * 3 // 4, len(whole) * 7 // 8
    whole[start:end] = b"\xff" * (end - start)
    path.write_bytes(bytes(whole))

    result = table.compact()

    assert (result.files_removed, len(result.skipped)) == (2, 1)
    assert_same_rows(table.scan("id >= 200000"), [(200_000, "sf", 1), (200_001, "sf", 1)])


def test_clustering_skips_what_it_cannot_read(table):
    before = readable_rows(table)

    result = table.cluster(["id"])

    assert (result.files_removed, len(result.skipped)) == (3, 1)
    assert [one.operation for one in table.skips] == ["cluster"]
    assert_same_rows(readable_rows(table), before)


# --- files that can be opened and do not hold what the log tells ---

TYPED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("text", pa.string()),
        ("small", pa.int32()),
        ("member", pa.struct([("a", pa.string())])),
    ]
)
FITTING = {"id": [1, 2], "text": ["x", None], "small": [1, None], "member": [{"a": "x"}, None]}


def compacting(table):
    return table.compact(max_deleted_fraction=0)


def clustering(table):
    return table.cluster(["id"])


VERBS = pytest.mark.parametrize("verb", [compacting, clustering], ids=["compacting", "clustering"])


def typed_table(folder, **other):
    """Three files of two rows each; the first was replaced by one with other values."""
    table = tablespec.create_table(str(folder), TYPED)
    for number in range(3):
        table.append(pa.table({**FITTING, "id": [number * 10 + 1, number * 10 + 2]}, TYPED))
    pq.write_table(pa.table({**FITTING, **other}), folder / corrupt_path(table))
    return table


@VERBS
@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"text": [b"\xff", b"x"]}, "column text.*Invalid UTF8"),
        ({"member": [{"a": b"\xff"}, None]}, "column member.a.*Invalid UTF8"),
        ({"member": ["x", "y"]}, "column member .* does not fit"),
        ({"small": [1 << 40, 0]}, "column small .* not in range"),
        ({"small": ["x", "y"]}, "column small .* does not fit"),
        ({"id": [1, None]}, "nulls in the column id"),
    ],
    ids=[
        "invalid text",
        "invalid text in a struct",
        "a text for a struct",
        "too large",
        "no number",
        "no null allowed",
    ],
)
def test_a_file_whose_values_do_not_fit_the_table_is_skipped(tmp_path, verb, other, told):
    table = typed_table(tmp_path, **other)

    (path,) = {one.slice.base.path for one in table.scan("id < 10").slices}

    result = verb(table)

    (skipped,) = result.skipped
    assert (result.files_removed, skipped.path, skipped.skip_count) == (2, path, 1)
    assert re.search(told, skipped.reason)
    assert skipped.retry_after > skipped.skip_timestamp
    assert_same_rows(table.scan("id > 10", columns=["id"]), [(11,), (12,), (21,), (22,)])


@VERBS
def test_deleted_rows_need_not_fit_the_table(tmp_path, verb):
    table = typed_table(tmp_path, small=[1 << 40, 0])
    table.delete("id = 1", strategy=Strategy.MERGE_ON_READ)
    rows = table.scan().to_table()

    result = verb(table)

    assert (result.files_removed, result.skipped) == (3, ())
    assert_same_rows(table.scan(), rows)


@VERBS
def test_a_file_is_skipped_whose_deletion_vector_is_that_of_a_longer_one(tmp_path, verb):
    table = new_table(tmp_path)
    append(table, *((number, "sf", 1) for number in range(5)))
    for number in (10, 11):
        append(table, (number, "sf", 1))
    table.delete("id = 4", strategy=Strategy.MERGE_ON_READ)
    (added,) = actions_of(tmp_path, 4, "add")
    lines = commit_file(tmp_path, 4).read_text()
    commit_file(tmp_path, 4).write_text(lines.replace(r"\"numRecords\":5", r"\"numRecords\":4"))
    whole = pq.read_table(tmp_path / added["path"], partitioning=None)
    pq.write_table(whole.slice(0, 4), tmp_path / added["path"])

    result = verb(tablespec.open_table(str(tmp_path)))

    assert [one.path for one in result.skipped] == [added["path"]]
    assert "row 4 is deleted, and the number of its rows is 4" in result.skipped[0].reason


@VERBS
@pytest.mark.parametrize(
    "deleted", [None, "id = 4", "id = 0"], ids=["without a vector", "with a vector", "with a vector for the first"]
)
@pytest.mark.parametrize("rows", [3, 4, 6], ids=["the last two missing", "the last one missing", "one more"])
def test_a_file_with_another_number_of_rows_than_the_log_tells_is_skipped(tmp_path, verb, deleted, rows):
    table = new_table(tmp_path)
    append(table, *((number, "sf", 1) for number in range(5)))
    (path,) = data_files(table)
    for number in (10, 11):
        append(table, (number, "sf", 1))
    if deleted is not None:
        table.delete(deleted, strategy=Strategy.MERGE_ON_READ)
    whole = pq.read_table(tmp_path / path, partitioning=None)
    pq.write_table(pa.concat_tables([whole, whole]).slice(0, rows), tmp_path / path)

    result = verb(table)

    assert [one.path for one in result.skipped] == [path]
    assert f"the number of its rows is {rows}, and 5 by the log" in result.skipped[0].reason
    assert path in data_files(table)
    assert result.files_removed == 2


@VERBS
def test_a_file_of_another_writer_that_tells_no_number_of_rows_is_not_held_against_any(tmp_path, verb):
    files = [add(tmp_path, f"{number}.parquet", pa.table({"id": [number]}), stats=None) for number in range(2)]
    commit(tmp_path, 0, LEGACY, metadata(), *files)
    table = tablespec.open_table(str(tmp_path))

    result = verb(table)

    assert (result.files_removed, result.skipped) == (2, ())
    assert_same_rows(table.scan(), [(0,), (1,)])


def test_what_is_wrong_with_the_table_as_a_whole_is_no_reason_to_skip_files(tmp_path):
    table = new_table(tmp_path)
    for number in range(3):
        append(table, (number, "sf", 1))
    rows = actions_of(tmp_path, 2, "add")[0]
    strange = {"storageType": "x", "pathOrInlineDv": "?", "offset": 1, "sizeInBytes": 1, "cardinality": 1}
    gone = {"remove": {"path": rows["path"], "partitionValues": {"day": "1"}, "dataChange": True}}
    features = protocol(3, 7, reader_features=["deletionVectors"], writer_features=["rowTracking", "domainMetadata"])
    commit(tmp_path, 4, features, gone, {"add": {**rows, "deletionVector": strange}})
    before = contents(tmp_path)

    with pytest.raises(UnsupportedTableError, match="storage type"):
        tablespec.open_table(str(tmp_path)).compact()
    assert contents(tmp_path) == before


# --- skips together ---


def test_two_that_change_the_skips_do_not_both_stand(tmp_path):
    table = new_table(tmp_path)
    for day in (1, 2):
        for number in range(3):
            append(table, (number, "sf", day))
    for one in table.scan(where="id = 1").slices:
        break_file(tmp_path, one.slice.base.path)

    with pytest.raises(CommitConflictError, match="keeps under the same name"):
        table.compact("day = 1", runner=Interrupted(lambda: table.compact("day = 2")))

    assert len(table.skips) == 1


def test_a_domain_that_makes_no_sense_counts_as_none(table):
    class Odd:
        def domain(self, state, name):
            return json.dumps({"skips": [{"path": 1}]})

    assert skip.skips_of(Odd(), table.format.latest()) == ()


def test_old_skips_are_carried_but_for_files_that_are_over():
    old = [_skip("a", count=1), _skip("b", count=2), _skip("c", count=3)]

    new = skip.failed(old, {"b": "torn"}, "compact", 1000, timedelta(seconds=1))

    assert skip.carried(old, new, {"c"}) == (
        _skip("a", count=1),
        Skip(path="b", reason="torn", operation="compact", skip_count=3, skip_timestamp=1000, retry_after=2000),
    )


def _skip(path, *, count):
    return Skip(path=path, reason="", operation="compact", skip_count=count, skip_timestamp=0, retry_after=0)
