/* ui/screen/theme.h (private to ui/) - colours and attributes of styles. */
#ifndef WEIR_THEME_H
#define WEIR_THEME_H

#include "ui/screen/grid.h"

enum { LOOK_BOLD = 1, LOOK_FAINT = 2, LOOK_UNDER = 4, LOOK_REVERSE = 8, LOOK_ITALIC = 16 };
/* Colours: -1 = the terminal's own, 0-15 the user's palette, from 16 on the fixed ones of 256. */
struct look { int16_t fg, bg; uint8_t attrs; };

struct theme;
/* A theme by its name; "": dusk or paper, as `colorfgbg` (the variable COLORFGBG, or NULL) says, else dusk.  NULL: no such one. */
const struct theme *theme_find(const char *name, const char *colorfgbg);
const char *theme_name(const struct theme *);
const char *theme_at(size_t i);   /* the names of all themes; NULL past the end */
/* colours: that the terminal has, 0 = none or not wanted.  style: with its STYLE_ flags; what is no style looks like text. */
struct look theme_look(const struct theme *, unsigned style, uint8_t back, int colours);

#endif
