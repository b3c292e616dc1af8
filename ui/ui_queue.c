/* ui/ui_queue.c - sends messages and commands; queues what cannot run before the current work ends. */
#include "ui/ui_private.h"
#include "ui/text/text.h"

#include <stdio.h>
#include <string.h>

void queue_remove(struct ui *u, size_t i)
{
	str_free(&u->queue[i]);
	u->n_queue--;
	memmove(&u->queue[i], &u->queue[i + 1], (u->n_queue - i) * sizeof u->queue[0]);
	memset(&u->queue[u->n_queue], 0, sizeof u->queue[0]);
}

static int in_words(const char *words, const char *word, size_t n)
{
	for (const char *w = words; *w;) {
		size_t len = strcspn(w, " ");
		if (len == n && !memcmp(w, word, n))
			return 1;
		w += len + strspn(w + len, " ");
	}
	return 0;
}

static size_t word_of(const char *text, size_t n)
{
	size_t word = 0;

	while (word < n && !strchr(" \t\n\r", text[word]))
		word++;
	return word;
}

/* 1 if the text begins with "/WORD". "//TEXT" is a message, and the path of a file ("/home/a.pdf") is not a command. */
static int is_command(const char *text, size_t n)
{
	return n > 1 && text[0] == '/' && !memchr(text + 1, '/', word_of(text, n) - 1);
}

const struct ui_command *command_of(const struct ui *u, const char *text, size_t n)
{
	size_t word = word_of(text, n);

	if (!is_command(text, n))
		return NULL;
	for (const struct ui_command *c = u->commands; c && c->name; c++)
		if (in_words(c->name, text, word) || in_words(c->aliases, text, word))
			return c;
	for (const struct ui_command *c = u->commands; c && c->name; c++)
		if (in_words(c->words, text, word))
			return c;
	return NULL;
}

static int runs_at_once(const struct ui_command *c, const char *text, size_t n)
{
	size_t word = word_of(text, n);

	while (word < n && strchr(" \t\n\r", text[word]))
		word++;
	return c->busy == BUSY_ALLOWED || (c->busy == BUSY_LOOKS && word == n);
}

static void draft_back(struct ui *u, const char *text, size_t n)
{
	input_set(text, n);
	u->focus = ON_LINE;
}

/* Send the text, or queue it until the current work ends. A refused text goes back into the input line. */
void ui_submit(struct ui *u, const char *text, size_t n)
{
	int busy = ui_closed(u) || u->n_queue, command = is_command(text, n);
	size_t i = 0;

	while (i < n && strchr(" \t\n\r", text[i]))
		i++;
	if (i == n)
		return;
	if (command && busy) {
		const struct ui_command *c = command_of(u, text, n);
		size_t word = word_of(text, n);
		struct str name = { 0 };

		clean_line(text, MIN(word, 40), &name);
		if (c && runs_at_once(c, text, n)) {
			todo_add(u, UI_SEND, text, n, 0, 0);
			str_free(&name);
			return;
		}
		if (!c || c->busy == BUSY_REFUSED) {
			draft_back(u, text, n);
			if (c)
				ui_sayf(u, "%s has to wait for the end of the answer; Esc stops it", name.p);
			else
				ui_sayf(u, "there is no command %s; F1 lists all", name.p);
		}
		str_free(&name);
		if (!c || c->busy == BUSY_REFUSED)
			return;
	}
	if (u->n_queue == QUEUE_MOST) {
		draft_back(u, text, n);
		ui_sayf(u, "the queue is full: %d messages", QUEUE_MOST);
		return;
	}
	str_add(&u->queue[u->n_queue++], text, n);
	str_clear(&u->say); /* remove the message in the status row, because it is no longer true */
	u->asked = command && !busy;
	if (command)
		return;
	if (paste_is_long(text, n))
		ui_sayf(u, "the message is folded to its first line; a click, or F6 and z, unfolds it");
	/* close the open pane, so that the user sees the answer in the transcript */
	if (u->pane)
		pane_close(u);
	if (!busy) {
		transcript_end_follow(u->transcript);
		u->moved = 1;
	}
}

void queue_lines(const struct ui *u, struct str *out)
{
	for (size_t i = 0; i < u->n_queue; i++) {
		str_adds(out, out->n ? "\n" : "");
		str_add(out, u->queue[i].p, u->queue[i].n);
	}
}

void ui_unsent(const struct ui *u, struct str *out)
{
	queue_lines(u, out);
	if (!input_empty()) {
		str_adds(out, out->n ? "\n" : "");
		input_whole(out);
	}
}

void ui_submit_command(struct ui *u, const char *command)
{
	struct str draft = { 0 };
	size_t n;
	const char *text = input_text(&n);

	/* ui_submit() puts a refused command into the input line: save the user's draft, and restore it afterwards. */
	str_add(&draft, text, n);
	ui_submit(u, command, strlen(command));
	input_restore(str_text(&draft));
	str_free(&draft);
}

void queue_draw(const struct ui *u, const struct area *a)
{
	struct str s = { 0 };

	for (int y = 0; y < a->h && (size_t)y < u->n_queue; y++) {
		size_t more = y == a->h - 1 ? u->n_queue - (size_t)a->h : 0;
		char tail[32] = "";
		int w = a->w, x;

		if (more)
			w -= snprintf(tail, sizeof tail, " +%zu more", more);
		str_clear(&s);
		clean_line(u->queue[y].p, u->queue[y].n < 2000 ? u->queue[y].n : 2000, &s);
		x = area_text(a, 0, y, ST_FAINT, "queued: ", 8);
		if (w > x)
			put_left(a, x, y, w - x, ST_FAINT, str_text(&s), s.n, u->ascii);
		if (more && w > 0)
			area_text(a, w, y, ST_FAINT, tail, strlen(tail));
	}
	str_free(&s);
}
