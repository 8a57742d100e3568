/* `ottla group …`: consumer groups over the REST API. */
#ifndef OT_CLI_GROUP_H
#define OT_CLI_GROUP_H

#include "cli/command.h"

extern const struct cli_flag cli_group_list_flags[], cli_group_reset_flags[], cli_group_set_flags[], cli_group_drop_flags[], cli_group_dry_flags[];
int cli_group_list_run(const struct cli_args *args);
int cli_group_describe_run(const struct cli_args *args);
int cli_group_owners_run(const struct cli_args *args);
int cli_group_offsets_run(const struct cli_args *args);
int cli_group_timeline_run(const struct cli_args *args);
int cli_group_reset_run(const struct cli_args *args);
int cli_group_set_run(const struct cli_args *args);
int cli_group_evict_run(const struct cli_args *args);
int cli_group_drop_run(const struct cli_args *args);
int cli_group_delete_run(const struct cli_args *args);

#endif
