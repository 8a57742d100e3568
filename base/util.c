#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

void ot_rng_seed(struct ot_rng *rng, uint64_t seed)
{
    for (size_t i = 0; i < 4; i++) { /* splitmix64 spreads the seed: the state must not be all zero */
        uint64_t z = (seed += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        rng->state[i] = z ^ (z >> 31);
    }
}

static uint64_t rotl(uint64_t v, int bits)
{
    return (v << bits) | (v >> (64 - bits));
}

uint64_t ot_rng_next(struct ot_rng *rng)
{
    uint64_t *s = rng->state;
    const uint64_t result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint64_t ot_rng_below(struct ot_rng *rng, uint64_t bound)
{
    OT_ASSERT(bound > 0);
    const uint64_t refuse_below = (0 - bound) % bound; /* 2^64 mod bound: the low products that would weigh double */
    for (;;) {
        const unsigned __int128 product = (unsigned __int128)ot_rng_next(rng) * bound;
        if ((uint64_t)product >= refuse_below) return (uint64_t)(product >> 64);
    }
}

bool ot_rng_chance(struct ot_rng *rng, double probability)
{
    return (double)(ot_rng_next(rng) >> 11) * 0x1p-53 < probability;
}

void ot_random_bytes(void *out, size_t bytes)
{
    uint8_t *at = out;
    while (bytes > 0) {
        const ssize_t got = getrandom(at, bytes, 0);
        if (got < 0 && errno == EINTR) continue;
        OT_ASSERT(got > 0); /* without randomness no id is safe to hand out */
        at += got;
        bytes -= (size_t)got;
    }
}

static int64_t clock_ns(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t ot_clock_boot_us(void)
{
    return clock_ns(CLOCK_BOOTTIME) / 1000;
}
int64_t ot_clock_wall_ms(void)
{
    return clock_ns(CLOCK_REALTIME) / 1000000;
}

/* Days since 1970-01-01 of a date in the proleptic Gregorian calendar, and back. Years begin in March here, so that the leap day
 * is the last of its year; 400 of them have 146097 days. */
static int64_t days_of(int64_t year, int month, int day)
{
    year -= month <= 2;
    const int64_t era = (year >= 0 ? year : year - 399) / 400, in_era = year - era * 400;
    const int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719468;
}

static void date_of(int64_t days, int *year, int *month, int *day)
{
    days += 719468;
    const int64_t era = (days >= 0 ? days : days - 146096) / 146097, in_era = days - era * 146097;
    const int64_t y = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    const int64_t in_year = in_era - (365 * y + y / 4 - y / 100), m = (5 * in_year + 2) / 153;
    *day = (int)(in_year - (153 * m + 2) / 5 + 1);
    *month = (int)(m < 10 ? m + 3 : m - 9);
    *year = (int)(y + era * 400 + (*month <= 2));
}

void ot_time_text(int64_t wall_ms, char out[static 25])
{
    const int64_t first = -62167219200000, last = 253402300799999; /* years 0000 to 9999: what RFC 3339 can say */
    wall_ms = OT_MIN(OT_MAX(wall_ms, first), last);
    int64_t days = wall_ms / 86400000, ms = wall_ms % 86400000;
    if (ms < 0) {
        days--;
        ms += 86400000;
    }
    int year, month, day;
    date_of(days, &year, &month, &day);
    const unsigned parts[7] = {(unsigned)year % 10000, (unsigned)month % 100, (unsigned)day % 100, (unsigned)(ms / 3600000) % 100,
        (unsigned)(ms / 60000 % 60), (unsigned)(ms / 1000 % 60), (unsigned)(ms % 1000)};
    snprintf(out, 25, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], parts[6]);
}

/* count digits at *at, which moves behind them; -1 when they are not there. */
static int digits(const char **at, int count)
{
    int v = 0;
    for (int i = 0; i < count; i++) {
        if (!isdigit((unsigned char)(*at)[i])) return -1;
        v = v * 10 + ((*at)[i] - '0');
    }
    *at += count;
    return v;
}

static bool expect(const char **at, char c)
{
    if (**at != c) return false;
    (*at)++;
    return true;
}

static bool parse_epoch_ms(const char *text, int64_t *out)
{
    const bool negative = *text == '-';
    text += negative;
    int64_t v = 0;
    if (*text == '\0') return false;
    for (; *text != '\0'; text++) {
        if (!isdigit((unsigned char)*text)) return false;
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *text - '0', &v))
            return false; /* counts downwards: INT64_MIN */
    }
    if (!negative && v == INT64_MIN) return false;
    *out = negative ? v : -v;
    return true;
}

static bool parse_zone(const char **at, int64_t *offset_ms)
{
    *offset_ms = 0;
    if (**at == 'Z' || **at == 'z') return (*at)++, true;
    if (**at != '+' && **at != '-') return false;
    const int sign = *(*at)++ == '-' ? -1 : 1;
    const int hours = digits(at, 2);
    if (hours < 0 || hours > 23 || !expect(at, ':')) return false;
    const int minutes = digits(at, 2);
    if (minutes < 0 || minutes > 59) return false;
    *offset_ms = sign * (hours * 60 + minutes) * (int64_t)60000;
    return true;
}

static int month_days(int year, int month)
{
    static const uint8_t days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && leap);
}

bool ot_time_parse(const char *text, int64_t *wall_ms_out)
{
    if (parse_epoch_ms(text, wall_ms_out)) return true;
    const char *at = text;
    const int year = digits(&at, 4);
    if (year < 0 || !expect(&at, '-')) return false;
    const int month = digits(&at, 2);
    if (month < 1 || month > 12 || !expect(&at, '-')) return false;
    const int day = digits(&at, 2);
    if (day < 1 || day > month_days(year, month)) return false;
    if (!expect(&at, 'T') && !expect(&at, 't') && !expect(&at, ' ')) return false;
    const int hour = digits(&at, 2);
    if (hour < 0 || hour > 23 || !expect(&at, ':')) return false;
    const int minute = digits(&at, 2);
    if (minute < 0 || minute > 59 || !expect(&at, ':')) return false;
    const int second = digits(&at, 2);
    if (second < 0 || second > 60) return false; /* 60: a leap second, the first of the next minute for us */
    int ms = 0;
    if (expect(&at, '.')) {
        if (!isdigit((unsigned char)*at)) return false;
        for (int weight = 100; isdigit((unsigned char)*at); weight /= 10) ms += (*at++ - '0') * weight;
    }
    int64_t offset_ms;
    if (!parse_zone(&at, &offset_ms) || *at != '\0') return false;
    *wall_ms_out = days_of(year, month, day) * 86400000 + ((hour * 60 + minute) * 60 + second) * (int64_t)1000 + ms - offset_ms;
    return true;
}

#define NEAREST_BYTES_MAX 128

/* Insertions, deletions, substitutions and swaps of neighbours, each 1; letters compare without case. */
static size_t edit_distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t rows[3][NEAREST_BYTES_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_bytes; j++) last[j] = before[j] = j;
    for (size_t i = 1; i <= a_bytes; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_bytes; j++) {
            const int ca = tolower((unsigned char)a[i - 1]), cb = tolower((unsigned char)b[j - 1]);
            size_t best = last[j - 1] + (ca != cb);
            best = OT_MIN(best, OT_MIN(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && ca == tolower((unsigned char)b[j - 2]) && cb == tolower((unsigned char)a[i - 2])) {
                best = OT_MIN(best, before[j - 2] + 1);
            }
            row[j] = best;
        }
        size_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[b_bytes];
}

const char *ot_nearest(const char *word, const char *const *names, size_t count)
{
    const size_t bytes = strnlen(word, NEAREST_BYTES_MAX + 1);
    if (bytes == 0 || bytes > NEAREST_BYTES_MAX) return NULL;
    const char *best = NULL;
    size_t best_distance = bytes <= 3 ? 1 : bytes <= 8 ? 2 : bytes / 4 + 1; /* further away it is another word */
    for (size_t i = 0; i < count; i++) {
        const size_t name_bytes = strnlen(names[i], NEAREST_BYTES_MAX + 1);
        if (name_bytes > NEAREST_BYTES_MAX) continue;
        const size_t apart = name_bytes > bytes ? name_bytes - bytes : bytes - name_bytes;
        if (apart > best_distance) continue;
        const size_t distance = edit_distance(word, bytes, names[i], name_bytes);
        if (distance < best_distance || (distance == best_distance && best == NULL)) {
            best = names[i];
            best_distance = distance;
        }
    }
    return best;
}
