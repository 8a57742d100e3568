"""Rounds in which all that were in sync die and one that was not leads: what consumers find missing is within what the ledger says, no more, and the batches that went are kept and can be read.

Brokers 1, 2 and 3 decide; the partitions are on 3, 4 and 5, of which each round leaves one behind, kills the others, and has them back in any order. Now and then the last leader is back in
time, or an operator says the word instead of the topic's config.
OTTLA_CLUSTER_ROUNDS  half of these rounds are made (12), OTTLA_CLUSTER_SEED  seed of what happens and when.
"""
import collections
import json
import os
import random
import time

import harness
import pytest
from cluster_account import Account, PlainWriter
from cluster_load import create, parts_of, read_all, whole
from elections_test import set_config

ROUNDS = (int(os.environ.get("OTTLA_CLUSTER_ROUNDS", "12")) + 1) // 2
SEED = int(os.environ.get("OTTLA_CLUSTER_SEED", "1"))
SETTINGS = {"ottla.unclean.election.wait.ms": 300, "replica.high.watermark.checkpoint.interval.ms": 200, "min.insync.replicas": 1}
HOLDERS, PARTITIONS = (3, 4, 5), {"t": 3}
pytestmark = [pytest.mark.kill, pytest.mark.cluster, pytest.mark.timeout(240 + 60 * ROUNDS)]


def told(cluster, node):
    """What a broker says of the partitions, for the words of a failure."""
    return [(p, row["leaderId"], row["leaderEpoch"], row["isrNodes"], row["errorCode"]) for (_, p), row in parts_of(cluster.nodes[node], "t").items()]


def grows(cluster, writers, by=20):
    """Until everybody was acknowledged so many more."""
    before = [w.count() for w in writers]

    def words():
        rows = [(i, told(cluster, i)) for i, node in cluster.nodes.items() if node.alive()]
        return f"acknowledgements: {before}, {[w.count() for w in writers]}; brokers say {rows}; writers know {[w.places for w in writers]}"
    harness.until(lambda: all(w.count() >= was + by for w, was in zip(writers, before)), 60, words)


def rows_are(cluster, node, true):
    rows = parts_of(cluster.nodes[node], "t")
    return len(rows) == PARTITIONS["t"] and all(true(p) for p in rows.values())


def elect(node):
    ask = {"type": "unclean", "accept_data_loss": True, "dry_run": False, "partitions": [{"topic": "t", "partition": p} for p in range(PARTITIONS["t"])]}
    return harness.http(node.rest + "/v1/elections", "POST", json.dumps(ask).encode(), {"Content-Type": "application/json"}, timeout_s=40)


def unclean_round(cluster, chance, writers, operator):
    behind = chance.choice(HOLDERS)
    others = [i for i in HOLDERS if i != behind]
    chance.shuffle(others)
    if chance.random() < 0.3:                  # it is slow to go: what acks=1 acknowledges meanwhile is above the high watermark
        cluster.pause(behind)
        time.sleep(chance.random() * 0.5)  # poll: any moment
    cluster.kill(behind)
    harness.until(lambda: rows_are(cluster, 1, lambda p: behind not in p["isrNodes"] and p["leaderId"] >= 0), 30, lambda: f"without {behind}: {parts_of(cluster.nodes[1], 't')}", 0.05)
    grows(cluster, writers)
    for i in others:
        if chance.random() < 0.5:
            cluster.pause(i)
    for i in others:
        cluster.kill(i)
    cluster.start_one(behind, wait=False)
    early = chance.random() < 0.2
    if early:
        cluster.start_one(others[1], wait=False)
    living = [behind, others[1]] if early else [behind]
    if operator:                               # in any case: of those killed at once the one that is back in time need not be the last in sync
        cluster.wait_state(behind, "running", of=[1])
        harness.until(lambda: rows_are(cluster, 1, lambda p: p["leaderId"] in living) or not elect(cluster.nodes[1]), 60, lambda: elect(cluster.nodes[1]), 0.2)
    harness.until(lambda: rows_are(cluster, 1, lambda p: p["leaderId"] in living), 60, lambda: f"leaders: {told(cluster, 1)}", 0.05)
    grows(cluster, writers)
    for i in others:
        if cluster.nodes[i].process is None:
            cluster.start_one(i, wait=False)
    whole(cluster, PARTITIONS)
    return "early" if early else "operator" if operator else "config"


def check_losses(cluster, writers):
    """Every acknowledged record is there, or went in a cut that somebody told of. Those of acks=all: in one of the ledger, after an election that gave it up, and a copy of it is kept."""
    account = Account(cluster, PARTITIONS)
    account.check()
    rows, kept, lost = read_all(cluster.bootstrap(), "t", PARTITIONS["t"]), account.kept("t"), collections.Counter()
    for writer in writers:
        for one in writer.acknowledged:
            if rows[one.partition].get(one.offset) == one.value:
                continue
            where = account.holds("t", one)
            told = f"t-{one.partition}:{one.offset} of epoch {one.epoch}, acknowledged as {one.value} to {writer.name} ({one.era}), found {rows[one.partition].get(one.offset)}"
            assert where, f"nobody says that it went: {told}; {[c for c in account.ledger + account.events if c.partition == one.partition]}"
            if where == "ledger":
                assert account.given_up("t", one), f"no election says so: {told}; {account.entries}"
                assert one.value in kept[one.partition, one.offset], f"no copy of it: {told}"
            assert where == "ledger" or writer.acks == 1, f"the ledger does not say so ({where}): {told}"
            lost[writer.name, where] += 1
    return account, lost


def test_unclean_elections_lose_what_the_ledger_says(make, capsys):
    chance, era = random.Random(SEED + 2), ["begin"]
    cluster = make(5, voters=3, **SETTINGS)
    cluster.start()
    create(cluster.nodes[1], "t", 0, assignments=[[3, 4, 5], [4, 5, 3], [5, 3, 4]])
    whole(cluster, PARTITIONS)
    bootstraps = [cluster.nodes[i].bootstrap for i in (1, 2)]
    writers = [PlainWriter(bootstraps, "t", f"acks{acks}", PARTITIONS["t"], acks=acks, era=lambda: era[0]) for acks in (-1, 1)]
    kinds = collections.Counter()
    try:
        for number in range(ROUNDS):
            operator = number % 3 == 2
            set_config(cluster, 1, "t", "unclean.leader.election.enable", "false" if operator else "true")
            era[0] = f"round {number}"
            begin = time.monotonic()
            kind = unclean_round(cluster, chance, writers, operator)
            print(f"{era[0]} {kind}: {time.monotonic() - begin:.1f} s, {[w.count() for w in writers]} acknowledged")
            kinds[kind] += 1
        for writer in writers:
            writer.stop()
        account, lost = check_losses(cluster, writers)
    finally:
        for writer in writers:
            writer.ended = True
    assert not kinds.keys() - {"early"} or sum(lost.values()) > 0, "nothing was lost: this has shown nothing"
    with capsys.disabled():
        print(f"\n{ROUNDS} unclean rounds {dict(kinds)}: {[w.count() for w in writers]} acknowledged, lost {dict(lost)}, {len(account.ledger)} cuts in the ledger, {len(account.events)} as events, "
              f"epochs not known {sum(one.epoch is None for w in writers for one in w.acknowledged)}")
