/* sessions/store/passage_words.c - tokenizes texts and questions for the index of passages (passages.h).
 *
 * Texts and questions are normalised alike, in two steps. First, utf8proc replaces characters by others of the same
 * meaning (NFKC), folds the case of letters beyond ASCII, and drops accents, vowel points and invisible characters.
 * Then SQLite's tokenizer splits the text into words, folds the case of ASCII letters, and finds the words' stems. It
 * takes every character beyond ASCII for a letter. ASCII capitals are kept until the second step, because a capital in
 * a question suggests a name. */
#include "sessions/store/passages.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

/* For each radical of U+2E80 to U+2EF3, the ideograph that looks like it (Unicode's property
 * Equivalent_Unified_Ideograph). 0 means that the radical lacks this property, or that NFKC replaces it. */
#define RADICALS 0x2e80
static const int32_t radical[] = {
	0,      0x5382,  0x4e5b, 0x4e5a,  0x4e59,  0x4ebb, 0x5182,  0x20628, 0x5200, 0x5202,  0x535c, 0x353e, 0x5c0f,
	0x5c0f, 0x5140,  0x5c23, 0x5c22,  0x21bc2, 0x5df3, 0x5e7a,  0x5f51,  0x5f50, 0x5fc4,  0x5fc3, 0x624c, 0x6535,
	0,      0x65e1,  0x65e5, 0x6708,  0x6b7a,  0x6bcd, 0x6c11,  0x6c35,  0x6c3a, 0x706c,  0x722b, 0x722b, 0x4e2c,
	0x725b, 0x72ad,  0x738b, 0x24d14, 0x76ee,  0x793a, 0x793b,  0x25ad7, 0x7cf9, 0x7e9f,  0x7f53, 0x7f52, 0x34c1,
	0x5197, 0x2626b, 0x7f8a, 0x2634c, 0x2634b, 0x8002, 0x8080,  0x807f,  0x8089, 0x26951, 0x8279, 0x8279, 0x8279,
	0x864e, 0x8864,  0x8980, 0x897f,  0x89c1,  0x89d2, 0x278b2, 0x8ba0,  0x8d1d, 0x27fb7, 0x8f66, 0x8fb6, 0x8fb6,
	0x8fb6, 0x9091,  0x9485, 0x9577,  0x9578,  0x957f, 0x95e8,  0x28e0f, 0x961d, 0x96e8,  0x9752, 0x97e6, 0x9875,
	0x98ce, 0x98de,  0x98df, 0x2967f, 0x98e0,  0x9963, 0x29810, 0x9a6c,  0x9aa8, 0x9b3c,  0x9c7c, 0x9e1f, 0x5364,
	0x9ea6, 0x9ec4,  0x9efe, 0x6589,  0x9f50,  0x6b6f, 0x9f7f,  0x7adc,  0x9f99, 0x9f9c,  0x4e80, 0x9f9f,
};

/* State of words_fold(). `out` is the folded text. In a script without blanks between words, each pair of neighbouring
 * characters is written as a word. If the last character belongs to such a script, `before` contains it. */
struct folding {
	struct str *out;
	char before[4];
	size_t n_before; /* number of bytes in `before`; 0 = it contains no character */
	/* 1: the character in `before` was already written, as the second character of a pair */
	int paired;
};

/* ---- characters ---- */

/* 1 for marks that people often do not type: accents, points of Hebrew, vowels of Arabic and Syriac. Marks of other
 * scripts, such as Hindi, Thai and Japanese, tell words apart. */
static int is_optional_mark(int32_t cp)
{
	int order = utf8proc_get_property(cp)->combining_class;

	return order == 1 || (order >= 10 && order <= 36) || order >= 200 || cp == 0x640; /* U+0640: tatweel */
}

/* 1 for characters that are words of their own, even directly after a letter or number. Examples are the last
 * characters of "m\u00b2", "x\u00bd", "Name\u2122" and "5\u338f". */
static int stands_alone(int32_t cp)
{
	int kind = utf8proc_get_property(cp)->decomp_type;

	return kind == UTF8PROC_DECOMP_TYPE_SUPER || kind == UTF8PROC_DECOMP_TYPE_FRACTION ||
	       kind == UTF8PROC_DECOMP_TYPE_CIRCLE || kind == UTF8PROC_DECOMP_TYPE_SQUARE;
}

static int is_word_character(int32_t cp)
{
	switch (utf8proc_category(cp)) {
	case UTF8PROC_CATEGORY_LU:
	case UTF8PROC_CATEGORY_LL:
	case UTF8PROC_CATEGORY_LT:
	case UTF8PROC_CATEGORY_LM:
	case UTF8PROC_CATEGORY_LO:
	case UTF8PROC_CATEGORY_MN:
	case UTF8PROC_CATEGORY_MC:
	case UTF8PROC_CATEGORY_ND:
	case UTF8PROC_CATEGORY_NL:
	case UTF8PROC_CATEGORY_NO:
	case UTF8PROC_CATEGORY_CO: return 1;
	default: return 0;
	}
}

/* ---- pairs ---- */

static void end_pair(struct folding *f)
{
	if (f->n_before && !f->paired) {
		str_add(f->out, f->before, f->n_before);
		str_adds(f->out, " ");
	}
	f->n_before = 0;
}

/* Add a character of a script without blanks. If another such character directly precedes it, write the two as a
 * word. */
static void add_to_pair(struct folding *f, const char *s, size_t n)
{
	if (f->n_before) {
		str_add(f->out, f->before, f->n_before);
		str_add(f->out, s, n);
		str_adds(f->out, " ");
	} else if (f->out->n) {
		str_adds(f->out, " ");
	}
	f->paired = f->n_before > 0;
	memcpy(f->before, s, n);
	f->n_before = n;
}

static void add_character(struct folding *f, int32_t cp)
{
	char s[4];
	size_t n = (size_t)utf8_encode(cp, s);

	if (script_spaceless(cp) && is_word_character(cp)) {
		add_to_pair(f, s, n);
		return;
	}
	end_pair(f);
	if (cp < 0x80 || is_word_character(cp))
		str_add(f->out, s, n);
	else
		str_adds(f->out, " ");
}

/* ---- normalising ---- */

/* Write a sequence of characters beyond ASCII. */
static void fold_run(struct folding *f, const char *p, size_t n)
{
	const utf8proc_option_t how = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT | UTF8PROC_CASEFOLD | UTF8PROC_IGNORE;
	struct str run = { 0 };
	utf8proc_ssize_t most, count;
	int32_t *cp, kept = 0;

	for (size_t i = 0; i < n;) {
		int32_t c;
		size_t len = (size_t)utf8_decode(p + i, n - i, &c);

		if (c >= RADICALS && c < RADICALS + (int32_t)LEN(radical) && radical[c - RADICALS]) {
			char s[4];

			str_add(&run, s, (size_t)utf8_encode(radical[c - RADICALS], s));
		} else if (stands_alone(c)) {
			str_adds(&run, " ");
			str_add(&run, p + i, len);
			str_adds(&run, " ");
		} else {
			str_add(&run, p + i, len);
		}
		i += len;
	}
	most = utf8proc_decompose((const utf8proc_uint8_t *)run.p, (utf8proc_ssize_t)run.n, NULL, 0, how);
	cp = xmalloc((size_t)(most > 0 ? most : 0) * sizeof *cp + 1);
	count = utf8proc_decompose((const utf8proc_uint8_t *)run.p, (utf8proc_ssize_t)run.n, cp, most, how);
	for (utf8proc_ssize_t i = 0; i < count; i++)
		/* keep the breve of the Russian short i, which is a letter of its own */
		if (!is_optional_mark(cp[i]) || (cp[i] == 0x306 && kept && cp[kept - 1] == 0x438))
			cp[kept++] = cp[i];
	kept = (int32_t)utf8proc_normalize_utf32(cp, kept, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
	for (int32_t i = 0; i < kept; i++)
		add_character(f, cp[i]);
	free(cp);
	str_free(&run);
}

void words_fold(const char *text, size_t n, struct str *out)
{
	struct folding f = { .out = out };

	str_clear(out);
	for (size_t i = 0, from; i < n;) {
		int32_t cp = 0;

		for (from = i; i < n && (unsigned char)text[i] < 0x80; i++)
			;
		if (i > from) {
			end_pair(&f);
			str_add(out, text + from, i - from);
		}
		for (from = i; i < n && (unsigned char)text[i] >= 0x80;) {
			size_t len = (size_t)utf8_decode(text + i, n - i, &cp);

			if (cp < 0)
				break;
			i += len;
		}
		if (i > from)
			fold_run(&f, text + from, i - from);
		if (cp < 0) { /* malformed UTF-8 ends a word */
			end_pair(&f);
			str_adds(out, " ");
			i++;
		}
	}
	if (f.n_before && !f.paired)
		str_add(out, f.before, f.n_before);
}

struct tokenizer {
	fts5_tokenizer fts;
	Fts5Tokenizer *of;
	word_fn *fn;
	void *ud; /* argument for fn() in the current tokenizer_run() */
};

int tokenizer_open(struct tokenizer **out, struct db *d, struct err *e)
{
	const char *args[] = { "ascii" };
	struct tokenizer *t = xcalloc(1, sizeof *t);
	fts5_api *api = NULL;
	sqlite3_stmt *st = NULL;
	void *with = NULL;

	if (sqlite3_prepare_v2(d->h, "SELECT fts5(?1)", -1, &st, NULL) == SQLITE_OK) {
		sqlite3_bind_pointer(st, 1, (void *)&api, "fts5_api_ptr", NULL);
		sqlite3_step(st);
	}
	sqlite3_finalize(st);
	if (!api || api->xFindTokenizer(api, "porter", &with, &t->fts) ||
	    t->fts.xCreate(with, args, LEN(args), &t->of)) {
		free(t);
		return err_set(e, ERR_FAIL,
		               "cannot search documents: this SQLite (%s) has no full text search with stems",
		               sqlite3_libversion());
	}
	*out = t;
	return 0;
}

void tokenizer_close(struct tokenizer *t)
{
	if (t)
		t->fts.xDelete(t->of);
	free(t);
}

static int on_token(void *ud, int flags, const char *stem, int n, int from, int to)
{
	struct tokenizer *t = ud;

	return from < 0 || to < from || n < 0 || t->fn(stem, (size_t)n, (size_t)from, (size_t)to, t->ud) ? SQLITE_DONE
	                                                                                                 : SQLITE_OK;
}

int tokenizer_run(struct tokenizer *t, const char *text, size_t n, word_fn *fn, void *ud)
{
	t->fn = fn;
	t->ud = ud;
	return n > INT32_MAX ? -1
	       : t->fts.xTokenize(t->of, t, FTS5_TOKENIZE_DOCUMENT, n ? text : "", (int)n, on_token) == SQLITE_NOMEM
	               ? -1
	               : 0;
}

/* ---- the words of a question ---- */

static int on_question_word(const char *stem, size_t n, size_t from, size_t to, void *ud)
{
	struct question_words *q = ud;

	for (size_t i = 0; i < q->n; i++)
		if (q->at[i].n_stem == n && !memcmp(q->at[i].stem, stem, n))
			return 0;
	if (to > q->folded.n || from >= to || memchr(q->folded.p + from, '"', to - from))
		return 0;
	q->at[q->n++] =
		(struct question_word){ xstrndup(q->folded.p + from, to - from), to - from, xstrndup(stem, n), n };
	return q->n == QUESTION_WORDS;
}

int question_words(struct tokenizer *t, const char *question, size_t n, struct question_words *out)
{
	*out = (struct question_words){ 0 };
	words_fold(question, n, &out->folded);
	return tokenizer_run(t, out->folded.p, out->folded.n, on_question_word, out);
}

void question_words_free(struct question_words *q)
{
	for (size_t i = 0; i < q->n; i++) {
		free(q->at[i].text);
		free(q->at[i].stem);
	}
	str_free(&q->folded);
}
