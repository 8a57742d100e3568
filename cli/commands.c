/* The table. One row per command; tests hold the reference in docs/cli.md against it. */
#include "cli/api.h"
#include "cli/bench.h"
#include "cli/cluster.h"
#include "cli/command.h"
#include "cli/config.h"
#include "cli/consume.h"
#include "cli/diagnostics.h"
#include "cli/doctor.h"
#include "cli/events.h"
#include "cli/force_voters.h"
#include "cli/group.h"
#include "cli/group_file.h"
#include "cli/job.h"
#include "cli/log_adopt.h"
#include "cli/log_files.h"
#include "cli/log_repair.h"
#include "cli/produce.h"
#include "cli/reference.h"
#include "cli/shared.h"
#include "cli/table.h"
#include "cli/topic.h"
#include "cli/txn.h"
#include "cli/operate.h"
#include "cli/server.h"
#include "cli/version.h"
#include "cli/voters.h"

const struct cli_flag cli_common_flags[] = {
    { "color", 0, "WHEN", false, "auto, always, never (auto: on a terminal, without NO_COLOR and TERM=dumb)" },
    { "help", 'h', NULL, false, "this text" },
    { 0 },
};

const struct cli_command cli_commands[] = {
    { "server", NULL, NULL, "run a broker", "  ottla server\n  ottla server --data /var/lib/ottla --set num.partitions=3\n  ottla server --config /etc/ottla/server.properties --check",
        cli_server_flags, cli_server_run },
    { "cluster", "info", NULL, "the cluster in a few lines", "  ottla cluster info", cli_watch_flags, cli_cluster_info_run, cli_api_flags },
    { "cluster", "health", NULL, "its checks; exit 8 when one finds something", "  ottla cluster health\n  ottla cluster health --local -q", cli_cluster_health_flags, cli_cluster_health_run, cli_api_flags },
    { "cluster", "brokers", NULL, "its brokers", "  ottla cluster brokers --watch", cli_watch_flags, cli_cluster_brokers_run, cli_api_flags },
    { "cluster", "events", NULL, "what happened: who left an ISR and why, elections, brokers that came and went, settings that were changed",
        "  ottla cluster events\n  ottla cluster events --types isr,leader --topic orders\n  ottla cluster events --follow", cli_cluster_events_flags, cli_cluster_events_run, cli_api_flags },
    { "cluster", "status", NULL, "the cluster, its brokers and what is being moved", "  ottla cluster status --watch", cli_watch_flags, cli_cluster_status_run, cli_api_flags },
    { "cluster", "drain", "<broker>", "others lead what it leads, and go on until `undrain`", "  ottla cluster drain 2 --wait", cli_cluster_drain_flags, cli_cluster_drain_run, cli_api_flags },
    { "cluster", "undrain", "<broker>", "it may lead again", "  ottla cluster undrain 2", cli_cluster_dry_flags, cli_cluster_undrain_run, cli_api_flags },
    { "cluster", "decommission", "<broker>", "move everything that it holds to others, for good",
        "  ottla cluster decommission 4 --wait\n  ottla cluster decommission 4 --status\n  ottla cluster decommission 4 --cancel", cli_cluster_decommission_flags, cli_cluster_decommission_run, cli_api_flags },
    { "cluster", "restart-check", "<broker>", "would it hurt if it stopped now; exit 8 when it would", "  ottla cluster restart-check 2", cli_watch_flags,
        cli_cluster_restart_check_run, cli_api_flags },
    { "cluster", "forget", "<broker>", "a dead broker that holds nothing is no longer part of the cluster", "  ottla cluster forget 4", cli_cluster_dry_flags, cli_cluster_forget_run, cli_api_flags },
    { "cluster", "resign", NULL, "the coordinator hands its role to another voter", "  ottla cluster resign", cli_cluster_dry_flags, cli_cluster_resign_run, cli_api_flags },
    { "cluster", "elect", "[topic[:partition]]...", "leaders back to the first replicas, or, at a loss, to whoever is left",
        "  ottla cluster elect\n  ottla cluster elect orders:0 --type unclean --dry-run", cli_cluster_elect_flags, cli_cluster_elect_run, cli_api_flags },
    { "cluster", "reassign", "[status|plan|start|cancel] [topic:partition]...", "move replicas: propose, start, watch, cancel",
        "  ottla cluster reassign plan --rebalance -o json > plan.json\n"
        "  ottla cluster reassign start --replication-factor 3 --topic orders --throttle 20m\n  ottla cluster reassign status --watch\n  ottla cluster reassign cancel orders:3",
        cli_cluster_reassign_flags, cli_cluster_reassign_run, cli_api_flags },
    { "cluster", "rebalance", NULL, "as many replicas and leaders on each broker: `reassign start --rebalance`", "  ottla cluster rebalance --dry-run\n  ottla cluster rebalance --topic orders",
        cli_cluster_rebalance_flags, cli_cluster_rebalance_run, cli_api_flags },
    { "cluster", "jobs", NULL, "long work: what runs, and what ended", "  ottla cluster jobs --state running\n  ottla cluster jobs --cancel j-6b0d1e12-2", cli_cluster_jobs_flags, cli_cluster_jobs_run, cli_api_flags },
    { "cluster", "losses", NULL, "records that are lost, or may be: unclean elections, logs that were cut, damage; and where the cut batches are kept", "  ottla cluster losses\n  ottla cluster losses -o wide",
        cli_watch_flags, cli_cluster_losses_run, cli_api_flags },
    { "cluster", "feature", "[list|upgrade|downgrade] [name=level]...", "feature levels",
        "  ottla cluster feature list\n  ottla cluster feature upgrade transaction.version=2 --dry-run", cli_cluster_feature_flags, cli_cluster_feature_run, cli_api_flags },
    { "cluster", "txn", "[list|describe|abort] [id]", "transactions: who has one open, for how long, and the end of one that hangs",
        "  ottla cluster txn list --longer-than-ms 60000\n  ottla cluster txn describe orders-writer\n  ottla cluster txn abort orders-writer", cli_txn_flags, cli_txn_run, cli_api_flags },
    { "cluster", "voters", "[list|add|remove|replace] [broker]", "who votes for the coordinator; a broker that follows may, one that is gone need not, one that came back empty may again",
        "  ottla cluster voters\n  ottla cluster voters add 2\n  ottla cluster voters replace 3", cli_voters_flags, cli_voters_run, cli_kafka_flags },
    { "cluster", "force-voters", NULL, "most voters are lost for good: a node that is left goes on alone with what it knows (the server is stopped)",
        "  ottla cluster force-voters --data /var/lib/ottla\n  ottla cluster force-voters --data /var/lib/ottla --confirm 8jKpQ0rTQvGd2mZ4yXcWaA", cli_force_voters_flags, cli_force_voters_run },
    { "topic", "list", NULL, "the topics", "  ottla topic list\n  ottla topic list --state under_replicated -o name", cli_topic_list_flags, cli_topic_list_run, cli_api_flags },
    { "topic", "describe", "<topic>", "one topic and its partitions", "  ottla topic describe orders\n  ottla topic describe orders --watch=5", cli_watch_flags, cli_topic_describe_run, cli_api_flags },
    { "topic", "create", "<topic>", "make a topic",
        "  ottla topic create orders --partitions 3\n  ottla topic create orders --partitions 6 --replication-factor 3 --config min.insync.replicas=2 --config retention.ms=86400000",
        cli_topic_create_flags, cli_topic_create_run, cli_api_flags },
    { "topic", "delete", "<topic>...", "delete topics with their records", "  ottla topic delete orders\n  ottla topic delete orders --yes", cli_no_flags, cli_topic_delete_run, cli_api_flags },
    { "topic", "grow", "<topic>", "more partitions (keys go elsewhere from then on)", "  ottla topic grow orders --partitions 12", cli_topic_grow_flags, cli_topic_grow_run, cli_api_flags },
    { "topic", "offsets", "<topic>", "where the partitions begin and end, or the offset of a time",
        "  ottla topic offsets orders\n  ottla topic offsets orders --at 2026-05-01T00:00:00Z", cli_topic_offsets_flags, cli_topic_offsets_run, cli_api_flags },
    { "topic", "trim", "<topic>", "delete the oldest records",
        "  ottla topic trim orders --before-offset 1000 --partition 0 --dry-run\n  ottla topic trim orders --before-offset -1 --yes", cli_topic_trim_flags, cli_topic_trim_run, cli_api_flags },
    { "topic", "isr", "<topic>", "who holds the partitions and who is in sync, how far each is behind, or how that came", "  ottla topic isr orders\n  ottla topic isr orders --replicas --watch\n  ottla topic isr orders --history", cli_topic_isr_flags, cli_topic_isr_run, cli_api_flags },
    { "topic", "elect", "<topic[:partition]>...", "leaders back to the first replicas, or, at a loss, to whoever is left: `cluster elect`",
        "  ottla topic elect orders\n  ottla topic elect orders:0 --type unclean --dry-run", cli_cluster_elect_flags, cli_cluster_elect_run, cli_api_flags },
    { "topic", "move", "<topic:partition>", "its replicas to these brokers; `cluster reassign` shows how far it is, and proposes moves",
        "  ottla topic move orders:0 --replicas 2,3,4 --dry-run\n  ottla topic move orders:0 --replicas 2,3,4", cli_topic_move_flags, cli_topic_move_run, cli_api_flags },
    { "topic", "verify", "<topic>", "check every byte of its logs, while they are served", "  ottla topic verify orders\n  ottla topic verify orders --partition 0 --max-bytes-per-second 50m",
        cli_topic_verify_flags, cli_topic_verify_run, cli_api_flags },
    { "group", "list", NULL, "consumer groups", "  ottla group list\n  ottla group list --state empty -o name", cli_group_list_flags, cli_group_list_run, cli_api_flags },
    { "group", "describe", "<group>", "one group, its members and how far it is behind", "  ottla group describe billing\n  ottla group describe billing --watch", cli_watch_flags, cli_group_describe_run, cli_api_flags },
    { "group", "owners", "<group>", "which member has which partition", "  ottla group owners billing", cli_watch_flags, cli_group_owners_run, cli_api_flags },
    { "group", "offsets", "<group>", "what it has committed, with its lag", "  ottla group offsets billing\n  ottla group offsets billing -o csv", cli_watch_flags, cli_group_offsets_run, cli_api_flags },
    { "group", "timeline", "<group>", "its last rebalances: who caused them, how long they took, what moved", "  ottla group timeline billing", cli_watch_flags, cli_group_timeline_run, cli_api_flags },
    { "group", "reset", "<group>", "move its offsets, after a look at what would move",
        "  ottla group reset billing --topic orders --to-datetime 2026-05-01T00:00:00Z --dry-run\n  ottla group reset billing --topic orders:0,2 --shift-by -100 --yes\n"
        "  ottla group reset billing-new --topic orders --from-group billing", cli_group_reset_flags, cli_group_reset_run, cli_api_flags },
    { "group", "set", "<group>", "set one committed offset", "  ottla group set billing --topic orders --partition 0 --offset 4120", cli_group_set_flags, cli_group_set_run, cli_api_flags },
    { "group", "export", "<group>", "what it has committed, as a file for import", "  ottla group export billing > billing.json\n  ottla group export billing --topic orders --format csv",
        cli_group_export_flags, cli_group_export_run, cli_api_flags },
    { "group", "import", "<group> <file>", "set its offsets from a file of export, or of Kafka's own tool, after a look at what would move",
        "  ottla group import billing billing.json --dry-run\n  ottla group import billing-new - --yes < billing.json", cli_group_import_flags, cli_group_import_run, cli_api_flags },
    { "group", "evict", "<group> <member>", "take a member out; the group rebalances", "  ottla group evict billing c-1-8f2b", cli_no_flags, cli_group_evict_run, cli_api_flags },
    { "group", "drop-offsets", "<group>", "forget what it has committed for a topic", "  ottla group drop-offsets billing --topic orders\n  ottla group drop-offsets billing --topic orders --partition 3 --yes", cli_group_drop_flags,
        cli_group_drop_run, cli_api_flags },
    { "group", "delete", "<group>", "delete a group without members", "  ottla group delete billing\n  ottla group delete billing --dry-run", cli_group_dry_flags, cli_group_delete_run, cli_api_flags },
    { "config", "get", "[key]...", "what a topic or broker runs with, and where each value comes from",
        "  ottla config get --topic orders\n  ottla config get --topic orders retention.ms\n  ottla config get --broker 1 --all", cli_config_get_flags, cli_config_get_run, cli_api_flags },
    { "config", "set", "<key=value>...", "set keys of a topic, of a broker, or the default of all",
        "  ottla config set --topic orders retention.ms=86400000\n  ottla config set --cluster log.retention.ms=604800000\n  ottla config set --broker 1 ottla.log.level=debug", cli_config_set_flags, cli_config_set_run, cli_api_flags },
    { "config", "unset", "<key>...", "inherit keys again", "  ottla config unset --topic orders retention.ms", cli_config_set_flags, cli_config_unset_run, cli_api_flags },
    { "config", "diff", NULL, "where two configurations differ, or one from the built-in values",
        "  ottla config diff --topic orders --topic payments\n  ottla config diff --broker 1", cli_config_diff_flags, cli_config_diff_run, cli_api_flags },
    { "config", "explain", "<key>", "what a key means, what it is now, and who says so",
        "  ottla config explain log.retention.ms\n  ottla config explain retention.ms --topic orders", cli_config_explain_flags, cli_config_explain_run, cli_api_flags },
    { "config", "import", "<file>", "what a Kafka server.properties would do here, key by key",
        "  ottla config import /etc/kafka/server.properties\n  ottla config import server.properties -o json", cli_config_import_flags, cli_config_import_run, cli_output_flags },
    { "produce", NULL, "<topic> [file]...", "records from files, pipes and the terminal into a topic",
        "  echo hello | ottla produce orders\n  ottla produce orders -k id-1 <<< '{\"id\":1}'\n  ottla produce orders --format '%k\\t%v\\n' -z zstd < orders.tsv\n"
        "  ottla topic create copy --partitions 3\n  ottla consume orders --from earliest --until end -o ndjson | ottla produce copy --format ndjson",
        cli_produce_flags, cli_produce_run, cli_kafka_flags },
    { "consume", NULL, "<topic>...", "records of topics to the terminal, to files and pipes",
        "  ottla consume orders\n  ottla consume orders --from -10 --until end -o ndjson | jq .value\n"
        "  ottla consume orders --from 2h -f '%t/%p@%o %T %k=%v\\n'\n  ottla consume images --from 17 --max 1 --partition 0 --format raw > picture.png",
        cli_consume_flags, cli_consume_run, cli_kafka_flags },
    { "bench", "produce", "[topic]", "how fast records are taken",
        "  ottla bench produce\n  ottla bench produce orders --records 1000000 --record-bytes 100 -z lz4\n  ottla bench produce --rate 50000 --seconds 60 -o json", cli_bench_produce_flags,
        cli_bench_produce_run, cli_kafka_flags },
    { "bench", "consume", "[topic]", "how fast records are read", "  ottla bench consume\n  ottla bench consume orders --from earliest --seconds 30", cli_bench_consume_flags, cli_bench_consume_run,
        cli_kafka_flags },
    { "bench", "latency", "[topic]", "how long from the sender to the reader", "  ottla bench latency\n  ottla bench latency --rate 1000 --acks 1 --seconds 30", cli_bench_latency_flags,
        cli_bench_latency_run, cli_kafka_flags },
    { "bench", "replicate", "[topic]", "how long the other replicas take", "  ottla bench replicate orders\n  ottla bench replicate orders --rate 1000 --record-bytes 16384", cli_bench_replicate_flags,
        cli_bench_replicate_run, cli_kafka_flags },
    { "log", "dump", "<path>...", "what is in segment files, indexes, snapshots, checkpoints",
        "  ottla log dump ottla-data/orders-0/00000000000000000000.log --records --from-offset 42\n  ottla log dump ottla-data/orders-0 -o ndjson",
        cli_log_dump_flags, cli_log_dump_run, NULL },
    { "log", "index", "<path>...", "the entries of offset, time and transaction indexes", "  ottla log index ottla-data/orders-0", cli_log_index_flags, cli_log_index_run, NULL },
    { "log", "segments", "<dir>...", "the segments of a partition", "  ottla log segments ottla-data/orders-0", cli_log_segments_flags, cli_log_segments_run, cli_output_flags },
    { "log", "stats", "<dir>...", "records, bytes and codecs of partitions", "  ottla log stats ottla-data", cli_log_stats_flags, cli_log_stats_run, cli_output_flags },
    { "log", "verify", "<dir>...", "check every file of partitions, also against each other",
        "  ottla log verify ottla-data/orders-0\n  ottla log verify ottla-data", cli_log_verify_flags, cli_log_verify_run, NULL },
    { "log", "repair", "<dir>", "make indexes anew and cut off a damaged end (the server is stopped)",
        "  ottla log repair ottla-data/orders-0 --dry-run\n  ottla log repair ottla-data/orders-0", cli_log_repair_flags, cli_log_repair_run, NULL },
    { "log", "adopt", "<dir>", "take in a partition directory of Kafka (the server is stopped)",
        "  ottla log adopt /var/lib/kafka/orders-0 --topic orders\n  ottla log adopt /backup/orders-3 --topic orders --partitions 6 --data /var/lib/ottla/data",
        cli_log_adopt_flags, cli_log_adopt_run, NULL },
    { "doctor", NULL, NULL, "what is or will be in the way: disk, limits, kernel, clock, ports, configuration, health", "  ottla doctor\n  ottla doctor --local --config /etc/ottla/server.properties --problems",
        cli_doctor_flags, cli_doctor_run, cli_api_flags },
    { "diagnostics", "bundle", NULL, "one file with all that somebody who looks for a fault would ask for: answers of the API, the last log lines, stacks, no secrets",
        "  ottla diagnostics bundle\n  ottla diagnostics bundle --file - | tar tz", cli_diagnostics_bundle_flags, cli_diagnostics_bundle_run, cli_api_flags },
    { "diagnostics", "slow", NULL, "requests that took long, and where their time went", "  ottla diagnostics slow\n  ottla diagnostics slow --door kafka --longer-than-ms 2000", cli_diagnostics_slow_flags,
        cli_diagnostics_slow_run, cli_api_flags },
    { "diagnostics", "memory", NULL, "the memory budget of a broker by pool", "  ottla diagnostics memory --watch", cli_watch_flags, cli_diagnostics_memory_run, cli_api_flags },
    { "diagnostics", "threads", NULL, "its threads, what they used, and where they are", "  ottla diagnostics threads\n  ottla diagnostics threads --stacks", cli_diagnostics_threads_flags,
        cli_diagnostics_threads_run, cli_api_flags },
    { "diagnostics", "loggers", "[subsystem=level]...", "log levels of a broker, shown and changed until it ends; `subsystem=` takes one back",
        "  ottla diagnostics loggers\n  ottla diagnostics loggers net=debug kafka=debug\n  ottla diagnostics loggers net=", cli_no_flags, cli_diagnostics_loggers_run, cli_api_flags },
    { "completion", NULL, "<bash|zsh|fish>", "words for the shell to complete", "  ottla completion bash > /etc/bash_completion.d/ottla\n  ottla completion fish > ~/.config/fish/completions/ottla.fish",
        cli_completion_flags, cli_completion_run },
    { "man", NULL, "[noun]", "this, or the commands of one noun, as a man page", "  ottla man | man -l -\n  ottla man topic > ottla-topic.1", cli_man_flags, cli_man_run },
    { "version", NULL, NULL, "what this binary is", "  ottla version", cli_version_flags, cli_version_run },
    { 0 },
};
