#include "server/http/request_metrics.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *const method_names[STENO_METHODS] = {"GET", "HEAD", "POST", "DELETE", "other"};

/* Codes that have their own series from the start; the others share code="other". */
static const int get_codes[] = {200, 400, 404, 426, 500, 503, 0};
static const int upload_codes[] = {200, 400, 401, 404, 408, 413, 415, 429, 499, 500, 503, 504, 0};
static const int job_codes[] = {200, 202, 400, 401, 404, 408, 413, 429, 499, 503, 507, 0};
static const int delete_codes[] = {204, 401, 404, 507, 0};
static const int wrong_method_codes[] = {204, 405, 0};
static const int unknown_codes[] = {404, 0};

static const double seconds_bounds[] = {.001, .005, .01, .025, .05, .1, .25, .5,
                                        1,    2.5,  5,   10,   30,  60, 300};

static const int *codes_of(const struct steno_route *r, enum steno_method m)
{
    if (!r->path)
        return unknown_codes;
    if (m == STENO_METHOD_POST && r->api == STENO_SESSION_JOB)
        return job_codes;
    if (m == STENO_METHOD_DELETE && r->methods & STENO_ROUTE_DELETE)
        return delete_codes;
    if (m == STENO_METHOD_POST && r->methods & (STENO_ROUTE_UPLOAD | STENO_ROUTE_POST))
        return upload_codes;
    if ((m == STENO_METHOD_GET || m == STENO_METHOD_HEAD) && r->methods & STENO_ROUTE_GET)
        return get_codes;
    return wrong_method_codes;
}

void steno_request_metrics_register(struct steno_request_metrics *to, steno_metrics *reg)
{
    char labels[128];
    for (size_t r = 0;; r++) {
        const struct steno_route *route = &steno_routes[r];
        assert(r < STENO_METRIC_ROUTES);
        for (int m = 0; m < STENO_METHODS; m++) {
            const int *codes = codes_of(route, (enum steno_method)m);
            size_t c = 0;
            for (;; c++) {
                char code[16] = "other";
                if (codes[c])
                    snprintf(code, sizeof code, "%d", codes[c]);
                snprintf(labels, sizeof labels, "route=\"%s\",method=\"%s\",code=\"%s\"",
                         route->label, method_names[m], code);
                to->requests[r][m][c] =
                    steno_metrics_counter(reg, "steno_http_requests_total",
                                          "HTTP requests, by route, method and status.", labels);
                if (!codes[c])
                    break;
            }
        }
        if (!route->path)
            break;
    }
    for (size_t r = 0;; r++) {
        snprintf(labels, sizeof labels, "route=\"%s\"", steno_routes[r].label);
        to->seconds[r] =
            steno_metrics_histogram(reg, "steno_http_request_duration_seconds",
                                    "From the request head to the end of the answer.", labels,
                                    seconds_bounds, sizeof seconds_bounds / sizeof *seconds_bounds);
        if (!steno_routes[r].path)
            break;
    }
}

enum steno_method steno_method_of(const char *name)
{
    for (int m = 0; m < STENO_METHOD_OTHER; m++)
        if (!strcmp(name, method_names[m]))
            return (enum steno_method)m;
    return STENO_METHOD_OTHER;
}

const char *steno_method_name(enum steno_method m)
{
    return method_names[m];
}

void steno_request_metrics_count(struct steno_request_metrics *to, const struct steno_request *rq,
                                 double seconds)
{
    size_t r = (size_t)(rq->route - steno_routes), c = 0;
    enum steno_method m = steno_method_of(rq->method);
    const int *codes = codes_of(rq->route, m);
    char trace[33];
    while (codes[c] && codes[c] != rq->code)
        c++;
    steno_metric_add(to->requests[r][m][c], 1);
    steno_metric_observe_traced(to->seconds[r], seconds, steno_trace_id(&rq->trace, trace));
}
