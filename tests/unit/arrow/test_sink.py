"""Files that are written in large pieces."""

from __future__ import annotations

import io

import pytest

from tablespec.arrow.sink import in_large_pieces


class Pieces(io.BytesIO):
    """A file that remembers the sizes of what it was handed."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def write(self, data, /) -> int:
        self.sizes.append(len(data))
        return super().write(data)


@pytest.fixture
def file() -> Pieces:
    return Pieces()


def test_small_pieces_reach_the_file_in_few_large_ones(file):
    pieces = in_large_pieces(file)

    for number in range(1000):
        pieces.write(bytes([number % 256]) * 1000)
    assert pieces.tell() == 1_000_000
    pieces.close()

    assert file.getvalue() == b"".join(bytes([number % 256]) * 1000 for number in range(1000))
    assert len(file.sizes) < 10


def test_a_file_is_left_open_for_its_owner_to_close(file):
    in_large_pieces(file).close()

    assert not file.closed


def test_what_is_left_is_dropped_when_the_owner_has_closed_the_file(file):
    pieces = in_large_pieces(file)
    pieces.write(b"half of a page")

    file.close()
    pieces.close()

    assert file.sizes == []


def test_a_fault_of_the_file_comes_out_as_it_is():
    class Full(io.BytesIO):
        def write(self, data, /) -> int:
            raise OSError(28, "no space left on device")

    pieces = in_large_pieces(Full())
    pieces.write(b"x")

    with pytest.raises(OSError, match="no space left on device"):
        pieces.flush()
