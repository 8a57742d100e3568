/* Log.ListOffsets: offsets by time and at the ends. */
#include "rpc/grpc/door.h"

struct offsets_own {
    struct rpcg_call *call;
    struct rpcg_offsets_ask ask;
    struct broker_offsets offsets;
};
const size_t rpcg_own_list_offsets = sizeof(struct offsets_own);

static void put_answer(struct ot_writer *writer, const void *arg)
{
    const struct offsets_own *own = arg;
    for (uint32_t i = 0; i < own->ask.part_count; i++) {
        const struct broker_offsets_part *part = &own->offsets.parts[i];
        struct rpcg_error error = { .error = part->error, .leader_id = -1, .leader_epoch = -1 };
        const struct rpcg_offset row = { part->topic, part->partition, part->error == OT_OK ? part->offset : -1, part->error == OT_OK ? part->timestamp_ms : -1,
            part->error == OT_OK ? part->leader_epoch : -1, part->error == OT_OK ? NULL : &error };
        rpcg_put_message(writer, 1, rpcg_put_offset, &row);
    }
}

static void offsets_done(struct broker_call *broker_call)
{
    struct offsets_own *own = OT_CONTAINER(broker_call, struct offsets_own, offsets.call);
    struct rpcg_call *call = own->call;
    if (own->ask.part_count == 1 && own->offsets.parts[0].error != OT_OK) {
        const struct broker_offsets_part *part = &own->offsets.parts[0];
        const struct rpcg_error error = rpcg_error_of(call->server, part->error, NULL, part->topic, part->partition, -1, -1);
        rpcg_fail(call, &error);
    } else {
        rpcg_reply(call, rpcg_message(put_answer, own));
    }
    rpcg_release(call);
}

void rpcg_list_offsets_start(struct rpcg_call *call)
{
    struct offsets_own *own = call->own;
    const char *why = NULL;
    own->call = call;
    const enum ot_err err = rpcg_offsets_decode(call->body, &call->arena, &own->ask, &why);
    if (err != OT_OK) {
        rpcg_fail_text(call, OT_ERR_INVALID_REQUEST, why);
        return;
    }
    struct broker_offsets_part *parts = ot_arena_array(&call->arena, own->ask.part_count, sizeof *parts);
    if (parts == NULL) {
        rpcg_fail_text(call, OT_ERR_INVALID_REQUEST, "too many partitions in one request");
        return;
    }
    for (uint32_t i = 0; i < own->ask.part_count; i++)
        parts[i] = (struct broker_offsets_part){ .topic = own->ask.parts[i].topic, .partition = own->ask.parts[i].partition,
            .current_leader_epoch = own->ask.parts[i].leader_epoch, .at = own->ask.parts[i].at };
    own->offsets = (struct broker_offsets){ .call = { .home = &call->server->exec, .done = offsets_done }, .kind = BROKER_LIST_OFFSETS, .api_version = 10,
        .read_committed = own->ask.read_committed, .timeout_ms = 30000, .parts = parts, .part_count = own->ask.part_count };
    rpcg_hold(call);
    broker_offsets(call->server->broker, &own->offsets);
}
