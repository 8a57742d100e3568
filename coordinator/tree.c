/* The page:
 *
 *   0 header (struct coord_page up to the slots) | u16 slots, in key order → | free | ← cells, in order of arrival | 4096
 *   leaf cell    u16 key bytes, u16 value bytes, key, value
 *   inner cell   u16 key bytes, u16 unused, pointer to the child, key: at most the first key below the child
 * The first cell of an inner page counts as if its key were empty: it takes whatever is below the second.
 *
 * A change first reserves every page it may need, then copies what is shared on the way down; so it happens whole or not at all. */
#include "coordinator/tree.h"
#include <string.h>

enum { HEADER_BYTES = offsetof(struct coord_page, u), CELL_HEAD = 4, SPACE = COORD_PAGE_BYTES - HEADER_BYTES, MERGE_BELOW = SPACE / 2,
    MERGE_INTO = SPACE * 4 / 5 };
OT_STATIC_ASSERT(2 * (CELL_HEAD + COORD_ROW_BYTES_MAX + 2) <= SPACE, "two rows fit, so a split always works out");

static uint8_t *cell(const struct coord_page *page, uint32_t index) { return (uint8_t *)(uintptr_t)page + page->u.slots[index]; }

static uint16_t load16(const uint8_t *at) { uint16_t v; memcpy(&v, at, 2); return v; }

static struct coord_page *child(const struct coord_page *page, uint32_t index)
{
    struct coord_page *below;
    memcpy(&below, cell(page, index) + CELL_HEAD, sizeof below);
    return below;
}

static void set_child(struct coord_page *page, uint32_t index, struct coord_page *below) { memcpy(cell(page, index) + CELL_HEAD, &below, sizeof below); }

static uint32_t key_skip(const struct coord_page *page) { return page->level == 0 ? CELL_HEAD : CELL_HEAD + (uint32_t)sizeof(void *); }

static struct ot_blob cell_key(const struct coord_page *page, uint32_t index)
{
    const uint8_t *at = cell(page, index);
    return coord_blob(at + key_skip(page), load16(at));
}

static struct ot_blob cell_value(const struct coord_page *page, uint32_t index)
{
    const uint8_t *at = cell(page, index);
    return coord_blob(at + CELL_HEAD + load16(at), load16(at + 2));
}

static uint32_t cell_bytes(const struct coord_page *page, uint32_t index)
{
    const uint8_t *at = cell(page, index);
    return key_skip(page) + load16(at) + (page->level == 0 ? load16(at + 2) : 0);
}

static uint32_t used_bytes(const struct coord_page *page)
{
    return COORD_PAGE_BYTES - page->heap_pos - page->dead_bytes + 2u * page->count;
}

static int compare(struct ot_blob a, struct ot_blob b)
{
    uint32_t common = OT_MIN(a.bytes, b.bytes);
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

/* Leaf: first cell whose key is not below key. */
static uint32_t lower_bound(const struct coord_page *page, struct ot_blob key, bool *equal_out)
{
    uint32_t low = 0, high = page->count;
    *equal_out = false;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        int order = compare(cell_key(page, mid), key);
        if (order < 0) {
            low = mid + 1;
        } else {
            *equal_out |= order == 0;
            high = mid;
        }
    }
    return low;
}

/* Inner: the child that holds key. */
static uint32_t child_for(const struct coord_page *page, struct ot_blob key)
{
    uint32_t low = 0, high = page->count - 1u;
    while (low < high) {
        uint32_t mid = (low + high + 1) / 2;
        if (compare(cell_key(page, mid), key) <= 0) {
            low = mid;
        } else {
            high = mid - 1;
        }
    }
    return low;
}

static void page_put(struct coord_pages *pages, struct coord_page *page)
{
    if (--page->refs > 0) {
        return;
    }
    for (uint32_t i = 0; page->level > 0 && i < page->count; i++) {
        page_put(pages, child(page, i));
    }
    coord_page_release(pages, page);
}

/* The page as one that may be changed: itself, or a copy when others hold it too. */
static struct coord_page *own(struct coord_pages *pages, struct coord_page *page)
{
    if (page->refs == 1) {
        return page;
    }
    struct coord_page *copy = coord_page_new(pages, page->level);
    memcpy((uint8_t *)copy + sizeof copy->refs, (const uint8_t *)page + sizeof page->refs, COORD_PAGE_BYTES - sizeof page->refs);
    for (uint32_t i = 0; copy->level > 0 && i < copy->count; i++) {
        child(copy, i)->refs++;
    }
    page->refs--;
    return copy;
}

static struct coord_page *own_child(struct coord_pages *pages, struct coord_page *page, uint32_t index)
{
    struct coord_page *below = own(pages, child(page, index));
    set_child(page, index, below);
    return below;
}

static void compact(struct coord_page *page)
{
    uint8_t copy[COORD_PAGE_BYTES];
    memcpy(copy, page, sizeof copy);
    const struct coord_page *old = (const struct coord_page *)(const void *)copy;
    uint32_t pos = COORD_PAGE_BYTES;
    for (uint32_t i = 0; i < page->count; i++) {
        uint32_t bytes = cell_bytes(old, i);
        pos -= bytes;
        memcpy((uint8_t *)page + pos, copy + old->u.slots[i], bytes);
        page->u.slots[i] = (uint16_t)pos;
    }
    page->heap_pos = (uint16_t)pos;
    page->dead_bytes = 0;
}

/* Room for a cell of so many bytes at index; the caller fills it. */
static uint8_t *make_room(struct coord_page *page, uint32_t index, uint32_t bytes)
{
    if (page->heap_pos < HEADER_BYTES + 2u * (page->count + 1u) + bytes) {
        compact(page);
    }
    OT_ASSERT(page->heap_pos >= HEADER_BYTES + 2u * (page->count + 1u) + bytes);
    memmove(&page->u.slots[index + 1], &page->u.slots[index], (page->count - index) * sizeof page->u.slots[0]);
    page->heap_pos = (uint16_t)(page->heap_pos - bytes);
    page->u.slots[index] = page->heap_pos;
    page->count++;
    return cell(page, index);
}

static void put_row(uint8_t *at, struct ot_blob key, struct ot_blob value)
{
    uint16_t key_bytes = (uint16_t)key.bytes, value_bytes = (uint16_t)value.bytes;
    memcpy(at, &key_bytes, 2);
    memcpy(at + 2, &value_bytes, 2);
    memcpy(at + CELL_HEAD, key.data, key.bytes);
    if (value.bytes > 0) {
        memcpy(at + CELL_HEAD + key.bytes, value.data, value.bytes);
    }
}

static void put_child(uint8_t *at, struct ot_blob key, struct coord_page *below)
{
    uint16_t key_bytes = (uint16_t)key.bytes, none = 0;
    memcpy(at, &key_bytes, 2);
    memcpy(at + 2, &none, 2);
    memcpy(at + CELL_HEAD, &below, sizeof below);
    if (key.bytes > 0) {
        memcpy(at + CELL_HEAD + sizeof below, key.data, key.bytes);
    }
}

static void cut_cell(struct coord_page *page, uint32_t index)
{
    page->dead_bytes = (uint16_t)(page->dead_bytes + cell_bytes(page, index));
    memmove(&page->u.slots[index], &page->u.slots[index + 1], (page->count - index - 1u) * sizeof page->u.slots[0]);
    page->count--;
    if (page->count == 0) {
        page->heap_pos = COORD_PAGE_BYTES;
        page->dead_bytes = 0;
    }
}

static bool fits(const struct coord_page *page, uint32_t bytes) { return used_bytes(page) + bytes + 2 <= SPACE; }

static void move_cells(struct coord_page *from, uint32_t first, struct coord_page *to)
{
    for (uint32_t i = first; i < from->count; i++) {
        uint32_t bytes = cell_bytes(from, i);
        memcpy(make_room(to, to->count, bytes), cell(from, i), bytes);
    }
    for (uint32_t i = first; i < from->count; i++) {
        from->dead_bytes = (uint16_t)(from->dead_bytes + cell_bytes(from, i));
    }
    from->count = (uint16_t)first;
}

/* Where to cut a page that is to take one more cell of `bytes` at `index`: how many of the cells and the new one, in order, go left. Balanced by bytes; if
 * the cell in the middle would overfill the left half it goes right, where it fits then, as two largest rows fit into a page. An insert at the very
 * end (ascending keys) leaves the page full. */
static uint32_t split_point(const struct coord_page *page, uint32_t index, uint32_t bytes)
{
    if (index == page->count) {
        return index;
    }
    uint32_t left_bytes = 0, half = (used_bytes(page) + bytes + 2) / 2;
    for (uint32_t at = 0;; at++) {
        uint32_t next = 2 + (at == index ? bytes : cell_bytes(page, at - (at > index)));
        if (left_bytes + next >= half) {
            return left_bytes + next <= SPACE ? OT_MIN(at + 1, (uint32_t)page->count) : at;
        }
        left_bytes += next;
    }
}

struct grown { struct coord_page *right; struct ot_blob key; };       /* right NULL: no split. key points into the right page or below it */

static void insert_cell(struct coord_pages *pages, struct coord_page *page, uint32_t index, struct ot_blob key, const struct ot_blob *value,
    struct coord_page *below, struct grown *grown)
{
    uint32_t bytes = key_skip(page) + key.bytes + (value == NULL ? 0 : value->bytes);
    struct coord_page *into = page;
    if (!fits(page, bytes)) {
        uint32_t left_count = split_point(page, index, bytes);
        bool left = index < left_count;
        grown->right = coord_page_new(pages, page->level);
        move_cells(page, left ? left_count - 1 : left_count, grown->right);
        into = left ? page : grown->right;
        index -= left ? 0 : page->count;
    }
    uint8_t *at = make_room(into, index, bytes);
    if (value != NULL) {
        put_row(at, key, *value);
    } else {
        put_child(at, key, below);
    }
    if (grown->right != NULL) {
        grown->key = cell_key(grown->right, 0);
    }
}

static void insert(struct coord_pages *pages, struct coord_page *page, struct ot_blob key, struct ot_blob value, struct grown *grown)
{
    if (page->level == 0) {
        bool equal;
        uint32_t index = lower_bound(page, key, &equal);
        if (equal) {
            cut_cell(page, index);
        }
        insert_cell(pages, page, index, key, &value, NULL, grown);
        return;
    }
    uint32_t index = child_for(page, key);
    struct grown below = { 0 };
    insert(pages, own_child(pages, page, index), key, value, &below);
    if (below.right != NULL) {
        insert_cell(pages, page, index + 1, below.key, NULL, below.right, grown);
    }
}

enum ot_err coord_tree_set(struct coord_tree *tree, struct ot_blob key, struct ot_blob value)
{
    if (key.bytes == 0 || key.bytes > COORD_KEY_BYTES_MAX || key.bytes + value.bytes > COORD_ROW_BYTES_MAX) {
        return OT_ERR_TOO_LARGE;
    }
    uint32_t depth = tree->root == NULL ? 0 : tree->root->level + 1u;
    enum ot_err err = coord_pages_reserve(tree->pages, 2 * depth + 2);
    if (err != OT_OK) {
        return err;
    }
    tree->root = tree->root == NULL ? coord_page_new(tree->pages, 0) : own(tree->pages, tree->root);
    struct grown grown = { 0 };
    insert(tree->pages, tree->root, key, value, &grown);
    if (grown.right != NULL) {
        struct coord_page *root = coord_page_new(tree->pages, (uint8_t)(tree->root->level + 1));
        OT_ASSERT(root->level < COORD_TREE_DEPTH_MAX);
        put_child(make_room(root, 0, CELL_HEAD + sizeof(void *)), coord_blob("", 0), tree->root);
        put_child(make_room(root, 1, CELL_HEAD + (uint32_t)sizeof(void *) + grown.key.bytes), grown.key, grown.right);
        tree->root = root;
    }
    return OT_OK;
}

/* Move the cells of child index + 1 into child index when both fit into one page. */
static void merge_with_next(struct coord_pages *pages, struct coord_page *page, uint32_t index)
{
    if (index + 1u >= page->count) {
        return;
    }
    struct coord_page *right = child(page, index + 1);
    struct ot_blob bound = cell_key(page, index + 1);
    uint32_t more = used_bytes(right) + (right->level > 0 ? bound.bytes : 0);
    if (used_bytes(child(page, index)) + more > MERGE_INTO) {
        return;
    }
    struct coord_page *left = own_child(pages, page, index);
    for (uint32_t i = 0; i < right->count; i++) {
        if (right->level == 0) {
            uint32_t bytes = cell_bytes(right, i);
            memcpy(make_room(left, left->count, bytes), cell(right, i), bytes);
        } else {                               /* the first child's own key may be above what it takes: the parent knows its bound */
            struct ot_blob key = i == 0 ? bound : cell_key(right, i);
            child(right, i)->refs++;
            put_child(make_room(left, left->count, key_skip(left) + key.bytes), key, child(right, i));
        }
    }
    cut_cell(page, index + 1);
    page_put(pages, right);
}

static enum ot_err cut_row(struct coord_pages *pages, struct coord_page *page, struct ot_blob key)
{
    if (page->level == 0) {
        bool equal;
        uint32_t index = lower_bound(page, key, &equal);
        OT_ASSERT(equal);
        cut_cell(page, index);
        return OT_OK;
    }
    uint32_t index = child_for(page, key);
    struct coord_page *below = own_child(pages, page, index);
    enum ot_err err = cut_row(pages, below, key);
    if (below->count == 0) {
        cut_cell(page, index);
        page_put(pages, below);
    } else if (used_bytes(below) < MERGE_BELOW) {
        merge_with_next(pages, page, index);
        if (index > 0) {
            merge_with_next(pages, page, index - 1);
        }
    }
    return err;
}

enum ot_err coord_tree_remove(struct coord_tree *tree, struct ot_blob key)
{
    struct ot_blob value;
    if (!coord_tree_get(tree, key, &value)) {
        return OT_ERR_NOT_FOUND;
    }
    enum ot_err err = coord_pages_reserve(tree->pages, 3 * (tree->root->level + 1u));
    if (err != OT_OK) {
        return err;
    }
    tree->root = own(tree->pages, tree->root);
    err = cut_row(tree->pages, tree->root, key);
    while (tree->root != NULL && (tree->root->count == 0 || (tree->root->level > 0 && tree->root->count == 1))) {
        struct coord_page *root = tree->root, *only = root->count == 0 ? NULL : child(root, 0);
        if (only != NULL) {
            only->refs++;
        }
        page_put(tree->pages, root);
        tree->root = only;
    }
    return err;
}

struct coord_tree coord_tree_share(const struct coord_tree *tree)
{
    if (tree->root != NULL) {
        tree->root->refs++;
    }
    return *tree;
}

void coord_tree_drop(struct coord_tree *tree)
{
    if (tree->root != NULL) {
        page_put(tree->pages, tree->root);
    }
    tree->root = NULL;
}

bool coord_tree_get(const struct coord_tree *tree, struct ot_blob key, struct ot_blob *value_out)
{
    const struct coord_page *page = tree->root;
    while (page != NULL && page->level > 0) {
        page = child(page, child_for(page, key));
    }
    bool equal = false;
    uint32_t index = page == NULL ? 0 : lower_bound(page, key, &equal);
    if (equal) {
        *value_out = cell_value(page, index);
    }
    return equal;
}

void coord_cursor_seek(struct coord_cursor *cursor, const struct coord_tree *tree, struct ot_blob key)
{
    const struct coord_page *page = tree->root;
    cursor->depth = 0;
    while (page != NULL) {
        bool equal;
        uint32_t index = page->level == 0 ? lower_bound(page, key, &equal) : child_for(page, key);
        OT_ASSERT(cursor->depth < COORD_TREE_DEPTH_MAX);
        cursor->pages[cursor->depth] = page;
        cursor->at[cursor->depth++] = (uint16_t)index;
        page = page->level == 0 ? NULL : child(page, index);
    }
}

bool coord_cursor_next(struct coord_cursor *cursor, struct ot_blob *key_out, struct ot_blob *value_out)
{
    while (cursor->depth > 0) {
        const struct coord_page *page = cursor->pages[cursor->depth - 1];
        uint32_t index = cursor->at[cursor->depth - 1];
        if (index >= page->count) {
            if (--cursor->depth > 0) {
                cursor->at[cursor->depth - 1]++;
            }
        } else if (page->level > 0) {
            cursor->pages[cursor->depth] = child(page, index);
            cursor->at[cursor->depth++] = 0;
        } else {
            *key_out = cell_key(page, index);
            *value_out = cell_value(page, index);
            cursor->at[cursor->depth - 1]++;
            return true;
        }
    }
    return false;
}

static uint64_t check(const struct coord_page *page, struct ot_blob low, const struct ot_blob *high)
{
    uint64_t rows = 0;
    OT_ASSERT(page->refs > 0);
    OT_ASSERT(page->count > 0);
    OT_ASSERT(used_bytes(page) <= SPACE);
    for (uint32_t i = 0; i < page->count; i++) {
        struct ot_blob key = i == 0 && page->level > 0 ? low : cell_key(page, i);
        bool last = i + 1u >= page->count;
        struct ot_blob next = last ? (struct ot_blob){ 0 } : cell_key(page, i + 1);
        OT_ASSERT(compare(low, key) <= 0);
        OT_ASSERT(last || compare(key, next) < 0);
        OT_ASSERT(high == NULL || compare(key, *high) < 0);
        if (page->level == 0) {
            rows++;
        } else {
            OT_ASSERT(child(page, i)->level == page->level - 1);
            rows += check(child(page, i), key, last ? high : &next);
        }
    }
    return rows;
}

uint64_t coord_tree_check(const struct coord_tree *tree)
{
    return tree->root == NULL ? 0 : check(tree->root, coord_blob("", 0), NULL);
}
