/* The REST API from the commands' side: where it is, the curl that says the same, what its problems mean for people and exit codes. */
#ifndef OT_CLI_API_H
#define OT_CLI_API_H

#include "cli/command.h"
#include "cli/http.h"
#include <jansson.h>

extern const struct cli_flag cli_api_flags[]; /* --api, --profile, --timeout-ms, --verbose, --curl, with the output flags of cli/table.h and --yes */

struct cli_api {
    const struct cli_args *args;
    struct cli_http_address address;
    const char *url;
    int64_t timeout_ms;
    bool verbose, only_curl;
    bool absent_is_fine;       /* a 404 is told by cli_api_call as no body, without a message */
    const char *fine_error;    /* so is a problem with this error; NULL: none */
    char etag[72];             /* of the last answer, "" when it had none */
    const char *if_match;      /* sent with changes; NULL: none */
};
/* --api, $OTTLA_API, the admin socket if it is there, else http://127.0.0.1:9095. -1: fine; else the exit code after a message. */
int cli_api_open(const struct cli_args *args, struct cli_api *out);

/* One call. -1: *body_out is its JSON (NULL when the answer had none, or with --curl) and must be json_decref'ed; *text_out, when not NULL, gets the body as
 * it came, to be freed. Else the exit code: the problem has been told, with hint as the `try:` line when the answer brings none. */
int cli_api_call(struct cli_api *api, const char *method, const char *target, const json_t *body, const char *hint, json_t **body_out, char **text_out);
/* A GET whose answer is a file. -1: *data_out is to be freed (NULL with --curl). */
int cli_api_bytes(struct cli_api *api, const char *target, char **data_out, size_t *bytes_out);
/* All pages of a list: target has no page_token yet. *text_out, which may be NULL: the first body when there is only one page, else one body of the same shape. */
int cli_api_list(struct cli_api *api, const char *target, const char *hint, json_t **items_out, char **text_out);

/* The same, and an empty list when the thing is not there (404); only from one page does it know the ETag. */
int cli_api_list_or_none(struct cli_api *api, const char *target, json_t **items_out, char **text_out);

/* A GET for those who go on without its answer: NULL, and no word, when it does not come at once, or is not JSON of status 200. */
json_t *cli_api_peek(const struct cli_http_address *address, const char *target);

/* Where Kafka clients connect, "host:port,…" of the brokers that live, as the API at url says; NULL: at its usual place ($OTTLA_API, the admin socket, loopback). False: it does not answer
 * within seconds. */
bool cli_api_bootstrap(const char *url, char *out, size_t out_bytes);
/* As the API at this place says. */
bool cli_api_bootstrap_at(const struct cli_http_address *address, char *out, size_t out_bytes);

/* The user is asked: word, or y. True: go on. Without a terminal and without --yes: false after a message. */
bool cli_confirm(const struct cli_args *args, const char *question, const char *word);

/* Members, with what to take when they are absent or null. */
const char *cli_json_text(const json_t *object, const char *name, const char *absent);
int64_t cli_json_number(const json_t *object, const char *name, int64_t absent);

#endif
