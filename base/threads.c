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

static const Elf64_Sym *best_of(const uint8_t *file, size_t bytes, uint64_t address, const char **names_out)
{
    const Elf64_Ehdr *head = (const void *)file;
    if (bytes < sizeof(*head) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64) return NULL;
    if (head->e_shentsize != sizeof(Elf64_Shdr) || head->e_shoff > bytes || head->e_shnum > (bytes - head->e_shoff) / sizeof(Elf64_Shdr)) return NULL;
    const Elf64_Shdr *sections = (const void *)(file + head->e_shoff);
    for (uint32_t i = 0; i < head->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= head->e_shnum) continue;
        const Elf64_Shdr *names = &sections[sections[i].sh_link];
        if (sections[i].sh_offset > bytes || sections[i].sh_size > bytes - sections[i].sh_offset || names->sh_offset > bytes || names->sh_size > bytes - names->sh_offset) return NULL;
        const Elf64_Sym *symbols = (const void *)(file + sections[i].sh_offset);
        for (size_t k = 0; k < sections[i].sh_size / sizeof(*symbols); k++) {
            if (ELF64_ST_TYPE(symbols[k].st_info) != STT_FUNC || address < symbols[k].st_value || address - symbols[k].st_value >= symbols[k].st_size) continue;
            if (symbols[k].st_name >= names->sh_size) continue;
            *names_out = (const char *)file + names->sh_offset;
            return &symbols[k];
        }
    }
    return NULL;
}

/* Mapped for each question: this is for people, and rare. */
static bool own_name(uint64_t address, char *out, size_t out_bytes)
{
    struct stat status;
    const char *names = NULL;
    const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    uint8_t *file = fstat(fd, &status) == 0 && status.st_size > 0 ? mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (file == MAP_FAILED) return false;
    const Elf64_Sym *symbol = best_of(file, (size_t)status.st_size, address, &names);
    if (symbol != NULL) snprintf(out, out_bytes, "%.100s+0x%llx", names + symbol->st_name, (unsigned long long)(address - symbol->st_value));
    munmap(file, (size_t)status.st_size);
    return symbol != NULL;
}

void ot_threads_frame_text(const void *frame, char out[static OT_FRAME_TEXT_BYTES])
{
    Dl_info info = {0}, self = {0};
    if (dladdr(frame, &info) == 0 || info.dli_fbase == NULL) {
        snprintf(out, OT_FRAME_TEXT_BYTES, "%p", frame);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/'), *file = slash == NULL ? info.dli_fname : slash + 1;
    const uint64_t offset = (uint64_t)((uintptr_t)frame - (uintptr_t)info.dli_fbase);
    const bool ours = dladdr((void *)(uintptr_t)&ot_threads_frame_text, &self) != 0 && self.dli_fbase == info.dli_fbase;
    if (ours && own_name(offset, out, OT_FRAME_TEXT_BYTES)) return;
    if (!ours && info.dli_sname != NULL)
        snprintf(out, OT_FRAME_TEXT_BYTES, "%.50s!%.80s+0x%llx", file, info.dli_sname, (unsigned long long)((uintptr_t)frame - (uintptr_t)info.dli_saddr));
    else
        snprintf(out, OT_FRAME_TEXT_BYTES, "%.80s+0x%llx", file, (unsigned long long)offset);
}
