"""Names taken apart in bulk."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from tablespec.formats.hudi.name_columns import taken_apart
from tablespec.formats.hudi.names import BaseFileName, parse_base_file_name, parse_log_file_name

INSTANTS = st.sampled_from(["1", "20261116023607", "20261116023607948", "007", "٣", "12345678901234567890123"])
TOKENS = st.sampled_from(["0-0-0", "12-34-567", "0-0", "", "٣-0-0", "0-0-0-0"])
IDS = st.sampled_from(["f", "with_underscore-0", "", "a.b", "ü", "line\nfeed", "f_0-0-0_1"])
ENDS = st.sampled_from([".parquet", ".orc", ".hfile", ".lance", ".parquet.crc", ".parquet\n", "_1.log.parquet", ""])
LOG_ENDS = st.sampled_from(["", ".cdc", ".crc", "\n", ".cdc.parquet"])
BASES = st.builds("{}_{}_{}{}".format, IDS, TOKENS, INSTANTS, ENDS)
LOGS = st.builds(".{}_{}.log.{}_{}{}".format, IDS, INSTANTS, st.sampled_from(["1", "20", "x"]), TOKENS, LOG_ENDS)
SHORT_LOGS = st.builds(".{}_{}.log.{}".format, IDS, INSTANTS, st.integers(0, 30))
OTHERS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.lists(st.one_of(BASES, LOGS, SHORT_LOGS, OTHERS), max_size=12)


@given(NAMES)
@example(["f_0-0-0_1.parquet", ".f_1.log.1_0-0-0", ".f_1.log.1_0-0-0.cdc", ".hoodie_partition_metadata"])
def test_names_taken_apart_in_bulk_say_what_each_says_alone(names):
    found = taken_apart(pa.array(names, pa.string()))

    bases = {row: base for row, name in enumerate(names) if (base := parse_base_file_name(name)) is not None}
    logs = [row for row, name in enumerate(names) if (log := parse_log_file_name(name)) and not log.is_cdc]
    assert found.logs.to_pylist() == logs
    assert dict(zip(found.bases.to_pylist(), parts(found), strict=True)) == {
        row: (base.file_id, base.instant, base.extension) for row, base in bases.items()
    }


def parts(found) -> list[tuple[str, int, str]]:
    """The id, the instant and the file format of each base file."""
    endings = [found.endings[number] for number in found.numbers.to_pylist()]
    return [(file_id, *ending) for file_id, ending in zip(found.file_ids.to_pylist(), endings, strict=True)]


def test_log_files_of_the_native_format_are_told_apart():
    native, base = "f_0-0-0_1_1.log.parquet", "f_0-0-0_1.parquet"

    assert taken_apart(pa.array([base, native])).has_native_logs
    assert not taken_apart(pa.array([base, ".f_1.log.1_0-0-0.cdc", "notes.log.parquet"])).has_native_logs
    assert parse_base_file_name(base) == BaseFileName(file_id="f", write_token="0-0-0", instant=1, extension="parquet")
