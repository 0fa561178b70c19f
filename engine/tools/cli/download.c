#define _GNU_SOURCE
#include "tools/cli/download.h"

#include "base/atomic_file.h"
#include "tools/cli/progress.h"
#include "base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ATTEMPTS 5          /* without progress */
#define CONNECT_SECONDS 15L /* until an attempt fails */
#define STALL_SECONDS 30L   /* without a byte */
#define REDIRECTS 10L

static const char schemes[] = "http,https";

steno_status download_begin(struct libcurl *curl, steno_err *err)
{
    steno_status st = libcurl_load(curl, err);
    if (!st && curl->global_init(CURL_GLOBAL_DEFAULT))
        return steno_fail(err, STENO_ERR_INTERNAL, "libcurl cannot be set up");
    return st;
}

void download_end(const struct libcurl *curl)
{
    curl->global_cleanup();
}

/* ---- checking -------------------------------------------------------------------------------- */

static void sum(const struct steno_map *map, uint8_t out[STENO_SHA256_BYTES])
{
    struct steno_sha256 s;
    steno_sha256_begin(&s);
    steno_sha256_add(&s, map->p, map->n);
    steno_sha256_end(&s, out);
}

steno_status download_sum(const char *path, uint8_t out[STENO_SHA256_BYTES], steno_err *err)
{
    struct steno_map map = {0};
    steno_status st = steno_map_open(&map, path, err);
    if (!st)
        sum(&map, out);
    steno_map_close(&map);
    return st;
}

steno_status download_check(const char *path, const char *name, int64_t bytes,
                            const uint8_t *sha256, steno_err *err)
{
    struct steno_map map = {0};
    uint8_t got[STENO_SHA256_BYTES];
    char found[STENO_SHA256_HEX], wanted[STENO_SHA256_HEX];
    steno_status st = steno_map_open(&map, path, err);
    if (st)
        return st;
    if ((int64_t)map.n != bytes) {
        st = steno_fail(err, STENO_ERR_FORMAT, "%s has %zu bytes, expected %lld", name, map.n,
                        (long long)bytes);
        steno_map_close(&map);
        return st;
    }
    if (sha256)
        sum(&map, got);
    steno_map_close(&map);
    if (!sha256 || !memcmp(got, sha256, sizeof got))
        return STENO_OK;
    steno_sha256_text(got, found);
    steno_sha256_text(sha256, wanted);
    return steno_fail(err, STENO_ERR_FORMAT,
                      "%s is damaged or another file: its SHA-256 is %s, expected %s", name, found,
                      wanted);
}

/* ---- one transfer ---------------------------------------------------------------------------- */

struct transfer {
    const struct libcurl *curl;
    CURL *easy;
    const struct download *d;
    int fd;
    int64_t have; /* bytes in the file */
    bool too_long;
    int failed; /* errno of a write; 0 = none */
    struct progress progress;
    char why[CURL_ERROR_SIZE];
};

static size_t on_bytes(char *bytes, size_t one, size_t n, void *user)
{
    struct transfer *t = user;
    long code = 0;
    (void)one;
    t->curl->easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &code);
    if (code && code != 200 && code != 206)
        return n; /* the page of an error */
    if (t->have + (int64_t)n > t->d->bytes) {
        t->too_long = true;
        return 0;
    }
    if (!steno_write_whole(t->fd, bytes, n)) {
        t->failed = errno;
        return 0;
    }
    t->have += (int64_t)n;
    progress_show(&t->progress, t->have);
    return n;
}

static void set_common(const struct libcurl *curl, CURL *c, const char *url, const char *cafile,
                       char *why)
{
    curl->easy_setopt(c, CURLOPT_URL, url);
    curl->easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https,file");
    curl->easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, schemes);
    curl->easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl->easy_setopt(c, CURLOPT_MAXREDIRS, REDIRECTS);
    curl->easy_setopt(c, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl->easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl->easy_setopt(c, CURLOPT_LOW_SPEED_TIME, STALL_SECONDS);
    curl->easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl->easy_setopt(c, CURLOPT_ERRORBUFFER, why);
    curl->easy_setopt(c, CURLOPT_USERAGENT, "steno/" STENO_VERSION);
    if (cafile && *cafile)
        curl->easy_setopt(c, CURLOPT_CAINFO, cafile);
}

/* What one attempt led to. */
enum outcome { WHOLE, AGAIN, FROM_START, GIVE_UP };

static enum outcome judge_transfer(const struct transfer *t, CURLcode rc, long code, steno_err *err)
{
    const char *why = *t->why ? t->why : t->curl->easy_strerror(rc);
    if (t->too_long) {
        (void)steno_fail(err, STENO_ERR_FORMAT, "%s is longer than the expected %lld bytes",
                         t->d->name, (long long)t->d->bytes);
        return GIVE_UP;
    }
    if (t->failed) {
        (void)steno_fail(err, STENO_ERR_IO, "%s.part: %s", t->d->path, strerror(t->failed));
        return GIVE_UP;
    }
    if (rc == CURLE_RANGE_ERROR || code == 416)
        return FROM_START;
    if (code >= 400) {
        (void)steno_fail(err, STENO_ERR_IO, "%s: the server answered %ld", t->d->name, code);
        return code >= 500 || code == 408 || code == 429 ? AGAIN : GIVE_UP;
    }
    if (!rc && t->have == t->d->bytes)
        return WHOLE;
    if (rc)
        (void)steno_fail(err, STENO_ERR_IO, "%s: %s", t->d->name, why);
    else
        (void)steno_fail(err, STENO_ERR_IO, "%s: the connection ended after %lld of %lld bytes",
                         t->d->name, (long long)t->have, (long long)t->d->bytes);
    switch (rc) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_FILE_COULDNT_READ_FILE:
    case CURLE_OUT_OF_MEMORY:
        return GIVE_UP;
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_COULDNT_CONNECT: /* a machine without a network; waiting helps a server restart */
        return t->have > t->progress.from ? AGAIN : GIVE_UP;
    default:
        return AGAIN;
    }
}

static enum outcome attempt(struct transfer *t, steno_err *err)
{
    CURLcode rc;
    long code = 0;
    if (lseek(t->fd, t->have, SEEK_SET) < 0 || ftruncate(t->fd, t->have)) {
        (void)steno_fail(err, STENO_ERR_IO, "%s.part: %s", t->d->path, strerror(errno));
        return GIVE_UP;
    }
    t->curl->easy_reset(t->easy);
    *t->why = '\0';
    set_common(t->curl, t->easy, t->d->url, t->d->cafile, t->why);
    t->curl->easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_bytes);
    t->curl->easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
    t->curl->easy_setopt(t->easy, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)t->have);
    rc = t->curl->easy_perform(t->easy);
    t->curl->easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &code);
    return judge_transfer(t, rc, code, err);
}

static void wait_before(double seconds)
{
    struct timespec ts = {.tv_sec = (time_t)seconds};
    ts.tv_nsec = (long)((seconds - (double)ts.tv_sec) * 1e9);
    nanosleep(&ts, NULL);
}

/* Attempts until the file is whole. STENO_OK leaves t->have == d->bytes. */
static steno_status transfer(struct transfer *t, steno_err *err)
{
    double wait = t->d->patience > 0 ? t->d->patience : 1;
    double first = wait;
    for (int i = 0; t->have < t->d->bytes; i++) {
        int64_t before = t->have;
        enum outcome o = attempt(t, err);
        if (o == WHOLE)
            break;
        if (o == FROM_START && before) {
            t->have = 0;
            continue;
        }
        if (o == FROM_START)
            return steno_fail(err, STENO_ERR_IO, "%s: the server refuses to send it", t->d->name);
        if (t->have > before) {
            i = 0;
            wait = first;
        }
        if (o == GIVE_UP || i + 1 >= ATTEMPTS)
            return err ? err->code : STENO_ERR_IO;
        progress_note(&t->progress, "interrupted, trying again");
        wait_before(wait);
        wait *= 2;
    }
    return STENO_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

static steno_status open_part(const struct download *d, const char *part, int *fd, int64_t *have,
                              steno_err *err)
{
    struct stat sb;
    *fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (*fd < 0)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", part, strerror(errno));
    if (flock(*fd, LOCK_EX | LOCK_NB)) {
        close(*fd);
        return steno_fail(err, STENO_ERR_BUSY, "%s is being fetched by another process", d->name);
    }
    if (fstat(*fd, &sb) || !S_ISREG(sb.st_mode)) {
        close(*fd);
        return steno_fail(err, STENO_ERR_IO, "%s is not a regular file", part);
    }
    *have = sb.st_size <= d->bytes ? sb.st_size : 0;
    return STENO_OK;
}

static steno_status fetch_and_check(struct transfer *t, const char *part, steno_err *err)
{
    bool resumed = t->have > 0;
    steno_status st = transfer(t, err);
    if (!st)
        st = download_check(part, t->d->name, t->d->bytes, t->d->sha256, err);
    if (st != STENO_ERR_FORMAT || !resumed)
        return st;
    /* the first part may be of another file: fetch the whole of it once */
    t->have = 0;
    st = transfer(t, err);
    return st ? st : download_check(part, t->d->name, t->d->bytes, t->d->sha256, err);
}

steno_status download_file(const struct download *d, steno_err *err)
{
    char part[PATH_MAX];
    steno_err own;
    struct transfer t = {.curl = d->curl, .d = d, .fd = -1};
    steno_status st;
    err = err ? err : &own;
    if (snprintf(part, sizeof part, "%s.part", d->path) >= (int)sizeof part)
        return steno_fail(err, STENO_ERR_INVAL, "%s: the path is too long", d->path);
    st = open_part(d, part, &t.fd, &t.have, err);
    if (st)
        return st;
    t.easy = t.curl->easy_init();
    if (!t.easy) {
        close(t.fd);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    progress_begin(&t.progress, d->name, d->bytes, t.have, d->quiet);
    st = fetch_and_check(&t, part, err);
    progress_end(&t.progress, t.have, !st);
    t.curl->easy_cleanup(t.easy);
    if (!st && (fchmod(t.fd, 0644) || fsync(t.fd) || rename(part, d->path)))
        st = steno_fail(err, STENO_ERR_IO, "%s: %s", d->path, strerror(errno));
    if (st == STENO_ERR_FORMAT || (st && !t.have))
        unlink(part);
    close(t.fd);
    return st;
}

/* ---- pages ----------------------------------------------------------------------------------- */

static size_t on_page(char *bytes, size_t one, size_t n, void *user)
{
    (void)one;
    return steno_buf_add(user, bytes, n) ? 0 : n;
}

steno_status download_page(const struct libcurl *curl, const char *url, const char *accept,
                           const char *cafile, struct steno_buf *out, char *base, size_t base_size,
                           steno_err *err)
{
    char why[CURL_ERROR_SIZE] = "", header[256];
    struct curl_slist *headers = NULL;
    CURL *c = curl->easy_init();
    CURLcode rc;
    long code = 0;
    const char *last = NULL;
    steno_status st = STENO_OK;
    if (!c)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    set_common(curl, c, url, cafile, why);
    if (accept) {
        snprintf(header, sizeof header, "Accept: %s", accept);
        headers = curl->slist_append(NULL, header);
        curl->easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    }
    curl->easy_setopt(c, CURLOPT_ACCEPT_ENCODING, "");
    curl->easy_setopt(c, CURLOPT_WRITEFUNCTION, on_page);
    curl->easy_setopt(c, CURLOPT_WRITEDATA, out);
    rc = curl->easy_perform(c);
    curl->easy_getinfo(c, CURLINFO_RESPONSE_CODE, &code);
    curl->easy_getinfo(c, CURLINFO_EFFECTIVE_URL, &last);
    if (rc == CURLE_WRITE_ERROR)
        st = steno_fail(err, STENO_ERR_LIMIT, "the page has more than %zu bytes", out->max);
    else if (rc)
        st = steno_fail(err, STENO_ERR_IO, "%s", *why ? why : curl->easy_strerror(rc));
    else if (code >= 400)
        st = steno_fail(err, STENO_ERR_IO, "the server answered %ld", code);
    else if (snprintf(base, base_size, "%s", last ? last : url) >= (int)base_size)
        st = steno_fail(err, STENO_ERR_LIMIT, "the address is too long");
    curl->slist_free_all(headers);
    curl->easy_cleanup(c);
    return st;
}

steno_status download_link(const struct libcurl *curl, const char *page, const char *link,
                           char *out, size_t size, steno_err *err)
{
    CURLU *u = curl->url();
    char *url = NULL, *scheme = NULL;
    steno_status st = STENO_OK;
    if (!u)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (curl->url_set(u, CURLUPART_URL, page, 0) || curl->url_set(u, CURLUPART_URL, link, 0) ||
        curl->url_get(u, CURLUPART_URL, &url, 0) ||
        curl->url_get(u, CURLUPART_SCHEME, &scheme, 0) ||
        (strcmp(scheme, "https") && strcmp(scheme, "http") && strcmp(scheme, "file")))
        st = steno_fail(err, STENO_ERR_FORMAT, "%.200s is not an address", link);
    else if (strlen(url) >= size)
        st = steno_fail(err, STENO_ERR_FORMAT, "an address is longer than %zu bytes", size - 1);
    else
        memcpy(out, url, strlen(url) + 1);
    curl->free(url);
    curl->free(scheme);
    curl->url_cleanup(u);
    return st;
}
