/* Private to the engine: plain bytes of a batch, chunk after chunk, as the record iterators take them. */
#ifndef OT_ENGINE_RECORD_FEED_H
#define OT_ENGINE_RECORD_FEED_H

#include "engine/record.h"

/* Each returns false after setting iter->err: INVALID_RECORD at the end of the data, else what the decoder says. */
bool eng_feed_more(struct eng_record_iter *iter); /* the chunk in hand is used up: the next one */
bool eng_feed_byte(struct eng_record_iter *iter, uint8_t *out);
bool eng_feed_skip(struct eng_record_iter *iter, int64_t bytes);
/* bytes in one piece: in place, or put together in the context's buffer. Borrowed until the next feed call that needs more. */
bool eng_feed_take(struct eng_record_iter *iter, size_t bytes, const uint8_t **out);
/* True: nothing is left behind what was taken, and the codec's end is right. kept: bytes taken last, moved aside when looking
 * costs the window. */
bool eng_feed_at_end(struct eng_record_iter *iter, const uint8_t **kept, size_t kept_bytes);
/* True: the data ended as it should. False: there are bytes in hand, or iter->err tells. */
bool eng_feed_ended(struct eng_record_iter *iter);
bool eng_feed_fail(struct eng_record_iter *iter, enum ot_err err); /* always false; keeps the first error */

/* engine/legacy.c: magic 0 and 1 */
enum ot_err eng_legacy_open(struct eng_record_iter *iter, const uint8_t *data, size_t bytes);
enum ot_err eng_legacy_next(struct eng_record_iter *iter, struct eng_record *out);

#endif
