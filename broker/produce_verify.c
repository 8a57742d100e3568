/* May a batch begin its producer's transaction in this partition? (KIP-890)
 *
 * A transaction that the coordinator does not know of would never be ended, and the last stable offset would stand for good. So before the first batch of a
 * transaction is appended the coordinator is asked: for clients of the old protocol whether the partition was added, for those of version 2 (Produce 12) it is added
 * by the asking. Once the transaction is open in the partition nobody is asked any more.
 *
 * Between the answer and the append the transaction may end. Then its marker goes through the lane first, and since the part is in the partition's list by then, the
 * marker makes its answer stale: that batch is refused. Where nobody was asked, since the transaction was open, it must still be so at the append. Offsets of a transaction
 * are appended by the group's shard; whoever asked for them holds a guard meanwhile, to the same end.
 *
 * An answer is of the leader epoch in which it was asked for: if another broker led meanwhile, the marker came by replication, and nobody was there to tell. */
#include "broker/room.h"

#include "broker/transactions.h"
#include <stdio.h>
#include <stdlib.h>

enum { VERSION_ADDS = 12, VERSION_ABORTABLE = 11 };

struct verify {
    struct broker_txn txn;
    struct broker_produce *produce;
    struct coord_txn_place places[];
};

/* With the partition's mutex. */
static bool is_open_here(struct broker_partition *partition, int64_t producer_id, int16_t producer_epoch)
{
    struct eng_producer_view view;
    return eng_producers_find(eng_log_producers(partition->log), producer_id, true, &view) && view.current_txn_first_offset >= 0 && view.epoch == producer_epoch;
}

bool broker_txn_guard(struct broker *broker, const struct coord_txn_place *place, int64_t producer_id, int16_t producer_epoch, struct broker_txn_guard *guard)
{
    struct broker_partition *partition = broker_partition_find(broker, place->topic, place->partition);
    bool open = false;
    *guard = (struct broker_txn_guard){ .partition = partition, .producer_id = producer_id, .producer_epoch = producer_epoch };
    if (partition == NULL) return false;
    pthread_mutex_lock(&partition->mutex);
    if (atomic_load(&partition->stage) == BROKER_PARTITION_OPEN && partition->is_leader) open = is_open_here(partition, producer_id, producer_epoch);
    guard->leader_epoch = partition->leader_epoch;
    guard->on = true;
    guard->next = partition->guards;
    if (guard->next != NULL) guard->next->prev = guard;
    partition->guards = guard;
    pthread_mutex_unlock(&partition->mutex);
    return open;
}

/* With the mutex. */
static void guard_off(struct broker_partition *partition, struct broker_txn_guard *guard)
{
    if (!guard->on) return;
    if (guard->prev != NULL) guard->prev->next = guard->next;
    else partition->guards = guard->next;
    if (guard->next != NULL) guard->next->prev = guard->prev;
    guard->on = false;
}

void broker_txn_guard_end(struct broker_txn_guard *guard)
{
    struct broker_partition *partition = guard->partition;
    if (partition == NULL) return;
    pthread_mutex_lock(&partition->mutex);
    guard_off(partition, guard);
    pthread_mutex_unlock(&partition->mutex);
    guard->partition = NULL;
    broker_partition_put(partition);
}

bool broker_verify_holds(struct broker_partition *partition, struct broker_produce_part *part)
{
    bool holds = !part->only_open || is_open_here(partition, part->verdict.info.producer_id, part->verdict.info.producer_epoch);
    /* it stays on until its ask is answered: the next batch may hold the rest of it */
    for (struct broker_txn_guard *guard = part->guards; guard != NULL; guard = guard->also) holds &= !guard->stale;
    return holds;
}

bool broker_verify_of_epoch(const struct broker_partition *partition, const struct broker_produce_part *part)
{
    bool same = (part->verify_epoch < 0 || part->verify_epoch == partition->leader_epoch) && (!part->of_epoch || part->epoch == partition->leader_epoch);
    for (const struct broker_txn_guard *guard = part->guards; guard != NULL; guard = guard->also) same &= guard->partition != partition || guard->leader_epoch == partition->leader_epoch;
    return same;
}

bool broker_verify_begin(struct broker_produce_part *part)
{
    const struct broker_produce *produce = part->call;
    const struct eng_batch_info *info = &part->verdict.info;
    struct broker_partition *partition = part->owner;
    if (produce->origin != ENG_ORIGIN_CLIENT || !partition->core->transactions_verified) return false;
    if (produce->api_version < VERSION_ADDS && !broker_config_current(partition->core->config)->transaction_partition_verification_enable) return false;
    pthread_mutex_lock(&partition->mutex);
    const bool open = atomic_load(&partition->stage) == BROKER_PARTITION_OPEN && partition->is_leader && !partition->lane_closed;
    const bool known = open && is_open_here(partition, info->producer_id, info->producer_epoch);
    if (open && !known) {
        part->verifying = true;
        part->verify_epoch = partition->leader_epoch;
        part->prev = NULL;
        part->next = partition->verify_first;
        if (part->next != NULL) part->next->prev = part;
        partition->verify_first = part;
    }
    part->only_open = known;
    pthread_mutex_unlock(&partition->mutex);
    return part->verifying;
}

/* With version 2 a marker has an epoch above that of what it ends: one that is not above belongs to a transaction before, whose end the coordinator lets the next one wait
 * for. Without, the epochs are the same, and nobody can tell. */
static bool may_end(const struct broker_produce_part *marker, int64_t producer_id, int16_t producer_epoch)
{
    const struct eng_batch_info *info = &marker->verdict.info;
    return info->producer_id == producer_id && (marker->call->transaction_version < 2 || info->producer_epoch > producer_epoch);
}

void broker_verify_marker(struct broker_partition *partition, const struct broker_produce_part *marker)
{
    for (struct broker_produce_part *part = partition->verify_first; part != NULL; part = part->next)
        part->verify_stale |= may_end(marker, part->verdict.info.producer_id, part->verdict.info.producer_epoch);
    for (struct broker_txn_guard *guard = partition->guards; guard != NULL; guard = guard->next) guard->stale |= may_end(marker, guard->producer_id, guard->producer_epoch);
}

bool broker_verify_end(struct broker_partition *partition, struct broker_produce_part *part)
{
    if (part->prev != NULL) part->prev->next = part->next;
    else partition->verify_first = part->next;
    if (part->next != NULL) part->next->prev = part->prev;
    part->next = part->prev = NULL;
    part->verifying = false;
    return !part->verify_stale;
}

/* The coordinator's words as producers of this version know them. NOT_ENOUGH_REPLICAS is what old ones repeat without asking for new metadata. */
static void judge(struct broker_produce_part *part, enum ot_err err)
{
    const int16_t version = part->call->api_version;
    switch (err) {
    case OT_OK: return;
    case OT_ERR_CONCURRENT_TRANSACTIONS:
        part->error = version >= VERSION_ADDS ? err : OT_ERR_NOT_ENOUGH_REPLICAS;
        break;
    case OT_ERR_COORDINATOR_LOAD_IN_PROGRESS:
    case OT_ERR_COORDINATOR_NOT_AVAILABLE:
    case OT_ERR_NOT_COORDINATOR: part->error = OT_ERR_NOT_ENOUGH_REPLICAS; break;
    case OT_ERR_PRODUCER_FENCED: part->error = OT_ERR_INVALID_PRODUCER_EPOCH; break;
    case OT_ERR_TRANSACTION_ABORTABLE: part->error = version >= VERSION_ABORTABLE ? err : OT_ERR_INVALID_TXN_STATE; break;
    default: part->error = err; break;
    }
    (void)snprintf(part->text, sizeof part->text, "the transaction coordinator: %s", ot_err_text(err));
}

/* One transactional id in a request means one producer. */
static bool is_same_producer(const struct broker_produce_part *a, const struct broker_produce_part *b)
{
    return a->verdict.info.producer_id == b->verdict.info.producer_id && a->verdict.info.producer_epoch == b->verdict.info.producer_epoch;
}

static void tell_all(struct broker_produce *produce, const struct verify *verify, enum ot_err err)
{
    const struct broker_produce_part *first = NULL;
    uint32_t at = 0;
    const uint32_t count = produce->part_count;        /* the call may be gone with its last part */
    struct broker_produce_part *parts = produce->parts;
    uint32_t open = 0;
    for (uint32_t i = 0; i < count; i++) open += parts[i].verifying ? 1 : 0;
    for (uint32_t i = 0; i < count && open > 0; i++) {
        struct broker_produce_part *part = &parts[i];
        if (!part->verifying) continue;
        if (first == NULL) first = part;
        const bool other = !is_same_producer(first, part);
        judge(part, other ? OT_ERR_INVALID_PRODUCER_ID_MAPPING : verify == NULL || err != OT_OK ? err : verify->places[at].error);
        at += other ? 0 : 1;
        open--;
        broker_produce_verified(part);
    }
}

static void verified(struct broker_call *call)
{
    struct verify *verify = OT_CONTAINER(call, struct verify, txn.call);
    tell_all(verify->produce, verify, verify->txn.request.error);
    free(verify);
}

void broker_verify_start(struct broker *broker, struct broker_produce *produce)
{
    const struct broker_produce_part *first = NULL;
    struct verify *verify = calloc(1, sizeof *verify + produce->part_count * sizeof verify->places[0]);    /* once per transaction and partition */
    uint32_t count = 0;
    if (verify == NULL) {
        tell_all(produce, NULL, OT_ERR_NO_MEMORY);
        return;
    }
    for (uint32_t i = 0; i < produce->part_count; i++) {
        const struct broker_produce_part *part = &produce->parts[i];
        if (!part->verifying) continue;
        if (first == NULL) first = part;
        if (is_same_producer(first, part)) verify->places[count++] = (struct coord_txn_place){ .topic = ot_str_of(part->owner->topic->name), .partition = part->partition };
    }
    const bool adds = produce->api_version >= VERSION_ADDS;
    verify->produce = produce;
    verify->txn = (struct broker_txn){ .call = { .home = produce->call.home, .done = verified },
        .request = coord_txn_request_default(adds ? COORD_TXN_ADD : COORD_TXN_VERIFY, produce->transactional_id) };
    verify->txn.request.producer_id = first->verdict.info.producer_id;
    verify->txn.request.producer_epoch = first->verdict.info.producer_epoch;
    verify->txn.request.version = adds ? 2 : 0;
    verify->txn.request.places = verify->places;
    verify->txn.request.place_count = count;
    verify->txn.anywhere = true;
    broker_txn(broker, &verify->txn);
}
