/* The table of settings: one row per key, in the order of the file. Columns: type, field, section,
 * key, environment variable, default as text, least and greatest value (numbers), documentation.
 * Included by config.c alone. Options of model families are not here: they follow the rows of
 * [model], from steno_option_at. */
/* clang-format off */
ROW(STRING, listen, "server", "listen", "STENO_LISTEN", "127.0.0.1:8080", 0, 0,
    "Addresses to serve on, comma separated: ADDR:PORT, [IPV6]:PORT, or *:PORT for every address. "
    "Port 0 takes a free one; the log names it. Sockets passed by systemd are used instead.")
ROW(STRING, admin, "server", "admin", "STENO_ADMIN", "", 0, 0,
    "Path of a socket for the administrator, mode 0600: steno top shows there what runs, and reload does what "
    "SIGHUP does. Empty: none.")
ROW(SECONDS, drain_timeout, "server", "drain_timeout", "STENO_DRAIN_TIMEOUT", "30", 0, 3600,
    "Longest time from SIGTERM to the end: uploads finish and streams get their last result in it.")
ROW(STRING, model, "model", "dir", "STENO_MODEL", "", 0, 0,
    "Model directory. Empty: the model that ships.")
ROW(STRING, aliases, "model", "aliases", "STENO_MODEL_ALIASES", "whisper-1, gpt-4o-transcribe, gpt-4o-mini-transcribe, nova-2, nova-3", 0, 0,
    "Other names that requests may call the model by, comma separated. The default has what "
    "OpenAI's and Deepgram's clients send when nobody tells them otherwise.")
ROW(STRING, precision, "model", "precision", "STENO_MODEL_PRECISION", "auto", 0, 0,
    "How weights of products are kept: fp32 (as they are), bf16 or fp16 (half the memory), int8 (a quarter). "
    "auto: int8 or bf16 where the model's directory allows it and the CPU multiplies such numbers, else fp32; of "
    "networks that are in 8 bits what is not is bf16 on such a CPU, with int8 too. Holds for every model.")
ROW(STRING, search, "model", "search", "STENO_MODEL_SEARCH", "", 0, 0,
    "Search of streams and uploads that do not say otherwise, as NAME=VALUE, comma separated: beam, and the "
    "options that the model's family has for streams (steno model options). What is not named is the model's "
    "own; a key of the option's name counts over this one.")
ROW(STRING, models_dir, "models", "dir", "STENO_MODELS", "", 0, 0,
    "Directory of further model directories, called by their names there. They are loaded when a request "
    "wants them: the first is told 503 with Retry-After meanwhile. Empty: none.")
ROW(SECONDS, models_idle, "models", "idle_unload", "STENO_MODELS_IDLE_UNLOAD", "10min", 0, 604800,
    "A further model that nobody has used for so long is unloaded. 0: never.")
ROW(BYTES, models_memory, "models", "memory", "STENO_MODELS_MEMORY", "0", 0, 1099511627776.0,
    "Weights of all loaded models together. The one that was used longest ago gives way; one that does "
    "not fit beside those in use is refused with 503. 0: no limit.")
ROW(STRING, vad_mode, "vad", "mode", "STENO_VAD", "off", 0, 0,
    "Audio in which nobody speaks does not go through the network of streams and uploads that do not say "
    "otherwise: off, energy (a rule on loudness) or silero (vad.model). For models of family ctc_streaming.")
ROW(STRING, vad_model, "vad", "model", "STENO_VAD_MODEL", "", 0, 0,
    "Directory with silero-vad's silero_vad_16k_op15.onnx or silero_vad.onnx. Empty: none.")
ROW(STRING, keys, "auth", "keys", "STENO_AUTH_KEYS", "", 0, 0,
    "File of API keys and what each may use: sessions at once, audio and requests per minute "
    "(docs/configuration.md). Read again on SIGHUP. Empty: everybody may use everything.")
ROW(INT, threads, "pool", "threads", "STENO_THREADS", "0", 0, 1024,
    "Threads that run networks. 0: one per processor.")
ROW(SECONDS, buffer_seconds, "pool", "buffer", "STENO_POOL_BUFFER", "4", 0.5, 60,
    "Audio that may wait in one stream before its sender is slowed down.")
ROW(INT, batch, "pool", "batch", "STENO_POOL_BATCH", "0", 0, 32,
    "Most streams whose audio goes through the network together. 0: as many as pay, measured at start; "
    "1: each alone.")
ROW(SECONDS, batch_wait, "pool", "batch_wait", "STENO_POOL_BATCH_WAIT", "20ms", 0, 10,
    "A stream with audio to recognise waits no longer than this for others to go with. Nothing waits "
    "while there are threads to spare.")
ROW(INT, capacity, "pool", "capacity", "STENO_POOL_CAPACITY", "0", 0, 100000,
    "WebSocket streams at once that the machine can keep up with; more are refused with 503. 0: measured "
    "at start and corrected while running. limits.sessions holds in any case.")
ROW(STRING, calibration, "pool", "calibration", "STENO_POOL_CALIBRATION", "", 0, 0,
    "Directory where what a model costs on this machine is kept, so that the next start need not measure it. "
    "Empty: $CACHE_DIRECTORY, $XDG_CACHE_HOME/steno or $HOME/.cache/steno, whichever is set first; none: "
    "measured at every start.")
ROW(INT, sessions, "limits", "sessions", "STENO_LIMITS_SESSIONS", "256", 0, 100000,
    "WebSocket streams at once. More are refused with 503.")
ROW(INT, uploads, "limits", "uploads", "STENO_LIMITS_UPLOADS", "64", 0, 100000,
    "Uploads at once, those being received included. More are refused with 503.")
ROW(INT, connections, "limits", "connections", "STENO_LIMITS_CONNECTIONS", "4096", 8, 1000000,
    "Open connections of all kinds. More are answered 503 and closed.")
ROW(INT, per_address, "limits", "connections_per_address", "STENO_LIMITS_PER_ADDRESS", "0", 0, 1000000,
    "Open connections from one address. 0: no limit (right behind a proxy, which is one address).")
ROW(BYTES, body_bytes, "limits", "body", "STENO_LIMITS_BODY", "100M", 1024, 17179869184.0,
    "Largest request body. More is answered 413.")
ROW(BYTES, upload_bytes, "limits", "upload_memory", "STENO_LIMITS_UPLOAD_MEMORY", "1G", 1024, 1099511627776.0,
    "Memory for the bodies of all uploads together. A body that does not fit is refused with 503.")
ROW(SECONDS, audio_seconds, "limits", "audio", "STENO_LIMITS_AUDIO", "4h", 0, 604800,
    "Longest recording or stream. 0: no limit.")
ROW(SECONDS, header_timeout, "limits", "header_timeout", "STENO_LIMITS_HEADER_TIMEOUT", "10", 0.1, 600,
    "From the connection to the end of the first request head.")
ROW(SECONDS, idle_timeout, "limits", "idle_timeout", "STENO_LIMITS_IDLE_TIMEOUT", "60", 1, 86400,
    "Longest silence of an HTTP connection, between requests, within a body or while an answer is not "
    "read. Whole seconds.")
ROW(SECONDS, body_timeout, "limits", "body_timeout", "STENO_LIMITS_BODY_TIMEOUT", "10min", 1, 86400,
    "Longest time for receiving one request body.")
ROW(SECONDS, request_timeout, "limits", "request_timeout", "STENO_LIMITS_REQUEST_TIMEOUT", "30min", 1, 86400,
    "From the end of an upload to its answer; after that it is cancelled and answered 504.")
ROW(SECONDS, retry_after, "limits", "retry_after", "STENO_LIMITS_RETRY_AFTER", "1", 1, 3600,
    "The least that Retry-After tells a client that was refused with 503; where 500 have been told to come "
    "in one second, the next are told of a later one, up to a minute. Whole seconds.")
ROW(INT, http_threads, "http", "threads", "STENO_HTTP_THREADS", "2", 1, 64,
    "Threads that own HTTP connections. They wait for sockets and format answers, nothing else.")
ROW(STRING, ws_root, "websocket", "root", "STENO_WEBSOCKET_ROOT", "none", 0, 0,
    "What a WebSocket at / speaks: none, vosk or sherpa, whose clients connect there. Both are at /vosk "
    "and /sherpa in any case.")
ROW(SECONDS, ws_idle_timeout, "websocket", "idle_timeout", "STENO_WEBSOCKET_IDLE_TIMEOUT", "60", 1, 86400,
    "Longest silence of a stream: no audio and no message (a keepalive is one).")
ROW(SECONDS, ws_ping_interval, "websocket", "ping_interval", "STENO_WEBSOCKET_PING_INTERVAL", "20", 1, 86400,
    "Silence after which the server pings.")
ROW(SECONDS, ws_slow_timeout, "websocket", "slow_timeout", "STENO_WEBSOCKET_SLOW_TIMEOUT", "15", 1, 3600,
    "Longest time in which a client takes nothing of what waits for it. After it the stream is closed.")
ROW(BYTES, ws_message_bytes, "websocket", "message", "STENO_WEBSOCKET_MESSAGE", "8M", 1024, 1073741824.0,
    "Largest message. More is closed with 1009.")
ROW(BYTES, ws_send_bytes, "websocket", "send_queue", "STENO_WEBSOCKET_SEND_QUEUE", "1M", 4096, 1073741824.0,
    "Results that may wait for a client that does not read. More, and the stream is closed.")
ROW(SECONDS, ws_resume, "websocket", "resume", "STENO_WEBSOCKET_RESUME", "30", 0, 3600,
    "A session whose client asked for it (resumable) waits so long for the client to come back when its "
    "connection is lost. It keeps its place meanwhile. 0: such sessions end with their connection.")
ROW(BYTES, ws_resume_bytes, "websocket", "resume_memory", "STENO_WEBSOCKET_RESUME_MEMORY", "256K", 4096, 1073741824.0,
    "Results of one such session that are kept for it, at most half of websocket.send_queue. A client that "
    "missed more is told so.")
ROW(STRING, log_level, "log", "level", "STENO_LOG_LEVEL", "info", 0, 0,
    "error, warning, notice, info or debug.")
ROW(STRING, log_format, "log", "format", "STENO_LOG_FORMAT", "text", 0, 0,
    "text, or json: one object per line.")
ROW(BOOL, log_requests, "log", "requests", "STENO_LOG_REQUESTS", "yes", 0, 0,
    "A line per request and stream, at level info: never its audio or text.")
/* clang-format on */
