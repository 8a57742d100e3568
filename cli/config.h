/* `ottla config …`: what topics, brokers and the cluster run with, and changes of that, over the REST API; what a key means, and what a Kafka server.properties would do here. */
#ifndef OT_CLI_CONFIG_H
#define OT_CLI_CONFIG_H

#include "cli/command.h"

extern const struct cli_flag cli_config_get_flags[], cli_config_set_flags[];
int cli_config_get_run(const struct cli_args *args);
int cli_config_set_run(const struct cli_args *args);
int cli_config_unset_run(const struct cli_args *args);

/* Path of the configuration of a topic, a broker, or (both NULL) the cluster; to be freed. -1 or the exit code after a message. */
int cli_config_target(const char *topic, const char *broker, const char *query, char **out);

/* config_facts.c */
extern const struct cli_flag cli_config_diff_flags[], cli_config_explain_flags[], cli_config_import_flags[];
int cli_config_diff_run(const struct cli_args *args);
int cli_config_explain_run(const struct cli_args *args);
int cli_config_import_run(const struct cli_args *args);

#endif
