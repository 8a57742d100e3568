/* What the gRPC door asks of a broker beyond the Kafka door's needs: there are topics, they are all known, nobody packs records, and
 * records are taken out when the test says so. */
#include "fake_broker.h"

#include "broker/records.h"

bool broker_topic_known(struct broker *broker, struct ot_str topic, const struct ot_uuid *topic_id, int32_t *partition_count_out)
{
    (void)broker, (void)topic_id;
    for (uint32_t i = 0; i < fake.topic_count; i++) {
        if (!ot_str_equal(topic, ot_str_of(fake.topics[i].name))) continue;
        if (partition_count_out != NULL) *partition_count_out = fake.topics[i].partition_count;
        return true;
    }
    return false;
}

void broker_health(struct broker *broker, struct broker_health *out) { (void)broker, *out = (struct broker_health){ .ready = true }; }
bool broker_record_headers(struct ot_reader *cursor, struct broker_record_header *out) { return (void)cursor, (void)out, false; }
int32_t broker_records_batch_max(struct broker *broker, struct ot_str topic) { return (void)broker, (void)topic, 1 << 20; }
int32_t broker_records_partition(struct ot_blob key, int32_t count, _Atomic uint32_t *round_robin) { return (void)key, (void)count, (void)round_robin, 0; }
struct broker_records *fake_reading[64];    /* stay there until the test calls done of them */
uint32_t fake_reading_count;
void broker_records_read(struct broker *broker, struct broker_records *records) { (void)broker, fake_reading[fake_reading_count++ % 64] = records; }

uint32_t broker_records_rounds(struct broker_record *records, uint32_t count, size_t batch_bytes_max, struct ot_arena *arena)
{
    return (void)records, (void)count, (void)batch_bytes_max, (void)arena, 1;
}

enum ot_err broker_records_pack(struct broker *broker, struct ot_str topic, struct broker_record *records, uint32_t count, uint32_t round, struct ot_str codec,
    struct ot_pool *pool, size_t bytes_max, struct ot_arena *arena, struct broker_records_round *out)
{
    (void)broker, (void)topic, (void)records, (void)count, (void)round, (void)codec, (void)pool, (void)bytes_max, (void)arena, (void)out;
    return OT_ERR_NO_MEMORY;
}

void broker_records_stamp(struct broker_produce_part *part, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence, bool transactional)
{
    (void)part, (void)producer_id, (void)producer_epoch, (void)base_sequence, (void)transactional;
}
