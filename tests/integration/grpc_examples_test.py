"""The examples of docs/grpc.md: they stand there as they are, they are short, and they work. What must be built or installed first is long, but for Python and Node."""
import os
import shutil
import subprocess
import sys
import threading

import pytest
from confluent_kafka import Consumer, TopicPartition

from clients_test import kcat
from grpc_stubs import address, pb
from harness import TOP, until

EXAMPLES = TOP / "examples" / "grpc"
BOUNDS = {"python/producer.py": 40, "python/follower.py": 40, "python/consumer.py": 20, "go/consumer/main.go": 45, "node/consumer.js": 40, "go/producer/main.go": 40, "go/follower/main.go": 40, "node/follower.js": 40, "c/log.c": 150}


@pytest.mark.parametrize("name", BOUNDS)
def test_the_page_shows_the_example_as_it_is(name):
    text = (EXAMPLES / name).read_text()
    assert text.count("\n") < BOUNDS[name]
    assert text in (TOP / "docs" / "grpc.md").read_text()


class Follower:
    """A process whose lines are gathered; killed at the end."""

    def __init__(self, *words, **more):
        self.process = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
        self.lines = []
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.decode().rstrip("\n"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(120)
        self.thread.join(10)


def produced(words, lines, **more):
    done = subprocess.run([str(w) for w in words], input="".join(f"{line}\n" for line in lines).encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240, **more)
    assert done.returncode == 0, done.stdout.decode()
    return done.stdout.decode().splitlines()


def python_words(name):
    stubs = os.path.dirname(os.path.dirname(os.path.dirname(sys.modules[pb.__name__].__file__)))
    return ["env", f"PYTHONPATH={stubs}", sys.executable, EXAMPLES / "python" / name]


def test_python(own_broker):
    broker = own_broker()
    kcat(broker, "-P", "-t", "t", data=b"from kcat\n")
    with Follower(*python_words("follower.py"), address(broker), "t") as follower:
        assert produced([*python_words("producer.py"), address(broker), "t"], ["one", "two"]) == ["line 0 is record 1", "line 1 is record 2"]
        until(lambda: follower.lines == ["0 0 from kcat", "0 1 one", "0 2 two"], 30, lambda: follower.lines)
        broker.stop()
        broker.start()  # it goes on where it was
        produced([*python_words("producer.py"), address(broker), "t"], ["three"])
        until(lambda: follower.lines[3:] == ["0 3 three"], 30, lambda: follower.lines)
    assert kcat(broker, "-C", "-t", "t", "-o", "beginning", "-e", "-q")[0].split("\n")[:4] == ["from kcat", "one", "two", "three"]


def test_a_python_member_of_a_group(broker, name):
    kcat(broker, "-P", "-t", name, data=b"one\ntwo\n")
    with Follower(*python_words("consumer.py"), address(broker), "g-" + name, name) as first:
        until(lambda: first.lines == ["0 0 one", "0 1 two"], 30, lambda: first.lines)
        until(lambda: lag(broker, name) == 0, 30, "it is committed")
    kcat(broker, "-P", "-t", name, data=b"three\n")
    with Follower(*python_words("consumer.py"), address(broker), "g-" + name, name) as second:  # the first was killed: it goes on behind it
        until(lambda: second.lines == ["0 2 three"], 30, lambda: second.lines)


def lag(broker, topic):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g-" + topic})
    at = consumer.committed([TopicPartition(topic, 0)], timeout=20)[0].offset
    end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)[1]
    consumer.close()
    return end - at if at >= 0 else None


def node_words(name):
    modules = TOP / "build" / "node" / "node_modules"
    if not (modules / "@grpc" / "grpc-js").is_dir() or not shutil.which("node"):
        pytest.skip("no @grpc/grpc-js: ./dev setup")
    return ["env", f"NODE_PATH={modules}", "node", EXAMPLES / "node" / name, TOP / "rpc" / "proto"]


def test_a_node_member_of_a_group(broker, name):
    kcat(broker, "-P", "-t", name, data=b"one\ntwo\n")
    with Follower(*node_words("consumer.js"), address(broker), "g-" + name, name) as member:
        until(lambda: member.lines == ["0 0 one", "0 1 two"], 30, lambda: member.lines)
        until(lambda: lag(broker, name) == 0, 30, "it is committed")


def test_node(broker, name):
    modules = TOP / "build" / "node" / "node_modules"
    if not (modules / "@grpc" / "grpc-js").is_dir() or not shutil.which("node"):
        pytest.skip("no @grpc/grpc-js: ./dev setup")
    kcat(broker, "-P", "-t", name, data=b"from kcat\n")
    env = {**os.environ, "NODE_PATH": str(modules)}
    with Follower("node", EXAMPLES / "node" / "follower.js", TOP / "rpc" / "proto", address(broker), name, env=env) as follower:
        until(lambda: len(follower.lines) == 3, 30, lambda: follower.lines)
        assert follower.lines == ["record 1", "0 0 from kcat", "0 1 from node"]
    assert kcat(broker, "-C", "-t", name, "-o", "beginning", "-e", "-q")[0].split("\n")[:2] == ["from kcat", "from node"]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_go_and_grpcurl(broker, name, tmp_path):
    if not shutil.which("go"):
        pytest.skip("no go")
    bin_dir = TOP / "build" / "go-bin"
    bin_dir.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "GOBIN": str(bin_dir), "GOFLAGS": "-mod=mod"}

    def go(*words, cwd=tmp_path):
        done = subprocess.run(["go", *words], cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900)
        assert done.returncode == 0, done.stdout.decode()

    for tool, module in (("protoc-gen-go", "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.6"), ("protoc-gen-go-grpc", "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.5.1"),
                         ("grpcurl", "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"), ("grpc-health-probe", "github.com/grpc-ecosystem/grpc-health-probe@v0.4.38")):
        if not (bin_dir / tool).exists():
            go("install", module)
    shutil.copytree(EXAMPLES / "go", tmp_path / "go")
    package = "Mottla/v1/log.proto=ottla.example/grpc/ottla/v1"
    from grpc_tools import protoc
    assert protoc.main(["protoc", f"-I{TOP}/rpc/proto", f"--plugin=protoc-gen-go={bin_dir}/protoc-gen-go", f"--plugin=protoc-gen-go-grpc={bin_dir}/protoc-gen-go-grpc",
                        f"--go_out={tmp_path}/go", f"--go_opt=module=ottla.example/grpc,{package}", f"--go-grpc_out={tmp_path}/go",
                        f"--go-grpc_opt=module=ottla.example/grpc,{package}", "ottla/v1/log.proto"]) == 0
    go("get", "google.golang.org/grpc@v1.71.1", cwd=tmp_path / "go")
    go("mod", "tidy", cwd=tmp_path / "go")
    go("build", "-o", "../", "./...", cwd=tmp_path / "go")
    kcat(broker, "-P", "-t", name, data=b"from kcat\n")
    assert produced([tmp_path / "producer", address(broker), name], ["one", "two"]) == ["record 1", "record 2"]
    with Follower(tmp_path / "follower", address(broker), name) as follower:
        until(lambda: follower.lines == ["0 0 from kcat", "0 1 one", "0 2 two"], 30, lambda: follower.lines)

    with Follower(tmp_path / "consumer", address(broker), "g-" + name, name) as member:
        until(lambda: member.lines == ["0 0 from kcat", "0 1 one", "0 2 two"], 30, lambda: member.lines)
        until(lambda: lag(broker, name) == 0, 30, "it is committed")

    def grpcurl(*words):
        done = subprocess.run([str(bin_dir / "grpcurl"), "-plaintext", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240)
        return done.returncode, done.stdout.decode()

    assert grpcurl(address(broker), "list")[1].split() == ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection", "ottla.v1.Log"]
    assert "rpc ProduceStream" in grpcurl(address(broker), "describe", "ottla.v1.Log")[1]
    assert '"baseOffset": "3"' in grpcurl("-d", f'{{"topic": "{name}", "records": [{{"value": "aGk="}}]}}', address(broker), "ottla.v1.Log/Produce")[1]
    assert "SERVING" in grpcurl("-d", '{"service": "ottla.v1.Log"}', address(broker), "grpc.health.v1.Health/Check")[1]
    for words, status in (([], 0), (["-service", "ottla.v1.Log"], 0), (["-service", "nobody"], 3), (["-addr", "127.0.0.1:1"], 2)):
        assert subprocess.run([bin_dir / "grpc-health-probe", "-addr", address(broker), *words], stderr=subprocess.DEVNULL, timeout=240).returncode == status, words
    code, text = grpcurl("-d", f'{{"topic": "{name}", "offset": 99}}', address(broker), "ottla.v1.Log/Fetch")
    assert code != 0 and "OutOfRange" in text and "google.rpc.ErrorInfo" in text
    assert kcat(broker, "-C", "-t", name, "-o", "beginning", "-e", "-q")[0].split("\n")[:4] == ["from kcat", "one", "two", "hi"]


def test_c(broker, name, tmp_path):
    if not shutil.which("protoc-c") or not shutil.which("cc"):
        pytest.skip("no protoc-c")
    subprocess.run(["protoc-c", f"--c_out={tmp_path}", "-I", f"{TOP}/rpc/proto", "ottla/v1/log.proto"], check=True, timeout=240)
    subprocess.run(["cc", "-std=gnu17", "-Wall", "-Wextra", "-o", tmp_path / "log", EXAMPLES / "c" / "log.c", tmp_path / "ottla/v1/log.pb-c.c", "-I", tmp_path, "-lgrpc", "-lgpr", "-lprotobuf-c"],
                   check=True, timeout=120)
    kcat(broker, "-P", "-t", name, data=b"from kcat\n")
    assert produced([tmp_path / "log", "produce", address(broker), name], ["one", "two"]) == ["record 1", "record 2"]
    with Follower(tmp_path / "log", "follow", address(broker), name) as follower:
        until(lambda: follower.lines == ["0 0 from kcat", "0 1 one", "0 2 two"], 30, lambda: follower.lines)
    done = subprocess.run([tmp_path / "log", "follow", address(broker), "not-" + name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    assert done.returncode == 1 and done.stdout.startswith(b"status 5")
