"""The files of a table as columns, so that a million of them is a handful of values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.storage.store import FileInfo, Storage

# Sorts after every path below .hoodie and before everything else that begins with its name.
_AFTER_METADATA = ".hoodie/\U0010ffff"


@attrs.frozen
class FileColumns:
    """Files, folder by folder in the order of `folders`: the number of its folder, name, bytes, and time of change of each."""

    folders: tuple[str, ...]
    numbers: pa.Int32Array
    names: pa.StringArray
    sizes: pa.Int64Array
    modified: pa.Int64Array

    def take(self, rows: pa.Array) -> FileColumns:
        """Some of the files."""
        columns = (column.take(rows) for column in (self.numbers, self.names, self.sizes, self.modified))
        return FileColumns(self.folders, *columns)

    def paths(self) -> list[str]:
        """The path of each file."""
        prefixes = [f"{folder}/" if folder else "" for folder in self.folders]
        try:
            before = pa.array(prefixes, pa.string()).take(self.numbers)
        except UnicodeEncodeError:
            return [prefixes[number] + name for number, name in zip(self.numbers.to_pylist(), self.names.to_pylist())]
        found: list[str] = pc.binary_join_element_wise(before, self.names, "").to_pylist()
        return found

    def infos(self) -> list[FileInfo]:
        """The files one by one, in path order."""
        found = map(FileInfo, self.paths(), self.sizes.to_pylist(), self.modified.to_pylist())
        return sorted(found, key=lambda file: file.path)


def listed_files(storage: Storage) -> FileColumns:
    """All files of the table outside of .hoodie, by its folders."""
    return file_columns(data_files(storage))


def data_files(storage: Storage) -> Iterator[FileInfo]:
    """All files of the table outside of .hoodie, in path order."""
    for file in storage.list():
        if file.path > ".hoodie/":
            break
        yield file
    yield from storage.list(after=_AFTER_METADATA)


def file_columns(files: Iterable[FileInfo]) -> FileColumns:
    """These files as columns; their folders are in the order in which they appear first."""
    folders: dict[str, int] = {}
    numbers, names, sizes, modified = list[int](), list[str](), list[int](), list[int]()
    for file in files:
        folder, _, name = file.path.rpartition("/")
        number = folders.get(folder)
        if number is None:
            number = folders[folder] = len(folders)
        numbers.append(number)
        names.append(name)
        sizes.append(file.size)
        modified.append(file.modified)
    found = FileColumns(
        tuple(folders),
        pa.array(numbers, pa.int32()),
        _texts(names),
        pa.array(sizes, pa.int64()),
        pa.array(modified, pa.int64()),
    )
    # In path order the files of a folder stand around those of the folders in it.
    nested = len(pc.run_end_encode(found.numbers).values) > len(folders)
    return found.take(pc.sort_indices(found.numbers)) if nested else found


def _texts(names: list[str]) -> pa.StringArray:
    try:
        return pa.array(names, pa.string())
    except UnicodeEncodeError:
        # Somebody may leave a file in a folder whose name is no text; that of no file of a table is empty.
        return pa.array([name if _is_text(name) else "" for name in names], pa.string())


def _is_text(name: str) -> bool:
    return name.encode(errors="replace") == name.encode(errors="surrogatepass")
