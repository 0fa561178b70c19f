/* The scripts of the store of jobs in Redis (job_redis.c). */
#ifndef STENO_SERVER_JOBS_JOB_SCRIPTS_H
#define STENO_SERVER_JOBS_JOB_SCRIPTS_H

extern const char steno_script_submit[];
extern const char steno_script_claim[];
extern const char steno_script_heartbeat[];
extern const char steno_script_progress[];
extern const char steno_script_finish[];
extern const char steno_script_release[];
extern const char steno_script_get[];
extern const char steno_script_remove[];
extern const char steno_script_list[];
extern const char steno_script_sweep[];
extern const char steno_script_callback[];
extern const char steno_script_callback_over[];
extern const char steno_script_callback_again[];
extern const char steno_script_count[];
extern const char steno_script_put_new[];
extern const char steno_script_put[];

#endif
