"""The style of our .proto files: what `buf lint` asks for (STANDARD but for the service's suffix), told from the descriptors; and what a change must not break."""
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness import TOP

protoc = pytest.importorskip("grpc_tools.protoc")
from google.protobuf import descriptor_pb2  # noqa: E402

PROTO = TOP / "rpc" / "proto"
FILE = "ottla/v1/log.proto"
SNAKE, CAMEL = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*"), re.compile(r"([A-Z][a-z0-9]*)+")


def _read():
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        assert protoc.main(["protoc", f"-I{PROTO}", f"--descriptor_set_out={out}", "--include_source_info", FILE]) == 0
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file[0]


@pytest.fixture(scope="module")
def file():
    return _read()


def screaming(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


def messages(file):
    todo = list(file.message_type)
    while todo:
        message = todo.pop()
        if not message.options.map_entry:
            yield message
        todo += message.nested_type


def test_buf_says_so_too():
    """`go install github.com/bufbuild/buf/cmd/buf@v1.50.0`, which takes long; where it is there it has the last word."""
    buf = shutil.which("buf", path=f"{os.environ['PATH']}:{TOP / 'build' / 'go-bin'}")
    if not buf:
        pytest.skip("no buf")
    done = subprocess.run([buf, "lint"], cwd=PROTO, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)
    assert done.returncode == 0, done.stdout.decode()


def test_the_package_says_where_the_file_is(file):
    assert (file.package, file.syntax, file.name) == ("ottla.v1", "proto3", FILE)
    assert re.fullmatch(r"(\w+\.)+v\d+", file.package)


def test_names(file):
    for message in messages(file):
        assert CAMEL.fullmatch(message.name), message.name
        for field in message.field:
            assert SNAKE.fullmatch(field.name), (message.name, field.name)
    for enum in [*file.enum_type, *(e for m in messages(file) for e in m.enum_type)]:
        assert CAMEL.fullmatch(enum.name), enum.name
        assert (enum.value[0].number, enum.value[0].name) == (0, screaming(enum.name) + "_UNSPECIFIED")
        assert all(v.name.startswith(screaming(enum.name) + "_") for v in enum.value), enum.name
        assert not enum.options.allow_alias


def test_each_call_has_messages_of_its_own(file):
    types = []
    for service in file.service:
        for method in service.method:
            assert CAMEL.fullmatch(method.name)
            assert (method.input_type, method.output_type) == (f".ottla.v1.{method.name}Request", f".ottla.v1.{method.name}Response")
            types += [method.input_type, method.output_type]
    assert len(types) == len(set(types)) > 0


def test_everything_is_told_in_words(file):
    """A comment before everything that a reader of the file meets: service, calls, enums and their values, messages and their fields."""
    told = {tuple(l.path) for l in file.source_code_info.location if l.leading_comments.strip()}
    paths = {(6, i): s.name for i, s in enumerate(file.service)}
    paths.update({(6, i, 2, k): m.name for i, s in enumerate(file.service) for k, m in enumerate(s.method)})
    paths.update({(5, i): e.name for i, e in enumerate(file.enum_type)})
    paths.update({(5, i, 2, k): v.name for i, e in enumerate(file.enum_type) for k, v in enumerate(e.value)})
    paths.update({(4, i): m.name for i, m in enumerate(file.message_type)})
    paths.update({(4, i, 2, k): f"{m.name}.{f.name}" for i, m in enumerate(file.message_type) for k, f in enumerate(m.field)})
    assert not any(m.nested_type or m.enum_type for m in file.message_type), "nested: to be told in words, too"
    assert [name for path, name in paths.items() if path not in told] == []


def test_record_batches_are_the_last_field_and_the_numbers_before_them_are_kept(file):
    """What lets a server send the batches from the file: nothing is written behind them."""
    some = 0
    for message in messages(file):
        batches = [f for f in message.field if f.name == "record_batches"]
        if not batches:
            continue
        some += 1
        assert batches[0].number == 15 == max(f.number for f in message.field)
        taken = {f.number for f in message.field}
        kept = {n for r in message.reserved_range for n in range(r.start, r.end)}
        assert taken | kept == set(range(1, 16)) and not taken & kept, message.name
    assert some == 5


# numbers once given stay: name -> number of every field that a client may have compiled in
GIVEN = {
    "Record": {"offset": 1, "timestamp_ms": 2, "key": 3, "value": 4, "headers": 5, "tombstone": 6, "empty_key": 7},
    "ProduceRequest": {"topic": 1, "partition": 2, "acks": 3, "timeout_ms": 4, "transactional_id": 5, "producer": 6, "records": 7, "compression": 8, "record_batches": 15},
    "FetchResponse": {"topic": 1, "partition": 2, "next_offset": 3, "high_watermark": 4, "last_stable_offset": 5, "log_start_offset": 6, "aborted_transactions": 7, "records": 8,
                      "record_batches": 15},
    "SubscribeResponse": {"topic": 1, "partition": 2, "next_offset": 3, "high_watermark": 4, "last_stable_offset": 5, "log_start_offset": 6, "aborted_transactions": 7,
                          "records": 8, "heartbeat": 9, "record_batches": 15},
    "Error": {"code": 1, "name": 2, "message": 3, "retriable": 4, "leader_id": 5, "leader_epoch": 6, "leader_address": 7},
    "ConsumeResponse": {"position": 1, "high_watermark": 4, "last_stable_offset": 5, "log_start_offset": 6, "aborted_transactions": 7, "records": 8, "assignment": 9,
                        "committed": 10, "record_batches": 15},
    "ConsumePosition": {"topic": 1, "partition": 2, "next_offset": 3, "assignment_id": 4, "leader_address": 5},
}


@pytest.mark.parametrize("name", GIVEN)
def test_numbers_that_were_given_stay(file, name):
    message = next(m for m in messages(file) if m.name == name)
    assert {f.name: f.number for f in message.field} | GIVEN[name] == {f.name: f.number for f in message.field}
