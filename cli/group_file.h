/* `ottla group export|import`: committed offsets of a group as a file, in JSON or in the CSV that Kafka's own tool writes and reads. */
#ifndef OT_CLI_GROUP_FILE_H
#define OT_CLI_GROUP_FILE_H

#include "cli/command.h"

extern const struct cli_flag cli_group_export_flags[], cli_group_import_flags[];
int cli_group_export_run(const struct cli_args *args);
int cli_group_import_run(const struct cli_args *args);

#endif
