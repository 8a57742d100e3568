/* An ordered map from bytes to bytes over copy-on-write pages: a B+tree whose root is a cheap snapshot.
 *
 * Keys ascend by memcmp, a shorter key before its continuations. A row lives in one page, so that readers get it as one piece.
 *
 * thread  set, remove, share, drop: one thread. get and the cursor: any thread, on a root that is held.
 * owner   key and value are copied; they must not point into the tree that is changed
 * errors  NO_MEMORY: the pool is at its cap; TOO_LARGE: the row. Nothing was changed then. */
#ifndef OT_COORDINATOR_TREE_H
#define OT_COORDINATOR_TREE_H

#include "base/bytes.h"
#include "coordinator/pages.h"

enum { COORD_KEY_BYTES_MAX = 320, COORD_ROW_BYTES_MAX = 1800 /* key and value together */, COORD_TREE_DEPTH_MAX = 12 };

struct coord_tree { struct coord_pages *pages; struct coord_page *root; };     /* root NULL: empty */

OT_MUST_CHECK enum ot_err coord_tree_set(struct coord_tree *tree, struct ot_blob key, struct ot_blob value);
OT_MUST_CHECK enum ot_err coord_tree_remove(struct coord_tree *tree, struct ot_blob key);      /* NOT_FOUND */
struct coord_tree coord_tree_share(const struct coord_tree *tree);
void coord_tree_drop(struct coord_tree *tree);

bool coord_tree_get(const struct coord_tree *tree, struct ot_blob key, struct ot_blob *value_out);     /* borrowed from the page */

struct coord_cursor { const struct coord_page *pages[COORD_TREE_DEPTH_MAX]; uint16_t at[COORD_TREE_DEPTH_MAX]; int depth; };
/* First row at or after key. The cursor is good as long as the tree is not changed or dropped. */
void coord_cursor_seek(struct coord_cursor *cursor, const struct coord_tree *tree, struct ot_blob key);
bool coord_cursor_next(struct coord_cursor *cursor, struct ot_blob *key_out, struct ot_blob *value_out);   /* false at the end */

/* Whole structure: order, fill, levels, counts above zero. For tests. Returns the number of rows. */
uint64_t coord_tree_check(const struct coord_tree *tree);

static inline struct ot_blob coord_blob(const void *data, size_t bytes)
{
    return (struct ot_blob){ data, (uint32_t)bytes, false };
}

#endif
