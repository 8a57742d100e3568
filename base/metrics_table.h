/* Every metric, one row each: the exposition, the JSON names, the reference in the docs and the handles in code come from here. A row that
 * nothing has fed is not shown. Names are Prometheus': base units, _total for counters. SECONDS of counters and histograms are
 * counted in microseconds and shown in seconds; gauges are set in the unit they show.
 *
 *    name (exposed as ottla_name, process_* as it is)  type       unit     labels                  help */
#ifndef OT_BASE_METRICS_TABLE_H
#define OT_BASE_METRICS_TABLE_H

#define OT_METRICS(X) \
    X(build_info,                                GAUGE,     NONE,    "version,commit",       "1, with the build in the labels") \
    X(start_duration_seconds,                    GAUGE,     SECONDS, "",                     "from the start of the process until it was ready") \
    X(cluster_brokers,                           GAUGE,     NONE,    "state",                "brokers of the cluster by state") \
    X(cluster_topics,                            GAUGE,     NONE,    "",                     "topics of the cluster, told by the controller") \
    X(cluster_partitions,                        GAUGE,     NONE,    "",                     "partitions of the cluster, told by the controller") \
    X(cluster_offline_partitions,                GAUGE,     NONE,    "",                     "partitions without a leader, told by the controller") \
    X(cluster_metadata_behind_max,               GAUGE,     NONE,    "",                     "changes of metadata that the farthest of the living brokers is not known to have applied, by its last heartbeat; told by the controller") \
    X(controller_active,                         GAUGE,     NONE,    "",                     "1 while this broker is the controller") \
    X(metadata_offset,                           GAUGE,     NONE,    "",                     "newest metadata change that this broker has applied") \
    X(topic_bytes_in_total,                      COUNTER,   BYTES,   "topic",                "record batch bytes appended by producers") \
    X(topic_bytes_out_total,                     COUNTER,   BYTES,   "topic",                "record batch bytes sent to consumers") \
    X(topic_records_in_total,                    COUNTER,   NONE,    "topic",                "records appended by producers") \
    X(topic_produce_requests_total,              COUNTER,   NONE,    "topic",                "produce requests that named a partition of the topic") \
    X(topic_fetch_requests_total,                COUNTER,   NONE,    "topic",                "fetch requests that named a partition of the topic") \
    X(topic_rejected_bytes_total,                COUNTER,   BYTES,   "topic,reason",         "record batch bytes refused at produce") \
    X(requests_total,                            COUNTER,   NONE,    "api,error",            "requests answered, by API and top error") \
    X(request_duration_seconds,                  HISTOGRAM, SECONDS, "api",                  "from request read to response queued; waiting in a purgatory counts") \
    X(request_bytes_total,                       COUNTER,   BYTES,   "api",                  "bytes of requests read") \
    X(requests_refused_total,                    COUNTER,   NONE,    "api,version,software_name,software_version", "requests of an API or version that is not served, by client") \
    X(client_metrics_pushes_total,               COUNTER,   NONE,    "software_name,software_version", "pushes of metrics that clients made about themselves") \
    X(client_metrics_value,                      GAUGE,     NONE,    "software_name,software_version,metric", "what clients pushed about themselves: sums of all of them, gauges as last told by any") \
    X(client_metrics_bytes_total,                COUNTER,   BYTES,   "software_name,software_version", "bytes of such pushes, as sent") \
    X(purgatory_requests,                        GAUGE,     NONE,    "kind",                 "requests that wait for data, replicas or members") \
    X(io_thread_busy_ratio,                      GAUGE,     RATIO,   "",                     "share of time that I/O threads worked since the last look") \
    X(io_queue_length,                           GAUGE,     NONE,    "",                     "tasks that wait for an I/O thread") \
    X(handler_busy_ratio,                        GAUGE,     RATIO,   "",                     "share of time that reactors worked since the last look") \
    X(connections,                               GAUGE,     NONE,    "listener",             "open connections") \
    X(connections_accepted_total,                COUNTER,   NONE,    "listener",             "connections accepted") \
    X(connections_rejected_total,                COUNTER,   NONE,    "listener,reason",      "connections refused or closed by a limit") \
    X(sent_bytes_total,                          COUNTER,   BYTES,   "path",                 "response bytes, those to other brokers too, by the way they took: sendfile, mapped (gRPC, from the page cache), copy or tls") \
    X(throttle_seconds_total,                    COUNTER,   SECONDS, "quota",                "time that clients were told to hold back") \
    X(partitions_led,                            GAUGE,     NONE,    "",                     "partitions that this broker leads") \
    X(partitions_hosted,                         GAUGE,     NONE,    "",                     "partitions with a replica here") \
    X(partitions_under_replicated,               GAUGE,     NONE,    "",                     "led partitions with replicas out of sync") \
    X(partitions_under_min_isr,                  GAUGE,     NONE,    "",                     "led partitions with fewer in-sync replicas than required") \
    X(partitions_at_min_isr,                     GAUGE,     NONE,    "",                     "led partitions with just the in-sync replicas required") \
    X(partitions_reassigning,                    GAUGE,     NONE,    "",                     "led partitions whose replicas are being moved") \
    X(replicas_out_of_sync,                      GAUGE,     NONE,    "",                     "replicas of led partitions that are out of sync") \
    X(replicas_offline,                          GAUGE,     NONE,    "",                     "replicas here whose log directory failed") \
    X(replica_max_lag_records,                   GAUGE,     NONE,    "",                     "offsets that the farthest follower of a led partition is behind; followers not heard of in this leader epoch are not known") \
    X(preferred_replica_imbalance,               GAUGE,     NONE,    "",                     "led partitions whose preferred leader, the first replica, is another broker") \
    X(replication_bytes_in_total,                COUNTER,   BYTES,   "",                     "record batch bytes fetched from leaders") \
    X(replication_bytes_out_total,               COUNTER,   BYTES,   "",                     "record batch bytes given to followers") \
    X(replica_lag_records,                       GAUGE,     NONE,    "topic,partition,follower", "offsets that a follower of a led partition is behind; none while it was not heard of in this leader epoch") \
    X(replica_lag_seconds,                       GAUGE,     SECONDS, "topic,partition,follower", "time since a follower of a led partition had all that its leader had; 0 while it has") \
    X(isr_shrinks_total,                         COUNTER,   NONE,    "reason",               "times that replicas left the ISR of a partition, told by the controller") \
    X(isr_expands_total,                         COUNTER,   NONE,    "reason",               "times that replicas joined the ISR of a partition, told by the controller") \
    X(replica_isr_changes_total,                 COUNTER,   NONE,    "follower,change,reason", "times that a broker's replicas left or joined an ISR (change: left, joined), told by the controller: who does both again and again shows") \
    X(controller_elections_total,                COUNTER,   NONE,    "type",                 "leaders elected, told by the controller: clean, elr, and with a loss that may be unclean, longest_log, sole_replica") \
    X(log_size_bytes,                            GAUGE,     BYTES,   "topic,partition",      "bytes of the segments of a replica") \
    X(log_segments,                              GAUGE,     NONE,    "topic,partition",      "segments of a replica") \
    X(log_start_offset,                          GAUGE,     NONE,    "topic,partition",      "first offset that can be read") \
    X(log_end_offset,                            GAUGE,     NONE,    "topic,partition",      "next offset to be written") \
    X(log_high_watermark,                        GAUGE,     NONE,    "topic,partition",      "first offset that is not committed") \
    X(log_append_duration_seconds,               HISTOGRAM, SECONDS, "",                     "one write of an append lane") \
    X(log_append_batches_total,                  COUNTER,   NONE,    "",                     "record batches appended") \
    X(log_append_writes_total,                   COUNTER,   NONE,    "",                     "writes of append lanes; batches over writes is the gathering") \
    X(log_flush_duration_seconds,                HISTOGRAM, SECONDS, "",                     "one fdatasync of a segment") \
    X(log_flush_rounds_total,                    COUNTER,   NONE,    "",                     "flush rounds, each for all that waited") \
    X(log_cold_reads_total,                      COUNTER,   NONE,    "",                     "ranges read in by an I/O thread before they were sent") \
    X(log_segments_deleted_total,                COUNTER,   NONE,    "reason",               "segments removed by retention, truncation or deletion") \
    X(log_corrupt_batches_total,                 COUNTER,   NONE,    "",                     "batches that failed a check after they had been stored") \
    X(log_recovery_remaining_segments,           GAUGE,     NONE,    "",                     "segments that recovery has still to read") \
    X(cleaner_runs_total,                        COUNTER,   NONE,    "result",               "compactions of a partition, by how they ended") \
    X(cleaner_run_duration_seconds,              HISTOGRAM, SECONDS, "",                     "one compaction of a partition") \
    X(cleaner_read_bytes_total,                  COUNTER,   BYTES,   "",                     "bytes read by compactions") \
    X(cleaner_written_bytes_total,               COUNTER,   BYTES,   "",                     "bytes written by compactions") \
    X(cleaner_records_removed_total,             COUNTER,   NONE,    "",                     "records that compactions removed") \
    X(cleaner_running,                           GAUGE,     NONE,    "",                     "partitions being compacted now") \
    X(cleaner_buffer_used_ratio,                 GAUGE,     RATIO,   "",                     "how full the memory for keys got in the last compaction") \
    X(cleaner_dirty_ratio_max,                   GAUGE,     RATIO,   "",                     "largest share of a compacted partition that is not compacted yet, at the last look") \
    X(cleaner_delay_max_seconds,                 GAUGE,     SECONDS, "",                     "how long the longest overdue record waits past max.compaction.lag.ms, at the last look") \
    X(cleaner_uncleanable_partitions,            GAUGE,     NONE,    "",                     "partitions whose compaction failed for damage or an I/O error; tried again with growing pauses") \
    X(loss_ledger_entries,                       GAUGE,     NONE,    "",                     "entries of this broker's loss ledger: records that are lost, or may be") \
    X(loss_kept_bytes,                           GAUGE,     BYTES,   "",                     "record batches that were kept aside before they were cut") \
    X(cleaner_uncleanable_bytes,                 GAUGE,     BYTES,   "",                     "what waits for compaction in them") \
    X(transactions_open,                         GAUGE,     NONE,    "",                     "transactions open or being completed, of those that this broker coordinates") \
    X(transactions_late,                         GAUGE,     NONE,    "",                     "decided transactions whose markers could not be written at the first try") \
    X(transactions_ended_total,                  COUNTER,   NONE,    "outcome",              "transactions decided: commit, abort, timeout, or fence by a newer producer or an operator") \
    X(disk_total_bytes,                          GAUGE,     BYTES,   "log_dir",              "size of the file system of a log directory") \
    X(disk_free_bytes,                           GAUGE,     BYTES,   "log_dir",              "bytes free there for this user") \
    X(log_dir_offline,                           GAUGE,     NONE,    "log_dir",              "1 for a log directory that failed") \
    X(groups,                                    GAUGE,     NONE,    "type",                 "groups coordinated here") \
    X(group_members,                             GAUGE,     NONE,    "",                     "members of those groups") \
    X(groups_rebalancing,                        GAUGE,     NONE,    "",                     "groups between two assignments") \
    X(group_offsets,                             GAUGE,     NONE,    "",                     "committed offsets kept for those groups") \
    X(group_rebalances_total,                    COUNTER,   NONE,    "",                     "rebalances that came to an end") \
    X(group_members_expired_total,               COUNTER,   NONE,    "",                     "members removed since nothing was heard of them in time") \
    X(group_offsets_expired_total,               COUNTER,   NONE,    "",                     "committed offsets dropped by offsets.retention.minutes") \
    X(group_lag_records,                         GAUGE,     NONE,    "group,topic",          "records that the group has not read, at the last look (metrics.group.lag.interval.ms); beyond metrics.group.lag.series.max summed as _other") \
    X(group_lag_seconds,                         GAUGE,     SECONDS, "group,topic",          "age of the oldest record that the group has not read, at the last look") \
    X(producer_ids,                              GAUGE,     NONE,    "",                     "producer ids with state here") \
    X(memory_limit_bytes,                        GAUGE,     BYTES,   "",                     "the memory budget") \
    X(memory_pool_used_bytes,                    GAUGE,     BYTES,   "pool",                 "bytes in use of a pool of the budget") \
    X(memory_pool_cap_bytes,                     GAUGE,     BYTES,   "pool",                 "hard cap of a pool of the budget") \
    X(memory_pool_refused_total,                 COUNTER,   NONE,    "pool",                 "requests for memory that a pool refused at its cap") \
    X(rest_requests_total,                       COUNTER,   NONE,    "operation,status",     "REST requests answered") \
    X(rest_request_duration_seconds,             HISTOGRAM, SECONDS, "operation",            "from REST request read to response queued") \
    X(rest_streams,                              GAUGE,     NONE,    "",                     "open event streams") \
    X(grpc_requests_total,                       COUNTER,   NONE,    "method,status",        "gRPC calls answered") \
    X(grpc_request_duration_seconds,             HISTOGRAM, SECONDS, "method",               "from gRPC call accepted to its end; of streams their life") \
    X(grpc_calls,                                GAUGE,     NONE,    "method",               "open gRPC calls; of streaming methods open streams") \
    X(grpc_received_bytes_total,                 COUNTER,   BYTES,   "",                     "bytes of gRPC messages received") \
    X(metrics_series,                            GAUGE,     NONE,    "",                     "labelled series kept") \
    X(metrics_series_refused_total,              COUNTER,   NONE,    "",                     "series not made since metrics.series.max was reached") \
    X(process_cpu_seconds_total,                 COUNTER,   SECONDS, "",                     "user and system CPU time") \
    X(process_resident_memory_bytes,             GAUGE,     BYTES,   "",                     "resident memory") \
    X(process_virtual_memory_bytes,              GAUGE,     BYTES,   "",                     "virtual memory") \
    X(process_open_fds,                          GAUGE,     NONE,    "",                     "open file descriptors") \
    X(process_max_fds,                           GAUGE,     NONE,    "",                     "limit of open file descriptors") \
    X(process_threads,                           GAUGE,     NONE,    "",                     "threads") \
    X(process_start_time_seconds,                GAUGE,     SECONDS, "",                     "start of the process, since the epoch") \
    /* end */

#endif
