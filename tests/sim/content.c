/* What lies in a batch, against what its client sent. */
#include "world.h"
#include "engine/record.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t sim_content_check(struct sim_world *world, struct eng_decode *decode, int partition, const uint8_t *data, const struct eng_batch_info *info)
{
    struct eng_record_iter iter;
    struct eng_record record;
    uint32_t id = 0, index = 0;
    long long at = (long long)info->base_offset;
    SIM_CHECK(world, eng_batch_check_crc(data, info) == OT_OK, "partition %d: bad CRC at %lld", partition, at);
    if (info->control) return 0;
    SIM_CHECK(world, eng_record_open(&iter, decode, data, (size_t)info->batch_bytes, 0) == OT_OK, "batch at %lld does not open", at);
    while (eng_record_next(&iter, &record) == OT_OK) {
        char key[32];
        uint32_t this_id = 0, this_index = 0;
        snprintf(key, sizeof(key), "%.*s", (int)record.key.bytes, (const char *)record.key.data);
        SIM_CHECK(world, sscanf(key, "%u/%u", &this_id, &this_index) == 2 && this_index == index && (id == 0 || id == this_id), "strange key %s", key);
        SIM_CHECK(world, record.value.bytes == (this_id * 37u + this_index * 11u) % 600, "batch %u: record %u has %u bytes", this_id, this_index, record.value.bytes);
        id = this_id;
        index++;
        world->totals.records_read++;
    }
    SIM_CHECK(world, iter.err == OT_ERR_NOT_FOUND || iter.err == OT_OK, "batch at %lld: %s", at, ot_err_name(iter.err));
    SIM_CHECK(world, id >= 1 && id <= world->batch_count, "batch at %lld has id %u", at, id);
    struct sim_batch *batch = &world->batches[id - 1];
    SIM_CHECK(world, batch->generation == world->generation, "batch %u at %lld is of a topic that was deleted", id, at);
    SIM_CHECK(world, batch->leader_epoch < 0 || batch->leader_epoch == info->partition_leader_epoch,
        "batch %u at %lld had leader epoch %d and has %d", id, at, batch->leader_epoch, info->partition_leader_epoch);
    batch->leader_epoch = info->partition_leader_epoch;
    SIM_CHECK(world, (int32_t)index == batch->record_count && batch->partition == partition, "batch %u has %u records in partition %d", id, index, partition);
    SIM_CHECK(world, batch->fate != SIM_ACKED || batch->offset == info->base_offset, "batch %u was acknowledged at %lld and lies at %lld", id, (long long)batch->offset, at);
    return id;
}

size_t sim_content_read(struct sim_world *world, const struct eng_read_result *result, uint8_t *data, size_t cap)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < result->span_count; i++) {
        OT_ASSERT(bytes + result->spans[i].bytes <= cap);
        enum ot_err err = ot_io_read_exact(sim_disk_io(world->disk), result->spans[i].fd, data + bytes, result->spans[i].bytes, result->spans[i].pos);
        if (err != OT_OK) {
            SIM_CHECK(world, world->faults_on || world->broken_dir >= 0 || sim_disk_is_off(world->disk), "a span is short: %s", ot_err_name(err));
            return 0;
        }
        bytes += result->spans[i].bytes;
    }
    return bytes;
}
