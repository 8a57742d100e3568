"""Several real servers as one cluster on loopback: started, killed, paused, restarted; and proxies between them that cut, hold and half-cut what they say.

    with Cluster(directory, 3) as cluster:             # ids 1, 2, 3, all of them voters
        cluster.start()
        cluster.kill(2); cluster.start_one(2); cluster.pause(1); cluster.go_on(1)
        leader = cluster.controller()                  # node id, as the living ones agree
Alone: `python tests/integration/cluster.py [N]` starts N servers and prints where they are until Ctrl-C.
"""
import json
import selectors
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

import harness

SETTINGS = {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 300, "coordinator.election.timeout.ms": 500}


class Proxy:
    """Listens on one port and passes on to another. cut(): nothing passes and new connections are refused; hold(): connections stay and nothing passes, in one or both directions."""

    def __init__(self, to_port):
        self.to_port = to_port
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(64)
        self.port = self.listener.getsockname()[1]
        self.mutex = threading.Lock()
        self.pairs = []
        self.is_cut = False
        self.held = {"to": False, "from": False}
        self.ended = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def cut(self):
        with self.mutex:
            self.is_cut = True
            for pair in self.pairs:
                for one in pair:
                    one.close()
            self.pairs = []

    def hold(self, to=True, back=True):
        with self.mutex:
            self.held = {"to": to, "from": back}

    def heal(self):
        with self.mutex:
            self.is_cut = False
            self.held = {"to": False, "from": False}

    def close(self):
        self.ended = True
        self.thread.join(10)
        self.cut()
        self.listener.close()

    def _accept(self):
        self.listener.settimeout(0)
        try:
            client, _ = self.listener.accept()
        except OSError:
            return
        if self.is_cut:
            client.close()
            return
        server = socket.socket()
        server.settimeout(2)
        try:
            server.connect(("127.0.0.1", self.to_port))
        except OSError:
            client.close()
            server.close()
            return
        client.settimeout(5)
        server.settimeout(5)
        with self.mutex:
            self.pairs.append((client, server))

    def _pass(self, pair, source, target):
        try:
            data = source.recv(65536)
            if data:
                target.sendall(data)
                return
        except OSError:
            pass
        for one in pair:
            one.close()
        if pair in self.pairs:
            self.pairs.remove(pair)

    def _run(self):
        while not self.ended:
            with selectors.DefaultSelector() as selector:
                selector.register(self.listener, selectors.EVENT_READ)
                with self.mutex:
                    for pair in self.pairs:
                        client, server = pair
                        if client.fileno() < 0 or server.fileno() < 0:
                            continue
                        if not self.held["to"]:
                            selector.register(client, selectors.EVENT_READ, (pair, client, server))
                        if not self.held["from"]:
                            selector.register(server, selectors.EVENT_READ, (pair, server, client))
                ready = selector.select(0.02)
            for key, _ in ready:
                if key.data is None:
                    self._accept()
                    continue
                with self.mutex:
                    if key.data[1].fileno() >= 0 and key.data[2].fileno() >= 0:
                        self._pass(*key.data)


class Node(harness.Broker):
    def __init__(self, directory, node_id, **settings):
        super().__init__(directory, **settings)
        self.id = node_id
        self.peer_port = self.more_ports[0]

    def view(self, path):
        """JSON of a REST path, None while it does not answer."""
        try:
            status, _, body = harness.http(self.rest + path, timeout_s=3)
        except OSError:
            return None
        return json.loads(body) if status == 200 else None


class Cluster:
    """voters: how many of the nodes are on the list of founders (default: all, at most 3). proxied: peers reach each other through a proxy apiece, self.proxies[id]."""

    def __init__(self, directory, count=3, voters=None, proxied=False, **settings):
        self.directory = Path(directory)
        self.settings = {**SETTINGS, **{key.replace("__", "-").replace("_", "."): value for key, value in settings.items()}}
        self.nodes = {i: Node(self.directory / f"node-{i}", i) for i in range(1, count + 1)}
        self.proxies = {i: Proxy(node.peer_port) for i, node in self.nodes.items()} if proxied else {}
        self.voters = list(self.nodes)[:voters or min(count, 3)]
        for node in self.nodes.values():
            self.configure(node)

    def place(self, i):
        return f"127.0.0.1:{self.proxies[i].port if i in self.proxies else self.nodes[i].peer_port}"

    def voter_list(self):
        return ",".join(f"{i}@{self.place(i)}" for i in self.voters)

    def configure(self, node, **more):
        node.settings = {"node.id": node.id, "coordinator.voters": self.voter_list(), "peer.listeners": f"127.0.0.1:{node.peer_port}",
                         "peer.advertised.listeners": self.place(node.id), **self.settings, **more}

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            for node in self.nodes.values():
                print(f"---- node {node.id}\n{node.log_tail(60)}")
        self.close()

    def close(self):
        for node in self.nodes.values():
            if node.process is not None:
                node.process.send_signal(signal.SIGCONT)
            node.kill()
        for proxy in self.proxies.values():
            proxy.close()

    def start(self, wait=True):
        for node in self.nodes.values():
            if node.process is None:
                node.start(wait=False)
        if wait:
            for node in self.nodes.values():
                node.wait_ready()
        return self

    def start_one(self, i, wait=True):
        return self.nodes[i].start(wait=wait)

    def stop(self):
        """All of them together, as a whole cluster is shut down."""
        running = [node for node in self.nodes.values() if node.process is not None]
        for node in running:
            node.process.send_signal(signal.SIGTERM)
        for node in running:
            status = node.process.wait(harness.STOP_S)
            node.process = None
            assert status == 0, f"node {node.id}: exit status {status}:\n{node.log_tail(80)}"
            node.no_reports()

    def kill(self, i):
        self.nodes[i].kill()

    def pause(self, i):
        self.nodes[i].process.send_signal(signal.SIGSTOP)

    def go_on(self, i):
        self.nodes[i].process.send_signal(signal.SIGCONT)

    def living(self):
        return [node for node in self.nodes.values() if node.process is not None and node.process.poll() is None]

    def bootstrap(self):
        return ",".join(node.bootstrap for node in self.living())

    def brokers(self, i):
        """{id: row} as node i sees them."""
        answer = self.nodes[i].view("/v1/brokers")
        return {} if answer is None else {row["broker"]: row for row in answer["items"]}

    def controller(self, of=None, not_in=(), bound_s=30):
        """The coordinator, once the nodes asked (all living ones) name the same one."""
        asked = of or [node.id for node in self.living()]

        def look():
            seen = {next((i for i, row in self.brokers(node).items() if row["is_controller"]), None) for node in asked}
            return seen.pop() if len(seen) == 1 and None not in seen and not seen & set(not_in) else None
        return harness.until(look, bound_s, lambda: f"one coordinator: {[self.brokers(node) for node in asked]}", 0.05)

    def wait_state(self, i, state, of=None, bound_s=30):
        """Until the nodes asked see broker i in that state."""
        asked = of or [node.id for node in self.living() if node.id != i]
        harness.until(lambda: all(self.brokers(node).get(i, {}).get("state") == state for node in asked), bound_s,
                      lambda: f"broker {i} {state}: {[self.brokers(node).get(i) for node in asked]}", 0.05)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory(prefix="ottla-cluster-") as directory, Cluster(directory, count) as cluster:
        cluster.start()
        for node in cluster.nodes.values():
            print(f"broker {node.id}: kafka {node.bootstrap}  rest {node.rest}  peers 127.0.0.1:{node.peer_port}  log {node.log_path}")
        print(f"coordinator: {cluster.controller()}", flush=True)
        try:
            while cluster.living():
                time.sleep(1)  # poll
        except KeyboardInterrupt:
            cluster.stop()


if __name__ == "__main__":
    main()
