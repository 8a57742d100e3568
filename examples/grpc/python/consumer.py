"""consumer.py HOST:PORT GROUP TOPIC: be a member of a consumer group: print the records of the partitions that are given to it, and acknowledge them."""
import queue
import sys

import grpc
from ottla.v1 import log_pb2, log_pb2_grpc

address, group, topic = sys.argv[1:4]
requests = queue.SimpleQueue()
requests.put(log_pb2.ConsumeRequest(join=log_pb2.ConsumeJoin(group=group, topics=[topic], start=log_pb2.START_EARLIEST)))
for message in log_pb2_grpc.LogStub(grpc.insecure_channel(address)).Consume(iter(requests.get, None)):
    for record in message.records:
        print(message.position.partition, record.offset, record.value.decode(), flush=True)
    requests.put(log_pb2.ConsumeRequest(acknowledge=[message.position]))
