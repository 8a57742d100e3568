"""Several real servers as one cluster on loopback: started, killed, paused, restarted; and proxies between them that cut, hold and half-cut what they say.

    with Cluster(directory, 3) as cluster:             # ids 1, 2, 3, all of them voters
        cluster.start()
        cluster.kill(2); cluster.start_one(2); cluster.pause(1); cluster.go_on(1)
        leader = cluster.controller()                  # node id, as the living ones agree
Alone: `python tests/integration/cluster.py [N]` starts N servers and prints where they are until Ctrl-C.
"""
import json
import signal
import sys
import tempfile
import time
from pathlib import Path

import harness
from proxies import Proxy

SETTINGS = {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 300, "coordinator.election.timeout.ms": 500, "ottla.leader.imbalance.unfenced.ms": 1000}
STEADY = {"coordinator.election.timeout.ms": 3000}             # for tests in which the coordinator is to stay where it is, also when it gets no processor for a second


class Node(harness.Broker):
    def __init__(self, directory, node_id, **settings):
        super().__init__(directory, **settings)
        self.id = node_id
        self.peer_port = self.more_ports[0]

    def view(self, path):
        """JSON of a REST path, None while it does not answer."""
        try:
            status, _, body = harness.http(self.rest + path, timeout_s=10)
        except OSError:
            return None
        return json.loads(body) if status == 200 else None


def thread_states(pid):
    """Of those that are still there: "R", "S", "T" (stopped)..."""
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            yield stat.read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            pass


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
            harness.until(lambda: all([node.ready() for node in self.nodes.values()]), harness.READY_S,          # one that has ended says why, whoever waits for it
                          lambda: "ready:\n" + "\n".join(f"node {node.id}\n{node.log_tail(20)}" for node in self.nodes.values()))
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
        refused = [line for node in running for line in node.log().splitlines() if "request_refused" in line and "client_id=broker-" in line]
        assert not refused, f"brokers understand each other: {refused[:3]}"

    def kill(self, i):
        self.nodes[i].kill()

    def pause(self, i):
        """Until none of its threads runs: the others go on until the one that takes the signal has its turn, which on a busy machine is long enough for an answer."""
        process = self.nodes[i].process
        process.send_signal(signal.SIGSTOP)
        harness.until(lambda: all(state == "T" for state in thread_states(process.pid)), 20, f"node {i} stopped", 0.002)

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
