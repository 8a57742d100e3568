/* A partition folder lies in a log directory, whose lock says that no server runs on it. The log is opened as after a power cut with nothing known to be sound: all of it is
 * read, what follows from the records is made anew, and the log ends before the first batch that is damaged. The bytes behind go to a file beside it (*.cut) when sound batches
 * follow the damage. */
#include "cli/log_repair.h"
#include "base/io.h"
#include "base/log.h"
#include "base/util.h"
#include "cli/api.h"
#include "cli/text.h"
#include "cli/wait.h"
#include "engine/dump.h"
#include "engine/log.h"
#include "engine/store.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct cli_flag cli_log_repair_flags[] = {
    {"dry-run", 'n', NULL, false, "say what is wrong, change nothing"},
    {"yes", 'y', NULL, false, "do not ask"},
    {"quiet", 'q', NULL, false, "only errors"},
    {0},
};

struct repair {
    const struct cli_args *args;
    char dir[4096], folder[512];               /* log directory, and the partition's folder in it */
    bool quiet, changes;                       /* changes: no dry run */
    struct eng_dump_summary found;
    uint64_t log_faults;
};

static bool split_path(const char *path, struct repair *out)
{
    char text[4096];
    snprintf(text, sizeof(text), "%s", path);
    for (size_t bytes = strlen(text); bytes > 1 && text[bytes - 1] == '/'; bytes--) text[bytes - 1] = 0;
    const char *slash = strrchr(text, '/');
    snprintf(out->folder, sizeof(out->folder), "%.500s", slash == NULL ? text : slash + 1);
    if (slash == NULL) snprintf(out->dir, sizeof(out->dir), ".");
    else if (slash == text) snprintf(out->dir, sizeof(out->dir), "/");
    else snprintf(out->dir, sizeof(out->dir), "%.*s", (int)(slash - text), text);
    return strrchr(out->folder, '-') != NULL && strcmp(out->folder, "..") != 0;
}

static void note_row(void *arg, const struct eng_dump_row *row)
{
    struct repair *repair = arg;
    const struct eng_dump_field *path = NULL, *text = NULL, *position = NULL;
    for (uint32_t i = 0; row->kind == ENG_DUMP_FAULT && i < row->field_count; i++) {
        const struct eng_dump_field *field = &row->fields[i];
        if (strcmp(field->name, "path") == 0) path = field;
        if (strcmp(field->name, "fault") == 0) text = field;
        if (strcmp(field->name, "position") == 0) position = field;
    }
    if (text == NULL) return;
    if (path != NULL && path->bytes.bytes > 4 && memcmp(path->bytes.data + path->bytes.bytes - 4, ".log", 4) == 0) repair->log_faults++;
    if (repair->quiet) return;
    printf("  %.*s%s%.*s", path == NULL ? 0 : (int)path->bytes.bytes, path == NULL ? "" : (const char *)path->bytes.data, path == NULL ? "" : ": ", (int)text->bytes.bytes,
        (const char *)text->bytes.data);
    if (position != NULL && position->type == ENG_DUMP_NUMBER) printf(" (position %" PRId64 ")", position->number);
    putchar('\n');
}

static int look(struct repair *repair, const char *path)
{
    struct eng_dump_options options = eng_dump_options_default();
    options.faults_only = true;
    options.deep = true;
    options.row = note_row;
    options.arg = repair;
    repair->found = (struct eng_dump_summary){0};
    repair->log_faults = 0;
    const enum ot_err err = eng_dump_verify(ot_io_real(), path, &options, &repair->found);
    if (err == OT_ERR_NOT_FOUND || err == OT_ERR_MALFORMED) return cli_fail(CLI_NOT_FOUND, NULL, "%s: not a partition directory (no .log in it)", path);
    return err == OT_OK ? -1 : cli_fail(CLI_FAILED, NULL, "%s: %s", path, ot_err_text(err));
}

/* The topic's id as the folder itself says, so that the log takes it. */
static bool read_topic_id(const char *path, struct ot_uuid *out)
{
    char name[4700], *text = NULL;
    size_t bytes = 0;
    bool found = false;
    snprintf(name, sizeof(name), "%s/partition.metadata", path);
    if (ot_io_read_file(ot_io_real(), name, 4096, &text, &bytes) != OT_OK) return false;
    const char *at = strstr(text, "topic_id:");
    if (at != NULL) {
        at += 9;
        at += strspn(at, " ");
        found = ot_uuid_parse(at, strcspn(at, "\r\n "), out);
    }
    free(text);
    return found;
}

static int rewrite(struct repair *repair, struct eng_store *store, const char *path)
{
    struct eng_log *log = NULL;
    struct eng_recovery done = {0};
    struct eng_log_open how = {.dir_path = path, .store_dir = 0, .recovery_point = 0, .log_start_offset = 0, .clean = false, .wall_ms = ot_clock_wall_ms(),
        .config = {.compact_enabled = true /* offsets that compaction took are no damage */, .segment_bytes = 1u << 30, .segment_ms = INT64_MAX, .segment_index_bytes = 10u << 20, .index_interval_bytes = 4096, .retention_ms = -1, .retention_bytes = -1,
            .producer_expiry_ms = INT64_MAX / 4, .producers_max = 1000000}};
    char bytes[24];
    (void)read_topic_id(path, &how.topic_id);
    enum ot_err err = eng_log_open(store, &how, &log, &done);
    if (err != OT_OK) return cli_fail(CLI_FAILED, NULL, "%s: %s", path, ot_err_text(err));
    const int64_t start = eng_log_start_offset(log), end = eng_log_end_offset(log);
    err = eng_log_close(log, true);
    if (err != OT_OK) return cli_fail(CLI_FAILED, NULL, "%s: %s", path, ot_err_text(err));
    if (!repair->quiet) {
        printf("%s: offsets %" PRId64 " to %" PRId64 ", %u segments, %u indexes made anew\n", path, start, end, done.segments, done.indexes_rebuilt);
        if (done.cut_bytes > 0)
            printf("%s cut off from offset %" PRId64 " on%s\n", cli_human_bytes(done.cut_bytes, bytes), done.cut_offset, done.kept_aside ? ", kept beside the log in a .cut file" : "");
    }
    return -1;
}

static int run(struct repair *repair, struct eng_store *store, const char *path)
{
    char question[4500];
    int code = look(repair, path);
    if (code >= 0) return code;
    if (repair->found.faults == 0) {
        if (!repair->quiet) printf("%s: nothing is wrong\n", path);
        return CLI_DONE;
    }
    if (!repair->quiet) printf("%s: %" PRIu64 " faults, %" PRIu64 " of them in the records themselves\n", path, repair->found.faults, repair->log_faults);
    if (!repair->changes) return CLI_PROBLEMS;
    if (repair->log_faults > 0) {
        snprintf(question, sizeof(question), "%.4000s will end before its first damaged batch.", path);
        if (!cli_confirm(repair->args, question, "cut")) return CLI_USAGE;
    }
    if ((code = rewrite(repair, store, path)) >= 0) return code;
    if (!repair->quiet) puts("after it:");
    if ((code = look(repair, path)) >= 0) return code;
    if (repair->found.faults > 0) return cli_fail(CLI_PROBLEMS, NULL, "%s: %" PRIu64 " faults are left", path, repair->found.faults);
    if (!repair->quiet) puts("  nothing is wrong");
    return CLI_DONE;
}

int cli_log_repair_run(const struct cli_args *args)
{
    static struct repair repair;
    const char *path = cli_name(args, 0), *dirs[1];
    struct eng_store *store = NULL;
    uint32_t bad_dir;
    repair = (struct repair){.args = args, .quiet = cli_flag_given(args, "quiet"), .changes = !cli_flag_given(args, "dry-run")};
    if (!split_path(path, &repair)) return cli_fail(CLI_USAGE, "ottla log repair DATA/orders-0", "%s: not the folder of a partition", path);
    int code = look(&(struct repair){.args = args, .quiet = true}, path); /* a path that is no partition must not become a log directory */
    if (code >= 0) return code;
    if (!repair.changes) return run(&repair, NULL, path);
    if (cli_interrupt_install() != OT_OK) return cli_fail(CLI_FAILED, NULL, "no pipe");
    dirs[0] = repair.dir;
    const struct eng_store_config config = {.dirs = dirs, .dir_count = 1, .files_max = 64, .maps_max = 16};
    ot_log_setup(OT_LOG_ERROR, OT_LOG_TEXT, 2);
    ot_guard_install();
    const enum ot_err err = eng_store_open(ot_io_real(), &config, &store, &bad_dir);
    if (err == OT_ERR_LOCKED) return cli_fail(CLI_CONFLICT, "stop it first; ottla topic verify looks without", "a server runs on %s", repair.dir);
    if (err != OT_OK) return cli_fail(CLI_FAILED, NULL, "%s: %s", repair.dir, ot_err_text(err));
    code = run(&repair, store, path);
    eng_store_close(store);
    return code;
}
