/* `ottla topic …`, over the REST API. */
#ifndef OT_CLI_TOPIC_H
#define OT_CLI_TOPIC_H

#include "cli/api.h"

extern const struct cli_flag cli_topic_list_flags[], cli_topic_create_flags[], cli_topic_grow_flags[], cli_topic_offsets_flags[], cli_topic_trim_flags[], cli_topic_isr_flags[], cli_no_flags[], cli_watch_flags[];
int cli_topic_list_run(const struct cli_args *args);
int cli_topic_describe_run(const struct cli_args *args);
int cli_topic_create_run(const struct cli_args *args);
int cli_topic_delete_run(const struct cli_args *args);
int cli_topic_grow_run(const struct cli_args *args);
int cli_topic_offsets_run(const struct cli_args *args);
int cli_topic_trim_run(const struct cli_args *args);
int cli_topic_isr_run(const struct cli_args *args);

/* "/v1/topics/NAME" and what format adds, percent-encoded; to be freed. NULL: out of memory. */
char *cli_topic_target(const char *topic, const char *format, ...) OT_PRINTF(2, 3);
/* "k=v" into object. -1 or the exit code after a message. */
int cli_config_pair(json_t *object, const char *text);

#endif
