"""The rows of data that count where several have the same record key."""

from __future__ import annotations

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.evaluate import one_zero


@attrs.frozen
class Newest:
    """Among rows of one key the one with the greatest value of the ordering column counts, and among equal ones the last.

    Null orders below every value; without an ordering column the last row counts.
    """

    key: tuple[str, ...]
    ordering: str | None

    def of(self, rows: pa.Table) -> pa.Table:
        """The rows that count, in their order."""
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
