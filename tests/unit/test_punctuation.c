/* Marks and capitals: rows of the CNN-BiLSTM, tokens and parts of the CT-Transformer, and the
 * answers of sherpa-onnx 2.0.1 that ../shared/punctuation has recorded of both networks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/arena.h"
#include "formats/npy.h"
#include "formats/zip.h"
#include "speech/punctuation/ct_marks.h"
#include "speech/punctuation/punctuation.h"
#include "speech/punctuation/rows.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

#define M "\xE2\x96\x81"

/* ---- CNN-BiLSTM ------------------------------------------------------------------------------ */

static steno_bpe_vocab *read_pieces(void)
{
    static const char pieces[] = "<unk>\t0\n<s>\t0\n</s>\t0\n" M "\t-2\n" M "a\t-1\nb\t-1\n";
    steno_bpe_vocab *v = NULL;
    assert_int_equal(steno_bpe_vocab_parse(&v, pieces, sizeof pieces - 1, "v", NULL, NULL),
                     STENO_OK);
    return v;
}

static void rows_have_pieces_between_marks(void **state)
{
    static const int32_t piece[] = {1, 4, 5, 3, 5, 0, 3, 0, 2, 0},
                         valid[] = {1, 1, 0, 1, 0, 0, 1, 0, 1, 0};
    static const char text[] = " ab\tbxx x ";
    steno_bpe_vocab *v = read_pieces();
    struct steno_punctuation_tokens t = {0};
    struct steno_punctuation_row row;
    (void)state;
    assert_int_equal(steno_punctuation_words(&t, text), STENO_OK);
    assert_int_equal(t.n, 3);
    assert_int_equal(t.v[1].begin, 4);
    assert_int_equal(t.v[1].end, 7);
    assert_int_equal(steno_punctuation_fill_row(&row, v, text, &t, 0), STENO_OK);
    assert_int_equal(row.words, 3);
    assert_int_equal(row.n, 9);
    assert_memory_equal(row.piece, piece, sizeof piece);
    assert_memory_equal(row.valid, valid, sizeof valid);
    free(t.v);
    steno_bpe_vocab_close(v);
}

/* 100 words of two pieces: 99 of them are in the first row, which then has 200 numbers. The longest
 * words fit into a row. */
static void words_that_do_not_fit_begin_a_row(void **state)
{
    char text[4096] = "";
    steno_bpe_vocab *v = read_pieces();
    struct steno_punctuation_tokens t = {0};
    struct steno_punctuation_row row;
    size_t n = 0;
    (void)state;
    for (int i = 0; i < 100; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "ab ");
    memset(text + n, 'b', 1000);
    text[n + 1000] = '\0';
    assert_int_equal(steno_punctuation_words(&t, text), STENO_OK);
    assert_int_equal(steno_punctuation_fill_row(&row, v, text, &t, 0), STENO_OK);
    assert_int_equal(row.words, 99);
    assert_int_equal(row.n, 200);
    assert_int_equal(row.piece[199], 2);
    assert_int_equal(steno_punctuation_fill_row(&row, v, text, &t, 99), STENO_OK);
    assert_int_equal(row.words, 2);
    assert_int_equal(steno_punctuation_fill_row(&row, v, text, &t, 100), STENO_OK);
    assert_int_equal(row.words, 1);
    free(t.v);
    steno_bpe_vocab_close(v);
}

/* ---- CT-Transformer -------------------------------------------------------------------------- */

#define MARKS "<unk>|_|\xEF\xBC\x8C|\xE3\x80\x82|\xEF\xBC\x9F|\xE3\x80\x81" /* ， 。 ？ 、 */
enum { UNK, NONE, COMMA, STOP, QUESTION, PAUSE };

static void lists_of_the_metadata_are_read(void **state)
{
    static const struct {
        const char *words, *marks, *unknown;
        steno_status st;
        const char *why;
    } wrong[] = {
        {"a|b", MARKS, "<unk>", STENO_ERR_FORMAT, "m: metadata tokens lacks unk_symbol '<unk>'"},
        {"a|<unk>", "_|x", "<unk>", STENO_ERR_FORMAT,
         "m: metadata punctuations lacks one of \xEF\xBC\x8C \xE3\x80\x82 \xEF\xBC\x9F"},
        {"<unk>", "0|1|2|3|4|5|6|7|8|9|0|1|2|3|4|5|6|7|8|9|0|1|2|3|4|5|6|7|8|9|0|1|2", "<unk>",
         STENO_ERR_LIMIT, "m: metadata punctuations: more than 32"},
    };
    struct steno_ct_vocab v;
    (void)state;
    assert_int_equal(steno_ct_vocab_read(&v, "b|a|<unk>|ab|a", MARKS, "<unk>", "m", NULL),
                     STENO_OK);
    assert_int_equal(steno_ct_vocab_find(&v, "abc", 1), 1);
    assert_int_equal(steno_ct_vocab_find(&v, "abc", 2), 3);
    assert_int_equal(steno_ct_vocab_find(&v, "abc", 3), 2);
    assert_int_equal(v.n_marks, 6);
    assert_string_equal(v.mark[UNK], "");
    assert_string_equal(v.mark[NONE], "");
    assert_string_equal(v.mark[PAUSE], "\xE3\x80\x81");
    assert_int_equal(v.comma, COMMA);
    assert_int_equal(v.stop, STOP);
    assert_int_equal(v.question, QUESTION);
    steno_ct_vocab_free(&v);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        steno_err err = {0};
        assert_int_equal(
            steno_ct_vocab_read(&v, wrong[i].words, wrong[i].marks, wrong[i].unknown, "m", &err),
            wrong[i].st);
        assert_string_equal(err.msg, wrong[i].why);
    }
}

static void texts_are_cut_into_words_and_characters(void **state)
{
    /* it's caf\xC3\xA9 4 \xE4\xBD\xA0\xE5\xA5\xBDx, and half a character at the end */
    static const char text[] = " it's caf\xC3\xA9  4\xE4\xBD\xA0\xE5\xA5\xBDx\xE4\xBD";
    static const uint32_t want[][2] = {{1, 3},   {3, 4},   {4, 5},   {6, 11}, {13, 14},
                                       {14, 17}, {17, 20}, {20, 21}, {21, 23}};
    struct steno_punctuation_tokens t = {0};
    (void)state;
    assert_int_equal(steno_ct_split(&t, text), STENO_OK);
    assert_int_equal(t.n, sizeof want / sizeof *want);
    for (size_t i = 0; i < t.n; i++) {
        assert_int_equal(t.v[i].begin, want[i][0]);
        assert_int_equal(t.v[i].end, want[i][1]);
    }
    free(t.v);
}

/* Parts that were asked for, and what each token is said to have. */
struct parts {
    const uint8_t *mark;
    size_t begin[128], end[128], n;
};

static steno_status answer_part(void *arg, size_t begin, size_t end, uint8_t *mark, steno_err *err)
{
    struct parts *p = arg;
    (void)err;
    assert_true(p->n < 128);
    p->begin[p->n] = begin;
    p->end[p->n++] = end;
    memcpy(mark, p->mark + begin, end - begin);
    return STENO_OK;
}

static void choose(struct parts *p, const uint8_t *said, size_t n, uint8_t *mark)
{
    struct steno_ct_vocab v;
    assert_int_equal(steno_ct_vocab_read(&v, "<unk>", MARKS, "<unk>", "m", NULL), STENO_OK);
    *p = (struct parts){.mark = said};
    assert_int_equal(steno_ct_choose(&v, n, answer_part, p, mark, NULL), STENO_OK);
    steno_ct_vocab_free(&v);
}

static void check_parts(const struct parts *p, const size_t (*want)[2], size_t n)
{
    assert_int_equal(p->n, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(p->begin[i], want[i][0]);
        assert_int_equal(p->end[i], want[i][1]);
    }
}

/* A part goes on behind its last full stop or question mark, but not behind one that ends it. */
static void parts_begin_behind_sentences(void **state)
{
    static const size_t want[][2] = {{0, 20}, {8, 40}, {8, 45}, {44, 45}};
    uint8_t said[45], mark[45];
    struct parts p;
    (void)state;
    memset(said, NONE, sizeof said);
    said[0] = said[7] = STOP; /* the first token ends no part */
    said[19] = COMMA;
    said[43] = QUESTION;
    choose(&p, said, 45, mark);
    check_parts(&p, want, 4);
    said[44] = STOP; /* the text ends with one */
    assert_memory_equal(mark, said, sizeof mark);
}

static void a_text_ends_with_a_full_stop_or_question_mark(void **state)
{
    static const uint8_t last[][2] = {{NONE, STOP}, {COMMA, STOP}, {PAUSE, STOP},
                                      {UNK, STOP},  {STOP, STOP},  {QUESTION, QUESTION}};
    struct parts p;
    (void)state;
    for (size_t i = 0; i < sizeof last / sizeof *last; i++) {
        uint8_t mark;
        choose(&p, last[i], 1, &mark);
        assert_int_equal(mark, last[i][1]);
    }
    choose(&p, NULL, 0, NULL);
    assert_int_equal(p.n, 0);
}

/* After 200 tokens a comma ends a part; without any, a part has a longest length. */
static void long_parts_end(void **state)
{
    enum { N = 2500 };
    static uint8_t said[N], mark[N];
    struct parts p;
    (void)state;
    memset(said, NONE, sizeof said);
    choose(&p, said, N, mark);
    assert_int_equal(p.begin[p.n - 1], 2000);
    for (size_t i = 0; i < p.n; i++)
        assert_true(p.end[i] - p.begin[i] <= STENO_CT_WINDOW);
    said[50] = said[90] = COMMA;
    choose(&p, said, 400, mark);
    assert_int_equal(p.begin[9], 0);
    assert_int_equal(p.end[9], 200);
    assert_int_equal(p.begin[10], 91);
    assert_int_equal(mark[90], STOP);
    assert_int_equal(mark[50], COMMA);
}

/* ---- recorded -------------------------------------------------------------------------------- */

static const char *folder_of(const char *layout)
{
    static char path[512];
    const char *shared = getenv("STENO_SHARED");
    snprintf(path, sizeof path, "%s/punctuation/%s", shared ? shared : "../shared", layout);
    return path;
}

static json_t *read_recorded(const char *layout)
{
    char path[128];
    size_t n;
    char *text;
    json_t *rows;
    snprintf(path, sizeof path, "punctuation/%s/recorded.json", layout);
    text = steno_test_shared(path, &n);
    if (!text)
        return NULL;
    rows = json_loadb(text, n, 0, NULL);
    free(text);
    assert_int_equal(json_array_size(rows), 20);
    return rows;
}

static const char *text_of(const json_t *rows, size_t i, const char *key)
{
    return json_string_value(json_object_get(json_array_get(rows, i), key));
}

struct pair {
    steno_punctuator *p;
    steno_punctuation_writer *w;
};

static struct pair open_pair(const char *layout)
{
    struct pair x;
    assert_true(steno_punctuator_is_dir(folder_of(layout)));
    assert_int_equal(steno_punctuator_open(&x.p, folder_of(layout), NULL), STENO_OK);
    assert_int_equal(steno_punctuation_writer_open(&x.w, x.p, NULL), STENO_OK);
    return x;
}

static void close_pair(struct pair x)
{
    steno_punctuation_writer_close(x.w);
    steno_punctuator_close(x.p);
}

/* The scores [n, 4] of text 17, whose answer has labels on the wrong words. */
static float *read_scores(const char *member, size_t rows)
{
    size_t n, count;
    struct steno_zip_member *list;
    const struct steno_zip_member *m;
    struct steno_npy a;
    void *npy, *zip = steno_test_shared("punctuation/online-cnn-bilstm/logits.npz", &n);
    float *scores = calloc(rows, 4 * sizeof *scores);
    assert_non_null(zip);
    assert_non_null(scores);
    assert_int_equal(steno_zip_list(zip, n, "z", &list, &count, NULL), STENO_OK);
    m = steno_zip_find(list, count, member);
    assert_non_null(m);
    assert_int_equal(steno_zip_read(zip, n, "z", m, 1 << 24, &npy, NULL), STENO_OK);
    assert_int_equal(steno_npy_parse(npy, m->size, member, 1 << 24, &a, NULL), STENO_OK);
    assert_int_equal(a.dim[0], (int64_t)rows);
    memcpy(scores, a.data, rows * 4 * sizeof *scores);
    steno_aligned_free(a.data);
    free(npy);
    free(list);
    free(zip);
    return scores;
}

static size_t greatest(const float *p)
{
    size_t best = 0;
    for (size_t i = 1; i < 4; i++)
        best = p[i] > p[best] ? i : best;
    return best;
}

/* The network sorted its rows of 85, 84, 87 and 68 words, longest first. */
static void check_long_text(struct pair x, const char *text)
{
    static const size_t words[] = {85, 84, 87, 68}, place[] = {87, 87 + 85, 0, 87 + 85 + 84};
    static const char *const mark[] = {"", ",", ".", "?"};
    float *letters = read_scores("case17.npy", 324), *marks = read_scores("punct17.npy", 324);
    struct steno_punctuation out;
    size_t i = 0;
    assert_int_equal(steno_punctuation_find(x.w, text, &out, NULL), STENO_OK);
    assert_int_equal(out.n, 324);
    for (size_t row = 0; row < 4; row++)
        for (size_t k = 0; k < words[row]; k++, i++) {
            const size_t at = 4 * (place[row] + k), letter = greatest(letters + at);
            assert_string_equal(out.token[i].mark, mark[greatest(marks + at)]);
            assert_int_equal(out.token[i].letters, letter == 1   ? STENO_LETTERS_UPPER
                                                   : letter == 2 ? STENO_LETTERS_FIRST_UPPER
                                                                 : STENO_LETTERS_KEEP);
        }
    free(letters);
    free(marks);
}

static void recorded_english_is_met(void **state)
{
    json_t *rows = read_recorded("online-cnn-bilstm");
    struct pair x;
    const char *out;
    (void)state;
    if (!rows)
        skip();
    x = open_pair("online-cnn-bilstm");
    for (size_t i = 0; i < 20; i++) {
        if (i == 17)
            continue;
        assert_int_equal(steno_punctuation_write(x.w, text_of(rows, i, "in"), &out, NULL),
                         STENO_OK);
        assert_string_equal(out, text_of(rows, i, "out"));
    }
    check_long_text(x, text_of(rows, 17, "in"));
    /* capitals are read and written as small letters */
    assert_int_equal(steno_punctuation_write(x.w, "HELLO HOW ARE YOU TODAY", &out, NULL), STENO_OK);
    assert_string_equal(out, text_of(rows, 0, "out"));
    assert_int_equal(steno_punctuation_write(x.w, " ", &out, NULL), STENO_OK);
    assert_string_equal(out, "");
    close_pair(x);
    json_decref(rows);
}

/* sherpa-onnx writes "<unk>" where the network says that it does not know, and loses the last
 * character of text 15. */
static void take_unknown_marks_out(char *out, const char *text)
{
    while (*text) {
        if (!strncmp(text, "<unk> ", 6))
            text += 6;
        else if (!strncmp(text, "<unk>", 5))
            text += 5;
        else
            *out++ = *text++;
    }
    *out = '\0';
}

static void recorded_chinese_is_met(void **state)
{
    json_t *rows = read_recorded("ct-transformer");
    struct pair x;
    (void)state;
    if (!rows)
        skip();
    x = open_pair("ct-transformer");
    for (size_t i = 0; i < 20; i++) {
        char want[8192];
        const char *out;
        take_unknown_marks_out(want, text_of(rows, i, "out"));
        if (i == 15)
            strcat(want, "\xE5\x85\xB4\xE3\x80\x82"); /* 兴。 */
        assert_int_equal(steno_punctuation_write(x.w, text_of(rows, i, "in"), &out, NULL),
                         STENO_OK);
        assert_string_equal(out, want);
    }
    close_pair(x);
    json_decref(rows);
}

/* ---- folders --------------------------------------------------------------------------------- */

static void folders_without_a_network_are_told(void **state)
{
    char dir[] = "/tmp/steno-punctuation-XXXXXX", path[64];
    steno_punctuator *p = NULL;
    steno_err err = {0};
    FILE *f;
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/model.onnx", dir);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite("\x08\x07", 1, 2, f), 2);
    assert_int_equal(fclose(f), 0);
    assert_false(steno_punctuator_is_dir(dir));
    assert_int_equal(steno_punctuator_open(&p, dir, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "has no network of the layouts of sherpa-onnx"));
    remove(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_pieces_between_marks),
        cmocka_unit_test(words_that_do_not_fit_begin_a_row),
        cmocka_unit_test(lists_of_the_metadata_are_read),
        cmocka_unit_test(texts_are_cut_into_words_and_characters),
        cmocka_unit_test(parts_begin_behind_sentences),
        cmocka_unit_test(a_text_ends_with_a_full_stop_or_question_mark),
        cmocka_unit_test(long_parts_end),
        cmocka_unit_test(recorded_english_is_met),
        cmocka_unit_test(recorded_chinese_is_met),
        cmocka_unit_test(folders_without_a_network_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
