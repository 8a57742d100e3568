/* Names of codecs, and the sink that encoders write to. */
#include "engine/codec.h"

#include <stdlib.h>
#include <string.h>

static const char *const codec_names[] = {
    [ENG_CODEC_NONE] = "none",
    [ENG_CODEC_GZIP] = "gzip",
    [ENG_CODEC_SNAPPY] = "snappy",
    [ENG_CODEC_LZ4] = "lz4",
    [ENG_CODEC_ZSTD] = "zstd",
    [ENG_CODEC_PRODUCER] = "producer",
};

const char *eng_codec_name(enum eng_codec codec)
{
    return (size_t)codec < OT_ARRAY_COUNT(codec_names) ? codec_names[codec] : "unknown";
}

bool eng_codec_by_name(const char *name, enum eng_codec *out)
{
    if (strcmp(name, "uncompressed") == 0) {
        name = "none";
    }
    for (size_t i = 0; i < OT_ARRAY_COUNT(codec_names); i++) {
        if (strcmp(name, codec_names[i]) == 0) {
            *out = (enum eng_codec)i;
            return true;
        }
    }
    return false;
}

void eng_sink_over(struct eng_sink *sink, void *data, size_t cap_bytes)
{
    *sink = (struct eng_sink){.data = data, .cap_bytes = cap_bytes, .max_bytes = cap_bytes};
}

void eng_sink_malloc(struct eng_sink *sink, size_t max_bytes)
{
    *sink = (struct eng_sink){.max_bytes = max_bytes, .owned = true};
}

void eng_sink_pool(struct eng_sink *sink, struct ot_pool *pool, size_t max_bytes)
{
    *sink = (struct eng_sink){.max_bytes = OT_MIN(max_bytes, (size_t)UINT32_MAX), .pool = pool, .owned = true};
}

static enum ot_err sink_grow(struct eng_sink *sink, size_t cap_bytes)
{
    if (sink->pool == NULL) {
        uint8_t *data = realloc(sink->data, cap_bytes);
        if (data == NULL) {
            return OT_ERR_NO_MEMORY;
        }
        sink->data = data;
        sink->cap_bytes = cap_bytes;
        return OT_OK;
    }
    struct ot_buf *buf = ot_buf_new(sink->pool, cap_bytes);
    if (buf == NULL) {
        return OT_ERR_NO_MEMORY;
    }
    if (sink->bytes > 0) {
        memcpy(buf->data, sink->data, sink->bytes); /* doubling: each byte moves once on average */
    }
    ot_buf_unref(sink->buf);
    sink->buf = buf;
    sink->data = buf->data;
    sink->cap_bytes = buf->cap_bytes;
    return OT_OK;
}

enum ot_err eng_sink_reserve(struct eng_sink *sink, size_t bytes)
{
    if (bytes > sink->max_bytes || sink->bytes > sink->max_bytes - bytes) {
        return OT_ERR_TOO_LARGE;
    }
    size_t need = sink->bytes + bytes;
    if (need <= sink->cap_bytes) {
        return OT_OK;
    }
    if (!sink->owned) {
        return OT_ERR_TOO_LARGE;
    }
    size_t cap = OT_MAX(sink->cap_bytes, (size_t)2048);
    while (cap < need) {
        cap = cap > sink->max_bytes / 2 ? sink->max_bytes : cap * 2;
    }
    return sink_grow(sink, OT_MIN(cap, OT_MAX(sink->max_bytes, need)));
}

enum ot_err eng_sink_write(struct eng_sink *sink, const void *data, size_t bytes)
{
    enum ot_err err = eng_sink_reserve(sink, bytes);
    if (err == OT_OK && bytes > 0) {
        memcpy(sink->data + sink->bytes, data, bytes);
        sink->bytes += bytes;
    }
    return err;
}

struct ot_buf *eng_sink_take(struct eng_sink *sink)
{
    struct ot_buf *buf = sink->buf;
    if (buf != NULL) {
        buf->bytes = (uint32_t)sink->bytes;
        sink->buf = NULL;
        sink->data = NULL;
        sink->bytes = sink->cap_bytes = 0;
    }
    return buf;
}

void eng_sink_free(struct eng_sink *sink)
{
    if (sink->pool != NULL) {
        ot_buf_unref(sink->buf);
    } else if (sink->owned) {
        free(sink->data);
    }
    sink->buf = NULL;
    sink->data = NULL;
    sink->bytes = sink->cap_bytes = 0;
}
