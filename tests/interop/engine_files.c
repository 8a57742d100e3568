/* engine_files write DIR: a partition's files, for Kafka's tools to read; the facts in them go to stdout (tests/lib/segment_files.h).
 * engine_files read FILE: what a producer snapshot holds, one producer a line, sorted by id.
 * engine_files verify DIR, engine_files dump FILE: what eng_dump_verify and eng_dump_file with records say; last line `N faults`. */
#include "engine/dump.h"
#include "segment_files.h"

static int compare_views(const void *left, const void *right)
{
    const struct eng_producer_view *a = left, *b = right;
    return (a->producer_id > b->producer_id) - (a->producer_id < b->producer_id);
}

static int read_one(const char *path)
{
    struct eng_producers *producers;
    static struct eng_producer_view views[10000];
    char *bytes;
    size_t count;
    SEGMENT_MUST(ot_io_read_file(ot_io_real(), path, 1 << 24, &bytes, &count));
    SEGMENT_MUST(eng_producers_new(10000, INT64_MAX, &producers));
    SEGMENT_MUST(eng_producers_load(producers, bytes, count, 0));
    uint32_t found = eng_producers_list(producers, views, 10000);
    qsort(views, found, sizeof views[0], compare_views);
    for (uint32_t i = 0; i < found; i++) {
        printf("producer %" PRId64 " %d %" PRId32 " %" PRId32 " %" PRId64 " %" PRId64 "\n", views[i].producer_id, views[i].epoch, views[i].last_sequence,
            views[i].coordinator_epoch, views[i].current_txn_first_offset, views[i].last_timestamp_ms);
    }
    eng_producers_free(producers);
    free(bytes);
    return 0;
}

static void put(void *arg, const char *text, size_t bytes)
{
    (void)fwrite(text, 1, bytes, (FILE *)arg);
}

static void row_print(void *arg, const struct eng_dump_row *row)
{
    eng_dump_text(row, put, arg);
    (void)fputc('\n', (FILE *)arg);
}

static int dump(const char *path, bool verify)
{
    struct eng_dump_options options = eng_dump_options_default();
    struct eng_dump_summary summary = { 0 };
    options.records = true;
    options.faults_only = verify;
    options.row = row_print;
    options.arg = stdout;
    SEGMENT_MUST(verify ? eng_dump_verify(ot_io_real(), path, &options, &summary) : eng_dump_file(ot_io_real(), path, &options, &summary));
    printf("%" PRIu64 " faults\n", summary.faults);
    return 0;
}

int main(int count, char **words)
{
    if (count == 3 && strcmp(words[1], "write") == 0) return segment_files_write(words[2], stdout);
    if (count == 3 && strcmp(words[1], "read") == 0) return read_one(words[2]);
    if (count == 3 && strcmp(words[1], "verify") == 0) return dump(words[2], true);
    if (count == 3 && strcmp(words[1], "dump") == 0) return dump(words[2], false);
    (void)fprintf(stderr, "usage: engine_files write DIR | read FILE | verify DIR | dump FILE\n");
    return 2;
}
