/* Every broker key that means something here. Kafka's keys keep name, default and range; our own begin with ottla., rest., grpc., peer., coordinator., metrics.,
 * log.append.. A row here without a reader is a defect.
 *
 *  field, key, type, default (text, or NULL), min, max (numbers), choices (CHOICE/LIST: a|b|c, else NULL), change, synonyms that supply a value, doc */
#ifndef OT_BROKER_CONFIG_TABLE_H
#define OT_BROKER_CONFIG_TABLE_H

#define BROKER_CONFIG_ROWS(X) \
    X(node_id, "node.id", INT, "1", 0, INT32_MAX, NULL, RESTART, "broker.id", "number of this broker, unique in its cluster") \
    X(log_dirs, "log.dirs", LIST, NULL, 0, 0, NULL, RESTART, "log.dir", "directories that hold the partitions, comma separated; `ottla server` without one uses ./ottla-data") \
    X(cordoned_log_dirs, "cordoned.log.dirs", LIST, "", 0, 0, NULL, PER_BROKER, NULL, "directories of log.dirs that get no new partitions; * = all") \
    X(listeners, "listeners", LIST, "PLAINTEXT://127.0.0.1:9092", 0, 0, NULL, PER_BROKER, NULL, "where Kafka clients connect") \
    X(listener_security_protocol_map, "listener.security.protocol.map", LIST, "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", 0, 0, NULL, PER_BROKER, NULL, "protocol of each listener by its name; PLAINTEXT is served in this version") \
    X(controller_listener_names, "controller.listener.names", LIST, NULL, 0, 0, NULL, RESTART, NULL, "names in listeners that are left out: Kafka's controllers speak there, ours on peer.listeners") \
    X(advertised_listeners, "advertised.listeners", LIST, NULL, 0, 0, NULL, RESTART, NULL, "what clients are told; default: the address that they reached") \
    X(rest_listeners, "rest.listeners", LIST, "http://127.0.0.1:9095,unix:/run/ottla/admin.sock", 0, 0, NULL, RESTART, NULL, "where the REST control plane listens: http://host:port, unix:/path; the socket of the default is left out where there is no /run/ottla") \
    X(grpc_listeners, "grpc.listeners", LIST, "127.0.0.1:9094", 0, 0, NULL, RESTART, NULL, "where the gRPC data plane listens") \
    X(grpc_advertised_listeners, "grpc.advertised.listeners", LIST, NULL, 0, 0, NULL, RESTART, NULL, "where gRPC clients are told that this broker is; default: the first of grpc.listeners") \
    X(grpc_max_message_bytes, "grpc.max.message.bytes", INT, "16777216", 4096, INT32_MAX, NULL, RESTART, NULL, "largest gRPC message that is taken, and largest single record that is given") \
    X(grpc_max_concurrent_streams, "grpc.max.concurrent.streams", INT, "256", 1, INT32_MAX, NULL, RESTART, NULL, "calls of one gRPC connection at a time") \
    X(grpc_calls_max, "grpc.calls.max", INT, "10000", 1, 1000000, NULL, RESTART, NULL, "gRPC calls open at a time, of all connections") \
    X(grpc_stream_inflight_bytes_max, "grpc.stream.inflight.bytes.max", LONG, "16777216", 1, INT64_MAX, NULL, RESTART, NULL, "unacknowledged bytes after which a ProduceStream is not read on") \
    X(grpc_heartbeat_interval_ms, "grpc.heartbeat.interval.ms", INT, "5000", 10, INT32_MAX, NULL, RESTART, NULL, "silence of a subscribed partition after which it gets a heartbeat") \
    X(grpc_keepalive_time_ms, "grpc.keepalive.time.ms", LONG, "60000", -1, INT64_MAX, NULL, RESTART, NULL, "silence after which a gRPC connection is pinged; -1 = never") \
    X(grpc_keepalive_timeout_ms, "grpc.keepalive.timeout.ms", INT, "20000", 1, INT32_MAX, NULL, RESTART, NULL, "how long the answer to such a ping may take before the connection is closed") \
    X(grpc_ping_interval_min_ms, "grpc.ping.interval.min.ms", INT, "10000", 0, INT32_MAX, NULL, RESTART, NULL, "a client that pings an idle gRPC connection more often is closed") \
    X(grpc_connection_max_idle_ms, "grpc.connection.max.idle.ms", LONG, "600000", -1, INT64_MAX, NULL, RESTART, NULL, "a gRPC connection without calls is closed after this; -1 = never") \
    X(grpc_connection_max_age_ms, "grpc.connection.max.age.ms", LONG, "-1", -1, INT64_MAX, NULL, RESTART, NULL, "a gRPC connection is asked to reconnect after this, so that load spreads; -1 = never") \
    X(grpc_memory_bytes, "grpc.memory.bytes", LONG, "0", 0, INT64_MAX, NULL, RESTART, NULL, "memory of the gRPC library beyond which calls are closed, a fuse; 0 = from the budget") \
    X(grpc_shutdown_grace_ms, "grpc.shutdown.grace.ms", INT, "2000", 0, 600000, NULL, RESTART, NULL, "how long gRPC calls may take to end when the server stops") \
    X(peer_listeners, "peer.listeners", LIST, NULL, 0, 0, NULL, RESTART, NULL, "where other brokers connect: host:port; default: this node's place in coordinator.voters, with coordinator.join alone 127.0.0.1:9093, else nowhere") \
    X(peer_advertised_listeners, "peer.advertised.listeners", LIST, NULL, 0, 0, NULL, RESTART, NULL, "host:port that other brokers are told; default: this node's place in coordinator.voters, else the first of peer.listeners") \
    X(peer_secret_file, "peer.secret.file", TEXT, NULL, 0, 0, NULL, RESTART, NULL, "file whose content every broker of the cluster has to know; needed unless peer.listeners is on loopback") \
    X(peer_congestion_control, "peer.congestion.control", TEXT, "auto", 0, 0, NULL, RESTART, NULL, "TCP congestion control of what this broker sends to those that connect to peer.listeners; auto = the system's, but cubic where that is bbr, whose timers cost more than the sending") \
    X(coordinator_voters, "coordinator.voters", LIST, NULL, 0, 0, NULL, RESTART, NULL, "ID@HOST:PORT of the nodes that found the cluster, the same on each of them; a node that is not among them follows them. Without it this node is a cluster of its own") \
    X(coordinator_join, "coordinator.join", LIST, NULL, 0, 0, NULL, RESTART, NULL, "ID@HOST:PORT of voters of a cluster that exists: this node never founds one, it becomes part of that one") \
    X(coordinator_election_timeout_ms, "coordinator.election.timeout.ms", INT, "1000", 50, 60000, NULL, RESTART, NULL, "silence of the coordinator after which another one is elected, once to twice as long; it is heard of ten times in it") \
    X(coordinator_auto_readmit, "coordinator.auto.readmit", BOOL, "true", 0, 0, NULL, RESTART, NULL, "a voter that comes back with another directory is given its vote again by itself, once most of the other voters agree") \
    X(broker_heartbeat_interval_ms, "broker.heartbeat.interval.ms", INT, "2000", 50, 60000, NULL, RESTART, NULL, "how often a broker tells the coordinator that it lives") \
    X(broker_session_timeout_ms, "broker.session.timeout.ms", INT, "9000", 200, 600000, NULL, RESTART, NULL, "within this time others lead for a broker that is silent (it is taken for gone after 95 % of it)") \
    X(ottla_leader_lease, "ottla.leader.lease", CHOICE, "none", 0, 0, "none|strict", RESTART, NULL, "strict: a broker that the coordinator may take for gone refuses acks=0 and acks=1 records") \
    X(ottla_shutdown_handover_timeout_ms, "ottla.shutdown.handover.timeout.ms", LONG, "10000", 0, 600000, NULL, RESTART, NULL, "how long a stopping broker waits until others have taken over what it leads") \
    X(ottla_broker_maintenance, "ottla.broker.maintenance", BOOL, "false", 0, 0, NULL, PER_BROKER, NULL, "this broker leads only what nobody else can, until it is false again: `ottla cluster drain`; kept by the cluster, not in a file") \
    X(ottla_broker_decommission, "ottla.broker.decommission", BOOL, "false", 0, 0, NULL, PER_BROKER, NULL, "every replica of this broker is moved to others, and none is placed there: `ottla cluster decommission`; kept by the cluster, not in a file") \
    X(ottla_reassignment_throttle, "ottla.reassignment.throttle", LONG, "-1", -1, INT64_MAX, NULL, CLUSTER_WIDE, NULL, "bytes a second of the reassignments that were started with a throttle; set and taken back with it; -1 = none") \
    X(broker_rack, "broker.rack", TEXT, NULL, 0, 0, NULL, RESTART, NULL, "rack of this broker") \
    X(ottla_network_threads, "ottla.network.threads", INT, "0", 0, 256, NULL, RESTART, NULL, "reactors; 0 = one per core") \
    X(ottla_io_threads, "ottla.io.threads", INT, "0", 0, 256, NULL, RESTART, NULL, "threads for disk work and decoding; 0 = by cores") \
    X(num_partitions, "num.partitions", INT, "1", 1, INT32_MAX, NULL, RESTART, NULL, "partitions of a topic that does not say") \
    X(default_replication_factor, "default.replication.factor", INT, "-1", -1, 32767, NULL, RESTART, NULL, "replicas of a topic that does not say; -1 = min(3, live brokers)") \
    X(auto_create_topics_enable, "auto.create.topics.enable", BOOL, "true", 0, 0, NULL, RESTART, NULL, "make a topic when a client first asks for it") \
    X(delete_topic_enable, "delete.topic.enable", BOOL, "true", 0, 0, NULL, RESTART, NULL, "allow topics to be deleted") \
    X(min_insync_replicas, "min.insync.replicas", INT, "1", 1, INT32_MAX, NULL, CLUSTER_WIDE, NULL, "in-sync replicas that acks=all needs") \
    X(unclean_leader_election_enable, "unclean.leader.election.enable", BOOL, "false", 0, 0, NULL, CLUSTER_WIDE, NULL, "when nobody who has everything lives, the replica with the longest log leads, and what it lacks is lost") \
    X(ottla_unclean_election_wait_ms, "ottla.unclean.election.wait.ms", LONG, "10000", 0, 3600000, NULL, CLUSTER_WIDE, NULL, "so long an unclean election waits for the last known leader, who may have more") \
    X(ottla_loss_keep_bytes, "ottla.loss.keep.bytes", LONG, "1073741824", 0, INT64_MAX, NULL, PER_BROKER, NULL, "record batches that a loss cuts off are kept aside up to so many bytes in all; 0 = none") \
    X(ottla_loss_keep_partition_bytes, "ottla.loss.keep.partition.bytes", LONG, "268435456", 0, INT64_MAX, NULL, PER_BROKER, NULL, "and up to so many for one cut of one partition") \
    X(message_max_bytes, "message.max.bytes", INT, "1048588", 0, INT32_MAX, NULL, CLUSTER_WIDE, NULL, "largest record batch") \
    X(compression_type, "compression.type", CHOICE, "producer", 0, 0, "uncompressed|zstd|lz4|snappy|gzip|producer", CLUSTER_WIDE, NULL, "codec of stored batches; producer = as they come") \
    X(compression_gzip_level, "compression.gzip.level", INT, "-1", -1, 9, NULL, CLUSTER_WIDE, NULL, "gzip level when the broker compresses") \
    X(compression_lz4_level, "compression.lz4.level", INT, "9", 1, 17, NULL, CLUSTER_WIDE, NULL, "lz4 level when the broker compresses") \
    X(compression_zstd_level, "compression.zstd.level", INT, "3", -131072, 22, NULL, CLUSTER_WIDE, NULL, "zstd level when the broker compresses") \
    X(log_cleanup_policy, "log.cleanup.policy", LIST, "delete", 0, 0, "delete|compact", CLUSTER_WIDE, NULL, "what happens to old records") \
    X(log_segment_bytes, "log.segment.bytes", INT, "1073741824", 1048576, INT32_MAX, NULL, CLUSTER_WIDE, NULL, "largest segment file") \
    X(log_roll_ms, "log.roll.ms", LONG, "604800000", 1, INT64_MAX, NULL, CLUSTER_WIDE, "log.roll.hours*3600000", "oldest active segment") \
    X(log_roll_jitter_ms, "log.roll.jitter.ms", LONG, "0", 0, INT64_MAX, NULL, CLUSTER_WIDE, "log.roll.jitter.hours*3600000", "spread of roll times") \
    X(log_retention_ms, "log.retention.ms", LONG, "604800000", -1, INT64_MAX, NULL, CLUSTER_WIDE, "log.retention.minutes*60000,log.retention.hours*3600000", "how long records are kept; -1 = for ever") \
    X(log_retention_bytes, "log.retention.bytes", LONG, "-1", -1, INT64_MAX, NULL, CLUSTER_WIDE, NULL, "how much of a partition is kept; -1 = no limit") \
    X(log_retention_check_interval_ms, "log.retention.check.interval.ms", LONG, "300000", 1, INT64_MAX, NULL, RESTART, NULL, "how often retention looks") \
    X(log_initial_task_delay_ms, "log.initial.task.delay.ms", LONG, "30000", 0, INT64_MAX, NULL, RESTART, NULL, "when retention looks first, after a start") \
    X(log_index_size_max_bytes, "log.index.size.max.bytes", INT, "10485760", 4, INT32_MAX, NULL, CLUSTER_WIDE, NULL, "largest index file") \
    X(log_index_interval_bytes, "log.index.interval.bytes", INT, "4096", 0, INT32_MAX, NULL, CLUSTER_WIDE, NULL, "log bytes between index entries") \
    X(log_preallocate, "log.preallocate", BOOL, "false", 0, 0, NULL, CLUSTER_WIDE, NULL, "allocate whole segments at once") \
    X(log_message_timestamp_type, "log.message.timestamp.type", CHOICE, "CreateTime", 0, 0, "CreateTime|LogAppendTime", CLUSTER_WIDE, NULL, "whose clock stamps records") \
    X(log_message_timestamp_before_max_ms, "log.message.timestamp.before.max.ms", LONG, "9223372036854775807", 0, INT64_MAX, NULL, CLUSTER_WIDE, NULL, "oldest accepted record timestamp") \
    X(log_message_timestamp_after_max_ms, "log.message.timestamp.after.max.ms", LONG, "3600000", 0, INT64_MAX, NULL, CLUSTER_WIDE, NULL, "how far ahead a record timestamp may be") \
    X(log_flush_interval_messages, "log.flush.interval.messages", LONG, "9223372036854775807", 1, INT64_MAX, NULL, CLUSTER_WIDE, NULL, "records after which a log is flushed") \
    X(log_flush_interval_ms, "log.flush.interval.ms", LONG, "9223372036854775807", 0, INT64_MAX, NULL, CLUSTER_WIDE, "log.flush.scheduler.interval.ms", "age of an unflushed record") \
    X(log_flush_offset_checkpoint_interval_ms, "log.flush.offset.checkpoint.interval.ms", INT, "60000", 0, INT32_MAX, NULL, RESTART, NULL, "how often recovery points are written; here at most 5 s") \
    X(log_flush_start_offset_checkpoint_interval_ms, "log.flush.start.offset.checkpoint.interval.ms", INT, "60000", 0, INT32_MAX, NULL, RESTART, NULL, "how often start offsets are written; here at most 5 s") \
    X(replica_high_watermark_checkpoint_interval_ms, "replica.high.watermark.checkpoint.interval.ms", LONG, "5000", 0, INT64_MAX, NULL, RESTART, NULL, "how often high watermarks are written") \
    X(replica_lag_time_max_ms, "replica.lag.time.max.ms", LONG, "30000", 1, INT64_MAX / 1000, NULL, RESTART, NULL, "a follower that was not caught up for so long leaves the ISR") \
    X(num_replica_fetchers, "num.replica.fetchers", INT, "1", 1, 15, NULL, RESTART, NULL, "streams of fetches to each leader, beside the one that takes what becomes due while they wait there") \
    X(replica_fetch_max_bytes, "replica.fetch.max.bytes", INT, "1048576", 0, INT32_MAX, NULL, RESTART, NULL, "bytes of one partition in an answer to a follower; a larger batch comes all the same") \
    X(replica_fetch_response_max_bytes, "replica.fetch.response.max.bytes", INT, "10485760", 0, INT32_MAX, NULL, RESTART, NULL, "bytes of an answer to a follower") \
    X(replica_fetch_min_bytes, "replica.fetch.min.bytes", INT, "1", 0, INT32_MAX, NULL, RESTART, NULL, "less than this is waited for") \
    X(replica_fetch_wait_max_ms, "replica.fetch.wait.max.ms", INT, "500", 0, INT32_MAX / 2, NULL, RESTART, NULL, "how long a follower's fetch waits at the leader for records") \
    X(auto_leader_rebalance_enable, "auto.leader.rebalance.enable", BOOL, "true", 0, 0, NULL, RESTART, NULL, "leaders go back to the first replica of their list") \
    X(leader_imbalance_check_interval_seconds, "leader.imbalance.check.interval.seconds", LONG, "300", 1, INT32_MAX, NULL, RESTART, NULL, "how often that is looked at") \
    X(leader_imbalance_per_broker_percentage, "leader.imbalance.per.broker.percentage", INT, "10", 0, 100, NULL, RESTART, NULL, "share of what a broker should lead that others may lead") \
    X(ottla_leader_imbalance_unfenced_ms, "ottla.leader.imbalance.unfenced.ms", LONG, "60000", 0, INT64_MAX / 1000, NULL, RESTART, NULL, "leaders go back only to brokers that the coordinator has had in service for so long") \
    X(replica_selector_class, "replica.selector.class", TEXT, NULL, 0, 0, NULL, RESTART, NULL, "org.apache.kafka.common.replica.RackAwareReplicaSelector: consumers that name their rack read from a replica there") \
    X(replica_socket_receive_buffer_bytes, "replica.socket.receive.buffer.bytes", INT, "-1", -1, INT32_MAX, NULL, RESTART, NULL, "receive buffer of a connection to a leader; below 1 = the system's, which grows with the need: Kafka's default of 65536 makes large batches a third dearer") \
    X(replica_socket_timeout_ms, "replica.socket.timeout.ms", INT, "30000", 1, INT32_MAX / 2, NULL, RESTART, NULL, "silence of a leader that owes an answer after which the connection is made anew") \
    X(replica_fetch_backoff_ms, "replica.fetch.backoff.ms", INT, "1000", 0, INT32_MAX / 2, NULL, RESTART, NULL, "longest pause after a failed fetch; the first ones are shorter") \
    X(log_cleaner_delete_retention_ms, "log.cleaner.delete.retention.ms", LONG, "86400000", 0, INT64_MAX, NULL, CLUSTER_WIDE, NULL, "how long tombstones stay") \
    X(log_cleaner_min_cleanable_ratio, "log.cleaner.min.cleanable.ratio", DOUBLE, "0.5", 0, 1, NULL, CLUSTER_WIDE, NULL, "dirty share at which compaction starts") \
    X(log_cleaner_min_compaction_lag_ms, "log.cleaner.min.compaction.lag.ms", LONG, "0", 0, INT64_MAX, NULL, CLUSTER_WIDE, NULL, "age below which a record is not compacted") \
    X(log_cleaner_max_compaction_lag_ms, "log.cleaner.max.compaction.lag.ms", LONG, "9223372036854775807", 1, INT64_MAX, NULL, CLUSTER_WIDE, NULL, "age above which a record is compacted") \
    X(log_cleaner_enable, "log.cleaner.enable", BOOL, "true", 0, 0, NULL, RESTART, NULL, "compact the topics whose cleanup.policy says so") \
    X(log_cleaner_threads, "log.cleaner.threads", INT, "1", 0, INT32_MAX, NULL, CLUSTER_WIDE, NULL, "partitions compacted at a time; at most one per core, or as many as the start said") \
    X(log_cleaner_io_max_bytes_per_second, "log.cleaner.io.max.bytes.per.second", DOUBLE, "1.7976931348623157E308", 0, INT64_MAX, NULL, CLUSTER_WIDE, NULL, "how fast compaction reads and writes, in all") \
    X(log_cleaner_dedupe_buffer_size, "log.cleaner.dedupe.buffer.size", LONG, "134217728", 0, INT64_MAX, NULL, CLUSTER_WIDE, NULL, "memory for the keys of all cleaner threads, 16 bytes a key; as much of it as the memory budget allows") \
    X(log_cleaner_io_buffer_size, "log.cleaner.io.buffer.size", INT, "524288", 0, INT32_MAX, NULL, CLUSTER_WIDE, NULL, "memory for reading and writing of all cleaner threads") \
    X(log_cleaner_io_buffer_load_factor, "log.cleaner.io.buffer.load.factor", DOUBLE, "0.9", 0, INT64_MAX, NULL, CLUSTER_WIDE, NULL, "how full the memory for keys may get: between 0.05 and 0.99, else it is 0.9") \
    X(log_cleaner_backoff_ms, "log.cleaner.backoff.ms", LONG, "15000", 0, INT64_MAX, NULL, CLUSTER_WIDE, NULL, "how long the cleaner waits when there is nothing to compact") \
    X(log_append_io, "log.append.io", CHOICE, "auto", 0, 0, "pwritev|mmap|auto", RESTART, NULL, "how segments are written") \
    X(log_append_mapped_bytes_max, "log.append.mapped.bytes.max", LONG, "1073741824", 0, INT64_MAX, NULL, RESTART, NULL, "cap of mapped segment tails") \
    X(producer_id_expiration_ms, "producer.id.expiration.ms", INT, "86400000", 1, INT32_MAX, NULL, CLUSTER_WIDE, NULL, "how long an idle producer is remembered") \
    X(ottla_producers_per_partition_max, "ottla.producers.per.partition.max", INT, "10000", 1, 10000000, NULL, RESTART, NULL, "producer ids that a partition remembers") \
    X(leader_replication_throttled_rate, "leader.replication.throttled.rate", LONG, "9223372036854775807", 0, INT64_MAX, NULL, CLUSTER_WIDE, NULL, "bytes per second that a leader gives to followers of the replicas that topics list as throttled (leader.replication.throttled.replicas)") \
    X(follower_replication_throttled_rate, "follower.replication.throttled.rate", LONG, "9223372036854775807", 0, INT64_MAX, NULL, CLUSTER_WIDE, NULL, "bytes per second that a follower takes for the replicas that topics list as throttled (follower.replication.throttled.replicas)") \
    X(ottla_scrub_bytes_per_second, "ottla.scrub.bytes.per.second", LONG, "8388608", 0, INT64_MAX, NULL, CLUSTER_WIDE, NULL, "how fast sealed segments are read again to find damage; 0 = never") \
    X(ottla_scrub_interval_ms, "ottla.scrub.interval.ms", LONG, "604800000", 1, INT64_MAX / 1000, NULL, CLUSTER_WIDE, NULL, "how long after a pass over all sealed segments began the next one begins; the first of a start begins after a minute, or after this if that is less") \
    X(ottla_durability, "ottla.durability", CHOICE, "auto", 0, 0, "auto|replicated|fsync|replicated+fsync", CLUSTER_WIDE, NULL, "what an acks=all answer means") \
    X(ottla_disk_free_warn_bytes, "ottla.disk.free.warn.bytes", LONG, "10737418240", 0, INT64_MAX, NULL, PER_BROKER, NULL, "free space below which a warning is given") \
    X(ottla_disk_free_refuse_bytes, "ottla.disk.free.refuse.bytes", LONG, "1073741824", 0, INT64_MAX, NULL, PER_BROKER, NULL, "free space below which produce is refused") \
    X(ottla_disk_reserve_bytes, "ottla.disk.reserve.bytes", LONG, "67108864", 0, INT64_MAX, NULL, RESTART, NULL, "kept for restart and deletes on a full disk") \
    X(ottla_shutdown_flush_timeout_ms, "ottla.shutdown.flush.timeout.ms", LONG, "8000", 0, 600000, NULL, RESTART, NULL, "how long a stop may flush") \
    X(ottla_config_unknown_keys, "ottla.config.unknown.keys", CHOICE, "error", 0, 0, "error|warn", RESTART, NULL, "what an unknown key does") \
    X(ottla_log_format, "ottla.log.format", CHOICE, "text", 0, 0, "text|json", RESTART, NULL, "form of log lines") \
    X(ottla_log_level, "ottla.log.level", CHOICE, "info", 0, 0, "error|warn|info|debug|trace", PER_BROKER, NULL, "least level that is logged") \
    X(ottla_slow_request_ms, "ottla.slow.request.ms", LONG, "500", -1, INT64_MAX / 1000, NULL, CLUSTER_WIDE, NULL, "requests that took longer are kept for GET /v1/diagnostics/slow-requests; -1 = none") \
    X(ottla_memory_bytes, "ottla.memory.bytes", LONG, "0", 0, INT64_MAX, NULL, RESTART, NULL, "memory budget; 0 = from the cgroup or the machine") \
    X(ottla_decode_bytes_max, "ottla.decode.bytes.max", LONG, "0", 0, INT64_MAX, NULL, RESTART, NULL, "cap of decoding windows; 0 = from the budget") \
    X(ottla_open_files_max, "ottla.open.files.max", INT, "0", 0, INT32_MAX, NULL, RESTART, NULL, "segment files kept open; 0 = half the limit of the process") \
    X(queued_max_request_bytes, "queued.max.request.bytes", LONG, "-1", -1, INT64_MAX, NULL, RESTART, NULL, "request bytes in flight; -1 = from the budget") \
    X(max_decompressed_message_bytes, "max.decompressed.message.bytes", INT, "2147483639", 1, 2147483639, NULL, CLUSTER_WIDE, NULL, "largest record after decompression") \
    X(socket_request_max_bytes, "socket.request.max.bytes", INT, "104857600", 1, INT32_MAX, NULL, RESTART, NULL, "largest request") \
    X(socket_send_buffer_bytes, "socket.send.buffer.bytes", INT, "102400", -1, INT32_MAX, NULL, RESTART, NULL, "SO_SNDBUF of connections of clients; -1 = the system's, as among brokers") \
    X(socket_receive_buffer_bytes, "socket.receive.buffer.bytes", INT, "-1", -1, INT32_MAX, NULL, RESTART, NULL, "SO_RCVBUF of connections of clients; -1 = the system's (as among brokers), which grows with the need: Kafka's default of 102400 doubles the CPU that large batches cost") \
    X(socket_listen_backlog_size, "socket.listen.backlog.size", INT, "50", 1, INT32_MAX, NULL, RESTART, NULL, "connections waiting to be accepted") \
    X(max_connections_per_ip_overrides, "max.connections.per.ip.overrides", TEXT, "", 0, 0, NULL, CLUSTER_WIDE, NULL, "connections from these addresses: ADDRESS:COUNT, comma separated") \
    X(max_connection_creation_rate, "max.connection.creation.rate", INT, "2147483647", 0, INT32_MAX, NULL, CLUSTER_WIDE, NULL, "new connections a second; who comes faster waits") \
    X(max_connections, "max.connections", INT, "2147483647", 0, INT32_MAX, NULL, CLUSTER_WIDE, NULL, "connections in all") \
    X(max_connections_per_ip, "max.connections.per.ip", INT, "2147483647", 0, INT32_MAX, NULL, CLUSTER_WIDE, NULL, "connections from one address") \
    X(connections_max_idle_ms, "connections.max.idle.ms", LONG, "600000", -1, INT64_MAX, NULL, RESTART, NULL, "idle connections are closed after this; -1 = never") \
    X(ottla_connection_progress_timeout_ms, "ottla.connection.progress.timeout.ms", LONG, "120000", 1000, INT64_MAX, NULL, RESTART, NULL, "a request or answer that makes no progress for this long closes its connection") \
    X(ottla_connection_requests_max, "ottla.connection.requests.max", INT, "256", 1, 65536, NULL, RESTART, NULL, "requests of one connection in work at a time") \
    X(fetch_max_bytes, "fetch.max.bytes", INT, "57671680", 1024, INT32_MAX, NULL, RESTART, NULL, "largest fetch answer") \
    X(max_incremental_fetch_session_cache_slots, "max.incremental.fetch.session.cache.slots", INT, "1000", 0, INT32_MAX, NULL, RESTART, NULL, "fetch sessions kept") \
    X(max_request_partition_size_limit, "max.request.partition.size.limit", INT, "2000", 1, INT32_MAX, NULL, RESTART, NULL, "partitions in one DescribeTopicPartitions answer") \
    X(request_timeout_ms, "request.timeout.ms", INT, "30000", 0, INT32_MAX, NULL, RESTART, NULL, "how long a request waits that names no time of its own: a topic that is made because a client asks for it, a produce over gRPC") \
    X(telemetry_max_bytes, "telemetry.max.bytes", INT, "1048576", 1, INT32_MAX, NULL, RESTART, NULL, "largest push of metrics that a client may make about itself") \
    X(offsets_topic_num_partitions, "offsets.topic.num.partitions", INT, "50", 1, INT32_MAX, NULL, RESTART, NULL, "partitions of __consumer_offsets when it is made") \
    X(offsets_topic_compression_codec, "offsets.topic.compression.codec", INT, "0", 0, 4, NULL, RESTART, NULL, "codec of what is written to __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; what belongs to a transaction stays plain") \
    X(offsets_topic_replication_factor, "offsets.topic.replication.factor", INT, "3", 1, 32767, NULL, RESTART, NULL, "replicas of __consumer_offsets when it is made; as many as there are brokers if there are fewer") \
    X(offsets_topic_segment_bytes, "offsets.topic.segment.bytes", INT, "104857600", 1, INT32_MAX, NULL, RESTART, NULL, "segment.bytes of __consumer_offsets when it is made") \
    X(offsets_commit_timeout_ms, "offsets.commit.timeout.ms", INT, "5000", 1, INT32_MAX, NULL, RESTART, NULL, "how long a group's or transaction's record may take to be committed") \
    X(transaction_max_timeout_ms, "transaction.max.timeout.ms", INT, "900000", 1, INT32_MAX, NULL, RESTART, NULL, "longest time-out that a transactional producer may ask for") \
    X(transactional_id_expiration_ms, "transactional.id.expiration.ms", INT, "604800000", 1, INT32_MAX, NULL, RESTART, NULL, "how long an unused transactional id is remembered") \
    X(transaction_partition_verification_enable, "transaction.partition.verification.enable", BOOL, "true", 0, 0, NULL, CLUSTER_WIDE, NULL, "ask the coordinator before a client of the old protocol begins a transaction in a partition") \
    X(transaction_state_log_num_partitions, "transaction.state.log.num.partitions", INT, "50", 1, INT32_MAX, NULL, RESTART, NULL, "partitions of __transaction_state when it is made") \
    X(transaction_state_log_replication_factor, "transaction.state.log.replication.factor", INT, "3", 1, 32767, NULL, RESTART, NULL, "replicas of __transaction_state when it is made; as many as there are brokers if there are fewer") \
    X(transaction_state_log_min_isr, "transaction.state.log.min.isr", INT, "2", 1, INT32_MAX, NULL, RESTART, NULL, "min.insync.replicas of __transaction_state when it is made") \
    X(transaction_state_log_segment_bytes, "transaction.state.log.segment.bytes", INT, "104857600", 1, INT32_MAX, NULL, RESTART, NULL, "segment.bytes of __transaction_state when it is made") \
    X(ottla_transaction_version, "ottla.transaction.version", INT, "2", 0, 2, NULL, CLUSTER_WIDE, NULL, "final level of the feature transaction.version, as UpdateFeatures sets it; below 2 clients use the protocol before KIP-890") \
    X(ottla_group_version, "ottla.group.version", INT, "1", 0, 1, NULL, CLUSTER_WIDE, NULL, "final level of the feature group.version, as UpdateFeatures sets it; at 0 the consumer group protocol of KIP-848 is refused") \
    X(ottla_metadata_version, "ottla.metadata.version", INT, "33", 7, 33, NULL, CLUSTER_WIDE, NULL, "final level of the feature metadata.version, as UpdateFeatures sets it: which Kafka clients and tools take this for") \
    X(offset_metadata_max_bytes, "offset.metadata.max.bytes", INT, "4096", 0, INT32_MAX, NULL, RESTART, NULL, "largest text that a commit may carry") \
    X(offsets_retention_minutes, "offsets.retention.minutes", INT, "10080", 1, INT32_MAX, NULL, RESTART, NULL, "how long offsets outlive the last member of their group, or the last commit without one") \
    X(offsets_retention_check_interval_ms, "offsets.retention.check.interval.ms", LONG, "600000", 1, INT64_MAX / 2000, NULL, RESTART, NULL, "how often expired offsets are looked for") \
    X(group_initial_rebalance_delay_ms, "group.initial.rebalance.delay.ms", INT, "3000", 0, INT32_MAX, NULL, RESTART, NULL, "how long an empty group waits for more members after the first") \
    X(group_min_session_timeout_ms, "group.min.session.timeout.ms", INT, "6000", 1, INT32_MAX, NULL, RESTART, NULL, "shortest session timeout that a member may ask for") \
    X(group_max_session_timeout_ms, "group.max.session.timeout.ms", INT, "1800000", 1, INT32_MAX, NULL, RESTART, NULL, "longest session timeout that a member may ask for") \
    X(group_max_size, "group.max.size", INT, "2147483647", 1, INT32_MAX, NULL, RESTART, NULL, "members of one classic group") \
    X(group_consumer_session_timeout_ms, "group.consumer.session.timeout.ms", INT, "45000", 1, INT32_MAX, NULL, RESTART, NULL, "when a silent member of a consumer group is put out") \
    X(group_consumer_min_session_timeout_ms, "group.consumer.min.session.timeout.ms", INT, "45000", 1, INT32_MAX, NULL, RESTART, NULL, "shortest consumer.session.timeout.ms that a group may have") \
    X(group_consumer_max_session_timeout_ms, "group.consumer.max.session.timeout.ms", INT, "60000", 1, INT32_MAX, NULL, RESTART, NULL, "longest consumer.session.timeout.ms that a group may have") \
    X(group_consumer_heartbeat_interval_ms, "group.consumer.heartbeat.interval.ms", INT, "5000", 1, INT32_MAX, NULL, RESTART, NULL, "how often members of consumer groups are told to ask") \
    X(group_consumer_min_heartbeat_interval_ms, "group.consumer.min.heartbeat.interval.ms", INT, "5000", 1, INT32_MAX, NULL, RESTART, NULL, "shortest consumer.heartbeat.interval.ms that a group may have") \
    X(group_consumer_max_heartbeat_interval_ms, "group.consumer.max.heartbeat.interval.ms", INT, "15000", 1, INT32_MAX, NULL, RESTART, NULL, "longest consumer.heartbeat.interval.ms that a group may have") \
    X(group_consumer_assignment_interval_ms, "group.consumer.assignment.interval.ms", INT, "1000", 0, INT32_MAX, NULL, CLUSTER_WIDE, NULL, "time between two target assignments of a consumer group, at least") \
    X(group_consumer_min_assignment_interval_ms, "group.consumer.min.assignment.interval.ms", INT, "0", 0, INT32_MAX, NULL, RESTART, NULL, "shortest consumer.assignment.interval.ms that a group may have") \
    X(group_consumer_max_assignment_interval_ms, "group.consumer.max.assignment.interval.ms", INT, "15000", 0, INT32_MAX, NULL, RESTART, NULL, "longest consumer.assignment.interval.ms that a group may have") \
    X(group_consumer_max_size, "group.consumer.max.size", INT, "2147483647", 1, INT32_MAX, NULL, RESTART, NULL, "members of one consumer group") \
    X(group_consumer_assignors, "group.consumer.assignors", LIST, "uniform,range", 0, 0, "uniform|range", RESTART, NULL, "assignors of consumer groups; the first is taken where no member asks for one") \
    X(group_consumer_migration_policy, "group.consumer.migration.policy", CHOICE, "bidirectional", 0, 0, "disabled|downgrade|upgrade|bidirectional", RESTART, NULL, "whether groups change between the classic and the new protocol while members go on") \
    X(group_consumer_regex_refresh_interval_ms, "group.consumer.regex.refresh.interval.ms", INT, "600000", 10000, INT32_MAX, NULL, RESTART, NULL, "how often regular expressions are looked up anew though no topic came") \
    X(group_coordinator_rebalance_protocols, "group.coordinator.rebalance.protocols", LIST, "classic,consumer,streams", 0, 0, "consumer|classic|share|streams", RESTART, NULL, "protocols that groups may use, of those that are served; without consumer that of KIP-848 is refused") \
    X(group_coordinator_threads, "group.coordinator.threads", INT, "4", 1, 16, NULL, RESTART, NULL, "threads for groups and transactions; at most one per core is started") \
    X(rest_max_request_bytes, "rest.max.request.bytes", INT, "8388608", 1024, INT32_MAX, NULL, RESTART, NULL, "largest REST body") \
    X(rest_require_if_match, "rest.require.if.match", BOOL, "false", 0, 0, NULL, CLUSTER_WIDE, NULL, "refuse changes of topics, configs and groups without If-Match (428)") \
    X(rest_auth_anonymous, "rest.auth.anonymous", BOOL, "false", 0, 0, NULL, RESTART, NULL, "serve REST without authentication on addresses other than loopback") \
    X(metrics_partition_detail, "metrics.partition.detail", CHOICE, "auto", 0, 0, "auto|on|off", RESTART, NULL, "partition-level series in the exposition") \
    X(metrics_series_max, "metrics.series.max", INT, "20000", 100, 10000000, NULL, RESTART, NULL, "cap of labelled series") \
    X(metrics_group_lag_interval_ms, "metrics.group.lag.interval.ms", LONG, "10000", 0, INT64_MAX / 1000000, NULL, CLUSTER_WIDE, NULL, "how often the lag of all groups is looked at for the metrics; 0: never") \
    X(metrics_group_lag_series_max, "metrics.group.lag.series.max", INT, "2000", 0, 1000000, NULL, RESTART, NULL, "pairs of group and topic with a lag series of their own; the others are summed as _other") \
    X(metrics_history_max_series, "metrics.history.max.series", INT, "2000", 0, 1000000, NULL, RESTART, NULL, "series of topics and groups kept for GET /v1/metrics/series, 4.2 KiB each; the rest is summed as _other") \
    X(max_topic_partitions, "ottla.partitions.max", INT, "100000", 1, 10000000, NULL, RESTART, NULL, "partitions that this broker holds at most")

#endif
