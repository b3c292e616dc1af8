/* app/conversation/sources.c - the passages of the documents that answer a question (conversation.h).
 *
 * The index gives candidates by bm25.  The model then says of each how much likelier the question is behind the passage's best sentence
 * and its neighbours than behind nothing (rerank.c), for as many candidates as the model's size allows.  What a passage must reach to count
 * as found was calibrated by tests/measure/sources on one half of its questions.  A page or section that is named needs no index (named_place.c). */
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation_private.h"
#include "ui/ui.h"

static const double NAT = 1.8;                 /* what a nat of the question is worth in bm25 */
/* With log p: words covered, and a nat as a share of them; without: words covered alone. */
static const double GAIN_SHARE = 0.02, FOUND_LEAST = 0.64, COVERED_LEAST = 0.4;

/* Of the best score: of the passages below, in the second and third place, 0 to 3 % of SQuAD's and HotpotQA's right ones, and up to 70 % of the
 * others (tests/results.md). */
static const double WEAK_BELOW = 0.4;

enum { CONTENT_LEAST = 3, BEFORE_MOST = 400, WINDOW = 300 };   /* WINDOW: bytes */

void sources_free(struct sources *s)
{
	free(s->at);
	*s = (struct sources){0};
}

void sources_forget(struct conversation *t)
{
	sources_free(&t->sources);
	t->n_evidence = 0;
	t->compared = t->unattended = 0;
}

/* ---- the question ---- */

static int is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || ((unsigned char)c & 0x80);
}

/* Words that stand for something said before. */
static int is_pronoun(const char *word, size_t n)
{
	static const char *const pronouns[] = {
		"he", "she", "it", "they", "him", "her", "them", "his", "hers", "its", "their", "theirs", "this", "that", "these", "those", "there", "then",
	};
	char low[8];

	if (n >= sizeof low)
		return 0;
	for (size_t i = 0; i < n; i++)
		low[i] = (char)(word[i] >= 'A' && word[i] <= 'Z' ? word[i] + 32 : word[i]);
	low[n] = 0;
	for (size_t i = 0; i < sizeof pronouns / sizeof *pronouns; i++)
		if (!strcmp(low, pronouns[i]))
			return 1;
	return 0;
}

/* Does a question lean on what was said before?  It has a pronoun, or hardly a word of its own. */
static int leans(const char *question, size_t n)
{
	int content = 0, wide = 0;

	for (size_t i = 0; i < n;) {
		size_t from = i;

		while (i < n && is_letter(question[i]))
			i++;
		if (i > from && is_pronoun(question + from, i - from))
			return 1;
		content += i - from > 3;
		wide += i > from && (unsigned char)question[from] & 0x80;
		i += i == from;
	}
	return content < CONTENT_LEAST && !wide;
}

/* Without a cut through a character. */
static void add_beginning(struct str *out, const char *text, size_t n, size_t most)
{
	for (n = n < most ? n : most; n && n == most && ((unsigned char)text[n] & 0xc0) == 0x80; n--)
		;
	str_adds(out, " ");
	str_add(out, text, n);
}

/* What is searched for: the question, and the last turn where it leans on that. */
static void search_words(const struct conversation *t, const char *question, size_t n, struct str *out)
{
	size_t i = t->n_msg;

	str_add(out, question, n);
	/* The question may be the last message already. */
	if (i && t->msg[i - 1].role == ROLE_USER && t->msg[i - 1].text.n == n && !memcmp(t->msg[i - 1].text.p, question, n))
		i--;
	if (!i || !leans(question, n))
		return;
	for (size_t first = i > 2 ? i - 2 : 0; i-- > first;)
		if (!t->msg[i].read)   /* a text that was read is no talk */
			add_beginning(out, t->msg[i].text.p ? t->msg[i].text.p : "", t->msg[i].text.n, BEFORE_MOST);
}

/* ---- the order ---- */

struct candidate { struct found_passage found; double score, sure; };

static int by_score(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->score != y->score)
		return x->score < y->score ? 1 : -1;
	return x->found.text != y->found.text ? (x->found.text < y->found.text ? -1 : 1) : x->found.from < y->found.from ? -1 : 1;
}

/* What the model is to judge of a passage: its best sentence, and as much around it as WINDOW allows. */
static struct quote judged(const struct document *d, const struct found_passage *f)
{
	const char *body = d->text.p + d->body;
	size_t n = f->quote_end - f->quote, around = n < WINDOW ? (WINDOW - n) / 2 : 0;
	size_t from = f->quote - f->from < around ? f->from : f->quote - around;
	size_t to = f->to - f->quote_end < around ? f->to : f->quote_end + around;

	for (; from > f->from && from < f->quote && ((unsigned char)body[from] & 0xc0) == 0x80; from++)
		;
	for (; to < f->to && to > f->quote_end && ((unsigned char)body[to] & 0xc0) == 0x80; to--)
		;
	return (struct quote){body + from, to - from};
}

static int rerank(struct conversation *t, const char *question, size_t n, struct candidate *c, int count, double *sure, struct err *e)
{
	double gain[SOURCES_MOST];
	int scored = 0;
	struct quote quote[SOURCES_MOST];

	for (int i = 0; i < count; i++) {
		const struct document *d = &t->doc[c[i].found.text];
		quote[i] = judged(d, &c[i].found);
	}
	if (rerank_gains(t, question, n, quote, count, gain, &scored, e) < 0)
		return -1;
	*sure = 0;
	for (int i = 0; i < scored; i++) {
		double with = c[i].found.covered + GAIN_SHARE * gain[i];

		c[i].score += NAT * gain[i];
		*sure = with > *sure ? with : *sure;
	}
	qsort(c, (size_t)scored, sizeof *c, by_score);
	return scored;
}

enum { PART = 65536, PART_MORE = 4096 };

size_t text_part_end(const char *p, size_t n, size_t skipped, size_t at)
{
	size_t end = ((skipped + at) / PART + 1) * PART - skipped;

	for (size_t i = end; i < n && i < end + PART_MORE; i++)
		if (p[i] == '\n')
			return i + 1;
	while (end < n && ((unsigned char)p[end] & 0xc0) == 0x80)
		end++;
	return end < n ? end : n;
}

/* The passages of the documents that have words of the question, the best first: how many, or -1. */
static int search(const struct conversation *t, const struct str *words, struct found_passage *out, size_t most, struct err *e)
{
	struct indexed_text *text;
	struct { size_t doc, at; } *part;
	size_t n = 0, most_parts = t->n_doc;
	int count;

	if (!t->n_doc || !t->hooks.search)
		return 0;
	for (size_t i = 0; i < t->n_doc; i++)
		most_parts += t->doc[i].grows ? t->doc[i].n_body / (PART - PART_MORE) + 1 : 0;
	text = xcalloc(most_parts, sizeof *text);
	part = xcalloc(most_parts, sizeof *part);
	for (size_t i = 0; i < t->n_doc; i++) {
		const struct document *d = &t->doc[i];
		const char *body = d->text.p + d->body;

		for (size_t at = 0, end; (at < d->n_body || !at) && n < most_parts; at = end) {
			end = d->grows ? text_part_end(body, d->n_body, d->skipped, at) : d->n_body;
			part[n].doc = i;
			part[n].at = at;
			text[n++] = (struct indexed_text){body + at, end - at};
			if (end == d->n_body)
				break;
		}
	}
	count = t->hooks.search(text, n, words->p ? words->p : "", words->n, out, most, t->hooks.search_ud, e);
	for (int i = 0; i < count; i++) {
		size_t at = part[out[i].text].at;

		out[i].text = part[out[i].text].doc;
		out[i].from += at;
		out[i].to += at;
		out[i].quote += at;
		out[i].quote_end += at;
	}
	free(text);
	free(part);
	return count;
}

/* The beginning of what the question names comes first, unless its words are found best inside of that: "What does chapter 5 say of matrices?" */
static void put_named(const struct conversation *t, const char *question, size_t n, struct sources *out)
{
	struct source named;
	size_t kept = 1, end;

	if (!named_place(t, question, n, &named, &end))
		return;
	out->found = 1;
	if (out->n && out->at[0].doc == named.doc && out->at[0].from >= named.from && out->at[0].to <= end)
		return;
	named.score = out->n ? out->at[0].score + 1 : 1;
	out->at = xrealloc(out->at, (out->n + 2) * sizeof *out->at);
	memmove(out->at + 1, out->at, out->n * sizeof *out->at);
	out->at[0] = named;
	for (size_t i = 1; i <= out->n && kept < SOURCES_MOST; i++) {
		const struct source *s = &out->at[i];

		if (s->doc != named.doc || s->to <= named.from || s->from >= named.to)
			out->at[kept++] = *s;
	}
	out->n = kept;
}

int conversation_sources(struct conversation *t, const char *question, size_t n, struct sources *out, struct err *e)
{
	struct found_passage found[SOURCES_MOST];
	struct candidate c[SOURCES_MOST];
	double start = now_seconds(), sure = 0;
	struct str words = {0};
	int count, scored = 0;

	*out = (struct sources){0};
	search_words(t, question, n, &words);
	count = search(t, &words, found, SOURCES_MOST, e);
	str_free(&words);
	for (int i = 0; i < count; i++)
		c[i] = (struct candidate){.found = found[i], .score = found[i].score};
	if (count > 0)
		scored = rerank(t, question, n, c, count, &sure, e);
	if (count < 0 || scored < 0)
		return -1;
	out->found = count > 0 && (scored ? sure >= FOUND_LEAST : c[0].found.covered >= COVERED_LEAST);
	out->at = xcalloc((size_t)count + 1, sizeof *out->at);
	for (int i = 0; i < count; i++) {
		const struct found_passage *f = &c[i].found;

		out->at[out->n++] = (struct source){
			.doc = f->text, .from = f->from, .to = f->to, .quote = f->quote, .quote_end = f->quote_end, .score = c[i].score,
			/* Those that the model has not judged have the index's score alone. */
			.weak = i && (i < scored ? c[i].score < WEAK_BELOW * c[0].score : f->score < WEAK_BELOW * found[0].score),
		};
	}
	put_named(t, question, n, out);
	out->seconds = now_seconds() - start;
	return 0;
}
