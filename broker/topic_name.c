#include "broker/room.h"

#include <stdio.h>

bool broker_topic_name_valid(struct ot_str name, char *text, size_t text_bytes)
{
    int shown = (int)OT_MIN(name.bytes, 100u);
    bool dots = (name.bytes == 1 && name.data[0] == '.') || (name.bytes == 2 && name.data[0] == '.' && name.data[1] == '.');
    if (name.null || name.bytes == 0) {
        snprintf(text, text_bytes, "Topic name is invalid: the empty string is not allowed");
        return false;
    }
    if (dots) {
        snprintf(text, text_bytes, "Topic name is invalid: '%.*s' is not allowed", shown, name.data);
        return false;
    }
    if (name.bytes > COORD_NAME_BYTES_MAX) {
        snprintf(text, text_bytes, "Topic name is invalid: the length of '%.*s…' is %u, longer than the max allowed length %d", shown, name.data, name.bytes,
            COORD_NAME_BYTES_MAX);
        return false;
    }
    for (uint32_t i = 0; i < name.bytes; i++) {
        char c = name.data[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-')) {
            bool printable = true;             /* what a client sends is not echoed raw */
            for (uint32_t k = 0; k < name.bytes; k++) {
                printable &= name.data[k] >= ' ' && name.data[k] < 127;
            }
            snprintf(text, text_bytes, "Topic name is invalid: '%.*s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
                printable ? shown : 1, printable ? name.data : "?");
            return false;
        }
    }
    return true;
}

enum ot_err broker_topic_name_check(struct ot_str name)
{
    char text[BROKER_TEXT_MAX];
    return broker_topic_name_valid(name, text, sizeof text) ? OT_OK : OT_ERR_INVALID_TOPIC_EXCEPTION;
}

bool broker_topic_name_internal(struct ot_str name)
{
    return ot_str_equal(name, ot_str_of("__consumer_offsets")) || ot_str_equal(name, ot_str_of("__transaction_state"))
        || ot_str_equal(name, ot_str_of("__share_group_state")) || ot_str_equal(name, ot_str_of("__ottla_events"));
}

bool broker_auto_create_allowed(struct broker *broker, struct ot_str name)
{
    /* internal ones are made by who needs them, with their own configs */
    return broker_config(broker)->auto_create_topics_enable && !broker_topic_name_internal(name);
}
