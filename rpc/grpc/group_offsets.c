/* Log.CommitOffsets and Log.FetchOffsets: what groups remember. Offsets of a transaction are records of its producer in the group's partition of __consumer_offsets, which is
 * added to the transaction first. */
#include "rpc/grpc/group.h"

struct offsets_own {
    struct rpcg_call *call;
    struct rpcg_commit_ask commit;
    struct rpcg_committed_ask fetch;
    bool fetches;
    struct broker_shard_topic topic;
    struct broker_txn txn;
    struct coord_txn_place place;
    struct broker_txn_guard guard;         /* against the end of the transaction between the coordinator's word and the append */
    struct broker_group_call group;
    char host[80];
};
const size_t rpcg_own_group_offsets = sizeof(struct offsets_own);

static struct ot_str group_of(const struct offsets_own *own) { return own->fetches ? own->fetch.group : own->commit.group; }

/* ---- the answer */

static void put_answer(struct ot_writer *writer, const void *arg)
{
    const struct offsets_own *own = arg;
    for (uint32_t i = 0; i < own->group.ask.part_count; i++) {
        const struct group_part *part = &own->group.ask.parts[i];
        const struct rpcg_error error = { .error = part->error, .leader_id = -1, .leader_epoch = -1 };
        struct rpcg_committed row = { { part->topic, part->partition, part->offset, part->leader_epoch, part->metadata }, NULL };
        if (part->error != OT_OK) row = (struct rpcg_committed){ { part->topic, part->partition, -1, -1, ot_str_of("") }, &error };
        rpcg_put_message(writer, 1, rpcg_put_group_offset, &row);
    }
}

static void fail(struct offsets_own *own, enum ot_err error, const char *text)
{
    const struct rpcg_error words = rpcg_group_error(own->call->server, error, text, group_of(own));
    rpcg_fail(own->call, &words);
}

static void group_done(struct broker_call *broker_call)
{
    struct offsets_own *own = OT_CONTAINER(broker_call, struct offsets_own, group.call);
    struct rpcg_call *call = own->call;
    const struct group_ask *ask = &own->group.ask;
    const enum ot_err whole = broker_group_error(&own->group);
    broker_txn_guard_end(&own->guard);
    if (whole != OT_OK) {
        fail(own, whole, own->group.error == OT_OK ? ask->text : NULL);
    } else if (!ask->all && ask->part_count == 1 && ask->parts[0].error != OT_OK) {
        const struct rpcg_error words = rpcg_error_of(call->server, ask->parts[0].error, NULL, ask->parts[0].topic, ask->parts[0].partition, -1, -1);
        rpcg_fail(call, &words);
    } else {
        rpcg_reply(call, rpcg_message(put_answer, own));
    }
    rpcg_release(call);
}

/* ---- the ask */

static bool parts_fill(struct offsets_own *own, const struct rpcg_group_offset *from, uint32_t count)
{
    struct group_ask *ask = &own->group.ask;
    ask->parts = ot_arena_array(&own->call->arena, count, sizeof *ask->parts);
    if (ask->parts == NULL && count > 0) return false;
    const struct broker_view *view = broker_view_take(own->call->server->broker);
    for (uint32_t i = 0; i < count; i++) {
        struct broker_view_topic topic = { .partition_count = 0 };
        const bool there = broker_view_topic(view, from[i].topic, &topic);
        struct group_part *part = &ask->parts[ask->part_count++];
        *part = (struct group_part){ .topic = from[i].topic, .topic_id = there ? topic.id : (struct ot_uuid){ { 0 } }, .partition = from[i].partition, .offset = from[i].offset,
            .leader_epoch = from[i].leader_epoch, .metadata = from[i].metadata };
        /* what was committed of a topic that is gone may still be asked for */
        if (own->fetches) part->offset = -1, part->leader_epoch = -1;
        else if (!there) part->error = OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    }
    broker_view_give(view);
    return true;
}

static void group_ask(struct offsets_own *own)
{
    struct rpcg_call *call = own->call;
    const bool txn = !own->fetches && !own->commit.transactional_id.null;
    rpcg_peer_host(call, own->host, sizeof own->host);
    rpcg_group_init(call, &own->group, own->fetches ? GROUP_ASK_OFFSET_FETCH : txn ? GROUP_ASK_TXN_OFFSET_COMMIT : GROUP_ASK_OFFSET_COMMIT, group_of(own), ot_str_of(own->host),
        &call->arena);
    struct group_ask *ask = &own->group.ask;
    const bool filled = own->fetches ? parts_fill(own, own->fetch.parts, own->fetch.part_count) : parts_fill(own, own->commit.parts, own->commit.part_count);
    if (!filled) {
        broker_txn_guard_end(&own->guard);
        rpcg_fail_text(call, OT_ERR_INVALID_REQUEST, "too much in one request");
        rpcg_release(call);
        return;
    }
    own->group.call.done = group_done;
    own->group.guard = txn ? &own->guard : NULL;
    ask->all = own->fetches && own->fetch.part_count == 0;
    ask->require_stable = own->fetch.require_stable;
    if (!own->fetches) {
        ask->member_id = own->commit.member_id;
        ask->instance_id = own->commit.instance_id;
        ask->generation = own->commit.generation;
        ask->producer_id = own->commit.producer_id;
        ask->producer_epoch = own->commit.producer_epoch;
    }
    broker_group(call->server->broker, &own->group);
}

static void added(struct broker_call *broker_call)
{
    struct offsets_own *own = OT_CONTAINER(broker_call, struct offsets_own, txn.call);
    if (own->txn.request.error == OT_OK) {
        group_ask(own);
        return;
    }
    broker_txn_guard_end(&own->guard);
    rpcg_fail_text(own->call, own->txn.request.error, NULL);
    rpcg_release(own->call);
}

static void go(struct offsets_own *own)
{
    struct broker *broker = own->call->server->broker;
    if (own->fetches || own->commit.transactional_id.null) {
        group_ask(own);
        return;
    }
    own->place = (struct coord_txn_place){ .topic = ot_str_of("__consumer_offsets"), .partition = broker_shard_of(broker, BROKER_SHARD_GROUPS, own->commit.group) };
    if (own->place.partition < 0) {            /* there is no telling yet which one it will be */
        rpcg_fail_text(own->call, OT_ERR_COORDINATOR_NOT_AVAILABLE, NULL);
        rpcg_release(own->call);
        return;
    }
    if (broker_txn_guard(broker, &own->place, own->commit.producer_id, own->commit.producer_epoch, &own->guard)) {
        group_ask(own);
        return;
    }
    own->txn = (struct broker_txn){ .call = { .home = &own->call->server->exec, .done = added },
        .request = coord_txn_request_default(COORD_TXN_ADD, own->commit.transactional_id) };
    own->txn.anywhere = true;
    own->txn.request.producer_id = own->commit.producer_id;
    own->txn.request.producer_epoch = own->commit.producer_epoch;
    own->txn.request.version = 2;
    own->txn.request.places = &own->place;
    own->txn.request.place_count = 1;
    broker_txn(broker, &own->txn);
}

static void topic_made(struct broker_call *broker_call)
{
    struct offsets_own *own = OT_CONTAINER(broker_call, struct offsets_own, topic.call);
    if (own->topic.error == OT_OK) {
        go(own);
        return;
    }
    fail(own, own->topic.error, NULL);
    rpcg_release(own->call);
}

static void start(struct offsets_own *own, enum ot_err err, const char *why)
{
    if (err != OT_OK) {
        rpcg_fail_text(own->call, OT_ERR_INVALID_REQUEST, why);
        return;
    }
    rpcg_hold(own->call);
    if (!rpcg_group_topic_make(own->call, &own->topic, topic_made)) go(own);
}

void rpcg_commit_offsets_start(struct rpcg_call *call)
{
    struct offsets_own *own = call->own;
    const char *why = NULL;
    own->call = call;
    const enum ot_err err = rpcg_commit_decode(call->body, &call->arena, &own->commit, &why);
    start(own, err, why);
}

void rpcg_fetch_offsets_start(struct rpcg_call *call)
{
    struct offsets_own *own = call->own;
    const char *why = NULL;
    own->call = call;
    own->fetches = true;
    const enum ot_err err = rpcg_committed_decode(call->body, &call->arena, &own->fetch, &why);
    start(own, err, why);
}
