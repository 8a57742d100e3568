/* grpc.reflection.v1 and v1alpha, which have the same bytes: the files of rpc/proto, as protoc described them at build time.
 *
 *   FileDescriptorSet { file 1 }   FileDescriptorProto { name 1, package 2, message_type 4, enum_type 5, service 6 }
 *   DescriptorProto { name 1, field 2, nested_type 3, enum_type 4 }   EnumDescriptorProto { name 1, value 2 }   ServiceDescriptorProto { name 1, method 2 } */
#include "rpc/grpc/door.h"

#include <string.h>

static const uint8_t descriptors[] = {
#include "descriptors.inc"
};

struct reflection_own { struct ot_blob request; struct rpcg_reflect_ask ask; };
const size_t rpcg_own_reflection = sizeof(struct reflection_own);

#define DEPTH_MAX 8u

static bool file_next(struct ot_reader *files, struct ot_blob *out)
{
    struct rpcg_field field;
    if (!rpcg_field_next(files, &field)) return false;
    *out = field.bytes;
    return true;
}

static struct ot_reader files_all(void) { return ot_reader_over(descriptors, sizeof descriptors); }

static struct ot_str str_field(struct ot_blob message, uint32_t number)
{
    struct ot_reader reader = ot_reader_over(message.data, message.bytes);
    struct rpcg_field field;
    while (rpcg_field_next(&reader, &field))
        if (field.number == number) return (struct ot_str){ (const char *)field.bytes.data, field.bytes.bytes, false };
    return ot_str_of("");
}

/* Cuts "word." or all of it from the front of name. */
static bool starts_with(struct ot_str *name, struct ot_str word)
{
    if (word.bytes > name->bytes || memcmp(name->data, word.data, word.bytes) != 0) return false;
    if (word.bytes < name->bytes && name->data[word.bytes] != '.') return false;
    const uint32_t cut = word.bytes < name->bytes ? word.bytes + 1 : word.bytes;
    name->data += cut;
    name->bytes -= cut;
    return true;
}

/* Is name (what is left of it) declared in this message, enum or service? parts: the numbers of what may be inside. */
static bool declared_in(struct ot_blob scope, const uint8_t *parts, struct ot_str name, uint32_t depth)
{
    static const uint8_t in_message[] = { 2, 3, 4, 0 }, in_other[] = { 2, 0 };
    struct ot_reader reader = ot_reader_over(scope.data, scope.bytes);
    struct rpcg_field field;
    while (depth < DEPTH_MAX && rpcg_field_next(&reader, &field)) {
        struct ot_str left = name;
        if (field.number > 8 || strchr((const char *)parts, (int)field.number) == NULL || !starts_with(&left, str_field(field.bytes, 1))) continue;
        if (left.bytes == 0) return true;
        const bool message = (parts[0] == 4 && field.number == 4) || (parts[0] == 2 && field.number == 3);
        if (declared_in(field.bytes, message ? in_message : in_other, left, depth + 1)) return true;
    }
    return false;
}

static bool file_find(const struct rpcg_reflect_ask *ask, struct ot_blob *out)
{
    static const uint8_t in_file[] = { 4, 5, 6, 0 };
    struct ot_reader files = files_all();
    while (file_next(&files, out)) {
        struct ot_str name = ask->name;
        if (ask->kind == RPCG_REFLECT_FILE ? ot_str_equal(name, str_field(*out, 1)) : starts_with(&name, str_field(*out, 2)) && declared_in(*out, in_file, name, 0)) return true;
    }
    return false;
}

/* ---- answers */

struct full { struct ot_str package, name; };

static void put_service(struct ot_writer *writer, const void *arg)
{
    const struct full *full = arg;
    rpcg_put_head(writer, 1, (size_t)full->package.bytes + 1 + full->name.bytes);
    ot_write_bytes(writer, full->package.data, full->package.bytes);
    ot_write_u8(writer, '.');
    ot_write_bytes(writer, full->name.data, full->name.bytes);
}

static void put_services(struct ot_writer *writer, const void *arg)
{
    struct ot_reader files = files_all();
    struct ot_blob file;
    (void)arg;
    while (file_next(&files, &file)) {
        struct ot_reader reader = ot_reader_over(file.data, file.bytes);
        struct rpcg_field field;
        while (rpcg_field_next(&reader, &field)) {
            if (field.number != 6) continue;
            const struct full full = { str_field(file, 2), str_field(field.bytes, 1) };
            rpcg_put_message(writer, 1, put_service, &full);
        }
    }
}

static void put_file(struct ot_writer *writer, const void *arg)
{
    const struct ot_blob *file = arg;
    rpcg_put_any_bytes(writer, 1, file->data, file->bytes);
}

struct refusal { grpc_status_code code; const char *text; };

static void put_refusal(struct ot_writer *writer, const void *arg)
{
    const struct refusal *refusal = arg;
    rpcg_put_int(writer, 1, (int64_t)refusal->code);
    rpcg_put_text(writer, 2, refusal->text);
}

static void put_answer(struct ot_writer *writer, const void *arg)
{
    const struct reflection_own *own = arg;
    const struct rpcg_reflect_ask *ask = &own->ask;
    static const struct refusal none = { GRPC_STATUS_NOT_FOUND, "nothing of that name is served here" }, what = { GRPC_STATUS_INVALID_ARGUMENT, "the request asks for nothing" };
    struct ot_blob file;
    rpcg_put_str(writer, 1, ask->host);
    rpcg_put_any_bytes(writer, 2, own->request.data, own->request.bytes);
    if (ask->kind == RPCG_REFLECT_LIST) rpcg_put_message(writer, 6, put_services, NULL);
    else if (ask->kind == RPCG_REFLECT_NONE) rpcg_put_message(writer, 7, put_refusal, &what);
    else if (ask->kind <= RPCG_REFLECT_SYMBOL && file_find(ask, &file)) rpcg_put_message(writer, 4, put_file, &file);
    else rpcg_put_message(writer, 7, put_refusal, &none);      /* proto3 has no extensions */
}

void rpcg_reflection_start(struct rpcg_call *call) { rpcg_read(call); }

void rpcg_reflection_message(struct rpcg_call *call, grpc_byte_buffer *message)
{
    struct reflection_own *own = call->own;
    const char *why = NULL;
    grpc_slice flat;
    if (message == NULL) {
        rpcg_end(call, GRPC_STATUS_OK, "");
        return;
    }
    own->request = rpcg_flatten(message, &flat);
    if (rpcg_reflect_decode(own->request, &own->ask, &why) == OT_OK) rpcg_send(call, rpcg_message(put_answer, own));
    else rpcg_end(call, GRPC_STATUS_INVALID_ARGUMENT, why);
    grpc_slice_unref(flat);
    grpc_byte_buffer_destroy(message);
}

void rpcg_reflection_sent(struct rpcg_call *call) { rpcg_read(call); }

void rpcg_reflection_cancel(struct rpcg_call *call, bool draining)
{
    if (draining) rpcg_end(call, GRPC_STATUS_UNAVAILABLE, "the server is stopping: connect again");
    else rpcg_end(call, GRPC_STATUS_CANCELLED, "");
}
