/* A hub's list of files, and the record of a fetch. Any bytes give chosen files or an error. No
 * name leaves its directory, each fits a pattern and occurs once; a record that was written reads
 * back the same. */
/* covers: engine/speech/store/hub_listing.c */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "speech/store/hub_listing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_files(const struct steno_chosen *c)
{
    if (c->n > STENO_CATALOGUE_FILES)
        abort();
    for (size_t i = 0; i < c->n; i++) {
        const char *name = c->files[i].name;
        if (name != c->names[i] || !*name || *name == '.' || *name == '/' || strstr(name, "/.") ||
            strstr(name, "//") || name[strlen(name) - 1] == '/' || c->files[i].bytes < 1)
            abort();
    }
}

static void check_record(const struct steno_chosen *c)
{
    static struct steno_chosen again;
    struct steno_buf b;
    steno_err err;
    steno_buf_init(&b, 1 << 16);
    if (steno_record_write(&b, c->files, c->n) ||
        steno_record_read(&again, b.data, b.len, "record", &err) || again.n != c->n)
        abort();
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->names[i], again.names[i]) || c->files[i].bytes != again.files[i].bytes ||
            memcmp(c->files[i].sha256, again.files[i].sha256, STENO_SHA256_BYTES))
            abort();
    steno_buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const picks[] = {"*.onnx", "tokens.txt", "tokenizer/*"};
    static const struct steno_catalogue_file known = {.name = "tokens.txt", .sha256 = {7}};
    const struct steno_catalogue_model m = {
        .name = "m", .files = &known, .n_files = 1, .picks = picks, .n_picks = 3};
    struct steno_chosen c = {0};
    steno_err err = {0};
    if (!steno_choose_listed(&c, &m, data, n, &err)) {
        check_files(&c);
        for (size_t i = 0; i < c.n; i++)
            for (size_t k = 0; k < i; k++)
                if (!strcmp(c.names[i], c.names[k]))
                    abort();
        check_record(&c);
        (void)!steno_choose_end(&c, &m, "list", &err);
    } else if (!err.code || !*err.msg) {
        abort();
    }
    if (!steno_record_read(&c, data, n, "record", &err))
        check_files(&c);
    return 0;
}
