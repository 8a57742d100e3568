#include "broker/log_dirs.h"
#include "rest/handlers.h"
#include "rest/merge.h"
#include "rest/topic_view.h"
#include <stdlib.h>
#include <string.h>

enum { DIRS_MAX = 64 };

static void write_dir(struct rest_call *call, const struct broker_log_dir *dir)
{
    static const char *const spaces[] = { "ok", "low", "refuses_produce" };
    struct rest_json *out = &call->out;
    rest_list_item(call);
    rest_json_open(out, NULL, '{');
    rest_json_int(out, "broker", broker_node_id(call->broker));
    rest_json_text(out, "path", dir->path);
    rest_json_text(out, "state", dir->offline ? "offline" : "online");
    rest_json_text(out, "space", dir->has_space ? spaces[dir->space] : NULL);
    rest_json_big_or_null(out, "total_bytes", dir->has_space ? (int64_t)dir->total_bytes : -1);
    rest_json_big_or_null(out, "free_bytes", dir->has_space ? (int64_t)dir->free_bytes : -1);
    rest_json_big_or_null(out, "used_bytes", dir->has_space ? (int64_t)(dir->total_bytes - dir->free_bytes) : -1);
    rest_json_big(out, "log_bytes", (int64_t)dir->log_bytes);
    rest_json_int(out, "replicas", dir->replicas);
    rest_json_close(out, '}');
}

static int by_path(const void *a, const void *b) { return strcmp(((const struct broker_log_dir *)a)->path, ((const struct broker_log_dir *)b)->path); }

/* A token's key is "broker:path": where does the page begin here? */
static uint32_t first_of_page(struct rest_call *call, const struct broker_log_dir *dirs, uint32_t count)
{
    const struct ot_str after = call->list.after;
    const char *colon = after.null ? NULL : memchr(after.data, ':', after.bytes);
    const int32_t own = broker_node_id(call->broker);
    uint32_t first = 0;
    if (colon == NULL) return 0;
    const long broker = strtol(after.data, NULL, 10);
    if (broker != own) return broker > own ? count : 0;
    const char *path = ot_arena_str(&call->arena, (struct ot_str){ colon + 1, after.bytes - (uint32_t)(colon + 1 - after.data), false });
    while (path != NULL && first < count && strcmp(dirs[first].path, path) <= 0) first++;
    return first;
}

static void list(struct rest_call *call)
{
    struct broker_log_dir dirs[DIRS_MAX];
    char token[4200];
    if (!rest_list_begin(call, 'd', false)) return;
    const uint32_t count = OT_MIN(broker_log_dirs(call->broker, dirs, DIRS_MAX), (uint32_t)DIRS_MAX);
    if (count > 1) qsort(dirs, count, sizeof(dirs[0]), by_path);
    const uint32_t first = first_of_page(call, dirs, count), end = OT_MIN(count, first + call->list.limit);
    for (uint32_t i = first; i < end; i++) write_dir(call, &dirs[i]);
    if (end > first) snprintf(token, sizeof(token), "%d:%s", broker_node_id(call->broker), dirs[end - 1].path);
    rest_list_reply(call, 'd', end < count && end > first ? ot_str_of(token) : (struct ot_str){ .null = true }, count, NULL);
}

void rest_log_dirs(struct rest_call *call)
{
    static const struct rest_merging by_place = { .kind = 'd', .keys = { "#broker", "path" }, .token = "0:1" };
    if (!rest_merge_list(call, &by_place)) list(call);
}

void rest_broker_log_dirs(struct rest_call *call) { list(call); }
