/* One struct for all origins. audio/source.h hides whether the bytes come from memory, a file or a
 * pipe; `fill` hides which reader decodes. All readers give blocks of interleaved samples, which
 * steno_audio_read mixes to mono. Links of a chain may differ in rate and channels: their blocks
 * are brought to the rate of the first. */
#include "speech/audio/file.h"

#include "base/little_endian.h"
#include "speech/audio/detect.h"
#include "speech/audio/mpeg.h"
#include "speech/audio/ogg_opus.h"
#include "speech/audio/ogg_vorbis.h"
#include "speech/audio/resample.h"
#include "speech/audio/source.h"
#include "speech/audio/wav.h"

#include <errno.h>
#include <inttypes.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN_BYTES 65536
#define BLOCK_SAMPLES 8192                      /* interleaved */
#define LEAST_ROOM STENO_OPUS_MAX_FRAMES(48000) /* of our own readers */
#define PIPE_BYTES_DEFAULT ((size_t)512 << 20)
#define MAX_WAV_HEADER (1 << 20) /* of a pipe, up to which libsndfile may begin anew */
#define MPEG_LOST 2304           /* samples that a decoder may drop at its start: two frames */
#define MAX_MONO_BYTES ((size_t)16 << 20)

struct steno_audio {
    struct steno_source src;
    struct steno_audio_options opt;
    struct steno_audio_info info;
    int64_t delivered, limit; /* frames; limit -1 = none */
    int last_errno;
    bool exact; /* info.frames cannot be more than there are */

    steno_wav *wav;
    steno_ogg_opus *opus;
    steno_ogg_vorbis *vorbis;
    steno_mpeg *mpeg;
    SNDFILE *snd;
    steno_container *container;
    const char *container_name; /* for people */
    struct steno_container_info decoded;
    bool ready;                 /* the info is filled in and checked */
    const unsigned char *input; /* [in_len], of which in_at are used: `in`, or the recording */
    size_t in_at, in_len;
    unsigned char in[IN_BYTES];

    const float *at; /* the samples to deliver next: [block_frames, channels] */
    size_t block_frames;
    unsigned channels;
    int rate;
    bool ended;
    float *out; /* [room] where our own readers decode to: `block`, or where samples are wanted */
    size_t room;
    float block[BLOCK_SAMPLES];

    /* blocks of another rate than the first one's */
    steno_resampler *resampler;
    int resampled; /* its input rate */
    struct steno_buf mono;
};

/* ---- our own readers -------------------------------------------------------------------------*/

/* Go on to more input if it is used up; *end at the end of the input. */
static steno_status refill(steno_audio *a, bool *end, steno_err *err)
{
    ssize_t k;
    *end = false;
    if (a->in_at < a->in_len)
        return STENO_OK;
    k = steno_source_next(&a->src, a->in, sizeof a->in, &a->input);
    if (k < 0)
        return steno_source_error(&a->src, errno, err);
    *end = !k;
    a->in_at = 0;
    a->in_len = (size_t)k;
    return STENO_OK;
}

static void set_block(steno_audio *a, const float *at, size_t frames, int rate, unsigned channels)
{
    a->at = at;
    a->block_frames = frames;
    a->rate = rate;
    a->channels = channels;
}

static void decode_to(steno_audio *a, float *out, size_t room)
{
    a->out = out;
    a->room = room;
}

static steno_status fill_wav(steno_audio *a, steno_err *err)
{
    steno_status st;
    size_t used, frames = 0;
    while (!frames) {
        st = refill(a, &a->ended, err);
        if (st || a->ended)
            return st ? st : steno_wav_end(a->wav, &a->info.truncated, err);
        st = steno_wav_push(a->wav, a->input + a->in_at, a->in_len - a->in_at, &used, a->out,
                            a->room, &frames, err);
        if (st && st != STENO_NEED_MORE)
            return st;
        a->in_at += used;
        if (a->src.pos > MAX_WAV_HEADER)
            steno_source_stream(&a->src);
    }
    set_block(a, a->out, frames, steno_wav_info(a->wav)->sample_rate,
              steno_wav_info(a->wav)->channels);
    return STENO_OK;
}

static int64_t frames_expected(const struct steno_wav_info *w, int64_t size)
{
    uint64_t align = w->channels * steno_pcm_bytes(w->format), there;
    if (size < 0)
        return w->frames;
    there = ((uint64_t)size - w->data_offset) / align;
    return w->frames < 0 || (uint64_t)w->frames > there ? (int64_t)there : w->frames;
}

static steno_status open_wav(steno_audio *a, const struct steno_raw_audio *raw, steno_err *err)
{
    const struct steno_wav_info *w;
    steno_status st;
    a->wav =
        raw ? steno_wav_new_raw(raw->format, raw->sample_rate, raw->channels) : steno_wav_new();
    if (!a->wav)
        return steno_fail(err, STENO_ERR_NOMEM, "audio: out of memory");
    st = fill_wav(a, err); /* up to the first samples, or the end */
    if (st)
        return st;
    steno_source_stream(&a->src);
    w = steno_wav_info(a->wav);
    a->info.sample_rate = w->sample_rate;
    a->info.channels = w->channels;
    a->info.format = raw ? "raw" : "wav";
    a->info.codec = steno_pcm_name(w->format);
    a->info.frames = frames_expected(w, a->src.size);
    a->exact = true;
    return STENO_OK;
}

static steno_status fill_opus(steno_audio *a, steno_err *err)
{
    steno_status st;
    size_t used, made = 0;
    while (!made) {
        st = refill(a, &a->ended, err);
        if (st || a->ended)
            return st ? st : steno_ogg_opus_end(a->opus, &a->info.truncated, err);
        st = steno_ogg_opus_push(a->opus, a->input + a->in_at, a->in_len - a->in_at, &used, a->out,
                                 a->room, &made, err);
        if (st && st != STENO_NEED_MORE)
            return st;
        a->in_at += used;
        a->info.gaps = steno_ogg_opus_gaps(a->opus);
    }
    set_block(a, a->out, made, a->info.sample_rate, 1); /* already mono */
    return STENO_OK;
}

/* The rate is that of the encoder's input (RFC 7845 section 5.1, field 5). */
static int opus_rate(steno_audio *a)
{
    unsigned char page[27 + 255 + 16];
    ssize_t n = steno_source_peek(&a->src, 0, page, 27); /* no more: a live pipe has no more yet */
    const unsigned char *field = page + 27 + (n == 27 ? page[26] : 0) + 12;
    uint32_t rate;
    n = steno_source_peek(&a->src, 0, page, (size_t)(field + 4 - page));
    if (n < field + 4 - page || memcmp(field - 12, "OpusHead", 8))
        return 48000; /* behind other streams: the rate does not matter enough to look for it */
    rate = steno_le32(field);
    return rate && rate < 48000 ? steno_opus_rate_for((int)rate) : 48000;
}

/* The position that the last page of a file states, in samples at its granule rate: the length,
 * unless it is a chain. -1 = unknown. */
static int64_t last_granule(steno_audio *a)
{
    int64_t from = a->src.size > IN_BYTES ? a->src.size - IN_BYTES : 0, granule = -1;
    ssize_t n = a->src.size < 0 ? 0 : steno_source_peek(&a->src, from, a->in, sizeof a->in);
    for (ssize_t i = n - 27; i >= 0 && granule < 0; i--)
        if (!memcmp(a->in + i, "OggS", 4))
            for (int b = 7; b >= 0; b--)
                granule = (int64_t)((uint64_t)granule << 8 | a->in[i + 6 + b]);
    return granule;
}

static steno_status open_opus(steno_audio *a, steno_err *err)
{
    steno_status st;
    int64_t end;
    a->info.sample_rate = opus_rate(a);
    a->info.format = "ogg";
    a->info.codec = "opus";
    end = last_granule(a);
    a->info.frames = end < 0 || end > INT64_MAX / 192000 ? -1 : end * a->info.sample_rate / 48000;
    steno_source_stream(&a->src);
    st = steno_ogg_opus_open(&a->opus, a->info.sample_rate, a->opt.channel, err);
    if (!st)
        st = fill_opus(a, err);
    a->info.channels = steno_ogg_opus_channels(a->opus);
    return st;
}

static steno_status check_layout(int rate, int channels, steno_err *err)
{
    if (rate < STENO_RATE_MIN || rate > STENO_RATE_MAX)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "sample rate %d Hz is outside %d to %d", rate,
                          STENO_RATE_MIN, STENO_RATE_MAX);
    if (channels < 1 || channels > STENO_CHANNELS_MAX)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "%d channels (1 to %d are possible)",
                          channels, STENO_CHANNELS_MAX);
    return STENO_OK;
}

static steno_status end_vorbis(steno_audio *a, steno_err *err)
{
    return steno_ogg_vorbis_end(a->vorbis, &a->info.truncated, err);
}

static steno_status fill_vorbis(steno_audio *a, steno_err *err)
{
    struct steno_ogg_vorbis_info v;
    size_t frames = 0;
    steno_status st;
    while ((st = steno_ogg_vorbis_read(a->vorbis, a->block, BLOCK_SAMPLES, &frames, err)) ==
           STENO_NEED_MORE) {
        st = refill(a, &a->ended, err);
        if (st || a->ended)
            return st ? st : end_vorbis(a, err);
        st = steno_ogg_vorbis_feed(a->vorbis, a->input, a->in_len, err);
        if (st)
            return st;
        a->in_at = a->in_len;
    }
    if (st)
        return st;
    steno_ogg_vorbis_get_info(a->vorbis, &v);
    a->info.gaps = v.gaps;
    steno_pcm_clean(a->block, frames * v.channels, a->block);
    set_block(a, a->block, frames, v.sample_rate, v.channels);
    return check_layout(v.sample_rate, (int)v.channels, err);
}

static steno_status open_vorbis(steno_audio *a, steno_err *err)
{
    struct steno_ogg_vorbis_info v;
    int64_t end = last_granule(a);
    steno_status st;
    steno_source_stream(&a->src);
    st = steno_ogg_vorbis_open(&a->vorbis, err);
    if (!st)
        st = fill_vorbis(a, err);
    if (st)
        return st;
    steno_ogg_vorbis_get_info(a->vorbis, &v);
    a->info.sample_rate = v.sample_rate;
    a->info.channels = v.channels;
    a->info.format = "ogg";
    a->info.codec = "vorbis";
    a->info.frames = end;
    return check_layout(v.sample_rate, (int)v.channels, err);
}

static steno_status fill_mpeg(steno_audio *a, steno_err *err)
{
    struct steno_mpeg_info m;
    const float *x = NULL;
    size_t frames = 0;
    steno_status st;
    while ((st = steno_mpeg_read(a->mpeg, &x, &frames, err)) == STENO_NEED_MORE) {
        st = refill(a, &a->ended, err);
        if (st)
            return st;
        steno_mpeg_get_info(a->mpeg, &m);
        if (a->ended) {
            a->info.truncated = m.samples + MPEG_LOST < m.stated;
            return STENO_OK;
        }
        st = steno_mpeg_feed(a->mpeg, a->input, a->in_len, err);
        if (st)
            return st;
        a->in_at = a->in_len;
    }
    if (st)
        return st;
    steno_mpeg_get_info(a->mpeg, &m);
    if (frames * m.channels > BLOCK_SAMPLES)
        return steno_fail(err, STENO_ERR_INTERNAL, "MPEG audio: a frame of %zu samples", frames);
    steno_pcm_clean(x, frames * m.channels, a->block);
    set_block(a, a->block, frames, m.sample_rate, m.channels);
    return check_layout(m.sample_rate, (int)m.channels, err);
}

static steno_status open_mpeg(steno_audio *a, steno_err *err)
{
    struct steno_mpeg_info m;
    ssize_t n;
    steno_status st = steno_mpeg_open(&a->mpeg, err);
    if (st)
        return st;
    n = steno_source_peek(&a->src, 0, a->in, 4); /* no more: a live pipe has no more yet */
    if (n == 4)
        n = steno_source_peek(&a->src, 0, a->in, steno_mpeg_frame_bytes(a->in, NULL));
    if (n > 0)
        steno_mpeg_read_length(a->mpeg, a->in, (size_t)n);
    steno_source_stream(&a->src);
    st = fill_mpeg(a, err);
    if (st)
        return st;
    steno_mpeg_get_info(a->mpeg, &m);
    if (!m.sample_rate)
        return steno_fail(err, STENO_ERR_FORMAT, "mp3: there is no whole frame");
    a->info.sample_rate = m.sample_rate;
    a->info.channels = m.channels;
    a->info.format = "mp3";
    a->info.codec = "mpeg";
    a->info.frames = m.stated;
    return check_layout(m.sample_rate, (int)m.channels, err);
}

/* ---- libsndfile ------------------------------------------------------------------------------*/

static sf_count_t vio_size(void *user)
{
    const steno_audio *a = user;
    return a->src.size;
}

static sf_count_t vio_seek(sf_count_t offset, int whence, void *user)
{
    struct steno_source *s = &((steno_audio *)user)->src;
    int64_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? s->pos : s->size, to;
    if (!__builtin_add_overflow(from, (int64_t)offset, &to) && to >= 0)
        s->pos = to;
    return s->pos;
}

static sf_count_t vio_read(void *ptr, sf_count_t n, void *user)
{
    steno_audio *a = user;
    sf_count_t got = 0;
    while (got < n) {
        ssize_t k = steno_source_read(&a->src, (char *)ptr + got, (size_t)(n - got));
        if (k < 0)
            a->last_errno = errno;
        if (k <= 0)
            break;
        got += k;
    }
    return got;
}

static sf_count_t vio_tell(void *user)
{
    return ((const steno_audio *)user)->src.pos;
}

static const char *container_name(int format)
{
    switch (format & SF_FORMAT_TYPEMASK) {
    case SF_FORMAT_FLAC:
        return "flac";
    case SF_FORMAT_OGG:
        return "ogg";
    case SF_FORMAT_MPEG:
        return "mp3";
    case SF_FORMAT_AIFF:
        return "aiff";
    case SF_FORMAT_AU:
        return "au";
    case SF_FORMAT_CAF:
        return "caf";
    case SF_FORMAT_W64:
        return "w64";
    case SF_FORMAT_WAV:
    case SF_FORMAT_WAVEX:
        return "wav";
    default:
        return "other";
    }
}

static const char *codec_name(int format)
{
    switch (format & SF_FORMAT_SUBMASK) {
    case SF_FORMAT_PCM_S8:
        return "s8";
    case SF_FORMAT_PCM_U8:
        return "u8";
    case SF_FORMAT_PCM_16:
        return "s16";
    case SF_FORMAT_PCM_24:
        return "s24";
    case SF_FORMAT_PCM_32:
        return "s32";
    case SF_FORMAT_FLOAT:
        return "f32";
    case SF_FORMAT_DOUBLE:
        return "f64";
    case SF_FORMAT_ULAW:
        return "mulaw";
    case SF_FORMAT_ALAW:
        return "alaw";
    case SF_FORMAT_IMA_ADPCM:
        return "ima_adpcm";
    case SF_FORMAT_MS_ADPCM:
        return "ms_adpcm";
    case SF_FORMAT_GSM610:
        return "gsm";
    case SF_FORMAT_VORBIS:
        return "vorbis";
    case SF_FORMAT_OPUS:
        return "opus";
    case SF_FORMAT_MPEG_LAYER_I:
    case SF_FORMAT_MPEG_LAYER_II:
    case SF_FORMAT_MPEG_LAYER_III:
        return "mpeg";
    default:
        return "other";
    }
}

static steno_status open_sndfile(steno_audio *a, steno_err *err)
{
    SF_VIRTUAL_IO vio = {vio_size, vio_seek, vio_read, NULL, vio_tell};
    SF_INFO info;
    memset(&info, 0, sizeof info);
    a->snd = sf_open_virtual(&vio, SFM_READ, &info, a);
    if (a->last_errno)
        return steno_source_error(&a->src, a->last_errno, err);
    if (!a->snd) /* the error text of a failed open is one global of libsndfile; it is good enough
                    to show */
        return steno_fail(err, STENO_ERR_FORMAT, "the audio cannot be opened: %s",
                          sf_strerror(NULL));
    a->info.sample_rate = info.samplerate;
    a->info.channels = (unsigned)info.channels;
    a->info.format = container_name(info.format);
    a->info.codec = codec_name(info.format);
    a->info.frames = info.frames > 0 && info.frames < SF_COUNT_MAX ? info.frames : -1;
    return check_layout(info.samplerate, info.channels, err);
}

static steno_status fill_sndfile(steno_audio *a, steno_err *err)
{
    sf_count_t want = BLOCK_SAMPLES / (sf_count_t)a->info.channels, got;
    got = sf_readf_float(a->snd, a->block, want);
    if (a->last_errno)
        return steno_source_error(&a->src, a->last_errno, err);
    if (got <= 0) {
        a->ended = true;
        if (sf_error(a->snd))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: cannot be decoded after %" PRId64 " samples: %s", a->info.format,
                              a->delivered, sf_strerror(a->snd));
        a->info.truncated = a->info.frames > a->delivered;
        return STENO_OK;
    }
    steno_pcm_clean(a->block, (size_t)got * a->info.channels, a->block);
    set_block(a, a->block, (size_t)got, a->info.sample_rate, a->info.channels);
    return STENO_OK;
}

/* ---- containers ------------------------------------------------------------------------------*/

static steno_status fill_container(steno_audio *a, steno_err *err)
{
    const float *x = NULL;
    size_t frames = 0;
    steno_status st = steno_container_read(a->container, !a->opt.dont_wait, &x, &frames, err);
    if (st)
        return st == STENO_NEED_MORE ? st : steno_fail_in(err, st, "%s", a->container_name);
    steno_container_get_info(a->container, &a->decoded);
    a->ended = !frames;
    a->info.gaps = a->decoded.damaged;
    /* the length that containers state may be rounded up */
    a->info.truncated =
        a->decoded.truncated ||
        (a->ended && a->ready && a->info.frames > a->delivered + a->info.sample_rate);
    set_block(a, x, frames, a->decoded.sample_rate, a->decoded.channels);
    return STENO_OK;
}

static steno_status open_container(steno_audio *a, const struct steno_audio_container *is,
                                   steno_err *err)
{
    const struct steno_container_options opt = {.demuxer = is ? is->demuxer : NULL,
                                                .decoders = a->opt.decoders,
                                                .max_seconds = a->opt.max_seconds};
    steno_status st = steno_source_hold(&a->src, err);
    a->container_name = is ? is->name : "audio";
    if (!st)
        st = steno_container_open(&a->container, &a->src, &opt, err);
    return st ? steno_fail_in(err, st, "%s", a->container_name) : STENO_OK;
}

/* ---- both ------------------------------------------------------------------------------------*/

static void close_readers(steno_audio *a)
{
    if (a->snd)
        sf_close(a->snd);
    a->snd = NULL;
    steno_wav_free(a->wav);
    a->wav = NULL;
    steno_ogg_opus_close(a->opus);
    a->opus = NULL;
    steno_ogg_vorbis_close(a->vorbis);
    a->vorbis = NULL;
    steno_mpeg_close(a->mpeg);
    a->mpeg = NULL;
    steno_container_close(a->container);
    a->container = NULL;
    steno_resampler_close(a->resampler);
    a->resampler = NULL;
    a->in_at = a->in_len = a->block_frames = 0;
    a->src.pos = 0;
    a->ended = a->info.truncated = false;
}

static steno_status check_audio_options(steno_audio *a, steno_err *err)
{
    double seconds = (double)a->info.frames / a->info.sample_rate;
    if (a->opt.channel > a->info.channels)
        return steno_fail(err, STENO_ERR_INVAL, "channel %u was requested, the audio has %u",
                          a->opt.channel, a->info.channels);
    a->limit = -1;
    if (a->opt.max_seconds <= 0)
        return STENO_OK;
    if (seconds > a->opt.max_seconds && a->exact)
        return steno_fail(err, STENO_ERR_LIMIT, "the audio is %.1f s long, the limit is %.1f s",
                          seconds, a->opt.max_seconds);
    if (a->opt.max_seconds < 1e12)
        a->limit = (int64_t)(a->opt.max_seconds * a->info.sample_rate);
    return STENO_OK;
}

/* A recording of an encoding that its first reader lacks (WAV with ADPCM, GSM or AAC, CAF with
 * AAC): libsndfile may support it, else FFmpeg. */
static steno_status open_otherwise(steno_audio *a, const struct steno_audio_container *is,
                                   bool libsndfile, steno_err *err)
{
    steno_err first = err ? *err : (steno_err){0};
    close_readers(a);
    if (libsndfile && steno_source_hold(&a->src, NULL) == STENO_OK &&
        open_sndfile(a, NULL) == STENO_OK)
        return STENO_OK;
    if (is && open_container(a, is, NULL) == STENO_OK)
        return STENO_OK;
    if (err)
        *err = first;
    return first.code ? first.code : STENO_ERR_UNSUPPORTED;
}

static steno_status open_reader(steno_audio *a, enum steno_audio_kind k,
                                const struct steno_audio_container *is, steno_err *err)
{
    steno_status st;
    switch (k) {
    case STENO_AUDIO_WAV:
        st = open_wav(a, NULL, err);
        return st == STENO_ERR_UNSUPPORTED && (!a->src.pipe || a->src.keep)
                   ? open_otherwise(a, is, true, err)
                   : st;
    case STENO_AUDIO_OPUS:
        return open_opus(a, err);
    case STENO_AUDIO_VORBIS:
        return open_vorbis(a, err);
    case STENO_AUDIO_MPEG:
        return open_mpeg(a, err);
    case STENO_AUDIO_CONTAINER:
        return open_container(a, is, err);
    default:
        st = steno_source_hold(&a->src, err);
        if (!st)
            st = open_sndfile(a, err);
        return st && is && strcmp(is->demuxer, "flac") != 0 ? open_otherwise(a, is, false, err)
                                                            : st;
    }
}

static steno_status fill_from_file(steno_audio *a, steno_err *err)
{
    return a->wav         ? fill_wav(a, err)
           : a->opus      ? fill_opus(a, err)
           : a->vorbis    ? fill_vorbis(a, err)
           : a->mpeg      ? fill_mpeg(a, err)
           : a->container ? fill_container(a, err)
                          : fill_sndfile(a, err);
}

/* What a compressed file states may be wrong (a cut file, joined files): before it is refused for
 * its length, its samples are counted. */
static steno_status check_length(steno_audio *a, enum steno_audio_kind k, steno_err *err)
{
    double max = a->opt.max_seconds, seconds;
    int64_t frames = 0;
    steno_status st = STENO_OK;
    if (a->src.pipe || a->exact || max <= 0 || (double)a->info.frames <= max * a->info.sample_rate)
        return STENO_OK;
    seconds = (double)a->info.frames / a->info.sample_rate;
    while (!st && !a->ended && (double)frames <= max * a->info.sample_rate) {
        if (a->block_frames)
            frames += (int64_t)((double)a->block_frames * a->info.sample_rate / a->rate);
        a->block_frames = 0;
        st = fill_from_file(a, NULL);
    }
    if ((double)frames > max * a->info.sample_rate)
        return steno_fail(err, STENO_ERR_LIMIT, "the audio is %.1f s long, the limit is %.1f s",
                          seconds, max);
    close_readers(a);
    return open_reader(a, k, NULL, err);
}

/* Clients name the encoding of WAV files too. */
static bool is_raw(steno_audio *a)
{
    char head[12];
    return a->opt.raw.sample_rate &&
           !(steno_source_peek(&a->src, 0, head, sizeof head) == sizeof head &&
             (!memcmp(head, "RIFF", 4) || !memcmp(head, "RF64", 4)) &&
             !memcmp(head + 8, "WAVE", 4));
}

static steno_status open_raw(steno_audio *a, steno_err *err)
{
    steno_status st = open_wav(a, &a->opt.raw, err);
    return st ? st : steno_audio_ready(a, err);
}

static steno_status open_source(steno_audio *a, steno_err *err)
{
    unsigned char head[STENO_AUDIO_HEAD] = {0};
    size_t n = 0;
    enum steno_audio_kind k = STENO_AUDIO_UNKNOWN;
    steno_status st;
    if (is_raw(a))
        return open_raw(a, err);
    st = steno_audio_detect(&a->src, &k, head, &n, &a->info.junk, err);
    if (st)
        return st;
    if (k == STENO_AUDIO_UNKNOWN)
        return steno_audio_refuse(head, n, err);
    st = open_reader(a, k, steno_audio_container_of(head, n, true), err);
    if (!st && !a->container)
        st = check_length(a, k, err);
    if (!st)
        st = steno_audio_ready(a, err);
    return st == STENO_NEED_MORE ? STENO_OK : st;
}

steno_status steno_audio_ready(steno_audio *a, steno_err *err)
{
    steno_status st = STENO_OK;
    if (a->ready)
        return STENO_OK;
    if (a->container)
        st = fill_container(a, err); /* up to the first samples, or the end */
    if (st)
        return st;
    if (a->container) {
        a->info.sample_rate = a->decoded.sample_rate;
        a->info.channels = a->decoded.channels;
        a->info.frames = a->decoded.frames;
        a->info.format = strcmp(a->decoded.format, "mov") ? a->decoded.format : "mp4";
        a->info.codec = a->decoded.codec;
    }
    st = check_audio_options(a, err);
    a->ready = !st;
    return st;
}

int steno_audio_descriptor(const steno_audio *a)
{
    int readable = -1, writable;
    if (a->container)
        steno_container_descriptors(a->container, &readable, &writable);
    return readable;
}

static steno_status open_any(steno_audio **out, const struct steno_source *src,
                             const struct steno_audio_options *opt, steno_err *err)
{
    steno_audio *a = calloc(1, sizeof *a);
    steno_status st;
    if (!a)
        return steno_fail(err, STENO_ERR_NOMEM, "audio: out of memory");
    a->src = *src;
    decode_to(a, a->block, BLOCK_SAMPLES);
    steno_buf_init(&a->mono, MAX_MONO_BYTES);
    if (opt)
        a->opt = *opt;
    st = open_source(a, err);
    if (st)
        steno_audio_close(a);
    else
        *out = a;
    return st;
}

steno_status steno_audio_open_mem(steno_audio **out, const void *data, size_t n,
                                  const struct steno_audio_options *opt, steno_err *err)
{
    struct steno_source s;
    if (!n || n > INT64_MAX / 2)
        return steno_fail(err, STENO_ERR_FORMAT,
                          n ? "the input is too long" : "the input is empty");
    steno_source_of_memory(&s, data, n);
    return open_any(out, &s, opt, err);
}

steno_status steno_audio_open_fd(steno_audio **out, int fd, const struct steno_audio_options *opt,
                                 steno_err *err)
{
    struct steno_source s;
    size_t max = opt && opt->max_bytes ? opt->max_bytes : PIPE_BYTES_DEFAULT;
    steno_status st = steno_source_of_fd(&s, fd, max, err);
    return st ? st : open_any(out, &s, opt, err);
}

void steno_audio_close(steno_audio *a)
{
    if (!a)
        return;
    close_readers(a);
    steno_source_free(&a->src);
    steno_buf_free(&a->mono);
    free(a);
}

void steno_audio_warning(const struct steno_audio_info *info, double seconds, char *text, size_t n)
{
    size_t at = 0;
    text[0] = 0;
    if (info->truncated)
        snprintf(text, n,
                 strcmp(info->format, "ogg")
                     ? "the recording ends early: its header promises more than the %.3f s that "
                       "are there"
                     : "the recording ends early, after %.3f s: its last page is missing",
                 seconds);
    at = strlen(text);
    if (info->gaps && at < n)
        snprintf(text + at, n - at, "%sthe recording is damaged: %u gaps", at ? "; " : "",
                 info->gaps);
    at = strlen(text);
    if (info->junk && at < n)
        snprintf(text + at, n - at, "%s%zu bytes before the recording were skipped", at ? "; " : "",
                 info->junk);
}

void steno_audio_get_info(const steno_audio *a, struct steno_audio_info *info)
{
    *info = a->info;
}

static steno_status over_limit(const steno_audio *a, steno_err *err)
{
    return steno_fail(err, STENO_ERR_LIMIT, "the audio is longer than the limit of %.1f s",
                      a->opt.max_seconds);
}

static steno_status add_mono(steno_audio *a, const float *x, size_t n, steno_err *err)
{
    steno_status st = steno_buf_add(&a->mono, x, n * sizeof *x);
    return st ? steno_fail(err, STENO_ERR_NOMEM, "audio: out of memory") : STENO_OK;
}

static steno_status flush_resampler(steno_audio *a, steno_err *err)
{
    float out[1024];
    size_t made = 1;
    steno_status st = STENO_OK;
    while (!st && made) {
        st = steno_resampler_flush(a->resampler, out, 1024, &made, err);
        if (!st)
            st = add_mono(a, out, made, err);
    }
    steno_resampler_close(a->resampler);
    a->resampler = NULL;
    return st;
}

static steno_status resample(steno_audio *a, steno_err *err)
{
    float out[1024];
    size_t used, made;
    steno_status st = STENO_OK;
    if (!a->resampler)
        st = steno_resampler_open(&a->resampler, a->rate, a->info.sample_rate, err);
    a->resampled = a->rate;
    for (size_t at = 0; !st && at < a->block_frames; at += used) {
        made = 0;
        st = steno_resampler_push(a->resampler, a->block + at, a->block_frames - at, &used, out,
                                  1024, &made, err);
        if (st == STENO_NEED_MORE)
            return STENO_OK;
        if (!st)
            st = add_mono(a, out, made, err);
    }
    return st;
}

static unsigned wanted_channel(const steno_audio *a)
{
    return a->opt.channel <= a->channels ? a->opt.channel : 0;
}

/* Bring the block to mono at the rate of the first link, behind the rest of a link before it. */
static steno_status adapt(steno_audio *a, steno_err *err)
{
    steno_status st = STENO_OK;
    steno_buf_reset(&a->mono);
    if (a->resampler && (a->ended || a->rate != a->resampled))
        st = flush_resampler(a, err);
    if (!st && a->block_frames) {
        steno_pcm_mix(a->block, a->block_frames, a->channels, wanted_channel(a), a->block);
        st = a->rate == a->info.sample_rate ? add_mono(a, a->block, a->block_frames, err)
                                            : resample(a, err);
    }
    set_block(a, (const float *)(const void *)a->mono.data, a->mono.len / sizeof(float), a->rate,
              1);
    return st;
}

/* Go on to the next frames, at most max: *k of them at *at, interleaved, valid until more are
 * decoded. */
static steno_status take_frames(steno_audio *a, size_t max, const float **at, size_t *k,
                                steno_err *err)
{
    steno_status st;
    while (!a->block_frames && !a->ended) {
        st = fill_from_file(a, err);
        if (!st && (a->resampler || (a->block_frames && a->rate != a->info.sample_rate)))
            st = adapt(a, err);
        if (st)
            return st;
    }
    *k = a->block_frames < max ? a->block_frames : max;
    if (a->limit >= 0 && *k) {
        if (a->delivered >= a->limit)
            return over_limit(a, err);
        if (*k > (uint64_t)(a->limit - a->delivered))
            *k = (size_t)(a->limit - a->delivered);
    }
    *at = a->at;
    a->at += *k * a->channels;
    a->block_frames -= *k;
    a->delivered += (int64_t)*k;
    return STENO_OK;
}

/* Whether the next block can be decoded to where it is wanted, max samples. */
static bool decodes_in_place(const steno_audio *a, size_t max)
{
    return !a->block_frames && a->channels == 1 && (a->wav || a->opus) && max >= LEAST_ROOM;
}

steno_status steno_audio_read(steno_audio *a, float *mono, size_t max, size_t *n, steno_err *err)
{
    const float *at = mono;
    steno_status st;
    if (decodes_in_place(a, max))
        decode_to(a, mono, max);
    st = take_frames(a, max, &at, n, err);
    decode_to(a, a->block, BLOCK_SAMPLES);
    if (!st && at != mono)
        steno_pcm_mix(at, *n, a->channels, wanted_channel(a), mono);
    return st;
}
