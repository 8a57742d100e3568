/* Check of one line of kind `sequence` of the batch vectors: batches of several producers in order on one log. The line is walked three times: each batch
 * committed at once, with the last stable offset before and after its replication; commits held back, so that checks look into the queue; and
 * with a restart from a snapshot behind every batch. */
#ifndef OT_TESTS_SEQUENCE_VECTORS_H
#define OT_TESTS_SEQUENCE_VECTORS_H

#include "engine/batch.h"
#include "engine/producers.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEQUENCE_BATCH_BYTES_MAX (1u << 16)
#define SEQUENCE_ABORTED_MAX 256u

enum sequence_walk { SEQUENCE_AT_ONCE, SEQUENCE_QUEUED, SEQUENCE_RESTARTS };
struct sequence_run {
    struct eng_producers *producers;
    enum sequence_walk walk;
    int64_t now_ms, end, high_watermark;
    struct eng_completed_txn aborted[SEQUENCE_ABORTED_MAX];
    uint32_t aborted_count;
    char *why;
    size_t why_bytes;
};

static inline bool sequence_wrong(struct sequence_run *run, const char *what, long long got, long long expected)
{
    static const char *const walks[] = { "at once", "queued", "restarts" };
    (void)snprintf(run->why, run->why_bytes, "walk '%s', log end %lld: %s is %lld, expected %lld", walks[run->walk], (long long)run->end, what, got, expected);
    return false;
}

static inline bool sequence_number_is(struct sequence_run *run, json_t *step, const char *key, int64_t got)
{
    json_t *value = json_object_get(step, key);
    int64_t expected = json_is_null(value) ? INT64_MAX : json_integer_value(value);
    return (value != NULL && got == expected) || sequence_wrong(run, key, got, expected);
}

static inline size_t sequence_hex(const char *hex, uint8_t *out)
{
    size_t bytes = hex == NULL ? 0 : strlen(hex) / 2;
    for (size_t i = 0; i < bytes && i < SEQUENCE_BATCH_BYTES_MAX; i++) {
        unsigned byte = 0;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1) return 0;
        out[i] = (uint8_t)byte;
    }
    return bytes > SEQUENCE_BATCH_BYTES_MAX ? 0 : bytes;
}

static inline void sequence_completed(void *arg, const struct eng_completed_txn *txn)
{
    struct sequence_run *run = (struct sequence_run *)arg;
    if (txn->aborted && run->aborted_count < SEQUENCE_ABORTED_MAX) run->aborted[run->aborted_count++] = *txn;
}

static inline bool sequence_restart(struct sequence_run *run)
{
    size_t bytes = eng_producers_snapshot_bytes(run->producers);
    uint8_t *data = (uint8_t *)malloc(bytes);
    if (data == NULL) return sequence_wrong(run, "memory", 0, 1);
    struct ot_writer writer = ot_writer_over(data, bytes);
    enum ot_err err = eng_producers_snapshot(run->producers, &writer);
    if (err == OT_OK) err = eng_producers_load(run->producers, data, bytes, run->now_ms);
    free(data);
    return err == OT_OK || sequence_wrong(run, "snapshot error", err, OT_OK);
}

static inline bool sequence_append(struct sequence_run *run, json_t *step, const struct eng_batch_info *info, const struct eng_marker *marker)
{
    int64_t last = run->end + info->last_offset_delta;
    if (!sequence_number_is(run, step, "firstOffset", run->end) || !sequence_number_is(run, step, "lastOffset", last)) return false;
    enum ot_err err = eng_producers_pend(run->producers, info, run->end, last, marker, run->now_ms);
    if (err != OT_OK) return sequence_wrong(run, "pend error", err, OT_OK);
    run->end = last + 1;
    if (run->walk != SEQUENCE_QUEUED || run->end % 7 == 0) eng_producers_commit(run->producers, run->end, sequence_completed, run);
    return true;
}

static inline bool sequence_stable(struct sequence_run *run, json_t *step)
{
    int64_t unstable = eng_producers_first_unstable(run->producers);
    if (!sequence_number_is(run, step, "firstUnstableOffset", unstable)) return false;
    if (!sequence_number_is(run, step, "lastStableOffset", OT_MIN(unstable, run->high_watermark))) return false;
    run->high_watermark = run->end;
    eng_producers_advance(run->producers, run->high_watermark);
    unstable = eng_producers_first_unstable(run->producers);
    return sequence_number_is(run, step, "lastStableOffsetAtFullReplication", OT_MIN(unstable, run->high_watermark));
}

static inline bool sequence_step(struct sequence_run *run, json_t *step, int16_t transaction_version)
{
    static uint8_t data[SEQUENCE_BATCH_BYTES_MAX];
    struct eng_batch_info info;
    struct eng_marker marker = { false, false, -1 };
    struct eng_producer_check check;
    enum ot_err expected;
    size_t bytes = sequence_hex(json_string_value(json_object_get(step, "hex")), data);
    if (eng_batch_parse(data, bytes, &info) != OT_OK || info.batch_bytes != (int64_t)bytes) return sequence_wrong(run, "batch bytes", (long long)bytes, -1);
    if (info.control) eng_batch_marker(data, &info, &marker);
    const char *origin = json_string_value(json_object_get(step, "origin"));
    bool client = origin != NULL && strcmp(origin, "client") == 0;
    const char *name = json_string_value(json_object_get(step, "error"));
    if (name == NULL || !ot_err_by_name(name, &expected)) return sequence_wrong(run, "known error name", 0, 1);
    eng_producers_check(run->producers, &info, info.control ? &marker : NULL, client ? ENG_ORIGIN_CLIENT : ENG_ORIGIN_COORDINATOR,
        marker.is_marker ? transaction_version : 0, &check);
    if (check.error != expected) return sequence_wrong(run, "error", check.error, expected);
    if (check.duplicate) {
        if (!sequence_number_is(run, step, "firstOffset", check.duplicate_base_offset)) return false;
        if (!sequence_number_is(run, step, "lastOffset", check.duplicate_last_offset)) return false;
    } else if (check.error == OT_OK && !sequence_append(run, step, &info, info.control ? &marker : NULL)) {
        return false;
    }
    if (!sequence_number_is(run, step, "nextOffset", run->end)) return false;
    if (run->walk == SEQUENCE_AT_ONCE) return sequence_stable(run, step);
    return run->walk == SEQUENCE_QUEUED || sequence_restart(run);
}

static inline bool sequence_aborted(struct sequence_run *run, json_t *line)
{
    json_t *expected = json_object_get(line, "abortedTransactions");
    if (json_array_size(expected) != run->aborted_count) {
        return sequence_wrong(run, "count of aborted transactions", run->aborted_count, (long long)json_array_size(expected));
    }
    for (uint32_t i = 0; i < run->aborted_count; i++) {
        json_t *one = json_array_get(expected, i);
        const struct eng_completed_txn *txn = &run->aborted[i];
        if (!sequence_number_is(run, one, "producerId", txn->producer_id) || !sequence_number_is(run, one, "firstOffset", txn->first_offset)
            || !sequence_number_is(run, one, "lastOffset", txn->last_offset)
            || !sequence_number_is(run, one, "lastStableOffset", txn->last_stable_offset)) {
            return false;
        }
    }
    return true;
}

static inline bool sequence_walked(struct sequence_run *run, json_t *line)
{
    json_t *steps = json_object_get(line, "steps");
    int16_t version = (int16_t)json_integer_value(json_object_get(line, "transactionVersion"));
    for (size_t i = 0; i < json_array_size(steps); i++) {
        if (!sequence_step(run, json_array_get(steps, i), version)) return false;
    }
    eng_producers_commit(run->producers, run->end, sequence_completed, run);
    return json_array_size(steps) > 0 ? sequence_aborted(run, line) : sequence_wrong(run, "count of steps", 0, 1);
}

/* False: why says what is wrong. */
static inline bool vectors_sequence_line(json_t *line, char *why, size_t why_bytes)
{
    bool good = true;
    for (int walk = SEQUENCE_AT_ONCE; good && walk <= SEQUENCE_RESTARTS; walk++) {
        struct sequence_run run = { .walk = (enum sequence_walk)walk, .why = why, .why_bytes = why_bytes };
        run.now_ms = json_integer_value(json_object_get(json_object_get(line, "config"), "now"));
        run.end = json_integer_value(json_object_get(json_object_get(line, "config"), "logEndOffset"));
        run.high_watermark = run.end;
        if (eng_producers_new(1000, 86400000, &run.producers) != OT_OK) return false;
        good = sequence_walked(&run, line);
        eng_producers_free(run.producers);
    }
    return good;
}

#endif
