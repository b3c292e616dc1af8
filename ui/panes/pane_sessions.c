/* ui/panes/pane_sessions.c - the sessions pane: the list of sessions, filtered while typing.
 *
 * The first row is the filter. Its words must occur in a session's name, title or model; "/WORDS" searches in all
 * messages (UI_FIND). Below are the sessions, one per row, with these columns: "*" for the current session; name or
 * title; age; number of tokens; bytes of saved KV entries; and how long the session's prefill would take. Tab shows the
 * last messages of the chosen session.
 *
 * The chosen session is stored by its id, so that it stays chosen when the list or the filter changes. */
#include "ui/panes/pane_sessions.h"
#include "ui/text/text.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_MOST = 256, SNIPPET_MOST = 1024, PREVIEW_MOST = 64 << 10 };

/* Copy no more than `most` bytes of a text, as one line without control characters. */
static void take_line(struct str *out, const char *text, size_t most)
{
	str_clear(out);
	if (!text)
		return;
	clean_line(text, strnlen(text, most), out);
}

static struct pane *sessions_pane_create(const struct ui_options *o)
{
	struct sessions_pane *p = xcalloc(1, sizeof *p);

	p->pane.ops = &sessions_pane;
	p->ascii = o->ascii;
	p->rows = 10;
	p->item = 1;
	p->opened = 1;
	p->chosen_id = p->preview_asked = p->deleted_id = p->renamed_id = NOBODY;
	return &p->pane;
}

static void rows_free(struct sessions_pane *p)
{
	for (size_t i = 0; i < p->n_row; i++) {
		str_free(&p->row[i].name);
		str_free(&p->row[i].title);
		str_free(&p->row[i].model);
		str_free(&p->row[i].snippet);
	}
	free(p->row);
	free(p->shown);
	p->row = NULL;
	p->shown = NULL;
	p->n_row = p->list.n = 0;
}

static void sessions_pane_release(struct pane *pane)
{
	struct sessions_pane *p = (struct sessions_pane *)pane;

	rows_free(p);
	edit_free(&p->filter);
	edit_free(&p->rename);
	str_free(&p->asked);
	str_free(&p->deleted);
	str_free(&p->preview_text);
	str_free(&p->out);
	lines_free(&p->lines);
	free(p);
}

/* ---- the filter ---- */

const char *sessions_find_words(const struct sessions_pane *p, size_t *n)
{
	const char *s = p->filter.text.p;
	size_t from = 1, end = p->filter.text.n;

	if (!end || s[0] != '/')
		return NULL;
	while (from < end && s[from] == ' ')
		from++;
	while (end > from && s[end - 1] == ' ')
		end--;
	*n = end - from;
	return s + from;
}

const struct session_row *sessions_chosen(const struct sessions_pane *p)
{
	return p->list.chosen < p->list.n ? &p->row[p->shown[p->list.chosen]] : NULL;
}

static int str_contains(const struct str *s, const char *word, size_t n)
{
	size_t len;

	return s->n && words_find(s->p, s->n, 0, word, n, 1, &len) != SIZE_MAX;
}

/* 1 if name, title or model contain each word of the filter. */
static int passes_filter(const struct session_row *t, const char *words, size_t n)
{
	for (size_t i = 0, end; i < n; i = end) {
		while (i < n && words[i] == ' ')
			i++;
		for (end = i; end < n && words[end] != ' ';)
			end++;
		if (end > i && !str_contains(&t->name, words + i, end - i) &&
		    !str_contains(&t->title, words + i, end - i) && !str_contains(&t->model, words + i, end - i))
			return 0;
	}
	return 1;
}

/* Apply the filter. If the chosen session does not pass the filter, choose the first session that does. */
static void sessions_filter(struct sessions_pane *p)
{
	struct str words = { 0 };
	int found = 0;

	/* if the list has the results of a search, or if the user is typing the words of a search after "/", show all
	 * its sessions: leave `words` empty */
	if (!p->finding && !(p->filter.text.n && p->filter.text.p[0] == '/'))
		for (size_t i = 0, len; i < p->filter.text.n; i += len) {
			int32_t cp;
			char out[4];
			len = (size_t)utf8_decode(p->filter.text.p + i, p->filter.text.n - i, &cp);
			str_add(&words, out, (size_t)utf8_encode(fold_case(cp), out));
		}
	p->list.n = 0;
	for (size_t i = 0; i < p->n_row; i++) {
		if (p->row[i].is.id != p->renamed_id && !passes_filter(&p->row[i], str_text(&words), words.n))
			continue;
		if (!found && p->row[i].is.id == p->chosen_id) {
			p->list.chosen = p->list.n;
			found = 1;
		}
		p->shown[p->list.n++] = i;
	}
	if (!found)
		p->list.chosen = 0;
	list_move(&p->list, 0);
	if (sessions_chosen(p))
		p->chosen_id = sessions_chosen(p)->is.id;
	str_free(&words);
}

static enum pane_key sessions_pane_open(struct pane *pane, struct ui_action *out)
{
	struct sessions_pane *p = (struct sessions_pane *)pane;

	edit_set(&p->filter, "", 0);
	p->mode = PICK;
	p->finding = p->preview = p->preview_there = 0;
	p->preview_asked = p->renamed_id = NOBODY;
	p->opened = 1;
	p->list.top = 0;
	p->chosen_id = NOBODY;
	for (size_t i = 0; i < p->n_row; i++)
		if (p->row[i].is.here)
			p->chosen_id = p->row[i].is.id;
	sessions_filter(p);
	out->what = UI_LIST;
	return PANE_ACTION;
}

/* ---- posted sessions ---- */

/* Remove the control characters of a snippet, but keep the marks around matches. */
static void take_snippet(struct str *out, const char *text)
{
	size_t n = text ? strnlen(text, SNIPPET_MOST) : 0;

	str_clear(out);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && text[end] != FOUND_ON && text[end] != FOUND_OFF;)
			end++;
		clean_line(text + i, end - i, out);
		if (end < n)
			str_add(out, &text[end++], 1);
	}
}

static void rename_open(struct sessions_pane *p, const struct session_row *t)
{
	const struct str *name = t->name.n ? &t->name : &t->title;

	edit_set(&p->rename, str_text(name), name->n);
	p->mode = RENAME;
}

/* Return the largest id in the list. It belongs to the newest session, because each new session gets a larger id. */
static int64_t newest_id(const struct sessions_pane *p)
{
	int64_t id = 1;

	for (size_t i = 0; i < p->n_row; i++)
		id = p->row[i].is.id > id ? p->row[i].is.id : id;
	return id;
}

void sessions_pane_post(struct pane *pane, const struct ui_session *s, size_t n, int64_t now)
{
	struct sessions_pane *p = (struct sessions_pane *)pane;
	int64_t asked = p->chosen_id;
	int copied;

	rows_free(p);
	p->now = now;
	p->row = xcalloc(n ? n : 1, sizeof *p->row);
	p->shown = xcalloc(n ? n : 1, sizeof *p->shown);
	p->n_row = n;
	for (size_t i = 0; i < n; i++) {
		struct session_row *t = &p->row[i];

		t->is = s[i];
		t->is.name = t->is.title = t->is.model = t->is.snippet = NULL;
		take_line(&t->name, s[i].name, NAME_MOST);
		take_line(&t->title, s[i].title, NAME_MOST);
		take_line(&t->model, s[i].model, NAME_MOST);
		take_snippet(&t->snippet, s[i].snippet);
		if (p->opened && s[i].here)
			p->chosen_id = s[i].id;
	}
	p->opened = 0;
	/* the fork that was requested is now in the list: choose it, and ask for its name, because it still has the
	 * name of the original */
	if ((copied = p->forked && p->mode == PICK && newest_id(p) > p->forked)) {
		p->chosen_id = newest_id(p);
		p->forked = 0;
	}
	sessions_filter(p);
	if (copied && sessions_chosen(p) && sessions_chosen(p)->is.id == p->chosen_id) {
		asked = p->chosen_id;
		rename_open(p, sessions_chosen(p));
	}
	/* Cancel the open question if its session is no longer in the list. */
	if (p->mode != PICK && (!sessions_chosen(p) || sessions_chosen(p)->is.id != asked))
		p->mode = PICK;
}

void sessions_pane_preview(struct pane *pane, int64_t id, const char *text, size_t n)
{
	struct sessions_pane *p = (struct sessions_pane *)pane;
	struct clean c;
	size_t from = n > PREVIEW_MOST ? n - PREVIEW_MOST : 0;

	str_clear(&p->preview_text);
	clean_init(&c, 0);
	clean_text(&c, text, 0, &p->preview_text);
	if (n)
		clean_text(&c, text + from, n - from, &p->preview_text);
	clean_end(&c, &p->preview_text);
	p->preview_id = id;
	p->preview_there = 1;
	p->lines_w = 0;
}

static void sessions_pane_draw(struct pane *pane, const struct area *a)
{
	sessions_draw((struct sessions_pane *)pane, a);
}

/* ---- keys ---- */

static enum pane_key make_action(const struct sessions_pane *p, struct ui_action *out, enum ui_what what)
{
	memset(out, 0, sizeof *out);
	out->what = what;
	out->id = p->chosen_id;
	out->text = "";
	return PANE_ACTION;
}

/* If the preview is shown and the chosen session has changed, request the preview of that session. */
static enum pane_key want_preview(struct sessions_pane *p, struct ui_action *out)
{
	const struct session_row *t = sessions_chosen(p);

	if (!p->preview || !t || p->preview_asked == t->is.id)
		return PANE_USED;
	p->preview_asked = t->is.id;
	return make_action(p, out, UI_PREVIEW);
}

/* Apply a changed filter. If it no longer begins with "/", drop the search results and request all sessions. */
static enum pane_key filter_changed(struct sessions_pane *p, struct ui_action *out)
{
	size_t n;

	p->renamed_id = NOBODY;
	if (p->finding && !sessions_find_words(p, &n)) {
		p->finding = 0;
		str_clear(&p->asked);
		sessions_filter(p);
		return make_action(p, out, UI_LIST);
	}
	sessions_filter(p);
	return want_preview(p, out);
}

/* Request UI_FIND for the words after "/", unless their results are shown already. */
static enum pane_key find_action(struct sessions_pane *p, struct ui_action *out)
{
	size_t n;
	const char *words = sessions_find_words(p, &n);

	if (!words || !n || (p->finding && p->asked.n == n && !memcmp(p->asked.p, words, n)))
		return PANE_NOT_MINE;
	str_clear(&p->asked);
	str_add(&p->asked, words, n);
	p->finding = 1;
	make_action(p, out, UI_FIND);
	out->text = p->asked.p;
	out->n = p->asked.n;
	return PANE_ACTION;
}

static enum pane_key pause_typing(struct pane *pane, struct ui_action *out)
{
	struct sessions_pane *p = (struct sessions_pane *)pane;
	enum pane_key did = p->mode == PICK ? find_action(p, out) : PANE_NOT_MINE;

	/* A new list may have changed the chosen session: request its preview. */
	if (did == PANE_NOT_MINE && want_preview(p, out) == PANE_ACTION)
		did = PANE_ACTION;
	return did;
}

/* 1 for Esc, Ctrl-C and Ctrl-G. */
static int key_cancels(const struct key *k)
{
	return k->code == K_ESC || (k->code == K_CHAR && (k->mods & KEY_CTRL) && (k->cp == 'c' || k->cp == 'g'));
}

static enum pane_key rename_key(struct sessions_pane *p, const struct key *k, struct ui_action *out)
{
	size_t from = 0, end = p->rename.text.n;

	if (key_cancels(k)) {
		p->mode = PICK;
		return PANE_USED;
	}
	if (k->code == K_ENTER) {
		const char *s = p->rename.text.p;

		p->mode = PICK;
		while (from < end && s[from] == ' ')
			from++;
		while (end > from && s[end - 1] == ' ')
			end--;
		if (from == end) {
			p->pane.say = "a name needs a letter: the old one stays";
			return PANE_USED;
		}
		str_clear(&p->out);
		str_add(&p->out, s + from, end - from);
		p->renamed_id = p->chosen_id;
		make_action(p, out, UI_RENAME);
		out->text = p->out.p;
		out->n = p->out.n;
		return PANE_ACTION;
	}
	edit_key(&p->rename, k);
	return PANE_USED;
}

static enum pane_key delete_key(struct sessions_pane *p, const struct key *k, struct ui_action *out)
{
	/* only y deletes the session; any other key means no, and the status row says so */
	const struct session_row *t = sessions_chosen(p);
	const struct str *name = t && t->name.n ? &t->name : t ? &t->title : NULL;

	int was_asked = p->asked_from_outside;

	p->mode = PICK;
	p->asked_from_outside = 0;
	if (k->code != K_CHAR || k->mods & (KEY_CTRL | KEY_ALT) || (k->cp != 'y' && k->cp != 'Y') || !t) {
		p->pane.say = "nothing is deleted: only y deletes";
		/* close the pane if a command opened it for this question */
		return was_asked ? PANE_CLOSE : PANE_USED;
	}
	p->deleted_id = t->is.id;
	str_clear(&p->deleted);
	if (name->n)
		str_add(&p->deleted, name->p, name->n);
	else
		str_adds(&p->deleted, "the empty session");
	return make_action(p, out, UI_DELETE);
}

static enum pane_key taken_key(struct sessions_pane *p, const struct key *k, struct ui_action *out)
{
	int32_t letter = k->code == K_CHAR && !(k->mods & (KEY_CTRL | KEY_ALT)) ? k->cp | 32 : 0;

	if (letter != 'r' && letter != 'w' && !key_cancels(k)) {
		p->pane.say = "r reads the session, w waits for it, Esc goes back to the list";
		return PANE_USED;
	}
	p->mode = PICK;
	if (key_cancels(k))
		return PANE_USED;
	make_action(p, out, UI_SWITCH);
	out->text = letter == 'w' ? "wait" : "";
	out->n = strlen(out->text);
	return PANE_ACTION;
}

void sessions_pane_undo_over(struct pane *pane)
{
	struct sessions_pane *p = (struct sessions_pane *)pane;

	p->deleted_id = NOBODY;
}

void sessions_pane_ask(struct pane *pane, int64_t id)
{
	struct sessions_pane *p = (struct sessions_pane *)pane;

	edit_set(&p->filter, "", 0);
	p->finding = 0;
	p->chosen_id = id;
	sessions_filter(p);
	if (sessions_chosen(p) && sessions_chosen(p)->is.id == id)
		p->mode = DELETE;
	p->asked_from_outside = p->mode == DELETE;
}

/* Handle Ctrl-U, which restores the last deleted session. Typing text or pressing Esc ends the offer. */
static int undo_key(struct sessions_pane *p, const struct key *k, struct ui_action *out)
{
	int letter = k->code == K_CHAR && !(k->mods & (KEY_CTRL | KEY_ALT));

	if (p->deleted_id == NOBODY)
		return 0;
	if (k->code == K_CHAR && k->mods == KEY_CTRL && k->cp == 'u') {
		make_action(p, out, UI_UNDELETE);
		out->id = p->deleted_id;
		p->chosen_id = p->deleted_id;
		p->deleted_id = NOBODY;
		return 1;
	}
	if (letter || k->code == K_PASTE || k->code == K_ESC)
		p->deleted_id = NOBODY;
	return 0;
}

static enum pane_key sessions_mouse(struct sessions_pane *p, const struct key *k, struct ui_action *out)
{
	if (k->cp == 4 || k->cp == 5) {
		list_move(&p->list, k->cp == 4 ? -3 : 3);
	} else if (k->cp == 1 && k->x >= p->x && k->x < p->x + p->w && k->y >= p->y) {
		size_t at = p->list.top + (size_t)((k->y - p->y) / p->item);
		if (at >= p->list.n || (k->y - p->y) / p->item >= p->rows)
			return PANE_USED;
		p->list.chosen = at;
	} else {
		return PANE_USED;
	}
	if (sessions_chosen(p))
		p->chosen_id = sessions_chosen(p)->is.id;
	return want_preview(p, out);
}

/* Say why a key that needs a chosen session does nothing. */
static enum pane_key nothing_chosen(struct sessions_pane *p)
{
	p->pane.say = p->filter.text.n ? "no session is listed: Esc empties the filter" : "no session is saved yet";
	return PANE_USED;
}

/* Handle Ctrl-R or Ctrl-D. */
static enum pane_key control_key(struct sessions_pane *p, int32_t cp)
{
	const struct session_row *t = sessions_chosen(p);

	if (!t)
		return nothing_chosen(p);
	if (cp == 'r') {
		rename_open(p, t);
	} else {
		p->asked_from_outside = 0;
		p->mode = DELETE;
	}
	return PANE_USED;
}

static enum pane_key sessions_pane_key(struct pane *pane, const struct key *k, struct ui_action *out)
{
	struct sessions_pane *p = (struct sessions_pane *)pane;
	int control = k->code == K_CHAR && (k->mods & KEY_CTRL);
	enum pane_key did;

	if (k->code == K_FOCUS)
		return PANE_NOT_MINE;
	if (p->mode != PICK && k->code == K_MOUSE)
		return PANE_USED;
	if (p->mode == RENAME)
		return rename_key(p, k, out);
	if (p->mode == DELETE)
		return delete_key(p, k, out);
	if (p->mode == TAKEN)
		return taken_key(p, k, out);
	if (undo_key(p, k, out))
		return PANE_ACTION;
	if (k->code == K_MOUSE)
		return sessions_mouse(p, k, out);
	if (k->code == K_ESC && p->filter.text.n) {
		edit_set(&p->filter, "", 0);
		return filter_changed(p, out);
	}
	if (k->code == K_ESC)
		return PANE_CLOSE;
	if (k->code == K_ENTER) {
		if ((did = find_action(p, out)) == PANE_ACTION)
			return did;
		if (sessions_chosen(p) && sessions_chosen(p)->is.writer && !sessions_chosen(p)->is.here) {
			p->mode = TAKEN;
			return PANE_USED;
		}
		return sessions_chosen(p) ? make_action(p, out, UI_SWITCH) : nothing_chosen(p);
	}
	if (k->code == K_TAB) {
		p->preview = !p->preview;
		p->preview_asked = NOBODY;
		return want_preview(p, out);
	}
	if (control && k->cp == 'f') {
		p->forked = newest_id(p);
		return sessions_chosen(p) ? make_action(p, out, UI_FORK) : nothing_chosen(p);
	}
	/* Ctrl-F requests a copy of the chosen session, and the copy becomes the chosen one when it appears in the
	 * list. But if the user presses another key before, the chosen session does not change. */
	p->forked = 0;
	if (control && (k->cp == 'r' || k->cp == 'd'))
		return control_key(p, k->cp);
	if (control && (k->cp == 'p' || k->cp == 'n')) {
		struct key arrow = { .code = k->cp == 'p' ? K_UP : K_DOWN };
		return sessions_pane_key(pane, &arrow, out);
	}
	/* Home and End move in the list, not in the text of the filter */
	if (list_key(&p->list, k, p->rows)) {
		if (sessions_chosen(p))
			p->chosen_id = sessions_chosen(p)->is.id;
		return want_preview(p, out);
	}
	switch (edit_key(&p->filter, k)) {
	case 1: return filter_changed(p, out);
	case 2: return PANE_USED;
	default: return PANE_NOT_MINE;
	}
}

static void sessions_pane_title(const struct pane *pane, struct str *left, struct str *right)
{
	const struct sessions_pane *p = (const struct sessions_pane *)pane;

	str_adds(left, "Sessions");
	str_addf(right, "%s of %s", num_count((int64_t)p->list.n).s, num_count((int64_t)p->n_row).s);
}

static const struct hint *sessions_pane_asks(const struct pane *pane)
{
	static const struct hint of[][4] = {
		[RENAME] = { { "Enter", "Rename" }, { "Esc", "Keep the old name" }, { 0 } },
		[DELETE] = { { "y", "Delete" }, { "n", "Keep" }, { 0 } },
		[TAKEN] = { { "r", "Read only" }, { "w", "Wait" }, { "Esc", "Another session" }, { 0 } },
	};
	enum mode mode = ((const struct sessions_pane *)pane)->mode;

	return mode == PICK ? NULL : of[mode];
}

/* In every mode a text field or a question is open, so the pane gets all keys. The field is the filter or a session's
 * new name. */
static unsigned sessions_pane_state(const struct pane *pane)
{
	(void)pane;
	return PANE_FIELD;
}

const struct pane_ops sessions_pane = {
	.help_name = "the list of sessions",
	.hints =
		(const struct hint[]){
			{ "Enter", "Open" },
			{ "Esc", "Close" },
			{ "Tab", "Preview" },
			{ "^R", "Rename" },
			{ "^F", "Fork" },
			{ "^D", "Delete" },
			{ 0 },
		},
	.asks = sessions_pane_asks,
	.browsing = (const struct hint[]){ { "Esc", "Write" }, { 0 } },
	.create = sessions_pane_create,
	.release = sessions_pane_release,
	.open = sessions_pane_open,
	.draw = sessions_pane_draw,
	.title = sessions_pane_title,
	.state = sessions_pane_state,
	.key = sessions_pane_key,
	.pause = pause_typing,
};
