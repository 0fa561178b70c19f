/* People enrolled by clients, and /v1/speakers, where they are (docs/speakers.md): each API key has
 * its own. Prints are files below speakers.store. Stateless. */
#ifndef STENO_SERVER_HTTP_ENROLLED_H
#define STENO_SERVER_HTTP_ENROLLED_H

#include "server/http/upload_internal.h"

/* Answer GET /v1/speakers, and DELETE /v1/speakers/NAME. */
enum MHD_Result steno_enrolled_get(struct steno_request *rq);
enum MHD_Result steno_enrolled_remove(struct steno_request *rq);

/* Check that a request with this key may enroll somebody here. False: it was answered. */
bool steno_enrolled_admit(struct steno_request *rq);
/* Keep the print of an upload's recording, and append the answer. STENO_ERR_LIMIT, STENO_ERR_IO. */
STENO_MUST steno_status steno_enrolled_take(struct steno_upload *up,
                                            const struct steno_transcription_result *r,
                                            steno_err *err);

#endif
