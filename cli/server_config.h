/* Private to cli/: configuration of `ottla server` from files, environment and flags. */
#ifndef OT_CLI_SERVER_CONFIG_H
#define OT_CLI_SERVER_CONFIG_H

#include "base/net/address.h"
#include "broker/config.h"
#include "cli/command.h"

#define CLI_DIRS_MAX 64
#define CLI_LISTENERS_MAX 16

/* Where the file is: --config, $OTTLA_CONFIG, /etc/ottla/server.properties when it is there; NULL: there is none. */
const char *cli_server_config_file(const struct cli_args *args);
/* Loads everything in its order; -1: go on, else the exit code (words were printed). */
int cli_server_config(const struct cli_args *args, struct broker_config_store *store);
int cli_server_print_config(const struct broker_config_store *store);

/* Comma separated list of addresses; count, or -1 with words in why. An empty text is an empty list. */
int cli_addresses_parse(const char *list, struct ot_net_address *out, uint32_t max, char *why, size_t why_bytes);
/* log.dirs as a list of paths, split in place into storage. */
uint32_t cli_dirs_split(const char *list, char *storage, size_t storage_bytes, const char **dirs, uint32_t max);

#endif
