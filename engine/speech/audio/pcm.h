/* Raw samples of every plain encoding to f32 in [-1,1], whole or in parts of any size. Pure. */
#ifndef STENO_AUDIO_PCM_H
#define STENO_AUDIO_PCM_H

#include "base/status.h"

/* Sample rates that the engine accepts; others are refused with both limits in the message. */
#define STENO_RATE_MIN 8000
#define STENO_RATE_MAX 192000
/* Maximum of channels of a recording. */
#define STENO_CHANNELS_MAX 64

enum steno_pcm_format {
    STENO_PCM_U8, /* unsigned 8 bit, 128 = 0 (8-bit WAV) */
    STENO_PCM_S16LE,
    STENO_PCM_S24LE, /* three bytes */
    STENO_PCM_S32LE,
    STENO_PCM_F32LE, /* IEEE 754, 1.0 = full scale */
    STENO_PCM_F64LE,
    STENO_PCM_MULAW, /* ITU-T G.711 */
    STENO_PCM_ALAW,  /* ITU-T G.711 */
    STENO_PCM_COUNT
};

/* Bytes per sample: 1, 2, 3, 4 or 8. */
size_t steno_pcm_bytes(enum steno_pcm_format f);
/* "u8" "s16le" "s24le" "s32le" "f32le" "f64le" "mulaw" "alaw" */
const char *steno_pcm_name(enum steno_pcm_format f);
/* Find a format by that name (also "pcm16", "s16", "linear16", "f32", "float32", "ulaw", "pcmu",
 * "pcma", "g711_ulaw", "g711_alaw"). STENO_ERR_UNSUPPORTED lists the known names. */
STENO_MUST steno_status steno_pcm_parse(const char *name, enum steno_pcm_format *out,
                                        steno_err *err);

/* Decode n whole samples: in [n * steno_pcm_bytes(f)] bytes of any alignment to out [n]. Integers
 * are divided by 2^(bits-1), so the result is in [-1, 1). Floating point values do not change, with
 * two exceptions: NaN and infinities become 0 (one bad sample must not silence a whole stream), and
 * magnitudes above STENO_PCM_FLOAT_MAX are clamped to it. */
#define STENO_PCM_FLOAT_MAX 65536.0f
void steno_pcm_decode(enum steno_pcm_format f, const void *in, size_t n, float *out);

/* Clean f32 samples in the same way: NaN, Inf to 0, magnitudes clamped. in == out is allowed. */
void steno_pcm_clean(const float *in, size_t n, float *out);
bool steno_pcm_is_clean(const float *in, size_t n); /* whether that would change nothing */

/* Mix interleaved frames to mono. in [frames, channels]; channel: 0 = mean of all, k = the k-th
 * counted from 1 (k <= channels). out [frames]; in == out is allowed. */
void steno_pcm_mix(const float *in, size_t frames, unsigned channels, unsigned channel, float *out);

/* Incremental decoder: plain data, no memory of its own. Confined. */
struct steno_pcm {
    enum steno_pcm_format format;
    unsigned have; /* bytes of an unfinished sample in part */
    unsigned char part[8];
};

void steno_pcm_init(struct steno_pcm *p, enum steno_pcm_format f);
/* Append bytes, cut anywhere, and decode every complete sample. out [max]; returns the number of
 * samples. *used < n only when out is full (call again with the rest). Room for a whole push: n /
 * steno_pcm_bytes(f) + 1. p->have != 0 at the end means that the input ended inside a sample. */
size_t steno_pcm_push(struct steno_pcm *p, const void *data, size_t n, size_t *used, float *out,
                      size_t max);

#endif
