#include "cli/consume.h"
#include "base/util.h"
#include "cli/consumer.h"
#include "cli/member.h"
#include "cli/place.h"
#include "cli/shared.h"
#include "cli/text.h"
#include "cli/wait.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOPICS_MAX  64
#define WAIT_MS     500
#define COMMIT_US   INT64_C(5000000)
#define STDOUT_BYTES (1u << 20)

const struct cli_flag cli_consume_flags[] = {
    {"from", 0, "PLACE", false, "earliest, latest, an offset, -N (the last N of each partition), a time or an age like 2h (latest)"},
    {"until", 0, "PLACE", false, "stop before this place: the same, or `end` for what is there now (goes on until Ctrl-C)"},
    {"max", 'n', "N", false, "stop after so many records"},
    {"partition", 'p', "N,…", false, "only these partitions"},
    {"format", 'f', "FORMAT", false, "lines, raw, ndjson, json, csv, or a pattern like '%t/%p@%o %T %k=%v\\n' (lines)"},
    {"output", 'o', "FORM", false, "the same by the name that other commands know it by"},
    {"null", 0, "TEXT", false, "what a null key or value looks like in lines and patterns (nothing)"},
    {"no-headers", 0, NULL, false, "csv without its first line"},
    {"isolation", 0, "LEVEL", false, "read_uncommitted or read_committed: without what open and aborted transactions wrote (read_uncommitted)"},
    {"group", 'g', "NAME", false, "as a member of this consumer group: its partitions are shared out, and it goes on where it stopped; --from counts where it was never"},
    {"group-protocol", 0, "consumer|classic", false, "with --group: consumer is the protocol of KIP-848, in which the broker assigns (classic)"},
    {0},
};

struct job {
    const struct cli_args *args;
    struct cli_format format;
    struct cli_printer printer;
    struct cli_kafka *kafka;
    struct cli_kafka_topic topics[TOPICS_MAX];
    uint32_t topic_count;
    struct cli_part *parts;
    uint32_t part_count;
    struct cli_place from, until;
    bool has_until, quiet;
    struct cli_consumer_config config;
    /* with --group */
    const char *group;
    uint32_t group_protocol;                   /* 1: the new one */
    struct cli_member *member;
    const struct cli_assigned *assigned;
    uint32_t assigned_count;
    int64_t committed_us;
    enum ot_err group_err;
};

static void on_record(void *arg, const struct cli_record *record)
{
    struct job *job = arg;
    cli_record_print(&job->printer, record);
}

static bool on_written(void *arg)
{
    (void)arg;
    return fflush(stdout) == 0 && ferror(stdout) == 0;
}

static void on_skipped(void *arg, const struct cli_part *part, int64_t to_offset)
{
    (void)arg;
    if (to_offset > part->offset)
        fprintf(stderr, "%s-%d: offsets %" PRId64 " to %" PRId64 " were deleted meanwhile\n", part->topic->name, part->partition, part->offset, to_offset - 1);
    else fprintf(stderr, "%s-%d: the log now ends at %" PRId64 ": records behind it are lost\n", part->topic->name, part->partition, to_offset);
}

static int read_place(const struct cli_args *args, const char *name, struct cli_place *out)
{
    const char *text = cli_flag_value(args, name);
    if (text == NULL || cli_place_parse(text, ot_clock_wall_ms(), out)) return -1;
    return cli_fail(CLI_USAGE, NULL, "--%s: `%s` is none of earliest, latest, end, an offset, -N, 2026-05-01T00:00:00Z, 30s, 15m, 2h, 7d", name, text);
}

static int read_flags(struct job *job)
{
    static const char *const levels[] = {"read_uncommitted", "read_committed"}, *const protocols[] = {"classic", "consumer"};
    const struct cli_args *args = job->args;
    const char *format = cli_flag_value(args, "format"), *output = cli_flag_value(args, "output");
    char why[160];
    uint32_t choice;
    int64_t number;
    int code;
    job->group = cli_flag_value(args, "group");
    if ((code = cli_flag_choice(args, "group-protocol", protocols, 2, 0, &job->group_protocol)) >= 0) return code;
    if (job->group == NULL && cli_flag_given(args, "group-protocol")) return cli_fail(CLI_USAGE, "ottla consume TOPIC --group NAME --group-protocol consumer", "--group-protocol goes with --group");
    if (job->group != NULL && (job->group[0] == 0 || strlen(job->group) > 32767)) return cli_fail(CLI_USAGE, "--group billing", "--group: no name");
    if (job->group != NULL && cli_flag_given(args, "partition")) return cli_fail(CLI_USAGE, NULL, "--group and --partition exclude each other: the group shares the partitions out");
    if (format != NULL && output != NULL) return cli_fail(CLI_USAGE, NULL, "--format and --output say the same: give one");
    if (format == NULL) format = output == NULL ? "lines" : output;
    if (cli_format_parse(format, &job->format, why) != OT_OK) return cli_fail(CLI_USAGE, "ottla consume --help", "--format: %s", why);
    job->format.null_text = cli_flag_value(args, "null");
    job->from = (struct cli_place){CLI_PLACE_LATEST, 0};
    job->has_until = cli_flag_given(args, "until");
    if ((code = read_place(args, "from", &job->from)) >= 0) return code;
    if ((code = read_place(args, "until", &job->until)) >= 0) return code;
    if ((code = cli_flag_choice(args, "isolation", levels, 2, 0, &choice)) >= 0) return code;
    job->config.committed_only = choice == 1;
    if ((code = cli_flag_number(args, "max", 0, INT64_MAX, INT64_MAX, &number)) >= 0) return code;
    job->config.records_max = (uint64_t)number;
    job->config.max_wait_ms = WAIT_MS;
    code = cli_flag_number(args, "timeout-ms", 1, INT32_MAX, 30000, &number);
    job->config.timeout_ms = (int32_t)number;
    return code;
}

/* -1: the partition is asked for; 0: not; else the exit code. */
static int asked_for(struct job *job, uint32_t partition, bool *out)
{
    const char *at = cli_flag_value(job->args, "partition");
    *out = at == NULL;
    while (at != NULL && *at != 0) {
        char number[16];
        int64_t one;
        const size_t bytes = strcspn(at, ",");
        snprintf(number, sizeof(number), "%.*s", (int)OT_MIN(bytes, sizeof(number) - 1), at);
        if (!cli_number(number, 0, INT32_MAX, &one)) return cli_fail(CLI_USAGE, "--partition 0,1", "--partition: `%s` is not a number", number);
        if (one == partition) *out = true;
        at += bytes + (at[bytes] == ',');
    }
    return -1;
}

static enum ot_err place_part(struct job *job, struct cli_part *part)
{
    bool ahead = false;
    enum ot_err err = cli_place_find(job->kafka, part->topic, part->partition, &job->from, job->config.committed_only, &part->offset, &ahead);
    part->stop_offset = INT64_MAX;
    part->stop_time_ms = job->has_until && job->until.kind == CLI_PLACE_TIME ? job->until.value : INT64_MAX;
    if (err == OT_OK && job->has_until)
        err = cli_place_find(job->kafka, part->topic, part->partition, &job->until, job->config.committed_only, &part->stop_offset, &ahead);
    if (err == OT_OK && job->has_until && ahead && job->until.kind == CLI_PLACE_TIME) {
        part->stop_offset = INT64_MAX; /* that time is still to come: the first record that has it ends the partition */
        if (job->until.value <= ot_clock_wall_ms()) err = cli_kafka_offset(job->kafka, part->topic, part->partition, CLI_OFFSET_LATEST, false, &part->stop_offset);
    }
    if (part->offset >= part->stop_offset) part->done = true;
    return err;
}

static int check_range(struct job *job, const struct cli_part *part)
{
    int64_t earliest, latest;
    if (job->from.kind != CLI_PLACE_OFFSET) return -1;
    if (cli_kafka_offset(job->kafka, part->topic, part->partition, CLI_OFFSET_EARLIEST, false, &earliest) != OT_OK) return -1;
    if (cli_kafka_offset(job->kafka, part->topic, part->partition, CLI_OFFSET_LATEST, false, &latest) != OT_OK) return -1;
    if (part->offset >= earliest && part->offset <= latest) return -1;
    return cli_fail(CLI_FAILED, "--from earliest", "%s-%d: offset %" PRId64 " is outside the log, which holds %" PRId64 " to %" PRId64, part->topic->name,
        part->partition, part->offset, earliest, latest);
}

static int add_topic(struct job *job, const char *name)
{
    struct cli_kafka_topic *topic = &job->topics[job->topic_count++];
    enum ot_err err = cli_kafka_topic(job->kafka, name, false, topic);
    if (err != OT_OK) return cli_topic_fail(err, name, job->kafka);
    struct cli_part *more = realloc(job->parts, (job->part_count + topic->partition_count) * sizeof(*more));
    if (more == NULL) return cli_fail(CLI_FAILED, NULL, "out of memory");
    job->parts = more;
    const uint32_t before = job->part_count;
    for (uint32_t i = 0; i < topic->partition_count; i++) {
        bool asked;
        int code = asked_for(job, i, &asked);
        if (code >= 0) return code;
        if (!asked) continue;
        struct cli_part *part = &job->parts[job->part_count++];
        *part = (struct cli_part){.topic = topic, .partition = (int32_t)i};
        if ((err = place_part(job, part)) != OT_OK) return cli_topic_fail(err, name, job->kafka);
        if ((code = check_range(job, part)) >= 0) return code;
    }
    if (job->part_count > before) return -1;
    return cli_fail(CLI_NOT_FOUND, NULL, "%s has partitions 0 to %u, not %s", name, topic->partition_count - 1, cli_flag_value(job->args, "partition"));
}

static int run(struct job *job)
{
    struct cli_consumer *consumer;
    enum ot_err err = cli_consumer_open(job->kafka, job->parts, job->part_count, &job->config, &consumer);
    int code = CLI_FAILED;
    if (job->config.records_max == 0) {
        code = CLI_DONE;
        goto end;
    }
    if (err != OT_OK) goto end;
    if (!job->quiet && isatty(2) && job->from.kind == CLI_PLACE_LATEST && !job->has_until)
        fprintf(stderr, "waiting for new records (--from earliest shows those that are there); Ctrl-C stops\n");
    err = cli_consumer_run(consumer);
    cli_record_print_end(&job->printer);
    code = cli_exit_of(err);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        code = cli_fail(CLI_FAILED, NULL, "standard output: %s", strerror(errno));
        goto end;
    }
    if (err != OT_OK && err != OT_ERR_CANCELLED) code = cli_fail((enum cli_exit)code, NULL, "%s", cli_consumer_why(consumer));
    if (!job->quiet && isatty(2)) fprintf(stderr, "%" PRIu64 " records\n", job->printer.count);
end:
    if (err == OT_ERR_NO_MEMORY) code = cli_fail(CLI_FAILED, NULL, "out of memory");
    cli_consumer_close(consumer);
    return code;
}

/* ---- as a member of a group: join, read what is ours until the group changes, commit, join again */

static enum ot_err commit(struct job *job)
{
    struct cli_assigned *offsets = calloc(OT_MAX(job->part_count, 1u), sizeof(*offsets));
    uint32_t count = 0;
    if (offsets == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < job->part_count; i++)
        if (job->parts[i].offset > job->assigned[i].offset || job->assigned[i].offset < 0) offsets[count++] = (struct cli_assigned){job->assigned[i].topic, job->parts[i].partition, job->parts[i].offset};
    const enum ot_err err = cli_member_commit(job->member, offsets, count);
    job->committed_us = ot_clock_boot_us();
    free(offsets);
    return err;
}

/* What was handed out is on its way: now it may be committed, and the group may be told that we live. False: stop, for good or to join again. */
static bool on_group_written(void *arg)
{
    struct job *job = arg;
    if (!on_written(arg)) return false;
    if (ot_clock_boot_us() - job->committed_us >= COMMIT_US) job->group_err = commit(job);
    if (job->group_err == OT_OK) job->group_err = cli_member_beat(job->member);
    return job->group_err == OT_OK;
}

static enum ot_err take_parts(struct job *job)
{
    free(job->parts);
    job->parts = calloc(OT_MAX(job->assigned_count, 1u), sizeof(*job->parts));
    job->part_count = 0;
    if (job->parts == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < job->assigned_count; i++) {
        struct cli_part *part = &job->parts[job->part_count];
        *part = (struct cli_part){.topic = &job->topics[job->assigned[i].topic], .partition = job->assigned[i].partition};
        const enum ot_err err = place_part(job, part);
        if (err != OT_OK) return err;
        if (job->assigned[i].offset >= 0) part->offset = job->assigned[i].offset;     /* where the group is counts, not --from */
        part->done = part->offset >= part->stop_offset;
        job->part_count++;
    }
    return OT_OK;
}

/* Nothing is ours, or all of it is read: alive until the group changes, if there is anything to wait for. */
static enum ot_err idle(struct job *job)
{
    while (job->group_err == OT_OK && !job->has_until) {
        if (cli_wait(NULL, 0, cli_deadline_us(WAIT_MS)) == OT_ERR_CANCELLED) return OT_ERR_CANCELLED;
        job->group_err = cli_member_beat(job->member);
    }
    return OT_OK;
}

static enum ot_err read_generation(struct job *job, uint64_t records_max, char *why, size_t why_bytes)
{
    struct cli_consumer *consumer = NULL;
    enum ot_err err = cli_member_join(job->member, &job->assigned, &job->assigned_count);
    if (err == OT_OK) err = take_parts(job);
    if (err != OT_OK) return err;
    if (!job->quiet && isatty(2)) fprintf(stderr, "%u partitions are read for group %s\n", job->part_count, job->group);
    job->group_err = OT_OK;
    job->committed_us = ot_clock_boot_us();
    struct cli_consumer_config config = job->config;
    config.written = on_group_written;
    config.records_max = records_max - job->printer.count;
    err = cli_consumer_open(job->kafka, job->parts, job->part_count, &config, &consumer);
    if (err == OT_OK) err = cli_consumer_run(consumer);
    if (err == OT_OK && job->group_err == OT_OK && job->printer.count < records_max && !ferror(stdout)) err = idle(job);
    if (err != OT_OK && err != OT_ERR_CANCELLED && consumer != NULL) snprintf(why, why_bytes, "%s", cli_consumer_why(consumer));
    cli_consumer_close(consumer);
    if (err == OT_ERR_CANCELLED) cli_interrupt_take();         /* what was printed is still committed */
    if ((err == OT_OK || err == OT_ERR_CANCELLED) && fflush(stdout) == 0) {
        const enum ot_err committed = commit(job);
        if (committed != OT_OK && !cli_member_must_join(committed)) return committed;
    }
    return err != OT_OK ? err : job->group_err;
}

static int run_group(struct job *job)
{
    char why[600] = "";
    enum ot_err err = cli_member_open(job->kafka, job->group, job->topics, job->topic_count, job->group_protocol == 1, job->config.timeout_ms, &job->member);
    const uint64_t records_max = job->config.records_max;
    while (err == OT_OK && job->printer.count < records_max) {
        err = read_generation(job, records_max, why, sizeof(why));
        if (err == OT_OK) break;                               /* all that was asked for is read */
        if (cli_member_must_join(err)) err = OT_OK;
    }
    cli_record_print_end(&job->printer);
    int code = err == OT_ERR_CANCELLED ? CLI_INTERRUPTED : cli_exit_of(err);
    if (fflush(stdout) != 0 || ferror(stdout)) code = cli_fail(CLI_FAILED, NULL, "standard output: %s", strerror(errno));
    else if (err != OT_OK && err != OT_ERR_CANCELLED) code = cli_fail((enum cli_exit)code, NULL, "%s", why[0] != 0 ? why : cli_member_why(job->member)[0] != 0 ? cli_member_why(job->member) : ot_err_text(err));
    cli_member_close(job->member);
    if (!job->quiet && isatty(2)) fprintf(stderr, "%" PRIu64 " records\n", job->printer.count);
    return code;
}

/* Topics without their partitions: the group says which of them are ours. */
static int know_topic(struct job *job, const char *name)
{
    const enum ot_err err = cli_kafka_topic(job->kafka, name, false, &job->topics[job->topic_count++]);
    return err == OT_OK ? -1 : cli_topic_fail(err, name, job->kafka);
}

int cli_consume_run(const struct cli_args *args)
{
    static struct job job;
    static char buffer[STDOUT_BYTES];
    job = (struct job){.args = args};
    job.quiet = cli_flag_given(args, "quiet");
    job.printer = (struct cli_printer){.to = stdout, .format = &job.format, .names = !cli_flag_given(args, "no-headers")};
    job.config.record = on_record;
    job.config.written = on_written;
    job.config.skipped = on_skipped;
    job.config.arg = &job;
    setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
    int code = cli_name_count(args) > TOPICS_MAX ? cli_fail(CLI_USAGE, NULL, "more than %d topics", TOPICS_MAX) : read_flags(&job);
    if (code < 0) code = cli_open_kafka(args, &job.kafka);
    for (uint32_t i = 0; code < 0 && i < cli_name_count(args); i++) code = job.group != NULL ? know_topic(&job, cli_name(args, i)) : add_topic(&job, cli_name(args, i));
    if (code < 0) code = job.group != NULL ? run_group(&job) : run(&job);
    for (uint32_t i = 0; i < job.topic_count; i++) cli_kafka_topic_free(&job.topics[i]);
    cli_kafka_close(job.kafka);
    free(job.parts);
    cli_format_free(&job.format);
    return code;
}
