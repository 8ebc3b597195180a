"""What every table format promises, whatever it is and wherever it lies."""

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pyarrow as pa
import pytest

from tablespec.errors import ColumnNotFoundError, InstantNotFoundError, ReadOnlyFormatError
from tablespec.expr.bind import bind
from tablespec.expr.nodes import TRUE
from tablespec.expr.verdict import Verdict
from tablespec.formats.base import Change, Committed, Lost, TableFormat, WritableFormat
from tablespec.formats.detect import open_format
from tablespec.model.schema import INTEGER, LONG, STRING, Field, Schema
from tablespec.read.file_index import FileIndex
from tablespec.read.slice_reader import FileSliceReader
from tablespec.storage.store import Storage
from tablespec.table import Table
from tablespec.write.append import writable
from tablespec.write.data_file import write_files
from tests.contracts.tables import Sample, delta_sample, hudi_sample
from tests.rows import assert_same_rows

SAMPLES = [
    "delta local",
    "delta memory",
    "delta s3",
    "delta with a checkpoint",
    "hudi 6 local",
    "hudi 8 local",
    "hudi 9 local",
    "hudi 9 memory",
    "hudi 9 s3",
]
PREDICATES = [
    "part = 'a'",
    "part <> 'a'",
    "part is null",
    "part in ('b', 'c')",
    "qty > 25",
    "qty is null",
    "id = '4' or part = 'a'",
    "not (qty > 25) and part = 'b'",
    "true",
    "false",
]


def place(kind, request):
    match kind:
        case "memory":
            return Storage.at(f"memory://{uuid4().hex}/table")
        case "s3":
            return Storage.at(f"s3://tables/{uuid4().hex}/table", request.getfixturevalue("s3_options"))
        case _:
            return Storage.at(str(request.getfixturevalue("tmp_path_factory").mktemp("contract") / "table"))


@pytest.fixture(scope="module", params=SAMPLES)
def sample(request) -> Sample:
    """A table that tests only read."""
    match request.param.split():
        case ["delta", "with", *_]:
            return delta_sample(place("local", request), checkpointed=True)
        case ["delta", kind]:
            return delta_sample(place(kind, request))
        case ["hudi", version, kind]:
            return hudi_sample(place(kind, request), int(version))


@pytest.fixture(scope="module")
def worker():
    """Another process that reads tasks."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def slices_of(state, predicate=TRUE):
    return [one.slice for one in state.files.judge(predicate)]


def rows_of(state, slices):
    reader = FileSliceReader(storage=state.storage, layout=state.layout, codec=state.codec)
    return [tuple(row.values()) for slice_ in slices for batch in reader.open(slice_) for row in batch.to_pylist()]


def read(task):
    """The rows of a task, in whichever process this runs."""
    return [tuple(row.values()) for batch in task.read() for row in batch.to_pylist()]


# --- what it is ---


def test_it_is_a_table_format_and_is_found_by_what_lies_there(sample):
    format_ = open_format(sample.storage)

    assert isinstance(format_, TableFormat)
    assert format_.storage == sample.storage
    assert format_.info(format_.latest()).format == sample.name


def test_its_columns_are_known(sample):
    state = sample.format.latest()

    assert [(field.name, field.type) for field in state.schema] == [("id", STRING), ("part", STRING), ("qty", INTEGER)]
    assert state.partition_columns == ("part",)
    assert state.record_key == ("id",)
    assert state.constraints == ()


def test_its_properties_are_texts(sample):
    properties = sample.format.latest().properties

    assert properties
    assert all(isinstance(name, str) and isinstance(value, str) for name, value in properties.items())


def test_what_a_person_wants_to_know_is_plain_data(sample):
    info = sample.format.info(sample.format.latest())

    assert pickle.loads(pickle.dumps(info)) == info
    assert hash(info) == hash(pickle.loads(pickle.dumps(info)))
    assert info.protocol
    assert all(isinstance(text, str) for pair in info.protocol for text in pair)


def test_a_sound_table_has_no_problems(sample):
    assert list(sample.format.problems()) == []


# --- time ---


def test_the_timeline_has_every_instant_oldest_first(sample):
    timeline = sample.format.timeline()

    assert [instant.version for instant in timeline] == sample.versions
    stamps = [instant.timestamp for instant in timeline]
    assert stamps == sorted(set(stamps))
    assert timeline.table == sample.storage.url


def test_the_latest_state_is_that_of_the_latest_instant(sample):
    format_ = sample.format

    assert format_.latest().instant.version == format_.timeline().latest().version == sample.versions[-1]


def test_a_latest_state_that_has_not_changed_is_the_same(sample):
    format_ = sample.format

    assert format_.latest() is format_.latest()


def test_every_version_reads_as_it_was(sample):
    format_ = sample.format
    for version, expected in sample.rows.items():
        state = format_.state_at(version)
        assert state.instant.version == version
        assert_same_rows(rows_of(state, slices_of(state)), expected)


def test_the_newest_version_is_the_newest_state(sample):
    format_ = sample.format
    state = format_.latest()

    assert format_.state_at(sample.versions[-1]).instant == state.instant


def test_a_version_before_the_first_is_not_found(sample):
    with pytest.raises(InstantNotFoundError):
        sample.format.state_at(sample.versions[0] - 1)


def test_a_time_names_the_newest_instant_before_it(sample):
    table = Table(sample.format)
    for instant in table.timeline:
        assert_same_rows(table.scan(at=instant.time), sample.rows[instant.version])
    with pytest.raises(InstantNotFoundError):
        table.scan(at=next(iter(table.timeline)).time - timedelta(milliseconds=1))


def test_history_tells_of_every_instant_newest_first(sample):
    format_ = sample.format

    entries = format_.history()

    assert [entry.instant.version for entry in entries] == sample.versions[::-1]
    assert [entry.files_added for entry in entries][:3] == [1, 1, 2]
    assert all(pickle.loads(pickle.dumps(entry)) == entry and hash(entry) for entry in entries)


# --- files ---


def test_slices_are_plain_data_that_tells_where_files_lie(sample):
    format_ = sample.format
    state = format_.latest()
    versions = set(sample.versions)

    slices = slices_of(state)

    assert len(slices) == 4
    for slice_ in slices:
        assert slice_.base.size == format_.storage.head(slice_.base.path).size
        assert slice_.instant in versions
        assert slice_.is_clean
        assert slice_.partition_values == (slice_.group.partition.rpartition("=")[2],)
        assert pickle.loads(pickle.dumps(slice_)) == slice_
    assert len({hash(slice_) for slice_ in slices}) == len(set(slices)) == 4
    assert len({slice_.group for slice_ in slices}) == 4


@pytest.mark.parametrize("text", PREDICATES)
def test_judging_leaves_out_no_slice_with_a_match_and_marks_only_full_ones(sample, text):
    state = sample.format.latest()
    predicate = bind(text, state.schema)
    reader = FileSliceReader(storage=state.storage, layout=state.layout, codec=state.codec)
    filtering = reader.push_down_filters(predicate)

    judged = {one.slice: one.verdict for one in state.files.judge(predicate)}

    for slice_ in slices_of(state):
        total, matching = (sum(batch.num_rows for batch in one.open(slice_)) for one in (reader, filtering))
        verdict = judged.get(slice_, Verdict.NEVER)
        assert verdict is not Verdict.NEVER or matching == 0
        assert verdict is not Verdict.ALWAYS or matching == total


def test_partitions_are_told_apart_without_reading(sample):
    state = sample.format.latest()

    judged = state.files.judge(bind("part = 'a'", state.schema))

    assert [(one.slice.partition_values, one.verdict) for one in judged] == [(("a",), Verdict.ALWAYS)] * 2


@pytest.mark.parametrize("text", PREDICATES)
def test_filters_give_the_same_rows_in_every_format(sample, text):
    table = Table(sample.format)
    matching = {
        "part = 'a'": "13",
        "part <> 'a'": "245",
        "part is null": "",
        "part in ('b', 'c')": "245",
        "qty > 25": "34",
        "qty is null": "5",
        "id = '4' or part = 'a'": "134",
        "not (qty > 25) and part = 'b'": "2",
        "true": "12345",
        "false": "",
    }[text]

    assert sorted(row[0] for row in rows(table.scan(text))) == list(matching)
    assert table.scan(text).count() == len(matching)


def rows(scan):
    return [tuple(row.values()) for batch in scan.to_batches() for row in batch.to_pylist()]


def test_an_unknown_column_is_told_with_near_names(sample):
    table = Table(sample.format)

    with pytest.raises(ColumnNotFoundError, match="the table has no column 'qtty'; did you mean qty"):
        table.scan("qtty = 1")
    with pytest.raises(ColumnNotFoundError, match="did you mean part"):
        table.scan(columns=["prt"]).to_table()


def test_columns_come_as_they_are_asked_for(sample):
    found = Table(sample.format).scan("part = 'b'", columns=["qty", "id"]).to_table()

    assert found.schema == pa.schema([("qty", pa.int32()), ("id", pa.string())])
    assert_same_rows(found, [(20, "2"), (40, "4"), (None, "5")])


def test_what_came_between_two_instants_is_listed(sample):
    format_ = sample.format
    index, versions = FileIndex(format_), sample.versions[-3:]
    state = format_.latest()

    def between(start, end=None):
        slices = [one for part in index.list_files_between(start, end) for one in part.file_slices]
        return rows_of(state, slices)

    assert_same_rows(between(versions[0]), [("3", "a", 30), ("4", "b", 40), ("5", "b", None)])
    assert_same_rows(between(versions[0], versions[1]), [("3", "a", 30)])
    assert_same_rows(between(versions[2]), [])
    assert_same_rows(between(None), sample.rows[versions[2]])


def test_a_file_group_is_found_with_its_slices(sample):
    index = FileIndex(sample.format)
    ((slice_,),) = (part.file_slices for part in index.list_files_between(*sample.versions[-3:-1]))

    group = index.file_group(slice_.group.id)

    assert (group.id, [one for _, one in group.slices]) == (slice_.group, [slice_])
    assert [instant.version for instant in group.timeline] == [sample.versions[-2]]


# --- values that travel ---


def test_layout_and_codec_travel(sample):
    state = sample.format.latest()

    layout, codec = pickle.loads(pickle.dumps((state.layout, state.codec)))

    assert (layout, codec) == (state.layout, state.codec)
    assert layout.constants == ("part",)
    assert all(codec.deleted_positions(state.storage, slice_) is None for slice_ in slices_of(state))


def test_instants_schemas_and_timelines_travel(sample):
    format_ = sample.format
    values = (
        format_.latest().instant,
        format_.latest().schema,
        format_.timeline(),
        *FileIndex(format_).list_files_at(),
    )

    again = pickle.loads(pickle.dumps(values))

    assert again == values
    assert list(map(hash, again)) == list(map(hash, values))


@pytest.mark.parametrize("target", [1, 1 << 30])
def test_tasks_travel_and_read_the_same_rows(sample, worker, target):
    scan = Table(sample.format).scan("qty > 15 or qty is null")

    tasks = scan.tasks(target_bytes=target)

    expected = [("2", "b", 20), ("3", "a", 30), ("4", "b", 40), ("5", "b", None)]
    assert_same_rows([row for task in pickle.loads(pickle.dumps(tasks)) for row in read(task)], expected)
    if not sample.storage.url.startswith("memory:"):  # which no other process sees
        assert_same_rows([row for found in worker.map(read, tasks) for row in found], expected)


# --- damage ---


@pytest.mark.parametrize("name", ["delta", "hudi 6", "hudi 9"])
def test_a_damaged_log_is_a_problem_that_is_named(tmp_path, name):
    storage = Storage.at(str(tmp_path))
    damaged = delta_sample(storage) if name == "delta" else hudi_sample(storage, int(name.split()[1]))
    commit, *_ = (file.path for file in storage.list() if file.path.endswith((f"{2:020d}.json", ".commit")))
    storage.put(commit, b"oops")

    (problem,) = damaged.format.problems()

    assert commit in problem


# --- formats that can be written ---


@pytest.fixture
def delta(storage) -> WritableFormat:
    """A Delta table of one's own, at each kind of store."""
    return delta_sample(storage).format


def new_files(format_, state, *rows_):
    layout = format_.write_layout(state, state.schema)
    schema = pa.schema([("id", pa.string()), ("part", pa.string()), ("qty", pa.int32())])
    batch = pa.RecordBatch.from_pylist([dict(zip(schema.names, row)) for row in rows_], schema)
    return write_files(format_.storage, layout, iter([batch]))


def test_a_delta_table_can_be_written_and_a_hudi_table_cannot(sample):
    format_ = sample.format

    assert isinstance(format_, WritableFormat) == (sample.name == "delta")
    if sample.name == "hudi":
        with pytest.raises(ReadOnlyFormatError, match="hudi tables can only be read by this release"):
            writable(format_, "append")
    else:
        assert writable(format_, "append") is format_


def test_a_change_is_committed_as_the_next_version(delta):
    state = delta.latest()
    files = new_files(delta, state, ("6", "c", 60))

    outcome = delta.try_commit(Change(operation="WRITE", adds=files, operation_id="o-1"), state)

    assert isinstance(outcome, Committed)
    assert outcome.instant.version == 4
    assert delta.latest().instant.version == 4
    assert_same_rows(Table(open_format(delta.storage)).scan("part = 'c'"), [("6", "c", 60)])


def test_of_two_changes_of_one_state_the_second_loses_and_changes_nothing(delta):
    state = delta.latest()
    first, second = new_files(delta, state, ("6", "c", 60)), new_files(delta, state, ("7", "c", 70))
    delta.try_commit(Change(operation="WRITE", adds=first, operation_id="o-1"), state)

    outcome = delta.try_commit(Change(operation="WRITE", adds=second, operation_id="o-2"), state)

    assert outcome == Lost(4)
    assert_same_rows(Table(open_format(delta.storage)).scan("part = 'c'"), [("6", "c", 60)])


def test_the_same_change_tried_again_is_known_to_be_committed(delta):
    state = delta.latest()
    change = Change(operation="WRITE", adds=new_files(delta, state, ("6", "c", 60)), operation_id="o-1")
    first = delta.try_commit(change, state)

    assert delta.try_commit(change, state) == first
    assert Table(open_format(delta.storage)).scan("part = 'c'").count() == 1


def test_files_are_seen_by_nobody_before_they_are_committed(delta):
    before = Table(open_format(delta.storage)).scan().count()

    new_files(delta, delta.latest(), ("6", "c", 60))

    assert Table(open_format(delta.storage)).scan().count() == before
    assert list(open_format(delta.storage).problems()) == []


def test_commits_after_a_version_tell_what_they_did(delta):
    state = delta.latest()
    files = new_files(delta, state, ("6", "c", 60))
    delta.try_commit(Change(operation="WRITE", adds=files, transactions=(("loader", 1),), operation_id="o-1"), state)
    newer = delta.latest()
    properties = (*newer.properties.items(), ("a", "b"))
    delta.try_commit(Change(operation="SET", properties=properties, operation_id="o-2"), newer)

    appended, changed = delta.commits_after(3)

    assert [commit.version for commit in (appended, changed)] == [4, 5]
    assert [commit.operation_id for commit in (appended, changed)] == ["o-1", "o-2"]
    assert (appended.blind_append, appended.data_change, len(appended.added_paths)) == (True, True, 1)
    assert (appended.metadata_changed, changed.metadata_changed) == (False, True)
    assert appended.transactions == frozenset({"loader"})
    assert len(appended.added.judge(bind("part = 'c'", state.schema))) == 1
    assert len(appended.added.judge(bind("part = 'a'", state.schema))) == 0
    assert list(delta.commits_after(5)) == []


def test_a_checkpoint_changes_nothing_that_is_read(delta):
    before = Table(delta).scan().to_table().sort_by("id")

    assert delta.checkpoint() == 4

    assert Table(open_format(delta.storage)).scan().to_table().sort_by("id").equals(before)


def test_columns_that_a_table_grows_by_are_given_what_every_column_has(delta):
    state = delta.latest()
    grown = delta.grown(state, Schema((*state.schema.fields, Field(name="new", type=LONG))))
    delta.try_commit(Change(operation="ADD", schema=grown, operation_id="o-1"), state)

    assert open_format(delta.storage).latest().schema == grown


def test_what_a_writer_needs_travels(delta):
    state = delta.latest()

    layout = pickle.loads(pickle.dumps(delta.write_layout(state, state.schema)))

    assert layout == delta.write_layout(state, state.schema)
    assert layout.naming.folder(("x y",)) == "part=x y"


def test_appending_is_seen_by_other_clients_at_once(delta):
    other = Table(open_format(delta.storage))
    before = other.scan().count()

    Table(delta).append(pa.table({"id": ["6"], "part": ["c"], "qty": pa.array([60], pa.int32())}))

    assert other.scan().count() == before + 1
