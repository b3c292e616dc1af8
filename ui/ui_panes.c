/* ui/ui_panes.c - opens and closes panes, and passes keys and the focus to them. */
#include "ui/ui_private.h"

#include <stddef.h>

void panes_open(struct ui *u, const struct ui_options *o)
{
	for (int i = NO_PANE + 1; i < N_PANES; i++)
		u->panes[i] = pane_ops[i]->create(o);
}

void panes_close(struct ui *u)
{
	for (int i = NO_PANE + 1; i < N_PANES; i++)
		u->panes[i]->ops->release(u->panes[i]);
}

struct pane *pane_shown(const struct ui *u)
{
	return u->panes[u->pane];
}

int pane_has(const struct ui *u, unsigned flag)
{
	return u->pane != NO_PANE && (pane_ops[u->pane]->flags & flag) != 0;
}

int pane_state(const struct ui *u, unsigned state)
{
	return u->pane != NO_PANE && pane_ops[u->pane]->state && (pane_ops[u->pane]->state(pane_shown(u)) & state) != 0;
}

void pane_open(struct ui *u, enum pane_id pane)
{
	struct ui_action a = { 0 };

	if (u->searching || u->pattern.text.n)
		ui_search_off(u);
	u->pane = pane;
	u->focus = ON_LINE;
	if (pane_ops[pane]->open && pane_ops[pane]->open(u->panes[pane], &a) == PANE_ACTION)
		pane_act(u, &a);
	u->dirty = 1;
}

void pane_close(struct ui *u)
{
	u->pane = NO_PANE;
	u->focus = ON_LINE;
	u->dirty = 1;
}

void pane_toggle(struct ui *u, enum pane_id pane)
{
	if (u->pane == pane)
		pane_close(u);
	else
		pane_open(u, pane);
}

void pane_act(struct ui *u, const struct ui_action *a)
{
	if (a->what == UI_SWITCH && (ui_closed(u) || u->n_queue)) {
		ui_sayf(u, "switching sessions has to wait for the end of the answer; Ctrl-C stops it");
		return;
	}
	todo_add(u, a->what, a->text, a->text ? a->n : 0, a->id, a->on);
	if (a->what == UI_DELETE)
		u->undo_until = u->now + DELETE_UNDO;
	if (a->what == UI_SWITCH)
		pane_close(u);
}

enum pane_key pane_try(struct ui *u, const struct key *k)
{
	struct ui_action none;

	return u->pane == NO_PANE ? PANE_NOT_MINE : pane_ops[u->pane]->key(pane_shown(u), k, &none);
}

int pane_key(struct ui *u, const struct key *k)
{
	struct ui_action a = { 0 };
	struct pane *p = pane_shown(u);
	enum pane_key did;

	if (!p)
		return 0;
	if (p->ops->pause) {
		u->typed = 1;
		u->typed_until = u->now + TYPED_SECONDS;
	}
	p->say = NULL;
	did = p->ops->key(p, k, &a);
	if (p->say)
		ui_sayf(u, "%s", p->say);
	switch (did) {
	case PANE_NOT_MINE: return 0;
	case PANE_USED: break;
	case PANE_CLOSE: pane_close(u); break;
	case PANE_ACTION: pane_act(u, &a); break;
	case PANE_CHOSEN: u->chosen = 1; pane_close(u);
	}
	return 1;
}

void pane_pause(struct ui *u)
{
	struct ui_action a = { 0 };

	if (u->pane == NO_PANE || !pane_ops[u->pane]->pause ||
	    pane_ops[u->pane]->pause(pane_shown(u), &a) != PANE_ACTION)
		return;
	pane_act(u, &a);
	u->dirty = 1;
}

void focus_line(struct ui *u)
{
	u->searching = 0;
	u->focus = ON_LINE;
}
