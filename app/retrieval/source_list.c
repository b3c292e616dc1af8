/* app/retrieval/source_list.c - formats the list of an answer's sources as text or JSON, and parses the JSON
 * (retrieval.h). */
#include <stdlib.h>
#include <string.h>

#include "app/retrieval/retrieval_private.h"
#include "engine/base/utf8.h"

enum {
	/* number of bytes that are shown of a passage that is listed only because the answer attended to it, if the
	 * passage's share is unknown */
	BEGINNING_MOST = 80,
	STORED_MOST = 4000, /* maximum number of bytes of a stored JSON string; a longer string is ignored */
};

void answer_source_place(const struct answer_source *s, struct str *out)
{
	str_adds(out, s->doc);
	if (s->page)
		str_addf(out, ", page %s%s", s->page, s->recognised ? " (recognised)" : "");
	if (s->heading)
		str_addf(out, ", \"%s\"", s->heading);
	if (s->line && s->last_line > s->line)
		str_addf(out, ", lines %zu-%zu", s->line, s->last_line);
	else if (s->line)
		str_addf(out, ", line %zu", s->line);
}

/* ---- text ---- */

static void new_line(struct str *out)
{
	if (out->n)
		str_adds(out, "\n");
}

/* Append the text of a source in double quotes, with asterisks around the bytes that answer the question. */
static void add_marked(const struct answer_source *s, struct str *out)
{
	size_t n = strlen(s->text), from = MIN(s->mark, n), to = MAX(from, MIN(s->mark_end, n));

	if (!n) /* `weir docs rm` has emptied the text */
		return;
	/* a mark inside a character: the stored list is damaged */
	if (utf8_continues(s->text[from]) || utf8_continues(s->text[to]))
		to = from = 0;
	str_addf(out, ": \"%.*s", (int)from, s->text);
	str_addf(out, from < to ? "*%.*s*" : "%.*s", (int)(to - from), s->text + from);
	str_addf(out, "%s\"", s->text + to);
}

static void add_text(const char *text, size_t most, struct str *out)
{
	size_t n = strlen(text), shown = n > most ? utf8_complete(text, most) : n;

	if (n) /* the text is empty if `weir docs rm` has removed it */
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
		add_marked(s, out);
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
		document_place_json(&(struct document_place){ .page = s->page,
		                                              .heading = s->heading,
		                                              .recognised = s->recognised },
		                    out);
		if (s->line)
			range_json("lines", s->line, s->last_line, out);
		range_json("bytes", s->from, s->to, out);
		range_json("quote", s->quote, s->quote_end, out);
		json_string(out, "text", s->text);
		if (s->mark < s->mark_end)
			range_json("mark", s->mark, s->mark_end, out);
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

/* Return a copy of a JSON string, or of a number's digits; NULL if the value has another type or is too long. The
 * caller frees the copy. */
static char *read_text(struct jv v)
{
	struct str s = { 0 };
	double number;

	if (v.p && (size_t)(v.end - v.p) <= STORED_MOST && jv_text(v, &s) < 0 && jv_number(v, &number) == 0)
		str_add(&s, v.p, (size_t)(v.end - v.p));
	return s.p;
}

static void read_range(struct jv v, size_t *from, size_t *to)
{
	struct jv it = { 0 };
	double number;
	size_t *out[2] = { from, to };

	for (int i = 0; i < 2 && jv_next(v, &it, NULL); i++)
		if (jv_number(it, &number) == 0 && number >= 0 && number <= DOC_BYTES_MAX)
			*out[i] = (size_t)number;
}

void answer_sources_read(struct jv list, struct answer_sources *out)
{
	struct jv it = { 0 };

	*out = (struct answer_sources){ 0 };
	while (out->n < ANSWER_SOURCES_MOST && list.p && *list.p == '[' && jv_next(list, &it, NULL)) {
		struct jv sent = jv_get(it, "sent"), recognised = jv_get(it, "recognised");
		struct answer_source s = {
			.doc = read_text(jv_get(it, "doc")),
			.page = read_text(jv_get(it, "page")),
			.heading = read_text(jv_get(it, "heading")),
			.recognised = recognised.p && *recognised.p == 't',
			.text = read_text(jv_get(it, "text")),
			.sent = sent.p && *sent.p == 't',
			.share = -1,
		};

		read_range(jv_get(it, "lines"), &s.line, &s.last_line);
		read_range(jv_get(it, "bytes"), &s.from, &s.to);
		read_range(jv_get(it, "quote"), &s.quote, &s.quote_end);
		read_range(jv_get(it, "mark"), &s.mark, &s.mark_end);
		s.found = jv_number(jv_get(it, "score"), &s.score) == 0;
		jv_number(jv_get(it, "share"), &s.share);
		if (!s.doc || !s.text) {
			answer_source_free(&s);
			continue;
		}
		out->at = xrealloc(out->at, (out->n + 1) * sizeof *out->at);
		out->at[out->n++] = s;
	}
}
