/* ui/text/punycode.c - writes the host of a web address in ASCII (punycode, RFC 3492), because letters of other scripts
 * can look like Latin ones.
 *
 * For display only: unlike a browser, it does not convert upper case and compatibility characters first. */
#include "ui/text/text.h"

#include <string.h>

enum { BASE = 36, T_MIN = 1, T_MAX = 26, SKEW = 38, DAMP = 700, FIRST_BIAS = 72, FIRST_CODE = 128, LABEL_MOST = 256 };

static uint32_t adapt_bias(uint32_t delta, uint32_t n, int first)
{
	uint32_t k = 0;

	delta = first ? delta / DAMP : delta / 2;
	delta += delta / n;
	for (; delta > (BASE - T_MIN) * T_MAX / 2; k += BASE)
		delta /= BASE - T_MIN;
	return k + (BASE - T_MIN + 1) * delta / (delta + SKEW);
}

static void add_digit(struct str *out, uint32_t digit)
{
	char c = (char)(digit < 26 ? 'a' + digit : '0' + (digit - 26));

	str_add(out, &c, 1);
}

/* Encode a label (part of a host name between dots) of n code points, not all of them ASCII. */
static int encode_label(const int32_t *cp, uint32_t n, struct str *out)
{
	uint32_t code = FIRST_CODE, delta = 0, bias = FIRST_BIAS, basic = 0, done;

	str_adds(out, "xn--");
	for (uint32_t i = 0; i < n; i++)
		if (cp[i] < 0x80) {
			str_add(out, &(char){ (char)cp[i] }, 1);
			basic++;
		}
	if (basic)
		str_adds(out, "-");
	for (done = basic; done < n; delta++, code++) {
		uint32_t next = UINT32_MAX;

		for (uint32_t i = 0; i < n; i++)
			if ((uint32_t)cp[i] >= code && (uint32_t)cp[i] < next)
				next = (uint32_t)cp[i];
		/* this cannot overflow, because the product is at most LABEL_MOST * 0x110000 */
		delta += (next - code) * (done + 1);
		code = next;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t q = delta, k = BASE;

			if ((uint32_t)cp[i] < code)
				delta++;
			if ((uint32_t)cp[i] != code)
				continue;
			for (;; k += BASE) {
				uint32_t t = k <= bias ? T_MIN : k >= bias + T_MAX ? T_MAX : k - bias;
				if (q < t)
					break;
				add_digit(out, t + (q - t) % (BASE - t));
				q = (q - t) / (BASE - t);
			}
			add_digit(out, q);
			bias = adapt_bias(delta, done + 1, done == basic);
			delta = 0;
			done++;
		}
	}
	return 0;
}

static int is_plain(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)p[i] >= 0x80)
			return 0;
	return 1;
}

static void add_label(const char *p, size_t n, struct str *out)
{
	int32_t cp[LABEL_MOST];
	uint32_t k = 0;

	if (is_plain(p, n)) {
		str_add(out, p, n);
		return;
	}
	for (size_t i = 0; i < n; k++) {
		if (k == LABEL_MOST) {
			str_add(out, p, n); /* leave a label unchanged that is too long to be valid */
			return;
		}
		i += (size_t)utf8_decode(p + i, n - i, &cp[k]);
		if (cp[k] < 0)
			cp[k] = 0xfffd;
	}
	encode_label(cp, k, out);
}

int address_in_ascii(const char *p, size_t n, struct str *out)
{
	const char *host = memmem(p, n, "://", 3), *at;
	size_t from, end, user;

	if (!host)
		return 0;
	from = (size_t)(host + 3 - p);
	for (end = from; end < n && !strchr("/?#\\", p[end]); end++)
		;
	if (is_plain(p + from, end - from))
		return 0;
	at = memrchr(p + from, '@', end - from);
	user = at ? (size_t)(at + 1 - p) : from;
	str_add(out, p, user);
	for (size_t i = user, k; i <= end; i = k + 1) {
		for (k = i; k < end && p[k] != '.' && p[k] != ':'; k++)
			;
		add_label(p + i, k - i, out);
		if (k < end)
			str_add(out, p + k, 1);
	}
	str_add(out, p + end, n - end);
	return 1;
}
