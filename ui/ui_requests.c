/* ui/ui_requests.c - the list of requests for the application, and the work that the application reports. */
#include "ui/ui_private.h"
#include "ui/text/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* 1 if a new request of this kind replaces an earlier one that is still pending. */
static int only_newest(enum ui_what what)
{
	switch (what) {
	case UI_STOP:
	case UI_QUIT:
	case UI_SUSPEND:
	case UI_REPAINT:
	case UI_LIST:
	case UI_PREVIEW:
	case UI_FIND:
	case UI_PANEL:
	case UI_MOUSE:
	case UI_THEME: return 1;
	default: return 0;
	}
}

void todo_add(struct ui *u, enum ui_what what, const char *text, size_t n, int64_t id, int on)
{
	struct todo *t = NULL;

	for (size_t i = 0; only_newest(what) && i < u->n_todo && !t; i++)
		if (u->todo[i].what == what)
			t = &u->todo[i];
	if (!t) {
		GROW(u->todo, u->n_todo, u->cap_todo);
		t = &u->todo[u->n_todo++];
		memset(t, 0, sizeof *t);
	}
	t->what = what;
	t->id = id;
	t->on = on;
	str_clear(&t->text);
	if (n)
		str_add(&t->text, text, n);
}

int ui_working(const struct ui *u)
{
	return u->work.verb.n > 0 || u->begun;
}

int ui_closed(const struct ui *u)
{
	return u->begun || (u->work.verb.n > 0 && !u->work.open);
}

void ui_say(struct ui *u, const char *text)
{
	str_clear(&u->say);
	clean_line(text, strlen(text), &u->say);
	u->say_new = 1;
	u->dirty = 1;
}

void ui_sayf(struct ui *u, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	ui_say(u, text);
}
