/* app/chat/library.c - lists and loads the documents that any session has stored. */
#include "app/chat/chat_private.h"

#include <stdio.h>
#include <string.h>

enum { OTHERS_MOST = 30 }; /* maximum number of documents that are listed */

struct others {
	const struct chat *c;
	struct str *s;
	size_t n;
};

static int is_here(const struct chat *c, const struct library_text *t)
{
	struct str name = { 0 };
	int here = 0;

	clean_line(t->name, strlen(t->name), &name);
	for (size_t i = 0; i < c->conv.n_doc && !here; i++)
		here = c->conv.doc[i].n_body == t->bytes && !strcmp(c->conv.doc[i].name, str_text(&name));
	str_free(&name);
	return here;
}

static int add_other(const struct library_text *t, void *ud)
{
	struct others *x = ud;
	char number[24];

	if (is_here(x->c, t) || x->n++ >= OTHERS_MOST)
		return 0;
	str_addf(x->s, "%s",
	         x->n == 1 ? x->s->n ? "\nread by other sessions; /open #N adds one at once:\n"
	                             : "read by other sessions; /open #N adds one at once:\n"
	                   : "\n");
	snprintf(number, sizeof number, "#%lld", (long long)t->id);
	str_addf(x->s, "%4s  ", number);
	table_cell(x->s, t->name, 40);
	str_adds(x->s, "  ");
	if (t->pages)
		str_addf(x->s, "%d page%s, ", t->pages, t->pages == 1 ? "" : "s");
	human_bytes(x->s, t->bytes);
	str_adds(x->s, ", ");
	human_age(x->s, t->at);
	return 0;
}

void library_others(struct chat *c, struct str *out)
{
	struct others x = { .c = c, .s = out };
	struct err e = { 0 };

	if (!c->log)
		return;
	if (library_list(c->log->store, add_other, &x, &e) < 0)
		str_addf(out, "%s%s", out->n ? "\n" : "", e.msg);
	if (x.n > OTHERS_MOST)
		str_addf(out, "\n... and %zu more: weir docs ls", x.n - OTHERS_MOST);
}

int library_known(struct chat *c, const char *what, struct doc *out, struct err *e)
{
	int64_t id;

	if (!c->log)
		return err_set(e, ERR_USAGE, "this conversation is not saved: documents of sessions are not at hand");
	return library_find(c->log->store, what, &id, e) < 0 ? -1 : library_get(c->log->store, id, out, e);
}
