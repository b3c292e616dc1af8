/* app/conversation/answer_sources.c - the numbered sources of an answer, which are kept with it (conversation.h).
 *
 *     found      the passages that answer the question (t->sources)
 *     attended   the passages that the answer attended to (t->evidence)
 *
 * Both are one list.  A passage that was found keeps its number, and the attention only adds its share; others get the next numbers. */
#include <stdlib.h>
#include <string.h>

#include "app/conversation/conversation_private.h"

enum {
	FOUND_MOST = 3,          /* that are shown of those that the search found, unless the model is sent more; */
	ATTENDED_MOST = ANSWER_SOURCES_MOST - SOURCES_MOST,
	TEXT_MOST = 200,         /* bytes of a passage that was not searched for; */
	BEGINNING_MOST = 80,     /* that are shown where it has no share; */
	STORED_MOST = 4000,      /* of each text that is read back */
};
static const double ATTENDED_LEAST = 0.05;   /* of the attention: a smaller share says nothing */

static void source_free(struct answer_source *s)
{
	free(s->doc);
	free(s->page);
	free(s->heading);
	free(s->text);
}

void answer_sources_free(struct answer_sources *s)
{
	for (size_t i = 0; i < s->n; i++)
		source_free(&s->at[i]);
	free(s->at);
	*s = (struct answer_sources){0};
}

static char *copy_of(const char *text)
{
	return text ? xstrndup(text, strlen(text)) : NULL;
}

static size_t lines_in(const char *p, const char *end)
{
	size_t n = 0;

	for (; p < end && (p = memchr(p, '\n', (size_t)(end - p))); p++)
		n++;
	return n;
}

/* Name, place and text, from the bytes that are given; in the list. */
static struct answer_source *add(const struct conversation *t, size_t doc, const struct answer_source *s, struct answer_sources *out)
{
	const struct document *d = &t->doc[doc];
	const char *body = d->text.p + d->body;
	size_t from = s->found ? s->quote : s->from, to = s->found ? s->quote_end : s->to;
	struct document_place at;
	struct answer_source *new;
	struct str text = {0};

	out->at = xrealloc(out->at, (out->n + 1) * sizeof *out->at);
	new = &out->at[out->n++];
	*new = *s;
	document_place(d, from, to, &at);
	new->doc = copy_of(d->name);
	new->page = copy_of(at.page);
	new->heading = copy_of(at.heading);
	if (!at.page && d->type <= DOC_SOURCE) {
		new->line = d->lines + 1 + lines_in(body, body + from);
		new->last_line = new->line + lines_in(body + from, body + to);
	}
	text_on_one_line(body + s->quote, s->quote_end - s->quote, &text);
	new->text = text.p ? text.p : copy_of("");
	return new;
}

void answer_sources_found(const struct conversation *t, struct answer_sources *out)
{
	*out = (struct answer_sources){0};
	for (size_t i = 0; t->sources.found && i < t->sources.n; i++) {
		const struct source *s = &t->sources.at[i];
		int known = 0;

		if (!s->chosen && (out->n >= FOUND_MOST || s->weak))
			continue;
		add(t, s->doc, &(struct answer_source){
			.from = s->from, .to = s->to, .quote = s->quote, .quote_end = s->quote_end, .found = 1, .score = s->score,
			.sent = source_sent(t, s), .share = -1,
		}, out);
		for (size_t k = 0; k + 1 < out->n; k++)
			known |= !strcmp(out->at[k].text, out->at[out->n - 1].text);
		if (known)
			source_free(&out->at[--out->n]);
	}
}

/* Do two passages have half of the shorter one in common? */
static int same_passage(const struct answer_source *a, const struct evidence *b)
{
	size_t from = a->from > b->from ? a->from : b->from, to = a->to < b->to ? a->to : b->to;
	size_t n = a->to - a->from < b->to - b->from ? a->to - a->from : b->to - b->from;

	return to > from && 2 * (to - from) >= n;
}

void answer_sources_attended(const struct conversation *t, struct answer_sources *out)
{
	size_t n = out->n, new = 0;

	if (t->n_evidence)
		for (size_t i = 0; i < n; i++)
			out->at[i].share = t->compared && out->at[i].sent ? 0 : -1;
	for (size_t i = 0; i < t->n_evidence && t->evidence[i].share >= ATTENDED_LEAST; i++) {
		const struct evidence *v = &t->evidence[i];
		const struct document *d = &t->doc[v->doc];
		struct answer_source *s = NULL;

		for (size_t k = 0; k < n && !s; k++)
			if (same_passage(&out->at[k], v) && answer_source_document(t, &out->at[k]) == v->doc)
				s = &out->at[k];
		if (s)
			s->share = t->compared ? (s->share > 0 ? s->share : 0) + v->share : -1;
		else if (new < ATTENDED_MOST && out->n < ANSWER_SOURCES_MOST)
			new += add(t, v->doc, &(struct answer_source){
				.from = v->from, .to = v->to, .quote = v->from, .sent = 1, .share = t->compared ? v->share : -1,
				.quote_end = v->from + (v->to - v->from > TEXT_MOST ? utf8_complete(d->text.p + d->body + v->from, TEXT_MOST) : v->to - v->from),
			}, out) != NULL;
	}
}

/* ---- in the documents ---- */

size_t answer_source_document(const struct conversation *t, const struct answer_source *s)
{
	struct str text = {0};
	size_t found = SIZE_MAX;

	for (size_t i = 0; i < t->n_doc && found == SIZE_MAX; i++) {
		const struct document *d = &t->doc[i];

		if (strcmp(d->name, s->doc) != 0 || s->to > d->n_body || s->from > s->quote || s->quote > s->quote_end || s->quote_end > s->to)
			continue;
		str_clear(&text);
		text_on_one_line(d->text.p + d->body + s->quote, s->quote_end - s->quote, &text);
		if (!strcmp(text.p ? text.p : "", s->text))
			found = i;
	}
	str_free(&text);
	return found;
}

int sources_restore(struct conversation *t, const struct answer_sources *from)
{
	sources_forget(t);
	for (size_t i = 0; i < from->n && from->at[i].found && t->sources.n < SOURCES_MOST; i++) {
		const struct answer_source *s = &from->at[i];
		size_t doc = answer_source_document(t, s);

		if (doc == SIZE_MAX) {
			sources_forget(t);
			return 0;
		}
		t->sources.at = xrealloc(t->sources.at, (t->sources.n + 1) * sizeof *t->sources.at);
		t->sources.at[t->sources.n++] = (struct source){
			.doc = doc, .from = s->from, .to = s->to, .quote = s->quote, .quote_end = s->quote_end, .score = s->score,
			.chosen = s->sent && !t->doc[doc].whole,
		};
	}
	t->sources.found = t->sources.n > 0;
	return t->sources.found;
}

void answer_source_place(const struct answer_source *s, struct str *out)
{
	str_adds(out, s->doc);
	if (s->page)
		str_addf(out, ", page %s", s->page);
	if (s->heading)
		str_addf(out, ", \"%s\"", s->heading);
	if (s->line && s->last_line > s->line)
		str_addf(out, ", lines %zu-%zu", s->line, s->last_line);
	else if (s->line)
		str_addf(out, ", line %zu", s->line);
}

/* ---- for people ---- */

static void new_line(struct str *out)
{
	if (out->n)
		str_adds(out, "\n");
}

static void add_text(const char *text, size_t most, struct str *out)
{
	size_t n = strlen(text), shown = n > most ? utf8_complete(text, most) : n;

	if (n)   /* weir docs rm has emptied it */
		str_addf(out, ": \"%.*s%s\"", (int)shown, text, shown < n ? "..." : "");
}

void answer_found_lines(const struct answer_sources *list, struct str *out)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct answer_source *s = &list->at[i];

		if (!s->found)
			continue;
		new_line(out);
		str_addf(out, "[%zu] ", i + 1);
		answer_source_place(s, out);
		str_adds(out, s->sent ? "" : " (not sent to the model)");
		add_text(s->text, SIZE_MAX, out);
	}
}

void answer_attended_lines(const struct answer_sources *list, struct str *out)
{
	const char *head = "attention:";

	for (size_t i = 0; i < list->n; i++) {
		if (!list->at[i].found || list->at[i].share <= 0)
			continue;
		if (*head == 'a')
			new_line(out);
		str_addf(out, "%s [%zu] %.0f %%", head, i + 1, 100 * list->at[i].share);
		head = ",";
	}
	for (size_t i = 0; i < list->n; i++) {
		const struct answer_source *s = &list->at[i];

		if (s->found)
			continue;
		new_line(out);
		str_addf(out, "[%zu] ", i + 1);
		answer_source_place(s, out);
		if (s->share < 0)
			add_text(s->text, BEGINNING_MOST, out);
		else
			str_addf(out, ": %.0f %% of the attention", 100 * s->share);
	}
}

/* ---- JSON ---- */

static void range_json(const char *key, size_t from, size_t to, struct str *out)
{
	json_open(out, key, '[');
	json_uint(out, NULL, from);
	json_uint(out, NULL, to);
	json_close(out, ']');
}

void answer_sources_json(const struct answer_sources *list, struct str *out)
{
	json_open(out, "sources", '[');
	for (size_t i = 0; i < list->n; i++) {
		const struct answer_source *s = &list->at[i];

		json_open(out, NULL, '{');
		json_string(out, "doc", s->doc);
		place_json(&(struct document_place){.page = s->page, .heading = s->heading}, out);
		if (s->line)
			range_json("lines", s->line, s->last_line, out);
		range_json("bytes", s->from, s->to, out);
		range_json("quote", s->quote, s->quote_end, out);
		json_string(out, "text", s->text);
		if (s->found)
			json_real(out, "score", s->score, "%.4f");
		else
			json_null(out, "score");
		json_bool(out, "sent", s->sent);
		if (s->share < 0)
			json_null(out, "share");
		else
			json_real(out, "share", s->share, "%.4f");
		json_close(out, '}');
	}
	json_close(out, ']');
}

/* A string, or a number as it stands there; NULL: neither, or too long. */
static char *read_text(struct jv v)
{
	struct str s = {0};
	double number;

	if (v.p && (size_t)(v.end - v.p) <= STORED_MOST && jv_text(v, &s) < 0 && jv_number(v, &number) == 0)
		str_add(&s, v.p, (size_t)(v.end - v.p));
	return s.p;
}

static void read_range(struct jv v, size_t *from, size_t *to)
{
	struct jv it = {0};
	double number;
	size_t *out[2] = {from, to};

	for (int i = 0; i < 2 && jv_next(v, &it, NULL); i++)
		if (jv_number(it, &number) == 0 && number >= 0 && number <= DOC_BYTES_MAX)
			*out[i] = (size_t)number;
}

void answer_sources_read(struct jv list, struct answer_sources *out)
{
	struct jv it = {0};

	*out = (struct answer_sources){0};
	while (out->n < ANSWER_SOURCES_MOST && list.p && *list.p == '[' && jv_next(list, &it, NULL)) {
		struct jv sent = jv_get(it, "sent");
		struct answer_source s = {
			.doc = read_text(jv_get(it, "doc")), .page = read_text(jv_get(it, "page")), .heading = read_text(jv_get(it, "heading")),
			.text = read_text(jv_get(it, "text")), .sent = sent.p && *sent.p == 't', .share = -1,
		};

		read_range(jv_get(it, "lines"), &s.line, &s.last_line);
		read_range(jv_get(it, "bytes"), &s.from, &s.to);
		read_range(jv_get(it, "quote"), &s.quote, &s.quote_end);
		s.found = jv_number(jv_get(it, "score"), &s.score) == 0;
		jv_number(jv_get(it, "share"), &s.share);
		if (!s.doc || !s.text) {
			source_free(&s);
			continue;
		}
		out->at = xrealloc(out->at, (out->n + 1) * sizeof *out->at);
		out->at[out->n++] = s;
	}
}

void message_read_stats(int role, const char *stats, struct message *to)
{
	struct jv v = jv_parse(stats ? stats : "", stats ? strlen(stats) : 0);

	if (role == ROLE_USER)
		jv_text(jv_get(v, "context"), &to->context);
	else
		answer_sources_read(jv_get(v, "sources"), &to->sources);
}

void message_export_more(int role, const char *stats, int json, struct str *out)
{
	struct message m = {.role = ROLE_USER};

	message_read_stats(role, stats, &m);
	if (!json) {
		answer_found_lines(&m.sources, out);
		answer_attended_lines(&m.sources, out);
	} else if (role == ROLE_ASSISTANT) {
		answer_sources_json(&m.sources, out);
	} else if (m.context.n) {
		json_text(out, "context", m.context.p, m.context.n);
	}
	message_free(&m);
}
