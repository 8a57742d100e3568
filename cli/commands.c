/* The table. One row per command; tests hold the reference in docs/cli.md against it. */
#include "cli/command.h"
#include "cli/server.h"
#include "cli/version.h"

const struct cli_flag cli_common_flags[] = {
    { "help", 'h', NULL, false, "this text" },
    { 0 },
};

const struct cli_command cli_commands[] = {
    { "server", NULL, NULL, "run a broker", "  ottla server\n  ottla server --data /var/lib/ottla --set num.partitions=3\n  ottla server --config /etc/ottla/server.properties --check",
        cli_server_flags, cli_server_run },
    { "version", NULL, NULL, "what this binary is", "  ottla version", cli_version_flags, cli_version_run },
    { 0 },
};
