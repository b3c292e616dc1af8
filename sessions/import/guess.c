/* sessions/import/guess.c - guesses the encoding of a text that is not UTF-8 and does not declare one.
 *
 * If bytes beyond ASCII are next to each other, the script is not Latin. The text is decoded with every candidate
 * encoding, and the result that has the largest share of the frequent letters of its language wins. In Latin script,
 * bytes beyond ASCII are isolated. There an encoding wins if nearly all its letters beyond ASCII belong to one
 * language. */
#include "sessions/import/import_private.h"

#include <string.h>

#define GUESS_BYTES (256u << 10)
#define COUNTED     0x2200 /* code points below this are counted individually */

/* ---- other scripts ---- */

struct candidate {
	const char *label;
	const char *frequent; /* the most frequent letters of the language, in UTF-8 */
	int32_t from, to;     /* range of code points of the script; characters outside of it lower the score */
	/* 1: a multi-byte encoding; script_score() rules it out if there are too many decoding errors */
	int wide;
};

static const struct candidate candidates[] = {
	{ "shift_jis", "のにはをたがでてとしいるあっんいから、。", 0x3000, 0x9fff, 1 },
	{ "euc-jp", "のにはをたがでてとしいるあっんいから、。", 0x3000, 0x9fff, 1 },
	{ "gb18030", "的一是不了在人有我他这个中大来上国们和地到为以，。", 0x3000, 0xffef, 1 },
	{ "big5", "的一是不了在人有我他這個中大來上國們和地到為以，。", 0x3000, 0xffef, 1 },
	{ "euc-kr", "이다는을의에고가하한기로은지도사서를리인", 0x3000, 0xffef, 1 },
	{ "windows-1251", "оеаинтсрвл", 0x0400, 0x04ff, 0 },
	{ "koi8-r", "оеаинтсрвл", 0x0400, 0x04ff, 0 },
	{ "ibm866", "оеаинтсрвл", 0x0400, 0x04ff, 0 },
	{ "iso-8859-5", "оеаинтсрвл", 0x0400, 0x04ff, 0 },
	{ "windows-1253", "αοιετσνηυρς", 0x0370, 0x03ff, 0 },
	{ "ibm737", "αοιετσνηυρς", 0x0370, 0x03ff, 0 },
	{ "windows-1255", "יוהלארתבשמ", 0x0590, 0x05ff, 0 },
	{ "windows-1256", "اليمنوتربة", 0x0600, 0x06ff, 0 },
	{ "windows-874", "านรอกเงยวม", 0x0e00, 0x0e7f, 0 },
};

/* 1 for quotation marks, dashes, spaces and signs beyond ASCII that texts in any language contain. */
static int is_common(int32_t cp)
{
	return (cp >= 0x2010 && cp <= 0x203a) || (cp >= 0x20a0 && cp <= 0x2122) || cp == 0xa0 || cp == 0xa7 ||
	       cp == 0xa9 || cp == 0xab || cp == 0xad || cp == 0xae || cp == 0xb0 || cp == 0xb7 || cp == 0xbb;
}

/* Score a candidate encoding: the share of frequent letters among the characters beyond ASCII, minus the share of
 * characters outside of the script. The score is at most 1; 0 means that the candidate is ruled out. */
static double script_score(const struct candidate *k, const char *p, size_t n)
{
	struct str text = { 0 };
	size_t replaced, frequent = 0, other = 0, all = 0;

	if (charset_decode(charset_by_label(k->label, strlen(k->label)), p, n, &text, &replaced) ||
	    (k->wide && replaced > 1 + n / 200)) {
		str_free(&text);
		return 0;
	}
	for (size_t i = 0; i < text.n;) {
		int32_t cp;
		size_t len = (size_t)utf8_decode(text.p + i, text.n - i, &cp);
		char c[5] = { 0 };
		memcpy(c, text.p + i, len);
		i += len;
		if (cp < 0x80)
			continue;
		all++;
		frequent += strstr(k->frequent, c) != NULL;
		other += (cp < k->from || cp > k->to) && !is_common(cp);
	}
	str_free(&text);
	return all && other * 20 <= all ? (double)(frequent - MIN(frequent, other)) / (double)all : 0;
}

/* Minimum scores of an accepted guess. The minimum for multi-byte encodings is lower, for two reasons: decoding
 * without errors is strong evidence already, and tables and headings have few frequent letters. On such texts the
 * right encoding scored 0.05 and wrong ones at most 0.02. */
static const double SCORE_LEAST = 0.15, SCORE_LEAST_WIDE = 0.04;

static const struct charset *guess_script(const char *p, size_t n)
{
	const struct candidate *best = NULL;
	double most = 0;

	for (size_t i = 0; i < LEN(candidates); i++) {
		double s = script_score(&candidates[i], p, n);
		if (s > most && s >= (candidates[i].wide ? SCORE_LEAST_WIDE : SCORE_LEAST)) {
			most = s;
			best = &candidates[i];
		}
	}
	return best ? charset_by_label(best->label, strlen(best->label)) : NULL;
}

/* ---- the Latin script ---- */

/* Encodings of the Latin script; the default comes first. */
static const char *const latin[] = { "windows-1252", "windows-1250", "iso-8859-2", "windows-1254",
	                             "windows-1257", "iso-8859-3",   "ibm850",     "ibm852" };
enum {
	/* Sets of encodings, one for each group of languages. Bit i is 1 if the encoding latin[i] has the letters of
	 * these languages. */
	WESTERN = 1 | 1 << 6,
	CENTRAL = 1 << 1 | 1 << 2 | 1 << 7,
	TURKISH = 1 << 3,
	BALTIC = 1 << 4,
	ESPERANTO = 1 << 5
};

static const struct language {
	unsigned in;
	const char *letters;
} languages[] = {
	{ WESTERN, "äöüßÄÖÜéà" },                      /* German */
	{ WESTERN, "éèêëàâçîïôùûüœæÉÈÊÀÂÇÎÔŒ" },       /* French */
	{ WESTERN, "áéíóúüñ¿¡ªºÁÉÍÓÚÑ" },              /* Spanish */
	{ WESTERN, "áâãàçéêíóôõúüªºÁÂÃÀÇÉÊÍÓÔÕÚ" },    /* Portuguese */
	{ WESTERN, "àèéìíòóùúÀÈÉÌÒÙ" },                /* Italian */
	{ WESTERN, "àçèéíïòóúüÀÇÈÉÍÒÓÚ" },             /* Catalan */
	{ WESTERN, "éëèïóöüáêíç" },                    /* Dutch */
	{ WESTERN, "æøåÆØÅéèóòôä" },                   /* Danish, Norwegian */
	{ WESTERN, "åäöÅÄÖéšž" },                      /* Swedish, Finnish */
	{ WESTERN, "áðéíóúýþæöÁÐÉÍÓÚÝÞÆÖ" },           /* Icelandic */
	{ WESTERN | BALTIC, "äöõüšžÄÖÕÜŠŽ" },          /* Estonian */
	{ CENTRAL, "áčďéěíňóřšťúůýžÁČĎÉĚÍŇÓŘŠŤÚŮÝŽ" }, /* Czech */
	{ CENTRAL, "áäčďéíĺľňóôŕšťúýžÁČĎÉÍĽŇÓŠŤÚÝŽ" }, /* Slovak */
	{ CENTRAL, "ąćęłńóśźżĄĆĘŁŃÓŚŹŻ" },             /* Polish */
	{ CENTRAL, "áéíóöőúüűÁÉÍÓÖŐÚÜŰ" },             /* Hungarian */
	{ CENTRAL, "čćđšžČĆĐŠŽ" },                     /* Croatian, Serbian, Slovene */
	{ CENTRAL, "ăâîşţĂÂÎŞŢ" },                     /* Romanian */
	{ TURKISH, "çğıöşüâîûÇĞİÖŞÜ" },
	{ BALTIC, "ąčęėįšųūžĄČĘĖĮŠŲŪŽ" },     /* Lithuanian */
	{ BALTIC, "āčēģīķļņšūžĀČĒĢĪĶĻŅŠŪŽ" }, /* Latvian */
	{ ESPERANTO, "ĉĝĥĵŝŭĈĜĤĴŜŬ" },
};

/* Count the occurrences of each character beyond ASCII. Returns their total. *common receives how many of these
 * characters are used in any language (is_common). */
static size_t count_characters(const char *label, const char *p, size_t n, uint32_t count[COUNTED], size_t *common)
{
	struct str text = { 0 };
	size_t replaced, all = 0;

	memset(count, 0, COUNTED * sizeof *count);
	*common = 0;
	if (charset_decode(charset_by_label(label, strlen(label)), p, n, &text, &replaced))
		return 0;
	for (size_t i = 0; i < text.n;) {
		int32_t cp;
		i += (size_t)utf8_decode(text.p + i, text.n - i, &cp);
		if (cp < 0x80)
			continue;
		all++;
		if (is_common(cp))
			++*common;
		else if (cp < COUNTED)
			count[cp]++;
	}
	str_free(&text);
	return all;
}

static size_t count_letters(const struct language *l, const uint32_t count[COUNTED])
{
	size_t sum = 0, n = strlen(l->letters);

	for (size_t i = 0; i < n;) {
		int32_t cp;
		i += (size_t)utf8_decode(l->letters + i, n - i, &cp);
		sum += count[cp];
	}
	return sum;
}

/* Guess an encoding of the Latin script. Returns NULL if no other encoding fits better than Windows-1252, which is the
 * default. */
static const struct charset *guess_latin(const char *p, size_t n)
{
	static const double enough = 0.9, better = 0.03;
	uint32_t count[COUNTED];
	double most = 0, western = 0;
	const char *best = NULL;

	for (size_t i = 0; i < LEN(latin); i++) {
		size_t common, all = count_characters(latin[i], p, n, count, &common);
		for (size_t k = 0; all && k < LEN(languages); k++) {
			double s;
			if (!(languages[k].in & 1u << i))
				continue;
			s = (double)(count_letters(&languages[k], count) + common) / (double)all;
			if (!i && s > western)
				western = s;
			else if (i && s > most) {
				most = s;
				best = latin[i];
			}
		}
	}
	return best && most >= enough && most > western + better ? charset_by_label(best, strlen(best)) : NULL;
}

/* ---- any script ---- */

const struct charset *charset_guess(const char *p, size_t n)
{
	size_t high = 0, beside = 0;

	if (n > GUESS_BYTES)
		n = GUESS_BYTES;
	for (size_t i = 0; i < n; i++) {
		int is = (unsigned char)p[i] >= 0x80;
		high += (size_t)is;
		beside += is &&
		          ((i && (unsigned char)p[i - 1] >= 0x80) || (i + 1 < n && (unsigned char)p[i + 1] >= 0x80));
	}
	if (high < 10)
		return NULL;
	charset_load();
	if (beside * 2 > high)
		return high < 20 ? NULL : guess_script(p, n);
	return guess_latin(p, n);
}
