"""follower.py HOST:PORT TOPIC: print every record of all partitions, from the first one on; goes on where it was when the server comes back."""
import sys
import time

import grpc
from ottla.v1 import log_pb2, log_pb2_grpc


def follow(stub, topic, offsets):
    parts = [log_pb2.SubscribePartition(topic=topic, partition=p, start=log_pb2.START_OFFSET, offset=o) for p, o in offsets.items()]
    if not parts:
        parts = [log_pb2.SubscribePartition(topic=topic, partition=-1, start=log_pb2.START_EARLIEST)]
    for response in stub.Subscribe(log_pb2.SubscribeRequest(partitions=parts)):
        for record in response.records:
            print(response.partition, record.offset, record.value.decode(), flush=True)
        for progress in response.heartbeat.partitions:
            offsets[progress.partition] = progress.next_offset
        if response.records:
            offsets[response.partition] = response.next_offset


def main():
    address, topic = sys.argv[1:3]
    offsets = {}
    with grpc.insecure_channel(address) as channel:
        while True:
            try:
                follow(log_pb2_grpc.LogStub(channel), topic, offsets)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE:
                    sys.exit(f"{error.code().name}: {error.details()}")
                time.sleep(0.2)  # poll: the server is stopping or away


main()
