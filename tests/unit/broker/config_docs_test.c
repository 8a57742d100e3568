/* docs/configuration.md is the config tables in words. */
#include "docs_page.h"

#include "broker/config.h"

static const char *change_word(enum broker_config_change change)
{
    static const char *const words[] = { "restart", "live, per broker", "live, cluster-wide", "live, per topic" };
    return words[change];
}

static void put_rows(const struct broker_config_row *rows, uint32_t count, bool broker)
{
    docs_put("| Key | Default | Valid | %sMeaning |\n|---|---|---|%s---|\n", broker ? "Change | " : "", broker ? "---|" : "");
    for (uint32_t i = 0; i < count; i++) {
        if (!rows[i].honoured) continue;
        docs_put("| `%s` | %s%s%s | ", rows[i].key, rows[i].fallback != NULL ? "`" : "", rows[i].fallback != NULL ? rows[i].fallback : "none", rows[i].fallback != NULL ? "`" : "");
        for (const char *at = rows[i].valid != NULL ? rows[i].valid : ""; *at != 0; at++) docs_put(*at == '|' ? " or " : "%c", *at);
        docs_put(" | ");
        if (broker) docs_put("%s | ", change_word(rows[i].change));
        docs_put("%s", rows[i].text);
        if (rows[i].synonyms != NULL) docs_put("; else from `%s`", rows[i].synonyms);
        docs_put(" |\n");
    }
}

static bool supplies_another(const struct broker_config_row *rows, uint32_t count, const char *key)
{
    for (uint32_t i = 0; i < count; i++)
        if (rows[i].honoured && rows[i].synonyms != NULL && strstr(rows[i].synonyms, key) != NULL) return true;
    return false;
}

static void put_ignored(const struct broker_config_row *rows, uint32_t count)
{
    for (uint32_t i = 0, column = 0; i < count; i++) {
        if (rows[i].honoured || supplies_another(rows, count, rows[i].key)) continue;
        docs_put("%s`%s`", column == 0 ? "" : column % 5 == 0 ? ",\n" : ", ", rows[i].key);
        column++;
    }
    docs_put(".\n");
}

static void the_page_says_what_the_tables_say(void **state)
{
    (void)state;
    uint32_t count = 0;
    docs_put("# Configuration\n\n"
             "Written from `broker/config_table.h` and `broker/topic_config_table.h` by their test (`OTTLA_UPDATE_DOCS=1`); do not edit by hand.\n\n"
             "Order, weakest first: built-in, file (`--config`, `OTTLA_CONFIG` or `/etc/ottla/server.properties`), its drop-ins (`FILE.d/*.properties`), environment\n"
             "(`OTTLA_` and the key in capitals, `.` as `_`, `_` as `__`, `-` as `___`), flags (`--set key=value`), cluster dynamic default, per-broker dynamic, topic override.\n"
             "Values may be `${env:NAME}`, `${file:/path}` or `${credential:NAME}`. `ottla server --print-config` shows every value with its source, `--check` only looks.\n"
             "An unknown key stops the start and names the nearest known one (`ottla.config.unknown.keys=warn` relaxes); an unknown `OTTLA_` variable is a warning.\n"
             "SIGHUP has the file and its drop-ins read again: keys whose change is `live` are applied at once, others are named in the log as `needs_restart`. A file with a fault\n"
             "is refused as a whole, and the server goes on with what it had.\n\n"
             "## Broker\n\n");
    const struct broker_config_row *rows = broker_config_rows(&count);
    put_rows(rows, count, true);
    uint32_t topic_count = 0;
    const struct broker_config_row *topic_rows = broker_topic_config_rows(&topic_count);
    docs_put("\n## Topic\n\nEach may be set when a topic is made or later; without it the broker's key of the same meaning counts.\n\n");
    put_rows(topic_rows, topic_count, false);
    docs_put("\n## Keys of Kafka without a meaning here\n\nKnown, shown by DescribeConfigs with Kafka's defaults, and otherwise ignored; setting any of them gives one warning at start.\n\n");
    put_ignored(rows, count);
    docs_put("\nOf topics: ");
    put_ignored(topic_rows, topic_count);
    docs_check("configuration.md");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_page_says_what_the_tables_say) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
