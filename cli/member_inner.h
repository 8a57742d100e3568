/* Private to cli/member*.c: a member, and how it asks its coordinator. */
#ifndef OT_CLI_MEMBER_INNER_H
#define OT_CLI_MEMBER_INNER_H

#include "cli/member.h"

#define CLI_MEMBER_REBALANCE_MS 60000
#define CLI_MEMBER_PIECES_MAX   100000             /* partitions that a leader shares out, or that a member is given */

struct cli_member {
    const char *group;
    const struct cli_kafka_topic *topics;
    uint32_t topic_count;
    int32_t timeout_ms, generation;
    struct cli_conn conn;                      /* to the coordinator */
    struct cli_conn finder;                    /* to whoever tells where it is */
    char host[CLI_HOST_BYTES], id[300];
    bool in;                                   /* a member of the present generation */
    int64_t beat_us;
    struct cli_assigned *assigned;
    uint32_t assigned_count;
    char why[CLI_WHY_BYTES];
    /* of the new protocol (KIP-848); generation is its epoch */
    bool modern;
    int32_t interval_ms;                       /* between heartbeats, as the coordinator says */
    struct cli_assigned *target;               /* what it is to have; not yet taken up while target_new */
    uint32_t target_count;
    bool target_new;
};

/* One request to the coordinator, which is found first if need be. The answer's own error is the caller's to read. */
OT_MUST_CHECK enum ot_err cli_member_ask(struct cli_member *member, int16_t api, int16_t least, int16_t most, const void *request, void *response, int64_t deadline_us);
/* Notes what went wrong for cli_member_why; gives back err. */
enum ot_err cli_member_fail(struct cli_member *member, enum ot_err err, const char *what);
/* Committed offsets of what is assigned. */
OT_MUST_CHECK enum ot_err cli_member_offsets(struct cli_member *member);

/* member_consumer.c: the same as join, beat and leaving of member.h, in the new protocol. */
OT_MUST_CHECK enum ot_err cli_member_consumer_join(struct cli_member *member);
OT_MUST_CHECK enum ot_err cli_member_consumer_beat(struct cli_member *member);
void cli_member_consumer_leave(struct cli_member *member);

#endif
