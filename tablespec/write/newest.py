"""The rows of data that count where several have the same record key."""

from __future__ import annotations

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.evaluate import one_zero
from tablespec.arrow.row_text import row_text
from tablespec.errors import EmptyKeyError, TypeMismatchError
from tablespec.model.schema import Field
from tablespec.write.merge_keys import as_keys


@attrs.frozen
class Newest:
    """Among rows of one key the one with the greatest value of the ordering column counts, and among equal ones the last.

    Null orders below every value; without an ordering column the last row counts. `key` are columns of the table at `table`, and
    `in_partitions` those of them that it is partitioned by.
    """

    key: tuple[Field, ...]
    ordering: str | None
    table: str
    in_partitions: tuple[str, ...] = ()

    def of(self, rows: pa.Table) -> pa.Table:
        """The rows that count, in their order; raises for a key that is null, or would be another one, once it is stored."""
        for field in self.key:
            self._check_stored(rows, field)
        keys = {f"key{index}": one_zero(rows.column(field.name)) for index, field in enumerate(self.key)}
        keyed = pa.table({**keys, "number": pa.arange(0, rows.num_rows)})
        if self.ordering is not None:
            ordering = rows.column(self.ordering)
            # Null orders below every value, and false below true.
            order = pa.table({"given": pc.is_valid(ordering), "value": ordering, "number": keyed.column("number")})
            by = [(name, "ascending") for name in order.column_names]
            keyed = keyed.take(pc.sort_indices(order, sort_keys=by))
        last = keyed.group_by(list(keys), use_threads=False).aggregate([("number", "last")])
        return rows.take(last.column("number_last").combine_chunks().sort())

    def _check_stored(self, rows: pa.Table, field: Field) -> None:
        values = rows.column(field.name).combine_chunks()
        lost = pc.is_null(values)
        if field.name in self.in_partitions and (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
            lost = pc.or_kleene(lost, pc.equal(pc.binary_length(values), 0))
        row = pc.index(lost, True).as_py()
        if row >= 0:
            raise EmptyKeyError(self.table, field.name, row_text(rows.slice(row, 1).to_batches()[0], 0))
        row = pc.index(pc.is_null(as_keys(values, field)), True).as_py()
        if row >= 0:
            why = f"{values.type}: the key {values[row].as_py()!r} would be another one; cast the column"
            raise TypeMismatchError(field.name, str(field.type), why)
