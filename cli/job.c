#include "cli/job.h"
#include "base/util.h"
#include "cli/shared.h"
#include "cli/text.h"
#include "cli/topic.h"
#include "cli/topic_table.h"
#include "cli/wait.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS      200
#define BAR_AFTER_MS 1000
#define LINE_MS      10000
#define BAR_COLUMNS  24

const struct cli_flag cli_topic_verify_flags[] = {
    {"partition", 'p', "N", false, "this partition only (all)"},
    {"max-bytes-per-second", 0, "BYTES", false, "read no faster (as fast as the disk gives)"},
    {0},
};

struct following {
    bool quiet, terminal, drawn;
    int64_t began_us, told_us;
};

static void draw(struct following *following, const json_t *job, bool last)
{
    const json_t *progress = json_object_get(job, "progress");
    const int64_t done = cli_json_number(progress, "done", 0), total = cli_json_number(progress, "total", 0), eta_ms = cli_json_number(job, "eta_ms", -1);
    const int64_t now_us = ot_clock_boot_us(), spent_ms = (now_us - following->began_us) / 1000;
    char bar[BAR_COLUMNS + 1], read[24], all[24], rate[24], left[40] = "";
    if (following->quiet || (last && !following->drawn)) return;
    if (!last && (spent_ms < BAR_AFTER_MS || (!following->terminal && now_us - following->told_us < (int64_t)LINE_MS * 1000))) return;
    following->told_us = now_us;
    following->drawn = true;
    const int filled = total <= 0 ? 0 : (int)OT_MIN((int64_t)BAR_COLUMNS, done * BAR_COLUMNS / total);
    for (int i = 0; i < BAR_COLUMNS; i++) bar[i] = i < filled ? '#' : '.';
    bar[BAR_COLUMNS] = 0;
    cli_human_bytes((uint64_t)done, read);
    cli_human_bytes((uint64_t)total, all);
    cli_human_bytes((uint64_t)(spent_ms > 0 ? done * 1000 / spent_ms : 0), rate);
    if (eta_ms >= 0 && !last) snprintf(left, sizeof(left), ", %" PRId64 " s left", (eta_ms + 999) / 1000);
    fprintf(stderr, "%s[%s] %s of %s, %s/s%s%s", following->terminal ? "\r" : "", bar, read, all, rate, left, following->terminal ? "\033[K" : "");
    if (last || !following->terminal) fputc('\n', stderr);
}

static int cancel(struct cli_api *api, const char *target, json_t **job)
{
    json_t *answer = NULL;
    cli_interrupt_take(); /* what is left to do may wait; a second Ctrl-C ends at once */
    const int code = cli_api_call(api, "DELETE", target, NULL, NULL, &answer, NULL);
    if (code < 0) {
        json_decref(*job);
        *job = answer;
    }
    fputs("cancelled; what was found so far stands in the job\n", stderr);
    return CLI_INTERRUPTED;
}

int cli_job_follow(struct cli_api *api, const json_t *begun, json_t **ended_out, char **text_out)
{
    struct following following = {.quiet = cli_flag_given(api->args, "quiet"), .terminal = isatty(2) != 0, .began_us = ot_clock_boot_us(), .told_us = ot_clock_boot_us()};
    char target[96];
    json_t *job = NULL;
    int code = -1;
    *ended_out = NULL;
    *text_out = NULL;
    snprintf(target, sizeof(target), "/v1/jobs/%.60s", cli_json_text(begun, "job_id", ""));
    for (;;) {
        json_decref(job);
        free(*text_out);
        if ((code = cli_api_call(api, "GET", target, NULL, NULL, &job, text_out)) >= 0) break;
        const bool ended = json_is_string(json_object_get(job, "ended_at"));
        draw(&following, job, ended);
        if (ended) {
            *ended_out = job;
            return -1;
        }
        if (cli_wait(NULL, 0, cli_deadline_us(LOOK_MS)) != OT_ERR_CANCELLED) continue;
        code = cancel(api, target, &job);
        break;
    }
    json_decref(job);
    return code;
}

/* ---- topic verify */

static int tell_verified(const struct cli_args *args, const json_t *job)
{
    const json_t *result = json_object_get(job, "result"), *fault;
    const int64_t faults = cli_json_number(result, "faults", 0), partitions = cli_json_number(result, "partitions", 0), skipped = cli_json_number(result, "skipped", 0);
    const char *state = cli_json_text(job, "state", "?");
    char bytes[24];
    size_t i;
    json_array_foreach(json_object_get(result, "details"), i, fault) printf("%s\n", json_string_value(fault));
    if (faults > (int64_t)i) printf("… and %" PRId64 " more\n", faults - (int64_t)i);
    if (!cli_flag_given(args, "quiet"))
        printf("%s: %" PRId64 " partitions, %s read, %" PRId64 " faults%s\n", cli_name(args, 0), partitions,
            cli_human_bytes((uint64_t)cli_json_number(json_object_get(job, "progress"), "done", 0), bytes), faults, skipped > 0 ? "; some were not open and were left out" : "");
    if (strcmp(state, "done") != 0) return cli_fail(strcmp(state, "cancelled") == 0 ? CLI_PARTLY : CLI_FAILED, NULL, "the job %s %s: %s", cli_json_text(job, "job_id", "?"), state,
        cli_json_text(job, "error", "somebody stopped it"));
    if (faults == 0) return CLI_DONE;
    return cli_fail(CLI_PROBLEMS, "stop the server, then ottla log verify and ottla log repair on the folder", "%" PRId64 " faults", faults);
}

int cli_topic_verify_run(const struct cli_args *args)
{
    struct cli_api api;
    json_t *body, *begun = NULL, *ended = NULL;
    char *text = NULL;
    int64_t partition, rate;
    const char *output = cli_flag_value(args, "output");
    int code = cli_api_open(args, &api);
    if (code < 0) code = cli_flag_number(args, "partition", 0, INT32_MAX, -1, &partition);
    if (code < 0) code = cli_flag_number(args, "max-bytes-per-second", 1, INT64_MAX, 0, &rate);
    if (code >= 0) return code;
    if ((body = json_pack("{s:s}", "topic", cli_name(args, 0))) == NULL) return cli_fail(CLI_USAGE, NULL, "`%s` is not UTF-8", cli_name(args, 0));
    if (partition >= 0) json_object_set_new(body, "partition", json_integer(partition));
    if (rate > 0) json_object_set_new(body, "max_bytes_per_second", json_integer(rate));
    code = cli_api_call(&api, "POST", "/v1/diagnostics/verify", body, "ottla topic list", &begun, NULL);
    if (code < 0) code = cli_job_follow(&api, begun, &ended, &text);
    if (code < 0 && output != NULL && strcmp(output, "json") == 0) {
        const bool sound = cli_json_number(json_object_get(ended, "result"), "faults", 0) == 0;
        code = cli_print_body(text);
        text = NULL;
        if (code == CLI_DONE && !sound) code = CLI_PROBLEMS;
    } else if (code < 0) {
        code = tell_verified(args, ended);
    }
    free(text);
    json_decref(body);
    json_decref(begun);
    json_decref(ended);
    return code;
}
