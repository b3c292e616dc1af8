/* ui/ui_post.c - takes what the application posts: messages, progress, status, documents, sessions, cache figures. */
#include "ui/ui_private.h"
#include "ui/text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the transcript ---- */

void ui_clear(struct ui *u)
{
	transcript_clear(u->transcript);
	if (u->searching || u->pattern.text.n) {
		ui_search_off(u);
	}
	str_clear(&u->last_question);
	documents_pane_sources(u->panes[DOCUMENTS], NULL, 0);
	u->has_mark = 0;
	u->fresh = u->below = 0;
	u->dirty = 1;
}

/* A pane covers the transcript: show an error, and what a typed command answers, in the status row, too. If the command
 * answers more than one line, close the pane. A notice that begins with a slash is the command itself. */
static void say_over_pane(struct ui *u, enum ui_role role, const char *text, size_t n)
{
	int answers = u->asked && (role == UI_ERROR || (role == UI_NOTICE && n && *text != '/'));

	if (answers && (u->say.n || (int)n > u->w - 2 || memchr(text, '\n', n))) {
		pane_close(u);
		str_clear(&u->say);
	} else if (answers || role == UI_ERROR) {
		ui_sayf(u, "%.*s", (int)(MIN(n, 200)), text);
	}
}

size_t ui_entry(struct ui *u, enum ui_role role, const char *text, size_t n)
{
	size_t i;

	if (role == UI_USER) {
		str_clear(&u->last_question);
		if (n)
			str_add(&u->last_question, text, n);
	}
	if (u->asked && (role == UI_NOTICE || role == UI_ERROR)) {
		transcript_end_follow(u->transcript);
		u->moved = 1;
	}
	if (u->pane != NO_PANE)
		say_over_pane(u, role, text, n);
	i = transcript_add(u->transcript, role, text, n);
	/* Fold a long pasted message, which the input line also showed folded ("[pasted 123 lines]"). */
	if (role == UI_USER && paste_is_long(text, n))
		transcript_fold_last(u->transcript);
	return i;
}

void ui_piece(struct ui *u, const char *bytes, size_t n)
{
	if (transcript_count(u->transcript))
		transcript_append(u->transcript, bytes, n);
}

void ui_entry_end(struct ui *u, const char *note)
{
	if (transcript_count(u->transcript))
		transcript_end(u->transcript, note);
}

void ui_text(struct ui *u, size_t at, int begins)
{
	transcript_text(u->transcript, at, begins);
}

void ui_text_lens(struct ui *u, size_t from, const struct ui_span *span, size_t n)
{
	transcript_text_lens(u->transcript, from, span, n);
}

void ui_text_heat(struct ui *u, size_t from, const struct ui_span *span, size_t n)
{
	transcript_text_heat(u->transcript, from, span, n);
}

void ui_underline(struct ui *u, const char *words)
{
	transcript_underline(u->transcript, words);
}

void ui_cut(struct ui *u, size_t n)
{
	transcript_cut(u->transcript, n);
	u->has_mark = 0;
	u->dirty = 1;
}

void ui_messages_end(struct ui *u, size_t n)
{
	transcript_messages_end(u->transcript, n);
}

void ui_lens(struct ui *u, int which, const struct ui_span *span, size_t n)
{
	if (which >= 0) {
		transcript_lens(u->transcript, (size_t)which, span, n);
	} else {
		documents_pane_lens(u->panes[DOCUMENTS], (size_t)(-1 - (int64_t)which), span, n);
		u->dirty |= u->pane == DOCUMENTS;
	}
}

/* ---- beside the transcript ---- */

static void clean_into(struct str *out, const char *text)
{
	str_clear(out);
	if (text)
		clean_line(text, strlen(text), out);
}

/* 1 if the texts are equal. Used to avoid drawing after a post that changes nothing. */
static int same_text(const struct str *a, const struct str *b)
{
	return a->n == b->n && (!a->n || !memcmp(a->p, b->p, a->n));
}

void ui_work(struct ui *u, const struct ui_work *w)
{
	struct str before = { 0 }, after = { 0 };

	u->dirty |= u->begun;
	u->begun = 0;
	status_work(u, 0, &before);
	clean_into(&u->work.verb, w ? w->verb : NULL);
	u->work.open = w && w->open;
	if (u->work.verb.n) {
		u->work.total = MAX(w->total, 0);
		u->work.done = w->done < 0 ? 0 : MIN(u->work.total, w->done);
		u->work.had = w->had;
		u->work.tps = w->tps;
		u->work.left = w->left;
	}
	status_work(u, 0, &after);
	if (!same_text(&before, &after))
		u->dirty = 1;
	str_free(&before);
	str_free(&after);
	ui_lay_out(u);
}

static int change(struct str *s, const char *text, const char *instead)
{
	struct str clean = { 0 };
	int changed;

	clean_into(&clean, text && *text ? text : instead);
	changed = !same_text(&clean, s);
	str_free(s);
	*s = clean;
	return changed;
}

void ui_status(struct ui *u, const struct ui_status *s)
{
	int changed = !u->has_status || s->seen != u->status.seen || s->kept != u->status.kept ||
	              s->ctx != u->status.ctx || s->evicted != u->status.evicted || s->thinned != u->status.thinned ||
	              s->tps != u->status.tps || s->memory >> 20 != u->status.memory;

	changed |= change(&u->status.model, s->model, "");
	changed |= change(&u->status.session, s->session, s->session ? "new" : "private");
	changed |= change(&u->status.kv, s->kv, "");
	u->status.seen = s->seen;
	u->status.kept = s->kept;
	u->status.ctx = s->ctx;
	u->status.evicted = s->evicted;
	u->status.thinned = s->thinned;
	u->status.tps = s->tps;
	u->status.memory = s->memory >> 20; /* in MiB, because the number of bytes changes all the time */
	u->has_status = 1;
	u->dirty |= changed;
}

void ui_documents(struct ui *u, const struct ui_document *d, size_t n)
{
	documents_pane_post(u->panes[DOCUMENTS], d, n);
	palette_pane_documents(u->panes[PALETTE], d, n);
	u->dirty |= u->pane == DOCUMENTS || u->pane == PALETTE || n != u->n_document;
	u->n_document = n;
}

void ui_sources(struct ui *u, size_t question, const struct ui_source *s, size_t n)
{
	n = MIN(n, UI_SOURCES);
	transcript_sources(u->transcript, question, s, n);
	u->next_source = 0;
	documents_pane_sources(u->panes[DOCUMENTS], s, n);
	u->dirty = 1; /* redraw the hint of F7 */
}

void ui_sessions(struct ui *u, const struct ui_session *s, size_t n, int64_t now)
{
	const char **names = xcalloc(n + 1, sizeof *names);
	size_t n_names = 0;
	int found = 0;

	for (size_t i = 0; i < n; i++) {
		found |= s[i].snippet && *s[i].snippet;
		if (s[i].name && *s[i].name)
			names[n_names++] = s[i].name;
	}
	/* a search result has only some of the sessions, so the names for completion stay those of the last full
	 * list */
	if (!found)
		input_names(names, n_names);
	free(names);
	if (!found)
		palette_pane_sessions(u->panes[PALETTE], s, n);
	sessions_pane_post(u->panes[SESSIONS], s, n, now);
	u->dirty |= u->pane == SESSIONS || u->pane == PALETTE;
}

void ui_preview(struct ui *u, int64_t id, const char *text, size_t n)
{
	sessions_pane_preview(u->panes[SESSIONS], id, text, n);
	u->dirty |= u->pane == SESSIONS;
}

void ui_draft(struct ui *u, const char *text, size_t n)
{
	if (!input_empty())
		input_abandon();
	input_set(text, n);
	u->focus = ON_LINE;
	u->dirty = 1;
	ui_lay_out(u);
}

void ui_cache(struct ui *u, const struct ui_cache *c)
{
	cache_pane_post(u->panes[CACHE], c);
	ui_lay_out(u);
	u->dirty |= panel_seen(u) > 0;
}
