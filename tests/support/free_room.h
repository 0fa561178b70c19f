/* Room for samples, as an engine of a test has it for a session. */
#ifndef STENO_TESTS_SUPPORT_FREE_ROOM_H
#define STENO_TESTS_SUPPORT_FREE_ROOM_H

#include <stddef.h>

enum { FREE_ROOM_SAMPLES = 1 << 16 };

/* Reserve room where `left` samples still fit, as steno_pool_stream_room: *to [returned]. */
static inline size_t give_room(size_t left, size_t least, size_t most, float **to)
{
    static _Thread_local float samples[FREE_ROOM_SAMPLES];
    const size_t room = left < FREE_ROOM_SAMPLES ? left : FREE_ROOM_SAMPLES;
    *to = samples;
    return !room ? 0 : room < least ? least : room < most ? room : most;
}

#endif
