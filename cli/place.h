/* Places in a partition as people name them: --from and --until. */
#ifndef OT_CLI_PLACE_H
#define OT_CLI_PLACE_H

#include "cli/kafka_client.h"

enum cli_place_kind { CLI_PLACE_EARLIEST, CLI_PLACE_LATEST, CLI_PLACE_BACK, CLI_PLACE_OFFSET, CLI_PLACE_TIME };
struct cli_place {
    enum cli_place_kind kind;
    int64_t value; /* BACK: how many records before the end; OFFSET; TIME: epoch ms */
};
/* earliest (beginning), latest (end), -N, N, RFC 3339, or an age as 30s 15m 2h 7d. now_ms is what ages count from. False: none of these. */
bool cli_place_parse(const char *text, int64_t now_ms, struct cli_place *out);
/* The offset that it means in one partition now. Times after the last record: the end. *ahead_out: a time beyond the last record, or an offset beyond the
 * end. OFFSET_OUT_OF_RANGE never: the caller compares with the range. */
OT_MUST_CHECK enum ot_err cli_place_find(struct cli_kafka *kafka, const struct cli_kafka_topic *topic, int32_t partition, const struct cli_place *place,
    bool committed_only, int64_t *offset_out, bool *ahead_out);

#endif
