/* Samples are kept in one linear buffer. It starts early enough for the next frame and ends with
 * the newest sample:
 *
 *     base                 start(next)              base + len = samples taken
 *      |------ history --------|------ window ---------|
 *
 * A frame is computed directly from the buffer. Only frames that reach over an edge of the signal
 * are first gathered sample by sample. The buffer also keeps history before the last `length`
 * samples, because mirrored edges at the end need it. */
#include "speech/features/internal.h"

#include "base/cpu.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 1024 /* samples in the buffer beyond those that frames need: fewer moves */

struct steno_fbank_options steno_fbank_kaldi(int sample_rate, size_t bins)
{
    struct steno_fbank_options o = {
        .sample_rate = sample_rate,
        .length_ms = 25,
        .shift_ms = 10,
        .edges = STENO_EDGES_SNIP,
        .window = STENO_WINDOW_POVEY,
        .preemph = 0.97f,
        .remove_dc = true,
        .mel = STENO_MEL_KALDI,
        .bins = bins,
        .low = 20,
        .high = 0,
        .log = STENO_LOG_NATURAL,
        .floor = FLT_EPSILON,
        .scale = 1,
    };
    return o;
}

struct steno_fbank_options steno_fbank_nemo(int sample_rate, size_t bins)
{
    struct steno_fbank_options o = steno_fbank_kaldi(sample_rate, bins);
    o.edges = STENO_EDGES_REFLECT;
    o.window = STENO_WINDOW_HANN_PERIODIC;
    o.remove_dc = false;
    o.mel = STENO_MEL_SLANEY;
    o.low = 0;
    return o;
}

struct steno_fbank_options steno_fbank_samples(int sample_rate, size_t bins)
{
    struct steno_fbank_options o = {.sample_rate = sample_rate,
                                    .edges = STENO_EDGES_SNIP,
                                    .window = STENO_WINDOW_RECTANGULAR,
                                    .mel = STENO_MEL_NONE,
                                    .bins = bins,
                                    .log = STENO_LOG_NONE,
                                    .scale = 1};
    o.length_ms = o.shift_ms = 1000.0 * (double)bins / sample_rate;
    return o;
}

struct steno_fbank_options steno_fbank_funasr(void)
{
    struct steno_fbank_options o = steno_fbank_kaldi(16000, 80);
    o.window = STENO_WINDOW_HAMMING;
    o.scale = 32768;
    return o;
}

/* ---- geometry --------------------------------------------------------------------------------*/

static size_t samples_of(int rate, double ms)
{
    double n = floor(rate * ms / 1000 + 1e-6);
    return n >= 1 && n <= 65536 ? (size_t)n : 0;
}

static int64_t frame_offset(enum steno_edges edges, size_t length, size_t shift, size_t fft)
{
    if (edges == STENO_EDGES_REFLECT)
        return (int64_t)(shift / 2) - (int64_t)(length / 2);
    if (edges == STENO_EDGES_SNIP)
        return 0;
    /* the transform is centred, and the window in it: half a sample apart where one length is
     * odd */
    return (int64_t)((fft - length) / 2) - (int64_t)(fft / 2);
}

static int64_t count_frames(enum steno_edges edges, size_t length, size_t shift, int64_t n)
{
    int64_t s = (int64_t)shift, l = (int64_t)length;
    if (n <= 0)
        return 0;
    if (edges == STENO_EDGES_REFLECT)
        return (n + s / 2) / s;
    if (edges == STENO_EDGES_CENTER)
        return n / s + 1;
    if (edges == STENO_EDGES_ZERO)
        return n / s;
    return n < l ? 0 : (n - l) / s + 1;
}

int64_t steno_fbank_count(const struct steno_fbank_options *opt, int64_t n)
{
    size_t length = samples_of(opt->sample_rate, opt->length_ms);
    size_t shift = samples_of(opt->sample_rate, opt->shift_ms);
    return shift ? count_frames(opt->edges, length, shift, n) : 0;
}

int64_t steno_fbank_whole_count(const steno_fbank *f, int64_t n)
{
    return count_frames(f->opt.edges, f->length, f->shift, n);
}

static int64_t start_of(const steno_fbank *f, int64_t t)
{
    return t * (int64_t)f->shift + f->offset;
}

/* Index of the sample that replaces index i outside [0, n), mirrored as often as necessary. */
static int64_t mirror(enum steno_edges edges, int64_t i, int64_t n)
{
    int64_t skip = edges == STENO_EDGES_CENTER; /* the edge sample itself is not repeated */
    if (n == 1)
        return 0;
    while (i < 0 || i >= n)
        i = i < 0 ? -i - 1 + skip : 2 * n - 1 - skip - i;
    return i;
}

/* Number of frames from `next` on that lie within the samples so far, at most `most`. */
static size_t inside(const steno_fbank *f, size_t most)
{
    int64_t start = start_of(f, f->next), room = f->base + (int64_t)f->len - start;
    size_t n;
    if (start < 0 || room < (int64_t)f->length)
        return 0;
    n = ((size_t)room - f->length) / f->shift + 1;
    return n < most ? n : most;
}

/* True if frame `next` can be computed from the samples so far, whatever follows. */
static bool ready(const steno_fbank *f)
{
    int64_t start = start_of(f, f->next), total = f->base + (int64_t)f->len;
    if (start + (int64_t)f->length > total)
        return false;
    if (f->opt.edges == STENO_EDGES_ZERO)
        return true;
    return start >= 0 || -start - 1 + (f->opt.edges == STENO_EDGES_CENTER) < total;
}

/* ---- one frame -------------------------------------------------------------------------------*/

static void compute_frame(steno_fbank *f, const float *x, float *out)
{
    if (f->frames) {
        f->frames(&f->tables, x, 1, out);
        return;
    }
    if (!f->mel) {
        for (size_t i = 0; i < f->length; i++)
            out[i] = x[i] * f->opt.scale;
        return;
    }
    steno_fbank_window(&f->tables, x, f->frame);
    if (f->scratch)
        steno_fft_power_in(f->fft, f->frame, f->power, f->scratch);
    else
        steno_fft_power(f->fft, f->frame, f->power);
    if (f->opt.magnitude)
        for (size_t i = 0; i <= f->fft_size / 2; i++)
            f->power[i] = sqrtf(f->power[i]);
    steno_fbank_filter(&f->tables, f->power, out);
    steno_fbank_compress(&f->tables, out);
}

/* Gather a frame at `start` that reaches over an edge, so that the signal is zero outside after its
 * pre-emphasis: behind the end, each sample is `preemph` times the one before it. */
static void extend_with_zeros(steno_fbank *f, int64_t start, int64_t total)
{
    for (size_t i = 0; i < f->length; i++) {
        const int64_t at = start + (int64_t)i;
        if (at < 0)
            f->edge[i] = 0;
        else if (at < total)
            f->edge[i] = f->buf[at - f->base];
        else
            f->edge[i] = i ? f->opt.preemph * f->edge[i - 1] : 0;
    }
}

/* Samples of frame `next`: in place, or gathered where the frame reaches over an edge. total:
 * length of the signal, for mirroring at the end. */
static const float *frame_samples(steno_fbank *f, int64_t total)
{
    int64_t start = start_of(f, f->next);
    if (start >= 0 && start + (int64_t)f->length <= total)
        return f->buf + (start - f->base);
    if (f->opt.edges == STENO_EDGES_ZERO)
        extend_with_zeros(f, start, total);
    else
        for (size_t i = 0; i < f->length; i++)
            f->edge[i] = f->buf[mirror(f->opt.edges, start + (int64_t)i, total) - f->base];
    return f->edge;
}

static void next_frame(steno_fbank *f, float *out)
{
    compute_frame(f, frame_samples(f, f->base + (int64_t)f->len), out);
    f->next++;
}

/* Compute frames that are ready, at most `most`, into out; several at once where the kernel can. */
static size_t ready_frames(steno_fbank *f, float *out, size_t most)
{
    size_t made = 0, n;
    while (made < most && ready(f)) {
        n = f->frames ? inside(f, most - made) : 0;
        if (!n) {
            next_frame(f, out + made++ * f->opt.bins);
            continue;
        }
        f->frames(&f->tables, f->buf + (start_of(f, f->next) - f->base), n,
                  out + made * f->opt.bins);
        f->next += (int64_t)n;
        made += n;
    }
    return made;
}

/* Drop samples that neither the next frame nor a mirrored end needs. */
static void drop(steno_fbank *f)
{
    int64_t keep = start_of(f, f->next), total = f->base + (int64_t)f->len;
    if (f->opt.edges != STENO_EDGES_SNIP && keep > total - (int64_t)f->length)
        keep = total - (int64_t)f->length;
    if (keep > total)
        keep = total; /* the hop is longer than the window: samples between frames */
    if (keep <= f->base)
        return;
    f->len = (size_t)(total - keep);
    memmove(f->buf, f->buf + (keep - f->base), f->len * sizeof *f->buf);
    f->base = keep;
}

/* ---- public ----------------------------------------------------------------------------------*/

static steno_status check_fbank(const struct steno_fbank_options *o, size_t length, size_t shift,
                                size_t fft, steno_err *err)
{
    if (o->sample_rate < 1000 || o->sample_rate > 1000000)
        return steno_fail(err, STENO_ERR_INVAL, "fbank: sample rate %d Hz", o->sample_rate);
    if (!length || !shift)
        return steno_fail(err, STENO_ERR_INVAL, "fbank: window %g ms, hop %g ms at %d Hz",
                          o->length_ms, o->shift_ms, o->sample_rate);
    if (fft < length)
        return steno_fail(err, STENO_ERR_INVAL, "fbank: FFT size %zu, window has %zu samples", fft,
                          length);
    if ((unsigned)o->window >= STENO_WINDOW_COUNT || (unsigned)o->edges > STENO_EDGES_ZERO ||
        (unsigned)o->mel > STENO_MEL_NONE || (unsigned)o->log > STENO_LOG_NONE)
        return steno_fail(err, STENO_ERR_INVAL, "fbank: window, edges, mel or log kind unknown");
    if (o->mel == STENO_MEL_NONE && (o->bins != length || o->edges != STENO_EDGES_SNIP))
        return steno_fail(err, STENO_ERR_INVAL,
                          "fbank: frames of %zu samples have %zu values, and only whole ones count",
                          length, o->bins);
    if (!(o->preemph >= 0 && o->preemph <= 1))
        return steno_fail(err, STENO_ERR_INVAL, "fbank: pre-emphasis %g is outside 0 to 1",
                          (double)o->preemph);
    if (!(o->floor >= 0) || !(o->offset >= 0) || !(o->scale > 0))
        return steno_fail(err, STENO_ERR_INVAL, "fbank: floor %g, offset %g, scale %g",
                          (double)o->floor, (double)o->offset, (double)o->scale);
    return STENO_OK;
}

static steno_status no_memory_for_fbank(steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "fbank: out of memory");
}

/* Allocate the parts that belong to one signal. */
static steno_status allocate_signal(steno_fbank *f, steno_err *err)
{
    f->cap = 2 * f->length + f->shift + ROOM;
    f->buf = steno_blocks_add(&f->memory, f->cap, sizeof *f->buf);
    f->edge = steno_blocks_add(&f->memory, f->length, sizeof *f->edge);
    f->frame = steno_blocks_add(&f->memory, f->fft_size, sizeof *f->frame);
    f->power = steno_blocks_add(&f->memory, f->fft_size / 2 + 1 + STENO_MEL_PAD, sizeof *f->power);
    return f->memory.failed ? no_memory_for_fbank(err) : STENO_OK;
}

/* Compute the parts that any number of signals can share. */
static steno_status make_tables(steno_fbank *f, steno_err *err)
{
    const struct steno_fbank_options *o = &f->opt;
    steno_status st;
    f->window = steno_blocks_add(&f->memory, f->length, sizeof *f->window);
    if (!f->window)
        return no_memory_for_fbank(err);
    steno_window_fill(o->window, f->length, f->window);
    if (o->bf16)
        steno_features_round(f->window, f->length);
    for (size_t i = 0; i < f->length; i++)
        f->window[i] *= o->scale;
    if (o->mel == STENO_MEL_NONE)
        return STENO_OK;
    st = steno_fft_open(&f->fft, f->fft_size, err);
    if (!st)
        st = steno_mel_open(&f->mel, o->mel, o->sample_rate, f->fft_size, o->bins, o->low, o->high,
                            err);
    if (!st && o->bf16)
        steno_mel_round(f->mel);
    return st;
}

/* The kernel's tables, and this CPU's slot if it can compute this front end. */
static void choose_kernel(steno_fbank *f)
{
    const struct steno_fbank_options *o = &f->opt;
    struct steno_fbank_tables *t = &f->tables;
    steno_kernels k;
    unsigned cpu = 0;
    if (steno_cpu_choose(NULL, &cpu, NULL))
        cpu = 0; /* an unknown level: opening a network reports it */
    steno_kernels_init(&k, cpu);
    *t = (struct steno_fbank_tables){.length = f->length,
                                     .shift = f->shift,
                                     .remove_dc = o->remove_dc,
                                     .preemph = o->preemph,
                                     .window = f->window,
                                     .fft = f->fft->own,
                                     .floor = o->floor,
                                     .offset = o->offset,
                                     .log = o->log != STENO_LOG_NONE,
                                     .log_scale = o->log == STENO_LOG_10 ? 0.434294482f : 1};
    steno_mel_tables(f->mel, t);
    if (f->fft->block && f->fft_size <= STENO_FBANK_FFT && !o->magnitude)
        f->frames = k.fbank_f32;
}

steno_status steno_fbank_open(steno_fbank **out, const struct steno_fbank_options *opt,
                              steno_err *err)
{
    size_t length = samples_of(opt->sample_rate, opt->length_ms);
    size_t shift = samples_of(opt->sample_rate, opt->shift_ms), fft = opt->fft_size;
    steno_fbank *f;
    steno_status st;
    for (fft = fft ? fft : 2; !opt->fft_size && fft < length; fft *= 2)
        ;
    st = check_fbank(opt, length, shift, fft, err);
    if (st)
        return st;
    f = calloc(1, sizeof *f);
    if (!f)
        return steno_fail(err, STENO_ERR_NOMEM, "fbank: out of memory");
    f->opt = *opt;
    f->length = length;
    f->shift = shift;
    f->fft_size = fft;
    f->offset = frame_offset(opt->edges, length, shift, fft);
    st = allocate_signal(f, err);
    if (!st)
        st = make_tables(f, err);
    if (st) {
        steno_fbank_close(f);
        return st;
    }
    if (f->mel)
        choose_kernel(f);
    *out = f;
    return STENO_OK;
}

/* Use the transform of another front end. Our own transform is only read; kissfft's has scratch
 * inside, so it is opened anew. */
static steno_status share_fft(steno_fbank *f, const steno_fbank *like, steno_err *err)
{
    if (!like->fft)
        return STENO_OK;
    if (!like->fft->block)
        return steno_fft_open(&f->fft, f->fft_size, err);
    f->scratch = steno_blocks_add(&f->memory, 2 * f->fft_size, sizeof *f->scratch);
    if (!f->scratch)
        return no_memory_for_fbank(err);
    f->fft = like->fft;
    return STENO_OK;
}

steno_status steno_fbank_open_like(steno_fbank **out, const steno_fbank *like, steno_err *err)
{
    steno_fbank *f = malloc(sizeof *f);
    steno_status st;
    if (!f)
        return no_memory_for_fbank(err);
    *f = (steno_fbank){.opt = like->opt,
                       .shares = true,
                       .length = like->length,
                       .shift = like->shift,
                       .fft_size = like->fft_size,
                       .offset = like->offset,
                       .window = like->window,
                       .mel = like->mel,
                       .tables = like->tables,
                       .frames = like->frames};
    st = allocate_signal(f, err);
    if (!st)
        st = share_fft(f, like, err);
    if (st) {
        steno_fbank_close(f);
        return st;
    }
    *out = f;
    return STENO_OK;
}

void steno_fbank_close(steno_fbank *f)
{
    if (!f)
        return;
    if (!f->shares)
        steno_mel_close(f->mel);
    if (!f->shares || !f->scratch) /* with scratch it belongs to another front end */
        steno_fft_close(f->fft);
    steno_blocks_free(&f->memory);
    free(f);
}

steno_status steno_fbank_push(steno_fbank *f, const float *pcm, size_t n, size_t *used, float *out,
                              size_t max_frames, size_t *frames)
{
    size_t at = 0, made = 0, k;
    for (;;) {
        made += ready_frames(f, out + made * f->opt.bins, max_frames - made);
        if (at == n || ready(f))
            break;
        if (f->cap - f->len < n - at)
            drop(f);
        k = f->cap - f->len < n - at ? f->cap - f->len : n - at;
        memcpy(f->buf + f->len, pcm + at, k * sizeof *pcm);
        f->len += k;
        at += k;
    }
    *used = at;
    *frames = made;
    return made || at < n ? STENO_OK : STENO_NEED_MORE;
}

steno_status steno_fbank_flush(steno_fbank *f, float *out, size_t max_frames, size_t *frames)
{
    int64_t total = f->base + (int64_t)f->len;
    int64_t all = steno_fbank_whole_count(f, total);
    size_t made = 0;
    for (; made < max_frames && f->next < all; made++)
        next_frame(f, out + made * f->opt.bins);
    if (!made && f->next >= all)
        steno_fbank_reset(f);
    *frames = made;
    return STENO_OK;
}

void steno_fbank_reset(steno_fbank *f)
{
    f->base = f->next = 0;
    f->len = 0;
}

void steno_fbank_follow(steno_fbank *f, const steno_fbank *from)
{
    f->base = from->base;
    f->next = from->next;
    f->len = from->len;
    memcpy(f->buf, from->buf, from->len * sizeof *f->buf);
}

size_t steno_fbank_bins(const steno_fbank *f)
{
    return f->opt.bins;
}

size_t steno_fbank_shift(const steno_fbank *f)
{
    return f->shift;
}

size_t steno_fbank_length(const steno_fbank *f)
{
    return f->length;
}

size_t steno_fbank_max_frames(const steno_fbank *f, size_t n)
{
    return (f->len + n) / f->shift + 2;
}

steno_status steno_fbank_whole(steno_fbank *f, const float *pcm, size_t n, float *out,
                               size_t max_frames, size_t *frames)
{
    size_t used, made, tail, total;
    steno_status st = steno_fbank_push(f, pcm, n, &used, out, max_frames, &made);
    total = made;
    if (st == STENO_NEED_MORE)
        st = STENO_OK;
    while (!st) {
        st = steno_fbank_flush(f, out + total * f->opt.bins, max_frames - total, &tail);
        if (!tail)
            break;
        total += tail;
    }
    if (st || used < n)
        return st ? st : STENO_ERR_LIMIT;
    *frames = total;
    return STENO_OK;
}
