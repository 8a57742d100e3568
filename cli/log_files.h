/* `ottla log …`: what lies in the files of partitions, without a server. Only adopt and repair write. */
#ifndef OT_CLI_LOG_FILES_H
#define OT_CLI_LOG_FILES_H

#include "cli/command.h"

extern const struct cli_flag cli_log_dump_flags[], cli_log_index_flags[], cli_log_verify_flags[], cli_log_segments_flags[], cli_log_stats_flags[];
int cli_log_dump_run(const struct cli_args *args);
int cli_log_index_run(const struct cli_args *args);
int cli_log_verify_run(const struct cli_args *args);
int cli_log_segments_run(const struct cli_args *args);
int cli_log_stats_run(const struct cli_args *args);

/* Calls each(arg, path) for every partition folder that path is or holds (a log directory), by name. NOT_FOUND: there is none. */
OT_MUST_CHECK enum ot_err cli_each_partition(const char *path, int (*each)(void *arg, const char *path), void *arg, int *code_out);

#endif
