/* Tells the owners of descriptors (the pipes of steno-decode) when there is something to read or
 * room to write. One thread. Locked: any thread may watch and forget. */
#ifndef STENO_SERVER_HTTP_WAKER_H
#define STENO_SERVER_HTTP_WAKER_H

#include "base/status.h"

typedef struct steno_waker steno_waker;
typedef uint64_t steno_waker_id;         /* 0 = none */
typedef void steno_waker_fn(void *user); /* on the waker's thread, without a lock; must not wait */

/* max: watches at once. */
STENO_MUST steno_status steno_waker_open(steno_waker **out, int max, steno_err *err);
void steno_waker_close(steno_waker *w); /* NULL too */

/* Call fn each time that `readable` has become readable or `writable` writable (-1: none), and once
 * now if one is. 0: too many watches, or out of memory. */
steno_waker_id steno_waker_watch(steno_waker *w, int readable, int writable, steno_waker_fn *fn,
                                 void *user);
/* End a watch: no call runs or comes afterwards. Not from fn. Its descriptors are to be closed
 * soon. 0 and NULL are accepted. */
void steno_waker_forget(steno_waker *w, steno_waker_id id);

#endif
