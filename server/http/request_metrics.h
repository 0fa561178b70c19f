/* Metrics of requests: how many, by route, method and status, and how long they took. Every series
 * is there from the start. */
#ifndef STENO_SERVER_HTTP_REQUEST_METRICS_H
#define STENO_SERVER_HTTP_REQUEST_METRICS_H

#include "server/http/request.h"

enum steno_method {
    STENO_METHOD_GET,
    STENO_METHOD_HEAD,
    STENO_METHOD_POST,
    STENO_METHOD_DELETE,
    STENO_METHOD_OTHER,
    STENO_METHODS
};
enum steno_method steno_method_of(const char *name);
/* "GET", ..., "other" */
const char *steno_method_name(enum steno_method m);

#define STENO_METRIC_ROUTES 48
#define STENO_METRIC_CODES 13

struct steno_request_metrics {
    /* last: code="other" */
    steno_metric *requests[STENO_METRIC_ROUTES][STENO_METHODS][STENO_METRIC_CODES + 1];
    steno_metric *seconds[STENO_METRIC_ROUTES];
};

void steno_request_metrics_register(struct steno_request_metrics *to, steno_metrics *reg);
/* rq has ended after so many seconds. */
void steno_request_metrics_count(struct steno_request_metrics *to, const struct steno_request *rq,
                                 double seconds);

#endif
