/* WAV as a stream: bytes in, cut anywhere; interleaved f32 frames out. Pure, no seeking, so that a
 * pipe, a socket and a file are read in the same way. RIFF/WAVE (Microsoft "Multimedia Programming
 * Interface and Data Specifications 1.0", WAVEFORMATEXTENSIBLE), RF64 (EBU Tech 3306) and BW64
 * (ITU-R BS.2088). Encodings: 8, 16, 24, 32 bit integer, 32 and 64 bit float, A-law, mu-law.
 *
 * A data length of 0, 0xFFFFFFFF, or sox's 0x7FFFF000 and more comes from a writer to a pipe: the
 * data last until the end of input. (0 does not count as unknown if the RIFF size has room for a
 * chunk after it and there is one.) Chunks that are not needed are skipped by their length, with
 * the pad byte. Bytes after the data are ignored.
 * 12 and 20 bits stand in 16 and 24. A wrong byte rate and a block align of 0 are tolerated,
 * because the fields are not needed. Any other wrong block align is an error, because then the
 * number of channels or the width of a sample is wrong too. */
#ifndef STENO_AUDIO_WAV_H
#define STENO_AUDIO_WAV_H

#include "speech/audio/pcm.h"

typedef struct steno_wav steno_wav;

struct steno_wav_info {
    int sample_rate;   /* STENO_RATE_MIN..STENO_RATE_MAX */
    unsigned channels; /* 1..STENO_CHANNELS_MAX */
    enum steno_pcm_format format;
    int64_t frames;       /* from the header; -1 = unknown (pipe) */
    uint64_t data_offset; /* bytes before the first sample */
};

/* New reader. NULL when out of memory. Confined. */
steno_wav *steno_wav_new(void);
/* The same for samples without any header: sample_rate STENO_RATE_MIN..STENO_RATE_MAX, channels
 * 1..STENO_CHANNELS_MAX. */
steno_wav *steno_wav_new_raw(enum steno_pcm_format format, int sample_rate, unsigned channels);
void steno_wav_free(steno_wav *w);

/* Append bytes.
 * data:   [n] bytes, borrowed; *used of them were taken (all, unless out is full: call again).
 * out:    [max] f32 interleaved, max >= STENO_CHANNELS_MAX; *frames receives the number of whole
 *         frames, of info->channels samples each. max = 0: only the header is read, and STENO_OK
 *         says that it is known.
 * STENO_NEED_MORE: all bytes were taken and no frame is complete yet (header, skipped chunk).
 * STENO_ERR_FORMAT, _UNSUPPORTED: a fault in the header; the message names field, value and byte
 * offset, and every later call fails in the same way. */
STENO_MUST steno_status steno_wav_push(steno_wav *w, const void *data, size_t n, size_t *used,
                                       float *out, size_t max, size_t *frames, steno_err *err);

/* Header contents; NULL until the data chunk has begun. */
const struct steno_wav_info *steno_wav_info(const steno_wav *w);

/* End the input. STENO_ERR_FORMAT: the header was incomplete ("the input is empty", "cut off after
 * 17 bytes, inside the header"). *truncated: the data are shorter than the header says, or end
 * inside a frame; all complete frames have been delivered. */
STENO_MUST steno_status steno_wav_end(const steno_wav *w, bool *truncated, steno_err *err);

#endif
