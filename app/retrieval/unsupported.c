/* app/retrieval/unsupported.c - finds the numbers and names of an answer that the model was not given
 * (retrieval.h).
 *
 * The model was given: documents that are read whole, the passages that were sent with questions, the user's
 * messages, the system prompt and the names of the documents. A number or name of the answer that none of these texts
 * has may be made up. Nothing is checked if there are no documents. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "app/conversation/companion.h"
#include "app/retrieval/retrieval_private.h"
#include "engine/base/base.h"
#include "engine/base/json.h"
#include "engine/base/utf8.h"

enum {
	LISTED_MOST = 20, /* numbers and names that are listed */
	/* A name and a word of a given text count as the same if the shorter one has at least STEM_LEAST bytes, and the
	 * longer one is the shorter one with at most ENDING_MOST more bytes: "German", "Germans". */
	STEM_LEAST = 4,
	ENDING_MOST = 3,
};

static const char *const spelled[] = { "zero",  "one",   "two",  "three", "four",   "five",  "six",
	                               "seven", "eight", "nine", "ten",   "eleven", "twelve" };

struct word {
	const char *p;
	size_t n;
};

/* 1 if byte c is part of a number when it is between two digits: "12,500", "2.5", "5:30". */
static int is_point(char c)
{
	return c == '.' || c == ',' || c == ':';
}

/* 1 if a word goes on from byte p[0] to byte p[1] of text p[0 .. n). */
static int word_goes_on(const char *p, size_t n)
{
	if (n > 2 && is_point(p[1]))
		return byte_is_digit(p[0]) && byte_is_digit(p[2]);
	if (is_point(p[0]))
		return 1;
	/* in Chinese and Japanese no blank separates a number from the characters around it */
	if ((byte_is_digit(p[0]) && (unsigned char)p[1] >= 0x80) ||
	    (byte_is_digit(p[1]) && (unsigned char)p[0] >= 0x80))
		return 0;
	return byte_is_word(p[1]);
}

/* Set *w to the next word at or after byte *i of text[0 .. n), and *i to its end. A word has letters, digits and bytes
 * beyond ASCII; between two digits also '.', ',' and ':'. 1 = found, 0 = end of the text. */
static int word_next(const char *text, size_t n, size_t *i, struct word *w)
{
	size_t at = *i, end;

	while (at < n && !byte_is_word(text[at]))
		at++;
	for (end = at; end < n && (end == at || word_goes_on(text + end - 1, n - end + 1));)
		end++;
	*w = (struct word){ text + at, end - at };
	*i = end;
	return end > at;
}

/* 1 if the '.' or ',' at byte `at` of a number groups its digits by three, as in "12,500". */
static int groups_thousands(struct word w, size_t at)
{
	size_t digits = 0;

	while (at + 1 + digits < w.n && byte_is_digit(w.p[at + 1 + digits]))
		digits++;
	return w.p[at] != ':' && digits == 3;
}

/* Append the key of a word, which is the same for all its spellings: "12,500" becomes "12500", "2,5" "2.5", "18th" "18",
 * "Seven" "7", "Smith" "smith". */
static void key_add(struct word w, struct str *out)
{
	for (size_t k = 0; k < LEN(spelled); k++)
		if (strlen(spelled[k]) == w.n && !strncasecmp(spelled[k], w.p, w.n)) {
			str_addf(out, "%zu", k);
			return;
		}
	for (size_t k = 0, number = byte_is_digit(w.p[0]); k < w.n; k++) {
		char c = byte_is_upper(w.p[k]) ? (char)(w.p[k] + 'a' - 'A') : w.p[k];

		if (!number || byte_is_digit(c))
			str_add(out, &c, 1);
		else if (is_point(c) && !groups_thousands(w, k))
			str_adds(out, ".");
	}
}

/* ---- the words that the model was given ---- */

struct given {
	struct str keys;  /* keys of all words, each followed by a NUL */
	const char **key; /* [n] the keys, sorted */
	size_t n;
};

static void given_add(struct given *g, const char *text, size_t n)
{
	struct word w;

	for (size_t i = 0; word_next(text, n, &i, &w); g->n++) {
		key_add(w, &g->keys);
		str_add(&g->keys, "", 1);
	}
}

static int by_key(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void given_collect(const struct conversation *conv, struct given *g)
{
	const char *p;

	if (conv->o->system)
		given_add(g, conv->o->system, strlen(conv->o->system));
	for (size_t i = 0; i < conv->n_doc; i++) {
		const struct document *d = &conv->doc[i];

		given_add(g, d->name, strlen(d->name));
		if (d->whole)
			given_add(g, str_text(&d->text), d->text.n);
	}
	for (size_t i = 0; i < conv->n_msg; i++) {
		const struct message *m = &conv->msg[i];

		if (m->role != ROLE_USER)
			continue;
		given_add(g, str_text(&m->text), m->text.n);
		given_add(g, str_text(&m->context), m->context.n);
	}
	g->key = xcalloc(g->n + 1, sizeof *g->key);
	p = str_text(&g->keys);
	for (size_t i = 0; i < g->n; i++, p += strlen(p) + 1)
		g->key[i] = p;
	qsort(g->key, g->n, sizeof *g->key, by_key);
}

static void given_free(struct given *g)
{
	str_free(&g->keys);
	free(g->key);
}

/* Return the index of the first given key that is not less than `key`. */
static size_t given_find(const struct given *g, const char *key)
{
	size_t from = 0, to = g->n;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (strcmp(g->key[middle], key) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static int given_has(const struct given *g, const char *key)
{
	size_t i = given_find(g, key);

	return i < g->n && !strcmp(g->key[i], key);
}

/* 1 if the model was given the word, or a name that differs only in its ending (see STEM_LEAST). */
static int is_given(const struct given *g, struct word w)
{
	struct str key = { 0 };
	int name, given;

	key_add(w, &key);
	name = !byte_is_digit(*key.p);
	given = given_has(g, key.p);
	for (size_t i = given_find(g, key.p);
	     name && key.n >= STEM_LEAST && !given && i < g->n && !strncmp(g->key[i], key.p, key.n); i++)
		given = strlen(g->key[i]) <= key.n + ENDING_MOST;
	for (int less = 0; name && !given && less < ENDING_MOST && key.n > STEM_LEAST; less++) {
		key.p[--key.n] = 0;
		given = given_has(g, key.p);
	}
	str_free(&key);
	return given;
}

/* 1 if a sentence, a line or a quotation after a colon begins at byte `at`. */
static int sentence_begins(const char *text, size_t at)
{
	while (at && (text[at - 1] == ' ' || text[at - 1] == '"' || text[at - 1] == '\'' || text[at - 1] == '(' ||
	              text[at - 1] == '*'))
		at--;
	return !at || memchr("\n.!?:", text[at - 1], 5);
}

/* 1 if the number at [at, end) is the label of a list item ("2. ") or of a source ("[1]"). */
static int is_label(const char *text, size_t n, size_t at, size_t end)
{
	size_t line = at;

	if (at && text[at - 1] == '[')
		return end < n && text[end] == ']';
	while (line && text[line - 1] == ' ')
		line--;
	return (!line || text[line - 1] == '\n') && end + 1 < n && (text[end] == '.' || text[end] == ')') &&
	       text[end + 1] == ' ';
}

/* Append an entry and a newline, unless the list has it or is full. */
static void list_add(struct str *list, struct word w)
{
	int n = 0;

	for (const char *p = str_text(list), *end; *p; p = end + 1, n++) {
		end = strchr(p, '\n');
		if ((size_t)(end - p) == w.n && !memcmp(p, w.p, w.n))
			return;
	}
	if (!w.n || n >= LISTED_MOST)
		return;
	str_add(list, w.p, w.n);
	str_adds(list, "\n");
}

void unsupported_find(const struct conversation *conv, const char *text, size_t n, struct str *out)
{
	int english = question_is_english(text, n);
	/* run: unsupported words with one blank between them, which become one entry */
	struct word w, run = { text, 0 };
	struct given given = { .n = 0 };

	given_collect(conv, &given);
	for (size_t i = 0; word_next(text, n, &i, &w);) {
		size_t at = (size_t)(w.p - text);
		int checked = byte_is_digit(w.p[0])
		                      ? !is_label(text, n, at, i)
		                      : english && w.n > 1 && byte_is_upper(w.p[0]) && !sentence_begins(text, at);

		if (!checked || is_given(&given, w))
			continue;
		if (run.n && w.p == run.p + run.n + 1 && w.p[-1] == ' ') {
			run.n += 1 + w.n;
			continue;
		}
		list_add(out, run);
		run = w;
	}
	list_add(out, run);
	given_free(&given);
}

/* ---- the companion; its state is the list, one entry a line ---- */

static void unsupported_ended(void *self, struct conversation *conv, struct message *answer)
{
	size_t from;
	int there = 0;

	str_clear(self);
	for (size_t i = 0; i < conv->n_doc; i++)
		there |= !conv->doc[i].grows; /* a growing document is not counted: it is the text of a message */
	if (!answer || !there)
		return;
	from = reasoning_length(str_text(&answer->text), answer->text.n);
	unsupported_find(conv, str_text(&answer->text) + from, answer->text.n - from, self);
}

static void unsupported_json(void *self, const struct conversation *conv, struct str *out)
{
	(void)conv;
	json_open(out, "unsupported", '[');
	for (const char *p = str_text(self), *end; *p; p = end + 1) {
		end = strchr(p, '\n');
		json_text(out, NULL, p, (size_t)(end - p));
	}
	json_close(out, ']');
}

static void unsupported_free(void *self)
{
	str_free(self);
	free(self);
}

const struct companion_ops unsupported_ops = {
	.name = "unsupported",
	.ended = unsupported_ended,
	.json = unsupported_json,
	.free = unsupported_free,
};

const char *unsupported_words(const struct conversation *conv)
{
	const struct str *list = companion_find(conv, unsupported_ops.name);

	return list ? str_text(list) : "";
}

void unsupported_line(const struct conversation *conv, struct str *out)
{
	const char *head = "not in the sources: ";

	for (const char *p = unsupported_words(conv), *end; *p; p = end + 1) {
		end = strchr(p, '\n');
		str_addf(out, "%s%.*s", head, (int)(end - p), p);
		head = ", ";
	}
}
