"""What writes hold in memory does not grow with the data, nor with the pairs that a merge looks at.

Each case runs in a process of its own, since the peak of a process only ever grows.
"""

import subprocess
import sys

import pytest

SCRIPT = """
import os, resource, sys
import pyarrow as pa
import tablespec
from tablespec.write.append import append
from tablespec.write.data_file import Buffers

folder, kind, small, large = sys.argv[1:]
ROWS = 250_000
schema = pa.schema([("p", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])


def partitions():
    if kind == "skewed":  # one row of each batch goes elsewhere, and waits there for long
        return pa.array([1] + [0] * (ROWS - 1))
    if kind == "many":
        return pa.array([number % 20 for number in range(ROWS)])
    return pa.repeat(pa.scalar(0), ROWS)


def noise():
    return pa.Array.from_buffers(pa.int64(), ROWS, [None, pa.py_buffer(os.urandom(ROWS * 8))])


def batches(megabytes):
    given = partitions()
    for _ in range(megabytes // 6):
        yield pa.RecordBatch.from_arrays([given, noise(), noise()], schema=schema)


def peak(megabytes):
    reader = pa.RecordBatchReader.from_batches(schema, batches(megabytes))
    small = Buffers(row_group_bytes=1 << 20, waiting_bytes=4 << 20, open_files=20)
    assert append(table.format, reader, buffers=small).rows == megabytes // 6 * ROWS
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


keys = [] if kind == "unpartitioned" else ["p"]
table = tablespec.create_table(folder, schema, partition_by=keys)
peak(6)
print(peak(int(small)), peak(int(large)))
"""


@pytest.mark.parametrize(
    ("kind", "small", "large"),
    [("unpartitioned", 24, 144), ("skewed", 24, 144), ("many", 24, 72)],
    ids=["unpartitioned", "one row of a batch elsewhere", "many partitions"],
)
def test_several_times_the_data_needs_about_the_same_memory(tmp_path, kind, small, large):
    arguments = [str(tmp_path / "table"), kind, str(small), str(large)]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True)

    before, after = map(int, done.stdout.split())
    assert after - before < (large - small) // 2, f"{before} MB became {after} MB"


MERGE = """
import resource, sys
import pyarrow as pa
import tablespec

rows = pa.table({"id": pa.arange(0, 200_000)})
table = tablespec.create_table(sys.argv[1], rows.schema)
table.append(rows)
bands = pa.table({"low": pa.arange(0, 500), "high": pa.arange(1, 501)})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
done = table.merge(bands, "t.id >= s.low and t.id < s.high", tablespec.when_matched_delete())
print(done.rows_deleted, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 - before)
"""


def test_a_merge_without_equal_columns_looks_at_a_few_pairs_at_a_time(tmp_path):
    command = [sys.executable, "-c", MERGE, str(tmp_path / "table")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    deleted, more = map(int, done.stdout.split())
    assert (deleted, more < 200) == (500, True), f"{more} MB more"
