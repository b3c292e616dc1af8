/* sessions/import/pptx.h - declarations shared by the files that convert PowerPoint presentations (pptx*.c). */
#ifndef WEIR_PPTX_H
#define WEIR_PPTX_H

#include "sessions/import/import_private.h"

/* The kind of sign before a paragraph of a list. */
enum bullet { BULLET_INHERITED, BULLET_NONE, BULLET_SIGN, BULLET_NUMBER };

enum { PPTX_PLACEHOLDERS = 64 }; /* maximum number of placeholders of a layout; further ones are ignored */

/* A placeholder of a slide layout. A shape of the slide refers to it by <p:ph type="body" idx="1"/>. */
struct pptx_placeholder {
	/* attribute `type`, truncated to 11 bytes; "" if it is missing, which means a body placeholder */
	char type[12];
	long index;
	/* bullet[level] is the bullet that the list styles of the layout set for a level */
	enum bullet bullet[LIST_LEVELS];
};

/* What a slide inherits from its layout and the layout's master. */
struct pptx_layout {
	struct pptx_placeholder placeholder[PPTX_PLACEHOLDERS];
	size_t n;
	/* body[level] is the bullet that the body styles of the layout's master set for this list level. */
	enum bullet body[LIST_LEVELS];
};

/* Set type and index of a placeholder from the attributes of <p:ph>. */
void pptx_placeholder_read(struct pptx_placeholder *, const struct xml_attr *, size_t n);
/* Read the layout of a slide, and the layout's master. `rels` has the slide's relationships. */
void pptx_layout_read(struct pptx_layout *, const struct opc *rels);
/* Return the bullet that a shape inherits for a list level. Returns BULLET_INHERITED if layout and master set none. */
enum bullet pptx_layout_bullet(const struct pptx_layout *, const struct pptx_placeholder *shape, long level);

#endif
