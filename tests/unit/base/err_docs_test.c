/* docs/errors.md is the error table in words. */
#include "docs_page.h"

#include "base/err.h"

static void put_row(const char *name, int kafka, int http, int grpc, bool retriable, const char *text)
{
    docs_put("| %s | %d | %d | %d | %s | %s |\n", name, kafka, http, grpc, retriable ? "yes" : "no", text);
}

static void the_page_says_what_the_table_says(void **state)
{
    (void)state;
    docs_put("# Errors\n\n"
             "Written from `base/err_table.h` by its test (`OTTLA_UPDATE_DOCS=1`); do not edit by hand.\n\n"
             "Every answer that refuses something names one of these. `Kafka` is the code on the Kafka wire, `HTTP` the status of the REST API, `gRPC` the status there.\n\n"
             "| Name | Kafka | HTTP | gRPC | Retriable | Meaning |\n|---|---|---|---|---|---|\n");
#define X(name, kafka, http, grpc, retriable, text) put_row(#name, kafka, http, grpc, retriable, text);
    OT_KAFKA_ERRORS(X)
    docs_put("\n## Of our own\n\nTold to Kafka clients under the code in the second column, which may stand for several of them.\n\n"
             "| Name | Kafka | HTTP | gRPC | Retriable | Meaning |\n|---|---|---|---|---|---|\n");
    OT_HOUSE_ERRORS(X)
#undef X
    docs_check("errors.md");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_page_says_what_the_table_says) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
