/* Arrays that follow the logs record by record: what replication/check.c looks at. */
#include "world.h"

#include <stdio.h>
#include <string.h>

enum { READ_BYTES = 1 << 17, IN_WRITE_MAX = 256 /* batches that a crash may find written and not yet shown */ };

/* The records of [from, to) go to take. */
static void each(struct whole *whole, uint32_t index, uint32_t partition, int64_t from, int64_t to, void (*take)(struct whole *whole, uint32_t index, uint32_t partition, int64_t offset, struct record record))
{
    static uint8_t data[READ_BYTES];
    while (from < to) {
        size_t bytes = server_read(whole->hosts[index].server, (int32_t)partition, from, to, data, sizeof data);
        struct ot_reader cursor = ot_reader_over(data, bytes);
        struct eng_batch_piece piece;
        struct eng_batch_info info;
        CHECK(bytes > 0);
        while (from < to && eng_batch_split(&cursor, &piece) == OT_OK) {
            CHECK(eng_batch_parse(piece.data, piece.bytes, &info) == OT_OK && info.base_offset == from);
            take(whole, index, partition, from, batch_record(&piece, &info));
            from++;
        }
        whole->w.read++;
    }
}

static void taken_over(struct whole *whole, uint32_t index, uint32_t partition, int64_t offset, struct record record)
{
    struct held *held = &whole->w.brokers[index].held[partition];
    CHECK(offset >= OT_MAX(held->end, whole->hosts[index].mirrors[partition].was) || (held->log[offset].id == record.id && held->log[offset].epoch == record.epoch));
    held->log[offset] = record;
}

/* In the log of whoever led, before anybody else has it. */
static void taken(struct whole *whole, uint32_t partition, int64_t offset, struct record record)
{
    struct world *w = &whole->w;
    const uint64_t id = record.id & ~PRODUCED;
    CHECK(id < IDS_MAX);
    if (!whole->taken[id].is) {
        whole->taken[id] = (struct taken){ .is = true, .late = w->last_append_epoch[partition] > record.epoch, .epoch = record.epoch, .offset = offset };
    }
    w->last_append_epoch[partition] = OT_MAX(w->last_append_epoch[partition], record.epoch);
}

static void appended(struct whole *whole, uint32_t index, uint32_t partition, int64_t offset, struct record record)
{
    struct world *w = &whole->w;
    struct broker *broker = &w->brokers[index];
    struct held *held = &broker->held[partition];
    const struct replica *replica = &held->replica;
    CHECK(offset < LOG_MAX && record.epoch < LOG_MAX);
    held->log[offset] = record;
    held->end = offset + 1;
    check_append(w, broker, partition, offset);
    taken(whole, partition, offset, record);
    if (replica->role == REPLICA_LEADER && record.epoch == replica->row.leader_epoch) {
        HOLDS(13, w->appends_of[partition][record.epoch] == 0 || w->appends_of[partition][record.epoch] == broker->id);
        w->appends_of[partition][record.epoch] = broker->id;
        w->appended++;
    }
}

/* What lies below a start is what was committed, as a crash may put the start back. What has no file any more is so by definition, and the array has it. */
static void begins(struct whole *whole, uint32_t index, uint32_t partition, int64_t start)
{
    struct world *w = &whole->w;
    struct held *held = &w->brokers[index].held[partition];
    const int64_t base = OT_MIN(server_log_base(whole->hosts[index].server, (int32_t)partition), start);
    HOLDS(30, start <= w->committed_most[partition]);
    for (int64_t at = 0; at < start; at++) {
        HOLDS(16, at < base || held->log[at].id == w->committed[partition][at].id);
        held->log[at] = w->committed[partition][at];
    }
    held->end = OT_MAX(held->end, start);
}

static void started(struct whole *whole, uint32_t index, uint32_t partition, const struct server_log *log)
{
    struct held *held = &whole->w.brokers[index].held[partition];
    HOLDS(30, log->start >= held->start || log->end < held->start);
    if (held->start == log->start && held->end >= log->start) {
        return;
    }
    begins(whole, index, partition, log->start);
    held->start = log->start;
    check_start(&whole->w, held, partition);
}

/* What came up against what was promised. */
static void take_over(struct whole *whole, uint32_t index, uint32_t partition, const struct server_log *log)
{
    struct world *w = &whole->w;
    struct broker *broker = &w->brokers[index];
    struct held *held = &broker->held[partition];
    struct mirror *mirror = &whole->hosts[index].mirrors[partition];
    int64_t least = mirror->cutting ? 0 : mirror->machine ? held->flushed : held->end, before = held->end, most = OT_MAX(OT_MAX(before, mirror->was), log->start) + IN_WRITE_MAX;
    if (log->end < least || (log->end > most && !(mirror->cutting && before == 0))) {
        fprintf(stderr, "broker %d partition %u: [%lld, %lld] was promised, %lld came up (machine %d)\n", broker->id, partition, (long long)least, (long long)before, (long long)log->end,
            mirror->machine);
    }
    HOLDS(18, log->end >= least);
    CHECK(log->end <= most || (mirror->cutting && before == 0));        /* the last: it was moved away, and its files were to go */
    held->told_start = mirror->cutting ? 0 : held->told_start;
    held->start = log->start;
    begins(whole, index, partition, log->start);
    check_start(w, held, partition);
    each(whole, index, partition, log->start, log->end, taken_over);
    held->end = log->end;
    for (int64_t at = before; at < held->end; at++) {
        check_append(w, broker, partition, at);
        taken(whole, partition, at, held->log[at]);
    }
    *mirror = (struct mirror){ .seen = true };
    held->unseen = false;
}

static void look(struct whole *whole, uint32_t index, uint32_t partition)
{
    struct world *w = &whole->w;
    struct broker *broker = &w->brokers[index];
    struct held *held = &broker->held[partition];
    struct mirror *mirror = &whole->hosts[index].mirrors[partition];
    struct server_log log;
    server_log(whole->hosts[index].server, (int32_t)partition, &log);
    held->offline = log.offline;
    if (!log.open) {
        if (!log.hosted && (mirror->seen || (log.applied && held->end > 0))) {      /* not its any more, or no more since it was down: the files go */
            held->end = held->flushed = held->start = held->told_start = 0;
            held->truncations++;
            held->replica = (struct replica){ 0 };
            *mirror = (struct mirror){ .cutting = true };          /* and may come up again if it crashes before they have */
        }
        return;
    }
    if (!mirror->seen) {
        take_over(whole, index, partition, &log);
    }
    const int32_t epoch = held->replica.row.leader_epoch, role = held->replica.role;
    held->replica = *log.replica;
    if (held->replica.role == REPLICA_LEADER && (role != REPLICA_LEADER || epoch != held->replica.row.leader_epoch)) {
        w->elections++;
        held->seen_epoch = -1;
    }
    mirror->was = log.read_only ? OT_MAX(mirror->was, held->end) : 0;           /* given up: it takes nothing more, and what a cut left in its files comes up as it was */
    if (log.end < held->end) {
        w->truncated += (uint64_t)(held->end - log.end);
        held->end = log.end;
    }
    started(whole, index, partition, &log);
    each(whole, index, partition, held->end, log.end, appended);
    held->flushed = OT_MIN(log.flushed, held->end);
    check_watermark(w, broker, partition);
}

void mirror_look(struct whole *whole, uint32_t index)
{
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        look(whole, index, p);
    }
}

/* ---- what replication/operator.c wants of a log */

bool logs_flush(struct world *w, struct broker *broker, uint32_t partition)
{
    return server_flush(whole_of(w)->hosts[broker - w->brokers].server, (int32_t)partition);
}
