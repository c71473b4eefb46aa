/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rig/provenance.c - what was in effect when something was measured. One function a section; every
 * section has all of its members on every machine, readable or not.
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <taut/taut.h>

#include "base/file.h"
#include "rig/read.h"

#define CPUINFO_LIMIT (64u * 1024u * 1024u)
#define STAT_LIMIT    (64u * 1024u * 1024u)

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

struct build_id_search {
    char *hex;
    size_t capacity;
    int result;
};

/* Looks for the GNU build-id among the notes of one segment. 1 = found, result is set. */
static int find_in_notes(struct build_id_search *search, const char *notes, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    while (size >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) head;
        memcpy(&head, notes, sizeof head);
        size_t name_size = ((size_t)head.n_namesz + 3) & ~(size_t)3;
        size_t value_size = ((size_t)head.n_descsz + 3) & ~(size_t)3;
        if (name_size > size - sizeof head || value_size > size - sizeof head - name_size)
            return 0;
        const char *name = notes + sizeof head;
        const unsigned char *value = (const unsigned char *)name + name_size;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
            if ((size_t)head.n_descsz * 2 >= search->capacity) {
                search->result = TAUT_ENOSPC;
                return 1;
            }
            for (size_t i = 0; i < head.n_descsz; i++) {
                search->hex[2 * i] = digits[value[i] >> 4];
                search->hex[2 * i + 1] = digits[value[i] & 15];
            }
            search->hex[2 * (size_t)head.n_descsz] = '\0';
            search->result = (int)head.n_descsz * 2;
            return 1;
        }
        notes += sizeof head + name_size + value_size;
        size -= sizeof head + name_size + value_size;
    }
    return 0;
}

static int search_object(struct dl_phdr_info *object, size_t size, void *context)
{
    struct build_id_search *search = context;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        /* An address is what the loader gives: the notes lie in the loaded image. */
        const char *notes = (const char *)(uintptr_t)(object->dlpi_addr + segment->p_vaddr);
        if (segment->p_type == PT_NOTE && find_in_notes(search, notes, segment->p_memsz))
            break;
    }
    return 1; /* the first object is the executable itself; libraries have ids of their own */
}

int rig_build_id(char *hex, size_t capacity)
{
    struct build_id_search search = {hex, capacity, TAUT_ENOENT};
    if (hex == NULL || capacity == 0)
        return TAUT_ENOSPC;
    hex[0] = '\0';
    dl_iterate_phdr(search_object, &search);
    return search.result;
}

static json_t *program_section(int *failed)
{
    json_t *section = json_object();
    char id[129], path[PATH_MAX];
    int length = rig_build_id(id, sizeof id);
    rig__put(section, "version", json_string(taut_version()), failed);
    rig__put(section, "build_id",
             length < 0 ? rig__unavailable_text("linked without a build-id") : json_string(id),
             failed);
    rig__put(section, "compiler", json_string(COMPILER), failed);
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    int failure = errno;
    if (size >= 0)
        path[size] = '\0';
    const char *slash = size >= 0 ? strrchr(path, '/') : NULL;
    rig__put(section, "executable",
             size < 0 ? rig__unavailable(failure) : rig__text(slash != NULL ? slash + 1 : path),
             failed);
    return section;
}

/*
 * Those words of the kernel's command line that change how time behaves. The rest is the machine's
 * own affair: it may name hosts and keys, and a record of a measurement is shown around.
 */
static json_t *boot_parameters(const char *proc)
{
    static const char *const names[] = {"isolcpus",
                                        "nohz",
                                        "nohz_full",
                                        "rcu_nocbs",
                                        "irqaffinity",
                                        "preempt",
                                        "nosmt",
                                        "mitigations",
                                        "clocksource",
                                        "tsc",
                                        "idle",
                                        "skew_tick",
                                        "intel_pstate",
                                        "amd_pstate",
                                        "intel_idle.max_cstate",
                                        "threadirqs",
                                        "nowatchdog",
                                        "hugepages",
                                        "default_hugepagesz",
                                        "processor.max_cstate",
                                        "transparent_hugepage"};
    char path[PATH_MAX], line[8192], kept[2048] = "";
    ssize_t length = -ENAMETOOLONG;
    if (snprintf(path, sizeof path, "%s/cmdline", proc) < (int)sizeof path)
        length = taut__file_read_value(path, line, sizeof line);
    if (length < 0)
        return rig__unavailable((int)length);
    size_t used = 0;
    char *state = NULL;
    for (char *word = strtok_r(line, " ", &state); word != NULL;
         word = strtok_r(NULL, " ", &state)) {
        size_t size = strcspn(word, "=");
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            if (strlen(names[i]) == size && memcmp(names[i], word, size) == 0 && used < sizeof kept)
                used += (size_t)snprintf(kept + used, sizeof kept - used, "%s%s",
                                         used > 0 ? " " : "", word);
        }
    }
    return rig__text(kept);
}

static json_t *kernel_section(const char *proc, int *failed)
{
    json_t *section = json_object();
    rig__put(section, "release", rig__file_text(proc, "sys/kernel/osrelease"), failed);
    rig__put(section, "version", rig__file_text(proc, "sys/kernel/version"), failed);
    rig__put(section, "boot_parameters", boot_parameters(proc), failed);
    rig__put(section, "boot_id", rig__file_text(proc, "sys/kernel/random/boot_id"), failed);
    rig__put(section, "numa_balancing", rig__file_text(proc, "sys/kernel/numa_balancing"), failed);
    rig__put(section, "address_randomization",
             rig__file_text(proc, "sys/kernel/randomize_va_space"), failed);
    return section;
}

/* The value of the first "name : value" line in /proc/cpuinfo. */
static json_t *cpuinfo_value(const char *cpuinfo, int failure, const char *name)
{
    if (cpuinfo == NULL)
        return rig__unavailable(failure);
    size_t name_length = strlen(name);
    for (const char *line = cpuinfo; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        const char *rest = line + name_length;
        if (length > name_length && strncmp(line, name, name_length) == 0) {
            rest += strspn(rest, " \t");
            if (*rest == ':') {
                char value[256];
                rest += 1 + strspn(rest + 1, " \t");
                snprintf(value, sizeof value, "%.*s", (int)(line + length - rest), rest);
                return rig__text(value);
            }
        }
        line += length + (line[length] == '\n');
    }
    return rig__unavailable_text("not in cpuinfo");
}

static json_t *processor_section(const char *proc, const char *sys, int *failed)
{
    json_t *section = json_object();
    char path[PATH_MAX];
    ssize_t length = -ENAMETOOLONG;
    char *cpuinfo = NULL;
    if (snprintf(path, sizeof path, "%s/cpuinfo", proc) < (int)sizeof path)
        cpuinfo = taut__file_read_whole(path, CPUINFO_LIMIT, &length);
    rig__put(section, "model", cpuinfo_value(cpuinfo, (int)length, "model name"), failed);
    rig__put(section, "vendor", cpuinfo_value(cpuinfo, (int)length, "vendor_id"), failed);
    rig__put(section, "microcode", cpuinfo_value(cpuinfo, (int)length, "microcode"), failed);
    free(cpuinfo);
    rig__put(section, "smt", rig__file_text(sys, "devices/system/cpu/smt/control"), failed);
    rig__put(section, "isolated", rig__file_text(sys, "devices/system/cpu/isolated"), failed);
    rig__put(section, "nohz_full", rig__file_text(sys, "devices/system/cpu/nohz_full"), failed);
    rig__put(section, "clocksource",
             rig__file_text(sys, "devices/system/clocksource/clocksource0/current_clocksource"),
             failed);
    return section;
}

static json_t *cpus_section(const struct taut_topology *topology, int code,
                            const struct taut_err *err, int *failed)
{
    static const char *const names[] = {"usable", "online", "cores", "nodes", "at_once"};
    json_t *section = json_object();
    if (code < 0) {
        rig__put(section, "list", rig__unavailable_text(err->text), failed);
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            rig__put(section, names[i], rig__unavailable_text(err->text), failed);
        rig__put(section, "quota_us", rig__unavailable_text(err->text), failed);
        rig__put(section, "period_us", rig__unavailable_text(err->text), failed);
        return section;
    }
    const uint32_t values[] = {topology->usable_count, topology->online_count, topology->core_count,
                               topology->node_count, topology->width};
    char list[4096];
    taut_cpuset_format(&topology->usable, list, sizeof list);
    rig__put(section, "list", json_string(list), failed);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        rig__put(section, names[i], json_integer(values[i]), failed);
    /* A limit that could not be read is not the same as no limit. */
    int unknown = err->code != 0 && topology->quota_us < 0;
    rig__put(section, "quota_us",
             unknown                  ? rig__unavailable_text(err->text)
             : topology->quota_us < 0 ? json_null()
                                      : json_integer(topology->quota_us),
             failed);
    rig__put(section, "period_us",
             unknown                  ? rig__unavailable_text(err->text)
             : topology->quota_us < 0 ? json_null()
                                      : json_integer(topology->period_us),
             failed);
    return section;
}

/* The governor of every usable CPU: one name, or "mixed: " and the names in the order of CPUs. */
static json_t *governors(const char *sys, const struct taut_topology *topology)
{
    json_t *first = NULL;
    char mixed[1024] = "";
    size_t length = 0;
    int differ = 0;
    for (uint32_t i = 0; i < topology->usable_count; i++) {
        uint32_t cpu = taut_cpuset_nth(&topology->usable, i);
        json_t *one = rig__file_text(sys, "devices/system/cpu/cpu%u/cpufreq/scaling_governor", cpu);
        if (one == NULL || !rig_available(one)) {
            json_decref(first);
            return one;
        }
        if (length < sizeof mixed)
            length += (size_t)snprintf(mixed + length, sizeof mixed - length, "%s%s",
                                       i > 0 ? "," : "mixed: ", json_string_value(one));
        if (first == NULL) {
            first = one;
            continue;
        }
        differ |= !json_equal(first, one);
        json_decref(one);
    }
    if (!differ)
        return first != NULL ? first : rig__unavailable_text("no usable CPU is known");
    json_decref(first);
    return json_string(mixed);
}

static json_t *frequency_section(const char *sys, const struct taut_topology *topology, int *failed)
{
    json_t *section = json_object();
    rig__put(section, "governor", governors(sys, topology), failed);
    rig__put(section, "driver",
             rig__file_text(sys, "devices/system/cpu/cpu0/cpufreq/scaling_driver"), failed);
    rig__put(section, "no_turbo", rig__file_text(sys, "devices/system/cpu/intel_pstate/no_turbo"),
             failed);
    rig__put(section, "boost", rig__file_text(sys, "devices/system/cpu/cpufreq/boost"), failed);
    rig__put(section, "idle_driver",
             rig__file_text(sys, "devices/system/cpu/cpuidle/current_driver"), failed);
    return section;
}

static json_t *memory_section(const char *sys, int *failed)
{
    json_t *section = json_object();
    rig__put(section, "huge_pages", rig__file_choice(sys, "kernel/mm/transparent_hugepage/enabled"),
             failed);
    rig__put(section, "huge_pages_defrag",
             rig__file_choice(sys, "kernel/mm/transparent_hugepage/defrag"), failed);
    return section;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* {"not_affected": N, "affected": {"spectre_v2": "Mitigation: ...", ...}} in alphabetical order. */
static json_t *mitigations_section(const char *sys, int *failed)
{
    char path[PATH_MAX];
    struct dirent **entries = NULL;
    int count = -1, failure = ENAMETOOLONG;
    if (snprintf(path, sizeof path, "%s/devices/system/cpu/vulnerabilities", sys) <
        (int)sizeof path) {
        count = scandir(path, &entries, is_visible, alphasort);
        failure = errno;
    }
    if (count < 0)
        return rig__unavailable(failure);
    json_t *section = json_object(), *affected = json_object();
    int not_affected = 0;
    for (int i = 0; i < count; i++) {
        json_t *state = rig__file_text(path, "%s", entries[i]->d_name);
        const char *text = json_string_value(state);
        if (text != NULL && strcmp(text, "Not affected") == 0) {
            not_affected++;
            json_decref(state);
        } else {
            rig__put(affected, entries[i]->d_name, state, failed);
        }
        free(entries[i]);
    }
    free(entries);
    rig__put(section, "not_affected", json_integer(not_affected), failed);
    rig__put(section, "affected", affected, failed);
    return section;
}

static json_t *pressure_value(const char *proc, const char *resource)
{
    int64_t total = rig__pressure_total_us(proc, resource);
    return total < 0 ? rig__unavailable((int)-total) : json_integer(total);
}

/* Time stolen by the hypervisor since boot, from the first line of /proc/stat. */
static json_t *steal_value(const char *proc)
{
    char path[PATH_MAX];
    ssize_t length = -ENAMETOOLONG;
    char *text = NULL;
    if (snprintf(path, sizeof path, "%s/stat", proc) < (int)sizeof path)
        text = taut__file_read_whole(path, STAT_LIMIT, &length);
    if (text == NULL)
        return rig__unavailable((int)-length);
    unsigned long long ticks = 0;
    int found = sscanf(text, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks);
    free(text);
    if (found != 1)
        return rig__unavailable_text("not in stat");
    return json_integer((json_int_t)(ticks * 1000 / (unsigned long long)sysconf(_SC_CLK_TCK)));
}

static json_t *load_section(const char *proc, int *failed)
{
    json_t *section = json_object(), *pressure = json_object();
    rig__put(section, "average", rig__file_text(proc, "loadavg"), failed);
    rig__put(section, "steal_ms", steal_value(proc), failed);
    rig__put(pressure, "cpu", pressure_value(proc, "cpu"), failed);
    rig__put(pressure, "memory", pressure_value(proc, "memory"), failed);
    rig__put(pressure, "io", pressure_value(proc, "io"), failed);
    rig__put(section, "pressure_us", pressure, failed);
    return section;
}

json_t *rig_provenance(const struct rig_roots *roots)
{
    const char *proc = rig__proc(roots), *sys = rig__sys(roots);
    const struct taut_topology_options options = {
        .size = sizeof options,
        .cgroup_root = roots != NULL ? roots->cgroup : NULL,
        .proc_root = roots != NULL ? roots->proc : NULL,
    };
    struct taut_topology *topology = calloc(1, sizeof *topology);
    json_t *object = json_object();
    struct taut_err err = {0};
    int failed = topology == NULL || object == NULL;
    if (!failed) {
        int code = taut_topology_read(topology, &options, &err);
        rig__put(object, "taut", program_section(&failed), &failed);
        rig__put(object, "kernel", kernel_section(proc, &failed), &failed);
        rig__put(object, "processor", processor_section(proc, sys, &failed), &failed);
        rig__put(object, "cpus", cpus_section(topology, code, &err, &failed), &failed);
        rig__put(object, "frequency", frequency_section(sys, topology, &failed), &failed);
        rig__put(object, "memory", memory_section(sys, &failed), &failed);
        rig__put(object, "mitigations", mitigations_section(sys, &failed), &failed);
        rig__put(object, "load", load_section(proc, &failed), &failed);
    }
    free(topology);
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}
