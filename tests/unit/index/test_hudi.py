"""Hudi tables have indexes too, outside of their `.hoodie` folder."""

from __future__ import annotations

import os
import warnings
import zipfile
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import tablespec
from tablespec.errors import ShortRetentionError, TableSpecError
from tablespec.model.schema import STRING
from tablespec.storage.store import Storage
from tests.rows import assert_same_rows
from tests.unit.formats.hudi.conftest import HudiTable, time

FOLDER = os.environ.get("TABLESPEC_REAL_TABLES")
REAL = sorted((Path(FOLDER or "nowhere") / "hudi_spark").glob("*.zip"))


def test_a_companion_index_finds_rows_and_keeps_up(tmp_path: Path) -> None:
    hudi = HudiTable(Storage.at(str(tmp_path / "table")), 9)
    hudi.properties(hoodie_table_recordkey_fields="key")
    hudi.write(1, "p=1", "one", [("quick fox", "1", 1), ("lazy dog", "1", 2)])
    hudi.write(2, "p=2", "two", [("quick dog", "2", 3)])
    table = tablespec.open_table(str(tmp_path / "table"))
    name = table.schema.names[0]
    before = set((tmp_path / "table/.hoodie").rglob("*"))

    index = table.create_text_index([name])

    assert len(table.scan(f"MATCH({name}, 'fox')").slices) == 1
    assert_same_rows(table.scan(f"MATCH({name}, 'quick')", [name]), [("quick fox",), ("quick dog",)])
    hudi.write(3, "p=1", "one", [("new fox", "1", 4)])
    assert_same_rows(table.scan(f"MATCH({name}, 'fox')", [name]), [("new fox",)])
    assert index.refresh().indexed == 1
    assert_same_rows(table.scan(f"MATCH({name}, 'fox')", [name]), [("new fox",)])
    assert [row["_snippet"] for row in table.search("dog").to_pylist()] == ["quick <b>dog</b>"]
    stemmed = table.create_text_index([name], "en_stem", name="stems")
    assert len(table.scan(f"MATCH({name}, 'foxes', 'en_stem')").slices) == 1
    assert index.tokenizer == "default" and stemmed.tokenizer == "en_stem"
    assert not {path for path in (tmp_path / "table/.hoodie").rglob("*") if "index" in path.name} - before


def test_what_indexes_hold_about_cleaned_files_is_removed_after_a_while(tmp_path: Path) -> None:
    hudi = HudiTable(Storage.at(str(tmp_path / "table")), 9)
    hudi.properties(hoodie_table_recordkey_fields="id")
    old = hudi.write(1, "1", "one", [("quick fox", "1", 1)])
    hudi.write(2, "2", "two", [("lazy dog", "2", 2)])
    table = tablespec.open_table(str(tmp_path / "table"))
    table.create_text_index(["id"])
    table.create_record_index()
    hudi.write(3, "1", "one", [("new fox", "1", 3)])
    refreshed = [index.refresh().indexed for index in table.indexes]
    now = timedelta(0)

    left_by_builders = table.vacuum_indexes(now, allow_short_retention=True).paths

    # The older state can be read as long as its files are there, and so can its parts of the indexes.
    assert all(path.rpartition("/")[2].startswith(".") for path in left_by_builders)
    assert [index.coverage(at=time(2)).covered for index in table.indexes] == [2, 2]
    hudi.storage.delete(old)
    assert table.vacuum_indexes().paths == ()
    with pytest.raises(ShortRetentionError):
        table.vacuum_indexes(now)
    planned = table.vacuum_indexes(now, dry_run=True, allow_short_retention=True)
    removed = table.vacuum_indexes(now, allow_short_retention=True)

    assert refreshed == [1, 1]
    assert planned == removed and all(path.startswith("_tablespec/index/text-id/") for path in removed.paths)
    assert removed.paths and not any((tmp_path / "table" / path).exists() for path in removed.paths)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same_rows(table.scan("MATCH(id, 'fox')", ["id"]), [("new fox",)])
        assert [index.coverage().covered for index in table.indexes] == [2, 2]
        assert table.record_index.tag(pa.table({"id": ["lazy dog"]})).column("position").to_pylist() == [0]


@pytest.mark.real_tables
@pytest.mark.skipif(FOLDER is None, reason="TABLESPEC_REAL_TABLES names no folder of real tables")
@pytest.mark.parametrize("archive", REAL[::4], ids=lambda path: path.stem)
def test_real_tables_answer_with_indexes_as_they_do_without(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path)
    (place,) = [path for path in tmp_path.rglob(".hoodie") if not path.parent.is_relative_to(tmp_path / ".hoodie")][:1]
    try:
        table = tablespec.open_table(str(place.parent))
        rows = table.scan().to_table()
    except TableSpecError:
        pytest.skip("refused by name")
    texts = [field.name for field in table.schema if field.type == STRING]
    queries = [f"MATCH({', '.join(texts)}, '{query}')" for query in ("a*", "NOT a*", "*")] if texts else []
    keys = rows.select(list(table.record_key)) if table.record_key else None
    before = [sorted(map(str, table.scan(query).to_table().to_pylist())) for query in queries]
    tagged = None if keys is None else sorted(map(str, table.record_index.tag(keys).to_pylist()))
    ranked = str(table.search("a*", 5, texts).to_pylist()) if texts else ""

    if texts:
        table.create_text_index(texts)
    if keys is not None:
        table.create_record_index()

    assert [sorted(map(str, table.scan(query).to_table().to_pylist())) for query in queries] == before
    assert (None if keys is None else sorted(map(str, table.record_index.tag(keys).to_pylist()))) == tagged
    assert (str(table.search("a*", 5, texts).to_pylist()) if texts else "") == ranked
    assert isinstance(rows, pa.Table)
