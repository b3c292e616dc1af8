/* tests/engine/t_gguf.c - the GGUF reader: good files, and bad ones made by hand.
 *
 * The tests are named after the rows of a checklist of errors that occurred in GGUF readers. Whole files, systematic
 * damage and limits are tested in t_gguf_files.c. */
#include "kernels/common/quant.h"
#include "tests/lib/gguf_bad.h"

#include <stdio.h>

/* ---- pieces ---- */

/* Return a file with one key and these bytes as its value. */
static struct str one_value(const char *key, uint32_t type, const void *value, size_t n)
{
	struct str f = { 0 };
	put_header(&f, 3, 0, 1);
	put_key(&f, key, type);
	str_add(&f, value, n);
	return f;
}

/* A tensor record in which every field can be set to any value. */
struct rec {
	const char *name;
	size_t name_n;     /* 0 = strlen(name) */
	uint64_t name_len; /* value of the length field; 0 = the real length */
	uint32_t n_dims;   /* number of dimensions; 0 = one dimension; DIMS(x) writes exactly x */
	uint64_t ne[4];
	uint32_t type;
	uint64_t offset;
};
#define ZERO_DIMS 0x10000u

static void put_rec(struct str *f, struct rec r)
{
	size_t n = r.name_n ? r.name_n : strlen(r.name);
	uint32_t dims = r.n_dims == ZERO_DIMS ? 0 : r.n_dims ? r.n_dims : 1;

	put_u64(f, r.name_len ? r.name_len : n);
	str_add(f, r.name, n);
	put_u32(f, dims);
	for (uint32_t i = 0; i < (MIN(4, dims)); i++)
		put_u64(f, r.ne[i]);
	put_u32(f, r.type);
	put_u64(f, r.offset);
}

/* Return a file of a header, tensor records, padding and data. */
static struct str tensor_file(const struct rec *r, size_t n, size_t data_bytes)
{
	struct str f = { 0 };
	put_header(&f, 3, n, 0);
	for (size_t i = 0; i < n; i++)
		put_rec(&f, r[i]);
	put_pad(&f, 32);
	put_zeros(&f, data_bytes);
	return f;
}

static void one_tensor(struct rec r, const char *field)
{
	struct str f = tensor_file(&r, 1, 4096);
	refused(&f, field);
}

static void two_tensors(struct rec a, struct rec b, size_t data_bytes, const char *field)
{
	struct rec r[2] = { a, b };
	struct str f = tensor_file(r, 2, data_bytes);
	refused(&f, field);
}

/* ---- good files ---- */

TEST(good_file_reads_back)
{
	struct str f = { 0 };
	struct gguf *g;
	struct err e = { 0 };
	const struct gguf_tensor *t;

	make_good(&f);
	CHECK_INT(gguf_parse(&g, "good.gguf", f.p, f.n, &e), 0);
	CHECK_INT(e.code, ERR_NONE);
	CHECK_INT(g->version, 3);
	CHECK_INT(g->alignment, 32);
	CHECK_INT(g->n_kv, 20);
	CHECK_INT(g->n_tensor, 3);
	CHECK_STR(g->path, "good.gguf");
	t = gguf_tensor_find(g, "a.weight");
	CHECK(t && t->type == DT_F32 && t->n_dims == 2 && t->ne[0] == 32 && t->ne[1] == 2 && t->ne[2] == 1 &&
	      t->ne[3] == 1);
	CHECK(t && t->bytes == 256 && t->data == g->base + t->at && t->at % 32 == 0);
	t = gguf_tensor_find(g, "c.weight");
	CHECK(t && t->type == DT_Q8_0 && t->bytes == 102 && t->at + t->bytes == g->size);
	CHECK(!gguf_tensor_find(g, "c.weigh") && !gguf_tensor_find(g, "c.weight2") && !gguf_tensor_find(g, ""));
	CHECK(!gguf_find(g, "t") && !gguf_find(g, "t.u644") && !gguf_find(g, ""));
	for (uint64_t i = 0; i < g->n_kv; i++) {
		char *key = xstrndup(g->kv[i].key.p, g->kv[i].key.n);
		CHECK(gguf_find(g, key) == &g->kv[i]);
		free(key);
	}
	gguf_close(g);
	accepted(&f);
	gguf_close(NULL);
}

/* gguf_head_bytes() for files that are truncated at every length. */
TEST(head_of_a_beginning)
{
	struct str f = { 0 };
	struct gguf *g;
	struct err e = { 0 };
	uint64_t head, data = UINT64_MAX, state = 7;

	make_good(&f);
	head = gguf_head_bytes(f.p, f.n);
	CHECK_INT(gguf_parse(&g, "good.gguf", f.p, f.n, &e), 0);
	for (uint64_t i = 0; i < g->n_tensor; i++)
		data = g->tensor[i].at < data ? g->tensor[i].at : data;
	gguf_close(g);
	CHECK(head > 24 && head <= data && data - head < 32);
	for (uint64_t n = 0; n <= f.n; n++) {
		char *p = xmalloc(n + 1); /* an exact allocation, so that a sanitizer detects a read past its end */

		memcpy(p, f.p, n);
		p = xrealloc(p, n ? n : 1);
		CHECK_INT(gguf_head_bytes(p, n), n < head ? 0 : head);
		free(p);
	}
	/* For damaged headers the result is never larger than the file. A file that is not a model counts as
	 * complete. */
	for (int i = 0; i < 20000; i++) {
		struct str bad = { 0 };

		str_add(&bad, f.p, f.n);
		for (int k = 0; k < 3; k++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			bad.p[4 + (state >> 33) % (head - 4)] = (char)(state >> 24);
		}
		CHECK(gguf_head_bytes(bad.p, bad.n) <= bad.n);
		str_free(&bad);
	}
	CHECK_INT(gguf_head_bytes("<html>no", 8), 8);
	str_free(&f);
}

TEST(typed_reads)
{
	static const struct {
		const char *key;
		int64_t want;
	} ints[] = {
		{ "t.u8", 200 },         { "t.i8", -56 },         { "t.u16", 60000 }, { "t.i16", -5536 },
		{ "t.u32", 4000000000 }, { "t.i32", -294967296 }, { "t.i64", -1 },
	};
	struct str f = { 0 };
	struct gguf *g;
	struct err e = { 0 };
	const struct gguf_value *v = NULL;
	struct view s;
	int64_t n;
	double x;
	int b;

	make_good(&f);
	CHECK_INT(gguf_parse(&g, "test.gguf", f.p, f.n, &e), 0);
	for (size_t i = 0; i < LEN(ints); i++) {
		n = 99;
		CHECK_INT(gguf_int(g, ints[i].key, INT64_MIN, INT64_MAX, &n, &e), 1);
		CHECK_INT(n, ints[i].want);
		CHECK_INT(gguf_int(g, ints[i].key, ints[i].want, ints[i].want, &n, &e), 1);
		n = 99;
		CHECK_INT(gguf_int(g, ints[i].key, ints[i].want + 1, INT64_MAX, &n, &e), -1);
		check_message(&e, ints[i].key);
		CHECK_INT(gguf_int(g, ints[i].key, INT64_MIN, ints[i].want - 1, &n, &e), -1);
		check_message(&e, ints[i].key);
		CHECK_INT(n, 99);
	}
	n = 99;
	CHECK_INT(gguf_int(g, "t.u64", INT64_MIN, INT64_MAX, &n, &e), -1);
	CHECK(strstr(e.msg, "18446744073709551615") != NULL);
	CHECK_INT(gguf_int(g, "t.gone", 0, 1, &n, &e), 0);
	CHECK_INT(n, 99);
	CHECK_INT(gguf_int(g, "t.f32", 0, 9, &n, &e), -1);
	check_message(&e, "t.f32");
	CHECK_INT(gguf_int(g, "t.yes", 0, 9, &n, &e), -1);
	CHECK_INT(gguf_int(g, "t.string", 0, 9, &n, &e), -1);
	CHECK_INT(gguf_int(g, "t.i32s", 0, 9, &n, &e), -1);
	check_message(&e, "array of 2 x i32");

	CHECK_INT(gguf_float(g, "t.f32", &x, &e), 1);
	CHECK(x == 1.5);
	CHECK_INT(gguf_float(g, "t.f64", &x, &e), 1);
	CHECK(x == -2.25);
	CHECK_INT(gguf_float(g, "t.gone", &x, &e), 0);
	CHECK_INT(gguf_float(g, "t.u32", &x, &e), -1);
	check_message(&e, "t.u32");

	CHECK_INT(gguf_bool(g, "t.yes", &b, &e), 1);
	CHECK_INT(b, 1);
	CHECK_INT(gguf_bool(g, "t.no", &b, &e), 1);
	CHECK_INT(b, 0);
	CHECK_INT(gguf_bool(g, "t.gone", &b, &e), 0);
	CHECK_INT(gguf_bool(g, "t.u8", &b, &e), -1);
	check_message(&e, "t.u8");

	CHECK_INT(gguf_string(g, "t.string", &s, &e), 1);
	CHECK(s.n == 11 && !memcmp(s.p, "a few words", 11));
	CHECK_INT(gguf_string(g, "t.empty", &s, &e), 1);
	CHECK_INT(s.n, 0);
	CHECK_INT(gguf_string(g, "t.gone", &s, &e), 0);
	CHECK_INT(gguf_string(g, "t.strings", &s, &e), -1);
	check_message(&e, "t.strings");

	CHECK_INT(gguf_array(g, "t.i32s", GGUF_I32, UINT64_MAX, &v, &e), 1);
	CHECK(v && v->n == 2 && gguf_array_int(v, 0) == 7 && gguf_array_int(v, 1) == -7);
	CHECK_INT(gguf_array(g, "t.i32s", GGUF_I32, 2, &v, &e), 1);
	CHECK_INT(gguf_array(g, "t.i32s", GGUF_I32, 3, &v, &e), -1);
	check_message(&e, "array of 3 x i32");
	CHECK_INT(gguf_array(g, "t.i32s", GGUF_U32, 2, &v, &e), -1);
	check_message(&e, "t.i32s");
	CHECK_INT(gguf_array(g, "t.i32", GGUF_I32, UINT64_MAX, &v, &e), -1);
	CHECK_INT(gguf_array(g, "t.gone", GGUF_I32, UINT64_MAX, &v, &e), 0);
	CHECK_INT(gguf_array(g, "t.none", GGUF_F32, 0, &v, &e), 1);

	CHECK_INT(gguf_array(g, "t.strings", GGUF_STRING, 3, &v, &e), 1);
	uint64_t pos = 0;
	CHECK(gguf_string_next(v, &pos, &s) == 1 && s.n == 3 && !memcmp(s.p, "one", 3));
	CHECK(gguf_string_next(v, &pos, &s) == 1 && s.n == 0);
	CHECK(gguf_string_next(v, &pos, &s) == 1 && s.n == 2 && !memcmp(s.p, "\0\xff", 2));
	CHECK_INT(gguf_string_next(v, &pos, &s), 0);
	CHECK_INT(gguf_string_next(v, &pos, &s), 0);
	gguf_close(g);
	str_free(&f);
}

TEST(array_integers_of_every_type)
{
	/* clang-format off */
	static const struct { enum gguf_type t; int64_t want; } c[] = {
		{ GGUF_U8, 0x81 }, { GGUF_I8, -127 }, { GGUF_U16, 0x8281 }, { GGUF_I16, -32127 },
		{ GGUF_U32, 0x84838281 }, { GGUF_I32, (int32_t)0x84838281u }, { GGUF_I64, (int64_t)0x8887868584838281u },
		{ GGUF_U64, INT64_MAX },      /* too large for int64_t: clamped to its maximum */
	};
	/* clang-format on */
	static const char bytes[] = "\x81\x82\x83\x84\x85\x86\x87\x88";
	for (size_t i = 0; i < LEN(c); i++) {
		struct str f = { 0 };
		struct gguf *g;
		const struct gguf_value *v;
		put_header(&f, 3, 0, 1);
		put_key(&f, "a", GGUF_ARRAY);
		put_u32(&f, c[i].t);
		put_u64(&f, 2);
		str_add(&f, bytes, gguf_type_size(c[i].t));
		str_add(&f, bytes, gguf_type_size(c[i].t));
		CHECK_INT(gguf_parse(&g, "x", f.p, f.n, NULL), 0);
		CHECK_INT(gguf_array(g, "a", c[i].t, 2, &v, NULL), 1);
		CHECK_INT(gguf_array_int(v, 0), c[i].want);
		CHECK_INT(gguf_array_int(v, 1), c[i].want);
		gguf_close(g);
		str_free(&f);
	}
}

TEST(unusual_but_good_files)
{
	struct str f = { 0 };
	char *big = calloc(1, 65536);

	put_header(&f, 3, 0, 0); /* no keys and no tensors */
	accepted(&f);
	put_header(&f, 2, 0, 0); /* version 2 has the same layout */
	accepted(&f);
	memset(big, 'k', 65535); /* the longest key */
	f = one_value(big, GGUF_U8, "\1", 1);
	accepted(&f);
	f = one_value("split.count", GGUF_U16, "\1\0", 2);
	accepted(&f);
	memset(big + 64, 0, 65535 - 64); /* the longest name, four dimensions */
	struct rec r = { .name = big, .n_dims = 4, .ne = { 32, 2, 3, 4 } };
	f = tensor_file(&r, 1, 32 * 24 * 4);
	accepted(&f);
	/* A gap between two tensors, and bytes after the last one, are allowed. */
	struct rec two[2] = { { .name = "a", .ne = { 1 } }, { .name = "b", .ne = { 1 }, .offset = 320 } };
	f = tensor_file(two, 2, 4096);
	accepted(&f);
	for (uint32_t a = 8; a <= 65536; a *= 2) {
		struct mk m = { .alignment = a };
		mk_u32(&m, "general.alignment", a);
		mk_tensor(&m, "a", 1, (int64_t[]){ 1 }, 0, NULL, 4);
		mk_tensor(&m, "b", 1, (int64_t[]){ 1 }, 0, NULL, 4);
		mk_finish(&m, &f);
		accepted(&f);
	}
	/* A string may contain any bytes. */
	f = one_value("s", GGUF_STRING, "\4\0\0\0\0\0\0\0\0\xff\x1b\n", 12);
	accepted(&f);
	free(big);
}

/* ---- the checklist ---- */

TEST(row_01_short_files)
{
	static const char *const field[24] = {
		"magic",     "magic",     "magic",     "magic",     "version",   "version",   "version",   "version",
		"n_tensors", "n_tensors", "n_tensors", "n_tensors", "n_tensors", "n_tensors", "n_tensors", "n_tensors",
		"n_kv",      "n_kv",      "n_kv",      "n_kv",      "n_kv",      "n_kv",      "n_kv",      "n_kv",
	};
	for (size_t n = 0; n < 24; n++) {
		struct str f = { 0 };
		put_header(&f, 3, 0, 0);
		f.n = n;
		refused(&f, field[n]);
	}
}

TEST(row_02_not_gguf)
{
	static const struct {
		const char *p;
		size_t n;
		const char *what;
	} c[] = {
#define FILE_OF(s, what) { s, sizeof s - 1, what }
		FILE_OF("FUGG\0\0\0\3xxxxxxxxxxxxxxxxxx", "byte-swapped"),
		FILE_OF("gguf\3\0\0\0xxxxxxxxxxxxxxxxxx", "lower case"),
		FILE_OF("GGML\1\0\0\0xxxxxxxxxxxxxxxxxx", "old GGML"),
		FILE_OF("lmgg\1\0\0\0xxxxxxxxxxxxxxxxxx", "old GGML"),
		FILE_OF("tjgg\3\0\0\0xxxxxxxxxxxxxxxxxx", "GGJT"),
		FILE_OF("fmgg\1\0\0\0xxxxxxxxxxxxxxxxxx", "GGMF"),
		FILE_OF("GGJT\3\0\0\0xxxxxxxxxxxxxxxxxx", "GGJT"),
		FILE_OF("nsgg\1\0\0\0xxxxxxxxxxxxxxxxxx", "session"),
		FILE_OF("GGSN\1\0\0\0xxxxxxxxxxxxxxxxxx", "session"),
		FILE_OF("algg\1\0\0\0xxxxxxxxxxxxxxxxxx", "adapter"),
		FILE_OF("PK\3\4\24\0\0\0\10\0xxxxxxxxxxxxxxxx", "zip"),
		FILE_OF("\x1f\x8b\10\0xxxxxxxxxxxxxxxxxxxxx", "gzip"),
		FILE_OF("\x28\xb5\x2f\xfdxxxxxxxxxxxxxxxxxxxxx", "zstd"),
		FILE_OF("<!DOCTYPE html><html><head><title>Sign in", "HTML"),
		FILE_OF("\r\n <HTML><body>404 Not Found</body></html>", "HTML"),
		FILE_OF("version https://git-lfs.github.com/spec/v1\noid sha256:0", "git-lfs"),
		FILE_OF("\x58\0\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"pt\"}", "safetensors"),
		FILE_OF("{\"error\":\"Repository not found\"}", "JSON"),
		FILE_OF("%PDF-1.7 xxxxxxxxxxxxxxxxxxxxxx", "PDF"),
		FILE_OF("\x7f"
		        "ELF\2\1\1\0xxxxxxxxxxxxxxxxxxx",
		        "program"),
		FILE_OF("SQLite format 3\0xxxxxxxxxxxxxxxx", "SQLite"),
		FILE_OF("Access to this model is restricted.", "plain text"),
		FILE_OF("hi", "plain text"),
		FILE_OF("\x1b]0;owned\7\x1b[2Jxxxxxxxxxxxxxxxxxx", "not a GGUF file"),
		FILE_OF("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "00 00 00 00"),
		FILE_OF("GGUX\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "47 47 55 58"),
		FILE_OF("GG", "magic"),
		FILE_OF("GX", "magic"),
#undef FILE_OF
	};
	for (size_t i = 0; i < LEN(c); i++) {
		struct str f = { 0 };
		str_add(&f, c[i].p, c[i].n);
		refused(&f, c[i].what);
		str_add(&f, c[i].p, c[i].n);
		refused(&f, "magic");
	}
	struct str tar = { 0 };
	put_zeros(&tar, 1024);
	memcpy(tar.p, "m.gguf", 6);
	memcpy(tar.p + 257, "ustar", 5);
	refused(&tar, "tar archive");
}

TEST(row_03_and_04_version)
{
	static const uint32_t bad[] = { 0, 1, 4, 5, 255, 65536, 0x7fffffff, 0x80000000u, UINT32_MAX };
	static const uint32_t swapped[] = { 0x01000000, 0x02000000, 0x03000000, 0x04000000 };
	struct str f = { 0 };

	for (size_t i = 0; i < LEN(bad); i++) {
		put_header(&f, bad[i], 0, 0);
		refused(&f, "version");
	}
	for (size_t i = 0; i < LEN(swapped); i++) {
		put_header(&f, swapped[i], 0, 0);
		refused(&f, "big-endian");
	}
}

TEST(row_05_and_06_counts)
{
	/* clang-format off */
	static const uint64_t bad[] = {
		UINT64_MAX, 1ull << 63, 1ull << 62, 1000000000, 65537, 0xffffffff, 65536, 200,
		UINT64_MAX / 72 + 1, UINT64_MAX / 8, UINT64_MAX / 33 + 1, UINT64_MAX / 14 + 1,
	};
	/* clang-format on */
	for (size_t i = 0; i < LEN(bad); i++) {
		struct str f = { 0 };
		put_header(&f, 3, bad[i], 0);
		put_zeros(&f, 1000);
		refused(&f, "n_tensors");
		put_header(&f, 3, 0, bad[i]);
		put_zeros(&f, 1000);
		refused(&f, "n_kv");
	}
	/* The file is large enough for records of 40 tensors, but the part of the file after the metadata is not. */
	struct str f = { 0 }, value = { 0 };
	put_header(&f, 3, 40, 1);
	put_key(&f, "s", GGUF_STRING);
	put_zeros(&value, 1400);
	put_bytes(&f, value.p, value.n);
	refused(&f, "n_tensors");
	str_free(&value);
	put_header(&f, 3, 0, 3); /* the header announces more keys than there are */
	put_key(&f, "a", GGUF_U8);
	put_u8(&f, 1);
	put_zeros(&f, 40);
	refused(&f, "key length");
}

TEST(row_07_key_length)
{
	static const uint64_t bad[] = { 0, 65536, 1ull << 31, 1ull << 32, UINT64_MAX, UINT64_MAX - 7, 1ull << 63 };
	struct str f = { 0 };

	for (size_t i = 0; i < LEN(bad); i++) {
		put_header(&f, 3, 0, 1);
		put_u64(&f, bad[i]);
		put_room(&f);
		refused(&f, "key length");
	}
	put_header(&f, 3, 0, 1);
	put_u64(&f, 60000); /* this length is allowed, but exceeds the file */
	put_room(&f);
	refused(&f, "key");
}

TEST(row_08_key_bytes)
{
	/* clang-format off */
	static const struct { const char *p; size_t n; } bad[] = {
		{ "a\0b", 3 }, { "\0", 1 }, { "caf\xc3\xa9", 5 }, { "\x1b]0;x\a", 6 }, { "a\nb", 3 }, { "\x7f", 1 },
		{ "\xff\xff", 2 }, { "a\x9b" "31m", 5 }, { "\xe2\x80\xae" "gpj", 6 }, { "\t", 1 },
	};
	/* clang-format on */
	for (size_t i = 0; i < LEN(bad); i++) {
		struct str f = { 0 };
		put_header(&f, 3, 0, 1);
		put_bytes(&f, bad[i].p, bad[i].n);
		put_u32(&f, GGUF_U8);
		put_u8(&f, 1);
		refused(&f, "key");
	}
	/* A key of 65,535 control characters must not fill the error message. */
	struct str f = { 0 };
	put_header(&f, 3, 0, 1);
	put_u64(&f, 65535);
	for (int i = 0; i < 65535; i++)
		put_u8(&f, 0x1b);
	put_room(&f);
	refused(&f, "must be printable ASCII");
}

TEST(row_09_duplicate_keys)
{
	struct str f = { 0 };

	put_header(&f, 3, 0, 2);
	put_key(&f, "same", GGUF_U8);
	put_u8(&f, 1);
	put_key(&f, "same", GGUF_U8);
	put_u8(&f, 1);
	refused(&f, "'same' is a duplicate");
	put_header(&f, 3, 0, 202); /* the same key twice, far apart, with different types */
	put_key(&f, "general.architecture", GGUF_STRING);
	put_string(&f, "llama");
	for (int i = 0; i < 200; i++) {
		char key[16];
		snprintf(key, sizeof key, "k%d", i);
		put_key(&f, key, GGUF_U8);
		put_u8(&f, 1);
	}
	put_key(&f, "general.architecture", GGUF_STRING);
	put_string(&f, "other");
	refused(&f, "general.architecture");
}

TEST(row_10_value_type)
{
	static const uint32_t bad[] = { 13, 14, 255, 256, 0x7fffffff, 0x80000000u, UINT32_MAX };
	for (size_t i = 0; i < LEN(bad); i++) {
		struct str f = { 0 };
		put_header(&f, 3, 0, 1);
		put_key(&f, "k", bad[i]);
		put_room(&f);
		refused(&f, "value type");
	}
	/* For every type, a file that ends inside the bytes of a value. */
	for (uint32_t t = GGUF_U8; t <= GGUF_F64; t++) {
		unsigned size = gguf_type_size((enum gguf_type)t);
		if (size < 2)
			continue;
		struct str f = one_value("k", t, "\0\0\0\0\0\0\0", size - 1);
		refused(&f, "value");
	}
}

TEST(row_11_bool)
{
	for (int v = 2; v < 256; v += v < 8 ? 1 : 31) {
		char byte = (char)v;
		struct str f = one_value("flag", GGUF_BOOL, &byte, 1);
		refused(&f, "bool");
	}
	struct str f = { 0 };
	put_header(&f, 3, 0, 1);
	put_key(&f, "flags", GGUF_ARRAY);
	put_u32(&f, GGUF_BOOL);
	put_u64(&f, 3);
	str_add(&f, "\0\1\2", 3);
	refused(&f, "bool");
}

TEST(row_12_string_length)
{
	static const uint64_t bad[] = { UINT64_MAX,     UINT64_MAX - 7, 1ull << 63, 1ull << 60, 1ull << 32,
		                        (16 << 20) + 1, 16 << 20,       65536,      4097 };
	for (size_t i = 0; i < LEN(bad); i++) {
		struct str f = { 0 };
		put_header(&f, 3, 0, 1);
		put_key(&f, "s", GGUF_STRING);
		put_u64(&f, bad[i]);
		put_room(&f);
		refused(&f, "string");
		put_header(&f, 3, 0, 1);
		put_key(&f, "list", GGUF_ARRAY); /* the same strings inside an array */
		put_u32(&f, GGUF_STRING);
		put_u64(&f, 2);
		put_string(&f, "good");
		put_u64(&f, bad[i]);
		put_room(&f);
		refused(&f, "string");
	}
}

TEST(row_13_array_type)
{
	static const uint32_t bad[] = { GGUF_ARRAY, 13, 99, 0x7fffffff, UINT32_MAX };
	for (size_t i = 0; i < LEN(bad); i++) {
		struct str f = { 0 };
		put_header(&f, 3, 0, 1);
		put_key(&f, "list", GGUF_ARRAY);
		put_u32(&f, bad[i]);
		put_u64(&f, 1);
		put_room(&f);
		refused(&f, "array type");
	}
	/* Arrays nested 10,000 levels deep. */
	struct str f = { 0 };
	put_header(&f, 3, 0, 1);
	put_key(&f, "list", GGUF_ARRAY);
	for (int i = 0; i < 10000; i++) {
		put_u32(&f, GGUF_ARRAY);
		put_u64(&f, 1);
	}
	put_room(&f);
	refused(&f, "array type");
}

TEST(row_14_array_count)
{
	static const uint64_t bad[] = { 1ull << 63, UINT64_MAX, (1ull << 61) + 1, (64 << 20) + 1, 64 << 20,
		                        1ull << 32, 5000 };
	static const uint32_t elem[] = { GGUF_U8, GGUF_F32, GGUF_U64, GGUF_STRING, GGUF_BOOL };
	for (size_t i = 0; i < LEN(bad); i++)
		for (size_t j = 0; j < LEN(elem); j++) {
			struct str f = { 0 };
			put_header(&f, 3, 0, 1);
			put_key(&f, "list", GGUF_ARRAY);
			put_u32(&f, elem[j]);
			put_u64(&f, bad[i]);
			put_room(&f);
			refused(&f, "array count");
		}
	/* The array's number of strings is possible for a file of this size, but the file ends before the last
	 * string. */
	struct str f = { 0 };
	put_header(&f, 3, 0, 1);
	put_key(&f, "list", GGUF_ARRAY);
	put_u32(&f, GGUF_STRING);
	put_u64(&f, 3);
	put_string(&f, "0123456789abcdef");
	refused(&f, "string length");
}

TEST(row_15_alignment)
{
	static const uint32_t bad[] = { 0, 1, 2, 4, 7, 13, 24, 33, 100, 65535, 65537, 131072, 1u << 31, UINT32_MAX };
	static const uint32_t type[] = { GGUF_I32, GGUF_U64, GGUF_F32, GGUF_U16, GGUF_BOOL, GGUF_STRING };
	struct str f = { 0 };

	for (size_t i = 0; i < LEN(bad); i++) {
		put_header(&f, 3, 1, 1);
		put_key(&f, "general.alignment", GGUF_U32);
		put_u32(&f, bad[i]);
		put_rec(&f, (struct rec){ .name = "a", .ne = { 1 } });
		put_room(&f);
		refused(&f, "general.alignment");
	}
	for (size_t i = 0; i < LEN(type); i++) {
		f = one_value("general.alignment", type[i],
		              type[i] == GGUF_STRING ? "\0\0\0\0\0\0\0" : "\1\0\0\0\0\0\0", 8);
		refused(&f, "general.alignment");
	}
	put_header(&f, 3, 0, 1);
	put_key(&f, "general.alignment", GGUF_ARRAY);
	put_u32(&f, GGUF_U32);
	put_u64(&f, 1);
	put_u32(&f, 32);
	refused(&f, "general.alignment");
}

TEST(row_16_architecture)
{
	struct str f = one_value("general.architecture", GGUF_U32, "\1\0\0\0", 4), name = { 0 };

	refused(&f, "general.architecture");
	f = one_value("general.architecture", GGUF_STRING, "\0\0\0\0\0\0\0\0", 8);
	refused(&f, "general.architecture");
	f = one_value("general.architecture", GGUF_STRING, "\3\0\0\0\0\0\0\0\x1b[m", 11);
	refused(&f, "general.architecture");
	for (int i = 0; i < 1 << 20; i++)
		put_u8(&name, 'a');
	put_header(&f, 3, 0, 1);
	put_key(&f, "general.architecture", GGUF_STRING);
	put_bytes(&f, name.p, name.n);
	refused(&f, "general.architecture");
	str_free(&name);
}

TEST(row_17_tensor_name_length)
{
	static const uint64_t bad[] = { 65, 255, 65536, 1ull << 32, 1ull << 50, UINT64_MAX, UINT64_MAX - 7 };
	for (size_t i = 0; i < LEN(bad); i++)
		one_tensor((struct rec){ .name = "a", .name_len = bad[i], .ne = { 32 } }, "name length of tensor");
	struct str f = { 0 };
	put_header(&f, 3, 1, 0);
	put_room(&f);
	refused(&f, "name length of tensor");
}

TEST(row_18_tensor_name)
{
	static const struct {
		const char *p;
		size_t n;
	} bad[] = {
		{ "a\0b", 3 },     { "\x1b[31m", 5 }, { "w\xc3\xa9", 3 }, { "\n", 1 }, { "../../etc/passwd", 16 },
		{ "/dev/sda", 8 }, { "C:\\x", 4 },
	};
	for (size_t i = 0; i < LEN(bad); i++)
		one_tensor((struct rec){ .name = bad[i].p, .name_n = bad[i].n, .ne = { 32 } }, "name of tensor");
	two_tensors((struct rec){ .name = "same", .ne = { 1 } },
	            (struct rec){ .name = "same", .ne = { 1 }, .offset = 32 }, 64, "'same' is a duplicate");
	/* If two tensors have the same name and the same offset, the error must be about the name. */
	two_tensors((struct rec){ .name = "same", .ne = { 1 } }, (struct rec){ .name = "same", .ne = { 1 } }, 64,
	            "tensor name");
}

TEST(row_19_dimensions)
{
	static const uint32_t bad[] = { ZERO_DIMS, 5, 6, 255, 0x7fffffff, 0x80000000u, UINT32_MAX };
	for (size_t i = 0; i < LEN(bad); i++)
		one_tensor((struct rec){ .name = "a", .n_dims = bad[i], .ne = { 1, 1, 1, 1 } }, "n_dims");
}

TEST(row_20_and_21_extent)
{
	static const uint64_t bad[] = { 0, UINT64_MAX, (uint64_t)-32, 1ull << 63 };
	static const char *const field[4] = { "ne[0]", "ne[1]", "ne[2]", "ne[3]" };
	for (size_t i = 0; i < LEN(bad); i++)
		for (uint32_t d = 0; d < 4; d++) {
			struct rec r = { .name = "a", .n_dims = 4, .ne = { 1, 1, 1, 1 } };
			r.ne[d] = bad[i];
			one_tensor(r, field[d]);
		}
}

TEST(row_22_product)
{
	const uint64_t m = 4ull * INT32_MAX;
	one_tensor((struct rec){ .name = "a", .n_dims = 2, .ne = { m, m } }, "ne[1]");
	one_tensor((struct rec){ .name = "a", .n_dims = 2, .ne = { (1ull << 42) + 1, 1152 * 4096ull } }, "ne[1]");
	one_tensor((struct rec){ .name = "a", .n_dims = 2, .ne = { (1ull << 42) + 1, 1152 } }, "size of tensor");
	one_tensor((struct rec){ .name = "a", .n_dims = 2, .ne = { 1ull << 32, 1ull << 32 } }, "ne[1]");
	one_tensor((struct rec){ .name = "a", .n_dims = 2, .ne = { 1ull << 32, 1ull << 31 } }, "ne[1]");
	one_tensor((struct rec){ .name = "a", .n_dims = 4, .ne = { 65536, 65536, 65536, 65536 } }, "ne[3]");
	one_tensor((struct rec){ .name = "a", .n_dims = 4, .ne = { 1ull << 62, 1, 1, 2 } }, "ne[3]");
	one_tensor((struct rec){ .name = "a", .n_dims = 3, .ne = { INT64_MAX, INT64_MAX, INT64_MAX } }, "ne[1]");
}

TEST(row_23_size)
{
	one_tensor((struct rec){ .name = "a", .ne = { 1ull << 62 } }, "size of tensor");
	one_tensor((struct rec){ .name = "a", .ne = { INT64_MAX } }, "size of tensor");
	one_tensor((struct rec){ .name = "a", .ne = { 1ull << 61 } }, "size of tensor");
	one_tensor((struct rec){ .name = "a", .ne = { 1ull << 40 } }, "size of tensor");
	one_tensor((struct rec){ .name = "a", .ne = { 2048 } }, "size of tensor");
	one_tensor((struct rec){ .name = "a", .n_dims = 2, .ne = { 32, 1ull << 57 }, .type = 8 }, "size of tensor");
	one_tensor((struct rec){ .name = "a", .n_dims = 2, .ne = { 1ull << 31, 1ull << 31 }, .type = 1 },
	           "size of tensor");
	/* this tensor ends 4 bytes after the end of the file */
	one_tensor((struct rec){ .name = "a", .ne = { 1025 } }, "offset of tensor");
}

TEST(row_24_blocks)
{
	for (int i = 0; i < DT_COUNT; i++) {
		const struct dtype_info *info = dtype_info((enum dtype)i);
		uint64_t block = (uint64_t)info->block;
		if (block < 2)
			continue;
		one_tensor((struct rec){ .name = "a", .ne = { block + 1 }, .type = (uint32_t)info->ggml_id }, "ne[0]");
		one_tensor((struct rec){ .name = "a", .ne = { 1 }, .type = (uint32_t)info->ggml_id }, "ne[0]");
		/* The number of values is a multiple of the block size, but the row length is not. */
		one_tensor((struct rec){ .name = "a",
		                         .n_dims = 2,
		                         .ne = { block / 2, 2 },
		                         .type = (uint32_t)info->ggml_id },
		           "ne[0]");
	}
}

TEST(row_25_tensor_type)
{
	int known = 0, tried = 0;
	for (uint32_t id = 0; id < 64; id++) {
		const char *name;
		if (dtype_from_ggml(id, &name) >= 0) {
			known++;
			continue;
		}
		one_tensor((struct rec){ .name = "a", .ne = { 256 }, .type = id }, "type of tensor");
		tried++;
	}
	CHECK_INT(known, DT_COUNT + 2); /* plus two ternary types, which are converted on loading */
	CHECK(tried >= 30);
	one_tensor((struct rec){ .name = "a", .ne = { 256 }, .type = 0x7fffffff }, "type of tensor");
	one_tensor((struct rec){ .name = "a", .ne = { 256 }, .type = 0x80000000u }, "type of tensor");
	one_tensor((struct rec){ .name = "a", .ne = { 256 }, .type = UINT32_MAX }, "type of tensor");
	one_tensor((struct rec){ .name = "a", .ne = { 256 }, .type = 18 },
	           "type of tensor 'a' is 18 (IQ3_XXS), which is not supported: take the model in another "
	           "quantization, such as Q4_K_M or Q3_K_M");
}

TEST(row_26_offset)
{
	static const uint64_t bad[] = { 1,          4,          16,   31,       33, UINT64_MAX, UINT64_MAX - 31,
		                        1ull << 63, 1ull << 32, 4096, 4096 + 32 };
	for (size_t i = 0; i < LEN(bad); i++)
		one_tensor((struct rec){ .name = "a", .ne = { 32 }, .offset = bad[i] }, "offset of tensor");
	/* The offset is a multiple of the default alignment 32, but not of the alignment that the file sets. */
	struct str f = { 0 };
	put_header(&f, 3, 1, 1);
	put_key(&f, "general.alignment", GGUF_U32);
	put_u32(&f, 64);
	put_rec(&f, (struct rec){ .name = "a", .ne = { 1 }, .offset = 32 });
	put_room(&f);
	refused(&f, "offset of tensor");
}

TEST(row_27_overlap_and_order)
{
	struct rec a = { .name = "a", .ne = { 32 } }, b = { .name = "b", .ne = { 32 } };
	two_tensors(a, b, 4096, "overlap"); /* both at 0 */
	b.offset = 96;
	two_tensors(a, b, 4096, "overlap"); /* overlaps the last block of tensor a */
	b.offset = 128;
	two_tensors(b, a, 4096, "out of order");
	a.offset = 256;
	two_tensors(a, b, 4096, "out of order");
	a.offset = 32;
	b.offset = 0;
	two_tensors(a, b, 4096, "out of order"); /* the tensors overlap, too, but the error is about their order */
	a = (struct rec){ .name = "a", .ne = { 256 } };
	b = (struct rec){ .name = "b", .ne = { 8 }, .offset = 512 };
	two_tensors(a, b, 4096, "overlap"); /* b is inside a */
	struct rec three[3] = { { .name = "a", .ne = { 8 } },
		                { .name = "b", .ne = { 8 }, .offset = 64 },
		                { .name = "c", .ne = { 8 }, .offset = 32 } };
	struct str f = tensor_file(three, 3, 4096);
	refused(&f, "out of order");
}

TEST(row_28_past_the_end)
{
	struct rec r = { .name = "a", .ne = { 32 } };
	struct str f;
	static const size_t data[] = { 127, 126, 64, 1 };

	for (size_t i = 0; i < LEN(data); i++) {
		f = tensor_file(&r, 1, data[i]);
		refused(&f, data[i] > 32 ? "offset of tensor" : "size of tensor");
	}
	f = tensor_file(&r, 1, 128);
	accepted(&f);
	/* one tensor whose offset is 1 to 4 alignment units too large */
	for (uint64_t off = 32; off <= 128; off += 32) {
		r.offset = off;
		f = tensor_file(&r, 1, 128);
		refused(&f, "offset of tensor");
	}
	r.offset = UINT64_MAX - 127; /* offset + size = 2^64 */
	f = tensor_file(&r, 1, 128);
	refused(&f, "offset of tensor");
	r.offset = UINT64_MAX - 31;
	f = tensor_file(&r, 1, 128);
	refused(&f, "offset of tensor");
}

TEST(row_29_sums)
{
	/* Each size fits in 64 bits, but the sum of the padded sizes wraps around to a small number. */
	struct rec r[4] = { { .name = "a", .ne = { 1ull << 60 } },
		            { .name = "b", .ne = { 1ull << 60 }, .offset = 1ull << 62 },
		            { .name = "c", .ne = { 1ull << 60 }, .offset = 1ull << 63 },
		            { .name = "d", .ne = { 1ull << 60 }, .offset = 3ull << 62 } };
	struct str f = tensor_file(r, 4, 4096);
	refused(&f, "size of tensor");
	/* Each tensor alone would fit in the file, but all together do not. */
	struct rec s[4] = { { .name = "a", .ne = { 1000 } },
		            { .name = "b", .ne = { 1000 }, .offset = 4000 },
		            { .name = "c", .ne = { 1000 }, .offset = 8000 },
		            { .name = "d", .ne = { 1000 }, .offset = 12000 } };
	f = tensor_file(s, 4, 15999);
	refused(&f, "offset of tensor");
	f = tensor_file(s, 4, 16000);
	accepted(&f);
}

TEST(row_30_data_start)
{
	struct rec r = { .name = "a", .ne = { 1 } };
	for (size_t cut = 1; cut < 8; cut++) {
		struct str f = tensor_file(&r, 1, 0);
		f.n -= cut;
		refused(&f, "tensor");
	}
	struct str f = tensor_file(&r, 1, 0);
	refused(&f, "offset of tensor");
	put_header(&f, 3, 1, 1);
	put_key(&f, "general.alignment", GGUF_U32);
	put_u32(&f, 65536);
	put_rec(&f, r);
	put_room(&f);
	refused(&f, "tensor data");
}

TEST(row_51_split)
{
	struct str f = one_value("split.count", GGUF_U16, "\0\0", 2);
	refused(&f, "split.count");
	f = one_value("split.count", GGUF_U32, "\0\0\1\0", 4);
	refused(&f, "split.count");
	f = one_value("split.count", GGUF_STRING, "\0\0\0\0\0\0\0\0", 8);
	refused(&f, "split.count");
	f = one_value("split.no", GGUF_U16, "\1\0", 2);
	refused(&f, "split.no");
	f = one_value("split.tensors.count", GGUF_I32, "\5\0\0\0", 4);
	refused(&f, "split.tensors.count");
}

TEST(row_53_damaged_weights)
{
	static const struct {
		uint32_t bits;
		const char *what;
	} bad[] = {
		{ 0x7f800000, " is Inf" },
		{ 0xff800000, " is -Inf" },
		{ 0x7fc00000, " is NaN" },
		{ 0xff800001, " is NaN" },
	};
	static const int at[] = { 0, 1, 2047, 2048, 4999 };
	struct err e = { 0 };

	for (size_t i = 0; i < LEN(bad); i++)
		for (size_t j = 0; j < LEN(at); j++) {
			struct mk m = { 0 };
			struct str f = { 0 };
			struct gguf *g;
			char want[64];
			float w[5000] = { 0 };
			memcpy(&w[at[j]], &bad[i].bits, 4);
			mk_tensor(&m, "good", 1, (int64_t[]){ 7 }, 0, NULL, 28);
			mk_tensor(&m, "blk.0.bad", 2, (int64_t[]){ 2500, 2 }, 0, w, sizeof w);
			mk_finish(&m, &f);
			CHECK_INT(gguf_parse(&g, "test.gguf", f.p, f.n, &e), 0);
			CHECK_INT(gguf_check_weights(g, &e), -1);
			check_message(&e, "tensor 'blk.0.bad'");
			snprintf(want, sizeof want, "value number %d ", at[j]);
			check_message(&e, want);
			check_message(&e, bad[i].what);
			n_refused++;
			gguf_close(g);
			str_free(&f);
		}
	/* Set the scale of a block of each quantised type to NaN. The position of the scale in the block depends on the
	 * type, so try every aligned pair of bytes. The scale of MXFP4 is an exponent, which cannot be NaN. */
	for (int t = 0; t < DT_COUNT; t++) {
		const struct dtype_info *info = dtype_info((enum dtype)t);
		int found = 0;
		if (info->block < 2 || t == DT_MXFP4)
			continue;
		for (int at2 = 0; at2 + 2 <= info->block_bytes; at2 += 2) {
			struct mk m = { 0 };
			struct str f = { 0 };
			struct gguf *g;
			char *data = calloc(3, (size_t)info->block_bytes);
			memset(data + info->block_bytes, 0x11, (size_t)info->block_bytes);
			memcpy(data + info->block_bytes + at2, "\0\x7e", 2); /* an f16 NaN */
			mk_tensor(&m, "q", 1, (int64_t[]){ 3 * info->block }, (uint32_t)info->ggml_id, data,
			          3 * (size_t)info->block_bytes);
			mk_finish(&m, &f);
			CHECK_INT(gguf_parse(&g, "test.gguf", f.p, f.n, &e), 0);
			if (gguf_check_weights(g, &e)) {
				check_message(&e, "NaN");
				found++;
			}
			gguf_close(g);
			free(data);
			str_free(&f);
		}
		CHECK_MSG(found >= 1 && found <= 2, "%s: %d places take a NaN", info->name, found);
	}
	struct str f = { 0 };
	struct gguf *g;
	make_good(&f);
	CHECK_INT(gguf_parse(&g, "test.gguf", f.p, f.n, &e), 0);
	CHECK_INT(gguf_check_weights(g, &e), 0);
	gguf_close(g);
	str_free(&f);
}

TEST(enough_bad_files_were_tried)
{
	if (!n_refused)
		SKIP("this counts the tests before it");
	test_note("%d hand-made bad files refused, %zu allocations seen", n_refused, alloc_calls);
	CHECK(n_refused < 30 || n_refused >= 120); /* fewer than 30 if only some of the tests were run */
}
