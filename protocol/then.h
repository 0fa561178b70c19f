#ifndef STENO_PROTOCOL_THEN_H
#define STENO_PROTOCOL_THEN_H

/* Runs a chain of calls until one fails: st is the status of the first that did. */
#define THEN(st, call) ((st) = (st) ? (st) : (call))

#endif
