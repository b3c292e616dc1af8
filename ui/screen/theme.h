/* ui/screen/theme.h (private to ui/) - colours and attributes of styles. */
#ifndef WEIR_THEME_H
#define WEIR_THEME_H

#include "ui/screen/grid.h"

enum { LOOK_BOLD = 1, LOOK_FAINT = 2, LOOK_UNDER = 4, LOOK_REVERSE = 8, LOOK_ITALIC = 16 };
/* Colours: -1 = terminal's default; 0-15 = user's palette; 16 and up = fixed colours of 256. */
struct look {
	int16_t fg, bg;
	uint8_t attrs;
};

struct theme;
/* Find a theme by name.  "": paper if colorfgbg (variable COLORFGBG, or NULL) says light, else dusk.  NULL:
 * unknown name. */
const struct theme *theme_find(const char *name, const char *colorfgbg);
const char *theme_at(size_t i); /* name of theme i; NULL past the end */
/* Look of a style (with its STYLE_ flags) on background style `back`.  colours: of the terminal, 0 = none or not
 * wanted.  An unknown style looks like text. */
struct look theme_look(const struct theme *, unsigned style, uint8_t back, int colours);

#endif
