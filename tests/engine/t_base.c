/* tests/engine/t_base.c - errors, byte strings, token lists, checked sizes, UTF-8. */
#include "engine/base/base.h"
#include "tests/lib/json.h"
#include "tests/lib/test.h"

#include <pwd.h>
#include <stdlib.h>

/* ---- errors ---- */

TEST(err_set_fills_code_and_sentence)
{
	struct err e = { 0 };
	CHECK_INT(err_set(&e, ERR_FIT, "%d is more than %d", 3, 2), -1);
	CHECK_INT(e.code, ERR_FIT);
	CHECK_STR(e.msg, "3 is more than 2");
	CHECK_INT(err_set(NULL, ERR_FAIL, "%s", "nobody listens"), -1);
}

TEST(err_set_can_wrap_its_own_message)
{
	struct err e = { 0 };
	err_set(&e, ERR_MODEL, "no tensor 'x'");
	err_set(&e, ERR_MODEL, "layer 3: %s", e.msg);
	CHECK_STR(e.msg, "layer 3: no tensor 'x'");
}

TEST(err_set_cuts_at_a_character)
{
	struct err e = { 0 };
	struct str s = { 0 };
	for (int shift = 0; shift < 4; shift++) {
		int32_t cp;
		size_t n;
		str_clear(&s);
		str_add(&s, "xxxx", (size_t)shift);
		for (int i = 0; i < 1000; i++)
			str_adds(&s, "\xe2\x82\xac");
		err_set(&e, ERR_FAIL, "%s", s.p);
		n = strlen(e.msg);
		CHECK(n < sizeof e.msg && n > sizeof e.msg - 4);
		for (size_t i = 0; i < n; i += (size_t)utf8_decode(e.msg + i, n - i, &cp)) {
			utf8_decode(e.msg + i, n - i, &cp);
			CHECK(cp >= 0);
		}
	}
	str_free(&s);
}

TEST(err_set_escapes_what_a_terminal_would_obey)
{
	static const struct {
		const char *in, *out;
	} c[] = {
		{ "a\x1b]0;title\a", "a\\x1b]0;title\\x07" },
		{ "line\nline\r\t\b", "line\\x0aline\\x0d\\x09\\x08" },
		{ "\x7f", "\\x7f" },
		{ "\xc2\x9b"
		  "31m",
		  "\\xc2\\x9b31m" }, /* C1 CSI */
		{ "\x9b", "\\x9b" }, /* the same control character as one raw byte */
		{ "\xe2\x80\xae"
		  "abc",
		  "\\xe2\\x80\\xae"
		  "abc" }, /* right-to-left override */
		{ "\xe2\x81\xa6", "\\xe2\\x81\\xa6" },
		{ "\xf3\xa0\x81\x81", "\\xf3\\xa0\\x81\\x81" }, /* tag character */
		{ "\xe2\x82", "\\xe2\\x82" },                   /* cut sequence */
		{ "\xc0\x80", "\\xc0\\x80" },
		{ "Gr\xc3\xbc\xc3\x9f"
		  "e \xe2\x82\xac \xf0\x9f\x98\x80",
		  "Gr\xc3\xbc\xc3\x9f"
		  "e \xe2\x82\xac \xf0\x9f\x98\x80" },
	};
	for (size_t i = 0; i < LEN(c); i++) {
		struct err e = { 0 };
		err_set(&e, ERR_FAIL, "%s", c[i].in);
		CHECK_STR(e.msg, c[i].out);
	}
}

TEST(text_escape_keeps_nul_visible_and_stays_in_bounds)
{
	char out[64];
	CHECK_INT(text_escape(out, sizeof out, "a\0b", 3), 6);
	CHECK_STR(out, "a\\x00b");
	for (size_t cap = 0; cap < 20; cap++) {
		char *p = malloc(cap ? cap : 1);
		size_t n = text_escape(p, cap,
		                       "ab\x1b\xc3\xa4"
		                       "cd\xff",
		                       8);
		CHECK(cap ? n < cap && p[n] == 0 : n == 0);
		free(p);
	}
}

/* ---- sizes ---- */

TEST(sizes_are_checked)
{
	uint64_t r = 7;
	CHECK_INT(size_mul(1u << 20, 1u << 20, &r), 0);
	CHECK(r == 1ull << 40);
	CHECK_INT(size_mul(UINT64_MAX, 2, &r), -1);
	CHECK_INT(size_mul(1ull << 32, 1ull << 32, &r), -1);
	CHECK(r == 1ull << 40);
	CHECK_INT(size_add(UINT64_MAX, 1, &r), -1);
	CHECK_INT(size_add(UINT64_MAX - 1, 1, &r), 0);
	CHECK(r == UINT64_MAX);
}

TEST(try_alloc_refuses_with_the_figure)
{
	struct err e = { 0 };
	unsigned char *p;
	CHECK(!try_alloc(SIZE_MAX, 2, "the test", &e));
	CHECK_INT(e.code, ERR_FIT);
	CHECK(strstr(e.msg, "the test") != NULL);
	CHECK(!try_alloc(SIZE_MAX / 2, 2, "the test", &e));
	CHECK(!try_alloc(PTRDIFF_MAX, 2, "the test", NULL));
	p = try_alloc(1000, 3, "the test", &e);
	CHECK(p != NULL);
	for (int i = 0; p && i < 3000; i++)
		CHECK_INT(p[i], 0);
	free(p);
	p = try_alloc(0, 3, "nothing", &e);
	CHECK(p != NULL);
	free(p);
}

TEST(xmalloc_family)
{
	char *p = xmalloc(0), *q = xcalloc(4, 4), *r = xstrndup("abcdef", 3), *s = xstrndup("ab\0cd", 5);
	CHECK(p && q && !q[15]);
	CHECK_STR(r, "abc");
	CHECK_STR(s, "ab");
	p = xrealloc(p, 100);
	memset(p, 1, 100);
	free(p);
	free(q);
	free(r);
	free(s);
}

/* ---- byte strings ---- */

TEST(str_grows_and_stays_terminated)
{
	struct str s = { 0 };
	str_add(&s, "", 0);
	CHECK(s.p && !s.p[0] && s.n == 0);
	for (int i = 0; i < 5000; i++) {
		str_addf(&s, "%d,", i % 10);
		CHECK(s.n == (size_t)(2 * i + 2) && s.p[s.n] == 0 && s.cap > s.n);
	}
	str_clear(&s);
	CHECK(s.n == 0 && s.cap > 0);
	CHECK_STR(s.p, "");
	str_adds(&s, "abc");
	str_add(&s, "\0d", 2);
	CHECK(s.n == 5 && !memcmp(s.p, "abc\0d", 6));
	str_free(&s);
	CHECK(!s.p && !s.n && !s.cap);
}

TEST(str_addf_of_every_length)
{
	struct str s = { 0 };
	char *want = xmalloc(700);
	memset(want, 'y', 700);
	for (int n = 0; n < 600; n++) {
		str_clear(&s);
		str_adds(&s, "<");
		str_addf(&s, "%.*s", n, want);
		CHECK(s.n == (size_t)n + 1 && !memcmp(s.p + 1, want, (size_t)n) && s.p[s.n] == 0);
	}
	str_free(&s);
	free(want);
}

TEST(json_strings_read_back)
{
	static const struct {
		const char *in;
		size_t n;
		const char *out;
	} c[] = {
		{ "", 0, "\"\"" },
		{ "a\"b\\c/", 6, "\"a\\\"b\\\\c/\"" },
		{ "\n\t\r\b\0\x1f", 6, "\"\\n\\t\\r\\u0008\\u0000\\u001f\"" },
		{ "\x7f\xc2\x9b", 3, "\"\\u007f\\u009b\"" },
		{ "\xe2\x80\xa8", 3, "\"\\u2028\"" },
		{ "\xc3\xa4\xf0\x9f\x98\x80", 6, "\"\xc3\xa4\xf0\x9f\x98\x80\"" },
		{ "\xff"
		  "a\xe2\x82",
		  4,
		  "\"\xef\xbf\xbd"
		  "a\xef\xbf\xbd\"" },
		{ "\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
	};
	for (size_t i = 0; i < LEN(c); i++) {
		struct str s = { 0 };
		str_add_json(&s, c[i].in, c[i].n);
		CHECK_STR(s.p, c[i].out);
		str_free(&s);
	}
}

TEST(json_of_random_bytes_is_valid_utf8_without_controls)
{
	for (int round = 0; round < 2000; round++) {
		struct str s = { 0 };
		char in[64], *back;
		size_t n = test_rand() % sizeof in, m;
		int32_t cp;
		for (size_t i = 0; i < n; i++)
			in[i] = (char)(test_rand() % 4 ? test_rand() : 0xe0 + test_rand() % 20);
		str_add_json(&s, in, n);
		for (size_t i = 0; i < s.n; i += (size_t)utf8_decode(s.p + i, s.n - i, &cp)) {
			utf8_decode(s.p + i, s.n - i, &cp);
			CHECK(cp >= 0x20 && (cp < 0x7f || cp > 0x9f));
		}
		/* The JSON reader must accept the result, and writing the parsed text again must give the same JSON. */
		back = jv_str(jv_parse(s.p, s.n), &m);
		CHECK(back != NULL);
		struct str again = { 0 };
		str_add_json(&again, back ? back : "", back ? m : 0);
		CHECK_STR(again.p, s.p);
		free(back);
		str_free(&again);
		str_free(&s);
	}
}

/* ---- token lists ---- */

TEST(token_lists)
{
	struct tokens t = { 0 };
	int32_t some[3] = { 7, -1, 9 };
	tokens_append(&t, NULL, 0);
	CHECK(!t.id && !t.n);
	for (int i = 0; i < 3000; i++)
		tokens_add(&t, i);
	for (int i = 0; i < 1000; i++)
		tokens_append(&t, some, 3);
	CHECK_INT(t.n, 6000);
	CHECK_INT(t.id[2999], 2999);
	CHECK_INT(t.id[3000], 7);
	CHECK_INT(t.id[5998], -1);
	CHECK_INT(t.id[5999], 9);
	tokens_free(&t);
	CHECK(!t.id && !t.n && !t.cap);
}

/* ---- UTF-8 ---- */

/* A second decoder, written from the definition: only the shortest encoding of a code point is valid. Returns the
 * length of a valid sequence, or 0. */
static int ref_valid(const unsigned char *s, size_t n, int32_t *cp)
{
	static const int32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len = s[0] < 0x80 ? 1 : s[0] < 0xc0 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf8 ? 4 : 0;
	int32_t c;
	if (!len || len > n)
		return 0;
	c = len == 1 ? s[0] : s[0] & (0x7f >> len);
	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*cp = c;
	return (int)len;
}

/* 1 if a valid sequence can begin with these bytes. As continuation, the function tries bytes at the edges of every
 * range. */
static int ref_begins(const unsigned char *s, size_t n)
{
	static const unsigned char next[] = { 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf };
	unsigned char t[4];
	int32_t cp;
	if (!n || n > 3 || s[0] < 0x80)
		return 0;
	memcpy(t, s, n);
	for (size_t i = 0; i < sizeof next; i++) {
		t[n] = next[i];
		if ((size_t)ref_valid(t, n + 1, &cp) == n + 1)
			return 1;
		if (n < 3 && ref_begins(t, n + 1))
			return 1;
	}
	return 0;
}

TEST(utf8_every_code_point_survives)
{
	for (int32_t cp = 0; cp <= 0x10ffff; cp++) {
		char s[4];
		int32_t back = -2;
		int n;
		if (cp >= 0xd800 && cp <= 0xdfff)
			continue;
		n = utf8_encode(cp, s);
		if (utf8_decode(s, (size_t)n, &back) != n || back != cp)
			test_fail(__FILE__, __LINE__, "U+%04X comes back as %d", (unsigned)cp, back);
	}
}

TEST(utf8_encode_replaces_what_is_no_character)
{
	static const int32_t bad[] = { -1, 0xd800, 0xdfff, 0x110000, INT32_MAX, INT32_MIN };
	for (size_t i = 0; i < LEN(bad); i++) {
		char s[4];
		CHECK_INT(utf8_encode(bad[i], s), 3);
		CHECK(!memcmp(s, "\xef\xbf\xbd", 3));
	}
}

TEST(utf8_decode_agrees_with_the_definition)
{
	/* Test all strings of two bytes, and all longer ones made of bytes at the edges of every range. */
	static const unsigned char edge[] = { 0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
		                              0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
		                              0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff };
	enum { E = sizeof edge };
	long checked = 0;

	for (unsigned i = 0; i < 65536 + E * E * E * E; i++) {
		unsigned char s[4];
		size_t n = 2;
		if (i < 65536) {
			s[0] = (unsigned char)(i >> 8);
			s[1] = (unsigned char)i;
		} else {
			unsigned k = i - 65536;
			n = 4;
			for (int j = 0; j < 4; j++, k /= E)
				s[j] = edge[k % E];
		}
		for (size_t m = 1; m <= n; m++) {
			/* an exact allocation, so that a sanitizer detects a read past its end */
			char *exact = malloc(m);
			int32_t cp = -2, want = -1;
			int got, len;
			memcpy(exact, s, m);
			got = utf8_decode(exact, m, &cp);
			len = ref_valid(s, m, &want);
			if (!len) {
				/* For invalid bytes, the decoder returns the length of their longest prefix that can
				 * begin a valid sequence, at least 1. */
				len = 1;
				while ((size_t)len < m && ref_begins(s, (size_t)len + 1))
					len++;
				want = -1;
			}
			if (got != len || cp != want)
				test_fail(__FILE__, __LINE__, "%02x %02x %02x %02x (%zu): %d, %d instead of %d, %d",
				          s[0], s[1], n > 2 ? s[2] : 0, n > 2 ? s[3] : 0, m, got, cp, len, want);
			free(exact);
			checked++;
		}
	}
	test_note("%ld strings", checked);
}

TEST(utf8_complete_agrees_with_the_definition)
{
	for (int round = 0; round < 200000; round++) {
		static const unsigned char pick[] = { 'a',  0x80, 0x9f, 0xa0, 0xbf, 0xc1, 0xc2,
			                              0xe0, 0xe2, 0xed, 0xf0, 0xf1, 0xf4, 0xf5 };
		unsigned char s[8];
		size_t n = test_rand() % sizeof s, want = n;
		char *exact;
		for (size_t i = 0; i < n; i++)
			s[i] = pick[test_rand() % sizeof pick];
		for (size_t back = 1; back <= 3 && back <= n; back++)
			if (s[n - back] >= 0xc0 && ref_begins(s + n - back, back))
				want = n - back;
		exact = malloc(n ? n : 1);
		memcpy(exact, s, n);
		CHECK_INT(utf8_complete(exact, n), want);
		free(exact);
	}
}

TEST(utf8_streams_come_out_whole)
{
	/* Append the text in pieces of several sizes, and take out the complete characters after each piece. Joined,
	 * they must give the text. */
	static const char text[] = "na\xc3\xafve \xe2\x82\xac\xf0\x9f\x98\x80 \xe6\xb0\xb4 end";
	for (size_t step = 1; step < 6; step++) {
		struct str in = { 0 }, out = { 0 };
		for (size_t i = 0; i < sizeof text - 1; i += step) {
			size_t n = sizeof text - 1 - i < step ? sizeof text - 1 - i : step, whole;
			str_add(&in, text + i, n);
			whole = utf8_complete(in.p + out.n, in.n - out.n);
			str_add(&out, in.p + out.n, whole);
		}
		CHECK_STR(out.p, text);
		str_free(&in);
		str_free(&out);
	}
}

/* Return the candidate that is nearest to a typed word, or "none". */
static const char *nearest_of(const char *word)
{
	static const char *const known[] = { "", "temperature", "threads", "kv-type", "new" };
	struct nearest n;

	nearest_init(&n, word, strlen(word));
	for (size_t i = 0; i < LEN(known); i++)
		nearest_try(&n, known[i]);
	return n.best ? n.best : "none";
}

TEST(nearest_words)
{
	char endless[300];

	CHECK_STR(nearest_of("temprature"), "temperature");
	CHECK_STR(nearest_of("htreads"), "threads"); /* two swapped letters count as one mistake */
	CHECK_STR(nearest_of("kvtype"), "kv-type");
	CHECK_STR(nearest_of("nwe"), "new");
	CHECK_STR(nearest_of("no"), "none"); /* a word of two letters may have one mistake, but "no" must not match */
	CHECK_STR(nearest_of("x"), "none");
	CHECK_STR(nearest_of("something"), "none");
	memset(endless, 'x', sizeof endless - 1);
	for (size_t n = 0; n < sizeof endless; n++) {
		endless[n] = 0;
		CHECK_MSG(!strcmp(nearest_of(endless), "none"), "%zu times x is near to '%s'", n, nearest_of(endless));
		endless[n] = 'x';
	}
}

TEST(counts_have_commas_between_thousands)
{
	CHECK_STR(count_text(0).s, "0");
	CHECK_STR(count_text(999).s, "999");
	CHECK_STR(count_text(1000).s, "1,000");
	CHECK_STR(count_text(1234567).s, "1,234,567");
	CHECK_STR(count_text(UINT64_MAX).s, "18,446,744,073,709,551,615");
}

static const struct {
	enum user_dir dir;
	const char *variable, *in_home;
} user_dirs[] = {
	{ DIR_CONFIG, "XDG_CONFIG_HOME", ".config" },
	{ DIR_STATE, "XDG_STATE_HOME", ".local/state" },
	{ DIR_CACHE, "XDG_CACHE_HOME", ".cache" },
	{ DIR_DATA, "XDG_DATA_HOME", ".local/share" },
};

static struct passwd user_of_test;

/* This function replaces that of the C library. It returns the test's user, or NULL if the test has set no home
 * directory. */
struct passwd *getpwuid(uid_t uid)
{
	return user_of_test.pw_dir ? &user_of_test : NULL;
}

/* Check user_path() for every directory: its path below `home`, or its error if home is NULL. */
static void all_directories_are(const char *home)
{
	for (size_t i = 0; i < LEN(user_dirs); i++) {
		struct str path = { 0 }, want = { 0 };
		struct err e = { 0 };
		int rc = user_path(&path, user_dirs[i].dir, "a/b", &e);

		if (home) {
			str_addf(&want, "%s/%s/weir/a/b", home, user_dirs[i].in_home);
			CHECK_INT(rc, 0);
			CHECK_STR(path.p, want.p);
		} else {
			str_addf(
				&want,
				"no home directory: neither %s nor HOME is an absolute path, and the user database has none",
				user_dirs[i].variable);
			CHECK_INT(rc, -1);
			CHECK_INT(e.code, ERR_FAIL);
			CHECK_STR(e.msg, want.p);
			CHECK(!path.n);
		}
		str_free(&path);
		str_free(&want);
	}
}

TEST(user_directories_follow_one_rule)
{
	char *old[5], *home = getenv("HOME");

	old[4] = home ? xstrndup(home, strlen(home)) : NULL;
	for (int i = 0; i < 4; i++) {
		struct str path = { 0 };
		char *was = getenv(user_dirs[i].variable);

		old[i] = was ? xstrndup(was, strlen(was)) : NULL;
		setenv(user_dirs[i].variable, "/some/where", 1);
		CHECK_INT(user_path(&path, user_dirs[i].dir, "", NULL), 0);
		CHECK_STR(path.p, "/some/where/weir");
		str_free(&path);
		setenv(user_dirs[i].variable, i % 2 ? "" : "relative", 1);
	}
	setenv("HOME", "/home/here", 1);
	user_of_test.pw_dir = (char *)"/home/there";
	all_directories_are("/home/here");
	setenv("HOME", "relative", 1);
	all_directories_are("/home/there");
	unsetenv("HOME");
	all_directories_are("/home/there");
	user_of_test.pw_dir = (char *)"relative";
	all_directories_are(NULL);
	user_of_test.pw_dir = NULL;
	all_directories_are(NULL);
	for (int i = 0; i < 5; i++) {
		const char *variable = i < 4 ? user_dirs[i].variable : "HOME";

		if (old[i])
			setenv(variable, old[i], 1);
		else
			unsetenv(variable);
		free(old[i]);
	}
}

/* Only the error for a missing file is tested here; existing data files are tested by installed_words in t_eval. */
TEST(a_missing_data_file_is_named)
{
	struct str path = { 0 };
	struct err e = { 0 };

	str_adds(&path, "before");
	CHECK_INT(data_file(&path, "words/no-such-list.txt", &e), -1);
	CHECK_INT(e.code, ERR_FAIL);
	CHECK_MSG(strstr(e.msg, "words/no-such-list.txt") && strstr(e.msg, "share/weir"), "%s", e.msg);
	CHECK_STR(path.p, "before");
	str_free(&path);
}

TEST(clock_runs_forward)
{
	double a = now_seconds(), b = now_seconds();
	CHECK(a > 0 && b >= a && b - a < 10);
}
