/* app/retrieval/sources.c - finds the passages of the documents that answer a question (retrieval.h).
 *
 * The index returns candidates by bm25. The model then scores the best sentence of each candidate by query likelihood
 * (rerank.c), for as many candidates as the model's size allows. The constants below were tuned with
 * tests/measure/sources on one half of its questions. A page or section that the question names is found without the
 * index (named_place.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/retrieval/retrieval_private.h"
#include "engine/base/base.h"
#include "engine/base/utf8.h"
#include "sessions/store/store.h"

static const double NAT = 1.8; /* one nat of query likelihood counts as many bm25 points */
/* covered: idf of the question's words in the passage / idf of all its words. gain: query likelihood in nats. A
 * passage that the model has scored is good if covered + GAIN_SHARE * gain >= FOUND_LEAST. A passage without gain is
 * good if covered >= COVERED_LEAST. */
static const double GAIN_SHARE = 0.02, FOUND_LEAST = 0.64, COVERED_LEAST = 0.4;

/* A passage below this share of the best score is weak. Measured on the second and third passages for SQuAD and
 * HotpotQA: 0 to 3 % of the right ones are weak, and up to 70 % of the wrong ones
 * (tests/results/2026-11-28-answers.md). */
static const double WEAK_BELOW = 0.4;

/* Most bm25 points that words of the last turn add to a passage, in multiples of rarest_word(). LEAN is so small that
 * it only orders equal passages. LEAN_REFERS is for questions that refer to earlier messages ("he", "that"). */
static const double LEAN = 0.15, LEAN_REFERS = 1.5;
/* upper limit of the points for the last turn, as a share of the best passage's bm25 */
static const double LEAN_MOST = 0.75;

enum {
	BEFORE_MOST = 400,
	WINDOW = 300,   /* bytes of a passage that the model scores */
	LOOKED_AT = 64, /* most passages that the index returns */
	LEANING = 2,    /* passages with words of the last turn that the model scores in addition */
	SENTENCE_BYTES = 100,
	BEGINNINGS = 3, /* documents whose beginnings are used, if the question names no document */
};

/* ---- the last turn ---- */

/* Append the first bytes of a text, at most `most`, in whole characters. */
static void add_beginning(struct str *out, const char *text, size_t n, size_t most)
{
	if (n > most)
		n = utf8_back(text, most);
	str_adds(out, " ");
	str_add(out, text, n);
}

/* Append the question and the beginnings of the last turn's messages to *out. 1 = appended, 0 = there is no earlier
 * turn. */
static int with_last_turn(const struct conversation *conv, const char *question, size_t n, struct str *out)
{
	size_t i = conv->n_msg;
	int any = 0;

	str_add(out, question, n);
	/* The question may already be the last message. */
	if (i && conv->msg[i - 1].role == ROLE_USER && conv->msg[i - 1].text.n == n &&
	    !memcmp(conv->msg[i - 1].text.p, question, n))
		i--;
	for (size_t first = i > 2 ? i - 2 : 0, k = i; k-- > first;)
		if (!conv->msg[k].read) { /* text that was read from a file or pipe is no turn */
			add_beginning(out, str_text(&conv->msg[k].text), conv->msg[k].text.n, BEFORE_MOST);
			any = 1;
		}
	return any;
}

/* ---- the order ---- */

/* score: bm25, plus the points for words of the last turn. gain: query likelihood in nats, if judged (scored by the
 * model). */
struct candidate {
	struct found_passage found;
	double score, gain;
	int judged;
};

static double candidate_total(const struct candidate *c)
{
	return c->score + NAT * c->gain;
}

/* Passages that the model has scored come first. */
static int by_score(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->judged != y->judged)
		return y->judged - x->judged;
	if (candidate_total(x) != candidate_total(y))
		return candidate_total(x) < candidate_total(y) ? 1 : -1;
	return x->found.text != y->found.text  ? (x->found.text < y->found.text ? -1 : 1)
	       : x->found.from < y->found.from ? -1
	                                       : 1;
}

/* Return the part of a passage that the model scores: the best sentence and the text around it, WINDOW bytes. */
static struct quote judged_text(const struct document *d, const struct found_passage *f)
{
	const char *body = d->text.p + d->body;
	size_t n = f->quote_end - f->quote, around = n < WINDOW ? (WINDOW - n) / 2 : 0;
	size_t from = f->quote - f->from < around ? f->from : f->quote - around;
	size_t to = f->to - f->quote_end < around ? f->to : f->quote_end + around;

	for (; from > f->from && from < f->quote && utf8_continues(body[from]); from++)
		;
	for (; to < f->to && to > f->quote_end && utf8_continues(body[to]); to--)
		;
	return (struct quote){ body + from, to - from };
}

/* Let the model score c[0 .. count). Returns the number scored, or -1. */
static int candidates_judge(struct conversation *conv, const char *question, size_t n, struct candidate *c, int count,
                            struct err *e)
{
	double gain[SOURCES_MOST];
	int judged = 0;
	struct quote quote[SOURCES_MOST];

	for (int i = 0; i < count; i++) {
		const struct document *d = &conv->doc[c[i].found.text];
		quote[i] = judged_text(d, &c[i].found);
	}
	if (rerank_gains(conv, question, n, quote, count, gain, &judged, e) < 0)
		return -1;
	for (int i = 0; i < judged; i++) {
		c[i].gain = gain[i];
		c[i].judged = 1;
	}
	return judged;
}

/* 1 if at least one passage is good (see FOUND_LEAST). */
static int is_found(const struct candidate *c, int count, int judged)
{
	if (!judged)
		return count && c[0].found.covered >= COVERED_LEAST;
	for (int i = 0; i < count; i++)
		if (c[i].judged && c[i].found.covered + GAIN_SHARE * c[i].gain >= FOUND_LEAST)
			return 1;
	return 0;
}

enum { PART = 65536, PART_MORE = 4096 };

size_t text_part_end(const char *p, size_t n, size_t skipped, size_t at)
{
	size_t end = ((skipped + at) / PART + 1) * PART - skipped;

	for (size_t i = end; i < n && i < end + PART_MORE; i++)
		if (p[i] == '\n')
			return i + 1;
	return MIN(utf8_forward(p, n, end), n);
}

/* Find the passages of the documents that have words of the question, the best first. A document that still grows is
 * searched in parts (text_part_end). Returns the number of passages, or -1. */
static int documents_search(const struct conversation *conv, const char *words, size_t n_words,
                            struct found_passage *out, size_t most, struct err *e)
{
	struct indexed_text *text;
	struct {
		size_t doc, at;
	} * part;
	const struct source_search *s = search_of(conv);
	size_t n = 0, most_parts = conv->n_doc;
	int count;

	if (!conv->n_doc || !s->search)
		return 0;
	for (size_t i = 0; i < conv->n_doc; i++)
		most_parts += conv->doc[i].grows ? conv->doc[i].n_body / (PART - PART_MORE) + 1 : 0;
	text = xcalloc(most_parts, sizeof *text);
	part = xcalloc(most_parts, sizeof *part);
	for (size_t i = 0; i < conv->n_doc; i++) {
		const struct document *d = &conv->doc[i];
		const char *body = d->text.p + d->body;

		for (size_t at = 0, end; (at < d->n_body || !at) && n < most_parts; at = end) {
			end = d->grows ? text_part_end(body, d->n_body, d->skipped, at) : d->n_body;
			part[n].doc = i;
			part[n].at = at;
			text[n++] = (struct indexed_text){ body + at, end - at };
			if (end == d->n_body)
				break;
		}
	}
	count = s->search(text, n, words ? words : "", n_words, out, most, s->search_ud, e);
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

static const struct found_passage *same_place(const struct found_passage *f, const struct found_passage *in, int n)
{
	for (int i = 0; i < n; i++)
		if (in[i].text == f->text && in[i].from == f->from)
			return &in[i];
	return NULL;
}

/* Estimate the bm25 of a word that only one sentence of the documents has. */
static double rarest_word(const struct conversation *conv)
{
	double sentences = 1;

	for (size_t i = 0; i < conv->n_doc; i++)
		sentences += (double)conv->doc[i].n_body / SENTENCE_BYTES;
	return log(1 + sentences);
}

/* Search again with the words of the question and the last turn (words), and add the passages found to c[count]. own:
 * passages found for the question alone. Words of the last turn add fewer points than one word of the question.
 * Returns the new number of candidates, the best first, or -1. */
static int candidates_lean(struct conversation *conv, const char *question, size_t n, const struct str *words,
                           const struct found_passage *own, int n_own, struct candidate *c, int count, struct err *e)
{
	struct found_passage with[LOOKED_AT];
	double added[2 * SOURCES_MOST], most = 0,
					worth = (question_refers(question, n) ? LEAN_REFERS : LEAN) * rarest_word(conv);
	int n_with = documents_search(conv, words->p, words->n, with, LOOKED_AT, e), first = count, all = count,
	    judged = 0;

	if (n_with < 0)
		return -1;
	/* Keep passages without a question word below the best passage with one. A question with only function words,
	 * "And why?", is an exception. */
	if (n_own && own[0].score > rarest_word(conv) / 2 && worth > LEAN_MOST * own[0].score)
		worth = LEAN_MOST * own[0].score;
	for (int i = 0; i < n_with && i < SOURCES_MOST; i++) {
		const struct found_passage *f = same_place(&with[i], own, n_own);
		int k;

		for (k = 0; k < count && (c[k].found.text != with[i].text || c[k].found.from != with[i].from); k++)
			;
		if (k < count)
			continue;
		c[all] = (struct candidate){ .found = f ? *f : with[i], .score = f ? f->score : 0 };
		if (!f)
			c[all].found.covered = 0; /* its question words are unknown */
		all++;
	}
	for (int i = 0; i < all; i++) {
		const struct found_passage *f = same_place(&c[i].found, with, n_with);

		added[i] = f && f->score > c[i].score ? f->score - c[i].score : 0;
		most = MAX(added[i], most);
		judged += c[i].judged;
	}
	for (int i = 0; i < all && most > 0; i++)
		c[i].score += worth * added[i] / most;
	qsort(c, (size_t)all, sizeof *c, by_score);
	/* Let the model also score up to LEANING new passages that come before the last scored passage in the order
	 * of c[].score. */
	for (first = judged; judged && first < all && first < judged + LEANING && c[first].score > c[judged - 1].score;
	     first++)
		;
	if (first > judged && candidates_judge(conv, question, n, c + judged, first - judged, e) < 0)
		return -1;
	qsort(c, (size_t)all, sizeof *c, by_score);
	return all;
}

/* Insert `first` as the best source, and remove the sources that overlap it. */
static void put_first(struct source first, struct sources *out)
{
	size_t kept = 1;

	first.score = out->n ? out->at[0].score + 1 : 1;
	out->at = xrealloc(out->at, (out->n + 2) * sizeof *out->at);
	memmove(out->at + 1, out->at, out->n * sizeof *out->at);
	out->at[0] = first;
	for (size_t i = 1; i <= out->n && kept < SOURCES_MOST; i++) {
		const struct source *s = &out->at[i];

		if (s->doc != first.doc || s->to <= first.from || s->from >= first.to)
			out->at[kept++] = *s;
	}
	out->n = kept;
	out->found = 1;
}

/* Put the page or section that the question names first, unless the best source is already inside it. 1 = the
 * question names one. */
static int put_named(const struct conversation *conv, const char *question, size_t n, struct sources *out)
{
	struct source named;
	size_t end;

	if (!named_place(conv, question, n, &named, &end))
		return 0;
	out->found = 1;
	if (!out->n || out->at[0].doc != named.doc || out->at[0].from < named.from || out->at[0].to > end)
		put_first(named, out);
	return 1;
}

/* Put beginnings of documents first if the question is about a whole document: "Who wrote it?". */
static void put_beginnings(const struct conversation *conv, const char *question, size_t n, struct sources *out)
{
	struct source beginning;
	int32_t words;
	size_t doc;
	enum whole_question what = asks_for_whole(conv, question, n, &doc, &words);

	if (!what || (what == WHOLE_POINTS && out->found))
		return;
	for (size_t i = MIN(conv->n_doc, BEGINNINGS); i--;) {
		size_t of = doc < conv->n_doc ? doc : i;

		/* Skip the beginning if the model has the whole document to summarise, or if a growing document has
		 * already dropped its beginning. */
		if (!(what == WHOLE_SUMMARY && conv->doc[of].whole) && !conv->doc[of].skipped &&
		    document_beginning(conv, of, what, &beginning))
			put_first(beginning, out);
		if (doc < conv->n_doc)
			break;
	}
}

int conversation_sources(struct conversation *conv, const char *question, size_t n, struct sources *out, struct err *e)
{
	struct found_passage own[LOOKED_AT];
	struct candidate c[2 * SOURCES_MOST];
	double start = now_seconds();
	struct str words = { 0 };
	int n_own = documents_search(conv, question, n, own, LOOKED_AT, e), count = MIN(n_own, SOURCES_MOST),
	    judged = 0;

	*out = (struct sources){ 0 };
	for (int i = 0; i < count; i++)
		c[i] = (struct candidate){ .found = own[i], .score = own[i].score };
	if (count > 0)
		judged = candidates_judge(conv, question, n, c, count, e);
	if (count < 0 || judged < 0)
		return -1;
	out->found = is_found(c, count, judged);
	qsort(c, (size_t)count, sizeof *c, by_score);
	if (with_last_turn(conv, question, n, &words)) {
		count = candidates_lean(conv, question, n, &words, own, n_own, c, count, e);
		out->found |= count > 0 && is_found(c, count, judged);
	}
	str_free(&words);
	if (count < 0)
		return -1;
	count = MIN(count, SOURCES_MOST);
	out->at = xcalloc((size_t)count + 1, sizeof *out->at);
	for (int i = 0; i < count; i++) {
		const struct found_passage *f = &c[i].found;
		double score = candidate_total(&c[i]);

		/* passages that the model has not scored rank below the scored ones */
		if (i && score > out->at[i - 1].score)
			score = out->at[i - 1].score;
		out->at[out->n++] = (struct source){
			.doc = f->text,
			.from = f->from,
			.to = f->to,
			.quote = f->quote,
			.quote_end = f->quote_end,
			.score = score,
			/* compare scores of the same kind: with query likelihood, or bm25 alone */
			.weak = i && (c[i].judged ? candidate_total(&c[i]) < WEAK_BELOW * candidate_total(&c[0])
			                          : n_own && c[i].score < WEAK_BELOW * own[0].score),
		};
	}
	if (!put_named(conv, question, n, out))
		put_beginnings(conv, question, n, out);
	out->seconds = now_seconds() - start;
	return 0;
}

/* ---- companion ---- */

/* Find the passages that answer the question. context: the context that the question was sent with, if it is asked
 * again; NULL: a new question. Returns 0; 1 if no passage is good enough and no document is read whole; -1 on
 * error. */
static int find_sources(struct conversation *conv, const char *text, size_t n, const struct str *context, struct err *e)
{
	struct source_search *s = search_of(conv);
	int whole = 0;

	sources_forget(conv);
	if (!conv->n_doc || !s->search)
		return 0;
	if (conversation_sources(conv, text, n, &s->last, e) < 0)
		return -1;
	for (size_t i = 0; i < conv->n_doc; i++)
		whole |= conv->doc[i].whole || conv->doc[i].grows;
	if (signals_stopped()) /* Ctrl-C while no timeline was watched */
		return err_set(e, ERR_CANCELLED, "stopped");
	if (!s->last.found && !whole && !recalls_of(conv)->n)
		return 1; /* keep the nearest passages, which are shown to the user */
	if (!s->last.found) {
		sources_free(&s->last);
		return 0;
	}
	if (context)
		sources_chosen_before(conv, context);
	else
		sources_choose(conv);
	conversation_emit(conv, EVENT_SOURCES, 0);
	return 0;
}

static int sources_before(void *self, struct conversation *conv, const struct question *q, struct err *e)
{
	(void)self;
	if (!q->hooks->without_documents)
		return find_sources(conv, q->text, q->n, NULL, e);
	sources_forget(conv);
	return 0;
}

static void sources_context(void *self, struct conversation *conv, struct str *out)
{
	(void)self;
	question_context(conv, out);
}

static void sources_given(void *self, const struct conversation *conv, const struct question *q, struct tokens *out)
{
	(void)self;
	quotation_given(conv, q->text, q->n, out);
}

/* Report the sources of the last question again, for an answer that is regenerated or continued (goes_on). After a
 * resume or undo they are taken from the old answer, or searched for. A failed search is no error, because the
 * question's context is already stored: only the list of sources is missing. */
static int sources_again(void *self, struct conversation *conv, const struct message *old, int goes_on, struct err *e)
{
	const struct message *m = &conv->msg[conv->n_msg - 1];
	struct source_search *s = self;
	struct err why = { 0 };
	int rc = 0;

	if (!s->last.found && goes_on)
		sources_forget(conv);
	else if (!s->last.found) /* left from a question without an answer */
		sources_free(&s->last);
	if (goes_on) {
		if (!s->last.n)
			sources_restore(conv, &old->sources);
		return 0;
	}
	if (s->last.n || sources_restore(conv, &old->sources))
		conversation_emit(conv, EVENT_SOURCES, 0);
	else if (context_is_searched(&m->context))
		rc = find_sources(conv, m->text.p, m->text.n, &m->context, &why);
	if (!s->last.found)
		sources_free(&s->last);
	return rc < 0 && why.code == ERR_CANCELLED ? err_set(e, why.code, "%s", why.msg) : 0;
}

/* Store the sources with the answer, unless it is a continued answer that already has them. */
static void sources_began(void *self, struct conversation *conv, struct message *answer)
{
	(void)self;
	if (!answer->sources.n)
		answer_sources_found(conv, &answer->sources);
}

static void sources_changed(void *self, struct conversation *conv, enum companion_change what)
{
	struct source_search *s = self;

	switch (what) {
	case CHANGE_DOCUMENTS:
	case CHANGE_MESSAGES:
	case CHANGE_EMPTIED: sources_forget(conv); break;
	case CHANGE_MODEL: rerank_close(&s->rerank); break;
	case CHANGE_RENDERED:
	case CHANGE_CACHE:
	case CHANGE_CLOSED:
	case CHANGE_REOPENED: break;
	}
}

static void sources_json(void *self, const struct conversation *conv, struct str *out)
{
	(void)self;
	passages_json(conv, out);
	recalled_json(conv, out); /* this companion also writes the recalled turns, after the passages */
}

static void sources_close(void *self)
{
	struct source_search *s = self;

	sources_free(&s->last);
	rerank_close(&s->rerank);
	free(s);
}

const struct companion_ops sources_ops = {
	.name = "sources",
	.before = sources_before,
	.context = sources_context,
	.given = sources_given,
	.again = sources_again,
	.began = sources_began,
	.changed = sources_changed,
	.json = sources_json,
	.free = sources_close,
};

void retrieval_join(struct conversation *conv)
{
	companion_add(conv, &recall_ops, recall_new());
	companion_add(conv, &sources_ops, xcalloc(1, sizeof(struct source_search)));
	companion_add(conv, &evidence_ops, xcalloc(1, sizeof(struct evidence_list)));
}
