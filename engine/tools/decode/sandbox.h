/* What steno-decode gives up before it looks at a byte of its input. */
#ifndef STENO_DECODE_SANDBOX_H
#define STENO_DECODE_SANDBOX_H

#include "base/status.h"

/* From now on the process may read descriptor 0, write descriptors 1, allocate memory and end;
 * nothing else: no files, sockets, processes, no executable memory. It dies with its parent.
 * cpu_seconds: processor time; the kernel ends it beyond. memory: bytes of address space beyond
 * what is mapped now. STENO_ERR_UNSUPPORTED: the kernel or a surrounding sandbox forbids one of the
 * steps; the caller must not go on. Does nothing in builds with sanitizers, which need more calls.
 */
STENO_MUST steno_status steno_sandbox_enter(unsigned cpu_seconds, size_t memory, steno_err *err);

#endif
