/* Files of words and phrases that the operator gives, one per line. */
#ifndef STENO_SERVER_CORE_WORD_LIST_H
#define STENO_SERVER_CORE_WORD_LIST_H

#include "base/status.h"

/* Read a file of at most max bytes. *out is malloc'd. STENO_ERR_INVAL: it is not UTF-8 text, or has
 * no word; errors of steno_file_read. Messages begin with the path. */
STENO_MUST steno_status steno_word_list_read(char **out, const char *path, size_t max,
                                             steno_err *err);

#endif
