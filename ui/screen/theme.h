/* ui/screen/theme.h (private to ui/) - the colours and attributes of styles. */
#ifndef WEIR_THEME_H
#define WEIR_THEME_H

#include "ui/screen/grid.h"

enum { LOOK_BOLD = 1, LOOK_FAINT = 2, LOOK_UNDER = 4, LOOK_REVERSE = 8, LOOK_ITALIC = 16 };
/* Colours: -1 is the terminal's default, 0 to 15 are the user's palette, and numbers from 16 on are fixed colours of
 * the 256-colour palette. */
struct look {
	int16_t fg, bg;
	uint8_t attrs;
};

struct theme;
/* Find a theme by name. Returns NULL if the name is unknown. If the name is empty, returns the theme "paper" for a
 * light background, and "dusk" for a dark or unknown one. `colorfgbg` is the value of the environment variable
 * COLORFGBG, which tells the terminal's background; NULL = it is not set. */
const struct theme *theme_find(const char *name, const char *colorfgbg);
const char *theme_at(size_t i); /* returns the name of theme number i; NULL if there is no such theme */
/* Return the look of a style, which may have STYLE_ flags, on the background of style `back`. `colours` is the number
 * of colours that the terminal has; 0 = use no colours. An unknown style looks like text. */
struct look theme_look(const struct theme *, unsigned style, uint8_t back, int colours);

#endif
