/* An arena hands out memory that is freed all at once. It has a hard cap, so that what a peer can make us allocate is
 * bounded before it is made; at the cap it answers NULL and stays usable. One thread at a time. */
#ifndef OT_BASE_ARENA_H
#define OT_BASE_ARENA_H

#include "base/bytes.h"

struct ot_arena_block;
struct ot_arena {
    struct ot_arena_block *blocks;
    uint8_t *at, *end;
    size_t used_bytes, cap_bytes;
    uint8_t *first;            /* a caller's block that is used before any is allocated, or NULL; never freed here */
    size_t first_bytes;
};
void ot_arena_init(struct ot_arena *arena, size_t cap_bytes);
void ot_arena_init_with(struct ot_arena *arena, void *first, size_t first_bytes, size_t cap_bytes);
void *ot_arena_alloc(struct ot_arena *arena, size_t bytes);                   /* zeroed, 16-byte aligned */
void *ot_arena_array(struct ot_arena *arena, size_t count, size_t bytes);     /* the product is checked */
char *ot_arena_str(struct ot_arena *arena, struct ot_str text);               /* zero-terminated copy */
void ot_arena_reset(struct ot_arena *arena);       /* keeps the first block, frees the others */
/* Back to how it was when the mark was taken; what was handed out since is gone. Not over a reset. */
struct ot_arena_mark { struct ot_arena_block *blocks; uint8_t *at, *end; size_t used_bytes; };
struct ot_arena_mark ot_arena_mark(const struct ot_arena *arena);
void ot_arena_rewind(struct ot_arena *arena, const struct ot_arena_mark *mark);
void ot_arena_free(struct ot_arena *arena);

#endif
