/* Batches on their way to the leaders of one topic.
 *
 * Records gather in one batch per partition; a flush sends all of them, one request per leader, and returns without waiting, so that the next ones
 * are read and compressed meanwhile. The flush after it waits first, so at most one batch per partition is under way and order is kept. With acks=all
 * and a cluster that gives producer ids, batches carry sequences, and one that is sent again after a lost answer is not stored twice. The first
 * batch that is finally refused ends it: what was built behind it would have the wrong sequence. Memory: about twice CLI_PRODUCER_BYTES. One thread. */
#ifndef OT_CLI_PRODUCER_H
#define OT_CLI_PRODUCER_H

#include "cli/kafka_client.h"
#include "cli/record.h"

#define CLI_PRODUCER_BYTES (32u << 20)

struct cli_producer_config {
    int16_t acks; /* -1 all, 0, 1 */
    enum eng_codec codec;
    int32_t level;
    uint32_t batch_bytes; /* of records, before compression */
    int32_t partition;    /* for all; -1: by key, or in turn */
    int32_t timeout_ms;
    void (*stored)(void *arg, int32_t partition, int64_t base_offset, uint32_t records); /* a batch was acknowledged; offset -1: not told */
    void *arg;
};
struct cli_producer;
/* Asks for the topic, which may be made by that. topic stays the caller's until close. Errors as cli_kafka_topic; UNSUPPORTED_VERSION. */
OT_MUST_CHECK enum ot_err cli_producer_open(
    struct cli_kafka *kafka, const char *topic, const struct cli_producer_config *config, struct cli_producer **out);
void cli_producer_close(struct cli_producer *producer); /* NULL is fine; drops what was not flushed */

/* Takes a copy. May flush. UNKNOWN_TOPIC_OR_PARTITION: the record names a partition that is not there. */
OT_MUST_CHECK enum ot_err cli_producer_add(struct cli_producer *producer, const struct cli_record *record, int64_t now_ms);
OT_MUST_CHECK enum ot_err cli_producer_flush(struct cli_producer *producer); /* begins to send */
OT_MUST_CHECK enum ot_err cli_producer_wait(struct cli_producer *producer);  /* until what was sent is acknowledged */
bool cli_producer_idle(const struct cli_producer *producer);                 /* nothing gathered, nothing under way */

uint64_t cli_producer_acknowledged(const struct cli_producer *producer); /* records; with acks=0 the sent ones */
uint64_t cli_producer_unknown(const struct cli_producer *producer);      /* records whose fate the failure left open */
const char *cli_producer_why(const struct cli_producer *producer);       /* words about the failure, with topic and partition */

#endif
