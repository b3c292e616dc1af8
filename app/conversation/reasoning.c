/* app/conversation/reasoning.c - tells a model's reasoning from its answer (conversation.h). */
#include "app/conversation/conversation.h"

#include <string.h>

enum { HEAD_BYTES = 200 };   /* of what names a channel, at most */

static int is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void reasoning_free(struct reasoning *t)
{
	str_free(&t->held);
	*t = (struct reasoning){.first = t->first};
}

static void count(struct reasoning *t, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int in = !is_blank(p[i]);

		t->words += in && !t->in_word;
		t->in_word = in;
	}
}

/* Does p[0 .. n) begin with the mark (1), might it when more comes (-1), or not (0)? */
static int is_mark(const char *p, size_t n, const char *mark)
{
	size_t len = strlen(mark);

	return memcmp(p, mark, n < len ? n : len) ? 0 : n < len ? -1 : 1;
}

/* Which opening mark p[0 .. n) begins with: *which, and 1; -1: one might be there when more comes; 0: none. */
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

/* The same of the mark that closes mark `which`; which < 0: the reply's head has opened the reasoning, with a mark that is not known.  Returns
 * the mark's bytes, -1, or 0. */
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

/* The name of a channel, up to the mark in front of its text: "final" is the answer. */
static size_t step_channel(struct reasoning *t, const char *p, size_t n)
{
	const char *end = memmem(p, n, CHANNEL_TEXT, sizeof CHANNEL_TEXT - 1);

	if (!end && n < HEAD_BYTES)
		return 0;
	t->in_word = 0;
	t->at = !end || !memcmp(p, "final", 5) ? REASONING_AFTER : REASONING_WITHIN;
	return end ? (size_t)(end - p) + sizeof CHANNEL_TEXT - 1 : n;
}

/* Behind a channel: the head of the next one, as "<|start|>assistant<|channel|>". */
static size_t step_next(struct reasoning *t, const char *p, size_t n)
{
	const char *mark = memmem(p, n, CHANNEL_MARK, sizeof CHANNEL_MARK - 1);

	if (!mark && n < HEAD_BYTES)
		return 0;
	t->at = mark ? REASONING_CHANNEL : REASONING_AFTER;
	return mark ? (size_t)(mark - p) + sizeof CHANNEL_MARK - 1 : n;
}

/* Handle the bytes from held[0] on: returns how many were handled; 0 = more bytes are needed first. */
static size_t step(struct reasoning *t, const char *p, size_t n, struct str *out)
{
	size_t i = 0, which;
	int mark;

	if (!n)
		return 0;
	switch (t->at) {
	case REASONING_BEGIN:
		for (i = t->blanks; i < n && is_blank(p[i]); i++)
			t->blanks++;
		if (i == n)
			return 0;
		mark = find_open(p + i, n - i, &which);
		if (mark < 0)
			return 0;
		t->mark = mark > 0 ? (int)which : -1;
		if (mark > 0) {   /* also where the reply's head has opened the reasoning, and the model repeats the mark */
			t->at = reasoning_has_channels(reasoning_mark_at(which)) ? REASONING_CHANNEL : REASONING_WITHIN;
			return i + strlen(reasoning_mark_at(which)->open);
		}
		t->at = t->first ? REASONING_WITHIN : REASONING_AFTER;
		return t->first && i ? i : step(t, p, n, out);
	case REASONING_WITHIN:
		while (i < n && p[i] != '<' && p[i] != '[')
			i++;
		if (i) {
			count(t, p, i);
			return i;
		}
		mark = find_close(p, n, t->mark);
		if (mark < 0)
			return 0;
		if (mark > 0)
			t->at = t->mark >= 0 && reasoning_has_channels(reasoning_mark_at((size_t)t->mark)) ? REASONING_NEXT : REASONING_MARGIN;
		else
			count(t, p, 1);
		return mark > 0 ? (size_t)mark : 1;
	case REASONING_CHANNEL:
		return step_channel(t, p, n);
	case REASONING_NEXT:
		return step_next(t, p, n);
	case REASONING_MARGIN:
		while (i < n && is_blank(p[i]))
			i++;
		if (i < n)
			t->at = REASONING_AFTER;
		return i ? i : step(t, p, n, out);
	case REASONING_AFTER:
		break;
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
	while (at < t->held.n && (took = step(t, t->held.p + at, t->held.n - at, out)) > 0)
		at += took;
	if (!at)
		return;
	memmove(t->held.p, t->held.p + at, t->held.n - at + 1);
	t->held.n -= at;
}

void reasoning_end(struct reasoning *t, struct str *out)
{
	if (t->held.n && t->at == REASONING_WITHIN)
		count(t, t->held.p, t->held.n);
	else if (t->held.n && t->at == REASONING_BEGIN && !t->first)   /* no mark, only its beginning */
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
	struct reasoning t = {.first = 0};
	struct str out = {0};
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
