/* A client of a Kafka-compatible cluster, enough for `produce` and `consume`: bootstrap, metadata, a connection per leader, offsets.
 *
 * Requests name topics by name (ids are told where the cluster is new enough), so any cluster from Kafka 0.11 on will do. Every call may block
 * up to timeout_ms. One thread. */
#ifndef OT_CLI_KAFKA_CLIENT_H
#define OT_CLI_KAFKA_CLIENT_H

#include "cli/kafka_conn.h"

struct cli_kafka;
struct cli_kafka_partition {
    int32_t leader; /* -1: none now */
    enum ot_err err;
    int32_t replica_count;
};
struct cli_kafka_topic {
    char *name;
    enum ot_err err; /* UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, … */
    bool internal;
    struct ot_uuid id; /* zero: the cluster is too old to tell it */
    uint32_t partition_count; /* partitions 0 to count - 1 */
    struct cli_kafka_partition *partitions;
};

/* bootstrap: "host:port,host:port"; the first that answers is taken. NETWORK_EXCEPTION, REQUEST_TIMED_OUT, CANCELLED, MALFORMED (the
 * list), NO_MEMORY. *out is given also when it failed (but for NO_MEMORY), so that why can be asked. */
OT_MUST_CHECK enum ot_err cli_kafka_open(const char *bootstrap, int32_t timeout_ms, struct cli_kafka **out);
void cli_kafka_close(struct cli_kafka *kafka); /* NULL is fine */
void cli_kafka_address(const struct cli_kafka *kafka, const char **host_out, uint16_t *port_out); /* of the one that answered first */
const char *cli_kafka_why(const struct cli_kafka *kafka); /* words about the last failure; never NULL */

/* What is known now of one topic. create: may be made by asking (as the broker is configured); LEADER_NOT_AVAILABLE is asked again until
 * the timeout. The topic's own error is in out->err and returned as well; out must be freed in any case. */
OT_MUST_CHECK enum ot_err cli_kafka_topic(struct cli_kafka *kafka, const char *name, bool create, struct cli_kafka_topic *out);
void cli_kafka_topic_free(struct cli_kafka_topic *topic);

/* The connection to a broker of the last metadata, opened if need be. LEADER_NOT_AVAILABLE: no such broker. */
OT_MUST_CHECK enum ot_err cli_kafka_broker(struct cli_kafka *kafka, int32_t broker, struct cli_conn **out);

/* The offset of a time: CLI_OFFSET_LATEST (end, as far as isolation lets see), CLI_OFFSET_EARLIEST, or the first record at or after
 * epoch ms (-1 when there is none). */
#define CLI_OFFSET_LATEST   (-1)
#define CLI_OFFSET_EARLIEST (-2)
OT_MUST_CHECK enum ot_err cli_kafka_offset(struct cli_kafka *kafka, const struct cli_kafka_topic *topic, int32_t partition, int64_t timestamp,
    bool committed_only, int64_t *offset_out);

/* Errors after which the metadata is to be asked again and the request repeated. */
bool cli_kafka_try_again(enum ot_err err);
/* What an error means for the exit code (cli/command.h). */
int cli_exit_of(enum ot_err err);

#endif
