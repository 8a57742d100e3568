/* What the dirty entries of a set have for their reader, within the size limits: offsets, errors, and spans of the log. */
#include "broker/fetch_set.h"
#include <string.h>

static void row_error(struct broker_fetch_row *row, enum ot_err error)
{
    row->error = error;
    row->high_watermark = row->last_stable_offset = row->log_start_offset = -1;
}

static bool in_isr(const struct broker_partition *partition, int32_t id)
{
    const struct coord_partition *row = &partition->replica.row;
    return partition->replica.applied && (coord_replica_bit(row, id) & row->isr) != 0;
}

/* What a follower asks for says what it has (once per fetch), and whether its history is ours. True: the row is complete. */
static enum ot_err admit_follower(const struct broker_fetch *fetch, struct broker_fetch_node *node, struct broker_fetch_row *row, struct broker_produce_part **done)
{
    struct broker_partition *partition = node->partition;
    const struct replica_epoch_end found = broker_follow_parts(partition, node->last_epoch, node->log_start_offset);
    struct replica_fetch told = { .follower = fetch->replica_id, .broker_epoch = fetch->replica_epoch, .leader_epoch = node->leader_epoch, .offset = node->offset,
        .flushed_end = node->flushed_end, .log_start = node->log_start_offset, .matches = !replica_diverges(node->offset, node->last_epoch, found) };
    node->log_end = partition->state_end;
    row->throttled = partition->throttled_leader;
    node->throttled = row->throttled && !in_isr(partition, fetch->replica_id);
    if (!told.matches) {
        row->diverging_epoch = found.epoch;
        row->diverging_end_offset = found.end;
    }
    if (node->counted) return OT_OK;
    const enum ot_err err = replica_fetched(&partition->replica, &told, (uint64_t)fetch->started_us);
    node->counted = node->holds = err == OT_OK;
    node->told = told;
    node->told_us = fetch->started_us;
    if (err == OT_OK) broker_partition_advance(partition, done);
    return err;
}

/* KIP-392: consumers that say where they are. */
static bool is_near(const struct broker_fetch *fetch)
{
    return !fetch->follower && fetch->replica_id < 0 && fetch->api_version >= 11 && !fetch->rack.null && fetch->rack.bytes > 0;
}

/* A replica in sync that has what is asked for, in the consumer's rack; -1: this one will do. */
static int32_t near_replica(const struct broker_fetch *fetch, const struct broker_fetch_node *node)
{
    static const char rack_aware[] = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
    struct broker_partition *partition = node->partition;
    struct broker_core *core = partition->core;
    const char *selector = broker_config_current(core->config)->replica_selector_class;
    int32_t ids[COORD_REPLICAS_MAX], count = 0;
    if (selector == NULL || strcmp(selector, rack_aware) != 0 || core->broker_in_rack == NULL || core->broker_in_rack(core, core->node_id, fetch->rack)) return -1;
    pthread_mutex_lock(&partition->mutex);
    const struct replica *replica = &partition->replica;
    for (int32_t i = 0; replica->role == REPLICA_LEADER && i < replica->row.replica_count; i++) {
        const struct replica_peer *peer = &replica->peers[i];
        const bool has = peer->end >= node->offset && peer->log_start <= node->offset;         /* retention runs on each replica by itself: its log may begin behind ours */
        if (peer->id != core->node_id && (replica->row.isr >> i & 1) != 0 && peer->live && has) ids[count++] = peer->id;
    }
    pthread_mutex_unlock(&partition->mutex);
    for (int32_t i = 0; i < count; i++)
        if (core->broker_in_rack(core, ids[i], fetch->rack)) return ids[i];
    return -1;
}

/* What the partition's role says; true: go on and read. */
static bool admit(const struct broker_fetch *fetch, struct broker_fetch_node *node, struct broker_fetch_row *row)
{
    struct broker_partition *partition = node->partition;
    if (partition == NULL) {
        const struct ot_str by_id = { .null = true };
        row_error(row, broker_partition_missing(fetch->broker, node->by_id ? by_id : node->topic, &node->topic_id, node->index));
        return false;
    }
    enum ot_err error = OT_OK;
    struct broker_produce_part *done = NULL;
    pthread_mutex_lock(&partition->mutex);
    int stage = atomic_load(&partition->stage);
    if (stage == BROKER_PARTITION_OFFLINE) error = OT_ERR_KAFKA_STORAGE_ERROR;
    else if (stage == BROKER_PARTITION_REMOVED) error = OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    else if (stage == BROKER_PARTITION_OPENING) error = OT_ERR_NOT_LEADER_OR_FOLLOWER;
    else if (!partition->is_leader && (!is_near(fetch) || partition->replica.role != REPLICA_FOLLOWER || partition->cutting)) error = OT_ERR_NOT_LEADER_OR_FOLLOWER;
    else if (node->leader_epoch >= 0 && node->leader_epoch < partition->leader_epoch) error = OT_ERR_FENCED_LEADER_EPOCH;
    else if (node->leader_epoch > partition->leader_epoch) error = OT_ERR_UNKNOWN_LEADER_EPOCH;
    if (error == OT_OK && fetch->follower) error = admit_follower(fetch, node, row, &done);
    node->unshown = error == OT_OK && partition->isr_count <= 1 && (partition->flush_busy || partition->flush_later);
    if (error == OT_ERR_NOT_LEADER_OR_FOLLOWER || error == OT_ERR_FENCED_LEADER_EPOCH) {
        row->leader_id = partition->leader_id;
        row->leader_epoch = partition->leader_epoch;
    }
    pthread_mutex_unlock(&partition->mutex);
    broker_parts_complete(done);
    if (stage == BROKER_PARTITION_OPENING) broker_partition_wanted(partition);
    if (error == OT_OK && fetch->api_version < 10) {
        const struct broker_topic_config *config = atomic_load_explicit(&partition->topic->config, memory_order_acquire);
        if (strcmp(config->compression_type, "zstd") == 0) error = OT_ERR_UNSUPPORTED_COMPRESSION_TYPE;
    }
    if (error != OT_OK) row_error(row, error);
    return error == OT_OK;
}

/* KIP-595's check: where the reader's history leaves ours. True: the row is complete. */
static bool diverges(struct broker_fetch_node *node, struct broker_fetch_row *row)
{
    if (node->last_epoch < 0) return false;
    const struct eng_epoch_end end = broker_follow_end(node->partition, node->last_epoch);
    if (end.epoch < 0) {
        row_error(row, OT_ERR_OFFSET_OUT_OF_RANGE);
        return true;
    }
    if (end.epoch >= node->last_epoch && end.end_offset >= node->offset) return false;
    row->diverging_epoch = end.epoch;
    row->diverging_end_offset = end.end_offset;
    return true;
}

static enum ot_err aborted(struct broker_fetch *fetch, struct broker_fetch_node *node, struct broker_fetch_row *row)
{
    struct eng_log *log = node->partition->log;
    uint32_t count = 0, max = 0;
    row->aborted_count = 0;
    if (row->read.bytes == 0 || !eng_log_has_aborted(log)) return OT_OK;
    struct eng_aborted *list = NULL;
    for (int round = 0; round < 3; round++) {
        enum ot_err err = eng_log_aborted(log, node->offset, row->read.next_offset_hint, list, max, &count);
        if (err != OT_OK) return err;
        if (count <= max) break;
        max = count + 8;
        list = ot_arena_array(fetch->arena, max, sizeof(*list));
        if (list == NULL) return OT_ERR_NO_MEMORY;
    }
    row->aborted = list;
    row->aborted_count = (int32_t)OT_MIN(count, max);
    return OT_OK;
}

static bool is_held(struct broker_core *core)
{
    const int64_t rate = broker_config_current(core->config)->leader_replication_throttled_rate;
    return broker_throttle_wait_us(&core->throttles.leader, rate, ot_exec_now_us(core->background_exec)) > 0;
}

static enum ot_err read_node(struct broker_fetch *fetch, struct broker_fetch_node *node, struct broker_fetch_row *row, uint32_t room, bool first, bool may_block)
{
    struct broker_partition *partition = node->partition;
    struct eng_log *log = partition->log;
    row->log_start_offset = eng_log_start_offset(log);
    row->high_watermark = atomic_load_explicit(&partition->high_watermark, memory_order_acquire);
    row->last_stable_offset = atomic_load_explicit(&partition->last_stable_offset, memory_order_acquire);
    if (fetch->follower ? row->diverging_end_offset >= 0 : diverges(node, row)) return OT_OK;
    if (fetch->follower && node->throttled && node->offset < node->log_end && is_held(partition->core)) {
        node->behind = true;                   /* it asks again */
        return OT_OK;
    }
    if (is_near(fetch) && (row->preferred_replica = near_replica(fetch, node)) >= 0) return OT_OK;     /* there, and nothing from here */
    if (fetch->read_committed && eng_log_has_aborted(log) && !may_block) return OT_ERR_BUSY;
    struct eng_read how = {
        .offset = node->offset,
        .limit_offset = fetch->follower ? node->log_end : fetch->read_committed ? row->last_stable_offset : row->high_watermark,
        .max_bytes = OT_MIN((uint32_t)OT_MAX(node->max_bytes, 0), room),
        .min_one = first,
        .may_block = may_block,
    };
    enum ot_err err = eng_log_read(log, &how, &row->read);
    node->behind = node->offset < how.limit_offset;
    fetch->unshown |= node->unshown && node->offset >= row->high_watermark && node->offset < eng_log_end_offset(log);
    if (err == OT_ERR_BUSY) return err;
    if (err == OT_OK && fetch->read_committed) err = aborted(fetch, node, row);
    if (err == OT_ERR_CORRUPT) broker_metrics_corrupt(partition->core, 1);
    if (err == OT_ERR_CLOSED) err = OT_ERR_NOT_LEADER_OR_FOLLOWER;       /* deleted or stopping under us */
    if (err == OT_ERR_IO) err = OT_ERR_KAFKA_STORAGE_ERROR;
    if (err != OT_OK) {
        if (row->read.pin != NULL) row->read.pin->release(row->read.pin);
        memset(&row->read, 0, sizeof(row->read));
        const int64_t start = row->log_start_offset;
        row_error(row, err);
        if (fetch->follower && err == OT_ERR_OFFSET_OUT_OF_RANGE) row->log_start_offset = start;       /* where it can go on */
    }
    return OT_OK;
}

static void drop_rows(struct broker_fetch *fetch)
{
    for (uint32_t i = 0; i < fetch->row_count; i++) {
        struct ot_pin *pin = fetch->rows[i].read.pin;
        if (pin != NULL) pin->release(pin);
        fetch->rows[i].read.pin = NULL;
    }
    fetch->row_count = 0;
    fetch->bytes = 0;
}

/* A follower says which high watermark it knows and where its log begins: an answer may have come to nothing there. What lies behind the records that it has it cannot take, and
 * would ask for again at once. */
static bool follower_knows(const struct broker_fetch_node *node, const struct broker_fetch_row *row)
{
    const int64_t high_watermark = OT_MAX(node->known_high_watermark, OT_MIN(row->high_watermark, node->offset));
    return high_watermark <= node->known_high_watermark && OT_MIN(row->log_start_offset, high_watermark) <= node->log_start_offset;
}

/* Does an incremental answer have to hold this row? */
static bool told(const struct broker_fetch_node *node, const struct broker_fetch_row *row)
{
    if (row->error != OT_OK || row->read.bytes > 0 || row->diverging_end_offset >= 0 || row->preferred_replica >= 0) return false;
    if (node->set->follower) return follower_knows(node, row);
    return node->known && row->high_watermark == node->sent_high_watermark && row->log_start_offset == node->sent_log_start;
}

enum ot_err broker_fetch_read(struct broker_fetch *fetch, bool may_block, bool *answer_now)
{
    struct broker_fetch_set *set = fetch->set;
    drop_rows(fetch);
    broker_fetch_collect(set);
    *answer_now = fetch->unshown = false;
    if (set->dirty_count > fetch->rows_cap) {  /* doubled: one that waits is woken by one partition after the other, and the arena keeps what it gave */
        const uint32_t cap = OT_MIN(OT_MAX(set->dirty_count, fetch->rows_cap * 2), set->node_count);
        fetch->rows = ot_arena_array(fetch->arena, cap, sizeof(*fetch->rows));
        if (fetch->rows == NULL) return OT_ERR_NO_MEMORY;
        fetch->rows_cap = cap;
    }
    uint32_t room = (uint32_t)OT_MAX(OT_MIN(fetch->max_bytes, broker_config(fetch->broker)->fetch_max_bytes), 0);
    struct broker_fetch_node *next;
    for (struct broker_fetch_node *node = set->dirty_first; node != NULL; node = next) {
        struct broker_fetch_row *row = &fetch->rows[fetch->row_count];
        next = node->dirty_next;
        node->row = -1;
        node->behind = false;
        memset(row, 0, sizeof(*row));
        row->partition = node->index;
        row->diverging_epoch = row->leader_id = row->leader_epoch = row->preferred_replica = row->aborted_count = -1;
        row->diverging_end_offset = row->read.first_base_offset = -1;
        broker_fetch_node_resolve(fetch->broker, node);
        row->topic = node->topic;
        row->topic_id = node->by_id || node->partition == NULL ? node->topic_id : node->partition->topic->id;
        if (admit(fetch, node, row)) {
            enum ot_err err = read_node(fetch, node, row, room, fetch->bytes == 0, may_block);
            if (err != OT_OK) {
                drop_rows(fetch);
                return err;
            }
        }
        row->counted = node->partition == NULL ? NULL : node->partition->topic;
        fetch->bytes += row->read.bytes;
        room = row->read.bytes >= room ? 0 : room - row->read.bytes;
        if (row->error != OT_OK || row->diverging_end_offset >= 0 || row->preferred_replica >= 0) *answer_now = true;
        if (fetch->follower && row->error == OT_OK && !follower_knows(node, row)) *answer_now = true;
        if (!set->incremental || !told(node, row)) node->row = (int32_t)fetch->row_count++;
        else if (!node->behind) broker_fetch_clean(node);      /* nothing to say until it is signalled */
    }
    return OT_OK;
}
