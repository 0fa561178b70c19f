/* Files of the directory that a conversion writes. Confined. */
#ifndef STENO_CONVERT_OUTPUT_H
#define STENO_CONVERT_OUTPUT_H

#include <stddef.h>

#include "base/status.h"

/* Bytes of the directory's name, and of the path of a file in it. steno_convert refuses longer
 * names, so that every path fits. */
#define STENO_OUTPUT_DIR 4000
#define STENO_OUTPUT_PATH 4200

/* Make the directory; one that is there stays as it is. STENO_ERR_IO. */
STENO_MUST steno_status steno_output_make(const char *dir, steno_err *err);
/* "DIR/NAME.onnx" into path, which is returned. */
const char *steno_output_network(char path[STENO_OUTPUT_PATH], const char *dir, const char *name);
/* Write p [n] to DIR/NAME. STENO_ERR_IO. */
STENO_MUST steno_status steno_output_write(const char *dir, const char *name, const void *p,
                                           size_t n, steno_err *err);

#endif
