/* Append through a map: the segment is preallocated at its real size (never sparse: a full disk would be a SIGBUS), mapped from position 0 and cut to
 * its true size when it is sealed, closed or recovered. Copies are guarded: a file that fails under the map is an I/O error of this partition. */
#include "engine/log_inner.h"

#define FIRST_MAP_BYTES (1ull << 20)
#define WARM_BYTES (128u << 10)

static void drop_map(struct eng_log *log, uint8_t *map, uint64_t bytes)
{
    if (map == NULL) return;
    log->io->ops->unmap(log->io, map, bytes);
    ot_ignore(eng_store_map_room(log->store, -(int64_t)bytes), "giving back always succeeds");
    atomic_fetch_sub(&log->store->open_maps, 1);
}

void eng_log_unmap(struct eng_log *log, struct eng_segment *seg)
{
    pthread_mutex_lock(&log->lock);
    uint8_t *map = seg->map;
    uint64_t bytes = seg->map_bytes;
    seg->map = NULL;
    seg->map_bytes = seg->warm_end = 0;
    pthread_mutex_unlock(&log->lock);
    drop_map(log, map, bytes);
}

/* 1, 4, 16, 64 MiB… up to the segment's own limit: small partitions stay small. */
static uint64_t map_size(struct eng_log *log, const struct eng_segment *seg, uint64_t end)
{
    struct eng_log_config config = eng_log_config_now(log);
    uint64_t bytes = seg->map_bytes == 0 ? FIRST_MAP_BYTES : seg->map_bytes * 4;
    while (bytes < end) bytes *= 4;
    bytes = OT_MIN(bytes, (uint64_t)config.segment_bytes);
    return bytes < end ? 0 : bytes;
}

static enum ot_err map_file(struct eng_log *log, struct eng_segment *seg, uint64_t bytes, void **map_out)
{
    int fd = -1;
    enum ot_err err = eng_segment_acquire(seg, log->dir_path, ENG_SEGMENT_LOG, true, &fd);
    if (err != OT_OK) return err;
    err = log->io->ops->preallocate(log->io, fd, seg->bytes, bytes - seg->bytes, false);
    if (err == OT_OK) {
        seg->padded = true;
        seg->allocated_end = OT_MAX(bytes, seg->allocated_end);
        err = log->io->ops->map(log->io, fd, bytes, true, map_out);
    }
    eng_segment_release(seg, ENG_SEGMENT_LOG);
    return err;
}

bool eng_log_map(struct eng_log *log, struct eng_segment *seg, uint64_t end)
{
    void *map = NULL;
    if (seg->map != NULL && end <= seg->map_bytes) return true;
    uint64_t bytes = map_size(log, seg, end);
    if (bytes == 0 || !eng_store_map_room(log->store, (int64_t)bytes)) return false;
    if (map_file(log, seg, bytes, &map) != OT_OK) {
        ot_ignore(eng_store_map_room(log->store, -(int64_t)bytes), "giving back always succeeds");
        return false;
    }
    atomic_fetch_add(&log->store->open_maps, 1);
    eng_log_unmap(log, seg);
    pthread_mutex_lock(&log->lock);
    seg->map = map;
    seg->map_bytes = bytes;
    pthread_mutex_unlock(&log->lock);
    return true;
}

/* Touch what comes next, so that the following small appends find their pages present and may run on a reactor. */
void eng_log_map_warm(struct eng_log *log, struct eng_segment *seg)
{
    static const uint8_t zero = 0;
    (void)log;
    uint64_t to = OT_MIN(seg->bytes + WARM_BYTES, seg->map_bytes);
    if (seg->warm_end >= OT_MIN(seg->bytes + WARM_BYTES / 2, seg->map_bytes)) return;
    for (uint64_t pos = OT_MAX(seg->warm_end, seg->bytes); pos < to; pos = (pos | 4095u) + 1)
        if (ot_guarded_copy(seg->map + pos, &zero, 1) != OT_OK) return;
    pthread_mutex_lock(&log->lock);
    seg->warm_end = to;
    pthread_mutex_unlock(&log->lock);
}
