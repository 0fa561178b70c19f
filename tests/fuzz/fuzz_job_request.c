/* The JSON body of POST /v1/jobs. What it says becomes a target, and reading that target gives the
 * same pairs again. */
/* covers: protocol/job_request.c */
#include <stdlib.h>
#include <string.h>

#include "protocol/job_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void require(bool ok)
{
    if (!ok)
        abort();
}

struct pairs {
    struct steno_buf target, all; /* all: name and value, each with its NUL */
    size_t at;                    /* in all, of the pair that is to be read next */
    bool skipped;                 /* a pair did not fit */
};

static steno_status keep_pair(void *user, const char *name, const char *value, steno_err *err)
{
    struct pairs *p = user;
    if (steno_target_add(&p->target, name, value) ||
        steno_buf_add(&p->all, name, strlen(name) + 1) ||
        steno_buf_add(&p->all, value, strlen(value) + 1)) {
        p->skipped = true;
        return steno_fail(err, STENO_ERR_LIMIT, "too long");
    }
    return STENO_OK;
}

static steno_status compare_pair(void *user, const char *name, const char *value, steno_err *err)
{
    struct pairs *p = user;
    (void)err;
    require(p->at < p->all.len && !strcmp(p->all.data + p->at, name));
    p->at += strlen(name) + 1;
    require(p->at < p->all.len && !strcmp(p->all.data + p->at, value));
    p->at += strlen(value) + 1;
    return STENO_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct pairs p = {.at = 0};
    struct steno_buf urls;
    size_t n_urls = 0, counted = 0;
    steno_err err;
    steno_status st;
    steno_buf_init(&p.target, 4096);
    steno_buf_init(&p.all, 65536);
    steno_buf_init(&urls, 8192);
    require(!steno_buf_puts(&p.target, "/v1/jobs"));
    st = steno_job_request_read((const char *)data, n, keep_pair, &p, &urls, &n_urls, &err);
    require(st == STENO_OK || st == STENO_ERR_INVAL || st == STENO_ERR_FORMAT ||
            (st == STENO_ERR_LIMIT && p.skipped));
    if (!st) {
        for (size_t at = 0; at < urls.len; at += strlen(urls.data + at) + 1)
            counted++;
        require(n_urls >= 1 && counted == n_urls && n_urls <= STENO_JOB_URLS);
        /* a long value, or one with a control character, may be refused, but never read otherwise
         */
        if (!steno_query_each(p.target.data, compare_pair, &p, &err))
            require(p.at == p.all.len);
    }
    steno_buf_free(&p.target);
    steno_buf_free(&p.all);
    steno_buf_free(&urls);
    return 0;
}
