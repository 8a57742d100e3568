"""What brokers say that they cut, held against what producers were told.

A broker tells each cut of a log three times: a line of its log before it, an event after it (records_cut), and, where records below a high watermark go or an election gave them up, an entry of
the loss ledger. An event may be lost with its broker, a line and an entry are not. `Account` gathers them, checks that they agree, and answers for a record that was acknowledged and is gone.
"""
import collections
import re
import threading
import time

import batch
import harness
from admin import ERRORS, Admin
from cluster_load import Acknowledged
from events_test import history
from wire import Connection

CUT = re.compile(r"replica (?:cut|cut_below_high_watermark) topic=(\S+) partition=(\d+) from=(\d+) to=(\d+) high_watermark=(\d+) epochs=(-?\d+)\.\.(-?\d+) ")
Cut = collections.namedtuple("Cut", "broker topic partition start end epochs")         # [start, end); epochs [(epoch, its first offset)], or (least, most)
GOING = (OSError, EOFError)


class PlainWriter:
    """One batch of one record at a time, each acknowledged by acks=1 or acks=all before the next; who is not answered is not asked again. Knows the leader epoch in which its leader appended what it
    acknowledged, None where that leader was another one by the time it was asked."""

    def __init__(self, bootstraps, topic, name, partitions, acks=1, pace_s=0.002, era=lambda: 0):
        self.bootstraps, self.topic, self.name, self.partitions, self.acks, self.pace_s, self.era = bootstraps, topic, name, partitions, acks, pace_s, era
        self.idempotent, self.acknowledged, self.failed, self.sent, self.ended = False, [], [], 0, False
        self.places, self.links = {}, {}
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _look(self):
        """Where the partitions are led, as somebody who answers knows it."""
        bootstrap = self.bootstraps[self.sent % len(self.bootstraps)]
        with Connection(bootstrap, timeout_s=2) as c:
            answer = Admin(c).metadata(self.topic)
        at = {b["nodeId"]: f"{b['host']}:{b['port']}" for b in answer["brokers"]}
        self.places = {p["partitionIndex"]: (at[p["leaderId"]], p["leaderEpoch"]) for p in answer["topics"][0]["partitions"] if p["leaderId"] in at}

    def _link(self, place):
        if place not in self.links:
            self.links[place] = Connection(place, timeout_s=2)
        return Admin(self.links[place])

    def _epoch(self, leader, partition, offset, hint):
        """The epoch is one that the log says to begin at or before the offset, and to end behind it."""
        end = leader.epoch_end(self.topic, hint, partition)
        before = leader.epoch_end(self.topic, end["leaderEpoch"] - 1, partition)
        sure = not end["errorCode"] and not before["errorCode"] and before["endOffset"] <= offset < end["endOffset"]
        return end["leaderEpoch"] if sure else None

    def _put(self, partition, place, epoch):
        value = b"%s:%d:" % (self.name.encode(), self.sent)
        leader, self.sent = self._link(place), self.sent + 1
        answer = leader.produce_raw(self.topic, batch.build([value]), partition, self.acks)
        if answer["errorCode"] != ERRORS["NONE"]:
            del self.places[partition]
            return
        known = None
        try:
            known = self._epoch(leader, partition, answer["baseOffset"], epoch)
        finally:
            self.acknowledged.append(Acknowledged(partition, answer["baseOffset"], value, self.era(), known))

    def _run(self):
        partition = 0
        while not self.ended:
            partition = (partition + 1) % self.partitions
            try:
                if partition not in self.places:
                    self._look()
                if partition in self.places:
                    self._put(partition, *self.places[partition])
            except GOING:
                self.places.clear()
                for link in self.links.values():
                    link.socket.close()
                self.links.clear()
                self.sent += 1
            time.sleep(self.pace_s)  # poll: the pace

    def count(self):
        return len(self.acknowledged)

    def stop(self):
        self.ended = True
        self.thread.join(60)
        return self


# ---- what brokers say

def of_events(events):
    return [Cut(e["broker"], e["topic"], e["partition"], e["from_offset"], e["end_offset"], [(p["epoch"], p["start_offset"]) for p in e["epochs"]]) for e in events if e["type"] == "records_cut"]


def of_log(node, last_run=False):
    """Of all its runs, or of the one that goes on."""
    text = node.log().rpartition("=== run ")[2] if last_run else node.log()
    return [Cut(node.id, m[1], int(m[2]), int(m[4]), int(m[3]), (int(m[6]), int(m[7]))) for m in CUT.finditer(text)]


def of_ledger(entries):
    return [Cut(e["broker"], e["topic"], e["partition"], e["from_offset"], e["end_offset"], [(p["epoch"], p["start_offset"]) for p in e["epochs"]]) for e in entries if e["kind"] == "cut"]


def names(cut, partition, offset, epoch):
    """Does the cut say that this record went?"""
    if cut.partition != partition or not cut.start <= offset < cut.end:
        return False
    if epoch is None:
        return True
    if isinstance(cut.epochs, tuple):
        return cut.epochs[0] <= epoch <= cut.epochs[1]
    begun = [(start, e) for e, start in cut.epochs if start <= offset]
    return not begun or max(begun)[1] == epoch          # of more than 16 epochs the latest are told


def same(cut, line):
    """A cut takes whole batches: more than the line before it says, if need be."""
    return cut[:3] == line[:3] and cut.start <= line.start and cut.end == line.end


class Account:
    """When all brokers live. topics: of these."""

    def __init__(self, cluster, topics):
        self.nodes, self.topics = list(cluster.nodes.values()), set(topics)
        told = harness.until(lambda: (found := self.nodes[0].view("/v1/losses?limit=1000")) and not found.get("partial") and found, 30, "the ledgers of all")
        self.entries = [e for e in told["items"] if e["topic"] in self.topics]
        self.lines = [cut for node in self.nodes for cut in of_log(node) if cut.topic in self.topics]
        self.ledger = of_ledger(self.entries)
        harness.until(lambda: self._events() is not None, 30, lambda: f"an event for each cut of {self._expected()}: {of_events(history(self.nodes[0]))}", 0.2)
        self.events = self._events()

    def _expected(self):
        """What those who cut it still live to tell."""
        return [line for node in self.nodes for line in of_log(node, last_run=True) if line.topic in self.topics]

    def _events(self):
        try:
            events = of_events(history(self.nodes[0]))
        except (OSError, AssertionError):
            return None
        return [cut for cut in events if cut.topic in self.topics] if all(any(same(cut, line) for cut in events) for line in self._expected()) else None

    def check(self):
        """Nobody tells what another place does not."""
        for cut in self.events:
            assert any(same(cut, line) for line in self.lines), f"an event and no line: {cut}"

    def holds(self, topic, one):
        """Where it is told that this acknowledged record went: "ledger", "event", "log", or None."""
        for where, cuts in (("ledger", self.ledger), ("event", self.events), ("log", self.lines)):
            if any(cut.topic == topic and names(cut, one.partition, one.offset, one.epoch) for cut in cuts):
                return where
        return None

    def given_up(self, topic, one):
        """Does an election's entry say that records from there on may be lost?"""
        return any(e["kind"] == "election" and (e["topic"], e["partition"]) == (topic, one.partition) and e["from_offset"] <= one.offset
                   and (one.epoch is None or e["last_epoch"] < 0 or one.epoch <= e["last_epoch"]) for e in self.entries)

    def kept(self, topic):
        """{(partition, offset): values} of all that was kept aside, each file held against its entry."""
        found = collections.defaultdict(set)
        for e in self.entries:
            if e["topic"] != topic or e["kept"]["bytes"] == 0:
                continue
            data = open(f"{e['kept']['folder']}/{e['from_offset']:020}.log", "rb").read()
            assert len(data) == e["kept"]["bytes"] and (e["kept"]["what"] != "all" or len(data) == e["cut_bytes"]), e
            cut, = of_ledger([e])
            end = e["from_offset"]
            for one in batch.read(data):
                assert one.crc_is_valid() and one.base_offset == end and names(cut, e["partition"], one.base_offset, one.leader_epoch), (e, one)
                end = one.records[-1][0] + 1
                for offset, _, _, value in one.records:
                    found[e["partition"], offset].add(bytes(value))
            assert end == e["kept"]["end_offset"] and (e["kept"]["what"] != "all" or end == e["end_offset"]), e
        return found
