#include "train/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/shard_file.h"
#include "zeroledger/json.h"
#include "zeroledger/text.h"

static const char SCHEMA[] = "zeroledger.checkpoint/1";

void zr_manifest_name(uint64_t rank, uint64_t ranks, char name[ZR_MANIFEST_NAME])
{
    (void)snprintf(name, ZR_MANIFEST_NAME, "rank-%04" PRIu64 "-of-%04" PRIu64 ".zlckpt", rank,
                   ranks);
}

static void put_hash(zl_json_writer *w, const char *key, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%016" PRIx64, value);
    zl_json_put_string(w, key, text);
}

static void put_files(zl_json_writer *w, const zr_manifest *m)
{
    zl_json_begin_array(w, "files");
    for (uint64_t r = 0; r < m->ranks; r++) {
        char name[ZR_MANIFEST_NAME];
        zr_manifest_name(r, m->ranks, name);
        zl_json_begin_object(w, NULL);
        zl_json_put_string(w, "name", name);
        zl_json_put_u64(w, "bytes", m->file[r].bytes);
        put_hash(w, "checksum", m->file[r].checksum);
        zl_json_end(w);
    }
    zl_json_end(w);
}

/* A seed may be any 64-bit number, which JSON's are not. */
static void put_members(zl_json_writer *w, const zr_manifest *m)
{
    const zr_position *p = &m->position;
    char seed[24];
    (void)snprintf(seed, sizeof seed, "%" PRIu64, m->seed);
    zl_json_put_string(w, "schema", SCHEMA);
    zl_json_put_string(w, "run", m->run);
    zl_json_put_string(w, "seed", seed);
    zl_json_put_u64(w, "step", p->step);
    zl_json_put_u64(w, "updates", p->updates);
    zl_json_put_u64(w, "micro_steps", p->micro);
    zl_json_put_u64(w, "windows", p->windows);
    zl_json_put_real(w, "loss_scale", p->loss_scale);
    zl_json_put_u64(w, "good_steps", p->good);
    zl_json_put_u64(w, "ranks", m->ranks);
    put_files(w, m);
}

/* Everything, and the checksum of the text that stands before the checksum. NULL without memory. */
static zl_json_writer *document(const zr_manifest *m, uint64_t *checksum)
{
    zl_json_writer *w = zl_json_writer_new();
    zl_json_begin_object(w, NULL);
    put_members(w, m);
    size_t size = 0;
    const char *text = zl_json_writer_text(w, &size);
    if (text == NULL) {
        zl_json_writer_free(w);
        return NULL;
    }
    *checksum = zr_checksum(ZR_CHECKSUM_START, text, size);
    put_hash(w, "checksum", *checksum);
    zl_json_end(w);
    return w;
}

static zl_status no_memory(zl_err *err)
{
    return zl_fail(err, ZL_E_RESOURCE, "out of memory for manifest.json");
}

zl_status zr_manifest_save(const zr_manifest *manifest, const char *path, zl_err *err)
{
    uint64_t checksum;
    zl_json_writer *w = document(manifest, &checksum);
    if (w == NULL) {
        return no_memory(err);
    }
    const zl_status status = zl_json_writer_save(w, path, err);
    zl_json_writer_free(w);
    return status;
}

static zl_status get_hash(zl_json value, uint64_t *out, zl_err *err)
{
    const char *text = NULL;
    ZL_TRY(zl_json_string(value, &text, err));
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) {
        return zl_fail(err, ZL_E_INPUT, "%s must be 16 hexadecimal digits, got \"%.40s\"",
                       value.path, text);
    }
    *out = strtoull(text, NULL, 16);
    return ZL_OK;
}

static zl_status get_file(zl_json object, uint64_t rank, zr_manifest *m, zl_err *err)
{
    static const char *const keys[] = {"name", "bytes", "checksum"};
    char wanted[ZR_MANIFEST_NAME];
    const char *name = NULL;
    ZL_TRY(zl_json_only(object, keys, sizeof keys / sizeof keys[0], err));
    ZL_TRY(zl_json_string(zl_json_get(object, "name"), &name, err));
    zr_manifest_name(rank, m->ranks, wanted);
    if (strcmp(name, wanted) != 0) {
        return zl_fail(err, ZL_E_INPUT, "%s.name must be \"%s\", got \"%.60s\"", object.path,
                       wanted, name);
    }
    ZL_TRY(zl_json_u64(zl_json_get(object, "bytes"), &m->file[rank].bytes, err));
    return get_hash(zl_json_get(object, "checksum"), &m->file[rank].checksum, err);
}

static zl_status get_files(zl_json array, zr_manifest *m, zl_err *err)
{
    if (m->ranks == 0 || m->ranks > ZR_MANIFEST_RANKS || zl_json_size(array) != m->ranks) {
        return zl_fail(err, ZL_E_INPUT, "%" PRIu64 " ranks and %zu files", m->ranks,
                       zl_json_size(array));
    }
    m->file = calloc((size_t)m->ranks, sizeof *m->file);
    if (m->file == NULL) {
        return no_memory(err);
    }
    for (uint64_t r = 0; r < m->ranks; r++) {
        ZL_TRY(get_file(zl_json_item(array, (size_t)r), r, m, err));
    }
    return ZL_OK;
}

static zl_status get_position(zl_json root, zr_position *p, zl_err *err)
{
    ZL_TRY(zl_json_u64(zl_json_get(root, "step"), &p->step, err));
    ZL_TRY(zl_json_u64(zl_json_get(root, "updates"), &p->updates, err));
    ZL_TRY(zl_json_u64(zl_json_get(root, "micro_steps"), &p->micro, err));
    ZL_TRY(zl_json_u64(zl_json_get(root, "windows"), &p->windows, err));
    ZL_TRY(zl_json_real(zl_json_get(root, "loss_scale"), &p->loss_scale, err));
    return zl_json_u64(zl_json_get(root, "good_steps"), &p->good, err);
}

/* What was read, written once more, has to have the checksum that was written. */
static zl_status check(const zr_manifest *m, zl_json root, zl_err *err)
{
    uint64_t written = 0;
    uint64_t checksum = 0;
    ZL_TRY(get_hash(zl_json_get(root, "checksum"), &written, err));
    zl_json_writer *w = document(m, &checksum);
    if (w == NULL) {
        return no_memory(err);
    }
    zl_json_writer_free(w);
    return checksum == written
               ? ZL_OK
               : zl_fail(err, ZL_E_INPUT, "damaged: its checksum does not fit its content");
}

static zl_status read_all(zl_json root, zr_manifest *m, zl_err *err)
{
    static const char *const keys[] = {"schema",      "run",     "seed",       "step",
                                       "updates",     "windows", "loss_scale", "good_steps",
                                       "micro_steps", "ranks",   "files",      "checksum"};
    const char *run = NULL;
    const char *seed = NULL;
    ZL_TRY(zl_json_schema(root, SCHEMA, err));
    ZL_TRY(zl_json_only(root, keys, sizeof keys / sizeof keys[0], err));
    ZL_TRY(zl_json_string(zl_json_get(root, "run"), &run, err));
    ZL_TRY(zl_json_string(zl_json_get(root, "seed"), &seed, err));
    (void)snprintf(m->run, sizeof m->run, "%s", run);
    if (zl_parse_count("seed", seed, &m->seed, NULL) != ZL_OK) {
        return zl_fail(err, ZL_E_INPUT, "seed must be a number, got \"%.40s\"", seed);
    }
    ZL_TRY(get_position(root, &m->position, err));
    ZL_TRY(zl_json_u64(zl_json_get(root, "ranks"), &m->ranks, err));
    ZL_TRY(get_files(zl_json_get(root, "files"), m, err));
    return check(m, root, err);
}

zl_status zr_manifest_load(const char *path, zr_manifest *out, zl_err *err)
{
    zl_json_doc *doc = NULL;
    zr_manifest m = {.ranks = 0};
    zl_err found = {.status = ZL_OK};
    ZL_TRY(zl_json_load(path, &doc, err));
    const zl_status status = read_all(zl_json_root(doc), &m, &found);
    zl_json_free(doc);
    if (status != ZL_OK) {
        zr_manifest_release(&m);
        return zl_fail(err, status, "%.200s: %s", path, found.text);
    }
    *out = m;
    return ZL_OK;
}

void zr_manifest_release(zr_manifest *manifest)
{
    free(manifest->file);
    *manifest = (zr_manifest){.ranks = 0};
}
