/* docs/metrics.md is the table in words. OTTLA_UPDATE_DOCS=1 in the environment writes it anew. */
#include "testing.h"

#include "base/metrics.h"

static char page[1 << 17];
static size_t page_bytes;

__attribute__((format(printf, 1, 2))) static void put(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int bytes = vsnprintf(page + page_bytes, sizeof(page) - page_bytes, format, args);
    va_end(args);
    assert_true(bytes >= 0 && (size_t)bytes < sizeof(page) - page_bytes);
    page_bytes += (size_t)bytes;
}

static void write_page(void)
{
    put("# Metrics\n\n"
        "Written from `base/metrics_table.h` by its test (`OTTLA_UPDATE_DOCS=1`); do not edit by hand.\n\n"
        "`GET /metrics` answers in Prometheus' text format 0.0.4. Units are base units and part of the name. Counters begin at 0 "
        "with the process. A metric\n"
        "without labels is there from the start, one with labels from its first event on. Beyond `metrics.series.max` labelled "
        "series, further\n"
        "ones of a metric are summed under the label value `_other`. Histograms are kept with an error of at most 5 %% and shown "
        "in classic\n"
        "buckets, 1-2-5 from 10 us to 100 s.\n\n"
        "| Name | Type | Unit | Labels | Meaning |\n|---|---|---|---|---|\n");
    for (int i = 0; i < OT_METRIC_COUNT; i++) {
        const struct ot_metric_info *info = ot_metric_info((enum ot_metric)i);
        put("| `%s` | %s | %s | ", info->name, ot_metric_type_name(info->type), ot_metric_unit_name(info->unit));
        for (uint32_t label = 0; label < info->label_count; label++) put("%s%s", label > 0 ? ", " : "", info->labels[label]);
        put(" | %s |\n", info->help);
    }
}

static void the_page_says_what_the_table_says(void **state)
{
    (void)state;
    static char found[sizeof(page)];
    const char *path = OT_SOURCE_DIR "/docs/metrics.md";
    write_page();
    if (getenv("OTTLA_UPDATE_DOCS") != NULL) {
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        assert_int_equal(fwrite(page, 1, page_bytes, out), page_bytes);
        assert_int_equal(fclose(out), 0);
    }
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    const size_t bytes = fread(found, 1, sizeof(found) - 1, in);
    (void)fclose(in);
    if (bytes != page_bytes || memcmp(found, page, bytes) != 0)
        fail_msg("docs/metrics.md is stale: run this test with OTTLA_UPDATE_DOCS=1");
}

TEST_MAIN(cmocka_unit_test(the_page_says_what_the_table_says))
