/* The table of settings: one row per key, in the order of the file. Columns: type, field, section,
 * key, environment variable, default as text, minimum and maximum (of numbers), documentation. Only
 * config.c includes it. Options of model families are not here: they follow the rows of [model] and
 * come from steno_option_at. */
/* clang-format off */
ROW(STRING, listen, "server", "listen", "STENO_LISTEN", "127.0.0.1:8080", 0, 0,
    "Addresses to serve on, comma separated: ADDR:PORT, [IPV6]:PORT, *:PORT for every address, or "
    "unix:/PATH. Port 0 takes a free port; the log names it. Sockets that systemd passes override "
    "this.")
ROW(STRING, admin, "server", "admin", "STENO_ADMIN", "", 0, 0,
    "Path of the administrator's socket, mode 0600: steno top reads the server's state there, and "
    "reload does the same as SIGHUP. Empty: none.")
ROW(STRING, agent_listen, "server", "agent_listen", "STENO_AGENT_LISTEN", "", 0, 0,
    "Addresses for HAProxy's agent checks, in the form of server.listen: each connection gets a "
    "line with the free share of the machine (ready up 73%), drain or maint. Empty: none.")
ROW(STRING, node, "server", "node", "STENO_NODE", "", 0, 0,
    "Name of this daemon among several behind a balancer, 1 to 8 letters and digits. Ids of "
    "sessions that can be resumed begin with sess_NAME. (with the point), so that the balancer can "
    "bring their clients back to it (docs/scale.md). Empty: none.")
ROW(STRING, state, "server", "state", "STENO_STATE", "", 0, 0,
    "Directory for what outlives a restart: the use of API keys. Empty: $STATE_DIRECTORY, which "
    "systemd sets; without it nothing is kept.")
ROW(SECONDS, drain_timeout, "server", "drain_timeout", "STENO_DRAIN_TIMEOUT", "30", 0, 3600,
    "Maximum time from SIGTERM to the end: uploads finish in it, and streams get their last "
    "result.")
ROW(STRING, cors_origins, "server", "cors_origins", "STENO_CORS_ORIGINS", "", 0, 0,
    "Origins of web pages whose scripts may use the server, comma separated "
    "(https://app.example.org), or * for all. Others get 403, for WebSockets and for what is not "
    "only read. Empty: only the server's own page; with API keys others may use it with a key.")
ROW(STRING, hosts, "server", "hosts", "STENO_HOSTS", "", 0, 0,
    "Names under which the server is reached, comma separated (stt.example.org), or * for any. "
    "Without API keys a request that names another host gets 403. Always known are addresses, "
    "localhost and names without a dot. Empty: checked on loopback addresses alone, where pages "
    "of others could reach the server by a name of their own. Trusted proxies are not checked.")
ROW(BOOL, proxy_protocol, "server", "proxy_protocol", "STENO_PROXY_PROTOCOL", "no", 0, 0,
    "Connections from server.trusted_proxies begin with a header of the PROXY protocol, version 1 "
    "or 2, which names the client. Others must not.")
ROW(STRING, trusted_proxies, "server", "trusted_proxies", "STENO_TRUSTED_PROXIES", "", 0, 0,
    "Proxies in front, comma separated: ADDRESS, ADDRESS/BITS or unix (peers of unix sockets). "
    "Their X-Forwarded-For and X-Forwarded-Prefix are believed, and "
    "limits.connections_per_address does not count their connections.")
ROW(STRING, path_prefix, "server", "path_prefix", "STENO_PATH_PREFIX", "", 0, 0,
    "Path below which a proxy publishes the server (/stt). Requests are served with and without "
    "it.")
ROW(STRING, tls_certificate, "tls", "certificate", "STENO_TLS_CERTIFICATE", "", 0, 0,
    "PEM file of the server's certificate, followed by those of its issuers. With it, connections "
    "to server.listen may use TLS (1.2 or later); the first byte tells whether they do. Read again "
    "on SIGHUP. Empty: no TLS.")
ROW(STRING, tls_key, "tls", "key", "STENO_TLS_KEY", "", 0, 0,
    "PEM file of the certificate's private key. Read again on SIGHUP.")
ROW(BOOL, tls_required, "tls", "required", "STENO_TLS_REQUIRED", "no", 0, 0,
    "Refuse connections without TLS: they are answered 400 and closed.")
ROW(STRING, model, "model", "dir", "STENO_MODEL", "", 0, 0,
    "Model directory, or the name of a fetched model. Empty: the first model of the catalogue that "
    "was fetched (steno model fetch), else the model that ships.")
ROW(STRING, aliases, "model", "aliases", "STENO_MODEL_ALIASES", "", 0, 0,
    "Other names that requests may use for the model, comma separated, besides those of the "
    "catalogue: the names that well-known clients send by default (whisper-1, nova-3, "
    "Systran/faster-whisper-base, ...) mean the model of that name or else the default model.")
ROW(BOOL, strict, "model", "strict", "STENO_MODEL_STRICT", "no", 0, 0,
    "Refuse the names of the catalogue: only names of models and of model.aliases are known. "
    "Answers to uploads name the model that served them in X-Steno-Model in any case.")
ROW(STRING, precision, "model", "precision", "STENO_MODEL_PRECISION", "auto", 0, 0,
    "Precision of the weights of products: fp32 (unchanged), bf16 or fp16 (half the memory), int8 "
    "(a quarter). auto: the fastest that the model allows, int8 on CPUs with AVX2 or AArch64's dot "
    "products, else bf16 on CPUs that multiply such numbers, else fp32. In networks that are in 8 "
    "bits, auto and int8 keep all other weights in bf16 on CPUs that multiply such numbers. "
    "Applies to every model.")
ROW(STRING, search, "model", "search", "STENO_MODEL_SEARCH", "", 0, 0,
    "Search of streams and uploads that do not set one, as NAME=VALUE, comma separated: beam, and "
    "the options that the model's family has for streams (steno model options). A name that is "
    "not listed keeps the model's own value. A key of the option's name overrides this one.")
ROW(STRING, models_dir, "models", "dir", "STENO_MODELS", "", 0, 0,
    "Directory of further model directories; requests use their names. A model is loaded on "
    "request: until it is loaded, the answer is 503 with Retry-After. Empty: the fetched models "
    "if model.dir is empty too, else none.")
ROW(SECONDS, models_idle, "models", "idle_unload", "STENO_MODELS_IDLE_UNLOAD", "10min", 0, 604800,
    "A further model is unloaded after this time without use. 0: never.")
ROW(BYTES, models_memory, "models", "memory", "STENO_MODELS_MEMORY", "0", 0, 1099511627776.0,
    "Maximum for the weights of all loaded models together. The model that was unused for longest "
    "is unloaded; a model that does not fit beside those in use is refused with 503. 0: no limit.")
ROW(STRING, vad_mode, "vad", "mode", "STENO_VAD", "off", 0, 0,
    "Speech detection of streams and uploads that do not choose one: off, energy (a rule on "
    "loudness) or silero (vad.model). Audio without speech does not go through the network. For "
    "models of family ctc_streaming, and for uploads to models of family whisper, which are cut "
    "in pauses then.")
ROW(STRING, vad_model, "vad", "model", "STENO_VAD_MODEL", "", 0, 0,
    "Directory with silero-vad's silero_vad_16k_op15.onnx or silero_vad.onnx. Empty: the fetched "
    "one (steno model fetch silero-vad), if there is one. none: no network.")
ROW(STRING, speakers_model, "speakers", "model", "STENO_SPEAKERS", "", 0, 0,
    "Directory with the two networks that tell speakers apart, or with a Sortformer "
    "(docs/speakers.md). Empty: the fetched ones (steno model fetch speakers), if they are there. "
    "none: no networks.")
ROW(SECONDS, speakers_latency, "speakers", "latency", "STENO_SPEAKERS_LATENCY", "0", 0, 31,
    "How long after it a Sortformer tells who speaks live: 0.32, 1.04, 10 or 30.4 s; the shorter, "
    "the more work (docs/speakers.md). 0: what its file says, else 10. Other networks have no such "
    "choice.")
ROW(INT, speakers_threads, "speakers", "threads", "STENO_SPEAKERS_THREADS", "1", 1, 256,
    "Threads that tell speakers apart, beside those of pool.threads. An hour of a recording takes "
    "one of them some three minutes. As many more follow live sessions, at most 16 each.")
ROW(STRING, speakers_store, "speakers", "store", "STENO_SPEAKERS_STORE", "", 0, 0,
    "Directory of mode 0700 for voice prints of people that clients enroll, by which speakers have "
    "names (docs/speakers.md). Empty: nobody can be enrolled.")
ROW(STRING, turn_model, "turn", "model", "STENO_TURN", "", 0, 0,
    "Network that judges whether a speaker has finished, for live sessions that ask for it "
    "(docs/turns.md): an ONNX file, or a directory with smart-turn*.onnx. Empty: the fetched one "
    "(steno model fetch smart-turn), if it is there. none: no network.")
ROW(STRING, align_model, "align", "model", "STENO_ALIGN_MODEL", "", 0, 0,
    "Models with CTC that find when the words of a text are spoken, for requests to /v1/align "
    "that name none and for uploads and live streams with word_times=aligned (docs/align.md): a "
    "name as in requests, or one for each language: en=NAME,de=NAME,NAME. Empty: none.")
ROW(STRING, grammars, "text", "grammars", "STENO_TEXT_GRAMMARS", "", 0, 0,
    "Grammars that write numbers and dates of finals (docs/itn.md), as LANGUAGE=DIR, comma "
    "separated: en=/srv/itn/en. A model whose directory has a grammar keeps it. Empty: the fetched "
    "ones (steno model fetch itn-en), if they are there. none: only those of models.")
ROW(STRING, punctuators, "text", "punctuators", "STENO_TEXT_PUNCTUATORS", "", 0, 0,
    "Networks that write marks and capitals of finals (docs/punctuation.md), as LANGUAGE=DIR, "
    "comma separated: en=/srv/punctuation/en. A model whose directory has one keeps it. Empty: the "
    "fetched ones (steno model fetch punctuation-en), if they are there. none: only those of "
    "models.")
ROW(STRING, profanity, "text", "profanity", "STENO_TEXT_PROFANITY", "", 0, 0,
    "File of the words that requests with profanity_filter=true get as asterisks "
    "(docs/filters.md): a word or phrase per line. Empty: there is no such filter.")
ROW(STRING, vocabulary, "text", "vocabulary", "STENO_TEXT_VOCABULARY", "", 0, 0,
    "File of names and words that are likely in every recording (docs/configuration.md): a phrase "
    "per line, as in the hotwords of requests, which come first. API keys may have files of their "
    "own. Read again on SIGHUP. Empty: none.")
ROW(STRING, keys, "auth", "keys", "STENO_AUTH_KEYS", "", 0, 0,
    "File of API keys and their quotas: concurrent sessions, audio and requests per minute "
    "(docs/configuration.md). Read again on SIGHUP. Empty: no key is needed, and there are no "
    "quotas.")
ROW(INT, helpers, "audio", "helpers", "STENO_AUDIO_HELPERS", "16", 0, 1024,
    "Maximum number of concurrent processes of steno-decode, one for each upload or stream of a "
    "format that FFmpeg decodes (WebM, MP4, AAC, ...). More are refused with 503. 0: these formats "
    "are refused.")
ROW(INT, threads, "pool", "threads", "STENO_THREADS", "0", 0, 1024,
    "Threads that run networks. 0: one per processor, or as many as a control group's quota "
    "allows.")
ROW(SECONDS, buffer_seconds, "pool", "buffer", "STENO_POOL_BUFFER", "4", 0.5, 60,
    "Audio that may wait in one stream before its sender is slowed down.")
ROW(INT, batch, "pool", "batch", "STENO_POOL_BATCH", "0", 0, 32,
    "Maximum number of streams whose audio goes through the network together. 0: measured at "
    "start; 1: no batches.")
ROW(INT, capacity, "pool", "capacity", "STENO_POOL_CAPACITY", "0", 0, 100000,
    "Maximum number of concurrent WebSocket streams that the machine can carry; more are refused "
    "with 503. 0: measured at start and corrected while running. limits.sessions applies in any "
    "case.")
ROW(STRING, calibration, "pool", "calibration", "STENO_POOL_CALIBRATION", "", 0, 0,
    "Directory for the measured cost of models on this machine, so that the next start does not "
    "measure again. Empty: $CACHE_DIRECTORY, $XDG_CACHE_HOME/steno or $HOME/.cache/steno, the "
    "first one that is set; if none is set, every start measures. none: every start measures.")
ROW(INT, sessions, "limits", "sessions", "STENO_LIMITS_SESSIONS", "256", 0, 100000,
    "Maximum number of concurrent WebSocket streams. More are refused with 503. 0: all are.")
ROW(INT, uploads, "limits", "uploads", "STENO_LIMITS_UPLOADS", "64", 0, 100000,
    "Maximum number of concurrent uploads, including those that are being received. More are "
    "refused with 503. 0: all are.")
ROW(INT, connections, "limits", "connections", "STENO_LIMITS_CONNECTIONS", "4096", 8, 1000000,
    "Maximum number of open connections of all kinds. More are answered 503 and closed.")
ROW(INT, per_address, "limits", "connections_per_address", "STENO_LIMITS_PER_ADDRESS",
    "0", 0, 1000000,
    "Maximum number of open connections from one address. 0: no limit. Those of "
    "server.trusted_proxies are not counted.")
ROW(BYTES, body_bytes, "limits", "body", "STENO_LIMITS_BODY", "256M", 1024, 17179869184.0,
    "Maximum size of a request body. Larger ones are answered 413.")
ROW(BYTES, upload_bytes, "limits", "upload_memory", "STENO_LIMITS_UPLOAD_MEMORY",
    "1G", 1024, 1099511627776.0,
    "Memory for the bodies of all uploads together. A body that does not fit is refused with 503.")
ROW(SECONDS, audio_seconds, "limits", "audio", "STENO_LIMITS_AUDIO", "4h", 0, 604800,
    "Maximum length of a recording or stream. 0: no limit.")
ROW(SECONDS, header_timeout, "limits", "header_timeout", "STENO_LIMITS_HEADER_TIMEOUT",
    "10", 0.1, 600,
    "Maximum time from the connection to the end of the first request head.")
ROW(SECONDS, idle_timeout, "limits", "idle_timeout", "STENO_LIMITS_IDLE_TIMEOUT", "60", 1, 86400,
    "Maximum silence of an HTTP connection: between requests, within a body, or while an answer "
    "is not read. Whole seconds.")
ROW(SECONDS, body_timeout, "limits", "body_timeout", "STENO_LIMITS_BODY_TIMEOUT", "10min", 1, 86400,
    "Maximum time for receiving one request body.")
ROW(SECONDS, request_timeout, "limits", "request_timeout", "STENO_LIMITS_REQUEST_TIMEOUT",
    "30min", 1, 86400,
    "Maximum time from the end of an upload to its answer; then it is cancelled and answered 504.")
ROW(SECONDS, retry_after, "limits", "retry_after", "STENO_LIMITS_RETRY_AFTER", "1", 1, 3600,
    "Minimum Retry-After of a client that is refused with 503. At most 500 clients get the same "
    "second; the next ones get later seconds, up to a minute. Whole seconds.")
ROW(INT, http_threads, "http", "threads", "STENO_HTTP_THREADS", "2", 1, 64,
    "Threads that own HTTP connections. They only wait for sockets and format answers.")
ROW(STRING, ws_root, "websocket", "root", "STENO_WEBSOCKET_ROOT", "auto", 0, 0,
    "The dialect of a WebSocket at /: auto (the client's first message tells it), none, vosk, "
    "sherpa or wenet, whose clients connect there. They are always at /vosk, /sherpa and /wenet.")
ROW(SECONDS, ws_idle_timeout, "websocket", "idle_timeout", "STENO_WEBSOCKET_IDLE_TIMEOUT",
    "60", 1, 86400,
    "Maximum silence of a stream: no audio and no message (a keepalive is a message).")
ROW(SECONDS, ws_ping_interval, "websocket", "ping_interval", "STENO_WEBSOCKET_PING_INTERVAL",
    "20", 1, 86400,
    "Silence after which the server pings.")
ROW(SECONDS, ws_slow_timeout, "websocket", "slow_timeout", "STENO_WEBSOCKET_SLOW_TIMEOUT",
    "15", 1, 3600,
    "Maximum time in which a client reads nothing while results wait for it. After that the "
    "stream is closed.")
ROW(BYTES, ws_message_bytes, "websocket", "message", "STENO_WEBSOCKET_MESSAGE",
    "8M", 1024, 1073741824.0,
    "Maximum size of a message. Larger ones are closed with 1009.")
ROW(BYTES, ws_send_bytes, "websocket", "send_queue", "STENO_WEBSOCKET_SEND_QUEUE",
    "1M", 4096, 1073741824.0,
    "Maximum size of the results that wait for a client that does not read. Beyond that the "
    "stream is closed.")
ROW(SECONDS, ws_resume, "websocket", "resume", "STENO_WEBSOCKET_RESUME", "30", 0, 3600,
    "Time that a session with resumable waits for its client after the connection is lost. It "
    "keeps its place meanwhile. 0: such sessions end with their connection.")
ROW(BYTES, ws_resume_bytes, "websocket", "resume_memory", "STENO_WEBSOCKET_RESUME_MEMORY",
    "256K", 4096, 1073741824.0,
    "Maximum size of the results that are kept for such a session, at most half of "
    "websocket.send_queue. A client that missed more gets an error.")
ROW(STRING, fetch_hosts, "fetch", "hosts", "STENO_FETCH_HOSTS", "", 0, 0,
    "Hosts from which recordings are fetched that a request names by URL (Deepgram's "
    "{\"url\": ...}): names without port, *.names below a domain, or * for any, comma separated. "
    "Empty: none. Needs libcurl.")
ROW(BOOL, fetch_private, "fetch", "private", "STENO_FETCH_PRIVATE", "no", 0, 0,
    "Fetch from addresses of this machine and of private networks too.")
ROW(SECONDS, fetch_timeout, "fetch", "timeout", "STENO_FETCH_TIMEOUT", "60", 1, 3600,
    "Maximum time of a fetch, with its redirects; also of the recording of a job, of which each "
    "try has this time. Its size is limited by limits.body, of a job by jobs.max_bytes.")
ROW(STRING, jobs_dir, "jobs", "dir", "STENO_JOBS_DIR", "", 0, 0,
    "Directory in which jobs (POST /v1/jobs) and their recordings are kept; only this process may "
    "use it. Empty: there are no jobs.")
ROW(STRING, jobs_queue, "jobs", "queue", "STENO_JOBS_QUEUE", "", 0, 0,
    "Store of jobs that several machines share, redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE] "
    "(Redis 7 or Valkey): every server answers for every job, and any runs it. jobs.dir is then "
    "for recordings on their way. Live sessions with resumable are stored there too, so that a "
    "client comes back to any server. Empty: the store is in jobs.dir.")
ROW(STRING, jobs_password, "jobs", "queue_password", "STENO_JOBS_QUEUE_PASSWORD", "", 0, 0,
    "File of the password of jobs.queue, instead of the one in its URL.")
ROW(INT, jobs_workers, "jobs", "workers", "STENO_JOBS_WORKERS", "1", 1, 64,
    "Maximum number of jobs that run at once. Streams and uploads go before them.")
ROW(BYTES, jobs_bytes, "jobs", "max_bytes", "STENO_JOBS_MAX_BYTES", "2G", 1024, 1099511627776.0,
    "Maximum size of the recording of a job, also of one that is fetched. Larger ones are answered "
    "413.")
ROW(INT, jobs_max, "jobs", "max", "STENO_JOBS_MAX", "10000", 0, 10000000,
    "Maximum number of jobs that are not over yet. More are refused with 503. 0: no limit.")
ROW(INT, jobs_per_key, "jobs", "per_key", "STENO_JOBS_PER_KEY", "1000", 0, 10000000,
    "Maximum number of jobs of one API key that are not over yet. More are refused with 429. 0: no "
    "limit.")
ROW(SECONDS, jobs_keep, "jobs", "keep", "STENO_JOBS_KEEP", "168h", 1, 315360000,
    "Time after which a job that is over is forgotten, with its results. The recording is removed "
    "when the job is over.")
ROW(SECONDS, jobs_timeout, "jobs", "timeout", "STENO_JOBS_TIMEOUT", "6h", 1, 604800,
    "Maximum time of one try of a job; after three tries it fails.")
ROW(SECONDS, jobs_lease, "jobs", "lease", "STENO_JOBS_LEASE", "60", 5, 3600,
    "Time without a sign of life of a running job after which it runs again, with jobs.queue on "
    "another machine.")
ROW(STRING, callback_hosts, "jobs", "callback_hosts", "STENO_JOBS_CALLBACK_HOSTS", "", 0, 0,
    "Hosts to which the results of jobs may be sent (callback): names without port, *.names below "
    "a domain, or * for any, comma separated. Empty: none. Needs libcurl.")
ROW(BOOL, callback_private, "jobs", "callback_private", "STENO_JOBS_CALLBACK_PRIVATE", "no", 0, 0,
    "Send to addresses of this machine and of private networks too.")
ROW(BOOL, callback_http, "jobs", "callback_http", "STENO_JOBS_CALLBACK_HTTP", "no", 0, 0,
    "Send by http too. Without it a callback must be https.")
ROW(STRING, callback_secret, "jobs", "callback_secret", "STENO_JOBS_CALLBACK_SECRET", "", 0, 0,
    "File of the secret that signs callbacks (Steno-Signature). Empty: they are not signed.")
ROW(STRING, callback_ca, "jobs", "callback_ca", "STENO_JOBS_CALLBACK_CA", "", 0, 0,
    "PEM file of the issuers of callback hosts' certificates. Empty: those that the system trusts.")
ROW(SECONDS, callback_retry, "jobs", "callback_retry", "STENO_JOBS_CALLBACK_RETRY", "5", 0.1, 3600,
    "Time between the first try of a callback and the second; each later one waits twice as long, "
    "an hour at most.")
ROW(SECONDS, callback_give_up, "jobs", "callback_give_up", "STENO_JOBS_CALLBACK_GIVE_UP", "24h", 1,
    2592000,
    "Time after which a callback that failed again and again is given up; of a telephone call's "
    "text after 5 minutes at most.")
ROW(STRING, calls_callback, "calls", "callback", "STENO_CALLS_CALLBACK", "", 0, 0,
    "URL to which the texts of telephone calls (/twilio, /asterisk) are posted whose clients name "
    "none, http or https, of private networks too. Empty: none. Needs libcurl. What a client names "
    "is held to jobs.callback_hosts and the settings beside it, which hold here too.")
ROW(STRING, wyoming_listen, "wyoming", "listen", "STENO_WYOMING_LISTEN", "", 0, 0,
    "Addresses for clients of the Wyoming protocol (Home Assistant), in the form of server.listen; "
    "the usual port is 10300. Empty: none. The protocol has no keys and no encryption.")
ROW(STRING, wyoming_key, "wyoming", "key", "STENO_WYOMING_KEY", "", 0, 0,
    "Name of the API key that Wyoming clients count as. Needed where auth.keys is set.")
ROW(STRING, wyoming_advertise, "wyoming", "advertise", "STENO_WYOMING_ADVERTISE", "", 0, 0,
    "Name under which the Wyoming port is announced on the local network (DNS-SD, by the Avahi "
    "daemon of this machine), so that Home Assistant finds it. Empty: it is not announced.")
ROW(STRING, log_level, "log", "level", "STENO_LOG_LEVEL", "info", 0, 0,
    "error, warning, notice, info or debug.")
ROW(STRING, log_format, "log", "format", "STENO_LOG_FORMAT", "text", 0, 0,
    "text, or json: one object per line.")
ROW(BOOL, log_requests, "log", "requests", "STENO_LOG_REQUESTS", "yes", 0, 0,
    "A line per request and stream, at level info. It never has audio or text.")
ROW(BOOL, log_transcripts, "log", "transcripts", "STENO_LOG_TRANSCRIPTS", "no", 0, 0,
    "Also a line for each final of a stream and each answer to an upload, with the text. For "
    "debugging: without it no line, metric, trace or file ever has text of a speaker.")
ROW(BOOL, metrics_keys, "metrics", "keys", "STENO_METRICS_KEYS", "no", 0, 0,
    "/metrics has what each API key uses too, under its name in auth.keys. Those names may be "
    "customers', and whoever reads /metrics sees them.")
ROW(STRING, trace_endpoint, "tracing", "endpoint", "STENO_TRACING_ENDPOINT", "", 0, 0,
    "URL of an OpenTelemetry collector (OTLP over HTTP), for instance http://127.0.0.1:4318; "
    "/v1/traces is added unless the URL ends with it. Empty: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT "
    "or OTEL_EXPORTER_OTLP_ENDPOINT of the environment; without them no traces. Needs libcurl.")
ROW(RATIO, trace_sample, "tracing", "sample", "STENO_TRACING_SAMPLE", "1", 0, 1,
    "Share of the requests whose trace is recorded, 0 to 1. A request with a traceparent header is "
    "recorded if its caller records it.")
/* clang-format on */
