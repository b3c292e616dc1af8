/* app/lab/picture.h - small pictures with a palette, written as PNG or PPM. */
#ifndef WEIR_PICTURE_H
#define WEIR_PICTURE_H

#include "engine/base/base.h"

struct picture {
	int32_t w, h;
	uint8_t *at; /* [h][w], an index into the palette */
	uint8_t rgb[256][3];
};
/* All pixels have colour 0.  ERR_FIT. */
int picture_init(struct picture *, int32_t w, int32_t h, struct err *);
void picture_free(struct picture *);
/* Outside of the picture nothing happens. */
void picture_put(struct picture *, int32_t x, int32_t y, uint8_t colour);
void picture_line(struct picture *, int32_t x0, int32_t y0, int32_t x1, int32_t y1, uint8_t colour);
/* Letters of 3 x 5 in boxes of 4 x 6, times `size`; upper and lower case look alike, what has no letter is a gap.
 * Returns the x behind. */
int32_t picture_text(struct picture *, int32_t x, int32_t y, int32_t size, uint8_t colour, const char *);
/* As PPM when the name ends in ".ppm", else as PNG.  ERR_FAIL. */
int picture_write(const struct picture *, const char *path, struct err *);

#endif
