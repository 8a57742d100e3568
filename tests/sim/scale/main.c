/* ottla_sim_scale: what a coordinator costs at the size that the design speaks of: a real coordinator over its real journal on the real disk, brokers as followers that share one image.
 *
 *   ottla_sim_scale [--brokers N] [--partitions N] [--dir DIR] [--gate]
 * Each follower keeps a question parked at the coordinator, as a broker without a vote does, and every answer to it is decoded; the first one that is to a change applies it to the
 * image that all share. --gate: fail where a figure is far off what it should be by its work (counts and bytes, not time). Last line: N passed, N failed. */
#include "base/log.h"
#include "broker/journal.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define CHECK(fact) ((fact) ? (void)0 : failed_check(#fact, __LINE__))
enum { REPLICAS = 3, RACKS = 3, TOPIC_PARTITIONS = 1000, DELTA_BYTES_MAX = 100 << 20 };

OT_NORETURN static void failed_check(const char *fact, int line)
{
    fprintf(stderr, "FAILED line %d: %s\n", line, fact);
    exit(1);
}

struct follower { bool parked; struct coord_mark mark; };
struct scale {
    int32_t brokers, partitions;
    struct coord *coord; struct coord_pages *pages;
    struct broker_journal journal; char dir[256];
    struct coord_request ask; bool answered;
    struct coord_value image; struct coord_mark image_mark;        /* of the followers */
    struct follower *followers;
    uint64_t now_us;
    /* since the last report */
    uint64_t publications, rows, delta_bytes, journal_bytes, fanout_bytes, sent, applied;
    double step_s, store_s, apply_s, snapshot_s;
    uint64_t snapshot_bytes, snapshots, token, heartbeats; double heartbeat_s;
    int32_t passed, failed;
    bool gate;
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);        /* as if alone: waits for the disk are not in it */
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double resident_mib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

static uint32_t rows_of(struct ot_blob delta)
{
    struct coord_delta_reader in = coord_delta_reader_over(delta);
    struct coord_delta_row row;
    uint32_t count = 0;
    while (coord_delta_next(&in, &row)) {
        count++;
    }
    return count;
}

/* ---- followers */

static void take(struct scale *s, const struct coord_out *out)
{
    struct coord_message message;
    struct follower *follower = &s->followers[out->peer];
    CHECK(coord_message_decode(out->body, &message) == OT_OK);
    s->sent++;
    s->fanout_bytes += out->body.bytes;
    follower->parked = false;
    if (message.kind != COORD_CHANGES) {
        return;
    }
    CHECK(message.base.state_hash == follower->mark.state_hash);
    if (message.committed.state_hash != s->image_mark.state_hash && message.base.state_hash == s->image_mark.state_hash) {
        double began = now_s();
        CHECK(coord_delta_apply(&s->image, message.data) == OT_OK && s->image.state_hash == message.committed.state_hash);
        s->image_mark = message.committed;
        s->apply_s += now_s() - began;
    }
    if (message.committed.state_hash == s->image_mark.state_hash) {
        follower->mark = message.committed;
        s->applied++;
    }
}

static void turn(struct scale *s, struct coord_in in);

static void ask_for_news(struct scale *s)
{
    uint8_t body[2048];
    size_t bytes;
    uint64_t cluster = coord_cluster_hash(coord_cluster_id(s->coord));
    for (int32_t i = 1; i <= s->brokers; i++) {
        struct follower *follower = &s->followers[i];
        if (!follower->parked) {
            struct coord_message message = { .kind = COORD_CATCH_UP, .cluster = cluster, .sender = i, .term = coord_term(s->coord), .levels = coord_levels_known(), .level = COORD_LEVEL_FIRST, .leader = 0, .committed = follower->mark,
                .accepted = follower->mark };
            CHECK(coord_message_encode(&message, body, sizeof body, &bytes) == OT_OK);
            follower->parked = true;
            turn(s, (struct coord_in){ .kind = COORD_MSG, .peer = (uint32_t)i, .body = coord_blob(body, bytes) });
        }
    }
}

/* ---- the coordinator and its disk */

static void snapshot(struct scale *s, const struct coord_out *out)
{
    struct coord_value share = coord_value_share(out->value);
    struct coord_snapshot result;
    struct broker_journal_mark mark = broker_journal_mark(&s->journal);
    struct ot_str id = coord_cluster_id(s->coord);
    struct coord_format format = { .cluster_id = id, .node_id = 0, .dir_id = { { 1 } } };
    char name[40];
    double began = now_s();
    CHECK(broker_snapshot_write(ot_io_real(), s->dir, &share, name, &result) == OT_OK);
    CHECK(broker_journal_switch(&s->journal, &format, &result, &mark) == OT_OK);
    s->snapshot_s += now_s() - began;
    s->snapshot_bytes = result.file_bytes;
    s->snapshots++;
    coord_value_drop(&share);
    s->token = out->token;
}

static uint64_t store(struct scale *s, const struct coord_out *out)
{
    uint64_t before = s->journal.end_pos;
    double began = now_s();
    CHECK(broker_journal_write(&s->journal, out->record, out->sync) == OT_OK);
    s->store_s += now_s() - began;
    s->now_us += 1000;                         /* a sync */
    s->journal_bytes += s->journal.end_pos - before;
    if (out->record->kind == COORD_RECORD_ACCEPT) {
        s->publications++;
        s->rows += rows_of(out->record->u.accept.delta);
        s->delta_bytes += out->record->u.accept.delta.bytes;
    }
    return out->token;
}

static void turn(struct scale *s, struct coord_in in)
{
    struct coord_out out;
    uint64_t stored = 0;
    in.now_us = s->now_us;
    double began = now_s();
    coord_step(s->coord, &in);
    double took_s = now_s() - began;
    s->step_s += took_s;
    s->now_us += (uint64_t)(took_s * 1e6);     /* what it takes is time too: whose session ends meanwhile goes with the next ones */
    while (coord_next(s->coord, &out)) {
        switch (out.kind) {
        case COORD_STORE: stored = store(s, &out); break;
        case COORD_SNAPSHOT: snapshot(s, &out); break;
        case COORD_SEND: take(s, &out); break;
        case COORD_REPLY: s->answered |= out.request == &s->ask; break;
        case COORD_HALT: fprintf(stderr, "%s\n", out.text); CHECK(!"halted"); break;
        case COORD_APPLY:
        case COORD_ROLE: break;
        }
    }
    if (stored != 0) {
        turn(s, (struct coord_in){ .kind = COORD_STORED, .token = stored });
    }
    if (s->token != 0) {
        uint64_t token = s->token;
        s->token = 0;
        turn(s, (struct coord_in){ .kind = COORD_STORED, .token = token });
    }
}

static enum ot_err ask(struct scale *s)
{
    s->answered = false;
    s->ask.if_version = -1;
    s->now_us += 1000;
    turn(s, (struct coord_in){ .kind = COORD_REQUEST, .request = &s->ask });
    CHECK(s->answered);
    if (s->ask.error != OT_OK) {
        fprintf(stderr, "%s: %s\n", ot_err_name(s->ask.error), s->ask.text);
    }
    return s->ask.error;
}

static void begin(struct scale *s)
{
    s->publications = s->rows = s->delta_bytes = s->journal_bytes = s->fanout_bytes = s->sent = s->applied = s->snapshots = 0;
    s->step_s = s->store_s = s->apply_s = s->snapshot_s = 0;
}

static void report(const struct scale *s, const char *what)
{
    printf("| %-26s | %9llu | %5llu | %10.1f | %10.1f | %9.1f | %9.1f | %8.1f | %9.1f |\n", what, (unsigned long long)s->rows, (unsigned long long)s->publications,
        (double)s->delta_bytes / 1024, (double)s->journal_bytes / 1024, (double)s->fanout_bytes / 1048576, s->step_s * 1e3, s->store_s * 1e3, s->apply_s * 1e3);
}

static void gate(struct scale *s, bool holds, const char *what)
{
    *(holds ? &s->passed : &s->failed) += 1;
    if (!holds) {
        printf("FAILED: %s\n", what);
    }
}

/* ---- what happens */

static int64_t epoch_of(struct scale *s, int32_t id)
{
    struct ot_coord_broker_row row;
    struct ot_arena arena;
    uint8_t room[4096];
    ot_arena_init_with(&arena, room, sizeof room, 0);
    CHECK(coord_broker_get(coord_view(s->coord), id, &arena, &row) == OT_OK);
    return row.broker_epoch;
}

static void heartbeat(struct scale *s, int32_t id)
{
    s->ask = (struct coord_request){ .ask = COORD_ASK_HEARTBEAT,
        .u.heartbeat = { .broker_id = id, .broker_epoch = epoch_of(s, id), .applied_version = coord_view(s->coord)->stamp.version } };
    CHECK(ask(s) == OT_OK);
}

static void make_brokers(struct scale *s)
{
    static const char *const racks[RACKS] = { "a", "b", "c" };
    for (int32_t id = 1; id <= s->brokers; id++) {
        char host[32];
        snprintf(host, sizeof host, "broker-%d.example.com", id);
        struct coord_endpoint endpoint = { .name = ot_str_of("PLAINTEXT"), .host = ot_str_of(host), .port = 9092, .security = ot_str_of("PLAINTEXT") };
        struct ot_uuid dir = { { 0 } };
        ot_store_u32(dir.bytes, (uint32_t)id);
        s->ask = (struct coord_request){ .ask = COORD_ASK_REGISTER, .u.register_ = { .broker_id = id, .incarnation_id = dir, .dir_ids = &dir, .dir_count = 1, .endpoints = &endpoint,
            .endpoint_count = 1, .rack = ot_str_of(racks[id % RACKS]) } };
        CHECK(ask(s) == OT_OK);
        heartbeat(s, id);
    }
}

static struct ot_uuid make_topics(struct scale *s)
{
    struct ot_uuid first = { { 0 } };
    for (int32_t made = 0; made < s->partitions; made += TOPIC_PARTITIONS) {
        char name[32];
        snprintf(name, sizeof name, "topic-%d", made / TOPIC_PARTITIONS);
        s->ask = (struct coord_request){ .ask = COORD_ASK_CREATE_TOPIC, .u.topic = { .name = ot_str_of(name),
            .partition_count = OT_MIN(TOPIC_PARTITIONS, s->partitions - made), .replication_factor = REPLICAS } };
        CHECK(ask(s) == OT_OK);
        if (made == 0) {
            first = s->ask.topic_id;
        }
    }
    return first;
}

/* One member leaves the isr of one partition. */
static void flap(struct scale *s, const struct ot_uuid *topic)
{
    struct coord_partition row;
    struct coord_member members[REPLICAS];
    CHECK(coord_partition_get(coord_view(s->coord), topic, 0, &row) == OT_OK && row.replica_count == REPLICAS);
    struct coord_alter alter = { .topic_id = *topic, .partition = 0, .leader_epoch = row.leader_epoch, .partition_epoch = row.partition_epoch, .members = members };
    for (int32_t i = 0; i < REPLICAS; i++) {
        if (row.replicas[i] == row.leader || alter.member_count == 0) {
            members[alter.member_count++] = (struct coord_member){ row.replicas[i], epoch_of(s, row.replicas[i]) };
        }
    }
    s->ask = (struct coord_request){ .ask = COORD_ASK_ALTER, .u.alter = { .broker_id = row.leader, .broker_epoch = epoch_of(s, row.leader), .term = coord_term(s->coord), .sequence = 1,
        .items = &alter, .count = 1 } };
    CHECK(ask(s) == OT_OK && alter.error == OT_OK);
}

/* All brokers are heard of but those of one rack (rack -1: but one broker), until the sessions of these are over. */
static uint64_t silence(struct scale *s, int32_t rack, int32_t lone)
{
    uint64_t before = s->now_us, version = (uint64_t)coord_view(s->coord)->stamp.version;
    for (int beat = 0; beat < 12; beat++) {
        double other_s = s->step_s;
        for (int32_t id = 1; id <= s->brokers; id++) {
            struct ot_coord_broker_row row;
            struct ot_arena arena;
            uint8_t room[4096];
            ot_arena_init_with(&arena, room, sizeof room, 0);
            CHECK(coord_broker_get(coord_view(s->coord), id, &arena, &row) == OT_OK);
            if (!row.fenced && id % RACKS != rack && id != lone) {
                s->ask = (struct coord_request){ .ask = COORD_ASK_HEARTBEAT, .u.heartbeat = { id, row.broker_epoch, coord_view(s->coord)->stamp.version, false, false } };
                CHECK(ask(s) == OT_OK);
                s->heartbeats++;
            }
        }
        s->heartbeat_s += s->step_s - other_s;
        s->step_s = other_s;
        uint64_t until = before + (uint64_t)(beat + 1) * 2000000;
        for (uint64_t due; (due = coord_deadline_us(s->coord)) <= until;) {
            s->now_us = OT_MAX(s->now_us, due);
            turn(s, (struct coord_in){ .kind = COORD_TICK });
            ask_for_news(s);
        }
        s->now_us = OT_MAX(s->now_us, until);
    }
    return (uint64_t)coord_view(s->coord)->stamp.version - version;
}

static void start(struct scale *s)
{
    char text[400] = "";
    struct coord_disk_image image;
    struct coord_config config = { .node_id = 0, .dir_id = { { 1 } }, .cluster_id = ot_str_of("scale"), .voter_host = ot_str_of("h"), .min_isr_default = 2,
        .partitions_max = s->partitions + 10, .brokers_max = (uint32_t)s->brokers + 10, .delta_bytes_max = DELTA_BYTES_MAX, .session_us = 9000000 };
    s->pages = coord_pages_new(UINT64_C(4) << 30);
    s->journal = (struct broker_journal){ .fd = -1, .term_fd = -1 };
    coord_image_init(&image, s->pages);
    CHECK(broker_journal_open(&s->journal, ot_io_real(), s->dir, &image, text, sizeof text) == OT_OK && image.blank);
    CHECK(coord_new(&config, &image, 1, &s->coord, text, sizeof text) == OT_OK);
    coord_image_free(&image);
    turn(s, (struct coord_in){ .kind = COORD_TICK });
    s->followers = calloc((size_t)s->brokers + 1, sizeof *s->followers);
}

/* As after a start: everybody has the image. */
static void share_image(struct scale *s)
{
    const struct coord_value *view = coord_view(s->coord);
    coord_value_drop(&s->image);
    s->image = coord_value_share(view);
    s->image_mark = (struct coord_mark){ view->stamp, view->state_hash };
    for (int32_t i = 1; i <= s->brokers; i++) {
        s->followers[i] = (struct follower){ .mark = s->image_mark };
    }
    ask_for_news(s);
}

static uint64_t behind(const struct scale *s)
{
    uint64_t count = 0;
    for (int32_t i = 1; i <= s->brokers; i++) {
        count += s->followers[i].mark.state_hash != coord_view(s->coord)->state_hash;
    }
    return count;
}

static void force_snapshot(struct scale *s)
{
    struct coord_out out = { .kind = COORD_SNAPSHOT, .value = coord_view(s->coord) };
    snapshot(s, &out);
    s->token = 0;
    printf("snapshot: %.1f MiB in %.0f ms\n", (double)s->snapshot_bytes / 1048576, s->snapshot_s * 1e3);
}

static void cold_start(struct scale *s)
{
    char text[400] = "";
    struct coord_disk_image image;
    struct coord_pages *pages = coord_pages_new(UINT64_C(4) << 30);
    struct broker_journal journal = { .fd = -1, .term_fd = -1 };
    coord_image_init(&image, pages);
    double began = now_s();
    CHECK(broker_journal_open(&journal, ot_io_real(), s->dir, &image, text, sizeof text) == OT_OK);
    printf("start from snapshot and journal: %.0f ms\n", (now_s() - began) * 1e3);
    broker_journal_close(&journal);
    coord_image_free(&image);
    coord_pages_free(pages);
}

static void measure(struct scale *s)
{
    double began = now_s();
    make_brokers(s);
    printf("%d brokers registered and unfenced in %.0f ms\n", s->brokers, (now_s() - began) * 1e3);
    begin(s);
    began = now_s();
    struct ot_uuid topic = make_topics(s);
    const struct coord_value *view = coord_view(s->coord);
    printf("%d partitions x %d created in %.0f ms: image %.1f MiB (%.0f bytes a row with its key), pages %.1f MiB, resident at most %.1f MiB\n", s->partitions, REPLICAS, (now_s() - began) * 1e3,
        (double)view->row_bytes / 1048576, (double)view->row_bytes / (double)view->row_count, (double)coord_pages_used_bytes(s->pages) / 1048576,
        resident_mib());
    begin(s);
    force_snapshot(s);
    share_image(s);
    printf("| %-26s | %9s | %5s | %10s | %10s | %9s | %9s | %8s | %9s |\n", "event", "rows", "publ.", "delta KiB", "journal KiB", "fan-out MiB", "decide ms", "disk ms", "apply ms");
    begin(s);
    flap(s, &topic);
    ask_for_news(s);
    report(s, "one ISR flap");
    gate(s, s->rows == 1 && s->journal_bytes == 4096, "a flap is one row and one block of the journal");
    gate(s, behind(s) == 0, "all brokers have the flap at once");
    begin(s);
    uint64_t publications = silence(s, -1, 2);
    report(s, "one broker fenced");
    uint64_t hosted = (uint64_t)s->partitions * REPLICAS / (uint64_t)s->brokers;
    gate(s, publications == 1 && s->rows <= 2 * hosted + 10 && s->rows >= hosted / 2, "a fenced broker is one publication of the rows that it hosts");
    gate(s, s->delta_bytes <= s->rows * 32 + 4096, "a row of them costs 32 bytes at most: what differs from the row before it");
    gate(s, behind(s) == 0, "all brokers have the fencing at once");
    begin(s);
    (void)silence(s, 1, -1);
    report(s, "a rack of a third lost");
    gate(s, s->rows >= (uint64_t)s->partitions * 9 / 10 && s->rows <= (uint64_t)s->partitions + (uint64_t)s->brokers && s->delta_bytes <= s->rows * 32, "a rack that is lost is a row for each partition, of 32 bytes at most");
    gate(s, behind(s) == 0, "all brokers have the loss of the rack");
    printf("a heartbeat takes %.1f us\n", s->heartbeat_s * 1e6 / (double)OT_MAX(s->heartbeats, UINT64_C(1)));
    printf("pages %.1f MiB, resident at most %.1f MiB\n", (double)coord_pages_used_bytes(s->pages) / 1048576, resident_mib());
    begin(s);
    force_snapshot(s);
    cold_start(s);
    gate(s, coord_pages_used_bytes(s->pages) <= 6 * coord_view(s->coord)->row_bytes, "memory follows the rows");
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
    (void)stat;
    (void)kind;
    (void)place;
    return remove(path);
}

int main(int argc, char **argv)
{
    struct scale s = { .brokers = 1000, .partitions = 1000000 };
    const char *dir = "/tmp";
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--brokers") == 0 && more) s.brokers = atoi(argv[++i]);
        else if (strcmp(argv[i], "--partitions") == 0 && more) s.partitions = atoi(argv[++i]);
        else if (strcmp(argv[i], "--dir") == 0 && more) dir = argv[++i];
        else if (strcmp(argv[i], "--gate") == 0) s.gate = true;
        else {
            fprintf(stderr, "usage: ottla_sim_scale [--brokers N] [--partitions N] [--dir DIR] [--gate]\n");
            return 2;
        }
    }
    CHECK(s.brokers >= 2 * RACKS && s.brokers <= 5000 && s.partitions >= 1 && s.partitions <= 4000000);
    ot_log_setup(OT_LOG_ERROR, OT_LOG_TEXT, open("/dev/null", O_WRONLY | O_CLOEXEC));
    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(s.dir, sizeof s.dir, "%s/ottla-scale-XXXXXX", dir);
    CHECK(mkdtemp(s.dir) != NULL);
    start(&s);
    measure(&s);
    printf("%d passed, %d failed\n", s.passed, s.failed);
    coord_value_drop(&s.image);
    coord_free(s.coord);
    broker_journal_close(&s.journal);
    coord_pages_free(s.pages);
    free(s.followers);
    return nftw(s.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 && (!s.gate || s.failed == 0) ? 0 : 1;
}
