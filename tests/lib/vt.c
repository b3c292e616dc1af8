/* tests/lib/vt.c - a small terminal emulator (vt.h): each sequence is checked, then carried out. */
#include "tests/lib/vt.h"
#include "ui/text/text.h"

static struct vt_cell vt_blank(const struct vt *v)
{
	struct vt_cell c = { .cp = ' ', .width = 1, .pen = { -1, -1, 0 } };

	if (v->bce)
		c.pen.bg = v->pen.bg;
	return c;
}

void vt_size(struct vt *v, int w, int h)
{
	free(v->cell);
	v->cell = xcalloc((size_t)w * (size_t)h, sizeof *v->cell);
	v->w = w;
	v->h = h;
	v->x = v->y = v->wraps = v->saved_x = v->saved_y = v->top = 0;
	v->bottom = h;
	v->pen = (struct vt_pen){ -1, -1, 0 };
	for (int i = 0; i < w * h; i++)
		v->cell[i] = vt_blank(v);
}

static int vt_used(const struct vt_cell *row, int w)
{
	while (w && row[w - 1].cp == ' ' && row[w - 1].pen.bg < 0 && !(row[w - 1].pen.attrs & VT_REVERSE))
		w--;
	return w;
}

static void vt_row(const struct vt_cell *row, int w, struct str *out)
{
	char utf8[4];

	for (int x = 0, n = vt_used(row, w); x < n; x++)
		if (row[x].width)
			str_add(out, utf8, (size_t)utf8_encode(row[x].cp, utf8));
	str_adds(out, "\n");
}

void vt_rows(const struct vt *v, struct str *out)
{
	for (int y = 0; y < v->h; y++)
		vt_row(v->cell + y * v->w, v->w, out);
}

void vt_resize(struct vt *v, int w, int h, enum vt_resize how)
{
	struct vt_cell *old = v->cell;
	int old_w = v->w, old_h = v->h, n = 0, x = v->x, y = v->y, most = old_h * (old_w / w + 1) + h, used = 0;
	struct vt_cell *rows = xcalloc((size_t)most * (size_t)w, sizeof *rows);

	for (int i = 0; i < most * w; i++)
		rows[i] = (struct vt_cell){ .cp = ' ', .width = 1, .pen = { -1, -1, 0 } };
	for (int i = 0; i < old_h; i++) {
		int len = vt_used(old + i * old_w, old_w), parts = how && len > w ? (len + w - 1) / w : 1;

		if (i == v->y) {
			y = n + (how ? MIN(x / w, parts - 1) : 0);
			x = how && x / w < parts ? x % w : MIN(x, w - 1);
		}
		for (int k = 0; k < parts; k++, n++) {
			int part = MIN(w, old_w - k * w);
			if (part > 0)
				memcpy(rows + n * w, old + i * old_w + k * w, (size_t)part * sizeof *rows);
			if (vt_used(rows + n * w, w) || n <= y)
				used = n + 1;
		}
	}
	used = MAX(used, y + 1);
	if (how != VT_WRAPS)
		used -= MAX(0, MIN(used - h, used - 1 - y));
	n = MAX(0, used - h);
	for (int i = 0; i < n; i++)
		vt_row(rows + i * w, w, &v->scrolled);
	vt_size(v, w, h);
	memcpy(v->cell, rows + n * w, (size_t)(MIN(h, used - n) * w) * sizeof *rows);
	v->x = x;
	v->y = MIN(MAX(y - n, 0), h - 1);
	free(rows);
}

void vt_free(struct vt *v)
{
	free(v->cell);
	free(v->normal);
	str_free(&v->scrolled);
	str_free(&v->held);
	str_free(&v->clipboard);
	for (int i = 0; i < v->n_allowed; i++)
		free(v->allowed[i]);
	*v = (struct vt){ 0 };
}

/* Set out to the form of a sequence: each number becomes one '0', and so does a missing number. */
static void vt_shape(const char *s, size_t n, char *out, size_t cap)
{
	size_t k = 0;

	for (size_t i = 0; i < n && k + 2 < cap; i++) {
		if (s[i] >= '0' && s[i] <= '9') {
			if (!k || out[k - 1] != '0')
				out[k++] = '0';
		} else {
			out[k++] = s[i];
		}
	}
	out[k] = 0;
}

/* Return the length of the sequence or character at the beginning of s[0..n); 0 = incomplete. */
static size_t vt_token(const char *s, size_t n)
{
	size_t i = 2;

	if (s[0] != 27)
		return (unsigned char)s[0] < 0x80     ? 1
		       : !utf8_complete(s, MIN(n, 4)) ? 0
		                                      : (size_t)utf8_decode(s, n, &(int32_t){ 0 });
	if (n < 2)
		return 0;
	if (s[1] == '[') {
		while (i < n && s[i] >= 0x20 && s[i] < '@')
			i++;
		return i < n ? i + 1 : 0;
	}
	if (s[1] == ']' || s[1] == 'P') {
		for (; i < n; i++) {
			if (s[1] == ']' && s[i] == '\a')
				return i + 1;
			if (s[i] == 27 && i + 1 < n && s[i + 1] == '\\')
				return i + 2;
		}
		return 0;
	}
	while (i - 1 < n && s[i - 1] >= 0x20 && s[i - 1] < 0x30)
		i++;
	return i - 1 < n ? i : 0;
}

void vt_allow(struct vt *v, const char *s)
{
	size_t n = s && s != (const char *)-1 ? strlen(s) : 0;

	for (size_t i = 0, len; i < n; i += len) {
		char shape[64];
		int known = 0;

		if (s[i] == '$' && s[i + 1] == '<') {
			len = strcspn(s + i, ">") + 1;
			continue;
		}
		len = vt_token(s + i, n - i);
		if (!len)
			return;
		vt_shape(s + i, len, shape, sizeof shape);
		for (int k = 0; k < v->n_allowed; k++)
			known |= !strcmp(v->allowed[k], shape);
		if (!known && v->n_allowed < 256)
			v->allowed[v->n_allowed++] = xstrndup(shape, strlen(shape));
	}
}

static void vt_offence(struct vt *v, const char *s, size_t n)
{
	if (v->bad[0])
		return;
	snprintf(v->bad, sizeof v->bad, "not allowed:");
	for (size_t i = 0; i < n && i < 24; i++)
		snprintf(v->bad + strlen(v->bad), sizeof v->bad - strlen(v->bad),
		         s[i] > 0x20 && s[i] < 0x7f ? " %c" : " \\x%02x", (unsigned char)s[i]);
}

static void vt_judge(struct vt *v, const char *s, size_t n)
{
	char shape[64];
	size_t i = 2;

	v->sequences++;
	if (n > 2 && s[0] == 27 && s[1] == '[' && s[n - 1] == 'm') {
		while (i < n - 1 && ((s[i] >= '0' && s[i] <= '9') || s[i] == ';'))
			i++;
		if (i == n - 1)
			return;
	}
	vt_shape(s, n, shape, sizeof shape);
	for (int k = 0; k < v->n_allowed; k++)
		if (!strcmp(v->allowed[k], shape))
			return;
	vt_offence(v, s, n);
}

static void vt_part(struct vt *v, int x, int y)
{
	struct vt_cell *c = &v->cell[y * v->w + x];

	if (c->width == 0 && x > 0) {
		c[-1].cp = ' ';
		c[-1].width = 1;
	} else if (c->width == 2 && x + 1 < v->w) {
		c[1].cp = ' ';
		c[1].width = 1;
	}
}

static void vt_erase(struct vt *v, int y, int from, int to)
{
	if (y < 0 || y >= v->h)
		return;
	for (int x = MAX(0, from); x < to && x < v->w; x++) {
		vt_part(v, x, y);
		v->cell[y * v->w + x] = vt_blank(v);
	}
}

/* Scroll the rows from `top` to the end of the scrolling region up by n rows; n < 0: down. */
static void vt_scroll(struct vt *v, int top, int n)
{
	struct vt_cell *from = v->cell + top * v->w;
	size_t rest = (size_t)v->w * (size_t)(v->bottom - top - 1) * sizeof *from;

	for (int k = n < 0 ? -n : n; k > 0 && top < v->bottom; k--) {
		struct vt_cell *blank = n > 0 ? v->cell + (v->bottom - 1) * v->w : from;

		memmove(n > 0 ? from : from + v->w, n > 0 ? from + v->w : from, rest);
		for (int x = 0; x < v->w; x++)
			blank[x] = vt_blank(v);
	}
}

static void vt_down(struct vt *v)
{
	if (v->y == v->bottom - 1 && v->keeps && !v->top && !v->normal)
		vt_row(v->cell, v->w, &v->scrolled);
	if (v->y == v->bottom - 1)
		vt_scroll(v, v->top, 1);
	else if (v->y < v->h - 1)
		v->y++;
}

/* Insert n blank columns at the cursor; n < 0: delete columns. */
static void vt_shift(struct vt *v, int n)
{
	struct vt_cell *row = v->cell + v->y * v->w;
	int room = v->w - v->x, k = n < 0 ? -n : n;

	if (k > room)
		k = room;
	vt_part(v, v->x, v->y);
	if (n > 0)
		memmove(row + v->x + k, row + v->x, (size_t)(room - k) * sizeof *row);
	else
		memmove(row + v->x, row + v->x + k, (size_t)(room - k) * sizeof *row);
	for (int i = 0; i < k; i++)
		row[n > 0 ? v->x + i : v->w - 1 - i] = vt_blank(v);
}

static void vt_put(struct vt *v, int32_t cp)
{
	int width = char_width(cp);
	struct vt_cell *c;

	v->characters++;
	if (width == 0) {
		int x = v->wraps ? v->x : v->x - 1;
		if (x > 0 && !v->cell[v->y * v->w + x].width)
			x--;
		c = x < 0 ? NULL : &v->cell[v->y * v->w + x];
		for (int i = 0; c && i < 8; i++) {
			if (!c->mark[i]) {
				c->mark[i] = cp;
				break;
			}
		}
		return;
	}
	if (v->wraps || v->x + width > v->w) {
		if (!v->no_margin) {
			vt_down(v);
			v->x = 0;
		}
		v->wraps = 0;
	}
	if (v->x + width > v->w)
		return;
	if (v->insert)
		vt_shift(v, width);
	for (int i = 0; i < width; i++) {
		vt_part(v, v->x + i, v->y);
		v->cell[v->y * v->w + v->x + i] =
			(struct vt_cell){ .cp = i ? 0 : cp, .width = i ? 0 : width, .pen = v->pen };
	}
	v->last = cp;
	v->x += width;
	if (v->x == v->w) {
		v->x--;
		v->wraps = 1;
	}
}

static void vt_sgr(struct vt *v, const int *p, int n)
{
	for (int i = 0; i < n; i++) {
		static const uint8_t on[] = {
			[1] = VT_BOLD, [2] = VT_FAINT, [3] = VT_ITALIC, [4] = VT_UNDER, [7] = VT_REVERSE
		};
		int k = MAX(0, p[i]);
		if (k == 0)
			v->pen = (struct vt_pen){ -1, -1, 0 };
		else if (k < 8)
			v->pen.attrs |= on[k];
		else if (k == 22)
			v->pen.attrs &= (uint8_t) ~(VT_BOLD | VT_FAINT);
		else if (k >= 23 && k <= 27 && k != 25 && k != 26)
			v->pen.attrs &= (uint8_t)~on[k - 20];
		else if (k >= 30 && k <= 37)
			v->pen.fg = (int16_t)(k - 30);
		else if (k >= 40 && k <= 47)
			v->pen.bg = (int16_t)(k - 40);
		else if (k >= 90 && k <= 97)
			v->pen.fg = (int16_t)(k - 90 + 8);
		else if (k >= 100 && k <= 107)
			v->pen.bg = (int16_t)(k - 100 + 8);
		else if (k == 39)
			v->pen.fg = -1;
		else if (k == 49)
			v->pen.bg = -1;
		else if ((k == 38 || k == 48) && i + 2 < n && p[i + 1] == 5) {
			*(k == 38 ? &v->pen.fg : &v->pen.bg) = (int16_t)p[i + 2];
			i += 2;
		}
	}
}

static int vt_within(int n, int hi)
{
	return n < 0 ? 0 : MIN(hi, n);
}

/* Enter or leave the alternate screen. */
static void vt_alternate(struct vt *v, int on)
{
	v->alternate = on;
	if (!v->keeps || on == (v->normal != NULL))
		return;
	if (on) {
		v->normal = v->cell;
		v->normal_x = v->x;
		v->normal_y = v->y;
		v->cell = NULL;
		vt_size(v, v->w, v->h);
	} else {
		free(v->cell);
		v->cell = v->normal;
		v->normal = NULL;
		v->x = v->normal_x;
		v->y = v->normal_y;
	}
}

static void vt_mode(struct vt *v, int private, int number, int on)
{
	if (!private) {
		if (number == 4)
			v->insert = on;
		return;
	}
	switch (number) {
	case 7: v->no_margin = !on; break;
	case 25: v->hidden = !on; break;
	case 1049: vt_alternate(v, on); break;
	case 2004: v->paste = on; break;
	case 1000:
	case 1006: v->mouse = on; break;
	case 2026:
		v->frames += on;
		v->frame = on;
		break;
	}
}

static void vt_csi(struct vt *v, const char *s, size_t n)
{
	int p[16], k = 0, private = s[2] == '?', a;

	for (int i = 0; i < 16; i++)
		p[i] = -1;
	for (size_t i = 2; i + 1 < n; i++) {
		if (s[i] == ';' && k < 15)
			k++;
		else if (s[i] >= '0' && s[i] <= '9' && p[k] < 100000)
			p[k] = MAX(0, p[k]) * 10 + s[i] - '0';
	}
	a = MAX(1, p[0]);
	if (s[n - 1] != 'b' && s[n - 1] != 'm')
		v->wraps = 0;
	switch (s[n - 1]) {
	case 'H':
	case 'f':
		v->y = vt_within(a - 1, v->h - 1);
		v->x = vt_within((MAX(1, p[1])) - 1, v->w - 1);
		break;
	case 'G': v->x = vt_within(a - 1, v->w - 1); break;
	case 'd': v->y = vt_within(a - 1, v->h - 1); break;
	case 'A': v->y = vt_within(v->y - a, v->h - 1); break;
	case 'B': v->y = vt_within(v->y + a, v->h - 1); break;
	case 'C': v->x = vt_within(v->x + a, v->w - 1); break;
	case 'D': v->x = vt_within(v->x - a, v->w - 1); break;
	case 'Z': v->x = (v->x - 1) / 8 * 8; break;
	case 'J':
		vt_erase(v, v->y, p[0] > 0 ? 0 : v->x, p[0] == 1 ? v->x + 1 : v->w);
		for (int y = 0; y < v->h; y++)
			if (p[0] == 2 || (p[0] == 1 ? y < v->y : y > v->y))
				vt_erase(v, y, 0, v->w);
		break;
	case 'K': vt_erase(v, v->y, p[0] > 0 ? 0 : v->x, p[0] == 1 ? v->x + 1 : v->w); break;
	case 'X': vt_erase(v, v->y, v->x, v->x + a); break;
	case '@': vt_shift(v, a); break;
	case 'P': vt_shift(v, -a); break;
	case 'b':
		for (; a > 0; a--)
			vt_put(v, v->last);
		break;
	case 'S': vt_scroll(v, v->top, a); break;
	case 'T': vt_scroll(v, v->top, -a); break;
	case 'L': vt_scroll(v, v->y, -a); break;
	case 'M': vt_scroll(v, v->y, a); break;
	case 'm': vt_sgr(v, p, k + 1); break;
	case 'h':
	case 'l':
		for (int i = 0; i <= k; i++)
			vt_mode(v, private, p[i], s[n - 1] == 'h');
		break;
	case 'r':
		v->top = vt_within(a - 1, v->h - 1);
		v->bottom = p[1] < 1 || p[1] > v->h ? v->h : p[1];
		if (v->bottom <= v->top)
			v->top = 0;
		v->x = v->y = 0;
		break;
	case 't':
	case 'c': break;              /* title stack, cursor's shape: not visible */
	default: vt_offence(v, s, n); /* an allowed sequence that this emulator does not implement */
	}
}

static void vt_one(struct vt *v, const char *s, size_t n)
{
	int32_t cp;

	if (s[0] == 27 && (s[1] == ']' || s[1] == 'P') && v->allow_strings) {
		str_add(&v->clipboard, s, n);
		return;
	}
	if (s[0] == 27) {
		vt_judge(v, s, n);
		if (s[1] == '[')
			vt_csi(v, s, n);
		else if (s[1] == 'M' && v->y == v->top)
			vt_scroll(v, v->top, -1);
		else if (s[1] == 'M' && v->y > 0)
			v->y--;
		else if (s[1] == '7')
			v->saved_x = v->x, v->saved_y = v->y;
		else if (s[1] == '8')
			v->x = vt_within(v->saved_x, v->w - 1), v->y = vt_within(v->saved_y, v->h - 1), v->wraps = 0;
		return;
	}
	utf8_decode(s, n, &cp);
	switch (cp) {
	case '\b':
		v->x -= v->x > 0 && !v->wraps;
		v->wraps = 0;
		break;
	case '\r':
		v->x = 0;
		v->wraps = 0;
		break;
	case '\n':
		vt_down(v);
		v->wraps = 0;
		break;
	case '\t': v->x = vt_within((v->x / 8 + 1) * 8, v->w - 1); break;
	case 0: break; /* padding */
	case 15: vt_judge(v, s, n); break;
	default:
		if (cp < 0x20 || cp == 0x7f || char_width(cp) < 0)
			vt_offence(v, s, n);
		else
			vt_put(v, cp);
	}
}

void vt_feed(struct vt *v, const char *s, size_t n)
{
	size_t i = 0, len;

	str_add(&v->held, s, n);
	while (i < v->held.n && (len = vt_token(v->held.p + i, v->held.n - i))) {
		vt_one(v, v->held.p + i, len);
		i += len;
	}
	memmove(v->held.p, v->held.p + i, v->held.n - i);
	v->held.n -= i;
}
