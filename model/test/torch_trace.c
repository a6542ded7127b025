/* Recordings: both forms, what contradicts itself, and what the replay makes of each kind of event.
 */
#include "base_test.h"

#include "torch/replay.h"

/* A compact recording of these events. */
#define TRACE(events) HEAD events TAIL
#define HEAD                                                                                       \
    "{\"id\": \"t\", \"columns\": [\"action\", \"addr\", \"size\", \"stream\"], \"events\": ["
#define TAIL "]}"

/* A large segment of 20 MiB at 16 MiB with a block of 2 MiB. */
#define FIRST "[\"segment_alloc\", 16777216, 20971520, 0], [\"alloc\", 16777216, 2097152, 0]"
#define FREED                                                                                      \
    ", [\"free_requested\", 16777216, 2097152, 0], [\"free_completed\", 16777216, 2097152, 0]"

static zl_status read_trace(const char *text, uint64_t device, zt_trace *trace, zl_err *err)
{
    zl_json_doc *doc = NULL;
    ZL_TRY(zl_json_parse("t.json", text, strlen(text), &doc, err));
    const zl_status status = zt_trace_read(zl_json_root(doc), device, trace, err);
    zl_json_free(doc);
    return status;
}

static zl_status replay(const char *text, zt_addresses addresses, zt_replay *out, zl_err *err)
{
    zt_trace trace = {0};
    ZL_TRY(read_trace(text, UINT64_MAX, &trace, err));
    const zt_replay_options options = {.conf = trace.conf, .addresses = addresses};
    const zl_status status = zt_replay_run(&trace, &options, out, err);
    zt_trace_release(&trace);
    return status;
}

static zt_replay replayed(const char *text)
{
    zt_replay r = {0};
    zl_err err = {0};
    assert_ok(replay(text, ZT_FROM_DRIVER, &r, &err), &err);
    return r;
}

static void assert_refused(const char *text, const char *part)
{
    zt_replay r = {0};
    zl_err err = {0};
    assert_error(replay(text, ZT_FROM_DRIVER, &r, &err), &err, ZL_E_INPUT, part);
}

/* Exactly one of the counts is 1 and the others are 0; which == NULL: all are 0. */
static void assert_differs(const char *text, const char *which)
{
    zt_replay r = replayed(text);
    const struct {
        const char *name;
        size_t count;
    } all[] = {{"missed", r.missed},
               {"extra", r.extra},
               {"resized", r.resized},
               {"misplaced", r.misplaced},
               {"final", r.final}};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        const size_t expected = which != NULL && strcmp(which, all[i].name) == 0;
        if (all[i].count != expected) {
            fail_msg("%s: %s is %zu", text, all[i].name, all[i].count);
        }
    }
    assert_int_equal(zt_replay_differ(&r), which != NULL);
    zt_replay_release(&r);
}

static void a_faithful_recording_has_no_differences(void **state)
{
    (void)state;
    assert_differs(TRACE(""), NULL);
    assert_differs(TRACE(FIRST), NULL);
    assert_differs(TRACE(FIRST FREED), NULL);
    zt_replay r = replayed(TRACE(FIRST FREED ", [\"snapshot\", 0, 0, 0]"));
    assert_int_equal(r.events, 3);
    assert_int_equal(r.segments, 1);
    assert_int_equal(r.stats.reserved.current, 20971520);
    zt_replay_release(&r);
}

static void each_fault_has_its_count(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *which;
    } cases[] = {
        {TRACE(FIRST ", [\"segment_alloc\", 67108864, 20971520, 0]"), "missed"},
        {TRACE(FIRST ", [\"segment_free\", 67108864, 20971520, 0]"), "missed"},
        {TRACE("[\"segment_alloc\", 16777216, 23068672, 0], [\"alloc\", 16777216, 2097152, 0]"),
         "resized"},
        {TRACE("[\"segment_alloc\", 16777216, 20971520, 7], [\"alloc\", 16777216, 2097152, 0]"),
         "resized"},
        {TRACE(FIRST ", [\"alloc\", 25165824, 2097152, 0]"), "misplaced"},
        {TRACE(FIRST ", [\"free_completed\", 16777216, 2097152, 0]"), "misplaced"},
        {TRACE(FIRST ", [\"alloc\", 18874368, 2097152, 0]"), NULL},
        {TRACE(FIRST FREED ", [\"oom\", 0, 104857600, 0]"), "extra"},
        {TRACE(FIRST FREED ", [\"oom\", 0, 2097152, 0]"), "misplaced"}, /* it was cached */
        /* An address that is handed out twice: a free is missing, or does not complete. */
        {TRACE(FIRST ", [\"alloc\", 16777216, 2097152, 0]"), "misplaced"},
        {TRACE(FIRST ", [\"free_requested\", 16777216, 2097152, 0], "
                     "[\"alloc\", 16777216, 2097152, 0]"),
         "misplaced"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_differs(cases[i].text, cases[i].which);
    }
    /* A segment that was not recorded also moves its block. */
    zt_replay r = replayed(TRACE("[\"alloc\", 16777216, 2097152, 0]"));
    assert_int_equal(r.extra, 1);
    assert_int_equal(r.misplaced, 1);
    assert_int_equal(r.first, 0);
    zt_replay_release(&r);
}

static void a_free_of_nothing_is_a_fault_of_the_recording(void **state)
{
    (void)state;
    assert_refused(TRACE("[\"free_requested\", 512, 512, 0]"), "event 0 frees address 512");
    assert_refused(TRACE(FIRST FREED FREED), "event 4 frees address 16777216");
    /* Where the replay has differed before, it is one more difference. */
    zt_replay r = replayed(TRACE(FIRST ", [\"alloc\", 25165824, 2097152, 0], "
                                       "[\"free_requested\", 512, 512, 0]"));
    assert_int_equal(r.misplaced, 2);
    zt_replay_release(&r);
}

static void late_frees_wait(void **state)
{
    (void)state;
    /* While the first block waits, the next one lies behind it; then its place is free again. */
    assert_differs(TRACE(FIRST ", [\"free_requested\", 16777216, 2097152, 0], "
                               "[\"alloc\", 18874368, 2097152, 0], "
                               "[\"free_completed\", 16777216, 2097152, 0], "
                               "[\"alloc\", 16777216, 2097152, 0]"),
                   NULL);
    assert_differs(TRACE(FIRST ", [\"free_requested\", 16777216, 2097152, 0], "
                               "[\"free_requested\", 16777216, 2097152, 0]"),
                   "misplaced");
}

#define SECOND "[\"segment_alloc\", 67108864, 33554432, 0], [\"alloc\", 67108864, 33554432, 0]"

static void released_segments_are_predicted(void **state)
{
    (void)state;
    /* In an allocation that found the device full, before one, and at the end. */
    assert_differs(TRACE(FIRST FREED ", [\"segment_free\", 16777216, 20971520, 0], " SECOND), NULL);
    assert_differs(TRACE(FIRST FREED ", [\"segment_free\", 16777216, 20971520, 0], " FIRST), NULL);
    assert_differs(TRACE(FIRST FREED ", [\"segment_free\", 16777216, 20971520, 0]"), NULL);
    assert_differs(TRACE(FIRST FREED ", [\"segment_free\", 16777216, 20971520, 0], "
                                     "[\"oom\", 0, 104857600, 0]"),
                   NULL);
    assert_differs(TRACE(FIRST FREED ", [\"segment_free\", 16777216, 2097152, 0]"), "resized");
}

static void expandable_segments_are_told_by_their_events(void **state)
{
    (void)state;
    /* 2 MiB map a page of 20 MiB; 30 MiB more find 18 free and map one more. */
    assert_differs(TRACE("[\"segment_map\", 16777216, 20971520, 0], "
                         "[\"alloc\", 16777216, 2097152, 0], "
                         "[\"segment_map\", 37748736, 20971520, 0], "
                         "[\"alloc\", 18874368, 31457280, 0]"),
                   NULL);
    assert_differs(TRACE("[\"segment_map\", 16777216, 20971520, 0], "
                         "[\"alloc\", 16777216, 2097152, 0], "
                         "[\"segment_map\", 37748736, 41943040, 0], "
                         "[\"alloc\", 18874368, 31457280, 0]"),
                   "resized");
}

#define PAGE "[\"segment_map\", 16777216, 20971520, 0], [\"alloc\", 16777216, 2097152, 0]"

static void pages_come_and_go(void **state)
{
    (void)state;
    assert_differs(TRACE(PAGE FREED ", [\"segment_unmap\", 16777216, 20971520, 0]"), NULL);
    /* The device is full: the page goes, and a new reservation begins with two. */
    assert_differs(TRACE(PAGE FREED ", [\"segment_unmap\", 16777216, 20971520, 0], "
                                    "[\"segment_map\", 33554432, 41943040, 0], "
                                    "[\"alloc\", 33554432, 31457280, 0]"),
                   NULL);
    assert_differs(TRACE(PAGE ", [\"segment_map\", 134217728, 20971520, 0], "
                              "[\"alloc\", 18874368, 31457280, 0]"),
                   "misplaced");
    assert_differs(TRACE("[\"oom\", 0, 31457280, 0], " PAGE), NULL);
}

static void pytorchs_own_snapshot_is_read(void **state)
{
    (void)state;
    static const char text[] =
        "{\"allocator_settings\": {\"PYTORCH_CUDA_ALLOC_CONF\": \"large_segment_size_mb:32\"},"
        " \"device_traces\": [[], ["
        "{\"action\": \"segment_alloc\", \"addr\": 16777216, \"size\": 33554432, \"stream\": 0,"
        " \"time_us\": 1},"
        "{\"action\": \"alloc\", \"addr\": 16777216, \"size\": 2097000, \"stream\": 0}]],"
        " \"segments\": ["
        "{\"device\": 0, \"address\": 1, \"stream\": 0, \"segment_type\": \"large\","
        " \"blocks\": [{\"size\": 5, \"state\": \"inactive\"}]},"
        "{\"device\": 1, \"address\": 16777216, \"stream\": 0, \"segment_type\": \"large\","
        " \"blocks\": [{\"size\": 2097152, \"requested_size\": 2097000,"
        " \"state\": \"active_allocated\"}, {\"size\": 31457280, \"requested_size\": 7,"
        " \"state\": \"inactive\"}]}]}";
    assert_differs(text, NULL);
    char *changed = replaced(text, "31457280", "31457792");
    zt_replay r = replayed(changed);
    assert_int_equal(r.final, 1);
    zt_replay_release(&r);
    free(changed);
    zt_trace trace = {0};
    zl_err err = {0};
    assert_error(read_trace(text, 0, &trace, &err), &err, ZL_E_INPUT, "device_traces");
    err = (zl_err){0};
    assert_error(read_trace(text, 2, &trace, &err), &err, ZL_E_INPUT, "device_traces");
}

static void what_is_no_recording_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *part;
    } bad[] = {
        {"{}", "columns is missing"},
        {"[]", "columns is missing"},
        {"{\"columns\": [\"action\", \"addr\", \"size\"], \"events\": []}", "no column 'stream'"},
        {"{\"columns\": [1], \"events\": []}", "columns[0]"},
        {"{\"columns\": [\"action\", \"addr\", \"size\", \"stream\"]}", "events is missing"},
        {TRACE("[\"alloc\", 1, 2]"), "events[0] must be an array of 4"},
        {TRACE("5"), "events[0] must be an array of 4"},
        {TRACE("[\"alloc\", -1, 2, 0]"), "events[0][1]"},
        {TRACE("[\"alloc\", 1, 0, 0]"), "events[0][2] must be more than 0"},
        {TRACE("[\"alloc\", 1, 1.5, 0]"), "events[0][2]"},
        {TRACE("[\"alloc\", 1, 1e300, 0]"), "events[0][2]"},
        {TRACE("[\"alloc\", 9007199254740991, 1, 0]"), "must be at most 2^52"},
        {TRACE("[\"alloc\", 1, 1, \"x\"]"), "events[0][3]"},
        {TRACE("[7, 1, 1, 0]"), "events[0][0]"},
        {HEAD "], \"marks\": []}", "mark_columns is missing"},
        {HEAD "], \"marks\": [[1, 0, \"x\", 0, 0]], \"mark_columns\": [\"events_before\", "
              "\"step\", \"at\", \"allocated\", \"reserved\"]}",
         "marks[0] stands before event 1"},
        {HEAD "], \"marks\": [[0, 0.5, \"x\", 0, 0]], \"mark_columns\": [\"events_before\", "
              "\"step\", \"at\", \"allocated\", \"reserved\"]}",
         "marks[0][1] must be a whole number"},
        {HEAD "], \"final_segments\": [{\"address\": 5}]}", "final_segments[0].stream"},
        {"{\"device_traces\": 5}", "device_traces is missing, or no array"},
        {"{\"device_traces\": [[]]}", "no events of any device"},
        {"{\"device_traces\": [[{}]]}", "device_traces[0][0].action"},
        {"{\"id\": 5}", "id"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_refused(bad[i].text, bad[i].part);
    }
}

static void streams_beyond_the_limit_are_refused(void **state)
{
    (void)state;
    char text[1 << 15];
    int used = snprintf(text, sizeof text, "%s", HEAD);
    for (int i = 0; i <= ZT_STREAMS_MAX; i++) {
        used += snprintf(text + used, sizeof text - (size_t)used, "%s[\"alloc\", %d, 1, %d]",
                         i > 0 ? "," : "", i + 1, i);
    }
    snprintf(text + used, sizeof text - (size_t)used, "%s", TAIL);
    assert_refused(text, "more than 256 streams");
}

static void other_addresses_need_no_segment_events(void **state)
{
    (void)state;
    zt_replay r = {0};
    zl_err err = {0};
    const char *text = TRACE("[\"alloc\", 5, 2097152, 0], [\"oom\", 0, 5, 0]");
    assert_ok(replay(text, ZT_ASCENDING, &r, &err), &err);
    assert_int_equal(zt_replay_differ(&r), 0);
    assert_int_equal(r.stats.reserved.peak, 20971520);
    zt_replay_release(&r);
}

/* Damage in any place is an error or a difference, never a fault of ours. */
static void damaged_recordings_are_survived(void **state)
{
    (void)state;
    static const char whole[] = HEAD FIRST FREED
        ", [\"segment_free\", 16777216, 20971520, 0], " SECOND
        "], \"marks\": [[2, -1, \"init\", 2097152, 20971520]], \"mark_columns\": "
        "[\"events_before\", \"step\", \"at\", \"allocated\", \"reserved\"], \"final_segments\": "
        "[{\"address\": 67108864, \"total_size\": 33554432, \"stream\": 0, \"segment_type\": "
        "\"large\", \"blocks\": [[67108864, 33554432, 33554432, \"active_allocated\"]]}]}";
    static const char alphabet[] = "0123456789-.e[]{},:\" aft_";
    assert_differs(whole, NULL);
    char text[sizeof whole];
    uint32_t dice = 1;
    size_t survived = 0;
    for (size_t run = 0; run < 30000; run++) {
        memcpy(text, whole, sizeof whole);
        for (size_t k = 0; k < 1 + run % 3; k++) {
            dice = dice * 1664525U + 1013904223U;
            text[(dice >> 8) % (sizeof whole - 1)] = alphabet[(dice >> 24) % (sizeof alphabet - 1)];
        }
        zt_replay r = {0};
        zl_err err = {0};
        const zl_status status = replay(text, ZT_FROM_DRIVER, &r, &err);
        if (status == ZL_OK) {
            survived++;
            zt_replay_release(&r);
        } else if (status != ZL_E_INPUT || err.text[0] == '\0') {
            fail_msg("%d with \"%s\" for %s", (int)status, err.text, text);
        }
    }
    assert_true(survived > 100);
}

static void streams_are_numbered_by_handle(void **state)
{
    (void)state;
    zt_trace trace = {0};
    zl_err err = {0};
    assert_ok(read_trace(TRACE("[\"alloc\", 1, 1, 900], [\"alloc\", 2, 1, 0], "
                               "[\"alloc\", 3, 1, 500], [\"alloc\", 4, 1, 900]"),
                         UINT64_MAX, &trace, &err),
              &err);
    const uint32_t expected[] = {2, 0, 1, 2};
    assert_int_equal(trace.events, COUNT_OF(expected));
    for (size_t i = 0; i < COUNT_OF(expected) && trace.event != NULL; i++) {
        assert_int_equal(trace.event[i].stream, expected[i]);
    }
    zt_trace_release(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_faithful_recording_has_no_differences),
        cmocka_unit_test(each_fault_has_its_count),
        cmocka_unit_test(a_free_of_nothing_is_a_fault_of_the_recording),
        cmocka_unit_test(late_frees_wait),
        cmocka_unit_test(released_segments_are_predicted),
        cmocka_unit_test(expandable_segments_are_told_by_their_events),
        cmocka_unit_test(pages_come_and_go),
        cmocka_unit_test(pytorchs_own_snapshot_is_read),
        cmocka_unit_test(what_is_no_recording_is_refused),
        cmocka_unit_test(streams_beyond_the_limit_are_refused),
        cmocka_unit_test(other_addresses_need_no_segment_events),
        cmocka_unit_test(damaged_recordings_are_survived),
        cmocka_unit_test(streams_are_numbered_by_handle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
