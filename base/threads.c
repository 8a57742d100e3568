/* A thread is asked where it is by a signal of its own: the handler walks the stack into one slot and says so. The slot has a number, so that a thread that answers
 * too late (it was in an uninterruptible wait) writes nowhere. backtrace(3) is called once before, since its first call loads a library; after that it takes no lock
 * (glibc 2.35 and later find the unwind tables without one). */
#include "base/threads.h"

#include "base/util.h"

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SKIPPED = 2 /* the handler, and the kernel's way into it */, WAIT_MS = 500, TASKS_MAX = 4096 };
#define ASK_SIGNAL (SIGRTMIN + 7)

static struct {
    pthread_mutex_t mutex; /* guards asking */
    bool installed;
    _Atomic int asked;     /* number of the question; 0: none */
    _Atomic int answered;
    int count;
    void *frames[OT_STACK_FRAMES_MAX + SKIPPED];
} slot = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void on_ask(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    const int kept = errno;
    int question = info->si_value.sival_int;
    /* taken out while we write: a question that was given up on is another number, or none */
    if (info->si_code == SI_QUEUE && atomic_compare_exchange_strong(&slot.asked, &question, -1)) {
        slot.count = backtrace(slot.frames, OT_STACK_FRAMES_MAX + SKIPPED);
        atomic_store_explicit(&slot.answered, info->si_value.sival_int, memory_order_release);
    }
    errno = kept;
}

void ot_threads_install(void)
{
    void *one[1];
    struct sigaction action = {.sa_sigaction = on_ask, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigfillset(&action.sa_mask);
    pthread_mutex_lock(&slot.mutex);
    (void)backtrace(one, 1);
    slot.installed = sigaction(ASK_SIGNAL, &action, NULL) == 0;
    pthread_mutex_unlock(&slot.mutex);
}

/* mutex held. deadline_us is shared by all threads that are asked. */
static void ask(struct ot_thread_view *view, int question, int64_t deadline_us)
{
    siginfo_t info = {.si_signo = ASK_SIGNAL, .si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_int = question;
    atomic_store(&slot.asked, question);
    bool told = syscall(SYS_rt_tgsigqueueinfo, getpid(), view->id, ASK_SIGNAL, &info) == 0;
    while (told && atomic_load_explicit(&slot.answered, memory_order_acquire) != question) {
        int expected = question;
        if (ot_clock_boot_us() < deadline_us) (void)poll(NULL, 0, 1);
        else told = !atomic_compare_exchange_strong(&slot.asked, &expected, 0); /* it is writing just now: a little longer */
    }
    atomic_store(&slot.asked, 0);
    if (!told) return;
    const int count = OT_MAX(slot.count - SKIPPED, 0);
    view->frame_count = (uint32_t)count;
    memcpy(view->frames, slot.frames + SKIPPED, (size_t)count * sizeof(void *));
}

/* The text of a small file of /proc; "" when it cannot be read. */
static void read_text(int32_t id, const char *name, char *out, size_t out_bytes)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/%s", id, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = fd < 0 ? 0 : read(fd, out, out_bytes - 1);
    if (fd >= 0) close(fd);
    out[bytes > 0 ? bytes : 0] = 0;
}

static bool look(struct ot_thread_view *view)
{
    char text[512];
    unsigned long long ran_ns = 0, queued_ns = 0;
    read_text(view->id, "stat", text, sizeof(text));
    const char *open = strchr(text, '('), *close = strrchr(text, ')'); /* a name may hold both */
    if (open == NULL || close == NULL || close < open) return false;
    snprintf(view->name, sizeof(view->name), "%.*s", (int)(close - open - 1), open + 1);
    view->state = close[1] == ' ' && close[2] != 0 ? close[2] : '?';
    read_text(view->id, "schedstat", text, sizeof(text));
    if (sscanf(text, "%llu %llu", &ran_ns, &queued_ns) == 2) {
        view->cpu_us = ran_ns / 1000;
        view->queued_us = queued_ns / 1000;
    }
    return true;
}

static int by_id(const void *a, const void *b)
{
    const struct ot_thread_view *one = a, *two = b;
    return (one->id > two->id) - (one->id < two->id);
}

uint32_t ot_threads_list(struct ot_thread_view *out, uint32_t max, bool stacks)
{
    static int question;
    uint32_t count = 0;
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    if (tasks == NULL) return 0;
    for (uint32_t seen = 0; seen < TASKS_MAX && count < max && (entry = readdir(tasks)) != NULL; seen++) {
        struct ot_thread_view *view = &out[count];
        memset(view, 0, sizeof(*view));
        view->id = (int32_t)strtol(entry->d_name, NULL, 10);
        count += view->id > 0 && look(view);
    }
    closedir(tasks);
    if (count > 0) qsort(out, count, sizeof(*out), by_id);
    pthread_mutex_lock(&slot.mutex);
    const int64_t deadline_us = ot_clock_boot_us() + WAIT_MS * INT64_C(1000);
    for (uint32_t i = 0; stacks && slot.installed && i < count; i++) {
        question = question == INT32_MAX ? 1 : question + 1;
        ask(&out[i], question, deadline_us);
    }
    pthread_mutex_unlock(&slot.mutex);
    return count;
}

/* ---- names of our own functions, from the symbol table of the program file: static ones too */

struct function { uint64_t begin, bytes; const char *name; };
struct ot_functions {
    uint8_t *file;
    size_t file_bytes;
    struct function *list; /* by begin */
    size_t count;
};

static int by_begin(const void *a, const void *b)
{
    const struct function *one = a, *two = b;
    return (one->begin > two->begin) - (one->begin < two->begin);
}

static void take_table(struct ot_functions *own, const Elf64_Shdr *table, const Elf64_Shdr *names)
{
    const uint8_t *file = own->file;
    const size_t bytes = own->file_bytes;
    if (table->sh_offset > bytes || table->sh_size > bytes - table->sh_offset || names->sh_offset > bytes || names->sh_size > bytes - names->sh_offset) return;
    if (names->sh_size == 0 || file[names->sh_offset + names->sh_size - 1] != 0) return;
    const Elf64_Sym *symbols = (const void *)(file + table->sh_offset);
    const size_t count = table->sh_size / sizeof(*symbols);
    if ((own->list = calloc(count + 1, sizeof(*own->list))) == NULL) return;
    for (size_t i = 0; i < count; i++) {
        if (ELF64_ST_TYPE(symbols[i].st_info) != STT_FUNC || symbols[i].st_size == 0 || symbols[i].st_name >= names->sh_size) continue;
        own->list[own->count++] = (struct function){symbols[i].st_value, symbols[i].st_size, (const char *)file + names->sh_offset + symbols[i].st_name};
    }
    qsort(own->list, own->count, sizeof(*own->list), by_begin);
}

static void take_file(struct ot_functions *own)
{
    const size_t bytes = own->file_bytes;
    const Elf64_Ehdr *head = (const void *)own->file;
    if (bytes < sizeof(*head) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64) return;
    if (head->e_shentsize != sizeof(Elf64_Shdr) || head->e_shoff > bytes || head->e_shnum > (bytes - head->e_shoff) / sizeof(Elf64_Shdr)) return;
    const Elf64_Shdr *sections = (const void *)(own->file + head->e_shoff);
    for (uint32_t i = 0; i < head->e_shnum && own->list == NULL; i++)
        if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < head->e_shnum) take_table(own, &sections[i], &sections[sections[i].sh_link]);
}

struct ot_functions *ot_functions_open(void)
{
    struct stat status;
    struct ot_functions *own = calloc(1, sizeof(*own));
    const int fd = own == NULL ? -1 : open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        free(own);
        return NULL;
    }
    own->file = fstat(fd, &status) == 0 && status.st_size > 0 ? mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (own->file == MAP_FAILED) {
        free(own);
        return NULL;
    }
    own->file_bytes = (size_t)status.st_size;
    take_file(own);
    return own;
}

void ot_functions_close(struct ot_functions *functions)
{
    if (functions == NULL) return;
    munmap(functions->file, functions->file_bytes);
    free(functions->list);
    free(functions);
}

static bool own_name(const struct ot_functions *functions, uint64_t address, char *out, size_t out_bytes)
{
    size_t low = 0, high = functions == NULL ? 0 : functions->count;
    while (low < high) { /* the first that begins behind it */
        const size_t middle = low + (high - low) / 2;
        if (functions->list[middle].begin <= address) low = middle + 1;
        else high = middle;
    }
    if (low == 0 || address - functions->list[low - 1].begin >= functions->list[low - 1].bytes) return false;
    const struct function *found = &functions->list[low - 1];
    snprintf(out, out_bytes, "%.100s+0x%llx", found->name, (unsigned long long)(address - found->begin));
    return true;
}

void ot_threads_frame_text(const struct ot_functions *functions, const void *frame, char out[static OT_FRAME_TEXT_BYTES])
{
    Dl_info info = {0}, self = {0};
    if (dladdr(frame, &info) == 0 || info.dli_fbase == NULL) {
        snprintf(out, OT_FRAME_TEXT_BYTES, "%p", frame);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/'), *file = slash == NULL ? info.dli_fname : slash + 1;
    const uint64_t offset = (uint64_t)((uintptr_t)frame - (uintptr_t)info.dli_fbase);
    const bool ours = dladdr((void *)(uintptr_t)&ot_threads_frame_text, &self) != 0 && self.dli_fbase == info.dli_fbase;
    if (ours && own_name(functions, offset, out, OT_FRAME_TEXT_BYTES)) return;
    if (!ours && info.dli_sname != NULL)
        snprintf(out, OT_FRAME_TEXT_BYTES, "%.50s!%.80s+0x%llx", file, info.dli_sname, (unsigned long long)((uintptr_t)frame - (uintptr_t)info.dli_saddr));
    else
        snprintf(out, OT_FRAME_TEXT_BYTES, "%.80s+0x%llx", file, (unsigned long long)offset);
}
