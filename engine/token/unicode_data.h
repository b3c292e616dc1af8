/* engine/token/unicode_data.h (private to engine/) - the character class of every code point, for pre-tokenizers. */
#ifndef WEIR_UNICODE_DATA_H
#define WEIR_UNICODE_DATA_H

#include <stdint.h>

/* Classes of characters, each with its Unicode general categories. */
enum char_class {
	CH_UPPER = 1,    /* Lu Lt */
	CH_LOWER = 2,    /* Ll */
	CH_LETTER = 4,   /* Lm Lo: letters without case */
	CH_MARK = 8,     /* M */
	CH_NUMBER = 16,  /* N */
	CH_SPACE = 32,   /* White_Space */
	CH_OTHER = 64,   /* punctuation, symbols, controls, unassigned */
};

/* [n_unicode_run], generated: ranges of code points of one class, ascending. An element is (first code point << 8) |
 * enum char_class. */
extern const uint32_t unicode_run[];
extern const uint32_t n_unicode_run;

#endif
