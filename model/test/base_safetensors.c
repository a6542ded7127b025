/* Headers of safetensors files: what is read, and what a broken or hostile one is told. */
#include "base_test.h"

#include "base/safetensors.h"
#include "zeroledger/json.h"
#include "zeroledger/run.h"

/* A file of the format: the length said of the header, the header, `data` zero bytes. */
static void write_file(const char *path, const char *header, uint64_t said, uint64_t data)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < 8; i++) {
        fputc((int)(said >> (8 * i) & 255), file);
    }
    fputs(header, file);
    for (uint64_t i = 0; i < data; i++) {
        fputc(0, file);
    }
    assert_int_equal(fclose(file), 0);
}

static void write_tensors(const char *path, const char *header, uint64_t data)
{
    write_file(path, header, strlen(header), data);
}

/* The document as one line of text; the caller frees it. */
static char *text_of(const zl_json_doc *doc)
{
    size_t size = 0;
    size_t used = 0;
    zl_json_writer *w = zl_json_writer_new();
    zl_json_put(w, NULL, zl_json_root(doc));
    const char *pretty = zl_json_writer_text(w, &size);
    assert_non_null(pretty);
    char *text = malloc(size + 1);
    assert_non_null(text);
    for (const char *c = pretty; *c != '\0'; c++) {
        if (*c != '\n' && *c != ' ') {
            text[used++] = *c;
        }
    }
    text[used] = '\0';
    zl_json_writer_free(w);
    return text;
}

static void expect(const char *path, const char *wanted)
{
    zl_err err = {.status = ZL_OK};
    zl_json_doc *doc = NULL;
    assert_ok(zl_safetensors_load(path, &doc, &err), &err);
    char *text = text_of(doc);
    assert_string_equal(text, wanted);
    free(text);
    zl_json_free(doc);
}

static void refuse(const char *path, zl_status status, const char *part)
{
    zl_err err = {.status = ZL_OK};
    zl_json_doc *doc = NULL;
    assert_error(zl_safetensors_load(path, &doc, &err), &err, status, part);
    assert_null(doc);
}

static void names_shapes_and_types_are_read(void **state)
{
    (void)state;
    write_tensors("one.safetensors",
                  "{\"__metadata__\":{\"format\":\"pt\"},"
                  "\"wte.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"
                  "\"scale\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[24,26]},"
                  "\"empty\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[26,26]}}   ",
                  26);
    expect("one.safetensors", "{\"tensors\":{\"empty\":\"I64[0,7]\",\"scale\":\"BF16[]\",\"wte\":{"
                              "\"weight\":\"F32[3,2]\"}}}");
}

/* Layers 0, 1, 2 and 10 are alike; 3 has another shape. In the text of the header, 10 follows 1. */
static void equal_numbered_layers_are_written_once(void **state)
{
    (void)state;
    write_tensors("layers.safetensors",
                  "{\"h.0.w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                  "\"h.1.w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]},"
                  "\"h.10.w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]},"
                  "\"h.2.w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[6,8]},"
                  "\"h.3.w\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}",
                  11);
    expect("layers.safetensors",
           "{\"tensors\":{\"h\":{\"0-2,10\":{\"w\":\"U8[2]\"},\"3\":{\"w\":\"U8[3]\"}}}}");
}

static void experts_inside_layers_are_written_once(void **state)
{
    (void)state;
    char header[4096] = "{";
    size_t used = 1;
    for (unsigned i = 0; i < 12; i++) {
        used += (size_t)snprintf(header + used, sizeof header - used,
                                 "%s\"l.%u.experts.%u.w\":{\"dtype\":\"U8\",\"shape\":[1],"
                                 "\"data_offsets\":[%u,%u]}",
                                 i > 0 ? "," : "", i / 4, i % 4, i, i + 1);
    }
    snprintf(header + used, sizeof header - used, "}");
    write_tensors("experts.safetensors", header, 12);
    expect("experts.safetensors",
           "{\"tensors\":{\"l\":{\"0-2\":{\"experts\":{\"0-3\":{\"w\":\"U8[1]\"}}}}}}");
}

/* bitsandbytes: the tensor "w" and what belongs to it, "w.absmax". */
static void a_name_may_be_the_begin_of_another(void **state)
{
    (void)state;
    write_tensors("nested.safetensors",
                  "{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                  "\"w.absmax\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
                  8);
    expect("nested.safetensors", "{\"tensors\":{\"w\":{\"\":\"U8[4]\",\"absmax\":\"F32[1]\"}}}");
}

/* Five elements of 4 bits are no whole bytes; six are three. */
static void types_below_a_byte_are_packed(void **state)
{
    (void)state;
    write_tensors("packed.safetensors",
                  "{\"w\":{\"dtype\":\"F4\",\"shape\":[6],\"data_offsets\":[0,3]}}", 3);
    expect("packed.safetensors", "{\"tensors\":{\"w\":\"F4[6]\"}}");
    write_tensors("packed.safetensors",
                  "{\"w\":{\"dtype\":\"F4\",\"shape\":[5],\"data_offsets\":[0,3]}}", 3);
    refuse("packed.safetensors", ZL_E_INPUT, "w has 3 bytes");
}

typedef struct broken {
    const char *header;
    uint64_t said; /* 0: the length of the header */
    uint64_t data;
    const char *part; /* of the error */
} broken;

#define TENSOR(name, dtype, shape, begin, end)                                                     \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end \
    "]}"

static void a_broken_header_is_told_what_is_wrong(void **state)
{
    (void)state;
    static const broken cases[] = {
        {"{}", UINT64_C(1) << 63, 0, "does not fit"},
        {"{}", 100000001, 0, "does not fit"},
        {"{}", 3, 0, "a header of 3 bytes does not fit, the file has 10"},
        {"[]", 0, 0, "must be an object"},
        {"{\"a\":1}", 0, 0, "a.dtype is missing"},
        {"{\"a\"", 0, 0, "header:1:5"},
        {"{" TENSOR("a", "Q4", "1", "0", "1") "}", 0, 1, "unknown dtype 'Q4'"},
        {"{" TENSOR("a", "F32", "2", "0", "4") "}", 0, 4, "a has 4 bytes between its data_offsets"},
        {"{" TENSOR("a", "F32", "1", "4", "0") "}", 0, 4, "lies at 4 to 0 of 4"},
        {"{" TENSOR("a", "F32", "2", "0", "8") "}", 0, 4, "is the file cut off?"},
        {"{" TENSOR("a", "U8", "2", "0", "2") "," TENSOR("b", "U8", "2", "1", "3") "}", 0, 3,
         "b begins at byte 1, a ends at 2"},
        {"{" TENSOR("a", "U8", "1", "0", "1") "," TENSOR("b", "U8", "1", "2", "3") "}", 0, 3,
         "b begins at byte 2, a ends at 1"},
        {"{" TENSOR("a", "U8", "1", "1", "2") "}", 0, 2,
         "a begins at byte 1, the header ends at 0"},
        {"{" TENSOR("a", "U8", "1", "0", "1") "}", 0, 9, "end at byte 1 of 9"},
        {"{" TENSOR("a", "U8", "9007199254740993", "0", "1") "}", 0, 1, "2^53"},
        {"{" TENSOR("a", "F64", "4294967296,4294967296,4", "0", "1") "}", 0, 1, "more than"},
        {"{" TENSOR("a", "U8", "1,1,1,1,1,1,1,1,1", "0", "1") "}", 0, 1, "at most 8 dimensions"},
        {"{" TENSOR("a", "U8", "-1", "0", "1") "}", 0, 1, "not negative"},
        {"{" TENSOR("", "U8", "1", "0", "1") "}", 0, 1, "name of a tensor"},
        {"{" TENSOR("a\\nb", "U8", "1", "0", "1") "}", 0, 1, "name of a tensor"},
        {"{" TENSOR("a..b", "U8", "1", "0", "1") "}", 0, 1, "is not read"},
        {"{" TENSOR("h.0-3.b", "U8", "1", "0", "1") "}", 0, 1, "'0-3' of the name"},
        {"{" TENSOR("a", "U8", "1", "0", "1") "," TENSOR("a", "U8", "1", "1", "2") "}", 0, 2,
         "given twice"},
        {"{\"__metadata__\":{}}", 0, 0, "there is no tensor"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const broken *c = &cases[i];
        write_file("broken.safetensors", c->header, c->said != 0 ? c->said : strlen(c->header),
                   c->data);
        zl_err err = {.status = ZL_OK};
        zl_json_doc *doc = NULL;
        const zl_status status = zl_safetensors_load("broken.safetensors", &doc, &err);
        if (status == ZL_OK || strstr(err.text, c->part) == NULL) {
            fail_msg("case %zu: expected \"%s\", got %d \"%s\"", i, c->part, (int)status, err.text);
        }
        assert_null(doc);
    }
}

static void a_file_that_is_none_is_named(void **state)
{
    (void)state;
    write_text("short.safetensors", "1234567");
    refuse("short.safetensors", ZL_E_INPUT, "7 bytes are too few");
    refuse("missing.safetensors", ZL_E_INPUT, "missing.safetensors: cannot read it: No such file");
    write_text("text.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
    refuse("text.safetensors", ZL_E_INPUT, "is it a whole safetensors file?");
    refuse(".", ZL_E_INPUT, "not a regular file");
}

static void write_shards(const char *total)
{
    char index[512];
    write_tensors("s-1.safetensors", "{" TENSOR("h.0.w", "BF16", "4", "0", "8") "}", 8);
    write_tensors(
        "s-2.safetensors",
        "{" TENSOR("h.1.w", "BF16", "4", "0", "8") "," TENSOR("x", "U8", "1", "8", "9") "}", 9);
    snprintf(index, sizeof index,
             "{\"metadata\":{%s},\"weight_map\":{\"h.0.w\":\"s-1.safetensors\","
             "\"h.1.w\":\"s-2.safetensors\"}}",
             total);
    write_text("s.safetensors.index.json", index);
}

static void an_index_gathers_its_shards(void **state)
{
    (void)state;
    write_shards("\"total_size\":16");
    expect("s.safetensors.index.json", "{\"tensors\":{\"h\":{\"0-1\":{\"w\":\"BF16[4]\"}}}}");
    write_shards("");
    expect("s.safetensors.index.json", "{\"tensors\":{\"h\":{\"0-1\":{\"w\":\"BF16[4]\"}}}}");
}

static void a_wrong_total_is_kept_beside_the_sum(void **state)
{
    (void)state;
    write_shards("\"total_size\":17");
    expect("s.safetensors.index.json", "{\"tensors\":{\"h\":{\"0-1\":{\"w\":\"BF16[4]\"}}},"
                                       "\"total_size\":17,\"tensor_bytes\":16}");
}

static void an_index_names_what_is_missing(void **state)
{
    (void)state;
    write_shards("");
    assert_int_equal(remove("s-2.safetensors"), 0);
    refuse("s.safetensors.index.json", ZL_E_INPUT, "s-2.safetensors: cannot read it");
    write_tensors("s-2.safetensors", "{" TENSOR("y", "U8", "1", "0", "1") "}", 1);
    refuse("s.safetensors.index.json", ZL_E_INPUT, "h.1.w is in s-2.safetensors, it is not");
    write_text("s.safetensors.index.json", "{\"weight_map\":{\"a\":\"../s-1.safetensors\"}}");
    refuse("s.safetensors.index.json", ZL_E_INPUT, "must be a file beside the index");
    write_text("s.safetensors.index.json", "{\"weight_map\":[]}");
    refuse("s.safetensors.index.json", ZL_E_INPUT, "weight_map must be an object");
    write_text("s.safetensors.index.json", "{\"weight_map\":{\"a\":1}}");
    refuse("s.safetensors.index.json", ZL_E_INPUT, "weight_map.a");
}

/* The run carries the shapes, so that its run.json needs no other file. */
static void a_run_carries_the_shapes(void **state)
{
    (void)state;
    zl_run run;
    zl_err err = {.status = ZL_OK};
    write_tensors("model.safetensors", "{" TENSOR("a.w", "BF16", "4", "0", "8") "}", 8);
    zl_run_init(&run);
    assert_ok(zl_run_set(&run, "framework", "ddp", &err), &err);
    assert_ok(zl_run_set(&run, "model", ".", &err), &err);
    assert_string_equal(run.hf_config, "{\"tensors\": {\"a\": {\"w\": \"BF16[4]\"}}}");
    assert_string_equal(run.model.name, "model");
    zl_run_init(&run);
    assert_error(zl_run_set(&run, "model", "model.safetensors", &err), &err, ZL_E_UNMODELLED,
                 "native needs a config.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_shapes_and_types_are_read),
        cmocka_unit_test(equal_numbered_layers_are_written_once),
        cmocka_unit_test(experts_inside_layers_are_written_once),
        cmocka_unit_test(a_name_may_be_the_begin_of_another),
        cmocka_unit_test(types_below_a_byte_are_packed),
        cmocka_unit_test(a_broken_header_is_told_what_is_wrong),
        cmocka_unit_test(a_file_that_is_none_is_named),
        cmocka_unit_test(an_index_gathers_its_shards),
        cmocka_unit_test(a_wrong_total_is_kept_beside_the_sum),
        cmocka_unit_test(an_index_names_what_is_missing),
        cmocka_unit_test(a_run_carries_the_shapes),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
