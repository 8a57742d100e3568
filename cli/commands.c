/* The table. One row per command; tests hold the reference in docs/cli.md against it. */
#include "cli/command.h"
#include "cli/consume.h"
#include "cli/produce.h"
#include "cli/shared.h"
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
    { "version", NULL, NULL, "what this binary is", "  ottla version", cli_version_flags, cli_version_run },
    { 0 },
};
