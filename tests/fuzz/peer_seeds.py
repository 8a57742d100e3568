#!/usr/bin/env python3
"""Seeds of peer_fuzz: every kind of request to the coordinator and every kind of message, as our brokers send them; alone and one after the other."""
import struct
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "integration"))
from wire import encode  # noqa: E402

ID = bytes([1]) + bytes(15)
MARK = {"term": 1, "version": 3, "stateHash": 5}
ASKS = [
    (0, {"register": {"brokerId": 2, "incarnationId": ID, "dirIds": [ID], "bootClass": 1, "rack": None,
                      "endpoints": [{"name": "PLAINTEXT", "host": "h", "port": 9092, "security": "PLAINTEXT"}]}}),
    (1, {"heartbeat": {"brokerId": 2, "brokerEpoch": 3, "appliedVersion": 9, "wantFence": False, "wantShutdown": False}}),
    (2, {"topic": {"name": "u", "topicId": bytes(16), "partitionCount": 3, "replicationFactor": 1, "assignments": [{"partition": 0, "brokers": [1]}],
                   "configs": [{"name": "k", "value": "v"}], "internal": False, "createdMs": 1}}),
    (3, {"topic": {"name": "t", "topicId": bytes(16), "partitionCount": 0, "replicationFactor": 0, "assignments": [], "configs": [], "internal": False, "createdMs": 0}}),
    (4, {"topic": {"name": "t", "topicId": bytes(16), "partitionCount": 5, "replicationFactor": -1, "assignments": [], "configs": [], "internal": False, "createdMs": 0}}),
    (5, {"configs": {"scopeKind": 2, "brokerId": -1, "topicId": bytes(16), "scope": "", "topic": "t", "changes": [{"name": "a", "value": "b"}, {"name": "c", "value": None}],
                     "replaceAll": False}}),
    (6, {"producerIds": {"count": 1000}}),
    (7, {"durable": {"brokerId": 1, "brokerEpoch": 2, "topicId": ID, "partition": 0, "leaderEpoch": 0, "partitionEpoch": 0, "durableClass": 1}}),
    (8, {"voters": {"add": True, "remove": False, "id": 2, "dirId": ID, "host": "h", "port": 1, "removeId": 0}}),
    (9, {}),
    (10, {"alter": {"brokerId": 1, "brokerEpoch": 2, "term": 1, "sequence": 1, "items": [
        {"topicId": ID, "partition": 0, "leaderEpoch": 0, "partitionEpoch": 0, "members": [{"brokerId": 1, "brokerEpoch": 2}], "recovering": False}]}}),
    (11, {"elect": {"topicId": ID, "partition": 0, "candidate": 1, "partitionEpoch": 0, "loss": 2, "lossFrom": 5, "answers": [{"brokerId": 1, "brokerEpoch": 2}]}}),
    (11, {"elect": {"topicId": ID, "partition": 0, "candidate": -1, "partitionEpoch": -1, "loss": 0, "lossFrom": -1, "answers": []}}),
    (12, {"reassign": {"topicId": ID, "partition": 0, "target": [1, 2]}}),
    (13, {"broker": {"brokerId": 1, "brokerEpoch": 2}}),
    (14, {"broker": {"brokerId": 2, "brokerEpoch": -1}}),
    (7, {"durable": {"brokerId": 1, "brokerEpoch": 2, "topicId": ID, "partition": 0, "leaderEpoch": 0, "partitionEpoch": 0, "durableClass": 1, "more": [
        {"topicId": ID, "partition": n, "leaderEpoch": 0, "partitionEpoch": 0, "durableClass": n} for n in range(3)]}}),
    (15, {"broker": {"brokerId": 3, "brokerEpoch": -1}}),
]


def piece(what, body):
    return struct.pack(">BH", what, len(body)) + body


def main():
    out = TOP / "tests" / "fuzz" / "corpus" / "peer"
    out.mkdir(parents=True, exist_ok=True)
    asks = [encode("PeerAskRequest", 0, {"ask": ask, "validateOnly": False, "ifVersion": -1, **more}) for ask, more in ASKS]
    messages = [struct.pack(">h", 0) + encode("CoordPeerMessage", 0, {
        "kind": kind, "cluster": 0, "sender": 2, "dirId": ID, "term": 1, "leader": 2, "accepted": MARK, "committed": MARK, "base": MARK, "round": 1, "answer": 1,
        "unsure": False, "clusterId": "c", "key": b"A", "data": b""}) for kind in range(1, 14)]
    seeds = {f"ask-{n}": b"\0" + piece(3 * (2 if n in (0, 1) else 1), body) for n, body in enumerate(asks)}
    seeds["ask-all"] = b"\0" + b"".join(piece(3 * (2 if n in (0, 1) else 1), body) for n, body in enumerate(asks))
    seeds.update({f"message-{n + 1}": b"\1" + piece(7, body) for n, body in enumerate(messages)})
    seeds["message-all"] = b"\1" + b"".join(piece(7, body) + piece(2, bytes(20)) for body in messages)
    for name, data in seeds.items():
        (out / name).write_bytes(data)
    print(f"{len(seeds)} seeds in {out.relative_to(TOP)}")


if __name__ == "__main__":
    main()
