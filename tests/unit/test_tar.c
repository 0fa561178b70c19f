/* Tar archives as Python's tarfile and GNU tar write them (made here, header by header), and
 * damaged ones. */

#include "formats/gzip.h"
#include "formats/tar.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define MAX ((size_t)64 << 10)

struct archive {
    uint8_t p[MAX];
    size_t n;
};

static void octal(uint8_t *to, int digits, size_t v)
{
    for (; digits--; v >>= 3)
        to[digits] = (uint8_t)('0' + (v & 7));
}

static void sum(uint8_t *h)
{
    unsigned total = 0;
    memset(h + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        total += h[i];
    octal(h + 148, 6, total);
    h[154] = 0;
}

/* Add a header; the caller may change and sum it again. */
static uint8_t *header(struct archive *a, const char *name, char type, size_t size)
{
    uint8_t *h = a->p + a->n;
    memset(h, 0, 512);
    memcpy(h, name, strlen(name) < 100 ? strlen(name) : 100);
    octal(h + 124, 11, size);
    h[156] = (uint8_t)type;
    memcpy(h + 257, "ustar\00000", 8);
    sum(h);
    a->n += 512;
    return h;
}

static void content(struct archive *a, const char *bytes, size_t n)
{
    memset(a->p + a->n, 0, (n + 511) / 512 * 512);
    memcpy(a->p + a->n, bytes, n);
    a->n += (n + 511) / 512 * 512;
}

static void file(struct archive *a, const char *name, const char *text)
{
    header(a, name, '0', strlen(text));
    content(a, text, strlen(text));
}

static void end(struct archive *a)
{
    memset(a->p + a->n, 0, 1024);
    a->n += 1024;
}

static void lists(const struct archive *a, size_t n, const char *const *names,
                  const char *const *texts)
{
    struct steno_tar t = {0};
    steno_err err = {0};
    if (steno_tar_list(a->p, a->n, "x.tar", &t, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(t.n, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(t.member[i].name_len, strlen(names[i]));
        assert_memory_equal(t.member[i].name, names[i], strlen(names[i]));
        assert_int_equal(t.member[i].size, strlen(texts[i]));
        assert_memory_equal(a->p + t.member[i].at, texts[i], strlen(texts[i]));
    }
    steno_tar_close(&t);
}

static void refuses(const struct archive *a, size_t n, steno_status want, const char *part)
{
    struct steno_tar t = {0};
    steno_err err = {0};
    assert_int_equal(steno_tar_list(a->p, n, "x.tar", &t, &err), want);
    if (!strstr(err.msg, part))
        fail_msg("'%s' without '%s'", err.msg, part);
    assert_null(t.member);
}

static void files_come_sorted_and_without_dots(void **state)
{
    static struct archive a;
    (void)state;
    header(&a, "./", '5', 0);
    file(&a, "./b.yaml", "two");
    header(&a, "folder/", '5', 0);
    header(&a, "link", '2', 0);
    file(&a, ".//./a.ckpt", "one");
    file(&a, "../../etc/passwd", "kept as a name");
    header(&a, "old/", '\0', 0);
    assert_true(steno_tar_probe(a.p, a.n));
    end(&a);
    lists(&a, 3, (const char *const[]){"../../etc/passwd", "a.ckpt", "b.yaml"},
          (const char *const[]){"kept as a name", "one", "two"});
}

static void names_may_be_long(void **state)
{
    static struct archive a;
    static char gnu[301], pax[301], record[400];
    uint8_t *h;
    (void)state;
    memset(gnu, 'g', 300);
    memset(pax, 'p', 300);
    header(&a, "././@LongLink", 'L', 301);
    content(&a, gnu, 301);
    file(&a, "ggg", "one");
    snprintf(record, sizeof record, "310 path=%s\n", pax);
    header(&a, "./PaxHeaders/ppp", 'x', 310);
    content(&a, record, 310);
    file(&a, "ppp", "two");
    h = header(&a, "tail", '0', 5);
    memcpy(h + 345, "prefix/of", 9);
    sum(h);
    content(&a, "three", 5);
    file(&a, "short", "four");
    end(&a);
    lists(&a, 4, (const char *const[]){gnu, pax, "prefix/of/tail", "short"},
          (const char *const[]){"one", "two", "three", "four"});
}

static void sizes_may_be_binary_or_in_an_extended_header(void **state)
{
    static struct archive a;
    uint8_t *h;
    (void)state;
    h = header(&a, "binary", '0', 0);
    memset(h + 124, 0, 12);
    h[124] = 0x80;
    h[135] = 6;
    sum(h);
    content(&a, "six by", 6);
    header(&a, "x", 'x', 9);
    content(&a, "9 size=4\n", 9);
    header(&a, "pax", '0', 0);
    content(&a, "four", 4);
    end(&a);
    lists(&a, 2, (const char *const[]){"binary", "pax"}, (const char *const[]){"six by", "four"});
}

static void truncated_archives_are_refused_at_every_byte(void **state)
{
    static struct archive a;
    (void)state;
    file(&a, "one", "1");
    header(&a, "x", 'x', 12);
    content(&a, "12 path=two\n", 12);
    file(&a, "2", "22");
    end(&a);
    for (size_t n = 0; n < a.n - 1024; n++) {
        uint8_t *copy = malloc(n + 1); /* of its own, so that the sanitizer sees its end */
        struct steno_tar t = {0};
        memcpy(copy, a.p, n);
        assert_int_equal(steno_tar_list(copy, n, "x.tar", &t, NULL), STENO_ERR_FORMAT);
        free(copy);
    }
}

static void damaged_headers_are_named(void **state)
{
    static struct archive a;
    struct archive *b = malloc(sizeof *b);
    uint8_t *h;
    (void)state;
    assert_non_null(b);
    file(&a, "one", "1");
    *b = a;
    b->p[1] = 'N';
    refuses(b, b->n, STENO_ERR_FORMAT, "not a tar archive");
    *b = a;
    file(b, "two", "2");
    b->p[1024] = 'T';
    refuses(b, b->n, STENO_ERR_FORMAT, "at byte 1024: damaged archive: a header's checksum");
    *b = a;
    header(b, "huge", '0', (size_t)1 << 32);
    end(b);
    refuses(b, b->n, STENO_ERR_FORMAT, "a member reaches past the end");
    for (int sign = 0; sign < 2; sign++) {
        *b = a;
        h = header(b, "binary", '0', 0);
        memset(h + 124, sign ? 0xff : 0xbf, 12);
        sum(h);
        end(b);
        refuses(b, b->n, STENO_ERR_FORMAT, "a size is no number");
    }
    *b = a;
    header(b, "x", 'x', 30);
    content(b, "30 size=99999999999999999999\n\n", 30);
    end(b);
    refuses(b, b->n, STENO_ERR_FORMAT, "a size is no number");
    *b = a;
    header(b, "x", 'x', 12);
    content(b, "99 path=two\n", 12);
    end(b);
    refuses(b, b->n, STENO_ERR_FORMAT, "bad extended header");
    *b = a;
    file(b, "./one", "1");
    end(b);
    refuses(b, b->n, STENO_ERR_FORMAT, "one is in the archive twice");
    *b = a;
    header(b, "holes", 'S', 0);
    end(b);
    refuses(b, b->n, STENO_ERR_UNSUPPORTED, "holes is a sparse file");
    memset(b->p, 0, sizeof b->p);
    refuses(b, 4096, STENO_ERR_FORMAT, "not a tar archive");
    free(b);
}

/* ---- gzip ---------------------------------------------------------------------------------- */

static size_t pack(const uint8_t *p, size_t n, uint8_t *out, size_t max)
{
    z_stream z = {0};
    uint8_t *in = malloc(n + 1);
    assert_non_null(in);
    memcpy(in, p, n);
    z.next_in = in;
    z.avail_in = (unsigned)n;
    z.next_out = out;
    z.avail_out = (unsigned)max;
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, MAX_WBITS + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    free(in);
    return max - z.avail_out;
}

static void gzip_comes_back_whole(void **state)
{
    static uint8_t data[3 << 20], packed[4 << 20];
    size_t n, size = 0;
    void *out = NULL;
    uint32_t x = 1;
    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)((x = x * 1664525u + 1013904223u) >> 24);
    n = pack(data, sizeof data / 2, packed, sizeof packed);
    n += pack(data + sizeof data / 2, sizeof data - sizeof data / 2, packed + n,
              sizeof packed - n - 512);
    memset(packed + n, 0, 512); /* two members, and zeros behind them */
    assert_true(steno_gzip_probe(packed, n));
    assert_int_equal(steno_gzip_unpack(packed, n + 512, "x.gz", sizeof data + 1, &out, &size, NULL),
                     STENO_OK);
    assert_int_equal(size, sizeof data);
    assert_memory_equal(out, data, sizeof data);
    free(out);
    assert_int_equal(steno_gzip_unpack(packed, n, "x.gz", sizeof data - 1, &out, &size, NULL),
                     STENO_ERR_LIMIT);
}

static void damaged_gzip_is_refused(void **state)
{
    static uint8_t data[3000], packed[4000];
    void *out = NULL;
    size_t n, size;
    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * i >> 3);
    n = pack(data, sizeof data, packed, sizeof packed);
    for (size_t cut = 0; cut < n; cut++)
        assert_int_equal(steno_gzip_unpack(packed, cut, "x.gz", MAX, &out, &size, NULL),
                         STENO_ERR_FORMAT);
    packed[n - 8] ^= 1; /* checksum */
    assert_int_equal(steno_gzip_unpack(packed, n, "x.gz", MAX, &out, &size, NULL),
                     STENO_ERR_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_come_sorted_and_without_dots),
        cmocka_unit_test(names_may_be_long),
        cmocka_unit_test(sizes_may_be_binary_or_in_an_extended_header),
        cmocka_unit_test(truncated_archives_are_refused_at_every_byte),
        cmocka_unit_test(damaged_headers_are_named),
        cmocka_unit_test(gzip_comes_back_whole),
        cmocka_unit_test(damaged_gzip_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
