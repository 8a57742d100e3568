/* A member of a consumer group, enough for `ottla consume --group`: join, be given partitions, keep alive, commit, leave.
 *
 * In the new protocol (KIP-848, modern) the coordinator assigns. In the classic one it speaks the protocol type "consumer" with the assignor "range", so it shares partitions with any Kafka client that offers range; as leader it assigns for all. One
 * connection to the coordinator, which is found anew when it moves. Every call may block up to timeout_ms, joining for as long as the group takes. One thread. */
#ifndef OT_CLI_MEMBER_H
#define OT_CLI_MEMBER_H

#include "cli/kafka_client.h"

struct cli_member;
struct cli_assigned { uint32_t topic; /* index of the topics given */ int32_t partition; int64_t offset; /* committed; -1: none */ };

/* topics: borrowed until close; their partition counts are what a leader shares out. NO_MEMORY: *out is NULL. */
OT_MUST_CHECK enum ot_err cli_member_open(struct cli_kafka *kafka, const char *group, const struct cli_kafka_topic *topics, uint32_t topic_count,
    bool modern, int32_t timeout_ms, struct cli_member **out);
void cli_member_close(struct cli_member *member);          /* leaves the group if it is in; NULL is fine */
/* (Re)join and learn what is ours, with committed offsets. The list is the member's, until the next join. CANCELLED: interrupted. */
OT_MUST_CHECK enum ot_err cli_member_join(struct cli_member *member, const struct cli_assigned **assigned_out, uint32_t *count_out);
/* A heartbeat if one is due. REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID: join again. */
OT_MUST_CHECK enum ot_err cli_member_beat(struct cli_member *member);
/* The next offsets to be read. The same errors. */
OT_MUST_CHECK enum ot_err cli_member_commit(struct cli_member *member, const struct cli_assigned *offsets, uint32_t count);
bool cli_member_must_join(enum ot_err err);                /* is it one of those after which the group is joined again? */
const char *cli_member_why(const struct cli_member *member);

#endif
