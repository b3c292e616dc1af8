/* app/lab/corpus.c - loads the texts that prompts are made of: word lists, essays, and questions with their
 * paragraphs. */
#include "app/lab/checkpoint.h"
#include "app/lab/corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/json.h"
#include "app/term/term.h"

#define MATERIAL_MAX (256u << 20)

/* ---- lists ---- */

void words_add(struct words *l, const char *w)
{
	GROW(l->w, l->n, l->cap);
	l->w[l->n++] = w;
}

void words_free(struct words *l)
{
	free(l->w);
	*l = (struct words){ 0 };
}

void words_free_owned(struct words *l)
{
	for (size_t i = 0; i < l->n; i++)
		free((char *)(uintptr_t)l->w[i]);
	words_free(l);
}

/* ---- words ---- */

static int word_order(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Split `text` into lines, in place. *out receives each line as a string. */
static void split_lines(char *text, struct words *out)
{
	for (char *p = text; p && *p;) {
		char *end = strchr(p, '\n');
		size_t n = end ? (size_t)(end - p) : strlen(p);

		if (end)
			*end = 0;
		while (n && (p[n - 1] == '\r' || p[n - 1] == ' '))
			p[--n] = 0;
		if (*p)
			words_add(out, p);
		p = end ? end + 1 : NULL;
	}
}

/* Append the word list `name`, a file with one word a line, to m->lists. Read it from the user's folder, or read the
 * installed list if the user's folder has no such file or an empty one. *at receives the offset in m->lists at which
 * the list begins. */
static int load_list(struct corpus *m, const char *folder, const char *name, size_t *at, struct err *e)
{
	struct str path = { 0 }, text = { 0 };
	struct stat st;
	int rc = 0;

	*at = m->lists.n;
	if (folder)
		str_addf(&path, "%s/%s", folder, name);
	if (!folder || stat(path.p, &st) || !st.st_size) {
		char installed[40];

		snprintf(installed, sizeof installed, "words/%s", name);
		str_clear(&path);
		rc = data_file(&path, installed, e);
	}
	if (!rc)
		rc = read_whole(path.p, MATERIAL_MAX, &text, e);
	if (!rc)
		str_adds(&m->lists, str_text(&text));
	str_add(&m->lists, "", 1);
	str_free(&path);
	str_free(&text);
	return rc;
}

static int load_words(struct corpus *m, const char *folder, struct err *e)
{
	struct words verb = { 0 };
	size_t at[3], n = 0;

	if (load_list(m, folder, "adjectivelist.txt", &at[0], e) < 0 ||
	    load_list(m, folder, "nounlist.txt", &at[1], e) < 0 || load_list(m, folder, "verblist.txt", &at[2], e) < 0)
		return -1;
	split_lines(m->lists.p + at[0], &m->adjective);
	split_lines(m->lists.p + at[1], &m->noun);
	split_lines(m->lists.p + at[2], &verb);
	for (size_t i = 0; i < m->adjective.n; i++)
		words_add(&m->all, m->adjective.w[i]);
	for (size_t i = 0; i < m->noun.n; i++)
		words_add(&m->all, m->noun.w[i]);
	for (size_t i = 0; i < verb.n; i++)
		words_add(&m->all, verb.w[i]);
	words_free(&verb);
	qsort(m->all.w, m->all.n, sizeof *m->all.w, word_order);
	for (size_t i = 0; i < m->all.n; i++)
		if (!n || strcmp(m->all.w[n - 1], m->all.w[i]) != 0)
			m->all.w[n++] = m->all.w[i];
	m->all.n = n;
	if (m->adjective.n < 16 || m->noun.n < 16 || n < 256)
		return err_set(e, ERR_DOCUMENT,
		               "'%.200s' has %zu adjectives, %zu nouns, %zu words in all; 16, 16 and 256 are needed",
		               folder ? folder : "?", m->adjective.n, m->noun.n, n);
	return 0;
}

/* ---- essays ---- */

static void span_add(struct spans *l, size_t at, size_t n)
{
	GROW(l->s, l->n, l->cap);
	l->s[l->n++] = (struct span){ at, n };
}

/* Add an essay with its white space reduced to single blanks, and find its sentences. A sentence ends with . ! or ?
 * before a blank; quotes and brackets may come before that blank. */
static void take_essay(struct corpus *m, const char *text, size_t n)
{
	size_t from = 0;
	char *p;

	for (size_t i = 0; i < n;) {
		size_t word = i;

		while (i < n && !strchr(" \t\r\n\f", text[i] ? text[i] : 'x'))
			i++;
		if (i > word) {
			if (m->essay.n)
				str_add(&m->essay, " ", 1);
			str_add(&m->essay, text + word, i - word);
		}
		while (i < n && text[i] && strchr(" \t\r\n\f", text[i]))
			i++;
	}
	p = m->essay.p;
	for (size_t i = 0; i < m->essay.n; i++) {
		size_t end = i + 1;

		if (p[i] != '.' && p[i] != '!' && p[i] != '?')
			continue;
		while (end < m->essay.n && strchr("\"')]", p[end] ? p[end] : 'x'))
			end++;
		if (end < m->essay.n && p[end] != ' ')
			continue;
		/* join a part that is too short to be a sentence, such as "Mr.", to the next sentence */
		if (end - from >= 12) {
			span_add(&m->sentence, from, end - from);
			from = end + 1;
		}
		i = end;
	}
	if (m->essay.n > from)
		span_add(&m->sentence, from, m->essay.n - from);
}

/* ---- questions ---- */

/* Return a copy of a JSON string; NULL if v is not a string. */
static char *text_of(struct jv v)
{
	struct str s = { 0 };
	char *copy;

	if (jv_text(v, &s) < 0) {
		str_free(&s);
		return NULL;
	}
	copy = xstrndup(str_text(&s), s.n);
	str_free(&s);
	return copy;
}

static struct question *question_add(struct questions *l, char *text)
{
	GROW(l->q, l->n, l->cap);
	l->q[l->n] = (struct question){ .text = text };
	return &l->q[l->n++];
}

/* Add a paragraph if it is new. Takes ownership of text. Returns the paragraph's index. */
static int32_t doc_add(struct questions *l, char *text)
{
	for (size_t i = 0; i < l->doc.n; i++)
		if (!strcmp(l->doc.w[i], text)) {
			free(text);
			return (int32_t)i;
		}
	words_add(&l->doc, text);
	return (int32_t)(l->doc.n - 1);
}

/* Add the answerable questions of a SQuAD file, each with its paragraph. */
static void take_squad(struct questions *l, struct jv root)
{
	struct jv article = { 0 };

	while (jv_next(jv_get(root, "data"), &article, NULL)) {
		struct jv para = { 0 };
		while (jv_next(jv_get(article, "paragraphs"), &para, NULL)) {
			char *context = text_of(jv_get(para, "context"));
			struct jv qa = { 0 };
			int32_t doc;

			if (!context)
				continue;
			doc = doc_add(l, context);
			while (jv_next(jv_get(para, "qas"), &qa, NULL)) {
				struct jv impossible = jv_get(qa, "is_impossible"), a = { 0 };
				struct question *q;
				char *text;

				if ((impossible.p && *impossible.p == 't') || !(text = text_of(jv_get(qa, "question"))))
					continue;
				q = question_add(l, text);
				q->doc[q->n_doc++] = doc;
				q->n_gold = 1;
				while (jv_next(jv_get(qa, "answers"), &a, NULL)) {
					char *answer = text_of(jv_get(a, "text"));
					if (answer && *answer)
						words_add(&q->answer, answer);
					else
						free(answer);
				}
			}
		}
	}
}

static int same_value(struct jv a, struct jv b)
{
	return a.p && b.p && a.end - a.p == b.end - b.p && !memcmp(a.p, b.p, (size_t)(a.end - a.p));
}

/* 1 if one of the pairs [title, ...] has this title. `pairs` is the list "context" or "supporting_facts" of a HotpotQA
 * item. */
static int names_title(struct jv pairs, struct jv title)
{
	struct jv pair = { 0 };

	while (jv_next(pairs, &pair, NULL)) {
		struct jv first = { 0 };
		if (jv_next(pair, &first, NULL) && same_value(first, title))
			return 1;
	}
	return 0;
}

/* 1 if the item has all paragraphs that are needed for the answer (its supporting facts). */
static int all_there(struct jv item)
{
	struct jv facts = jv_get(item, "supporting_facts"), context = jv_get(item, "context"), fact = { 0 };
	int n = 0;

	for (; jv_next(facts, &fact, NULL); n++) {
		struct jv title = { 0 };
		if (!jv_next(fact, &title, NULL) || !names_title(context, title))
			return 0;
	}
	return n > 0;
}

/* Add the questions of a HotpotQA file. Each question has ten paragraphs, and about two of them are needed for the
 * answer. */
static void take_hotpot(struct questions *l, struct jv root)
{
	struct jv item = { 0 };

	while (jv_next(root, &item, NULL)) {
		char *text = text_of(jv_get(item, "question")), *answer = text_of(jv_get(item, "answer"));
		struct question *q;

		if (!text || !answer || !*answer || !all_there(item)) {
			free(text);
			free(answer);
			continue;
		}
		q = question_add(l, text);
		words_add(&q->answer, answer);
		/* First take the paragraphs that are needed for the answer (gold = 1), then the others. */
		for (int gold = 1; gold >= 0; gold--) {
			struct jv para = { 0 };
			while (jv_next(jv_get(item, "context"), &para, NULL) && q->n_doc < 16) {
				struct jv title = { 0 }, lines, line = { 0 };
				struct str s = { 0 };

				if (!jv_next(para, &title, NULL))
					continue;
				lines = title;
				if (!jv_next(para, &lines, NULL) ||
				    names_title(jv_get(item, "supporting_facts"), title) != gold)
					continue;
				jv_text(title, &s);
				str_adds(&s, "\n");
				while (jv_next(lines, &line, NULL))
					jv_text(line, &s);
				q->doc[q->n_doc++] = doc_add(l, xstrndup(s.p, s.n));
				q->n_gold += gold;
				str_free(&s);
			}
		}
	}
}

static void questions_free(struct questions *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->q[i].text);
		words_free_owned(&l->q[i].answer);
	}
	free(l->q);
	words_free_owned(&l->doc);
}

/* ---- loading all texts ---- */

/* Read and parse a JSON file of the folder. Returns 1; 0 if there is no such file; -1 on error. */
static int folder_json(const char *folder, const char *name, struct str *text, struct jv *out, struct err *e)
{
	struct str path = { 0 };
	struct stat st;
	int rc = 0;

	str_addf(&path, "%s/%s", folder, name);
	if (!stat(path.p, &st)) {
		rc = read_whole(path.p, MATERIAL_MAX, text, e) < 0 ? -1 : 1;
		if (rc == 1)
			*out = jv_parse(str_text(text), text->n);
	}
	str_free(&path);
	return rc;
}

static int load_folder(struct corpus *m, const char *folder, struct err *e)
{
	struct str text = { 0 }, essay = { 0 };
	struct jv root;
	int rc;

	rc = folder_json(folder, "pd-essays.json", &text, &root, e);
	if (rc == 1 && !jv_text(jv_get(root, "text"), &essay) && essay.n)
		take_essay(m, essay.p, essay.n);
	str_free(&essay);
	str_clear(&text);
	if (rc >= 0 && (rc = folder_json(folder, "squad-open.json", &text, &root, e)) == 1)
		take_squad(&m->squad, root);
	str_clear(&text);
	if (rc >= 0 && (rc = folder_json(folder, "hotpotqa-open.json", &text, &root, e)) == 1)
		take_hotpot(&m->hotpot, root);
	str_free(&text);
	return rc < 0 ? -1 : 0;
}

int corpus_load(struct corpus *m, const char *path, struct err *e)
{
	struct str text = { 0 };
	struct stat st;
	int folder, rc;

	*m = (struct corpus){ .lists = { 0 } };
	folder = path && !stat(path, &st) && S_ISDIR(st.st_mode);
	rc = load_words(m, folder ? path : NULL, e);
	if (!rc && folder)
		rc = load_folder(m, path, e);
	else if (!rc && path && !(rc = read_whole(path, MATERIAL_MAX, &text, e)) && text.n)
		take_essay(m, text.p, text.n);
	if (!rc && path && !folder && m->sentence.n < 8)
		rc = err_set(e, ERR_DOCUMENT, "'%.200s' has %zu sentences, a haystack wants 8 or more", path,
		             m->sentence.n);
	if (rc && e && e->code == ERR_USAGE)
		e->code = ERR_DOCUMENT;
	str_free(&text);
	if (rc)
		corpus_free(m);
	return rc;
}

void corpus_free(struct corpus *m)
{
	words_free(&m->adjective);
	words_free(&m->noun);
	words_free(&m->all);
	str_free(&m->lists);
	str_free(&m->essay);
	free(m->sentence.s);
	questions_free(&m->squad);
	questions_free(&m->hotpot);
	*m = (struct corpus){ .lists = { 0 } };
}

/* Return a hash that depends on n bytes and on `so_far`, the hash of all bytes before them. */
static uint64_t mix(uint64_t so_far, const void *bytes, size_t n)
{
	uint64_t both[2] = { so_far, checkpoint_hash(bytes, n) };

	return checkpoint_hash(both, sizeof both);
}

static uint64_t mix_words(uint64_t so_far, const struct words *l)
{
	for (size_t i = 0; i < l->n; i++)
		so_far = mix(so_far, l->w[i], strlen(l->w[i]));
	return mix(so_far, &l->n, sizeof l->n);
}

static uint64_t mix_questions(uint64_t so_far, const struct questions *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct question *q = &l->q[i];
		so_far = mix(so_far, q->text, strlen(q->text));
		so_far = mix_words(so_far, &q->answer);
		so_far = mix(so_far, q->doc, (size_t)q->n_doc * sizeof *q->doc);
		so_far = mix(so_far, &q->n_gold, sizeof q->n_gold);
	}
	return mix_words(so_far, &l->doc);
}

uint64_t corpus_hash(const struct corpus *m)
{
	uint64_t h = mix(0, m->essay.p, m->essay.n);

	h = mix_words(mix_words(mix_words(h, &m->adjective), &m->noun), &m->all);
	return mix_questions(mix_questions(h, &m->squad), &m->hotpot);
}
