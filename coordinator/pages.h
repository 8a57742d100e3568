/* Pages of the cluster's value: 4 KiB blocks from a pool with a hard cap, counted, copied on write.
 *
 * A page that is counted once belongs to the tree that holds it and may be changed in place; a page that is counted more often is
 * constant, and whoever wants to change it makes a copy. So a view of a tree is one count on its root.
 *
 * owner   memory comes from the system in slabs of 1 MiB up to the cap and goes back when the pool is freed
 * thread  counting, changing and freeing: one thread (the coordinator's). Reading a counted root: any thread. */
#ifndef OT_COORDINATOR_PAGES_H
#define OT_COORDINATOR_PAGES_H

#include "base/err.h"

#define COORD_PAGE_BYTES 4096u

struct coord_page {
    uint32_t refs;
    uint16_t count;                            /* cells */
    uint16_t heap_pos;                         /* cells lie in [heap_pos, COORD_PAGE_BYTES) of the page */
    uint16_t dead_bytes;                       /* within the heap, left by removed cells */
    uint8_t level;                             /* 0: rows; above: children */
    uint8_t spare;
    union { uint16_t slots[(COORD_PAGE_BYTES - 16) / 2]; struct coord_page *next_free; } u;    /* slots: page positions of the cells, in key order */
};
OT_STATIC_ASSERT(sizeof(struct coord_page) == COORD_PAGE_BYTES, "cells begin behind the header and the slots");

struct coord_pages;
/* bytes_max is rounded down to whole pages; NULL when there is no memory for the pool itself. */
struct coord_pages *coord_pages_new(uint64_t bytes_max);
void coord_pages_free(struct coord_pages *pages);                      /* every page must be back; NULL is fine */
/* Make sure that the next count calls of coord_page_new succeed. NO_MEMORY at the cap. */
OT_MUST_CHECK enum ot_err coord_pages_reserve(struct coord_pages *pages, uint32_t count);
struct coord_page *coord_page_new(struct coord_pages *pages, uint8_t level);     /* refs 1, empty; only what was reserved */
void coord_page_release(struct coord_pages *pages, struct coord_page *page);     /* the bare block, whatever its count */
uint64_t coord_pages_used_bytes(const struct coord_pages *pages);
uint64_t coord_pages_cap_bytes(const struct coord_pages *pages);

#endif
