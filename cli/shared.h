/* Flags that several commands take, and where they lead: the cluster to speak to, how much to say. */
#ifndef OT_CLI_SHARED_H
#define OT_CLI_SHARED_H

#include "cli/command.h"
#include "cli/kafka_client.h"

extern const struct cli_flag cli_kafka_flags[]; /* of produce and consume */

/* A whole number given by a flag, or absent when it is not given. -1: fine, *out is set; else the exit code after a message. */
int cli_flag_number(const struct cli_args *args, const char *name, int64_t least, int64_t most, int64_t absent, int64_t *out);
/* One of count words; the message names the nearest. */
int cli_flag_choice(const struct cli_args *args, const char *name, const char *const *words, uint32_t count, uint32_t absent, uint32_t *out);

/* Opens the cluster of --bootstrap-server, $OTTLA_BOOTSTRAP_SERVER or 127.0.0.1:9092. -1: fine; else the exit code after a message. */
int cli_open_kafka(const struct cli_args *args, struct cli_kafka **out);
/* Says what went wrong with a topic and what to try; gives back the exit code. */
int cli_topic_fail(enum ot_err err, const char *topic, const struct cli_kafka *kafka);

#endif
