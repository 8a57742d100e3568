/* ListTransactions: all that this broker coordinates, by state, producer id, age (v1) and a pattern of ids (v2). */
#include "rpc/kafka/request.h"

#include "base/regex.h"
#include "base/wire/list_transactions_request.h"
#include "base/wire/list_transactions_response.h"

typedef struct ot_list_transactions_response_transaction_state state_row;

struct own {
    uint32_t states;                           /* bits; all when none was named */
    const struct ot_list_transactions_request *asked;
    struct ot_regex *pattern;
    struct ot_str *unknown;
    int32_t unknown_count;
};

static bool wants(const struct broker_txn_list *list, const struct coord_txn_view *view, int64_t wall_ms)
{
    const struct own *own = list->wants_arg;
    const struct ot_i64_array *ids = &own->asked->producer_id_filters;
    const int64_t age_ms = own->asked->duration_filter;
    bool known = ids->count <= 0;
    for (int32_t i = 0; i < ids->count && !known; i++) known = ids->items[i] == view->producer_id;
    if (!known || (own->states >> view->state & 1) == 0) return false;
    if (age_ms >= 0 && !(coord_txn_view_is_open(view) && view->start_ms >= 0 && wall_ms - view->start_ms > age_ms)) return false;
    return own->pattern == NULL || ot_regex_matches(own->pattern, view->id);
}

static bool state_parse(struct ot_str text, int64_t *out)
{
    for (size_t i = 0; i < ot_transaction_state_enum.count; i++) {
        const struct ot_wire_enum_row *row = &ot_transaction_state_enum.rows[i];
        if (!ot_str_equal(text, ot_str_of(row->text))) continue;
        *out = row->id;
        return true;
    }
    return false;
}

static void answer(struct rpc_request *request, enum ot_err error)
{
    struct own *own = request->own;
    const struct broker_txn_list *list = &request->call.txn_list;
    struct ot_list_transactions_response response;
    ot_list_transactions_response_defaults(&response);
    request->error = error;
    response.error_code = ot_err_kafka(error);
    response.unknown_state_filters.items = own->unknown;
    response.unknown_state_filters.count = own->unknown_count;
    const uint32_t count = error == OT_OK && list->arena != NULL ? list->row_count : 0;
    state_row *rows = rpc_alloc(request, count, sizeof *rows);
    ot_regex_free(own->pattern);
    if (rows == NULL && count > 0) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    const struct broker_txn_row *row = count > 0 ? list->rows : NULL;
    for (uint32_t i = 0; i < count; i++, row = row->next)
        rows[i] = (state_row){ .transactional_id = row->id, .producer_id = row->producer_id, .transaction_state = ot_str_of(ot_wire_enum_text(&ot_transaction_state_enum, row->state)) };
    response.transaction_states.items = rows;
    response.transaction_states.count = (int32_t)count;
    rpc_respond(request, &response);
}

static void list_transactions_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const enum ot_err error = request->call.txn_list.error;
    if (error == OT_ERR_NO_MEMORY) {
        ot_regex_free(((struct own *)request->own)->pattern);
        rpc_reject(request, "no memory for its answer");
    } else {
        answer(request, error);
    }
}

RPC_HANDLER(list_transactions)
{
    const struct ot_list_transactions_request *asked = body;
    request->arena.cap_bytes = RPC_ANSWER_ARENA_BYTES;
    struct own *own = request->own = rpc_alloc(request, 1, sizeof *own);
    request->call.txn_list = (struct broker_txn_list){ .arena = NULL };
    if (own != NULL) own->unknown = rpc_alloc(request, (size_t)OT_MAX(asked->state_filters.count, 0), sizeof *own->unknown);
    if (own == NULL || (own->unknown == NULL && asked->state_filters.count > 0)) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    own->asked = asked;
    own->states = asked->state_filters.count > 0 ? 0 : UINT32_MAX;
    for (int32_t i = 0; i < asked->state_filters.count; i++) {
        int64_t state;
        if (state_parse(asked->state_filters.items[i], &state)) own->states |= 1u << state;
        else own->unknown[own->unknown_count++] = asked->state_filters.items[i];
    }
    const struct ot_str pattern = asked->transactional_id_pattern;
    enum ot_err error = OT_OK;
    char why[200];
    if (!pattern.null && pattern.bytes > 0) error = ot_regex_new(pattern, &own->pattern, why, sizeof why);
    if (error != OT_OK) {
        answer(request, error);
        return;
    }
    request->call.txn_list = (struct broker_txn_list){ .wants = wants, .wants_arg = own, .arena = &request->arena };
    rpc_call_init(request, list_transactions_done);
    broker_txn_list(request->server->broker, &request->call.txn_list);
}
