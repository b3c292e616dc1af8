/* ui/text/text.h - the door that every untrusted string goes through, widths of characters, word wrap for line mode.
 *
 * Model output, documents, file names, GGUF metadata, session titles and library error texts are
 * hostile until cleaned: the bytes may move the cursor, rewrite the clipboard, reorder a line or hide
 * text.  Nothing of that kind reaches a terminal, stdout, a title or a log except through clean_text(),
 * clean_line() or clean_title().  The table of what happens to which character is in ui/text/clean.c. */
#ifndef WEIR_TEXT_H
#define WEIR_TEXT_H

#include "engine/base/base.h"

#define CLEAN_LINE_MAX 65536   /* bytes of one output line; a longer one is broken (cut, with CLEAN_LINE) */
#define CLEAN_TAB 8

/* Counts of what clean_text() removed or replaced; they only grow. */
struct clean_found {
	uint64_t hidden;     /* invisible characters: zero width, tags, fillers, variation selectors out of place */
	uint64_t bidi;       /* direction controls */
	uint64_t controls;   /* control characters, escape sequences among them */
	uint64_t invalid;    /* bytes that are not UTF-8, noncharacters, private use, unassigned */
	uint64_t marks;      /* combining marks beyond CLEAN_MARKS_MAX */
	uint64_t breaks;     /* over-long lines broken or cut */
};

/* State of one text that arrives in pieces.  Set up by clean_init(), no other ownership. */
struct clean {
	unsigned flags;
	struct clean_found found;
	/* private */
	int32_t cp;                        /* the code point being decoded */
	unsigned char need, lo, hi;        /* bytes still wanted; bounds of the next one */
	unsigned char after;               /* what was written last */
	unsigned char marks;               /* combining marks on it */
	unsigned char swallow_lf, cut;
	int32_t joiner;                    /* joiner held back until its right neighbour is known; 0 = none */
	unsigned col;                      /* column modulo CLEAN_TAB */
	size_t line;                       /* bytes of the line so far */
};

void clean_init(struct clean *, unsigned flags);
/* Append the clean form of in[0..n) to *out: valid UTF-8, printable code points and '\n' only.  The pieces may
 * be cut anywhere, inside a character too; the concatenated output does not depend on the cuts. */
void clean_text(struct clean *, const char *in, size_t n, struct str *out);
/* End of the text: an unfinished character becomes U+FFFD.  The state is reset, the counters stay. */
void clean_end(struct clean *, struct str *out);
/* "3 hidden characters, 1 direction control", or nothing where no warning is due (hidden and bidi
 * always are; controls and invalid bytes too).  Appends to *out, returns the number of finds. */
uint64_t clean_describe(const struct clean_found *, struct str *out);

/* A whole string as one line: messages, file names, titles in lists. */
void clean_line(const char *in, size_t n, struct str *out);
/* A terminal title: at most 80 printable ASCII characters, '?' for the rest. */
void clean_title(const char *in, size_t n, struct str *out);

/* Columns of one code point: 0 combining, 1 or 2; -1 when clean text cannot contain it.  '\n' is -1. */
int char_width(int32_t cp);
/* Columns of clean text. */
size_t text_width(const char *s, size_t n);

/* ---- word wrap (wrap.c) ---- */

/* State of one text that arrives in pieces; all zero at the start of a line. */
struct wrap {
	size_t col;                /* columns used of the line, as far as they are written */
	/* private */
	size_t gap;                /* blanks held back: the end of a line loses them */
	struct str word; size_t word_cols;   /* held back, too: it may not fit */
	unsigned char flows;       /* the rest of this word is written at once */
	unsigned char joined;      /* the last character was a joiner */
	unsigned char as_is, code; /* this line, and those up to the closing fence, are not wrapped */
	enum { WRAP_INDENT, WRAP_FENCE, WRAP_BODY } head;   /* the part of the line being read */
	size_t indent; int32_t fence; int n_fence;
};
void wrap_free(struct wrap *);
/* Append clean text to *out with line breaks between words, so that lines of `width` columns suffice (0: as it is).
 * What is held back comes out with the next '\n'.  The pieces may be cut between any two characters. */
void wrap_text(struct wrap *, size_t width, const char *in, size_t n, struct str *out);

/* ---- punycode.c ---- */

/* An address whose host is not ASCII, with the host in ASCII ("xn--..."), appended to *out: 1; 0 = the host is, or there is none. */
int  address_in_ascii(const char *address, size_t n, struct str *out);

#endif
