/* The look at all groups: every shard tells its groups and their offsets, then their lag is counted, then the result takes the place of the last one.
 *
 *   tick ─► SURVEY of each shard ─► lag of all parts (an I/O thread, bounded) ─► published
 *
 * One look at a time, on the housekeeper's thread; the broker's stop waits for it as for other work under way. */
#include "broker/room.h"

#include "broker/groups_watch.h"
#include <stdlib.h>
#include <string.h>

enum { ARENA_BYTES = 64 << 20, COUNT_ANEW = 30 };

struct broker_groups_look {
    struct broker *broker;
    struct broker_group_calls calls;
    struct broker_lag lag;
    struct ot_arena arena;                     /* of the surveys */
    uint32_t left;                             /* offsets that it may still take in */
    uint64_t number;                           /* of looks */
    const struct broker_group_lags *last;      /* the look before, held */
    struct broker_group_lags *made;
    bool busy;
};

/* ---- what was seen */

const struct broker_group_lags *broker_group_lags_take(struct broker *broker)
{
    struct broker_groups *groups = &broker->groups;
    if (!groups->watched) return NULL;
    pthread_mutex_lock(&groups->mutex);
    struct broker_group_lags *lags = groups->lags;
    if (lags != NULL) lags->refs++;
    pthread_mutex_unlock(&groups->mutex);
    return lags;
}

static void lags_put(struct broker_groups *groups, struct broker_group_lags *lags)
{
    pthread_mutex_lock(&groups->mutex);
    const bool last = lags != NULL && --lags->refs == 0;
    pthread_mutex_unlock(&groups->mutex);
    if (!last) return;
    ot_arena_free(&lags->arena);
    free(lags);
}

void broker_group_lags_give(struct broker *broker, const struct broker_group_lags *lags) { lags_put(&broker->groups, (struct broker_group_lags *)(uintptr_t)lags); }

static void publish(struct broker_groups *groups, struct broker_group_lags *lags)
{
    pthread_mutex_lock(&groups->mutex);
    struct broker_group_lags *old = groups->lags;
    groups->lags = lags;
    pthread_mutex_unlock(&groups->mutex);
    lags_put(groups, old);
}

/* ---- a look */

static void end(struct broker_groups_look *look)
{
    struct broker *broker = look->broker;
    if (look->made != NULL) {                  /* it did not come to its end */
        ot_arena_free(&look->made->arena);
        free(look->made);
    }
    look->made = NULL;
    broker_group_lags_give(broker, look->last);
    look->last = NULL;
    ot_arena_free(&look->arena);
    look->busy = false;
    atomic_fetch_sub(&broker->core.work_open, 1);
}

static void counted(struct broker_call *call)
{
    struct broker_groups_look *look = OT_CONTAINER(call, struct broker_groups_look, lag.call);
    struct broker_group_lags *made = look->made;
    made->at_ms = ot_exec_wall_ms(look->broker->core.background_exec);
    look->made = NULL;
    for (uint32_t i = 0; i < look->lag.part_count; i++) look->lag.parts[i].before = NULL;      /* it is about to go */
    publish(&look->broker->groups, made);
    end(look);
}

static const struct group_survey *answered(const struct broker_group_call *item)
{
    return broker_group_error(item) == OT_OK ? item->ask.response : NULL;      /* a shard that is elsewhere or loading tells nothing */
}

/* Groups come in the same order as long as none comes or goes, and their offsets always do: so the part of the last look is where the one before it was, or a little further. */
static const struct broker_lag_part *before(const struct broker_group_lags *last, struct ot_str group, const struct broker_lag_part *part, uint32_t *at_group, uint32_t *at)
{
    enum { FURTHER = 8 };
    if (last == NULL) return NULL;
    for (uint32_t i = 0; i < FURTHER && *at_group + i < last->group_count; i++) {
        const struct broker_group_lags_group *seen = &last->groups[*at_group + i];
        if (!ot_str_equal(seen->id, group)) continue;
        if (i > 0 || *at < seen->first) *at = seen->first;
        *at_group += i;
        for (uint32_t k = *at; k < seen->first + seen->count && k < *at + FURTHER; k++) {
            if (last->parts[k].partition != part->partition || !ot_str_equal(last->parts[k].topic, part->topic)) continue;
            *at = k + 1;
            return &last->parts[k];
        }
        return NULL;
    }
    return NULL;
}

static bool gather(struct broker_groups_look *look)
{
    uint32_t at_group = 0, at = 0;
    struct broker_group_lags *made = look->made;
    uint32_t groups = 0, rows = 0;
    for (uint32_t i = 0; i < look->calls.count; i++) {
        const struct group_survey *survey = answered(&look->calls.items[i]);
        groups += survey == NULL ? 0 : survey->group_count;
        rows += survey == NULL ? 0 : survey->row_count;
    }
    struct broker_group_lags_group *group = ot_arena_array(&made->arena, OT_MAX(groups, 1u), sizeof *group);
    struct broker_lag_part *parts = ot_arena_array(&made->arena, OT_MAX(rows, 1u), sizeof *parts);
    made->groups = group;
    made->parts = parts;
    for (uint32_t i = 0; group != NULL && parts != NULL && i < look->calls.count; i++) {
        const struct group_survey *survey = answered(&look->calls.items[i]);
        for (uint32_t g = 0; survey != NULL && g < survey->group_count; g++) {
            const struct group_survey_group *from = &survey->groups[g];
            const char *id = ot_arena_str(&made->arena, from->id), *topic = NULL;
            if (id == NULL) return false;
            group[made->group_count++] = (struct broker_group_lags_group){ { id, from->id.bytes, false }, from->type, from->member_count, made->part_count, from->count };
            for (uint32_t r = 0; r < from->count; r++) {
                const struct group_survey_row *row = &survey->rows[from->first + r];
                if (r == 0 || row->topic.data != row[-1].topic.data) topic = ot_arena_str(&made->arena, row->topic);
                if (topic == NULL) return false;
                struct broker_lag_part *part = &parts[made->part_count++];
                *part = (struct broker_lag_part){ .topic = ot_str_of(topic), .partition = row->partition, .offset = row->offset };
                part->before = before(look->last, from->id, part, &at_group, &at);
                part->before_ms = look->last == NULL ? 0 : look->last->at_ms;
            }
        }
        made->cut |= survey != NULL && survey->cut;
    }
    look->lag.parts = parts;
    look->lag.part_count = made->part_count;
    return group != NULL && parts != NULL;
}

static void surveyed(struct broker_call *call)
{
    struct broker_groups_look *look = OT_CONTAINER(call, struct broker_groups_look, calls.call);
    struct broker *broker = look->broker;
    if (look->number++ % COUNT_ANEW != 0) look->last = broker_group_lags_take(broker);      /* now and then anew: compaction takes records and leaves the ends */
    look->made = calloc(1, sizeof *look->made);
    if (look->made != NULL) {
        look->made->refs = 1;
        ot_arena_init(&look->made->arena, ARENA_BYTES);
    }
    if (look->made == NULL || !gather(look) || atomic_load(&broker->core.stopping)) {
        end(look);
        return;
    }
    ot_arena_reset(&look->arena);
    look->lag.call = (struct broker_call){ .home = broker->core.background_exec, .done = counted };
    broker_lag(broker, &look->lag);
}

/* One shard after the other, so each may give what those before it left. */
static bool ask(struct broker_groups_look *look)
{
    const int32_t count = broker_shard_count(look->broker, BROKER_SHARD_GROUPS);
    struct broker_group_call *items = ot_arena_array(&look->arena, (size_t)OT_MAX(count, 1), sizeof *items);
    struct group_survey *surveys = ot_arena_array(&look->arena, (size_t)OT_MAX(count, 1), sizeof *surveys);
    look->left = BROKER_GROUP_LAG_PARTS_MAX;
    if (count == 0 || items == NULL || surveys == NULL) return false;
    for (int32_t i = 0; i < count; i++) {
        surveys[i].left = &look->left;
        items[i] = (struct broker_group_call){ .partition = i, .ask = { .kind = GROUP_ASK_SURVEY, .response = &surveys[i], .arena = &look->arena } };
    }
    look->calls = (struct broker_group_calls){ .call = { .home = look->broker->core.background_exec, .done = surveyed }, .items = items, .count = (uint32_t)count };
    broker_group_all(look->broker, &look->calls);
    return true;
}

void broker_groups_ticked(struct broker_core *core, int64_t now_us)
{
    struct broker *broker = broker_of_core(core);
    struct broker_groups *groups = &broker->groups;
    const int64_t every_ms = broker_config_current(core->config)->metrics_group_lag_interval_ms;
    if (every_ms == 0 || now_us < groups->look_due_us || broker->setup.metrics == NULL) return;
    if (groups->look == NULL) groups->look = calloc(1, sizeof *groups->look);
    struct broker_groups_look *look = groups->look;
    if (look == NULL || look->busy) return;
    groups->look_due_us = now_us + every_ms * 1000;
    look->broker = broker;
    look->busy = true;
    atomic_fetch_add(&core->work_open, 1);
    ot_arena_init(&look->arena, ARENA_BYTES);
    if (!ask(look)) end(look);
}

void broker_groups_free(struct broker *broker)
{
    struct broker_groups *groups = &broker->groups;
    if (!groups->watched) return;
    lags_put(groups, groups->lags);
    free(groups->look);
    for (uint32_t i = 0; groups->expiries != NULL && i < BROKER_GROUP_EXPIRIES; i++) {
        free(groups->expiries[i].group);
        free(groups->expiries[i].topic);
    }
    free(groups->expiries);
    pthread_mutex_destroy(&groups->mutex);
    groups->watched = false;
}

/* ---- as metrics: by group and topic, the first so many of them; what is beyond in one */

struct sums { int64_t records, ms; };

static void give(struct broker *broker, struct ot_metric_sink *sink, bool seconds)
{
    const struct broker_group_lags *lags = broker_group_lags_take(broker);
    const uint32_t max = (uint32_t)broker_config_current(broker->core.config)->metrics_group_lag_series_max;
    uint32_t given = 0;
    struct sums other = { -1, -1 };
    for (uint32_t g = 0; lags != NULL && g < lags->group_count; g++) {
        const struct broker_group_lags_group *group = &lags->groups[g];
        for (uint32_t i = group->first, end_at = group->first + group->count; i < end_at;) {
            const char *topic = lags->parts[i].topic.data;
            struct sums sums = { -1, -1 };
            for (; i < end_at && lags->parts[i].topic.data == topic; i++) {
                const struct broker_lag_count *lag = &lags->parts[i].all;
                if (lag->records >= 0) sums.records = OT_MAX(sums.records, 0) + lag->records;
                sums.ms = OT_MAX(sums.ms, lag->ms);
            }
            if (given == max) {
                if (sums.records >= 0) other.records = OT_MAX(other.records, 0) + sums.records;
                other.ms = OT_MAX(other.ms, sums.ms);
                continue;
            }
            const char *labels[] = { group->id.data, topic };
            given++;
            if (seconds && sums.ms >= 0) ot_metric_give(sink, labels, (double)sums.ms / 1000);
            if (!seconds && sums.records >= 0) ot_metric_give(sink, labels, (double)sums.records);
        }
    }
    const char *others[] = { "_other", "_other" };
    if (seconds && other.ms >= 0) ot_metric_give(sink, others, (double)other.ms / 1000);
    if (!seconds && other.records >= 0) ot_metric_give(sink, others, (double)other.records);
    broker_group_lags_give(broker, lags);
}

void broker_groups_give_records(void *arg, struct ot_metric_sink *sink) { give(arg, sink, false); }
void broker_groups_give_seconds(void *arg, struct ot_metric_sink *sink) { give(arg, sink, true); }
