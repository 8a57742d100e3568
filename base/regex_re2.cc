// The only C++ of the house: libre2 behind plain C functions.
#include "base/regex_re2.h"

#include <cstdio>
#include <new>
#include <re2/re2.h>

int ot_re2_new(const char *pattern, size_t pattern_bytes, long memory_bytes_max, void **out, char *why, size_t why_bytes)
{
    *out = nullptr;
    try {
        re2::RE2::Options options;
        options.set_log_errors(false);
        options.set_max_mem(memory_bytes_max);
        re2::RE2 *regex = new re2::RE2(re2::StringPiece(pattern, pattern_bytes), options);
        if (regex->ok()) {
            *out = regex;
            return 1;
        }
        (void)snprintf(why, why_bytes, "%s", regex->error().c_str());
        delete regex;
        return 0;
    } catch (const std::bad_alloc &) {
        return -1;
    }
}

int ot_re2_full_match(const void *regex, const char *text, size_t text_bytes)
{
    try {
        return re2::RE2::FullMatch(re2::StringPiece(text, text_bytes), *static_cast<const re2::RE2 *>(regex)) ? 1 : 0;
    } catch (const std::bad_alloc &) {
        return 0;
    }
}

void ot_re2_free(void *regex)
{
    delete static_cast<re2::RE2 *>(regex);
}
