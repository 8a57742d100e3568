#include "broker/losses.h"

#include "base/log.h"
#include "base/util.h"
#include "base/wire/frame.h"
#include "base/wire/loss_record.h"
#include "broker/elections.h"
#include "broker/events.h"
#include "broker/losses_inner.h"
#include "broker/room.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BROKER_LOST_FOLDER "__ottla_lost"
enum { FILE_BYTES_MAX = 64 << 10, SETTLED_BYTES_MAX = 100, PATH_BYTES = BROKER_LOSS_PATH_BYTES, KEEPERS_MAX = BROKER_LOSSES_MAX / 2 };

struct soon;
struct broker_losses {
    struct ot_io *io;
    char *path;                                /* of the folder */
    pthread_mutex_t mutex;                     /* guards what follows; never held over I/O */
    struct broker_loss **all; uint32_t count, cap;     /* ascending numbers */
    uint64_t last;
    uint64_t kept_bytes, promised_bytes;       /* promised: being copied now */
    uint32_t keepers;                          /* entries with something kept */
    uint64_t noted[3];
    struct soon *first, **last_link;           /* elections to be noted, one after the other */
    bool noting;
    struct { bool busy; struct ot_task task; struct broker *broker; uint64_t number; } telling;      /* one event at a time */
    _Atomic bool made;                         /* the folder is there */
    _Atomic int64_t settled;                   /* as the file says */
    struct { struct ot_task task; struct broker_core *core; int64_t version /* of the last look, -1 none */; bool begun; } settling;      /* the ticker's, then its task's */
    bool owes;                                 /* an election that could not be noted, since the start */
};

static const char *const kinds[] = { [BROKER_LOSS_ELECTION] = "election", [BROKER_LOSS_CUT] = "cut", [BROKER_LOSS_RECOVERY] = "recovery" };
static const char *const kepts[] = { [BROKER_LOSS_KEPT_NOTHING] = "nothing", [BROKER_LOSS_KEPT_ALL] = "all", [BROKER_LOSS_KEPT_PART] = "part", [BROKER_LOSS_KEPT_NO_ROOM] = "no_room",
    [BROKER_LOSS_KEPT_GONE] = "gone" };
static const char *const reasons[] = { "none", "crash", "unclean", "operator", "divergence", "damage" };        /* the first as enum coord_loss; the numbers are on disk */

const char *broker_loss_kind_name(enum broker_loss_kind kind) { return kinds[kind]; }
const char *broker_loss_kept_name(enum broker_loss_kept kept) { return kepts[kept]; }

static int8_t reason_number(const char *reason)
{
    for (size_t i = 0; i < OT_ARRAY_COUNT(reasons); i++)
        if (strcmp(reasons[i], reason) == 0) return (int8_t)i;
    return 0;
}

/* ---- one entry, to and from its file */

static enum ot_err encode(const struct broker_loss *loss, uint8_t *data, size_t cap_bytes, size_t *bytes_out)
{
    struct ot_loss_record record;
    struct ot_loss_record_epoch epochs[BROKER_LOSS_EPOCHS_MAX];
    memset(epochs, 0, sizeof epochs);
    ot_loss_record_defaults(&record);
    for (uint32_t i = 0; i < loss->epoch_count; i++) {
        epochs[i].epoch = loss->epochs[i].epoch;
        epochs[i].start = loss->epochs[i].start;
    }
    record.kind = (int8_t)loss->kind;
    record.reason = reason_number(loss->reason);
    record.topic = ot_str_of(loss->topic);
    record.topic_id = loss->topic_id;
    record.partition = loss->partition;
    record.from = loss->from;
    record.end = loss->end;
    record.high_watermark = loss->high_watermark;
    record.leader_epoch = loss->leader_epoch;
    record.last_epoch = loss->last_epoch;
    record.epochs = (struct ot_loss_record_epoch_array){ epochs, (int32_t)loss->epoch_count };
    record.wall_ms = loss->wall_ms;
    record.cut_bytes = (int64_t)loss->cut_bytes;
    record.kept_bytes = (int64_t)loss->kept_bytes;
    record.kept_end = loss->kept_end;
    record.kept = (int8_t)loss->kept;
    record.folder = ot_str_of(loss->folder);
    record.told = loss->told;
    struct ot_writer out = ot_writer_over(data + 4, cap_bytes - 4);
    enum ot_err err = ot_wire_framed_encode(&ot_loss_record_message, 0, &record, &out);
    if (err != OT_OK) return err;
    *bytes_out = (size_t)(out.at - data);
    ot_store_u32(data, ot_crc32c(0, data + 4, *bytes_out - 4));
    return OT_OK;
}

static struct broker_loss *loss_new(const struct broker_loss *from, struct ot_str folder)
{
    struct broker_loss *loss = calloc(1, sizeof *loss + folder.bytes + 1);
    if (loss == NULL) return NULL;
    char *text = (char *)(loss + 1);
    *loss = *from;
    if (folder.bytes > 0) memcpy(text, folder.data, folder.bytes);
    loss->folder = text;
    return loss;
}

static struct broker_loss *decode(const uint8_t *data, size_t bytes, uint64_t number)
{
    uint8_t room[4096];
    struct ot_arena arena;
    struct ot_loss_record record;
    int16_t version;
    ot_arena_init_with(&arena, room, sizeof room, 0);
    if (bytes < 4 || ot_load_u32(data) != ot_crc32c(0, data + 4, bytes - 4)) return NULL;
    struct ot_reader in = ot_reader_over(data + 4, bytes - 4);
    if (ot_wire_framed_decode(&ot_loss_record_message, &in, &arena, &record, &version, NULL) != OT_OK) return NULL;
    if (record.kind < 0 || record.kind > BROKER_LOSS_RECOVERY || record.kept < 0 || record.kept > BROKER_LOSS_KEPT_GONE || record.reason < 0
        || record.reason >= (int8_t)OT_ARRAY_COUNT(reasons) || record.topic.bytes > COORD_NAME_BYTES_MAX || record.epochs.count > BROKER_LOSS_EPOCHS_MAX || record.kept_bytes < 0
        || record.cut_bytes < 0) return NULL;
    struct broker_loss loss = { .number = number, .kind = (enum broker_loss_kind)record.kind, .reason = reasons[record.reason], .topic_id = record.topic_id, .partition = record.partition,
        .from = record.from, .end = record.end, .high_watermark = record.high_watermark, .leader_epoch = record.leader_epoch, .last_epoch = record.last_epoch,
        .epoch_count = (uint32_t)record.epochs.count, .wall_ms = record.wall_ms, .cut_bytes = (uint64_t)record.cut_bytes, .kept_bytes = (uint64_t)record.kept_bytes,
        .kept_end = record.kept_end, .kept = (enum broker_loss_kept)record.kept, .told = record.told };
    if (record.topic.bytes > 0) memcpy(loss.topic, record.topic.data, record.topic.bytes);
    for (uint32_t i = 0; i < loss.epoch_count; i++) {
        loss.epochs[i].epoch = record.epochs.items[i].epoch;
        loss.epochs[i].start = record.epochs.items[i].start;
    }
    return loss_new(&loss, record.folder);
}

#define SETTLED_NAME "settled"

static bool file_path(const struct broker_losses *losses, uint64_t number, char out[static PATH_BYTES])
{
    const int bytes = snprintf(out, PATH_BYTES, "%s/%020" PRIu64 ".loss", losses->path, number);
    return bytes > 0 && bytes < PATH_BYTES;
}

/* ---- all of them */

static bool list_add(struct broker_losses *losses, struct broker_loss *loss)
{
    if (losses->count == losses->cap) {
        const uint32_t cap = OT_MAX(losses->cap * 2, 64u);
        struct broker_loss **wider = realloc(losses->all, cap * sizeof *wider);
        if (wider == NULL) return false;
        losses->all = wider;
        losses->cap = cap;
    }
    uint32_t at = losses->count++;
    for (; at > 0 && losses->all[at - 1]->number > loss->number; at--) losses->all[at] = losses->all[at - 1];  /* a folder is listed in any order */
    losses->all[at] = loss;
    losses->last = OT_MAX(losses->last, loss->number);
    losses->kept_bytes += loss->kept_bytes;
    losses->keepers += loss->kept_bytes > 0;
    return true;
}

/* The oldest of which nothing is kept goes: it was told long ago, or nobody listens. One that keeps something stays as long as that, for nobody else says what it is, and its bytes count
 * against the bound; that there are always others, KEEPERS_MAX sees to. Mutex held. NULL: all keep something (found at starts, which ask nobody). */
static struct broker_loss *take_oldest(struct broker_losses *losses)
{
    uint32_t at = 0;
    while (at < losses->count && losses->all[at]->kept_bytes > 0) at++;
    if (at == losses->count) return NULL;
    struct broker_loss *oldest = losses->all[at];
    memmove(losses->all + at, losses->all + at + 1, (--losses->count - at) * sizeof *losses->all);
    return oldest;
}

static void drop(struct broker_losses *losses, struct broker_loss *oldest)
{
    char path[PATH_BYTES];
    if (file_path(losses, oldest->number, path)) ot_ignore(losses->io->ops->unlink(losses->io, path), "one entry too many");
    free(oldest);
}

static bool has_file(struct ot_io *io, const char *folder)
{
    struct ot_io_stat stat;
    return io->ops->stat(io, folder, &stat) == OT_OK;
}

static void load_one(struct broker_losses *losses, uint64_t number, const char *path)
{
    char *data = NULL;
    size_t bytes = 0;
    enum ot_err err = ot_io_read_file(losses->io, path, FILE_BYTES_MAX, &data, &bytes);
    struct broker_loss *loss = err == OT_OK ? decode((const uint8_t *)data, bytes, number) : NULL;
    free(data);
    if (loss == NULL) {
        ot_log(OT_LOG_ERROR, "loss", "entry_not_read", "file=%s error=%s", path, ot_err_name(err == OT_OK ? OT_ERR_CORRUPT : err));
        losses->last = OT_MAX(losses->last, number);
        return;
    }
    if (loss->kept_bytes > 0 && !has_file(losses->io, loss->folder)) {
        loss->kept = BROKER_LOSS_KEPT_GONE;
        loss->kept_bytes = 0;
    }
    if (!list_add(losses, loss)) free(loss);
}

struct numbers { uint64_t *all; uint32_t count, cap; bool full; };

static void number_of(void *arg, const struct ot_io_entry *entry)
{
    struct numbers *numbers = arg;
    uint64_t number;
    int end = 0;
    if (entry->is_dir || strlen(entry->name) != 25 || sscanf(entry->name, "%20" SCNu64 ".loss%n", &number, &end) != 1 || end != 25) return;
    if (numbers->count == numbers->cap) {
        const uint32_t cap = OT_MAX(numbers->cap * 2, 64u);
        uint64_t *wider = realloc(numbers->all, cap * sizeof *wider);
        numbers->full |= wider == NULL;
        if (wider == NULL) return;
        numbers->all = wider;
        numbers->cap = cap;
    }
    numbers->all[numbers->count++] = number;
}

static int64_t load_settled(const struct broker_losses *losses)
{
    char path[PATH_BYTES], *text = NULL;
    int64_t version = -1;
    const int bytes = snprintf(path, sizeof path, "%s/" SETTLED_NAME, losses->path);
    if (bytes < 0 || bytes >= (int)sizeof path || ot_io_read_file(losses->io, path, SETTLED_BYTES_MAX, &text, NULL) != OT_OK) return -1;
    if (sscanf(text, "version: 0\nsettled: %" SCNd64, &version) != 1) version = -1;
    free(text);
    return version;
}

static enum ot_err load(struct broker_losses *losses)
{
    char path[PATH_BYTES];
    struct numbers numbers = { 0 };
    losses->settled = load_settled(losses);
    enum ot_err err = losses->io->ops->list(losses->io, losses->path, number_of, &numbers);
    losses->made = err == OT_OK;
    if (err == OT_ERR_NOT_FOUND) err = OT_OK;
    if (err == OT_OK && numbers.full) err = OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < numbers.count && err == OT_OK; i++)
        if (file_path(losses, numbers.all[i], path)) load_one(losses, numbers.all[i], path);
    free(numbers.all);
    return err;
}

enum ot_err broker_losses_open(struct ot_io *io, const char *meta_path, struct broker_losses **out)
{
    struct broker_losses *losses = calloc(1, sizeof *losses);
    if (losses == NULL) return OT_ERR_NO_MEMORY;
    losses->io = io;
    losses->last_link = &losses->first;
    losses->settling.version = -1;
    pthread_mutex_init(&losses->mutex, NULL);
    enum ot_err err = asprintf(&losses->path, "%s/losses", meta_path) < 0 ? OT_ERR_NO_MEMORY : OT_OK;
    if (err == OT_OK) err = load(losses);
    if (err != OT_OK) {
        broker_losses_close(losses);
        return err;
    }
    *out = losses;
    return OT_OK;
}

void broker_losses_close(struct broker_losses *losses)
{
    if (losses == NULL) return;
    for (uint32_t i = 0; i < losses->count; i++) free(losses->all[i]);
    free(losses->all);
    free(losses->path);
    pthread_mutex_destroy(&losses->mutex);
    free(losses);
}

void broker_losses_counts(struct broker_losses *losses, struct broker_loss_counts *out)
{
    *out = (struct broker_loss_counts){ 0 };
    if (losses == NULL) return;
    pthread_mutex_lock(&losses->mutex);
    *out = (struct broker_loss_counts){ .entries = losses->count, .kept_bytes = losses->kept_bytes, .noted = { losses->noted[0], losses->noted[1], losses->noted[2] } };
    pthread_mutex_unlock(&losses->mutex);
}

uint32_t broker_losses_each(struct broker *broker, uint64_t after, uint32_t limit, void (*each)(void *arg, const struct broker_loss *loss), void *arg)
{
    struct broker_losses *losses = broker->core.losses;
    if (losses == NULL) return 0;
    pthread_mutex_lock(&losses->mutex);
    const uint32_t count = losses->count;
    for (uint32_t i = 0; i < count && limit > 0; i++) {
        if (losses->all[i]->number <= after) continue;
        each(arg, losses->all[i]);
        limit--;
    }
    pthread_mutex_unlock(&losses->mutex);
    return count;
}

/* ---- noting */

static bool same(const struct broker_loss *a, const struct broker_loss *b)
{
    const bool range = a->kind == BROKER_LOSS_ELECTION || (a->from == b->from && a->end == b->end);        /* one election in an epoch */
    return a->kind == b->kind && a->partition == b->partition && a->leader_epoch == b->leader_epoch && range && ot_uuid_equal(&a->topic_id, &b->topic_id);
}

static const struct broker_loss *find(const struct broker_losses *losses, const struct broker_loss *loss)
{
    for (uint32_t i = losses->count; i-- > 0 && loss->kind != BROKER_LOSS_RECOVERY;)      /* what a recovery cut it does not find again */
        if (same(losses->all[i], loss)) return losses->all[i];
    return NULL;
}

static enum ot_err make_folder(struct broker_losses *losses)
{
    char parent[PATH_BYTES];
    if (atomic_load(&losses->made)) return OT_OK;
    enum ot_err err = losses->io->ops->mkdir(losses->io, losses->path);
    if (err == OT_ERR_EXISTS) err = OT_OK;
    (void)snprintf(parent, sizeof parent, "%.*s", (int)(strlen(losses->path) - strlen("/losses")), losses->path);
    if (err == OT_OK) err = losses->io->ops->sync_dir(losses->io, parent);
    atomic_store(&losses->made, err == OT_OK);
    return err;
}

static enum ot_err write_entry(struct broker_losses *losses, const struct broker_loss *loss)
{
    char path[PATH_BYTES];
    size_t bytes = 0;
    uint8_t *data = malloc(FILE_BYTES_MAX);
    enum ot_err err = data == NULL || !file_path(losses, loss->number, path) ? OT_ERR_NO_MEMORY : encode(loss, data, FILE_BYTES_MAX, &bytes);
    if (err == OT_OK) err = make_folder(losses);
    if (err == OT_OK) err = ot_io_replace_file(losses->io, path, data, bytes, true);
    free(data);
    return err;
}

static void tell(const struct broker_loss *loss)
{
    ot_log(OT_LOG_ERROR, "loss", "records_lost", "kind=%s reason=%s topic=%s partition=%d from=%lld end=%lld high_watermark=%lld leader_epoch=%d kept=%s kept_bytes=%llu folder=\"%s\"",
        kinds[loss->kind], loss->reason, loss->topic, loss->partition, (long long)loss->from, (long long)loss->end, (long long)loss->high_watermark, loss->leader_epoch, kepts[loss->kept],
        (unsigned long long)loss->kept_bytes, loss->folder);
}

enum ot_err broker_loss_note(struct broker_losses *losses, struct broker_loss *loss)
{
    pthread_mutex_lock(&losses->mutex);
    const bool known = find(losses, loss) != NULL;
    loss->number = known ? 0 : ++losses->last;
    pthread_mutex_unlock(&losses->mutex);
    if (known) return OT_OK;
    struct broker_loss *kept = loss_new(loss, ot_str_of(loss->folder == NULL ? "" : loss->folder));
    enum ot_err err = kept == NULL ? OT_ERR_NO_MEMORY : write_entry(losses, kept);
    if (err != OT_OK) {
        ot_log(OT_LOG_ERROR, "loss", "entry_not_written", "kind=%s topic=%s partition=%d from=%lld error=%s", kinds[loss->kind], loss->topic, loss->partition, (long long)loss->from,
            ot_err_name(err));
        free(kept);
        return err;
    }
    tell(kept);
    pthread_mutex_lock(&losses->mutex);
    const bool listed = list_add(losses, kept);    /* else it is on disk alone: the next start has it */
    losses->noted[loss->kind]++;
    struct broker_loss *oldest = losses->count > BROKER_LOSSES_MAX ? take_oldest(losses) : NULL;
    pthread_mutex_unlock(&losses->mutex);
    if (!listed) free(kept);
    if (oldest != NULL) drop(losses, oldest);
    return OT_OK;
}

/* ---- told as events */

static struct broker_loss *find_number(const struct broker_losses *losses, uint64_t number)
{
    for (uint32_t i = losses->count; i-- > 0;)
        if (losses->all[i]->number == number) return losses->all[i];
    return NULL;
}

/* A copy that goes on when the entry itself goes; NULL: none, or no memory. */
static struct broker_loss *copy_of(const struct broker_loss *loss) { return loss == NULL ? NULL : loss_new(loss, ot_str_of(loss->folder)); }

static void tell_later(struct broker_losses *losses)
{
    pthread_mutex_lock(&losses->mutex);
    losses->telling.busy = false;
    pthread_mutex_unlock(&losses->mutex);
}

static void told_run(struct ot_task *task)     /* on a thread that may block */
{
    struct broker_losses *losses = OT_CONTAINER(task, struct broker_losses, telling.task);
    struct broker *broker = losses->telling.broker;
    pthread_mutex_lock(&losses->mutex);
    struct broker_loss *entry = find_number(losses, losses->telling.number);
    if (entry != NULL) entry->told = true;
    struct broker_loss *copy = copy_of(entry);
    pthread_mutex_unlock(&losses->mutex);
    if (copy != NULL) ot_ignore(write_entry(losses, copy), "it is told once more after the next start");
    free(copy);
    tell_later(losses);
    broker_losses_tell(broker);
    atomic_fetch_sub(&broker->core.work_open, 1);
}

static void event_kept(void *arg, enum ot_err err)         /* on the events' executor */
{
    struct broker_losses *losses = arg;
    struct broker_core *core = &losses->telling.broker->core;
    atomic_fetch_add(&core->work_open, 1);
    if (err != OT_OK || atomic_load(&core->stopping)) {    /* told again in a second, or after the next start */
        tell_later(losses);
        atomic_fetch_sub(&core->work_open, 1);
        return;
    }
    losses->telling.task.run = told_run;
    ot_exec_post(core->flush_exec, &losses->telling.task);
}

static void fields_of(const struct broker_loss *loss, struct broker_event_fields *fields)
{
    broker_event_fields_init(fields);
    broker_event_int_or_null(fields, "number", loss->number > 0 ? (int64_t)loss->number : -1);
    broker_event_text(fields, "kind", kinds[loss->kind]);
    broker_event_int(fields, "from_offset", loss->from);
    broker_event_int_or_null(fields, "end_offset", loss->end);
    broker_event_int_or_null(fields, "high_watermark", loss->high_watermark);
    broker_event_int_or_null(fields, "leader_epoch", loss->leader_epoch);
    broker_event_int_or_null(fields, "last_epoch", loss->last_epoch);
    broker_event_epochs(fields, "epochs", loss->epochs, loss->epoch_count);
    broker_event_text(fields, "kept", kepts[loss->kept]);
    broker_event_int(fields, "kept_bytes", (int64_t)loss->kept_bytes);
    broker_event_text(fields, "folder", loss->folder[0] == 0 ? NULL : loss->folder);
}

static struct broker_event event_of(enum broker_event_type type, const struct broker *broker, const struct broker_loss *loss, struct broker_event_fields *fields)
{
    struct broker_event event = broker_event_of(type);
    fields_of(loss, fields);
    event.at_ms = loss->wall_ms;
    event.topic = ot_str_of(loss->topic);
    event.partition = loss->partition;
    event.broker = broker->node_id;
    event.reason = loss->reason;
    event.fields = fields;
    return event;
}

void broker_losses_tell(struct broker *broker)
{
    struct broker_losses *losses = broker->core.losses;
    struct broker_event_fields fields;
    struct broker_loss *loss = NULL;
    if (losses == NULL || atomic_load(&broker->core.stopping)) return;
    pthread_mutex_lock(&losses->mutex);
    for (uint32_t i = 0; i < losses->count && !losses->telling.busy && loss == NULL; i++)
        if (!losses->all[i]->told) loss = copy_of(losses->all[i]);
    if (loss != NULL) {
        losses->telling.busy = true;
        losses->telling.broker = broker;
        losses->telling.number = loss->number;
    }
    pthread_mutex_unlock(&losses->mutex);
    if (loss == NULL) return;
    struct broker_event event = event_of(BROKER_EVENT_RECORDS_LOST, broker, loss, &fields);
    event.kept = event_kept;
    event.arg = losses;
    const bool taken = broker_event(broker, &event);
    free(loss);
    if (!taken) tell_later(losses);
}

/* With the mutex held. */
static void take(const struct broker_loss *entry, struct broker_cut *out)
{
    out->loss = *entry;
    (void)snprintf(out->folder, sizeof out->folder, "%s", entry->folder);
    out->loss.folder = out->folder;
}

/* Is it noted already? Then *cut is as the entry says. */
static bool is_known(struct broker_losses *losses, struct broker_cut *cut)
{
    pthread_mutex_lock(&losses->mutex);
    const struct broker_loss *known = find(losses, &cut->loss);
    if (known != NULL) take(known, cut);
    pthread_mutex_unlock(&losses->mutex);
    return known != NULL;
}

bool broker_loss_keeper_next(struct broker_losses *losses, struct broker_cut *io)
{
    bool found = false;
    pthread_mutex_lock(&losses->mutex);
    for (uint32_t i = 0; i < losses->count && !found; i++) {
        const struct broker_loss *entry = losses->all[i];
        found = entry->number > io->loss.number && entry->kind == io->loss.kind && entry->kept_bytes > 0 && entry->partition == io->loss.partition
            && ot_uuid_equal(&entry->topic_id, &io->loss.topic_id);
        if (found) take(entry, io);
    }
    pthread_mutex_unlock(&losses->mutex);
    return found;
}

/* ---- what happens */

void broker_loss_name(const struct broker_partition *partition, struct broker_loss *loss)
{
    (void)snprintf(loss->topic, sizeof loss->topic, "%s", partition->topic->name);
    loss->topic_id = partition->topic->id;
    loss->partition = partition->index;
    loss->wall_ms = ot_exec_wall_ms(partition->core->background_exec);
}

/* A promise of so many bytes for one partition, and the number of a folder; give_room takes what was not used of it, and all of it once the entry counts. */
static uint64_t take_room(struct broker_core *core, uint64_t *number_out)
{
    struct broker_losses *losses = core->losses;
    const struct broker_config *config = broker_config_current(core->config);
    pthread_mutex_lock(&losses->mutex);
    const uint64_t total = (uint64_t)config->ottla_loss_keep_bytes, used = losses->kept_bytes + losses->promised_bytes;
    const uint64_t room = losses->keepers >= KEEPERS_MAX ? 0 : OT_MIN(total > used ? total - used : 0, (uint64_t)config->ottla_loss_keep_partition_bytes);
    losses->promised_bytes += room;
    *number_out = ++losses->last;
    pthread_mutex_unlock(&losses->mutex);
    return room;
}

uint64_t broker_loss_number(struct broker_losses *losses)
{
    pthread_mutex_lock(&losses->mutex);
    const uint64_t number = ++losses->last;
    pthread_mutex_unlock(&losses->mutex);
    return number;
}

static void give_room(struct broker_losses *losses, uint64_t room)
{
    pthread_mutex_lock(&losses->mutex);
    losses->promised_bytes -= room;
    pthread_mutex_unlock(&losses->mutex);
}

enum ot_err broker_loss_folder(const struct broker_partition *partition, uint32_t dir, uint64_t number, char out[static PATH_BYTES])
{
    struct broker_core *core = partition->core;
    char around[PATH_BYTES];
    (void)snprintf(around, sizeof around, "%s/%s", eng_store_dir_path(core->store, dir), BROKER_LOST_FOLDER);
    const int bytes = snprintf(out, PATH_BYTES, "%s/%020" PRIu64 "-%.200s-%d", around, number, partition->topic->name, partition->index);
    if (bytes < 0 || bytes >= PATH_BYTES) return OT_ERR_TOO_LARGE;
    const enum ot_err err = core->io->ops->mkdir(core->io, around);
    if (err != OT_OK && err != OT_ERR_EXISTS) return err;
    return core->io->ops->sync_dir(core->io, eng_store_dir_path(core->store, dir));
}

enum ot_err broker_loss_folder_sync(const struct broker_partition *partition, uint32_t dir)
{
    char around[PATH_BYTES];
    (void)snprintf(around, sizeof around, "%s/%s", eng_store_dir_path(partition->core->store, dir), BROKER_LOST_FOLDER);
    return partition->core->io->ops->sync_dir(partition->core->io, around);
}

struct dropping { struct ot_io *io; const char *folder; };

static void drop_one(void *arg, const struct ot_io_entry *entry)
{
    const struct dropping *dropping = arg;
    char path[PATH_BYTES];
    const int bytes = snprintf(path, sizeof path, "%s/%s", dropping->folder, entry->name);
    if (bytes > 0 && bytes < (int)sizeof path) ot_ignore(dropping->io->ops->unlink(dropping->io, path), "a copy of what is still in the log");
}

/* No entry says what lies there, and the next attempt has a folder of its own. */
static void drop_copy(struct ot_io *io, const char *folder)
{
    struct dropping dropping = { io, folder };
    if (folder[0] == 0) return;
    ot_ignore(io->ops->list(io, folder, drop_one, &dropping), "then it stays");
    ot_ignore(io->ops->rmdir(io, folder), "then it stays");
}

/* What lies from `to` on, as far as there is room. Answers the room that is to be given back once the entry counts. */
static uint64_t keep(struct broker_partition *partition, int64_t to, struct broker_loss *loss, char folder[static PATH_BYTES])
{
    struct eng_kept kept = { .first_offset = -1 };
    uint64_t number;
    const uint64_t room = take_room(partition->core, &number);
    enum ot_err err = room == 0 ? OT_OK : broker_loss_folder(partition, partition->store_dir, number, folder);
    if (err == OT_OK && room > 0) err = eng_log_keep(partition->log, to, room, folder, &kept);
    if (err == OT_OK && kept.bytes > 0) err = broker_loss_folder_sync(partition, partition->store_dir);
    if (err != OT_OK)
        ot_log(OT_LOG_ERROR, "loss", "not_kept", "topic=%s partition=%d from=%lld error=%s", partition->topic->name, partition->index, (long long)to, ot_err_name(err));
    const bool any = err == OT_OK && kept.bytes > 0;
    if (err != OT_OK && kept.bytes > 0) drop_copy(partition->core->io, folder);
    loss->kept = !any ? BROKER_LOSS_KEPT_NO_ROOM : kept.all ? BROKER_LOSS_KEPT_ALL : BROKER_LOSS_KEPT_PART;
    loss->kept_bytes = any ? kept.bytes : 0;
    loss->kept_end = any ? kept.end_offset : -1;
    loss->folder = any ? folder : "";
    loss->cut_bytes = loss->kept == BROKER_LOSS_KEPT_ALL ? kept.bytes : OT_MAX(loss->cut_bytes, loss->kept_bytes);
    if (kept.first_offset >= 0) loss->from = OT_MIN(loss->from, kept.first_offset);        /* a cut takes whole batches */
    return room;
}

static void epochs_of(struct eng_log *log, struct broker_loss *loss)
{
    struct eng_epoch_end all[256];
    loss->epoch_count = 0;
    const uint32_t there = OT_MIN(eng_epochs_list(eng_log_epochs(log), all, OT_ARRAY_COUNT(all)), (uint32_t)OT_ARRAY_COUNT(all));
    uint32_t first = there;
    while (first > 0 && there - first < BROKER_LOSS_EPOCHS_MAX && (first == there || all[first].end_offset > loss->from)) first--;
    for (uint32_t i = first; i < there; i++) {
        loss->epochs[loss->epoch_count].epoch = all[i].epoch;
        loss->epochs[loss->epoch_count++].start = OT_MAX(all[i].end_offset, loss->from);
    }
    loss->last_epoch = there > 0 ? all[there - 1].epoch : -1;
}

/* What a cut at `from` takes. */
static void cut_of(const struct broker_partition *partition, int64_t from, int64_t high_watermark, const char *reason, int32_t leader_epoch, struct broker_cut *out)
{
    struct eng_log *log = partition->log;
    const int64_t end = eng_log_end_offset(log);
    out->folder[0] = 0;
    out->loss = (struct broker_loss){ .kind = BROKER_LOSS_CUT, .reason = reason, .from = from, .end = end, .high_watermark = high_watermark, .leader_epoch = leader_epoch,
        .cut_bytes = eng_log_bytes_between(log, from, end), .kept_end = -1, .folder = out->folder };
    broker_loss_name(partition, &out->loss);
    epochs_of(log, &out->loss);
}

/* Its folder may not have been synced: the entry would say at the next start that its copy, which goes now, was kept. */
static void take_back(struct broker_losses *losses, uint64_t number)
{
    char path[PATH_BYTES];
    if (file_path(losses, number, path)) ot_ignore(losses->io->ops->unlink(losses->io, path), "mostly it is not there");
}

enum ot_err broker_loss_before_cut(struct broker_partition *partition, int64_t to, int32_t leader_epoch, struct broker_cut *out)
{
    struct broker_losses *losses = partition->core->losses;
    struct eng_log *log = partition->log;
    pthread_mutex_lock(&partition->mutex);
    const int64_t high_watermark = partition->replica.high_watermark;
    const int32_t loss_epoch = partition->replica.row.loss_epoch;
    const enum coord_loss why = partition->replica.row.loss;
    pthread_mutex_unlock(&partition->mutex);
    /* what an election gave up was committed as far as nobody knows: a high watermark on disk is behind */
    const bool given_up = loss_epoch >= 0 && eng_epochs_for_offset(eng_log_epochs(log), to) <= loss_epoch;
    cut_of(partition, to, high_watermark, given_up ? broker_loss_reason(why) : "divergence", leader_epoch, out);
    if (losses == NULL || (to >= high_watermark && !given_up) || is_known(losses, out)) return OT_OK;
    const uint64_t room = keep(partition, to, &out->loss, out->folder);
    epochs_of(log, &out->loss);                /* it may begin earlier: whole batches go */
    const enum ot_err err = broker_loss_note(losses, &out->loss);
    if (err != OT_OK) {                        /* it is tried again until the entry is written */
        take_back(losses, out->loss.number);
        drop_copy(partition->core->io, out->loss.folder);
    }
    give_room(losses, room);
    return err;
}

void broker_loss_of_restart(struct broker_partition *partition, int32_t leader_epoch, struct broker_cut *out)
{
    cut_of(partition, eng_log_start_offset(partition->log), atomic_load(&partition->high_watermark), "behind_log_start", leader_epoch, out);
}

void broker_loss_cut_done(struct broker_partition *partition, struct broker_cut *cut)
{
    struct broker *broker = broker_of_core(partition->core);
    struct broker_event_fields fields;
    cut->loss.from = OT_MIN(cut->loss.from, eng_log_end_offset(partition->log));
    const struct broker_event event = event_of(BROKER_EVENT_RECORDS_CUT, broker, &cut->loss, &fields);
    (void)broker_event(broker, &event);        /* not taken: the log has a line, and what is an entry is told until it is kept */
}

struct soon { struct ot_task task; struct soon *next; struct broker_core *core; struct broker_loss loss; };

/* One at a time: after a power cut there may be thousands, and others want the threads and the disk too. */
static void soon_run(struct ot_task *task)
{
    struct soon *soon = OT_CONTAINER(task, struct soon, task), *next;
    struct broker_core *core = soon->core;
    struct broker_losses *losses = core->losses;
    const enum ot_err err = broker_loss_note(losses, &soon->loss);     /* failed: told in the log; the row says it still, and the next start looks again */
    pthread_mutex_lock(&losses->mutex);
    losses->owes |= err != OT_OK;
    next = losses->first;
    if (next != NULL) losses->first = next->next;
    if (losses->first == NULL) losses->last_link = &losses->first;
    losses->noting = next != NULL;
    pthread_mutex_unlock(&losses->mutex);
    if (next != NULL) ot_exec_post(core->flush_exec, &next->task);
    free(soon);
    atomic_fetch_sub(&core->work_open, 1);
}

static void soon_add(struct soon *soon)
{
    struct broker_losses *losses = soon->core->losses;
    soon->task.run = soon_run;
    atomic_fetch_add(&soon->core->work_open, 1);
    pthread_mutex_lock(&losses->mutex);
    const bool now = !losses->noting;
    losses->noting = true;
    if (!now) {
        *losses->last_link = soon;
        losses->last_link = &soon->next;
    }
    pthread_mutex_unlock(&losses->mutex);
    if (now) ot_exec_post(soon->core->flush_exec, &soon->task);
}

/* Where records of epochs behind that one begin: what may be lost lies above the end of those before. With the partition's mutex. */
static int64_t end_of_epoch(const struct broker_partition *partition, int32_t epoch)
{
    const struct eng_epoch_end end = eng_epochs_end(eng_log_epochs(partition->log), epoch, eng_log_end_offset(partition->log));
    return end.epoch < 0 ? partition->replica.epoch_start : end.end_offset;
}

void broker_loss_of_election(struct broker_partition *partition)
{
    struct broker_core *core = partition->core;
    struct broker_losses *losses = core->losses;
    const struct replica *replica = &partition->replica;
    const struct coord_partition *row = &replica->row;
    const int64_t settled = losses == NULL ? -1 : atomic_load(&losses->settled);
    const bool sole = row->replica_count == 1, at_once = row->loss_epoch + 1 == row->leader_epoch, missed = settled >= 0 && row->loss_version > settled;
    const bool again = !sole || missed;        /* it may have crashed before it was noted */
    const bool begun_so = replica->role == REPLICA_LEADER && row->loss_version >= 0 && row->loss_leader == core->node_id && (at_once || again);
    /* a sole replica always leads again: in a class that waits for its disk nothing that was acknowledged is gone */
    const bool nothing = sole && replica_class_now(replica) != REPLICA_REPLICATED;
    if (losses == NULL || !begun_so || nothing) return;
    struct soon *soon = calloc(1, sizeof *soon);
    if (soon == NULL) {
        ot_log(OT_LOG_ERROR, "loss", "entry_not_written", "kind=election topic=%s partition=%d from=%lld error=NO_MEMORY", partition->topic->name, partition->index, (long long)row->loss_from);
        return;
    }
    soon->core = core;
    soon->loss = (struct broker_loss){ .kind = BROKER_LOSS_ELECTION, .reason = broker_loss_reason(row->loss), .from = row->loss_from >= 0 ? row->loss_from : end_of_epoch(partition, row->loss_epoch),
        .end = -1, .high_watermark = replica->high_watermark, .leader_epoch = row->loss_epoch + 1, .last_epoch = row->loss_epoch, .kept_end = -1, .folder = "" };
    broker_loss_name(partition, &soon->loss);
    soon_add(soon);
}

/* ---- a sole replica whose start was killed before its entry was written: the next start's row does not tell it from one that had nothing to note, in another durability class */

enum ot_err broker_loss_settled(struct broker_losses *losses, int64_t version)
{
    char path[PATH_BYTES], text[SETTLED_BYTES_MAX];
    const int path_bytes = snprintf(path, sizeof path, "%s/" SETTLED_NAME, losses->path), bytes = snprintf(text, sizeof text, "version: 0\nsettled: %" PRId64 "\n", version);
    enum ot_err err = path_bytes < 0 || path_bytes >= (int)sizeof path ? OT_ERR_TOO_LARGE : make_folder(losses);
    if (err == OT_OK) err = ot_io_replace_file(losses->io, path, text, (size_t)bytes, true);
    if (err == OT_OK) atomic_store(&losses->settled, version);
    return err;
}

static void settle_run(struct ot_task *task)
{
    struct broker_losses *losses = OT_CONTAINER(task, struct broker_losses, settling.task);
    struct broker_core *core = losses->settling.core;
    ot_ignore(broker_loss_settled(losses, losses->settling.version), "the next start looks at more rows than it has to");
    atomic_fetch_sub(&core->work_open, 1);
}

static bool may_lead(const struct broker_view *view, int32_t id)
{
    struct broker_view_broker broker;
    struct ot_arena arena;
    uint8_t room[4096];
    ot_arena_init_with(&arena, room, sizeof room, 64u << 10);
    const bool may = broker_view_next_broker(view, id - 1, &arena, &broker) && broker.id == id && !broker.fenced;
    ot_arena_free(&arena);
    return may;
}

void broker_losses_settle(struct broker *broker)
{
    struct broker_core *core = &broker->core;
    struct broker_losses *losses = core->losses;
    struct broker_view_cluster cluster;
    if (losses == NULL || losses->settling.begun || atomic_load(&core->stopping)) return;
    const struct broker_view *view = broker_view_take(broker);
    broker_view_cluster(view, &cluster);
    const bool serves = may_lead(view, broker->node_id) && atomic_load(&core->partitions_pending) == 0 && atomic_load(&core->partitions_failed) == 0;
    broker_view_give(view);
    pthread_mutex_lock(&losses->mutex);
    const bool quiet = serves && !losses->noting && !losses->owes;
    pthread_mutex_unlock(&losses->mutex);
    losses->settling.begun = quiet && losses->settling.version >= 0;
    if (!losses->settling.begun) {             /* seen a tick ago, its rows have reached the partitions by now */
        losses->settling.version = quiet ? cluster.version : -1;
        return;
    }
    losses->settling.core = core;
    losses->settling.task.run = settle_run;
    atomic_fetch_add(&core->work_open, 1);
    ot_exec_post(core->flush_exec, &losses->settling.task);
}
