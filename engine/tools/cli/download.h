/* Downloads of files over HTTP(S), with libcurl: resumed where they were cut off, checked against
 * size and checksum, and put into place as a whole. */
#ifndef STENO_CLI_DOWNLOAD_H
#define STENO_CLI_DOWNLOAD_H

#include "base/buf.h"
#include "base/sha256.h"
#include "curl/libcurl.h"

struct download {
    const struct libcurl *curl;
    const char *url;
    const char *path;      /* where the file goes; PATH.part grows meanwhile and stays if cut off */
    const char *name;      /* for progress and messages */
    int64_t bytes;         /* expected size */
    const uint8_t *sha256; /* expected checksum, [STENO_SHA256_BYTES]; NULL: not known */
    const char *cafile;    /* certificates; NULL: the system's */
    bool quiet;            /* no progress */
    double patience;       /* seconds before the first new attempt, doubled each time; 0: 1 s */
};

/* Load libcurl and set it up. Call it first, from the only thread. STENO_ERR_UNSUPPORTED: libcurl
 * is absent. */
STENO_MUST steno_status download_begin(struct libcurl *curl, steno_err *err);
void download_end(const struct libcurl *curl);

/* Fetch a file. A PATH.part of an earlier call is continued with a range request. A connection
 * that breaks is continued up to five times in a row without progress. STENO_ERR_IO: no
 * connection, a refusal, or no room; the message names the file and the reason, PATH.part stays.
 * STENO_ERR_FORMAT: the file has another size or checksum; PATH.part is removed.
 * STENO_ERR_BUSY: another process fetches the same file. */
STENO_MUST steno_status download_file(const struct download *d, steno_err *err);
/* Fetch a small page. accept: media types; NULL: any. base: the address that redirects led to,
 * [base_size]. STENO_ERR_LIMIT: larger than out->max. STENO_ERR_IO: as above. */
STENO_MUST steno_status download_page(const struct libcurl *curl, const char *url,
                                      const char *accept, const char *cafile, struct steno_buf *out,
                                      char *base, size_t base_size, steno_err *err);
/* Resolve a link against the address of its page. STENO_ERR_FORMAT: it is none, or its scheme is
 * not http, https or file. */
STENO_MUST steno_status download_link(const struct libcurl *curl, const char *page,
                                      const char *link, char *out, size_t size, steno_err *err);
/* Compute a file's checksum. STENO_ERR_IO: the reason. */
STENO_MUST steno_status download_sum(const char *path, uint8_t out[STENO_SHA256_BYTES],
                                     steno_err *err);
/* Compare a file's size and checksum (NULL: only the size). STENO_ERR_FORMAT states expected and
 * found values. */
STENO_MUST steno_status download_check(const char *path, const char *name, int64_t bytes,
                                       const uint8_t *sha256, steno_err *err);

#endif
