/* Arbitrary bytes as the files of a partition directory, opened through the engine's public functions on a disk in memory.
 *
 *   byte 0  bit 0: put right checksums into the batches and snapshots, so that what lies under them is reached; bit 1: the directory claims a clean
 *           shutdown; bits 2-4: a recovery point
 *   then chunks: byte kind, u24 size, bytes. kind & 7: 0 log, 1 index, 2 timeindex, 3 txnindex, 4 snapshot, 5 epoch checkpoint, 6 checkpoint, 7 metadata;
 *           kind >> 3 chooses the base offset of the name
 *
 * Whatever is in them: no crash, no leak, and what loads must hold together: a snapshot that loads is written and loads again as the same state, an index that
 * passes its check can be cut and searched, a history that opens has growing entries. A log that opens after a crash (nothing trusted) has no fault, reads from end to
 * end, takes another batch, is cut, and comes back the same. */
#include "engine/batch_build.h"
#include "engine/dump.h"
#include "engine/epochs.h"
#include "engine/log.h"
#include "engine/producers.h"
#include "engine/snapshots.h"
#include "engine/store.h"
#include "engine/txnindex.h"
#include "base/log.h"
#include "base/util.h"
#include "memory_io.h"
#include <fcntl.h>
#include <inttypes.h>

#define DIR "d/t-0"
#define ENTRIES_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerInitialize(int *count, char ***words);

static const int64_t bases[] = { 0, 5, 42, 75, 1000, INT64_MAX };

int LLVMFuzzerInitialize(int *count, char ***words)
{
    (void)count, (void)words;
    ot_log_setup(OT_LOG_ERROR, OT_LOG_TEXT, open("/dev/null", O_WRONLY | O_CLOEXEC));
    return 0;
}

static void batches_right(uint8_t *data, size_t bytes)
{
    for (size_t pos = 0; pos + ENG_BATCH_HEADER_BYTES <= bytes;) {
        struct eng_batch_info info;
        if (eng_batch_parse(data + pos, bytes - pos, &info) != OT_OK || info.magic != 2 || (uint64_t)info.batch_bytes > bytes - pos) return;
        ot_store_u32(data + pos + ENG_BATCH_CRC_POS, ot_crc32c(0, data + pos + ENG_BATCH_CRC_FROM, (size_t)info.batch_bytes - ENG_BATCH_CRC_FROM));
        pos += (size_t)info.batch_bytes;
    }
}

static void files_make(struct memory_io *memory, const uint8_t *data, size_t bytes)
{
    static const char *const suffixes[] = { "log", "index", "timeindex", "txnindex", "snapshot" };
    static const char *const others[] = { "leader-epoch-checkpoint", "recovery-point-offset-checkpoint", "partition.metadata" };
    bool right = bytes > 0 && (data[0] & 1) != 0;
    for (size_t at = 1, chunks = 0; at + 4 <= bytes && chunks < 16; chunks++) {
        unsigned kind = data[at] & 7u;
        size_t size = (size_t)data[at + 1] << 16 | (size_t)data[at + 2] << 8 | data[at + 3];
        char path[64];
        at += 4;
        size = OT_MIN(size, bytes - at);
        if (kind < 5) (void)snprintf(path, sizeof path, DIR "/%020" PRId64 ".%s", bases[(data[at - 4] >> 3) % OT_ARRAY_COUNT(bases)], suffixes[kind]);
        else (void)snprintf(path, sizeof path, DIR "/%s", others[kind - 5]);
        if (!memory_io_put(memory, path, data + at, size)) return;
        struct memory_file *file = memory_find(memory, path);
        if (right && kind == 0) batches_right(file->data, file->bytes);
        if (right && kind == 4 && file->bytes >= 6) ot_store_u32(file->data + 2, ot_crc32c(0, file->data + 6, file->bytes - 6));
        at += size;
    }
}

/* ---- each kind of file ---- */

static void row_see(void *arg, const struct eng_dump_row *row)
{
    (void)arg;
    OT_ASSERT(row->field_count <= ENG_DUMP_FIELDS_MAX);
}

static void put_count(void *arg, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) OT_ASSERT((uint8_t)text[i] >= 0x20 && text[i] != 0x7f);
    *(size_t *)arg += bytes;
}

static void row_print(void *arg, const struct eng_dump_row *row)
{
    eng_dump_text(row, put_count, arg);
}

static void try_dump(struct memory_io *memory)
{
    size_t printed = 0;
    struct eng_dump_options options = eng_dump_options_default();
    struct eng_dump_summary summary = { 0 };
    options.row = row_see;
    (void)eng_dump_verify(&memory->io, DIR, &options, &summary);
    options.row = row_print;
    options.arg = &printed;
    options.records = true;
    for (int i = 0; i < MEMORY_FILES_MAX; i++) {
        if (memory->files[i].named) (void)eng_dump_file(&memory->io, memory->files[i].path, &options, &summary);
    }
}

static void try_epochs(struct memory_io *memory)
{
    struct eng_epochs *epochs;
    struct eng_epoch_end starts[ENTRIES_MAX];
    enum ot_err err = eng_epochs_open(&memory->io, DIR, &epochs);
    if (epochs == NULL) return;
    uint32_t count = eng_epochs_list(epochs, starts, ENTRIES_MAX);
    OT_ASSERT(err == OT_OK || count == 0);
    for (uint32_t i = 1; i < OT_MIN(count, (uint32_t)ENTRIES_MAX); i++) {
        OT_ASSERT(starts[i - 1].epoch < starts[i].epoch && starts[i - 1].end_offset < starts[i].end_offset);
        OT_ASSERT(eng_epochs_for_offset(epochs, starts[i].end_offset) == starts[i].epoch);
        OT_ASSERT(eng_epochs_end(epochs, starts[i - 1].epoch, INT64_MAX).end_offset == starts[i].end_offset);
    }
    int32_t latest = eng_epochs_latest(epochs);
    if (latest < INT32_MAX) OT_ASSERT(eng_epochs_assign(epochs, latest + 1, 70) == OT_OK && eng_epochs_latest(epochs) == latest + 1);
    OT_ASSERT(eng_epochs_truncate_start(epochs, 40) == OT_OK);
    OT_ASSERT(eng_epochs_truncate_end(epochs, 60, true) == OT_OK);
    OT_ASSERT(eng_epochs_for_offset(epochs, 39) == -1);
    eng_epochs_close(epochs);
    OT_ASSERT(eng_epochs_open(&memory->io, DIR, &epochs) == OT_OK);
    eng_epochs_close(epochs);
}

static void try_snapshots(struct memory_io *memory)
{
    struct eng_producers *first, *second;
    struct eng_producer_view ours[ENTRIES_MAX], theirs[ENTRIES_MAX];
    int64_t offset;
    OT_ASSERT(eng_producers_new(ENTRIES_MAX, INT64_MAX, &first) == OT_OK);
    OT_ASSERT(eng_producers_new(ENTRIES_MAX, INT64_MAX, &second) == OT_OK);
    enum ot_err err = eng_snapshots_load(&memory->io, DIR, 0, INT64_MAX, first, 0, &offset);
    if (err == OT_OK) {
        size_t bytes = eng_producers_snapshot_bytes(first);
        uint8_t *data = malloc(bytes);
        struct ot_writer writer = ot_writer_over(data, bytes);
        OT_ASSERT(eng_producers_snapshot(first, &writer) == OT_OK);
        OT_ASSERT(eng_producers_load(second, data, bytes, 0) == OT_OK);
        uint32_t count = eng_producers_list(first, ours, ENTRIES_MAX);
        OT_ASSERT(count == eng_producers_list(second, theirs, ENTRIES_MAX) && count <= ENTRIES_MAX);
        for (uint32_t i = 0; i < count; i++) {
            OT_ASSERT(ours[i].producer_id == theirs[i].producer_id && ours[i].epoch == theirs[i].epoch && ours[i].last_sequence == theirs[i].last_sequence);
            OT_ASSERT(ours[i].current_txn_first_offset == theirs[i].current_txn_first_offset);
        }
        OT_ASSERT(eng_producers_first_unstable(first) == eng_producers_first_unstable(second));
        free(data);
    }
    eng_producers_free(first);
    eng_producers_free(second);
}

static void try_txn_index(struct memory_io *memory)
{
    for (size_t i = 0; i < OT_ARRAY_COUNT(bases); i++) {
        char path[64];
        int fd;
        struct ot_io_stat stat;
        struct eng_aborted aborted[ENTRIES_MAX];
        struct eng_txn_collect collect = { .from = 10, .to = 50, .out = aborted, .max = ENTRIES_MAX };
        (void)snprintf(path, sizeof path, DIR "/%020" PRId64 ".txnindex", bases[i]);
        if (memory->io.ops->open(&memory->io, path, OT_IO_WRITE, &fd) != OT_OK) continue;
        OT_ASSERT(memory->io.ops->fstat(&memory->io, fd, &stat) == OT_OK);
        bool sound = eng_txn_index_check(&memory->io, fd, stat.bytes, bases[i], INT64_MAX) == OT_OK;
        enum ot_err err = eng_txn_index_collect(&memory->io, fd, stat.bytes, &collect);
        OT_ASSERT(!sound || err == OT_OK);
        eng_txn_collect_sort(&collect);
        for (uint32_t j = 1; j < OT_MIN(collect.count, (uint32_t)ENTRIES_MAX); j++) OT_ASSERT(aborted[j - 1].first_offset <= aborted[j].first_offset);
        err = eng_txn_index_truncate(&memory->io, fd, 40, &stat.bytes);
        OT_ASSERT(!sound || (err == OT_OK && (stat.bytes == 0 || eng_txn_index_check(&memory->io, fd, stat.bytes, bases[i], 40) == OT_OK)));
        memory->io.ops->close(&memory->io, fd);
    }
}

/* ---- the log ---- */

static void fault_see(void *arg, const char *text)
{
    if (strstr(text, "leader epoch") == NULL) (*(uint32_t *)arg)++;        /* not under the checksum: recovery can only stop where they fall */
}

static void read_through(struct eng_log *log)
{
    int64_t offset = eng_log_start_offset(log), end = eng_log_end_offset(log);
    OT_ASSERT(offset >= 0 && offset <= end);
    for (int i = 0; i < 200 && offset < end; i++) {
        struct eng_read how = { .offset = offset, .limit_offset = end, .max_bytes = 4096, .min_one = true, .may_block = true };
        struct eng_read_result result;
        if (eng_log_read(log, &how, &result) != OT_OK) return;
        if (result.pin != NULL) result.pin->release(result.pin);
        OT_ASSERT(result.next_offset_hint > offset || result.bytes == 0);
        if (result.bytes == 0) return;
        offset = result.next_offset_hint;
    }
}

static void append_one(struct eng_log *log)
{
    uint8_t data[ENG_MARKER_BYTES];
    int64_t end = eng_log_end_offset(log);
    int32_t epoch = OT_MAX(eng_epochs_latest(eng_log_epochs(log)), 0);
    uint32_t written = 0;
    if (end > INT64_MAX / 2 || eng_log_read_only(log)) return;
    size_t bytes = eng_batch_build_marker(data, 1, 1, epoch, 1, true, 1000);
    eng_batch_stamp(data, end, epoch);
    struct eng_append_batch batch = { .data = data, .bytes = (uint32_t)bytes, .leader_epoch = epoch, .base_offset = end, .last_offset = end,
        .max_timestamp = 1000, .max_timestamp_offset = end };
    if (eng_log_fits(log, &batch, 1, 0) == 0 && eng_log_roll(log, &(struct ot_blob){ NULL, 0, true }, 0) != OT_OK) return;
    if (eng_log_append(log, &batch, 1, 0, &written) != OT_OK) return;
    OT_ASSERT(written == 1 && eng_log_end_offset(log) == end + 1);
}

static enum ot_err log_open(struct memory_io *memory, struct eng_store **store, struct eng_log **log, bool clean, int64_t recovery_point)
{
    const char *const dirs[] = { "d" };
    struct eng_store_config config = { .dirs = dirs, .dir_count = 1, .files_max = 8 };
    struct eng_log_open how = { .dir_path = DIR, .clean = clean, .recovery_point = recovery_point, .config = { .segment_bytes = 1 << 20, .segment_ms = INT64_MAX,
        .segment_index_bytes = 1 << 16, .index_interval_bytes = 300, .retention_ms = -1, .retention_bytes = -1, .delete_enabled = true,
        .producer_expiry_ms = INT64_MAX, .producers_max = ENTRIES_MAX } };
    struct eng_recovery recovery;
    uint32_t bad;
    how.topic_id.bytes[15] = 1;
    *log = NULL;
    enum ot_err err = eng_store_open(&memory->io, &config, store, &bad);
    OT_ASSERT(err == OT_OK);
    return eng_log_open(*store, &how, log, &recovery);
}

static void try_log(struct memory_io *memory, uint8_t flags)
{
    struct eng_store *store;
    struct eng_log *log;
    struct eng_aborted aborted[ENTRIES_MAX];
    uint32_t faults = 0, count;
    bool clean = (flags & 2) != 0;
    int64_t point = clean ? 0 : bases[(flags >> 2 & 7) % OT_ARRAY_COUNT(bases)], end = -1;
    enum ot_err err = log_open(memory, &store, &log, clean, point);
    if (err == OT_OK) {
        enum ot_err verified = eng_log_verify(log, fault_see, &faults);
        OT_ASSERT(clean || point > 0 || verified != OT_OK || faults == 0);
        read_through(log);
        ot_ignore(eng_log_aborted(log, 0, INT64_MAX, aborted, ENTRIES_MAX, &count), "damage below the recovery point is found when read");
        append_one(log);
        int64_t middle = eng_log_start_offset(log) + (eng_log_end_offset(log) - eng_log_start_offset(log)) / 2;
        if (!eng_log_read_only(log) && eng_log_truncate(log, middle, 0) == OT_OK) OT_ASSERT(eng_log_end_offset(log) <= middle || eng_log_end_offset(log) >= 0);
        end = eng_log_end_offset(log);
    }
    bool closed = log == NULL || eng_log_close(log, true) == OT_OK;
    eng_store_close(store);
    if (err == OT_OK && closed && !clean && point == 0) {
        OT_ASSERT(log_open(memory, &store, &log, false, 0) == OT_OK);
        OT_ASSERT(eng_log_end_offset(log) == end);
        (void)eng_log_close(log, false);
        eng_store_close(store);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct memory_io memory;
    memory_io_init(&memory);
    files_make(&memory, data, bytes);
    try_log(&memory, bytes > 0 ? data[0] : 0);
    memory_io_free(&memory);
    memory_io_init(&memory);
    files_make(&memory, data, bytes);
    try_dump(&memory);
    try_txn_index(&memory);
    try_epochs(&memory);
    try_snapshots(&memory);
    memory_io_free(&memory);
    return 0;
}
