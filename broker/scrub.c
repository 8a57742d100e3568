/* Cold segments are read again now and then, so that a disk that forgets is found out while another replica still has the bytes (coordinator.md §11).
 *
 *   damaged ──► a follower ─────────────────────────► lost: out of the ISR, wiped, fetched anew (partition.c, apply.c)
 *          ├──► the leader, others in sync ─► takes no more, until they have all ─► lost likewise; one of them leads
 *          └──► nobody else in sync ─► told, and served on: what is whole is the best there is. Looked at again in the next pass
 * Nothing is ever cut off for it. Not while the ISR would become too small for acks=all and a replica is missing that may come back: that is waited for. */
#include "broker/core.h"
#include "base/log.h"
#include "base/util.h"
#include "broker/events.h"
#include "broker/replication.h"
#include "broker/room.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum { NAP_MS = 50, NAP_MAX_MS = 1000, YIELD_MS = 5000, FIRST_MS = 60000 };

static const struct broker_config *config_of(const struct broker *broker) { return broker_config_current(broker->setup.config); }

/* False: it is to end. */
static bool nap(struct broker *broker, int64_t us)
{
    struct broker_scrub *scrub = &broker->scrub;
    const struct timespec until = broker_until((uint32_t)OT_MIN(OT_MAX(us / 1000, 1), (int64_t)NAP_MAX_MS));
    pthread_mutex_lock(&scrub->mutex);
    if (!scrub->stopping) (void)pthread_cond_clockwait(&scrub->changed, &scrub->mutex, CLOCK_MONOTONIC, &until);
    const bool goes_on = !scrub->stopping;
    pthread_mutex_unlock(&scrub->mutex);
    return goes_on;
}

/* Bytes are paid for before the next are read; nothing is saved up while it slept. */
static bool go_on(void *arg, uint64_t bytes)
{
    struct broker *broker = arg;
    struct broker_scrub *scrub = &broker->scrub;
    scrub->due_us = OT_MAX(scrub->due_us, ot_clock_boot_us() - 2 * NAP_MS * 1000);
    for (;;) {
        const int64_t rate = config_of(broker)->ottla_scrub_bytes_per_second;
        if (rate <= 0) return false;           /* switched off meanwhile */
        const int64_t now_us = ot_clock_boot_us();
        if (now_us >= scrub->due_us) {
            scrub->due_us += (int64_t)((double)bytes * 1e6 / (double)rate);
            return true;
        }
        if (!nap(broker, OT_MAX(scrub->due_us - now_us, NAP_MS * 1000))) return false;
    }
}

/* ---- what to do about it */

enum remedy { REMEDY_LOSE, REMEDY_YIELD, REMEDY_NOBODY, REMEDY_LATER };

/* Mutex held. */
static enum remedy remedy_of(const struct broker_partition *partition)
{
    const struct replica *replica = &partition->replica;
    const struct coord_partition *row = &replica->row;
    if (partition->core->replication == NULL || !replica->applied || row->replica_count <= 1) return REMEDY_NOBODY;
    const uint64_t self = coord_replica_bit(row, partition->core->node_id), others = row->isr & ~self;
    const int32_t left = __builtin_popcountll(others);
    if (left == 0 || row->leader < 0 || partition->next_role != NULL) return left == 0 ? REMEDY_NOBODY : REMEDY_LATER;
    if ((row->isr & self) != 0 && left < row->min_isr && row->isr != coord_all_replicas(row)) return REMEDY_LATER;
    return replica->role == REPLICA_LEADER ? REMEDY_YIELD : REMEDY_LOSE;
}

/* Mutex held: do the others in sync have all that this leader has? */
static bool others_have_all(const struct broker_partition *partition)
{
    const struct replica *replica = &partition->replica;
    for (int32_t i = 0; i < replica->row.replica_count; i++)
        if ((replica->row.isr >> i & 1) != 0 && replica->peers[i].id != replica->self && replica->peers[i].end < replica->log_end) return false;
    return partition->queue_first == NULL && !partition->lane_busy;
}

/* From here on it takes no records, until the others in sync have what it took. True: they have. */
static bool yield(struct broker *broker, struct broker_partition *partition)
{
    const int64_t end_us = ot_clock_boot_us() + YIELD_MS * 1000;
    for (;;) {
        pthread_mutex_lock(&partition->mutex);
        const bool open = atomic_load(&partition->stage) == BROKER_PARTITION_OPEN && remedy_of(partition) == REMEDY_YIELD;
        const bool done = open && others_have_all(partition), over = !open || ot_clock_boot_us() > end_us;
        partition->yielding = !over || done;
        pthread_mutex_unlock(&partition->mutex);
        if (done || over) return done;
        (void)nap(broker, 5000);
    }
}

static void tell(struct broker *broker, const struct broker_partition *partition, const struct eng_scrub_fault *fault)
{
    struct broker_event_fields fields;
    struct broker_event event = broker_event_of(BROKER_EVENT_RECORDS_REPAIRED);
    broker_event_fields_init(&fields);
    broker_event_int(&fields, "from_offset", fault->offset);
    broker_event_int(&fields, "segment", fault->base_offset);
    event.topic = ot_str_of(partition->topic->name);
    event.partition = partition->index;
    event.broker = broker->node_id;
    event.reason = "damage_found";
    event.fields = &fields;
    (void)broker_event(broker, &event);        /* not taken: the log has a line, and the ISR's changes are events too */
}

static void mend(struct broker *broker, struct broker_partition *partition, const struct eng_scrub_fault *fault)
{
    pthread_mutex_lock(&partition->mutex);
    enum remedy remedy = atomic_load(&partition->stage) == BROKER_PARTITION_OPEN ? remedy_of(partition) : REMEDY_LATER;
    pthread_mutex_unlock(&partition->mutex);
    if (remedy == REMEDY_YIELD) remedy = yield(broker, partition) ? REMEDY_LOSE : REMEDY_LATER;
    if (remedy == REMEDY_LOSE) {
        broker_partition_went_offline(partition, OT_ERR_CORRUPT);
        tell(broker, partition, fault);
        return;
    }
    ot_log(OT_LOG_ERROR, "log", "damage_stays", "topic=%s partition=%d text=\"%s\"", partition->topic->name, partition->index,
        remedy == REMEDY_NOBODY ? "no other replica is in sync that it could be fetched from: it is served as it is" : "its replicas are not as they should be now: the next scrub looks again");
}

static void look_at(struct broker *broker, struct broker_partition *partition)
{
    int64_t base = 0;
    struct eng_scrub_fault fault;
    enum ot_err err = OT_OK;
    while (err == OT_OK && atomic_load(&partition->stage) == BROKER_PARTITION_OPEN) err = eng_log_scrub(partition->log, &base, go_on, broker, &fault);
    if (err != OT_ERR_CORRUPT || atomic_load(&partition->stage) != BROKER_PARTITION_OPEN) return;
    broker_metrics_corrupt(partition->core, 1);
    ot_log(OT_LOG_ERROR, "log", "damage_found", "topic=%s partition=%d offset=%" PRId64 " segment=%" PRId64 " pos=%" PRIu64 " text=\"a stored batch is not what was stored\"", partition->topic->name,
        partition->index, fault.offset, fault.base_offset, fault.pos);
    mend(broker, partition, &fault);
}

/* ---- passes */

static bool is_wanted(struct broker *broker)
{
    pthread_mutex_lock(&broker->scrub.mutex);
    const bool wanted = !broker->scrub.stopping;
    pthread_mutex_unlock(&broker->scrub.mutex);
    return wanted;
}

static void pass(struct broker *broker)
{
    uint32_t count = 0;
    struct broker_partition **list = broker_partitions_copy(broker_core_of(broker), &count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        if (is_wanted(broker) && config_of(broker)->ottla_scrub_bytes_per_second > 0 && atomic_load(&list[i]->stage) == BROKER_PARTITION_OPEN) look_at(broker, list[i]);
        broker_partition_put(list[i]);
    }
    free(list);
}

static void run(struct ot_task *task)
{
    struct broker *broker = OT_CONTAINER(task, struct broker, scrub.task);
    int64_t next_us = ot_clock_boot_us() + OT_MIN(config_of(broker)->ottla_scrub_interval_ms, FIRST_MS) * 1000;
    while (nap(broker, next_us - ot_clock_boot_us())) {
        if (ot_clock_boot_us() < next_us || config_of(broker)->ottla_scrub_bytes_per_second <= 0) continue;
        next_us = ot_clock_boot_us() + OT_MIN(config_of(broker)->ottla_scrub_interval_ms, INT64_MAX / 2000) * 1000;
        pass(broker);
    }
}

void broker_scrub_init(struct broker *broker)
{
    pthread_mutex_init(&broker->scrub.mutex, NULL);
    pthread_cond_init(&broker->scrub.changed, NULL);
}

void broker_scrub_free(struct broker *broker)
{
    pthread_mutex_destroy(&broker->scrub.mutex);
    pthread_cond_destroy(&broker->scrub.changed);
}

void broker_scrub_start(struct broker *broker)
{
    const enum ot_err err = ot_exec_thread_start("scrub", &broker->scrub.thread);
    if (err != OT_OK) {
        ot_log(OT_LOG_WARN, "log", "no_scrub", "error=%s", ot_err_name(err));
        return;
    }
    broker->scrub.task.run = run;
    ot_exec_post(ot_exec_thread_exec(broker->scrub.thread), &broker->scrub.task);
}

void broker_scrub_stop(struct broker *broker)
{
    pthread_mutex_lock(&broker->scrub.mutex);
    broker->scrub.stopping = true;
    pthread_cond_broadcast(&broker->scrub.changed);
    pthread_mutex_unlock(&broker->scrub.mutex);
    ot_exec_thread_stop(broker->scrub.thread);
    broker->scrub.thread = NULL;
}
