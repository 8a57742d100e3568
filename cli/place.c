#include "cli/place.h"
#include "base/util.h"
#include "cli/text.h"
#include <stdlib.h>
#include <string.h>

static bool age(const char *text, int64_t now_ms, int64_t *out)
{
    char number[24];
    const size_t bytes = strlen(text);
    int64_t count;
    if (bytes < 2 || bytes >= sizeof(number)) return false;
    memcpy(number, text, bytes - 1);
    number[bytes - 1] = 0;
    const char unit = text[bytes - 1];
    const int64_t ms = unit == 's' ? 1000 : unit == 'm' ? 60000 : unit == 'h' ? 3600000 : unit == 'd' ? 86400000 : 0;
    if (ms == 0 || !cli_number(number, 0, now_ms / ms, &count)) return false;
    *out = now_ms - count * ms;
    return true;
}

bool cli_place_parse(const char *text, int64_t now_ms, struct cli_place *out)
{
    *out = (struct cli_place){CLI_PLACE_EARLIEST, 0};
    if (strcmp(text, "earliest") == 0 || strcmp(text, "beginning") == 0) return true;
    out->kind = CLI_PLACE_LATEST;
    if (strcmp(text, "latest") == 0 || strcmp(text, "end") == 0) return true;
    if (cli_number(text, INT64_MIN + 1, INT64_MAX, &out->value)) {
        out->kind = text[0] == '-' ? CLI_PLACE_BACK : CLI_PLACE_OFFSET;
        if (text[0] == '-') out->value = -out->value;
        return true;
    }
    out->kind = CLI_PLACE_TIME;
    return age(text, now_ms, &out->value) || (ot_time_parse(text, &out->value) && out->value >= 0);
}

enum ot_err cli_place_find(struct cli_kafka *kafka, const struct cli_kafka_topic *topic, int32_t partition, const struct cli_place *place,
    bool committed_only, int64_t *offset_out, bool *ahead_out)
{
    int64_t earliest = 0, latest = 0;
    *ahead_out = false;
    enum ot_err err = cli_kafka_offset(kafka, topic, partition, CLI_OFFSET_LATEST, committed_only, &latest);
    if (err == OT_OK && place->kind != CLI_PLACE_LATEST) err = cli_kafka_offset(kafka, topic, partition, CLI_OFFSET_EARLIEST, committed_only, &earliest);
    if (err != OT_OK) return err;
    switch (place->kind) {
    case CLI_PLACE_EARLIEST: *offset_out = earliest; break;
    case CLI_PLACE_LATEST: *offset_out = latest; break;
    case CLI_PLACE_BACK: *offset_out = place->value > latest - earliest ? earliest : latest - place->value; break;
    case CLI_PLACE_OFFSET:
        *offset_out = place->value;
        *ahead_out = place->value > latest;
        break;
    case CLI_PLACE_TIME:
        err = cli_kafka_offset(kafka, topic, partition, place->value, committed_only, offset_out);
        *ahead_out = err == OT_OK && *offset_out < 0;
        if (*ahead_out) *offset_out = latest;
        break;
    }
    return err;
}
