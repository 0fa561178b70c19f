#include "speech/audio/file.h"

#include "speech/audio/mpeg.h"

#include "tests/support/oggmake.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"
#include "tests/support/wavgen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sndfile.h>

struct clip {
    float *x;
    size_t n;
    struct steno_audio_info info;
};

/* Read in pieces of `piece` samples. Returns the first error; the clip has the samples before it.
 */
static steno_status drain(steno_audio *a, size_t piece, struct clip *c, steno_err *err)
{
    size_t cap = 1 << 16, n;
    steno_status st;
    c->n = 0;
    c->x = malloc(cap * sizeof *c->x);
    assert_non_null(c->x);
    for (;;) {
        if (c->n + piece > cap) {
            cap = 2 * (c->n + piece);
            c->x = realloc(c->x, cap * sizeof *c->x);
            assert_non_null(c->x);
        }
        st = steno_audio_read(a, c->x + c->n, piece, &n, err);
        if (st || !n)
            break;
        c->n += n;
    }
    steno_audio_get_info(a, &c->info);
    steno_audio_close(a);
    return st;
}

static steno_status decode(const void *data, size_t n, const struct steno_audio_options *opt,
                           size_t piece, struct clip *c, steno_err *err)
{
    steno_audio *a;
    steno_status st = steno_audio_open_mem(&a, data, n, opt, err);
    memset(c, 0, sizeof *c);
    return st ? st : drain(a, piece, c, err);
}

static struct clip decode_shared(const char *rel, unsigned channel)
{
    struct steno_audio_options opt = {.channel = channel};
    struct clip c = {0};
    steno_err err = {0};
    size_t n;
    void *data = steno_test_shared(rel, &n);
    if (data && decode(data, n, &opt, 5000, &c, &err))
        fail_msg("%s: %s", rel, err.msg);
    free(data);
    return c;
}

static double rms_of_difference(const struct clip *a, const struct clip *b)
{
    double sum = 0;
    size_t n = a->n < b->n ? a->n : b->n;
    for (size_t i = 0; i < n; i++)
        sum += (double)(a->x[i] - b->x[i]) * (double)(a->x[i] - b->x[i]);
    return sqrt(sum / (double)n);
}

/* Recordings of the same speech in every container and width differ by quantisation alone. The
 * files were made with noise-shaped dither, whose rms error is about two steps of 2^(1-bits).
 * Three steps are allowed. */
static void all_formats_give_the_same_audio_up_to_quantisation(void **state)
{
    static const struct {
        const char *rest;
        int bits;
    } rows[] = {
        {"-16-bit-44100Hz.wav", 16}, {"-16-bit-44100Hz.flac", 16}, {"-16-bit-44100Hz.aiff", 16},
        {"-24-bit-44100Hz.wav", 24}, {"-24-bit-44100Hz.flac", 24}, {"-32-bit-44100Hz.wav", 32},
        {"-8-bit-44100Hz.wav", 8},
    };
    struct clip ref = decode_shared("audio/formats/audio-mono-32-bit-44100Hz.wav", 0);
    (void)state;
    if (!ref.x)
        skip();
    assert_true(ref.n > 44100);
    for (int stereo = 0; stereo < 2; stereo++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            char rel[128];
            struct clip c;
            double step = ldexp(1, 1 - rows[i].bits), rms;
            snprintf(rel, sizeof rel, "audio/formats/audio-%s%s", stereo ? "stereo" : "mono",
                     rows[i].rest);
            c = decode_shared(rel, 0);
            assert_non_null(c.x);
            assert_int_equal(c.info.sample_rate, 44100);
            assert_int_equal(c.info.channels, stereo + 1);
            assert_int_equal(c.n, ref.n);
            assert_int_equal(c.info.frames, c.n);
            assert_false(c.info.truncated);
            rms = rms_of_difference(&c, &ref);
            if (rms > 3 * step)
                fail_msg("%s: rms difference %g, step %g", rel, rms, step);
            free(c.x);
        }
    }
    free(ref.x);
}

static void mp3_and_ogg_opus_files_are_read_to_their_end(void **state)
{
    struct clip mp3 = decode_shared("audio/formats/silero-test.mp3", 0);
    struct clip opus = decode_shared("audio/formats/silero-test.opus", 0);
    (void)state;
    if (!opus.x || !mp3.x)
        skip();
    assert_string_equal(opus.info.format, "ogg");
    assert_string_equal(opus.info.codec, "opus");
    assert_int_equal(opus.info.sample_rate, 16000);
    assert_int_equal(opus.n, 129024);
    /* 290 KB of cover picture, then 98 frames of 1152 samples, less the encoder's delay and
     * padding */
    assert_string_equal(mp3.info.format, "mp3");
    assert_int_equal(mp3.info.channels, 2);
    assert_true(mp3.n > 97 * 1152 - 1152 && mp3.n <= 98 * 1152);
    assert_false(mp3.info.truncated);
    free(opus.x);
    free(mp3.x);
}

static struct wavgen ramp(unsigned channels, unsigned rate, size_t frames)
{
    struct wavgen_fmt f = wavgen_fmt(1, channels, rate, 16);
    size_t n = frames * channels;
    unsigned char *p = malloc(2 * n + 1);
    struct wavgen w;
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        wavgen_put16(p + 2 * i, (unsigned)(((int)(i % channels) + 1) * 1000));
    wavgen_make(&w, &f, p, 2 * n);
    free(p);
    return w;
}

static void channel_is_the_mean_or_the_one_asked_for(void **state)
{
    struct wavgen w = ramp(3, 16000, 1000);
    struct steno_audio_options opt = {0};
    struct clip c;
    steno_err err = {0};
    (void)state;
    for (unsigned channel = 0; channel <= 3; channel++) {
        opt.channel = channel;
        assert_int_equal(decode(w.data, w.len, &opt, 77, &c, &err), STENO_OK);
        assert_int_equal(c.n, 1000);
        for (size_t i = 0; i < c.n; i++)
            assert_true(fabsf(c.x[i] - (channel ? (float)channel * 1000 : 2000) / 32768) < 1e-7f);
        free(c.x);
    }
    opt.channel = 4;
    assert_int_equal(decode(w.data, w.len, &opt, 77, &c, &err), STENO_ERR_INVAL);
    assert_string_equal(err.msg, "channel 4 was requested, the audio has 3");
    free(w.data);
}

static void files_without_audio_are_refused_by_their_first_bytes(void **state)
{
    static const struct {
        const char *data;
        size_t n;
        steno_status st;
        const char *says;
    } rows[] = {
        {"", 0, STENO_ERR_FORMAT, "the input is empty"},
        {"Hello world, this is text\n", 26, STENO_ERR_FORMAT,
         "not a recognised audio format (starts with \"Hello wor\")"},
        {"\0\1\2\"\\\n", 6, STENO_ERR_FORMAT, "(starts with \"\\x00\\x01\\x02\\x22\\x5c\\x0a\")"},
        {"R", 1, STENO_ERR_FORMAT, "(starts with \"R\")"},
        {"RIFF\4\0\0\0AVI LIST", 16, STENO_ERR_FORMAT, "AVI"},
        {"RIFF", 4, STENO_ERR_FORMAT, "cut off after 4 bytes"},
        {"\x1A\x45\xDF\xA3webm", 8, STENO_ERR_FORMAT, "WebM"},
        {"\0\0\0\x20"
         "ftypM4A ",
         12, STENO_ERR_FORMAT, "MP4"},
        {"fLaC\0\0\0\x22", 8, STENO_ERR_FORMAT, "cannot be opened"},
        {"OggS nothing", 12, STENO_ERR_FORMAT, "no whole page"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct clip c;
        steno_err err = {0};
        assert_int_equal(decode(rows[i].data, rows[i].n, NULL, 10, &c, &err), rows[i].st);
        if (!strstr(err.msg, rows[i].says))
            fail_msg("'%s' does not say '%s'", err.msg, rows[i].says);
    }
}

static void truncated_wav_gives_its_samples_and_is_flagged(void **state)
{
    struct wavgen w = ramp(1, 16000, 5000);
    struct clip c;
    steno_err err = {0};
    (void)state;
    assert_int_equal(decode(w.data, 44 + 2 * 3000 + 1, NULL, 999, &c, &err), STENO_OK);
    assert_int_equal(c.n, 3000);
    assert_int_equal(c.info.frames, 3000);
    assert_true(c.info.truncated);
    free(c.x);
    wavgen_put32(w.data + 40, 0x40000000); /* the header claims a gigabyte of data */
    assert_int_equal(decode(w.data, w.len, NULL, 999, &c, &err), STENO_OK);
    assert_int_equal(c.n, 5000);
    assert_true(c.info.truncated);
    free(c.x);
    free(w.data);
}

static void samples_without_a_header_are_read_as_they_are_said_to_be(void **state)
{
    struct wavgen w = ramp(2, 16000, 5000);
    struct steno_audio_options opt = {.channel = 2, .raw = {STENO_PCM_S16LE, 16000, 2}};
    struct clip c, file;
    steno_err err = {0};
    (void)state;
    assert_int_equal(
        decode(w.data, w.len, &(struct steno_audio_options){.channel = 2}, 999, &file, &err),
        STENO_OK);
    assert_int_equal(decode(w.data + 44, w.len - 44, &opt, 999, &c, &err), STENO_OK);
    assert_int_equal(c.n, 5000);
    assert_int_equal(c.info.frames, 5000);
    assert_int_equal(c.info.channels, 2);
    assert_string_equal(c.info.format, "raw");
    assert_string_equal(c.info.codec, "s16le");
    assert_false(c.info.truncated);
    assert_memory_equal(c.x, file.x, 5000 * sizeof *c.x);
    free(c.x);
    assert_int_equal(decode(w.data + 44, 4 * 100 + 3, &opt, 7, &c, &err), STENO_OK);
    assert_int_equal(c.n, 100);
    assert_true(c.info.truncated);
    free(c.x);
    opt.raw.sample_rate = 8000; /* a header counts all the same */
    assert_int_equal(decode(w.data, w.len, &opt, 999, &c, &err), STENO_OK);
    assert_int_equal(c.info.sample_rate, 16000);
    assert_memory_equal(c.x, file.x, 5000 * sizeof *c.x);
    free(c.x);
    opt.max_seconds = 0.1;
    assert_int_equal(decode(w.data + 44, w.len - 44, &opt, 999, &c, &err), STENO_ERR_LIMIT);
    assert_int_equal(decode(w.data, 0, &opt, 999, &c, &err), STENO_ERR_FORMAT);
    free(file.x);
    free(w.data);
}

static void longer_than_the_limit_is_refused_early_or_in_the_middle(void **state)
{
    struct wavgen w = ramp(1, 8000, 8000 * 3);
    struct steno_audio_options opt = {.max_seconds = 2};
    struct clip c;
    steno_err err = {0};
    int fd[2];
    steno_audio *a;
    (void)state;
    assert_int_equal(decode(w.data, w.len, &opt, 1000, &c, &err), STENO_ERR_LIMIT);
    assert_string_equal(err.msg, "the audio is 3.0 s long, the limit is 2.0 s");
    opt.max_seconds = 3;
    assert_int_equal(decode(w.data, w.len, &opt, 1000, &c, &err), STENO_OK);
    assert_int_equal(c.n, 24000);
    free(c.x);
    /* from a pipe the length is not known in advance */
    opt.max_seconds = 1;
    wavgen_put32(w.data + 40, 0xFFFFFFFF);
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(write(fd[1], w.data, w.len), w.len);
    close(fd[1]);
    assert_int_equal(steno_audio_open_fd(&a, fd[0], &opt, &err), STENO_OK);
    assert_int_equal(drain(a, 333, &c, &err), STENO_ERR_LIMIT);
    assert_int_equal(c.n, 8000);
    close(fd[0]);
    free(c.x);
    free(w.data);
}

static void header_that_promises_hours_does_not_trip_the_limit(void **state)
{
    struct wavgen w = ramp(1, 8000, 8000);
    struct steno_audio_options opt = {.max_seconds = 2};
    struct clip c;
    steno_err err = {0};
    (void)state;
    wavgen_put32(w.data + 40, 0x70000000);
    assert_int_equal(decode(w.data, w.len, &opt, 1000, &c, &err), STENO_OK);
    assert_int_equal(c.n, 8000);
    free(c.x);
    free(w.data);
}

/* The samples as a temporary file in one of libsndfile's formats. */
static FILE *encode(int format, const float *x, size_t n)
{
    SF_INFO info = {.samplerate = 16000, .channels = 1, .format = format};
    FILE *f = tmpfile();
    SNDFILE *s;
    assert_non_null(f);
    s = sf_open_fd(fileno(f), SFM_WRITE, &info, 0);
    if (!s) {
        fclose(f);
        return NULL;
    }
    assert_int_equal(sf_writef_float(s, x, (sf_count_t)n), n);
    sf_close(s);
    rewind(f);
    return f;
}

static void files_pipes_and_memory_read_alike(void **state)
{
    static const int formats[] = {
        SF_FORMAT_WAV | SF_FORMAT_PCM_16,          SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
        SF_FORMAT_OGG | SF_FORMAT_VORBIS,          SF_FORMAT_OGG | SF_FORMAT_OPUS,
        SF_FORMAT_AIFF | SF_FORMAT_PCM_16,         SF_FORMAT_AU | SF_FORMAT_ULAW,
        SF_FORMAT_CAF | SF_FORMAT_PCM_24,          SF_FORMAT_W64 | SF_FORMAT_PCM_16,
        SF_FORMAT_RF64 | SF_FORMAT_PCM_24,         SF_FORMAT_WAVEX | SF_FORMAT_FLOAT,
        SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III,
    };
    static float x[16000];
    (void)state;
    for (size_t i = 0; i < 16000; i++)
        x[i] = (float)(0.3 * sin(0.05 * (double)i) * sin(0.0011 * (double)i));
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        FILE *f = encode(formats[i], x, 16000);
        struct clip file, mem, piped;
        steno_audio *a = NULL;
        steno_err err = {0};
        char *data, command[64];
        long size;
        FILE *p;
        if (!f)
            continue; /* this libsndfile cannot write it */
        fseek(f, 0, SEEK_END);
        size = ftell(f);
        rewind(f);
        data = malloc((size_t)size);
        assert_non_null(data);
        assert_int_equal(fread(data, 1, (size_t)size, f), size);
        rewind(f);
        if (lseek(fileno(f), 0, SEEK_SET) || steno_audio_open_fd(&a, fileno(f), NULL, &err))
            fail_msg("format %x: %s", (unsigned)formats[i], err.msg);
        assert_int_equal(drain(a, 1000, &file, &err), STENO_OK);
        assert_int_equal(decode(data, (size_t)size, NULL, 77, &mem, &err), STENO_OK);
        lseek(fileno(f), 0, SEEK_SET);
        snprintf(command, sizeof command, "cat <&%d", fileno(f));
        p = popen(command, "r");
        assert_non_null(p);
        assert_int_equal(steno_audio_open_fd(&a, fileno(p), NULL, &err), STENO_OK);
        assert_int_equal(drain(a, 4096, &piped, &err), STENO_OK);
        pclose(p);
        assert_true(mem.n >= 15900 && mem.n < 18500);
        assert_int_equal(file.n, mem.n);
        assert_int_equal(piped.n, mem.n);
        assert_memory_equal(file.x, mem.x, mem.n * sizeof *mem.x);
        assert_memory_equal(piped.x, mem.x, mem.n * sizeof *mem.x);
        assert_false(mem.info.truncated);
        free(file.x);
        free(mem.x);
        free(piped.x);
        free(data);
        fclose(f);
    }
}

static double correlation(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb + 1e-30);
}

/* Encoders may pad the start (MP3), so the best lag of up to 0.2 s counts. Where a format
 * records its padding, the lag must be zero. */
static void lossy_encodings_carry_the_same_sound(void **state)
{
    static const struct {
        int format;
        size_t max_lag;
    } rows[] = {
        {SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM, 0}, /* read by libsndfile, not by our WAV reader */
        {SF_FORMAT_WAV | SF_FORMAT_MS_ADPCM, 0},
        {SF_FORMAT_WAV | SF_FORMAT_GSM610, 0},
        {SF_FORMAT_WAV | SF_FORMAT_PCM_16 | SF_ENDIAN_BIG, 0}, /* RIFX */
        {SF_FORMAT_OGG | SF_FORMAT_VORBIS, 0},
        {SF_FORMAT_OGG | SF_FORMAT_OPUS, 0},
        {SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, 3200}};
    static float x[32000];
    (void)state;
    srand(7);
    for (size_t i = 0; i < 32000; i++) /* vowel-like: harmonics of a gliding pitch */
        for (int h = 1; h < 12; h++)
            x[i] += (float)(0.2 / h * sin(h * (0.05 + 1e-7 * (double)i) * (double)i));
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        FILE *f = encode(rows[r].format, x, 32000);
        steno_audio *a;
        struct clip c;
        double best = -1;
        if (!f)
            continue; /* this libsndfile cannot write it */
        lseek(fileno(f), 0, SEEK_SET);
        assert_int_equal(steno_audio_open_fd(&a, fileno(f), NULL, NULL), STENO_OK);
        assert_int_equal(drain(a, 5000, &c, NULL), STENO_OK);
        assert_true(c.n >= 32000);
        assert_false(c.info.truncated);
        for (size_t lag = 0; lag <= rows[r].max_lag; lag++) {
            double now = correlation(x + 8000, c.x + 8000 + lag, 8000);
            best = now > best ? now : best;
        }
        if (best < 0.95)
            fail_msg("%s: correlation %g", c.info.codec, best);
        free(c.x);
        fclose(f);
    }
}

/* The encoder still writes while the first samples are read: the reader does not wait for the
 * end. */
static void ogg_opus_from_a_pipe_is_decoded_as_it_comes(void **state)
{
    static float x[48000];
    struct oggmake m;
    struct clip c;
    steno_audio *a;
    steno_err err = {0};
    float first[2000];
    size_t n, half;
    int fd[2];
    (void)state;
    oggmake_init(&m, 2);
    oggmake_audio(&m, x, 24000);
    half = m.page[m.n_pages - 2];
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(write(fd[1], m.data, half), half);
    assert_int_equal(steno_audio_open_fd(&a, fd[0], NULL, &err), STENO_OK);
    assert_int_equal(steno_audio_read(a, first, 2000, &n, &err), STENO_OK);
    assert_true(n > 0);
    assert_int_equal(write(fd[1], m.data + half, m.len - half), m.len - half);
    close(fd[1]);
    assert_int_equal(drain(a, 1000, &c, &err), STENO_OK);
    assert_int_equal(c.info.sample_rate, 48000);
    assert_int_equal(c.info.channels, 2);
    assert_string_equal(c.info.codec, "opus");
    assert_int_equal(n + c.n, 24000);
    assert_false(c.info.truncated);
    free(c.x);
    close(fd[0]);
    oggmake_free(&m);
}

static void pipe_longer_than_allowed_in_memory_is_refused(void **state)
{
    static float x[16000];
    struct steno_audio_options opt = {.max_bytes = 1000};
    FILE *f = encode(SF_FORMAT_AIFF | SF_FORMAT_PCM_16, x, 16000), *p;
    char command[64];
    steno_audio *a = NULL;
    steno_err err = {0};
    (void)state;
    assert_non_null(f);
    lseek(fileno(f), 0, SEEK_SET);
    snprintf(command, sizeof command, "cat <&%d 2>/dev/null", fileno(f));
    p = popen(command, "r");
    assert_int_equal(steno_audio_open_fd(&a, fileno(p), &opt, &err), STENO_ERR_LIMIT);
    assert_non_null(strstr(err.msg, "1000 bytes"));
    assert_null(a);
    pclose(p);
    fclose(f);
}

static void cut_flac_delivers_its_beginning(void **state)
{
    static float x[160000];
    FILE *f;
    char *data;
    long size;
    struct clip c;
    steno_err err = {0};
    (void)state;
    srand(6);
    for (size_t i = 0; i < 160000; i++)
        x[i] = (float)rand() / (float)RAND_MAX * 0.1f;
    f = encode(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, x, 160000);
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    size = ftell(f);
    rewind(f);
    data = malloc((size_t)size);
    assert_int_equal(fread(data, 1, (size_t)size, f), size);
    for (int tenth = 1; tenth < 10; tenth++) {
        steno_status st = decode(data, (size_t)size * (size_t)tenth / 10, NULL, 5000, &c, &err);
        assert_true(st == STENO_OK || st == STENO_ERR_FORMAT);
        assert_true(c.n > 16000u * (unsigned)(tenth - 1) && c.n < 16000u * (unsigned)(tenth + 1));
        assert_true(st || c.info.truncated);
        free(c.x);
    }
    free(data);
    fclose(f);
}

/* libsndfile 1.2.0 leaks memory when it fails on such a header. AddressSanitizer sees the leak
 * in this test. */
static void damaged_vorbis_headers_are_named_before_libsndfile_sees_them(void **state)
{
    static float x[800];
    FILE *f = encode(SF_FORMAT_OGG | SF_FORMAT_VORBIS, x, 800);
    unsigned char data[16384];
    size_t n;
    struct clip c;
    steno_err err = {0};
    (void)state;
    assert_non_null(f);
    n = fread(data, 1, sizeof data, f);
    fclose(f);
    assert_true(n > 2000 && n < sizeof data);
    assert_int_equal(decode(data, n, NULL, 100, &c, &err), STENO_OK);
    assert_int_equal(c.n, 800);
    free(c.x);
    assert_int_equal(decode(data, 20, NULL, 100, &c, &err), STENO_ERR_FORMAT);
    assert_string_equal(err.msg, "Ogg: there is no whole page");
    assert_int_equal(decode(data, 60, NULL, 100, &c, &err), STENO_ERR_FORMAT);
    assert_string_equal(err.msg, "Ogg Vorbis: the comment header is cut off");
    assert_int_equal(decode(data, 1000, NULL, 100, &c, &err), STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "header is cut off"));
    data[300] ^= 1; /* in the checksum of the second page */
    assert_int_equal(decode(data, n, NULL, 100, &c, &err), STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "Ogg Vorbis: the comment header is"));
}

static void wrong_rates_inside_other_containers_are_refused(void **state)
{
    unsigned char au[24 + 64] = ".snd"; /* Sun/NeXT header, big-endian */
    static const struct {
        unsigned rate, channels;
        const char *says;
    } rows[] = {{1, 1, "1 Hz"}, {10000000, 1, "10000000 Hz"}, {16000, 100, "100 channels"}};
    (void)state;
    au[7] = 24;
    au[11] = 64;
    au[15] = 3;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct clip c;
        steno_err err = {0};
        for (int b = 0; b < 4; b++) {
            au[16 + b] = (unsigned char)(rows[i].rate >> (24 - 8 * b));
            au[20 + b] = (unsigned char)(rows[i].channels >> (24 - 8 * b));
        }
        assert_int_equal(decode(au, sizeof au, NULL, 10, &c, &err), STENO_ERR_UNSUPPORTED);
        if (!strstr(err.msg, rows[i].says))
            fail_msg("'%s' does not say '%s'", err.msg, rows[i].says);
    }
}

static void nan_samples_become_silence(void **state)
{
    struct wavgen_fmt f = wavgen_fmt(3, 1, 16000, 32);
    float in[400];
    struct wavgen w;
    struct clip c;
    steno_err err = {0};
    (void)state;
    for (size_t i = 0; i < 400; i++)
        in[i] = i % 4 ? NAN : 0.5f;
    wavgen_make(&w, &f, in, sizeof in);
    assert_int_equal(decode(w.data, w.len, NULL, 100, &c, &err), STENO_OK);
    assert_int_equal(c.n, 400);
    for (size_t i = 0; i < 400; i++)
        assert_true(c.x[i] == (i % 4 ? 0 : 0.5f));
    free(c.x);
    free(w.data);
}

/* A file's bytes: x [n] in one of libsndfile's formats at a rate. NULL: it cannot write it. */
static char *encoded(int format, int rate, const float *x, size_t n, size_t *size)
{
    SF_INFO info = {.samplerate = rate, .channels = 1, .format = format};
    FILE *f = tmpfile();
    SNDFILE *s;
    char *data;
    assert_non_null(f);
    s = sf_open_fd(fileno(f), SFM_WRITE, &info, 0);
    if (!s) {
        fclose(f);
        return NULL;
    }
    assert_int_equal(sf_writef_float(s, x, (sf_count_t)n), n);
    sf_close(s);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    data = malloc(*size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *size, f), *size);
    fclose(f);
    return data;
}

/* The same bytes through memory (an upload), a file and a pipe: all three must agree. */
static steno_status decode_all_ways(const char *name, const void *data, size_t n, struct clip *c)
{
    FILE *f = tmpfile(), *p;
    char command[64];
    struct clip way[2];
    steno_err err[3] = {{0}, {0}, {0}};
    steno_status st = decode(data, n, NULL, 5000, c, &err[0]);
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fflush(f);
    for (int i = 0; i < 2; i++) {
        steno_audio *a = NULL;
        steno_status got;
        lseek(fileno(f), 0, SEEK_SET);
        snprintf(command, sizeof command, "cat <&%d", fileno(f));
        p = i ? popen(command, "r") : f;
        got = steno_audio_open_fd(&a, fileno(p), NULL, &err[i + 1]);
        way[i].x = NULL;
        way[i].n = 0;
        if (!got)
            got = drain(a, 777, &way[i], &err[i + 1]);
        if (i)
            pclose(p);
        if (got != st || strcmp(err[0].msg, err[i + 1].msg))
            fail_msg("%s: %s: '%s', from memory '%s'", name, i ? "pipe" : "file", err[i + 1].msg,
                     err[0].msg);
        if (way[i].n != c->n || (c->n && memcmp(way[i].x, c->x, c->n * sizeof *c->x)) ||
            (!st && way[i].info.truncated != c->info.truncated))
            fail_msg("%s: %zu samples from a %s, %zu from memory", name, way[i].n,
                     i ? "pipe" : "file", c->n);
        free(way[i].x);
    }
    fclose(f);
    return st;
}

static void every_format_is_equal_from_file_pipe_and_upload(void **state)
{
    static const char *const names[] = {"audio-mono-16-bit-44100Hz.aiff",
                                        "audio-mono-16-bit-44100Hz.flac",
                                        "audio-mono-16-bit-44100Hz.wav",
                                        "audio-mono-24-bit-44100Hz.flac",
                                        "audio-mono-24-bit-44100Hz.wav",
                                        "audio-mono-32-bit-44100Hz.wav",
                                        "audio-mono-8-bit-44100Hz.wav",
                                        "audio-stereo-16-bit-44100Hz.aiff",
                                        "audio-stereo-16-bit-44100Hz.flac",
                                        "audio-stereo-16-bit-44100Hz.wav",
                                        "silero-test.mp3",
                                        "silero-test.opus",
                                        "silero-test.wav"};
    int done = 0;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char rel[96];
        size_t n;
        void *data;
        struct clip c;
        snprintf(rel, sizeof rel, "audio/formats/%s", names[i]);
        data = steno_test_shared(rel, &n);
        if (!data) {
            print_message("# skipped: shared/%s is not there\n", rel);
            continue;
        }
        assert_int_equal(decode_all_ways(rel, data, n, &c), STENO_OK);
        assert_true(c.n > 0);
        free(c.x);
        free(data);
        done++;
    }
    if (!done)
        skip();
}

static float two_tones[16000];

static void make_tones(void)
{
    for (size_t i = 0; i < 16000; i++)
        two_tones[i] = (float)(0.3 * sin(0.05 * (double)i) * sin(0.0011 * (double)i));
}

/* Ogg files joined with cat: every link is heard, at its own time. */
static void all_links_of_a_chain_are_read(void **state)
{
    static const struct {
        int format, rate[2];
        size_t n; /* samples at the rate of the first link */
    } rows[] = {{SF_FORMAT_OGG | SF_FORMAT_VORBIS, {16000, 16000}, 32000},
                {SF_FORMAT_OGG | SF_FORMAT_VORBIS, {16000, 8000}, 48000},
                {SF_FORMAT_OGG | SF_FORMAT_OPUS, {16000, 16000}, 32000},
                {SF_FORMAT_OGG | SF_FORMAT_OPUS, {16000, 8000}, 48000}};
    (void)state;
    make_tones();
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        size_t n[2];
        struct clip c;
        char *a = encoded(rows[r].format, rows[r].rate[0], two_tones, 16000, &n[0]);
        char *b = encoded(rows[r].format, rows[r].rate[1], two_tones, 16000, &n[1]);
        char *joined = a && b ? malloc(n[0] + n[1]) : NULL;
        if (joined) {
            memcpy(joined, a, n[0]);
            memcpy(joined + n[0], b, n[1]);
            assert_int_equal(decode_all_ways("chain", joined, n[0] + n[1], &c), STENO_OK);
            if (c.n + 200 < rows[r].n || c.n > rows[r].n + 200)
                fail_msg("%s: %zu samples, expected %zu", c.info.codec, c.n, rows[r].n);
            assert_false(c.info.truncated);
            free(c.x);
        }
        free(joined);
        free(a);
        free(b);
    }
}

/* Without Xing header nothing states the length: nothing is missing, and no limit is passed.
 * Foreign bytes, and a tag with a picture, before the first frame change no sample. */
static void mp3_without_a_stated_length_is_judged_by_its_audio(void **state)
{
    struct steno_audio_options opt = {.max_seconds = 1.5};
    size_t n, first, lead[] = {0, 7, 5000, 60000};
    struct clip plain, c;
    steno_err err = {0};
    char *data, *bare, *long_one;
    (void)state;
    make_tones();
    data = encoded(SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, 16000, two_tones, 16000, &n);
    if (!data)
        skip(); /* this libsndfile cannot write it */
    first = steno_mpeg_frame_bytes((unsigned char *)data, NULL);
    assert_true(first > 0 && first < n);
    bare = data + first;
    assert_int_equal(decode_all_ways("no Xing", bare, n - first, &plain), STENO_OK);
    assert_true(plain.n >= 16000 && plain.n < 18500);
    assert_false(plain.info.truncated);
    assert_int_equal(plain.info.frames, -1);
    for (size_t i = 0; i < 4; i++)
        for (int tag = 0; tag < 2; tag++) {
            size_t at = lead[i] + (tag ? 300010 : 0);
            long_one = calloc(1, at + n);
            assert_non_null(long_one);
            if (tag)
                memcpy(long_one, "ID3\3\0\0\0\x12\x27\x60", 10); /* 300,000 bytes */
            memcpy(long_one + at, bare, n - first);
            assert_int_equal(decode(long_one, at + n - first, &opt, 5000, &c, &err), STENO_OK);
            assert_int_equal(c.n, plain.n);
            assert_memory_equal(c.x, plain.x, c.n * sizeof *c.x);
            assert_int_equal(c.info.junk, lead[i]);
            free(c.x);
            free(long_one);
        }
    /* cut, but its header states 1 s: the limit counts what is there, and the cut is told */
    opt.max_seconds = 0.7;
    assert_int_equal(decode(data, n / 2, &opt, 5000, &c, &err), STENO_OK);
    assert_true(c.info.truncated);
    free(c.x);
    assert_int_equal(decode(data, n, &opt, 5000, &c, &err), STENO_ERR_LIMIT);
    free(plain.x);
    free(data);
}

static void lost_ogg_page_is_told_and_the_rest_is_read(void **state)
{
    static float x[160000];
    size_t n, page[64], n_pages = 0;
    struct clip c;
    char *data, text[256];
    (void)state;
    for (size_t i = 0; i < 160000; i++)
        x[i] = (float)rand() / (float)RAND_MAX * 0.5f;
    data = encoded(SF_FORMAT_OGG | SF_FORMAT_VORBIS, 16000, x, 160000, &n);
    assert_non_null(data);
    for (size_t i = 0; i + 4 <= n && n_pages < 64; i++)
        if (!memcmp(data + i, "OggS", 4))
            page[n_pages++] = i;
    assert_true(n_pages > 5);
    memmove(data + page[3], data + page[4], n - page[4]);
    assert_int_equal(decode_all_ways("lost page", data, n - (page[4] - page[3]), &c), STENO_OK);
    assert_true(c.n > 40000 && c.n < 160000);
    assert_true(c.info.gaps > 0);
    steno_audio_warning(&c.info, 1, text, sizeof text);
    assert_non_null(strstr(text, "the recording is damaged: 1 gaps"));
    free(c.x);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_formats_give_the_same_audio_up_to_quantisation),
        cmocka_unit_test(mp3_and_ogg_opus_files_are_read_to_their_end),
        cmocka_unit_test(lossy_encodings_carry_the_same_sound),
        cmocka_unit_test(channel_is_the_mean_or_the_one_asked_for),
        cmocka_unit_test(files_without_audio_are_refused_by_their_first_bytes),
        cmocka_unit_test(truncated_wav_gives_its_samples_and_is_flagged),
        cmocka_unit_test(samples_without_a_header_are_read_as_they_are_said_to_be),
        cmocka_unit_test(longer_than_the_limit_is_refused_early_or_in_the_middle),
        cmocka_unit_test(header_that_promises_hours_does_not_trip_the_limit),
        cmocka_unit_test(files_pipes_and_memory_read_alike),
        cmocka_unit_test(ogg_opus_from_a_pipe_is_decoded_as_it_comes),
        cmocka_unit_test(pipe_longer_than_allowed_in_memory_is_refused),
        cmocka_unit_test(cut_flac_delivers_its_beginning),
        cmocka_unit_test(damaged_vorbis_headers_are_named_before_libsndfile_sees_them),
        cmocka_unit_test(wrong_rates_inside_other_containers_are_refused),
        cmocka_unit_test(nan_samples_become_silence),
        cmocka_unit_test(every_format_is_equal_from_file_pipe_and_upload),
        cmocka_unit_test(all_links_of_a_chain_are_read),
        cmocka_unit_test(mp3_without_a_stated_length_is_judged_by_its_audio),
        cmocka_unit_test(lost_ogg_page_is_told_and_the_rest_is_read),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
