/* One error type for the whole house. Kafka's errors keep their protocol numbers, our own begin at 1000. */
#ifndef OT_BASE_ERR_H
#define OT_BASE_ERR_H

#include "base/err_table.h"
#include "base/macros.h"

enum ot_err {
#define X(name, kafka, http, grpc, retriable, text) OT_ERR_##name = kafka,
    OT_KAFKA_ERRORS(X)
#undef X
    OT_OK = 0,
    OT_ERR_HOUSE_FIRST = 999,
#define X(name, kafka, http, grpc, retriable, text) OT_ERR_##name,
    OT_HOUSE_ERRORS(X)
#undef X
    OT_ERR_HOUSE_END
};

/* Each takes any value of the enum; an unknown number is answered as UNKNOWN_SERVER_ERROR. No allocation, any thread. */
const char *ot_err_name(enum ot_err err);          /* "OFFSET_OUT_OF_RANGE", "NO_SPACE" */
const char *ot_err_text(enum ot_err err);          /* for people, lower case, no full stop */
int16_t ot_err_kafka(enum ot_err err);             /* the code that goes onto the Kafka wire */
int ot_err_http(enum ot_err err);
int ot_err_grpc(enum ot_err err);
bool ot_err_retriable(enum ot_err err);
bool ot_err_by_name(const char *name, enum ot_err *out);

#endif
