#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES_MIN 4096u
#define BLOCK_BYTES_MAX 262144u

struct ot_arena_block { /* the newest is at the head of the list; memory follows the header */
    struct ot_arena_block *older;
    size_t bytes; /* with the header */
};
#define HEADER_BYTES ((sizeof(struct ot_arena_block) + 15) & ~(size_t)15)

void ot_arena_init(struct ot_arena *arena, size_t cap_bytes)
{
    ot_arena_init_with(arena, NULL, 0, cap_bytes);
}

static void use_first(struct ot_arena *arena)
{
    const size_t skip = (size_t)(-(uintptr_t)arena->first & 15);
    arena->at = arena->end = NULL;
    if (arena->first == NULL || arena->first_bytes < skip) return;
    arena->at = arena->first + skip;
    arena->end = arena->first + arena->first_bytes;
}

void ot_arena_init_with(struct ot_arena *arena, void *first, size_t first_bytes, size_t cap_bytes)
{
    *arena = (struct ot_arena){.cap_bytes = cap_bytes, .first = first, .first_bytes = first == NULL ? 0 : first_bytes};
    use_first(arena);
}

static bool add_block(struct ot_arena *arena, size_t bytes)
{
    const size_t left = arena->cap_bytes - arena->used_bytes;
    if (bytes > left || left - bytes < HEADER_BYTES) return false;
    const size_t need = bytes + HEADER_BYTES;
    size_t take = arena->blocks == NULL ? BLOCK_BYTES_MIN : arena->blocks->bytes * 2;
    take = OT_MIN(OT_MAX(OT_MIN(take, BLOCK_BYTES_MAX), need), left);
    struct ot_arena_block *block = malloc(take);
    if (block == NULL) return false;
    block->older = arena->blocks;
    block->bytes = take;
    arena->blocks = block;
    arena->used_bytes += take;
    arena->at = (uint8_t *)block + HEADER_BYTES;
    arena->end = (uint8_t *)block + take;
    return true;
}

void *ot_arena_alloc(struct ot_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX - 15) return NULL;
    bytes = OT_MAX((bytes + 15) & ~(size_t)15, (size_t)16); /* distinct pointers also for nothing */
    if (arena->at == NULL || (size_t)(arena->end - arena->at) < bytes) {
        if (!add_block(arena, bytes)) return NULL;
    }
    void *p = arena->at;
    arena->at += bytes;
    return memset(p, 0, bytes);
}

void *ot_arena_array(struct ot_arena *arena, size_t count, size_t bytes)
{
    size_t product;
    return __builtin_mul_overflow(count, bytes, &product) ? NULL : ot_arena_alloc(arena, product);
}

char *ot_arena_str(struct ot_arena *arena, struct ot_str text)
{
    char *copy = ot_arena_alloc(arena, (size_t)text.bytes + 1);
    if (copy != NULL && text.bytes > 0) memcpy(copy, text.data, text.bytes);
    return copy;
}

void ot_arena_reset(struct ot_arena *arena)
{
    struct ot_arena_block *block = arena->blocks;
    while (block != NULL && (block->older != NULL || arena->first != NULL)) {
        struct ot_arena_block *older = block->older;
        free(block);
        block = older;
    }
    arena->blocks = block;
    arena->used_bytes = block == NULL ? 0 : block->bytes;
    use_first(arena);
    if (block == NULL) return;
    arena->at = (uint8_t *)block + HEADER_BYTES;
    arena->end = (uint8_t *)block + block->bytes;
}

struct ot_arena_mark ot_arena_mark(const struct ot_arena *arena)
{
    return (struct ot_arena_mark){arena->blocks, arena->at, arena->end, arena->used_bytes};
}

void ot_arena_rewind(struct ot_arena *arena, const struct ot_arena_mark *mark)
{
    while (arena->blocks != mark->blocks) {
        struct ot_arena_block *older = arena->blocks->older;
        free(arena->blocks);
        arena->blocks = older;
    }
    arena->at = mark->at;
    arena->end = mark->end;
    arena->used_bytes = mark->used_bytes;
}

void ot_arena_free(struct ot_arena *arena)
{
    for (struct ot_arena_block *block = arena->blocks, *older; block != NULL; block = older) {
        older = block->older;
        free(block);
    }
    *arena = (struct ot_arena){.cap_bytes = arena->cap_bytes};
}
