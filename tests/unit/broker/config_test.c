#include "broker/config.h"
#include "broker/config_checks.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static struct broker_config_store *store;
static char text[512];

static int setup(void **state)
{
    (void)state;
    return broker_config_store_new(&store) == OT_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    broker_config_store_free(store);
    return 0;
}

static void defaults_are_kafkas(void **state)
{
    (void)state;
    const struct broker_config *config = broker_config_current(store);
    assert_int_equal(config->log_retention_ms, 604800000);
    assert_int_equal(config->message_max_bytes, 1048588);
    assert_string_equal(config->listeners, "PLAINTEXT://127.0.0.1:9092");
    assert_null(config->advertised_listeners);
}

static void every_row_of_kafka_is_known_and_its_default_is_valid(void **state)
{
    (void)state;
    uint32_t count = 0;
    const struct broker_config_row *rows = broker_config_rows(&count);
    assert_true(count > 365);
    for (uint32_t i = 1; i < count; i++) assert_true(strcmp(rows[i - 1].key, rows[i].key) < 0);
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].fallback == NULL || rows[i].sensitive) continue;
        struct broker_config_store *other = NULL;
        assert_int_equal(broker_config_store_new(&other), OT_OK);
        enum ot_err err = broker_config_set(other, BROKER_SOURCE_FLAG, "test", rows[i].key, rows[i].fallback, text, sizeof(text));
        if (err != OT_OK) fail_msg("%s: %s", rows[i].key, text);
        broker_config_store_free(other);
    }
}

static void an_unknown_key_names_the_nearest(void **state)
{
    (void)state;
    assert_int_equal(broker_config_set(store, BROKER_SOURCE_FLAG, "--set", "log.retension.ms", "1", text, sizeof(text)), OT_ERR_INVALID_CONFIG);
    assert_non_null(strstr(text, "log.retention.ms"));
}

static void a_value_outside_its_range_is_refused_with_the_range(void **state)
{
    (void)state;
    assert_int_equal(broker_config_set(store, BROKER_SOURCE_FLAG, "--set", "num.partitions", "0", text, sizeof(text)), OT_ERR_INVALID_CONFIG);
    assert_non_null(strstr(text, "[1,...]"));
    assert_int_equal(broker_config_set(store, BROKER_SOURCE_FLAG, "--set", "num.partitions", "7x", text, sizeof(text)), OT_ERR_INVALID_CONFIG);
    assert_int_equal(broker_config_set(store, BROKER_SOURCE_FLAG, "--set", "log.cleanup.policy", "delete,compost", text, sizeof(text)), OT_ERR_INVALID_CONFIG);
    assert_int_equal(broker_config_current(store)->num_partitions, 1);
}

static void the_stronger_source_wins_and_a_removed_one_uncovers_the_weaker(void **state)
{
    (void)state;
    assert_int_equal(broker_config_set(store, BROKER_SOURCE_FLAG, "--set", "log.retention.ms", "5", text, sizeof(text)), OT_OK);
    assert_int_equal(broker_config_set(store, BROKER_SOURCE_FILE, "f:1", "log.retention.ms", "4", text, sizeof(text)), OT_OK);
    assert_int_equal(broker_config_current(store)->log_retention_ms, 5);
    assert_int_equal(broker_config_apply_dynamic(store, -1, "log.retention.ms", "6"), OT_OK);
    assert_int_equal(broker_config_apply_dynamic(store, 1, "log.retention.ms", "7"), OT_OK);
    assert_int_equal(broker_config_apply_dynamic(store, 2, "log.retention.ms", "8"), OT_OK);     /* another broker's */
    assert_int_equal(broker_config_current(store)->log_retention_ms, 7);
    assert_int_equal(broker_config_apply_dynamic(store, 1, "log.retention.ms", NULL), OT_OK);
    assert_int_equal(broker_config_current(store)->log_retention_ms, 6);
}

static void hours_supply_milliseconds_unless_those_are_set(void **state)
{
    (void)state;
    assert_int_equal(broker_config_set(store, BROKER_SOURCE_FILE, "f:1", "log.retention.hours", "2", text, sizeof(text)), OT_OK);
    assert_int_equal(broker_config_current(store)->log_retention_ms, 7200000);
    assert_int_equal(broker_config_set(store, BROKER_SOURCE_FILE, "f:2", "log.retention.minutes", "3", text, sizeof(text)), OT_OK);
    assert_int_equal(broker_config_current(store)->log_retention_ms, 180000);
    assert_int_equal(broker_config_set(store, BROKER_SOURCE_FILE, "f:3", "log.retention.hours", "-1", text, sizeof(text)), OT_OK);
    assert_int_equal(broker_config_set(store, BROKER_SOURCE_FILE, "f:4", "log.retention.minutes", "-1", text, sizeof(text)), OT_OK);
    assert_int_equal(broker_config_current(store)->log_retention_ms, -1);
}

static void a_topic_inherits_from_the_broker_until_it_overrides(void **state)
{
    (void)state;
    struct broker_topic_config topic;
    const char *keys[] = { "retention.ms" }, *values[] = { "99" };
    assert_int_equal(broker_config_set(store, BROKER_SOURCE_FILE, "f:1", "log.retention.hours", "1", text, sizeof(text)), OT_OK);
    broker_topic_config_effective(store, keys, values, 0, &topic);
    assert_int_equal(topic.retention_ms, 3600000);
    broker_topic_config_effective(store, keys, values, 1, &topic);
    assert_int_equal(topic.retention_ms, 99);
    assert_string_equal(topic.durability, "auto");
}

static void environment_names_become_keys(void **state)
{
    (void)state;
    char *environment[] = { "OTTLA_LOG_RETENTION_HOURS=24", "OTTLA_DURABILITY=fsync", "OTTLA_API=x", "OTTLA_SERVICE_HOST=10.1.1.1", "PATH=/", NULL };
    assert_int_equal(broker_config_load_environment(store, environment, text, sizeof(text)), OT_OK);
    assert_int_equal(broker_config_current(store)->log_retention_ms, 86400000);
    assert_string_equal(broker_config_current(store)->ottla_durability, "fsync");
    char *wrong[] = { "OTTLA_NUM_PARTITIONS=many", NULL };
    assert_int_equal(broker_config_load_environment(store, wrong, text, sizeof(text)), OT_ERR_INVALID_CONFIG);
    assert_non_null(strstr(text, "OTTLA_NUM_PARTITIONS"));
}

static void count_warning(void *arg, const char *warning)
{
    if (strstr(warning, "num.network.threads") != NULL) (*(int *)arg)++;
}

static void files_have_substitutions_drop_ins_and_line_numbers(void **state)
{
    (void)state;
    char dir[] = "/tmp/ottla-config-XXXXXX", path[128], drop[160], drop_file[200];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/server.properties", dir);
    snprintf(drop, sizeof(drop), "%s.d", path);
    snprintf(drop_file, sizeof(drop_file), "%s/10-x.properties", drop);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("num.partitions = ${env:OT_CONFIG_TEST}\nnum.network.threads=8\n", file);
    fclose(file);
    assert_int_equal(setenv("OT_CONFIG_TEST", "6", 1), 0);
    assert_int_equal(broker_config_load_file(store, path, text, sizeof(text)), OT_OK);
    assert_int_equal(broker_config_current(store)->num_partitions, 6);
    int warned = 0;
    broker_config_warnings(store, count_warning, &warned);
    assert_int_equal(warned, 1);
    assert_int_equal(mkdir(drop, 0755), 0);
    file = fopen(drop_file, "w");
    assert_non_null(file);
    fputs("num.partitions=9\n\nbogus.key=1\n", file);
    fclose(file);
    assert_int_equal(broker_config_load_file(store, path, text, sizeof(text)), OT_ERR_INVALID_CONFIG);
    assert_non_null(strstr(text, "10-x.properties:3"));
    assert_int_equal(broker_config_current(store)->num_partitions, 9);
    unlink(drop_file);
    rmdir(drop);
    unlink(path);
    rmdir(dir);
}

static void check_described(void *arg, const struct broker_config_value *value)
{
    int *seen = arg;
    if (strcmp(value->row->key, "log.retention.ms") != 0) return;
    (*seen)++;
    assert_string_equal(value->value, "7200000");
    assert_int_equal(value->source, BROKER_SOURCE_FILE);
    assert_string_equal(value->origin, "f:1");
    assert_int_equal(value->synonym_count, 2);      /* and the default */
    assert_string_equal(value->synonyms[0].name, "log.retention.hours");
}

static void describe_tells_value_source_and_what_it_hides(void **state)
{
    (void)state;
    int seen = 0;
    assert_int_equal(broker_config_set(store, BROKER_SOURCE_FILE, "f:1", "log.retention.hours", "2", text, sizeof(text)), OT_OK);
    broker_config_describe(store, 1, check_described, &seen);
    assert_int_equal(seen, 1);
}

static void dynamic_changes_respect_the_update_mode(void **state)
{
    (void)state;
    assert_int_equal(broker_config_check_dynamic(store, -1, "node.id", "3", text, sizeof(text)), OT_ERR_INVALID_REQUEST);
    assert_int_equal(broker_config_check_dynamic(store, -1, "log.retention.ms", "x", text, sizeof(text)), OT_ERR_INVALID_CONFIG);
    assert_int_equal(broker_config_check_dynamic(store, -1, "log.retention.ms", "3", text, sizeof(text)), OT_OK);
    assert_int_equal(broker_config_check_dynamic(store, -1, "ottla.log.level", "debug", text, sizeof(text)), OT_ERR_INVALID_REQUEST);
    assert_int_equal(broker_config_check_dynamic(store, 1, "ottla.log.level", "debug", text, sizeof(text)), OT_OK);
}

static int told;
static void note_change(void *arg, const struct broker_config *now)
{
    assert_ptr_equal(arg, store);
    assert_ptr_equal(now, broker_config_current(store));
    told++;
}

static void watchers_hear_of_dynamic_changes_until_they_leave(void **state)
{
    (void)state;
    told = 0;
    broker_config_watch(store, note_change, store);
    assert_int_equal(broker_config_apply_dynamic(store, -1, "max.connections", "7"), OT_OK);
    assert_int_equal(told, 1);
    assert_int_equal(broker_config_apply_dynamic(store, 99, "max.connections", "8"), OT_OK);   /* another broker's */
    assert_int_equal(told, 1);
    assert_int_equal(broker_config_apply_dynamic(store, -1, "max.connections", NULL), OT_OK);
    assert_int_equal(told, 2);
    broker_config_unwatch(store, note_change, store);
    assert_int_equal(broker_config_apply_dynamic(store, -1, "max.connections", "9"), OT_OK);
    assert_int_equal(told, 2);
}

static void topic_values_are_checked_beyond_their_type(void **state)
{
    static const struct { const char *key, *value; enum ot_err err; } rows[] = {
        { "leader.replication.throttled.replicas", "*", OT_OK }, { "leader.replication.throttled.replicas", "", OT_OK },
        { "follower.replication.throttled.replicas", "0:1,17:2", OT_OK }, { "follower.replication.throttled.replicas", "0:1,", OT_ERR_INVALID_CONFIG },
        { "leader.replication.throttled.replicas", "0", OT_ERR_INVALID_CONFIG }, { "leader.replication.throttled.replicas", "0:", OT_ERR_INVALID_CONFIG },
        { "leader.replication.throttled.replicas", ":1", OT_ERR_INVALID_CONFIG }, { "leader.replication.throttled.replicas", "0:1;1:1", OT_ERR_INVALID_CONFIG },
        { "remote.storage.enable", "false", OT_OK }, { "remote.storage.enable", "TRUE", OT_ERR_INVALID_CONFIG } };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(broker_topic_config_check(rows[i].key, rows[i].value, text, sizeof(text)), rows[i].err);
}

static void texts_with_a_form_of_their_own_are_checked(void **state)
{
    static const struct { const char *key, *value; bool good; } rows[] = {
        { "listener.security.protocol.map", "A:PLAINTEXT, b:sasl_ssl", true }, { "listener.security.protocol.map", "A", false }, { "listener.security.protocol.map", ":SSL", false },
        { "listener.security.protocol.map", "A:TLS", false }, { "max.connections.per.ip.overrides", "127.0.0.1:5", true }, { "max.connections.per.ip.overrides", "", true },
        { "max.connections.per.ip.overrides", "host:5", false }, { "group.coordinator.rebalance.protocols", "classic", true }, { "group.coordinator.rebalance.protocols", "consumer", false },
        { "group.coordinator.rebalance.protocols", "classic,raft", false } };
    char protocol[16];
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(broker_config_set(store, BROKER_SOURCE_FLAG, "--set", rows[i].key, rows[i].value, text, sizeof(text)), rows[i].good ? OT_OK : OT_ERR_INVALID_CONFIG);
    assert_true(broker_config_protocol_of("A:PLAINTEXT, b:SASL_SSL", "B", protocol));
    assert_string_equal(protocol, "SASL_SSL");
    assert_false(broker_config_protocol_of("A:PLAINTEXT", "AB", protocol));
    assert_true(broker_config_list_has("/a, /b", "/b"));
    assert_true(broker_config_list_has("*", "/b"));
    assert_false(broker_config_list_has("/a,/bc", "/b"));
    assert_false(broker_config_list_has("", ""));
}

/* One row of Kafka's table: is ours the same? Where it is not, it is said here why. */
static const struct { const char *key, *why; } differences[] = {
    { "controller.listener.names", "has no default there" },
    { "default.replication.factor", "-1: as many as the cluster can, at most 3" },
    { "listeners", "loopback alone unless it is said otherwise" },
    { "log.flush.interval.ms", "null there: it comes from its synonym, whose default it has here" },
    { "log.retention.ms", "null there: it comes from its synonyms, whose default it has here" },
    { "log.roll.jitter.ms", "null there: it comes from its synonym, whose default it has here" },
    { "log.roll.ms", "null there: it comes from its synonym, whose default it has here" },
    { "node.id", "has no default there" },
    { "num.replica.fetchers", "the threads are there from the start" },
    { "replica.socket.receive.buffer.bytes", "the system sizes it better" },
    { "socket.receive.buffer.bytes", "the system sizes it better" },
};

static bool may_differ(const char *key)
{
    for (size_t i = 0; i < sizeof(differences) / sizeof(differences[0]); i++)
        if (strcmp(differences[i].key, key) == 0) return true;
    return false;
}

static enum broker_config_change change_of(const char *word)
{
    return strncmp(word, "per-broker", 10) == 0 ? BROKER_CONFIG_PER_BROKER : strncmp(word, "cluster-wide", 12) == 0 ? BROKER_CONFIG_CLUSTER_WIDE : BROKER_CONFIG_RESTART;
}

static void honoured_keys_have_kafkas_defaults_and_update_modes(void **state)
{
    char line[4096], path[512];
    uint32_t count = 0, compared = 0, differ = 0, unsaid = 0;
    (void)state;
    const struct broker_config_row *rows = broker_config_rows(&count);
    snprintf(path, sizeof(path), "%s/base/wire/configs-broker.txt", OT_SOURCE_DIR);
    FILE *table = fopen(path, "r");
    assert_non_null(table);
    while (fgets(line, sizeof(line), table) != NULL) {
        char *field[8] = { NULL }, *at = line;
        for (int i = 0; i < 8 && at != NULL; i++) field[i] = strsep(&at, "\t\n");
        for (uint32_t i = 0; i < count; i++) {
            if (strcmp(rows[i].key, field[0]) != 0 || !rows[i].honoured) continue;
            const char *ours = rows[i].fallback == NULL ? "null" : rows[i].fallback[0] == 0 ? "\"\"" : rows[i].fallback;
            const bool same = strcmp(ours, field[2]) == 0 && rows[i].change == change_of(field[5]);
            if (!same && !may_differ(rows[i].key)) {
                print_error("%s: default %s, %s in Kafka; update mode in Kafka %s\n", rows[i].key, ours, field[2], field[5]);
                unsaid++;
            }
            compared++;
            differ += !same;
        }
    }
    (void)fclose(table);
    assert_int_equal(unsaid, 0);
    assert_true(compared > 80);
    assert_true(differ <= sizeof(differences) / sizeof(differences[0]));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(defaults_are_kafkas), T(every_row_of_kafka_is_known_and_its_default_is_valid), T(an_unknown_key_names_the_nearest),
        T(a_value_outside_its_range_is_refused_with_the_range), T(the_stronger_source_wins_and_a_removed_one_uncovers_the_weaker),
        T(hours_supply_milliseconds_unless_those_are_set), T(a_topic_inherits_from_the_broker_until_it_overrides), T(environment_names_become_keys),
        T(files_have_substitutions_drop_ins_and_line_numbers), T(describe_tells_value_source_and_what_it_hides), T(dynamic_changes_respect_the_update_mode),
        T(watchers_hear_of_dynamic_changes_until_they_leave), T(topic_values_are_checked_beyond_their_type),
        T(texts_with_a_form_of_their_own_are_checked), T(honoured_keys_have_kafkas_defaults_and_update_modes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
