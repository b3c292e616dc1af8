/* engine/base/base.c - errors, byte strings, token lists, allocation, UTF-8, counts, the user's directories (base.h).
 *
 * Error messages quote file names, keys and other foreign text, and are printed on a terminal. So err_set() replaces
 * all bytes that a terminal could take for a command. */
#include "engine/base/base.h"
#include "engine/base/utf8.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- errors ---- */

/* 1 if the code point can disturb a terminal or deceive its reader. These are control characters, line separators,
 * direction overrides, zero-width and tag characters, and noncharacters. */
static int cp_unsafe(int32_t cp)
{
	return cp < 0x20 || (cp >= 0x7f && cp <= 0x9f) || cp == 0xad || cp == 0x61c || (cp >= 0x200b && cp <= 0x200f) ||
	       (cp >= 0x2028 && cp <= 0x202e) || (cp >= 0x2060 && cp <= 0x206f) || cp == 0xfeff ||
	       (cp >= 0xe0000 && cp <= 0xe0fff) || (cp & 0xfffe) == 0xfffe;
}

size_t text_escape(char *out, size_t cap, const char *s, size_t n)
{
	size_t used = 0, i = 0;

	if (!cap)
		return 0;
	while (i < n) {
		int32_t cp;
		size_t len = (size_t)utf8_decode(s + i, n - i, &cp);
		size_t need = cp_unsafe(cp) ? 4 * len : len;

		if (need > cap - 1 - used)
			break;
		if (need == len)
			memcpy(out + used, s + i, len);
		else
			for (size_t j = 0; j < len; j++) {
				static const char hex[] = "0123456789abcdef";
				unsigned char c = (unsigned char)s[i + j];
				char *o = out + used + 4 * j;
				o[0] = '\\';
				o[1] = 'x';
				o[2] = hex[c >> 4];
				o[3] = hex[c & 15];
			}
		used += need;
		i += len;
	}
	out[used] = 0;
	return used;
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
	/* format into a second buffer, because a caller that adds context to a message passes e->msg itself as an
	 * argument */
	char raw[2 * sizeof e->msg];
	va_list ap;
	int n;

	if (!e)
		return -1;
	va_start(ap, fmt);
	n = vsnprintf(raw, sizeof raw, fmt, ap);
	va_end(ap);
	if (n < 0)
		n = snprintf(raw, sizeof raw, "an error message could not be written");
	if ((size_t)n >= sizeof raw)
		n = (int)utf8_complete(raw, sizeof raw - 1);
	e->code = code;
	text_escape(e->msg, sizeof e->msg, raw, (size_t)n);
	return -1;
}

/* ---- memory ---- */

static _Noreturn void out_of_memory(size_t n)
{
	fprintf(stderr, "weir: out of memory (%zu bytes wanted)\n", n);
	exit(EXIT_FAILURE); /* exit() runs the handlers that restore the terminal, unlike abort() */
}

void *xmalloc(size_t n)
{
	void *p = malloc(n ? n : 1);
	if (!p)
		out_of_memory(n);
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	void *p;
	if (!n || !size)
		n = size = 1;
	p = calloc(n, size);
	if (!p)
		out_of_memory(n > SIZE_MAX / size ? SIZE_MAX : n * size);
	return p;
}

void *xrealloc(void *p, size_t n)
{
	p = realloc(p, n ? n : 1);
	if (!p)
		out_of_memory(n);
	return p;
}

char *xstrndup(const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *p = xmalloc(len + 1);
	memcpy(p, s, len);
	p[len] = 0;
	return p;
}

void *try_alloc(size_t n, size_t size, const char *what, struct err *e)
{
	uint64_t bytes;
	void *p;

	if (size_mul(n, size, &bytes) || bytes > PTRDIFF_MAX) {
		err_set(e, ERR_FIT, "no memory for %s: %zu times %zu bytes is more than any machine has", what, n,
		        size);
		return NULL;
	}
	p = calloc(1, bytes ? bytes : 1);
	if (!p)
		err_set(e, ERR_FIT, "no memory for %s: %llu bytes wanted", what, (unsigned long long)bytes);
	return p;
}

/* Return a capacity for at least n elements of `size` bytes: the value of `cap`, multiplied by 1.5 as often as needed.
 * A list that grows one element at a time is then copied in linear time overall. */
static size_t grown_capacity(size_t cap, size_t n, size_t size)
{
	size_t max = (size_t)PTRDIFF_MAX / size;
	if (n > max)
		out_of_memory(SIZE_MAX);
	cap = MAX(32, cap);
	while (cap < n)
		cap = cap > max / 2 ? max : cap + cap / 2;
	return cap;
}

/* ---- byte strings ---- */

static void str_reserve(struct str *s, size_t more)
{
	if (more >= (size_t)PTRDIFF_MAX - s->n)
		out_of_memory(SIZE_MAX);
	if (s->n + more + 1 > s->cap) {
		s->cap = grown_capacity(s->cap, s->n + more + 1, 1);
		s->p = xrealloc(s->p, s->cap);
	}
}

void str_add(struct str *s, const void *bytes, size_t n)
{
	str_reserve(s, n);
	if (n)
		memcpy(s->p + s->n, bytes, n);
	s->n += n;
	s->p[s->n] = 0;
}

void str_adds(struct str *s, const char *zero_terminated)
{
	str_add(s, zero_terminated, strlen(zero_terminated));
}

void str_addf(struct str *s, const char *fmt, ...)
{
	char small[128];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(small, sizeof small, fmt, ap);
	va_end(ap);
	if (n < (int)sizeof small) {
		str_add(s, small, n > 0 ? (size_t)n : 0);
		return;
	}
	str_reserve(s, (size_t)n);
	va_start(ap, fmt);
	vsnprintf(s->p + s->n, (size_t)n + 1, fmt, ap);
	va_end(ap);
	s->n += (size_t)n;
}

void str_add_json(struct str *s, const char *text, size_t n)
{
	size_t i = 0;

	str_add(s, "\"", 1);
	while (i < n) {
		int32_t cp;
		size_t len = (size_t)utf8_decode(text + i, n - i, &cp);

		if (cp < 0)
			str_add(s, "\xef\xbf\xbd", 3);
		else if (cp == '"' || cp == '\\')
			str_addf(s, "\\%c", (int)cp);
		else if (cp == '\n')
			str_add(s, "\\n", 2);
		else if (cp == '\t')
			str_add(s, "\\t", 2);
		else if (cp == '\r')
			str_add(s, "\\r", 2);
		/* JSON allows DEL and the C1 controls without escapes; escape them, because a terminal may obey them */
		else if (cp < 0x20 || (cp >= 0x7f && cp <= 0x9f) || cp == 0x2028 || cp == 0x2029)
			str_addf(s, "\\u%04x", (unsigned)cp);
		else
			str_add(s, text + i, len);
		i += len;
	}
	str_add(s, "\"", 1);
}

void str_clear(struct str *s)
{
	s->n = 0;
	if (s->p)
		s->p[0] = 0;
}

void str_free(struct str *s)
{
	free(s->p);
	memset(s, 0, sizeof *s);
}

/* ---- token lists ---- */

static void tokens_reserve(struct tokens *t, size_t more)
{
	if (more > SIZE_MAX / 2 - t->n)
		out_of_memory(SIZE_MAX);
	if (t->n + more > t->cap) {
		t->cap = grown_capacity(t->cap, t->n + more, sizeof *t->id);
		t->id = xrealloc(t->id, t->cap * sizeof *t->id);
	}
}

void tokens_add(struct tokens *t, int32_t id)
{
	tokens_reserve(t, 1);
	t->id[t->n++] = id;
}

void tokens_append(struct tokens *t, const int32_t *id, size_t n)
{
	if (!n)
		return;
	tokens_reserve(t, n);
	memcpy(t->id + t->n, id, n * sizeof *id);
	t->n += n;
}

void tokens_free(struct tokens *t)
{
	free(t->id);
	memset(t, 0, sizeof *t);
}

/* ---- UTF-8 ---- */

int utf8_decode(const char *s, size_t n, int32_t *cp)
{
	const unsigned char *u = (const unsigned char *)s;
	/* The second byte must be between `lo` and `hi`. This range excludes overlong forms, surrogates and code points
	 * above U+10FFFF. */
	unsigned lo = 0x80, hi = 0xbf;
	int len;
	int32_t c = u[0];

	*cp = -1;
	if (c < 0x80) {
		*cp = c;
		return 1;
	}
	if (c < 0xc2 || c > 0xf4)
		return 1;
	if (c < 0xe0) {
		len = 2;
		c &= 0x1f;
	} else if (c < 0xf0) {
		len = 3;
		if (c == 0xe0)
			lo = 0xa0;
		if (c == 0xed)
			hi = 0x9f;
		c &= 0x0f;
	} else {
		len = 4;
		if (c == 0xf0)
			lo = 0x90;
		if (c == 0xf4)
			hi = 0x8f;
		c &= 0x07;
	}
	for (int i = 1; i < len; i++) {
		if ((size_t)i >= n || u[i] < lo || u[i] > hi)
			return i;
		c = c << 6 | (u[i] & 0x3f);
		lo = 0x80;
		hi = 0xbf;
	}
	*cp = c;
	return len;
}

int utf8_encode(int32_t cp, char out[4])
{
	if (cp < 0 || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
		cp = 0xfffd;
	if (cp < 0x80) {
		out[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		out[0] = (char)(0xc0 | cp >> 6);
		out[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		out[0] = (char)(0xe0 | cp >> 12);
		out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		out[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | cp >> 18);
	out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	out[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

int32_t utf8_before(const char *s, size_t begin, size_t end, size_t *from)
{
	size_t at = utf8_prev(s, begin, end);
	int32_t cp;

	*from = at;
	if (at + (size_t)utf8_decode(s + at, end - at, &cp) == end)
		return cp;
	*from = end - 1;
	return -1;
}

size_t utf8_complete(const char *s, size_t n)
{
	/* an incomplete character at the end is a lead byte with at most two continuation bytes, so search backwards
	 * for the lead byte */
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		unsigned char c = (unsigned char)s[n - back];
		size_t len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
		int32_t cp;

		if (c < 0x80)
			return n;
		if (c < 0xc0)
			continue;
		if (c >= 0xc2 && c <= 0xf4 && len > back && (size_t)utf8_decode(s + n - back, back, &cp) == back)
			return n - back;
		return n;
	}
	return n;
}

int utf8_is_letter(int32_t cp)
{
	static const int32_t range[][2] = {
		{ 'A', 'Z' },     { 'a', 'z' },       { 0xc0, 0xd6 },     { 0xd8, 0xf6 },     { 0xf8, 0x24f },
		{ 0x391, 0x3a1 }, { 0x3a3, 0x3c9 },   { 0x400, 0x481 },   { 0x48a, 0x52f },   { 0x5d0, 0x5ea },
		{ 0x620, 0x64a }, { 0x3041, 0x3096 }, { 0x30a1, 0x30fa }, { 0x4e00, 0x9fa5 }, { 0xac00, 0xd7a3 },
	};

	for (size_t i = 0; i < LEN(range); i++)
		if (cp >= range[i][0] && cp <= range[i][1])
			return 1;
	return 0;
}

/* ---- counts ---- */

struct count count_text(uint64_t n)
{
	struct count out;
	char digits[24];
	int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n), at = 0;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			out.s[at++] = ',';
		out.s[at++] = digits[i];
	}
	out.s[at] = 0;
	return out;
}

/* ---- the user's directories ---- */

/* Return `path` if it is an absolute path, else NULL. `path` may be NULL. */
static const char *if_absolute(const char *path)
{
	return path && *path == '/' ? path : NULL;
}

static const char *home_dir(void)
{
	const char *home = if_absolute(getenv("HOME"));
	const struct passwd *user = home ? NULL : getpwuid(getuid());

	return user ? if_absolute(user->pw_dir) : home;
}

int user_path(struct str *out, enum user_dir which, const char *name, struct err *e)
{
	static const struct {
		const char *variable, *in_home;
	} rules[] = {
		[DIR_CONFIG] = { "XDG_CONFIG_HOME", ".config" },
		[DIR_STATE] = { "XDG_STATE_HOME", ".local/state" },
		[DIR_CACHE] = { "XDG_CACHE_HOME", ".cache" },
		[DIR_DATA] = { "XDG_DATA_HOME", ".local/share" },
	};
	const char *dir = if_absolute(getenv(rules[which].variable)), *home = dir ? NULL : home_dir();

	if (dir)
		str_adds(out, dir);
	else if (home)
		str_addf(out, "%s/%s", home, rules[which].in_home);
	else
		return err_set(
			e, ERR_FAIL,
			"no home directory: neither %s nor HOME is an absolute path, and the user database has none",
			rules[which].variable);
	str_addf(out, "/weir%s%s", *name ? "/" : "", name);
	return 0;
}

/* ---- clock ---- */

double now_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
