/* Changes of a group under a condition. What the ETag of the offsets stands for is compared once more by the coordinator, in the step that changes them; a generation is compared here. */
#include "rest/groups.h"
#include <string.h>

static void go_on(struct rest_group *job)
{
    const struct rest_group_change *change = &job->change;
    job->absent_is_fine = false;
    job->ask.ask = (struct group_ask){ .parts = change->parts, .part_count = change->part_count, .member_id = change->member, .offsets_version = change->version };
    rest_group_ask(job, change->kind, change->next);
}

static bool create_only(const struct rest_call *call) { return call->if_none_match != NULL && strcmp(call->if_none_match, "*") == 0; }

/* True: nothing is committed for any of the parts. */
static bool all_new(const struct rest_group *job)
{
    for (uint32_t i = 0; i < job->change.part_count; i++)
        for (uint32_t k = 0; k < job->part_count; k++)
            if (job->parts[k].offset >= 0 && job->parts[k].partition == job->change.parts[i].partition && ot_str_equal(job->parts[k].topic, job->change.parts[i].topic)) return false;
    return true;
}

static void offsets_known(struct rest_group *job)
{
    int64_t version = -1;
    if (!rest_if_match(job->call, job->offsets_version, &version)) return;
    if (create_only(job->call) && !all_new(job)) {
        rest_etag(job->call, job->offsets_version);
        rest_problem_http(job->call, "HTTP_PRECONDITION_FAILED", "If-None-Match is *, and the group has committed an offset there already");
        return;
    }
    job->change.version = (uint64_t)job->offsets_version;
    go_on(job);
}

static void generation_known(struct rest_group *job)
{
    int64_t version = -1;
    if (rest_if_match(job->call, job->view.generation, &version)) go_on(job);
}

void rest_group_change(struct rest_group *job, enum group_ask_kind kind, struct group_part *parts, uint32_t part_count, void (*next)(struct rest_group *job))
{
    const struct rest_call *call = job->call;
    const bool of_offsets = kind == GROUP_ASK_OFFSET_COMMIT || kind == GROUP_ASK_OFFSET_DELETE;
    job->change = (struct rest_group_change){ .kind = kind, .parts = parts, .part_count = part_count, .member = job->ask.ask.member_id, .next = next };
    if (call->if_match == NULL && !create_only(call) && !broker_config(call->broker)->rest_require_if_match) {
        go_on(job);
    } else if (of_offsets) {
        job->absent_is_fine = true;            /* a group that is not there has no offsets, and a version of that */
        rest_group_fetch(job, rest_param(call, 0), offsets_known);
    } else {
        rest_group_ask(job, GROUP_ASK_VIEW, generation_known);
    }
}
