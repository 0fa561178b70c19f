/* Log-mel filter bank features as a stream: samples in, cut anywhere; frames out. One engine for
 * Kaldi's fbank (Povey et al. 2011; feature-window.cc, feature-fbank.cc, and kaldi-native-fbank's
 * librosa mode) and for the centred STFT front ends of ESPnet and Whisper (logmel.h has presets).
 * The whole file at once and any chunking give the same bits: the same code computes a frame from
 * the same window. Nothing allocates memory after open. */
#ifndef STENO_FEATURES_FBANK_H
#define STENO_FEATURES_FBANK_H

#include "speech/features/mel.h"
#include "speech/features/window.h"

typedef struct steno_fbank steno_fbank;

enum steno_edges {
    STENO_EDGES_SNIP,    /* frame t covers [t*shift, t*shift + length); only whole windows count */
    STENO_EDGES_REFLECT, /* Kaldi snip_edges=false: frame t is centred on t*shift + shift/2,
                          * (n + shift/2) / shift frames, edges mirrored (-1 -> 0, n -> n-1) */
    STENO_EDGES_CENTER,  /* torch.stft center=True, pad reflect: frame t is centred on t*shift,
                          * n/shift + 1 frames, edges mirrored about the sample (-1 -> 1); a window
                          * shorter than fft_size is centred in it */
    STENO_EDGES_ZERO     /* the same with zeros around the signal after its pre-emphasis, as NeMo
                          * has it, and n/shift frames: the last one of CENTER is left out */
};

enum steno_log { STENO_LOG_NATURAL, STENO_LOG_10, STENO_LOG_NONE };

struct steno_fbank_options {
    int sample_rate;            /* Hz */
    double length_ms, shift_ms; /* window and hop: floor(rate * ms / 1000) samples, as Kaldi */
    size_t fft_size;            /* 0 = smallest power of two that holds the window; else even and at
                                 * least the window; the window is at its start (Kaldi) */
    enum steno_edges edges;
    enum steno_window window;
    /* x[i] -= preemph * x[i-1] inside each window, x[-1] = x[0]; 0 = off. Windows that begin with
     * 0, such as STENO_WINDOW_HANN, give the pre-emphasis of the whole signal. */
    float preemph;
    bool remove_dc; /* first subtract the mean of each window */
    bool magnitude; /* |X| instead of |X|^2 */
    enum steno_mel_kind mel;
    size_t bins;
    double low, high; /* Hz, see steno_mel_open */
    enum steno_log log;
    float floor;  /* minimum of mel energies before the logarithm */
    float offset; /* added to mel energies after the floor */
    float scale;  /* factor of the samples: 1, or 32768 for models trained on int16 values */
    bool bf16;    /* window and filters are rounded to bfloat16, in which a checkpoint has them */
};

/* Kaldi's defaults at a sample rate: 25/10 ms, povey, preemph 0.97, DC removal, HTK mel 20
 * Hz..Nyquist, ln with floor FLT_EPSILON, snip edges, scale 1. Dither is always 0. */
struct steno_fbank_options steno_fbank_kaldi(int sample_rate, size_t bins);
/* kaldi-native-fbank's is_librosa mode, which servers of NeMo models use: hann (periodic), Slaney
 * mel 0 Hz..Nyquist, no DC removal, Kaldi-reflected edges, preemph 0.97. */
struct steno_fbank_options steno_fbank_nemo(int sample_rate, size_t bins);
/* No features: frames of `bins` samples, for networks that take samples. */
struct steno_fbank_options steno_fbank_samples(int sample_rate, size_t bins);
/* FunASR's models (SenseVoice, Paraformer): Kaldi's defaults with a hamming window, 80 bins, and
 * samples as int16 values, at 16 kHz. lfr.h and cmvn.h follow. */
struct steno_fbank_options steno_fbank_funasr(void);

/* Open a front end. STENO_ERR_INVAL names the option and its value. Confined. */
STENO_MUST steno_status steno_fbank_open(steno_fbank **out, const struct steno_fbank_options *opt,
                                         steno_err *err);
/* Open the same front end for another signal. It shares the filters, window and transform of
 * `like`, which must outlive it; any number of threads may read `like`. This takes a few
 * allocations; steno_fbank_open computes all tables. Confined. */
STENO_MUST steno_status steno_fbank_open_like(steno_fbank **out, const steno_fbank *like,
                                              steno_err *err);
void steno_fbank_close(steno_fbank *f);

/* Append samples and compute every complete frame.
 * pcm: [n] f32 in [-1,1], borrowed; *used of them were taken (all, unless out is full).
 * out: [max_frames, bins] row-major; *frames written.
 * STENO_NEED_MORE: all samples were taken and no frame is complete. */
STENO_MUST steno_status steno_fbank_push(steno_fbank *f, const float *pcm, size_t n, size_t *used,
                                         float *out, size_t max_frames, size_t *frames);
/* End the input: compute the frames that need samples beyond the end (none with snip edges). Call
 * until *frames is 0; then the object is ready for a new signal. */
STENO_MUST steno_status steno_fbank_flush(steno_fbank *f, float *out, size_t max_frames,
                                          size_t *frames);
/* Discard everything pushed. */
void steno_fbank_reset(steno_fbank *f);
/* Go on where `from` is now, instead of what was pushed into f, which was opened like it. */
void steno_fbank_follow(steno_fbank *f, const steno_fbank *from);

size_t steno_fbank_bins(const steno_fbank *f);
/* Hop and window in samples. */
size_t steno_fbank_shift(const steno_fbank *f);
size_t steno_fbank_length(const steno_fbank *f);
/* Maximum of frames that one push of n samples can complete. */
size_t steno_fbank_max_frames(const steno_fbank *f, size_t n);
/* Frames of a whole signal of n samples, including those of flush. */
int64_t steno_fbank_count(const struct steno_fbank_options *opt, int64_t n);
int64_t steno_fbank_whole_count(const steno_fbank *f, int64_t n);

/* Compute a whole signal at once, a loop over push and flush: out [steno_fbank_count(...), bins].
 * The object must be new or reset, and is reset afterwards. */
STENO_MUST steno_status steno_fbank_whole(steno_fbank *f, const float *pcm, size_t n, float *out,
                                          size_t max_frames, size_t *frames);

#endif
