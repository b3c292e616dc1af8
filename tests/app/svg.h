/* tests/app/svg.h - a screen of cells as a picture. */
#ifndef WEIR_TEST_SVG_H
#define WEIR_TEST_SVG_H

#include "ui/screen/grid.h"

/* Append the grid as an SVG file in the theme's colours. The file has its own background, so that it is legible on
 * light and dark pages. about: a sentence that describes the picture, for readers without pictures. */
void svg_draw(const struct grid *, const char *theme, const char *about, struct str *out);

#endif
