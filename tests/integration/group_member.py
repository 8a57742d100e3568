"""A consumer as a process of its own, to be killed or stopped: group_member.py BOOTSTRAP GROUP TOPIC [KEY=VALUE]...

Prints a line `has P,P,...` whenever its partitions change and `read TOPIC P OFFSET` for each record; ends by SIGTERM with close."""
import signal
import sys

from confluent_kafka import Consumer

bootstrap, group, topic, *settings = sys.argv[1:]
config = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 200}
config.update(word.split("=", 1) for word in settings)
has, going = set(), [True]


def tell():
    print("has", ",".join(str(p) for p in sorted(has)), flush=True)


def assigned(consumer, parts):
    has.update(p.partition for p in parts)
    tell()


def revoked(consumer, parts):
    has.difference_update(p.partition for p in parts)
    tell()


def stop(*_):
    going[0] = False


signal.signal(signal.SIGTERM, stop)
member = Consumer(config)
member.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
while going[0]:
    message = member.poll(0.1)
    if message is not None and not message.error():
        print("read", message.topic(), message.partition(), message.offset(), flush=True)
member.close()
