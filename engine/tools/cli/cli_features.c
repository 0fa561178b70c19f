/* steno features: the features of a recording, as an array. */
#include "speech/audio/file.h"
#include "speech/audio/resample.h"
#include "formats/npy.h"
#include "tools/cli/cli.h"
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

static const char help_text[] =
    "Usage: steno features [OPTION]... --output OUT.npy FILE|-\n"
    "Writes the log-mel features of a recording as a NumPy array [frames, bins], float32.\n\n"
    "  --type TYPE      kaldi (default), nemo, espnet, whisper\n"
    "  --sample-rate N  resample to N Hz first (default 16000)\n"
    "  --bins N         mel filters (default 80)\n"
    "  --low HZ         lowest edge of the filters (kaldi 20, others 0)\n"
    "  --high HZ        highest edge; 0 or less counts down from half the sample rate (0)\n"
    "  --snip-edges B   kaldi, nemo: true or false, as in Kaldi (kaldi true, nemo false)\n"
    "  --window NAME    povey, hanning, hann, hamming, blackman, rectangular\n"
    "  --scale X        scale of the samples: 1 (default) or 32768\n"
    "  --n-fft N        espnet: window and FFT (default 512)\n"
    "  --hop N          espnet: samples between frames (default 128)\n"
    "  --normalize HOW  none (default), per-feature (as in NeMo), utterance (mean and variance)\n"
    "  --chunk N        feed N samples at a time (the result is the same for every N)\n"
    "  --channel N      use channel N, counted from 1, instead of the mean of all\n";

enum type { KALDI, NEMO, ESPNET, WHISPER };

struct job {
    enum type type;
    struct steno_fbank_options fb;
    const char *file, *output, *normalize;
    size_t chunk;
    struct steno_audio_options audio;
};

struct features {
    steno_fbank *fbank;
    steno_resampler *resampler;
    size_t bins, frames, cap;
    float *x; /* [cap, bins] */
};

/* ---- options ---------------------------------------------------------------------------------*/

enum {
    TYPE,
    RATE,
    BINS,
    LOW,
    HIGH,
    SNIP,
    WINDOW,
    SCALE,
    N_FFT,
    HOP,
    NORM,
    CHUNK,
    CHANNEL,
    OUTPUT,
    N_OPTIONS
};
static const char *const names[N_OPTIONS + 1] = {
    "--type",       "--sample-rate", "--bins",    "--low",    "--high",
    "--snip-edges", "--window",      "--scale",   "--n-fft",  "--hop",
    "--normalize",  "--chunk",       "--channel", "--output", NULL};

static bool option_to_number(const char *option, const char *s, double *out)
{
    char *end;
    *out = strtod(s, &end);
    if (end != s && !*end)
        return true;
    (void)cli_usage("%s: '%s' is not a number", option, s);
    return false;
}

static bool parse_type(const char *s, enum type *out)
{
    static const char *const types[] = {"kaldi", "nemo", "espnet", "whisper"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(s, types[i])) {
            *out = (enum type)i;
            return true;
        }
    (void)cli_usage("--type: '%s' is none of kaldi, nemo, espnet, whisper", s);
    return false;
}

/* Build the extractor from options as strings; the last one given counts, so --type may stand
 * anywhere. */
static bool build_extractor(struct job *j, const char *const *v)
{
    long rate = 16000, bins = 80, fft = 512, hop = 128, chunk = BLOCK, channel = 0;
    double low = 0, high = 0, scale = 1;
    steno_err err;
    if ((v[TYPE] && !parse_type(v[TYPE], &j->type)) ||
        (v[RATE] && !cli_int(names[RATE], v[RATE], STENO_RATE_MIN, STENO_RATE_MAX, &rate)) ||
        (v[BINS] && !cli_int(names[BINS], v[BINS], 1, 512, &bins)) ||
        (v[N_FFT] && !cli_int(names[N_FFT], v[N_FFT], 16, 65536, &fft)) ||
        (v[HOP] && !cli_int(names[HOP], v[HOP], 1, 65536, &hop)) ||
        (v[CHUNK] && !cli_int(names[CHUNK], v[CHUNK], 1, 1000000000, &chunk)) ||
        (v[CHANNEL] && !cli_int(names[CHANNEL], v[CHANNEL], 0, STENO_CHANNELS_MAX, &channel)) ||
        (v[LOW] && !option_to_number(names[LOW], v[LOW], &low)) ||
        (v[HIGH] && !option_to_number(names[HIGH], v[HIGH], &high)) ||
        (v[SCALE] && !option_to_number(names[SCALE], v[SCALE], &scale)))
        return false;
    if (j->type == KALDI)
        j->fb = steno_fbank_kaldi((int)rate, (size_t)bins);
    else if (j->type == NEMO)
        j->fb = steno_fbank_nemo((int)rate, (size_t)bins);
    else if (j->type == ESPNET)
        j->fb = steno_logmel_espnet((int)rate, (size_t)fft, (size_t)fft, (size_t)hop, (size_t)bins,
                                    0, 0);
    else
        j->fb = steno_logmel_whisper((size_t)bins);
    j->fb.scale = (float)scale;
    j->fb.high = high;
    if (v[LOW])
        j->fb.low = low;
    if (v[SNIP] && (j->type == KALDI || j->type == NEMO))
        j->fb.edges = strcmp(v[SNIP], "false") ? STENO_EDGES_SNIP : STENO_EDGES_REFLECT;
    if (v[WINDOW] && steno_window_parse(v[WINDOW], &j->fb.window, &err)) {
        (void)cli_usage("%s", err.msg);
        return false;
    }
    if (v[NORM])
        j->normalize = v[NORM];
    j->chunk = (size_t)chunk;
    j->audio.channel = (unsigned)channel;
    return true;
}

/* EX_OK to continue, else the exit code; *done when it was only --help. */
static int parse_features(struct job *j, int argc, char **argv, bool *done)
{
    struct cli_args a = {.argc = argc, .at = 1, .argv = argv};
    const char *given[N_OPTIONS] = {0}, *value;
    int o;
    while ((o = cli_next(&a, names, &value)) != CLI_END) {
        if (o == CLI_ERROR)
            return EX_USAGE;
        if (o == CLI_HELP) {
            fputs(help_text, stdout);
            *done = true;
            return EX_OK;
        }
        if (o >= 0)
            given[o] = value;
        else if (j->file)
            return cli_usage("features: only one recording at a time, unexpected '%s'", value);
        else
            j->file = value;
    }
    j->output = given[OUTPUT];
    if (!j->file || !j->output)
        return cli_usage("features: a recording and --output are needed");
    return build_extractor(j, given) ? EX_OK : EX_USAGE;
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

static steno_status add_samples(struct features *f, const float *pcm, size_t n, steno_err *err)
{
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

static steno_status resample(struct features *f, const float *pcm, size_t n, steno_err *err)
{
    float out[BLOCK];
    size_t used, made;
    steno_status st;
    do {
        st = steno_resampler_push(f->resampler, pcm, n, &used, out, BLOCK, &made, err);
        if (st <= STENO_NEED_MORE)
            st = add_samples(f, out, made, err);
        if (st)
            return st;
        pcm += used;
        n -= used;
    } while (n);
    return STENO_OK;
}

static steno_status finish_features(struct features *f, steno_err *err)
{
    float out[BLOCK];
    size_t made;
    steno_status st;
    do {
        st = steno_resampler_flush(f->resampler, out, BLOCK, &made, err);
        if (!st)
            st = add_samples(f, out, made, err);
    } while (!st && made);
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
    size_t n, step = j->chunk < BLOCK ? j->chunk : BLOCK;
    steno_status st;
    steno_audio_get_info(a, &info);
    st = steno_resampler_open(&f->resampler, info.sample_rate, j->fb.sample_rate, err);
    while (!st) {
        st = steno_audio_read(a, pcm, step, &n, err);
        if (st || !n)
            break;
        st = resample(f, pcm, n, err);
    }
    return st ? st : finish_features(f, err);
}

static steno_status normalize_columns(struct features *f, const struct job *j, steno_err *err)
{
    if (j->type == WHISPER) {
        f->frames -= f->frames > 0; /* as in Whisper, the last frame is dropped */
        steno_logmel_whisper_scale(f->x, f->frames, f->bins);
    }
    if (!strcmp(j->normalize, "per-feature"))
        steno_cmvn_utterance(f->x, f->frames, f->bins, &STENO_NORM_NEMO);
    else if (!strcmp(j->normalize, "utterance"))
        steno_cmvn_utterance(f->x, f->frames, f->bins, &STENO_NORM_ESPNET);
    else if (strcmp(j->normalize, "none"))
        return steno_fail(err, STENO_ERR_INVAL,
                          "--normalize: '%.32s' is none of none, per-feature, utterance",
                          j->normalize);
    return STENO_OK;
}

static steno_status save(const struct features *f, const char *path, steno_err *err)
{
    struct steno_npy a = {.kind = 'f', .item = 4, .rank = 2, .data = f->x};
    a.dim[0] = (int64_t)f->frames;
    a.dim[1] = (int64_t)f->bins;
    a.bytes = f->frames * f->bins * sizeof *f->x;
    return steno_npy_write(path, &a, err);
}

static steno_status work(const struct job *j, int fd, steno_err *err)
{
    struct features f = {.bins = j->fb.bins};
    steno_audio *a = NULL;
    steno_status st = steno_audio_open_fd(&a, fd, &j->audio, err);
    if (!st)
        st = steno_fbank_open(&f.fbank, &j->fb, err);
    if (!st)
        st = reserve_frames(&f, 1, err);
    if (!st)
        st = read_recording(&f, a, j, err);
    if (!st)
        st = normalize_columns(&f, j, err);
    if (!st)
        st = save(&f, j->output, err);
    free(f.x);
    steno_resampler_close(f.resampler);
    steno_fbank_close(f.fbank);
    steno_audio_close(a);
    return st;
}

int cli_features(int argc, char **argv)
{
    struct job j = {.normalize = "none"};
    steno_err err = {0};
    bool done = false, pipe;
    steno_status st;
    int fd, code = parse_features(&j, argc, argv, &done);
    if (code || done || !j.file)
        return code;
    pipe = !strcmp(j.file, "-");
    fd = pipe ? STDIN_FILENO : open(j.file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        (void)steno_fail(&err, STENO_ERR_IO, "%.200s: %s", j.file, strerror(errno));
        return cli_fail(&err);
    }
    st = work(&j, fd, &err);
    if (!pipe)
        close(fd);
    if (st)
        (void)steno_fail_in(&err, st, "%.100s", pipe ? "standard input" : j.file);
    return st ? cli_fail(&err) : EX_OK;
}
