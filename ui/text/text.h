/* ui/text/text.h - the filter for untrusted text, widths of characters, word wrap for line mode.
 *
 * Model output, documents, file names, GGUF metadata, session titles and library error texts are hostile until cleaned:
 * their bytes may move the cursor, rewrite the clipboard, reorder a line or hide text. They reach a terminal, stdout, a
 * title or a log only through clean_text() and clean_line(). clean.c lists what happens to which character. */
#ifndef WEIR_TEXT_H
#define WEIR_TEXT_H

#include "engine/base/base.h"

#define CLEAN_LINE_MAX 65536 /* most bytes of an output line; longer lines are broken (with CLEAN_LINE: cut) */
#define CLEAN_TAB      8

/* Counts of characters that clean_text() removed or replaced; they only grow. */
struct clean_found {
	uint64_t hidden;   /* invisible characters: zero width, tags, fillers, variation selectors out of place */
	uint64_t bidi;     /* direction controls */
	uint64_t controls; /* control characters, including escape */
	uint64_t invalid;  /* bytes that are not UTF-8, noncharacters, private use, unassigned */
	uint64_t marks;    /* combining marks beyond CLEAN_MARKS_MAX */
	uint64_t breaks;   /* over-long lines broken or cut */
};

/* State of cleaning one text that arrives in parts.  clean_init() sets it up; it owns no memory. */
struct clean {
	unsigned flags;
	struct clean_found found;
	/* private */
	int32_t cp;                 /* code point being decoded */
	unsigned char need, lo, hi; /* bytes still missing; bounds of the next one */
	unsigned char after;        /* kind of the last written character */
	unsigned char marks;        /* combining marks on that character */
	unsigned char swallow_lf, cut;
	int32_t joiner; /* joiner not written yet, until its right neighbour is known; 0 = none */
	unsigned col;   /* column modulo CLEAN_TAB */
	size_t line;    /* bytes of the current line */
};

void clean_init(struct clean *, unsigned flags);
/* Append the clean form of in[n] to *out: valid UTF-8, printable code points and '\n' only.  The text may be cut
 * anywhere, even inside a character; the output does not depend on the cuts. */
void clean_text(struct clean *, const char *in, size_t n, struct str *out);
/* End the text: an unfinished character becomes U+FFFD.  Resets the state, keeps the counts. */
void clean_end(struct clean *, struct str *out);
/* Append "3 hidden characters, 1 direction control", or nothing if nothing was found.  Returns the total. */
uint64_t clean_describe(const struct clean_found *, struct str *out);

/* Clean a whole string to one line: messages, file names, titles in lists. */
void clean_line(const char *in, size_t n, struct str *out);

/* Columns of a code point: 0 (combining), 1 or 2; -1 = never in clean text (also '\n'). */
int char_width(int32_t cp);
/* Columns of clean text s[n]. */
size_t text_width(const char *s, size_t n);

/* ---- word wrap (wrap.c) ---- */

/* State of wrapping one text that arrives in parts; all zero at the start of a line. */
struct wrap {
	size_t col; /* columns of the line written so far */
	/* private */
	size_t gap; /* blanks not written yet; dropped at a line's end */
	struct str word;
	size_t word_cols;          /* word not written yet: it may not fit */
	unsigned char flows;       /* 1: write the rest of this word as it comes */
	unsigned char joined;      /* 1: the last character was a joiner */
	unsigned char as_is, code; /* 1: do not wrap this line; the lines up to the closing fence */
	enum { WRAP_INDENT, WRAP_FENCE, WRAP_BODY } head; /* part of the line being read */
	size_t indent;
	int32_t fence;
	int n_fence;
};
void wrap_free(struct wrap *);
/* Append clean text with line breaks between words, for lines of `width` columns (0: unchanged).  Pending text is
 * written with the next '\n'. The text may be cut between any two characters. */
void wrap_text(struct wrap *, size_t width, const char *in, size_t n, struct str *out);

/* ---- punycode.c ---- */

/* Append the address with its host in ASCII ("xn--..."): 1; 0 = the host is ASCII already, or there is none. */
int address_in_ascii(const char *address, size_t n, struct str *out);

#endif
