/* zeroledger.advice/1. */
#include "advise.h"
#include "zeroledger/bytes.h"

static void put_load(zl_json_writer *j, const zl_load *load)
{
    zl_json_begin_object(j, "step");
    if (!zl_poisoned(load->flops)) {
        zl_json_put_u64(j, "flops", load->flops);
    }
    if (!zl_poisoned(load->network)) {
        zl_json_put_u64(j, "network", load->network);
    }
    if (!zl_poisoned(load->host)) {
        zl_json_put_u64(j, "host", load->host);
    }
    zl_json_end(j);
}

static void put_outlook(zl_json_writer *j, const zl_asked *asked, const zl_outlook *o)
{
    const char *name = NULL;
    zl_json_put_u64(j, "rank", o->rank);
    zl_json_put_u64(j, "peak", o->peak);
    if (!asked->native) {
        zl_json_put_u64(j, "reserved", o->reserved);
    }
    zl_json_put_string(j, "phase", zl_asked_phase(asked, o->worst));
    if (asked->limited) {
        zl_json_put_bool(j, "fits", o->fits);
    }
    zl_json_begin_array(j, "phases");
    for (size_t i = 0; (name = zl_asked_phase(asked, i)) != NULL; i++) {
        if (o->phase[i] > 0) {
            zl_json_begin_object(j, NULL);
            zl_json_put_string(j, "phase", name);
            zl_json_put_u64(j, "peak", o->phase[i]);
            zl_json_end(j);
        }
    }
    zl_json_end(j);
    put_load(j, &o->load);
}

static void put_change(zl_json_writer *j, const zl_change *c)
{
    zl_json_begin_object(j, NULL);
    zl_json_put_string(j, "setting", c->knob->name);
    zl_json_put_string(j, "value", c->value);
    zl_json_put_string(j, "where", c->where);
    zl_json_put_string(j, "line", c->line);
    if (c->accelerate[0] != '\0') {
        zl_json_put_string(j, "accelerate", c->accelerate);
    }
    if (c->options[0] != '\0') {
        zl_json_put_string(j, "options", c->options);
    }
    zl_json_put_string(j, "asks_for", zl_price_name(c->knob->price));
    zl_json_put_string(j, "cost", c->knob->cost);
    zl_json_end(j);
}

static void put_set(zl_json_writer *j, const char *key, const zl_asked *asked, const zl_set *set)
{
    zl_json_begin_object(j, key);
    zl_json_begin_array(j, "changes");
    for (size_t i = 0; i < set->count; i++) {
        put_change(j, &set->change[i]);
    }
    zl_json_end(j);
    zl_json_put_string(j, "asks_for", zl_price_name(set->price));
    put_outlook(j, asked, &set->outlook);
    zl_json_put_u64(j, "saved", zl_saved(asked->now.peak, set->outlook.peak));
    if (set->from > 0) {
        zl_json_put_u64(j, "none_of_at_most", set->refuted);
        zl_json_put_u64(j, "of", set->from);
    }
    zl_json_begin_object(j, "run");
    zl_run_write(&set->run, j);
    zl_json_end(j);
    zl_json_end(j);
}

static void put_sets(zl_json_writer *j, const char *key, const zl_asked *asked, const zl_set *set,
                     size_t count)
{
    zl_json_begin_array(j, key);
    for (size_t i = 0; i < count; i++) {
        put_set(j, NULL, asked, &set[i]);
    }
    zl_json_end(j);
}

static void put_ranks(zl_json_writer *j, const char *key, const zl_fit *fit)
{
    if (!fit->found) {
        zl_json_put_null(j, key);
        return;
    }
    zl_json_begin_object(j, key);
    zl_json_put_u64(j, "ranks", fit->best.value);
    zl_json_put_u64(j, "peak", fit->best.bytes);
    zl_json_end(j);
}

static void put_rest(zl_json_writer *j, const zl_asked *asked, const zl_advice *advice)
{
    const char *what = NULL;
    const char *why = NULL;
    if (advice->all != NULL && advice->all->outlook.predicted) {
        put_set(j, "everything", asked, advice->all);
    }
    if (advice->ranked) {
        zl_json_begin_object(j, "gpus");
        put_ranks(j, "as_it_is", &advice->ranks_now);
        put_ranks(j, "with_every_change", &advice->ranks_all);
        zl_json_end(j);
    }
    zl_json_begin_array(j, "not_modelled");
    for (size_t i = 0; zl_unmodelled_at(asked, i, &what, &why); i++) {
        zl_json_begin_object(j, NULL);
        zl_json_put_string(j, "what", what);
        zl_json_put_string(j, "why", why);
        zl_json_end(j);
    }
    zl_json_end(j);
}

static void put_head(zl_json_writer *j, const zl_asked *asked)
{
    char id[ZL_RUN_ID_SIZE];
    char text[640];
    zl_json_put_string(j, "schema", "zeroledger.advice/1");
    if (asked->native) {
        zl_run_id(&asked->run, id);
        zl_run_describe(&asked->run, text, sizeof text);
        zl_json_put_string(j, "run_id", id);
        zl_json_put_string(j, "run", text);
    } else {
        zl_walked_json(&asked->w, j);
    }
    if (asked->limited) {
        zl_json_begin_object(j, "capacity");
        zl_capacity_json(&asked->c, j);
        zl_json_end(j);
    }
    zl_json_begin_object(j, "now");
    put_outlook(j, asked, &asked->now);
    zl_json_end(j);
}

zl_status zl_advice_json(const zl_args *args, const zl_asked *asked, const zl_advice *advice,
                         zl_err *err)
{
    zl_json_writer *j = zl_json_writer_new();
    zl_json_begin_object(j, NULL);
    put_head(j, asked);
    put_sets(j, "changes", asked, advice->one, advice->ones);
    put_sets(j, "sets", asked, advice->set, advice->sets);
    put_rest(j, asked, advice);
    zl_json_end(j);
    const zl_status status = zl_json_writer_save(j, args->view.out, err);
    zl_json_writer_free(j);
    return status;
}
