/* The states of a job and of its callback as they are stored. The enums of job_queue.h, the SQL of
 * job_sqlite.c and the Lua of job_scripts.c are made of these numbers. Stores on disks have them:
 * a number keeps its meaning for ever. */
#ifndef STENO_SERVER_JOBS_JOB_STATES_H
#define STENO_SERVER_JOBS_JOB_STATES_H

#define STENO_STORED_QUEUED 0
#define STENO_STORED_RUNNING 1
#define STENO_STORED_DONE 2 /* from here on a job is over */
#define STENO_STORED_FAILED 3
#define STENO_STORED_EXPIRED 4
#define STENO_STORED_CANCELLED 5

#define STENO_STORED_NONE 0
#define STENO_STORED_PENDING 1
#define STENO_STORED_DELIVERED 2
#define STENO_STORED_DEAD 3

/* STENO_STORED(RUNNING) is "1", for the text of a statement. */
#define STENO_STORED(STATE) STENO_NUMBER_TEXT(STENO_STORED_##STATE)
#define STENO_NUMBER_TEXT(N) STENO_TOKEN_TEXT(N)
#define STENO_TOKEN_TEXT(N) #N

#endif
