/* Scripts of the store of jobs in Redis, in Lua 5.1. Redis runs a script whole, with nothing in
 * between, and logs its writes to the AOF as one transaction. The keys are listed in
 * job_redis.c. A comment names the arguments of each script.
 *
 * "allow-oom": only submissions are refused when Redis has reached its maxmemory. What is stored
 * already may still run and end, which is what makes room. */
/* clang-format off */
#include "server/jobs/job_scripts.h"

#include "server/jobs/job_queue.h"

#define FLAGS "#!lua flags=allow-oom\n"
#define PLAIN "#!lua\n"

#define LOCAL(STATE) "local " #STATE " = " STENO_STORED(STATE) "\n"

/* What the scripts begin with. */
#define COMMON \
    "local P = 'steno:'\n" \
    "local A, c = ARGV, redis.call\n" \
    "local TRIES = " STENO_NUMBER_TEXT(STENO_JOB_TRIES) "\n" \
    LOCAL(QUEUED) LOCAL(RUNNING) LOCAL(DONE) LOCAL(FAILED) LOCAL(EXPIRED) LOCAL(CANCELLED) \
    LOCAL(NONE) LOCAL(PENDING) LOCAL(DEAD) \
    "local function n(v) return tonumber(v or '0') or 0 end\n" \
    "local function key(id) return P .. 'job:' .. id end\n" \
    "local function add(hash, field, d)\n" \
    "  if c('HINCRBY', hash, field, d) <= 0 then c('HDEL', hash, field) end\n" \
    "end\n" \
    "-- the place of an owner: few running jobs first, then the oldest job that waits\n" \
    "local function turn(owner)\n" \
    "  local w = c('ZRANGE', P .. 'wait:' .. owner, 0, 0, 'WITHSCORES')\n" \
    "  if w[2] then c('ZADD', P .. 'turns', n(c('HGET', P .. 'running', owner)) * 2^40 + " \
    "n(w[2]), owner)\n" \
    "  else c('ZREM', P .. 'turns', owner) end\n" \
    "end\n" \
    "local function queue(id, k, due, now)\n" \
    "  local v = c('HMGET', k, 'owner', 'seq')\n" \
    "  if n(due) > n(now) then c('ZADD', P .. 'delayed', due, id)\n" \
    "  else c('ZADD', P .. 'wait:' .. v[1], v[2], id) end\n" \
    "  turn(v[1])\n" \
    "end\n" \
    "local function move(id, k, to)\n" \
    "  local v = c('HMGET', k, 'state', 'owner', 'seq')\n" \
    "  local from, owner = v[1] and n(v[1]), v[2]\n" \
    "  if from then c('ZREM', P .. 'state:' .. from, id) end\n" \
    "  if from == QUEUED then c('ZREM', P .. 'wait:' .. owner, id) c('ZREM', P .. " \
    "'delayed', id) end\n" \
    "  if from == RUNNING and to ~= RUNNING then add(P .. 'running', owner, -1) end\n" \
    "  if from ~= RUNNING and to == RUNNING then add(P .. 'running', owner, 1) end\n" \
    "  c('ZADD', P .. 'state:' .. to, v[3], id)\n" \
    "  c('HSET', k, 'state', to)\n" \
    "  turn(owner)\n" \
    "end\n" \
    "local function callback(id, k, to, due)\n" \
    "  local v = c('HMGET', k, 'cb_state', 'seq')\n" \
    "  if v[1] then c('ZREM', P .. 'cb:' .. v[1], id) end\n" \
    "  if to ~= NONE then c('ZADD', P .. 'cb:' .. to, v[2], id) end\n" \
    "  if to == PENDING then c('ZADD', P .. 'callbacks', due, id) else c('ZREM', P .. " \
    "'callbacks', id) end\n" \
    "  c('HSET', k, 'cb_state', to, 'cb_next', due)\n" \
    "end\n" \
    "local function end_run(k)\n" \
    "  local e = c('HGET', k, 'entry')\n" \
    "  if e and e ~= '' then\n" \
    "    c('XACK', P .. 'runs', 'workers', e)\n" \
    "    c('XDEL', P .. 'runs', e)\n" \
    "    c('HSET', k, 'entry', '')\n" \
    "  end\n" \
    "end\n" \
    "local function over(id, k, to, now, code, reason)\n" \
    "  end_run(k)\n" \
    "  move(id, k, to)\n" \
    "  c('HSET', k, 'ended', now, 'code', code, 'reason', reason)\n" \
    "  c('ZADD', P .. 'ended', now, id)\n" \
    "  c('ZREM', P .. 'expires', id)\n" \
    "  c('UNLINK', P .. 'audio:' .. id)\n" \
    "  add(P .. 'open', c('HGET', k, 'owner'), -1)\n" \
    "  if to ~= CANCELLED and c('HGET', k, 'callback') ~= '' then callback(id, k, PENDING, " \
    "now) end\n" \
    "end\n" \
    "local function expire(id, k, now) over(id, k, EXPIRED, now, 'expired', 'it was not done " \
    "before it expired') end\n" \
    "local function mine(k, attempt)\n" \
    "  local v = c('HMGET', k, 'state', 'attempts')\n" \
    "  return n(v[1]) == RUNNING and v[2] == attempt\n" \
    "end\n" \
    "local function visible(k, owner, any)\n" \
    "  local o = c('HGET', k, 'owner')\n" \
    "  return o and (any == '1' or o == owner)\n" \
    "end\n" \
    "local function forget(id, k)\n" \
    "  local v = c('HMGET', k, 'owner', 'state', 'cb_state', 'formats', 'once')\n" \
    "  if v[5] and v[5] ~= '' then -- a list of the digest and the jobs\n" \
    "    c('LREM', v[5], 1, id)\n" \
    "    if c('LLEN', v[5]) == 1 then c('DEL', v[5]) end\n" \
    "  end\n" \
    "  for f in string.gmatch(v[4] or '', '%S+') do c('UNLINK', P .. 'res:' .. id .. ':' " \
    ".. f) end\n" \
    "  c('ZREM', P .. 'state:' .. v[2], id)\n" \
    "  c('ZREM', P .. 'cb:' .. v[3], id)\n" \
    "  for _, z in ipairs({'all', 'own:' .. v[1], 'ended', 'callbacks', 'expires'}) do " \
    "c('ZREM', P .. z, id) end\n" \
    "  c('UNLINK', k, P .. 'seg:' .. id, P .. 'audio:' .. id)\n" \
    "end\n"

/* owner max per_key n once digest, then of each job: id form target url bytes created expires
 * callback method event traceparent tracestate blocks */
const char steno_script_submit[] = PLAIN COMMON
    "local m = n(A[4])\n"
    "if c('EXISTS', key(A[7])) == 1 then return {'ok'} end -- the answer was lost\n"
    "local once = A[5] ~= '' and P .. 'once:' .. A[1] .. ':' .. A[5]\n"
    "local function drop(answer)\n"
    "  for i = 0, m - 1 do c('UNLINK', P .. 'audio:' .. A[7 + i * 13]) end\n"
    "  return answer\n"
    "end\n"
    "if once and c('EXISTS', once) == 1 then\n"
    "  local v = c('LRANGE', once, 0, -1)\n"
    "  table.insert(v, 1, 'once')\n"
    "  return drop(v)\n"
    "end\n"
    "local own = n(c('HGET', P .. 'open', A[1]))\n"
    "local all = c('ZCARD', P .. 'state:' .. QUEUED) + c('ZCARD', P .. 'state:' .. RUNNING)\n"
    "local why\n"
    "if n(A[2]) > 0 and all + m > n(A[2]) then why = {'all', all} end\n"
    "if n(A[3]) > 0 and own + m > n(A[3]) then why = {'own', own} end\n"
    "for i = 0, m - 1 do\n"
    "  local o = 6 + i * 13\n"
    "  if c('LLEN', P .. 'audio:' .. A[o + 1]) ~= n(A[o + 13]) then why = {'audio'} end\n"
    "end\n"
    "if why then return drop(why) end\n"
    "if once then c('RPUSH', once, A[6]) end\n"
    "for i = 0, m - 1 do\n"
    "  local o = 6 + i * 13\n"
    "  local id, seq = A[o + 1], c('INCR', P .. 'seq')\n"
    "  local k = key(id)\n"
    "  c('HSET', k, 'id', id, 'owner', A[1], 'form', A[o + 2], 'target', A[o + 3], "
    "'url', A[o + 4],\n"
    "    'bytes', A[o + 5], 'created', A[o + 6], 'expires', A[o + 7], 'callback', A[o + 8],\n"
    "    'method', A[o + 9], 'event', A[o + 10], 'attempts', 0, 'seq', seq, 'cb_state', NONE,\n"
    "    'once', once or '', 'traceparent', A[o + 11], 'tracestate', A[o + 12])\n"
    "  if once then c('RPUSH', once, id) end\n"
    "  c('ZADD', P .. 'all', seq, id)\n"
    "  c('ZADD', P .. 'own:' .. A[1], seq, id)\n"
    "  if n(A[o + 7]) > 0 then c('ZADD', P .. 'expires', A[o + 7], id) end\n"
    "  c('PERSIST', P .. 'audio:' .. id)\n"
    "  add(P .. 'open', A[1], 1)\n"
    "  move(id, k, QUEUED)\n"
    "  queue(id, k, 0, 0)\n"
    "end\n"
    "return {'ok'}\n";

/* now worker lease, 1: also of dead workers */
const char steno_script_claim[] = FLAGS COMMON
    "local function begin(id, k, e)\n"
    "  move(id, k, RUNNING)\n"
    "  c('HINCRBY', k, 'attempts', 1)\n"
    "  c('HSET', k, 'worker', A[2], 'started', A[1], 'position', 0, 'entry', e)\n"
    "  c('DEL', P .. 'seg:' .. id)\n"
    "  return c('HGETALL', k)\n"
    "end\n"
    "local function is_late(k)\n"
    "  local x = n(c('HGET', k, 'expires'))\n"
    "  return x > 0 and x <= n(A[1])\n"
    "end\n"
    "if c('EXISTS', P .. 'runs') == 0 or #c('XINFO', 'GROUPS', P .. 'runs') == 0 then\n"
    "  c('XGROUP', 'CREATE', P .. 'runs', 'workers', '0', 'MKSTREAM')\n"
    "end\n"
    "for i = 1, A[4] == '1' and 100 or 0 do\n"
    "  local e = c('XAUTOCLAIM', P .. 'runs', 'workers', A[2], A[3], '0-0', 'COUNT', 1)[2][1]\n"
    "  if not e then break end\n"
    "  local id = e[2][2]\n"
    "  local k = key(id)\n"
    "  local v = c('HMGET', k, 'state', 'entry', 'attempts')\n"
    "  if n(v[1]) ~= RUNNING or v[2] ~= e[1] then\n"
    "    c('XACK', P .. 'runs', 'workers', e[1])\n"
    "    c('XDEL', P .. 'runs', e[1])\n"
    "  elseif n(v[3]) >= TRIES then\n"
    "    over(id, k, FAILED, A[1], 'gave_up', 'given up after ' .. TRIES ..\n"
    "         ' tries: each time the server ended or hung while it ran')\n"
    "  elseif is_late(k) then expire(id, k, A[1])\n"
    "  else\n"
    "    c('HSET', k, 'code', 'interrupted', 'reason', 'the server ended or hung while "
    "it ran')\n"
    "    return begin(id, k, e[1])\n"
    "  end\n"
    "end\n"
    "for _, id in ipairs(c('ZRANGEBYSCORE', P .. 'delayed', '-inf', A[1], 'LIMIT', 0, "
    "100)) do\n"
    "  c('ZREM', P .. 'delayed', id)\n"
    "  queue(id, key(id), 0, 0)\n"
    "end\n"
    "for i = 1, 100 do\n"
    "  local owner = c('ZRANGE', P .. 'turns', 0, 0)[1]\n"
    "  if not owner then return {} end\n"
    "  local id = c('ZRANGE', P .. 'wait:' .. owner, 0, 0)[1]\n"
    "  if is_late(key(id)) then expire(id, key(id), A[1])\n"
    "  else\n"
    "    local e = c('XADD', P .. 'runs', '*', 'id', id)\n"
    "    repeat -- entries before it exist only if somebody has removed the group\n"
    "      local r = c('XREADGROUP', 'GROUP', 'workers', A[2], 'COUNT', 1, 'STREAMS', P "
    ".. 'runs', '>')\n"
    "    until not r or r[1][2][1][1] == e\n"
    "    return begin(id, key(id), e)\n"
    "  end\n"
    "end\n"
    "return {}\n";

/* id attempt worker */
const char steno_script_heartbeat[] = FLAGS COMMON
    "local k = key(A[1])\n"
    "if not mine(k, A[2]) then return {'lost'} end\n"
    "c('XCLAIM', P .. 'runs', 'workers', A[3], 0, c('HGET', k, 'entry'), 'FORCE', 'JUSTID')\n"
    "return {'ok'}\n";

/* id attempt position duration bytes, then of each segment: start end text */
const char steno_script_progress[] = FLAGS COMMON
    "local k = key(A[1])\n"
    "if not mine(k, A[2]) then return {'lost'} end\n"
    "c('HSET', k, 'position', A[3])\n"
    "if n(A[4]) > n(c('HGET', k, 'duration')) then c('HSET', k, 'duration', A[4]) end\n"
    "if n(A[5]) > 0 then c('HSET', k, 'bytes', A[5]) end\n"
    "for i = 6, #A, 3 do\n"
    "  c('RPUSH', P .. 'seg:' .. A[1], A[i] .. ' ' .. A[i + 1] .. ' ' .. A[i + 2])\n"
    "end\n"
    "return {'ok'}\n";

/* id attempt now state reason code model duration, then the formats of results; their parts are
 * stored */
const char steno_script_finish[] = FLAGS COMMON
    "local k = key(A[1])\n"
    "if not mine(k, A[2]) then\n"
    "  return {c('HGET', k, 'finished') == A[2] and 'ok' or 'lost'}\n"
    "end\n"
    "local formats = {}\n"
    "for i = 9, #A do\n"
    "  formats[#formats + 1] = A[i]\n"
    "  if c('EXISTS', P .. 'part:' .. A[1] .. ':' .. A[2] .. ':' .. A[i]) == 0 then "
    "return {'parts'} end\n"
    "end\n"
    "for _, f in ipairs(formats) do\n"
    "  local to = P .. 'res:' .. A[1] .. ':' .. f\n"
    "  c('RENAME', P .. 'part:' .. A[1] .. ':' .. A[2] .. ':' .. f, to)\n"
    "  c('PERSIST', to)\n"
    "end\n"
    "c('HSET', k, 'model', A[7], 'finished', A[2], 'formats', table.concat(formats, ' '))\n"
    "if n(A[8]) > 0 then c('HSET', k, 'duration', A[8]) end\n"
    "if n(A[4]) == DONE then c('HSET', k, 'position', A[8]) end\n"
    "over(A[1], k, n(A[4]), A[3], A[6], A[5])\n"
    "return {'ok'}\n";

/* id attempt now not_before counted code why */
const char steno_script_release[] = FLAGS COMMON
    "local k = key(A[1])\n"
    "if not mine(k, A[2]) then return {'lost'} end\n"
    "if A[5] == '1' and n(A[2]) >= TRIES then\n"
    "  over(A[1], k, FAILED, A[3], A[6], 'given up after ' .. A[2] .. ' tries: ' .. A[7])\n"
    "  return {'failed'}\n"
    "end\n"
    "end_run(k)\n"
    "move(A[1], k, QUEUED)\n"
    "queue(A[1], k, A[4], A[3])\n"
    "c('HSET', k, 'code', A[6], 'reason', A[7])\n"
    "if A[5] ~= '1' then c('HINCRBY', k, 'attempts', -1) end\n"
    "return {'ok'}\n";

/* id owner any */
const char steno_script_get[] = FLAGS COMMON
    "local k = key(A[1])\n"
    "return visible(k, A[2], A[3]) and c('HGETALL', k) or {}\n";

/* id owner any now */
const char steno_script_remove[] = FLAGS COMMON
    "local k = key(A[1])\n"
    "if not visible(k, A[2], A[3]) then return {'unknown'} end\n"
    "if n(c('HGET', k, 'state')) < DONE then over(A[1], k, CANCELLED, A[4], 'cancelled', 'removed "
    "by its owner')\n"
    "else forget(A[1], k) end\n"
    "return {'ok'}\n";

/* owner any after limit state callback */
const char steno_script_list[] = FLAGS COMMON
    "local z = P .. 'own:' .. A[1]\n"
    "if A[2] == '1' then\n"
    "  z = A[5] ~= '-1' and P .. 'state:' .. A[5] or n(A[6]) > NONE and P .. 'cb:' .. A[6] "
    "or P .. 'all'\n"
    "end\n"
    "local top = '+inf'\n"
    "if A[3] ~= '' then\n"
    "  if not visible(key(A[3]), A[1], A[2]) then return {'unknown'} end\n"
    "  top = '(' .. c('HGET', key(A[3]), 'seq')\n"
    "end\n"
    "local out, at = {}, 0\n"
    "while #out < n(A[4]) do\n"
    "  local ids = c('ZREVRANGEBYSCORE', z, top, '-inf', 'LIMIT', at, 200)\n"
    "  if #ids == 0 then break end\n"
    "  at = at + #ids\n"
    "  for _, id in ipairs(ids) do\n"
    "    local k = key(id)\n"
    "    local v = c('HMGET', k, 'state', 'cb_state')\n"
    "    if #out < n(A[4]) and (A[5] == '-1' or v[1] == A[5]) and (A[6] == '-1' or v[2] "
    "== A[6]) then\n"
    "      out[#out + 1] = c('HGETALL', k)\n"
    "    end\n"
    "  end\n"
    "end\n"
    "return out\n";

/* now keep */
const char steno_script_sweep[] = FLAGS COMMON
    "local gone = {}\n"
    "for _, id in ipairs(c('ZRANGEBYSCORE', P .. 'expires', '-inf', A[1], 'LIMIT', 0, "
    "100)) do\n"
    "  expire(id, key(id), A[1])\n"
    "  gone[#gone + 1] = id\n"
    "end\n"
    "for _, id in ipairs(c('ZRANGEBYSCORE', P .. 'ended', '-inf', n(A[1]) - n(A[2]), "
    "'LIMIT', 0, 100)) do\n"
    "  if n(c('HGET', key(id), 'cb_state')) ~= PENDING then forget(id, key(id)) end\n"
    "end\n"
    "-- workers that are long gone; an error: nobody has claimed yet\n"
    "local workers, DAY = redis.pcall('XINFO', 'CONSUMERS', P .. 'runs', 'workers'), 86400000\n"
    "for _, w in ipairs(workers.err and {} or workers) do\n"
    "  if w[4] == 0 and w[6] > DAY then c('XGROUP', 'DELCONSUMER', P .. 'runs', "
    "'workers', w[2]) end\n"
    "end\n"
    "return gone\n";

/* now next */
const char steno_script_callback[] = FLAGS COMMON
    "local id = c('ZRANGEBYSCORE', P .. 'callbacks', '-inf', A[1], 'LIMIT', 0, 1)[1]\n"
    "if not id then return {} end\n"
    "local k = key(id)\n"
    "c('HINCRBY', k, 'cb_tries', 1)\n"
    "callback(id, k, PENDING, A[2])\n"
    "return c('HGETALL', k)\n";

/* id state next error */
const char steno_script_callback_over[] = FLAGS COMMON
    "local k = key(A[1])\n"
    "if n(c('HGET', k, 'cb_state')) == PENDING then\n"
    "  callback(A[1], k, n(A[2]), A[3])\n"
    "  c('HSET', k, 'cb_error', A[4])\n"
    "end\n"
    "return {'ok'}\n";

/* id owner any now */
const char steno_script_callback_again[] = FLAGS COMMON
    "local k = key(A[1])\n"
    "if not visible(k, A[2], A[3]) then return {'unknown'} end\n"
    "if n(c('HGET', k, 'cb_state')) <= PENDING then return {'failed'} end\n"
    "callback(A[1], k, PENDING, A[4])\n"
    "return {'ok'}\n";

/* nothing */
const char steno_script_count[] = FLAGS COMMON
    "local first = c('ZRANGE', P .. 'state:' .. QUEUED, 0, 0)[1]\n"
    "local out = {first and c('HGET', key(first), 'created') or '0'}\n"
    "for i = QUEUED, CANCELLED do out[#out + 1] = tostring(c('ZCARD', P .. 'state:' .. i)) end\n"
    "out[#out + 1] = '0'\n"
    "for i = PENDING, DEAD do out[#out + 1] = tostring(c('ZCARD', P .. 'cb:' .. i)) end\n"
    "return out\n";

/* name of a list, block, s until it is removed */
const char steno_script_put_new[] = PLAIN COMMON
    "c('RPUSH', P .. A[1], A[2])\n"
    "c('EXPIRE', P .. A[1], A[3])\n"
    "return {'ok'}\n";

/* likewise, of what is stored already */
const char steno_script_put[] = FLAGS COMMON
    "c('RPUSH', P .. A[1], A[2])\n"
    "c('EXPIRE', P .. A[1], A[3])\n"
    "return {'ok'}\n";

/* clang-format on */
