"""producer.py HOST:PORT TOPIC: append each line of standard input, pipelined; tell what was acknowledged."""
import sys

import grpc
from ottla.v1 import log_pb2, log_pb2_grpc


def requests(topic):
    for number, line in enumerate(sys.stdin.buffer):
        record = log_pb2.Record(value=line.rstrip(b"\n"))
        yield log_pb2.ProduceStreamRequest(id=number, topic=topic, records=[record], acks=log_pb2.ACKS_ALL)


def main():
    address, topic = sys.argv[1:3]
    with grpc.insecure_channel(address) as channel:
        for response in log_pb2_grpc.LogStub(channel).ProduceStream(requests(topic)):
            for ack in response.acknowledgements:  # in the order of the requests
                if ack.HasField("error"):
                    sys.exit(f"line {ack.id}: {ack.error.name}: {ack.error.message}")
                print(f"line {ack.id} is record {ack.base_offset}", flush=True)


main()
