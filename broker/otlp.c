/* Fields of the messages that are looked into (numbers of opentelemetry/proto/metrics/v1/metrics.proto):
 *
 *   MetricsData      1 ResourceMetrics        ResourceMetrics  2 ScopeMetrics        ScopeMetrics  2 Metric
 *   Metric           1 name, 5 Gauge, 7 Sum   Gauge, Sum       1 NumberDataPoint     Sum           2 temporality (1: delta)
 *   NumberDataPoint  4 double, 6 sfixed64 */
#include "broker/otlp.h"

#include <math.h>
#include <string.h>

enum wire { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };
struct field { uint32_t number; enum wire wire; uint64_t value; const uint8_t *data; size_t bytes; };
struct reader { const uint8_t *at, *end; };

static bool varint(struct reader *in, uint64_t *out)
{
    *out = 0;
    for (uint32_t shift = 0; shift < 64 && in->at < in->end; shift += 7) {
        const uint8_t byte = *in->at++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) return true;
    }
    return false;
}

static bool fixed(struct reader *in, size_t bytes, uint64_t *out)
{
    *out = 0;
    if ((size_t)(in->end - in->at) < bytes) return false;
    for (size_t i = 0; i < bytes; i++) *out |= (uint64_t)*in->at++ << (8 * i);
    return true;
}

/* The next field; *fault_out when what follows is none. */
static bool next(struct reader *in, struct field *out, bool *fault_out)
{
    uint64_t tag;
    *out = (struct field){ 0 };
    if (*fault_out || in->at == in->end) return false;
    *fault_out = true;
    if (!varint(in, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3) return false;
    out->number = (uint32_t)(tag >> 3);
    out->wire = (enum wire)(tag & 7);
    switch (out->wire) {
    case VARINT: if (!varint(in, &out->value)) return false; break;
    case FIXED64: if (!fixed(in, 8, &out->value)) return false; break;
    case FIXED32: if (!fixed(in, 4, &out->value)) return false; break;
    case LENGTH:
        if (!varint(in, &out->value) || out->value > (uint64_t)(in->end - in->at)) return false;
        out->data = in->at;
        out->bytes = (size_t)out->value;
        in->at += out->bytes;
        break;
    default: return false;
    }
    *fault_out = false;
    return true;
}

static struct reader inside(const struct field *field) { return (struct reader){ field->data, field->data + field->bytes }; }
static bool is(const struct field *field, uint32_t number, enum wire wire) { return field->number == number && field->wire == wire; }

static double point(const struct field *from, bool *fault)
{
    struct reader in = inside(from);
    struct field field;
    double value = 0;
    while (next(&in, &field, fault)) {
        if (is(&field, 4, FIXED64)) memcpy(&value, &field.value, sizeof value);
        else if (is(&field, 6, FIXED64)) value = (double)(int64_t)field.value;
    }
    return value;
}

static void points(const struct field *from, struct broker_otlp_number *number, bool *fault)
{
    struct reader in = inside(from);
    struct field field;
    while (next(&in, &field, fault)) {
        if (is(&field, 1, LENGTH)) number->value += point(&field, fault);
        else if (number->sum && is(&field, 2, VARINT)) number->delta = field.value == 1;
    }
}

static bool metric(const struct field *from, struct broker_otlp_number *out, bool *fault)
{
    struct reader in = inside(from);
    struct field field;
    bool found = false;
    *out = (struct broker_otlp_number){ .name.null = true };
    while (next(&in, &field, fault)) {
        if (is(&field, 1, LENGTH)) out->name = (struct ot_str){ (const char *)field.data, (uint32_t)field.bytes, false };
        if (!is(&field, 5, LENGTH) && !is(&field, 7, LENGTH)) continue;
        found = true;
        out->sum = field.number == 7;
        points(&field, out, fault);
    }
    return found && !*fault && !out->name.null && isfinite(out->value);
}

bool broker_otlp_each(const uint8_t *data, size_t bytes, void (*each)(void *arg, const struct broker_otlp_number *number), void *arg)
{
    struct reader in = { data, data + bytes };
    struct field resource, scope, field;
    struct broker_otlp_number number;
    bool fault = false;
    while (next(&in, &resource, &fault)) {
        if (!is(&resource, 1, LENGTH)) continue;
        struct reader scopes = inside(&resource);
        while (next(&scopes, &scope, &fault)) {
            if (!is(&scope, 2, LENGTH)) continue;
            struct reader metrics = inside(&scope);
            while (next(&metrics, &field, &fault))
                if (is(&field, 2, LENGTH) && metric(&field, &number, &fault)) each(arg, &number);
        }
    }
    return !fault;
}
