/* A broker that knows its peers by a word: the hello's proof is "friend". */
#include "fake_broker.h"

#include "broker/control.h"
#include "broker/lag.h"
#include "broker/peer_rest.h"
#include "broker/peers.h"
#include "broker/quorum.h"
#include "broker/voter_change.h"

#include <stdio.h>
#include <string.h>

struct fake_peers fake_peers;

enum ot_err broker_peer_hello(struct broker *broker, struct broker_hello *hello, const struct ot_peer_hello_request *in, struct ot_peer_hello_response *out)
{
    (void)broker;
    ot_peer_hello_response_defaults(out);
    out->node_id = 1;
    if (in->proof.bytes != 6 || memcmp(in->proof.data, "friend", 6) != 0) {
        out->error_code = ot_err_kafka(OT_ERR_CLUSTER_AUTHORIZATION_FAILED);
        return OT_ERR_CLUSTER_AUTHORIZATION_FAILED;
    }
    hello->done = true;
    hello->node_id = in->node_id;
    return OT_OK;
}

static void done(struct ot_task *task)
{
    struct broker_call *call = OT_CONTAINER(task, struct broker_call, task);
    call->done(call);
}

void broker_peer_message(struct broker *broker, struct broker_peer_message *message)
{
    (void)broker;
    fake_peers.from = message->peer;
    fake_peers.bytes = message->body.bytes;
    message->call.task.run = done;
    ot_exec_post(message->call.home, &message->call.task);
}

void broker_peer_ask(struct broker *broker, struct broker_peer_ask *ask)
{
    (void)broker;
    fake_peers.from = ask->peer;
    fake_peers.ask = ask->in->ask;
    ot_peer_ask_response_defaults(&ask->out);
    ask->out.error = ot_str_of("NOT_CONTROLLER");
    ask->out.leader = 7;
    ask->call.task.run = done;
    ot_exec_post(ask->call.home, &ask->call.task);
}

static void released(struct broker_peer_rest *rest)
{
    (void)rest;
    fake_peers.released++;
}

/* Echoes the target; 999 waits until it is cancelled. */
void broker_peer_rest(struct broker *broker, struct broker_peer_rest *rest)
{
    (void)broker;
    fake_peers.from = rest->peer;
    ot_peer_rest_response_defaults(&rest->out);
    rest->release = released;
    rest->own = &fake_peers;
    rest->out.status = (int16_t)rest->in->timeout_ms;
    rest->out.error = ot_str_of("");
    rest->out.body = (struct ot_blob){ .data = (const uint8_t *)rest->in->target.data, .bytes = rest->in->target.bytes };
    rest->call.task.run = done;
    pthread_mutex_lock(&fake.mutex);
    fake_peers.asked++;
    pthread_mutex_unlock(&fake.mutex);
    if (rest->in->timeout_ms != 999) ot_exec_post(rest->call.home, &rest->call.task);
}

void broker_peer_rest_cancel(struct broker *broker, struct broker_peer_rest *rest)
{
    (void)broker;
    fake_peers.cancelled++;
    ot_exec_post(rest->call.home, &rest->call.task);
}

void broker_lag(struct broker *broker, struct broker_lag *lag)
{
    (void)broker;
    fake_peers.here = lag->here;
    for (uint32_t i = 0; i < lag->part_count; i++) {
        struct broker_lag_part *part = &lag->parts[i];
        part->error = part->partition == 0 ? OT_OK : OT_ERR_NOT_LEADER_OR_FOLLOWER;
        part->log_start_offset = 1;
        part->high_watermark = part->last_stable_offset = 50;
        part->all = part->committed = (struct broker_lag_count){ .records = 50 - part->offset, .ms = 7, .exact = true };
    }
    lag->call.task.run = done;
    ot_exec_post(lag->call.home, &lag->call.task);
}

void broker_voter_change(struct broker *broker, struct broker_voter_change *change)
{
    (void)broker;
    fake_peers.voter = change->id;
    fake_peers.add = change->add;
    fake_peers.port = change->port;
    change->error = change->id == 9 ? OT_ERR_VOTER_NOT_FOUND : OT_OK;
    change->text[0] = 0;
    change->call.task.run = done;
    ot_exec_post(change->call.home, &change->call.task);
}

void broker_control(struct broker *broker, struct broker_control *control)
{
    (void)broker;
    if (control->kind == BROKER_READ) {        /* as by what others decided meanwhile */
        fake.reads++;
        control->error = fake.read_error;
        if (fake.topic_to_be != NULL) (void)fake_topic(fake.topic_to_be, 3);
        fake.topic_to_be = NULL;
        control->call.task.run = done;
        ot_exec_post(control->call.home, &control->call.task);
        return;
    }
    control->error = control->kind == BROKER_RAISE ? fake.raise_error : control->kind != BROKER_FORGET || control->broker_id == 9 ? OT_ERR_BROKER_ID_NOT_REGISTERED : OT_OK;
    control->text[0] = 0;
    if (control->error != OT_OK) snprintf(control->text, sizeof control->text, "broker %d", control->kind == BROKER_RAISE ? control->level : control->broker_id);
    fake.raised = control->kind == BROKER_RAISE && control->error == OT_OK && !control->validate_only ? control->level : fake.raised;
    control->call.task.run = done;
    ot_exec_post(control->call.home, &control->call.task);
}

/* Its second broker follows, and was heard of last at 900, three versions ago. */
void broker_quorum(struct broker *broker, struct broker_quorum *quorum)
{
    const bool two = fake.other_host != NULL;
    (void)broker;
    fake_peers.here = quorum->here;
    quorum->leader = fake.controller_id;
    quorum->term = 3;
    quorum->high_watermark = 43;
    quorum->rows = ot_arena_array(quorum->arena, 2, sizeof *quorum->rows);
    quorum->error = quorum->rows == NULL ? OT_ERR_NO_MEMORY : OT_OK;
    quorum->row_count = quorum->rows == NULL ? 0 : two ? 2 : 1;
    if (quorum->row_count > 0) quorum->rows[0] = (struct broker_quorum_row){ .id = fake.node_id, .votes = true, .log_end = 43, .fetched_ms = 1000, .caught_up_ms = 1000 };
    if (quorum->row_count > 1) quorum->rows[1] = (struct broker_quorum_row){ .id = 2, .log_end = 40, .fetched_ms = 900, .caught_up_ms = -1 };
    quorum->call.task.run = done;
    ot_exec_post(quorum->call.home, &quorum->call.task);
}

/* the gRPC door's tests have their own */
__attribute__((weak)) void broker_health(struct broker *broker, struct broker_health *out)
{
    (void)broker;
    *out = (struct broker_health){ .ready = true, .serves_peers = true, .reason = "" };
}

enum ot_err broker_log_ends(struct broker *broker, const struct ot_peer_log_ends_request *in, struct ot_arena *arena, struct ot_peer_log_ends_response *out)
{
    (void)broker;
    ot_peer_log_ends_response_defaults(out);
    out->broker_epoch = 7;
    out->partitions.items = ot_arena_array(arena, (size_t)in->partitions.count + 1, sizeof *out->partitions.items);
    if (out->partitions.items == NULL) return OT_ERR_NO_MEMORY;
    out->partitions.count = in->partitions.count;
    for (int32_t i = 0; i < in->partitions.count; i++) out->partitions.items[i].log_end = in->partitions.items[i].partition;
    return OT_OK;
}
