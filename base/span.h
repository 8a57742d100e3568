/* One piece of a response: memory, or a stretch of a file. */
#ifndef OT_BASE_SPAN_H
#define OT_BASE_SPAN_H

#include "base/bytes.h"

/* Whoever lends memory or a descriptor lends it under a pin: release(pin) is called exactly once when the last byte
 * was sent or will never be, from any thread. */
struct ot_pin { void (*release)(struct ot_pin *pin); };

struct ot_span {
    const void *memory;        /* borrowed; NULL means the file */
    int fd;                    /* open as long as the pin is held; -1 with memory */
    uint32_t bytes;
    uint64_t pos;              /* in the file */
    bool cold;                 /* may not be in the page cache: probe before sendfile */
};

#endif
