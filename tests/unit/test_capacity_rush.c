/* Four minutes of whole machines on a virtual clock: clients come and go, workers run steps of
 * noisy length, other programs begin and end. Who is let in is decided by the capacity. Judged by
 * the streams that run, by steps that end late, by clients refused although there was a place, and
 * by streams that were too many. Always the same numbers; docs/log/2026-11-30.md has those of the
 * policy before. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/pool/capacity.h"
#include "tests/support/test.h"

#define TICK 5e-3         /* s */
#define SECONDS 240       /* of a run */
#define LATE 0.3          /* s from the last sample of a chunk to the end of its step */
#define STREAMS 8192      /* slots */
#define QUEUE (1 << 20)   /* steps that wait */
#define SOCKETS 150e-6    /* s per s of live audio, of the process */
#define WORKERS_BUSY 0.85 /* capacity.c */

struct scene {
    const char *name;
    int cpus, workers;
    double chunk;   /* s */
    double own;     /* s of a worker per s of live audio */
    double planned; /* relative to own */
    double sockets; /* relative to SOCKETS */
    double beside;  /* s per s of live audio, of another process (a proxy) */
    double swing;   /* utterances in step: half a period of 10 s costs so much less, half more */
    double length;  /* s of a stream, half to one and a half times */
    double uploads; /* workers that uploads would fill */
    bool parts;     /* as Whisper */
    int (*clients)(double t);
    double (*load)(double t);   /* processors that others keep busy */
    double (*greedy)(double t); /* processors that others take if they are free, or half of all */
    double running, late, over; /* limits: running at least, the other two at most */
};

struct step {
    double due, work;
};

struct town {
    const struct scene *s;
    struct steno_capacity c;
    struct steno_capacity_look look; /* sums so far */
    double ends[STREAMS];            /* 0: no stream */
    struct step queue[QUEUE];
    unsigned head, tail, seed;
    int live;
    double t;
    struct {
        double streams, ideal, over; /* s of streams */
        double steps, late, refused, free;
    } sum;
};

static double chance(struct town *w)
{
    w->seed = w->seed * 1664525u + 1013904223u;
    return (w->seed >> 8) * 0x1p-24;
}

/* The number of streams that an omniscient server would let in. */
static double places(const struct town *w)
{
    const struct scene *s = w->s;
    const double cpus = s->cpus * (s->parts ? 0.8 : STENO_POOL_BUSY);
    const double others = fmin(s->load(w->t) + s->greedy(w->t), cpus / 2);
    return fmin((cpus - others) / (s->own + s->sockets * SOCKETS + s->beside),
                s->workers * WORKERS_BUSY / s->own);
}

static void speak(struct town *w, long tick)
{
    const struct scene *s = w->s;
    const int period = (int)lround(s->chunk / TICK);
    const double swing = fmod(w->t, 10) < 5 ? -s->swing : s->swing;
    for (int i = (int)(tick % period); i < STREAMS; i += period) {
        if (w->ends[i] <= 0)
            continue;
        w->queue[w->tail++ % QUEUE] =
            (struct step){w->t, s->chunk * s->own * (1 + swing) * (0.8 + 0.4 * chance(w))};
        if (w->t >= w->ends[i]) {
            w->ends[i] = 0;
            w->live--;
        }
    }
}

static void let_in(struct town *w)
{
    int i = (int)(chance(w) * STREAMS);
    while (w->ends[i] > 0)
        i = (i + 1) % STREAMS;
    w->ends[i] = w->t + w->s->length * (0.5 + chance(w));
    w->live++;
}

/* Who waits tries once a second. Refusals take nothing here: the threads that refuse are nice. */
static void knock(struct town *w)
{
    const int tries = (w->s->clients(w->t) - w->live + 9) / 10;
    for (int n = 0; n < tries; n++) {
        if (w->live < (int)fmax(steno_capacity_fit(&w->c), 1)) {
            let_in(w);
        } else {
            w->sum.refused++;
            w->sum.free += w->live < 0.9 * places(w);
        }
    }
}

/* Run steps for `can` seconds of workers; returns what they took. */
static double run_steps(struct town *w, double can)
{
    const struct scene *s = w->s;
    const double had = can;
    while (w->head != w->tail && can > 0) {
        struct step *q = &w->queue[w->head % QUEUE];
        const double d = fmin(can, q->work);
        q->work -= d;
        can -= d;
        if (q->work > 1e-12)
            break;
        w->head++;
        w->sum.steps++;
        w->sum.late += w->t + TICK - q->due > LATE;
        w->look.audio += s->chunk;
        w->look.planned += s->chunk * s->own * s->planned;
    }
    w->look.spent += had - can;
    return had - can;
}

/* Sockets and others' steady work come first, and of what they leave the workers get half at
 * least. */
static void work(struct town *w)
{
    const struct scene *s = w->s;
    const double fixed = w->live * (s->sockets * SOCKETS + s->beside) + s->load(w->t);
    const double left = fmax(s->cpus - fixed, 0.05), greedy = s->greedy(w->t);
    const double speed = fmin(s->workers, fmax(left - greedy, left / 2));
    double used = run_steps(w, speed * TICK);
    used += fmin(speed * TICK - used, s->uploads * TICK);
    w->look.worked += used;
    w->look.free += fmax(0, (left - fmin(greedy, left - used / TICK)) * TICK - used);
}

static void note(struct town *w)
{
    const double fit = places(w);
    w->sum.streams += w->live * TICK;
    w->sum.ideal += fmin(fmax(w->s->clients(w->t), w->live), fit) * TICK;
    w->sum.over += fmax(0, w->live - 1.1 * fit) * TICK;
}

static void run(struct town *w, const struct scene *s)
{
    memset(w, 0, sizeof *w);
    w->s = s;
    w->seed = 1;
    w->look.free = 1000;
    w->c = (struct steno_capacity){.planned = s->own * s->planned,
                                   .workers = s->workers,
                                   .cpus = s->cpus,
                                   .quota = (double)INFINITY,
                                   .parts = s->parts};
    steno_capacity_start(&w->c, 0);
    for (long tick = 0; tick < lround(SECONDS / TICK); tick++) {
        w->t = (double)tick * TICK;
        speak(w, tick);
        if (tick % 20 == 0)
            knock(w);
        work(w);
        note(w);
        if (tick % lround(STENO_POOL_LOOK_SECONDS / TICK) == 0) {
            w->look.now_ns = (int64_t)(w->t * 1e9);
            steno_capacity_look(&w->c, &w->look);
            w->look.audio = w->look.spent = w->look.planned = 0;
        }
    }
}

/* ---- scenes ---------------------------------------------------------------------------------- */

static int rising(double t)
{
    return (int)(20 + 4 * t);
}

static int rush(double t)
{
    return t < 5 ? 0 : 900;
}

static int waves(double t)
{
    return fmod(t, 60) < 30 ? 600 : 0;
}

static int many(double t)
{
    return t < 5 ? 20 : 400;
}

static int thousands(double t)
{
    return t < 5 ? 0 : 5000;
}

static int thirty(double t)
{
    (void)t;
    return 30;
}

static double none(double t)
{
    (void)t;
    return 0;
}

static double job(double t)
{
    return t > 80 && t < 160 ? 0.6 : 0;
}

static double always(double t)
{
    (void)t;
    return 0.6;
}

static double flapping(double t)
{
    return fmod(t, 20) < 10 ? 0.8 : 0;
}

static double make(double t)
{
    return t > 80 && t < 160 ? 8 : 0;
}

#define SMALL 2, 2, 0.24, 5e-3, 1, 1, 0, 0, 20, 0, false
#define WHISPER 1, 1, 0.8, 35e-3, 1, 1, 0, 0, 40, 0, true

static const struct scene scenes[] = {
    {"more and more", SMALL, rising, none, none, 0.97, 0, 0},
    {"a rush", SMALL, rush, none, none, 0.95, 0, 0},
    {"waves", SMALL, waves, none, none, 0.97, 0, 0},
    {"a job", SMALL, many, job, none, 0.95, 0, 0.02},
    {"a job all the time", SMALL, many, always, none, 0.97, 0, 0.02},
    {"a job every 20 s", SMALL, many, flapping, none, 0.9, 0, 0.15},
    {"others want everything", SMALL, many, none, make, 0.95, 0.06, 0.02},
    {"streams of 3 s", 2, 2, 0.24, 5e-3, 1, 1, 0, 0, 3, 0, false, many, none, none, 0.95, 0, 0},
    {"dear sockets", 2, 2, 0.24, 5e-3, 1, 7, 0, 0, 20, 0, false, rush, none, none, 0.95, 0, 0.02},
    {"a proxy", 2, 2, 0.24, 5e-3, 1, 1, 2.5e-3, 0, 20, 0, false, rising, none, none, 0.95, 0, 0.02},
    {"a proxy and a rush", 2, 2, 0.24, 5e-3, 1, 1, 2.5e-3, 0, 20, 0, false, rush, none, none, 0.95,
     0.08, 0.03},
    {"planned half", 2, 2, 0.24, 5e-3, 0.5, 1, 0, 0, 20, 0, false, many, none, none, 0.95, 0.01,
     0.04},
    {"planned twice", 2, 2, 0.24, 5e-3, 2, 1, 0, 0, 20, 0, false, many, none, none, 0.9, 0, 0},
    {"uploads beside", 2, 2, 0.24, 5e-3, 1, 1, 0, 0, 20, 2, false, many, none, none, 0.97, 0, 0},
    {"a tiny model", 2, 2, 0.24, 0.65e-3, 1, 1, 0, 0, 20, 0, false, thousands, none, none, 0.85, 0,
     0},
    {"2 of 16 processors", 16, 2, 0.24, 5e-3, 1, 1, 0, 0, 20, 0, false, rush, none, none, 0.95, 0,
     0},
    {"Whisper", WHISPER, thirty, none, none, 0.93, 0, 0},
    {"Whisper, all in step", 1, 1, 0.8, 35e-3, 1, 1, 0, 0.4, 40, 0, true, thirty, none, none, 0.93,
     0.6, 0.02},
    {"Whisper, planned half", 1, 1, 0.8, 35e-3, 0.5, 1, 0, 0, 40, 0, true, thirty, none, none, 0.93,
     0.2, 0.04},
};

static void machines_are_full_and_not_too_full(void **state)
{
    struct town *w = malloc(sizeof *w);
    (void)state;
    assert_non_null(w);
    print_message("%-24s running  late    over   refused  with a place\n", "");
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        const struct scene *s = &scenes[i];
        double running, late, over;
        run(w, s);
        running = w->sum.streams / w->sum.ideal;
        late = w->sum.late / w->sum.steps;
        over = w->sum.over / w->sum.ideal;
        print_message("%-24s %5.1f %% %5.2f %% %4.1f %% %8.0f %6.1f %%\n", s->name, 100 * running,
                      100 * late, 100 * over, w->sum.refused,
                      w->sum.refused > 0 ? 100 * w->sum.free / w->sum.refused : 0);
        if (running < s->running || late > s->late || over > s->over)
            fail_msg("%s", s->name);
    }
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(machines_are_full_and_not_too_full)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
