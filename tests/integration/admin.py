"""Short forms of the requests that most trap tests need, over one raw connection."""
import batch
from wire import NO_ID, error_codes

ERRORS = error_codes()
NAMES = {code: name for name, code in ERRORS.items()}


def error(answer):
    return NAMES[answer["errorCode"]]


class Admin:
    def __init__(self, connection):
        self.connection = connection

    # topics
    def create(self, name, partitions=1, replication=1, version=7, validate_only=False, check=True, **configs):
        body = {"topics": [{"name": name, "numPartitions": partitions, "replicationFactor": replication,
                            "configs": [{"name": k.replace("_", "."), "value": str(v)} for k, v in configs.items()]}],
                "timeoutMs": 10000, "validateOnly": validate_only}
        topic = self.connection.ask("CreateTopics", version, body)["topics"]
        assert len(topic) == 1
        if check:
            assert error(topic[0]) == "NONE", topic
            if not validate_only:
                self.wait_for_leader(name, partitions if partitions > 0 else 1)
        return topic[0]

    def delete(self, name, check=True):
        result = self.connection.ask("DeleteTopics", 5, {"topicNames": [name], "timeoutMs": 10000})["responses"]
        assert len(result) == 1
        if check:
            assert error(result[0]) == "NONE", result
        return result[0]

    def metadata(self, *names, version=12, everything=False, create=False):
        topics = None if everything else [{"name": n} for n in names]
        return self.connection.ask("Metadata", version, {"topics": topics, "allowAutoTopicCreation": create})

    def describe(self, name, version=12):
        return self.metadata(name, version=version)["topics"][0]

    def wait_for_leader(self, name, partitions=1):
        """Until each partition has a leader; with us that is so at once, other brokers take a moment."""
        from harness import until

        def led():
            t = self.describe(name)
            return t["errorCode"] == 0 and len(t["partitions"]) >= partitions and all(
                p["errorCode"] == 0 and p["leaderId"] >= 0 for p in t["partitions"]) and t

        def leading():
            answer = self.connection.ask("ListOffsets", 7, {"replicaId": -1, "topics": [{"name": name, "partitions": [
                {"partitionIndex": p, "timestamp": -1} for p in range(partitions)]}]})
            return all(p["errorCode"] == 0 for p in answer["topics"][0]["partitions"])
        found = until(led, 10, f"a leader for {name}")
        until(leading, 20, f"the leader of {name} at work")
        return found

    def topic_id(self, name):
        return self.describe(name)["topicId"]

    # records
    def produce_raw(self, name, data, partition=0, acks=-1, version=12, topic_id=NO_ID, transactional_id=None):
        body = {"acks": acks, "timeoutMs": 10000, "transactionalId": transactional_id,
                "topicData": [{**({"name": name} if version < 13 else {"topicId": topic_id}),
                               "partitionData": [{"index": partition, "records": data}]}]}
        return self.connection.ask("Produce", version, body)["responses"][0]["partitionResponses"][0]

    def produce(self, name, *values, partition=0, version=12, acks=-1, **how):
        """Append one batch; gives its base offset."""
        answer = self.produce_raw(name, batch.build([v.encode() if isinstance(v, str) else v for v in values], **how),
                                  partition, acks, version)
        assert error(answer) == "NONE", answer
        return answer["baseOffset"]

    @staticmethod
    def fetch_body(name, offset=0, partition=0, version=12, topic_id=NO_ID, max_bytes=1 << 20, total=50 << 20, wait_ms=0,
                   min_bytes=0, epoch=-1, isolation=0, session=(0, -1), last_epoch=-1, log_start=-1):
        part = {"partition": partition, "fetchOffset": offset, "partitionMaxBytes": max_bytes, "currentLeaderEpoch": epoch,
                "lastFetchedEpoch": last_epoch, "logStartOffset": log_start}
        topics = [{**({"topic": name} if version < 13 else {"topicId": topic_id}), "partitions": [part]}] if name else []
        return {"replicaId": -1, "maxWaitMs": wait_ms, "minBytes": min_bytes, "maxBytes": total, "isolationLevel": isolation,
                "sessionId": session[0], "sessionEpoch": session[1], "topics": topics}

    def fetch_answer(self, name, offset=0, version=12, **how):
        return self.connection.ask("Fetch", version, self.fetch_body(name, offset, version=version, **how))

    def fetch(self, name, offset=0, version=12, **how):
        answer = self.fetch_answer(name, offset, version, **how)
        assert answer.get("errorCode", 0) == 0, answer
        return answer["responses"][0]["partitions"][0]

    def records(self, name, offset=0, partition=0, version=12):
        """All records from an offset to the high watermark: (offset, timestamp, key, value)."""
        out = []
        while True:
            part = self.fetch(name, offset, version, partition=partition)
            assert part["errorCode"] == 0, part
            got = [r for r in batch.records(part["records"]) if r[0] >= offset]
            if not got:
                assert offset >= part["highWatermark"], "an empty answer below the readable end"
                return out
            out += got
            offset = got[-1][0] + 1

    # offsets
    def list_offset(self, name, timestamp, partition=0, version=7, isolation=0, epoch=-1):
        body = {"replicaId": -1, "isolationLevel": isolation, "topics": [{"name": name, "partitions": [
            {"partitionIndex": partition, "timestamp": timestamp, "currentLeaderEpoch": epoch}]}]}
        return self.connection.ask("ListOffsets", version, body)["topics"][0]["partitions"][0]

    def delete_records(self, name, before, partition=0, version=2):
        body = {"timeoutMs": 10000, "topics": [{"name": name, "partitions": [{"partitionIndex": partition, "offset": before}]}]}
        return self.connection.ask("DeleteRecords", version, body)["topics"][0]["partitions"][0]

    def epoch_end(self, name, epoch, partition=0, current=-1, version=4):
        body = {"replicaId": -2, "topics": [{"topic": name, "partitions": [
            {"partition": partition, "currentLeaderEpoch": current, "leaderEpoch": epoch}]}]}
        return self.connection.ask("OffsetForLeaderEpoch", version, body)["topics"][0]["partitions"][0]

    def producer_id(self, version=4):
        """(id, epoch) of a new producer; a broker may first have to fetch itself a block of ids."""
        from harness import until
        body = {"transactionalId": None, "transactionTimeoutMs": 60000, "producerId": -1, "producerEpoch": -1}

        def given():
            answer = self.connection.ask("InitProducerId", version, body)
            assert error(answer) in ("NONE", "COORDINATOR_LOAD_IN_PROGRESS"), answer
            return answer["errorCode"] == 0 and (answer["producerId"], answer["producerEpoch"])
        return until(given, 10, "a producer id")

    def describe_configs(self, kind, name, keys=None, version=4, synonyms=True, documentation=True):
        body = {"resources": [{"resourceType": kind, "resourceName": name, "configurationKeys": keys}],
                "includeSynonyms": synonyms, "includeDocumentation": documentation}
        return self.connection.ask("DescribeConfigs", version, body)["results"][0]
