"""Thrift's compact protocol, as far as the footers of Parquet files use it: structs as numbered fields with their types."""

from __future__ import annotations

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)

# A field has a type and a value: a number, bytes, a struct, or a list as the type of its members and these.
Struct = dict[int, tuple[int, object]]


class Reader:
    """Reads values one after the other; whatever is not one raises ValueError or IndexError."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def varint(self) -> int:
        """A number without a sign."""
        data, at = self.data, self.at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.at = at
                return value
            shift += 7

    def integer(self) -> int:
        """A number with a sign."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self) -> Struct:
        """The fields of a struct."""
        found: Struct = {}
        last = 0
        while header := self._byte():
            kind, step = header & 15, header >> 4
            last = last + step if step else self.integer()
            found[last] = kind, self._value(kind)
        return found

    def _byte(self) -> int:
        value = self.data[self.at]
        self.at += 1
        return value

    def _value(self, kind: int) -> object:
        match kind:
            case 1 | 2:
                return kind == TRUE
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self.integer()
            case 7:
                self.at += 8
                return self.data[self.at - 8 : self.at]
            case 8:
                size = self.varint()
                self.at += size
                return self.data[self.at - size : self.at]
            case 9 | 10:
                header = self._byte()
                size, member = header >> 4, header & 15
                size = self.varint() if size == 15 else size
                return member, [self._byte() if member in (TRUE, FALSE) else self._value(member) for _ in range(size)]
            case 12:
                return self.struct()
            case _:
                raise ValueError(f"a field of the type {kind}")


def encoded(struct: Struct) -> bytes:
    """A struct in bytes."""
    out = bytearray()
    _write_struct(struct, out)
    return bytes(out)


def _write_struct(struct: Struct, out: bytearray) -> None:
    last = 0
    for number, (kind, value) in sorted(struct.items()):
        step = number - last
        if 0 < step < 16:
            out.append(step << 4 | kind)
        else:
            out.append(kind)
            _write_varint(_zigzag(number), out)
        last = number
        _write_value(kind, value, out)
    out.append(0)


def _write_value(kind: int, value: object, out: bytearray) -> None:
    match kind, value:
        case (1 | 2, _):
            return
        case (3, int()):
            out.append(value)
        case (4 | 5 | 6, int()):
            _write_varint(_zigzag(value), out)
        case (7, bytes()):
            out += value
        case (8, bytes()):
            _write_varint(len(value), out)
            out += value
        case (9 | 10, (int() as member, list() as members)):
            if len(members) < 15:
                out.append(len(members) << 4 | member)
            else:
                out.append(0xF0 | member)
                _write_varint(len(members), out)
            for one in members:
                _write_value(BYTE if member in (TRUE, FALSE) else member, one, out)
        case (12, dict()):
            _write_struct(value, out)
        case _:
            raise ValueError(f"a field of the type {kind}")


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _write_varint(value: int, out: bytearray) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
