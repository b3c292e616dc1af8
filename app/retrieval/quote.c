/* app/retrieval/quote.c - writes a question's context: the text of the documents that is sent before the question
 * (retrieval.h).
 *
 * The context has the best passages, in document order, and then the sentence that answers best. Two kinds of passages
 * are left out: passages of a document whose whole text is in the prompt; and passages of earlier questions that are
 * still in the KV cache. A large enough model is asked to mark its sentences with the numbers of the passages;
 * unsupported.c checks these marks. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/sentences.h"
#include "engine/base/utf8.h"
#include "app/retrieval/retrieval_private.h"

enum {
	/* the passages take at most 1 / SHARE_OF_CTX of the context size */
	SHARE_OF_CTX = 3,
	/* unless the KV cache evicts, the passages also take at most 1 / SHARE_OF_FREE of the free context */
	SHARE_OF_FREE = 2,
	/* maximum number of passages that go with a question if a server does not report its model's size */
	PASSAGES_UNKNOWN = 3,
};
/* Maximum number of passages for a question, by the model's number of parameters; --passages overrides it. The last row
 * applies whose `params` is not greater than the model's number. A model with fewer than a billion parameters gets one
 * passage, because more would distract it (tests/results.md). */
static const struct {
	uint64_t params;
	size_t passages;
} by_size[] = { { 0, 1 }, { 1000000000, 3 }, { 4000000000, 5 }, { 12000000000, 8 }, { 30000000000, SOURCES_MOST } };
/* A model with at least this number of parameters is asked to mark its sentences with the numbers of passages. */
static const uint64_t MARKS = 1000000000;
/* A model with fewer parameters than this is forced to begin its answer with the best sentence; the answer then ends at
 * the next line break. Measured with a model of 135 million parameters on 80 easy questions: 80 right answers; without
 * the forced beginning, 67 (tests/results/2026-11-28-answers.md). */
static const uint64_t QUOTES = 200000000;
/* Maximum number of bytes of the quotation with which an answer is forced to begin. It consists of the best sentence
 * and its neighbours. Measured on 140 questions in people's own words, with the right passage given: the best sentence
 * alone contains the answer for 56 questions, the longer quotation for 101 (tests/results.md). */
enum { QUOTATION = 350 };
/* If an earlier question has already sent a passage (sent_before()), the context only refers to the passage, by its
 * first REFERENCE bytes. */
enum { REFERENCE = 60 };
#define MARK_IT                                                                                                        \
	"Put behind each sentence of the answer the number of the passage that says it, in brackets, like [1].\n\n"

static const char *body_of(const struct conversation *conv, const struct source *s)
{
	return conv->doc[s->doc].text.p + conv->doc[s->doc].body;
}

void text_on_one_line(const char *p, size_t n, struct str *out)
{
	size_t begin = out->n;
	enum { NOT_BLANK, BLANK, BOX } last = NOT_BLANK, now;

	for (size_t i = 0, next; i < n; i = MAX(next, i + 1)) {
		next = box_skip(p, n, i);
		now = next > i ? BOX : p[i] == ' ' || p[i] == '\n' || p[i] == '\t' || p[i] == '\f' ? BLANK : NOT_BLANK;
		if (!now)
			str_add(out, p + i, 1);
		else if (!last && (now == BLANK || out->n > begin))
			str_adds(out, " ");
		last = now;
	}
	if (last == BOX && out->n > begin)
		out->p[--out->n] = 0;
}

void source_quote(const struct conversation *conv, const struct source *s, struct str *out)
{
	text_on_one_line(body_of(conv, s) + s->quote, s->quote_end - s->quote, out);
}

/* ---- passages that are in the cache ---- */

/* 1 if bytes [at, at + n) of a text are cached (tokens_cached()). *prompt_at is the position of the text in the
 * prompt. */
static int text_kept(const struct conversation *conv, const struct text_at *prompt_at, size_t at, size_t n)
{
	size_t n_id = conv->rendered.id.n, from = prompt_at->byte + at, i;
	int32_t first;

	if (prompt_at->first < 0)
		return 0;
	for (i = (size_t)prompt_at->first; i < n_id && conv->rendered.end[i] <= from; i++)
		;
	first = (int32_t)i;
	for (; i < n_id && conv->rendered.end[i] <= from + n; i++)
		;
	return tokens_cached(conv, first, (int32_t)i - first);
}

static int sent_before(const struct conversation *conv, const char *text, size_t n)
{
	for (size_t i = conv->n_msg; i--;) {
		const struct message *m = &conv->msg[i];
		const char *at = m->context.n ? memmem(m->context.p, m->context.n, text, n) : NULL;

		if (at && (conv->tl ? text_kept(conv, &m->context_at, (size_t)(at - m->context.p), n)
		                    : i >= conv->served.left_out))
			return 1;
	}
	return 0;
}

/* 1 if a text that was read from a stream contains text[0 .. n), and the cache still has the KV entries of these
 * bytes. */
static int read_before(const struct conversation *conv, const char *text, size_t n)
{
	for (size_t i = conv->n_msg; i--;) {
		const struct message *m = &conv->msg[i];
		const char *at = m->read ? memmem(m->text.p, m->read, text, n) : NULL;

		if (at && conv->tl && text_kept(conv, &m->prompt_at, (size_t)(at - m->text.p), n))
			return 1;
	}
	return 0;
}

/* Append where bytes [from, to) of document i are: 'report.pdf, page 12, "Methods"'. */
static void source_place(const struct conversation *conv, size_t i, size_t from, size_t to, struct str *out)
{
	struct document_place at;

	document_place(&conv->doc[i], from, to, &at);
	str_adds(out, conv->doc[i].name);
	if (at.page)
		str_addf(out, ", page %s", at.page);
	if (at.heading)
		str_addf(out, ", \"%s\"", at.heading);
}

/* ---- the context of a question ---- */

static int by_place(const void *a, const void *b)
{
	const struct source *x = a, *y = b;

	if (x->doc != y->doc)
		return x->doc < y->doc ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

/* Return how many tokens the passages of a question may have together. */
static size_t room_for_passages(const struct conversation *conv)
{
	struct timeline_stats st;
	size_t room, left;

	conversation_stats(conv, &st);
	room = conversation_context_size(conv) / SHARE_OF_CTX;
	left = st.endless || st.n_tokens > st.ctx ? room : (size_t)(st.ctx - st.n_tokens) / SHARE_OF_FREE;
	return MIN(left, room);
}

static size_t passages_most(const struct conversation *conv)
{
	size_t most = PASSAGES_UNKNOWN;

	if (conv->o->passages >= 0)
		return (size_t)conv->o->passages;
	for (size_t i = 0; i < LEN(by_size) && conv->info->n_params && conv->info->n_params >= by_size[i].params; i++)
		most = by_size[i].passages;
	return most;
}

/* Choose the best passages that fit, to send them with the question. Passages of a document whose whole text is in the
 * prompt are skipped. */
void sources_choose(struct conversation *conv)
{
	const struct sources *last = sources_of(conv);
	size_t room = room_for_passages(conv), most = passages_most(conv), chosen = 0;

	for (size_t i = 0; i < last->n && chosen < most && chosen < SOURCES_MOST; i++) {
		struct source *s = &last->at[i];
		size_t n;

		if (conv->doc[s->doc].whole || (s->weak && conv->o->passages < 0))
			continue;
		n = conversation_count(conv, body_of(conv, s) + s->from, s->to - s->from);
		if (n > room)
			continue;
		room -= n;
		s->chosen = 1;
		chosen++;
	}
}

void sources_chosen_before(struct conversation *conv, const struct str *context)
{
	const struct sources *last = sources_of(conv);
	for (size_t k = 0; k < last->n; k++) {
		struct source *s = &last->at[k];
		const char *text = body_of(conv, s) + s->from;
		size_t n = s->to - s->from;

		s->chosen = context->n && memmem(context->p, context->n, text, n) != NULL;
		for (size_t i = 0; i < conv->n_msg && !s->chosen; i++)
			s->chosen = conv->msg[i].context.n &&
			            memmem(conv->msg[i].context.p, conv->msg[i].context.n, text, n) != NULL;
	}
}

int source_sent(const struct conversation *conv, const struct source *s)
{
	const struct sources *last = sources_of(conv);
	const char *text = body_of(conv, s) + s->from;
	size_t n = s->to - s->from;

	if (conv->doc[s->doc].whole)
		return 1;
	return last->found && (s->chosen || s == last->at || sent_before(conv, text, n) ||
	                       (conv->doc[s->doc].grows && read_before(conv, text, n)));
}

#define SAYS "The document says: \""

/* Return the length of the list marker at the beginning of a sentence, "- " or "12. "; 0 = no marker. */
static size_t item_mark(const char *p, size_t n)
{
	size_t digits = 0, mark;

	while (digits < n && digits < 3 && byte_is_digit(p[digits]))
		digits++;
	mark = digits < n && strchr(digits ? ".)" : "-*+", p[digits]) && p[digits] ? digits + 1 : 0;
	return mark && mark + 1 < n && p[mark] == ' ' ? mark + 1 : 0;
}

int quotes_first(const struct conversation *conv)
{
	const struct engine_info *i = conv->info;

	return conv->engine && i->n_params && i->n_params < QUOTES && i->template_name[0] && !i->thinks_first &&
	       !i->channels;
}

/* 1 if text[from .. to), the white space between two sentences, ends a paragraph. */
static int paragraph_ends(const char *text, size_t from, size_t to)
{
	int lines = 0;

	for (size_t i = from; i < to; i++)
		lines += text[i] == '\n';
	return lines > 1;
}

/* Append the best sentence with its neighbours, in the order of the text, on one line of at most QUOTATION bytes. First
 * the sentences after it in the passage are added, then the sentences before it in its paragraph. The quotation never
 * extends across a heading. */
static void quote_widened(const struct conversation *conv, const struct source *s, struct str *out)
{
	const char *text = body_of(conv, s) + s->from;
	size_t from = s->quote - s->from, to = s->quote_end - s->from, before = 0, after;
	struct sentence *at;
	size_t n = sentences_cut(text, s->to - s->from, &at, NULL, NULL);

	while (before < n && at[before].to <= from)
		before++;
	for (after = before; after < n && at[after].from < to; after++)
		;
	for (; after < n && !(at[after].flags & SENTENCE_HEADING) && at[after].to - from <= QUOTATION; after++)
		to = at[after].to;
	for (; before && !(at[before - 1].flags & SENTENCE_HEADING) && to - at[before - 1].from <= QUOTATION &&
	       !paragraph_ends(text, at[before - 1].to, from);
	     before--)
		from = at[before - 1].from;
	text_on_one_line(text + from, to - from, out);
	free(at);
}

/* Append the quotation of a source; the caller puts it in double quotes. It is the best sentence of the source. A small
 * model also gets the neighbouring sentences, unless the best sentence alone has most words of the question. Double
 * quotes inside become single quotes. A list marker at the beginning is dropped, because it distracts small models. */
static void quote_in_marks(const struct conversation *conv, const struct source *s, struct str *out)
{
	struct str quote = { 0 };
	size_t skip;

	if (quotes_first(conv) && !s->sure && s->quote >= s->from && s->quote_end <= s->to)
		quote_widened(conv, s, &quote);
	else
		source_quote(conv, s, &quote);
	skip = item_mark(str_text(&quote), quote.n);
	for (size_t i = 0; i < quote.n; i++)
		if (quote.p[i] == '"')
			quote.p[i] = '\'';
	str_add(out, str_text(&quote) + skip, quote.n - skip);
	str_free(&quote);
}

/* Append 'The document says: "..."' with the quotation of a source. This text is used in the context, and as the forced
 * beginning of an answer. */
static void add_quotation(const struct conversation *conv, const struct source *s, struct str *out)
{
	str_adds(out, SAYS);
	quote_in_marks(conv, s, out);
	str_adds(out, "\"");
}

/* Append the heading of a passage: 'From report.pdf, page 12, "Methods":'. If `mark` is not 0, the heading begins with
 * "[mark] ". */
static void passage_heading(const struct conversation *conv, const struct source *s, size_t mark, struct str *out)
{
	if (mark)
		str_addf(out, "[%zu] ", mark);
	str_adds(out, "From ");
	if (conv->doc[s->doc].grows)
		str_adds(out, "the text above");
	else
		source_place(conv, s->doc, s->from, s->to, out);
	if (s->title_end) {
		str_adds(out, ", whose title is \"");
		text_on_one_line(body_of(conv, s) + s->title, s->title_end - s->title, out);
		str_adds(out, "\"");
	}
}

/* Append a chosen passage, with the number `mark` before it; 0 = without a number. If an earlier question has already
 * sent the passage (sent_before()), append only a reference to it, or nothing if `mark` is 0. */
static void passage_add(const struct conversation *conv, const struct source *s, size_t mark, struct str *out)
{
	const char *text = body_of(conv, s) + s->from;
	size_t n = s->to - s->from;
	int before = sent_before(conv, text, n);

	if (before && !mark)
		return;
	passage_heading(conv, s, mark, out);
	if (before) {
		str_adds(out, ", quoted above: \"");
		text_on_one_line(text, utf8_complete(text, MIN(n, REFERENCE)), out);
		str_adds(out, "...\"\n\n");
		return;
	}
	str_adds(out, ":\n");
	str_add(out, text, n);
	str_adds(out, "\n\n");
}

/* Return the number of the source, from 1, in the list that the user sees; 0 = the source is not in the list. */
static size_t mark_of(const struct conversation *conv, const struct answer_sources *list, const struct source *s)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->at[i].from == s->from && list->at[i].to == s->to &&
		    !strcmp(list->at[i].doc, conv->doc[s->doc].name))
			return i + 1;
	return 0;
}

void question_context(struct conversation *conv, struct str *out)
{
	const struct sources *last = sources_of(conv);
	struct answer_sources list = { 0 };
	struct source chosen[SOURCES_MOST];
	size_t n = 0, mark, marks = 0;

	for (size_t i = 0; i < last->n && n < SOURCES_MOST; i++)
		if (last->at[i].chosen)
			chosen[n++] = last->at[i];
	qsort(chosen, n, sizeof *chosen, by_place);
	if (!conv->info->n_params || conv->info->n_params >= MARKS)
		answer_sources_found(conv, &list);
	for (size_t i = 0; i < n; i++, marks += mark != 0) {
		mark = mark_of(conv, &list, &chosen[i]);
		passage_add(conv, &chosen[i], mark, out);
	}
	answer_sources_free(&list);
	if (!last->n)
		return;
	add_quotation(conv, &last->at[0], out);
	str_adds(out, "\n\n");
	if (marks)
		str_adds(out, MARK_IT);
}

void quotation_given(const struct conversation *conv, struct tokens *out)
{
	const struct sources *last = sources_of(conv);
	struct str text = { 0 };
	struct err none = { 0 };

	if (!last->n || !quotes_first(conv))
		return;
	add_quotation(conv, &last->at[0], &text);
	engine_tokenize(conv->engine, text.p, text.n, 0, out, &none);
	str_free(&text);
}

int context_is_searched(const struct str *context)
{
	return context->n && memmem(context->p, context->n, SAYS, strlen(SAYS));
}

int context_asks_for_marks(const struct str *context)
{
	return context->n && memmem(context->p, context->n, MARK_IT, strlen(MARK_IT));
}

size_t context_quotes(const struct conversation *conv, const struct str *context, struct quoted out[QUOTED_MOST])
{
	const struct sources *last = sources_of(conv);
	size_t n = 0;

	for (size_t i = 0; i < last->n && i < SOURCES_MOST; i++) {
		const struct source *s = &last->at[i];
		const char *passage = memmem(context->p, context->n, body_of(conv, s) + s->from, s->to - s->from),
			   *says;
		struct str sentence = { 0 };

		if (passage)
			out[n++] = (struct quoted){ s->doc, s->from, s->to, (size_t)(passage - context->p),
				                    s->to - s->from };
		str_adds(&sentence, SAYS);
		quote_in_marks(conv, s, &sentence);
		says = memmem(context->p, context->n, sentence.p, sentence.n);
		if (says)
			out[n++] = (struct quoted){ s->doc, s->from, s->to, (size_t)(says - context->p), sentence.n };
		str_free(&sentence);
	}
	return n;
}

/* ---- JSON ---- */

/* Append JSON member "answer": the words of a source that answer the question, if they are known. */
static void answer_json(const struct conversation *conv, const struct source *s, struct str *out)
{
	struct str text = { 0 };

	if (s->answer >= s->answer_end)
		return;
	text_on_one_line(body_of(conv, s) + s->answer, s->answer_end - s->answer, &text);
	json_open(out, "answer", '{');
	json_text(out, "text", text.p, text.n);
	json_uint(out, "passage", 0);
	json_open(out, "bytes", '[');
	json_uint(out, NULL, s->answer);
	json_uint(out, NULL, s->answer_end);
	json_close(out, ']');
	json_close(out, '}');
	str_free(&text);
}

void passages_json(const struct conversation *conv, struct str *out)
{
	const struct sources *last = sources_of(conv);

	json_open(out, "passages", '[');
	for (size_t i = 0; i < last->n; i++) {
		const struct source *s = &last->at[i];
		struct document_place at;
		struct str quote = { 0 };

		json_open(out, NULL, '{');
		json_string(out, "doc", conv->doc[s->doc].name);
		document_place(&conv->doc[s->doc], s->quote, s->quote_end, &at);
		document_place_json(&at, out);
		json_open(out, "bytes", '[');
		json_uint(out, NULL, s->from);
		json_uint(out, NULL, s->to);
		json_close(out, ']');
		source_quote(conv, s, &quote);
		json_text(out, "text", quote.p, quote.n);
		json_real(out, "score", s->score, "%.4f");
		json_bool(out, "sent", source_sent(conv, s));
		json_close(out, '}');
		str_free(&quote);
	}
	json_close(out, ']');
	if (last->found)
		answer_json(conv, &last->at[0], out);
}
