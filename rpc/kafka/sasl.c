/* SaslHandshake and SaslAuthenticate on a listener without SASL: as Kafka, which has them in its list (clients infer features from that) and answers ILLEGAL_SASL_STATE. */
#include "rpc/kafka/request.h"

#include "base/wire/sasl_authenticate_request.h"
#include "base/wire/sasl_authenticate_response.h"
#include "base/wire/sasl_handshake_request.h"
#include "base/wire/sasl_handshake_response.h"

RPC_HANDLER(sasl_handshake)
{
    struct ot_sasl_handshake_response response;
    (void)body;
    ot_sasl_handshake_response_defaults(&response);
    request->error = OT_ERR_ILLEGAL_SASL_STATE;
    response.error_code = ot_err_kafka(request->error);
    rpc_respond(request, &response);
}

RPC_HANDLER(sasl_authenticate)
{
    struct ot_sasl_authenticate_response response;
    (void)body;
    ot_sasl_authenticate_response_defaults(&response);
    request->error = OT_ERR_ILLEGAL_SASL_STATE;
    response.error_code = ot_err_kafka(request->error);
    response.error_message = ot_str_of("this listener does not authenticate");
    rpc_respond(request, &response);
}
