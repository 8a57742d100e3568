#include "cli/dev_cluster.h"

#include "base/net/address.h"
#include "cli/http.h"
#include "cli/port.h"
#include "cli/server_config.h"
#include "cli/text.h"
#include "cli/wait.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

enum { BROKERS_MAX = 9, WORDS_MAX = 200, WORD_BYTES = 1200, STEP = 10, REST = 3 /* its port behind Kafka's */, REST_USUAL = 9095, LOOK_MS = 100, ANSWER_MS = 500 };
#define USUAL_DATA "ottla-dev"

struct one { pid_t pid; char data[1000], log[1100]; uint16_t port; };
struct dev {
    const struct cli_args *args;
    uint32_t count;
    char exe[4096], host[256], voters[WORD_BYTES];
    struct one all[BROKERS_MAX];
};
struct words { char room[24][WORD_BYTES]; const char *list[WORDS_MAX]; uint32_t own, count; };

static void add(struct words *words, const char *word)
{
    if (words->count + 1 < WORDS_MAX) words->list[words->count++] = word;
}

static void add_set(struct words *words, const char *key, const char *value)
{
    char *room = words->room[words->own++];
    snprintf(room, WORD_BYTES, "%s=%s", key, value);
    add(words, "--set");
    add(words, room);
}

static void add_place(struct words *words, const struct dev *dev, const char *key, const char *scheme, uint32_t port)
{
    char text[400];
    snprintf(text, sizeof(text), "%s%s:%u", scheme, dev->host, port);
    add_set(words, key, text);
}

static void fill(const struct dev *dev, uint32_t at, struct words *words)
{
    const struct one *one = &dev->all[at];
    char id[16];
    *words = (struct words){ .count = 0 };
    snprintf(id, sizeof(id), "%u", at + 1);
    add(words, dev->exe);
    add(words, "server");
    if (cli_flag_given(dev->args, "config")) {
        add(words, "--config");
        add(words, cli_flag_value(dev->args, "config"));
    }
    for (uint32_t i = 0; cli_flag_nth(dev->args, "set", i) != NULL; i++) {
        add(words, "--set");
        add(words, cli_flag_nth(dev->args, "set", i));
    }
    add(words, "--data");                      /* what each has of its own goes last: it is stronger */
    add(words, one->data);
    add_set(words, "node.id", id);
    add_set(words, "coordinator.voters", dev->voters);
    add_place(words, dev, "listeners", "PLAINTEXT://", one->port);
    add_place(words, dev, "peer.listeners", "", one->port + 1u);       /* of who does not vote coordinator.voters has none */
    add_place(words, dev, "grpc.listeners", "", one->port + 2u);
    add_place(words, dev, "rest.listeners", "http://", (uint32_t)one->port + REST);
}

/* Only what is safe between fork and exec. */
static void become(const struct one *one, const struct words *words)
{
    sigset_t none;
    sigemptyset(&none);
    const int log = open(one->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (log < 0 || dup2(log, STDERR_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0) _exit(CLI_FAILED);
    (void)setpgid(0, 0);                       /* Ctrl-C is for who looks after them */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)execv(words->list[0], (char *const *)(uintptr_t)words->list);
    _exit(CLI_FAILED);
}

static int start(struct dev *dev, uint32_t at)
{
    struct words *words = malloc(sizeof *words);
    struct one *one = &dev->all[at];
    if (words == NULL) return cli_fail(CLI_FAILED, NULL, "out of memory");
    fill(dev, at, words);
    if (mkdir(one->data, 0750) != 0 && errno != EEXIST) {
        free(words);
        return cli_fail(CLI_FAILED, NULL, "%s cannot be made: %s", one->data, strerror(errno));
    }
    one->pid = fork();
    if (one->pid == 0) become(one, words);
    free(words);
    return one->pid < 0 ? cli_fail(CLI_FAILED, NULL, "a process could not be started: %s", strerror(errno)) : -1;
}

static void stop_all(struct dev *dev)
{
    for (uint32_t i = 0; i < dev->count; i++) {
        if (dev->all[i].pid > 0) (void)kill(dev->all[i].pid, SIGTERM);
    }
    for (uint32_t i = 0; i < dev->count; i++) {
        if (dev->all[i].pid > 0) (void)waitpid(dev->all[i].pid, NULL, 0);
    }
}

/* Who ended. False: nobody is left. */
static bool reap(struct dev *dev)
{
    bool any = false;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (uint32_t i = 0; i < dev->count; i++) {
            struct one *one = &dev->all[i];
            if (one->pid != pid) continue;
            one->pid = 0;
            if (WIFSIGNALED(status)) printf("broker %u was ended by signal %d; kill -HUP %d starts it again\n", i + 1, WTERMSIG(status), (int)getpid());
            else printf("broker %u ended with %d (%s); kill -HUP %d starts it again\n", i + 1, WEXITSTATUS(status), one->log, (int)getpid());
        }
    }
    fflush(stdout);
    for (uint32_t i = 0; i < dev->count; i++) any |= dev->all[i].pid > 0;
    return any;
}

static int restart(struct dev *dev)
{
    int code = -1;
    for (uint32_t i = 0; code < 0 && i < dev->count; i++) {
        if (dev->all[i].pid != 0) continue;
        code = start(dev, i);
        if (code < 0) printf("broker %u was started again: pid %d\n", i + 1, (int)dev->all[i].pid);
    }
    fflush(stdout);
    return code;
}

static void tell(const struct dev *dev)
{
    printf("%u brokers, one cluster. Ctrl-C stops them all; kill one and see what the others do.\n", dev->count);
    for (uint32_t i = 0; i < dev->count; i++) {
        const struct one *one = &dev->all[i];
        printf("  broker %u  pid %-7d kafka %s:%u  rest http://%s:%u  log %s\n", i + 1, (int)one->pid, dev->host, one->port, dev->host, one->port + REST, one->log);
    }
    fflush(stdout);
}

/* Registered and serving, so that a topic made from now on has a replica on each. */
static bool is_ready(const struct dev *dev, const struct one *one)
{
    struct cli_http_address address = { .port = (uint16_t)(one->port + REST) };
    struct cli_http_reply reply;
    char why[CLI_WHY_BYTES];
    bool sent;
    snprintf(address.host, sizeof(address.host), "%s", dev->host);
    if (cli_http_ask(&address, "GET", "/readyz", NULL, cli_deadline_us(ANSWER_MS), &reply, &sent, why) != OT_OK) return false;
    const bool ready = reply.status == 200;
    cli_http_reply_free(&reply);
    return ready;
}

static bool all_ready(const struct dev *dev)
{
    for (uint32_t i = 0; i < dev->count; i++)
        if (!is_ready(dev, &dev->all[i])) return false;
    return true;
}

static void tell_ready(const struct dev *dev)
{
    const uint32_t first = (uint32_t)dev->all[0].port + REST;
    const bool usual = first == REST_USUAL && strcmp(dev->host, "127.0.0.1") == 0;
    printf("all are ready. Next:  ottla cluster brokers     ottla topic create orders --partitions 3\n");
    if (!usual) printf("  the tools find them with  export OTTLA_API=http://%s:%u\n", dev->host, first);
    else if (dev->count > 1) printf("  the tools ask broker 1; before you kill that one:  export OTTLA_API=http://%s:%u\n", dev->host, first + STEP);
    fflush(stdout);
}

static bool all_live(const struct dev *dev)
{
    for (uint32_t i = 0; i < dev->count; i++)
        if (dev->all[i].pid <= 0) return false;
    return true;
}

static int look_after(struct dev *dev, const sigset_t *signals)
{
    const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000L };
    for (bool told = false;;) {
        int code = -1;
        if (!told && all_live(dev) && all_ready(dev)) {
            told = true;
            tell_ready(dev);
        }
        const int number = told || !all_live(dev) ? sigwaitinfo(signals, NULL) : sigtimedwait(signals, NULL, &pause);
        if (number < 0) continue;              /* the pause is over */
        if (number == SIGCHLD && !reap(dev)) return cli_fail(CLI_FAILED, NULL, "no broker is left");
        if (number == SIGHUP) code = restart(dev);
        if (code >= 0) return code;
        told &= number != SIGHUP;
        if (number == SIGINT || number == SIGTERM) return CLI_DONE;
    }
}

static int prepare(struct dev *dev, const struct broker_config *config)
{
    struct ot_net_address address[CLI_LISTENERS_MAX];
    char why[300] = "", list[WORD_BYTES] = "";
    size_t at = 0;
    const char *data = cli_flag_value(dev->args, "data");
    if (data == NULL) data = USUAL_DATA;
    if (cli_addresses_parse(config->listeners, address, CLI_LISTENERS_MAX, why, sizeof(why)) < 1) return cli_fail(CLI_USAGE, NULL, "listeners: %s", why);
    if (address[0].port == 0 || address[0].port + dev->count * STEP > 65535) return cli_fail(CLI_USAGE, NULL, "listeners: --dev counts on from that port: one below %u is needed", 65535 - dev->count * STEP);
    snprintf(dev->host, sizeof(dev->host), "%s", address[0].host[0] == 0 ? "127.0.0.1" : address[0].host);
    const ssize_t bytes = readlink("/proc/self/exe", dev->exe, sizeof(dev->exe) - 1);
    if (bytes <= 0) return cli_fail(CLI_FAILED, NULL, "this program does not find itself");
    dev->exe[bytes] = 0;
    if (mkdir(data, 0750) != 0 && errno != EEXIST) return cli_fail(CLI_FAILED, NULL, "%s cannot be made: %s", data, strerror(errno));
    const uint32_t voters = dev->count < 3 ? 1 : dev->count < 5 ? 3 : 5;
    for (uint32_t i = 0; i < dev->count; i++) {
        struct one *one = &dev->all[i];
        one->port = (uint16_t)(address[0].port + i * STEP);
        snprintf(one->data, sizeof(one->data), "%s/%u", data, i + 1);
        snprintf(one->log, sizeof(one->log), "%s/%u.log", data, i + 1);
        if (i < voters) at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%u@%s:%u", i == 0 ? "" : ",", i + 1, dev->host, one->port + 1u);
        if (at >= sizeof(list)) return cli_fail(CLI_USAGE, NULL, "listeners: the host is too long");
    }
    memcpy(dev->voters, list, sizeof(dev->voters));
    return -1;
}

/* Before any of them starts: one that ends at once would leave the others waiting for it. */
static int check_ports(const struct dev *dev)
{
    for (uint32_t i = 0; i < dev->count; i++) {
        for (uint16_t more = 0; more < 4; more++) {            /* Kafka, peers, gRPC, REST */
            const uint16_t port = (uint16_t)(dev->all[i].port + more);
            char why[300] = "", taken[CLI_PORT_TAKEN_BYTES];
            int fds[OT_NET_SOCKETS_MAX];
            uint32_t count = 0;
            uint16_t bound;
            const enum ot_err err = ot_net_listen(dev->host, port, 1, fds, &count, &bound, why, sizeof(why));
            for (uint32_t k = 0; err == OT_OK && k < count; k++) close(fds[k]);
            if (err != OT_OK)
                return cli_fail(CLI_FAILED, "end what has it, or begin at another port: ottla server --dev 3 --set listeners=PLAINTEXT://127.0.0.1:19092", "broker %u: %s%s", i + 1,
                    why[0] != 0 ? why : ot_err_text(err), err == OT_ERR_EXISTS ? cli_port_taken(port, taken) : "");
        }
    }
    return -1;
}

int cli_dev_cluster_run(const struct cli_args *args, const struct broker_config *config, const char *count_text)
{
    struct dev dev = { .args = args };
    sigset_t signals;
    int64_t count = 0;
    if (!cli_number(count_text, 1, BROKERS_MAX, &count)) return cli_fail(CLI_USAGE, "ottla server --dev 3", "--dev: `%s` is no number from 1 to %d", count_text, BROKERS_MAX);
    dev.count = (uint32_t)count;
    int code = prepare(&dev, config);
    if (code < 0) code = check_ports(&dev);
    if (code < 0 && cli_interrupt_install() != OT_OK) code = cli_fail(CLI_FAILED, NULL, "no pipe");
    if (code >= 0) return code;
    sigemptyset(&signals);
    const int waited[] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD };
    for (size_t i = 0; i < OT_ARRAY_COUNT(waited); i++) sigaddset(&signals, waited[i]);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    for (uint32_t i = 0; code < 0 && i < dev.count; i++) code = start(&dev, i);
    if (code < 0) {
        tell(&dev);
        code = look_after(&dev, &signals);
    }
    stop_all(&dev);
    return code;
}
