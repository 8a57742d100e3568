"""Kafka's wire protocol for tests, driven by base/wire/schema/*.txt: any request, any version, right or deliberately wrong.

Messages are dicts with the schema's field names in lower camel case (as in the golden vectors); bytes, records and uuids
are bytes. Absent fields take their default. Decoding refuses left-over bytes. `Connection` speaks over one socket and
gives access to the raw bytes, so that a test can see headers, order and closing.
"""
import re
import socket
import struct
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
SCHEMA = TOP / "base" / "wire" / "schema"
NO_ID = bytes(16)
INTS = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I", "int64": ">q", "float64": ">d"}


# ---- schema

class Versions:
    def __init__(self, text):
        m = re.fullmatch(r"none|(\d+)(?:(\+)|-(\d+))?", text)
        self.low = int(m.group(1)) if m.group(1) else 1
        self.high = 32767 if m.group(2) else int(m.group(3) or m.group(1) or 0)

    def __contains__(self, version):
        return self.low <= version <= self.high


NEVER = Versions("none")


def lower(name):
    return name[0].lower() + name[1:]


class Field:
    def __init__(self, text):
        self.name, kind, *rest = re.findall(r'(?:[^\s"]|"(?:\\.|[^"\\])*")+', text)
        self.name = lower(self.name)
        self.array, self.kind = kind.startswith("[]"), kind.removeprefix("[]")
        options = dict(word.split("=", 1) for word in rest if "=" in word)
        self.versions = Versions(options["v"])
        self.null = Versions(options.get("null", "none"))
        self.tag, at = None, "none"
        if "tag" in options:
            tag, at = options["tag"].split("@")
            self.tag = int(tag)
        self.tagged = Versions(at)
        self.plain = options.get("flex") == "none"
        self.fields = []
        self.default_text = options.get("default")

    def default(self):
        text = self.default_text
        if text == "null":
            return None
        if self.array:
            return []
        if self.kind in INTS or self.kind == "bool":
            return {"true": True, "false": False, None: 0}.get(text) if text in ("true", "false", None) else \
                float(text) if self.kind == "float64" else int(text)
        if self.kind == "string":
            return text.strip('"') if text else ""
        return {"bytes": b"", "records": None, "uuid": NO_ID}.get(self.kind, {})


class Message:
    cache = {}

    def __init__(self, name):
        self.name, self.header, self.fields, structs = name, {}, [], {}
        stack = None
        path = SCHEMA / f"{name}.txt"
        for line in (path if path.exists() else SCHEMA.parent / "schema_ottla" / path.name).read_text().splitlines():
            depth = (len(line) - len(line.lstrip(" "))) // 2
            words = line.split()
            if not words:
                continue
            if depth == 0:
                if words[0] == "struct":
                    structs[words[1]] = []
                    stack = [structs[words[1]]]
                elif words[0] == "fields":
                    stack = [self.fields]
                else:
                    self.header[words[0]] = words[1] if len(words) > 1 else ""
                continue
            field = Field(line)
            del stack[depth:]
            stack[depth - 1].append(field)
            stack.append(field.fields)
        self.versions, self.flexible = Versions(self.header["versions"]), Versions(self.header["flexible"])
        self.api = int(self.header.get("api", -1))
        self.link(self.fields, structs)
        for fields in list(structs.values()):
            self.link(fields, structs)

    def link(self, fields, structs):
        """Give every use of a structure its fields: defined in place, by a struct section, or by an earlier field."""
        for field in fields:
            if field.kind in INTS or field.kind in ("bool", "string", "uuid", "bytes", "records"):
                continue
            if field.fields:
                structs.setdefault(field.kind, field.fields)
                self.link(field.fields, structs)
            else:
                field.fields = structs[field.kind]


def message(name):
    if name not in Message.cache:
        Message.cache[name] = Message(name)
    return Message.cache[name]


# ---- decoding

class Cursor:
    def __init__(self, data):
        self.data, self.pos = data, 0

    def take(self, count):
        if count < 0 or self.pos + count > len(self.data):
            raise ValueError(f"{count} bytes wanted at {self.pos} of {len(self.data)}")
        self.pos += count
        return self.data[self.pos - count:self.pos]

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def uvarint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value


def decode(name, version, data):
    """The message as a dict; ValueError when bytes are missing or left over."""
    m, cursor = message(name), Cursor(data)
    value = decode_fields(m.fields, version, version in m.flexible, cursor)
    if cursor.pos != len(data):
        raise ValueError(f"{name} {version}: {len(data) - cursor.pos} bytes left over")
    return value


def decode_fields(fields, version, flexible, cursor):
    out, tagged = {}, {}
    for field in fields:
        if version not in field.versions:
            continue
        if flexible and version in field.tagged:
            tagged[field.tag] = field
            out[field.name] = field.default()
        else:
            out[field.name] = decode_value(field, version, flexible, cursor)
    if flexible:
        for _ in range(cursor.uvarint()):
            tag, data = cursor.uvarint(), Cursor(cursor.take(cursor.uvarint()))
            if tag in tagged:
                out[tagged[tag].name] = decode_value(tagged[tag], version, flexible, data)
                if data.pos != len(data.data):
                    raise ValueError(f"tag {tag}: bytes left over")
            else:
                out.setdefault("_tags", []).append((tag, data.data))
    return out


def decode_value(field, version, flexible, cursor):
    if not field.array:
        return decode_one(field, version, flexible, cursor, version in field.null)
    count = cursor.uvarint() - 1 if flexible and not field.plain else cursor.number(">i")
    if count < 0:
        return None
    if count > len(cursor.data):
        raise ValueError(f"{field.name}: {count} elements claimed")
    return [decode_one(field, version, flexible, cursor, False) for _ in range(count)]


def decode_one(field, version, flexible, cursor, may_be_null):
    if field.kind in INTS:
        return cursor.number(INTS[field.kind])
    if field.kind == "bool":
        return cursor.take(1) != b"\0"
    if field.kind == "uuid":
        return cursor.take(16)
    if field.kind in ("string", "bytes", "records"):
        if flexible and not field.plain:
            count = cursor.uvarint() - 1
        else:
            count = cursor.number(">h" if field.kind == "string" else ">i")
        if count < 0:
            return None
        data = cursor.take(count)
        return data.decode() if field.kind == "string" else data
    if may_be_null and cursor.number(">b") < 0:
        return None
    return decode_fields(field.fields, version, flexible, cursor)


# ---- encoding

def uvarint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(name, version, value):
    m = message(name)
    return encode_fields(m.fields, version, version in m.flexible, value, name)


def encode_fields(fields, version, flexible, value, where):
    unknown = set(value) - {field.name for field in fields} - {"_tags"}
    if unknown:
        raise KeyError(f"{where} has no {', '.join(sorted(unknown))}")
    out, tags = b"", dict(value.get("_tags", []))
    for field in fields:
        if version not in field.versions:
            continue
        given = value.get(field.name, field.default())
        if flexible and version in field.tagged:
            if field.name in value and given != field.default():
                tags[field.tag] = encode_value(field, version, flexible, given)
        else:
            out += encode_value(field, version, flexible, given)
    if flexible:
        out += uvarint(len(tags)) + b"".join(uvarint(t) + uvarint(len(d)) + d for t, d in sorted(tags.items()))
    return out


def encode_value(field, version, flexible, value):
    if not field.array:
        return encode_one(field, version, flexible, value, version in field.null)
    compact = flexible and not field.plain
    if value is None:
        return uvarint(0) if compact else struct.pack(">i", -1)
    head = uvarint(len(value) + 1) if compact else struct.pack(">i", len(value))
    return head + b"".join(encode_one(field, version, flexible, element, False) for element in value)


def encode_one(field, version, flexible, value, may_be_null):
    if field.kind in INTS:
        return struct.pack(INTS[field.kind], value)
    if field.kind == "bool":
        return b"\1" if value else b"\0"
    if field.kind == "uuid":
        return value
    if field.kind in ("string", "bytes", "records"):
        data = value.encode() if isinstance(value, str) else value
        if flexible and not field.plain:
            return uvarint(0) if data is None else uvarint(len(data) + 1) + data
        form = ">h" if field.kind == "string" else ">i"
        return struct.pack(form, -1) if data is None else struct.pack(form, len(data)) + data
    if may_be_null:
        if value is None:
            return b"\xff"
        return b"\1" + encode_fields(field.fields, version, flexible, value, field.name)
    return encode_fields(field.fields, version, flexible, value, field.name)


# ---- a connection

def request_bytes(name, version, body, correlation=1, client="wire-test", tags=()):
    """The request with its header and size; `body` is a dict, or bytes to send something wrong."""
    m = message(name + "Request")
    flexible = version in m.flexible
    head = encode("RequestHeader", 2 if flexible else 1,
                  {"requestApiKey": m.api, "requestApiVersion": version, "correlationId": correlation,
                   "clientId": client, **({"_tags": list(tags)} if flexible and tags else {})})
    data = head + (body if isinstance(body, bytes) else encode(name + "Request", version, body))
    return struct.pack(">i", len(data)) + data


class Connection:
    def __init__(self, bootstrap, timeout_s=40):
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timeout_s, self.correlation = timeout_s, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, name, version, body=None, **how):
        """Send a request; gives its correlation id."""
        self.correlation += 1
        self.socket.sendall(request_bytes(name, version, {} if body is None else body, self.correlation, **how))
        return self.correlation

    def read(self, count):
        """Exactly `count` bytes; EOFError when the other side closed."""
        out = b""
        while len(out) < count:
            piece = self.socket.recv(count - len(out))
            if not piece:
                raise EOFError(f"closed after {len(out)} of {count} bytes")
            out += piece
        return out

    def frame(self):
        return self.read(struct.unpack(">i", self.read(4))[0])

    def receive(self, name, version):
        """(correlation id, answer) of the next frame."""
        data = self.frame()
        m = message(name + "Response")
        flexible = version in m.flexible and name != "ApiVersions"
        correlation = struct.unpack(">i", data[:4])[0]
        body = data[4:]
        if flexible:
            if body[0] != 0:
                raise ValueError("tags in the response header")
            body = body[1:]
        return correlation, decode(name + "Response", version, body)

    def ask(self, name, version, body=None, **how):
        sent = self.send(name, version, body, **how)
        correlation, answer = self.receive(name, version)
        if correlation != sent:
            raise ValueError(f"answer to {correlation}, asked {sent}")
        return answer

    def closed_by_peer(self, timeout_s=40):
        """True when the other side closes without sending anything more."""
        self.socket.settimeout(timeout_s)
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def silent(self, timeout_s=0.5):
        """True when nothing comes within the time."""
        self.socket.settimeout(timeout_s)
        try:
            return self.socket.recv(1, socket.MSG_PEEK) is None
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(self.timeout_s)


def error_codes():
    rows = (SCHEMA.parent / "errors.txt").read_text().splitlines()
    return {words[1]: int(words[0]) for words in (row.split("\t") for row in rows if not row.startswith("#"))}


def api_ranges():
    """{name: (min, max)} of the client-facing APIs as Kafka 4.4 serves them."""
    out = {}
    for row in (SCHEMA.parent / "apis.txt").read_text().splitlines():
        words = row.split("\t")
        if not row.startswith("#") and words[3] != "-":
            out[words[2]] = (int(words[3]), int(words[4]) - (words[5] == "yes"))
    return out
