#include "coordinator/group_consumer.h"

#include "base/log.h"
#include "base/wire/consumer_group_describe_response.h"
#include "base/wire/consumer_group_heartbeat_request.h"
#include "base/wire/consumer_group_heartbeat_response.h"

#include <stdio.h>
#include <string.h>

static const struct ot_str no_text = { .null = true };

/* ---- topics, as the catalog has them */

struct racks_of { const struct group_catalog *catalog; const struct ot_uuid *id; };

static uint32_t racks(const void *arg, int32_t partition, struct ot_str *out, uint32_t max)
{
    const struct racks_of *of = arg;
    return of->catalog->racks == NULL ? 0 : of->catalog->racks(of->catalog, of->id, partition, out, max);
}

static void topic_take(const struct group_catalog *catalog, const struct group_catalog_topic *from, bool with_hash, struct coord_cg_topic *out)
{
    const struct racks_of of = { catalog, &from->id };
    *out = (struct coord_cg_topic){ from->id, from->name, from->partition_count, with_hash ? coord_cg_topic_hash(&from->id, from->name, from->partition_count, racks, &of) : 0 };
}

static bool by_name(void *arg, struct ot_str name, struct coord_cg_topic *out)
{
    const struct group_catalog *catalog = arg;
    struct group_catalog_topic topic;
    if (catalog == NULL || !catalog->by_name(catalog, name, &topic)) return false;
    topic_take(catalog, &topic, true, out);
    return true;
}

static bool by_id(void *arg, const struct ot_uuid *id, struct coord_cg_topic *out)
{
    const struct group_catalog *catalog = arg;
    struct group_catalog_topic topic;
    if (catalog == NULL || !catalog->by_id(catalog, id, &topic)) return false;
    topic_take(catalog, &topic, false, out);
    return true;
}

static bool next(void *arg, struct ot_str after, struct coord_cg_topic *out)
{
    const struct group_catalog *catalog = arg;
    struct group_catalog_topic topic;
    if (catalog == NULL || !catalog->next(catalog, after, &topic)) return false;
    topic_take(catalog, &topic, false, out);
    return true;
}

/* ---- calls */

void consumer_step_init(struct consumer_step *step, struct group_set *set, struct ot_str group_id, struct ot_arena *answers)
{
    static const struct consumer_group_config not_served;      /* a log may hold such groups all the same */
    const struct group_env *env = set->env;
    const struct consumer_group_config *config = env->config->consumer == NULL ? &not_served : env->config->consumer;
    const int64_t version = env->catalog == NULL ? 0 : env->catalog->version;
    step->config = config->all;
    step->config.classic_size_max = env->config->group_size_max;
    if (config->of_group != NULL) config->of_group(config, group_id, &step->config);
    step->topics = (struct coord_cg_topics){ (void *)(uintptr_t)env->catalog, version, version, by_name, by_id, next };
    step->call = (struct coord_cg_call){ .now_us = env->now_us, .wall_ms = env->wall_ms, .config = &step->config, .topics = &step->topics, .arena = set->out->arena,
        .answers = answers };
}

enum ot_err consumer_error(struct group_set *set, struct consumer_step *step, enum ot_err err, bool of_the_state)
{
    if (of_the_state && step->call.broken) set->out->fail = OT_ERR_NO_MEMORY;
    return err == OT_ERR_NO_MEMORY ? OT_ERR_COORDINATOR_NOT_AVAILABLE : err;
}

void consumer_words(struct group_ask *ask, const struct consumer_step *step)
{
    if (step->call.text[0] != 0) ask->text = ot_arena_str(ask->arena, ot_str_of(step->call.text));
}

static void take_records(struct group_set *set, const struct coord_cg_call *call)
{
    for (const struct coord_cg_record *from = call->records; from != NULL; from = from->next) {
        struct group_record *record = ot_arena_alloc(set->out->arena, sizeof *record);
        if (record == NULL) {
            set->out->fail = OT_ERR_NO_MEMORY;
            return;
        }
        *record = (struct group_record){ NULL, from->key, from->value };
        *set->out->records_last = record;
        set->out->records_last = &record->next;
        set->out->record_count++;
    }
}

static void timer_arm(struct group *group)
{
    struct consumer *consumer = consumer_of(group);
    const int64_t due_us = coord_cg_deadline_us(consumer->cg);
    if (due_us == INT64_MAX) group_timer_cancel(group->set, &consumer->timer);
    else if (consumer->timer.heap_index == 0 || consumer->timer.deadline_us != due_us) group_timer_set(group->set, &consumer->timer, due_us);
}

static void timeline(struct group *group, const struct coord_cg_call *call, struct ot_str member, struct ot_str client)
{
    static const enum group_reason reasons[] = { [COORD_CG_JOINED] = GROUP_REASON_JOINED, [COORD_CG_LEFT] = GROUP_REASON_LEFT, [COORD_CG_SESSION_OVER] = GROUP_REASON_EXPIRED,
        [COORD_CG_REBALANCE_OVER] = GROUP_REASON_EXPIRED, [COORD_CG_EVICTED] = GROUP_REASON_EVICTED, [COORD_CG_SUBSCRIPTION] = GROUP_REASON_METADATA,
        [COORD_CG_ASSIGNOR] = GROUP_REASON_METADATA, [COORD_CG_TOPICS] = GROUP_REASON_TOPICS_CHANGED, [COORD_CG_FROM_CLASSIC] = GROUP_REASON_TYPE_CHANGED };
    struct consumer *consumer = consumer_of(group);
    const uint32_t members = coord_cg_member_count(consumer->cg), members_before = consumer->members;
    const enum coord_cg_state state = coord_cg_state(consumer->cg);
    struct coord_cg_member_view view;
    uint32_t partitions = 0;
    if (call->event != COORD_CG_NOTHING) {
        if (group_rebalance_event(group) == NULL) consumer->moved = 0;
        group_rebalance_begin(group, reasons[call->event], member, client, no_text);
        struct group_event *event = group_rebalance_event(group);
        if (event != NULL && event->duration_ms < 0) {
            event->members_joined += members > members_before ? members - members_before : 0;
            event->members_gone += members < members_before ? members_before - members : 0;
        }
    }
    consumer->moved += call->moved;
    consumer->members = members;
    if (group->rebalancing_prev == NULL || (state != COORD_CG_STABLE && state != COORD_CG_EMPTY)) return;
    for (uint32_t at = 0; coord_cg_next_member(consumer->cg, &at, &view);) partitions += view.assigned->count;
    group_rebalance_end(group, coord_cg_epoch(consumer->cg), partitions, consumer->moved);
}

static void become_classic(struct group *group, const struct coord_cg_classic *classic)
{
    struct consumer *consumer = consumer_of(group);
    struct coord_cg *cg = consumer->cg;
    consumer->cg = NULL;
    group->ops->free(group);
    consumer_import(group, classic);
    coord_cg_free(cg);
}

void consumer_took(struct group *group, struct consumer_step *step, struct ot_str member, struct ot_str client)
{
    struct group_set *set = group->set;
    take_records(set, &step->call);
    if (step->call.classic != NULL) {
        become_classic(group, step->call.classic);
        return;
    }
    timeline(group, &step->call, member, client);
    timer_arm(group);
    if (step->call.target_kept) {
        char field[OT_LOG_FIELD_BYTES];
        ot_log(OT_LOG_WARN, "groups", "target_kept", "group=%s members=%u max_bytes=%u: a new assignment does not fit into one change, and the last one stays",
            ot_log_field_n(field, group->id.data, group->id.bytes), coord_cg_member_count(consumer_of(group)->cg), step->call.config->record_bytes_max);
    }
}

static void fired(struct ot_timer *timer)
{
    struct consumer *consumer = OT_CONTAINER(timer, struct consumer, timer);
    struct group *group = consumer->group;
    struct consumer_step step;
    consumer_step_init(&step, group->set, group->id, NULL);
    const uint32_t members = coord_cg_member_count(consumer->cg);
    const enum ot_err err = coord_cg_expire(consumer->cg, &step.call);
    if (err != OT_OK) {
        (void)consumer_error(group->set, &step, err, true);
        group_timer_set(group->set, timer, group->set->env->now_us + 1000000);     /* no memory now: once more in a second */
        return;
    }
    const bool stays = step.call.classic == NULL;
    consumer_took(group, &step, no_text, no_text);
    if (stays) group->set->counts.expired_members += members - coord_cg_member_count(consumer->cg);
}

/* ---- bodies */

bool consumer_begin(struct group *group, struct coord_cg *cg)
{
    struct group_set *set = group->set;
    if (!group_timers_more(set, 1)) return false;
    struct consumer *consumer = group_alloc(set, sizeof *consumer);
    if (consumer == NULL) {
        group_timers_less(set, 1);
        return false;
    }
    *consumer = (struct consumer){ .cg = cg, .group = group, .timer = { .fired = fired } };
    group->body = consumer;
    group->ops = &group_consumer_ops;
    set->counts.groups[GROUP_CONSUMER]++;
    return true;
}

static void consumer_free(struct group *group)
{
    struct consumer *consumer = consumer_of(group);
    struct group_set *set = group->set;
    group_timer_cancel(set, &consumer->timer);
    group_timers_less(set, 1);
    coord_cg_free(consumer->cg);
    group_free(set, consumer, sizeof *consumer);
    set->counts.groups[GROUP_CONSUMER]--;
    group->body = NULL;
    group->ops = NULL;
}

/* ---- a heartbeat, and the group that it may make */

/* The group that a join finds: its own, or a new one that is not yet the group's body. */
struct entry { struct group *group; struct coord_cg *cg; bool fresh; };

static enum ot_err enter_classic(struct group_set *set, struct consumer_step *step, struct entry *entry)
{
    struct group *group = entry->group;
    if (group->ops->type != GROUP_CLASSIC) return OT_ERR_GROUP_ID_NOT_FOUND;
    if (group->ops->empty(group)) return OT_OK;
    if ((step->config.migration & COORD_CG_UPGRADE) == 0 || group->ops->member_count(group) > (uint32_t)step->config.size_max ||
        !ot_str_equal(group->ops->protocol_type(group), ot_str_of("consumer"))) {
        (void)snprintf(step->call.text, sizeof step->call.text, "Cannot upgrade classic group %.*s to consumer group.", (int)OT_MIN(group->id.bytes, 100u), group->id.data);
        return OT_ERR_GROUP_ID_NOT_FOUND;
    }
    const struct coord_cg_classic *classic = consumer_export(group, set->out->arena);
    return classic == NULL ? OT_ERR_NO_MEMORY : coord_cg_from_classic(entry->cg, &step->call, classic);
}

static enum ot_err enter(struct group_set *set, struct group_ask *ask, struct consumer_step *step, bool joins, struct entry *entry)
{
    *entry = (struct entry){ .group = group_find(set, ask->group_id) };
    if (entry->group != NULL && entry->group->ops == &group_consumer_ops) {
        entry->cg = consumer_of(entry->group)->cg;
        return OT_OK;
    }
    if (!joins) {
        const struct ot_str id = ask->group_id;
        (void)snprintf(step->call.text, sizeof step->call.text, entry->group == NULL ? "Group %.*s not found." : "Group %.*s is not a consumer group.", (int)OT_MIN(id.bytes, 100u), id.data);
        return OT_ERR_GROUP_ID_NOT_FOUND;
    }
    const enum ot_err err = coord_cg_new(ask->group_id, set->pool, &entry->cg);
    if (err != OT_OK) return err;
    entry->fresh = true;
    return entry->group == NULL ? OT_OK : enter_classic(set, step, entry);
}

/* The fresh one becomes the group: what was classic is ended in the same change. */
static bool settle(struct group_set *set, struct group_ask *ask, struct entry *entry)
{
    struct group *group = entry->group;
    if (!entry->fresh) return true;
    if (group != NULL) {
        group->ops->close(group, OT_ERR_REBALANCE_IN_PROGRESS);
        group->ops->tombstones(group);
        group->ops->free(group);
    } else if ((group = group_add(set, ask->group_id)) == NULL) {
        return false;
    }
    if (!consumer_begin(group, entry->cg)) {
        set->out->fail = OT_ERR_NO_MEMORY;                     /* the old body, if there was one, is gone: load it all anew */
        group->ops = &group_lost_ops;
        return false;
    }
    entry->group = group;
    entry->fresh = false;
    return true;
}

static void refuse(struct group_set *set, struct group_ask *ask, const struct consumer_step *step, enum ot_err err)
{
    struct ot_consumer_group_heartbeat_response *response = ask->response;
    ot_consumer_group_heartbeat_response_defaults(response);
    if (step != NULL) consumer_words(ask, step);
    response->error_code = ot_err_kafka(err);
    response->error_message = ot_str_of(ask->text != NULL ? ask->text : ot_err_text(err));
    group_answer(set, ask, err);
}

/* Version 0 lets the server choose the id. */
static bool give_id(struct group_set *set, struct group_ask *ask, struct ot_consumer_group_heartbeat_request *request)
{
    char text[23];
    struct ot_uuid id;
    const uint64_t halves[2] = { ot_rng_next(&set->rng), ot_rng_next(&set->rng) };
    memcpy(&id, halves, sizeof id);
    id.bytes[0] &= 0x7f;                       /* does not begin with a dash */
    ot_uuid_text(&id, text);
    return group_arena_str(ask->arena, ot_str_of(text), &request->member_id);
}

static void heartbeat(struct group_set *set, struct group_ask *ask)
{
    struct ot_consumer_group_heartbeat_request request = *(const struct ot_consumer_group_heartbeat_request *)ask->request;
    struct consumer_step step;
    struct entry entry = { 0 };
    consumer_step_init(&step, set, ask->group_id, ask->arena);
    enum ot_err err = coord_cg_check(&request, ask->version, &step.call);
    if (err == OT_OK && request.member_id.bytes == 0 && !give_id(set, ask, &request)) err = OT_ERR_NO_MEMORY;
    if (err == OT_OK) err = enter(set, ask, &step, request.member_epoch == 0, &entry);
    if (err == OT_OK) err = coord_cg_heartbeat(entry.cg, &step.call, &request, ask->client_id, ask->client_host, ask->response);
    if (err == OT_OK && !settle(set, ask, &entry)) err = OT_ERR_NO_MEMORY;
    if (err != OT_OK) {
        err = consumer_error(set, &step, err, !entry.fresh);
        if (entry.fresh) coord_cg_free(entry.cg);
        refuse(set, ask, &step, err);
        return;
    }
    consumer_took(entry.group, &step, request.member_id, ask->client_id);
    group_answer(set, ask, OT_OK);
}

static void describe(struct group_set *set, struct group_ask *ask)
{
    const struct group *group = group_find(set, ask->group_id);
    struct consumer_step step;
    enum ot_err err = OT_ERR_GROUP_ID_NOT_FOUND;
    consumer_step_init(&step, set, ask->group_id, ask->arena);
    if (group != NULL && group->ops == &group_consumer_ops) err = coord_cg_describe(consumer_of(group)->cg, &step.call, ask->response);
    else (void)snprintf(step.call.text, sizeof step.call.text, group == NULL ? "Group %.*s not found." : "Group %.*s is not a consumer group.",
        (int)OT_MIN(ask->group_id.bytes, 100u), ask->group_id.data);
    consumer_words(ask, &step);
    group_answer(set, ask, consumer_error(set, &step, err, false));
}

void group_consumer_ask(struct group_set *set, struct group_ask *ask)
{
    if (set->env->config->consumer == NULL) {
        if (ask->kind == GROUP_ASK_CONSUMER_HEARTBEAT) refuse(set, ask, NULL, OT_ERR_UNSUPPORTED_VERSION);
        else group_answer(set, ask, OT_ERR_UNSUPPORTED_VERSION);
    } else if (ask->kind == GROUP_ASK_CONSUMER_HEARTBEAT) {
        heartbeat(set, ask);
    } else {
        describe(set, ask);
    }
}

/* ---- the log */

/* After the group's last record: what its offsets need stays, as an empty classic group. */
static enum ot_err replay_gone(struct group *group)
{
    if (group->topic_count == 0) {
        group_remove(group);
        return OT_OK;
    }
    group->ops->free(group);
    if (group_classic_begin(group)) return OT_OK;
    group->ops = &group_lost_ops;
    return OT_ERR_NO_MEMORY;
}

static enum ot_err replay_begin(struct group_set *set, struct ot_str id, struct group **out)
{
    struct coord_cg *cg;
    struct group *group = *out;
    const bool is_new = group == NULL;
    enum ot_err err = coord_cg_new(id, set->pool, &cg);
    if (err != OT_OK) return err;
    if (is_new) group = group_add(set, id);
    else group->ops->free(group);              /* an offsets-only group, or what this group was before it was converted */
    if (group != NULL && consumer_begin(group, cg)) {
        *out = group;
        return OT_OK;
    }
    coord_cg_free(cg);
    if (group != NULL) group->ops = &group_lost_ops;
    return OT_ERR_NO_MEMORY;
}

enum ot_err group_consumer_replay(struct group_set *set, const struct group_set_record *record, int16_t type, struct ot_arena *arena)
{
    struct ot_str id;
    bool gone = false;
    (void)type, (void)arena;
    if (!coord_cg_record_is_ours(record->key, &id)) return OT_ERR_NOT_FOUND;
    struct group *group = group_find(set, id);
    if (group == NULL || group->ops != &group_consumer_ops) {
        if (record->value.null) return OT_OK;
        const enum ot_err err = replay_begin(set, id, &group);
        if (err != OT_OK) return err;
    }
    const enum ot_err err = coord_cg_replay(consumer_of(group)->cg, record->key, record->value, &gone);
    if (err == OT_OK && gone) return replay_gone(group);
    return err;
}

/* ---- what the container asks */

static const char *consumer_state(const struct group *group) { return coord_cg_state_name(coord_cg_state(consumer_of(group)->cg)); }
static bool consumer_empty(const struct group *group) { return coord_cg_member_count(consumer_of(group)->cg) == 0; }
static uint32_t consumer_count(const struct group *group) { return coord_cg_member_count(consumer_of(group)->cg); }
static int32_t consumer_epoch(const struct group *group) { return coord_cg_epoch(consumer_of(group)->cg); }
static struct ot_str consumer_type(const struct group *group) { return (void)group, ot_str_of("consumer"); }
static bool consumer_subscribed(const struct group *group, struct ot_str topic) { return coord_cg_subscribed(consumer_of(group)->cg, topic); }
static int64_t consumer_expiry_base_ms(const struct group *group) { return (void)group, -1; }

static enum ot_err consumer_commit_check(struct group *group, const struct group_ask *ask)
{
    const struct coord_cg *cg = consumer_of(group)->cg;
    const struct group_catalog *catalog = group->set->env->catalog;
    bool partially = false;
    const enum ot_err err = coord_cg_commit_check(cg, ask->member_id, ask->instance_id, ask->generation, ask->kind == GROUP_ASK_TXN_OFFSET_COMMIT, ask->version, &partially);
    for (uint32_t i = 0; err == OT_OK && partially && i < ask->part_count; i++) {
        struct group_part *part = &ask->parts[i];
        struct group_catalog_topic topic = { .id = part->topic_id };
        if (part->error != OT_OK) continue;
        if (ot_uuid_is_zero(&topic.id) && catalog != NULL && !catalog->by_name(catalog, part->topic, &topic)) topic.id = part->topic_id;
        part->error = coord_cg_commit_partition(cg, ask->member_id, ask->generation, &topic.id, part->partition);
    }
    return err;
}

static enum ot_err consumer_fetch_check(struct group *group, const struct group_ask *ask)
{
    return coord_cg_fetch_check(consumer_of(group)->cg, ask->member_id.bytes == 0 ? no_text : ask->member_id, ask->generation);
}

static enum ot_err consumer_view(const struct group *group, const struct group_ask *ask, struct group_view *out)
{
    const struct coord_cg *cg = consumer_of(group)->cg;
    struct group_view_member *members = ot_arena_array(ask->arena, OT_MAX(coord_cg_member_count(cg), 1u), sizeof *members);
    struct coord_cg_member_view view;
    struct consumer_step step;
    bool made = members != NULL;
    consumer_step_init(&step, group->set, group->id, ask->arena);
    for (uint32_t at = 0; made && coord_cg_next_member(cg, &at, &view);) {
        struct group_view_member *to = &members[out->member_count++];
        *to = (struct group_view_member){ .session_timeout_ms = step.config.session_timeout_ms, .rebalance_timeout_ms = -1, .heartbeat_age_ms = -1, .epoch = view.epoch };
        made = group_arena_str(ask->arena, view.member_id, &to->member_id) && group_arena_str(ask->arena, view.instance_id, &to->instance_id) &&
            group_arena_str(ask->arena, view.client_id, &to->client_id) && group_arena_str(ask->arena, view.client_host, &to->client_host) &&
            coord_cg_member_blobs(cg, &step.call, view.member_id, &to->metadata, &to->assignment) == OT_OK;
    }
    out->members = members;
    return made ? OT_OK : OT_ERR_NO_MEMORY;
}

static enum ot_err consumer_evict(struct group *group, const struct group_ask *ask)
{
    struct consumer_step step;
    struct coord_cg_member_view view;
    struct ot_str id = ask->member_id;
    consumer_step_init(&step, group->set, group->id, NULL);
    for (uint32_t at = 0; !ask->instance_id.null && coord_cg_next_member(consumer_of(group)->cg, &at, &view);)
        if (ot_str_equal(view.instance_id, ask->instance_id)) id = view.member_id;
    const enum ot_err err = coord_cg_evict(consumer_of(group)->cg, &step.call, id);
    if (err == OT_OK) consumer_took(group, &step, ask->member_id, no_text);
    return consumer_error(group->set, &step, err, true);
}

static void consumer_loaded(struct group *group)
{
    struct consumer_step step;
    if (group->set->env->config->consumer == NULL) return;
    consumer_step_init(&step, group->set, group->id, NULL);
    coord_cg_loaded(consumer_of(group)->cg, group->set->env->now_us, &step.config);
    consumer_of(group)->members = coord_cg_member_count(consumer_of(group)->cg);
    timer_arm(group);
}

static void consumer_tombstones(struct group *group)
{
    struct consumer_step step;
    consumer_step_init(&step, group->set, group->id, NULL);
    if (coord_cg_tombstones(consumer_of(group)->cg, &step.call) == OT_OK) take_records(group->set, &step.call);
    else group->set->out->fail = OT_ERR_NO_MEMORY;
}

static void consumer_forget(struct group *group, struct group_ask *ask) { (void)group, (void)ask; }
static void consumer_close(struct group *group, enum ot_err why) { (void)group, (void)why; }

const struct group_ops group_consumer_ops = { .type = GROUP_CONSUMER, .state = consumer_state, .empty = consumer_empty, .member_count = consumer_count,
    .generation = consumer_epoch, .protocol_type = consumer_type, .commit_check = consumer_commit_check, .fetch_check = consumer_fetch_check,
    .subscribed = consumer_subscribed, .expiry_base_ms = consumer_expiry_base_ms, .view = consumer_view, .evict = consumer_evict, .loaded = consumer_loaded,
    .tombstones = consumer_tombstones, .join = consumer_join, .sync = consumer_sync, .heartbeat = consumer_heartbeat, .leave = consumer_leave,
    .forget = consumer_forget, .close = consumer_close, .free = consumer_free };

/* ---- no body */

static const char *lost_state(const struct group *group) { return (void)group, "Dead"; }
static bool lost_empty(const struct group *group) { return (void)group, false; }
static uint32_t lost_count(const struct group *group) { return (void)group, 0; }
static int32_t lost_epoch(const struct group *group) { return (void)group, -1; }
static enum ot_err lost_commit_check(struct group *group, const struct group_ask *ask) { return (void)group, (void)ask, OT_ERR_COORDINATOR_NOT_AVAILABLE; }
static bool lost_subscribed(const struct group *group, struct ot_str topic) { return (void)group, (void)topic, true; }
static int64_t lost_expiry_base_ms(const struct group *group) { return (void)group, INT64_MAX; }
static enum ot_err lost_view(const struct group *group, const struct group_ask *ask, struct group_view *out) { return (void)group, (void)ask, (void)out, OT_ERR_NO_MEMORY; }
static enum ot_err lost_evict(struct group *group, const struct group_ask *ask) { return (void)group, (void)ask, OT_ERR_COORDINATOR_NOT_AVAILABLE; }
static void lost_tombstones(struct group *group) { (void)group; }
static void lost_free(struct group *group) { group->ops = NULL; }
const struct group_ops group_lost_ops = { .type = GROUP_CONSUMER, .state = lost_state, .empty = lost_empty, .member_count = lost_count, .generation = lost_epoch,
    .protocol_type = consumer_type, .commit_check = lost_commit_check, .subscribed = lost_subscribed, .expiry_base_ms = lost_expiry_base_ms, .view = lost_view,
    .evict = lost_evict, .loaded = lost_tombstones, .tombstones = lost_tombstones, .forget = consumer_forget, .close = consumer_close, .free = lost_free };
