#include "coordinator/pages.h"
#include <stdlib.h>
#include <string.h>

#define SLAB_PAGES 256u

struct slab { struct slab *next; void *memory; };
struct coord_pages {
    struct slab *slabs;
    struct coord_page *free_first;
    uint64_t pages_max, pages_made, pages_free;
};

struct coord_pages *coord_pages_new(uint64_t bytes_max)
{
    struct coord_pages *pages = calloc(1, sizeof *pages);
    if (pages != NULL) {
        pages->pages_max = bytes_max / COORD_PAGE_BYTES;
    }
    return pages;
}

void coord_pages_free(struct coord_pages *pages)
{
    if (pages == NULL) {
        return;
    }
    OT_ASSERT(pages->pages_free == pages->pages_made);
    while (pages->slabs != NULL) {
        struct slab *slab = pages->slabs;
        pages->slabs = slab->next;
        free(slab->memory);
        free(slab);
    }
    free(pages);
}

static enum ot_err add_slab(struct coord_pages *pages)
{
    uint64_t left = pages->pages_max - pages->pages_made;
    uint32_t count = (uint32_t)OT_MIN(left, SLAB_PAGES);
    struct slab *slab = count == 0 ? NULL : malloc(sizeof *slab);
    if (slab == NULL) {
        return OT_ERR_NO_MEMORY;
    }
    slab->memory = aligned_alloc(COORD_PAGE_BYTES, (size_t)count * COORD_PAGE_BYTES);
    if (slab->memory == NULL) {
        free(slab);
        return OT_ERR_NO_MEMORY;
    }
    slab->next = pages->slabs;
    pages->slabs = slab;
    for (uint32_t i = count; i > 0; i--) {
        struct coord_page *page = (struct coord_page *)(void *)((char *)slab->memory + (size_t)(i - 1) * COORD_PAGE_BYTES);
        page->u.next_free = pages->free_first;
        pages->free_first = page;
    }
    pages->pages_made += count;
    pages->pages_free += count;
    return OT_OK;
}

enum ot_err coord_pages_reserve(struct coord_pages *pages, uint32_t count)
{
    while (pages->pages_free < count) {
        enum ot_err err = add_slab(pages);
        if (err != OT_OK) {
            return err;
        }
    }
    return OT_OK;
}

struct coord_page *coord_page_new(struct coord_pages *pages, uint8_t level)
{
    struct coord_page *page = pages->free_first;
    OT_ASSERT(page != NULL);                   /* reserved before */
    pages->free_first = page->u.next_free;
    pages->pages_free--;
    memset(page, 0, offsetof(struct coord_page, u));
    page->refs = 1;
    page->heap_pos = COORD_PAGE_BYTES;
    page->level = level;
    return page;
}

void coord_page_release(struct coord_pages *pages, struct coord_page *page)
{
    page->refs = 0;
    page->u.next_free = pages->free_first;
    pages->free_first = page;
    pages->pages_free++;
}

uint64_t coord_pages_used_bytes(const struct coord_pages *pages)
{
    return (pages->pages_made - pages->pages_free) * COORD_PAGE_BYTES;
}

uint64_t coord_pages_cap_bytes(const struct coord_pages *pages)
{
    return pages->pages_max * COORD_PAGE_BYTES;
}
