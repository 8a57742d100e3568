/* What AlterConfigs and IncrementalAlterConfigs share: resources become items of one broker call, and answers in the order asked. */
#ifndef OT_RPC_KAFKA_CONFIG_CHANGES_H
#define OT_RPC_KAFKA_CONFIG_CHANGES_H

#include "rpc/kafka/request.h"

struct rpc_config_change { int8_t type; struct ot_str name; enum ot_err error; const char *text; const struct broker_admin_item *item; /* NULL: refused here */ };
struct rpc_config_changes { struct rpc_config_change *rows; int32_t count; };
/* In request->own. False: no memory. */
bool rpc_config_changes_begin(struct rpc_request *request, int32_t count);
/* The next resource; *item_out is NULL when it is refused already, else to be filled with configs and ops. */
void rpc_config_changes_add(struct rpc_request *request, int8_t type, struct ot_str name, bool validate_only, struct broker_admin_item **item_out);
/* Refuse the resource added last. */
void rpc_config_changes_refuse(struct rpc_request *request, enum ot_err error, const char *text);
/* Ask the broker; done answers with rpc_config_changes_answer. */
void rpc_config_changes_ask(struct rpc_request *request, void (*done)(struct broker_call *call));
/* Error and text of one resource after the call. */
enum ot_err rpc_config_changes_error(struct rpc_request *request, int32_t at, struct ot_str *text_out);

#endif
