/* multipart/form-data: RFC 7578 and RFC 2046, section 5.1. */

#include "base/buf.h"
#include "protocol/multipart.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

/* Appends each part to `out` as "name(filename)=data;". */
static steno_status on_part(void *user, const char *name, const char *filename, steno_err *err)
{
    (void)err;
    return steno_buf_printf(user, "%s(%s)=", name, filename ? filename : "-");
}

static steno_status on_data(void *user, const char *data, size_t n, steno_err *err)
{
    (void)err;
    return steno_buf_add(user, data, n);
}

static steno_status on_end(void *user, steno_err *err)
{
    (void)err;
    return steno_buf_puts(user, ";");
}

/* Parse the body in pieces of `piece` bytes. */
static steno_status parse(const char *type, const char *body, size_t n, size_t piece,
                          struct steno_buf *out, steno_err *err)
{
    const struct steno_multipart_events on = {out, on_part, on_data, on_end};
    steno_multipart *mp = NULL;
    steno_status st = steno_multipart_open(&mp, type, &on, err);
    for (size_t i = 0; !st && i < n; i += piece) {
        /* a block of exactly this size, so that a sanitizer sees reads past it */
        size_t len = n - i < piece ? n - i : piece;
        char *exact = malloc(len);
        memcpy(exact, body + i, len);
        st = steno_multipart_push(mp, exact, len, err);
        free(exact);
    }
    if (!st)
        st = steno_multipart_end(mp, err);
    steno_multipart_close(mp);
    return st;
}

#define TYPE "multipart/form-data; boundary=AaB03x"

static void expect(const char *type, const char *body, const char *want)
{
    size_t n = strlen(body);
    for (size_t piece = 1; piece <= n; piece += piece < 40 ? 1 : n / 3 + 1) {
        struct steno_buf out;
        steno_err err = {STENO_OK, ""};
        steno_buf_init(&out, 1 << 16);
        if (parse(type, body, n, piece, &out, &err))
            fail_msg("pieces of %zu: %s", piece, err.msg);
        assert_string_equal(out.data ? out.data : "", want);
        steno_buf_free(&out);
    }
}

static void any_split_gives_the_same_parts(void **state)
{
    (void)state;
    /* the example of RFC 7578, section 4, as curl 7.88 sends it */
    expect(TYPE,
           "--AaB03x\r\n"
           "Content-Disposition: form-data; name=\"field1\"\r\n"
           "\r\n"
           "Joe owes 100\r\n"
           "--AaB03x\r\n"
           "content-disposition: form-data; name=\"file\"; filename=\"a b.wav\"\r\n"
           "Content-Type: audio/wav\r\n"
           "\r\n"
           "RIFF\r\n--AaB03\r\n\r\r\n-\n--AaB03x in a line\r\n"
           "--AaB03x--\r\n",
           "field1(-)=Joe owes 100;file(a b.wav)=RIFF\r\n--AaB03\r\n\r\r\n-\n--AaB03x in a line;");
}

static void preamble_epilogue_and_padding_are_skipped(void **state)
{
    (void)state;
    expect("Multipart/Form-Data; charset=utf-8; boundary=\"q r'()+_,-./:=?\"",
           "this is the preamble\r\n--q r'()+_,-./:=? \t\r\n"
           "Content-Disposition: form-data; name=x\r\n\r\n\r\n"
           "--q r'()+_,-./:=?--  and an epilogue\r\n--q r'()+_,-./:=?\r\n",
           "x(-)=;");
}

static void quotes_and_semicolons_in_names_do_not_confuse(void **state)
{
    (void)state;
    expect(TYPE,
           "--AaB03x\r\nContent-Disposition: form-data; filename=\"x; name=evil\"; "
           "name=\"a\\\"b\"\r\n\r\nv\r\n--AaB03x--",
           "a\"b(x; name=evil)=v;");
}

static void every_fault_is_named(void **state)
{
    static const struct {
        const char *type, *body;
        steno_status status;
        const char *says;
    } bad[] = {
        {"application/json", "", STENO_ERR_UNSUPPORTED, "Content-Type is 'application/json'"},
        {NULL, "", STENO_ERR_UNSUPPORTED, "Content-Type is ''"},
        {"multipart/form-data", "", STENO_ERR_INVAL, "boundary is missing"},
        {"multipart/form-data; charset=x", "", STENO_ERR_INVAL, "boundary is missing"},
        {"multipart/form-data; boundary=", "", STENO_ERR_INVAL, "boundary is missing"},
        {"multipart/form-data; boundary=\"unclosed", "", STENO_ERR_INVAL, "boundary is missing"},
        {TYPE, "", STENO_ERR_FORMAT, "'AaB03x' of the Content-Type header does not occur"},
        {TYPE, "--other\r\n\r\n--other--", STENO_ERR_FORMAT, "does not occur in the body"},
        {TYPE, "--AaB03x\r\nContent-Disposition: form-data; name=a\r\n\r\nxyz", STENO_ERR_FORMAT,
         "the body ends inside part 1"},
        {TYPE, "--AaB03x\r\n\r\nxyz\r\n--AaB03x--", STENO_ERR_FORMAT,
         "part 1 has no Content-Disposition"},
        {TYPE, "--AaB03x\r\nContent-Disposition: form-data\r\n\r\n\r\n--AaB03x--", STENO_ERR_FORMAT,
         "part 1 has no name"},
        {TYPE, "--AaB03xyz\r\n", STENO_ERR_FORMAT, "does not end its line"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t piece = 1; piece < 100; piece += 49) {
            struct steno_buf out;
            steno_err err = {STENO_OK, ""};
            steno_buf_init(&out, 1 << 16);
            assert_int_equal(
                parse(bad[i].type, bad[i].body, strlen(bad[i].body), piece, &out, &err),
                bad[i].status);
            if (!strstr(err.msg, bad[i].says))
                fail_msg("'%s' does not say '%s'", err.msg, bad[i].says);
            steno_buf_free(&out);
        }
}

static void endless_headers_and_parts_are_limits(void **state)
{
    struct steno_buf body, out;
    steno_err err;
    (void)state;
    steno_buf_init(&body, 1 << 20);
    steno_buf_init(&out, 1 << 20);
    assert_int_equal(steno_buf_puts(&body, "--AaB03x\r\nX: "), STENO_OK);
    for (int i = 0; i < STENO_MULTIPART_HEADERS; i++)
        assert_int_equal(steno_buf_puts(&body, "y"), STENO_OK);
    assert_int_equal(parse(TYPE, body.data, body.len, 1000, &out, &err), STENO_ERR_LIMIT);
    assert_non_null(strstr(err.msg, "the headers of part 1 exceed"));
    steno_buf_reset(&body);
    for (int i = 0; i <= STENO_MULTIPART_PARTS; i++)
        assert_int_equal(
            steno_buf_puts(&body, "--AaB03x\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n"),
            STENO_OK);
    assert_int_equal(parse(TYPE, body.data, body.len, 1000, &out, &err), STENO_ERR_LIMIT);
    assert_non_null(strstr(err.msg, "more than 256 parts"));
    steno_buf_free(&body);
    steno_buf_free(&out);
}

static steno_status stop_here(void *user, const char *data, size_t n, steno_err *err)
{
    (void)user, (void)data, (void)n;
    return steno_fail(err, STENO_ERR_LIMIT, "enough");
}

static void callbacks_can_stop_it(void **state)
{
    static const char body[] = "--AaB03x\r\nContent-Disposition: form-data; name=a\r\n\r\nxyz";
    struct steno_buf out;
    const struct steno_multipart_events on = {&out, on_part, stop_here, on_end};
    steno_multipart *mp;
    steno_err err;
    (void)state;
    steno_buf_init(&out, 1 << 16);
    assert_int_equal(steno_multipart_open(&mp, TYPE, &on, &err), STENO_OK);
    assert_int_equal(steno_multipart_push(mp, body, sizeof body - 1, &err), STENO_ERR_LIMIT);
    assert_string_equal(err.msg, "enough");
    steno_multipart_close(mp);
    steno_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_split_gives_the_same_parts),
        cmocka_unit_test(preamble_epilogue_and_padding_are_skipped),
        cmocka_unit_test(quotes_and_semicolons_in_names_do_not_confuse),
        cmocka_unit_test(every_fault_is_named),
        cmocka_unit_test(endless_headers_and_parts_are_limits),
        cmocka_unit_test(callbacks_can_stop_it),
    };
    return cmocka_run_group_tests_name("multipart", tests, NULL, NULL);
}
