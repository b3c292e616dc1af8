/* sessions/import/pptx_layout.c - finds the bullets that the lists of a slide inherit. A shape fills a placeholder of
 * the slide's layout and inherits the bullets of that placeholder. If the placeholder has no bullets, the shape
 * inherits the bullets that the layout's master sets for bodies. */
#include "sessions/import/pptx.h"

#include <string.h>

struct reading {
	struct pptx_layout *to;
	struct pptx_placeholder *placeholder; /* the placeholder of the shape that is open; NULL = none is open */
	/* [LIST_LEVELS] the bullets that the open list styles set; NULL = no list styles are open */
	enum bullet *bullet;
	int is_master, level;
};

void pptx_placeholder_read(struct pptx_placeholder *p, const struct xml_attr *a, size_t n)
{
	const struct xml_attr *type = xml_attr(a, n, "type");

	*p = (struct pptx_placeholder){ .index = xml_number(xml_attr(a, n, "idx"), 0) };
	if (type)
		memcpy(p->type, type->value, MIN(type->n, sizeof p->type - 1));
}

static void layout_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct reading *r = ud;

	if (!strcmp(name, "ph") && !r->is_master && r->to->n < PPTX_PLACEHOLDERS) {
		r->placeholder = &r->to->placeholder[r->to->n++];
		pptx_placeholder_read(r->placeholder, a, n);
	} else if (!strcmp(name, "lstStyle") && r->placeholder) {
		r->bullet = r->placeholder->bullet;
	} else if (!strcmp(name, "bodyStyle") && r->is_master) {
		r->bullet = r->to->body;
	} else if (!strncmp(name, "lvl", 3) && name[3] >= '1' && name[3] <= '9') {
		r->level = name[3] - '1';
	} else if (r->bullet && !strcmp(name, "buNone")) {
		r->bullet[r->level] = BULLET_NONE;
	} else if (r->bullet && (!strcmp(name, "buChar") || !strcmp(name, "buBlip"))) {
		r->bullet[r->level] = BULLET_SIGN;
	} else if (r->bullet && !strcmp(name, "buAutoNum")) {
		r->bullet[r->level] = BULLET_NUMBER;
	}
}

static void layout_end(void *ud, const char *name)
{
	struct reading *r = ud;

	if (!strcmp(name, "sp"))
		r->placeholder = NULL;
	if (!strcmp(name, "sp") || !strcmp(name, "lstStyle") || !strcmp(name, "bodyStyle"))
		r->bullet = NULL;
}

static void read_part(struct pptx_layout *l, const struct zip_entry *z, int is_master)
{
	static const struct xml_handler handler = { .start = layout_start, .end = layout_end };
	struct reading r = { .to = l, .is_master = is_master };

	if (z)
		xml_parse(z->name, z->p, z->n, &handler, &r, NULL);
}

void pptx_layout_read(struct pptx_layout *l, const struct opc *rels)
{
	const struct zip_entry *layout = opc_by_type(rels, "slideLayout");
	struct opc of_layout;

	*l = (struct pptx_layout){ 0 };
	if (!layout)
		return;
	read_part(l, layout, 0);
	opc_read(&of_layout, rels->zip, layout->name);
	read_part(l, opc_by_type(&of_layout, "slideMaster"), 1);
	opc_free(&of_layout);
}

enum bullet pptx_layout_bullet(const struct pptx_layout *l, const struct pptx_placeholder *shape, long level)
{
	const struct pptx_placeholder *found = NULL;

	for (size_t i = 0; i < l->n && !found; i++)
		if (l->placeholder[i].index == shape->index && !strcmp(l->placeholder[i].type, shape->type))
			found = &l->placeholder[i];
	for (size_t i = 0; i < l->n && !found; i++)
		if (l->placeholder[i].index == shape->index)
			found = &l->placeholder[i];
	return found && found->bullet[level] != BULLET_INHERITED ? found->bullet[level] : l->body[level];
}
