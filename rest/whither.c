/* Where a request belongs: by the flags of its route and the names in its path. */
#include "broker/shard.h"
#include "rest/hop.h"
#include "rest/inside.h"
#include <stdlib.h>
#include <string.h>

static bool number_of(struct ot_str text, int32_t *out)
{
    char digits[12], *end = NULL;
    if (text.bytes == 0 || text.bytes >= sizeof(digits)) return false;
    memcpy(digits, text.data, text.bytes);
    digits[text.bytes] = 0;
    const long long value = digits[0] >= '0' && digits[0] <= '9' ? strtoll(digits, &end, 10) : -1;
    if (value < 0 || value > INT32_MAX || *end != 0) return false;
    *out = (int32_t)value;
    return true;
}

/* What cannot be read, or is not there, is answered here with words. */
static int32_t leader_of(struct rest_call *call)
{
    int32_t index, leader = broker_node_id(call->broker);
    if (!number_of(rest_param(call, 1), &index)) return leader;
    const struct broker_view *view = broker_view_take(call->broker);
    (void)broker_view_leader(view, rest_param(call, 0), index, &leader);
    broker_view_give(view);
    return leader;
}

static int32_t coordinator_of(struct rest_call *call, enum broker_shard_kind_id kind, struct ot_str id)
{
    const int32_t leader = broker_shard_leader(call->broker, kind, id);
    return leader >= 0 ? leader : broker_node_id(call->broker);        /* the handler tells why there is none */
}

/* False: no such broker. */
static bool find_broker(struct rest_call *call, int32_t id, bool *fenced_out)
{
    struct broker_view_broker row = { .id = -1 };
    struct ot_arena arena;
    uint8_t room[4096];
    ot_arena_init_with(&arena, room, sizeof(room), 256 << 10);
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = broker_view_next_broker(view, id - 1, &arena, &row) && row.id == id;
    broker_view_give(view);
    ot_arena_free(&arena);
    *fenced_out = row.fenced;
    return found;
}

static int32_t controller_of(struct rest_call *call)
{
    struct broker_view_cluster cluster;
    const struct broker_view *view = broker_view_take(call->broker);
    broker_view_cluster(view, &cluster);
    broker_view_give(view);
    return cluster.controller_id >= 0 ? cluster.controller_id : broker_node_id(call->broker);
}

/* "j-3-…": the job is broker 3's. */
static int32_t broker_of_job(struct rest_call *call)
{
    const struct ot_str id = rest_param(call, 0);
    const char *end = id.bytes > 2 && memcmp(id.data, "j-", 2) == 0 ? memchr(id.data + 2, '-', id.bytes - 2) : NULL;
    int32_t broker;
    bool fenced;
    if (end == NULL || !number_of((struct ot_str){ id.data + 2, (uint32_t)(end - id.data - 2), false }, &broker)) return broker_node_id(call->broker);
    return find_broker(call, broker, &fenced) ? broker : broker_node_id(call->broker);         /* which says that there is none */
}

static const struct ot_str *named(struct rest_call *call)
{
    static const struct ot_str none = { .null = true };
    const struct rest_pair *pair = (call->route->flags & REST_LOCAL) != 0 ? rest_query(call, "broker") : NULL;
    return pair != NULL ? &pair->value : (call->route->flags & REST_AT_BROKER) != 0 ? &call->params[0] : &none;
}

int32_t rest_whither(struct rest_call *call)
{
    const uint32_t flags = call->route->flags;
    int32_t id;
    bool fenced = false;
    if (number_of(*named(call), &id)) {
        /* what the metadata tells of a broker that is away is told without it */
        return (flags & REST_META) != 0 && id != broker_node_id(call->broker) && (!find_broker(call, id, &fenced) || fenced) ? broker_node_id(call->broker) : id;
    }
    if ((flags & REST_ONCE) != 0 && (flags & REST_LOCAL) == 0 && call->once_key != NULL) return controller_of(call);      /* it keeps the keys of all */
    if ((flags & REST_AT_LEADER) != 0) return leader_of(call);
    if ((flags & REST_AT_GROUP) != 0) return coordinator_of(call, BROKER_SHARD_GROUPS, rest_param(call, 0));
    if ((flags & REST_AT_JOB) != 0) return broker_of_job(call);
    if ((flags & REST_AT_NODE) != 0 && call->uri.segment_count > 3 && ot_str_equal(call->uri.segments[2], ot_str_of("consumers")))
        return coordinator_of(call, BROKER_SHARD_GROUPS, call->uri.segments[3]);       /* /v1/registry/consumers/{group}… */
    if ((flags & REST_AT_TRANSACTION) != 0) return coordinator_of(call, BROKER_SHARD_TRANSACTIONS, rest_param(call, 0));
    return broker_node_id(call->broker);
}

bool rest_whither_good(struct rest_call *call)
{
    int64_t id;
    bool fenced;
    if ((call->route->flags & REST_LOCAL) != 0) {
        (void)rest_query_int(call, "broker", 0, INT32_MAX, 0);
        if (rest_faulty(call)) return false;
    }
    if ((call->route->flags & REST_AT_BROKER) != 0 && !rest_param_int(call, 0, "broker", 0, INT32_MAX, &id)) return false;
    const int32_t to = rest_whither(call);
    if (to == broker_node_id(call->broker)) return true;
    if (to < 0) {
        rest_problem(call, OT_ERR_LEADER_NOT_AVAILABLE, "no broker leads the partition now");
        return false;
    }
    if (!named(call)->null && call->arrived) {
        rest_problem_more(call, OT_ERR_BROKER_ID_NOT_REGISTERED, NULL, "GET /v1/brokers", "this is broker %d, and it knows nothing of the inside of broker %d", broker_node_id(call->broker), to);
        return false;
    }
    if (!named(call)->null && !find_broker(call, to, &fenced)) {
        rest_problem_more(call, OT_ERR_BROKER_ID_NOT_REGISTERED, NULL, "GET /v1/brokers", "no broker has the id %d", to);
        return false;
    }
    return true;
}
