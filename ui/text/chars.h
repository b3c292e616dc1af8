/* ui/text/chars.h (private to ui/) - classes of characters, which decide how a terminal and clean.c treat them. */
#ifndef WEIR_CHARS_H
#define WEIR_CHARS_H

#include <stddef.h>
#include <stdint.h>

/* tests/vectors/make_width.py depends on the order of these values */
enum char_class {
	CH_PLAIN,      /* one column */
	CH_WIDE,       /* two columns */
	CH_EMOJI,      /* an emoji of one column; U+200D may join it to the next emoji */
	CH_EMOJI_WIDE, /* an emoji of two columns; U+200D may join it to the next emoji */
	CH_JOINING,    /* one column; a letter of a script that uses joiners: Arabic, Indic, ... */
	CH_MARK,       /* no column of its own; combines with the character before it */
	CH_JOINER,     /* U+200C, U+200D */
	CH_VS16,       /* U+FE0F, which shows the character before it as an emoji */
	CH_SELECTOR,   /* Mongolian variation selectors */
	CH_HIDDEN,     /* invisible */
	CH_BIDI,       /* characters that change the direction of text */
	CH_BREAK,      /* line breaks other than \n: U+0085 U+2028 U+2029 */
	CH_CONTROL,    /* C0 (also \n \r \t), DEL, C1 */
	CH_PRIVATE,
	CH_UNASSIGNED,
	CH_NONE, /* surrogates, noncharacters */
};

extern const uint32_t char_run[];
extern const size_t n_char_run;

/* Return the class of a code point, which must be from 0 to 0x10ffff. */
enum char_class char_class(int32_t cp);

#endif
