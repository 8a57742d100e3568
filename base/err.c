#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct err_row {
    const char *name, *text;
    int16_t kafka, http;
    int8_t grpc;
    bool retriable;
};

/* Kafka's codes are dense from -1, so the row of a code lies at code + 1. */
static const struct err_row kafka_rows[] = {
#define X(name, kafka, http, grpc, retriable, text) [(kafka) + 1] = {#name, text, kafka, http, grpc, retriable},
    OT_KAFKA_ERRORS(X)
#undef X
};

static const struct err_row house_rows[] = {
#define X(name, kafka, http, grpc, retriable, text)                                                                                \
    [OT_ERR_##name - OT_ERR_HOUSE_FIRST - 1] = {#name, text, kafka, http, grpc, retriable},
    OT_HOUSE_ERRORS(X)
#undef X
};

static const struct err_row *row_of(enum ot_err err)
{
    const int code = (int)err;
    if (code > OT_ERR_HOUSE_FIRST && code < OT_ERR_HOUSE_END) return &house_rows[code - OT_ERR_HOUSE_FIRST - 1];
    if (code < -1 || code + 1 >= (int)OT_ARRAY_COUNT(kafka_rows) || kafka_rows[code + 1].name == NULL) return &kafka_rows[0];
    return &kafka_rows[code + 1];
}

const char *ot_err_name(enum ot_err err)
{
    return row_of(err)->name;
}
const char *ot_err_text(enum ot_err err)
{
    return row_of(err)->text;
}
int16_t ot_err_kafka(enum ot_err err)
{
    return row_of(err)->kafka;
}
int ot_err_http(enum ot_err err)
{
    return row_of(err)->http;
}
int ot_err_grpc(enum ot_err err)
{
    return row_of(err)->grpc;
}
bool ot_err_retriable(enum ot_err err)
{
    return row_of(err)->retriable;
}

bool ot_err_by_name(const char *name, enum ot_err *out)
{
    for (size_t i = 0; i < OT_ARRAY_COUNT(kafka_rows); i++) {
        if (kafka_rows[i].name == NULL || strcmp(kafka_rows[i].name, name) != 0) continue;
        *out = (enum ot_err)((int)i - 1);
        return true;
    }
    for (size_t i = 0; i < OT_ARRAY_COUNT(house_rows); i++) {
        if (strcmp(house_rows[i].name, name) != 0) continue;
        *out = (enum ot_err)(OT_ERR_HOUSE_FIRST + 1 + (int)i);
        return true;
    }
    return false;
}

void ot_assert_failed(const char *fact, const char *file, int line, const char *function)
{
    /* straight to stderr: the log may be what is broken */
    fprintf(stderr, "ottla: assertion failed: %s, at %s:%d in %s\n", fact, file, line, function);
    fflush(stderr);
    abort();
}
