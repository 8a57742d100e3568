/* The loss ledger: every event by which records may have gone that somebody was told of, noted on disk by the broker that knows it, before it happens where that broker makes it happen.
 *
 *   election   a leader from what was left (contest.h): its new leader notes which offsets may be lost, upwards without end. Also a sole replica that its machine's crash may have cut
 *   cut        a follower's log is cut below its high watermark, or where an earlier election gave something up: offsets, epochs, and the batches themselves, copied aside before
 *   recovery   a start found damage with whole batches behind it (engine/log_recover.c): these were kept aside, and how they get here is said in broker/losses_recovery.c. With an end: records that had
 *              been synced are gone, and nobody else may have them
 *
 *   <metadata folder>/losses/<number>.loss      u32 CRC32C of what follows | LossRecord with its version in front. Made under another name, synced, renamed, the folder synced
 *   <log dir>/__ottla_lost/<number>-<topic>-<partition>/<first offset>.log       what was kept: a plain segment, which `ottla log dump` and Kafka's dump tool read
 *
 * What is kept is bounded for each of them (ottla.loss.keep.partition.bytes) and in all (ottla.loss.keep.bytes); an entry says what had no room. Of more than
 * BROKER_LOSSES_MAX entries the oldest that keep nothing go. Nothing removes what was kept but people.
 *
 * Every cut is told besides, with what it took and in which epochs: a line of the log before, and an event (RECORDS_CUT) after it, which may be lost with its broker or for want of room.
 * What was above the high watermark then, acknowledged by acks=1 at most, is told by these alone.
 *
 * thread  any */
#ifndef OT_BROKER_LOSSES_H
#define OT_BROKER_LOSSES_H

#include "base/bytes.h"
#include "base/io.h"
#include "broker/events.h"

struct broker;
struct broker_losses;

enum { BROKER_LOSSES_MAX = 10000, BROKER_LOSS_EPOCHS_MAX = 16 };
enum broker_loss_kind { BROKER_LOSS_ELECTION, BROKER_LOSS_CUT, BROKER_LOSS_RECOVERY };
enum broker_loss_kept { BROKER_LOSS_KEPT_NOTHING /* there was nothing to keep */, BROKER_LOSS_KEPT_ALL, BROKER_LOSS_KEPT_PART /* the rest had no room */, BROKER_LOSS_KEPT_NO_ROOM,
    BROKER_LOSS_KEPT_GONE /* somebody removed it since */ };
const char *broker_loss_kind_name(enum broker_loss_kind kind);
const char *broker_loss_kept_name(enum broker_loss_kept kept);

struct broker_loss {
    uint64_t number;                           /* given when it is noted; grows */
    enum broker_loss_kind kind;
    const char *reason;                        /* static: "crash", "unclean", "operator"; "divergence" of a cut, "damage" of a recovery */
    char topic[250]; struct ot_uuid topic_id; int32_t partition;
    int64_t from, end;                         /* [from, end); end -1: not known, or without end */
    int64_t high_watermark;                    /* as this broker knew it then: what is below was certainly acknowledged or shown; -1: not told */
    int32_t leader_epoch;                      /* of the leader that made it happen */
    int32_t last_epoch;                        /* records of later ones are not meant; -1: not known */
    struct broker_epoch_start epochs[BROKER_LOSS_EPOCHS_MAX]; uint32_t epoch_count;     /* of a cut: where the range's epochs begin, the latest ones if there are more */
    int64_t wall_ms;
    uint64_t cut_bytes, kept_bytes;            /* cut: by what indexes know, and exactly where all of it is kept */
    int64_t kept_end;                          /* what is kept ends there; -1: nothing */
    enum broker_loss_kept kept;
    const char *folder;                        /* where; "" nowhere. The ledger's */
    bool told;                                 /* the event was taken */
};
/* The oldest `limit` with a number above `after`, oldest first. each must not keep texts, nor block. Answers how many there are in all. */
uint32_t broker_losses_each(struct broker *broker, uint64_t after, uint32_t limit, void (*each)(void *arg, const struct broker_loss *loss), void *arg);

#endif
