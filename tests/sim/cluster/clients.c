#include "world.h"

#include <stdio.h>
#include <string.h>

/* One of those that take themselves for the coordinator, mostly. */
static uint32_t leader_or_any(struct cluster *w, uint32_t *leading_out)
{
    uint32_t leading[NODES_MAX], count = 0;
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (w->nodes[i].up && !w->nodes[i].halted && w->nodes[i].leading) {
            leading[count++] = i;
        }
    }
    *leading_out = count;
    return count > 0 && ot_rng_chance(&w->rng, 0.8) ? leading[ot_rng_below(&w->rng, count)] : (uint32_t)ot_rng_below(&w->rng, w->node_count);
}

/* ---- who votes */

static bool is_voter(const struct node *asked, int32_t id, struct ot_uuid *dir_out)
{
    int32_t ids[COORD_VOTERS_MAX];
    struct ot_uuid dirs[COORD_VOTERS_MAX];
    uint32_t count = coord_voters_of(coord_view(asked->coord), ids, dirs);
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] == id) {
            *dir_out = dirs[i];
            return true;
        }
    }
    return false;
}

static void ask_voters(struct cluster *w, struct node *node, struct client *client)
{
    struct coord_voters_ask *ask = &client->request.u.voters;
    struct ot_uuid dir;
    client->request.ask = COORD_ASK_VOTERS;
    for (uint32_t i = 0; i < w->node_count; i++) {         /* who lost its folder comes first */
        struct node *lost = &w->nodes[i];
        if (lost->wiped && is_voter(node, lost->id, &dir) && !ot_uuid_equal(&dir, &lost->dir_id)) {
            *ask = (struct coord_voters_ask){ .add = true, .remove = true, .id = lost->id, .remove_id = lost->id, .dir_id = lost->dir_id, .host = ot_str_of("h"), .port = 9093 };
            return;
        }
    }
    struct node *other = &w->nodes[ot_rng_below(&w->rng, w->node_count)];
    if (other->observer || w->calm || !w->changes_voters) {
        client->request.ask = COORD_ASK_READ;
    } else if (is_voter(node, other->id, &dir)) {
        *ask = (struct coord_voters_ask){ .remove = true, .remove_id = other->id };
    } else {
        *ask = (struct coord_voters_ask){ .add = true, .id = other->id, .dir_id = other->dir_id, .host = ot_str_of("h"), .port = 9093 };
    }
}

/* As the broker that runs in that node: again after each start, with what its build knows. */
static void register_node(const struct node *node, struct coord_request *request)
{
    *request = (struct coord_request){ .if_version = -1, .ask = COORD_ASK_REGISTER, .u.register_ = { .broker_id = node->id, .incarnation_id = { { 7 } }, .rack = { .null = true },
        .levels = node->levels, .release = ot_str_of("release") } };
    ot_store_u64(request->u.register_.incarnation_id.bytes + 1, node->life);
}

/* Somebody upgrades: brokers register, and the level goes up when all know the next one. */
static void prepare_upgrade(struct cluster *w, struct coord_request *request)
{
    const struct node *node = &w->nodes[ot_rng_below(&w->build_rng, w->node_count)];
    if (ot_rng_chance(&w->build_rng, 0.7) && node->up && !node->observer) {
        register_node(node, request);
    } else {
        request->ask = COORD_ASK_LEVEL;
        request->u.level.level = (int16_t)(1 + ot_rng_below(&w->build_rng, BUILDS_NEWEST));
    }
}

/* Several take themselves for the coordinator: which of them may tell a broker that it lives? */
static bool leading_apart(const struct cluster *w)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->node_count; i++) {
        count += w->nodes[i].up && !w->nodes[i].halted && w->nodes[i].leading;
    }
    return count > 1;
}

static bool beats(const struct node *node, struct coord_request *request)
{
    struct ot_coord_broker_row row;
    struct ot_arena arena;
    uint8_t room[4096];
    ot_arena_init_with(&arena, room, sizeof room, 0);
    if (coord_broker_get(coord_view(node->coord), 1, &arena, &row) != OT_OK || row.fenced) {
        return false;
    }
    request->ask = COORD_ASK_HEARTBEAT;
    request->u.heartbeat = (struct coord_heartbeat){ .broker_id = 1, .broker_epoch = row.broker_epoch, .applied_version = coord_view(node->coord)->stamp.version };
    return true;
}

static void prepare(struct cluster *w, struct node *node, struct client *client)
{
    struct coord_request *request = &client->request;
    uint64_t kind = ot_rng_below(&w->rng, 100);
    *request = (struct coord_request){ .if_version = -1 };
    client->acked_before = w->acked_version;
    client->led_before = w->led_term;
    if (w->swarm.builds && !w->calm && ot_rng_chance(&w->build_rng, 0.2)) {
        prepare_upgrade(w, request);
        return;
    }
    if (w->setup.host == NULL && leading_apart(w) && ot_rng_chance(&w->rng, 0.3) && beats(node, request)) {
        return;
    }
    if (kind < 45 && w->setup.host == NULL) {
        snprintf(client->name, sizeof client->name, "topic%u", ++w->names);
        request->ask = COORD_ASK_CREATE_TOPIC;
        request->u.topic = (struct coord_topic_ask){ .name = ot_str_of(client->name), .partition_count = 1 + (int32_t)ot_rng_below(&w->rng, 5), .replication_factor = -1 };
        request->validate_only = ot_rng_chance(&w->rng, 0.03);
    } else if (kind < 70) {
        request->ask = COORD_ASK_PRODUCER_IDS;
        request->u.producer_ids.count = 10;
    } else if (kind < 85) {
        request->ask = COORD_ASK_READ;
    } else {
        ask_voters(w, node, client);
    }
}

/* A broker that may hold topics. */
static bool need_broker(const struct node *node)
{
    struct ot_coord_broker_row row;
    struct ot_arena arena;
    uint8_t room[4096];
    ot_arena_init_with(&arena, room, sizeof room, 0);
    return coord_broker_get(coord_view(node->coord), 1, &arena, &row) != OT_OK || row.fenced;
}

static void prepare_broker(const struct cluster *w, struct node *node, struct client *client)
{
    struct ot_coord_broker_row row;
    struct ot_arena arena;
    uint8_t room[4096];
    ot_arena_init_with(&arena, room, sizeof room, 0);
    client->request = (struct coord_request){ .if_version = -1, .ask = COORD_ASK_REGISTER,
        .u.register_ = { .broker_id = 1, .incarnation_id = { { 7 } }, .rack = { .null = true } } };
    if (w->swarm.builds) {
        register_node(&w->nodes[0], &client->request);
    }
    if (coord_broker_get(coord_view(node->coord), 1, &arena, &row) == OT_OK) {
        client->request.ask = COORD_ASK_HEARTBEAT;
        client->request.u.heartbeat = (struct coord_heartbeat){ .broker_id = 1, .broker_epoch = row.broker_epoch,
            .applied_version = coord_view(node->coord)->stamp.version };
    }
}

void client_ask(struct cluster *w)
{
    struct client *client = &w->clients[ot_rng_below(&w->rng, CLIENTS)];
    uint32_t leading, at = leader_or_any(w, &leading);
    struct node *node = &w->nodes[at];
    w->next_client_us = w->now_us + ot_rng_below(&w->rng, w->calm ? 120000 : w->client_gap_us);
    if (client->busy || !node->up || node->halted || node->paused_until_us > w->now_us) {
        return;
    }
    if (w->setup.host == NULL && node->leading && need_broker(node)) {
        prepare_broker(w, node, client);
        client->acked_before = w->acked_version;
        client->led_before = w->led_term;
    } else {
        prepare(w, node, client);
        if (leading > 1 && client->request.ask != COORD_ASK_HEARTBEAT && ot_rng_chance(&w->rng, 0.5)) {      /* one of them is behind: does it know? */
            client->request.ask = COORD_ASK_READ;
        }
    }
    client->busy = true;
    client->node = at;
    client->life = node->life;
    node_step(w, node, (struct coord_in){ .kind = COORD_REQUEST, .request = &client->request });
}

void clients_of_stopped(struct cluster *w, const struct node *node)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (w->clients[i].busy && &w->nodes[w->clients[i].node] == node) {
            w->clients[i].busy = false;        /* never to know */
            w->unknown++;
        }
    }
}

void client_answered(struct cluster *w, struct node *node, struct coord_request *request)
{
    struct client *client = OT_CONTAINER(request, struct client, request);
    if ((uintptr_t)client < (uintptr_t)w->clients || (uintptr_t)client >= (uintptr_t)(w->clients + CLIENTS)) {
        w->setup.answered(w->setup.host, request);
        return;
    }
    CHECK(client->busy);
    client->busy = false;
    *(request->error == OT_OK ? &w->raises : &w->raises_refused) += request->ask == COORD_ASK_LEVEL;
    if (request->error != OT_OK) {
        *(request->error == OT_ERR_CLOSED ? &w->unknown : &w->refused) += 1;
        return;
    }
    if (request->validate_only) {
        return;
    }
    HOLDS(29, request->ask != COORD_ASK_HEARTBEAT || coord_term(node->coord) >= client->led_before);       /* it is taken for a lease: whoever led by then counts from before it */
    int64_t seen = node->applied.version;
    w->acked++;
    if (request->ask == COORD_ASK_READ) {
        HOLDS(28, seen >= client->acked_before);       /* whatever anybody was told before the question is there */
        w->reads++;
        return;
    }
    CHECK(request->version <= seen && request->version <= w->commit_max);
    w->acked_version = OT_MAX(w->acked_version, request->version);
    if (request->ask == COORD_ASK_CREATE_TOPIC && w->topic_count < TOPICS_MAX) {
        struct topic *topic = &w->topics[w->topic_count++];
        memcpy(topic->name, client->name, sizeof topic->name);
        topic->id = request->topic_id;
    } else if (request->ask == COORD_ASK_PRODUCER_IDS) {
        CHECK(request->producer_id_first % 10 == 0 && request->producer_id_first / 10 < BLOCKS_MAX && !w->blocks[request->producer_id_first / 10]);
        w->blocks[request->producer_id_first / 10] = true;     /* none is given twice; a late answer may be about an early one */
    } else if (request->ask == COORD_ASK_VOTERS) {
        w->voters_changes++;
    }
}
