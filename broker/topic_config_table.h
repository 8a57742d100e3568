/* Every topic key that means something here, with the broker key that gives its default.
 *
 *  field, key, type, default, min, max, choices, broker key or NULL, doc */
#ifndef OT_BROKER_TOPIC_CONFIG_TABLE_H
#define OT_BROKER_TOPIC_CONFIG_TABLE_H

#define BROKER_TOPIC_CONFIG_ROWS(X) \
    X(cleanup_policy, "cleanup.policy", LIST, "delete", 0, 0, "delete|compact", "log.cleanup.policy", "what happens to old records") \
    X(compression_type, "compression.type", CHOICE, "producer", 0, 0, "uncompressed|zstd|lz4|snappy|gzip|producer", "compression.type", "codec of stored batches") \
    X(compression_gzip_level, "compression.gzip.level", INT, "-1", -1, 9, NULL, "compression.gzip.level", "gzip level when the broker compresses") \
    X(compression_lz4_level, "compression.lz4.level", INT, "9", 1, 17, NULL, "compression.lz4.level", "lz4 level when the broker compresses") \
    X(compression_zstd_level, "compression.zstd.level", INT, "3", -131072, 22, NULL, "compression.zstd.level", "zstd level when the broker compresses") \
    X(delete_retention_ms, "delete.retention.ms", LONG, "86400000", 0, INT64_MAX, NULL, "log.cleaner.delete.retention.ms", "how long tombstones stay") \
    X(flush_messages, "flush.messages", LONG, "9223372036854775807", 1, INT64_MAX, NULL, "log.flush.interval.messages", "records after which the log is flushed") \
    X(flush_ms, "flush.ms", LONG, "9223372036854775807", 0, INT64_MAX, NULL, "log.flush.interval.ms", "age of an unflushed record") \
    X(follower_throttled, "follower.replication.throttled.replicas", LIST, "", 0, 0, NULL, NULL, "PARTITION:BROKER, … of the replicas that follower.replication.throttled.rate holds back while they are not in sync; * = all") \
    X(index_interval_bytes, "index.interval.bytes", INT, "4096", 0, INT32_MAX, NULL, "log.index.interval.bytes", "log bytes between index entries") \
    X(leader_throttled, "leader.replication.throttled.replicas", LIST, "", 0, 0, NULL, NULL, "PARTITION:BROKER, … of the replicas that, as leaders, give followers that are not in sync no more than leader.replication.throttled.rate; * = all") \
    X(max_compaction_lag_ms, "max.compaction.lag.ms", LONG, "9223372036854775807", 1, INT64_MAX, NULL, "log.cleaner.max.compaction.lag.ms", "age above which a record is compacted") \
    X(max_decompressed_message_bytes, "max.decompressed.message.bytes", INT, "2147483639", 1, 2147483639, NULL, "max.decompressed.message.bytes", "largest record after decompression") \
    X(max_message_bytes, "max.message.bytes", INT, "1048588", 0, INT32_MAX, NULL, "message.max.bytes", "largest record batch") \
    X(message_timestamp_after_max_ms, "message.timestamp.after.max.ms", LONG, "3600000", 0, INT64_MAX, NULL, "log.message.timestamp.after.max.ms", "how far ahead a record timestamp may be") \
    X(message_timestamp_before_max_ms, "message.timestamp.before.max.ms", LONG, "9223372036854775807", 0, INT64_MAX, NULL, "log.message.timestamp.before.max.ms", "oldest accepted record timestamp") \
    X(message_timestamp_type, "message.timestamp.type", CHOICE, "CreateTime", 0, 0, "CreateTime|LogAppendTime", "log.message.timestamp.type", "whose clock stamps records") \
    X(min_cleanable_dirty_ratio, "min.cleanable.dirty.ratio", DOUBLE, "0.5", 0, 1, NULL, "log.cleaner.min.cleanable.ratio", "dirty share at which compaction starts") \
    X(min_compaction_lag_ms, "min.compaction.lag.ms", LONG, "0", 0, INT64_MAX, NULL, "log.cleaner.min.compaction.lag.ms", "age below which a record is not compacted") \
    X(min_insync_replicas, "min.insync.replicas", INT, "1", 1, INT32_MAX, NULL, "min.insync.replicas", "in-sync replicas that acks=all needs") \
    X(preallocate, "preallocate", BOOL, "false", 0, 0, NULL, "log.preallocate", "allocate whole segments at once") \
    X(retention_bytes, "retention.bytes", LONG, "-1", -1, INT64_MAX, NULL, "log.retention.bytes", "how much of a partition is kept; -1 = no limit") \
    X(retention_ms, "retention.ms", LONG, "604800000", -1, INT64_MAX, NULL, "log.retention.ms", "how long records are kept; -1 = for ever") \
    X(segment_bytes, "segment.bytes", INT, "1073741824", 1048576, INT32_MAX, NULL, "log.segment.bytes", "largest segment file") \
    X(segment_index_bytes, "segment.index.bytes", INT, "10485760", 4, INT32_MAX, NULL, "log.index.size.max.bytes", "largest index file") \
    X(segment_jitter_ms, "segment.jitter.ms", LONG, "0", 0, INT64_MAX, NULL, "log.roll.jitter.ms", "spread of roll times") \
    X(segment_ms, "segment.ms", LONG, "604800000", 1, INT64_MAX, NULL, "log.roll.ms", "oldest active segment") \
    X(unclean_leader_election_enable, "unclean.leader.election.enable", BOOL, "false", 0, 0, NULL, "unclean.leader.election.enable", "when nobody who has everything lives, the replica with the longest log leads, and what it lacks is lost") \
    X(durability, "ottla.durability", CHOICE, "auto", 0, 0, "auto|replicated|fsync|replicated+fsync", "ottla.durability", "what an acks=all answer means") \
    X(reassignment_throttled, "ottla.reassignment.throttled", BOOL, "false", 0, 0, NULL, NULL, "its throttled replicas were listed with a reassignment, and are taken back with the throttle; not those that an operator lists")

#endif
