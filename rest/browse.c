/* GET /v1/topics/{topic}/records: the newest records of all partitions, newest first, as far back as one cares to look.
 *
 * Logs are read forwards, so each partition is looked at in windows from its end backwards; what passes the filter is kept as JSON until it is the newest of
 * all partitions. Within a partition the order is that of the log; between them the timestamp decides.
 *
 *   partition   [log start ……… low | entries, newest last | given out …]       low: nothing below was looked at
 *
 * Each partition is read at its leader: here, or over the peer connection.
 *
 * Bounded: 100 000 records, 64 MiB or ten seconds a request; the continue_token says for each partition where to go on. Four at a time: what each keeps is bounded, and so is
 * all of it. */
#include "base/util.h"
#include "broker/fetch_away.h"
#include "broker/lag.h"
#include "rest/filter.h"
#include "rest/handlers.h"
#include "rest/inside.h"
#include "rest/record_text.h"
#include "rest/topic_view.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 100, LIMIT_MAX = 1000, SCAN_RECORDS = 100000, SCAN_BYTES = 64 << 20, SCAN_US = 10000000, FETCH_BYTES = 1 << 20, WINDOW_MIN = 16, WINDOW_MAX = 10000,
    WINDOW_BYTES = 4 << 20, WINDOW_HARD_BYTES = 8 << 20, TEXT_BYTES = 12 << 20, ANSWER_BYTES = 8 << 20, BROWSES_MAX = 4, AWAY_US = 10000000, BYTES_EACH = 1024 };

struct entry { int64_t offset, timestamp_ms; char *text; uint32_t bytes; };
struct part {
    int32_t index;
    int64_t log_start, high_watermark, low;
    int64_t bytes_each;                        /* of a record, about */
    struct entry *entries; uint32_t first, count, cap;         /* [first, count) are kept, ascending */
    size_t text_bytes;
};
struct browse {
    struct broker_fetch fetch;
    struct broker_fetch_away away;
    struct broker_fetch_ask ask;
    struct broker_lag ends;
    struct ot_str token;
    struct broker_records records;
    struct rest_call *call;
    struct ot_arena rows;
    struct rest_filter filter;
    struct rest_record_form form;
    struct ot_uuid topic_id;
    struct part *parts; uint32_t part_count;
    int64_t limit;
    bool read_committed, fetching, is_away, no_memory, any_filter;         /* is_away: the fetch is that of another broker */
    size_t text_bytes_max;                     /* of one partition */
    /* the window that is read */
    struct part *part;
    int64_t from, offset, stop;
    size_t window_bytes;
    /* so far */
    uint64_t scanned_records, scanned_bytes;
    uint32_t given;
    const char *stopped_by;
};

static void step(struct browse *browse);
static void fetch(struct browse *browse);

static void free_parts(struct browse *browse)
{
    for (uint32_t i = 0; i < browse->part_count; i++) {
        for (uint32_t k = browse->parts[i].first; k < browse->parts[i].count; k++) free(browse->parts[i].entries[k].text);
        free(browse->parts[i].entries);
    }
    ot_arena_free(&browse->rows);
    browse->call->server->browses--;
}

static void release(struct browse *browse)
{
    if (browse->is_away) broker_fetch_away_release(&browse->away);
    else broker_fetch_release(&browse->fetch);
}

static void fail(struct browse *browse, enum ot_err err)
{
    free_parts(browse);
    rest_problem(browse->call, err, "%s", ot_err_text(err));
}

/* ---- the answer */

/* Everything that is given out or looked at without a hit lies at or above this. */
static int64_t seen_down_to(const struct part *part) { return part->count > part->first ? part->entries[part->count - 1].offset + 1 : part->low; }

/* "topic-id,0:42,3:17": partitions that have more, and where their unseen part ends. */
static const char *token_of(struct browse *browse)
{
    struct rest_json text;
    char piece[40], id[23];
    bool more = false;
    rest_json_init(&text, 1 << 20);
    ot_uuid_text(&browse->topic_id, id);
    rest_json_put(&text, id, strlen(id));
    for (uint32_t i = 0; i < browse->part_count; i++) {
        const struct part *part = &browse->parts[i];
        const int64_t end = seen_down_to(part);
        if (end <= part->log_start) continue;
        const int bytes = snprintf(piece, sizeof(piece), ",%d:%" PRId64, part->index, end);
        rest_json_put(&text, piece, (size_t)bytes);
        more = true;
    }
    const char *token = more && !rest_json_failed(&text) ? rest_base64url(&browse->call->arena, text.data, text.bytes) : NULL;
    rest_json_free(&text);
    return token;
}

static void finish(struct browse *browse)
{
    struct rest_call *call = browse->call;
    struct rest_json *out = &call->out;
    const char *token = token_of(browse);
    if (call->format == REST_FORMAT_NDJSON) {
        rest_header(call, "Ottla-Continue-Token", token);
        free_parts(browse);
        rest_reply_raw(call, 200, "application/x-ndjson");
        return;
    }
    rest_json_close(out, ']');
    rest_json_bool(out, "complete", token == NULL);
    rest_json_text(out, "stopped_by", token == NULL ? NULL : browse->stopped_by);
    rest_json_text(out, "continue_token", token);
    rest_json_open(out, "scanned", '{');
    rest_json_big(out, "records", (int64_t)browse->scanned_records);
    rest_json_big(out, "bytes", (int64_t)browse->scanned_bytes);
    rest_json_close(out, '}');
    rest_json_open(out, "partitions", '[');
    for (uint32_t i = 0; i < browse->part_count; i++) {
        const struct part *part = &browse->parts[i];
        rest_json_open(out, NULL, '{');
        rest_json_int(out, "partition", part->index);
        rest_json_big(out, "log_start_offset", part->log_start);
        rest_json_big(out, "high_watermark", part->high_watermark);
        rest_json_big(out, "seen_down_to", OT_MAX(seen_down_to(part), part->log_start));
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
    rest_json_close(out, '}');
    free_parts(browse);
    rest_reply_json(call, 200);
}

static void give(struct browse *browse, struct part *part)
{
    struct entry *entry = &part->entries[--part->count];
    struct rest_json *out = &browse->call->out;
    if (browse->call->format == REST_FORMAT_NDJSON) {
        const size_t from = out->bytes;
        rest_json_put(out, entry->text, entry->bytes);
        rest_one_line(out, from);
        rest_json_put(out, "\n", 1);
    } else {
        rest_json_raw(out, NULL, entry->text, entry->bytes);
    }
    part->text_bytes -= entry->bytes;
    free(entry->text);
    browse->given++;
}

/* ---- reading a window; each_record on an I/O thread, which has the browse for itself meanwhile */

static void drop_entries(struct part *part)
{
    for (uint32_t k = part->first; k < part->count; k++) free(part->entries[k].text);
    part->first = part->count = 0;
    part->text_bytes = 0;
}

static bool keep(struct browse *browse, const struct broker_record_view *record)
{
    struct part *part = browse->part;
    struct rest_json text;
    if (part->count == part->cap) {
        const uint32_t cap = OT_MAX(part->cap * 2, 64u);
        struct entry *grown = realloc(part->entries, cap * sizeof(*grown));
        if (grown == NULL) return false;
        part->entries = grown;
        part->cap = cap;
    }
    rest_json_init(&text, TEXT_BYTES);
    text.big_as_text = browse->call->out.big_as_text;
    rest_record_write(&text, record, &browse->form, part->index);
    if (rest_json_failed(&text)) {
        rest_json_free(&text);
        return false;
    }
    part->entries[part->count++] = (struct entry){ record->offset, record->timestamp_ms, text.data, (uint32_t)text.bytes };
    part->text_bytes += text.bytes;
    /* too much at a time: the oldest go, and are read again when it is their turn */
    while (part->text_bytes > browse->text_bytes_max && part->count - part->first > 1) {
        part->text_bytes -= part->entries[part->first].bytes;
        free(part->entries[part->first++].text);
    }
    return true;
}

static bool each_record(struct broker_records *records, const struct broker_record_view *record)
{
    struct browse *browse = OT_CONTAINER(records, struct browse, records);
    if (record->offset >= browse->stop) return false;
    browse->scanned_records++;
    browse->window_bytes += record->size_bytes;
    if (!rest_filter_passes(&browse->filter, record) || keep(browse, record)) return true;
    browse->no_memory = true;
    return false;
}

static void window_read(struct browse *browse)
{
    struct part *part = browse->part;
    part->low = part->first > 0 ? part->entries[part->first].offset : browse->from;
    if (browse->offset > browse->from && browse->window_bytes > 0) part->bytes_each = (int64_t)browse->window_bytes / (browse->stop - browse->from) + 1;
    browse->part = NULL;
    step(browse);
}

static void records_read(struct broker_call *call)
{
    struct browse *browse = OT_CONTAINER(call, struct browse, records.call);
    const enum ot_err err = browse->no_memory ? OT_ERR_NO_MEMORY : browse->records.error;
    const int64_t next = browse->records.next_offset;
    release(browse);
    if (err != OT_OK) {
        fail(browse, err);
        return;
    }
    const bool moved = next > browse->offset;
    browse->offset = next;
    if (browse->window_bytes > WINDOW_HARD_BYTES && browse->stop - browse->offset > WINDOW_MIN) {   /* larger than they looked: a quarter of the rest will do */
        drop_entries(browse->part);
        browse->from = browse->offset = browse->stop - (browse->stop - browse->offset) / 4;
        browse->window_bytes = 0;
    }
    if (browse->offset >= browse->stop || !moved) window_read(browse);
    else fetch(browse);
}

static void row_fetched(struct browse *browse, enum ot_err error, const struct broker_fetch_row *row)
{
    const enum ot_err err = error != OT_OK || row == NULL ? error : row->error;
    browse->fetching = false;
    if (err == OT_ERR_OFFSET_OUT_OF_RANGE) {   /* retention was faster: there is nothing older any more */
        release(browse);
        browse->part->log_start = browse->stop;
        drop_entries(browse->part);
        browse->from = browse->offset = browse->stop;
        window_read(browse);
    } else if (err != OT_OK) {
        release(browse);
        fail(browse, err);
    } else if (row == NULL || row->read.bytes == 0) {
        release(browse);
        window_read(browse);
    } else {
        browse->scanned_bytes += row->read.bytes;
        browse->records = (struct broker_records){ .call = { .home = browse->call->home, .done = records_read }, .row = row, .from_offset = browse->offset,
            .pool = browse->call->server->setup.body_pool, .each = each_record };
        broker_records_read(browse->call->broker, &browse->records);
    }
}

static void fetched(struct broker_call *call)
{
    struct browse *browse = OT_CONTAINER(call, struct browse, fetch.call);
    row_fetched(browse, browse->fetch.error, browse->fetch.row_count > 0 ? &browse->fetch.rows[0] : NULL);
}

static void fetched_away(struct broker_fetch_away *away)
{
    struct browse *browse = OT_CONTAINER(away, struct browse, away);
    row_fetched(browse, away->error, away->row_count > 0 ? &away->rows[0] : NULL);
}

static void cancel(struct rest_call *call)
{
    struct browse *browse = call->state;
    if (browse->fetching && browse->is_away) broker_fetch_away_cancel(call->broker, &browse->away);
    else if (browse->fetching) broker_fetch_cancel(&browse->fetch);
}

static void fetch(struct browse *browse)
{
    struct rest_call *call = browse->call;
    ot_arena_reset(&browse->rows);
    browse->ask = (struct broker_fetch_ask){ .topic = { .null = true }, .topic_id = browse->topic_id, .partition = browse->part->index, .offset = browse->offset,
        .log_start_offset = -1, .leader_epoch = -1, .last_epoch = -1, .max_bytes = FETCH_BYTES };
    const int32_t leader = rest_partition_leader(call->broker, &browse->topic_id, browse->part->index);
    browse->is_away = leader >= 0 && leader != broker_node_id(call->broker);
    browse->fetching = true;
    if (browse->is_away) {
        browse->away = (struct broker_fetch_away){ .home = call->home, .done = fetched_away, .leader = leader, .asks = &browse->ask, .ask_count = 1, .max_bytes = FETCH_BYTES,
            .read_committed = browse->read_committed, .arena = &browse->rows, .deadline_us = ot_exec_now_us(call->home) + AWAY_US };
        broker_fetch_away(call->broker, &browse->away);
        return;
    }
    browse->fetch = (struct broker_fetch){ .call = { .home = call->home, .done = fetched }, .api_version = 18, .replica_id = -1, .replica_epoch = -1, .max_wait_ms = 0,
        .min_bytes = 1, .max_bytes = FETCH_BYTES, .read_committed = browse->read_committed, .session_id = 0, .session_epoch = -1, .asks = &browse->ask, .ask_count = 1,
        .arena = &browse->rows,
        .client = { .client_id = ot_str_of("rest"), .software_name = { .null = true }, .software_version = { .null = true }, .address = ot_str_of(call->peer),
            .listener = ot_str_of("REST") } };
    broker_fetch(call->broker, &browse->fetch);
}

/* ---- what next */

static bool enough(struct browse *browse)
{
    browse->stopped_by = browse->call->stopping || ot_clock_boot_us() - browse->call->started_us > SCAN_US ? "time"
        : browse->scanned_records >= SCAN_RECORDS ? "scanned_records" : browse->scanned_bytes >= SCAN_BYTES ? "scanned_bytes" : NULL;
    return browse->stopped_by != NULL;
}

static void read_window(struct browse *browse, struct part *part)
{
    const int64_t wanted = browse->any_filter ? WINDOW_MAX : browse->limit;
    const int64_t window = OT_MAX(OT_MIN(wanted, WINDOW_BYTES / OT_MAX(part->bytes_each, 1)), (int64_t)WINDOW_MIN);
    part->first = part->count = 0;
    browse->part = part;
    browse->stop = part->low;
    browse->from = browse->offset = OT_MAX(part->log_start, part->low - window);
    browse->window_bytes = 0;
    fetch(browse);
}

static void step(struct browse *browse)
{
    while (browse->given < browse->limit && browse->call->out.bytes < ANSWER_BYTES) {
        struct part *newest = NULL, *empty = NULL;
        for (uint32_t i = 0; i < browse->part_count; i++) {
            struct part *part = &browse->parts[i];
            if (part->count == part->first) {
                if (part->low > part->log_start && empty == NULL) empty = part;
            } else if (newest == NULL || part->entries[part->count - 1].timestamp_ms > newest->entries[newest->count - 1].timestamp_ms) {
                newest = part;
            }
        }
        if (empty != NULL) {
            if (enough(browse)) finish(browse);
            else read_window(browse, empty);
            return;
        }
        if (newest == NULL) {
            finish(browse);
            return;
        }
        give(browse, newest);
    }
    browse->stopped_by = browse->given < browse->limit ? "bytes" : "limit";
    finish(browse);
}

/* ---- starting */

/* How large its records are: known of what lies here. */
static int64_t bytes_each(struct browse *browse, int32_t index, int64_t count)
{
    struct broker_partition_state state = { 0 };
    struct broker_partition *partition = broker_partition_find_id(browse->call->broker, &browse->topic_id, index);
    if (partition != NULL) broker_partition_state(partition, &state);
    broker_partition_put(partition);
    return partition == NULL || count <= 0 ? BYTES_EACH : (int64_t)state.size_bytes / count + 1;
}

static void set_part(struct browse *browse, struct part *part, const struct broker_lag_part *ends)
{
    const int64_t end = browse->read_committed ? ends->last_stable_offset : ends->high_watermark, start = ends->log_start_offset;
    *part = (struct part){ .index = ends->partition, .log_start = start, .high_watermark = ends->high_watermark, .low = OT_MAX(end, start),
        .bytes_each = bytes_each(browse, ends->partition, end - start) };
}

/* continue_token: partitions that it does not name are done. False: not one of this topic. */
static bool go_on_from(struct browse *browse, struct ot_str token)
{
    size_t bytes = 0;
    char id[23], text[REST_TARGET_MAX];
    const uint8_t *plain = rest_base64url_decode(&browse->call->arena, token, &bytes);
    ot_uuid_text(&browse->topic_id, id);
    if (plain == NULL || bytes >= sizeof(text) || bytes < strlen(id)) return false;
    memcpy(text, plain, bytes);
    text[bytes] = 0;
    if (strncmp(text, id, strlen(id)) != 0) return false;
    for (uint32_t i = 0; i < browse->part_count; i++) {
        const char *at = text + strlen(id);
        int64_t low = browse->parts[i].log_start;
        while (*at == ',') {
            char *stop = NULL;
            const long partition = strtol(at + 1, &stop, 10);
            if (*stop != ':') return false;
            const long long end = strtoll(stop + 1, &stop, 10);
            if ((*stop != ',' && *stop != 0) || end < 0) return false;
            if (partition == browse->parts[i].index) low = OT_MIN((int64_t)end, browse->parts[i].low);
            at = stop;
        }
        if (*at != 0) return false;
        browse->parts[i].low = OT_MAX(low, browse->parts[i].log_start);
    }
    return true;
}

/* False: answered. */
static bool prepare(struct browse *browse, const struct broker_view_topic *topic)
{
    static const char *const isolations[] = { "read_uncommitted", "read_committed" };
    struct rest_call *call = browse->call;
    browse->token = rest_query_text(call, "continue_token");
    browse->topic_id = topic->id;
    browse->limit = rest_query_int(call, "limit", 1, LIMIT_MAX, LIMIT);
    browse->read_committed = rest_query_choice(call, "isolation", isolations, 2, 0) == 1;
    rest_filter_read(call, topic->partition_count, &browse->filter);
    rest_record_form_read(call, &browse->form);
    browse->any_filter = !browse->filter.key.null || !browse->filter.contains.null;
    const uint32_t chosen = browse->filter.partition_count, count = chosen > 0 ? chosen : (uint32_t)topic->partition_count;
    if (count > REST_FILTER_PARTITIONS_MAX) rest_fault_query(call, "partition", "must choose at most %d: the topic has %d partitions", REST_FILTER_PARTITIONS_MAX, topic->partition_count);
    if (rest_faulty(call)) return false;
    browse->parts = ot_arena_array(&call->arena, count, sizeof(*browse->parts));
    struct broker_lag_part *ends = ot_arena_array(&call->arena, count, sizeof(*ends));
    if (browse->parts == NULL || ends == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return false;
    }
    browse->text_bytes_max = TEXT_BYTES / count;
    for (uint32_t i = 0; i < count; i++)
        ends[i] = (struct broker_lag_part){ .topic = rest_param(call, 0), .partition = chosen > 0 ? browse->filter.partitions[i] : (int32_t)i, .offset = -1 };
    browse->ends = (struct broker_lag){ .parts = ends, .part_count = count };
    return true;
}

static void ends_known(struct broker_call *broker_call)
{
    struct browse *browse = OT_CONTAINER(broker_call, struct browse, ends.call);
    struct rest_call *call = browse->call;
    for (uint32_t i = 0; i < browse->ends.part_count; i++) {
        const struct broker_lag_part *ends = &browse->ends.parts[i];
        if (ends->error != OT_OK) {
            free_parts(browse);
            rest_problem(call, ends->error, "partition %d cannot be read now (partition= chooses others): %s", ends->partition, ot_err_text(ends->error));
            return;
        }
        set_part(browse, &browse->parts[i], ends);
    }
    browse->part_count = browse->ends.part_count;
    if (!browse->token.null && !go_on_from(browse, browse->token)) rest_fault_query(call, "continue_token", "is not a token of this topic");
    if (call->faults.count > 0) {
        free_parts(browse);
        (void)rest_faulty(call);
        return;
    }
    if (call->format != REST_FORMAT_NDJSON) {
        rest_json_open(&call->out, NULL, '{');
        rest_json_str(&call->out, "topic", rest_param(call, 0));
        rest_json_open(&call->out, "records", '[');
    }
    call->cancel = cancel;
    step(browse);
}

void rest_browse(struct rest_call *call)
{
    struct broker_view_topic topic;
    struct browse *browse = ot_arena_alloc(&call->arena, sizeof(*browse));
    if (browse == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    browse->call = call;
    ot_arena_init(&browse->rows, 1 << 20);
    const struct broker_view *view = broker_view_take(call->broker);
    const bool good = rest_topic_find(call, view, &topic) && prepare(browse, &topic);
    broker_view_give(view);
    if (!good) return;
    if (call->server->browses == BROWSES_MAX) {
        rest_problem(call, OT_ERR_BUSY, "%d others browse already", BROWSES_MAX);
        return;
    }
    call->server->browses++;
    call->state = browse;
    browse->ends.call = (struct broker_call){ .home = call->home, .done = ends_known };
    broker_lag(call->broker, &browse->ends);
}
