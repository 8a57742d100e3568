#include "cli/log_adopt.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/util.h"
#include "broker/broker.h"
#include "cli/server_config.h"
#include "cli/shared.h"
#include "cli/text.h"
#include "engine/adopt.h"
#include "engine/dump.h"
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define IO_THREADS     2u
#define CHANGE_WAIT_MS 30000

const struct cli_flag cli_log_adopt_flags[] = {
    {"topic", 't', "NAME", false, "the topic that it becomes a partition of; made when it is not there"},
    {"partition", 'p', "N", false, "which one (as the folder is called: 3 of orders-3)"},
    {"partitions", 0, "N", false, "how many a topic gets that is made by this (one more than --partition)"},
    {"cut-damaged-tail", 0, NULL, false, "cut off a torn or bad end rather than refuse it"},
    {"data", 0, "DIR", false, "short for --set log.dirs=DIR; default ./ottla-data"},
    {"config", 0, "FILE", false, "server.properties of the server"},
    {"set", 0, "KEY=VALUE", true, "one configuration value of the server"},
    {"quiet", 'q', NULL, false, "only errors"},
    {0},
};

struct job {
    const struct cli_args *args;
    const char *from, *topic;
    int32_t partition, partition_count;
    bool cut;
    struct broker_config_store *config;
    struct ot_mem_budget budget;
    struct ot_exec_pool *io_pool, *flush_pool;
    struct ot_exec_thread *background, *coordinator;
    struct broker *broker;
    struct ot_uuid topic_id;
    struct eng_dump_summary found;
    uint64_t log_faults;
    int64_t producer_id_max; /* of its batches; -1: none */
    bool made; /* the topic, by us */
};

/* ---- what is asked */

static bool partition_of_folder(const char *path, int32_t *out)
{
    char name[512];
    snprintf(name, sizeof(name), "%s", path);
    for (size_t bytes = strlen(name); bytes > 1 && name[bytes - 1] == '/'; bytes--) name[bytes - 1] = 0;
    const char *slash = strrchr(name, '/'), *leaf = slash == NULL ? name : slash + 1, *dash = strrchr(leaf, '-');
    int64_t number;
    if (dash == NULL || dash == leaf || !cli_number(dash + 1, 0, INT32_MAX, &number)) return false;
    *out = (int32_t)number;
    return true;
}

static int read_flags(struct job *job)
{
    int64_t partition, count;
    char why[200];
    job->topic = cli_flag_value(job->args, "topic");
    job->cut = cli_flag_given(job->args, "cut-damaged-tail");
    if (job->topic == NULL) return cli_fail(CLI_USAGE, "ottla log adopt DIR --topic NAME", "--topic is missing");
    if (!broker_topic_name_valid(ot_str_of(job->topic), why, sizeof(why))) return cli_fail(CLI_USAGE, NULL, "--topic: %s", why);
    int code = cli_flag_number(job->args, "partition", 0, INT32_MAX - 1, -1, &partition);
    if (code >= 0) return code;
    job->partition = (int32_t)partition;
    if (partition < 0 && !partition_of_folder(job->from, &job->partition))
        return cli_fail(CLI_USAGE, "ottla log adopt DIR --topic NAME --partition 0", "`%s` does not end in a partition number", job->from);
    code = cli_flag_number(job->args, "partitions", 1, INT32_MAX, (int64_t)job->partition + 1, &count);
    job->partition_count = (int32_t)count;
    if (code < 0 && job->partition_count <= job->partition) return cli_fail(CLI_USAGE, NULL, "--partitions %d leaves no room for partition %d", job->partition_count, job->partition);
    return code;
}

static void note_row(void *arg, const struct eng_dump_row *row)
{
    struct job *job = arg;
    for (uint32_t i = 0; row->kind == ENG_DUMP_FAULT && i < row->field_count; i++) {
        const struct ot_blob path = row->fields[i].bytes;
        /* of the records only: indexes are made anew, and what else is derived from them is checked by the copy */
        if (strcmp(row->fields[i].name, "path") == 0 && path.bytes > 4 && memcmp(path.data + path.bytes - 4, ".log", 4) == 0) job->log_faults++;
    }
    for (uint32_t i = 0; row->kind == ENG_DUMP_BATCH && i < row->field_count; i++)
        if (strcmp(row->fields[i].name, "producerId") == 0) job->producer_id_max = OT_MAX(job->producer_id_max, row->fields[i].number);
}

/* Before anything is changed here. */
static int look_at_source(struct job *job)
{
    struct eng_dump_options options = eng_dump_options_default();
    options.row = note_row;
    options.arg = job;
    job->producer_id_max = -1;
    const enum ot_err err = eng_dump_verify(ot_io_real(), job->from, &options, &job->found);
    if (err == OT_ERR_NOT_FOUND) return cli_fail(CLI_NOT_FOUND, NULL, "%s: no such directory", job->from);
    if (err == OT_ERR_MALFORMED) return cli_fail(CLI_NOT_FOUND, NULL, "%s: not a partition directory (no .log in it)", job->from);
    if (err != OT_OK) return cli_fail(CLI_FAILED, NULL, "%s: %s", job->from, ot_err_text(err));
    if (job->log_faults > 0 && !job->cut)
        return cli_fail(CLI_PROBLEMS, "ottla log verify DIR shows them; --cut-damaged-tail takes what is sound before the first", "%s: %" PRIu64 " faults; nothing was changed",
            job->from, job->log_faults);
    return -1;
}

/* ---- the broker without doors */

static int open_broker(struct job *job)
{
    struct broker_config_store *config = job->config;
    const struct broker_config *current = broker_config_current(config);
    static const struct broker_listener listener = {.name = "PLAINTEXT", .host = "127.0.0.1", .security = "PLAINTEXT", .port = 9092, .advertised_port = 9092};
    ot_log_setup(OT_LOG_ERROR, OT_LOG_TEXT, STDERR_FILENO);
    ot_guard_install();
    enum ot_err err = ot_mem_budget_init(&job->budget, (uint64_t)current->ottla_memory_bytes, ot_mem_specs, OT_MEM_POOL_COUNT, NULL, 0);
    if (err == OT_OK) err = ot_exec_pool_start("io", IO_THREADS, &job->io_pool);
    if (err == OT_OK) err = ot_exec_pool_start("flush", 1, &job->flush_pool);
    if (err == OT_OK) err = ot_exec_thread_start("background", &job->background);
    if (err == OT_OK) err = ot_exec_thread_start("coordinator", &job->coordinator);
    if (err == OT_OK) {
        struct broker_setup setup = {.io = ot_io_real(), .config = config, .io_exec = ot_exec_pool_exec(job->io_pool), .flush_exec = ot_exec_pool_exec(job->flush_pool),
            .background_exec = ot_exec_thread_exec(job->background), .coord_exec = ot_exec_thread_exec(job->coordinator),
            .decode_pool = ot_mem_pool_buffers(&job->budget.pools[OT_MEM_decoding]), .listeners = &listener, .listener_count = 1};
        err = setup.decode_pool == NULL ? OT_ERR_NO_MEMORY : broker_open(&setup, &job->broker);
    }
    if (err == OT_ERR_LOCKED) return cli_fail(CLI_CONFLICT, "stop the server, adopt, start it again", "a server is running on %s", current->log_dirs);
    return err == OT_OK ? -1 : cli_fail(CLI_FAILED, NULL, "%s: %s", current->log_dirs, ot_err_text(err));
}

static void close_broker(struct job *job)
{
    if (job->broker != NULL) {
        broker_stop(job->broker);
        broker_close(job->broker);
        job->broker = NULL;
    }
    ot_exec_thread_stop(job->coordinator);
    ot_exec_pool_stop(job->io_pool);
    ot_exec_pool_stop(job->flush_pool);
    ot_exec_thread_stop(job->background);
    ot_mem_budget_free(&job->budget);
    job->io_pool = job->flush_pool = NULL;
    job->background = job->coordinator = NULL;
}

struct change {
    struct ot_task task;
    struct broker *broker;
    struct broker_admin admin;
    struct broker_admin_item item;
    int woken; /* an eventfd */
};

static void changed(struct broker_call *call)
{
    struct change *change = OT_CONTAINER(call, struct change, admin.call);
    const uint64_t one = 1;
    const ssize_t wrote = write(change->woken, &one, sizeof(one)); /* an eventfd at 0 takes it */
    (void)wrote;
}

static void begin_change(struct ot_task *task)
{
    struct change *change = OT_CONTAINER(task, struct change, task);
    broker_admin(change->broker, &change->admin);
}

/* One change of the cluster state, waited for. A call begins and ends on a serial executor: the background thread here. */
static int change_topic(struct job *job, enum broker_admin_kind kind)
{
    static struct change change; /* outlives a wait that gives up */
    change = (struct change){.woken = eventfd(0, EFD_CLOEXEC)};
    if (change.woken < 0) return cli_fail(CLI_FAILED, NULL, "no eventfd");
    change.item = (struct broker_admin_item){.kind = kind, .topic = ot_str_of(job->topic), .partition_count = job->partition_count, .replication_factor = -1, .if_version = -1};
    change.admin.call.done = changed;
    change.admin.timeout_ms = CHANGE_WAIT_MS;
    change.admin.items = &change.item;
    change.admin.item_count = 1;
    change.admin.call.home = ot_exec_thread_exec(job->background);
    change.broker = job->broker;
    change.task.run = begin_change;
    ot_exec_post(change.admin.call.home, &change.task);
    struct pollfd fd = {.fd = change.woken, .events = POLLIN};
    if (poll(&fd, 1, CHANGE_WAIT_MS * 2) != 1) return cli_fail(CLI_UNREACHABLE, NULL, "the coordinator does not answer");
    close(change.woken);
    if (change.item.error == OT_OK) return -1;
    return cli_fail(CLI_FAILED, NULL, "%s: %s", ot_err_name(change.item.error), change.item.text[0] != 0 ? change.item.text : ot_err_text(change.item.error));
}

struct skip {
    struct ot_task task;
    struct broker *broker;
    struct broker_producer_id ask;
    int64_t above;
    int woken;
};

static void skipped(struct broker_call *call)
{
    struct skip *skip = OT_CONTAINER(call, struct skip, ask.call);
    const uint64_t one = 1;
    const ssize_t wrote = write(skip->woken, &one, sizeof(one));
    (void)wrote;
}

static void begin_skip(struct ot_task *task)
{
    struct skip *skip = OT_CONTAINER(task, struct skip, task);
    broker_producer_ids_skip(skip->broker, &skip->ask, skip->above);
}

/* The log knows producers by ids of another cluster: ours begins behind them, or a new producer would be taken for one of those. */
static int skip_producer_ids(struct job *job)
{
    static struct skip skip;
    if (job->producer_id_max < 0) return -1;
    skip = (struct skip){.woken = eventfd(0, EFD_CLOEXEC), .broker = job->broker, .above = job->producer_id_max};
    if (skip.woken < 0) return cli_fail(CLI_FAILED, NULL, "no eventfd");
    skip.ask.call.home = ot_exec_thread_exec(job->background);
    skip.ask.call.done = skipped;
    skip.task.run = begin_skip;
    ot_exec_post(skip.ask.call.home, &skip.task);
    struct pollfd fd = {.fd = skip.woken, .events = POLLIN};
    if (poll(&fd, 1, CHANGE_WAIT_MS * 2) != 1) return cli_fail(CLI_UNREACHABLE, NULL, "the coordinator does not answer");
    close(skip.woken);
    return skip.ask.error == OT_OK ? -1 : cli_fail(CLI_FAILED, NULL, "producer ids: %s", ot_err_text(skip.ask.error));
}

static bool find_topic(struct job *job, struct broker_view_topic *out)
{
    const struct broker_view *view = broker_view_take(job->broker);
    struct ot_str name = ot_str_of(job->topic);
    const bool found = broker_view_topic(view, name, out);
    if (found) job->topic_id = out->id;
    broker_view_give(view);
    return found;
}

/* The topic is there with room for the partition, and the partition is empty. */
static int prepare_topic(struct job *job)
{
    struct broker_view_topic topic;
    int code = -1;
    if (!find_topic(job, &topic)) {
        code = change_topic(job, BROKER_CREATE_TOPIC);
        job->made = code < 0;
    } else if (topic.partition_count <= job->partition) {
        code = change_topic(job, BROKER_CREATE_PARTITIONS);
    }
    if (code >= 0) return code;
    if (!find_topic(job, &topic)) return cli_fail(CLI_FAILED, NULL, "%s is not there after it was made", job->topic);
    struct broker_partition_state state;
    struct broker_partition *partition = broker_partition_find_id(job->broker, &job->topic_id, job->partition);
    if (partition == NULL) return cli_fail(CLI_FAILED, NULL, "%s-%d has no replica here", job->topic, job->partition);
    broker_partition_state(partition, &state);
    broker_partition_put(partition);
    if (state.open && state.log_end_offset > 0)
        return cli_fail(CLI_CONFLICT, "another --topic or --partition", "%s-%d holds records already, up to offset %" PRId64, job->topic, job->partition, state.log_end_offset - 1);
    return -1;
}

/* ---- the files */

struct home {
    const char *topic;
    int32_t partition;
    uint32_t dir;
    bool found;
};

static void note_folder(void *arg, uint32_t dir, const char *topic, int32_t partition)
{
    struct home *home = arg;
    if (partition != home->partition || strcmp(topic, home->topic) != 0) return;
    home->found = true;
    home->dir = dir;
}

static void note_leaf(void *arg, const struct ot_io_entry *entry)
{
    bool *has_log = arg;
    const size_t bytes = strlen(entry->name);
    if (bytes > 4 && strcmp(entry->name + bytes - 4, ".log") == 0) *has_log = true;
}

/* The empty folder that the broker made goes: renamed to a name that every start clears away. */
static enum ot_err clear_folder(struct eng_store *store, const struct home *home)
{
    struct ot_io *io = eng_store_io(store);
    char from[4096], to[4200];
    bool has_log = false;
    snprintf(from, sizeof(from), "%s/%s-%d", eng_store_dir_path(store, home->dir), home->topic, home->partition);
    snprintf(to, sizeof(to), "%s.%016llx-delete", from, (unsigned long long)ot_clock_wall_ms());
    enum ot_err err = io->ops->list(io, from, note_leaf, &has_log);
    if (err != OT_OK) return err;
    return has_log ? OT_ERR_EXISTS : io->ops->rename(io, from, to);
}

static int put_files(struct job *job)
{
    char storage[4096], bytes[24];
    const char *dirs[CLI_DIRS_MAX];
    struct eng_store_config config = {.dirs = dirs, .files_max = 256, .maps_max = 64};
    struct eng_store *store = NULL;
    struct home home = {.topic = job->topic, .partition = job->partition};
    struct eng_adopted done = {.text = ""};
    uint32_t bad_dir;
    config.dir_count = cli_dirs_split(broker_config_current(job->config)->log_dirs, storage, sizeof(storage), dirs, CLI_DIRS_MAX);
    enum ot_err err = eng_store_open(ot_io_real(), &config, &store, &bad_dir);
    if (err != OT_OK) return cli_fail(CLI_FAILED, NULL, "%s: %s", dirs[0], ot_err_text(err));
    for (uint32_t dir = 0; dir < config.dir_count && err == OT_OK && !home.found; dir++)
        if (!eng_store_dir_offline(store, dir)) err = eng_store_scan(store, dir, note_folder, &home);
    if (err == OT_OK && home.found) err = clear_folder(store, &home);
    if (err == OT_OK && !home.found) err = eng_store_place(store, 0, &home.dir);
    const struct eng_adopt how = {.from_path = job->from, .store_dir = home.dir, .topic = job->topic, .partition = job->partition, .topic_id = job->topic_id,
        .cut_damaged_tail = job->cut, .restart_epochs = true, .wall_ms = ot_clock_wall_ms()};
    if (err == OT_OK) err = eng_adopt(store, &how, &done);
    eng_store_close(store);
    if (err != OT_OK)
        return cli_fail(err == OT_ERR_CORRUPT || err == OT_ERR_MISMATCH ? CLI_PROBLEMS : err == OT_ERR_EXISTS ? CLI_CONFLICT : CLI_FAILED, NULL, "%s: %s%s", job->from,
            done.text[0] != 0 ? done.text : ot_err_text(err), job->made ? "; the topic was made and is empty" : "");
    if (!cli_flag_given(job->args, "quiet")) {
        printf("%s-%d: offsets %" PRId64 " to %" PRId64 ", %u segments, %s\n", job->topic, job->partition, done.log_start_offset, done.log_end_offset, done.segments,
            cli_human_bytes(done.bytes, bytes));
        if (done.cut_bytes > 0) printf("%" PRIu64 " damaged bytes at the end were left behind\n", done.cut_bytes);
    }
    return CLI_DONE;
}

int cli_log_adopt_run(const struct cli_args *args)
{
    static struct job job;
    job = (struct job){.args = args, .from = cli_name(args, 0)};
    int code = read_flags(&job);
    if (code < 0) code = look_at_source(&job);
    if (code < 0 && broker_config_store_new(&job.config) != OT_OK) code = cli_fail(CLI_FAILED, NULL, "out of memory");
    if (code < 0) code = cli_server_config(args, job.config);
    if (code < 0) {
        code = open_broker(&job);
        if (code < 0) code = prepare_topic(&job);
        if (code < 0) code = skip_producer_ids(&job);
        close_broker(&job);
    }
    if (code < 0) code = put_files(&job);
    broker_config_store_free(job.config);
    return code;
}
