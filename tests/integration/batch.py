"""Record batches (magic 2) for tests: build right or deliberately wrong ones, and read what a broker gives back."""
import gzip
import struct
import time
from dataclasses import dataclass, field

import crc32c
import lz4.frame
import snappy
import zstandard

HEAD = struct.Struct(">qiibIhiqqqhii")  # base offset .. record count, 61 bytes
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)


def compress(codec, data):
    if codec == "gzip":
        return gzip.compress(data)
    if codec == "snappy":
        return snappy.compress(data)
    if codec == "snappy-xerial":
        piece = snappy.compress(data)
        return XERIAL + struct.pack(">i", len(piece)) + piece
    if codec == "lz4":
        return lz4.frame.compress(data, block_linked=False)
    return zstandard.compress(data) if codec == "zstd" else data


def decompress(codec, data):
    if codec == 1:
        return gzip.decompress(data)
    if codec == 2 and data.startswith(XERIAL[:8]):
        out, pos = b"", len(XERIAL)
        while pos < len(data):
            size = struct.unpack_from(">i", data, pos)[0]
            out += snappy.decompress(data[pos + 4:pos + 4 + size])
            pos += 4 + size
        return out
    if codec == 2:
        return snappy.decompress(data)
    if codec == 3:
        return lz4.frame.decompress(data)
    return zstandard.ZstdDecompressor().decompressobj().decompress(data) if codec == 4 else data


def varint(value):
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data, pos):
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), pos


def now_ms():
    return int(time.time() * 1000)


def sized(data):
    return varint(-1) if data is None else varint(len(data)) + data


def record(offset_delta, key, value, timestamp_delta=0, headers=()):
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + sized(key) + sized(value) + varint(len(headers))
    for name, content in headers:
        body += sized(name.encode()) + sized(content)
    return varint(len(body)) + body


def seal(head_fields, payload):
    """61 bytes of head with right length and CRC, then the payload."""
    base, _length, epoch, magic, _crc, *rest = head_fields
    tail = HEAD.pack(0, 0, 0, 0, 0, *rest)[21:] + payload
    return struct.pack(">qiibI", base, 9 + len(tail), epoch, magic, crc32c.crc32c(tail)) + tail


def build(values, *, keys=None, codec="none", timestamps=None, base_offset=0, leader_epoch=-1, magic=2, attributes=0,
          producer=(-1, -1, -1), count=None, last_delta=None):
    """A batch of the values (bytes or None). `producer` is (id, epoch, base sequence); count and last_delta lie on demand."""
    timestamps = timestamps or [now_ms()] * len(values)
    keys = keys or [None] * len(values)
    first = timestamps[0] if timestamps else 0
    payload = b"".join(record(i, keys[i], values[i], timestamps[i] - first) for i in range(len(values)))
    number = CODECS[codec.split("-")[0]]
    head = (base_offset, 0, leader_epoch, magic, 0, attributes | number,
            len(values) - 1 if last_delta is None else last_delta, first, max(timestamps, default=0),
            *producer, len(values) if count is None else count)
    return seal(head, compress(codec, payload))


@dataclass
class Batch:
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    raw: bytes = b""
    records: list = field(default_factory=list)  # (offset, timestamp, key, value)

    @property
    def codec(self):
        return self.attributes & 7

    @property
    def log_append_time(self):
        return bool(self.attributes & 8)

    @property
    def control(self):
        return bool(self.attributes & 32)

    def crc_is_valid(self):
        return crc32c.crc32c(self.raw[21:]) == self.crc

    def payload(self):
        return self.raw[HEAD.size:]


def read(data):
    """The whole batches at the start of `data`; a cut last batch is left, as clients do."""
    out, pos = [], 0
    while data and len(data) - pos >= HEAD.size:
        batch = Batch(*HEAD.unpack_from(data, pos))
        end = pos + 12 + batch.length
        if end > len(data):
            break
        batch.raw = data[pos:end]
        batch.records = list(read_records(batch))
        out.append(batch)
        pos = end
    return out


def read_records(batch):
    data, pos = decompress(batch.codec, batch.payload()), 0
    for _ in range(batch.count):
        _, pos = read_varint(data, pos)
        time_delta, pos = read_varint(data, pos + 1)
        offset_delta, pos = read_varint(data, pos)
        pair = []
        for _ in range(2):
            size, pos = read_varint(data, pos)
            pair.append(None if size < 0 else data[pos:pos + size])
            pos += max(size, 0)
        count, pos = read_varint(data, pos)
        for _ in range(2 * count):
            size, pos = read_varint(data, pos)
            pos += max(size, 0)
        stamp = batch.max_timestamp if batch.log_append_time else batch.base_timestamp + time_delta
        yield batch.base_offset + offset_delta, stamp, *pair


def records(data):
    return [r for batch in read(data) if not batch.control for r in batch.records]
