/* Producer ids from this broker's blocks of 1000; the next block is fetched when a quarter is left, so that nobody waits for the journal in the normal case. */
#include "broker/room.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_IDS = 1000, AHEAD_IDS = BLOCK_IDS / 4 };

static void block_answered(struct broker_ask *ask);

void broker_producer_ids_init(struct broker *broker)
{
    struct broker_producer_ids *ids = &broker->producer_ids;
    pthread_mutex_init(&ids->mutex, NULL);
    ids->last = &ids->first;
    ids->ask.answered = block_answered;
}

void broker_producer_ids_free(struct broker *broker) { pthread_mutex_destroy(&broker->producer_ids.mutex); }

static void done_run(struct ot_task *task)
{
    struct broker_call *call = OT_CONTAINER(task, struct broker_call, task);
    call->done(call);
}

static void give(struct broker_producer_id *ask, enum ot_err err, int64_t id)
{
    ask->error = err;
    ask->producer_id = err == OT_OK ? id : -1;
    ask->producer_epoch = err == OT_OK ? 0 : -1;
    ot_exec_post(ask->call.home, &ask->call.task);
}

/* Nothing below the floor is left in hand. */
static void clip(struct broker_producer_ids *ids)
{
    ids->next = OT_MIN(OT_MAX(ids->next, ids->floor), ids->end);
    ids->spare_first = OT_MIN(OT_MAX(ids->spare_first, ids->floor), ids->spare_end);
}

static bool take(struct broker_producer_ids *ids, int64_t *out)
{
    if (ids->next == ids->end) {
        ids->next = ids->spare_first;
        ids->end = ids->spare_end;
        ids->spare_first = ids->spare_end = 0;
    }
    if (ids->next == ids->end) {
        return false;
    }
    *out = ids->next++;
    return true;
}

static bool wants_block(struct broker_producer_ids *ids)
{
    return !ids->asking && ids->spare_first == ids->spare_end && ids->end - ids->next < AHEAD_IDS;
}

static void ask_block(struct broker *broker)   /* asking is set already */
{
    broker->producer_ids.ask.request = (struct coord_request){ .ask = COORD_ASK_PRODUCER_IDS, .if_version = -1, .u.producer_ids = { BLOCK_IDS } };
    broker_coordinator_ask(broker->coordinator, &broker->producer_ids.ask);
}

static void block_answered(struct broker_ask *ask)
{
    struct broker *broker = OT_CONTAINER(ask, struct broker, producer_ids.ask);
    struct broker_producer_ids *ids = &broker->producer_ids;
    enum ot_err err = ask->request.error;
    pthread_mutex_lock(&ids->mutex);
    if (err == OT_OK) {
        ids->spare_first = ask->request.producer_id_first;
        ids->spare_end = ids->spare_first + BLOCK_IDS;
        clip(ids);
    }
    for (struct broker_producer_id *waiter; (waiter = ids->first) != NULL;) {
        int64_t id = -1;
        if (err == OT_OK && !take(ids, &id)) {
            break;
        }
        ids->first = waiter->next;
        ids->last = ids->first == NULL ? &ids->first : ids->last;
        give(waiter, err == OT_OK ? OT_OK : OT_ERR_COORDINATOR_NOT_AVAILABLE, id);
    }
    ids->asking = err == OT_OK && (ids->first != NULL || ids->end - ids->next < AHEAD_IDS) && ids->spare_first == ids->spare_end;
    bool again = ids->asking;
    pthread_mutex_unlock(&ids->mutex);
    if (again) {
        ask_block(broker);
    }
}

void broker_producer_id(struct broker *broker, struct broker_producer_id *ask)
{
    struct broker_producer_ids *ids = &broker->producer_ids;
    int64_t id;
    ask->broker = broker;
    ask->call.task.run = done_run;
    ask->next = NULL;
    pthread_mutex_lock(&ids->mutex);
    if (take(ids, &id)) {
        give(ask, OT_OK, id);
    } else {
        *ids->last = ask;
        ids->last = &ask->next;
    }
    bool fetch = wants_block(ids);
    ids->asking |= fetch;
    pthread_mutex_unlock(&ids->mutex);
    if (fetch) {
        ask_block(broker);
    }
}

/* ---- skipping */

struct skip { struct broker_ask ask; struct broker *broker; struct broker_producer_id *wanted; int64_t above; };

static void skip_ask(struct skip *skip, int64_t count)
{
    skip->ask.request = (struct coord_request){ .ask = COORD_ASK_PRODUCER_IDS, .if_version = -1, .u.producer_ids = { (int32_t)OT_MIN(count, (int64_t)INT32_MAX) } };
    broker_coordinator_ask(skip->broker->coordinator, &skip->ask);
}

/* The first answer tells where the cluster stands, the next ones take what is in between, an int32 at a time. */
static void skip_answered(struct broker_ask *ask)
{
    struct skip *skip = OT_CONTAINER(ask, struct skip, ask);
    enum ot_err err = ask->request.error;
    int64_t next = err == OT_OK ? ask->request.producer_id_first + ask->request.u.producer_ids.count : -1;
    if (err == OT_OK && next <= skip->above) {
        skip_ask(skip, skip->above - next + 1);
        return;
    }
    struct broker_producer_ids *ids = &skip->broker->producer_ids;
    pthread_mutex_lock(&ids->mutex);           /* a block under way may still be an old one: it is cut by its limits when it comes */
    ids->floor = OT_MAX(ids->floor, err == OT_OK ? skip->above + 1 : 0);
    clip(ids);
    pthread_mutex_unlock(&ids->mutex);
    give(skip->wanted, err, next);
    free(skip);
}

void broker_producer_ids_skip(struct broker *broker, struct broker_producer_id *ask, int64_t above)
{
    struct skip *skip = calloc(1, sizeof *skip);
    ask->broker = broker;
    ask->call.task.run = done_run;
    if (skip == NULL) {
        give(ask, OT_ERR_NO_MEMORY, -1);
        return;
    }
    *skip = (struct skip){ .ask = { .answered = skip_answered }, .broker = broker, .wanted = ask, .above = above };
    skip_ask(skip, 1);
}
