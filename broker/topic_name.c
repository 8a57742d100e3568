#include "broker/admin.h"

#define NAME_BYTES_MAX 249u                /* with "-" and a partition number it has to be a file name */

enum ot_err broker_topic_name_check(struct ot_str name)
{
    if (name.null || name.bytes == 0 || name.bytes > NAME_BYTES_MAX) return OT_ERR_INVALID_TOPIC_EXCEPTION;
    bool only_dots = name.bytes <= 2;
    for (uint32_t i = 0; i < name.bytes; i++) {
        const char c = name.data[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && c != '.' && c != '_' && c != '-') return OT_ERR_INVALID_TOPIC_EXCEPTION;
        only_dots &= c == '.';
    }
    return only_dots ? OT_ERR_INVALID_TOPIC_EXCEPTION : OT_OK;
}
