/* app/conversation/reasoning.c - tells a model's reasoning from its answer (conversation.h). */
#include "app/conversation/conversation.h"

#include <string.h>


#define OPEN "<think>"
#define CLOSE "</think>"

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

/* Handle the bytes from held[0] on: returns how many were handled; 0 = more bytes are needed first. */
static size_t step(struct reasoning *t, const char *p, size_t n, struct str *out)
{
	size_t i = 0;
	int mark;

	if (!n)
		return 0;
	switch (t->at) {
	case REASONING_BEGIN:
		while (i < n && is_blank(p[i]))
			i++;
		if (i == n)
			return 0;
		mark = is_mark(p + i, n - i, OPEN);
		if (mark < 0)
			return 0;
		/* The reply's head has opened the reasoning, and the model repeats the mark. */
		if (mark > 0 || t->first) {
			t->at = REASONING_WITHIN;
			return mark > 0 ? i + strlen(OPEN) : i ? i : step(t, p, n, out);
		}
		t->at = REASONING_AFTER;
		return step(t, p, n, out);
	case REASONING_WITHIN:
		while (i < n && p[i] != '<')
			i++;
		if (i) {
			count(t, p, i);
			return i;
		}
		mark = is_mark(p, n, CLOSE);
		if (mark < 0)
			return 0;
		if (mark > 0) {
			t->at = REASONING_MARGIN;
			return strlen(CLOSE);
		}
		count(t, p, 1);
		return 1;
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
	memmove(t->held.p, t->held.p + at, t->held.n - at + 1);
	t->held.n -= at;
}

void reasoning_end(struct reasoning *t, struct str *out)
{
	if (t->held.n && t->at == REASONING_WITHIN)
		count(t, t->held.p, t->held.n);
	else if (t->held.n && t->at == REASONING_BEGIN && !t->first)
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
	str_adds(out, t->at == REASONING_WITHIN ? " and came to no answer" : " first");
}
