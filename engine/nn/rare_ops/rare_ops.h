/* Operators that no model of speech has. The command and the tests link and add them; the daemon
 * and the shared library do not. */
#ifndef STENO_NN_RARE_OPS_RARE_OPS_H
#define STENO_NN_RARE_OPS_RARE_OPS_H

/* Make them known to networks. Call it first in main, before other threads start. */
void steno_rare_ops_add(void);

#endif
