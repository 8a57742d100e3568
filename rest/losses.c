/* The loss ledger (broker/losses.h). */
#include "broker/losses.h"
#include "rest/handlers.h"
#include "rest/merge.h"
#include "rest/topic_view.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct page { struct rest_call *call; uint64_t last; bool more; };

static void write_loss(struct rest_json *out, int32_t broker, const struct broker_loss *loss)
{
    rest_json_open(out, NULL, '{');
    rest_json_int(out, "broker", broker);
    rest_json_big(out, "number", (int64_t)loss->number);
    rest_json_time(out, "at", loss->wall_ms);
    rest_json_text(out, "kind", broker_loss_kind_name(loss->kind));
    rest_json_text(out, "reason", loss->reason);
    rest_json_text(out, "topic", loss->topic);
    rest_json_uuid(out, "topic_id", &loss->topic_id);
    rest_json_int(out, "partition", loss->partition);
    rest_json_big(out, "from_offset", loss->from);
    rest_json_big_or_null(out, "end_offset", loss->end);
    rest_json_big_or_null(out, "high_watermark", loss->high_watermark);
    rest_json_big_or_null(out, "leader_epoch", loss->leader_epoch);
    rest_json_big_or_null(out, "last_epoch", loss->last_epoch);
    rest_json_open(out, "epochs", '[');
    for (uint32_t i = 0; i < loss->epoch_count; i++) {
        rest_json_open(out, NULL, '{');
        rest_json_int(out, "epoch", loss->epochs[i].epoch);
        rest_json_big(out, "start_offset", loss->epochs[i].start);
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
    rest_json_big(out, "cut_bytes", (int64_t)loss->cut_bytes);
    rest_json_open(out, "kept", '{');
    rest_json_text(out, "what", broker_loss_kept_name(loss->kept));
    rest_json_big(out, "bytes", (int64_t)loss->kept_bytes);
    rest_json_big_or_null(out, "end_offset", loss->kept_end);
    rest_json_text(out, "folder", loss->folder[0] == 0 ? NULL : loss->folder);
    rest_json_close(out, '}');
    rest_json_close(out, '}');
}

static void write_one(void *arg, const struct broker_loss *loss)
{
    struct page *page = arg;
    if (page->call->list.count == page->call->list.limit) {
        page->more = true;
        return;
    }
    rest_list_item(page->call);
    write_loss(&page->call->out, broker_node_id(page->call->broker), loss);
    page->last = loss->number;
}

/* Behind which entry does the page begin here? A token's key is "broker:number". INT64_MAX: behind all. */
static uint64_t begin_of_page(struct rest_call *call)
{
    const char *key = call->list.after.null ? NULL : ot_arena_str(&call->arena, call->list.after), *colon = key == NULL ? NULL : strchr(key, ':');
    const int32_t own = broker_node_id(call->broker);
    if (colon == NULL) return 0;
    const long broker = strtol(key, NULL, 10);
    if (broker != own) return broker > own ? INT64_MAX : 0;
    return (uint64_t)strtoll(colon + 1, NULL, 10);
}

static void list(struct rest_call *call)
{
    struct page page = { .call = call };
    char token[48];
    if (!rest_list_begin(call, 'z', false)) return;
    const uint32_t total = broker_losses_each(call->broker, begin_of_page(call), call->list.limit + 1, write_one, &page);
    snprintf(token, sizeof token, "%d:%" PRIu64, broker_node_id(call->broker), page.last);
    rest_list_reply(call, 'z', page.more ? ot_str_of(token) : (struct ot_str){ .null = true }, total, NULL);
}

void rest_losses_list(struct rest_call *call)
{
    static const struct rest_merging by_number = { .kind = 'z', .keys = { "#broker", "#number" }, .token = "0:1" };
    if (!rest_merge_list(call, &by_number)) list(call);
}
