/* Every handler of the table in rest/route.c, by file. Private to rest/. */
#ifndef OT_REST_HANDLERS_H
#define OT_REST_HANDLERS_H

struct rest_call;
typedef void rest_handler(struct rest_call *call);

/* index.c */
rest_handler rest_index_get, rest_version_get, rest_openapi_json, rest_openapi_yaml, rest_config_schema, rest_whoami;
/* problem.c */
rest_handler rest_problem_page;
/* cluster.c */
rest_handler rest_cluster_get, rest_cluster_health, rest_broker_connections, rest_connection_close;
/* brokers.c, maintenance.c, restart_check.c */
rest_handler rest_brokers_list, rest_broker_get, rest_broker_forget, rest_controller_resign, rest_maintenance_get, rest_maintenance_put, rest_maintenance_delete, rest_decommission_get,
    rest_decommission_put, rest_decommission_delete, rest_restart_check;
/* elections.c, reassignments.c */
rest_handler rest_elections_start, rest_partition_election, rest_unclean_view, rest_reassignment_plan, rest_reassignments_start, rest_reassignments_list, rest_reassignment_cancel;
/* broker_configs.c, features.c, loggers.c */
rest_handler rest_broker_config, rest_broker_config_patch, rest_cluster_config, rest_cluster_config_patch, rest_features_get, rest_features_patch, rest_loggers_get,
    rest_loggers_patch;
/* log_dirs.c */
rest_handler rest_log_dirs, rest_broker_log_dirs;
/* losses.c */
rest_handler rest_losses_list;
/* topics.c, topics_write.c */
rest_handler rest_topics_list, rest_topic_get, rest_topic_get_by_id, rest_topic_create, rest_topic_delete, rest_topic_grow;
/* partitions.c */
rest_handler rest_partitions_list, rest_partition_get, rest_partition_segments, rest_partition_producers;
/* partition_lists.c */
rest_handler rest_all_partitions, rest_broker_partitions, rest_replicas_list, rest_replica_get, rest_producers_list;
/* groups.c, group_offsets.c, group_reset.c */
rest_handler rest_groups_list, rest_group_get, rest_group_delete, rest_group_members, rest_group_assignments, rest_topic_groups, rest_group_evict, rest_group_owners, rest_group_timeline, rest_group_lag, rest_group_offsets,
    rest_group_offsets_put, rest_group_offset_get, rest_group_offset_put, rest_group_offset_delete, rest_group_offsets_delete, rest_group_reset;
/* transactions.c */
rest_handler rest_transactions_list, rest_transaction_get, rest_transaction_abort;
/* offsets.c */
rest_handler rest_partition_offsets, rest_records_delete;
/* configs.c */
rest_handler rest_topic_config_list, rest_topic_config_patch, rest_topic_config_get, rest_topic_config_put, rest_topic_config_delete;
/* produce.c */
rest_handler rest_produce_topic, rest_produce_partition;
/* fetch.c */
rest_handler rest_records_fetch, rest_record_get, rest_record_value, rest_record_key;
/* jobs.c */
rest_handler rest_jobs_list, rest_job_get, rest_job_cancel, rest_verify_start;
/* diagnostics.c, bundle.c */
rest_handler rest_slow_requests, rest_memory, rest_threads, rest_bundle;
/* registry.c */
rest_handler rest_registry;
/* browse.c, tail.c */
rest_handler rest_browse, rest_tail;
/* events.c, event_stream.c */
rest_handler rest_events_list, rest_isr_history, rest_events_stream;
/* metrics.c, metrics_json.c */
rest_handler rest_metrics_text, rest_metrics_json, rest_metrics_catalog, rest_metrics_series;
/* health.c */
rest_handler rest_healthz, rest_readyz, rest_health_check;

#endif
