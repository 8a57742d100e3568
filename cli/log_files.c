#include "cli/log_files.h"
#include "base/util.h"
#include "cli/shared.h"
#include "cli/table.h"
#include "cli/text.h"
#include "engine/dump.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 1000000u

const struct cli_flag cli_log_dump_flags[] = {
    {"records", 'r', NULL, false, "each record, not only batches"},
    {"deep", 0, NULL, false, "decode every record to find damage below the checksum"},
    {"from-offset", 0, "N", false, "only batches and records from this offset on"},
    {"to-offset", 0, "N", false, "and below this one"},
    {"output", 'o', "FORM", false, "text or ndjson (text)"},
    {0},
};
const struct cli_flag cli_log_index_flags[] = {
    {"output", 'o', "FORM", false, "text or ndjson (text)"},
    {0},
};
const struct cli_flag cli_log_verify_flags[] = {
    {"shallow", 0, NULL, false, "checksums and order only: do not decode records"},
    {"quiet", 'q', NULL, false, "only faults"},
    {"output", 'o', "FORM", false, "text or ndjson (text)"},
    {0},
};
const struct cli_flag cli_log_segments_flags[] = {{0}};
const struct cli_flag cli_log_stats_flags[] = {{0}};

/* ---- names in folders */

struct names {
    char **items;
    uint32_t count;
    bool failed, has_log;
};

static void note_name(void *arg, const struct ot_io_entry *entry)
{
    struct names *names = arg;
    const char *dash = strrchr(entry->name, '-');
    int64_t number;
    const size_t bytes = strlen(entry->name);
    if (!entry->is_dir) {
        names->has_log = names->has_log || (bytes > 4 && strcmp(entry->name + bytes - 4, ".log") == 0) || strcmp(entry->name, "leader-epoch-checkpoint") == 0;
        return;
    }
    if (dash == NULL || dash == entry->name || !cli_number(dash + 1, 0, INT32_MAX, &number)) return;
    char **more = names->count >= NAMES_MAX ? NULL : realloc(names->items, (names->count + 1) * sizeof(*more));
    char *name = more == NULL ? NULL : strdup(entry->name);
    if (more != NULL) names->items = more;
    if (name == NULL) names->failed = true;
    else names->items[names->count++] = name;
}

static int by_name(const void *left, const void *right)
{
    const char *a = *(char *const *)left, *b = *(char *const *)right;
    return strverscmp(a, b);
}

enum ot_err cli_each_partition(const char *path, int (*each)(void *arg, const char *path), void *arg, int *code_out)
{
    struct ot_io *io = ot_io_real();
    struct names names = {0};
    char joined[4096];
    *code_out = CLI_DONE;
    enum ot_err err = io->ops->list(io, path, note_name, &names);
    if (err == OT_OK && names.failed) err = OT_ERR_NO_MEMORY;
    if (err == OT_OK && names.has_log) *code_out = each(arg, path);
    else if (err == OT_OK && names.count == 0) err = OT_ERR_NOT_FOUND;
    if (names.count > 1) qsort(names.items, names.count, sizeof(*names.items), by_name);
    for (uint32_t i = 0; i < names.count; i++) {
        if (err == OT_OK && !names.has_log) {
            snprintf(joined, sizeof(joined), "%s/%s", path, names.items[i]);
            const int code = each(arg, joined);
            if (code != CLI_DONE) *code_out = code;
        }
        free(names.items[i]);
    }
    free(names.items);
    return err;
}

/* ---- dump */

static void put_piece(void *arg, const char *text, size_t bytes)
{
    fwrite(text, 1, bytes, arg);
}

static void put_data(struct ot_blob blob)
{
    if (blob.null) {
        fputs("null", stdout);
    } else if (ot_utf8_valid(blob.data, blob.bytes)) {
        fputs("{\"string\":", stdout);
        cli_json_print(stdout, blob.data, blob.bytes);
        fputc('}', stdout);
    } else {
        fputs("{\"base64\":\"", stdout);
        cli_base64_print(stdout, blob.data, blob.bytes);
        fputs("\"}", stdout);
    }
}

static void put_word(struct ot_blob blob) /* paths and the like, which need not be UTF-8 */
{
    if (ot_utf8_valid(blob.data, blob.bytes)) {
        cli_json_print(stdout, blob.data, blob.bytes);
        return;
    }
    fputc('"', stdout);
    for (uint32_t i = 0; i < blob.bytes; i++) {
        const uint8_t byte = blob.data[i];
        fputc(byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\' ? byte : '?', stdout);
    }
    fputc('"', stdout);
}

static void put_headers(struct ot_blob headers)
{
    struct ot_reader cursor = ot_reader_over(headers.data, headers.bytes);
    struct eng_record_header header;
    const char *before = "[";
    while (eng_record_header(&cursor, &header)) {
        printf("%s{\"name\":", before);
        put_word(header.key);
        fputs(",\"value\":", stdout);
        put_data(header.value);
        fputc('}', stdout);
        before = ",";
    }
    fputs(before[0] == '[' ? "[]" : "]", stdout);
}

static void row_json(void *arg, const struct eng_dump_row *row)
{
    (void)arg;
    printf("{\"row\":\"%s\"", eng_dump_kind_name(row->kind));
    for (uint32_t i = 0; i < row->field_count; i++) {
        const struct eng_dump_field *field = &row->fields[i];
        printf(",\"%s\":", field->name);
        switch (field->type) {
        case ENG_DUMP_NUMBER: printf("%" PRId64, field->number); break;
        case ENG_DUMP_BOOL: fputs(field->number != 0 ? "true" : "false", stdout); break;
        case ENG_DUMP_WORD: put_word(field->bytes); break;
        case ENG_DUMP_BYTES: put_data(field->bytes); break;
        case ENG_DUMP_HEADERS: put_headers(field->bytes); break;
        case ENG_DUMP_ABSENT: fputs("null", stdout); break;
        }
    }
    fputs("}\n", stdout);
}

static void row_text(void *arg, const struct eng_dump_row *row)
{
    (void)arg;
    eng_dump_text(row, put_piece, stdout);
    fputc('\n', stdout);
}

static int read_output(const struct cli_args *args, struct eng_dump_options *options)
{
    static const char *const forms[] = {"text", "ndjson", "json"};
    uint32_t form;
    const int code = cli_flag_choice(args, "output", forms, 3, 0, &form);
    options->row = form == 0 ? row_text : row_json;
    return code;
}

static int file_fail(enum ot_err err, const char *path)
{
    if (err == OT_ERR_NOT_FOUND) return cli_fail(CLI_NOT_FOUND, NULL, "%s: no such file or directory", path);
    if (err == OT_ERR_MALFORMED) return cli_fail(CLI_USAGE, NULL, "%s: not a name of Kafka's log files (00000000000000000000.log, .index, .timeindex, …)", path);
    return cli_fail(CLI_FAILED, NULL, "%s: %s", path, ot_err_text(err));
}

struct dumping {
    const struct eng_dump_options *options;
    struct eng_dump_summary *summary;
    const char *only; /* suffix, or NULL */
};
struct listing {
    char **paths;
    uint32_t count;
    bool failed;
    const char *dir;
};

static void note_file(void *arg, const struct ot_io_entry *entry)
{
    struct listing *listing = arg;
    char joined[4096];
    if (entry->is_dir) return;
    snprintf(joined, sizeof(joined), "%s/%s", listing->dir, entry->name);
    char **more = listing->count >= NAMES_MAX ? NULL : realloc(listing->paths, (listing->count + 1) * sizeof(*more));
    char *path = more == NULL ? NULL : strdup(joined);
    if (more != NULL) listing->paths = more;
    if (path == NULL) listing->failed = true;
    else listing->paths[listing->count++] = path;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t text_bytes = strlen(text), end_bytes = strlen(end);
    return text_bytes >= end_bytes && strcmp(text + text_bytes - end_bytes, end) == 0;
}

/* Every known file of a folder, by name; those of other names are passed over. */
static int dump_folder(void *arg, const char *path)
{
    struct dumping *dumping = arg;
    struct ot_io *io = ot_io_real();
    struct listing listing = {.dir = path};
    int code = CLI_DONE;
    enum ot_err err = io->ops->list(io, path, note_file, &listing);
    if (err != OT_OK || listing.failed) code = file_fail(err != OT_OK ? err : OT_ERR_NO_MEMORY, path);
    if (listing.count > 1) qsort(listing.paths, listing.count, sizeof(*listing.paths), by_name);
    for (uint32_t i = 0; i < listing.count; i++) {
        const bool asked = dumping->only == NULL || ends_with(listing.paths[i], dumping->only);
        err = asked && code == CLI_DONE ? eng_dump_file(io, listing.paths[i], dumping->options, dumping->summary) : OT_OK;
        if (err != OT_OK && err != OT_ERR_MALFORMED) code = file_fail(err, listing.paths[i]);
        free(listing.paths[i]);
    }
    free(listing.paths);
    return code;
}

static int dump_all(const struct cli_args *args, const struct eng_dump_options *options, const char *const *only, uint32_t only_count)
{
    struct ot_io *io = ot_io_real();
    struct eng_dump_summary summary = {0};
    int code = CLI_DONE;
    for (uint32_t i = 0; i < cli_name_count(args) && code == CLI_DONE; i++) {
        const char *path = cli_name(args, i);
        struct ot_io_stat stat;
        enum ot_err err = io->ops->stat(io, path, &stat);
        if (err != OT_OK) return file_fail(err, path);
        if (!stat.is_dir) {
            if ((err = eng_dump_file(io, path, options, &summary)) != OT_OK) return file_fail(err, path);
            continue;
        }
        for (uint32_t j = 0; j < OT_MAX(only_count, 1u) && code == CLI_DONE; j++) {
            struct dumping dumping = {options, &summary, only_count == 0 ? NULL : only[j]};
            err = cli_each_partition(path, dump_folder, &dumping, &code);
            if (err != OT_OK) return cli_fail(CLI_NOT_FOUND, NULL, "%s: no partition folder", path);
        }
    }
    if (fflush(stdout) != 0) return cli_fail(CLI_FAILED, NULL, "standard output: it takes no more");
    if (code == CLI_DONE && summary.faults > 0) return cli_fail(CLI_PROBLEMS, NULL, "%" PRIu64 " faults found", summary.faults);
    return code;
}

int cli_log_dump_run(const struct cli_args *args)
{
    struct eng_dump_options options = eng_dump_options_default();
    int code = read_output(args, &options);
    options.records = cli_flag_given(args, "records");
    options.deep = cli_flag_given(args, "deep");
    if (code < 0) code = cli_flag_number(args, "from-offset", 0, INT64_MAX, options.from_offset, &options.from_offset);
    if (code < 0) code = cli_flag_number(args, "to-offset", 0, INT64_MAX, options.to_offset, &options.to_offset);
    return code >= 0 ? code : dump_all(args, &options, NULL, 0);
}

int cli_log_index_run(const struct cli_args *args)
{
    static const char *const only[] = {".index", ".timeindex", ".txnindex"};
    struct eng_dump_options options = eng_dump_options_default();
    const int code = read_output(args, &options);
    return code >= 0 ? code : dump_all(args, &options, only, OT_ARRAY_COUNT(only));
}

/* ---- verify */

struct verifying {
    struct eng_dump_options options;
    struct eng_dump_summary total;
    uint32_t partitions;
    bool quiet;
};

static int verify_one(void *arg, const char *path)
{
    struct verifying *verifying = arg;
    struct eng_dump_summary summary = {0};
    const enum ot_err err = eng_dump_verify(ot_io_real(), path, &verifying->options, &summary);
    char bytes[24];
    if (err == OT_ERR_MALFORMED) { /* a partition that nothing was written to has no log yet */
        if (!verifying->quiet) fprintf(stderr, "%s: ok: empty\n", path);
        return CLI_DONE;
    }
    if (err != OT_OK) return file_fail(err, path);
    verifying->partitions++;
    verifying->total.faults += summary.faults;
    fflush(stdout);
    if (!verifying->quiet)
        fprintf(stderr, "%s: %s: %" PRIu64 " files, %s, %" PRIu64 " batches, %" PRIu64 " records, %" PRIu64 " faults\n", path, summary.faults == 0 ? "ok" : "damaged",
            summary.files, cli_human_bytes(summary.bytes, bytes), summary.batches, summary.records, summary.faults);
    return CLI_DONE;
}

int cli_log_verify_run(const struct cli_args *args)
{
    struct verifying verifying = {.options = eng_dump_options_default(), .quiet = cli_flag_given(args, "quiet")};
    int code = read_output(args, &verifying.options);
    verifying.options.faults_only = true;
    verifying.options.deep = !cli_flag_given(args, "shallow");
    for (uint32_t i = 0; code < 0 && i < cli_name_count(args); i++) {
        int one;
        const enum ot_err err = cli_each_partition(cli_name(args, i), verify_one, &verifying, &one);
        if (err == OT_ERR_NOT_FOUND || err == OT_ERR_IO) code = cli_fail(CLI_NOT_FOUND, NULL, "%s: no partition folder there", cli_name(args, i));
        else if (err != OT_OK) code = file_fail(err, cli_name(args, i));
        else if (one != CLI_DONE) code = one;
    }
    if (code >= 0) return code;
    if (fflush(stdout) != 0) return cli_fail(CLI_FAILED, NULL, "standard output: it takes no more");
    if (verifying.total.faults == 0) return CLI_DONE;
    return cli_fail(CLI_PROBLEMS, NULL, "%" PRIu64 " faults in %u partitions", verifying.total.faults, verifying.partitions);
}

/* ---- segments, stats */

struct segment {
    int64_t base_offset, last_offset, first_ms, last_ms, batches, records, bytes, sound_bytes;
    int64_t codecs[ENG_CODEC_COUNT];
};

static const struct eng_dump_field *field(const struct eng_dump_row *row, const char *name)
{
    for (uint32_t i = 0; i < row->field_count; i++)
        if (strcmp(row->fields[i].name, name) == 0) return &row->fields[i];
    return NULL;
}

static int64_t number(const struct eng_dump_row *row, const char *name, int64_t absent)
{
    const struct eng_dump_field *found = field(row, name);
    return found == NULL || found->type != ENG_DUMP_NUMBER ? absent : found->number;
}

static void count_row(void *arg, const struct eng_dump_row *row)
{
    struct segment *segment = arg;
    enum eng_codec codec;
    if (row->kind != ENG_DUMP_BATCH) return;
    const int64_t base = number(row, "baseOffset", -1), ms = number(row, "CreateTime", number(row, "LogAppendTime", -1));
    if (segment->batches++ == 0) segment->base_offset = base, segment->first_ms = ms;
    segment->last_offset = number(row, "lastOffset", base);
    segment->records += OT_MAX(number(row, "count", 0), 0);
    segment->bytes += number(row, "size", 0);
    segment->last_ms = OT_MAX(segment->last_ms, ms);
    const struct eng_dump_field *word = field(row, "compresscodec");
    char name[24];
    if (word == NULL) return;
    snprintf(name, sizeof(name), "%.*s", (int)OT_MIN(word->bytes.bytes, 20u), word->bytes.data);
    if (eng_codec_by_name(name, &codec) && codec < ENG_CODEC_COUNT) segment->codecs[codec]++;
}

static uint64_t bytes_of(const char *log_path, const char *suffix)
{
    struct ot_io *io = ot_io_real();
    struct ot_io_stat stat;
    char path[4096];
    snprintf(path, sizeof(path), "%.*s%s", (int)(strlen(log_path) - 4), log_path, suffix);
    return io->ops->stat(io, path, &stat) == OT_OK ? stat.bytes : 0;
}

static const char *folder_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL || slash[1] == 0 ? path : slash + 1;
}

struct summing {
    struct cli_table *table;
    bool by_segment;
};

static void time_cell(struct cli_table *table, int64_t ms)
{
    char text[25];
    if (ms < 0) {
        cli_table_text(table, NULL);
        return;
    }
    ot_time_text(ms, text);
    cli_table_text(table, text);
}

static void segment_row(struct cli_table *table, const char *path, const struct segment *segment)
{
    const char *leaf = folder_name(path);
    char name[32];
    snprintf(name, sizeof(name), "%.*s", (int)OT_MIN(strlen(leaf) - 4, sizeof(name) - 1), leaf);
    cli_table_text(table, name);
    if (segment->batches == 0) cli_table_text(table, NULL), cli_table_text(table, NULL);
    else cli_table_number(table, segment->base_offset), cli_table_number(table, segment->last_offset + 1);
    cli_table_number(table, segment->records);
    cli_table_number(table, segment->batches);
    cli_table_number(table, (int64_t)bytes_of(path, ".log"));
    cli_table_number(table, (int64_t)bytes_of(path, ".index"));
    cli_table_number(table, (int64_t)bytes_of(path, ".timeindex"));
    time_cell(table, segment->batches == 0 ? -1 : segment->first_ms);
    time_cell(table, segment->batches == 0 ? -1 : segment->last_ms);
}

static void stats_row(struct cli_table *table, const char *path, uint32_t segments, const struct segment *sum)
{
    char codecs[160] = "";
    cli_table_text(table, folder_name(path));
    if (sum->batches == 0) cli_table_text(table, NULL), cli_table_text(table, NULL);
    else cli_table_number(table, sum->base_offset), cli_table_number(table, sum->last_offset + 1);
    cli_table_number(table, sum->records);
    cli_table_number(table, sum->batches);
    cli_table_number(table, segments);
    cli_table_number(table, sum->bytes);
    if (sum->records == 0) cli_table_text(table, NULL), cli_table_text(table, NULL);
    else cli_table_number(table, sum->bytes / sum->records), cli_table_number(table, sum->records / sum->batches);
    for (int i = 0; i < ENG_CODEC_COUNT; i++) {
        const size_t used = strlen(codecs);
        if (sum->codecs[i] > 0)
            snprintf(codecs + used, sizeof(codecs) - used, "%s%s:%" PRId64 "%%", used > 0 ? " " : "", eng_codec_name((enum eng_codec)i), sum->codecs[i] * 100 / sum->batches);
    }
    cli_table_text(table, codecs);
    time_cell(table, sum->batches == 0 ? -1 : sum->first_ms);
    time_cell(table, sum->batches == 0 ? -1 : sum->last_ms);
}

static int sum_folder(void *arg, const char *path)
{
    struct summing *summing = arg;
    struct ot_io *io = ot_io_real();
    struct listing listing = {.dir = path};
    struct segment sum = {.last_ms = -1};
    struct eng_dump_summary summary = {0};
    struct eng_dump_options options = eng_dump_options_default();
    uint32_t segments = 0;
    enum ot_err err = io->ops->list(io, path, note_file, &listing);
    options.row = count_row;
    if (listing.count > 1) qsort(listing.paths, listing.count, sizeof(*listing.paths), by_name);
    for (uint32_t i = 0; i < listing.count; i++) {
        struct segment one = {.last_ms = -1};
        options.arg = summing->by_segment ? &one : &sum;
        if (err == OT_OK && ends_with(listing.paths[i], ".log")) {
            err = eng_dump_file(io, listing.paths[i], &options, &summary);
            if (err == OT_ERR_MALFORMED) {
                err = OT_OK; /* a .log of somebody else */
            } else if (err == OT_OK) {
                segments++;
                if (summing->by_segment) segment_row(summing->table, listing.paths[i], &one);
            }
        }
        free(listing.paths[i]);
    }
    free(listing.paths);
    if (err != OT_OK) return file_fail(err, path);
    if (!summing->by_segment) stats_row(summing->table, path, segments, &sum);
    if (summary.faults > 0) return cli_fail(CLI_PROBLEMS, "ottla log verify", "%s: %" PRIu64 " faults: what is behind them is not counted", path, summary.faults);
    return CLI_DONE;
}

static int sum_all(const struct cli_args *args, const struct cli_column *columns, uint32_t column_count, bool by_segment)
{
    struct cli_table table;
    struct summing summing = {&table, by_segment};
    int code = cli_table_open(args, columns, column_count, &table), worst = CLI_DONE;
    if (code >= 0) return code;
    for (uint32_t i = 0; i < cli_name_count(args); i++) {
        const enum ot_err err = cli_each_partition(cli_name(args, i), sum_folder, &summing, &code);
        if (err != OT_OK) code = cli_fail(CLI_NOT_FOUND, NULL, "%s: no partition folder there", cli_name(args, i));
        if (code != CLI_DONE) worst = code;
    }
    if (!cli_table_print(&table, stdout) || fflush(stdout) != 0) return cli_fail(CLI_FAILED, NULL, "the table could not be written");
    return worst;
}

int cli_log_segments_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"segment", CLI_COLUMN_TEXT, false}, {"first_offset", CLI_COLUMN_NUMBER, false}, {"end_offset", CLI_COLUMN_NUMBER, false},
        {"records", CLI_COLUMN_NUMBER, false}, {"batches", CLI_COLUMN_NUMBER, false}, {"log_bytes", CLI_COLUMN_BYTES, false},
        {"index_bytes", CLI_COLUMN_BYTES, false}, {"timeindex_bytes", CLI_COLUMN_BYTES, false}, {"first_time", CLI_COLUMN_TEXT, true}, {"last_time", CLI_COLUMN_TEXT, false},
    };
    return sum_all(args, columns, OT_ARRAY_COUNT(columns), true);
}

int cli_log_stats_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"partition", CLI_COLUMN_TEXT, false}, {"start_offset", CLI_COLUMN_NUMBER, false}, {"end_offset", CLI_COLUMN_NUMBER, false},
        {"records", CLI_COLUMN_NUMBER, false}, {"batches", CLI_COLUMN_NUMBER, false}, {"segments", CLI_COLUMN_NUMBER, false}, {"log_bytes", CLI_COLUMN_BYTES, false},
        {"bytes_per_record", CLI_COLUMN_NUMBER, false}, {"records_per_batch", CLI_COLUMN_NUMBER, false}, {"codecs", CLI_COLUMN_TEXT, false},
        {"first_time", CLI_COLUMN_TEXT, true}, {"last_time", CLI_COLUMN_TEXT, false},
    };
    return sum_all(args, columns, OT_ARRAY_COUNT(columns), false);
}
