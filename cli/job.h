/* Long work on the server: begin it, show how far it is, wait for its end. */
#ifndef OT_CLI_JOB_H
#define OT_CLI_JOB_H

#include "cli/api.h"

/* Follows a job that was begun (its body) to its end, with a bar on a terminal and a line every ten seconds elsewhere, neither with --quiet. Ctrl-C cancels it.
 * -1: *ended_out is its last body, to be json_decref'ed, *text_out the same as text; else the exit code after a message. */
int cli_job_follow(struct cli_api *api, const json_t *begun, json_t **ended_out, char **text_out);

extern const struct cli_flag cli_topic_verify_flags[];
int cli_topic_verify_run(const struct cli_args *args);

#endif
