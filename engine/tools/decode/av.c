/* avformat_find_stream_info is not called: it reads seconds of a live stream ahead, and opens video
 * decoders. What it would find out (rate, channels, sample format) the audio decoder says itself
 * with its first frame. Formats without a header (MPEG-TS) show their streams while packets are
 * read.
 *
 * libswresample turns every frame into f32 of the first frame's rate and channels, so that a stream
 * that changes in the middle keeps one clock. Frames lie where the container says (timeline.h). */
#include "tools/decode/av.h"

#include "tools/decode/boxes.h"
#include "tools/decode/timeline.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/avstring.h>
#include <libavutil/channel_layout.h>
#include <libavutil/opt.h>
#include <libswresample/swresample.h>

#include <stdio.h>
#include <string.h>

#define IO_BYTES 16384
#define MAX_STREAMS 64
#define MAX_BLIND_PACKETS 4096 /* read before an audio stream shows itself */
#define MAX_DAMAGED_PACKETS 20 /* at the beginning, before the first that can be decoded */
#define MAX_ALLOC ((size_t)64 << 20)
#define MAX_CHANNELS 64
#define OUT_FLOATS (STENO_DECODE_BODY_MAX / sizeof(float))

static const char formats[] =
    "matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,aac,amr,asf,ac3,eac3,gsm,ogg,caf,flac,mpegts,mpeg,avi,"
    "flv,wav,aiff,au,w64,mp3,wv,tta,ape,dts,rm";
/* Containers that say when a packet is heard, and those among them whose clock begins at zero. The
 * zero of the others is the first packet of any stream. */
static const char timed[] = "matroska,mov,avi,mpegts,mpeg,flv,asf,rm";
static const char from_zero[] = "matroska,mov,avi";
static const char codecs[] =
    "aac,aac_latm,ac3,eac3,alac,amrnb,amrwb,ape,cook,dca,flac,g722,g723_1,g726,g729,gsm,gsm_ms,"
    "ilbc,"
    "mp1,mp1float,mp2,mp2float,mp3float,mp3,nellymoser,opus,qcelp,ra_144,ra_288,sipr,speex,tta,"
    "vorbis,"
    "wavpack,wmav1,wmav2,wmapro,wmavoice,wmalossless,mlp,truehd,adpcm_ima_wav,adpcm_ima_qt,"
    "adpcm_ms,adpcm_swf,adpcm_yamaha,pcm_alaw,pcm_mulaw,pcm_s8,pcm_u8,pcm_s16le,pcm_s16be,"
    "pcm_s24le,pcm_s24be,pcm_s32le,pcm_s32be,pcm_f32le,pcm_f32be,pcm_f64le,pcm_f64be,pcm_bluray,"
    "pcm_dvd,pcm_lxf,pcm_u16le,pcm_u16be";

struct decoder {
    const struct steno_av_io *io;
    int64_t pos;
    bool read_failed;
    struct steno_boxes boxes; /* of a stream */
    steno_err damage;         /* what is wrong with them */
    AVFormatContext *ic;
    AVCodecContext *dec;
    SwrContext *swr;
    AVPacket *packet;
    AVFrame *frame;
    int stream;
    struct steno_decode_format format; /* sample_rate 0: no frame yet */
    AVChannelLayout layout;            /* of the output */
    int in_rate, in_format;            /* what swr is set up for */
    AVChannelLayout in_layout;
    struct steno_timeline timeline;
    bool timed, from_zero; /* the container */
    int64_t zero;          /* of its clock, in 1/AV_TIME_BASE s; AV_NOPTS_VALUE: not known yet */
    struct steno_decode_end end;
    float out[OUT_FLOATS];
};

static steno_status fail_av(steno_err *err, int rc, const char *what)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    av_strerror(rc, text, sizeof text);
    return steno_fail(err, rc == AVERROR(ENOMEM) ? STENO_ERR_NOMEM : STENO_ERR_FORMAT, "%s: %s",
                      what, text);
}

/* ---- input ----------------------------------------------------------------------------------- */

static int on_read(void *opaque, uint8_t *buf, int n)
{
    struct decoder *d = opaque;
    int64_t k;
    if (d->damage.code)
        return AVERROR_INVALIDDATA;
    k = d->io->read(d->io->ctx, buf, (size_t)n);
    d->read_failed |= k < 0;
    if (k > 0 && d->io->size < 0) {
        k = (int64_t)steno_boxes_take(&d->boxes, buf, (size_t)k, &d->damage);
        if (!k)
            return AVERROR_INVALIDDATA;
    }
    if (k <= 0)
        return k ? AVERROR(EIO) : AVERROR_EOF;
    d->pos += k;
    return (int)k;
}

static int64_t on_seek(void *opaque, int64_t offset, int whence)
{
    struct decoder *d = opaque;
    int64_t to;
    whence &= ~AVSEEK_FORCE;
    if (whence == AVSEEK_SIZE)
        return d->io->size;
    to = whence == SEEK_CUR ? d->pos : whence == SEEK_END ? d->io->size : 0;
    if (__builtin_add_overflow(to, offset, &to) || to < 0)
        return AVERROR(EINVAL);
    d->pos = to < d->io->size ? to : d->io->size;
    d->io->seek(d->io->ctx, d->pos);
    return to;
}

static steno_status open_input(struct decoder *d, const char *demuxer, steno_err *err)
{
    unsigned char *buf = av_malloc(IO_BYTES);
    const AVInputFormat *fmt = *demuxer ? av_find_input_format(demuxer) : NULL;
    int rc;
    d->ic = avformat_alloc_context();
    if (d->ic && buf)
        d->ic->pb = avio_alloc_context(buf, IO_BYTES, 0, d, on_read, NULL,
                                       d->io->size >= 0 ? on_seek : NULL);
    if (!d->ic || !d->ic->pb) {
        av_free(buf);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    d->ic->max_streams = MAX_STREAMS;
    d->ic->flags |= AVFMT_FLAG_CUSTOM_IO;
    d->ic->format_whitelist = av_strdup(formats);
    d->ic->codec_whitelist = av_strdup(codecs);
    d->ic->protocol_whitelist = av_strdup("none");
    if (*demuxer && !fmt)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "FFmpeg has no format '%s'", demuxer);
    AVIOContext *pb = d->ic->pb;
    rc = avformat_open_input(&d->ic, "", fmt, NULL); /* frees ic when it fails, but not pb */
    if (rc) {
        av_freep(&pb->buffer);
        avio_context_free(&pb);
    }
    if (rc == AVERROR_INVALIDDATA && !strcmp(demuxer, "mov"))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "its index (moov) is missing or damaged: was the file cut off, or is it "
                          "still being written?");
    if (rc == AVERROR(ENOMEM))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "its index is damaged: it asks for more memory than a file needs");
    return rc ? fail_av(err, rc, "the file cannot be opened") : STENO_OK;
}

/* The audio stream to decode; -1 = none yet. */
static int find_audio(const AVFormatContext *ic)
{
    int first = -1;
    for (unsigned i = 0; i < ic->nb_streams; i++) {
        if (ic->streams[i]->codecpar->codec_type != AVMEDIA_TYPE_AUDIO)
            continue;
        if (ic->streams[i]->disposition & AV_DISPOSITION_DEFAULT)
            return (int)i;
        if (first < 0)
            first = (int)i;
    }
    return first;
}

/* lead: frames of silence before the track, which its own length does not contain. */
static int64_t stated_frames(const struct decoder *d, int rate, int64_t lead)
{
    const AVStream *s = d->ic->streams[d->stream];
    if (s->duration > 0)
        return av_rescale_q(s->duration, s->time_base, (AVRational){1, rate}) + lead;
    /* the file's length may be that of its video */
    if (d->ic->nb_streams == 1 && d->ic->duration > 0)
        return av_rescale(d->ic->duration, rate, AV_TIME_BASE);
    return -1;
}

static void discard_others(struct decoder *d)
{
    for (unsigned i = 0; i < d->ic->nb_streams; i++)
        if ((int)i != d->stream)
            d->ic->streams[i]->discard = AVDISCARD_ALL;
}

static void copy_name(char out[16], const char *name)
{
    size_t n = strcspn(name, ",");
    snprintf(out, 16, "%.*s", (int)n, name);
}

static steno_status open_decoder(struct decoder *d, steno_err *err)
{
    const AVStream *s = d->ic->streams[d->stream];
    const AVCodec *codec = avcodec_find_decoder(s->codecpar->codec_id);
    int rc;
    if (d->from_zero || !d->timed)
        discard_others(d);
    if (!codec || codec->type != AVMEDIA_TYPE_AUDIO)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "no decoder for its audio (%s)",
                          avcodec_get_name(s->codecpar->codec_id));
    d->dec = avcodec_alloc_context3(codec);
    if (!d->dec)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    rc = avcodec_parameters_to_context(d->dec, s->codecpar);
    d->dec->pkt_timebase = s->time_base;
    d->dec->thread_count = 1;
    d->dec->codec_whitelist = av_strdup(codecs);
    if (!rc)
        rc = avcodec_open2(d->dec, codec, NULL);
    if (rc == AVERROR(EINVAL) || rc == AVERROR_PATCHWELCOME)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "its audio (%s) is not supported",
                          codec->name);
    return rc ? fail_av(err, rc, "its audio decoder does not start") : STENO_OK;
}

/* ---- time ------------------------------------------------------------------------------------ */

static void learn_container(struct decoder *d)
{
    d->timed = av_match_list(d->ic->iformat->name, timed, ',') > 0;
    d->from_zero = av_match_list(d->ic->iformat->name, from_zero, ',') > 0;
    d->zero = d->from_zero ? 0 : AV_NOPTS_VALUE;
}

/* Of a clock that may be right: differences fit. */
static bool is_time(int64_t t)
{
    return t > INT64_MIN / 4 && t < INT64_MAX / 4;
}

/* Packets of all streams, until the first frame, tell the zero of a clock that begins anywhere. */
static void learn_zero(struct decoder *d)
{
    const AVPacket *p = d->packet;
    const int64_t t = p->pts == AV_NOPTS_VALUE ? p->dts : p->pts;
    int64_t at;
    if (d->from_zero || d->format.sample_rate || t == AV_NOPTS_VALUE)
        return;
    at = av_rescale_q(t, d->ic->streams[p->stream_index]->time_base, AV_TIME_BASE_Q);
    if (is_time(at) && (d->zero == AV_NOPTS_VALUE || at < d->zero))
        d->zero = at;
}

/* Frames of silence before the frame that was decoded. */
static int64_t silence_before(struct decoder *d)
{
    const AVFrame *f = d->frame;
    const int rate = (int)d->format.sample_rate;
    const int64_t n = av_rescale(f->nb_samples, rate, f->sample_rate);
    int64_t t = f->best_effort_timestamp;
    if (d->timed && t != AV_NOPTS_VALUE && d->zero != AV_NOPTS_VALUE) {
        t = av_rescale_q(t, d->ic->streams[d->stream]->time_base, (AVRational){1, rate});
        if (is_time(t))
            return steno_timeline_take(&d->timeline, t - av_rescale(d->zero, rate, AV_TIME_BASE),
                                       n);
    }
    steno_timeline_go_on(&d->timeline, n);
    return 0;
}

/* ---- output ---------------------------------------------------------------------------------- */

static void begin_timeline(struct decoder *d)
{
    d->format.sample_rate = (uint32_t)d->frame->sample_rate;
    d->timeline = (struct steno_timeline){.rate = d->frame->sample_rate,
                                          .joined = d->io->size < 0,
                                          .restarts = d->ic->iformat->flags & AVFMT_TS_DISCONT};
    discard_others(d);
}

static steno_status begin_output(struct decoder *d, int64_t silence, steno_err *err)
{
    const AVFrame *f = d->frame;
    d->format.channels = (uint32_t)f->ch_layout.nb_channels;
    d->format.frames = stated_frames(d, f->sample_rate, silence);
    copy_name(d->format.container, d->ic->iformat->name);
    copy_name(d->format.codec, avcodec_get_name(d->dec->codec_id));
    if (av_channel_layout_copy(&d->layout, &f->ch_layout))
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    return d->io->format(d->io->ctx, &d->format);
}

/* Deliver what libswresample makes of n frames of input; in NULL: of those that it still has. It
 * keeps what does not fit `out` for the next call. */
static steno_status convert(struct decoder *d, const uint8_t **in, int n, steno_err *err)
{
    const int room = (int)(OUT_FLOATS / d->format.channels);
    steno_status st = STENO_OK;
    int k = room;
    while (!st && k == room) {
        uint8_t *out = (uint8_t *)d->out;
        k = swr_convert(d->swr, &out, room, in, n);
        if (k < 0)
            return fail_av(err, k, "its samples cannot be converted");
        if (k)
            st = d->io->samples(d->io->ctx, d->out, (size_t)k);
        n = 0;
    }
    return st;
}

static steno_status put_silence(struct decoder *d, int64_t frames)
{
    const int64_t room = (int64_t)(OUT_FLOATS / d->format.channels);
    steno_status st = STENO_OK;
    memset(d->out, 0, frames ? sizeof d->out : 0);
    for (int64_t n; frames > 0 && !st; frames -= n) {
        n = frames < room ? frames : room;
        st = d->io->samples(d->io->ctx, d->out, (size_t)n);
    }
    return st;
}

static steno_status set_up_swr(struct decoder *d, steno_err *err)
{
    AVFrame *f = d->frame;
    int rc;
    if (d->swr) {
        steno_status st = convert(d, NULL, 0, err);
        if (st)
            return st;
        swr_free(&d->swr);
    }
    rc =
        swr_alloc_set_opts2(&d->swr, &d->layout, AV_SAMPLE_FMT_FLT, (int)d->format.sample_rate,
                            &f->ch_layout, (enum AVSampleFormat)f->format, f->sample_rate, 0, NULL);
    if (!rc)
        rc = swr_init(d->swr);
    if (!rc)
        rc = av_channel_layout_copy(&d->in_layout, &f->ch_layout);
    d->in_rate = f->sample_rate;
    d->in_format = f->format;
    return rc < 0 ? fail_av(err, rc, "its samples cannot be converted") : STENO_OK;
}

static steno_status take_frame(struct decoder *d, steno_err *err)
{
    const AVFrame *f = d->frame;
    const bool first = !d->format.sample_rate;
    steno_status st = STENO_OK;
    int64_t silence;
    if (f->nb_samples <= 0)
        return STENO_OK;
    if (f->sample_rate <= 0 || f->ch_layout.nb_channels < 1 ||
        f->ch_layout.nb_channels > MAX_CHANNELS)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "%d channels at %d Hz (at most %d channels)",
                          f->ch_layout.nb_channels, f->sample_rate, MAX_CHANNELS);
    if (first)
        begin_timeline(d);
    silence = silence_before(d);
    if (first)
        st = begin_output(d, silence, err);
    if (!st)
        st = put_silence(d, silence);
    if (!st && (!d->swr || f->sample_rate != d->in_rate || f->format != d->in_format ||
                av_channel_layout_compare(&f->ch_layout, &d->in_layout)))
        st = set_up_swr(d, err);
    return st ? st : convert(d, (const uint8_t **)(void *)f->extended_data, f->nb_samples, err);
}

/* Decode a packet; NULL = the frames that the decoder still has. */
static steno_status decode(struct decoder *d, const AVPacket *p, steno_err *err)
{
    int rc = avcodec_send_packet(d->dec, p);
    steno_status st = STENO_OK;
    if (rc == AVERROR(ENOMEM))
        return fail_av(err, rc, "decoding");
    d->end.damaged += rc < 0 && p != NULL;
    while (!st && (rc = avcodec_receive_frame(d->dec, d->frame)) >= 0) {
        st = take_frame(d, err);
        av_frame_unref(d->frame);
    }
    if (st || rc == AVERROR(EAGAIN) || rc == AVERROR_EOF)
        return st;
    if (rc == AVERROR(ENOMEM))
        return fail_av(err, rc, "decoding");
    d->end.damaged++;
    return STENO_OK;
}

/* Whether a live MP4 has brought nothing but damaged packets. (Of other formats the reader counts
 * bytes, fewer than of an MP4, which may begin with a picture.) */
static bool hopeless(const struct decoder *d)
{
    return d->boxes.at && !d->boxes.foreign && !d->format.sample_rate &&
           d->end.damaged > MAX_DAMAGED_PACKETS;
}

static steno_status take_packets(struct decoder *d, steno_err *err)
{
    steno_status st = STENO_OK;
    int rc, blind = 0;
    learn_container(d);
    d->stream = find_audio(d->ic);
    if (d->stream >= 0)
        st = open_decoder(d, err);
    while (!st && (rc = av_read_frame(d->ic, d->packet)) >= 0) {
        learn_zero(d);
        if (!d->dec && (d->stream = find_audio(d->ic)) >= 0)
            st = open_decoder(d, err);
        if (!d->dec && ++blind > MAX_BLIND_PACKETS)
            st = steno_fail(err, STENO_ERR_FORMAT, "there is no audio in its beginning");
        if (!st && d->dec && d->packet->stream_index == d->stream) {
            d->end.truncated |= (d->packet->flags & AV_PKT_FLAG_CORRUPT) != 0;
            st = decode(d, d->packet, err);
            if (!st && hopeless(d))
                st = steno_fail(err, STENO_ERR_FORMAT, "none of its audio can be decoded");
        }
        av_packet_unref(d->packet);
    }
    if (st)
        return st;
    if (!d->dec)
        return steno_fail(err, STENO_ERR_FORMAT, "there is no audio in it");
    d->end.truncated |= rc != AVERROR_EOF;
    st = decode(d, NULL, err);
    return st || !d->swr ? st : convert(d, NULL, 0, err);
}

static void close_all(struct decoder *d)
{
    av_packet_free(&d->packet);
    av_frame_free(&d->frame);
    swr_free(&d->swr);
    avcodec_free_context(&d->dec);
    av_channel_layout_uninit(&d->layout);
    av_channel_layout_uninit(&d->in_layout);
    if (d->ic) {
        AVIOContext *pb = d->ic->pb;
        avformat_close_input(&d->ic);
        if (pb)
            av_freep(&pb->buffer);
        avio_context_free(&pb);
    }
}

steno_status steno_av_decode(const struct steno_av_io *io, const char *demuxer,
                             struct steno_decode_end *end, steno_err *err)
{
    struct decoder *d = av_mallocz(sizeof *d);
    steno_status st;
    if (!d)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    av_log_set_level(AV_LOG_QUIET);
    av_max_alloc(MAX_ALLOC);
    d->io = io;
    d->packet = av_packet_alloc();
    d->frame = av_frame_alloc();
    st = d->packet && d->frame ? open_input(d, demuxer, err)
                               : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (!st)
        st = take_packets(d, err);
    if (d->damage.code && (!st || *err->msg)) { /* the cause, unless the reader is gone */
        st = d->damage.code;
        *err = d->damage;
    }
    if (!st && d->read_failed)
        st = steno_fail(err, STENO_ERR_IO, "reading the input failed");
    if (!st && !d->format.sample_rate && io->size < 0 && !strcmp(demuxer, "mov"))
        st = steno_fail(err, STENO_ERR_UNSUPPORTED,
                        "an MP4 whose index (moov) stands behind its audio cannot be streamed: "
                        "upload it, or write it in fragments");
    if (!st && !d->format.sample_rate)
        st = steno_fail(err, STENO_ERR_FORMAT, "none of its audio can be decoded");
    if (!st)
        *end = d->end;
    close_all(d);
    av_free(d);
    return st;
}
