/* Where a container's sound lies on the container's clock: silence for what it leaves out, at its
 * beginning (a track that starts late, an empty edit) and between (lost or damaged packets, a pause
 * in which nothing was sent). Then sample k lies at second k / rate of the container, as in players
 * and in `ffmpeg -af aresample=async=1`. Pure. Confined. */
#ifndef STENO_DECODE_TIMELINE_H
#define STENO_DECODE_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

struct steno_timeline {
    int rate;      /* samples per second, of all times here */
    bool begun;    /* a frame has come */
    bool joined;   /* a live stream: it may begin long after its clock */
    bool restarts; /* the clock may jump (MPEG-TS): what is long is no pause */
    int64_t ahead; /* of the container's clock before ours */
    int64_t at;    /* samples so far, with the silence */
};

/* n samples come, of which the container says that they begin at `time` (samples after its zero).
 * Returns the number of samples of silence that go before them. Samples are never dropped: where
 * times overlap, later pauses become shorter until the clocks agree. */
int64_t steno_timeline_take(struct steno_timeline *t, int64_t time, int64_t n);
/* The same for samples without a time. */
void steno_timeline_go_on(struct steno_timeline *t, int64_t n);

#endif
