/* The table. One row per command; tests hold the reference in docs/cli.md against it. */
#include "cli/command.h"
#include "cli/consume.h"
#include "cli/log_files.h"
#include "cli/produce.h"
#include "cli/shared.h"
#include "cli/table.h"
#include "cli/server.h"
#include "cli/version.h"

const struct cli_flag cli_common_flags[] = {
    { "help", 'h', NULL, false, "this text" },
    { 0 },
};

const struct cli_command cli_commands[] = {
    { "server", NULL, NULL, "run a broker", "  ottla server\n  ottla server --data /var/lib/ottla --set num.partitions=3\n  ottla server --config /etc/ottla/server.properties --check",
        cli_server_flags, cli_server_run },
    { "produce", NULL, "<topic> [file]...", "records from files, pipes and the terminal into a topic",
        "  echo hello | ottla produce orders\n  ottla produce orders -k id-1 <<< '{\"id\":1}'\n  ottla produce orders --format '%k\\t%v\\n' -z zstd < orders.tsv\n"
        "  ottla consume orders --from earliest --until end -o ndjson | ottla produce copy --format ndjson",
        cli_produce_flags, cli_produce_run, cli_kafka_flags },
    { "consume", NULL, "<topic>...", "records of topics to the terminal, to files and pipes",
        "  ottla consume orders\n  ottla consume orders --from -10 --until end -o ndjson | jq .value\n"
        "  ottla consume orders --from 2h -f '%t/%p@%o %T %k=%v\\n'\n  ottla consume images --from 17 --max 1 --partition 0 --format raw > picture.png",
        cli_consume_flags, cli_consume_run, cli_kafka_flags },
    { "log", "dump", "<path>...", "what is in segment files, indexes, snapshots, checkpoints",
        "  ottla log dump ottla-data/orders-0/00000000000000000000.log --records --from-offset 42\n  ottla log dump ottla-data/orders-0 -o ndjson",
        cli_log_dump_flags, cli_log_dump_run, NULL },
    { "log", "index", "<path>...", "the entries of offset, time and transaction indexes", "  ottla log index ottla-data/orders-0", cli_log_index_flags, cli_log_index_run, NULL },
    { "log", "segments", "<dir>...", "the segments of a partition", "  ottla log segments ottla-data/orders-0", cli_log_segments_flags, cli_log_segments_run, cli_output_flags },
    { "log", "stats", "<dir>...", "records, bytes and codecs of partitions", "  ottla log stats ottla-data", cli_log_stats_flags, cli_log_stats_run, cli_output_flags },
    { "log", "verify", "<dir>...", "check every file of partitions, also against each other",
        "  ottla log verify ottla-data/orders-0\n  ottla log verify ottla-data", cli_log_verify_flags, cli_log_verify_run, NULL },
    { "version", NULL, NULL, "what this binary is", "  ottla version", cli_version_flags, cli_version_run },
    { 0 },
};
