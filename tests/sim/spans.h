/* The bytes of a read, wherever they lie. */
#ifndef OT_SIM_SPANS_H
#define OT_SIM_SPANS_H

#include "base/io.h"
#include "engine/log.h"

#include <string.h>

/* 0: the disk failed, or there are none. */
static inline size_t sim_spans_copy(struct ot_io *io, const struct eng_read_result *result, uint8_t *data, size_t cap)
{
    size_t done = 0;
    for (uint32_t i = 0; i < result->span_count; i++) {
        const struct ot_span *span = &result->spans[i];
        OT_ASSERT(done + span->bytes <= cap);
        if (span->memory != NULL) memcpy(data + done, span->memory, span->bytes);
        else if (ot_io_read_exact(io, span->fd, data + done, span->bytes, span->pos) != OT_OK) return 0;
        done += span->bytes;
    }
    return done;
}

#endif
