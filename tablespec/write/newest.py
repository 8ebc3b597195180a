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
        numbered = rows.append_column("_number", pa.arange(0, rows.num_rows))
        for name in self.key:
            index = numbered.schema.get_field_index(name)
            numbered = numbered.set_column(index, name, one_zero(numbered.column(name)))
        if self.ordering is not None:
            # Null orders below every value, and false below true.
            numbered = numbered.append_column("_given", pc.is_valid(numbered.column(self.ordering)))
            by = [("_given", "ascending"), (self.ordering, "ascending"), ("_number", "ascending")]
            numbered = numbered.take(pc.sort_indices(numbered, sort_keys=by))
        keyed = numbered.select([*self.key, "_number"])
        last = keyed.group_by(list(self.key), use_threads=False).aggregate([("_number", "last")])
        return rows.take(last.column("_number_last").combine_chunks().sort())
