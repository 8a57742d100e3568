#include "base/log.h"
#include "base/util.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_BYTES       4096u
#define SUBSYSTEMS_MAX   32u
#define REPEAT_SLOTS     64u
#define REPEAT_BOUND     10u
#define REPEAT_WINDOW_US 1000000

static const char *const level_names[] = {"ERROR", "WARN", "INFO", "DEBUG", "TRACE"};
static const char level_priorities[] = {'3', '4', '6', '7', '7'};

static struct {
    _Atomic int level, loudest, format, fd;
    struct {
        char name[24];
        _Atomic int level;
    } own[SUBSYSTEMS_MAX]; /* only grows; own_count publishes a name */
    _Atomic uint32_t own_count;
    pthread_mutex_t mutex;
    struct repeat {
        char subsystem[24], event[40];
        int level;
        int64_t start_us;
        uint32_t count;
    } repeats[REPEAT_SLOTS];
    uint64_t recent_end; /* bytes ever put into recent, a ring */
    char recent[OT_LOG_RECENT_BYTES];
} house = {.level = OT_LOG_INFO, .loudest = OT_LOG_INFO, .format = OT_LOG_TEXT, .fd = 2, .mutex = PTHREAD_MUTEX_INITIALIZER};

void ot_log_setup(enum ot_log_level level, enum ot_log_format format, int fd)
{
    atomic_store(&house.format, format);
    atomic_store(&house.fd, fd);
    ot_log_set_level(NULL, level);
}

static void find_loudest(void)
{
    int loudest = atomic_load(&house.level);
    for (uint32_t i = 0; i < atomic_load(&house.own_count); i++) loudest = OT_MAX(loudest, atomic_load(&house.own[i].level));
    atomic_store(&house.loudest, loudest);
}

void ot_log_set_level(const char *subsystem, enum ot_log_level level)
{
    pthread_mutex_lock(&house.mutex);
    const uint32_t count = atomic_load(&house.own_count);
    uint32_t i = 0;
    if (subsystem == NULL) {
        atomic_store(&house.level, level);
        for (; i < count; i++) atomic_store(&house.own[i].level, level);
    } else {
        while (i < count && strcmp(house.own[i].name, subsystem) != 0) i++;
        if (i < count)
            atomic_store(&house.own[i].level, level);
        else if (i < SUBSYSTEMS_MAX) {
            snprintf(house.own[i].name, sizeof(house.own[i].name), "%s", subsystem);
            atomic_store(&house.own[i].level, level);
            atomic_store_explicit(&house.own_count, count + 1, memory_order_release);
        }
    }
    find_loudest();
    pthread_mutex_unlock(&house.mutex);
}

bool ot_log_enabled(const char *subsystem, enum ot_log_level level)
{
    if ((int)level > atomic_load_explicit(&house.loudest, memory_order_relaxed)) return false;
    const uint32_t count = atomic_load_explicit(&house.own_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        if (strncmp(house.own[i].name, subsystem, sizeof(house.own[i].name) - 1) == 0) {
            return (int)level <= atomic_load_explicit(&house.own[i].level, memory_order_relaxed);
        }
    }
    return (int)level <= atomic_load_explicit(&house.level, memory_order_relaxed);
}

bool ot_log_level_parse(const char *text, enum ot_log_level *out)
{
    for (size_t i = 0; i < OT_ARRAY_COUNT(level_names); i++) {
        if (strcasecmp(text, level_names[i]) != 0) continue;
        *out = (enum ot_log_level)i;
        return true;
    }
    return false;
}

bool ot_log_is_journal(int fd)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat stat;
    if (stream == NULL || sscanf(stream, "%llu:%llu", &device, &inode) != 2 || fstat(fd, &stat) != 0) return false;
    return stat.st_dev == device && stat.st_ino == inode;
}

/* --- text of a line --- */

struct line {
    char *text;
    size_t bytes, cap;
};

static void put(struct line *line, const char *text, size_t bytes)
{
    bytes = OT_MIN(bytes, line->cap - line->bytes);
    memcpy(line->text + line->bytes, text, bytes);
    line->bytes += bytes;
}

static void put_text(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* A character inside quotes, in JSON's escapes, which the text format shares. */
static void put_escaped(struct line *line, char c)
{
    char escape[8];
    if (c == '"' || c == '\\')
        put(line, (char[]){'\\', c}, 2);
    else if (c == '\n')
        put_text(line, "\\n");
    else if (c == '\r')
        put_text(line, "\\r");
    else if (c == '\t')
        put_text(line, "\\t");
    else if ((unsigned char)c < 0x20 || c == 0x7f) {
        snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)(unsigned char)c);
        put_text(line, escape);
    } else {
        put(line, &c, 1);
    }
}

static bool looks_like_number(const char *text, size_t bytes)
{
    size_t i = bytes > 0 && text[0] == '-';
    const size_t first = i;
    while (i < bytes && text[i] >= '0' && text[i] <= '9') i++;
    if (i == first || (text[first] == '0' && i > first + 1)) return false;
    if (i == bytes) return true;
    if (text[i++] != '.') return false;
    const size_t fraction = i;
    while (i < bytes && text[i] >= '0' && text[i] <= '9') i++;
    return i == bytes && i > fraction;
}

const char *ot_log_field_n(char out[static OT_LOG_FIELD_BYTES], const char *text, size_t bytes)
{
    if (text == NULL) return memcpy(out, "null", 5);
    bool quote = bytes == 0 || looks_like_number(text, bytes) || !ot_utf8_valid(text, bytes);
    for (size_t i = 0; i < bytes && !quote; i++) quote = strchr(" =\"\\\x7f", text[i]) != NULL || (unsigned char)text[i] < 0x20;
    const bool valid = ot_utf8_valid(text, bytes);
    struct line line = {out, 0, OT_LOG_FIELD_BYTES - 8}; /* room for the ellipsis, the quote and the zero */
    size_t i = 0;
    if (quote) put(&line, "\"", 1);
    for (; i < bytes && line.bytes + 6 <= line.cap; i++) {
        if (!valid && (unsigned char)text[i] >= 0x80)
            put(&line, "?", 1);
        else if (quote)
            put_escaped(&line, text[i]);
        else
            put(&line, text + i, 1);
    }
    if (i < bytes) {
        while (valid && line.bytes > 0 && (text[i] & 0xc0) == 0x80) i--, line.bytes--; /* not in the middle of a character */
        line.cap += 4;
        put(&line, "\xe2\x80\xa6", 3);
    }
    line.cap = OT_LOG_FIELD_BYTES - 1;
    if (quote) put(&line, "\"", 1);
    out[line.bytes] = '\0';
    return out;
}

const char *ot_log_field(char out[static OT_LOG_FIELD_BYTES], const char *text)
{
    return ot_log_field_n(out, text, text == NULL ? 0 : strlen(text));
}

/* The end of the word at from: a blank outside quotes. */
static size_t word_end(const char *text, size_t bytes, size_t from)
{
    bool quoted = false;
    size_t i = from;
    for (; i < bytes && (quoted || text[i] != ' '); i++) {
        if (text[i] == '\\' && quoted && i + 1 < bytes)
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
    }
    return i;
}

static bool is_escape(const char *text, size_t bytes)
{
    if (bytes < 2 || text[0] != '\\' || text[1] == '\0' || strchr("\"\\nrtu", text[1]) == NULL) return false;
    return text[1] != 'u' || (bytes >= 6 && strspn(text + 2, "0123456789abcdefABCDEF") >= 4);
}

static void put_json_value(struct line *line, const char *text, size_t bytes)
{
    if (looks_like_number(text, bytes) || (bytes == 4 && (memcmp(text, "true", 4) == 0 || memcmp(text, "null", 4) == 0)) ||
        (bytes == 5 && memcmp(text, "false", 5) == 0)) {
        put(line, text, bytes);
        return;
    }
    put(line, "\"", 1);
    if (bytes >= 2 && text[0] == '"' && text[bytes - 1] == '"') {
        for (size_t i = 1; i < bytes - 1; i++) { /* escaped by ot_log_field already, if it came from there */
            if (is_escape(text + i, bytes - 1 - i))
                put(line, text + i++, 2);
            else
                put_escaped(line, text[i]);
        }
    } else {
        for (size_t i = 0; i < bytes; i++) put_escaped(line, text[i]);
    }
    put(line, "\"", 1);
}

/* One `key=value`; false when it is none. */
static bool put_json_field(struct line *line, const char *word, size_t bytes)
{
    const char *equals = memchr(word, '=', bytes);
    if (equals == NULL || equals == word || word[0] == '"') return false;
    const size_t key_bytes = (size_t)(equals - word);
    put_text(line, ",\"");
    for (size_t i = 0; i < key_bytes; i++) put_escaped(line, word[i]);
    put_text(line, "\":");
    put_json_value(line, equals + 1, bytes - key_bytes - 1);
    return true;
}

/* What does not fit is left out field by field, so that the object stays whole. */
static void put_json_fields(struct line *line, const char *text, size_t bytes)
{
    char words[512];
    struct line loose = {words, 0, sizeof(words)};
    const size_t cap = line->cap - 16;
    for (size_t at = 0, end; at < bytes; at = end + 1) {
        end = word_end(text, bytes, at);
        const size_t mark = line->bytes;
        if (!put_json_field(line, text + at, end - at)) {
            if (loose.bytes > 0) put(&loose, " ", 1);
            put(&loose, text + at, end - at);
        }
        if (line->bytes > cap) line->bytes = mark;
    }
    while (!ot_utf8_valid(words, loose.bytes)) loose.bytes--; /* it was cut at its cap, maybe inside a character */
    const size_t mark = line->bytes;
    if (loose.bytes == 0) return;
    put_text(line, ",\"text\":\"");
    for (size_t i = 0; i < loose.bytes; i++) put_escaped(line, loose.text[i]);
    put(line, "\"", 1);
    if (line->bytes > cap) line->bytes = mark;
}

static void put_head(struct line *line, int format, int level, const char *subsystem, const char *event)
{
    char time[25];
    ot_time_text(ot_clock_wall_ms(), time);
    if (format == OT_LOG_JSON) {
        const char *const parts[] = {"{\"time\":\"", time, "\",\"level\":\"", level_names[level], "\",\"subsystem\":\"", subsystem,
            "\",\"event\":\"", event, "\""};
        for (size_t i = 0; i < OT_ARRAY_COUNT(parts); i++) put_text(line, parts[i]);
        return;
    }
    if (format == OT_LOG_JOURNAL)
        put(line, (char[]){'<', level_priorities[level], '>'}, 3);
    else
        put(line, time, 24), put(line, " ", 1);
    const char *const parts[] = {level_names[level], " ", subsystem, " ", event};
    for (size_t i = 0; i < OT_ARRAY_COUNT(parts); i++) put_text(line, parts[i]);
}

/* mutex held */
static void remember(const char *text, size_t bytes)
{
    const size_t at = house.recent_end % OT_LOG_RECENT_BYTES, first = OT_MIN(bytes, OT_LOG_RECENT_BYTES - at);
    memcpy(house.recent + at, text, first);
    memcpy(house.recent, text + first, bytes - first);
    house.recent_end += bytes;
}

size_t ot_log_recent(char *out, size_t cap)
{
    pthread_mutex_lock(&house.mutex);
    const size_t bytes = (size_t)OT_MIN(OT_MIN(house.recent_end, (uint64_t)OT_LOG_RECENT_BYTES), (uint64_t)cap);
    for (size_t i = 0; i < bytes; i++) out[i] = house.recent[(house.recent_end - bytes + i) % OT_LOG_RECENT_BYTES];
    const bool cut = bytes < house.recent_end;
    pthread_mutex_unlock(&house.mutex);
    const char *line = cut ? memchr(out, '\n', bytes) : NULL;
    const size_t skip = !cut ? 0 : line == NULL ? bytes : (size_t)(line - out) + 1;
    memmove(out, out + skip, bytes - skip);
    return bytes - skip;
}

static void write_line(int level, const char *subsystem, const char *event, const char *fields, size_t fields_bytes)
{
    char text[LINE_BYTES * 2];
    struct line line = {text, 0, sizeof(text) - 2};
    const int format = atomic_load(&house.format);
    put_head(&line, format, level, subsystem, event);
    if (format == OT_LOG_JSON) {
        put_json_fields(&line, fields, fields_bytes);
        put(&line, "}", 1);
    } else if (fields_bytes > 0) {
        put(&line, " ", 1);
        for (size_t i = 0; i < fields_bytes; i++) { /* whatever was formatted: one event stays one line */
            if ((unsigned char)fields[i] < 0x20 || fields[i] == 0x7f)
                put_escaped(&line, fields[i]);
            else
                put(&line, fields + i, 1);
        }
    }
    text[line.bytes++] = '\n';
    remember(text, line.bytes);
    ssize_t written;
    do written = write(atomic_load(&house.fd), text, line.bytes);
    while (written < 0 && errno == EINTR);
}

/* --- repeats --- */

static void tell_repeats(struct repeat *repeat)
{
    if (repeat->count > REPEAT_BOUND) {
        char fields[48];
        const int bytes = snprintf(fields, sizeof(fields), "repeated=%u", repeat->count - REPEAT_BOUND);
        write_line(repeat->level, repeat->subsystem, repeat->event, fields, (size_t)bytes);
    }
    repeat->count = 0;
}

/* True when the line is to be written. An event shares its slot with those of the same hash: then the older one gives way. */
static bool repeat_admit(int level, const char *subsystem, const char *event)
{
    const int64_t now_us = ot_clock_boot_us();
    for (size_t i = 0; i < REPEAT_SLOTS; i++) {
        if (house.repeats[i].count > 0 && now_us - house.repeats[i].start_us >= REPEAT_WINDOW_US) tell_repeats(&house.repeats[i]);
    }
    const uint64_t hash = ot_hash64(event, strlen(event), ot_hash64(subsystem, strlen(subsystem), (uint64_t)level));
    struct repeat *repeat = &house.repeats[hash % REPEAT_SLOTS];
    const bool same = repeat->level == level && strncmp(repeat->event, event, sizeof(repeat->event) - 1) == 0 &&
                      strncmp(repeat->subsystem, subsystem, sizeof(repeat->subsystem) - 1) == 0;
    if (repeat->count == 0 || !same) {
        tell_repeats(repeat);
        snprintf(repeat->subsystem, sizeof(repeat->subsystem), "%s", subsystem);
        snprintf(repeat->event, sizeof(repeat->event), "%s", event);
        repeat->level = level;
        repeat->start_us = now_us;
    }
    return ++repeat->count <= REPEAT_BOUND;
}

void ot_log(enum ot_log_level level, const char *subsystem, const char *event, const char *format, ...)
{
    if (!ot_log_enabled(subsystem, level)) return;
    const int kept_errno = errno;
    char fields[LINE_BYTES];
    va_list args;
    va_start(args, format);
    const int wanted = vsnprintf(fields, sizeof(fields), format, args);
    va_end(args);
    size_t bytes = wanted < 0 ? 0 : OT_MIN((size_t)wanted, sizeof(fields) - 1);
    while (bytes > 0 && (size_t)wanted > bytes && (fields[bytes] & 0xc0) == 0x80) bytes--; /* cut between characters */
    if (!ot_utf8_valid(fields, bytes)) {
        for (size_t i = 0; i < bytes; i++) fields[i] = (fields[i] & 0x80) != 0 ? '?' : fields[i];
    }
    pthread_mutex_lock(&house.mutex);
    if (strcmp(subsystem, "audit") == 0 || repeat_admit((int)level, subsystem, event)) write_line((int)level, subsystem, event, fields, bytes);
    pthread_mutex_unlock(&house.mutex);
    errno = kept_errno;
}

void ot_log_flush(void)
{
    pthread_mutex_lock(&house.mutex);
    for (size_t i = 0; i < REPEAT_SLOTS; i++) tell_repeats(&house.repeats[i]);
    pthread_mutex_unlock(&house.mutex);
}
