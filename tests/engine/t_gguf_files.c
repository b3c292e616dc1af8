/* tests/engine/t_gguf_files.c - the GGUF reader: kinds of files, reference files, truncated files, flipped bits, and
 * the time for the largest tables. Single bad fields are tested in t_gguf.c. */
#include "tests/lib/json.h"
#include "tests/lib/gguf_bad.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- opening ---- */

static char dir[64];

static const char *in_dir(const char *name)
{
	static char path[4][4200];
	static int turn;
	char *p = path[turn++ & 3];
	snprintf(p, sizeof path[0], "%s/%s", dir, name);
	return p;
}

static void write_file(const char *path, const void *p, size_t n)
{
	FILE *f = fopen(path, "wb");
	if (!f || fwrite(p, 1, n, f) != n || fclose(f))
		test_fail(__FILE__, __LINE__, "cannot write a file: %s", strerror(errno));
}

static void open_refused(const char *path, const char *why)
{
	struct err e = { 0 };
	struct gguf *g = NULL;
	int before = dup(0), after;

	close(before);
	CHECK_MSG(gguf_open(&g, path, &e) == -1, "%s was opened", path);
	CHECK(!g);
	CHECK_INT(e.code, ERR_MODEL);
	CHECK_MSG(strstr(e.msg, why) != NULL, "no \"%s\" in: %s", why, e.msg);
	CHECK_MSG(!strncmp(e.msg, "file '", 6), "%s", e.msg);
	for (const char *p = e.msg; *p; p++)
		CHECK((unsigned char)*p >= 0x20 && *p != 0x7f);
	if (getenv("WEIR_TEST_SHOW"))
		test_note("%s", e.msg);
	after = dup(0);
	close(after);
	CHECK_INT(after, before); /* check that no file descriptor was left open */
	n_refused++;
}

TEST(row_54_only_regular_files)
{
	struct str good = { 0 };
	struct gguf *g;
	struct err e = { 0 };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	char *name;
	int fd;

	snprintf(dir, sizeof dir, "/tmp/weir-t_gguf-XXXXXX");
	if (!mkdtemp(dir))
		SKIP("no directory for files: %s", strerror(errno));
	make_good(&good);
	write_file(in_dir("good.gguf"), good.p, good.n);
	CHECK_INT(gguf_open(&g, in_dir("good.gguf"), &e), 0);
	CHECK(g->mapped && g->size == good.n && !memcmp(g->base, good.p, good.n));
	walk_gguf(g);
	gguf_close(g);
	CHECK(!symlink("good.gguf", in_dir("link")));
	CHECK_INT(gguf_open(&g, in_dir("link"), &e), 0);
	gguf_close(g);

	open_refused(dir, "a directory");
	open_refused("/dev/null", "a device");
	open_refused("/dev/zero", "a device");
	CHECK(!symlink("/dev/zero", in_dir("zero")));
	open_refused(in_dir("zero"), "a device");
	CHECK(!mkfifo(in_dir("fifo"), 0600));
	open_refused(in_dir("fifo"), "a pipe");
	CHECK(!symlink("gone", in_dir("dangling")));
	open_refused(in_dir("dangling"), "No such file");
	CHECK(!symlink("loop", in_dir("loop")));
	open_refused(in_dir("loop"), "cannot be opened");
	open_refused(in_dir("missing.gguf"), "No such file");
	open_refused("", "No such file");
	write_file(in_dir("empty"), "", 0);
	open_refused(in_dir("empty"), "empty");
	write_file(in_dir("short"), good.p, good.n - 1);
	open_refused(in_dir("short"), "offset of tensor");
	write_file(in_dir("web.gguf"), "<html>404</html>", 16);
	open_refused(in_dir("web.gguf"), "HTML");
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	snprintf(un.sun_path, sizeof un.sun_path, "%s", in_dir("socket"));
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&un, sizeof un))
		open_refused(in_dir("socket"), "cannot be opened");
	if (fd >= 0)
		close(fd);
	if (geteuid()) {
		write_file(in_dir("secret"), good.p, good.n);
		CHECK(!chmod(in_dir("secret"), 0));
		open_refused(in_dir("secret"), "Permission denied");
	}
	/* A sparse file of 16 GiB is refused without reading or allocating that much. */
	struct str header = { 0 };
	put_header(&header, 3, 65536, 65536);
	write_file(in_dir("sparse"), header.p, header.n);
	if (!truncate(in_dir("sparse"), 1ll << 34))
		open_refused(in_dir("sparse"), "key length");
	str_free(&header);

	/* File names are untrusted too. */
	open_refused(in_dir("\x1b]0;owned\a.gguf"), "\\x1b]0;owned\\x07.gguf");
	open_refused(in_dir("\xe2\x80\xae"
	                    "fugg.txt"),
	             "\\xe2\\x80\\xae");
	open_refused(in_dir("bad \xff utf-8"), "\\xff");
	name = xmalloc(4001);
	memset(name, 'n', 4000);
	name[4000] = 0;
	open_refused(name, "cannot be opened");
	CHECK_INT(gguf_parse(&g, name, "GGUF\1\0\0\0", 8, &e), -1);
	CHECK(strstr(e.msg, "nnn': byte 4: version is 1") != NULL);
	free(name);
	str_free(&good);

	static const char *const made[] = { "good.gguf", "link",  "zero",     "fifo",   "dangling", "loop",
		                            "empty",     "short", "web.gguf", "socket", "secret",   "sparse" };
	for (size_t i = 0; i < LEN(made); i++)
		unlink(in_dir(made[i]));
	CHECK(!rmdir(dir));
}

/* ---- all at once ---- */

TEST(expected_json_verdicts)
{
	size_t n;
	char *text = test_read(test_unpacked("malformed-gguf", "expected.json"), &n);
	struct jv files = jv_get(jv_parse(text, n), "files"), it = { 0 };
	int refused_here = 0, opened = 0, left_to_loader = 0;

	CHECK(jv_len(files) > 0);
	while (jv_next(files, &it, NULL)) {
		char *name = jv_str(jv_get(it, "file"), NULL), *expect = jv_str(jv_get(it, "expect"), NULL);
		struct err e = { 0 };
		struct gguf *g = NULL;
		int rc;

		rc = gguf_open(&g, test_unpacked("malformed-gguf", name), &e);
		if (!strcmp(expect, "reject")) {
			CHECK_MSG(rc == -1, "%s was accepted", name);
		} else if (!strcmp(expect, "valid-container") || !strcmp(expect, "valid-model") ||
		           !strcmp(expect, "reject-model")) {
			/* reject-model: the GGUF file itself is valid; only the model loader can refuse its values. */
			CHECK_MSG(!rc, "%s was refused: %s", name, e.msg);
			left_to_loader += !strcmp(expect, "reject-model");
		} else {
			CHECK_MSG(!strcmp(expect, "either"), "unknown verdict %s", expect);
		}
		if (rc) {
			check_message(&e, "byte");
			refused_here++;
		} else {
			walk_gguf(g);
			opened++;
		}
		gguf_close(g);
		free(name);
		free(expect);
	}
	free(text);
	test_note("%d opened (of them %d for the loader to refuse), %d refused", opened, left_to_loader, refused_here);
}

TEST(weights_inf_is_named)
{
	struct gguf *g;
	struct err e = { 0 };
	CHECK_INT(gguf_open(&g, test_unpacked("malformed-gguf", "weights-inf.gguf"), &e), 0);
	CHECK_INT(gguf_check_weights(g, &e), -1);
	check_message(&e, "token_embd.weight");
	gguf_close(g);
	CHECK_INT(gguf_open(&g, test_unpacked("malformed-gguf", "model-ok.gguf"), &e), 0);
	CHECK_MSG(!gguf_check_weights(g, &e), "%s", e.msg);
	gguf_close(g);
}

static int opens(const char *path)
{
	struct gguf *g;
	struct err e = { 0 };
	int rc = gguf_open(&g, path, &e);

	CHECK_MSG(!rc, "%s", e.msg);
	if (rc)
		return 0;
	CHECK_MSG(!gguf_check_weights(g, &e), "%s", e.msg);
	gguf_close(g);
	return 1;
}

/* Open the model files of the project, and those of the reference data if they exist. */
TEST(real_files_open)
{
	static const char *const folder[] = { "tests/vectors/models", "tests/vectors/stories260K", "data/tokenizers" };
	const char *top = getenv("WEIR_SHARED");
	int n = 0;

	for (int i = 0; i < 3; i++) {
		char path[2048];
		struct dirent *entry;
		DIR *d;

		snprintf(path, sizeof path, "%s/%s", i < 2 ? "." : top ? top : "../shared", folder[i]);
		d = opendir(path);
		CHECK(d || i == 2);
		while (d && (entry = readdir(d))) {
			size_t len = strlen(entry->d_name);

			snprintf(path, sizeof path, "%s/%s/%s",
			         i < 2 ? "."
			         : top ? top
			               : "../shared",
			         folder[i], entry->d_name);
			if (len > 5 && !strcmp(entry->d_name + len - 5, ".gguf"))
				n += opens(path);
		}
		if (d)
			closedir(d);
	}
	CHECK(n >= 12);
}

/* Check that truncations of a file are refused. In the whole file, the last tensor must end at the end of the file.
 * Returns how many lengths were tried. */
static size_t truncate_everywhere(const char *p, size_t n, size_t header)
{
	size_t tried = 0;
	for (size_t cut = 0; cut < n; cut += cut < header + 64 ? 1 : 997) {
		struct err e = { 0 };
		if (!parse_copy(p, cut, &e))
			test_fail(__FILE__, __LINE__, "cut to %zu of %zu bytes, and accepted", cut, n);
		else
			check_message(&e, "byte");
		tried++;
	}
	return tried;
}

TEST(truncated_everywhere_own_file)
{
	struct str f = { 0 };
	make_good(&f);
	test_note("%zu prefixes", truncate_everywhere(f.p, f.n, f.n));
	str_free(&f);
}

static void truncate_model(const char *path)
{
	size_t n, end;
	char *p = test_read(path, &n);
	struct gguf *g;
	struct err e = { 0 };

	CHECK_INT(gguf_parse(&g, path, p, n, &e), 0);
	end = g->tensor[g->n_tensor - 1].at + g->tensor[g->n_tensor - 1].bytes;
	test_note("%zu prefixes, header of %zu bytes", truncate_everywhere(p, end, g->tensor[0].at),
	          (size_t)g->tensor[0].at);
	gguf_close(g);
	free(p);
}

TEST(truncated_everywhere_small_llama)
{
	truncate_model(test_unpacked("malformed-gguf", "model-ok.gguf"));
}

TEST(truncated_everywhere_stories)
{
	truncate_model(test_file("tests/vectors/stories260K/stories260K-q8_0.gguf"));
}

TEST(every_bit_flipped)
{
	struct str f = { 0 };
	size_t header, still_good = 0;
	struct gguf *g;
	double start = cpu_seconds();

	make_good(&f);
	CHECK_INT(gguf_parse(&g, "x", f.p, f.n, NULL), 0);
	header = g->tensor[0].at;
	gguf_close(g);
	for (size_t bit = 0; bit < 8 * header; bit++) {
		struct err e = { 0 };
		f.p[bit / 8] ^= (char)(1 << bit % 8);
		if (parse_copy(f.p, f.n, &e))
			check_message(&e, "byte");
		else
			still_good++;
		f.p[bit / 8] ^= (char)(1 << bit % 8);
	}
	test_note("%zu flips in a header of %zu bytes, %zu still good, %.2f s", 8 * header, header, still_good,
	          cpu_seconds() - start);
	CHECK(cpu_seconds() - start < 60 * test_patience());
	str_free(&f);
}

TEST(random_damage)
{
	struct str f = { 0 };
	char *copy;
	size_t still_good = 0;

	make_good(&f);
	copy = xmalloc(f.n);
	for (int round = 0; round < 20000; round++) {
		struct err e = { 0 };
		memcpy(copy, f.p, f.n);
		for (uint64_t k = 1 + test_rand() % 8; k; k--) {
			size_t at = test_rand() % f.n;
			static const unsigned char tough[] = { 0, 1, 0x7f, 0x80, 0xff };
			copy[at] = (char)(test_rand() % 2 ? tough[test_rand() % 5] : test_rand());
		}
		if (parse_copy(copy, f.n, &e))
			check_message(&e, "byte");
		else
			still_good++;
	}
	test_note("20000 files, %zu still good", still_good);
	free(copy);
	str_free(&f);
}

TEST(fuzz_seeds)
{
	const char *folder = test_unpacked("malformed-gguf", "fuzz-seeds");
	DIR *d = opendir(folder);
	struct dirent *entry;
	int n_seed = 0, good = 0;

	CHECK(d != NULL);
	while (d && (entry = readdir(d))) {
		char path[2048], *p;
		size_t n;
		struct err e = { 0 };
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
		p = test_read(path, &n);
		CHECK(p != NULL);
		if (p && !parse_copy(p, n, &e))
			good++;
		else
			check_message(&e, "byte");
		free(p);
		n_seed++;
	}
	if (d)
		closedir(d);
	CHECK(n_seed > 0);
	test_note("%d seeds, %d accepted", n_seed, good);
}

/* The largest allowed numbers of keys and tensors, 65,536 each, must be parsed quickly. */
TEST(the_caps_cost_no_time)
{
	struct str f = { 0 }, dir_part = { 0 };
	struct err e = { 0 };
	double start;
	enum { N = 65536 };

	for (int duplicate = 0; duplicate < 3; duplicate++) {
		str_clear(&f);
		str_clear(&dir_part);
		put_header(&f, 3, N, N);
		put_key(&f, "general.alignment", GGUF_U32);
		put_u32(&f, 8);
		for (int i = 1; i < N; i++) {
			char key[16];
			snprintf(key, sizeof key, "%d", duplicate == 1 && i == N - 1 ? 1 : i);
			put_key(&f, key, GGUF_U8);
			put_u8(&f, 1);
		}
		for (int i = 0; i < N; i++) {
			char name[16];
			snprintf(name, sizeof name, "%d", duplicate == 2 && i == N - 1 ? 0 : i);
			put_tensor(&f, name, 1, (int64_t[]){ 1 }, 0, 8 * (uint64_t)i);
		}
		put_pad(&f, 8);
		put_zeros(&f, 8 * N);
		start = cpu_seconds();
		CHECK_INT(parse_copy(f.p, f.n, &e), duplicate ? -1 : 0);
		if (duplicate)
			check_message(&e, "is a duplicate");
		if (!duplicate)
			test_note("%d keys and %d tensors, all read and looked up: %.2f s", N, N,
			          cpu_seconds() - start);
		CHECK(cpu_seconds() - start < 20 * test_patience());
	}
	str_free(&f);
	str_free(&dir_part);
}

/* Files with long keys that differ only in their last byte, the worst case for comparisons, must be parsed quickly. */
TEST(long_equal_keys_cost_no_time)
{
	struct str f = { 0 };
	char *key = xmalloc(60001);
	struct err e = { 0 };
	double start;

	memset(key, 'k', 60000);
	key[60000] = 0;
	put_header(&f, 3, 0, 200);
	for (int i = 0; i < 200; i++) {
		snprintf(key + 59990, 11, "%010d", (i * 77) % 200);
		put_key(&f, key, GGUF_U8);
		put_u8(&f, 1);
	}
	start = cpu_seconds();
	CHECK_INT(parse_copy(f.p, f.n, &e), 0);
	CHECK(cpu_seconds() - start < 5 * test_patience());
	free(key);
	str_free(&f);
}
