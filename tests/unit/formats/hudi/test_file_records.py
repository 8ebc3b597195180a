"""Records of the metadata table that list files."""

from __future__ import annotations

import io
import json
from itertools import accumulate

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablespec.formats.hudi import file_records
from tablespec.formats.hudi.file_maps import FEW, FileLists
from tablespec.formats.hudi.file_records import DroppedRecords, FileRecords, decode_file_records, merged

NULLABLE = {"type": ["null", "string"], "default": None}
FILE = {
    "type": "record",
    "name": "HoodieMetadataFileInfo",
    "fields": [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}],
}
LISTED = {"name": "filesystemMetadata", "type": ["null", {"type": "map", "values": FILE, "avro.java.string": "String"}]}
KEY = {"name": "key", "type": {"type": "string", "avro.java.string": "String"}}
TYPE = {"name": "type", "type": "int"}
AS_HUDI_WRITES = [
    {"name": "_hoodie_commit_time", **NULLABLE},
    {"name": "_hoodie_record_key", **NULLABLE},
    KEY,
    TYPE,
    LISTED,
    {"name": "BloomFilterMetadata", **NULLABLE},
    {"name": "recordIndexMetadata", "type": ["string", "null"]},
]
SCHEMAS = {
    "as Hudi writes": AS_HUDI_WRITES,
    "nothing else": [KEY, TYPE, LISTED],
    "of another order": [LISTED, KEY, TYPE],
    "with a member that is never null": [*AS_HUDI_WRITES, {"name": "more", "type": "string", "default": ""}],
}
FILES = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.text("ab", min_size=60, max_size=70),
    st.tuples(st.sampled_from([0, 1, 63, 64, 1 << 20, 1 << 40, (1 << 63) - 1]), st.booleans()),
    max_size=5,
)


def encoded(fields: list[dict[str, object]], listed: dict[str, tuple[int, bool]] | None) -> bytes:
    """A record that lists files by name, size, and whether they are deleted."""
    files = listed and {name: {"size": size, "isDeleted": gone} for name, (size, gone) in listed.items()}
    record = {"key": "", "type": 2, "filesystemMetadata": {} if listed == {} else files, "more": "x"}
    sink = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": "HoodieMetadataRecord", "fields": fields})
    fastavro.schemaless_writer(sink, schema, record)
    return sink.getvalue()


def bodies(fields: list[dict[str, object]], many: list[dict[str, tuple[int, bool]] | None]) -> list[bytes]:
    """Records that list files, those that list the same made once."""
    made = {str(files): encoded(fields, files) for files in many}
    return [made[str(files)] for files in many]


def decoded(fields: list[dict[str, object]], bodies: list[bytes]) -> FileRecords:
    """The records as columns, under the keys 0, 1 and so on."""
    ends = list(accumulate(map(len, bodies)))
    schema = json.dumps({"type": "record", "name": "HoodieMetadataRecord", "fields": fields})
    keys = [str(number) for number in range(len(bodies))]
    return decode_file_records(b"".join(bodies), keys, [0, *ends][: len(ends)], ends, schema)


def shown(records: FileRecords) -> list[dict[str, tuple[int, bool]]]:
    """What each record lists."""
    columns = (column.to_pylist() for column in (records.names, records.sizes, records.deleted))
    files = iter(zip(*columns, strict=True))
    return [{name: (size, gone) for name, size, gone in (next(files) for _ in range(n))} for n in records.counts]


@pytest.mark.parametrize("fields", SCHEMAS.values(), ids=SCHEMAS)
@given(listed=st.lists(st.none() | FILES, max_size=4))
def test_records_list_what_was_written(fields, listed):
    records = decoded(fields, [encoded(fields, files) for files in listed])

    assert shown(records) == [files or {} for files in listed]
    assert records.keys == tuple(str(number) for number in range(len(listed)))


def test_records_as_hudi_writes_them_are_not_decoded_one_by_one(monkeypatch):
    monkeypatch.setattr(file_records, "data", None)

    records = decoded(AS_HUDI_WRITES, [encoded(AS_HUDI_WRITES, {"f" * 70: (1 << 40, False), "g": (3, True)})])

    assert shown(records) == [{"f" * 70: (1 << 40, False), "g": (3, True)}]


@given(listed=st.lists(FILES, min_size=1, max_size=3), few=st.lists(st.none() | FILES, max_size=2))
@settings(max_examples=20)
def test_many_records_list_what_was_written(listed, few):
    many = [*few, *listed * FEW, *few, *listed]

    records = decoded(AS_HUDI_WRITES, bodies(AS_HUDI_WRITES, many))

    assert shown(records) == [files or {} for files in many]


def test_many_records_as_hudi_writes_them_are_not_decoded_one_by_one(monkeypatch):
    monkeypatch.setattr(FileLists, "read_map", None)
    plain = {"f" * 70: (1 << 40, False), "ü": (3, True), "": (0, False)}
    many = [*[plain, {}] * FEW, {str(number): (number, False) for number in range(300)}]

    records = decoded(AS_HUDI_WRITES, bodies(AS_HUDI_WRITES, many))

    assert shown(records) == many


# A map of two blocks, the second of which tells its bytes, as Avro allows.
BLOCKS = b"\x02\x02" + b"\x02f\x06\x00" + b"\x01\x08" + b"\x02g\x08\x01" + b"\x00"
ENTRIES = {
    "several blocks": (BLOCKS.replace(b"\x01\x08", b"\x02"), {"f": (3, False), "g": (4, True)}),
    "a block that tells its bytes": (BLOCKS, {"f": (3, False), "g": (4, True)}),
    "the largest size": (
        b"\x02\x02" + b"\x02f" + b"\xfe" + b"\xff" * 8 + b"\x01\x00\x00",
        {"f": ((1 << 63) - 1, False)},
    ),
    "a number of needless bytes": (b"\x02\x82\x00" + b"\x82\x80\x00f\x86\x80\x00\x00\x00", {"f": (3, False)}),
}


@pytest.mark.parametrize("count", [1, FEW + 1])
@pytest.mark.parametrize(("listing", "expected"), ENTRIES.values(), ids=ENTRIES)
def test_records_of_every_form_that_avro_allows_are_read(listing, expected, count):
    records = decoded([KEY, TYPE, LISTED], [b"\x00\x04" + listing] * count)

    assert shown(records) == [expected] * count


@pytest.mark.parametrize("size", [b"\x03", b"\xff" * 10 + b"\x00"], ids=["negative", "too long"])
def test_sizes_that_cannot_be_are_refused_or_read_as_avro_reads_them(size):
    body = b"\x00\x04\x02\x02\x02f" + size + b"\x00\x00"
    outcomes = []

    for count in (1, FEW + 1):
        try:
            outcomes.append(shown(decoded([KEY, TYPE, LISTED], [body] * count))[0])
        except ValueError as error:
            outcomes.append(type(error))

    assert outcomes[0] == outcomes[1]


@given(st.data())
def test_damaged_records_are_refused_or_read_as_avro_reads_them(data):
    body = bytearray(encoded(AS_HUDI_WRITES, {"f" * 70: (1 << 40, False), "g": (3, True)}))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] ^= data.draw(st.integers(1, 255))
    try:
        expected = fastavro.schemaless_reader(
            io.BytesIO(body),
            fastavro.parse_schema({"type": "record", "name": "HoodieMetadataRecord", "fields": AS_HUDI_WRITES}),
        )["filesystemMetadata"]
    except (EOFError, IndexError, ValueError, OverflowError, TypeError):
        with pytest.raises(ValueError):
            decoded(AS_HUDI_WRITES, [bytes(body)])
        return
    wanted = {name: (info["size"], info["isDeleted"]) for name, info in (expected or {}).items()}
    assert shown(decoded(AS_HUDI_WRITES, [bytes(body)])) == [wanted]


@given(st.data())
@settings(max_examples=30)
def test_damage_among_many_records_is_refused_or_read_as_without_the_others(data):
    sound = {"f" * 70: (1 << 40, False), "g": (3, True)}
    body = bytearray(encoded(AS_HUDI_WRITES, sound))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] ^= data.draw(st.integers(1, 255))
    many = [encoded(AS_HUDI_WRITES, sound)] * FEW
    try:
        expected = shown(decoded(AS_HUDI_WRITES, [bytes(body)]))
    except ValueError:
        with pytest.raises(ValueError):
            decoded(AS_HUDI_WRITES, [*many, bytes(body), *many])
        return

    assert shown(decoded(AS_HUDI_WRITES, [*many, bytes(body), *many])) == [sound] * FEW + expected + [sound] * FEW


def test_a_file_without_records_need_not_tell_its_schema():
    assert shown(decode_file_records(b"", [], [], [], "")) == []


@pytest.mark.parametrize("schema", ["", "[]", "{}", '{"type": "record", "name": "r", "fields": [{}]}'])
def test_records_without_a_sound_schema_are_refused(schema):
    with pytest.raises(ValueError):
        decode_file_records(b"\x00", ["a"], [0], [1], schema)


def records(**listed: dict[str, tuple[int, bool]]) -> FileRecords:
    """Records of these keys."""
    files = [(name, *info) for of_key in listed.values() for name, info in of_key.items()]
    names, sizes, deleted = zip(*files, strict=True) if files else ((), (), ())
    return FileRecords(
        keys=tuple(listed),
        counts=[len(of_key) for of_key in listed.values()],
        names=pa.array(names, pa.string()),
        sizes=pa.array(sizes, pa.int64()),
        deleted=pa.array(deleted, pa.bool_()),
    )


def files(*sources: FileRecords | DroppedRecords) -> list[tuple[str, int]]:
    """The paths and sizes in the end."""
    return [(file.path, file.size) for file in merged(sources).infos()]


def test_files_that_are_listed_as_deleted_are_gone():
    first = records(a={"f": (1, False), "g": (2, False)}, b={"h": (3, False), "i": (4, True)})

    assert files(first) == [("a/f", 1), ("a/g", 2), ("b/h", 3)]
    assert files(first, records(a={"f": (0, True)})) == [("a/g", 2), ("b/h", 3)]


def test_a_file_that_is_listed_again_has_its_largest_size():
    first, second = records(a={"f": (5, False), "g": (2, False)}), records(a={"f": (3, False), "g": (7, False)})

    assert files(first, second) == [("a/f", 5), ("a/g", 7)]


def test_a_deleted_record_takes_what_was_listed_before_it():
    first, second = records(a={"f": (1, False)}, b={"g": (2, False)}), records(a={"h": (3, False)})

    assert files(first, DroppedRecords(("a", "c")), second) == [("a/h", 3), ("b/g", 2)]
    assert files(first, second, DroppedRecords(("a",))) == [("b/g", 2)]


def test_without_records_there_are_no_files():
    assert files() == []
