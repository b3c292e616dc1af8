/* tests/engine/t_kv_memory.c - caches that are larger than --kv-memory: results have the same bits as without the
 * limit, and the memory limit is kept. Every failure of the disk gives an error of one sentence, and so does a
 * truncated file of the cache or the model.
 *
 * WEIR_SOAK=1: also run a cache of 65,536 tokens in a quarter of its size, and generate 10,000 tokens with it. */
#include "tests/lib/test.h"
#include "engine/engine_machine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/cache/kv_file_cache.h"
#include "engine/timeline/timeline.h"
#include "tests/lib/carry.h"
#include "tests/lib/tiny.h"
#include "engine/engine_snapshot.h"

enum { DEEP = 12 };

static char dir[64]; /* the user's cache directory during a test */

static void use_directory(void)
{
	snprintf(dir, sizeof dir, "/tmp/weir-kv-memory-XXXXXX");
	if (!mkdtemp(dir) || setenv("XDG_CACHE_HOME", dir, 1))
		test_skip("no directory");
}

/* Remove the directory. Return the number of files that were left in it. */
static int leave_directory(void)
{
	char path[80];
	int n = 0;
	DIR *d;

	snprintf(path, sizeof path, "%s/weir", dir);
	d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	rmdir(path);
	rmdir(dir);
	return n;
}

static struct engine *open_deep(int family, int layers)
{
	tiny_layers = layers;
	return tiny_open(&tiny_families[family], 2, TRAINED, 10000);
}

static const char *type; /* value of --kv-type; NULL: f16 */
/* value of --read-share: each token of a prompt reads the entries that get this share of its attention */
static float share = 1;

static struct timeline *open_kv(struct engine *e, const char *kv, int32_t ctx, uint64_t memory)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	CHECK_MSG(!timeline_open(&tl, e,
	                         &(struct timeline_options){ .kv = kv,
	                                                     .kv_type = type,
	                                                     .ctx = ctx,
	                                                     .batch = 128,
	                                                     .kv_memory = memory,
	                                                     .read_share = share },
	                         &err),
	          "%s: %s", kv, err.msg);
	return tl;
}

/* Return the least memory that this cache needs. *all: the memory that it takes without a limit. */
static uint64_t least_of(struct engine *e, const char *kv, int32_t ctx, uint64_t *all)
{
	struct timeline_options o = { .kv = kv, .kv_type = type, .ctx = ctx, .batch = 128, .read_share = share };
	struct timeline_need need;
	struct err err = { 0 };

	CHECK_INT(timeline_need(e, &o, &need, &err), 0);
	*all = need.kv_bytes;
	o.kv_memory = 1;
	CHECK_INT(timeline_need(e, &o, &need, &err), 0);
	return need.least_bytes;
}

/* ---- the same bits ---- */

static void fill(int32_t *id, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		id[i] = 3 + (int32_t)((seed >> 40) % (N_VOCAB - 3));
	}
}

static void equal_now(struct timeline *a, struct timeline *b, const char *kv, const char *when)
{
	const float *x = timeline_logits(a), *y = timeline_logits(b);

	CHECK_MSG(x && y && !memcmp(x, y, N_VOCAB * sizeof *x), "%s: other logits %s", kv, when);
}

static void both(struct timeline *a, struct timeline *b, const int32_t *id, size_t n, int generated, const char *kv,
                 const char *when)
{
	struct err err = { 0 };

	for (int i = 0; i < 2; i++) {
		struct timeline *tl = i ? b : a;

		if (generated)
			CHECK_MSG(!timeline_extend(tl, id, n, 1, NULL, NULL, &err), "%s: %s", kv, err.msg);
		else
			CHECK_MSG(timeline_sync(tl, id, n, NULL, NULL, &err) >= 0, "%s: %s", kv, err.msg);
	}
	equal_now(a, b, kv, when);
}

static void within(struct timeline *tl, uint64_t memory, const char *kv)
{
	struct timeline_stats st;

	timeline_stats(tl, &st);
	CHECK_MSG(st.kv_disk_bytes > 0, "%s: nothing lies on disk", kv);
	CHECK_MSG(st.kv_bytes <= memory && st.kv_resident_bytes <= memory, "%s: %llu and %llu bytes of %llu", kv,
	          (unsigned long long)st.kv_bytes, (unsigned long long)st.kv_resident_bytes,
	          (unsigned long long)memory);
}

/* Check that the disk space of the cache's file is reserved, even after a change of policy that kept the file. */
static void reserved(struct timeline *tl, const char *kv)
{
	struct stat st;

	CHECK_MSG(!fstat(tl->cache.kv.fd, &st) && (uint64_t)st.st_size == tl->cache.kv.disk &&
	                  (uint64_t)st.st_blocks * 512 >= tl->cache.kv.disk,
	          "%s: %llu bytes are not reserved", kv, (unsigned long long)tl->cache.kv.disk);
}

static void same_bits(struct engine *e, const char *kv, const char *other, int32_t ctx)
{
	enum { READ = 700, MORE = 200, STEPS = 8 };
	static int32_t id[READ + MORE + STEPS];
	uint64_t all, least = least_of(e, kv, ctx, &all), memory = least + (all - least) / 4;
	struct timeline *a = open_kv(e, kv, ctx, 0), *b = open_kv(e, kv, ctx, memory);
	struct err err = { 0 };

	CHECK_MSG(least < all, "%s: at least %llu of %llu bytes", kv, (unsigned long long)least,
	          (unsigned long long)all);
	if (!a || !b)
		return;
	fill(id, READ + MORE + STEPS, 1);
	both(a, b, id, READ, 0, kv, "after the prefill");
	both(a, b, id + READ, STEPS, 1, kv, "after generated tokens");
	within(b, memory, kv);
	fill(id + READ / 2, READ / 2 + MORE, 2);
	both(a, b, id, READ + MORE, 0, kv, "after a rollback");
	both(a, b, id + READ + MORE, STEPS, 1, kv, "after the rollback's tokens");
	carry(a, b, id, READ + MORE + STEPS, kv);
	equal_now(a, b, kv, "after loading what was saved without a limit");
	carry(b, a, id, READ + MORE + STEPS, kv);
	equal_now(a, b, kv, "after loading what was saved within the limit");
	within(b, memory, kv);
	CHECK_MSG(!timeline_switch_kv(a, other, &err) && !timeline_switch_kv(b, other, &err), "%s to %s: %s", kv, other,
	          err.msg);
	reserved(b, kv);
	both(a, b, id, READ + MORE + STEPS, 0, kv, "under another policy");
	both(a, b, id, STEPS, 1, kv, "after its tokens");
	timeline_close(a);
	timeline_close(b);
}

static const char *const all_keep[] = {
	"full",
	"sift:k=64",
	"sift:k=64,bits=4",
	"sift:k=64,bits=16",
	"sift:k=64,sample=32",
	"quest:k=64",
	"refresh:k=64",
	"h2o:k=64",
	"snapkv:k=64",
	"kvzip:k=1/8",
	"streaming++:size=256",
	"reattention:local=272,k=40,pool=3",
};

TEST(every_policy_has_the_same_bits)
{
	struct engine *e;

	use_directory();
	e = open_deep(0, DEEP);
	for (size_t i = 0; i < LEN(all_keep); i++) {
		type = i % 3 == 1 ? "q4_0" : i % 3 == 2 ? "k=q8_0,v=q4_0" : NULL;
		same_bits(e, all_keep[i], i ? "full" : "sift:k=64", 2048);
	}
	type = NULL;
	engine_close(e);
	CHECK_INT(leave_directory(), 0);
}

TEST(prompts_read_in_part_have_the_same_bits)
{
	struct engine *e;

	use_directory();
	e = open_deep(0, DEEP);
	share = 0.6f;
	same_bits(e, "full", "sift:k=64", 2048);
	same_bits(e, "sift:k=64", "full", 2048);
	share = 1;
	engine_close(e);
	CHECK_INT(leave_directory(), 0);
}

TEST(a_bounded_stream_has_the_same_bits)
{
	struct engine *e;

	use_directory();
	e = open_deep(0, DEEP);
	same_bits(e, "auto:k=64", "full", 2048);
	same_bits(e, "cascade", "sift:k=64", 2048);
	engine_close(e);
	CHECK_INT(leave_directory(), 0);
}

TEST(layers_with_a_window_have_the_same_bits)
{
	struct engine *e;

	use_directory();
	e = open_deep(WINDOWED, DEEP);
	same_bits(e, "full", "sift:k=64", 2048);
	same_bits(e, "sift:k=64", "full", 2048);
	engine_close(e);
	CHECK_INT(leave_directory(), 0);
}

/* ---- within the memory allowed ---- */

static uint64_t status_bytes(const char *key)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[128];
	uint64_t kib = 0;

	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, key, strlen(key)))
			kib = strtoull(line + strlen(key), NULL, 10);
	if (f)
		fclose(f);
	return kib * 1024;
}

/* Reset VmHWM, the peak of resident memory. Returns 1 if done. */
static int forget_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY), done = fd >= 0 && write(fd, "5", 1) == 1;

	if (fd >= 0)
		close(fd);
	return done;
}

/* Fill the cache with random entries for n tokens, as if the tokens had been prefilled. */
static void fill_entries(struct timeline *tl, const int32_t *id, int32_t n)
{
	enum { PIECE = 256 };
	uint64_t bytes = timeline_token_bytes(tl, 1) * PIECE;
	uint16_t *p = xmalloc((size_t)bytes);
	uint64_t x = 7;
	struct err err = { 0 };

	for (int32_t at = 0, m; at < n; at += m) {
		m = n - at < PIECE ? n - at : PIECE;
		for (uint64_t i = 0; i < bytes / 2; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			p[i] = (uint16_t)((x & 0x83ff) | 0x3400); /* f16 values of magnitude 0.25 to 0.5 */
		}
		CHECK_MSG(!timeline_entries_load(tl, at, m, 1, p, &err), "%s", err.msg);
	}
	free(p);
	CHECK_MSG(timeline_adopt(tl, id, NULL, (size_t)n, &err) >= 0, "%s", err.msg);
}

/* Run a cache of `ctx` tokens in a quarter of its size. Checks the logits of `steps` generated tokens and the resident
 * memory. */
static void quarter(const char *kv, int layers, int32_t ctx, int32_t steps, int32_t compared)
{
	int32_t *id = xcalloc((size_t)ctx, sizeof *id), read = ctx - steps;
	float *want = xcalloc((size_t)compared * N_VOCAB, sizeof *want);
	uint64_t all, least, memory, before, peak, tenth = 0, now = 0;
	struct engine *e;
	struct timeline_stats st;
	struct err err = { 0 };

	use_directory();
	e = open_deep(0, layers);
	fill(id, (size_t)ctx, 3);
	least = least_of(e, kv, ctx, &all);
	memory = all / 4;
	CHECK_MSG(least <= memory, "%s: at least %llu of %llu bytes", kv, (unsigned long long)least,
	          (unsigned long long)all);
	for (int limited = 0; limited < 2; limited++) {
		struct timeline *tl;

		forget_peak();
		before = status_bytes("VmRSS:");
		tl = open_kv(e, kv, ctx, limited ? memory : 0);
		if (!tl)
			break;
		fill_entries(tl, id, read - 1);
		CHECK_MSG(timeline_sync(tl, id, (size_t)read, NULL, NULL, &err) >= 0, "%s: %s", kv, err.msg);
		for (int32_t i = 0; i < (limited ? steps : compared); i++) {
			CHECK_MSG(!timeline_extend(tl, id + read + i, 1, 1, NULL, NULL, &err), "%s: %s", kv, err.msg);
			if (!limited)
				memcpy(want + (size_t)i * N_VOCAB, timeline_logits(tl), N_VOCAB * sizeof *want);
			else if (i < compared)
				CHECK_MSG(!memcmp(want + (size_t)i * N_VOCAB, timeline_logits(tl),
				                  N_VOCAB * sizeof *want),
				          "%s: other logits at token %d", kv, i);
			if (i == steps / 10)
				tenth = status_bytes("VmRSS:");
			now = status_bytes("VmRSS:");
		}
		timeline_stats(tl, &st);
		peak = status_bytes("VmHWM:");
		peak = peak > before ? peak - before : 0;
		if (limited) {
			/* Memory outside of the cache: buffers for a step, and the buffer of entries of this test. */
			uint64_t beside = st.scratch_bytes + timeline_token_bytes(tl, 1) * 256 + (4 << 20);

			test_note(
				"%s, %d tokens: %.1f MiB of %.1f resident at most, %.1f allowed; of the process %.1f MiB after %d generated tokens, %.1f after %d; "
				"%d tokens have the logits of a cache without a limit",
				kv, ctx, (double)peak / (1 << 20), (double)all / (1 << 20), (double)memory / (1 << 20),
				(double)tenth / (1 << 20), steps / 10, (double)now / (1 << 20), steps, compared);
			within(tl, memory, kv);
			/* If tokens select entries, the selected entries are cached in memory one by one, and most of
			 * them are already there when a token selects them. */
			CHECK_MSG(!strcmp(kv, "full") ||
			                  (tl->cache.kv.file_cache && tl->cache.kv.file_cache->moved > 0),
			          "%s: nothing was read from the file cache", kv);
			CHECK_MSG(!strcmp(kv, "full") || (st.kv_overlap >= 0 && st.kv_overlap <= 1), "%s: overlap %g",
			          kv, st.kv_overlap);
			if (test_patience() == 1) { /* sanitizers use additional memory */
				CHECK_MSG(peak <= memory + beside,
				          "%s: %llu bytes resident, %llu allowed and %llu beside them", kv,
				          (unsigned long long)peak, (unsigned long long)memory,
				          (unsigned long long)beside);
				CHECK_MSG(now <= tenth + (2 << 20),
				          "%s: %llu bytes resident after a tenth of the tokens, %llu at the end", kv,
				          (unsigned long long)tenth, (unsigned long long)now);
			}
		}
		timeline_close(tl);
	}
	engine_close(e);
	CHECK_INT(leave_directory(), 0);
	free(id);
	free(want);
}

TEST(a_quarter_of_the_cache_is_resident)
{
	quarter("sift:k=128", DEEP, 16384, 60, 20);
	quarter("full", DEEP, 16384, 20, 10);
}

SOAK_TEST(a_quarter_of_64k_tokens_is_resident_over_10000_tokens)
{
	quarter("sift:k=512", 24, 65536, 10000, 1000);
}

/* ---- what can go wrong ---- */

/* Check that a timeline cannot be opened with this memory limit and context, and check the error. */
static void refused(struct engine *e, uint64_t memory, int32_t ctx, enum err_code code, const char *says)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	CHECK_MSG(timeline_open(&tl, e,
	                        &(struct timeline_options){
					.kv = "sift:k=64", .ctx = ctx, .batch = 128, .kv_memory = memory },
	                        &err) < 0,
	          "opened");
	CHECK_INT(err.code, code);
	CHECK_MSG(strstr(err.msg, says) && !strchr(err.msg, '\n'), "no '%s' in '%s'", says, err.msg);
}

TEST(what_the_disk_refuses_is_one_sentence)
{
	struct rlimit was, small;
	uint64_t all, least, memory;
	struct err err = { 0 };
	struct engine *e;
	struct timeline *tl;

	use_directory();
	e = open_deep(0, DEEP);
	least = least_of(e, "sift:k=64", 4096, &all);
	memory = least + (all - least) / 4;
	refused(e, least - 1, 4096, ERR_FIT, "needs at least");
	refused(e, 4096, 4096, ERR_FIT, "--kv-memory allows 0.0");
	getrlimit(RLIMIT_FSIZE, &was);
	small = was;
	small.rlim_cur = 1 << 20;
	setrlimit(RLIMIT_FSIZE, &small);
	refused(e, memory, 4096, ERR_FAIL, "cannot reserve");
	setrlimit(RLIMIT_FSIZE, &was);
	CHECK(scratch_file("a test", UINT64_C(1) << 50, &err) < 0);
	CHECK_INT(err.code, ERR_FAIL);
	CHECK_MSG(strstr(err.msg, "No space left on device; use a smaller -c"), "'%s'", err.msg);
	/* The path of the cache directory contains a file in place of a directory, so the directory cannot be
	 * created. */
	setenv("XDG_CACHE_HOME", "/dev/null", 1);
	refused(e, memory, 4096, ERR_FAIL, "cannot make the directory '/dev/null/weir'");
	unsetenv("XDG_CACHE_HOME");
	setenv("XDG_CACHE_HOME", dir, 1);
	tl = open_kv(e, "sift:k=64", 4096, memory); /* even after these failures, a cache can be opened */
	timeline_close(tl);
	engine_close(e);
	CHECK_INT(leave_directory(), 0);
}

TEST(a_killed_program_leaves_nothing)
{
	uint64_t all, least;
	struct engine *e;
	int status = 0, ends[2];
	pid_t child;
	char c;

	use_directory();
	e = open_deep(0, DEEP);
	least = least_of(e, "sift:k=64", 4096, &all);
	engine_close(e); /* close the engine, because its threads would not exist in the forked child */
	if (pipe(ends))
		SKIP("no pipe");
	child = fork();
	if (!child) {
		struct err err = { 0 };
		struct timeline *tl;
		int32_t id[1024];

		e = open_deep(0, DEEP);
		tl = open_kv(e, "sift:k=64", 4096, least + (all - least) / 4);
		fill(id, 1024, 5);
		if (!tl || timeline_sync(tl, id, 300, NULL, NULL, &err) < 0 || write(ends[1], "x", 1) != 1)
			_exit(1);
		timeline_sync(tl, id, 1024, NULL, NULL, &err);
		for (;;)
			pause();
	}
	close(ends[1]);
	CHECK(read(ends[0], &c, 1) == 1);
	usleep(20000);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	close(ends[0]);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK_INT(leave_directory(), 0);
}

/* ---- files that are cut short while they are mapped ---- */

static void on_bus(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	if (!engine_fault(info->si_addr))
		_exit(9);
}

static void catch_faults(void)
{
	struct sigaction sa = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };

	sigemptyset(&sa.sa_mask);
	sigaction(SIGBUS, &sa, NULL);
}

/* Check that the next step and saving fail with this error, and that the sequence stays unchanged. */
static void fails(struct timeline *tl, const int32_t *id, int32_t n, enum err_code code, const char *says)
{
	uint8_t *p = xmalloc((size_t)timeline_token_bytes(tl, 1) * (size_t)(n + 1));
	struct err err = { 0 };

	for (int i = 0; i < 2; i++) { /* the failure is permanent */
		CHECK(timeline_extend(tl, id + n, 1, 1, NULL, NULL, &err) < 0);
		CHECK_INT(err.code, code);
		CHECK_MSG(strstr(err.msg, says) && !strchr(err.msg, '\n'), "no '%s' in '%s'", says, err.msg);
	}
	CHECK_INT(tl->n_past, n);
	CHECK(timeline_entries_save(tl, 0, timeline_entries_ready(tl), 1, p, &err) < 0);
	CHECK_MSG(strstr(err.msg, says), "no '%s' in '%s'", says, err.msg);
	free(p);
}

TEST(a_disk_that_fails_under_the_cache_fails_the_step)
{
	static const char *const kv[] = { "full", "sift:k=64", "cascade" };
	enum { READ = 700 };
	uint64_t all, least;
	struct err err = { 0 };
	struct engine *e;

	catch_faults();
	use_directory();
	e = open_deep(0, DEEP);
	for (size_t i = 0; i < LEN(kv); i++) {
		struct timeline *tl, *whole = open_kv(e, "full", 2048, 0);
		int32_t id[READ + 1];

		least = least_of(e, kv[i], 2048, &all);
		tl = open_kv(e, kv[i], 2048, least + (all - least) / 4);
		fill(id, READ + 1, 3);
		CHECK_MSG(timeline_sync(tl, id, READ, NULL, NULL, &err) >= 0, "%s: %s", kv[i], err.msg);
		CHECK(!ftruncate(tl->cache.kv.fd, 0));
		fails(tl, id, READ, ERR_FAIL, "the disk failed under the KV cache");
		/* After a change of policy, everything is prefilled again into a new file. */
		CHECK_MSG(!timeline_switch_kv(tl, i ? "full" : "sift:k=64", &err), "%s: %s", kv[i], err.msg);
		CHECK_MSG(!timeline_switch_kv(tl, "full", &err), "%s: %s", kv[i], err.msg);
		both(tl, whole, id, READ, 0, kv[i], "after a disk that failed");
		timeline_close(tl);
		timeline_close(whole);
	}
	engine_close(e);
	CHECK_INT(leave_directory(), 0);
}

TEST(a_model_file_cut_while_in_use_fails_the_step)
{
	struct timeline_options o = { .kv = "full", .ctx = 512, .batch = 64 };
	struct timeline *tl, *other;
	struct err err = { 0 };
	struct engine *e;
	int32_t id[65];
	int fd;

	catch_faults();
	use_directory();
	tiny_fd = &fd;
	e = open_deep(0, DEEP);
	tiny_fd = NULL;
	CHECK(!timeline_open(&tl, e, &o, &err));
	CHECK(!timeline_open(&other, e, &o, &err));
	fill(id, 65, 4);
	CHECK(timeline_sync(tl, id, 64, NULL, NULL, &err) >= 0);
	CHECK(!ftruncate(fd, 0));
	close(fd);
	fails(tl, id, 64, ERR_MODEL, "changed while in use");
	CHECK(timeline_sync(other, id, 64, NULL, NULL, &err) < 0);
	timeline_close(tl);
	timeline_close(other);
	engine_close(e);
	/* A model that is opened after the failure works. */
	e = open_deep(0, DEEP);
	tl = open_kv(e, "full", 512, 0);
	CHECK(timeline_sync(tl, id, 64, NULL, NULL, &err) >= 0);
	timeline_close(tl);
	engine_close(e);
	CHECK_INT(leave_directory(), 0);
}
