/* app/think.c - see think.h. */
#include "app/think.h"

#include <string.h>

#include "app/app.h"

#define OPEN "<think>"
#define CLOSE "</think>"

static int is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void think_free(struct think *t)
{
	str_free(&t->held);
	*t = (struct think){.first = t->first};
}

static void count(struct think *t, const char *p, size_t n)
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

/* At `at`, from held[0] on: how many bytes were dealt with; 0 = more must come first. */
static size_t step(struct think *t, const char *p, size_t n, struct str *out)
{
	size_t i = 0;
	int mark;

	if (!n)
		return 0;
	switch (t->at) {
	case THINK_BEGIN:
		while (i < n && is_blank(p[i]))
			i++;
		if (i == n)
			return 0;
		mark = is_mark(p + i, n - i, OPEN);
		if (mark < 0)
			return 0;
		/* A head that has opened it, and a model that says so once more. */
		if (mark > 0 || t->first) {
			t->at = THINK_WITHIN;
			return mark > 0 ? i + strlen(OPEN) : i ? i : step(t, p, n, out);
		}
		t->at = THINK_AFTER;
		return step(t, p, n, out);
	case THINK_WITHIN:
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
			t->at = THINK_MARGIN;
			return strlen(CLOSE);
		}
		count(t, p, 1);
		return 1;
	case THINK_MARGIN:
		while (i < n && is_blank(p[i]))
			i++;
		if (i < n)
			t->at = THINK_AFTER;
		return i ? i : step(t, p, n, out);
	case THINK_AFTER:
		break;
	}
	str_add(out, p, n);
	return n;
}

void think_feed(struct think *t, const char *text, size_t n, struct str *out)
{
	size_t at = 0, took;

	if (t->at == THINK_AFTER && !t->held.n) {
		str_add(out, text, n);
		return;
	}
	str_add(&t->held, text, n);
	while (at < t->held.n && (took = step(t, t->held.p + at, t->held.n - at, out)) > 0)
		at += took;
	memmove(t->held.p, t->held.p + at, t->held.n - at + 1);
	t->held.n -= at;
}

void think_end(struct think *t, struct str *out)
{
	if (t->held.n && t->at == THINK_WITHIN)
		count(t, t->held.p, t->held.n);
	else if (t->held.n && t->at == THINK_BEGIN && !t->first)
		str_add(out, t->held.p, t->held.n);
	str_clear(&t->held);
}

void think_describe(const struct think *t, struct str *out)
{
	if (!t->words)
		return;
	str_adds(out, "thought ");
	human_count(out, t->words);
	str_adds(out, t->words == 1 ? " word" : " words");
	str_adds(out, t->at == THINK_WITHIN ? " and came to no answer" : " first");
}
