/* app/external.h (private to app/) - other programs: the user's editor, the clipboard's helpers. */
#ifndef WEIR_EXTERNAL_H
#define WEIR_EXTERNAL_H

#include "engine/base.h"

/* The text in $VISUAL or $EDITOR (else vi), on the terminal, which must be free; text becomes what was saved, without its last
 * newline.  -1: it could not be run, or failed; the text is as it was. */
int external_edit(struct str *text, struct err *);
/* To wl-copy, xclip or xsel, where one is installed and its desktop is there.  Returns its name, or NULL. */
const char *external_copy(const char *text, size_t n);

#endif
