/* app/lab/plot.h - inside app/lab: what the pictures of weir eval plot share. */
#ifndef WEIR_EVAL_PLOT_H
#define WEIR_EVAL_PLOT_H

#include "app/conversation/conversation.h"
#include "app/lab/picture.h"

enum {
	TOP = 14, /* pixels over a picture, for a line of text */
	/* .. 255 */
	COLOUR_UNSEEN = 0,
	COLOUR_LATER,
	COLOUR_TEXT,
	COLOUR_FRAME,
	COLOUR_CURVE,
	COLOUR_CURVES = 8,
	COLOUR_RAMP = 16,
};

void colour_set(struct picture *, int i, int r, int g, int b);
/* COLOUR_RAMP .. 255: black, blue, red, yellow, white; brighter all the way, so that it can be read without its
 * colours, too. */
void colour_ramp(struct picture *);

/* y[i] stands at (i + first) * every. */
struct curve {
	struct str name;
	double *y;
	int32_t n, every, first;
};
struct curves {
	struct curve c[COLOUR_CURVES];
	int n, more;
	double low, high, right;
};
void curves_init(struct curves *);
void curves_free(struct curves *);
/* Room for another curve, which takes over the name; NULL where the picture is full. */
struct curve *curves_new(struct curves *, const char *name, size_t n, int32_t every, int32_t first);
void curve_point(struct curve *, double y);
/* End the newest curve: widen the scale to its points from `from` on.  A curve of fewer than two points is removed. */
void curves_keep(struct curves *, int32_t from);
int curves_write(const struct curves *, const char *path, struct err *);

/* A picture of lines that evaluations wrote, by --draw ppl, ratio, age, stride or queries. */
int plot_lines(const struct options *, const struct str *text, struct err *);

#endif
