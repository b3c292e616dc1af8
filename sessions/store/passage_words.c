/* sessions/store/passage_words.c - tokenizes texts and questions for the index of passages (passages.h).
 *
 * The same tokenizer of SQLite cuts texts and questions, so a word has the same stem in both. */
#include "sessions/store/passages.h"

#include <stdlib.h>
#include <string.h>

void words_fold(const char *text, size_t n, struct str *out)
{
	/* bytes of the previous character, if its script has no blanks between words; else 0 */
	size_t before = 0;
	int paired = 0; /* 1: the previous letter is part of a pair already */

	str_clear(out);
	for (size_t i = 0; i < n;) {
		size_t len, plain = i;
		int32_t cp = 0;

		/* Copy a run of ASCII characters at once. */
		while (plain < n && (unsigned char)text[plain] < 0x80)
			plain++;
		len = plain > i ? plain - i : (size_t)utf8_decode(text + i, n - i, &cp);
		if (plain > i || !script_spaceless(cp)) {
			if (before && !paired) {
				str_add(out, text + i - before, before);
				str_adds(out, " ");
			}
			/* Write a blank for malformed UTF-8: SQLite does not decode it the same way each time, and
			 * a word must have only one stem. */
			str_add(out, cp < 0 ? " " : text + i, cp < 0 ? 1 : len);
			before = 0;
		} else {
			if (before) {
				str_add(out, text + i - before, before);
				str_add(out, text + i, len);
				str_adds(out, " ");
				paired = 1;
			} else {
				if (out->n)
					str_adds(out, " ");
				paired = 0;
			}
			before = len;
		}
		i += len;
	}
	if (before && !paired)
		str_add(out, text + n - before, before);
}

struct tokenizer {
	fts5_tokenizer fts;
	Fts5Tokenizer *of;
	word_fn *fn;
	void *ud; /* argument of fn in the current tokenizer_run() */
};

int tokenizer_open(struct tokenizer **out, struct db *d, struct err *e)
{
	const char *args[] = { "unicode61", "remove_diacritics", "2", "categories", "L* N* Co Mn Mc" };
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
