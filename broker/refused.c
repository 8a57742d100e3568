#include "broker/refused.h"
#include "engine/producers.h"
#include <stdlib.h>

struct broker_refused {
    uint32_t next;                             /* counts on and on */
    struct refusal { int64_t producer_id, at_us; int32_t sequence; int16_t epoch, error; } rows[BROKER_REFUSED_MAX];
};

static bool means_later(enum ot_err error)
{
    return error == OT_ERR_NOT_ENOUGH_REPLICAS || error == OT_ERR_NOT_LEADER_OR_FOLLOWER || error == OT_ERR_LEADER_NOT_AVAILABLE || error == OT_ERR_KAFKA_STORAGE_ERROR;
}

void broker_refused_note(struct broker_refused **refused, const struct eng_batch_info *info, enum ot_err error, int64_t now_us)
{
    if (info->producer_id < 0 || info->base_sequence < 0 || !means_later(error)) return;
    if (*refused == NULL && (*refused = calloc(1, sizeof(**refused))) == NULL) return;
    (*refused)->rows[(*refused)->next++ % BROKER_REFUSED_MAX] =
        (struct refusal){ .producer_id = info->producer_id, .at_us = now_us, .sequence = info->base_sequence, .epoch = info->producer_epoch, .error = (int16_t)error };
}

/* Sequences go round from INT32_MAX to 0. */
static uint32_t ahead_of(int32_t sequence, int32_t other) { return ((uint32_t)sequence - (uint32_t)other) & INT32_MAX; }

enum ot_err broker_refused_before(const struct broker_refused *refused, const struct eng_producers *producers, const struct eng_batch_info *info, int64_t now_us)
{
    struct eng_producer_view view;
    if (refused == NULL || info->base_sequence < 0) return OT_OK;
    const bool known = eng_producers_find(producers, info->producer_id, true, &view) && view.epoch == info->producer_epoch && view.last_sequence >= 0;
    const int32_t owed = known ? (int32_t)(((uint32_t)view.last_sequence + 1) & INT32_MAX) : 0;
    for (uint32_t i = 0; i < BROKER_REFUSED_MAX && (!known || owed != info->base_sequence); i++) {
        const struct refusal *row = &refused->rows[i];
        const uint32_t ahead = ahead_of(info->base_sequence, row->sequence);
        if (row->error == OT_OK || row->producer_id != info->producer_id || row->epoch != info->producer_epoch || now_us - row->at_us >= BROKER_REFUSED_US) continue;
        if (ahead > 0 && ahead <= INT32_MAX / 2 && (!known || row->sequence == owed)) return (enum ot_err)row->error;
    }
    return OT_OK;
}
