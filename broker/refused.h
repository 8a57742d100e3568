/* Private to broker/: batches of idempotent producers that a partition refused for now, so that what follows them is refused alike.
 *
 * A producer has up to five batches in flight. When the first is refused (too few in sync, another one leads, the log is being opened) and the second comes when that is over, the second
 * cannot be appended: the first is missing. OUT_OF_ORDER_SEQUENCE_NUMBER would be Kafka's answer, and it is believed to be about lost data: librdkafka then begins a new producer epoch, for all
 * its partitions, and sends again under it what it has not heard of in the others, which may be in the log (librdkafka issue 4953): records twice. Without a known sequence the second
 * would even be taken as the first. The gap is of our making, so the answer is that of the batch before.
 *
 * A batch counts for BROKER_REFUSED_US, as long as clients wait for an answer, and as long as it is the next one that its producer owes: behind that a gap is a gap.
 *
 * thread  any, with the partition's mutex held */
#ifndef OT_BROKER_REFUSED_H
#define OT_BROKER_REFUSED_H

#include "engine/batch.h"

#define BROKER_REFUSED_MAX 32u                 /* per partition, the oldest goes first: whoever comes behind it is told of a gap */
#define BROKER_REFUSED_US 30000000

struct eng_producers;
struct broker_refused;                         /* of a partition: NULL until something was refused; owned by it, free() */

/* Note a refusal with an error that means "later"; batches without a producer id and other errors are not noted. Without memory it is not noted. */
void broker_refused_note(struct broker_refused **refused, const struct eng_batch_info *info, enum ot_err error, int64_t now_us);
/* What the batch that is missing before this one was refused with; OK: none was. This one was checked and is no duplicate. */
enum ot_err broker_refused_before(const struct broker_refused *refused, const struct eng_producers *producers, const struct eng_batch_info *info, int64_t now_us);

#endif
