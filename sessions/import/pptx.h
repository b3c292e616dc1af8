/* sessions/import/pptx.h - declarations shared by the files that convert PowerPoint presentations (pptx*.c). */
#ifndef WEIR_PPTX_H
#define WEIR_PPTX_H

#include "sessions/import/import_private.h"

/* What stands before a paragraph of a list. */
enum bullet { BULLET_INHERITED, BULLET_NONE, BULLET_SIGN, BULLET_NUMBER };

enum { PPTX_PLACES = 64 }; /* most places of a layout; further ones are ignored */

/* A place of a slide's layout that a shape of the slide takes by <p:ph type="body" idx="1"/>. */
struct pptx_place {
	char type[12]; /* cut to 11 bytes; "" = no type: a body */
	long index;
	enum bullet bullet[LIST_LEVELS]; /* [level] from the list styles of the layout */
};

/* What a slide inherits from its layout and the layout's master. */
struct pptx_layout {
	struct pptx_place place[PPTX_PLACES];
	size_t n;
	enum bullet body[LIST_LEVELS]; /* [level] from the master's list styles for bodies */
};

/* Set type and index of a place from the attributes of <p:ph>. */
void pptx_place_read(struct pptx_place *, const struct xml_attr *, size_t n);
/* Read the layout of a slide, and the layout's master. rels: the slide's relationships. */
void pptx_layout_read(struct pptx_layout *, const struct opc *rels);
/* Return the bullet that a shape inherits for a level; BULLET_INHERITED if neither layout nor master says. */
enum bullet pptx_layout_bullet(const struct pptx_layout *, const struct pptx_place *shape, long level);

#endif
