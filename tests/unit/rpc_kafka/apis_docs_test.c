/* docs/protocol.md is the table of served APIs in words. */
#include "docs_page.h"

#include "rpc/kafka/request.h"

static void the_page_says_what_the_tables_say(void **state)
{
    (void)state;
    uint32_t served = 0;
    docs_put("# Kafka protocol\n\n"
             "Written from `base/wire/apis.txt` and `rpc/kafka/apis.c` by their test (`OTTLA_UPDATE_DOCS=1`); do not edit by hand.\n\n"
             "What is advertised is served. Versions are those of Kafka 4.4; an advertised minimum may be lower than what is served where old clients infer other\n"
             "features from it (Produce 0 to 2 are refused in use).\n\n"
             "| Key | API | Versions served |\n|---|---|---|\n");
    for (int key = 0; key < 128; key++) {
        for (uint32_t i = 0; i < rpc_api_count; i++) {
            if ((int)rpc_apis[i].key != key) continue;
            const struct ot_api *api = ot_api_find((int16_t)key);
            assert_non_null(api);
            docs_put("| %d | %s | %d-%d |\n", key, api->name, api->version_min, rpc_api_max(&rpc_apis[i], api));
            served++;
        }
    }
    docs_put("\n## Between brokers\n\nOn the peer listener (`peer.listeners`) the same framing carries requests of our own too. A connection begins with PeerHello; every other request, Kafka's included,\n"
             "is served there only to who has said hello and, where `peer.secret.file` is set, proved it. Until then a request may have at most 4096 bytes, and a connection is closed\n"
             "that has not got so far within 5 s.\n\n| Key | API | Versions served |\n|---|---|---|\n");
    for (uint32_t i = 0; i < rpc_api_count; i++) {
        const struct ot_api *api = ot_api_find(rpc_apis[i].key);
        if ((api->flags & OT_API_ON_PEER) == 0) continue;
        docs_put("| %d | %s | %d-%d |\n", api->key, api->name, api->version_min, rpc_api_max(&rpc_apis[i], api));
        served++;
    }
    assert_int_equal(served, rpc_api_count);
    docs_check("protocol.md");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_page_says_what_the_tables_say) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
