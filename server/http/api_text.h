/* The text of docs/openapi.yaml and docs/asyncapi.yaml at build time. */
#ifndef STENO_SERVER_HTTP_API_TEXT_H
#define STENO_SERVER_HTTP_API_TEXT_H

extern const char steno_openapi[], steno_asyncapi[];

#endif
