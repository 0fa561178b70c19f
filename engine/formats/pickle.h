/* Python's pickles, protocols 2 to 5, as a tree of plain data. Nothing is ever called: a callable
 * that the caller does not allow is an error that names it, an allowed one becomes a node with its
 * arguments (https://docs.python.org/3/library/pickletools.html has the opcodes). The input is
 * untrusted: bytes, nodes and depth of marks are bounded. The tree may contain one value in several
 * places and even in itself: bound every walk. Frozen after parse. */
#ifndef STENO_FORMATS_PICKLE_H
#define STENO_FORMATS_PICKLE_H

#include "base/status.h"

typedef struct steno_pickle steno_pickle;

#define STENO_PICKLE_MAX_BYTES ((size_t)256 << 20)
#define STENO_PICKLE_MAX_NODES ((size_t)1 << 22)

enum steno_pickle_kind {
    STENO_PICKLE_NONE,
    STENO_PICKLE_BOOL,
    STENO_PICKLE_INT,
    STENO_PICKLE_BIG, /* an integer of more than 64 bits: bytes, the lowest first */
    STENO_PICKLE_FLOAT,
    STENO_PICKLE_STRING,
    STENO_PICKLE_BYTES,
    STENO_PICKLE_LIST, /* sets too */
    STENO_PICKLE_TUPLE,
    STENO_PICKLE_DICT,       /* items: key, value, key, value ... */
    STENO_PICKLE_GLOBAL,     /* text: "module.name" */
    STENO_PICKLE_CALL,       /* items: callable, arguments (a tuple) */
    STENO_PICKLE_PERSISTENT, /* items: the identifier */
    STENO_PICKLE_MARK        /* internal: not in a tree */
};

struct steno_pickle_node {
    enum steno_pickle_kind kind;
    bool b;
    int64_t i;
    double f;
    const char *text; /* string, bytes, big integer, global: its n bytes and a zero */
    size_t n;         /* bytes, or items */
    const struct steno_pickle_node **item;
    size_t cap;
};

/* Parse the pickle at the start of n bytes; *used gets its length (may be NULL). `allowed` says
 * whether a global "module.name" may stand in the tree (NULL: none); collections.OrderedDict,
 * argparse.Namespace and pyannote's Specifications always may and become dictionaries. name is used
 * in messages. STENO_ERR_FORMAT: not a pickle, cut short or inconsistent. STENO_ERR_UNSUPPORTED: a
 * global that is not allowed, an opcode of protocols 0 and 1. STENO_ERR_LIMIT: one of the bounds
 * above. */
STENO_MUST steno_status steno_pickle_parse(steno_pickle **out, const void *bytes, size_t n,
                                           const char *name, bool (*allowed)(const char *global),
                                           size_t *used, steno_err *err);
void steno_pickle_close(steno_pickle *p);
const struct steno_pickle_node *steno_pickle_root(const steno_pickle *p);
/* The value of a dictionary's key; NULL: there is none, or d is no dictionary. Of several equal
 * keys the last counts, as in Python. */
const struct steno_pickle_node *steno_pickle_get(const struct steno_pickle_node *d,
                                                 const char *key);

#endif
