/* Answers, field by field: the numbers are those of rpc/proto/ottla/v1/log.proto. */
#include "rpc/grpc/messages.h"

#include <stdio.h>

static const char *text_of(const struct rpcg_error *error)
{
    return error->text != NULL && error->text[0] != '\0' ? error->text : ot_err_text(error->error);
}

/* What goes out under a house error is the code that Kafka's clients are told; the name stays Kafka's, too. */
static const char *name_of(enum ot_err error) { return ot_err_name((enum ot_err)ot_err_kafka(error)); }

void rpcg_put_error(struct ot_writer *writer, const void *arg)
{
    const struct rpcg_error *error = arg;
    rpcg_put_int(writer, 1, ot_err_kafka(error->error));
    rpcg_put_text(writer, 2, name_of(error->error));
    rpcg_put_text(writer, 3, text_of(error));
    rpcg_put_int(writer, 4, ot_err_retriable(error->error) ? 1 : 0);
    rpcg_put_int(writer, 5, error->leader_id);
    rpcg_put_int(writer, 6, error->leader_epoch);
    rpcg_put_text(writer, 7, error->leader_address);
}

/* ---- google.rpc.Status { code 1, message 2, details 3: Any { type_url 1, value 2: ErrorInfo { reason 1, domain 2, metadata 3: map entry { key 1, value 2 } } } } */

struct pair { const char *key; struct ot_str value; };

static void put_pair(struct ot_writer *writer, const void *arg)
{
    const struct pair *pair = arg;
    rpcg_put_text(writer, 1, pair->key);
    rpcg_put_str(writer, 2, pair->value);
}

static void put_metadata(struct ot_writer *writer, const char *key, struct ot_str value)
{
    const struct pair pair = { key, value };
    rpcg_put_message(writer, 3, put_pair, &pair);
}

static void put_number(struct ot_writer *writer, const char *key, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    put_metadata(writer, key, ot_str_of(text));
}

static void put_error_info(struct ot_writer *writer, const void *arg)
{
    const struct rpcg_error *error = arg;
    rpcg_put_text(writer, 1, name_of(error->error));
    rpcg_put_text(writer, 2, "ottla");
    put_number(writer, "kafka_code", ot_err_kafka(error->error));
    put_metadata(writer, "retriable", ot_str_of(ot_err_retriable(error->error) ? "true" : "false"));
    if (error->error > OT_ERR_HOUSE_FIRST) put_metadata(writer, "ottla_error", ot_str_of(ot_err_name(error->error)));
    if (!error->topic.null && error->topic.bytes > 0) {
        put_metadata(writer, "topic", error->topic);
        put_number(writer, "partition", error->partition);
    }
    if (error->leader_id >= 0) {
        put_number(writer, "leader_id", error->leader_id);
        put_number(writer, "leader_epoch", error->leader_epoch);
    }
    if (error->leader_address[0] != '\0') put_metadata(writer, "leader_address", ot_str_of(error->leader_address));
}

static void put_any(struct ot_writer *writer, const void *arg)
{
    rpcg_put_text(writer, 1, "type.googleapis.com/google.rpc.ErrorInfo");
    rpcg_put_message(writer, 2, put_error_info, arg);
}

void rpcg_put_status(struct ot_writer *writer, const void *arg)
{
    const struct rpcg_status *status = arg;
    rpcg_put_int(writer, 1, status->code);
    rpcg_put_text(writer, 2, status->text);
    rpcg_put_message(writer, 3, put_any, status->error);
}

/* ---- produce */

static void put_position(struct ot_writer *writer, const void *arg)
{
    const struct rpcg_position *position = arg;
    rpcg_put_int(writer, 1, position->partition);
    rpcg_put_int(writer, 2, position->offset);
}

static void put_ack_from(struct ot_writer *writer, uint32_t first, const struct rpcg_ack *ack)
{
    rpcg_put_int(writer, first, ack->partition);
    rpcg_put_int(writer, first + 1, ack->base_offset);
    rpcg_put_int(writer, first + 2, ack->append_time_ms);
    rpcg_put_int(writer, first + 3, ack->log_start_offset);
    for (uint32_t i = 0; i < ack->position_count; i++) rpcg_put_message(writer, first + 4, put_position, &ack->positions[i]);
}

void rpcg_put_produce_response(struct ot_writer *writer, const void *ack) { put_ack_from(writer, 1, ack); }

void rpcg_put_ack(struct ot_writer *writer, const void *arg)
{
    const struct rpcg_ack *ack = arg;
    rpcg_put_int(writer, 1, ack->id);
    put_ack_from(writer, 2, ack);
    if (ack->error != NULL) rpcg_put_message(writer, 7, rpcg_put_error, ack->error);
}

/* ---- rows */

static void put_place(struct ot_writer *writer, const struct rpcg_progress *progress)
{
    rpcg_put_str(writer, 1, progress->topic);
    rpcg_put_int(writer, 2, progress->partition);
    rpcg_put_int(writer, 3, progress->next_offset);
    rpcg_put_int(writer, 4, progress->high_watermark);
    rpcg_put_int(writer, 5, progress->last_stable_offset);
    rpcg_put_int(writer, 6, progress->log_start_offset);
}

void rpcg_put_progress(struct ot_writer *writer, const void *arg)
{
    const struct rpcg_progress *progress = arg;
    put_place(writer, progress);
    rpcg_put_int(writer, 7, progress->log_end_offset);
}

static void put_aborted(struct ot_writer *writer, const void *arg)
{
    const struct eng_aborted *aborted = arg;
    rpcg_put_int(writer, 1, aborted->producer_id);
    rpcg_put_int(writer, 2, aborted->first_offset);
}

/* The same layout but for where it is. */
static void put_consume_place(struct ot_writer *writer, const struct rpcg_row_head *head)
{
    const struct rpcg_position_row position = { { head->at.topic, head->at.partition, head->at.next_offset, head->assignment_id }, NULL };
    rpcg_put_message(writer, 1, rpcg_put_consume_position, &position);
    rpcg_put_int(writer, 4, head->at.high_watermark);
    rpcg_put_int(writer, 5, head->at.last_stable_offset);
    rpcg_put_int(writer, 6, head->at.log_start_offset);
}

void rpcg_put_row_head(struct ot_writer *writer, const struct rpcg_row_head *head)
{
    if (head->assignment_id != 0) put_consume_place(writer, head);
    else put_place(writer, &head->at);
    for (int32_t i = 0; i < head->aborted_count; i++) rpcg_put_message(writer, 7, put_aborted, &head->aborted[i]);
}

static void put_header(struct ot_writer *writer, const void *arg)
{
    const struct broker_record_header *header = arg;
    rpcg_put_str(writer, 1, header->key);
    if (!header->value.null) rpcg_put_bytes(writer, 2, header->value.data, header->value.bytes);
    rpcg_put_int(writer, 3, header->value.null ? 1 : 0);
}

void rpcg_put_record(struct ot_writer *writer, const void *arg)
{
    const struct broker_record_view *view = arg;
    struct ot_reader cursor = ot_reader_over(view->headers.data, view->headers.bytes);
    struct broker_record_header header;
    rpcg_put_int(writer, 1, view->offset);
    rpcg_put_int(writer, 2, view->timestamp_ms);
    if (!view->key.null) rpcg_put_bytes(writer, 3, view->key.data, view->key.bytes);
    if (!view->value.null) rpcg_put_bytes(writer, 4, view->value.data, view->value.bytes);
    for (uint32_t i = 0; i < view->header_count && broker_record_headers(&cursor, &header); i++) rpcg_put_message(writer, 5, put_header, &header);
    rpcg_put_int(writer, 6, view->value.null ? 1 : 0);
    rpcg_put_int(writer, 7, !view->key.null && view->key.bytes == 0 ? 1 : 0);
}

void rpcg_put_offset(struct ot_writer *writer, const void *arg)
{
    const struct rpcg_offset *offset = arg;
    rpcg_put_str(writer, 1, offset->topic);
    rpcg_put_int(writer, 2, offset->partition);
    rpcg_put_int(writer, 3, offset->offset);
    rpcg_put_int(writer, 4, offset->timestamp_ms);
    rpcg_put_int(writer, 5, offset->leader_epoch);
    if (offset->error != NULL) rpcg_put_message(writer, 6, rpcg_put_error, offset->error);
}

/* ---- groups */

void rpcg_put_group_offset(struct ot_writer *writer, const void *arg)
{
    const struct rpcg_committed *committed = arg;
    rpcg_put_str(writer, 1, committed->at.topic);
    rpcg_put_int(writer, 2, committed->at.partition);
    rpcg_put_int(writer, 3, committed->at.offset);
    rpcg_put_int(writer, 4, (int64_t)committed->at.leader_epoch + 1);
    rpcg_put_str(writer, 5, committed->at.metadata);
    if (committed->error != NULL) rpcg_put_message(writer, 6, rpcg_put_error, committed->error);
}

void rpcg_put_consume_position(struct ot_writer *writer, const void *arg)
{
    const struct rpcg_position_row *row = arg;
    rpcg_put_str(writer, 1, row->at.topic);
    rpcg_put_int(writer, 2, row->at.partition);
    rpcg_put_int(writer, 3, row->at.next_offset);
    rpcg_put_int(writer, 4, row->at.assignment_id);
    if (row->leader_address != NULL) rpcg_put_text(writer, 5, row->leader_address);
}
