"""The gRPC door of three brokers: leaders are named where they are, and a member of a group reads what its coordinator does not lead where it is led."""
import queue
import threading

import harness
import pytest
from admin import Admin
from cluster import Cluster
from grpc_stubs import address, channel, grpc, info, kept_open, pb, pb_grpc, refused, values
from harness import until


@pytest.fixture(scope="module")
def cluster(run_directory):
    if harness.EXTERNAL:
        pytest.skip("needs servers of its own")
    made = Cluster(run_directory / "grpc-cluster", 3)
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture
def stubs(cluster):
    channels = {i: channel(node) for i, node in cluster.nodes.items()}
    yield {i: pb_grpc.LogStub(one) for i, one in channels.items()}
    for one in channels.values():
        one.close()


def create(cluster, name, **how):
    with cluster.nodes[1].connect(timeout_s=40) as c:
        assert Admin(c).create(name, check=False, **how)["errorCode"] == 0


def leaders(stub, topic):
    """{partition: leader}, once every partition has one."""
    def look():
        topics = stub.Metadata(pb.MetadataRequest(topics=[topic]), timeout=20).topics
        found = {p.index: p.leader_id for p in topics[0].partitions}
        return found if found and -1 not in found.values() else None
    return until(look, 30, "leaders")


def coordinator(stubs, group):
    """Who answers for the group: the others say UNAVAILABLE, and where it is."""
    def look():
        for i, stub in stubs.items():
            try:
                stub.FetchOffsets(pb.FetchOffsetsRequest(group=group), timeout=20)
                return i
            except grpc.RpcError as error:
                assert error.code().name == "UNAVAILABLE", error
        return None
    return until(look, 60, "a coordinator")


def tries(call, *codes):
    try:
        return call()
    except grpc.RpcError as error:
        assert error.code().name in (codes or ("UNAVAILABLE", "FAILED_PRECONDITION", "NOT_FOUND", "DEADLINE_EXCEEDED")), error
        return None


def test_whoever_does_not_lead_says_who_does(cluster, stubs, name):
    create(cluster, name, partitions=3, replication=3)
    who = leaders(stubs[1], name)
    brokers = {b.id: b.address for b in stubs[2].Metadata(pb.MetadataRequest(topics=[name]), timeout=20).brokers}
    assert brokers == {i: address(node) for i, node in cluster.nodes.items()}
    other = next(i for i in stubs if i != who[0])
    request = pb.ProduceRequest(topic=name, partition=0, records=[pb.Record(value=b"x")])
    until(lambda: _names(lambda: refused(stubs[other].Produce, request, timeout=20)) == address(cluster.nodes[who[0]]), 30, "the leader is named")
    assert until(lambda: tries(lambda: stubs[who[0]].Produce(request, timeout=20)), 30, "written").base_offset == 0
    for call, asked in ((stubs[other].Fetch, pb.FetchRequest(topic=name)),
                        (stubs[other].Subscribe, pb.SubscribeRequest(partitions=[pb.SubscribePartition(topic=name, start=pb.START_EARLIEST)]))):
        code, details = refused(call, asked, timeout=20)
        assert (code, details.reason, details.metadata["leader_address"]) == ("FAILED_PRECONDITION", "NOT_LEADER_OR_FOLLOWER", address(cluster.nodes[who[0]]))
    assert values(stubs[who[0]].Fetch(pb.FetchRequest(topic=name, max_wait_ms=5000), timeout=20)) == [b"x"]


def _names(call):
    code, details = call()
    assert code in ("FAILED_PRECONDITION", "UNAVAILABLE", "NOT_FOUND"), (code, details)
    return details.metadata["leader_address"] if details else ""


def test_a_member_joins_at_the_coordinator_and_reads_where_partitions_are_led(cluster, stubs, name):
    create(cluster, name, partitions=6, replication=3)
    who = leaders(stubs[1], name)
    for p, leader in who.items():
        until(lambda: tries(lambda: stubs[leader].Produce(pb.ProduceRequest(topic=name, partition=p, records=[pb.Record(value=b"%d" % i) for i in range(10)]), timeout=20)), 30, "written")
    by_address = {address(node): i for i, node in cluster.nodes.items()}
    home = coordinator(stubs, name)
    other = next(i for i in stubs if i != home)
    join = pb.ConsumeRequest(join=pb.ConsumeJoin(group=name, topics=[name], start=pb.START_EARLIEST))
    code, details = refused(stubs[other].Consume, kept_open(join), timeout=20)
    assert (code, details.reason, details.metadata["leader_address"]) == ("UNAVAILABLE", "NOT_COORDINATOR", address(cluster.nodes[home]))

    requests, read, committed = queue.SimpleQueue(), {}, {}
    requests.put(join)
    stream = stubs[home].Consume(iter(requests.get, None), timeout=120)
    elsewhere = {}

    def listen():
        for message in stream:
            for r in message.records:
                read.setdefault(message.position.partition, []).append(r.offset)
            if message.HasField("position"):
                requests.put(pb.ConsumeRequest(acknowledge=[message.position]))
            for p in message.assignment.assigned:
                if p.leader_address:
                    elsewhere[p.partition] = p
            for p in message.committed:
                committed[p.partition] = p.next_offset

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    foreign = {p for p, leader in who.items() if leader != home}
    until(lambda: set(elsewhere) == foreign, 30, lambda: (elsewhere, who, home))
    for p, position in elsewhere.items():  # the records come from there, the acknowledgements go to here
        assert by_address[position.leader_address] == who[p]
        assert position.next_offset == -1  # nothing was committed: from the earliest on
        got = values(stubs[who[p]].Fetch(pb.FetchRequest(topic=name, partition=p, max_wait_ms=5000), timeout=20))
        assert len(got) == 10
        position.next_offset = len(got)
        requests.put(pb.ConsumeRequest(acknowledge=[position]))
    until(lambda: committed == {p: 10 for p in range(6)}, 30, lambda: (committed, read))
    assert {p: read.get(p) for p in range(6)} == {p: None if p in foreign else list(range(10)) for p in range(6)}
    requests.put(None)
    thread.join(30)
    assert stream.code() is grpc.StatusCode.OK
    stored = stubs[home].FetchOffsets(pb.FetchOffsetsRequest(group=name), timeout=20).offsets
    assert {o.partition: o.offset for o in stored} == {p: 10 for p in range(6)}


def test_a_transaction_over_several_brokers(cluster, stubs, name):
    """Partitions and offsets wherever they are led; the producer's coordinator is named by whoever is asked."""
    create(cluster, name, partitions=3, replication=3)
    who, by_address = leaders(stubs[1], name), {address(node): i for i, node in cluster.nodes.items()}

    def anywhere(method, request):
        """Ask somebody, and then whoever is named."""
        at = 1
        while True:
            try:
                return getattr(stubs[at], method)(request, timeout=20)
            except grpc.RpcError as error:
                code, details = info(error)
                named = details.metadata["leader_address"] if details else ""
                assert code == "UNAVAILABLE" and details.reason in ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"), (code, details)
                at = by_address[named] if named else at

    made = anywhere("InitProducer", pb.InitProducerRequest(transactional_id=name))
    producer = pb.Producer(id=made.producer_id, epoch=made.producer_epoch)
    for p, leader in who.items():
        request = pb.ProduceRequest(topic=name, partition=p, transactional_id=name, producer=producer, records=[pb.Record(value=b"x")])
        until(lambda: tries(lambda: stubs[leader].Produce(request, timeout=20)), 30, "written")
    anywhere("CommitOffsets", pb.CommitOffsetsRequest(group=name, transactional_id=name, producer=producer, offsets=[pb.GroupOffset(topic=name, offset=5)]))
    anywhere("EndTransaction", pb.EndTransactionRequest(transactional_id=name, producer=producer, commit=True))
    for p, leader in who.items():
        asked = pb.FetchRequest(topic=name, partition=p, isolation_level=pb.ISOLATION_LEVEL_READ_COMMITTED, max_wait_ms=1000)
        until(lambda: values(stubs[leader].Fetch(asked, timeout=20)) == [b"x"], 30, "committed there")
    until(lambda: [o.offset for o in anywhere("FetchOffsets", pb.FetchOffsetsRequest(group=name)).offsets] == [5], 30, "the offset too")


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_member_joins_again_where_its_group_went(run_directory, name):
    """The coordinator is killed: with its member id the member finds its partitions at the next one, behind what was committed."""
    with Cluster(run_directory / "grpc-failover", 3) as cluster:
        cluster.start()
        create(cluster, name, partitions=3, replication=3)
        channels = {i: channel(node, **{"grpc.max_reconnect_backoff_ms": 200, "grpc.initial_reconnect_backoff_ms": 100, "grpc.min_reconnect_backoff_ms": 100})
                    for i, node in cluster.nodes.items()}
        stubs = {i: pb_grpc.LogStub(one) for i, one in channels.items()}

        def write(first):
            for p in range(3):
                request = pb.ProduceRequest(topic=name, partition=p, records=[pb.Record(value=b"%d" % (first + i)) for i in range(10)])
                until(lambda: any(tries(lambda: stub.Produce(request, timeout=5)) for i, stub in stubs.items() if cluster.nodes[i] in cluster.living()), 60, "written")

        write(0)
        home = coordinator(stubs, name)

        def serve(at, want):
            """Reads and acknowledges, here and where partitions are led, until all partitions are committed at `want`; (what was read, the member id)."""
            requests, read, done, member_id = queue.SimpleQueue(), [], {}, None
            requests.put(pb.ConsumeRequest(join=pb.ConsumeJoin(group=name, topics=[name], start=pb.START_EARLIEST, member_id=f"m-{name}")))
            for message in stubs[at].Consume(iter(requests.get, None), timeout=100):
                read += [(message.position.partition, r.offset) for r in message.records]
                if message.HasField("position"):
                    requests.put(pb.ConsumeRequest(acknowledge=[message.position]))
                for p in message.assignment.assigned:
                    if not p.leader_address or done.get(p.partition, 0) >= want:
                        continue
                    leader = next(s for i, s in stubs.items() if address(cluster.nodes[i]) == p.leader_address)
                    asked = pb.FetchRequest(topic=name, partition=p.partition, offset=max(p.next_offset, 0), max_wait_ms=5000)
                    got = until(lambda: tries(lambda: leader.Fetch(asked, timeout=10)), 30, "read there").records
                    read += [(p.partition, r.offset) for r in got]
                    p.next_offset = got[-1].offset + 1 if got else p.next_offset
                    if got:
                        requests.put(pb.ConsumeRequest(acknowledge=[p]))
                for p in message.committed:
                    done[p.partition] = p.next_offset
                if len(done) == 3 and min(done.values()) >= want:
                    requests.put(None)
            return read

        assert sorted(serve(home, 10)) == [(p, o) for p in range(3) for o in range(10)]
        cluster.kill(home)
        rest = {i: stub for i, stub in stubs.items() if i != home}
        write(10)
        second = coordinator(rest, name)
        assert second != home
        read = serve(second, 20)
        assert sorted(set(read)) == [(p, o) for p in range(3) for o in range(10, 20)]
        for one in channels.values():
            one.close()
