/* Rules that need no broker: features, quotas, loggers, what clients push. */
#include "testing.h"

#include "base/log.h"
#include "broker/client_quotas.h"
#include "broker/features.h"
#include "broker/loggers.h"
#include "broker/otlp.h"
#include "broker/telemetry.h"

static char text[BROKER_TEXT_MAX];

static const struct broker_config top = { .ottla_metadata_version = 33, .ottla_transaction_version = 2, .ottla_group_version = 1 };

static enum ot_err update(const struct broker_config *config, const char *name, int level, int8_t change, const char **key)
{
    return broker_feature_update(1, config, 1, ot_str_of(name), (int16_t)level, change, key, text);
}

static void levels_change_within_their_range_and_go_down_only_when_asked_to(void **state)
{
    static const struct broker_config middle = { .ottla_metadata_version = 20, .ottla_transaction_version = 1, .ottla_group_version = 1 };
    uint32_t count = 0;
    const struct broker_feature *features = broker_features(&count);
    (void)state;
    assert_int_equal(count, BROKER_FEATURE_COUNT);
    for (uint32_t i = 1; i + 1 < count; i++) { /* metadata.version and ottla.version have rules of their own */
        const int16_t now = broker_feature_level_of(&middle, 1, &features[i]);
        for (int level = features[i].min - 2; level <= features[i].max + 2; level++) {
            for (int8_t change = 0; change <= 4; change++) {
                const char *key = NULL;
                const bool way = change == 1 ? level >= now : level <= now;
                const bool good = change >= 1 && change <= 3 && way && level >= features[i].min && level <= features[i].max;
                assert_int_equal(update(&middle, features[i].name, level, change, &key), good ? OT_OK : OT_ERR_INVALID_UPDATE_VERSION);
                assert_int_equal(text[0] == 0, good);
                if (good && level != now) assert_string_equal(key, features[i].key);
                else assert_null(key);
            }
        }
    }
    char longest[300];
    const char *key = "";
    memset(longest, 'f', sizeof longest);
    assert_int_equal(broker_feature_update(INT32_MAX, &top, 1, (struct ot_str){ longest, sizeof longest, false }, INT16_MIN, 1, &key, text), OT_ERR_INVALID_UPDATE_VERSION);
    assert_int_equal(broker_feature_update(INT32_MAX, &top, 1, (struct ot_str){ longest, sizeof longest, false }, INT16_MAX, 1, &key, text), OT_ERR_INVALID_UPDATE_VERSION);
    assert_null(key);
    assert_non_null(strstr(text, "does not support"));
    assert_int_equal(update(&top, "share.version", 0, 2, &key), OT_OK);    /* that is where it is: tools that lower all features to a release name it */
    assert_null(key);
}

static void metadata_version_goes_down_only_where_no_format_changed(void **state)
{
    struct broker_config config = top;
    const char *key = NULL;
    (void)state;
    assert_int_equal(update(&config, "metadata.version", 33, 1, &key), OT_OK);
    assert_int_equal(update(&config, "metadata.version", 34, 1, &key), OT_ERR_INVALID_UPDATE_VERSION);
    assert_non_null(strstr(text, "only supports versions 7-33"));
    assert_int_equal(update(&config, "metadata.version", 6, 2, &key), OT_ERR_INVALID_UPDATE_VERSION);
    assert_int_equal(update(&config, "metadata.version", 29, 2, &key), OT_ERR_INVALID_UPDATE_VERSION);
    assert_string_equal(text, "Invalid metadata.version 29. Refusing to perform the requested downgrade because it might delete metadata information.");
    assert_int_equal(update(&config, "metadata.version", 29, 3, &key), OT_ERR_INVALID_UPDATE_VERSION);
    assert_string_equal(text, "Invalid metadata.version 29. Unsafe metadata downgrade is not supported in this version.");
    config.ottla_metadata_version = 29;
    assert_int_equal(update(&config, "metadata.version", 23, 1, &key), OT_ERR_INVALID_UPDATE_VERSION);
    assert_int_equal(update(&config, "metadata.version", 23, 2, &key), OT_OK);
    assert_string_equal(key, "ottla.metadata.version");
    assert_int_equal(update(&config, "metadata.version", 22, 2, &key), OT_ERR_INVALID_UPDATE_VERSION);
    assert_int_equal(update(&config, "metadata.version", 33, 1, &key), OT_OK);
    assert_int_equal(update(&config, "metadata.version", 33, 2, &key), OT_ERR_INVALID_UPDATE_VERSION);
}

static void our_own_level_only_goes_up(void **state)
{
    const char *key = NULL;
    (void)state;
    assert_int_equal(broker_feature_update(1, &top, 1, ot_str_of("ottla.version"), 2, 1, &key, text), OT_OK);
    assert_string_equal(key, BROKER_FEATURE_OWN);
    assert_int_equal(broker_feature_update(1, &top, 2, ot_str_of("ottla.version"), 2, 1, &key, text), OT_OK);
    assert_null(key);
    assert_int_equal(broker_feature_update(1, &top, 2, ot_str_of("ottla.version"), 3, 1, &key, text), OT_ERR_INVALID_UPDATE_VERSION);
    assert_non_null(strstr(text, "only supports versions 1-2"));
    assert_int_equal(broker_feature_update(1, &top, 2, ot_str_of("ottla.version"), 1, 2, &key, text), OT_ERR_INVALID_UPDATE_VERSION);
    assert_string_equal(text, "Invalid ottla.version 1. Refusing to perform the requested downgrade because it might delete metadata information.");
    assert_int_equal(broker_feature_update(1, &top, 2, ot_str_of("ottla.version"), 1, 3, &key, text), OT_ERR_INVALID_UPDATE_VERSION);
    assert_string_equal(text, "Invalid ottla.version 1. Unsafe metadata downgrade is not supported in this version.");
    assert_int_equal(broker_feature_update(1, &top, 2, ot_str_of("ottla.version"), 1, 1, &key, text), OT_ERR_INVALID_UPDATE_VERSION);
}

static void quota_filters_make_sense_or_are_refused(void **state)
{
    const struct ot_str user = ot_str_of("user"), client = ot_str_of("client-id"), ip = ot_str_of("ip");
    const struct { struct broker_quota_filter filters[2]; uint32_t count; enum ot_err err; } rows[] = {
        { { { user, 0 } }, 0, OT_OK }, { { { user, 0 }, { client, 2 } }, 2, OT_OK }, { { { ip, 1 } }, 1, OT_OK }, { { { user, 0 }, { user, 1 } }, 2, OT_ERR_INVALID_REQUEST },
        { { { user, 0 }, { ip, 0 } }, 2, OT_ERR_INVALID_REQUEST }, { { { user, 3 } }, 1, OT_ERR_INVALID_REQUEST }, { { { user, -1 } }, 1, OT_ERR_INVALID_REQUEST },
        { { { ot_str_of("x"), 0 } }, 1, OT_ERR_UNSUPPORTED_VERSION }, { { { ot_str_of(""), 0 } }, 1, OT_ERR_INVALID_REQUEST } };
    (void)state;
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) assert_int_equal(broker_quota_filter_check(rows[i].filters, rows[i].count, text), rows[i].err);
}

static void a_quota_that_would_have_to_be_kept_is_refused(void **state)
{
    const struct broker_quota_entity user[] = { { ot_str_of("user"), ot_str_of("u") }, { ot_str_of("user"), ot_str_of("v") }, { ot_str_of("ip"), { .null = true } } };
    const struct broker_quota_entity ip[] = { { ot_str_of("ip"), { .null = true } } }, empty[] = { { ot_str_of("user"), ot_str_of("") } };
    const struct broker_quota_op set[] = { { ot_str_of("producer_byte_rate"), 1, false } }, gone[] = { { ot_str_of("producer_byte_rate"), 0, true } },
        odd[] = { { ot_str_of("x"), 1, true } }, zero[] = { { ot_str_of("producer_byte_rate"), 0, false } }, nan_[] = { { ot_str_of("producer_byte_rate"), 0.0 / 0.0, false } },
        conn[] = { { ot_str_of("connection_creation_rate"), 0, true } };
    (void)state;
    assert_int_equal(broker_quota_alter(user, 1, gone, 1, text), OT_OK);
    assert_int_equal(broker_quota_alter(user, 1, set, 1, text), OT_ERR_INVALID_REQUEST);
    assert_non_null(strstr(text, "not enforced"));
    assert_int_equal(broker_quota_alter(user, 1, odd, 1, text), OT_ERR_INVALID_REQUEST);
    assert_int_equal(broker_quota_alter(user, 1, zero, 1, text), OT_ERR_INVALID_REQUEST);
    assert_int_equal(broker_quota_alter(user, 1, nan_, 1, text), OT_ERR_INVALID_REQUEST);
    assert_int_equal(broker_quota_alter(user, 1, conn, 1, text), OT_ERR_INVALID_REQUEST);
    assert_int_equal(broker_quota_alter(ip, 1, conn, 1, text), OT_OK);
    assert_int_equal(broker_quota_alter(user, 0, gone, 1, text), OT_ERR_INVALID_REQUEST);
    assert_int_equal(broker_quota_alter(user, 2, gone, 1, text), OT_ERR_INVALID_REQUEST);      /* one type twice */
    assert_int_equal(broker_quota_alter(user + 1, 2, gone, 1, text), OT_ERR_INVALID_REQUEST);  /* a user at an address */
    assert_int_equal(broker_quota_alter(empty, 1, gone, 1, text), OT_ERR_INVALID_REQUEST);
}

static enum ot_err alter(const char *name, enum broker_config_op op, const char *value, bool validate_only)
{
    const struct broker_config_entry entry = { ot_str_of(name), value == NULL ? (struct ot_str){ .null = true } : ot_str_of(value) };
    return broker_loggers_alter(&entry, &op, 1, validate_only, text);
}

static void loggers_take_the_levels_of_kafka(void **state)
{
    (void)state;
    ot_log_setup(OT_LOG_WARN, OT_LOG_TEXT, -1);
    for (uint32_t i = 0; i < broker_logger_count; i++) assert_string_equal(broker_logger_level(broker_logger_names[i]), "WARN");
    assert_int_equal(alter("kafka", BROKER_CONFIG_SET, "TRACE", true), OT_OK);
    assert_string_equal(broker_logger_level("kafka"), "WARN");
    assert_int_equal(alter("kafka", BROKER_CONFIG_SET, "TRACE", false), OT_OK);
    assert_string_equal(broker_logger_level("kafka"), "TRACE");
    assert_string_equal(broker_logger_level("root"), "WARN");
    assert_int_equal(alter("kafka", BROKER_CONFIG_DELETE, NULL, false), OT_OK);
    assert_string_equal(broker_logger_level("kafka"), "WARN");
    assert_int_equal(alter("root", BROKER_CONFIG_SET, "FATAL", false), OT_OK);
    assert_string_equal(broker_logger_level("net"), "ERROR");
    assert_int_equal(alter("root", BROKER_CONFIG_DELETE, NULL, false), OT_ERR_INVALID_REQUEST);
    assert_int_equal(alter("root", BROKER_CONFIG_SUBTRACT, "INFO", false), OT_ERR_INVALID_REQUEST);
    assert_int_equal(alter("root", BROKER_CONFIG_SET, "info", false), OT_ERR_INVALID_CONFIG);
    assert_int_equal(alter("root", BROKER_CONFIG_SET, NULL, false), OT_ERR_INVALID_CONFIG);
    assert_int_equal(alter("nope", BROKER_CONFIG_SET, "INFO", false), OT_ERR_INVALID_CONFIG);
    const struct broker_config_entry twice[] = { { ot_str_of("net"), ot_str_of("INFO") }, { ot_str_of("net"), ot_str_of("DEBUG") } };
    const enum broker_config_op ops[] = { BROKER_CONFIG_SET, BROKER_CONFIG_SET };
    assert_int_equal(broker_loggers_alter(twice, ops, 2, false, text), OT_ERR_INVALID_REQUEST);
    assert_string_equal(broker_logger_level("net"), "ERROR");          /* all or none */
}

static void loggers_follow_the_configuration_only_when_it_changed(void **state)
{
    struct broker_config config = { .ottla_log_level = "info" };
    (void)state;
    ot_log_setup(OT_LOG_WARN, OT_LOG_TEXT, -1);
    const char *now = broker_loggers_follow(&config, NULL);
    assert_string_equal(broker_logger_level("root"), "INFO");
    assert_int_equal(alter("root", BROKER_CONFIG_SET, "DEBUG", false), OT_OK);
    now = broker_loggers_follow(&config, now);
    assert_string_equal(broker_logger_level("root"), "DEBUG");
    config.ottla_log_level = "error";
    assert_string_equal(broker_loggers_follow(&config, now), "error");
    assert_string_equal(broker_logger_level("root"), "ERROR");
}

static enum ot_err check(const char *key, const char *value)
{
    text[0] = 0;
    return broker_client_metrics_check(ot_str_of(key), value == NULL ? (struct ot_str){ .null = true } : ot_str_of(value), text, sizeof text);
}

static void subscriptions_to_client_metrics_are_checked_as_kafka_does(void **state)
{
    (void)state;
    assert_int_equal(check("metrics", "org.apache.kafka.producer.,*"), OT_OK);
    assert_int_equal(check("metrics", ""), OT_OK);
    assert_int_equal(check("interval.ms", "100"), OT_OK);
    assert_int_equal(check("interval.ms", " 3600000 "), OT_OK);
    assert_int_equal(check("interval.ms", NULL), OT_OK);
    assert_int_equal(check("interval.ms", "99"), OT_ERR_INVALID_REQUEST);
    assert_string_equal(text, "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)");
    assert_int_equal(check("interval.ms", "3600001"), OT_ERR_INVALID_REQUEST);
    assert_int_equal(check("interval.ms", "-1"), OT_ERR_INVALID_REQUEST);
    assert_int_equal(check("interval.ms", "x"), OT_ERR_INVALID_CONFIG);
    assert_int_equal(check("interval.ms", ""), OT_ERR_INVALID_CONFIG);
    assert_int_equal(check("push.interval.ms", "100"), OT_ERR_INVALID_REQUEST);
    assert_int_equal(check("match", "client_id=a.*, client_source_port=[0-9]+"), OT_OK);
    assert_int_equal(check("match", ""), OT_OK);
    for (const char *const *wrong = (const char *const[]){ "client_id", "client_id=", "client_id=a=b", "nobody=a", "client_id=(", "=a", "client_id=a,,client_id=b", NULL }; *wrong != NULL; wrong++) {
        assert_int_equal(check("match", *wrong), OT_ERR_INVALID_CONFIG);
        assert_non_null(strstr(text, "Illegal client matching pattern"));
    }
}

struct seen { struct broker_otlp_number numbers[8]; uint32_t count; };
static void see(void *arg, const struct broker_otlp_number *number)
{
    struct seen *seen = arg;
    assert_true(seen->count < OT_ARRAY_COUNT(seen->numbers));
    seen->numbers[seen->count++] = *number;
}

/* One resource, one scope: a gauge of 1.5, a sum of 2 and 40 that is a delta, a histogram; with a schema URL behind. */
static const uint8_t otlp[] = { 0x0a, 69, 0x12, 65,
    0x12, 18, 0x0a, 1, 'g', 0x2a, 13, 0x0a, 11, 0x21, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x40, 0,
    0x12, 31, 0x0a, 1, 's', 0x3a, 26, 0x0a, 9, 0x31, 2, 0, 0, 0, 0, 0, 0, 0, 0x0a, 9, 0x31, 40, 0, 0, 0, 0, 0, 0, 0, 0x10, 1, 0x18, 1,
    0x12, 7, 0x0a, 1, 'h', 0x4a, 2, 0x10, 2,
    0x1a, 1, 'u', 0x1a, 0 };

static void numbers_of_opentelemetry_are_read_and_damage_is_told(void **state)
{
    struct seen seen = { .count = 0 };
    (void)state;
    assert_true(broker_otlp_each(otlp, sizeof otlp, see, &seen));
    assert_int_equal(seen.count, 2);
    assert_true(ot_str_equal(seen.numbers[0].name, ot_str_of("g")) && !seen.numbers[0].sum && seen.numbers[0].value == 1.5);
    assert_true(ot_str_equal(seen.numbers[1].name, ot_str_of("s")) && seen.numbers[1].sum && seen.numbers[1].delta && seen.numbers[1].value == 42);
    assert_true(broker_otlp_each(otlp, 0, see, &seen));
    for (size_t bytes = 1; bytes < sizeof otlp; bytes++) {     /* a copy of exactly that length, so that reading past it is seen */
        uint8_t *copy = malloc(bytes);
        memcpy(copy, otlp, bytes);
        seen.count = 0;
        assert_false(broker_otlp_each(copy, bytes, see, &seen));
        free(copy);
    }
    for (size_t at = 0; at < sizeof otlp; at++) {              /* any byte may be any other: no crash, and nothing that is not finite */
        uint8_t copy[sizeof otlp];
        for (int value = 0; value < 256; value++) {
            memcpy(copy, otlp, sizeof otlp);
            copy[at] = (uint8_t)value;
            seen.count = 0;
            (void)broker_otlp_each(copy, sizeof copy, see, &seen);
        }
    }
}

static void pushes_are_bounded_and_counted_by_software(void **state)
{
    static struct broker_telemetry telemetry;
    const struct broker_telemetry_subscription subscription = { .id = 77, .interval_ms = 1000 };
    const struct broker_client client = { .software_name = ot_str_of("apache-kafka-java"), .software_version = ot_str_of("4.4.0") };
    struct ot_metrics *metrics = ot_metrics_new(100);
    (void)state;
    broker_telemetry_init(&telemetry, metrics);
    struct broker_telemetry_push push = { .client = { { 1 } }, .subscription_id = subscription.id, .bytes = 100, .bytes_max = 1000 };
    assert_int_equal(broker_telemetry_take(&telemetry, &subscription, &client, &push, 1000000), OT_OK);
    assert_int_equal(broker_telemetry_take(&telemetry, &subscription, &client, &push, 1999999), OT_ERR_THROTTLING_QUOTA_EXCEEDED);
    assert_int_equal(broker_telemetry_take(&telemetry, &subscription, &client, &push, 2000000), OT_OK);
    push.bytes = 1001;
    assert_int_equal(broker_telemetry_take(&telemetry, &subscription, &client, &push, 9000000), OT_ERR_TELEMETRY_TOO_LARGE);
    push.bytes = 50;
    push.compression = 5;
    assert_int_equal(broker_telemetry_take(&telemetry, &subscription, &client, &push, 9000000), OT_ERR_UNSUPPORTED_COMPRESSION_TYPE);
    push.compression = 4;
    push.terminating = true;
    assert_int_equal(broker_telemetry_take(&telemetry, &subscription, &client, &push, 2000001), OT_OK);
    assert_int_equal(broker_telemetry_take(&telemetry, &subscription, &client, &push, 99000000), OT_ERR_INVALID_REQUEST);
    memset(&push.client, 0, sizeof push.client);
    assert_int_equal(broker_telemetry_take(&telemetry, &subscription, &client, &push, 99000000), OT_ERR_INVALID_REQUEST);
    push.client.bytes[3] = 9;
    push.subscription_id = 78;
    assert_int_equal(broker_telemetry_take(&telemetry, &subscription, &client, &push, 99000000), OT_ERR_UNKNOWN_SUBSCRIPTION_ID);
    const char *const labels[] = { "apache-kafka-java", "4.4.0" };
    struct ot_series *pushes = ot_series_get(metrics, OT_METRIC_client_metrics_pushes_total, labels), *bytes = ot_series_get(metrics, OT_METRIC_client_metrics_bytes_total, labels);
    assert_int_equal(ot_series_total(pushes), 3);
    assert_int_equal(ot_series_total(bytes), 250);
    broker_telemetry_free(&telemetry);
    ot_metrics_free(metrics);
}

TEST_MAIN(cmocka_unit_test(levels_change_within_their_range_and_go_down_only_when_asked_to),
    cmocka_unit_test(metadata_version_goes_down_only_where_no_format_changed), cmocka_unit_test(our_own_level_only_goes_up), cmocka_unit_test(subscriptions_to_client_metrics_are_checked_as_kafka_does), cmocka_unit_test(numbers_of_opentelemetry_are_read_and_damage_is_told), cmocka_unit_test(quota_filters_make_sense_or_are_refused),
    cmocka_unit_test(a_quota_that_would_have_to_be_kept_is_refused), cmocka_unit_test(loggers_take_the_levels_of_kafka),
    cmocka_unit_test(loggers_follow_the_configuration_only_when_it_changed), cmocka_unit_test(pushes_are_bounded_and_counted_by_software))
