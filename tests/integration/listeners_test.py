"""`listeners` and `listener.security.protocol.map` while the server runs, as Kafka changes them: by AlterConfigs for one broker."""
import json
import socket

from admin import Admin
from admin_apis_test import BROKER, DELETE, SET, config, incremental
from harness import free_ports, http, until
from wire import Connection

def reached(port, host="127.0.0.1"):
    with socket.socket() as s:
        s.settimeout(5)
        return s.connect_ex((host, port)) == 0


def set_listeners(admin, value, node=1, key="listeners"):
    change = (key, SET, value) if value is not None else (key, DELETE, None)
    return incremental(admin.connection.ask, BROKER, str(node), change)


def test_listeners_come_and_go_while_the_server_runs(own_broker, name):
    """As Kafka does it: by AlterConfigs for the broker. Who came over a listener that goes is sent away, the others do not notice."""
    inner, moved = free_ports(2)
    broker = own_broker(listener_security_protocol_map="PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT,SECURE:SSL")
    first = f"PLAINTEXT://127.0.0.1:{broker.port}"
    with broker.connect() as connection:
        admin = Admin(connection)
        admin.create(name)
        assert config(admin, BROKER, "1", "listeners")[0] == first
        assert set_listeners(admin, f"{first},INNER://127.0.0.1:{inner}") == "NONE"
        until(lambda: reached(inner), 20, lambda: broker.log_tail())
        with Connection(f"127.0.0.1:{inner}") as c:
            assert Admin(c).produce(name, "over the new one") == 0
            assert c.ask("DescribeCluster", 1, {"endpointType": 1})["brokers"][0]["port"] == inner     # each is told where it came from
            until(lambda: "listeners_told" in broker.log(), 20, "the cluster knows")
            (row,) = json.loads(http(broker.rest + "/v1/brokers")[2])["items"]
            assert {(e["name"], e["port"]) for e in row["listeners"] if e["name"] != "GRPC"} >= {("PLAINTEXT", broker.port), ("INNER", inner)}
            assert set_listeners(admin, f"{first},INNER://127.0.0.1:{moved}") == "NONE"
            until(lambda: reached(moved), 20, lambda: broker.log_tail())
            assert not reached(inner)
            c.socket.settimeout(20)
            assert c.socket.recv(1) == b"", "whoever came over the old port is sent away"
        assert admin.produce(name, "undisturbed") == 1
        assert set_listeners(admin, None) == "NONE"
        until(lambda: not reached(moved), 20, lambda: broker.log_tail())
        assert admin.produce(name, "undisturbed") == 2
        assert set_listeners(admin, f"{first},INNER://127.0.0.1:{inner}") == "NONE"
        until(lambda: reached(inner), 20, lambda: broker.log_tail())
    broker.kill()
    broker.start()  # the cluster remembers it
    until(lambda: reached(inner), 20, lambda: broker.log_tail())
    broker.stop()


def test_listeners_that_cannot_be_are_refused_and_one_that_cannot_open_leaves_the_others(own_broker):
    spare, busy = free_ports(2)
    broker = own_broker(listener_security_protocol_map="PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT,SECURE:SSL", advertised_listeners="PLAINTEXT://127.0.0.1:1")
    first = f"PLAINTEXT://127.0.0.1:{broker.port}"
    with broker.connect() as connection:
        admin = Admin(connection)
        for bad in (f"{first},SECURE://127.0.0.1:{spare}", f"{first},UNKNOWN://127.0.0.1:{spare}", f"INNER://127.0.0.1:{spare}", f"{first},INNER://127.0.0.1:{broker.port}",
                    f"{first},INNER://127.0.0.1:x", f"{first},INNER://127.0.0.1:99999", ",".join(f"INNER://127.0.0.1:{p}" for p in range(1, 40))):
            assert set_listeners(admin, bad) == "INVALID_REQUEST", bad
        assert set_listeners(admin, "PLAINTEXT:SSL", key="listener.security.protocol.map") == "INVALID_REQUEST"     # what is served stays served
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", busy))
            taken.listen(1)
            assert set_listeners(admin, f"{first},INNER://127.0.0.1:{busy}") == "NONE"
            until(lambda: "listener_not_opened" in broker.log(), 20, lambda: broker.log_tail())
        assert set_listeners(admin, f"{first},INNER://127.0.0.1:{spare}") == "NONE"
        until(lambda: reached(spare), 20, lambda: broker.log_tail())
        assert connection.ask("ApiVersions", 0)["errorCode"] == 0
    broker.stop()


def test_other_brokers_name_a_listener_that_came_later(make):
    cluster = make().start()
    node = cluster.nodes[2]
    with node.connect() as connection:
        admin = Admin(connection)
        ports = {n: free_ports(1)[0] for n in cluster.nodes}
        for n, one in cluster.nodes.items():
            with one.connect() as c:
                assert set_listeners(Admin(c), "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT", n, "listener.security.protocol.map") == "NONE"
                assert set_listeners(Admin(c), f"PLAINTEXT://127.0.0.1:{one.port},INNER://127.0.0.1:{ports[n]}", n) == "NONE"
        for port in ports.values():
            until(lambda: reached(port), 20, lambda: node.log_tail())

        def all_told():
            with Connection(f"127.0.0.1:{ports[2]}") as c:
                return {b["nodeId"]: b["port"] for b in c.ask("Metadata", 12, {"topics": []})["brokers"]} == ports
        until(all_told, 30, lambda: node.log_tail())
        epochs = {b["nodeId"]: b["port"] for b in connection.ask("Metadata", 12, {"topics": []})["brokers"]}
        assert epochs == {n: one.port for n, one in cluster.nodes.items()}
        assert not any("registered_again" in one.log() for one in cluster.nodes.values()), "nobody was fenced for it"
        assert admin.connection is connection


def test_who_closes_the_listener_that_it_came_over_is_still_answered(own_broker, name):
    inner = free_ports(1)[0]
    broker = own_broker(listener_security_protocol_map="PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT")
    first = f"PLAINTEXT://127.0.0.1:{broker.port}"
    for _ in range(5):
        with broker.connect() as c:
            assert set_listeners(Admin(c), f"{first},INNER://127.0.0.1:{inner}") == "NONE"
        until(lambda: reached(inner), 20, lambda: broker.log_tail())
        with Connection(f"127.0.0.1:{inner}") as c:
            assert set_listeners(Admin(c), first) == "NONE"
            c.socket.settimeout(20)
            assert c.socket.recv(1) == b""
        until(lambda: not reached(inner), 20, lambda: broker.log_tail())
    broker.stop()
