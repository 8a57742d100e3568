/* A broker that does what a test says: a few topics, records in a file, and calls that are answered at once, later, or out of order. Linked before the real
 * one, it stands in for all of it but the configuration. */
#ifndef TEST_FAKE_BROKER_H
#define TEST_FAKE_BROKER_H

#include "broker/broker.h"
#include "broker/replica_dirs.h"
#include "broker/telemetry.h"
#include <pthread.h>

#define FAKE_TOPICS_MAX 64
struct fake_topic { char name[256]; struct ot_uuid id; int32_t partition_count; bool internal; const char *keys[8]; const char *values[8]; uint32_t config_count; };

struct fake_broker {
    pthread_mutex_t mutex;
    struct broker_config_store *config;
    struct ot_exec_pool *pool;             /* answers come from its threads, as in life */
    enum ot_err group_error;               /* every ask about groups is refused with it */
    int32_t coordinator;                   /* of groups; 0: this broker */
    enum ot_err id_error;                  /* no producer ids are given, for this */
    bool shards_unknown;                   /* the internal topics are not there yet */
    struct fake_topic topics[FAKE_TOPICS_MAX];
    uint32_t topic_count;
    int32_t node_id, controller_id;
    enum ot_err raise_error; int16_t raised;   /* answer of BROKER_RAISE; the level that was raised to */
    uint32_t reads; enum ot_err read_error;    /* of BROKER_READ */
    const char *topic_to_be;                   /* with 3 partitions; the view here has it after the next BROKER_READ */
    bool no_brokers, empty_cluster;        /* the view lists nobody */
    bool moving;                           /* every partition is being moved, to broker 7 */
    const char *other_host;                /* a second broker, number 2, is listed there */
    int32_t crowd;                         /* so many brokers more, from number 100 on, whose rows take memory as in life */
    int32_t parts_elsewhere;               /* so many partitions more of each topic are there, and no replica of them here */
    /* produce */
    uint64_t appended, appended_bytes;
    bool late_queued;                      /* broker_produce answers false; queued follows */
    bool hold_produce, hold_fetch;         /* answered by fake_release or, fetches, when cancelled */
    enum ot_err produce_error;
    int32_t order_next;                    /* a produce request whose first record byte is not this one is out of order */
    uint32_t out_of_order;
    struct broker_produce *held_produce[256];
    uint32_t held_produce_count;
    struct broker_fetch *held_fetch[256];
    uint32_t held_fetch_count;
    uint32_t cancelled;
    /* fetch: every partition holds the bytes of this file from here on */
    int file;
    uint32_t fetch_bytes;                  /* per partition; 0: empty */
    enum ot_err fetch_error, row_error;
    int32_t leader_elsewhere;              /* -1, or what rows and parts name as the leader */
    int32_t aborted;                       /* how many aborted transactions to tell; -1: null */
    _Atomic uint32_t pins_out;
    uint32_t produces, fetches, admins, offsets, producer_ids;
    bool hold_marks;                       /* transactions stay between decision and completion */
    uint32_t item_count;                   /* of all admin calls */
    struct broker_admin_item last_item;
    struct broker_telemetry telemetry;
    struct broker_fetch last_fetch;
    struct broker_produce last_produce;
};
extern struct fake_broker fake;
void fake_groups_free(void);

void fake_init(void);                      /* one broker, number 1, topics "a" (1 partition), "b" (3), "__in" (2, internal) */
void fake_free(void);
struct fake_topic *fake_topic(const char *name, int32_t partition_count);
void fake_release(void);                   /* answer what is held, newest first */
struct broker *fake_pointer(void);
/* fake_transactions.c */
struct broker_marker;
void fake_transactions_free(void);
const struct broker_marker *fake_last_marker(void);

/* fake_peers.c: what the peer listener brought last */
struct fake_peers { int32_t from; uint32_t bytes, asked /* of the REST API; under fake.mutex */; int8_t ask; int32_t voter, port; bool add; bool here; _Atomic int released, cancelled; };
extern struct fake_peers fake_peers;

#endif
