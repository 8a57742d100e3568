#include "broker/log_dirs.h"
#include "rest/handlers.h"
#include "rest/topic_view.h"

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

void rest_log_dirs(struct rest_call *call)
{
    struct broker_log_dir dirs[DIRS_MAX];
    if (!rest_list_begin(call, 'd', true)) return;
    const uint32_t count = OT_MIN(broker_log_dirs(call->broker, dirs, DIRS_MAX), (uint32_t)DIRS_MAX);
    const uint32_t first = call->list.after_int < 0 ? 0 : (uint32_t)OT_MIN(call->list.after_int + 1, (int64_t)count), end = OT_MIN(count, first + call->list.limit);
    for (uint32_t i = first; i < end; i++) write_dir(call, &dirs[i]);
    rest_list_reply_int(call, 'd', end < count, (int64_t)end - 1, count, NULL);
}

void rest_broker_log_dirs(struct rest_call *call)
{
    if (rest_broker_is_here(call)) rest_log_dirs(call);
}
