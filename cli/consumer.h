/* Records out of partitions of a cluster: one Fetch per leader under way, decoded, filtered and handed out one by one.
 *
 * Without fetch sessions and groups, so that it works everywhere. Batches are checked (CRC), cut to [offset, stop_offset) of each partition; control
 * batches are passed over, with committed_only also what was aborted. Memory: what the brokers answer, at most CLI_CONSUMER_BYTES a leader unless one
 * batch is larger. One thread. */
#ifndef OT_CLI_CONSUMER_H
#define OT_CLI_CONSUMER_H

#include "cli/kafka_client.h"
#include "cli/record.h"

#define CLI_CONSUMER_BYTES (16u << 20)

struct cli_part {
    struct cli_kafka_topic *topic; /* leaders are renewed in it */
    int32_t partition;
    int64_t offset;         /* next to be handed out */
    int64_t stop_offset;    /* the first that is not wanted; INT64_MAX */
    int64_t stop_time_ms;   /* ends at the first record at or after it; INT64_MAX */
    bool done;
    uint32_t max_bytes;     /* 0 to begin with, as the rest */
    bool out_of_range;
};
struct cli_consumer_config {
    bool committed_only;
    uint64_t records_max; /* UINT64_MAX: no end */
    int32_t max_wait_ms, timeout_ms;
    void (*record)(void *arg, const struct cli_record *record);
    bool (*written)(void *arg); /* an answer has been handed out whole: flush. False: stop */
    void (*skipped)(void *arg, const struct cli_part *part, int64_t to_offset); /* [part->offset, to) was deleted meanwhile */
    void *arg;
};
struct cli_consumer;
OT_MUST_CHECK enum ot_err cli_consumer_open(struct cli_kafka *kafka, struct cli_part *parts, uint32_t part_count,
    const struct cli_consumer_config *config, struct cli_consumer **out);
void cli_consumer_close(struct cli_consumer *consumer); /* NULL is fine */
/* Until every part is done, records_max were handed out or written said false: OK. CANCELLED: interrupted, between two records. What does not heal within
 * timeout_ms, CORRUPT_MESSAGE (why names partition and offset), NO_MEMORY. */
OT_MUST_CHECK enum ot_err cli_consumer_run(struct cli_consumer *consumer);
const char *cli_consumer_why(const struct cli_consumer *consumer);

#endif
