/* Transactional ids and their partitions: the table, the set, the heap of deadlines. Nothing here decides. */
#include "coordinator/txn_inner.h"
#include <stdlib.h>
#include <string.h>

bool coord_txn_grow(void **items, uint32_t *cap, uint32_t count, size_t each_bytes)
{
    if (count <= *cap) {
        return true;
    }
    uint32_t more = OT_MAX(*cap * 2, 16u);
    more = OT_MAX(more, count);
    void *grown = count > 1u << 28 ? NULL : realloc(*items, (size_t)more * each_bytes);
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *cap = more;
    return true;
}

/* ---- lists of requests */

void coord_txn_list_put(struct coord_txn_list *list, struct coord_txn_request *request)
{
    request->next = NULL;
    request->prev = list->last;
    *(list->last == NULL ? &list->first : &list->last->next) = request;
    list->last = request;
}

struct coord_txn_request *coord_txn_list_take(struct coord_txn_list *list)
{
    struct coord_txn_request *request = list->first;
    if (request != NULL) {
        list->first = request->next;
        *(list->first == NULL ? &list->last : &list->first->prev) = NULL;
        request->next = request->prev = NULL;
    }
    return request;
}

/* ---- topics, each name once */

static struct coord_txn_topic *topic_ref(struct coord_txns *txns, struct ot_str name)
{
    struct coord_txn_topic *topic = ot_map_get(&txns->topics, name.data, name.bytes);
    if (topic != NULL) {
        topic->refs++;
        return topic;
    }
    topic = malloc(sizeof *topic + name.bytes + 1);
    if (topic == NULL || ot_map_put(&txns->topics, name.data, name.bytes, topic) != OT_OK) {
        free(topic);
        return NULL;
    }
    topic->refs = 1;
    topic->bytes = name.bytes;
    memcpy(topic->name, name.data, name.bytes);
    topic->name[name.bytes] = 0;
    txns->bytes += sizeof *topic + 2u * name.bytes;
    return topic;
}

static void topic_unref(struct coord_txns *txns, const struct coord_txn_topic *shared)
{
    struct coord_txn_topic *topic = ot_map_get(&txns->topics, shared->name, shared->bytes);
    OT_ASSERT(topic == shared && topic->refs > 0);
    if (--topic->refs > 0) {
        return;
    }
    txns->bytes -= sizeof *topic + 2u * topic->bytes;
    ot_map_remove(&txns->topics, topic->name, topic->bytes);
    free(topic);
}

/* ---- partitions of a transaction */

static int name_order(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    int order = memcmp(a, b, OT_MIN(a_bytes, b_bytes));
    return order != 0 ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static int part_order(const void *left, const void *right)
{
    const struct coord_txn_part *a = left, *b = right;
    int order = a->topic == b->topic ? 0 : name_order(a->topic->name, a->topic->bytes, b->topic->name, b->topic->bytes);
    return order != 0 ? order : (a->partition > b->partition) - (a->partition < b->partition);
}

struct coord_txn_part *coord_txn_part_find(const struct coord_txn *txn, struct ot_str topic, int32_t partition)
{
    for (uint32_t low = 0, high = txn->part_count; low < high;) {
        uint32_t mid = (low + high) / 2;
        const struct coord_txn_part *part = &txn->parts[mid];
        int order = name_order(part->topic->name, part->topic->bytes, topic.data, topic.bytes);
        order = order != 0 ? order : (part->partition > partition) - (part->partition < partition);
        if (order == 0) {
            return &txn->parts[mid];
        }
        *(order < 0 ? &low : &high) = order < 0 ? mid + 1 : mid;
    }
    return NULL;
}

static void parts_cut(struct coord_txns *txns, struct coord_txn *txn, uint32_t count)
{
    while (txn->part_count > count) {
        topic_unref(txns, txn->parts[--txn->part_count].topic);
    }
}

enum ot_err coord_txn_parts_add(struct coord_txns *txns, struct coord_txn *txn, const struct coord_txn_place *places, uint32_t count)
{
    uint32_t before = txn->part_count, cap = txn->part_cap, kept = 0;
    void *parts = txn->parts;
    if (count > UINT32_MAX - before || !coord_txn_grow(&parts, &txn->part_cap, before + count, sizeof txn->parts[0])) {
        return OT_ERR_NO_MEMORY;
    }
    txn->parts = parts;
    txns->bytes += (uint64_t)(txn->part_cap - cap) * sizeof txn->parts[0];
    uint32_t sorted = before;
    for (uint32_t i = 0; i < count; i++) {
        txn->part_count = before;                      /* the search is over what is sorted */
        bool known = coord_txn_part_find(txn, places[i].topic, places[i].partition) != NULL;
        txn->part_count = sorted;
        if (known) {
            continue;
        }
        struct coord_txn_topic *topic = topic_ref(txns, places[i].topic);
        if (topic == NULL) {
            parts_cut(txns, txn, before);
            return OT_ERR_NO_MEMORY;
        }
        txn->parts[sorted++] = (struct coord_txn_part){ .topic = topic, .partition = places[i].partition };
        txn->part_count = sorted;
    }
    if (sorted == before) {
        return OT_OK;
    }
    qsort(txn->parts, txn->part_count, sizeof txn->parts[0], part_order);
    for (uint32_t i = 0; i < txn->part_count; i++) {   /* the request named it twice */
        if (kept > 0 && part_order(&txn->parts[kept - 1], &txn->parts[i]) == 0) {
            topic_unref(txns, txn->parts[i].topic);
        } else {
            txn->parts[kept++] = txn->parts[i];
        }
    }
    txn->part_count = kept;
    return OT_OK;
}

void coord_txn_parts_clear(struct coord_txns *txns, struct coord_txn *txn)
{
    parts_cut(txns, txn, 0);
    txns->bytes -= (uint64_t)txn->part_cap * sizeof txn->parts[0];
    free(txn->parts);
    txn->parts = NULL;
    txn->part_cap = 0;
}

/* ---- the table */

struct coord_txn *coord_txn_find(const struct coord_txns *txns, struct ot_str id) { return ot_map_get(&txns->by_id, id.data, id.bytes); }

static uint64_t entry_bytes(const struct coord_txn *txn) { return sizeof *txn + 2u * txn->id.bytes + sizeof(struct ot_map_entry) + sizeof(void *); }

enum ot_err coord_txn_add(struct coord_txns *txns, struct ot_str id, struct coord_txn **out)
{
    void *heap = txns->heap;
    struct coord_txn *txn = malloc(sizeof *txn + id.bytes);
    /* a place in the heap for each, so that arming never fails */
    bool enough = txn != NULL && coord_txn_grow(&heap, &txns->heap_cap, txns->by_id.count + 2, sizeof(struct coord_txn *));
    txns->heap = heap;
    if (!enough || ot_map_put(&txns->by_id, id.data, id.bytes, txn) != OT_OK) {
        free(txn);
        return OT_ERR_NO_MEMORY;
    }
    char *name = (char *)(txn + 1);
    memcpy(name, id.data, id.bytes);
    *txn = (struct coord_txn){ .id = { name, id.bytes, false }, .state = OT_TRANSACTION_STATE_EMPTY, .producer_epoch = -1, .last_epoch = -1, .producer_id = -1,
        .previous_producer_id = -1, .next_producer_id = -1, .start_ms = -1, .update_ms = -1, .open_deadline_us = INT64_MAX, .retry_us = INT64_MAX,
        .expire_us = INT64_MAX, .deadline_us = INT64_MAX };
    txns->bytes += entry_bytes(txn);
    *out = txn;
    return OT_OK;
}

bool coord_txn_is_open(const struct coord_txn *txn)
{
    return txn->state == OT_TRANSACTION_STATE_ONGOING || txn->state == OT_TRANSACTION_STATE_PREPARE_COMMIT || txn->state == OT_TRANSACTION_STATE_PREPARE_ABORT;
}

void coord_txn_set_state(struct coord_txns *txns, struct coord_txn *txn, enum ot_transaction_state state)
{
    bool was = coord_txn_is_open(txn);
    txn->state = state;
    bool is = coord_txn_is_open(txn);
    OT_ASSERT(txns->counts.open > 0 || !was);
    txns->counts.open = txns->counts.open - (was ? 1u : 0u) + (is ? 1u : 0u);
    if (txn->late && !is) {
        txns->counts.late--;
        txn->late = false;
    }
}

/* ---- deadlines: a heap of 1, 2, …; the parent of i is i / 2 */

static void heap_place(struct coord_txns *txns, uint32_t index, struct coord_txn *txn)
{
    txns->heap[index] = txn;
    txn->heap_index = index;
}

static void heap_fix(struct coord_txns *txns, uint32_t index)
{
    struct coord_txn *txn = txns->heap[index];
    for (; index > 1 && txns->heap[index / 2]->deadline_us > txn->deadline_us; index /= 2) {
        heap_place(txns, index, txns->heap[index / 2]);
    }
    for (uint32_t child; (child = index * 2) <= txns->heap_count; index = child) {
        child += child < txns->heap_count && txns->heap[child + 1]->deadline_us < txns->heap[child]->deadline_us ? 1 : 0;
        if (txns->heap[child]->deadline_us >= txn->deadline_us) {
            break;
        }
        heap_place(txns, index, txns->heap[child]);
    }
    heap_place(txns, index, txn);
}

static void heap_remove(struct coord_txns *txns, struct coord_txn *txn)
{
    uint32_t index = txn->heap_index;
    struct coord_txn *last = txns->heap[txns->heap_count--];
    txn->heap_index = 0;
    if (last != txn) {
        heap_place(txns, index, last);
        heap_fix(txns, index);
    }
}

void coord_txn_schedule(struct coord_txns *txns, struct coord_txn *txn)
{
    int64_t deadline_us = OT_MIN(txn->retry_us, txn->waiters.first == NULL ? INT64_MAX : txn->waiters.first->deadline_us);
    if (txn->state == OT_TRANSACTION_STATE_ONGOING) {
        deadline_us = OT_MIN(deadline_us, txn->open_deadline_us);
    } else if (!coord_txn_is_open(txn)) {
        deadline_us = OT_MIN(deadline_us, txn->expire_us);
    }
    txn->deadline_us = deadline_us;
    if (deadline_us == INT64_MAX) {
        if (txn->heap_index != 0) {
            heap_remove(txns, txn);
        }
        return;
    }
    if (txn->heap_index == 0) {
        heap_place(txns, ++txns->heap_count, txn);
    }
    heap_fix(txns, txn->heap_index);
}

void coord_txn_remove(struct coord_txns *txns, struct coord_txn *txn)
{
    OT_ASSERT(txn->waiters.first == NULL && !txn->marker_out);
    coord_txn_set_state(txns, txn, OT_TRANSACTION_STATE_DEAD);
    if (txn->heap_index != 0) {
        heap_remove(txns, txn);
    }
    coord_txn_parts_clear(txns, txn);
    txns->bytes -= entry_bytes(txn);
    ot_map_remove(&txns->by_id, txn->id.data, txn->id.bytes);
    free(txn);
}
