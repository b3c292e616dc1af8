/* app/retrieval/unsupported.c - finds the numbers and names of an answer that the model was not given (retrieval.h).
 *
 * The model was given: documents that are read whole, the passages sent with questions, the user's messages, the system
 * prompt and the names of the documents. If none of these texts has a number or name of the answer, the model may have
 * made it up. If the model was asked to mark its sentences with the numbers of passages, there is a second check: each
 * number and name must also occur in the passages that its sentence cites. Nothing is checked if there are no
 * documents. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "app/conversation/turn_hook.h"
#include "app/retrieval/retrieval_private.h"
#include "engine/base/base.h"
#include "engine/base/json.h"
#include "engine/base/utf8.h"

enum {
	LISTED_MOST = 20, /* maximum number of numbers and names in the list */
	/* A name matches a word of a given text if one of them begins with the other ("German", "Germans"). The shorter
	 * one must have at least STEM_LEAST bytes, and the longer one at most ENDING_MOST bytes more. */
	STEM_LEAST = 4,
	ENDING_MOST = 3,
	MARK_DIGITS = 2, /* maximum number of digits of a passage's number */
	/* minimum number of bytes in double quotes that are compared with the passages; a shorter quotation may be a
	 * name or a term */
	QUOTED_LEAST = 16,
};

/* ---- the words that the model was given ---- */

struct given {
	struct str keys;  /* keys of all words, each followed by a NUL */
	const char **key; /* [n] pointers into `keys`, sorted by the text of the key */
	size_t n;
};

/* Add the words of a text. If `marked` is 1, leave out citation marks ("[2]"). */
static void given_add(struct given *g, const char *text, size_t n, int marked)
{
	struct word w;

	for (size_t i = 0; word_next(text, n, &i, &w);) {
		if (marked && w.n <= MARK_DIGITS && w.p > text && w.p[-1] == '[' && i < n && text[i] == ']')
			continue;
		word_key(w, &g->keys);
		str_add(&g->keys, "", 1);
		g->n++;
	}
}

static int by_key(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sort the words, after all were added. */
static void given_sort(struct given *g)
{
	const char *p = str_text(&g->keys);

	g->key = xcalloc(g->n + 1, sizeof *g->key);
	for (size_t i = 0; i < g->n; i++, p += strlen(p) + 1)
		g->key[i] = p;
	qsort(g->key, g->n, sizeof *g->key, by_key);
}

static void given_collect(const struct conversation *conv, struct given *g)
{
	if (conv->o->system)
		given_add(g, conv->o->system, strlen(conv->o->system), 0);
	for (size_t i = 0; i < conv->n_doc; i++) {
		const struct document *d = &conv->doc[i];

		given_add(g, d->name, strlen(d->name), 0);
		if (d->whole)
			given_add(g, str_text(&d->text), d->text.n, 0);
	}
	for (size_t i = 0; i < conv->n_msg; i++) {
		const struct message *m = &conv->msg[i];

		if (m->role != ROLE_USER)
			continue;
		given_add(g, str_text(&m->text), m->text.n, 0);
		given_add(g, str_text(&m->context), m->context.n, context_asks_for_marks(&m->context));
	}
	given_sort(g);
}

static void given_free(struct given *g)
{
	str_free(&g->keys);
	free(g->key);
}

/* Return the index of the first entry of g->key that does not sort before `key`. */
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

/* 1 if the model was given the word, or a name that differs from it only in its ending (see STEM_LEAST). */
static int is_given(const struct given *g, struct word w)
{
	struct str key = { 0 };
	int name, given;

	word_key(w, &key);
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

/* 1 if the number at [at, end) is the label of a list item ("2. ") or of a source ("[1]"). */
static int is_label(const char *text, size_t n, size_t at, size_t end)
{
	size_t line = at;

	if (at && text[at - 1] == '[')
		return end < n && text[end] == ']' && end - at <= MARK_DIGITS;
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

/* 1 if the word at text[at, end) must be checked: it is a number or, in an English text, a name. */
static int is_checked(const char *text, size_t n, struct word w, size_t end, int english)
{
	size_t at = (size_t)(w.p - text);

	if (byte_is_digit(w.p[0]))
		return !is_label(text, n, at, end);
	return english && w.n > 1 && byte_is_upper(w.p[0]) && !sentence_begins(text, at);
}

/* Return the last message of the user; NULL if there is none. */
static const struct message *last_question(const struct conversation *conv)
{
	size_t i = conv->n_msg;

	while (i && conv->msg[i - 1].role != ROLE_USER)
		i--;
	return i ? &conv->msg[i - 1] : NULL;
}

/* 1 if the answer or its question is probably English. */
static int is_english(const struct conversation *conv, const char *text, size_t n)
{
	const struct message *m = last_question(conv);

	return question_is_english(text, n) || (m && question_is_english(str_text(&m->text), m->text.n));
}

void unsupported_find(const struct conversation *conv, const char *text, size_t n, struct str *out)
{
	int english = is_english(conv, text, n);
	/* `run` is a sequence of neighbouring unsupported words with single blanks between them, which become one entry
	 * of the list */
	struct word w, run = { text, 0 };
	struct given given = { .n = 0 };

	given_collect(conv, &given);
	for (size_t i = 0; word_next(text, n, &i, &w);) {
		if (!is_checked(text, n, w, i, english) || is_given(&given, w))
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

/* ---- citation marks: "[1]" after a sentence names the passage that says it ---- */

/* The words that are needed to check the citation marks ("[1]") of an answer. */
struct marked {
	const struct answer_sources *list;
	/* `all` has the words of all texts that the model was given, `said` the words of the user's messages */
	struct given all, said;
	/* for each passage: its words, and the words of its page label and heading */
	struct given source[ANSWER_SOURCES_MOST];
	int english;
};

/* 1 if a passage was sent to the model under this number. */
static int is_source(const struct answer_sources *list, size_t number)
{
	return number && number <= list->n && list->at[number - 1].found && list->at[number - 1].sent;
}

/* Read citation marks such as "[1]" or "[1, 3]" at text[at]. For a mark of source i (from 0), set bit i of *sources.
 * Append marks that name no source to *bad. Returns the byte at which the marks end; 0 = there are no marks. */
static size_t marks_read(const struct answer_sources *list, const char *text, size_t n, size_t at, uint32_t *sources,
                         struct str *bad)
{
	size_t i = at, from, number;

	if (text[at] != '[')
		return 0;
	do {
		for (i++; i < n && text[i] == ' ';)
			i++;
		for (from = i, number = 0; i < n && i - from <= MARK_DIGITS && byte_is_digit(text[i]); i++)
			number = 10 * number + (size_t)(text[i] - '0');
		if (i == from || i - from > MARK_DIGITS || i == n)
			return 0;
		if (is_source(list, number))
			*sources |= 1u << (number - 1);
		else
			str_addf(bad, "[%.*s]\n", (int)(i - from), text + from);
	} while (text[i] == ',');
	return text[i] == ']' ? i + 1 : 0;
}

/* Return the byte offset of the beginning of the sentence that ends at byte `at`. The result is at least `from`. */
static size_t sentence_of(const char *text, size_t from, size_t at)
{
	while (at > from && strchr(" .!?\"'*)", text[at - 1]))
		at--;
	while (at > from && text[at - 1] != '\n' && !(memchr(".!?", text[at - 1], 3) && text[at] == ' '))
		at--;
	return at;
}

static int given_by_marks(const struct marked *m, uint32_t sources, struct word w)
{
	int given = is_given(&m->said, w);

	for (size_t i = 0; i < m->list->n && !given; i++)
		given = sources >> i & 1 && is_given(&m->source[i], w);
	return given;
}

/* Check the sentence in text[from .. at), which the citation marks text[at .. end) follow. Append those numbers and
 * names of the sentence that the cited passages do not have. */
static void sentence_check(const struct marked *m, uint32_t sources, const char *text, size_t from, size_t at,
                           size_t end, struct str *out)
{
	struct word w;

	for (size_t i = sentence_of(text, from, at); word_next(text, at, &i, &w);) {
		struct str entry = { 0 };

		if (!is_checked(text, at, w, i, m->english) || !is_given(&m->all, w) || given_by_marks(m, sources, w))
			continue;
		str_addf(&entry, "%.*s %.*s", (int)w.n, w.p, (int)(end - at), text + at);
		list_add(out, (struct word){ entry.p, entry.n });
		str_free(&entry);
	}
}

static void marked_open(const struct conversation *conv, const struct answer_sources *list, struct marked *m)
{
	*m = (struct marked){ .list = list };
	given_collect(conv, &m->all);
	for (size_t i = 0; i < conv->n_msg; i++)
		if (conv->msg[i].role == ROLE_USER)
			given_add(&m->said, str_text(&conv->msg[i].text), conv->msg[i].text.n, 0);
	given_sort(&m->said);
	for (size_t i = 0; i < list->n; i++) {
		const struct answer_source *s = &list->at[i];
		size_t doc = answer_source_document(conv, s);
		struct str place = { 0 };

		answer_source_place(s, &place);
		given_add(&m->source[i], place.p, place.n, 0);
		if (doc < conv->n_doc)
			given_add(&m->source[i], conv->doc[doc].text.p + conv->doc[doc].body + s->from, s->to - s->from,
			          0);
		given_sort(&m->source[i]);
		str_free(&place);
	}
}

static void marked_close(struct marked *m)
{
	given_free(&m->all);
	given_free(&m->said);
	for (size_t i = 0; i < m->list->n; i++)
		given_free(&m->source[i]);
}

void marks_find(const struct conversation *conv, const struct answer_sources *list, const char *text, size_t n,
                struct str *out)
{
	const struct message *asked = last_question(conv);
	struct marked m;

	if (!asked || !context_asks_for_marks(&asked->context))
		return;
	marked_open(conv, list, &m);
	m.english = is_english(conv, text, n);
	for (size_t at = 0, from = 0, end; at < n; at = MAX(end, at + 1)) {
		uint32_t sources = 0;
		struct str bad = { 0 };

		end = marks_read(list, text, n, at, &sources, &bad);
		for (size_t next = end; end && next && next < n;) /* several marks may follow each other: "[1][3]" */
			end = (next = marks_read(list, text, n, end, &sources, &bad)) ? next : end;
		for (const char *p = end ? str_text(&bad) : "", *line; *p; p = line + 1) {
			line = strchr(p, '\n');
			list_add(out, (struct word){ p, (size_t)(line - p) });
		}
		if (end && sources)
			sentence_check(&m, sources, text, from, at, end, out);
		from = MAX(from, end);
		str_free(&bad);
	}
	marked_close(&m);
}

/* ---- the turn hook, whose state is the list of words, one a line ---- */

/* 1 if each sentence of the answer must be checked before it is shown. This is so if the model is so small that it
 * makes up numbers and names in free text, and if there is a sentence to quote instead. */
static int guards(const struct conversation *conv)
{
	return sources_of(conv)->found && quotes_first(conv);
}

static void unsupported_begin(void *self, struct conversation *conv, const struct answer_hooks *hooks)
{
	(void)self;
	(void)hooks;
	conv->guarded |= guards(conv);
}

/* 1 if the sentence has words in double quotes that no passage has. The last quotation may lack its closing quote: it
 * then ends with the sentence. */
static int misquotes(const struct conversation *conv, const char *text, size_t n)
{
	const struct sources *last = sources_of(conv);
	const char *from = memchr(text, '"', n),
		   *to = from ? memchr(from + 1, '"', n - (size_t)(from + 1 - text)) : NULL;
	size_t quoted = from ? (to ? to : text + n) - ++from : 0;
	int found = quoted < QUOTED_LEAST;

	for (size_t i = 0; i < last->n && !found; i++) {
		const struct source *s = &last->at[i];
		const struct document *d = &conv->doc[s->doc];
		struct str passage = { 0 };

		text_on_one_line(d->text.p + d->body + s->from, s->to - s->from, &passage);
		found = memmem(str_text(&passage), passage.n, from, quoted) != NULL;
		str_free(&passage);
	}
	return !found;
}

static int unsupported_allows(void *self, struct conversation *conv, const char *text, size_t n)
{
	struct str found = { 0 };
	const char *why = NULL;

	(void)self;
	if (guards(conv))
		unsupported_find(conv, text, n, &found);
	if (found.n)
		why = "it has numbers or names that are not in the sources";
	else if (guards(conv) && misquotes(conv, text, n))
		why = "it quotes words that are not in the sources";
	if (why)
		conversation_notice(conv, "the rest of the answer is left out: %s", why);
	str_free(&found);
	return !why;
}

static void unsupported_ended(void *self, struct conversation *conv, struct message *answer)
{
	size_t from;
	int there = 0;

	str_clear(self);
	for (size_t i = 0; i < conv->n_doc; i++)
		/* leave out a growing document, because its text is also the text of a message */
		there |= !conv->doc[i].grows;
	if (!answer || !there)
		return;
	from = reasoning_length(str_text(&answer->text), answer->text.n);
	unsupported_find(conv, str_text(&answer->text) + from, answer->text.n - from, self);
	marks_find(conv, &answer->sources, str_text(&answer->text) + from, answer->text.n - from, self);
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

const struct turn_hook_ops unsupported_ops = {
	.name = "unsupported",
	.begin = unsupported_begin,
	.allows = unsupported_allows,
	.ended = unsupported_ended,
	.json = unsupported_json,
	.free = unsupported_free,
};

static const char *listed(const struct conversation *conv)
{
	const struct str *list = turn_hook_find(conv, unsupported_ops.name);

	return list ? str_text(list) : "";
}

void unsupported_words(const struct conversation *conv, struct str *out)
{
	for (const char *p = listed(conv), *end; *p; p = end + 1) {
		const char *marks;

		end = strchr(p, '\n');
		marks = memmem(p, (size_t)(end - p), " [", 2);
		str_addf(out, "%.*s\n", (int)((marks ? marks : end) - p), p);
	}
}

void unsupported_line(const struct conversation *conv, struct str *out)
{
	const char *head = "not in the sources: ";

	for (const char *p = listed(conv), *end; *p; p = end + 1) {
		end = strchr(p, '\n');
		str_addf(out, "%s%.*s", head, (int)(end - p), p);
		head = ", ";
	}
}
