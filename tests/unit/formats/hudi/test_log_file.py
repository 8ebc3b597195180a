import pytest

from tablespec.formats.hudi.log_file import BlockType, Damage, LogBlock, blocks_of
from tests.unit.formats.hudi.log_writing import AVRO, COMMAND, DELETE, block, rollback_block

FIRST, SECOND = (
    block(AVRO, {0: "20240101000000001", 2: "schema"}, b"one"),
    block(DELETE, {0: "20240101000000002"}, b"two"),
)


def contents(data: bytes) -> list[object]:
    return [bytes(one.content) if isinstance(one, LogBlock) else one for one in blocks_of(data)]


def test_blocks_come_in_order_with_their_headers():
    one, two = blocks_of(FIRST + SECOND)

    assert (one.type, one.instant, one.schema, bytes(one.content)) == (
        BlockType.AVRO,
        20240101000000001,
        "schema",
        b"one",
    )
    assert (two.type, two.instant, two.schema, bytes(two.content)) == (BlockType.DELETE, 20240101000000002, "", b"two")


def test_an_empty_file_has_no_blocks():
    assert contents(b"") == []


def test_a_rollback_names_its_target():
    (command,) = blocks_of(rollback_block("20240101000000003", "20240101000000001"))

    assert (command.is_rollback, command.target) == (True, 20240101000000001)


def test_the_instants_of_a_log_compaction_are_told():
    (found,) = blocks_of(block(AVRO, {0: "3", 4: "20240101000000001, 20240101000000002"}))

    assert found.compacted == {20240101000000001, 20240101000000002}


@pytest.mark.parametrize("cut", [1, 7, len(FIRST) - 1])
def test_a_block_that_was_cut_short_is_damage_and_the_next_one_is_found(cut):
    assert contents(FIRST[:cut] + SECOND) == [Damage(0, cut), b"two"]


def test_a_block_at_the_end_that_was_cut_short_is_damage():
    assert contents(FIRST + SECOND[:-1]) == [b"one", Damage(len(FIRST), len(FIRST) + len(SECOND) - 1)]


def test_a_block_whose_lengths_differ_is_damage():
    broken = FIRST[:-1] + b"\x00"

    assert contents(broken + SECOND) == [Damage(0, len(broken)), b"two"]


def test_bytes_that_are_no_block_are_damage():
    assert contents(b"noise" + FIRST) == [Damage(0, 5), b"one"]


def test_the_magic_bytes_inside_of_damage_are_passed_over():
    assert contents(FIRST[:-9] + b"#HUDI#" + SECOND) == [Damage(0, len(FIRST) - 3), b"two"]


@pytest.mark.parametrize(
    ("place", "byte", "why"),
    [
        (17, 2, "log format version 2"),
        (21, 9, "9 is not a valid BlockType"),
        (25, 99, "counts more entries than it can hold"),
    ],
    ids=["format version", "block type", "header"],
)
def test_a_whole_block_that_cannot_be_understood_is_an_error(place, byte, why):
    changed = bytearray(block(COMMAND, {0: "1"}))
    changed[place] = byte

    with pytest.raises(ValueError, match=why):
        list(blocks_of(bytes(changed)))
