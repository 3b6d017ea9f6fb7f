"""Numbers and bytes, as the format has them."""

from __future__ import annotations

import pyarrow as pa


def wrap(number: int) -> int:
    """As a signed number of 64 bits."""
    return ((number + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Bytes:
    """Bytes that are read from the front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        assert self.at + size <= len(self.data), "it ends too early"
        self.at += size
        return self.data[self.at - size : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self) -> int:
        number, shift = 0, 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                assert number < 1 << 64
                return number

    def signed(self) -> int:
        number = self.number()
        return number >> 1 ^ -(number & 1)

    def bytes(self) -> bytes:
        return self.take(self.number())

    def squeezed(self) -> Bytes:
        plain, packed = self.number(), self.number()
        if packed == 0:
            return Bytes(self.take(plain))
        return Bytes(pa.Codec("zstd").decompress(self.take(packed), plain, asbytes=True))

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.at)

    @property
    def is_empty(self) -> bool:
        return self.at == len(self.data)


class Bits:
    """Bits, the lowest of each byte first."""

    def __init__(self, data: bytes) -> None:
        self.number = int.from_bytes(data, "little")

    def take(self, count: int) -> int:
        taken = self.number & ((1 << count) - 1)
        self.number >>= count
        return taken
