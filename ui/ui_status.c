/* ui/ui_status.c - draws the status row and the row of key hints.
 *
 * Each part of the status row has several forms, from long to empty. If the row is too narrow, parts are shortened in
 * the order of the table give_up[]. The number of evicted tokens is removed last. */
#include "ui/ui_private.h"
#include "ui/text/text.h"

#include <stdio.h>
#include <string.h>

/* ---- the status row ---- */

enum { SAY, BROWSES, FOUND, SESSION, MODEL, WORK, WAITING, SEEN, EVICTED, POLICY, SPEED, MEMORY, N_PARTS };
enum { FORMS = 4, NONE = FORMS };

struct part {
	struct str form[FORMS];
	int most[FORMS]; /* maximum number of columns; 0 = no limit */
	int at;          /* index of the form that is shown, or NONE */
};

static const struct {
	uint8_t part, form;
} give_up[] = {
	{ POLICY, NONE }, { MEMORY, NONE },  { SPEED, NONE }, { MODEL, 1 },      { EVICTED, 1 },
	{ SEEN, 1 },      { MODEL, NONE },   { SESSION, 1 },  { SESSION, NONE }, { BROWSES, 1 },
	{ WORK, 1 },      { FOUND, 1 },      { SEEN, 2 },     { WORK, 2 },       { EVICTED, 2 },
	{ SEEN, NONE },   { WAITING, NONE }, { EVICTED, 3 },  { EVICTED, NONE },
};

static int part_cols(const struct part *p, int form)
{
	int cols;

	if (form == NONE || !p->form[form].n)
		return 0;
	cols = (int)text_width(p->form[form].p, p->form[form].n);
	return p->most[form] && cols > p->most[form] ? p->most[form] : cols;
}

/* Set the text of one form of a part of the status row, which has longer and shorter forms. The text must have no
 * control characters. The form takes at most `most` columns; 0 = no limit. */
static void part_set(struct part *p, int form, const struct str *text, int most)
{
	if (text->n)
		str_add(&p->form[form], text->p, text->n);
	p->most[form] = most;
}

void status_work(const struct ui *u, int form, struct str *out)
{
	int percent;

	if (!u->work.verb.n)
		return;
	if (u->work.total <= 0) {
		str_add(out, u->work.verb.p, u->work.verb.n);
		if (u->work.tps > 0 && form < 2)
			str_addf(out, " %.1f t/s", u->work.tps);
		if (u->work.left >= 0.5 && form < 2)
			str_addf(out, " %s", num_wait(u->work.left).s);
		return;
	}
	percent = (int)((double)u->work.done * 100 / (double)u->work.total + 0.5);
	if (percent == 100 && u->work.done < u->work.total)
		percent = 99;
	if (form < 2)
		str_addf(out, "%s ", u->work.verb.p);
	if (form == 0)
		str_addf(out, "%s/%s ", num_count(u->work.done).s, num_count(u->work.total).s);
	str_addf(out, "%d%%", percent);
	if (form == 0 && u->work.had > 0)
		str_addf(out, " cached %s", num_count(u->work.had).s);
	if (form < 2 && u->work.left >= 0.5)
		str_addf(out, " %s", num_wait(u->work.left).s);
}

/* Set the part about the context. It tells how full the context is or, after evictions, how many tokens were seen. */
static void context_parts(const struct ui *u, struct part *p)
{
	int64_t kept = (int64_t)u->status.kept, ctx = (int64_t)u->status.ctx;

	if (u->status.evicted > 0 || u->status.thinned > 0) {
		str_addf(&p->form[0], "%s tokens", num_count(u->status.seen).s);
	} else if (ctx > 0) {
		int percent = (int)(100 * kept / ctx);

		str_addf(&p->form[0], "context %d%% (%s of %s)", percent, num_count(u->status.kept).s,
		         num_count(u->status.ctx).s);
		str_addf(&p->form[1], "context %d%%", percent);
		str_addf(&p->form[2], "%d%%", percent);
	} else {
		str_addf(&p->form[0], "%s tokens", num_count(u->status.kept).s);
		str_addf(&p->form[2], "%s", num_short(u->status.kept).s);
	}
}

static void make_parts(const struct ui *u, struct part part[N_PARTS])
{
	const struct str *words = &u->pattern.text;
	int said = u->say.n > 0;

	if (said)
		part_set(&part[SAY], 0, &u->say, u->w > 3 ? u->w - 2 : 1);
	if (u->focus != ON_LINE) {
		str_adds(&part[BROWSES].form[0], "browse mode: letters are keys");
		str_adds(&part[BROWSES].form[1], "browse mode");
		part[BROWSES].at = said || u->w < 100;
	}
	if (words->n && !u->searching) {
		str_adds(&part[FOUND].form[0], u->search_down ? "/" : "?");
		clean_line(words->p, utf8_complete(words->p, MIN(words->n, 40)), &part[FOUND].form[0]);
		str_addf(&part[FOUND].form[0], " %zu of %zu", u->found_at, u->found);
		str_addf(&part[FOUND].form[1], "%zu of %zu", u->found_at, u->found);
	}
	for (int form = 0; form < 3; form++)
		status_work(u, form, &part[WORK].form[form]);
	if (u->n_queue && ui_working(u) && !u->lay.queue)
		str_addf(&part[WAITING].form[0], "%zu queued", u->n_queue);
	if (!u->has_status)
		return;
	if (!said) {
		part_set(&part[SESSION], 0, &u->status.session, 28);
		part_set(&part[SESSION], 1, &u->status.session, 14);
		part_set(&part[MODEL], 0, &u->status.model, 32);
		part_set(&part[MODEL], 1, &u->status.model, 16);
	}
	context_parts(u, &part[SEEN]);
	if (u->status.evicted > 0 || u->status.thinned > 0) {
		str_addf(&part[EVICTED].form[0], "%s evicted", num_count(u->status.evicted).s);
		if (u->status.thinned > 0)
			str_addf(&part[EVICTED].form[0], ", %s in part", num_count(u->status.thinned).s);
		str_addf(&part[EVICTED].form[1], "%s evicted", num_count(u->status.evicted).s);
		str_addf(&part[EVICTED].form[2], "%s evicted", num_short(u->status.evicted).s);
		str_addf(&part[EVICTED].form[3], "-%s", num_short(u->status.evicted).s);
	}
	part_set(&part[POLICY], 0, &u->status.kv, 24);
	if (u->status.tps > 0 && !ui_working(u))
		str_addf(&part[SPEED].form[0], "%.1f t/s", u->status.tps);
	if (u->status.memory)
		str_addf(&part[MEMORY].form[0], "%s", num_bytes(u->status.memory << 20).s);
}

static int total_cols(const struct part part[N_PARTS])
{
	int cols = 0;

	for (int i = 0; i < N_PARTS; i++) {
		int n = part_cols(&part[i], part[i].at);
		cols += n ? n + 2 : 0;
	}
	return cols;
}

static int part_draw(const struct ui *u, const struct part *p, const struct area *a, int x, unsigned style)
{
	int cols = part_cols(p, p->at);

	if (!cols)
		return x;
	return put_left(a, x, 0, cols, style, p->form[p->at].p, p->form[p->at].n, u->ascii) + 2;
}

void status_draw(const struct ui *u, const struct area *a)
{
	struct part part[N_PARTS] = { 0 };
	int x = 1, right = 0, work;

	make_parts(u, part);
	area_fill(a, 0, 0, a->w, ST_STATUS, ' ');
	/* shorten parts until they fit into the row */
	for (size_t i = 0; total_cols(part) > a->w && i < LEN(give_up); i++)
		part[give_up[i].part].at = give_up[i].form;
	if (u->say.n && total_cols(part) > a->w)
		part[WORK].at = NONE;
	/* The last steps may have freed more columns than needed. If a longer form of a part fits again, restore it,
	 * beginning with the most important part. The parts POLICY, SPEED and MEMORY keep their short forms. */
	for (size_t i = LEN(give_up); i-- > 0;) {
		struct part *p = &part[give_up[i].part];
		for (int form = 0, was = p->at; give_up[i].part < POLICY && form < was && p->at == was; form++) {
			p->at = form;
			if (total_cols(part) > a->w || !part_cols(p, form))
				p->at = was;
		}
	}

	x = part_draw(u, &part[SAY], a, x, ST_STATUS_STRONG);
	x = part_draw(u, &part[BROWSES], a, x, ST_STATUS_STRONG);
	x = part_draw(u, &part[FOUND], a, x, ST_STATUS_STRONG);
	x = part_draw(u, &part[SESSION], a, x, ST_STATUS_STRONG);
	x = part_draw(u, &part[MODEL], a, x, ST_STATUS);
	work = x;
	x = part_draw(u, &part[WORK], a, x, ST_STATUS);
	if (u->work.total > 0 && x > work)
		area_restyle(a, work, 0, (int)((double)u->work.done * (x - 2 - work) / (double)u->work.total),
		             ST_METER | STYLE_REVERSE);
	for (int i = WAITING; i < N_PARTS; i++) {
		int n = part_cols(&part[i], part[i].at);
		right += n ? n + 2 : 0;
	}
	if (a->w - right + 1 > x)
		x = a->w - right + 1;
	x = part_draw(u, &part[WAITING], a, x, ST_STATUS);
	x = part_draw(u, &part[SEEN], a, x, ST_STATUS);
	x = part_draw(u, &part[EVICTED], a, x, ST_STATUS_WARNING);
	x = part_draw(u, &part[POLICY], a, x, ST_STATUS);
	x = part_draw(u, &part[SPEED], a, x, ST_STATUS);
	part_draw(u, &part[MEMORY], a, x, ST_STATUS);
	for (int i = 0; i < N_PARTS; i++)
		for (int form = 0; form < FORMS; form++)
			str_free(&part[i].form[form]);
}

/* ---- hints ---- */

/* A hint in these three lists is shown only if its key has an effect now. The table needs[] tells when. */
static const struct hint on_line[] = {
	{ "F1", "Help" },
	{ "^P", "Do" },
	{ "/", "Commands" },
	{ "/open", "File" },
	{ "F2", "Cache" },
	{ "F3", "Find" },
	{ "F4", "Sessions" },
	{ "F5", "Docs" },
	{ "F6", "Browse" },
	{ "F7", "Sources" },
	{ "^X", "More" },
	{ "F10", "Quit" },
	{ 0 },
};
static const struct hint at_work[] = {
	{ "Esc", "Stop" },  { "Enter", "Queue" }, { "F1", "Help" },  { "F2", "Cache" },    { "F5", "Docs" },
	{ "F6", "Browse" }, { "F7", "Sources" },  { "F10", "Quit" }, { "PgUp", "Scroll" }, { 0 },
};
static const struct hint while_open[] = {
	{ "Esc", "Stop" },  { "Enter", "Ask" },  { "F1", "Help" },  { "F2", "Cache" },    { "F5", "Docs" },
	{ "F6", "Browse" }, { "F7", "Sources" }, { "F10", "Quit" }, { "PgUp", "Scroll" }, { 0 },
};
enum { MESSAGES = 1, NO_MESSAGES = 2, DOCUMENTS_HERE = 4, NO_DOCUMENTS = 8, SOURCES_HERE = 16 };
static const struct {
	const char *key;
	unsigned needs;
} needs[] = {
	{ "/", NO_MESSAGES }, { "/open", NO_DOCUMENTS }, { "F3", MESSAGES }, { "F5", DOCUMENTS_HERE },
	{ "F6", MESSAGES },   { "F7", SOURCES_HERE },    { "^X", MESSAGES }, { "PgUp", MESSAGES },
};
/* In a row that is too narrow for all hints these are left out, beginning with the first: browse mode (F6) names the
 * search, too, and ^X the other two. */
static const char *const spared[] = { "F3", "PgUp", "F10", "F6" };
static const struct hint on_talk[] = {
	{ "Esc", "Write" }, { "j k", "Line" }, { "Space", "Page" }, { "/", "Find" }, { "[ ]", "Question" },
	{ "y", "Copy" },    { "c", "Code" },   { "z", "Fold" },     { 0 },
};
static const struct hint in_search[] = {
	{ "Enter", "Keep" }, { "Esc", "Close" }, { "Up", "Previous" }, { "Down", "Next" }, { 0 },
};
static const struct hint after_search[] = {
	{ "F3", "Next" },
	{ "Shift-F3", "Previous" },
	{ "Esc", "Unmark" },
	{ 0 },
};
static const struct hint no_document[] = { { "Esc", "Close" }, { "/open", "File" }, { "F1", "Help" }, { 0 } };
static const struct hint no_document_browsed[] = { { "Esc", "Write" }, { "q", "Close" }, { "F1", "Help" }, { 0 } };
static const struct hint on_panel[] = {
	{ "Esc", "Write" }, { "?", "Legend" }, { "j k", "Scroll" }, { "F2", "All of it" }, { "F1", "Help" }, { 0 },
};
/* clang-format off */
static const struct hint behind_leader[] = {
	{"n", "New"}, {"y", "Copy"}, {"g", "Regenerate"}, {"/", "Find"}, {"o", "Browse"}, {"t", "Theme"}, {"e", "Editor"}, {"c", "Code"},
	{"r", "Raw"}, {"m", "Mouse"}, {"h", "Help"}, {"p", "Palette"}, {"k", "Cache"}, {"s", "Sessions"}, {"d", "Documents"},
	{"q", "Quit"}, {0},
};
/* clang-format on */

/* Parse the key of a hint, such as "F3", "Shift-F3", "^P", "PgDn" or "j". "/open" stands for typing this command.
 * Returns 0 if the name is not a key ("40%"). */
static int key_named(const char *name, size_t n, struct key *out)
{
	static const struct {
		const char *name;
		enum key_code code;
	} keys[] = {
		{ "Esc", K_ESC },        { "Enter", K_ENTER }, { "Tab", K_TAB },   { "PgUp", K_PAGE_UP },
		{ "PgDn", K_PAGE_DOWN }, { "Up", K_UP },       { "Down", K_DOWN }, { "Left", K_LEFT },
		{ "Right", K_RIGHT },    { "Home", K_HOME },   { "End", K_END },
	};
	static char typed[2];

	*out = (struct key){ .code = K_UNKNOWN };
	if (name[0] == '/' && n > 1) {
		*out = (struct key){ .code = K_PASTE, .bytes = "/open ", .n = 6 };
		return 1;
	}
	if (n > 6 && !strncmp(name, "Shift-", 6)) {
		name += 6, n -= 6;
		out->mods = KEY_SHIFT;
	}
	for (size_t i = 0; i < LEN(keys); i++)
		if (strlen(keys[i].name) == n && !strncmp(name, keys[i].name, n))
			out->code = keys[i].code;
	if (out->code != K_UNKNOWN)
		return 1;
	if (name[0] == 'F' && n > 1) {
		out->code = K_F;
		out->cp = n == 2 ? name[1] - '0' : 10;
		return 1;
	}
	if (name[0] == '^' && n == 2)
		*out = (struct key){ .code = K_CHAR, .mods = KEY_CTRL, .cp = name[1] - 'A' + 'a' };
	else if (n == 1 || (n == 5 && !strncmp(name, "Space", 5)))
		*out = (struct key){ .code = K_CHAR, .cp = n == 1 ? name[0] : ' ' };
	else
		return 0;
	typed[0] = (char)(out->mods ? out->cp & 31 : out->cp);
	out->bytes = typed;
	out->n = 1;
	return 1;
}

static const struct hint *hints_of(const struct ui *u)
{
	if (u->leader)
		return behind_leader;
	if (u->searching)
		return in_search;
	if (u->focus == ON_TRANSCRIPT)
		return on_talk;
	if (u->focus == ON_PANEL)
		return on_panel;
	if (u->pane && pane_ops[u->pane]->asks && pane_ops[u->pane]->asks(pane_shown(u)))
		return pane_ops[u->pane]->asks(pane_shown(u));
	if (u->pane == DOCUMENTS && !u->n_document)
		return u->focus == ON_PANE ? no_document_browsed : no_document;
	if (u->pane && u->focus == ON_PANE && pane_ops[u->pane]->browsing)
		return pane_ops[u->pane]->browsing;
	if (u->pane)
		return pane_ops[u->pane]->hints;
	if (u->pattern.text.n)
		return after_search;
	return !ui_working(u) ? on_line : ui_closed(u) ? at_work : while_open;
}

static unsigned state_of(const struct ui *u)
{
	const struct ui_source *s;

	return (transcript_messages(u->transcript) ? MESSAGES : NO_MESSAGES) |
	       (u->n_document ? DOCUMENTS_HERE : NO_DOCUMENTS) |
	       (transcript_turn_sources(u->transcript, transcript_last_turn(u->transcript), &s) ? SOURCES_HERE : 0);
}

/* 1 if the hint's key has an effect now, and the hint is not among the first n of spared[]. */
static int hint_is_shown(unsigned state, const struct hint *h, size_t n)
{
	for (size_t i = 0; i < LEN(needs); i++)
		if (!strcmp(needs[i].key, h->key) && needs[i].needs & ~state)
			return 0;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(spared[i], h->key))
			return 0;
	return 1;
}

static int hint_cols(const struct hint *h)
{
	return (int)(strlen(h->key) + 1 + strlen(h->does));
}

/* 1 if the hints fit into w columns without the first n of spared[]. */
static int hints_fit(unsigned state, const struct hint *all, size_t n, int w)
{
	int cols = -2;

	for (const struct hint *h = all; h->key; h++)
		cols += hint_is_shown(state, h, n) ? hint_cols(h) + 2 : 0;
	return cols <= w;
}

/* Return the first hint from h on that is shown now; its key is NULL at the end of the list `all`. */
static const struct hint *hint_shown(const struct ui *u, const struct hint *all, const struct hint *h)
{
	unsigned state = state_of(u);
	size_t n = 0;

	if (all != on_line && all != at_work && all != while_open)
		return h;
	while (n < LEN(spared) && !hints_fit(state, all, n, u->w))
		n++;
	while (h->key && !hint_is_shown(state, h, n))
		h++;
	return h;
}

/* Return the column at which the next hint begins, if the hints before it take x columns; -1 = the hint does not
 * fit. */
static int hint_begins(const struct hint *h, int x, int w)
{
	return x && x + hint_cols(h) > w ? -1 : x;
}

static int hints_from(const struct ui *u)
{
	return u->leader ? 7 : 0;
}

void hints_draw(const struct ui *u, const struct area *a)
{
	int x = hints_from(u);

	if (x)
		area_text(a, 0, 0, ST_HINT_KEY, "Ctrl-X ", 7);
	for (const struct hint *all = hints_of(u), *h = hint_shown(u, all, all);
	     h->key && (x = hint_begins(h, x, a->w)) >= 0; h = hint_shown(u, all, h + 1)) {
		x = area_text(a, x, 0, ST_HINT_KEY, h->key, strlen(h->key));
		x = area_text(a, x + 1, 0, ST_HINT, h->does, strlen(h->does)) + 2;
	}
}

int hint_at(const struct ui *u, int at, struct key *out)
{
	int x = hints_from(u);

	for (const struct hint *all = hints_of(u), *h = hint_shown(u, all, all);
	     h->key && (x = hint_begins(h, x, u->w)) >= 0; h = hint_shown(u, all, h + 1)) {
		int end = x + hint_cols(h);

		if (at >= x && at < end) {
			/* a hint may name two keys ("j k"): return the clicked one; a click on the words of the hint
			 * means the first key */
			const char *two = strchr(h->key, ' ');
			const char *name =
				two && at > x + (two - h->key) && at < x + (int)strlen(h->key) ? two + 1 : h->key;

			return key_named(name, strcspn(name, " "), out);
		}
		x = end + 2;
	}
	return 0;
}
