"""A real Kafka 4.4 broker (one KRaft node, jars from ./dev setup): judge of our files, and the other side of the bench."""
import os
import signal
import subprocess
from pathlib import Path

from harness import free_ports, until
from java import command, need_java
from wire import Connection

PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class Kafka:
    def __init__(self, directory, heap=("-Xms512m", "-Xmx512m"), loud=(), **settings):
        """loud: loggers that tell what they do, and not only what went wrong."""
        need_java()
        self.directory, self.heap, self.process = Path(directory), [*heap, *(f"-Dorg.slf4j.simpleLogger.log.{one}=info" for one in loud)], None
        self.data, self.log_path = self.directory / "data", self.directory / "kafka.log"
        self.port, controller = free_ports(2)
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config = self.directory / "server.properties"
        text = PROPERTIES.format(port=self.port, controller=controller, data=self.data)
        self.config.write_text(text + "".join(f"{k.replace('_', '.')}={v}\n" for k, v in settings.items()))

    def format(self):
        done = subprocess.run(command("kafka.tools.StorageTool", "format", "-t", "q1Sh-9ISIaOQhd3OGwVXJg", "-c", self.config),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout.decode()
        return self

    def start(self, bound_s=90, step_s=0.02):
        words = command("kafka.Kafka", self.config, log="warn", heap=[*self.heap, "-XX:+UseG1GC"])
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        until(self.ready, bound_s, lambda: f"Kafka ready: {self.log()[-2000:]}", step_s)
        return self

    def ready(self):
        assert self.process.poll() is None, self.log()[-3000:]
        try:
            with Connection(self.bootstrap, timeout_s=2) as c:
                return c.ask("ApiVersions", 0)["errorCode"] == 0
        except (OSError, EOFError):
            return False

    def connect(self, **how):
        return Connection(self.bootstrap, **how)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def stop(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(240)
            self.process = None

    def kill(self):
        if self.process is not None:
            if self.process.poll() is None:
                os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait(120)
            self.process = None
