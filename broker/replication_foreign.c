/* Leaders of another cluster, where they differ from a member: nothing is agreed on beforehand, so the first request of a stream, and the first after a failure, is ApiVersions; and an
 * offset below the start of Kafka's log is refused without a word on where it begins, so that is asked with ListOffsets (Fetch answers of a member say it).
 *
 *   ApiVersions 0 ──► Fetch … ──► OFFSET_OUT_OF_RANGE ──► ListOffsets, earliest ──► the log here goes on at that offset, or stays as it is */
#include "broker/replication_inner.h"

#include "base/util.h"
#include "base/wire/api_versions_request.h"
#include "base/wire/api_versions_response.h"
#include "base/wire/apis.h"
#include "base/wire/fetch_response.h"
#include "base/wire/frame.h"
#include "base/wire/list_offsets_request.h"
#include "base/wire/list_offsets_response.h"

/* Fetch 12 has epochs that part. ListOffsets 4 has leader epochs, 10 begins to wait for a remote store. */
enum { FETCH_VERSION_MIN = 12, OFFSETS_VERSION_MIN = 4, OFFSETS_VERSION_MAX = 9, EARLIEST = -2 };

enum broker_fetch_asks broker_foreign_asks(struct broker_fetch_stream *stream)
{
    uint32_t seeking = 0;
    if (stream->version == BROKER_VERSION_UNKNOWN) return BROKER_ASKS_VERSIONS;
    for (uint32_t i = 0; i < stream->slot_count; i++) seeking += stream->slots[i]->seeks;
    if (seeking == 0) return BROKER_ASKS_FETCH;
    seeking = 0;
    for (uint32_t i = 0; i < stream->slot_count; i++) {
        struct broker_fetch_slot *slot = stream->slots[i];
        if (slot->seeks) stream->slots[seeking++] = slot;
        else broker_fetch_let_go(slot);
    }
    stream->slot_count = seeking;
    return BROKER_ASKS_STARTS;
}

static struct ot_buf *starts_request(struct broker_fetch_stream *stream)
{
    struct ot_list_offsets_request request;
    struct ot_list_offsets_request_list_offsets_topic *topics = ot_arena_array(&stream->arena, stream->slot_count, sizeof *topics);
    struct ot_list_offsets_request_list_offsets_partition *parts = ot_arena_array(&stream->arena, stream->slot_count, sizeof *parts);
    if (topics == NULL || parts == NULL) return NULL;
    ot_list_offsets_request_defaults(&request);
    request.replica_id = -1;
    for (uint32_t i = 0; i < stream->slot_count; i++) {
        const struct broker_fetch_slot *slot = stream->slots[i];
        ot_list_offsets_request_list_offsets_topic_defaults(&topics[i]);
        ot_list_offsets_request_list_offsets_partition_defaults(&parts[i]);
        topics[i].name = ot_str_of(slot->origin.topic);
        topics[i].partitions.items = &parts[i];
        topics[i].partitions.count = 1;
        parts[i].partition_index = slot->partition->index;
        parts[i].current_leader_epoch = slot->origin.leader_epoch;
        parts[i].timestamp = EARLIEST;
    }
    request.topics.items = topics;
    request.topics.count = (int32_t)stream->slot_count;
    return broker_fetch_frame(stream, OT_API_LIST_OFFSETS, stream->offsets_version, &request);
}

struct ot_buf *broker_foreign_request(struct broker_fetch_stream *stream)
{
    struct ot_api_versions_request versions;
    if (stream->asks == BROKER_ASKS_STARTS) return starts_request(stream);
    ot_api_versions_request_defaults(&versions);
    return broker_fetch_frame(stream, OT_API_API_VERSIONS, 0, &versions);
}

/* ---- answers */

/* The newest of [low, high] that it serves too. */
static int16_t pick(const struct ot_api_versions_response *said, int16_t key, int16_t low, int16_t high)
{
    for (int32_t i = 0; i < said->api_keys.count; i++) {
        const struct ot_api_versions_response_api_version *row = &said->api_keys.items[i];
        if (row->api_key != key) continue;
        const int16_t newest = OT_MIN(row->max_version, high);
        return newest >= OT_MAX(row->min_version, low) ? newest : BROKER_VERSION_UNKNOWN;
    }
    return BROKER_VERSION_UNKNOWN;
}

static enum ot_err versions_take(struct broker_fetch_stream *stream, struct ot_reader *in)
{
    struct ot_api_versions_response said;
    struct ot_wire_error error;
    enum ot_err err = ot_api_versions_response_decode(&said, 0, in, &stream->arena, &error);
    if (err == OT_OK && said.error_code != 0) err = (enum ot_err)said.error_code;
    if (err != OT_OK) return err;
    const int16_t fetch = pick(&said, OT_API_FETCH, FETCH_VERSION_MIN, BROKER_FETCH_VERSION), offsets = pick(&said, OT_API_LIST_OFFSETS, OFFSETS_VERSION_MIN, OFFSETS_VERSION_MAX);
    if (fetch == BROKER_VERSION_UNKNOWN || offsets == BROKER_VERSION_UNKNOWN) return OT_ERR_UNSUPPORTED_VERSION;
    stream->version = fetch;
    stream->offsets_version = offsets;
    return OT_OK;
}

/* As an answer of Fetch that says where the log begins. */
static enum ot_err starts_take(struct broker_fetch_stream *stream, struct ot_reader *in)
{
    struct ot_list_offsets_response said;
    struct ot_fetch_response as;
    struct ot_wire_error error;
    enum ot_err err = ot_list_offsets_response_decode(&said, stream->offsets_version, in, &stream->arena, &error);
    if (err != OT_OK) return err;
    for (uint32_t i = 0; i < stream->slot_count; i++) stream->slots[i]->seeks = false;
    ot_fetch_response_defaults(&as);
    as.responses.items = ot_arena_array(&stream->arena, (size_t)said.topics.count + 1, sizeof *as.responses.items);
    if (as.responses.items == NULL) return OT_ERR_NO_MEMORY;
    for (int32_t t = 0; t < said.topics.count; t++) {
        const struct ot_list_offsets_response_list_offsets_topic_response *topic = &said.topics.items[t];
        struct ot_fetch_response_fetchable_topic_response *out = &as.responses.items[as.responses.count++];
        ot_fetch_response_fetchable_topic_response_defaults(out);
        out->topic = topic->name;
        if ((out->partitions.items = ot_arena_array(&stream->arena, (size_t)topic->partitions.count + 1, sizeof *out->partitions.items)) == NULL) return OT_ERR_NO_MEMORY;
        for (int32_t p = 0; p < topic->partitions.count; p++) {
            const struct ot_list_offsets_response_list_offsets_partition_response *part = &topic->partitions.items[p];
            struct ot_fetch_response_partition_data *row = &out->partitions.items[out->partitions.count++];
            ot_fetch_response_partition_data_defaults(row);
            row->partition_index = part->partition_index;
            row->error_code = part->error_code == 0 ? OT_ERR_OFFSET_OUT_OF_RANGE : part->error_code;
            row->log_start_offset = OT_MAX(part->offset, 0);
        }
    }
    return broker_fetch_answer_take(stream, &as);
}

enum ot_err broker_foreign_answer(struct broker_fetch_stream *stream)
{
    const bool starts = stream->asks == BROKER_ASKS_STARTS;
    struct ot_reader in = ot_reader_over(stream->answer->data, stream->answer->bytes);
    struct ot_wire_error error;
    int32_t correlation_id;
    enum ot_err err = ot_wire_response_header_decode(ot_api_find(starts ? OT_API_LIST_OFFSETS : OT_API_API_VERSIONS), starts ? stream->offsets_version : 0, &in, &stream->arena,
        &correlation_id, &error);
    if (err != OT_OK) return err;
    return starts ? starts_take(stream, &in) : versions_take(stream, &in);
}
