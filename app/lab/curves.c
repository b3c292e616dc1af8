/* app/lab/curves.c - curves with two axes, as a picture (plot.h). */
#include "app/lab/plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE = 960, HIGH = 600, LEFT = 64, BELOW = 32, RIGHT = 16 };

void colour_set(struct picture *p, int i, int r, int g, int b)
{
	p->rgb[i][0] = (uint8_t)r;
	p->rgb[i][1] = (uint8_t)g;
	p->rgb[i][2] = (uint8_t)b;
}

void colour_ramp(struct picture *p)
{
	static const uint8_t stop[][3] = { { 20, 12, 70 },   { 90, 20, 130 },   { 190, 50, 90 },
		                           { 245, 140, 40 }, { 250, 225, 110 }, { 255, 255, 255 } };
	enum { STOPS = LEN(stop) - 1 };

	for (int i = COLOUR_RAMP; i < 256; i++) {
		double at = (double)(i - COLOUR_RAMP) * STOPS / (255 - COLOUR_RAMP), part;
		int k = at >= STOPS ? STOPS - 1 : (int)at;

		part = at - k;
		for (int c = 0; c < 3; c++)
			p->rgb[i][c] = (uint8_t)lround(stop[k][c] + part * (stop[k + 1][c] - stop[k][c]));
	}
}

void curves_init(struct curves *all)
{
	*all = (struct curves){ .low = INFINITY, .high = -INFINITY };
}

void curves_free(struct curves *all)
{
	for (int i = 0; i < all->n; i++) {
		free(all->c[i].y);
		str_free(&all->c[i].name);
	}
	all->n = 0;
}

struct curve *curves_new(struct curves *all, const char *name, size_t n, int32_t every, int32_t first)
{
	struct curve *c = &all->c[all->n];

	if (all->n == COLOUR_CURVES) {
		all->more++;
		return NULL;
	}
	*c = (struct curve){ .every = every, .first = first };
	str_add(&c->name, name, n);
	all->n++;
	return c;
}

void curve_point(struct curve *c, double y)
{
	if (c->n % 256 == 0)
		c->y = xrealloc(c->y, ((size_t)c->n + 256) * sizeof *c->y);
	c->y[c->n++] = y;
}

void curves_keep(struct curves *all, int32_t from)
{
	struct curve *c = &all->c[all->n - 1];

	if (c->n < 2) {
		free(c->y);
		str_free(&c->name);
		all->n--;
		return;
	}
	for (int32_t i = from; i < c->n; i++)
		if (isfinite(c->y[i])) {
			all->low = fmin(all->low, c->y[i]);
			all->high = fmax(all->high, c->y[i]);
		}
	all->right = fmax(all->right, (c->n - 1 + c->first) * (double)c->every);
}

/* ---- drawing ---- */

static int32_t place(double v, double from, double to, int32_t p0, int32_t p1)
{
	double at = to > from ? (v - from) / (to - from) : 0.5;

	at = at < 0 ? 0 : MIN(1, at);
	return (int32_t)lround(p0 + at * (p1 - p0));
}

static void curves_draw(const struct curves *all, struct picture *p)
{
	static const uint8_t rgb[COLOUR_CURVES][3] = { { 80, 160, 255 },  { 255, 150, 50 },  { 90, 210, 110 },
		                                       { 240, 90, 110 },  { 190, 130, 250 }, { 230, 220, 90 },
		                                       { 110, 220, 220 }, { 200, 200, 200 } };
	int32_t x1 = WIDE - RIGHT, y0 = HIGH - BELOW;
	char text[40];

	colour_set(p, COLOUR_TEXT, 230, 230, 230);
	colour_set(p, COLOUR_FRAME, 90, 90, 90);
	for (int i = 0; i < all->n; i++)
		colour_set(p, COLOUR_CURVE + i, rgb[i][0], rgb[i][1], rgb[i][2]);
	for (int i = 0; i <= 4; i++) {
		int32_t y = y0 + (TOP - y0) * i / 4, x = LEFT + (x1 - LEFT) * i / 4;

		picture_line(p, LEFT, y, x1, y, COLOUR_FRAME);
		snprintf(text, sizeof text, "%.2f", all->low + (all->high - all->low) * i / 4);
		picture_text(p, 4, y - 4, 2, COLOUR_TEXT, text);
		snprintf(text, sizeof text, "%.0f", all->right * i / 4);
		picture_text(p, x - (i < 4 ? 0 : 8 * (int32_t)strlen(text)), y0 + 8, 2, COLOUR_TEXT, text);
	}
	picture_line(p, LEFT, TOP, LEFT, y0, COLOUR_FRAME);
	for (int i = 0; i < all->n; i++) {
		const struct curve *c = &all->c[i];

		/* A point that is no number is a gap. */
		for (int32_t k = 1; k < c->n; k++)
			if (isfinite(c->y[k - 1]) && isfinite(c->y[k]))
				picture_line(p, place((k - 1 + c->first) * (double)c->every, 0, all->right, LEFT, x1),
				             place(c->y[k - 1], all->low, all->high, y0, TOP),
				             place((k + c->first) * (double)c->every, 0, all->right, LEFT, x1),
				             place(c->y[k], all->low, all->high, y0, TOP), (uint8_t)(COLOUR_CURVE + i));
		picture_text(p, x1 - 8 * 44, TOP + 8 + 14 * i, 2, (uint8_t)(COLOUR_CURVE + i), str_text(&c->name));
	}
}

int curves_write(const struct curves *all, const char *path, struct err *e)
{
	struct picture p = { .at = NULL };
	int rc = picture_init(&p, WIDE, HIGH, e);

	if (!rc) {
		curves_draw(all, &p);
		rc = picture_write(&p, path, e);
	}
	picture_free(&p);
	return rc;
}
