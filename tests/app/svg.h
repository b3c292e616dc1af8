/* tests/app/svg.h - a screen of cells as a picture. */
#ifndef WEIR_TEST_SVG_H
#define WEIR_TEST_SVG_H

#include "ui/screen/grid.h"

/* The grid as an SVG file in that theme's colours on a background of its own, so that it is as legible on a light page
 * as on a dark one. about: one plain sentence, which readers of the page without pictures get. */
void svg_draw(const struct grid *, const char *theme, const char *about, struct str *out);

#endif
