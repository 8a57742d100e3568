/* log produce|follow HOST:PORT TOPIC: append each line of standard input, or print every record of partition 0 from the first one on.
 * Stubs by protobuf-c, the wire by the C core of gRPC:  protoc-c --c_out=. -I ../../../rpc/proto ottla/v1/log.proto
 *                                                       cc -o log log.c ottla/v1/log.pb-c.c -I. -lgrpc -lgpr -lprotobuf-c */
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ottla/v1/log.pb-c.h"

static grpc_completion_queue *queue;
static grpc_channel *channel;

struct call {
    grpc_call *call;
    grpc_metadata_array first, last;
    grpc_status_code status;
    grpc_slice details;
    grpc_byte_buffer *answer;
};

static grpc_byte_buffer *packed(const ProtobufCMessage *message)
{
    grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));
    protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return buffer;
}

static ProtobufCMessage *unpacked(const ProtobufCMessageDescriptor *type, grpc_byte_buffer *buffer)
{
    grpc_byte_buffer_reader reader;
    grpc_byte_buffer_reader_init(&reader, buffer);
    grpc_slice flat = grpc_byte_buffer_reader_readall(&reader);
    ProtobufCMessage *message = protobuf_c_message_unpack(type, NULL, GRPC_SLICE_LENGTH(flat), GRPC_SLICE_START_PTR(flat));
    grpc_slice_unref(flat);
    grpc_byte_buffer_reader_destroy(&reader);
    return message;
}

/* One batch of operations, and its end. */
static int run(struct call *call, const grpc_op *ops, size_t count)
{
    if (grpc_call_start_batch(call->call, ops, count, call, NULL) != GRPC_CALL_OK) return 0;
    return grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).success;
}

static void call_begin(struct call *call, const char *method, const ProtobufCMessage *request)
{
    grpc_byte_buffer *message = packed(request);
    *call = (struct call){ .details = grpc_empty_slice() };
    grpc_metadata_array_init(&call->first);
    grpc_metadata_array_init(&call->last);
    call->call = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue, grpc_slice_from_copied_string(method), NULL,
                                          gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    const grpc_op ops[] = {
        { .op = GRPC_OP_SEND_INITIAL_METADATA },
        { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message },
        { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
        { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &call->first },
    };
    run(call, ops, 4);
    grpc_byte_buffer_destroy(message);
}

/* The next message of the server, or NULL at the end. */
static ProtobufCMessage *call_next(struct call *call, const ProtobufCMessageDescriptor *type)
{
    const grpc_op op = { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->answer };
    if (!run(call, &op, 1) || call->answer == NULL) return NULL;
    ProtobufCMessage *message = unpacked(type, call->answer);
    grpc_byte_buffer_destroy(call->answer);
    return message;
}

static int call_end(struct call *call)
{
    const grpc_op op = { .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
        .data.recv_status_on_client = { .trailing_metadata = &call->last, .status = &call->status, .status_details = &call->details } };
    run(call, &op, 1);
    if (call->status != GRPC_STATUS_OK)
        fprintf(stderr, "status %d: %.*s\n", (int)call->status, (int)GRPC_SLICE_LENGTH(call->details), (const char *)GRPC_SLICE_START_PTR(call->details));
    grpc_slice_unref(call->details);
    grpc_metadata_array_destroy(&call->first);
    grpc_metadata_array_destroy(&call->last);
    grpc_call_unref(call->call);
    return call->status == GRPC_STATUS_OK;
}

static int produce(char *topic)
{
    char line[65536];
    while (fgets(line, sizeof line, stdin) != NULL) {
        Ottla__V1__Record record = OTTLA__V1__RECORD__INIT, *records[] = { &record };
        Ottla__V1__ProduceRequest request = OTTLA__V1__PRODUCE_REQUEST__INIT;
        struct call call;
        record.value.data = (uint8_t *)line;
        record.value.len = strcspn(line, "\n");
        request.topic = topic;
        request.records = records;
        request.n_records = 1;
        call_begin(&call, "/ottla.v1.Log/Produce", &request.base);
        Ottla__V1__ProduceResponse *answer = (Ottla__V1__ProduceResponse *)call_next(&call, &ottla__v1__produce_response__descriptor);
        if (!call_end(&call) || answer == NULL) return 1;
        printf("record %lld\n", (long long)answer->base_offset);
        ottla__v1__produce_response__free_unpacked(answer, NULL);
    }
    return 0;
}

static int follow(char *topic)
{
    Ottla__V1__SubscribePartition partition = OTTLA__V1__SUBSCRIBE_PARTITION__INIT, *partitions[] = { &partition };
    Ottla__V1__SubscribeRequest request = OTTLA__V1__SUBSCRIBE_REQUEST__INIT;
    Ottla__V1__SubscribeResponse *message;
    struct call call;
    partition.topic = topic;
    partition.start = OTTLA__V1__START__START_EARLIEST;
    request.partitions = partitions;
    request.n_partitions = 1;
    call_begin(&call, "/ottla.v1.Log/Subscribe", &request.base);
    while ((message = (Ottla__V1__SubscribeResponse *)call_next(&call, &ottla__v1__subscribe_response__descriptor)) != NULL) {
        for (size_t i = 0; i < message->n_records; i++)
            printf("%d %lld %.*s\n", message->partition, (long long)message->records[i]->offset, (int)message->records[i]->value.len, (char *)message->records[i]->value.data);
        fflush(stdout);
        ottla__v1__subscribe_response__free_unpacked(message, NULL);
    }
    return !call_end(&call);
}

int main(int count, char **words)
{
    if (count != 4) return fprintf(stderr, "log produce|follow HOST:PORT TOPIC\n"), 2;
    grpc_init();
    grpc_channel_credentials *plain = grpc_insecure_credentials_create();
    queue = grpc_completion_queue_create_for_next(NULL);
    channel = grpc_channel_create(words[2], plain, NULL);
    return strcmp(words[1], "produce") == 0 ? produce(words[3]) : follow(words[3]);
}
