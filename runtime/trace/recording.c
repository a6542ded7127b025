#define _POSIX_C_SOURCE 200809L /* getline, opendir */
#include "trace/recording.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/recorder.h"

/* More than any GPU has; a larger figure is damage. */
static const uint64_t bytes_limit = (uint64_t)1 << 48;
static const uint64_t owner_limit = 4096;

/* A line being read, word by word. */
typedef struct line {
    char *at; /* words are cut off in place */
    bool good;
} line;

static const char *word(line *l)
{
    char *const begin = l->at;
    const size_t length = strcspn(begin, " ");
    l->good = l->good && length > 0;
    l->at = begin + length + (begin[length] == ' ');
    begin[length] = '\0';
    return begin;
}

static uint64_t number(line *l, int base)
{
    char *end = NULL;
    const char *const text = word(l);
    errno = 0;
    const unsigned long long value = strtoull(text, &end, base);
    l->good = l->good && errno == 0 && *end == '\0' && *text != '-' && *text != '+';
    return value;
}

static uint64_t count(line *l)
{
    return number(l, 10);
}

static uint64_t bytes(line *l)
{
    const uint64_t value = number(l, 10);
    l->good = l->good && value <= bytes_limit;
    return value;
}

static uint64_t key(line *l)
{
    return number(l, 16);
}

static int device(line *l)
{
    if (l->at[0] == '-' && (l->at[1] == ' ' || l->at[1] == '\0')) {
        (void)word(l);
        return ZR_NO_DEVICE;
    }
    const uint64_t value = number(l, 10);
    l->good = l->good && value < ZR_DEVICES_MAX;
    return l->good ? (int)value : ZR_NO_DEVICE;
}

static uint32_t owner(line *l)
{
    const uint64_t value = number(l, 10);
    l->good = l->good && value < owner_limit;
    return (uint32_t)value;
}

static uint64_t now(line *l, zr_recording_read *out)
{
    const uint64_t value = number(l, 10);
    if (l->good && value > out->end) {
        out->end = value;
    }
    return value;
}

static void rest(line *l, char *text, size_t size)
{
    (void)snprintf(text, size, "%s", l->at);
}

static void read_driver(line *l, zr_recording_read *out)
{
    out->driver = count(l);
}

static void read_owner(line *l, zr_recording_read *out)
{
    const uint32_t id = owner(l);
    if (l->good) {
        zr_meter_owner(&out->meter, id, l->at);
    }
}

static void read_context(line *l, zr_recording_read *out)
{
    const uint64_t time = now(l, out);
    zr_look look = {.device = device(l), .automatic = true, .settled = true};
    const uint64_t context = key(l);
    look.available = bytes(l);
    look.total = bytes(l);
    l->good = l->good && look.available <= look.total;
    if (l->good) {
        zr_meter_context(&out->meter, time, &look, context, l->at);
        zr_meter_mark(&out->meter, time, &look, "context");
    }
}

static void read_close(line *l, zr_recording_read *out)
{
    const uint64_t time = now(l, out);
    const uint64_t context = key(l);
    if (l->good) {
        zr_meter_close(&out->meter, time, context);
    }
}

static void read_alloc(line *l, zr_recording_read *out)
{
    const uint64_t time = now(l, out);
    zr_asked asked = {.device = device(l)};
    asked.context = key(l);
    asked.owner = owner(l);
    asked.call = word(l);
    const uint64_t address = key(l);
    const uint64_t size = bytes(l);
    if (l->good) {
        zr_meter_alloc(&out->meter, time, &asked, address, size);
    }
}

static void read_free(line *l, zr_recording_read *out)
{
    const uint64_t time = now(l, out);
    const uint64_t address = key(l);
    if (l->good) {
        zr_meter_free(&out->meter, time, address);
    }
}

static void read_create(line *l, zr_recording_read *out)
{
    const uint64_t time = now(l, out);
    zr_asked asked = {.device = device(l)};
    asked.owner = owner(l);
    asked.call = word(l);
    const uint64_t handle = key(l);
    const uint64_t size = bytes(l);
    if (l->good) {
        zr_meter_create(&out->meter, time, &asked, handle, size);
    }
}

static void read_retain(line *l, zr_recording_read *out)
{
    const uint64_t time = now(l, out);
    const uint64_t handle = key(l);
    const uint64_t address = key(l);
    if (l->good) {
        zr_meter_retain(&out->meter, time, handle, address);
    }
}

static void read_release(line *l, zr_recording_read *out)
{
    const uint64_t time = now(l, out);
    const uint64_t handle = key(l);
    if (l->good) {
        zr_meter_drop(&out->meter, time, handle);
    }
}

static void read_map(line *l, zr_recording_read *out)
{
    const uint64_t time = now(l, out);
    const uint64_t address = key(l);
    const uint64_t size = bytes(l);
    const uint64_t handle = key(l);
    if (l->good) {
        zr_meter_map(&out->meter, time, address, size, handle);
    }
}

static void read_unmap(line *l, zr_recording_read *out)
{
    const uint64_t time = now(l, out);
    const uint64_t address = key(l);
    const uint64_t size = bytes(l);
    if (l->good) {
        zr_meter_unmap(&out->meter, time, address, size);
    }
}

static void read_pool(line *l, zr_recording_read *out)
{
    const uint64_t time = now(l, out);
    const int where = device(l);
    const uint64_t pool = key(l);
    const uint64_t reserved = bytes(l);
    if (l->good) {
        zr_meter_pool(&out->meter, time, where, pool, reserved);
    }
}

static void read_before(line *l, zr_recording_read *out)
{
    (void)now(l, out);
    const uint64_t call = count(l);
    const int where = device(l);
    const uint64_t available = bytes(l);
    if (l->good) {
        zr_meter_before(&out->meter, call, where, available);
    }
}

static void read_load(line *l, zr_recording_read *out)
{
    const uint64_t time = now(l, out);
    const uint64_t call = count(l);
    zr_asked asked = {.device = device(l)};
    asked.context = key(l);
    asked.owner = owner(l);
    asked.call = word(l);
    const uint64_t object = key(l);
    const uint64_t available = bytes(l);
    if (l->good) {
        zr_meter_load(&out->meter, time, call, &asked, object, available);
    }
}

static void read_unload(line *l, zr_recording_read *out)
{
    const uint64_t time = now(l, out);
    const uint64_t object = key(l);
    if (l->good) {
        zr_meter_unload(&out->meter, time, object);
    }
}

static void read_fail(line *l, zr_recording_read *out)
{
    const uint64_t time = now(l, out);
    zr_asked asked = {.device = device(l)};
    asked.owner = owner(l);
    asked.call = word(l);
    const uint64_t size = count(l); /* a program may ask for anything */
    const uint64_t result = count(l);
    if (l->good) {
        zr_meter_refused(&out->meter, time, &asked, size, result);
    }
}

static void read_mark(line *l, zr_recording_read *out)
{
    const uint64_t time = now(l, out);
    zr_look look = {.device = device(l)};
    look.available = bytes(l);
    look.total = bytes(l);
    look.automatic = count(l) != 0;
    l->good = l->good && look.available <= look.total;
    if (l->good) {
        zr_meter_mark(&out->meter, time, &look, l->at);
    }
}

static void read_settled(line *l, zr_recording_read *out)
{
    const uint64_t time = now(l, out);
    if (l->good) {
        zr_meter_settled(&out->meter, time);
    }
}

static void read_broken(line *l, zr_recording_read *out)
{
    rest(l, out->broken, sizeof(out->broken));
}

typedef struct reader {
    const char *word;
    void (*read)(line *l, zr_recording_read *out);
} reader;

static const reader readers[] = {
    {"alloc", read_alloc},   {"before", read_before},   {"broken", read_broken},
    {"close", read_close},   {"context", read_context}, {"create", read_create},
    {"driver", read_driver}, {"fail", read_fail},       {"free", read_free},
    {"load", read_load},     {"map", read_map},         {"mark", read_mark},
    {"owner", read_owner},   {"pool", read_pool},       {"release", read_release},
    {"retain", read_retain}, {"settled", read_settled}, {"unload", read_unload},
    {"unmap", read_unmap},
};

/* False: it is no line of a recording. */
static bool read_line(line l, zr_recording_read *out)
{
    const char *const what = word(&l);
    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
        if (strcmp(readers[i].word, what) == 0) {
            readers[i].read(&l, out);
            return l.good;
        }
    }
    return false;
}

/* The last line, with the number of those before it, or fewer if another thread wrote meanwhile.
 * What is behind it, while the process fell apart, is not looked at. */
static bool read_end(line l, uint64_t before, zr_recording_read *out)
{
    (void)word(&l);
    (void)now(&l, out);
    out->complete = count(&l) <= before && l.good;
    return l.good;
}

static bool read_first(line l, zr_recording_read *out)
{
    if (strcmp(word(&l), "zltrace") != 0 || count(&l) != 1) {
        return false;
    }
    out->pid = count(&l);
    out->begin = now(&l, out);
    out->date = count(&l);
    (void)snprintf(out->host, sizeof(out->host), "%s", word(&l));
    rest(&l, out->program, sizeof(out->program));
    return l.good;
}

zl_status zr_recording_parse(const char *name, char *text, size_t size, zr_recording_read *out,
                             zl_err *err)
{
    uint64_t lines = 0;
    bool ended = false;
    *out = (zr_recording_read){0};
    for (char *at = text, *end = NULL; !ended && at < text + size; at = end + 1) {
        end = memchr(at, '\n', (size_t)(text + size - at));
        if (end == NULL) { /* the process was killed while it wrote */
            break;
        }
        *end = '\0';
        ended = strncmp(at, "end ", 4) == 0;
        const line l = {.at = at, .good = true};
        const bool good = lines == 0 ? read_first(l, out)
                          : ended    ? read_end(l, lines, out)
                                     : read_line(l, out);
        if (!good) {
            zr_meter_release(&out->meter);
            return zl_fail(err, ZL_E_INPUT, "%s: line %" PRIu64 " is none of a recording", name,
                           lines + 1);
        }
        lines++;
    }
    if (out->meter.status == ZL_OK && lines > 0) {
        return ZL_OK;
    }
    const zl_status failed = out->meter.status;
    zr_meter_release(&out->meter);
    return failed != ZL_OK ? zl_fail(err, failed, "%s: out of memory", name)
                           : zl_fail(err, ZL_E_INPUT, "%s: not one line of a recording", name);
}

/* Recordings of long runs are larger than zl_file_read allows. */
static zl_status read_whole(const char *path, char **text, size_t *size, zl_err *err)
{
    FILE *const file = fopen(path, "re");
    char *all = NULL;
    size_t room = 0;
    if (file == NULL) {
        return zl_fail(err, ZL_E_INPUT, "%s: %s", path, strerror(errno));
    }
    errno = 0;
    const ssize_t length = getdelim(&all, &room, '\0', file);
    const bool failed = ferror(file) != 0 || (length < 0 && feof(file) == 0);
    (void)fclose(file);
    if (failed) {
        free(all);
        return zl_fail(err, ZL_E_RESOURCE, "%s: %s", path, strerror(errno));
    }
    *text = all;
    *size = length < 0 ? 0 : (size_t)length;
    return ZL_OK;
}

static zl_status load_one(const char *path, zr_recordings *out, zl_err *err)
{
    char *text = NULL;
    size_t size = 0;
    ZL_TRY(read_whole(path, &text, &size, err));
    zr_recording_read *const more = realloc(out->process, (out->count + 1) * sizeof(*out->process));
    zl_status status = ZL_OK;
    if (more == NULL) {
        status = zl_fail(err, ZL_E_RESOURCE, "%s: out of memory", path);
    } else {
        out->process = more;
        status = zr_recording_parse(path, text, size, &out->process[out->count], err);
    }
    out->count += status == ZL_OK ? 1 : 0;
    free(text);
    return status;
}

static int earlier(const void *a, const void *b)
{
    const zr_recording_read *const x = a;
    const zr_recording_read *const y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static bool is_recording(const char *name)
{
    const size_t length = strlen(name);
    const size_t suffix = sizeof(ZR_RECORDING_SUFFIX) - 1;
    return length > suffix && strcmp(name + length - suffix, ZR_RECORDING_SUFFIX) == 0;
}

zl_status zr_recordings_load(const char *folder, zr_recordings *out, zl_err *err)
{
    zr_recordings all = {0};
    zl_status status = ZL_OK;
    DIR *const dir = opendir(folder);
    if (dir == NULL) {
        return zl_fail(err, ZL_E_INPUT, "%s: %s", folder, strerror(errno));
    }
    for (const struct dirent *entry; status == ZL_OK && (entry = readdir(dir)) != NULL;) {
        char path[PATH_MAX];
        const int length = snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (is_recording(entry->d_name) && length > 0 && (size_t)length < sizeof(path)) {
            status = load_one(path, &all, err);
        }
    }
    (void)closedir(dir);
    if (status != ZL_OK) {
        zr_recordings_release(&all);
        return status;
    }
    if (all.process != NULL) {
        qsort(all.process, all.count, sizeof(*all.process), earlier);
    }
    *out = all;
    return ZL_OK;
}

void zr_recordings_release(zr_recordings *recordings)
{
    for (size_t i = 0; i < recordings->count; i++) {
        zr_meter_release(&recordings->process[i].meter);
    }
    free(recordings->process);
    *recordings = (zr_recordings){0};
}
