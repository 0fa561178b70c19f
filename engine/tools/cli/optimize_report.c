/* The report of steno optimize. */
#include "tools/cli/optimize.h"
#include "nn/passes/passes.h"

#include <stdio.h>

static double real(const json_t *x, const char *key)
{
    return json_number_value(json_object_get(x, key));
}

/* Weights that the new form does not hold; none is not said. */
static void text_counts(const json_t *product)
{
    static const struct {
        const char *key, *text;
    } rows[] = {{"overflow", "overflow"},
                {"underflow", "become 0"},
                {"infinite", "are infinite"},
                {"nan", "are NaN"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (real(product, rows[i].key) > 0)
            printf(", %.0f %s", real(product, rows[i].key), rows[i].text);
}

static void text_products(const struct optimize *o)
{
    size_t i;
    json_t *x;
    json_array_foreach (o->products, i, x) {
        const json_t *kept = json_object_get(x, "kept");
        printf("  product %s [%lld, %lld]: ", json_string_value(json_object_get(x, "node")),
               (long long)json_integer_value(json_object_get(x, "rows")),
               (long long)json_integer_value(json_object_get(x, "columns")));
        if (kept)
            printf("kept, %s", json_string_value(kept));
        else
            printf("error %.5f", real(x, "error"));
        text_counts(x);
        if (json_object_get(x, "low"))
            printf(", input %.4g to %.4g", real(x, "low"), real(x, "high"));
        if (real(x, "input_not_finite") > 0)
            printf(", %.0f inputs are infinite or NaN", real(x, "input_not_finite"));
        if (json_object_get(x, "snr_db"))
            printf(", output max %.4g mean %.4g, %.1f dB", real(x, "max"), real(x, "mean"),
                   real(x, "snr_db"));
        if (real(x, "not_finite") > 0)
            printf(", %.0f outputs are infinite or NaN here alone", real(x, "not_finite"));
        puts("");
    }
}

static void text(const struct optimize *o, const struct optimize_result *r, const steno_network *n,
                 const char *in, const char *out)
{
    const struct steno_pass_counts *c = steno_network_passes(n);
    size_t i;
    json_t *x;
    printf("%s -> %s\n  %-34s %9s %9s\n", in, out, "operator", "original", "optimized");
    for (int k = 0; k < r->t.n_rows; k++) {
        const struct tally_row *row = &r->t.row[k];
        char name[160];
        snprintf(name, sizeof name, "%.40s%s%.100s", row->domain, *row->domain ? ":" : "",
                 row->type);
        printf("  %-34s %9d %9d\n", name, row->n[0], row->n[1]);
    }
    printf("  %-34s %9zu %9zu\n", "nodes", r->t.nodes[0], r->t.nodes[1]);
    if (r->t.steps[1] != r->t.nodes[1])
        printf("  %-34s %9zu %9zu\n", "steps (nodes of layers counted)", r->t.steps[0],
               r->t.steps[1]);
    printf("  %-34s %9zu %9zu\n", "parameters", r->t.params[0], r->t.params[1]);
    printf("  %-34s %9.2f %9.2f\n", "file, MiB", (double)r->bytes_in / 1048576,
           (double)(r->written.bytes + r->written.data_bytes) / 1048576);
    printf("  functions of ai.steno: %zu\n  passes:", r->written.functions);
    for (int k = 0; steno_passes[k].name; k++)
        if (c->changed[k])
            printf(" %s %d", steno_passes[k].name, c->changed[k]);
    puts("");
    json_array_foreach (o->notes, i, x)
        printf("  note: %s\n", json_string_value(x));
    text_products(o);
    if (o->verbose && !json_array_size(o->refused))
        puts("  no near misses");
    json_array_foreach (o->refused, i, x)
        printf("  refused: pass %s at node '%s': %s\n",
               json_string_value(json_object_get(x, "pass")),
               json_string_value(json_object_get(x, "node")),
               json_string_value(json_object_get(x, "why")));
}

static void as_json(const struct optimize *o, const struct optimize_result *r,
                    const steno_network *n, const char *in, const char *out)
{
    const struct steno_pass_counts *c = steno_network_passes(n);
    json_t *j = json_pack(
        "{s:s, s:s, s:{s:I, s:I}, s:{s:I, s:I}, s:{s:I, s:I}, s:{s:I, s:I}, s:I}", "input", in,
        "output", out, "nodes", "original", (json_int_t)r->t.nodes[0], "optimized",
        (json_int_t)r->t.nodes[1], "steps", "original", (json_int_t)r->t.steps[0], "optimized",
        (json_int_t)r->t.steps[1], "parameters", "original", (json_int_t)r->t.params[0],
        "optimized", (json_int_t)r->t.params[1], "bytes", "original", (json_int_t)r->bytes_in,
        "optimized", (json_int_t)(r->written.bytes + r->written.data_bytes), "functions",
        (json_int_t)r->written.functions);
    json_t *ops = json_array(), *passes = json_object();
    for (int k = 0; k < r->t.n_rows; k++) {
        const struct tally_row *row = &r->t.row[k];
        (void)json_array_append_new(
            ops, json_pack("{s:s, s:s, s:i, s:i}", "domain", *row->domain ? row->domain : "ai.onnx",
                           "operator", row->type, "original", row->n[0], "optimized", row->n[1]));
    }
    for (int k = 0; steno_passes[k].name; k++)
        if (c->changed[k]) {
            json_t *old = json_object_get(passes, steno_passes[k].name); /* pass dead runs twice */
            (void)json_object_set_new(
                passes, steno_passes[k].name,
                json_integer(c->changed[k] + (old ? json_integer_value(old) : 0)));
        }
    (void)json_object_set_new(j, "operators", ops);
    (void)json_object_set_new(j, "passes", passes);
    (void)json_object_set(j, "refused", o->refused);
    (void)json_object_set(j, "products", o->products);
    (void)json_object_set(j, "notes", o->notes);
    (void)json_dumpf(j, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    puts("");
    json_decref(j);
}

void optimize_report(const struct optimize *o, const struct optimize_result *r,
                     const steno_network *n, const char *in, const char *out)
{
    (o->report == OPTIMIZE_JSON ? as_json : text)(o, r, n, in, out);
}
