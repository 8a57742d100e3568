/* The table of methods: dispatch, metrics and the reference read it. */
#include "rpc/grpc/door.h"

#define LOG "/ottla.v1.Log/"

const struct rpcg_method rpcg_methods[] = {
    { .path = LOG "Produce", .name = "Produce", .kind = RPCG_UNARY, .registered = true, .own_bytes = &rpcg_own_produce, .start = rpcg_produce_start },
    { .path = LOG "ProduceStream", .name = "ProduceStream", .kind = RPCG_BIDI, .registered = true, .watched = true, .own_bytes = &rpcg_own_produce_stream, .start = rpcg_produce_stream_start,
        .message = rpcg_produce_stream_message, .sent = rpcg_produce_stream_sent, .cancel = rpcg_produce_stream_cancel, .freed = rpcg_produce_stream_freed },
    { .path = LOG "Fetch", .name = "Fetch", .kind = RPCG_UNARY, .registered = true, .watched = true, .own_bytes = &rpcg_own_fetch, .start = rpcg_fetch_start, .cancel = rpcg_fetch_cancel },
    { .path = LOG "Subscribe", .name = "Subscribe", .kind = RPCG_SERVER_STREAM, .registered = true, .watched = true, .own_bytes = &rpcg_own_subscribe, .start = rpcg_subscribe_start,
        .sent = rpcg_subscribe_sent, .cancel = rpcg_subscribe_cancel, .freed = rpcg_subscribe_freed },
    { .path = LOG "ListOffsets", .name = "ListOffsets", .kind = RPCG_UNARY, .registered = true, .own_bytes = &rpcg_own_list_offsets, .start = rpcg_list_offsets_start },
    { .path = LOG "Metadata", .name = "Metadata", .kind = RPCG_UNARY, .own_bytes = &rpcg_own_metadata, .start = rpcg_metadata_start },
    { .path = LOG "InitProducer", .name = "InitProducer", .kind = RPCG_UNARY, .own_bytes = &rpcg_own_init_producer, .start = rpcg_init_producer_start },
    { .path = LOG "EndTransaction", .name = "EndTransaction", .kind = RPCG_UNARY, .own_bytes = &rpcg_own_init_producer, .start = rpcg_end_transaction_start },
    { .path = LOG "CommitOffsets", .name = "CommitOffsets", .kind = RPCG_UNARY, .own_bytes = &rpcg_own_group_offsets, .start = rpcg_commit_offsets_start },
    { .path = LOG "FetchOffsets", .name = "FetchOffsets", .kind = RPCG_UNARY, .own_bytes = &rpcg_own_group_offsets, .start = rpcg_fetch_offsets_start },
    { .path = LOG "Consume", .name = "Consume", .kind = RPCG_BIDI, .watched = true, .own_bytes = &rpcg_own_consume, .start = rpcg_consume_start,
        .message = rpcg_consume_message, .sent = rpcg_consume_sent, .cancel = rpcg_consume_cancel, .freed = rpcg_consume_freed },
    { .path = "/grpc.health.v1.Health/Check", .name = "HealthCheck", .kind = RPCG_UNARY, .own_bytes = &rpcg_own_health, .start = rpcg_health_check_start },
    { .path = "/grpc.health.v1.Health/Watch", .name = "HealthWatch", .kind = RPCG_SERVER_STREAM, .watched = true, .own_bytes = &rpcg_own_health, .start = rpcg_health_watch_start,
        .sent = rpcg_health_watch_sent, .cancel = rpcg_health_watch_cancel },
    { .path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", .name = "Reflection", .kind = RPCG_BIDI, .watched = true, .own_bytes = &rpcg_own_reflection,
        .start = rpcg_reflection_start,
                .message = rpcg_reflection_message, .sent = rpcg_reflection_sent, .cancel = rpcg_reflection_cancel },
    { .path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", .name = "ReflectionAlpha", .kind = RPCG_BIDI, .watched = true,
        .own_bytes = &rpcg_own_reflection, .start = rpcg_reflection_start, .message = rpcg_reflection_message, .sent = rpcg_reflection_sent, .cancel = rpcg_reflection_cancel },
};
const uint32_t rpcg_method_count = OT_ARRAY_COUNT(rpcg_methods);
