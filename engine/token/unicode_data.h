/* engine/token/unicode_data.h (private to engine/) - the character class of every code point, for pre-tokenizers. */
#ifndef WEIR_UNICODE_DATA_H
#define WEIR_UNICODE_DATA_H

#include <stdint.h>

/* Classes of characters, defined by general categories and properties of Unicode. */
enum char_class {
	CH_UPPER = 1,    /* categories Lu and Lt */
	CH_LOWER = 2,    /* category Ll */
	CH_LETTER = 4,   /* categories Lm and Lo: letters without case */
	CH_MARK = 8,     /* category M (combining marks) */
	CH_NUMBER = 16,  /* category N */
	CH_SPACE = 32,   /* property White_Space */
	CH_OTHER = 64,   /* all others: punctuation, symbols, controls, unassigned */
};

/* [n_unicode_run], generated: ranges of code points of one class, ascending. An element is (first code point << 8) |
 * enum char_class. */
extern const uint32_t unicode_run[];
extern const uint32_t n_unicode_run;

#endif
