"""Consumer groups of the new protocol in the bench: how long a rebalance of 50 members takes with the heartbeat interval that the server tells (5 s), and what heartbeats
cost. The members speak the protocol over sockets of their own and do at once what they are told, as a client without callbacks would."""
import heapq
import time
import uuid

MEMBERS, PARTITIONS, QUIET = 50, 200, 4000


class Member:
    def __init__(self, side, group, topic):
        self.connection, self.id, self.group, self.topic = side.server.connect(timeout_s=60), str(uuid.uuid4()), group, topic
        self.epoch, self.has, self.told, self.interval_s = 0, set(), set(), 5.0

    def beat(self):
        joins = self.epoch == 0
        owned = {}
        for topic_id, partition in self.has:
            owned.setdefault(topic_id, []).append(partition)
        body = {"groupId": self.group, "memberId": self.id, "memberEpoch": self.epoch, "instanceId": None, "rackId": None,
                "rebalanceTimeoutMs": 60000 if joins else -1, "subscribedTopicNames": [self.topic] if joins else None, "subscribedTopicRegex": None,
                "serverAssignor": None, "topicPartitions": [{"topicId": t, "partitions": p} for t, p in owned.items()]}
        answer = self.connection.ask("ConsumerGroupHeartbeat", 1, body)
        assert answer["errorCode"] == 0, answer
        self.epoch, self.interval_s = answer["memberEpoch"], answer["heartbeatIntervalMs"] / 1000
        if answer["assignment"] is not None:
            self.told = {(t["topicId"], p) for t in answer["assignment"]["topicPartitions"] for p in t["partitions"]}
        gives_up = bool(self.has - self.told)
        self.has = set(self.told)
        return gives_up


def settled(members):
    sizes = [len(m.has) for m in members]
    return sum(sizes) == PARTITIONS and max(sizes) - min(sizes) <= 1 and len({m.epoch for m in members}) == 1


def run(members, queue, bound_s):
    """Heartbeats at the pace that the server tells until all is settled; how long that took."""
    begin = time.monotonic()
    while not settled(members):
        at, index = heapq.heappop(queue)
        assert at - begin < bound_s, "the group does not settle"
        time.sleep(max(0, at - time.monotonic()))  # poll
        again_at_once = members[index].beat()
        heapq.heappush(queue, (time.monotonic() + (0 if again_at_once else members[index].interval_s), index))
    return time.monotonic() - begin


def rebalances(side, topic, cpu_s):
    """A group of 50; then one more comes, and one goes."""
    pid, out = side.server.process.pid, {}
    members = [Member(side, topic, topic) for _ in range(MEMBERS)]
    begin = time.monotonic()
    queue = [(begin + 5.0 * i / MEMBERS, i) for i in range(MEMBERS)]
    heapq.heapify(queue)
    run(members, queue, 120)
    for what in ("joins", "leaves"):
        time.sleep(1.5)  # poll: the next target may be made a second after the last one (group.consumer.assignment.interval.ms)
        used = cpu_s(pid)
        if what == "joins":
            members.append(Member(side, topic, topic))
            heapq.heappush(queue, (time.monotonic(), MEMBERS))
        else:
            gone = members.pop()
            gone.epoch = -1
            gone.connection.ask("ConsumerGroupHeartbeat", 1, {"groupId": topic, "memberId": gone.id, "memberEpoch": -1, "instanceId": None, "rackId": None,
                                                              "rebalanceTimeoutMs": -1, "subscribedTopicNames": None, "subscribedTopicRegex": None,
                                                              "serverAssignor": None, "topicPartitions": None})
            queue = [(at, i) for at, i in queue if i != MEMBERS]
            heapq.heapify(queue)
        out[f"new group of {MEMBERS}, one {what}"] = (run(members, queue, 60), "s")
        out[f"new group of {MEMBERS}, one {what}, CPU"] = ((cpu_s(pid) - used) * 1000, "CPU ms")
    used = cpu_s(pid)
    for i in range(QUIET):
        members[i % MEMBERS].beat()
    out["heartbeat of a new group"] = ((cpu_s(pid) - used) * 1e6 / QUIET, "us CPU")
    for m in members:
        m.connection.__exit__()
    return out
