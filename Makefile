# weir: build, test and run.  `make help` lists the targets.
#
#   make             build ./weir, its laboratory ./weir-lab, and weir-cuda.so for this machine's GPU where nvcc and an NVIDIA device are found
#   make cuda        the same with weir-cuda.so for all GPUs from compute capability 8.0 on; needs nvcc and no device
#   make run         set up what is missing, fetch the default model, open a chat; ARGS= are its options
#   make test        set up, build, run every test; make check: the tests alone
#   make install     program, manual and completions below PREFIX=/usr/local, with DESTDIR= before it
#   make dist        the source as one archive; deb: a Debian package; portable: an archive for every Linux from glibc 2.31; into build/dist/
#   make static      one file for any Linux, build/static-ARCH/weir, for the processor ARCH: amd64, or arm64 (under emulation: one answer)
#   make setup       install the compiler and the libraries that are missing; setup-test: what tests use, too
#   make setup-cuda  fetch nvcc and cuBLAS into the user's cache; make model: the default model
#   make check-short run the short suites of what reads untrusted bytes; with SANITIZE=address,undefined at every change
#   make unit        build the unit tests; check-layers, check-headers, check-words: checks of the source; check-circles: of the objects
#   make pictures    draw the pictures of README.md anew, from what the program shows
#   make gallery     draw every pane and dialog in every theme at four sizes, into build/gallery/
#   make bench       measure speed; fuzz: build the fuzzers, with clang; seeds: pack their first inputs
#   make soak        tests that take hours; SOAK="PART ...": some of their parts (tests/soak.sh), SOAK_MINUTES=30: of fuzzing
#   make clean       remove what was built; compile_commands.json: write it, for editors; help: this list
#
# Variables: DEV=1 (-Werror and the strict set), SANITIZE=address,undefined | thread, OS=posix (without what Linux alone has), CC=, CFLAGS=, PKG_CONFIG=, V=1 (show commands).
# For GPUs: CUDA=1 (as make cuda, for other targets) or 0 (without), NVCC=, NVCCFLAGS=, CUDA_ARCH=sm_90 | native.

# The version is that of the newest entry of the changelog.
VERSION := $(shell sed -n '1s/.*(\(.*\)).*/\1/p' tests/package/debian/changelog)
PREFIX  ?= /usr/local
CC      ?= cc
AR      ?= ar
CFLAGS  ?= -O2 -g

SANITIZE ?=
comma := ,
# OS=posix: as on a system that is not Linux (kernels/os.h), into a build folder of its own.
posix := $(filter posix,$(OS))
BUILD := build$(if $(SANITIZE),/$(subst $(comma),-,$(SANITIZE)))$(if $(posix),/posix)
PROGRAM := $(if $(SANITIZE)$(posix),$(BUILD)/weir,weir)
# What weir starts for `weir eval` and `weir train`; it looks beside itself.
LAB = $(PROGRAM)-lab

ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-6s %s\n'
endif

# ---- flags ----

WARN := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wwrite-strings -Wpointer-arith \
        -Wundef -Wvla -Wformat=2 -Wno-unused-parameter
# clang warns of loops that UNROLL (kernels/cpu/lanes.h) cannot unroll whole because their count is not constant.
WARN += $(if $(findstring clang,$(CC)),-Wno-pass-failed)
ifeq ($(DEV),1)
WARN += -Werror -pedantic
# clang alone warns of rows of tables that leave out their last members, and of strings in pieces ("\xc2\xaa" "A").
WARN += $(if $(findstring clang,$(CC)),-Wno-missing-field-initializers -Wno-string-concatenation)
endif
# No -ffast-math and no -march=native: results must not depend on where the program was built.
FLAGS := -std=gnu11 -D_GNU_SOURCE -I. -ffp-contract=off -fno-math-errno -fstack-protector-strong $(WARN) \
         -DWEIR_VERSION='"$(VERSION)"'
# Where the libraries are, by pkg-config; without it, or where it does not know one of them, where the compiler looks anyway.
# Of their flags only -I counts: the macros that some packages add contradict _GNU_SOURCE.
PKG_CONFIG ?= pkg-config
packages := $(shell $(PKG_CONFIG) --cflags --libs ncursesw readline md4c sqlite3 libcrypto libxxhash zlib \
            libxml-2.0 gumbo libarchive libseccomp libutf8proc 2>/dev/null)
FLAGS    += $(or $(filter -I%,$(packages)),-I/usr/include/libxml2)
LDLIBS   := $(or $(filter-out -I% -D%,$(packages)),-lncursesw -ltinfo -lreadline -lmd4c -lsqlite3 -lcrypto -lxxhash -lz \
            -lxml2 -lgumbo -larchive -lseccomp -lutf8proc) -lm -lpthread -ldl
ifneq ($(posix),)
LDLIBS  := $(filter-out -lseccomp,$(LDLIBS))
$(BUILD)/tests/sessions/t_import_jail: LDLIBS += -lseccomp
$(foreach h,kernels engine sessions ui app,$(BUILD)/$(h)/%.o): FLAGS += -U__linux__ -include tests/lib/posix.h
endif
ifneq ($(SANITIZE),)
FLAGS   += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer
LDFLAGS += -fsanitize=$(SANITIZE)
ifneq ($(findstring undefined,$(SANITIZE)),)
FLAGS   += -fno-sanitize-recover=undefined
endif
endif

# The compiler says what processor it is for, which need not be this machine's.
ARCH := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
ifeq ($(ARCH),x86_64)
AVX2   := -mavx2 -mfma -mf16c -mbmi2
# Attention over one query is a loop of a few instructions: where it lies in a cache line is worth 4 % of decoding at depth 7,680.
AVX512 := $(AVX2) -falign-loops=64 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
$(BUILD)/kernels/cpu/avx2.o: LEVEL := $(AVX2)
# A compiler older than AMX leaves it out.
AMX    := -mamx-tile -mamx-int8 -DWEIR_AMX
AMX    := $(shell $(CC) $(AMX) -fsyntax-only -x c /dev/null 2>/dev/null && echo $(AMX))
$(BUILD)/kernels/cpu/avx512.o: LEVEL := $(AVX512)
$(BUILD)/kernels/cpu/amx.o: LEVEL := $(AVX512) $(AMX)
# It takes a part of the attention functions that all levels share.
$(BUILD)/kernels/cpu/amx_attn.o: LEVEL := $(AVX512) $(AMX) -Wno-unused-function
endif
ifeq ($(ARCH),aarch64)
$(BUILD)/kernels/cpu/neon_dot.o: LEVEL := -march=armv8.2-a+dotprod
endif
# Kernels are worth the last bit of the optimiser; with sanitizers that would take minutes to compile.
# Where variables are at each instruction takes a quarter of the time to find out, and changes no instruction.
$(BUILD)/kernels/%.o: OPTIMISE := $(if $(SANITIZE),-O1,-O3) -fno-var-tracking
# So is the one pass over the whole vocabulary that every token takes.
$(BUILD)/engine/timeline/sampler.o: OPTIMISE := $(if $(SANITIZE),-O1,-O3)
# And packing, where loops over values become vectors.
$(BUILD)/engine/timeline/packed.o: OPTIMISE := $(if $(SANITIZE),-O1,-O3)
# Tests run once after they are compiled, and what they spend their time in is the libraries; what measures is compiled as the program is.
$(BUILD)/tests/%.o: OPTIMISE := -Og
$(BUILD)/tests/measure/%.o $(BUILD)/tests/app/t_lag.o: OPTIMISE :=
# Millions of emulated instructions.
$(BUILD)/tests/lib/amx_emulator.o: OPTIMISE := -O3

# ---- files ----

libs     := kernels engine sessions ui
sources   = $(wildcard $(1)/*.c $(1)/*/*.c)
objects   = $(patsubst %.c,$(BUILD)/%.o,$(call sources,$(1)))
archives := $(foreach l,ui sessions engine kernels,$(BUILD)/lib$(l).a)
unit     := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/*/t_*.c))
ifeq ($(shell command -v $(CXX)),)
unit     := $(filter-out $(BUILD)/tests/cuda/t_%,$(unit))
endif
# What is read when the program runs (engine/base/data_file.c): paths below share/weir.
data     := $(patsubst app/lab/%,%,$(wildcard app/lab/words/*)) plot.py $(patsubst engine/policies/%,%,$(wildcard engine/policies/predict/*))
fuzzers  := $(patsubst tests/fuzz/%.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))

# ---- CUDA: weir-cuda.so ----
#
# CUDA empty: for the device of this machine, where there are nvcc and a device; 1: for all devices, where there is nvcc; 0: not at all.

CUDA ?=
ifeq ($(SANITIZE)$(filter 0,$(CUDA)),)
ifeq ($(origin NVCC),undefined)
NVCC := $(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc "$${XDG_CACHE_HOME:-$$HOME/.cache}/weir/cuda/bin/nvcc" 2>/dev/null | head -n 1)
endif
ifneq ($(and $(NVCC),$(or $(CUDA),$(shell nvidia-smi -L 2>/dev/null))),)
PLUGIN := $(dir $(PROGRAM))weir-cuda.so
PLUGIN := $(PLUGIN:./%=%)
CUDA_ARCH ?= $(if $(CUDA),,native)
endif
endif
NVCCFLAGS ?= -O3
# Plain C that the plugin shares with the program.
cuda_shared := $(patsubst %,$(BUILD)/cuda/kernels/common/%.o,quant operands experts)
# CUDA's own folder: what it links to is found there when the program runs, too.
cuda_home    = $(patsubst %/bin/,%,$(dir $(realpath $(shell command -v $(NVCC)))))
cuda_objects = $(patsubst %.cu,$(BUILD)/cuda/%.o,$(wildcard kernels/cuda/*.cu)) \
               $(patsubst %.cc,$(BUILD)/cuda/%.o,$(wildcard kernels/cuda/*.cc)) \
               $(cuda_shared)

.PHONY: all cuda help run test check check-short unit pictures gallery soak bench fuzz fuzz-programs seeds check-layers check-headers check-circles check-words \
        setup setup-test setup-cuda model install dist deb portable static clean compile_commands.json
# A file whose command failed is deleted.
.DELETE_ON_ERROR:
# Objects that only a chain of pattern rules names: make would delete them after the link.
.SECONDARY: $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/*/t_*.c tests/measure/*.c tests/fuzz/*.c))
all: $(PROGRAM) $(LAB) $(PLUGIN) $(data:%=$(BUILD)/share/weir/%)

cuda:
	@[ -n "$(NVCC)" ] || { echo "make: nvcc is not found: 'make setup-cuda' fetches it (525 MB)" >&2; exit 1; }
	@$(MAKE) --no-print-directory $(jobs) CUDA=1 all

help:
	@sed -n '3,$${/^#/!q;s/^# \{0,1\}//p}' $(firstword $(MAKEFILE_LIST))

# Two programs of the same libraries: each is linked to what its commands call.
$(BUILD)/libapp.a: $(filter-out $(BUILD)/app/main.o $(BUILD)/app/lab/%,$(call objects,app))
	$(say) ar $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(PROGRAM): $(BUILD)/app/main.o
$(LAB): $(call objects,app/lab)
# STATIC=1: weir alone, with its laboratory and its data files in it; for a compiler that links statically (tests/package/static.sh).
ifneq ($(STATIC),)
FLAGS += -DWEIR_STATIC
# glibc's headers, and not musl's, ask ncurses for wide characters where _GNU_SOURCE is defined.
$(BUILD)/ui/screen/%.o: FLAGS += -DNCURSES_WIDECHAR=1
$(PROGRAM): $(call objects,app/lab) $(BUILD)/embedded.o
$(BUILD)/embedded.o: $(data:%=$(BUILD)/share/weir/%)
	$(say) embed $@
	$(Q){ printf '.data\n.balign 8\n.globl data_embedded\ndata_embedded:\n'; \
	  for f in $(data); do printf '.section .rodata\n1: .asciz "%s"\n2: .incbin "%s"\n3:\n.data\n.quad 1b, 2b, 3b, 0\n' $$f $(BUILD)/share/weir/$$f; done; \
	  printf '.quad 0, 0, 0, 0\n.section .note.GNU-stack,"",%%progbits\n'; } | $(CC) -c -x assembler -o $@ -
endif
$(PROGRAM) $(LAB): $(BUILD)/libapp.a $(archives)
	$(say) link $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS)
ifeq ($(PLUGIN)$(SANITIZE)$(filter 0,$(CUDA)),)
	$(if $(filter $(PROGRAM),$@),$(say) cuda $(if $(NVCC),"no NVIDIA device: left out ('make cuda' builds it for all devices)","nvcc not found: left out ('make setup-cuda' fetches it$(comma) 525 MB)"))
endif

$(BUILD)/share/weir/%: app/lab/%
	@mkdir -p $(@D)
	$(Q)cp $< $@
$(BUILD)/share/weir/predict/%: engine/policies/predict/%
	@mkdir -p $(@D)
	$(Q)cp $< $@

# How, and which devices for: when that changes, everything is compiled again.
$(BUILD)/cuda/arch: FORCE
	@mkdir -p $(@D)
	@flags=$$(kernels/cuda/arch.sh $(NVCC) $(CUDA_ARCH)) && flags="$(NVCC) $(NVCCFLAGS) $$flags" && \
	  { [ "$$flags" = "$$(cat $@ 2>/dev/null)" ] || echo "$$flags" >$@; }
FORCE:
.PHONY: FORCE
$(BUILD)/cuda/%.o: %.cu Makefile $(BUILD)/cuda/arch
	@mkdir -p $(@D)
	$(say) nvcc $<
	$(Q)$$(cat $(BUILD)/cuda/arch) --threads 0 -std=c++17 -I. -Xcompiler -fPIC -MMD -MP -c -o $@ $<
$(BUILD)/cuda/%.o: %.cc Makefile
	@mkdir -p $(@D)
	$(say) c++ $<
	$(Q)$(CXX) $(CFLAGS) -std=c++17 -I. -fPIC -MMD -MP -c -o $@ $<
$(BUILD)/cuda/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(say) cc $<
	$(Q)$(CC) $(CFLAGS) -O3 $(FLAGS) -fPIC -MMD -MP -c -o $@ $<
ifneq ($(PLUGIN),)
# Without --threads: nvcc's parallel links of several architectures write the same temporary file.
$(PLUGIN): $(cuda_objects) kernels/cuda/exports.map
	$(say) link "$@ by $(NVCC), for $$(sed -n 's/[^=]*-gencode[^=]*=[^ ]*code=//gp' $(BUILD)/cuda/arch)"
	$(Q)$$(cat $(BUILD)/cuda/arch) -shared -o $@ $(cuda_objects) $(addprefix -L,$(wildcard $(cuda_home)/lib64 $(cuda_home)/lib)) -lcublas \
	  -Xlinker --no-undefined -Xlinker --version-script=kernels/cuda/exports.map \
	  $(addprefix -Xlinker -rpath=,$(wildcard $(cuda_home)/lib64 $(cuda_home)/lib))
endif
-include $(wildcard $(BUILD)/cuda/kernels/*/*.d)

# The same files for an emulated device on the processor (tests/cuda/emulator/).  The emulator's fibers confuse the thread sanitizer.
HOST_CUDA    := $(filter-out -Wextra -Wmissing-prototypes -Wstrict-prototypes -Wshadow -Wundef -pedantic,$(patsubst -std=gnu11,-std=gnu++17,$(FLAGS))) \
                -Wno-unknown-pragmas -Wno-maybe-uninitialized -DWEIR_CUDA_EMULATOR='"tests/cuda/emulator/host.cuh"'
HOST_CUDA    := $(filter-out -fsanitize=thread,$(HOST_CUDA))
host_objects := $(patsubst %,$(BUILD)/host/%.o,$(filter-out %/gpu_cuda.cu %/gpu_cuda_launch.cu,$(wildcard kernels/cuda/*.cu)) $(wildcard kernels/cuda/*.cc tests/cuda/emulator/*.cc))
# With sanitizers: where variables are at each instruction takes half of the time to find out.
$(BUILD)/host/%.o: % Makefile
	@mkdir -p $(@D)
	$(say) c++ $<
	$(Q)$(CXX) $(CFLAGS) $(if $(SANITIZE),-O1 -fno-var-tracking) $(HOST_CUDA) -fPIC -MMD -MP -x c++ -c -o $@ $<
$(BUILD)/libcuda_host.a: $(host_objects)
	$(say) ar $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^
# A plugin without a GPU, slow: WEIR_CUDA=build/weir-cuda-host.so ./weir --device cuda
$(BUILD)/weir-cuda-host.so: $(host_objects) $(cuda_shared) kernels/cuda/exports.map
	$(say) link $@
	$(Q)$(CXX) -shared $(LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--version-script=kernels/cuda/exports.map -lpthread
-include $(wildcard $(BUILD)/host/*/*.d $(BUILD)/host/*/*/*.d $(BUILD)/host/*/*/*/*.d)

define archive
$(BUILD)/lib$(1).a: $(call objects,$(1))
	$$(say) ar $$@
	$$(Q)rm -f $$@ && $$(AR) rcs $$@ $$^
endef
$(foreach l,$(libs),$(eval $(call archive,$(l))))

# A missing library is named before the first file is compiled, instead of a compiler error in the middle.  Empty: nobody looks.
LIBRARIES := $(BUILD)/libraries
$(BUILD)/libraries: tests/package/setup.sh
	@mkdir -p $(@D)
	@CC="$(CC)" CFLAGS="$(CFLAGS) $(filter -I%,$(packages))" tests/package/setup.sh check
	@touch $@
$(BUILD)/%.o: %.c Makefile | $(LIBRARIES)
	@mkdir -p $(@D)
	$(say) cc $<
	$(Q)$(CC) $(CFLAGS) $(OPTIMISE) $(FLAGS) $(LEVEL) -MMD -MP -c -o $@ $<

# What tests share, and the JSON reader that it needs; only what a test calls is linked.
$(BUILD)/libtest.a: $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/lib/faultvfs.c,$(wildcard tests/lib/*.c)) engine/base/json.c)
	$(say) ar $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^
# kernels/ and engine/ need the C library alone, and so do their tests: a compiler for another processor builds them without
# other libraries (tests/kernels/s_neon.sh).
low := $(filter $(BUILD)/tests/kernels/% $(BUILD)/tests/engine/%,$(unit)) $(addprefix $(BUILD)/tests/measure/,time_select levels time_verify kv_disk kv_host encode embed read cut)
$(low): $(BUILD)/libtest.a
$(filter $(BUILD)/tests/engine/%,$(low)) $(addprefix $(BUILD)/tests/measure/,time_verify kv_disk kv_host encode embed read cut): $(BUILD)/libengine.a
$(low): $(BUILD)/libkernels.a
$(low): LDLIBS := -lm -lpthread
$(filter-out $(low),$(unit)) $(addprefix $(BUILD)/tests/measure/,sources memory snapshots passages): $(BUILD)/libtest.a $(archives)
$(addprefix $(BUILD)/tests/sessions/,t_snaps_damage t_store_harm t_store_power): $(BUILD)/tests/lib/faultvfs.o
$(BUILD)/tests/%: $(BUILD)/tests/%.o
	$(say) link $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(if $(filter cuda/%,$*),-lstdc++) $(LDLIBS)
# tests/app/ looks into the program itself; tests/cuda/ into the emulated device.
$(filter $(BUILD)/tests/app/%,$(unit)) $(addprefix $(BUILD)/tests/measure/,sources memory): $(filter-out %/main.o,$(call objects,app))
$(BUILD)/tests/measure/passages: $(BUILD)/tests/measure/passages_load.o
$(addprefix $(BUILD)/tests/app/,t_screen t_pictures t_gallery): $(BUILD)/tests/app/play.o
$(addprefix $(BUILD)/tests/app/,t_pictures t_gallery): $(BUILD)/tests/app/svg.o
$(filter $(BUILD)/tests/cuda/%,$(unit)): $(BUILD)/libcuda_host.a
$(BUILD)/tests/cuda/t_cuda_host: $(BUILD)/host/tests/cuda/cuda_wrong.cc.o
# gpu_cuda*.cu over a fake CUDA runtime; linked first, it takes the place of tests/cuda/emulator/gpu_host.cc.
$(BUILD)/tests/cuda/t_cuda_device: $(BUILD)/host/tests/cuda/cuda_fake.cc.o
$(BUILD)/host/tests/cuda/cuda_fake.cc.o: HOST_CUDA := $(HOST_CUDA) -Itests/cuda/fake_runtime
$(addprefix $(BUILD)/tests/cuda/,t_cuda_plugin t_cuda_check t_cuda_models t_cuda_sessions t_cuda_kv_memory): | $(BUILD)/weir-cuda-host.so

-include $(wildcard $(BUILD)/*/*.d $(BUILD)/*/*/*.d)

# ---- set-up ----

# As many compilers as processors, unless make was told a number.
jobs = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell getconf _NPROCESSORS_ONLN))

setup:
	@tests/package/setup.sh build
setup-test:
	@tests/package/setup.sh test
setup-cuda:
	@tests/package/setup.sh cuda
model:
	@tests/package/setup.sh model

# stdin stays the user's: `echo Hello | make run` asks one question.
run: setup
	@$(MAKE) --no-print-directory $(jobs) all
	@tests/package/setup.sh start
	@./weir $(ARGS)

# ---- tests ----

# Without network and without the model the tests that need it are skipped, and say so.
test: setup-test
	@tests/package/setup.sh start || echo 'make: no default model: the tests that need it will be skipped' >&2
	@$(MAKE) --no-print-directory $(jobs) check

# Programs that measure are compiled, too, so that none of them is forgotten when code changes.
check: $(PROGRAM) $(LAB) $(unit) $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/measure/*.c)) $(data:%=$(BUILD)/share/weir/%)
	@BUILD=$(BUILD) WEIR=./$(PROGRAM) SANITIZE=$(SANITIZE) CC="$(CC)" \
	  $(if $(SANITIZE),WEIR_TEST_SLOW_BUILD=1) tests/run.sh

unit: $(unit) $(data:%=$(BUILD)/share/weir/%)

# The pictures of README.md, drawn anew from what the program shows; tests/app/t_pictures checks the committed ones.
pictures: $(BUILD)/tests/app/t_pictures $(PROGRAM)
	@WEIR=./$(PROGRAM) WEIR_PICTURES=write $<
# Every pane and dialog in every theme at four sizes, as pictures to be looked at: $(BUILD)/gallery/.
gallery: $(BUILD)/tests/app/t_gallery
	@mkdir -p $(BUILD)/gallery
	@WEIR_GALLERY=$(BUILD)/gallery $<

# Suites that read what is untrusted and take seconds; for a run under sanitizers at every change.
SHORT := t_base t_json t_gguf t_gguf_split t_render t_sampler t_draft t_kv t_rings t_quant t_kernels t_short_conv \
         t_import_formats t_import_html t_import_list t_import_odf t_import_packed t_import_properties t_import_rtf t_passages t_sentences t_store t_store_beginnings \
         t_import_clean t_import_texts t_import_mail t_import_ocr t_import_xlsx t_import_markup t_import_pptx t_import_fb2 t_import_feed t_import_foreign \
         t_grid t_input t_keys t_panes t_wrap t_documents t_sources t_remote
check-short: all $(filter $(addprefix %/,$(SHORT)),$(unit))
	@BUILD=$(BUILD) WEIR=./$(PROGRAM) SANITIZE=$(SANITIZE) CC="$(CC)" \
	  $(if $(SANITIZE),WEIR_TEST_SLOW_BUILD=1) tests/run.sh $(SHORT)

check-layers:
	@tests/layers.sh
check-circles: $(PROGRAM) $(LAB)
	@BUILD=$(BUILD) tests/circles.sh
check-words:
	@tests/words.sh
check-headers:
	@CC="$(CC)" FLAGS='$(FLAGS)' tests/headers.sh

soak: all $(unit)
	@BUILD=$(BUILD) WEIR=./$(PROGRAM) tests/soak.sh $(or $(SOAK_MINUTES),30) $(SOAK)

bench: all $(BUILD)/mkmodel
	@MKMODEL=$(BUILD)/mkmodel tests/measure/bench.sh
$(BUILD)/mkmodel: $(BUILD)/tests/measure/mkmodel.o $(BUILD)/libkernels.a
	$(say) link $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lm -lpthread

# libFuzzer targets need clang: make fuzz, then build/fuzz/fuzz_NAME CORPUS build/fuzz/seeds/NAME.  The libraries are built once, instrumented.
# libFuzzer finds magic numbers by the values that are compared; recording them takes more than half of the time.  FUZZ_COMPARE=0
# builds build/fuzz-fast/fuzz_NAME without, which runs 2 to 4 times as often on what the others have found; fuzz_model and fuzz_head, which compute
# tokens with what they could load, do so there for one input in 64 and run 3 to 20 times as often.
FUZZ_COMPARE ?= 1
FUZZ_FLAGS := -g -O2 -DWEIR_NO_SIMD -fsanitize=address,undefined -fno-sanitize-recover=undefined
# Kernels parse nothing: which of their branches are taken tells libFuzzer nothing, and recording it took 58 % of fuzz_head's time.
build/fuzz/kernels/%.o build/fuzz-fast/kernels/%.o: override CFLAGS := $(FUZZ_FLAGS)
fuzz:
	@$(MAKE) --no-print-directory BUILD=build/fuzz$(if $(filter 0,$(FUZZ_COMPARE)),-fast) CC=clang fuzz-programs \
	  CFLAGS="$(FUZZ_FLAGS) -fsanitize=fuzzer-no-link $(if $(filter 0,$(FUZZ_COMPARE)),-fno-sanitize-coverage=trace-cmp -DUSED_ONE_IN=64)"
fuzz-programs: $(fuzzers) $(patsubst tests/fuzz/%.tar.xz,$(BUILD)/seeds/%,$(wildcard tests/fuzz/*.tar.xz))
# The inputs that the fuzzers begin with, one archive a fuzzer (those of fuzz_documents are files, which other tests read).
# To add one: put it into build/fuzz/seeds/NAME, then `make seeds`, which packs them all anew.
$(BUILD)/seeds/%: tests/fuzz/%.tar.xz
	@mkdir -p $@
	$(Q)tar -xJf $< -C $@ && touch $@
seeds:
	@for d in build/fuzz/seeds/*/; do \
	  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=644 -C $$d -cf - $$(ls $$d) | xz -9e >tests/fuzz/$$(basename $$d).tar.xz; done
$(BUILD)/fuzz_events: $(addprefix $(BUILD)/app/remote/,events.o chunk.o)
$(BUILD)/fuzz_reasoning: $(addprefix $(BUILD)/app/,conversation/reasoning.o term/format.o)
# fuzz_sessions includes the file that it tests. Both are linked to the rest of the program.
$(BUILD)/fuzz_sessions: $(filter-out %/main.o %/sessions_import.o,$(call objects,app))
$(BUILD)/fuzz_roles: $(filter-out %/main.o,$(call objects,app))
$(BUILD)/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(archives)
	$(say) link $@
	$(Q)clang -fsanitize=fuzzer,address,undefined -o $@ $(filter %.o,$^) $(filter %.a,$^) $(if $(findstring markdown,$@),-lmd4c) $(if $(filter %sessions %roles,$@),$(LDLIBS)) $(if $(filter %import %documents %http %jail %ocr,$@),-lxml2 -lgumbo -larchive -lseccomp -lcrypto -lutf8proc -lz) $(if $(filter %passages,$@),-lsqlite3 -lcrypto -lxxhash -lutf8proc) -lm -lpthread

# ---- installation ----

install: all
	install -D -m 755 weir $(DESTDIR)$(PREFIX)/bin/weir
	install -D -m 755 weir-lab $(DESTDIR)$(PREFIX)/lib/weir/weir-lab
ifneq ($(PLUGIN),)
	install -D -m 755 weir-cuda.so $(DESTDIR)$(PREFIX)/lib/weir/weir-cuda.so
endif
	for f in $(data); do install -D -m 644 $(BUILD)/share/weir/$$f $(DESTDIR)$(PREFIX)/share/weir/$$f || exit 1; done
	install -D -m 644 man/weir.1 $(DESTDIR)$(PREFIX)/share/man/man1/weir.1
	install -D -m 644 man/weir-cache.7 $(DESTDIR)$(PREFIX)/share/man/man7/weir-cache.7
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions \
	  $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	./weir completion bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/weir
	./weir completion zsh >$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_weir
	./weir completion fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/weir.fish
	install -D -m 644 tests/package/weir.desktop $(DESTDIR)$(PREFIX)/share/applications/weir.desktop

dist deb portable:
	@tests/package/package.sh $@
static:
	@tests/package/package.sh static $(if $(filter command%,$(origin ARCH)),$(ARCH))

compile_commands.json:
	@$(MAKE) -n -B V=1 all unit | sed -n 's/^\(.*-c -o [^ ]* \)\([^ ]*\.c\)$$/{"directory":"$(subst /,\/,$(CURDIR))","file":"\2","command":"\1\2"},/p' \
	  | sed 's/\\"/\\\\"/g' | { echo '['; sed '$$s/,$$//'; echo ']'; } > $@

clean:
	rm -rf build weir weir-lab weir-cuda.so compile_commands.json
