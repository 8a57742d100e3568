/* Values from files and the environment.
 *
 * An unknown key in a file or a flag stops the start; an unknown OTTLA_ variable is a warning, because schedulers put variables of their own
 * there (a service named ottla makes OTTLA_SERVICE_HOST, OTTLA_PORT_9092_TCP, …). */
#include "broker/config_private.h"
#include "base/properties.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX (1u << 20)
#define VALUE_BYTES_MAX (64u << 10)

struct load {
    struct broker_config_store *store;
    const char *path;
    char *text;
    size_t text_bytes;
    bool plain_secret;
};

/* errno says what failed when the answer is not OK and *text_out is still empty. */
static enum ot_err read_regular(int fd, size_t max_bytes, char **data_out, size_t *bytes_out, char *text_out, size_t text_bytes)
{
    struct stat status;
    size_t bytes = 0;
    ssize_t more = 1;
    if (fstat(fd, &status) != 0) return OT_ERR_INVALID_CONFIG;
    if (!S_ISREG(status.st_mode)) {
        snprintf(text_out, text_bytes, "it is a %s, not a file", S_ISDIR(status.st_mode) ? "directory" : S_ISFIFO(status.st_mode) ? "FIFO" : "device or socket");
        return OT_ERR_INVALID_CONFIG;
    }
    char *data = malloc(max_bytes + 1);
    while (data != NULL && more != 0 && bytes <= max_bytes) {
        more = read(fd, data + bytes, max_bytes + 1 - bytes);
        if (more < 0 && errno == EINTR) continue;
        if (more < 0) break;
        bytes += (size_t)more;
    }
    if (data == NULL || more < 0 || bytes > max_bytes) {
        if (data != NULL && more >= 0) snprintf(text_out, text_bytes, "it has more than %zu bytes", max_bytes);
        const int why = errno;
        free(data);
        errno = why;
        return OT_ERR_INVALID_CONFIG;
    }
    data[bytes] = 0;
    *data_out = data;
    *bytes_out = bytes;
    return OT_OK;
}

enum ot_err broker_config_read_text(const char *path, size_t max_bytes, char **data_out, size_t *bytes_out, char *text_out, size_t text_bytes)
{
    text_out[0] = 0;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);       /* that of a FIFO would wait for a writer */
    enum ot_err err = fd < 0 ? OT_ERR_INVALID_CONFIG : read_regular(fd, max_bytes, data_out, bytes_out, text_out, text_bytes);
    if (err != OT_OK && text_out[0] == 0) {
        const int why = errno;
        if (fd < 0 && why == ENOENT) err = OT_ERR_NOT_FOUND;
        snprintf(text_out, text_bytes, "%s", err == OT_ERR_NOT_FOUND ? ot_err_text(err) : strerrordesc_np(why));
    }
    if (fd >= 0) close(fd);
    return err;
}

/* ${env:NAME}, ${file:/path}, ${credential:NAME}; *value_out is malloc'ed. */
static enum ot_err substitute(struct load *load, const char *value, char **value_out)
{
    size_t length = strlen(value);
    bool env = strncmp(value, "${env:", 6) == 0, file = strncmp(value, "${file:", 7) == 0, credential = strncmp(value, "${credential:", 13) == 0;
    if (!(env || file || credential) || value[length - 1] != '}') {
        *value_out = strdup(value);
        return *value_out == NULL ? OT_ERR_NO_MEMORY : OT_OK;
    }
    char name[4096], path[8192];
    size_t skip = env ? 6 : file ? 7 : 13;
    snprintf(name, sizeof(name), "%.*s", (int)(length - skip - 1), value + skip);
    if (env) {
        const char *found = getenv(name);
        if (found == NULL) {
            snprintf(load->text, load->text_bytes, "the environment has no %s", name);
            return OT_ERR_INVALID_CONFIG;
        }
        *value_out = strdup(found);
        return *value_out == NULL ? OT_ERR_NO_MEMORY : OT_OK;
    }
    const char *credentials = getenv("CREDENTIALS_DIRECTORY");
    if (credential) snprintf(path, sizeof(path), "%s/%s", credentials == NULL ? "" : credentials, name);
    else snprintf(path, sizeof(path), "%s", name);
    size_t bytes = 0;
    char why[200];
    enum ot_err err = broker_config_read_text(path, VALUE_BYTES_MAX, value_out, &bytes, why, sizeof(why));
    if (err != OT_OK) snprintf(load->text, load->text_bytes, "cannot read %s: %s", path, why);
    else if (bytes > 0 && (*value_out)[bytes - 1] == '\n') (*value_out)[bytes - 1] = 0;
    return err == OT_OK ? OT_OK : OT_ERR_INVALID_CONFIG;
}

static enum ot_err file_pair(void *arg, int line, const char *key, const char *value)
{
    struct load *load = arg;
    char origin[4200], why[512] = "";
    char *text = NULL;
    snprintf(origin, sizeof(origin), "%s:%d", load->path, line);
    enum ot_err err = substitute(load, value, &text);
    if (err != OT_OK) {
        snprintf(why, sizeof(why), "%s", load->text);
    } else {
        const struct broker_config_row *row = broker_config_row_by_key(key);
        if (row != NULL && row->sensitive && strcmp(text, value) == 0) load->plain_secret = true;
        err = broker_config_set(load->store, BROKER_SOURCE_FILE, origin, key, text, why, sizeof(why));
        if (row == NULL && strcmp(broker_config_current(load->store)->ottla_config_unknown_keys, "warn") == 0) {
            char warning[4800];
            snprintf(warning, sizeof(warning), "%s: %s", origin, why);
            broker_config_warn(load->store, warning);
            err = OT_OK;
        }
    }
    free(text);
    if (err != OT_OK) snprintf(load->text, load->text_bytes, "%.200s: %s", origin, why);
    return err;
}

static enum ot_err find_unknown_policy(void *arg, int line, const char *key, const char *value)
{
    (void)line;
    return strcmp(key, "ottla.config.unknown.keys") == 0 ? file_pair(arg, line, key, value) : OT_OK;
}

static enum ot_err load_one(struct load *load)
{
    char *data = NULL;
    size_t bytes = 0;
    int line = 0;
    char why[200];
    enum ot_err err = broker_config_read_text(load->path, FILE_BYTES_MAX, &data, &bytes, why, sizeof(why));
    if (err != OT_OK) {
        snprintf(load->text, load->text_bytes, "cannot read %s: %s", load->path, why);
        return err;
    }
    load->plain_secret = false;
    load->text[0] = 0;
    err = ot_properties_parse(data, bytes, find_unknown_policy, load, &line);      /* wherever in the file it stands, it counts for all of it */
    if (err == OT_OK) err = ot_properties_parse(data, bytes, file_pair, load, &line);
    if (err == OT_ERR_MALFORMED) snprintf(load->text, load->text_bytes, "%.200s:%d: not in properties syntax", load->path, line);
    free(data);
    struct stat status;
    if (err == OT_OK && load->plain_secret && stat(load->path, &status) == 0 && (status.st_mode & 0137) != 0) {
        char warning[4300];
        snprintf(warning, sizeof(warning), "%s holds a secret in the clear and its mode is wider than 0640", load->path);
        broker_config_warn(load->store, warning);
    }
    return err;
}

static int is_properties(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 11 && strcmp(entry->d_name + length - 11, ".properties") == 0;
}

enum ot_err broker_config_load_file(struct broker_config_store *store, const char *path, char *text_out, size_t text_bytes)
{
    struct load load = { .store = store, .path = path, .text = text_out, .text_bytes = text_bytes };
    char dir[4096], name[4600];
    struct dirent **entries = NULL;
    enum ot_err err = load_one(&load);
    snprintf(dir, sizeof(dir), "%s.d", path);
    int count = err == OT_OK ? scandir(dir, &entries, is_properties, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "%s/%s", dir, entries[i]->d_name);
        load.path = name;
        if (err == OT_OK) err = load_one(&load);
        free(entries[i]);
    }
    free(entries);
    return err;
}

/* `_` is a dot, `__` an underscore, `___` a dash. */
static void key_of_variable(const char *name, size_t length, char key[static 200])
{
    size_t out = 0;
    for (size_t i = 0; i < length && out < 199;) {
        size_t run = 0;
        while (i + run < length && name[i + run] == '_') run++;
        if (run == 0) {
            key[out++] = (char)tolower((unsigned char)name[i++]);
            continue;
        }
        i += run;
        for (; run >= 3 && out < 199; run -= 3) key[out++] = '-';
        if (run > 0 && out < 199) key[out++] = run == 2 ? '_' : '.';
    }
    key[out] = 0;
}

enum ot_err broker_config_load_environment(struct broker_config_store *store, char *const *environment, char *text_out, size_t text_bytes)
{
    static const char *const tools[] = { "OTTLA_CONFIG", "OTTLA_API", "OTTLA_BOOTSTRAP_SERVER" };
    for (; *environment != NULL; environment++) {
        const char *name = *environment, *equals = strchr(name, '=');
        if (strncmp(name, "OTTLA_", 6) != 0 || equals == NULL) continue;
        bool of_tools = false;
        for (size_t i = 0; i < OT_ARRAY_COUNT(tools); i++)
            of_tools |= strlen(tools[i]) == (size_t)(equals - name) && strncmp(name, tools[i], (size_t)(equals - name)) == 0;
        if (of_tools) continue;
        char key[200], origin[200], why[512];
        key_of_variable(name + 6, (size_t)(equals - name) - 6, key);
        snprintf(origin, sizeof(origin), "%.*s", (int)(equals - name), name);
        if (broker_config_row_by_key(key) == NULL) {       /* perhaps one of our own keys, whose prefix the variable shares: OTTLA_DURABILITY */
            char own[220];
            snprintf(own, sizeof(own), "ottla.%s", key);
            if (broker_config_row_by_key(own) != NULL) {
                snprintf(key, sizeof(key), "%.199s", own);
            } else {
                snprintf(why, sizeof(why), "variable %.100s names no key (%.150s)", origin, key);
                broker_config_warn(store, why);
                continue;
            }
        }
        enum ot_err err = broker_config_set(store, BROKER_SOURCE_ENVIRONMENT, origin, key, equals + 1, why, sizeof(why));
        if (err == OT_OK) continue;
        snprintf(text_out, text_bytes, "%.100s: %s", origin, why);
        return err;
    }
    return OT_OK;
}
