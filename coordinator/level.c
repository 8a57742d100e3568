#include "coordinator/level.h"
#include "base/macros.h"
#include "base/wire/coord_broker_row.h"
#include "base/wire/peer_ask_request.h"

/* Of the build before this one is a second program made, for tests of both side by side: this file alone, with another number. */
#ifndef COORD_LEVEL_MAX
#define COORD_LEVEL_MAX 2
#endif

/* Ascending levels of each message. */
static const struct { const struct ot_wire_message *message; int16_t level, version; } formats[] = {
    { &ot_coord_broker_row_message, 2, 1 },
    { &ot_peer_ask_request_message, 2, 1 },
};

struct coord_levels coord_levels_known(void) { return (struct coord_levels){ COORD_LEVEL_FIRST, COORD_LEVEL_MAX }; }

int16_t coord_level_version(int16_t level, const struct ot_wire_message *message)
{
    int16_t version = 0;
    for (size_t i = 0; i < OT_ARRAY_COUNT(formats); i++) {
        if (formats[i].message == message && formats[i].level <= level) {
            version = formats[i].version;
        }
    }
    return version;
}

int16_t coord_level_version_max(const struct ot_wire_message *message) { return coord_level_version(COORD_LEVEL_MAX, message); }
