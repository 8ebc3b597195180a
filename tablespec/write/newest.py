"""The rows of data that count where several have the same record key."""

from __future__ import annotations

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.evaluate import one_zero
from tablespec.arrow.row_text import row_text
from tablespec.errors import EmptyKeyError


@attrs.frozen
class Newest:
    """Among rows of one key the one with the greatest value of the ordering column counts, and among equal ones the last.

    Null orders below every value; without an ordering column the last row counts. `in_partitions` are the columns of the key that the
    table at `table` is partitioned by.
    """

    key: tuple[str, ...]
    ordering: str | None
    table: str
    in_partitions: tuple[str, ...] = ()

    def of(self, rows: pa.Table) -> pa.Table:
        """The rows that count, in their order; raises for a key that would be null once it is stored."""
        for name in self.in_partitions:
            self._check_characters(rows, name)
        keys = {f"key{index}": one_zero(rows.column(name)) for index, name in enumerate(self.key)}
        keyed = pa.table({**keys, "number": pa.arange(0, rows.num_rows)})
        if self.ordering is not None:
            ordering = rows.column(self.ordering)
            # Null orders below every value, and false below true.
            order = pa.table({"given": pc.is_valid(ordering), "value": ordering, "number": keyed.column("number")})
            by = [(name, "ascending") for name in order.column_names]
            keyed = keyed.take(pc.sort_indices(order, sort_keys=by))
        last = keyed.group_by(list(keys), use_threads=False).aggregate([("number", "last")])
        return rows.take(last.column("number_last").combine_chunks().sort())

    def _check_characters(self, rows: pa.Table, name: str) -> None:
        values = rows.column(name)
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
            empty = rows.filter(pc.equal(pc.binary_length(values), 0)).slice(0, 1)
            if empty.num_rows:
                raise EmptyKeyError(self.table, name, row_text(empty.to_batches()[0], 0))
