/* Groups: listed, described, their members and what each was given, who rebalanced them and why, and the end of a group or of one of its members. */
#include "rest/groups.h"

#include "base/wire/consumer_protocol_assignment.h"
#include "base/wire/consumer_protocol_subscription.h"
#include "broker/groups_watch.h"
#include "rest/handlers.h"
#include "rest/hop.h"

#include <stdlib.h>
#include <string.h>

const char *const rest_group_types[REST_GROUP_TYPES] = { "classic", "consumer", "share", "streams" };

/* ---- asking */

struct rest_group *rest_group_new(struct rest_call *call)
{
    struct rest_group *job = ot_arena_alloc(&call->arena, sizeof *job);
    if (job == NULL) rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
    else job->call = call;
    return job;
}

static bool changes(enum group_ask_kind kind) { return kind == GROUP_ASK_OFFSET_COMMIT || kind == GROUP_ASK_OFFSET_DELETE || kind == GROUP_ASK_DELETE || kind == GROUP_ASK_EVICT; }

static void asked(struct broker_call *broker_call)
{
    struct rest_group *job = OT_CONTAINER(broker_call, struct rest_group, ask.call);
    enum ot_err err = broker_group_error(&job->ask);
    if (job->ask.error == OT_ERR_COORDINATOR_NOT_AVAILABLE && broker_shard_count(job->call->broker, BROKER_SHARD_GROUPS) == 0) err = OT_ERR_GROUP_ID_NOT_FOUND;
    if (job->ask.ask.kind == GROUP_ASK_OFFSET_FETCH) {
        job->parts = job->ask.ask.parts;
        job->part_count = job->ask.ask.part_count;
        if (job->ask.ask.all) job->offsets_version = (int64_t)job->ask.ask.offsets_version;
    }
    if (err == OT_ERR_MISMATCH) {
        rest_problem_http(job->call, "HTTP_PRECONDITION_FAILED", "the offsets of the group were changed since If-Match was read");
        return;
    }
    if (err == OT_ERR_GROUP_ID_NOT_FOUND && job->absent_is_fine) err = OT_OK;
    if (err != OT_OK && job->ask.unsure && changes(job->kind)) {           /* sent once more it might be done twice: offsets moved by so many */
        rest_problem(job->call, OT_ERR_REQUEST_TIMED_OUT, "the change was written, and then the coordinator changed or heard nothing of its replicas; whether it is kept is not known");
        return;
    }
    const int32_t now = err == OT_ERR_NOT_COORDINATOR && !job->call->arrived ? rest_whither(job->call) : -1;
    if (now >= 0 && now != broker_node_id(job->call->broker)) {        /* it has passed on, or the topic of offsets was made just now */
        job->call->whither = rest_whither;
        rest_body_drop(job->call);
        rest_hop_to(job->call, now);
        return;
    }
    if (err == OT_OK) job->next(job);
    else rest_problem(job->call, err, "%s", job->ask.ask.text != NULL ? job->ask.ask.text : ot_err_text(err));
}

static void send(struct rest_group *job)
{
    struct rest_call *call = job->call;
    struct group_ask given = job->ask.ask;     /* members and parts that the handler set */
    job->ask = (struct broker_group_call){ .call = { .home = call->home, .done = asked }, .ask = { .kind = job->kind, .version = 9, .group_id = job->group, .client_id = ot_str_of("rest"),
        .client_host = ot_str_of(call->peer), .arena = &call->arena, .parts = given.parts, .part_count = given.part_count, .admin = true, .generation = -1,
        .member_id = given.member_id.data == NULL ? ot_str_of("") : given.member_id, .instance_id = { .null = true }, .retention_ms = -1, .producer_id = -1, .producer_epoch = -1,
        .all = given.all, .offsets_version = given.offsets_version, .response = &job->view } };
    broker_group(call->broker, &job->ask);
}

static void topic_made(struct broker_call *broker_call)
{
    struct rest_group *job = OT_CONTAINER(broker_call, struct rest_group, topic.call);
    if (job->topic.error == OT_OK) send(job);
    else rest_problem(job->call, job->topic.error, "the offsets topic could not be made");
}

static void ask(struct rest_group *job, enum group_ask_kind kind, struct ot_str group, void (*next)(struct rest_group *job))
{
    job->next = next;
    job->kind = kind;
    job->group = group;
    if (kind != GROUP_ASK_OFFSET_COMMIT) {
        send(job);
        return;
    }
    job->topic.call = (struct broker_call){ .home = job->call->home, .done = topic_made };
    broker_shard_topic(job->call->broker, BROKER_SHARD_GROUPS, &job->topic);
}

void rest_group_ask(struct rest_group *job, enum group_ask_kind kind, void (*next)(struct rest_group *job)) { ask(job, kind, rest_param(job->call, 0), next); }

void rest_group_view(struct rest_group *job, struct ot_str group, void (*next)(struct rest_group *job)) { ask(job, GROUP_ASK_VIEW, group, next); }

void rest_group_fetch(struct rest_group *job, struct ot_str group, void (*next)(struct rest_group *job))
{
    job->ask.ask = (struct group_ask){ .all = true };
    ask(job, GROUP_ASK_OFFSET_FETCH, group, next);
}

/* ---- what members say: Kafka's consumer protocol, when it can be read */

void rest_group_given(struct rest_group *job, const struct group_view_member *member, void (*each)(void *arg, struct ot_str topic, int32_t partition), void *arg)
{
    struct ot_consumer_protocol_assignment assignment;
    struct ot_reader in = ot_reader_over(member->assignment.data, member->assignment.null ? 0 : member->assignment.bytes);
    struct ot_wire_error error;
    if (member->assignment.bytes == 0 || !ot_str_equal(job->view.protocol_type, ot_str_of("consumer"))) return;
    const int16_t version = ot_read_i16(&in);
    if (in.err != OT_OK || version < 0) return;
    const int16_t known = OT_MIN(version, (int16_t)OT_CONSUMER_PROTOCOL_ASSIGNMENT_VERSION_MAX);
    if (ot_consumer_protocol_assignment_decode(&assignment, known, &in, &job->call->arena, &error) != OT_OK) return;
    for (int32_t t = 0; t < assignment.assigned_partitions.count; t++)
        for (int32_t p = 0; p < assignment.assigned_partitions.items[t].partitions.count; p++)
            each(arg, assignment.assigned_partitions.items[t].topic, assignment.assigned_partitions.items[t].partitions.items[p]);
}

struct sought { struct ot_str topic; int32_t partition; bool found; };

static void compare(void *arg, struct ot_str topic, int32_t partition)
{
    struct sought *sought = arg;
    sought->found |= partition == sought->partition && ot_str_equal(topic, sought->topic);
}

struct ot_str rest_group_owner(struct rest_group *job, struct ot_str topic, int32_t partition)
{
    for (uint32_t i = 0; i < job->view.member_count; i++) {
        struct sought sought = { topic, partition, false };
        rest_group_given(job, &job->view.members[i], compare, &sought);
        if (sought.found) return job->view.members[i].member_id;
    }
    return (struct ot_str){ .null = true };
}

uint32_t rest_group_subscribed(struct rest_group *job, const struct group_view_member *member, const struct ot_str **topics_out)
{
    struct ot_consumer_protocol_subscription subscription;
    struct ot_reader in = ot_reader_over(member->metadata.data, member->metadata.null ? 0 : member->metadata.bytes);
    struct ot_wire_error error;
    const int16_t version = member->metadata.bytes > 0 ? ot_read_i16(&in) : (int16_t)-1;
    if (version < 0 || in.err != OT_OK || !ot_str_equal(job->view.protocol_type, ot_str_of("consumer"))
        || ot_consumer_protocol_subscription_decode(&subscription, OT_MIN(version, (int16_t)OT_CONSUMER_PROTOCOL_SUBSCRIPTION_VERSION_MAX), &in, &job->call->arena, &error) != OT_OK)
        return 0;
    *topics_out = subscription.topics.items;
    return (uint32_t)OT_MAX(subscription.topics.count, 0);
}

static void write_subscription(struct rest_group *job, const struct group_view_member *member)
{
    struct rest_json *out = &job->call->out;
    const struct ot_str *topics = NULL;
    const uint32_t count = rest_group_subscribed(job, member, &topics);
    rest_json_open(out, "subscription", '[');
    for (uint32_t i = 0; i < count; i++) rest_json_str(out, NULL, topics[i]);
    rest_json_close(out, ']');
}

static void write_place(void *arg, struct ot_str topic, int32_t partition)
{
    struct rest_json *out = arg;
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "topic", topic);
    rest_json_int(out, "partition", partition);
    rest_json_close(out, '}');
}

static void write_member(struct rest_group *job, const struct group_view_member *member)
{
    struct rest_json *out = &job->call->out;
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "member_id", member->member_id);
    rest_json_str(out, "instance_id", member->instance_id);
    rest_json_str(out, "client_id", member->client_id);
    rest_json_str(out, "host", member->client_host);
    rest_json_int(out, "session_timeout_ms", member->session_timeout_ms);
    rest_json_int(out, "rebalance_timeout_ms", member->rebalance_timeout_ms);
    rest_json_big_or_null(out, "last_heartbeat_ms_ago", member->heartbeat_age_ms);
    write_subscription(job, member);
    rest_json_open(out, "assignment", '[');
    rest_group_given(job, member, write_place, out);
    rest_json_close(out, ']');
    rest_json_close(out, '}');
}

/* ---- one group */

static void write_group(struct rest_group *job)
{
    struct rest_json *out = &job->call->out;
    const struct group_view *view = &job->view;
    rest_etag(job->call, view->generation);
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "group", view->id);
    rest_json_text(out, "type", rest_group_types[view->type]);
    rest_json_text(out, "state", view->state);
    rest_json_int(out, "generation", view->generation);
    rest_json_str(out, "protocol_type", view->protocol_type);
    rest_json_str(out, "assignor", view->protocol);
    rest_json_str(out, "leader", view->leader);
    rest_json_int(out, "coordinator", broker_node_id(job->call->broker));
    rest_json_time(out, "state_since_at", view->state_since_ms);
    rest_json_open(out, "members", '[');
    for (uint32_t i = 0; i < view->member_count; i++) write_member(job, &view->members[i]);
    rest_json_close(out, ']');
    rest_group_lag_write(job);
    rest_json_close(out, '}');
    rest_reply_json(job->call, 200);
}

static void fetched(struct rest_group *job) { rest_group_lags(job, 0, job->part_count, write_group); }
static void viewed(struct rest_group *job) { rest_group_fetch(job, rest_param(job->call, 0), fetched); }

void rest_group_get(struct rest_call *call)
{
    struct rest_group *job = rest_group_new(call);
    if (job != NULL) rest_group_ask(job, GROUP_ASK_VIEW, viewed);
}

/* ---- members, and what each was given */

static void members_viewed(struct rest_group *job)
{
    struct rest_call *call = job->call;
    const int64_t count = job->view.member_count;
    const int64_t first = call->list.after_int == INT64_MIN ? 0 : OT_MIN(OT_MAX(call->list.after_int + 1, 0), count);
    const int64_t end = OT_MIN(count, first + call->list.limit);
    for (int64_t i = first; i < end; i++) {
        rest_list_item(call);
        write_member(job, &job->view.members[i]);
    }
    rest_list_reply_int(call, 'm', end < count, end - 1, count, NULL);
}

void rest_group_members(struct rest_call *call)
{
    if (!rest_list_begin(call, 'm', true)) return;
    struct rest_group *job = rest_group_new(call);
    if (job != NULL) rest_group_ask(job, GROUP_ASK_VIEW, members_viewed);
}

/* ---- assignments: what each member was given, by topic */

struct given { struct rest_json *out; struct ot_str topic; };

static void write_given(void *arg, struct ot_str topic, int32_t partition)
{
    struct given *given = arg;
    struct rest_json *out = given->out;
    if (given->topic.data == NULL || !ot_str_equal(given->topic, topic)) {
        if (given->topic.data != NULL) {
            rest_json_close(out, ']');
            rest_json_close(out, '}');
        }
        rest_json_open(out, NULL, '{');
        rest_json_str(out, "topic", topic);
        rest_json_open(out, "partitions", '[');
        given->topic = topic;
    }
    rest_json_int(out, NULL, partition);
}

static void assignments_viewed(struct rest_group *job)
{
    struct rest_json *out = &job->call->out;
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "group", job->view.id);
    rest_json_int(out, "generation", job->view.generation);
    rest_json_open(out, "assignments", '[');
    for (uint32_t i = 0; i < job->view.member_count; i++) {
        struct given given = { .out = out };
        rest_json_open(out, NULL, '{');
        rest_json_str(out, "member_id", job->view.members[i].member_id);
        rest_json_str(out, "client_id", job->view.members[i].client_id);
        rest_json_open(out, "topics", '[');
        rest_group_given(job, &job->view.members[i], write_given, &given);
        if (given.topic.data != NULL) {
            rest_json_close(out, ']');
            rest_json_close(out, '}');
        }
        rest_json_close(out, ']');
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
    rest_json_close(out, '}');
    rest_reply_json(job->call, 200);
}

void rest_group_assignments(struct rest_call *call)
{
    struct rest_group *job = rest_group_new(call);
    if (job != NULL) rest_group_ask(job, GROUP_ASK_VIEW, assignments_viewed);
}

/* ---- the timeline */

static void write_expiry(struct rest_json *out, const struct broker_group_expiry *expiry)
{
    rest_json_open(out, NULL, '{');
    rest_json_time(out, "at", expiry->at_ms);
    rest_json_text(out, "topic", expiry->topic);
    rest_json_int(out, "partition", expiry->partition);
    rest_json_big(out, "offset", expiry->offset);
    rest_json_time(out, "committed_at", expiry->commit_ms);
    rest_json_close(out, '}');
}

static void write_event(struct rest_json *out, const struct group_event *event)
{
    rest_json_open(out, NULL, '{');
    rest_json_time(out, "at", event->at_ms);
    rest_json_text(out, "reason", group_reason_name(event->reason));
    rest_json_text(out, "member_id", event->member[0] == 0 ? NULL : event->member);
    rest_json_text(out, "client_id", event->client[0] == 0 ? NULL : event->client);
    rest_json_text(out, "text", event->text[0] == 0 ? NULL : event->text);
    rest_json_big_or_null(out, "duration_ms", event->duration_ms);
    rest_json_big_or_null(out, "generation", event->generation);
    rest_json_int(out, "members_before", event->members_before);
    rest_json_int(out, "members_after", event->members_after);
    rest_json_int(out, "partitions", event->partitions);
    rest_json_int(out, "partitions_moved", event->partitions_moved);
    rest_json_close(out, '}');
}

/* A group that is gone since its last offset expired still tells that. */
static void timeline_viewed(struct rest_group *job)
{
    struct rest_json *out = &job->call->out;
    const bool gone = broker_group_error(&job->ask) != OT_OK;
    struct broker_group_expiry *expiries = ot_arena_array(&job->call->arena, BROKER_GROUP_EXPIRIES, sizeof *expiries);
    const uint32_t expired = expiries == NULL ? 0 : broker_group_expiries(job->call->broker, rest_param(job->call, 0), &job->call->arena, expiries, BROKER_GROUP_EXPIRIES);
    if (gone && expired == 0) {
        rest_problem(job->call, OT_ERR_GROUP_ID_NOT_FOUND, "%s", ot_err_text(OT_ERR_GROUP_ID_NOT_FOUND));
        return;
    }
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "group", rest_param(job->call, 0));
    rest_json_open(out, "items", '[');
    for (uint32_t i = gone ? 0 : job->view.event_count; i > 0; i--) write_event(out, &job->view.events[i - 1]);
    rest_json_close(out, ']');
    rest_json_open(out, "expired_offsets", '[');
    for (uint32_t i = 0; i < expired; i++) write_expiry(out, &expiries[i]);
    rest_json_close(out, ']');
    rest_json_close(out, '}');
    rest_reply_json(job->call, 200);
}

void rest_group_timeline(struct rest_call *call)
{
    struct rest_group *job = rest_group_new(call);
    if (job == NULL) return;
    job->absent_is_fine = true;
    rest_group_ask(job, GROUP_ASK_VIEW, timeline_viewed);
}

/* ---- the end of a group, or of a member */

static void reply_gone(struct rest_group *job) { rest_reply_empty(job->call, 204); }

static void delete_checked(struct rest_group *job)
{
    if (job->view.member_count > 0) rest_problem(job->call, OT_ERR_NON_EMPTY_GROUP, "the group has %u members", job->view.member_count);
    else rest_reply_empty(job->call, 204);
}

void rest_group_delete(struct rest_call *call)
{
    struct rest_group *job = rest_group_new(call);
    const bool only_look = rest_validate_only(call);
    if (job == NULL || rest_faulty(call)) return;
    if (only_look) rest_group_ask(job, GROUP_ASK_VIEW, delete_checked);
    else rest_group_change(job, GROUP_ASK_DELETE, NULL, 0, reply_gone);
}

void rest_group_evict(struct rest_call *call)
{
    struct rest_group *job = rest_group_new(call);
    if (job == NULL) return;
    job->ask.ask.member_id = rest_param(call, 1);
    rest_group_change(job, GROUP_ASK_EVICT, NULL, 0, reply_gone);
}
