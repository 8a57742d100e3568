"""Stubs of rpc/proto made on the fly by grpcio-tools, and small helpers over them."""
import atexit
import importlib
import shutil
import sys
import tempfile
import threading

import pytest

from harness import TOP

grpc = pytest.importorskip("grpc")
protoc = pytest.importorskip("grpc_tools.protoc")
from google.rpc import error_details_pb2, status_pb2  # noqa: E402


def _generate():
    out = tempfile.mkdtemp(prefix="ottla-stubs-")
    atexit.register(shutil.rmtree, out, True)
    files = ["ottla/v1/log.proto"]
    status = protoc.main(["protoc", f"-I{TOP}/rpc/proto", f"--python_out={out}", f"--grpc_python_out={out}", *files])
    assert status == 0
    sys.path.insert(0, out)
    return importlib.import_module("ottla.v1.log_pb2"), importlib.import_module("ottla.v1.log_pb2_grpc")


pb, pb_grpc = _generate()


def address(broker):
    return f"127.0.0.1:{broker.more_ports[1]}"


def channel(broker, **options):
    return grpc.insecure_channel(address(broker), options=[("grpc.max_receive_message_length", 64 << 20), *options.items()])


def info(error):
    """(status code name, ErrorInfo or None) of an RpcError."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status = status_pb2.Status.FromString(value)
            assert status.code == error.code().value[0]
            assert status.message == error.details()
            out = error_details_pb2.ErrorInfo()
            assert status.details[0].Unpack(out)
            assert out.domain == "ottla"
            return error.code().name, out
    return error.code().name, None


def refused(call, *arguments, **keywords):
    """What info() says of a call that must fail."""
    with pytest.raises(grpc.RpcError) as caught:
        result = call(*arguments, **keywords)
        if hasattr(result, "__iter__"):
            list(result)
    return info(caught.value)


def kept_open(*requests):
    """Requests of a stream whose side does not end with them."""
    yield from requests
    threading.Event().wait(20)


def values(response):
    return [record.value for record in response.records]


def split(data):
    """The batches of a message, each as its bytes; what is cut off is a fault."""
    out = []
    while data:
        size = 12 + int.from_bytes(data[8:12], "big")
        assert size <= len(data)
        out.append(data[:size])
        data = data[size:]
    return out
