/* app/conversation/reasoning.c - separates a model's reasoning from its answer (conversation.h).
 *
 * There are two formats. In the first, reasoning is between an opening and a closing mark: <think> ... </think>. In the
 * second, the text consists of channels, each with a name and a text: channel "final" is the answer, the other channels
 * are reasoning. */
#include "app/conversation/conversation.h"
#include "engine/base/utf8.h"

#include <string.h>

enum {
	HEAD_BYTES = 200, /* maximum distance in bytes between the beginning of a channel and its text */
	MARK_BYTES = 32,  /* maximum number of bytes of a mark */
};

void reasoning_free(struct reasoning *t)
{
	str_free(&t->held);
	*t = (struct reasoning){ .first = t->first };
}

/* Count the words of the next n bytes of reasoning. */
static void words_count(struct reasoning *t, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int in = !byte_is_xml_blank(p[i]);

		t->words += in && !t->in_word;
		t->in_word = in;
	}
}

/* Compare p[0 .. n) with a mark. Returns 1 if p begins with the mark, -1 if p is a proper prefix of the mark, else
 * 0. */
static int is_mark(const char *p, size_t n, const char *mark)
{
	size_t len = strlen(mark);

	return memcmp(p, mark, MIN(n, len)) ? 0 : n < len ? -1 : 1;
}

/* Look for an opening mark. Returns 1 if p[0 .. n) begins with one, and sets *which to its index; -1 if p[0 .. n) is a
 * proper prefix of a mark; else 0. */
static int find_open(const char *p, size_t n, size_t *which)
{
	const struct reasoning_mark *m;
	int may = 0;

	for (size_t i = 0; (m = reasoning_mark_at(i)); i++) {
		int is = is_mark(p, n, m->open);

		if (is > 0) {
			*which = i;
			return 1;
		}
		may |= is < 0;
	}
	return -may;
}

/* Compare p[0 .. n) with the closing mark of reasoning. Returns the mark's number of bytes if p begins with it; -1 if p
 * is a proper prefix of it; else 0. `which` is the index of the opening mark. If it is negative, the opening mark is in
 * the prompt and unknown, so any closing mark counts. */
static int find_close(const char *p, size_t n, int which)
{
	const struct reasoning_mark *m;
	int may = 0;

	for (int i = 0; (m = reasoning_mark_at((size_t)i)); i++) {
		int is = which == i || (which < 0 && !reasoning_has_channels(m)) ? is_mark(p, n, m->close) : 0;

		if (is > 0)
			return (int)strlen(m->close);
		may |= is < 0;
	}
	return -may;
}

/* Parse the head of a channel: its name, and the mark before its text. Returns the number of bytes parsed; 0 = more
 * bytes are needed. If the mark does not come within HEAD_BYTES, the text counts as the answer. */
static size_t step_channel(struct reasoning *t, const char *p, size_t n)
{
	/* the limit is fixed, so that the result does not depend on where the pieces of the text end */
	size_t most = MIN(n, HEAD_BYTES);
	const char *end = memmem(p, most, CHANNEL_TEXT, sizeof CHANNEL_TEXT - 1);

	if (!end && n < HEAD_BYTES)
		return 0;
	t->in_word = 0;
	t->at = !end || !memcmp(p, "final", 5) ? REASONING_AFTER : REASONING_WITHIN;
	return end ? (size_t)(end - p) + sizeof CHANNEL_TEXT - 1 : most;
}

/* Parse the header after the text of a channel with reasoning: "<|start|>assistant<|channel|>". Returns the number of
 * bytes parsed; 0 = more bytes are needed. */
static size_t step_next(struct reasoning *t, const char *p, size_t n)
{
	size_t most = MIN(n, HEAD_BYTES);
	const char *mark = memmem(p, most, CHANNEL_MARK, sizeof CHANNEL_MARK - 1);

	if (!mark && n < HEAD_BYTES)
		return 0;
	t->at = mark ? REASONING_CHANNEL : REASONING_AFTER;
	return mark ? (size_t)(mark - p) + sizeof CHANNEL_MARK - 1 : most;
}

/* Parse bytes at p, and append the bytes of the answer to *out. Returns the number of bytes parsed; 0 = more bytes are
 * needed. */
static size_t reasoning_step(struct reasoning *t, const char *p, size_t n, struct str *out)
{
	size_t i = 0, which;
	int mark;

	if (!n)
		return 0;
	switch (t->at) {
	case REASONING_BEGIN:
		for (i = t->blanks; i < n && byte_is_xml_blank(p[i]); i++)
			t->blanks++;
		if (i == n)
			return 0;
		mark = find_open(p + i, n - i, &which);
		if (mark < 0)
			return 0;
		t->mark = mark > 0 ? (int)which : -1;
		/* Accept an opening mark even if the prompt already has it (t->first), because the model may
		 * repeat it. */
		if (mark > 0) {
			t->at = reasoning_has_channels(reasoning_mark_at(which)) ? REASONING_CHANNEL : REASONING_WITHIN;
			return i + strlen(reasoning_mark_at(which)->open);
		}
		t->at = t->first ? REASONING_WITHIN : REASONING_AFTER;
		return t->first && i ? i : reasoning_step(t, p, n, out);
	case REASONING_WITHIN:
		while (i < n && p[i] != '<' && p[i] != '[')
			i++;
		if (i) {
			words_count(t, p, i);
			return i;
		}
		mark = find_close(p, n, t->mark);
		if (mark < 0)
			return 0;
		if (mark > 0)
			t->at = t->mark >= 0 && reasoning_has_channels(reasoning_mark_at((size_t)t->mark))
			                ? REASONING_NEXT
			                : REASONING_MARGIN;
		else
			words_count(t, p, 1);
		return mark > 0 ? (size_t)mark : 1;
	case REASONING_CHANNEL: return step_channel(t, p, n);
	case REASONING_NEXT: return step_next(t, p, n);
	case REASONING_MARGIN:
		while (i < n && byte_is_xml_blank(p[i]))
			i++;
		if (i < n)
			t->at = REASONING_AFTER;
		return i ? i : reasoning_step(t, p, n, out);
	case REASONING_AFTER: break;
	}
	str_add(out, p, n);
	return n;
}

void reasoning_feed(struct reasoning *t, const char *text, size_t n, struct str *out)
{
	size_t at = 0, took;

	if (t->at == REASONING_AFTER && !t->held.n) {
		str_add(out, text, n);
		return;
	}
	str_add(&t->held, text, n);
	while (at < t->held.n && (took = reasoning_step(t, t->held.p + at, t->held.n - at, out)) > 0)
		at += took;
	if (!at)
		return;
	memmove(t->held.p, t->held.p + at, t->held.n - at + 1);
	t->held.n -= at;
}

void reasoning_end(struct reasoning *t, struct str *out)
{
	if (t->held.n && t->at == REASONING_WITHIN)
		words_count(t, t->held.p, t->held.n);
	else if (t->held.n && t->at == REASONING_BEGIN && !t->first) /* the held bytes belong to the answer */
		str_add(out, t->held.p, t->held.n);
	str_clear(&t->held);
}

void reasoning_describe(const struct reasoning *t, struct str *out)
{
	if (!t->words)
		return;
	str_adds(out, "reasoned for ");
	human_count(out, t->words);
	str_adds(out, t->words == 1 ? " word" : " words");
	str_adds(out, t->at == REASONING_WITHIN || t->at == REASONING_NEXT ? " and came to no answer" : " first");
}

size_t reasoning_length(const char *text, size_t n)
{
	size_t seen = 0;
	struct reasoning t = { .first = reasoning_unopened(text, n, 1, &seen) > 0 };
	struct str out = { 0 };
	size_t length;

	reasoning_feed(&t, text, n, &out);
	reasoning_end(&t, &out);
	length = n - out.n;
	reasoning_free(&t);
	str_free(&out);
	return length;
}

int reasoning_closed(const char *text)
{
	const char *open = NULL, *close = NULL, *at;
	const struct reasoning_mark *m;

	for (size_t i = 0; (m = reasoning_mark_at(i)); i++) {
		at = strstr(text, m->open);
		open = at && (!open || at < open) ? at : open;
		at = strstr(text, m->close);
		close = at && (!close || at < close) ? at : close;
	}
	return !close ? 0 : !open || open > close ? 1 : -1;
}

/* ---- reasoning without an opening mark ---- */

/* Find the first mark in p[from .. n): a closing mark if `closes` is 1, an opening mark if it is 0. Marks of channels
 * do not count. *len receives the number of bytes of the mark. Returns NULL if there is none. */
static const char *find_mark(const char *p, size_t from, size_t n, int closes, size_t *len)
{
	const char *first = NULL;
	const struct reasoning_mark *m;

	for (size_t i = 0; (m = reasoning_mark_at(i)); i++) {
		const char *mark = closes ? m->close : m->open, *at;

		if (reasoning_has_channels(m))
			continue;
		at = memmem(p + from,
		            (first ? (size_t)(first - p) + MARK_BYTES < n ? (size_t)(first - p) + MARK_BYTES : n : n) -
		                    from,
		            mark, strlen(mark));
		if (at && (!first || at < first)) {
			first = at;
			*len = strlen(mark);
		}
	}
	return first;
}

/* 1 if p[at] is in Markdown code: in a fenced block or between backticks. */
static int is_in_code(const char *p, size_t at)
{
	int fenced = 0, ticks = 0;

	for (size_t i = 0, line = 0; i < at; i++) {
		if (i == line) {
			size_t k = i;

			while (k < at && k - i < 3 && p[k] == ' ')
				k++;
			fenced ^= at - k >= 3 && (!memcmp(p + k, "```", 3) || !memcmp(p + k, "~~~", 3));
		}
		ticks += p[i] == '`';
		if (p[i] == '\n') {
			line = i + 1;
			ticks = 0;
		}
	}
	return fenced || ticks & 1;
}

/* 1 if p[0 .. n) ends with one of the items of `list`, which are separated by spaces. */
static int ends_with_item(const char *p, size_t n, const char *list)
{
	for (const char *w = list; *w; w += strspn(w, " ")) {
		size_t k = strcspn(w, " ");

		if (n >= k && !memcmp(p + n - k, w, k))
			return 1;
		w += k;
	}
	return 0;
}

/* 1 if the closing mark p[at .. end) of text p[0 .. n) ends reasoning; 0 if the text only mentions the mark. The mark
 * ends reasoning if it stands alone on its line, or if it follows a word or a sentence and the answer begins after it.
 * The text only mentions the mark if it is in quotes, or if its sentence continues after it. */
static int ends_reasoning(const char *p, size_t at, size_t end, size_t n)
{
	static const char stops[] = ". ! ? ) … 。 ！ ？", opens[] = "( [ { < “ „ ‘ « 「", wraps[] = "\" ' * _ ~";
	size_t line = at, text, next = end;
	int own, stopped, glued, newlines = 0;
	char c;

	while (line && p[line - 1] != '\n')
		line--;
	for (text = at; text > line && (p[text - 1] == ' ' || p[text - 1] == '\t'); text--)
		;
	own = text == line;
	glued = text == at && !own;
	while (own && text && byte_is_xml_blank(p[text - 1]))
		text--;
	stopped = own || ends_with_item(p, text, stops);
	while (next < n && byte_is_xml_blank(p[next]))
		newlines += p[next++] == '\n';
	c = next < n ? p[next] : 0;
	if (own && (at - line > 3 || (text && p[text - 1] == ':')))
		return 0;
	if (!own && !glued && !stopped)
		return 0;
	if (glued && (ends_with_item(p, text, opens) || (!newlines && c && ends_with_item(p, text, wraps))))
		return 0;
	if (!c || newlines > 1)
		return 1;
	if (newlines)
		return !own || !byte_is_lower(c);
	return !strchr(".,;:!?)]}'\"", c) && (!byte_is_lower(c) || (stopped && next == end)) &&
	       !(c & 0x80 && next + 3 <= n && ends_with_item(p, next + 3, "” ’ 」"));
}

size_t reasoning_unopened(const char *text, size_t n, int whole, size_t *seen)
{
	size_t len = 0, at, end;
	const char *mark = *seen < n ? find_mark(text, *seen, n, 1, &len) : NULL;

	if (*seen >= n) /* there is no new text, or an earlier call has ended the search by *seen = SIZE_MAX */
		return 0;
	if (!mark) {
		if (n - *seen > MARK_BYTES)
			*seen = n - MARK_BYTES;
		return 0;
	}
	at = (size_t)(mark - text);
	end = at + len;
	*seen = at;
	if (!whole && n - end < 4) /* ends_reasoning() needs the text after the mark */
		return 0;
	*seen = SIZE_MAX;
	if (find_mark(text, 0, at, 0, &len) || find_mark(text, end, n, 0, &len) || find_mark(text, end, n, 1, &len) ||
	    is_in_code(text, at) || !ends_reasoning(text, at, end, n))
		return 0;
	return end;
}
