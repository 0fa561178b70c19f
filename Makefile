# steno: `make help` lists the targets. Output goes to build/<variant>/; build/steno and
# build/stenod are links to the plain variant.
VERSION := 0.1.0
# scripts: in Turkish [a-z] has no i, and names sort otherwise elsewhere
export LC_ALL := C.UTF-8
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
SBINDIR ?= $(PREFIX)/sbin
LIBDIR ?= $(PREFIX)/lib
LIBEXECDIR ?= $(PREFIX)/libexec
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
SYSCONFDIR ?= /etc
UNITDIR ?= $(PREFIX)/lib/systemd/system
DESTDIR ?=
SAN ?=
FUZZ ?=
V ?= 0

CC ?= cc
ifeq ($(origin CC),default)
# ccache fails where it cannot make its folder (a build user without a home)
CC := $(if $(shell d=$$(ccache -k cache_dir 2>/dev/null) && mkdir -p "$$d" 2>/dev/null && test -w "$$d" && echo yes),ccache gcc,gcc)
endif
comma := ,
VARIANT := $(if $(FUZZ),fuzzer,$(if $(SAN),$(subst $(comma),-,$(SAN)),release))
B := build/$(VARIANT)
san_flags := $(if $(FUZZ),-fsanitize=fuzzer-no-link$(comma)address$(comma)undefined,$(if $(SAN),-fsanitize=$(SAN)))
Q := $(if $(filter 0,$(V)),@,)
say = $(if $(filter 0,$(V)),@printf '  %-7s %s\n' '$(1)' '$(2)',)

ifeq ($(filter clean distclean help deps demo dist deb container plots,$(MAKECMDGOALS)),)
PKGS := libmicrohttpd libwebsockets openssl jansson libprotobuf-c openblas opus ogg vorbis libmpg123 sndfile soxr inih \
        libsystemd libxxhash libutf8proc kissfft-float yaml-0.1 zlib libcurl libavformat libavcodec libswresample \
        libavutil libseccomp sqlite3 hiredis
PKG_MISSING := $(shell for p in $(PKGS); do pkg-config --exists $$p 2>/dev/null || echo $$p; done)
endif
lib_pkgs := libprotobuf-c openblas opus ogg vorbis libmpg123 sndfile soxr inih kissfft-float libxxhash libutf8proc yaml-0.1 zlib
srv_pkgs := libmicrohttpd libwebsockets openssl jansson libsystemd sqlite3 hiredis
cli_pkgs := jansson
hdr_pkgs := libcurl # loaded when needed, by the command and the daemon (engine/curl/libcurl.c)
dec_pkgs := libavformat libavcodec libswresample libavutil libseccomp # of steno-decode alone

# -g1: lines and functions are what a report names; all of -g takes a third longer for the kernels
OPT := $(if $(san_flags),-O1 -g1 -fno-omit-frame-pointer $(san_flags),-O2 -g)
ifneq ($(findstring undefined,$(SAN)),)
OPT += -fno-sanitize-recover=undefined
endif
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith \
        -Wcast-qual -Wformat=2 -Wundef -Wwrite-strings -Wdouble-promotion $(if $(CI),$(if $(san_flags),,-Werror))
CFLAGS ?= $(OPT)
# Programs and libraries do not depend on the folder they are built in, nor man pages on the day (`make reproducible`).
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG)
base_cflags = -ffile-prefix-map='$(CURDIR)'=. -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -fPIC -fno-semantic-interposition -pthread \
        -fno-math-errno -ffp-contract=off -Iengine -I. -isystem $(B)/gen -DSTENO_VERSION='"$(VERSION)"' \
        -DSTENO_DATADIR='"$(DATADIR)"' -DSTENO_SYSCONFDIR='"$(SYSCONFDIR)"' -DSTENO_LIBEXECDIR='"$(LIBEXECDIR)"' $(WARN) \
        $(if $(san_flags),-DSTENO_SANITIZE=1) $(if $(FUZZ),-DSTENO_FUZZ=1)
# hiredis asks for _FILE_OFFSET_BITS, which would rename pread and others in every file
ext_cflags := $(shell pkg-config --cflags $(lib_pkgs) $(srv_pkgs) $(cli_pkgs) $(hdr_pkgs) $(dec_pkgs) 2>/dev/null | sed 's/-I/-isystem /g; s/-D_FILE_OFFSET_BITS=64//g')
ALL_CFLAGS = $(base_cflags) $(ext_cflags) $(CPPFLAGS) $(CFLAGS)
# In a program the sanitizer's functions are called, and its thread-local data is read, without the loader's tables: 6 to 15 %
# less time. Tests keep the shared library, with $(testlib).
san_static := $(if $(findstring address,$(SAN)),-static-libasan)
# UBSan's records hold a million pointers to file names. A position-independent program relocates them at every start.
ALL_LDFLAGS = $(if $(findstring undefined,$(SAN)),-no-pie,-pie) -pthread -Wl,-z,relro,-z,now -Wl,--as-needed $(san_flags) $(LDFLAGS)
lib_libs := $(shell pkg-config --libs $(lib_pkgs) 2>/dev/null) -lm
srv_libs := $(shell pkg-config --libs $(srv_pkgs) 2>/dev/null) -lev
cli_libs := $(shell pkg-config --libs $(cli_pkgs) 2>/dev/null)
dec_libs := $(shell pkg-config --libs $(dec_pkgs) 2>/dev/null)

# ---- sources ---------------------------------------------------------------------------------
# Folders of libsteno.a, each above those that it uses (tests/layers.sh). A family is found by its folder.
isa := $(if $(filter aarch64-%,$(shell $(CC) -dumpmachine 2>/dev/null)),arm,x86)
nn_dirs := graph build kernels kernels/scalar kernels/$(isa) onnx exec ops passes network
families := $(patsubst engine/%/,%,$(wildcard engine/speech/families/*/))
lib_dirs := base formats $(addprefix nn/,$(nn_dirs)) $(addprefix speech/,store audio features search search/lm text itn punctuation families recognizer pool speakers turn) $(families)
lib_src := $(wildcard engine/*.c $(patsubst %,engine/%/*.c,$(lib_dirs)))
rare_src := $(wildcard engine/nn/rare_ops/*.c)
opt_src := $(wildcard engine/tools/optimize/*.c engine/tools/convert/*.c)
cli_src := $(wildcard engine/tools/cli/*.c engine/curl/*.c)
proto_src := $(wildcard protocol/*.c)
srv_src := $(wildcard server/*.c server/*/*.c)
dec_src := $(wildcard engine/tools/decode/*.c)
unit_src := $(wildcard tests/unit/test_*.c tests/ops/test_*.c tests/faults/test_*.c)
fuzz_src := $(wildcard tests/fuzz/fuzz_*.c)
load_src := $(wildcard loadtest/*.c)
load_help := $(wildcard loadtest/support/*.c)
help_src := $(wildcard tests/support/*.c)

obj = $(patsubst %.c,$(B)/%.o,$(1))
lib_obj := $(call obj,$(lib_src)) $(B)/gen/onnx.pb-c.o $(B)/gen/sentencepiece.pb-c.o
libsteno := $(B)/libsteno.a
librare := $(B)/libsteno-rare-ops.a
libopt := $(B)/libsteno-optimize.a
libproto := $(B)/libsteno-protocol.a
unit_bin := $(patsubst %.c,$(B)/%,$(unit_src))
fuzz_bin := $(patsubst %.c,$(B)/%,$(fuzz_src))
load_bin := $(patsubst loadtest/%.c,$(B)/loadtest/%,$(load_src))
kcheck := $(B)/tests/kernels/kcheck
graph_runner := $(B)/tests/graphs/runner
ways := $(B)/tests/formats/ways
# The N of libsteno.so.N, and what the shared library shows.
abi := $(shell sed -n 's/^\#define STENO_ABI_VERSION \([0-9]*\).*/\1/p' engine/steno.h)
soname := libsteno.so.$(abi)
public_headers := engine/base/error.h engine/base/precision.h engine/steno.h

.DEFAULT_GOAL := all

.PHONY: all abi wheel manylinux check check-asan check-ubsan check-tsan check-clients check-faults check-slow check-long install uninstall dist \
        deb container reproducible distcheck clean distclean help bench plots bench-espnet kbench fuzz fuzz-graphs coverage-fuzz lint format docs options sizes coverage demo demo-speakers deps tests \
        train-digits fuzzers loadtest loadtest-smoke soak soak-programs

all: $(if $(cli_src),$(B)/steno) $(if $(wildcard server/main.c),$(B)/stenod) $(B)/steno-decode $(B)/loadtest/steno-load $(B)/loadtest/wsclient $(B)/$(soname) $(B)/include/steno/steno.h ## the command, the daemon, the libraries
ifeq ($(SAN)$(FUZZ),)
	@mkdir -p build
	@ln -sf release/steno build/steno
	@ln -sf release/stenod build/stenod
endif

ifneq ($(PKG_MISSING),)
$(lib_obj): missing-packages
missing-packages:
	@echo "Missing development packages: $(PKG_MISSING). Run: make deps" >&2; exit 1
endif

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | sort | expand -t 16

deps: ## install the Debian packages that building needs (apt)
	@tests/deps.sh build

# ---- compiling -------------------------------------------------------------------------------
$(B)/gen/%.pb-c.c $(B)/gen/%.pb-c.h: engine/nn/onnx/%.proto
	$(call say,PROTOC,$<)
	@mkdir -p $(B)/gen
	$(Q)protoc-c --proto_path=$(<D) --c_out=$(B)/gen $<
$(B)/gen/%.pb-c.c $(B)/gen/%.pb-c.h: engine/speech/text/%.proto
	$(call say,PROTOC,$<)
	@mkdir -p $(B)/gen
	$(Q)protoc-c --proto_path=$(<D) --c_out=$(B)/gen $<
$(call obj,engine/speech/text/sentencepiece.c): $(B)/gen/sentencepiece.pb-c.h
$(call obj,$(wildcard engine/nn/onnx/*.c engine/tools/optimize/*.c)): $(B)/gen/onnx.pb-c.h
$(call obj,$(help_src) $(unit_src) $(fuzz_src)): $(B)/gen/onnx.pb-c.h
$(B)/gen/%.pb-c.o: $(B)/gen/%.pb-c.c
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -w -c -o $@ $<

isa_avx2 := -mavx2 -mfma -mf16c
isa_avx512 := $(isa_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl
isa_vnni := $(isa_avx512) -mavx512vnni
isa_bf16 := $(isa_vnni) -mavx512bf16
isa_amx := $(isa_bf16) -mamx-tile -mamx-int8 -mamx-bf16
isa_avxvnni := $(isa_avx2) -mavxvnni
isa_dotprod := -march=armv8.2-a+dotprod
# Files of kernels alone (tests/isa.sh): any other one runs whatever the CPU has.
isa_flags = $(if $(filter engine/nn/kernels/% tests/kernels/evex_%,$(1)),\
        $(foreach i,avx2 avx512 vnni bf16 amx avxvnni dotprod,$(if $(filter %_$(i).c,$(1)),$(isa_$(i)))))
# ASan sees each access that these three would report; they double the code of kernels and the time to compile them.
kernels_skip := $(if $(findstring address$(comma)undefined,$(SAN)),-fno-sanitize=null$(comma)pointer-overflow$(comma)object-size)
# Poisoning locals at the end of their block takes 40 s of compiling; the scalar kernels have it.
unscoped := $(if $(kernels_skip),-fno-sanitize-address-use-after-scope)
# With UBSan -O3 takes 141 s of a processor for engine/nn/kernels/x86, -O2 92, as -O1 does, whose products take up to four times as long.
kernel_flags = $(if $(filter engine/nn/kernels/%,$(1)),$(if $(findstring undefined,$(san_flags)),-O2,-O3) $(kernels_skip) \
        $(if $(filter engine/nn/kernels/scalar/%,$(1)),,$(unscoped))) \
        $(if $(filter tests/kernels/%,$(1)),-O2) $(if $(filter tests/kernels/evex_%,$(1)),$(kernels_skip) $(unscoped))

# Without optimization tests compile in less than half of the time; what takes them time is in the libraries.
test_flags = $(if $(filter tests/unit/% tests/ops/% tests/fuzz/% tests/faults/%,$(1)),$(if $(filter file,$(origin CFLAGS)),-O0))

# What packed caches are of, beside the model: the library's source.
$(B)/gen/source_id.h: $(lib_src) $(rare_src) $(wildcard engine/*.h $(patsubst %,engine/%/*.h,$(lib_dirs) nn/kernels/tmpl nn/rare_ops) engine/*/*/*.proto)
	$(call say,GEN,$@)
	@mkdir -p $(@D)
	$(Q)echo "#define STENO_SOURCE_ID \"$$(cat $^ | cksum)\"" >$@.new && mv $@.new $@
$(call obj,engine/nn/network/cache_key.c): $(B)/gen/source_id.h

# The API descriptions as C strings: a server shows what it speaks.
$(B)/gen/api_text.inc: docs/openapi.yaml docs/asyncapi.yaml
	$(call say,GEN,$@)
	@mkdir -p $(@D)
	$(Q)for f in openapi asyncapi; do echo "const char steno_$$f[] ="; \
	    sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' docs/$$f.yaml; echo ";"; done >$@.new && mv $@.new $@
$(call obj,server/http/api_text.c): $(B)/gen/api_text.inc
$(B)/gen/page.inc: server/http/page.html
	$(call say,GEN,$@)
	@mkdir -p $(@D)
	$(Q){ echo "const char steno_page[] ="; sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $<; echo ";"; } >$@.new && mv $@.new $@
$(call obj,server/http/page.c): $(B)/gen/page.inc

# Other flags of libraries (a package added, say) compile everything again.
$(B)/ext_cflags: FORCE
	@mkdir -p $(@D)
	@echo '$(ext_cflags)' | cmp -s - $@ || echo '$(ext_cflags)' >$@
.PHONY: FORCE
$(B)/%.o: %.c $(B)/ext_cflags
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(call kernel_flags,$<) $(call test_flags,$<) $(call isa_flags,$<) -MMD -MP -c -o $@ $<

$(libsteno): $(lib_obj)
	$(call say,AR,$@)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $^
$(librare): $(call obj,$(rare_src))
	$(call say,AR,$@)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $^
$(libopt): $(call obj,$(opt_src))
	$(call say,AR,$@)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $^
$(libproto): $(call obj,$(proto_src))
	$(call say,AR,$@)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $^

# The shared library has the functions of steno.h, with versions, and no other symbol.
$(B)/gen/libsteno.map $(B)/gen/libsteno.options &: engine/symbols.awk $(public_headers)
	$(call say,GEN,$(B)/gen/libsteno.map)
	@mkdir -p $(B)/gen
	$(Q)awk -f $< -v form=map $(public_headers) >$(B)/gen/libsteno.map
	$(Q)awk -f $< -v form=options $(public_headers) >$(B)/gen/libsteno.options
$(B)/$(soname): $(libsteno) $(B)/gen/libsteno.map $(B)/gen/libsteno.options
	$(call say,LD,$@)
	$(Q)$(CC) -shared -pthread -Wl,-soname,$(soname) -Wl,--version-script=$(B)/gen/libsteno.map -Wl,-z,relro,-z,now,--as-needed $(if $(san_flags),,-Wl$(comma)-z$(comma)defs) \
	    $(san_flags) $(LDFLAGS) -o $@.new @$(B)/gen/libsteno.options $(libsteno) $(lib_libs) && mv $@.new $@
$(B)/include/steno/steno.h: engine/header.awk $(public_headers)
	$(call say,GEN,$@)
	@mkdir -p $(@D)
	$(Q)awk -f $< engine/steno.h >$@.new && mv $@.new $@
wheel: $(B)/$(soname) ## the Python package steno-asr in build/wheel
	@mkdir -p build/wheel
	@STENO_WHEEL_LIBRARY=$(B)/$(soname) python3 engine/python/build_wheel.py build/wheel
manylinux: $(B)/$(soname) ## ... as PyPI takes it, with the libraries it uses, in build/manylinux; tried in a fresh Debian (root)
	@B=$(B) tests/manylinux.sh
abi: $(B)/$(soname) ## compare the shared library's interface with that of the last release (abidiff; docs/packages.md)
	@B=$(B) tests/abi.sh

# A program has its name once it is whole: one that a stopped make left would pass for up to date.
$(B)/steno: $(call obj,$(cli_src)) $(libproto) $(libopt) $(librare) $(libsteno)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(san_static) -o $@.new $^ $(cli_libs) $(lib_libs) && mv $@.new $@
$(B)/stenod: $(call obj,$(srv_src) engine/curl/libcurl.c) $(libproto) $(libsteno)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(san_static) -o $@.new $^ $(srv_libs) $(lib_libs) && mv $@.new $@

# the only program with FFmpeg: it takes foreign containers apart in a sandbox
$(B)/steno-decode: $(call obj,$(dec_src)) $(libsteno)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(san_static) -o $@.new $^ $(dec_libs) && mv $@.new $@

# ---- tests -----------------------------------------------------------------------------------
# Unit tests and fuzz targets share one library: 250 copies of the engine would take 20 GB with sanitizers. A test with
# `/* ldflags: ... */` gets a copy of its own, since --wrap reaches only what is linked into the program.
archives := $(libproto) $(libopt) $(librare) $(libsteno)
testlib := $(B)/tests/libsteno-tests.so
$(testlib): $(archives)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -pthread -Wl,-z,relro,--as-needed $(san_flags) $(LDFLAGS) -o $@.new -Wl,--whole-archive $^ -Wl,--no-whole-archive $(srv_libs) $(lib_libs) && mv $@.new $@
shared := $(if $(FUZZ),,$(testlib))
engine_of = $(if $(and $(shared),$(if $(call link_flags,$(1)),,1)),-Wl$(comma)-rpath$(comma)'$$ORIGIN/..' $(shared),$(archives))
# A unit test may hold a line  `/* link: server/core/config.c */` naming daemon sources it needs.
link_extra = $(call obj,$(shell sed -n 's|^/\* link: \(.*\) \*/|\1|p' $(1)))
link_flags = $(shell sed -n 's|^/\* ldflags: \(.*\) \*/|\1|p' $(1))
.SECONDEXPANSION:
$(unit_bin): $(B)/%: $(B)/%.o $$(call link_extra,$$*.c) $(call obj,$(help_src)) $(shared) $(archives)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(call link_flags,$*.c) -o $@.new $(filter %.o,$^) $(call engine_of,$*.c) -lcmocka $(srv_libs) $(lib_libs) && mv $@.new $@
# gcc: a plain main replays the corpus; FUZZ=1 with clang: libFuzzer's main
fuzz_main := $(if $(FUZZ),,$(B)/tests/fuzz/replay.o)
$(fuzz_bin): $(B)/%: $(B)/%.o $(fuzz_main) $$(call link_extra,$$*.c) $(shared) $(archives)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(if $(FUZZ),-fsanitize=fuzzer) $(call link_flags,$*.c) -o $@.new $(filter %.o,$^) $(call engine_of,$*.c) $(srv_libs) $(lib_libs) && mv $@.new $@
fuzzers: $(fuzz_bin)
$(B)/tests/bench/whisper_speed $(B)/tests/bench/stream_speed: %: %.o $(libsteno)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@.new $^ $(lib_libs) && mv $@.new $@
$(kcheck): $(call obj,$(wildcard tests/kernels/*.c)) $(libsteno)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(san_static) -o $@.new $^ $(lib_libs) && mv $@.new $@
$(graph_runner): $(B)/tests/graphs/runner.o $(libopt) $(librare) $(libsteno)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(san_static) -o $@.new $^ $(lib_libs) && mv $@.new $@
$(ways): $(B)/tests/formats/ways.o $(libsteno)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(san_static) -o $@.new $^ $(lib_libs) && mv $@.new $@
$(load_bin): $(B)/loadtest/%: $(B)/loadtest/%.o $(call obj,$(load_help)) $(libproto) $(libsteno)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(san_static) -o $@.new $(filter %.o,$^) $(libproto) $(libsteno) $(srv_libs) $(lib_libs) && mv $@.new $@

# preloaded into a running daemon by tests/integration/broken.py; not itself instrumented. Where a sanitizer has an
# allocator of its own, that stays
inject := $(B)/tests/faults/inject.so
inject_flags := $(if $(filter address thread leak,$(subst $(comma), ,$(SAN))),-DSTENO_INJECT_NO_MEMORY)
$(inject): tests/faults/inject.c
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O1 -g $(WARN) $(inject_flags) -fPIC -shared -o $@.new $< -ldl && mv $@.new $@

tests: all $(inject) $(unit_bin) $(fuzz_bin) $(if $(wildcard tests/kernels/*.c),$(kcheck) $(B)/tests/bench/whisper_speed $(B)/tests/bench/stream_speed) $(graph_runner) $(ways) $(load_bin) ## build every test program

loadtest: all ## load on a server of its own: latency, streams per core, uploads (minutes)
	@B=$(B) loadtest/run.sh $(RUNS)
loadtest-smoke: all ## 500 real-time streams for 15 s: transcripts and p99 of partials are judged
	@B=$(B) loadtest/smoke.sh
soak-programs: $(B)/stenod $(B)/loadtest/steno-load $(if $(MODEL),$(B)/steno)
soak: soak-programs ## mixed clients and reloads for MINUTES (3): memory, descriptors, latency, metrics are judged; MODEL=DIR: with Whisper; SOAK="--reload 5": its options
	@B=$(B) loadtest/soak.py --minutes $(or $(MINUTES),3) $(if $(MODEL),--model $(MODEL)) $(SOAK)

check: ## install what tests need, build, run all tests but the slow ones; last line "N passed, M failed"
	@tests/check.sh
check-asan: ## unit, fuzz-replay and integration tests under AddressSanitizer
	@tests/check.sh --san address
check-ubsan: ## ... under UndefinedBehaviorSanitizer
	@tests/check.sh --san undefined
check-tsan: ## ... under ThreadSanitizer
	@tests/check.sh --san thread
check-faults: ## fault injection only
	@tests/check.sh --only faults
check-clients: all ## clients that need much to be installed: LiveKit, pipecat, Node.js, Java (1 GB; docs/clients.md)
	@tests/clients/setup.sh
	@STENO_BUILD='$(CURDIR)/$(B)' STENO_CLIENTS_LARGE=1 build/venv/bin/python tests/integration/test_clients_large.py
check-slow: ## the slow tests: emulated processors, pairs with other programs, Redis that fails
	@tests/check.sh --slow
check-long: ## all tests, some in forms that take hours
	@tests/check.sh --long
demo: ## build, fetch a model of English, start the server, transcribe by upload and live stream
	@tests/demo.sh
demo-speakers: all ## fetch the networks that tell speakers apart, show who said what in a dialogue
	@tests/demo_speakers.sh
bench: all ## against ONNX Runtime: tables, JSON (long; goes on where it was cut short): BENCH="--only silero"
	@tests/bench/run.sh $(BENCH)
plots: ## draw docs/img/*.svg from docs/data/*.tsv, without measuring
	@tests/bench/plots.sh
bench-espnet: all ## against espnet_onnx on full-size models, in turn: BENCH="--rows fp32", BENCH=--stream (docs/espnet.md)
	@tests/bench/espnet/run.sh $(BENCH)
kbench: $(kcheck) ## kernel benchmark table
	@$(kcheck) --bench
fuzz: ## libFuzzer builds of the fuzz targets (clang), one minute each
	@tests/fuzz/run.sh
fuzz-graphs: $(graph_runner) ## random graphs for MINUTES (10) against ONNX Runtime and the reference evaluator: GRAPHS="--from 5000" (docs/passes.md)
	@B=$(B) tests/graphs/run.sh --minutes $(or $(MINUTES),10) $(GRAPHS)
coverage-fuzz: ## what of each parser its fuzz target's inputs reach (clang)
	@tests/fuzz/coverage.sh
lint: ## clang-tidy, cppcheck, shellcheck, codespell, banned calls (what is absent is named)
	@tests/lint.sh
format: ## clang-format on every C file
	clang-format-14 -i $(shell git ls-files '*.c' '*.h')
sizes: ## function and file lengths: the tails
	@tests/sizes.sh
coverage: ## line coverage by gcovr
	@tests/coverage.sh
options: $(B)/steno $(B)/stenod ## write what pages, sample configuration and API descriptions say of options
	@docs/options.py --build $(B)
docs: $(patsubst docs/man/%.scd,build/man/%,$(wildcard docs/man/*.scd)) ## man pages
build/man/%: docs/man/%.scd
	@mkdir -p $(@D)
	$(Q)scdoc < $< > $@
train-digits: ## train the shipped model: make train-digits DATA=DIR [WORK=build/digits] [SCALE=0.01] [INSTALL=1]
	@conf/models/digits-en/train/run.sh "$(DATA)" "$(or $(WORK),build/digits)"

# ---- installing ------------------------------------------------------------------------------
install: all docs ## GNU install: binaries, library, headers, man pages, units, configuration, model
	@tests/install.sh install "$(DESTDIR)" "$(BINDIR)" "$(SBINDIR)" "$(LIBDIR)" "$(INCLUDEDIR)" "$(DATADIR)" "$(MANDIR)" "$(SYSCONFDIR)" "$(UNITDIR)" "$(B)" "$(VERSION)" "$(PREFIX)" "$(LIBEXECDIR)"
uninstall: ## remove what install put there
	@tests/install.sh uninstall "$(DESTDIR)" "$(BINDIR)" "$(SBINDIR)" "$(LIBDIR)" "$(INCLUDEDIR)" "$(DATADIR)" "$(MANDIR)" "$(SYSCONFDIR)" "$(UNITDIR)" "$(B)" "$(VERSION)" "$(PREFIX)" "$(LIBEXECDIR)"
dist: ## source archive of HEAD
	@mkdir -p build
	git archive --prefix=steno-$(VERSION)/ -o build/steno-$(VERSION).tar.gz HEAD
deb: ## Debian packages of HEAD in build/deb: built, checked by lintian, installed and purged in a fresh Debian
	@tests/deb.sh
container: ## the image of conf/container: built with buildah, and tried (root)
	@tests/container.sh
reproducible: ## make deb, twice in different folders: every package, program and library has the same bytes
	@tests/deb.sh --twice
distcheck: dist ## build and install from the archive, without network
	rm -rf build/distcheck && mkdir -p build/distcheck
	tar -xzf build/steno-$(VERSION).tar.gz -C build/distcheck
	@for cut in "unshare -n" "unshare -rn" ""; do ! $$cut true 2>/dev/null || break; done; \
	    [ "$$cut" ] || echo "distcheck: the network cannot be cut off here (unshare)"; set -ex; \
	    $$cut $(MAKE) -C build/distcheck/steno-$(VERSION) all docs wheel; \
	    $$cut $(MAKE) -C build/distcheck/steno-$(VERSION) install DESTDIR='$(CURDIR)/build/distcheck/root'; \
	    $$cut build/distcheck/root$(BINDIR)/steno transcribe --model build/distcheck/root$(DATADIR)/steno/models/digits-en tests/data/digits.wav | diff - tests/data/digits.txt
clean: ## remove the build output but for Python environments and models
	rm -rf $(filter-out build/venv% build/models,$(wildcard build/*))
distclean: ## remove build/
	rm -rf build

-include $(shell find $(B) -name '*.d' 2>/dev/null)
