/* Incremental fetch sessions (KIP-227): the partitions that a client keeps asking for, remembered, so that a poll names only changes.
 *
 * Broker-wide, since clients change connections; one request of a session at a time: the epoch decides, the other one gets INVALID_FETCH_SESSION_EPOCH. The cache is
 * bounded in sessions, in entries and in bytes. A full cache gives up the session that was idle longest, if that is over two minutes; otherwise a client may push
 * out only its own oldest one, and only when it holds more than its share: a leaky client ends with session id 0 and harms nobody. Followers are not counted
 * among the clients, and their entries are there whatever those hold: each of their streams has one session, and a new one takes the place of the one that it had, wherever it came
 * from then; else that of a stream of which nothing was heard for two minutes. Beyond BROKER_FETCH_FOLLOWERS_MAX the one that was idle longest goes: its follower begins anew at once. */
#include "broker/fetch_set.h"
#include "base/log.h"
#include "base/util.h"
#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 1000000u                   /* of all sessions of clients together */
#define POOL_BYTES (64u << 20)                 /* without a budget */
#define KEY_HEAD_BYTES 5u
#define IDLE_US 120000000                      /* Kafka's min.incremental.fetch.session.eviction.ms */

struct used { struct broker_fetch_set *first, *last; uint32_t count; };        /* first = used longest ago */
struct broker_fetch_sessions {
    pthread_mutex_t mutex;
    struct ot_map by_id;
    struct used clients, followers;
    uint32_t entries;
    struct ot_rng rng;
    struct ot_mem_pool own_pool, *pool;
};

enum ot_err broker_fetch_sessions_new(struct ot_mem_pool *pool, struct broker_fetch_sessions **out)
{
    struct broker_fetch_sessions *sessions = calloc(1, sizeof(*sessions));
    if (sessions == NULL) return OT_ERR_NO_MEMORY;
    pthread_mutex_init(&sessions->mutex, NULL);
    ot_map_init(&sessions->by_id);
    uint64_t seed;                             /* ids of another life of the server must not be met again: a client would be in a stranger's session */
    ot_random_bytes(&seed, sizeof(seed));
    ot_rng_seed(&sessions->rng, seed);
    sessions->own_pool = (struct ot_mem_pool){ .name = "sessions", .cap_bytes = POOL_BYTES };
    sessions->pool = pool != NULL ? pool : &sessions->own_pool;
    *out = sessions;
    return OT_OK;
}

static struct used *used_of(struct broker_fetch_sessions *sessions, const struct broker_fetch_set *set) { return set->follower ? &sessions->followers : &sessions->clients; }

static void lru_take(struct broker_fetch_sessions *sessions, struct broker_fetch_set *set)
{
    struct used *used = used_of(sessions, set);
    if (set->lru_prev != NULL) set->lru_prev->lru_next = set->lru_next;
    else used->first = set->lru_next;
    if (set->lru_next != NULL) set->lru_next->lru_prev = set->lru_prev;
    else used->last = set->lru_prev;
    set->lru_prev = set->lru_next = NULL;
    used->count--;
}

static void lru_put(struct broker_fetch_sessions *sessions, struct broker_fetch_set *set)
{
    struct used *used = used_of(sessions, set);
    set->lru_next = NULL;
    set->lru_prev = used->last;
    if (used->last != NULL) used->last->lru_next = set;
    else used->first = set;
    used->last = set;
    used->count++;
}

/* ---- memory: followers get what they need, for they are known and few */

/* With what the map keeps of it: its key, and at most two slots. */
static uint64_t entry_bytes(bool by_id, uint32_t name_bytes)
{
    const uint64_t key_bytes = KEY_HEAD_BYTES + (by_id ? sizeof(struct ot_uuid) : name_bytes);
    return sizeof(struct broker_fetch_node) + (by_id ? 0 : name_bytes) + 1 + key_bytes + sizeof(struct ot_map_entry) + 2 * sizeof(uint32_t);
}

static bool bytes_take(struct broker_fetch_sessions *sessions, const struct broker_fetch_set *set, uint64_t bytes)
{
    if (!set->follower) return ot_mem_take(sessions->pool, bytes);
    ot_mem_force(sessions->pool, bytes);
    return true;
}

static void node_free(struct broker_fetch_sessions *sessions, struct broker_fetch_node *node)
{
    ot_mem_give(sessions->pool, entry_bytes(node->by_id, node->topic.bytes));
    broker_fetch_node_unhang(node);
    broker_fetch_collect(node->set);           /* after unhanging nobody signals it; take it out of the ready stack too */
    broker_fetch_clean(node);
    free(node);
}

static void set_free(struct broker_fetch_sessions *sessions, struct broker_fetch_set *set)
{
    for (uint32_t i = 0; i < set->nodes.count; i++) node_free(sessions, set->nodes.entries[i].value);
    ot_map_free(&set->nodes);
    ot_mem_give(sessions->pool, sizeof(*set));
    free(set);
}

/* Mutex held; the set is out of the table afterwards. True: the caller frees it once the mutex is released. */
static bool drop(struct broker_fetch_sessions *sessions, struct broker_fetch_set *set)
{
    (void)ot_map_remove(&sessions->by_id, &set->id, sizeof(set->id));
    lru_take(sessions, set);
    sessions->entries -= set->counted;
    set->closing = true;
    return !set->busy;                         /* else its fetch frees it on leaving */
}

void broker_fetch_sessions_free(struct broker_fetch_sessions *sessions)
{
    if (sessions == NULL) return;
    for (struct broker_fetch_set *set; (set = sessions->clients.first != NULL ? sessions->clients.first : sessions->followers.first) != NULL;)
        if (drop(sessions, set)) set_free(sessions, set);
    ot_map_free(&sessions->by_id);
    pthread_mutex_destroy(&sessions->mutex);
    free(sessions);
}

static size_t key_of(uint8_t key[static 280], const struct broker_fetch_ask *ask)
{
    size_t bytes = ask->topic.null ? sizeof(ask->topic_id.bytes) : ask->topic.bytes;
    OT_ASSERT(bytes + KEY_HEAD_BYTES <= 280);
    memcpy(key + KEY_HEAD_BYTES, ask->topic.null ? (const void *)ask->topic_id.bytes : (const void *)ask->topic.data, bytes);
    key[4] = ask->topic.null;
    memcpy(key, &ask->partition, 4);
    return bytes + KEY_HEAD_BYTES;
}

/* A longer name is none of a topic: who asks for such a one is answered without a session. */
static bool may_be_kept(const struct broker_fetch_ask *ask) { return ask->topic.null || ask->topic.bytes <= COORD_NAME_BYTES_MAX; }

/* Adds or updates one entry. False: no memory. */
static bool ask_one(struct broker_fetch_sessions *sessions, struct broker_fetch_set *set, const struct broker_fetch_ask *ask)
{
    uint8_t key[280];
    size_t key_bytes = key_of(key, ask);
    struct broker_fetch_node *node = ot_map_get(&set->nodes, key, key_bytes);
    if (node != NULL) {
        broker_fetch_node_ask(node, ask);
        return true;
    }
    const uint32_t name_bytes = ask->topic.null ? 0 : ask->topic.bytes;
    const uint64_t bytes = entry_bytes(ask->topic.null, name_bytes);
    if (!bytes_take(sessions, set, bytes)) return false;
    node = calloc(1, sizeof(*node) + name_bytes + 1);
    if (node == NULL || ot_map_put(&set->nodes, key, key_bytes, node) != OT_OK) {
        ot_mem_give(sessions->pool, bytes);
        free(node);
        return false;
    }
    broker_fetch_node_init(node, set, ask);
    if (!ask->topic.null) {
        memcpy(node + 1, ask->topic.data, name_bytes);
        node->topic.data = (const char *)(node + 1);
    }
    node->order = set->orders++;
    set->node_count++;
    return true;
}

static void forget_one(struct broker_fetch_sessions *sessions, struct broker_fetch_set *set, const struct broker_fetch_ask *ask)
{
    uint8_t key[280];
    struct broker_fetch_node *node = may_be_kept(ask) ? ot_map_remove(&set->nodes, key, key_of(key, ask)) : NULL;
    if (node == NULL) return;
    node_free(sessions, node);
    set->node_count--;
}

/* The client's session that was idle longest, if that is over two minutes, makes room. False: there is none. */
static bool give_up_idle(struct broker_fetch_sessions *sessions, int64_t now_us)
{
    pthread_mutex_lock(&sessions->mutex);
    struct broker_fetch_set *set = sessions->clients.first;
    while (set != NULL && set->busy) set = set->lru_next;
    const bool gone = set != NULL && now_us - set->used_us > IDLE_US && drop(sessions, set);
    pthread_mutex_unlock(&sessions->mutex);
    if (gone) set_free(sessions, set);
    return gone;
}

/* All that is asked for, into the set. False: not all of it may be kept, or there is no memory. */
static bool ask_all(struct broker_fetch_sessions *sessions, struct broker_fetch_set *set, const struct broker_fetch *fetch)
{
    for (uint32_t i = 0; i < fetch->ask_count; i++)
        if (!may_be_kept(&fetch->asks[i])) return false;
    for (uint32_t i = 0; i < fetch->ask_count; i++)
        while (!ask_one(sessions, set, &fetch->asks[i]))
            if (!give_up_idle(sessions, fetch->started_us)) return false;
    return true;
}

static uint64_t client_hash(const struct broker_fetch *fetch)
{
    uint64_t hash = ot_hash64(fetch->client.client_id.data, fetch->client.client_id.bytes, 1);
    if (fetch->follower) return ot_hash64(&fetch->replica_id, sizeof(fetch->replica_id), hash);
    return ot_hash64(fetch->client.address.data, fetch->client.address.bytes, hash);
}

/* Mutex held: the session that this stream of a follower had before, else one that nobody uses any more, goes. */
static void take_place(struct broker_fetch_sessions *sessions, uint64_t client, int64_t now_us, struct broker_fetch_set **victim_out)
{
    struct broker_fetch_set *oldest = sessions->followers.first, *set = oldest;
    while (set != NULL && set->client_hash != client) set = set->lru_next;
    if (set == NULL && oldest != NULL && (sessions->followers.count >= BROKER_FETCH_FOLLOWERS_MAX || now_us - oldest->used_us > IDLE_US)) set = oldest;
    if (set != NULL && drop(sessions, set)) *victim_out = set;
}

/* Mutex held: may one more session of a client exist? *victim_out is to be freed by the caller, if any. */
static bool make_room(struct broker_fetch_sessions *sessions, uint32_t slots, uint64_t client, int64_t now_us, struct broker_fetch_set **victim_out)
{
    if (slots == 0) return false;
    if (sessions->clients.count < slots) return true;
    struct broker_fetch_set *oldest = sessions->clients.first, *own = NULL;
    uint32_t own_count = 0;
    if (now_us - oldest->used_us <= IDLE_US || oldest->busy) {
        for (struct broker_fetch_set *set = sessions->clients.first; set != NULL; set = set->lru_next) {
            if (set->client_hash != client) continue;
            own_count++;
            if (own == NULL && !set->busy) own = set;
        }
        if (own == NULL || own_count <= OT_MAX(slots / 8, 1u)) return false;
        oldest = own;
    }
    if (drop(sessions, oldest)) *victim_out = oldest;
    return true;
}

static uint32_t counted_of(const struct broker_fetch_set *set) { return set->follower ? 0 : set->node_count; }

static struct broker_fetch_set *create(struct broker_fetch *fetch, struct broker_fetch_sessions *sessions)
{
    uint32_t slots = (uint32_t)broker_config(fetch->broker)->max_incremental_fetch_session_cache_slots;
    uint64_t client = client_hash(fetch);
    struct broker_fetch_set *victim = NULL, *set = calloc(1, sizeof(*set));
    if (set == NULL) return NULL;
    ot_map_init(&set->nodes);
    set->busy = true;
    set->client_hash = client;
    set->by_ids = fetch->api_version >= 13;
    set->follower = fetch->follower;
    ot_mem_force(sessions->pool, sizeof(*set));            /* bounded by the slots */
    const bool filled = fetch->ask_count <= ENTRIES_MAX && ask_all(sessions, set, fetch);
    pthread_mutex_lock(&sessions->mutex);
    if (filled && fetch->follower) take_place(sessions, client, fetch->started_us, &victim);
    bool room = filled && (fetch->follower || sessions->entries < ENTRIES_MAX);
    if (room && !fetch->follower) room = make_room(sessions, slots, client, fetch->started_us, &victim);
    if (room) {
        do set->id = (int32_t)(ot_rng_next(&sessions->rng) >> 33);
        while (set->id == 0 || ot_map_get(&sessions->by_id, &set->id, sizeof(set->id)) != NULL);
        room = ot_map_put(&sessions->by_id, &set->id, sizeof(set->id), set) == OT_OK;
    }
    if (room) {
        set->epoch = 1;
        set->used_us = fetch->started_us;
        atomic_store(&set->asked_us, fetch->started_us);
        set->counted = counted_of(set);
        sessions->entries += set->counted;
        lru_put(sessions, set);
    }
    pthread_mutex_unlock(&sessions->mutex);
    if (victim != NULL) set_free(sessions, victim);
    if (room) return set;
    set_free(sessions, set);
    return NULL;
}

static void close_id(struct broker_fetch_sessions *sessions, const struct broker_fetch *fetch)
{
    pthread_mutex_lock(&sessions->mutex);
    struct broker_fetch_set *set = ot_map_get(&sessions->by_id, &fetch->session_id, sizeof(fetch->session_id));
    const bool mine = set != NULL && set->follower == fetch->follower && drop(sessions, set);
    pthread_mutex_unlock(&sessions->mutex);
    if (mine) set_free(sessions, set);
}

static struct broker_fetch_set *resume(struct broker_fetch *fetch, struct broker_fetch_sessions *sessions)
{
    pthread_mutex_lock(&sessions->mutex);
    struct broker_fetch_set *set = ot_map_get(&sessions->by_id, &fetch->session_id, sizeof(fetch->session_id));
    if (set == NULL) fetch->error = OT_ERR_FETCH_SESSION_ID_NOT_FOUND;
    else if (set->busy || set->epoch != fetch->session_epoch) fetch->error = OT_ERR_INVALID_FETCH_SESSION_EPOCH;
    else if (set->by_ids != (fetch->api_version >= 13) || set->follower != fetch->follower) fetch->error = OT_ERR_FETCH_SESSION_TOPIC_ID_ERROR;
    else if (!set->follower && sessions->entries + fetch->ask_count > ENTRIES_MAX + set->counted) fetch->error = OT_ERR_FETCH_SESSION_ID_NOT_FOUND;
    if (fetch->error == OT_OK) {
        set->busy = true;
        set->epoch = set->epoch == INT32_MAX ? 1 : set->epoch + 1;
        set->used_us = fetch->started_us;
        atomic_store(&set->asked_us, fetch->started_us);
        lru_take(sessions, set);
        lru_put(sessions, set);
    }
    pthread_mutex_unlock(&sessions->mutex);
    if (fetch->error != OT_OK) return NULL;
    set->incremental = true;
    for (uint32_t i = 0; i < fetch->forgotten_count; i++) forget_one(sessions, set, &fetch->forgotten[i]);
    const bool added = ask_all(sessions, set, fetch);
    pthread_mutex_lock(&sessions->mutex);
    if (!set->closing) {
        sessions->entries += counted_of(set) - set->counted;
        set->counted = counted_of(set);
    }
    pthread_mutex_unlock(&sessions->mutex);
    if (added) return set;
    fetch->set = set;
    broker_fetch_session_leave(fetch);
    fetch->set = NULL;
    fetch->error = OT_ERR_FETCH_SESSION_ID_NOT_FOUND;      /* no memory for it: the client starts anew */
    return NULL;
}

struct broker_fetch_set *broker_fetch_session_enter(struct broker_fetch *fetch)
{
    struct broker_fetch_sessions *sessions = broker_core_of(fetch->broker)->sessions;
    if (fetch->session_id != 0 && fetch->session_epoch > 0) {
        struct broker_fetch_set *set = resume(fetch, sessions);
        fetch->session_id_out = set == NULL ? 0 : set->id;
        return set;
    }
    if (fetch->session_epoch > 0) {
        fetch->error = OT_ERR_INVALID_FETCH_SESSION_EPOCH;
        return NULL;
    }
    if (fetch->session_id != 0) close_id(sessions, fetch);
    if (fetch->session_epoch == 0) {
        struct broker_fetch_set *set = create(fetch, sessions);
        if (set != NULL) {
            fetch->session_id_out = set->id;
            return set;
        }
    }
    return broker_fetch_set_of_request(fetch);
}

void broker_fetch_session_leave(struct broker_fetch *fetch)
{
    struct broker_fetch_sessions *sessions = broker_core_of(fetch->broker)->sessions;
    struct broker_fetch_set *set = fetch->set;
    pthread_mutex_lock(&sessions->mutex);
    set->busy = false;
    set->used_us = ot_exec_now_us(fetch->call.home);
    bool mine = set->closing;
    pthread_mutex_unlock(&sessions->mutex);
    if (mine) set_free(sessions, set);
}
