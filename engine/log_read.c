/* Reading: offsets to stretches of files. Under the mutex only: which segment, how long it is, and what the tail remembers; the index and the file are asked
 * outside. A read that finds its segment retired meanwhile begins again; each round sees a newer list, so it ends. */
#include "base/log.h"
#include "engine/log_inner.h"

#include <inttypes.h>
#include <stdlib.h>

#define HOT_BYTES (8ull << 20)             /* the end of an active segment that is taken to be in the page cache */
#define ROUNDS_MAX 100

/* ---- pins ---- */

struct eng_read_pin {
    struct ot_pin pin;
    struct eng_store *store;
    struct eng_read_pin *next_free;
    struct eng_segment *segments[ENG_READ_SPANS_MAX];
    uint32_t count;
};
struct eng_read_pin_chunk { struct eng_read_pin_chunk *next; struct eng_read_pin pins[64]; };

static void pin_free(struct eng_read_pin *pin)
{
    pthread_mutex_lock(&pin->store->lock);
    pin->next_free = pin->store->free_pins;
    pin->store->free_pins = pin;
    pthread_mutex_unlock(&pin->store->lock);
}

static void pin_release(struct ot_pin *base)
{
    struct eng_read_pin *pin = OT_CONTAINER(base, struct eng_read_pin, pin);
    for (uint32_t i = 0; i < pin->count; i++) {
        eng_segment_release(pin->segments[i], ENG_SEGMENT_LOG);
        eng_segment_unref(pin->segments[i]);
    }
    pin->count = 0;
    pin_free(pin);
}

/* From the free list; a chunk more when more reads than ever are in flight. */
static struct eng_read_pin *pin_new(struct eng_store *store)
{
    pthread_mutex_lock(&store->lock);
    if (store->free_pins == NULL) {
        struct eng_read_pin_chunk *chunk = calloc(1, sizeof *chunk);
        if (chunk != NULL) {
            chunk->next = store->pin_chunks;
            store->pin_chunks = chunk;
            for (uint32_t i = 0; i < OT_ARRAY_COUNT(chunk->pins); i++) {
                chunk->pins[i].pin.release = pin_release;
                chunk->pins[i].store = store;
                chunk->pins[i].next_free = store->free_pins;
                store->free_pins = &chunk->pins[i];
            }
        }
    }
    struct eng_read_pin *pin = store->free_pins;
    if (pin != NULL) store->free_pins = pin->next_free;
    pthread_mutex_unlock(&store->lock);
    return pin;
}

void eng_read_pins_free(struct eng_store *store)
{
    while (store->pin_chunks != NULL) {
        struct eng_read_pin_chunk *chunk = store->pin_chunks;
        store->pin_chunks = chunk->next;
        free(chunk);
    }
    store->free_pins = NULL;
}

/* ---- one segment's part ---- */

/* What the mutex guards of one segment, copied; and what the tail knows of the two offsets. */
struct part {
    struct eng_segment *seg;               /* referenced */
    uint64_t bytes;                        /* published size */
    int64_t end_offset, next_base;         /* next_base: of the following segment, -1 when active */
    bool active, start_known, limit_known;
    struct eng_tail_batch start, limit;    /* where known */
    uint64_t start_hint, limit_hint;
};

static void part_look(const struct eng_log *log, uint32_t slot, int64_t offset, int64_t limit, struct part *part)
{
    struct eng_segment *seg = log->segments[slot];
    *part = (struct part){ .seg = seg, .bytes = seg->bytes, .end_offset = seg->end_offset, .next_base = -1, .start_hint = UINT64_MAX, .limit_hint = UINT64_MAX };
    eng_segment_ref(seg);
    part->active = slot + 1 == log->segment_count;
    if (!part->active) part->next_base = log->segments[slot + 1]->base_offset;
    if (!part->active || log->tail == NULL) return;
    part->start_known = eng_tail_find(log->tail, offset, &part->start);
    part->limit_known = eng_tail_find(log->tail, limit, &part->limit);
    if (!part->start_known) (void)eng_tail_floor(log->tail, offset, &part->start_hint);
    if (!part->limit_known) (void)eng_tail_floor(log->tail, limit, &part->limit_hint);
}

/* Position of the first batch that is not wholly below limit. */
static enum ot_err part_limit(struct eng_log *log, const struct part *part, int64_t limit, uint64_t from_pos, bool may_block, uint64_t *pos_out)
{
    struct eng_found found;
    if (limit >= part->end_offset) {
        *pos_out = part->bytes;
        return OT_OK;
    }
    if (part->limit_known) {
        *pos_out = part->limit.pos;
        return OT_OK;
    }
    struct eng_find how = { limit, part->end_offset, part->bytes, part->limit_hint, may_block };
    enum ot_err err = eng_segment_find_as(part->seg, log->dir_path, &how, &found);
    if (err == OT_ERR_NOT_FOUND) *pos_out = part->bytes;
    else if (err == OT_OK) *pos_out = OT_MAX(found.pos, from_pos);
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

struct range { uint64_t pos, end; int64_t base_offset; uint64_t first_bytes; };

/* The stretch [pos, end) of this segment for offset..limit; end == pos: nothing of it here. first_bytes: of its first batch, 0 if not looked at. */
static enum ot_err part_range(struct eng_log *log, const struct part *part, int64_t offset, int64_t limit, bool first, bool may_block, struct range *out)
{
    struct eng_found found;
    enum ot_err err = OT_OK;
    *out = (struct range){ .base_offset = -1 };
    if (part->bytes == 0) return OT_OK;
    if (part->start_known) {
        out->pos = part->start.pos;
        out->base_offset = part->start.base_offset;
    } else if (first) {
        struct eng_find how = { offset, part->end_offset, part->bytes, part->start_hint, may_block };
        err = eng_segment_find_as(part->seg, log->dir_path, &how, &found);
        if (err == OT_ERR_NOT_FOUND) {     /* a hole up to the end of the segment */
            out->pos = out->end = part->bytes;
            return OT_OK;
        }
        if (err != OT_OK) return err;
        out->pos = found.pos;
        out->base_offset = found.info.base_offset;
        out->first_bytes = (uint64_t)found.info.batch_bytes;
    }
    err = part_limit(log, part, limit, out->pos, may_block, &out->end);
    if (err == OT_OK && out->end < out->pos) out->end = out->pos;
    return err;
}

/* How long the first batch is, when only its place is known. */
static enum ot_err first_batch(struct eng_log *log, const struct part *part, bool may_block, struct range *range)
{
    uint8_t header[ENG_BATCH_HEADER_BYTES];
    struct eng_batch_info info;
    int fd = -1;
    if (range->first_bytes > 0) return OT_OK;
    enum ot_err err = eng_segment_acquire(part->seg, log->dir_path, ENG_SEGMENT_LOG, may_block, &fd);
    if (err != OT_OK) return err;
    size_t some = (size_t)OT_MIN(part->bytes - range->pos, (uint64_t)sizeof header);
    if (!may_block && !log->io->ops->is_cached(log->io, fd, range->pos, some)) err = OT_ERR_BUSY;
    else err = ot_io_read_exact(log->io, fd, header, some, range->pos);
    eng_segment_release(part->seg, ENG_SEGMENT_LOG);
    if (err == OT_OK) err = eng_batch_parse(header, some, &info);
    if (err == OT_ERR_SHORT || err == OT_ERR_CORRUPT_MESSAGE) return OT_ERR_CORRUPT;
    if (err != OT_OK) return err;
    range->first_bytes = (uint64_t)info.batch_bytes;
    range->base_offset = info.base_offset;
    return OT_OK;
}

/* ---- the read ---- */

static enum ot_err add_span(struct eng_log *log, const struct part *part, const struct range *range, uint64_t bytes, bool may_block,
    struct eng_read_pin *pin, struct eng_read_result *out)
{
    int fd = -1;
    enum ot_err err = eng_segment_acquire(part->seg, log->dir_path, ENG_SEGMENT_LOG, may_block, &fd);
    if (err != OT_OK) return err;
    eng_segment_ref(part->seg);
    pin->segments[pin->count++] = part->seg;
    out->spans[out->span_count++] = (struct ot_span){
        .fd = fd, .bytes = (uint32_t)bytes, .pos = range->pos, .cold = !part->active || range->pos + HOT_BYTES < part->bytes,
    };
    out->bytes += (uint32_t)bytes;
    return OT_OK;
}

/* A lookup found that the index of a sealed segment lies: make it anew, once. The active one is made anew when it is opened next. */
static void mend_index(struct eng_log *log, const struct part *part)
{
    if (part->active || !atomic_exchange(&part->seg->index_doubted, false)) return;
    enum ot_err err = eng_segment_rebuild(part->seg, log->dir_path, part->bytes, eng_log_config_now(log).index_interval_bytes);
    if (err != OT_OK) ot_log(OT_LOG_WARN, "log", "index_unwritten", "dir=%s base_offset=%" PRId64 " error=%s", log->dir_path, part->seg->base_offset, ot_err_name(err));
}

/* Does a sealed segment end with a whole batch? A file that lost its end is not followed by the next one: the client would take that for the rest of the
 * torn batch. Looked at once. */
static bool tail_is_whole(struct eng_log *log, const struct part *part, bool may_block)
{
    struct eng_segment *seg = part->seg;
    struct eng_found found;
    int state = atomic_load_explicit(&seg->tail_state, memory_order_relaxed);
    if (state != 0) return state > 0;
    enum ot_err err = eng_segment_find(seg, log->dir_path, part->end_offset - 1, part->bytes, UINT64_MAX, may_block, &found);
    if (err == OT_OK && found.pos + (uint64_t)found.info.batch_bytes != part->bytes) err = OT_ERR_CORRUPT;
    if (err != OT_OK && err != OT_ERR_NOT_FOUND && err != OT_ERR_CORRUPT) return false;       /* BUSY, IO: another time */
    state = err == OT_ERR_CORRUPT ? -1 : 1;
    if (state < 0 && atomic_exchange(&seg->tail_state, state) == 0)
        ot_log(OT_LOG_ERROR, "log", "segment_damaged", "dir=%s base_offset=%" PRId64 " bytes=%" PRIu64 " text=\"the file does not end with a whole batch: records are lost\"",
            log->dir_path, seg->base_offset, part->bytes);
    atomic_store(&seg->tail_state, state);
    return state > 0;
}

/* What one segment gives to the read; *more_out: the whole of its range was taken and the next segment may go on. */
static enum ot_err read_part(struct eng_log *log, const struct eng_read *how, const struct part *part, int64_t limit, struct eng_read_pin *pin,
    struct eng_read_result *out, bool *more_out)
{
    struct range range;
    bool first = out->span_count == 0;
    *more_out = false;
    enum ot_err err = part_range(log, part, how->offset, limit, first, how->may_block, &range);
    if (err != OT_OK) return err;
    if (how->may_block && atomic_load_explicit(&part->seg->index_doubted, memory_order_relaxed)) mend_index(log, part);
    uint64_t bytes = range.end - range.pos;
    *more_out = limit > part->end_offset && part->next_base >= 0;
    if (bytes == 0) return OT_OK;          /* a hole up to the end */
    uint64_t room = how->max_bytes > out->bytes ? how->max_bytes - out->bytes : 0;
    if (first) {
        if (range.base_offset < 0 || bytes > room) err = first_batch(log, part, how->may_block, &range);
        if (err != OT_OK) return err;
        out->first_base_offset = range.base_offset;
        if (range.first_bytes > room && !how->min_one) {
            *more_out = false;
            return OT_OK;
        }
        if (bytes > room) room = OT_MAX(room, range.first_bytes);
    }
    if (bytes > room) {
        bytes = room;
        *more_out = false;
    }
    bytes = OT_MIN(bytes, (uint64_t)INT32_MAX - out->bytes);
    if (bytes == 0) return OT_OK;
    if (*more_out) *more_out = tail_is_whole(log, part, how->may_block);
    out->next_offset_hint = OT_MIN(limit, part->end_offset);
    return add_span(log, part, &range, bytes, how->may_block, pin, out);
}

static enum ot_err read_round(struct eng_log *log, const struct eng_read *how, struct eng_read_pin *pin, struct eng_read_result *out)
{
    int64_t base = how->offset;            /* looks for the segment that holds this */
    bool more = true;
    enum ot_err err = OT_OK;
    while (more && err == OT_OK && out->span_count < ENG_READ_SPANS_MAX) {
        struct part part;
        pthread_mutex_lock(&log->lock);
        int64_t start = atomic_load(&log->log_start_offset), end = atomic_load(&log->log_end_offset), limit = OT_MIN(how->limit_offset, end);
        if (out->span_count == 0 && (how->offset < start || how->offset > end)) err = OT_ERR_OFFSET_OUT_OF_RANGE;
        bool nothing = err != OT_OK || how->offset >= limit || log->segment_count == 0;
        if (!nothing) part_look(log, eng_log_slot(log, base), how->offset, limit, &part);
        pthread_mutex_unlock(&log->lock);
        if (nothing) return err;
        /* a later part must begin where the former ended: a truncation in between ends the read there */
        if (base != how->offset && part.seg->base_offset != base) more = false;
        else err = read_part(log, how, &part, limit, pin, out, &more);
        base = part.next_base;
        eng_segment_unref(part.seg);
    }
    return err;
}

enum ot_err eng_log_read(struct eng_log *log, const struct eng_read *how, struct eng_read_result *out)
{
    enum ot_err err = OT_ERR_CANCELLED;
    *out = (struct eng_read_result){ .first_base_offset = -1, .next_offset_hint = how->offset };
    struct eng_read_pin *pin = pin_new(log->store);
    if (pin == NULL) return OT_ERR_NO_MEMORY;
    for (int round = 0; round < ROUNDS_MAX && err == OT_ERR_CANCELLED; round++) {
        *out = (struct eng_read_result){ .first_base_offset = -1, .next_offset_hint = how->offset };
        err = read_round(log, how, pin, out);
        if (err != OT_OK && out->span_count > 0) err = OT_OK;      /* what was found is good; the rest comes with the next read */
    }
    if ((err != OT_OK || out->span_count == 0) && atomic_load(&log->closed)) err = OT_ERR_CLOSED;      /* what it had may be gone from the list */
    if (err == OT_ERR_CANCELLED || err == OT_ERR_NOT_FOUND) err = OT_ERR_IO;       /* a file that is listed and not there */
    if (err == OT_OK && out->span_count > 0) {
        out->pin = &pin->pin;
        return OT_OK;
    }
    pin_release(&pin->pin);
    return err;
}

/* ---- sizes ---- */

/* Bytes of the log below offset, counted from the first segment. Under lock; by the tail, else by the segment's share. */
static uint64_t bytes_below(const struct eng_log *log, int64_t offset)
{
    uint64_t sum = 0;
    struct eng_tail_batch batch;
    for (uint32_t i = 0; i < log->segment_count; i++) {
        const struct eng_segment *seg = log->segments[i];
        if (seg->end_offset <= offset) {
            sum += seg->bytes;
            continue;
        }
        if (seg->base_offset >= offset) break;
        if (i + 1 == log->segment_count && eng_tail_find(log->tail, offset, &batch)) return sum + batch.pos;
        /* not remembered: in proportion to the offsets, good enough to decide whether to wait */
        double share = (double)(offset - seg->base_offset) / (double)(seg->end_offset - seg->base_offset);
        return sum + (uint64_t)(share * (double)seg->bytes);
    }
    return sum;
}

uint64_t eng_log_bytes_between(struct eng_log *log, int64_t from_offset, int64_t to_offset)
{
    if (to_offset <= from_offset) return 0;
    pthread_mutex_lock(&log->lock);
    uint64_t from = bytes_below(log, from_offset), to = bytes_below(log, to_offset);
    pthread_mutex_unlock(&log->lock);
    return to > from ? to - from : 1;      /* there is something: never say there is nothing */
}
