import pytest

from tablespec.formats.hudi.log_file import LogBlock, blocks_of
from tablespec.formats.hudi.log_scan import counting
from tests.unit.formats.hudi.log_writing import AVRO, COMMAND, DELETE, block, rollback_block


def data(instant: int, content: str = "", compacted: str = "", kind: int = AVRO) -> bytes:
    header = {0: str(instant)} | ({4: compacted} if compacted else {})
    return block(kind, header, (content or str(instant)).encode())


def scanned(*blocks: bytes, sees=lambda instant: True) -> list[str]:
    parsed = [one for one in blocks_of(b"".join(blocks)) if isinstance(one, LogBlock)]
    return [bytes(one.content).decode() for one in counting(parsed, sees)]


def test_blocks_count_in_their_order():
    assert scanned(data(1), data(2, kind=DELETE), data(1, "1 again")) == ["1", "1 again", "2"]


def test_blocks_of_writes_that_are_not_seen_do_not_count():
    assert scanned(data(1), data(2), data(3), sees=lambda instant: instant != 2) == ["1", "3"]


def test_a_rollback_takes_back_the_blocks_of_its_target_before_it():
    assert scanned(data(1), data(2), data(2, "more"), rollback_block("9", "2"), data(3)) == ["1", "3"]


@pytest.mark.parametrize(
    "command",
    [block(COMMAND, {0: "9", 1: "1", 3: "7"}), block(COMMAND, {0: "9", 3: "0"}), data(2, kind=COMMAND)],
    ids=["unknown", "without a target", "with content"],
)
def test_a_command_that_is_not_known_is_refused(command):
    with pytest.raises(ValueError, match="no command that is known"):
        scanned(data(1), command)


def test_a_rollback_counts_whenever_it_ran():
    assert scanned(data(1), rollback_block("9", "1"), sees=lambda instant: instant < 5) == []


def test_a_log_compaction_stands_in_for_the_blocks_that_it_names():
    assert scanned(data(1), data(2), data(3), data(4, "1 and 2", "1,2")) == ["1 and 2", "3"]


def test_a_log_compaction_counts_only_beside_a_block_that_it_replaces():
    assert scanned(data(1), data(4, "1", "1"), sees=lambda instant: instant == 4) == []


def test_a_log_compaction_of_log_compactions_stands_in_for_all_of_them():
    assert scanned(data(1), data(2), data(3, "1 and 2", "1,2"), data(4, "all", "3")) == ["all"]


def test_a_block_without_an_instant_is_an_error():
    with pytest.raises(ValueError, match="which write"):
        scanned(block(AVRO, {}))
