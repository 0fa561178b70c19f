/* steno features: the features of a recording, as an array. */
#include "speech/audio/file.h"
#include "speech/audio/resample.h"
#include "formats/npy.h"
#include "tools/cli/options.h"
#include "speech/features/cmvn.h"
#include "speech/features/logmel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define BLOCK 4096

static const char usage[] =
    "Usage: steno features [OPTION]... --output OUT.npy FILE|-\n"
    "Writes the log-mel features of a recording as a NumPy array [frames, bins], float32.\n";

enum type { KALDI, NEMO, ESPNET, WHISPER };

enum norm { NORM_NONE, NORM_PER_FEATURE, NORM_UTTERANCE };

struct job {
    int type, norm, snip; /* enum type, enum norm, index of "true|false" */
    long rate, bins, fft, hop, chunk, channel;
    double low, high, scale;
    const char *file, *output, *window;
    struct steno_fbank_options fb;
};

struct features {
    steno_fbank *fbank;
    steno_resampler *resampler;
    size_t bins, frames, cap;
    float *x; /* [cap, bins] */
};

/* ---- options ---------------------------------------------------------------------------------*/

/* EX_OK; EX_USAGE with the reason printed: an option that the front end has no use for. */
static int check_type(const struct job *j)
{
    int rc = EX_OK;
    if (j->type != ESPNET)
        rc = cli_idle("features", "--n-fft, --hop", "is for --type espnet");
    if (rc == EX_OK && j->type != KALDI && j->type != NEMO)
        rc = cli_idle("features", "--snip-edges", "is for --type kaldi or nemo");
    if (rc == EX_OK && j->type == WHISPER)
        rc = cli_idle("features", "--sample-rate", "is not for --type whisper: 16000 Hz");
    return rc;
}

static int choose_front_end(struct job *j)
{
    const size_t bins = (size_t)j->bins, fft = (size_t)j->fft;
    steno_err err;
    if (j->type == KALDI)
        j->fb = steno_fbank_kaldi((int)j->rate, bins);
    else if (j->type == NEMO)
        j->fb = steno_fbank_nemo((int)j->rate, bins);
    else if (j->type == ESPNET)
        j->fb = steno_logmel_espnet((int)j->rate, fft, fft, (size_t)j->hop, bins, 0, 0);
    else
        j->fb = steno_logmel_whisper(bins);
    j->fb.scale = (float)j->scale;
    j->fb.high = j->high;
    if (cli_given("--low"))
        j->fb.low = j->low;
    if (cli_given("--snip-edges"))
        j->fb.edges = j->snip ? STENO_EDGES_REFLECT : STENO_EDGES_SNIP;
    if (j->window && steno_window_parse(j->window, &j->fb.window, &err))
        return cli_usage("%s", err.msg);
    return EX_OK;
}

/* EX_OK, -1 after --help, EX_USAGE. */
static int parse_features(struct job *j, int argc, char **argv)
{
    const struct cli_option options[] = {
        {"--output", CLI_TEXT, "OUT.npy", &j->output, 0, 0, "file to write"},
        {"--type", CLI_CHOICE, "kaldi|nemo|espnet|whisper", &j->type, 0, 0, "kaldi by default"},
        {"--sample-rate", CLI_NUMBER, "N", &j->rate, STENO_RATE_MIN, STENO_RATE_MAX,
         "resample to N Hz first (default 16000; whisper has no other)"},
        {"--bins", CLI_NUMBER, "N", &j->bins, 1, 512, "mel filters (default 80)"},
        {"--low", CLI_REAL, "HZ", &j->low, 0, 0, "lowest edge of the filters (kaldi 20, others 0)"},
        {"--high", CLI_REAL, "HZ", &j->high, -STENO_RATE_MAX, 0,
         "highest edge; 0 or less counts down from half the sample rate (0)"},
        {"--snip-edges", CLI_CHOICE, "true|false", &j->snip, 0, 0,
         "kaldi, nemo: as in Kaldi (kaldi true, nemo false)"},
        {"--window", CLI_TEXT, "NAME", &j->window, 0, 0,
         "povey, hanning, hann, hamming, blackman, rectangular"},
        {"--scale", CLI_REAL, "X", &j->scale, 0, 0, "scale of the samples: 1 (default) or 32768"},
        {"--n-fft", CLI_NUMBER, "N", &j->fft, 16, 65536, "espnet: window and FFT (default 512)"},
        {"--hop", CLI_NUMBER, "N", &j->hop, 1, 65536,
         "espnet: samples between frames (default 128)"},
        {"--normalize", CLI_CHOICE, "none|per-feature|utterance", &j->norm, 0, 0,
         "none by default; per-feature: as in NeMo; utterance: mean and variance"},
        {"--chunk", CLI_NUMBER, "N", &j->chunk, 1, 1000000000,
         "feed N samples at a time (the result is the same for every N)"},
        {"--channel", CLI_NUMBER, "N", &j->channel, 1, STENO_CHANNELS_MAX,
         "use channel N, counted from 1, instead of the mean of all"},
        {0}};
    int n, rc = cli_parse(argc, argv, usage, options, &j->file, 1, &n);
    if (rc == EX_OK && (!j->file || !j->output))
        rc = cli_usage("features: a recording and --output are needed");
    if (rc == EX_OK)
        rc = check_type(j);
    return rc == EX_OK ? choose_front_end(j) : rc;
}

/* ---- work ------------------------------------------------------------------------------------*/

static steno_status reserve_frames(struct features *f, size_t more, steno_err *err)
{
    size_t cap = f->cap ? f->cap : 1024, bytes;
    float *grown;
    while (cap < f->frames + more)
        cap *= 2;
    if (cap == f->cap)
        return STENO_OK;
    grown = steno_mul_size(cap, f->bins * sizeof *f->x, &bytes) ? realloc(f->x, bytes) : NULL;
    if (!grown)
        return steno_fail(err, STENO_ERR_NOMEM, "features: out of memory");
    f->x = grown;
    f->cap = cap;
    return STENO_OK;
}

static steno_status add_samples(void *ctx, const float *pcm, size_t n, steno_err *err)
{
    struct features *f = ctx;
    size_t used, made;
    steno_status st;
    do {
        st = reserve_frames(f, steno_fbank_max_frames(f->fbank, n), err);
        if (st)
            return st;
        st = steno_fbank_push(f->fbank, pcm, n, &used, f->x + f->frames * f->bins,
                              f->cap - f->frames, &made);
        if (st > STENO_NEED_MORE)
            return st;
        f->frames += made;
        pcm += used;
        n -= used;
    } while (n);
    return STENO_OK;
}

static steno_status finish_features(struct features *f, steno_err *err)
{
    size_t made;
    steno_status st = steno_resampler_pass(f->resampler, NULL, 0, add_samples, f, err);
    while (!st) {
        st = reserve_frames(f, 16, err);
        if (!st)
            st = steno_fbank_flush(f->fbank, f->x + f->frames * f->bins, f->cap - f->frames, &made);
        if (st || !made)
            break;
        f->frames += made;
    }
    return st;
}

static steno_status read_recording(struct features *f, steno_audio *a, const struct job *j,
                                   steno_err *err)
{
    struct steno_audio_info info;
    float pcm[BLOCK];
    size_t n, step = j->chunk < BLOCK ? (size_t)j->chunk : BLOCK;
    steno_status st;
    steno_audio_get_info(a, &info);
    st = steno_resampler_open(&f->resampler, info.sample_rate, j->fb.sample_rate, err);
    while (!st) {
        st = steno_audio_read(a, pcm, step, &n, err);
        if (st || !n)
            break;
        st = steno_resampler_pass(f->resampler, pcm, n, add_samples, f, err);
    }
    return st ? st : finish_features(f, err);
}

static void normalize_columns(struct features *f, const struct job *j)
{
    if (j->type == WHISPER) {
        f->frames -= f->frames > 0; /* as in Whisper, the last frame is dropped */
        steno_logmel_whisper_scale(f->x, f->frames, f->bins);
    }
    if (j->norm != NORM_NONE)
        steno_cmvn_utterance(f->x, f->frames, f->bins,
                             j->norm == NORM_PER_FEATURE ? &STENO_NORM_NEMO : &STENO_NORM_ESPNET);
}

static steno_status save(const struct features *f, const char *path, steno_err *err)
{
    struct steno_npy a = {.kind = 'f', .item = 4, .rank = 2, .data = f->x};
    a.dim[0] = (int64_t)f->frames;
    a.dim[1] = (int64_t)f->bins;
    a.bytes = f->frames * f->bins * sizeof *f->x;
    return steno_npy_write(path, &a, err);
}

/* Errors name the recording. */
static steno_status compute(struct features *f, const struct job *j, steno_err *err)
{
    const struct steno_audio_options opt = {.channel = (unsigned)j->channel};
    const bool pipe = !strcmp(j->file, "-");
    const int fd = pipe ? STDIN_FILENO : open(j->file, O_RDONLY | O_CLOEXEC);
    steno_audio *a = NULL;
    steno_status st = fd < 0 ? steno_fail(err, STENO_ERR_IO, "%s", strerror(errno))
                             : steno_audio_open_fd(&a, fd, &opt, err);
    if (!st)
        st = steno_fbank_open(&f->fbank, &j->fb, err);
    if (!st)
        st = reserve_frames(f, 1, err);
    if (!st)
        st = read_recording(f, a, j, err);
    steno_resampler_close(f->resampler);
    steno_fbank_close(f->fbank);
    steno_audio_close(a);
    if (fd >= 0 && !pipe)
        close(fd);
    return st ? steno_fail_in(err, st, "%.100s", pipe ? "standard input" : j->file) : STENO_OK;
}

int cli_features(int argc, char **argv)
{
    struct job j = {.rate = 16000, .bins = 80, .fft = 512, .hop = 128, .chunk = BLOCK, .scale = 1};
    struct features f = {0};
    steno_err err = {0};
    int rc = parse_features(&j, argc, argv);
    if (rc == EX_OK && strcmp(j.file, "-") != 0)
        rc = cli_readable(j.file);
    if (rc != EX_OK)
        return rc;
    f.bins = j.fb.bins;
    if (compute(&f, &j, &err)) {
        rc = cli_fail(&err);
    } else {
        normalize_columns(&f, &j);
        rc = save(&f, j.output, &err) ? cli_fail(&err) : EX_OK;
    }
    free(f.x);
    return rc;
}
