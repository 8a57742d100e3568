/* The scrub: cold segments read again, batch by batch. What it finds it tells; what follows from that is the owner's business. */
#include "engine/log_inner.h"

#include <stdlib.h>

struct scrub {
    struct eng_log *log;
    struct eng_segment *seg;                   /* counted */
    uint64_t bytes;
    bool (*go_on)(void *arg, uint64_t bytes);
    void *arg;
    struct eng_scrub_fault *fault;
};

/* The first sealed segment from base on. False: none. */
static bool take_segment(struct scrub *scrub, int64_t *base_io)
{
    struct eng_log *log = scrub->log;
    pthread_mutex_lock(&log->lock);
    uint32_t slot = 0;
    while (slot < log->segment_count && log->segments[slot]->base_offset < *base_io) slot++;
    const bool sealed = slot + 1 < log->segment_count;
    if (sealed) {
        scrub->seg = log->segments[slot];
        scrub->bytes = scrub->seg->bytes;
        *base_io = log->segments[slot + 1]->base_offset;
        eng_segment_ref(scrub->seg);
    }
    pthread_mutex_unlock(&log->lock);
    return sealed;
}

/* Truncated, compacted or deleted meanwhile: what was read is not what it should be. */
static bool is_still_it(const struct scrub *scrub)
{
    struct eng_log *log = scrub->log;
    bool here = false;
    pthread_mutex_lock(&log->lock);
    for (uint32_t slot = 0; slot + 1 < log->segment_count && !here; slot++) here = log->segments[slot] == scrub->seg && scrub->seg->bytes == scrub->bytes;
    pthread_mutex_unlock(&log->lock);
    return here;
}

static enum ot_err scan_all(struct scrub *scrub, int fd, uint8_t *buffer, bool paced)
{
    struct eng_scan scan;
    struct eng_batch_info info;
    enum ot_err err;
    int64_t next = scrub->seg->base_offset;
    eng_scan_init(&scan, scrub->log->io, fd, 0, scrub->bytes, buffer, ENG_SCAN_BULK_BYTES);
    scan.check_crc = true;
    while ((err = eng_scan_next(&scan, &info)) == OT_OK) {
        if (info.magic >= 2 && info.base_offset < next) {
            err = OT_ERR_CORRUPT;
            break;
        }
        next = eng_batch_last_offset(&info) + 1;
        if (paced && !scrub->go_on(scrub->arg, scan.pos - scan.batch_pos)) return OT_ERR_CANCELLED;
    }
    if (err == OT_ERR_NOT_FOUND) return OT_OK;
    *scrub->fault = (struct eng_scrub_fault){ .base_offset = scrub->seg->base_offset, .offset = next, .pos = scan.pos };
    return err == OT_ERR_SHORT || err == OT_ERR_IO ? OT_ERR_CORRUPT : err;
}

enum ot_err eng_log_scrub(struct eng_log *log, int64_t *base_io, bool (*go_on)(void *arg, uint64_t bytes), void *arg, struct eng_scrub_fault *fault_out)
{
    struct scrub scrub = { .log = log, .go_on = go_on, .arg = arg, .fault = fault_out };
    uint8_t *buffer = malloc(ENG_SCAN_BULK_BYTES);
    int fd = -1;
    if (buffer == NULL) return OT_ERR_NO_MEMORY;
    if (!take_segment(&scrub, base_io)) {
        free(buffer);
        return OT_ERR_NOT_FOUND;
    }
    enum ot_err err = eng_segment_acquire(scrub.seg, log->dir_path, ENG_SEGMENT_LOG, true, &fd);
    if (err == OT_OK) {
        err = scan_all(&scrub, fd, buffer, true);
        if (err == OT_ERR_CORRUPT) err = scan_all(&scrub, fd, buffer, false);
        eng_segment_release(scrub.seg, ENG_SEGMENT_LOG);
    } else if (err == OT_ERR_NOT_FOUND) {
        *fault_out = (struct eng_scrub_fault){ .base_offset = scrub.seg->base_offset, .offset = scrub.seg->base_offset };
        err = OT_ERR_CORRUPT;                  /* a file that is gone */
    }
    if (err != OT_OK && err != OT_ERR_NO_MEMORY && (err != OT_ERR_CANCELLED || fd < 0) && !is_still_it(&scrub)) err = OT_OK;
    eng_segment_unref(scrub.seg);
    free(buffer);
    return err;
}
